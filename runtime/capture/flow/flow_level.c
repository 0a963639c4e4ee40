/* flow_level.c: control flow inside of transforms (sn_vmap, sn_func_grad and their like) [semantics T4]. A level's
 * handles take ops like any tensor, so bodies run on them as they are: each round of a scan, the branch whose predicate
 * is one value for all examples. In a compiled function those ops are the graph's, which has no generator of the op's
 * own: where bodies draw, they run eagerly. */
#include "runtime/autograd/tape.h"
#include "runtime/capture/flow/flow.h"
#include "runtime/capture/record/capture.h"
#include "runtime/capture/record/segment.h"
#include "runtime/core/breaks.h"
#include "runtime/core/context_enter.h"
#include "runtime/core/tracer.h"

/* numbers ------------------------------------------------------------------------------------- */

/* What a graph holds of it draws nothing: the thread's generator stays. */
void flow_counts(FlowRun *run) {
    run->counts = true;
    flow_count_begin(run);
}

/* A graph counts by its random ops: here it is one of no elements. */
static Status count_one(const FlowRun *run) {
    sn_state *const state = state_get();
    const int64_t none[] = {0};
    if (state->sequence != run->sequence)
        return tracer_set_generator(run->seed, run->sequence + 1, BREAK_REASON(flow_in_transform),
                                    BREAK_REASON(flow_in_transform));
    TRY(scope_push(state, false));
    context_enter_scope(state, CONTEXT_below_levels);
    const bool drawn = E(eager_builder(), rand, A_INTS(none, 1), A_NONE, A_NONE, A_NONE, A_NONE) != NULL;
    scope_pop(state);
    return drawn ? ST_OK : error_pending();
}

Status flow_level_end(const FlowCall *call, const FlowRun *run, Status status) {
    sn_state *const state = state_get();
    state->flows--;
    if (status == ST_OK && !state->flows && tracer_recording(state)) status = count_one(run);
    for (int i = 0; status != ST_OK && i < call->n_out; i++) call->out[i] = NULL;
    return status;
}

/* Each op of a text that takes a number says which; control flow always takes one. */
static int count_in(const char *text, const char *what) {
    int n = 0;
    for (const char *at = strstr(text, what); at; at = strstr(at + 1, what)) n++;
    return n;
}

bool flow_text_draws(const char *text) {
    if (!text) return false;
    const int flows = count_in(text, "sn::cond(") + count_in(text, "sn::while_loop(") + count_in(text, "sn::scan(");
    return count_in(text, " random=") > flows;
}

static bool body_draws(const FlowBody *body) {
    Text text = {0};
    if (body->graph) graph_print(body->graph, &text);
    const bool draws = flow_text_draws(text_str(&text));
    text_free(&text);
    return draws;
}

Status flow_level_begin(const FlowCall *call, const FlowBody *const *bodies, int n_bodies, FlowRun *run) {
    const sn_state *const state = state_get();
    Reason reason = NULL;
    *run = (FlowRun){0};
    for (int k = 0; k < n_bodies; k++) {
        if (!bodies[k]->graph) reason = bodies[k]->reason;
        if (tracer_recording(state) && body_draws(bodies[k])) reason = BREAK_REASON(flow_random);
    }
    TRY(error_pending());
    if (tracer_symbolic(state) || (state->tracer && !reason)) {
        flow_counts(run);
        return ST_OK;
    }
    TRY(flow_pause(call, reason, run));
    flow_derive_generator(run);
    return ST_OK;
}

Status flow_level_leave(const FlowCall *call, const FlowRun *run, Status status) {
    sn_state *const state = state_get();
    state->flows--;
    if (!run->counts) state->seed = run->seed, state->sequence = run->sequence;
    flow_resume(run);
    for (int i = 0; i < call->n_out; i++) call->out[i] = NULL;
    return status;
}

/* operands ------------------------------------------------------------------------------------ */

Status flow_level_inputs(const FlowCall *call) {
    TRY(error_pending());
    for (int i = 0; i < call->n_in; i++) {
        if (!call->in[i]) return error_raise(ST_ARGUMENT, "%s: input %d is NULL", call->op, i);
        TRY(tensor_valid(call->in[i], call->op));
    }
    return ST_OK;
}

Status flow_level_graphs(const FlowCall *call, const FlowBody *const *bodies, int n_bodies) {
    for (int k = 0; k < n_bodies; k++)
        if (!bodies[k]->graph)
            return error_raise(ST_UNSUPPORTED,
                               "%s: inside of sn_vmap the predicate differs from example to example, and %s cannot be "
                               "traced: %s",
                               call->op, bodies[k]->what, reason_text(bodies[k]->reason));
    return ST_OK;
}

bool flow_tracks(sn_tensor *t) {
    for (; tensor_is_batched(t); t = t->inner)
        if (tape_tracks(t)) return true;
    return tracer_recording(state_get()) ? capture_requires_grad(t) : tape_tracks(t);
}

bool flow_is_known(const sn_tensor *pred) {
    if (tracer_symbolic(state_get()) || !pred) return false;
    while (tensor_is_batched(pred)) pred = pred->inner;
    return pred->base.meta->numel == 1;
}
