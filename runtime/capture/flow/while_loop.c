/* while_loop.c: a loop whose number of rounds its values decide. Carries are row-major and keep their types; what was
 * carried before goes at once. */
#include "runtime/autograd/tape.h"
#include "runtime/base/alloc.h"
#include "runtime/capture/flow/flow.h"

typedef struct LoopRun {
    const FlowCall *call;
    FlowBody test, body;
    int64_t max_iterations;
    bool *differs; /* not NULL: where the loop ends as the condition is not one value for all examples, it is set */
} LoopRun;

static Status refuse_gradients(const char *which, int i) {
    return error_raise(ST_ARGUMENT,
                       "sn_while_loop: %s %d requires gradients, which a loop of unknown length does not give: use "
                       "sn_scan, or SN_GRAD_OFF",
                       which, i);
}

/* [semantics T3] */
static Status check_gradients(const LoopRun *run) {
    if (state_get()->grad_mode != SN_GRAD_ON) return ST_OK;
    for (int i = 0; i < run->call->n_in; i++)
        if (flow_tracks(run->call->in[i])) return refuse_gradients("input", i);
    for (int i = 0; i < run->body.closed.n; i++)
        if (flow_tracks(run->body.closed.at[i])) return refuse_gradients("closed over tensor", i);
    return ST_OK;
}

static Status trace_bodies(LoopRun *run, sn_tensor *const *carry) {
    const int n = run->call->n_in;
    const Meta **const metas = mem_alloc((size_t)(n + 1) * sizeof *metas);
    if (!metas) return ST_MEMORY;
    for (int i = 0; i < n; i++) metas[i] = carry[i]->base.meta;
    Status status = body_trace(&run->test, metas);
    if (status == ST_OK) status = body_trace(&run->body, metas);
    mem_free(metas);
    return status;
}

static Status goes_on(const LoopRun *run, sn_tensor *const *carry, bool *out) {
    sn_tensor *pred;
    sn_state *const state = state_get();
    TRY(scope_push(state, false));
    const uint32_t depth = state->n_scopes - 1;
    Status status = flow_body_run(&run->test, carry, &pred);
    if (status == ST_OK && run->differs && !flow_is_known(pred))
        *run->differs = true, *out = false;
    else if (status == ST_OK)
        status = flow_decide("sn_while_loop", "what the condition gives", pred, out);
    scope_pop_to(state, depth);
    return status;
}

static Status check_round(const LoopRun *run, sn_tensor *const *carry, sn_tensor *const *next) {
    for (int i = 0; i < run->call->n_in; i++) {
        if (tape_tracks(next[i])) return refuse_gradients("result", i);
        TRY(flow_same_type("sn_while_loop", "carry", i, carry[i]->base.meta, "before the body", next[i]->base.meta,
                           "behind it"));
    }
    return ST_OK;
}

/* Is it still the program's tensor? */
static bool is_given(const LoopRun *run, const sn_tensor *t) {
    for (int k = 0; k < run->call->n_in; k++)
        if (run->call->in[k] == t) return true;
    return false;
}

static Status one_round(const LoopRun *run, sn_tensor **carry, sn_tensor **next) {
    sn_state *const state = state_get();
    const int n = run->call->n_in;
    TRY(flow_body_run(&run->body, carry, next));
    TRY(check_round(run, carry, next));
    for (int i = 0; i < n; i++) {
        sn_tensor *const old = carry[i];
        if (!is_given(run, old) && scope_disown(state, old)) tensor_release(old);
        carry[i] = next[i];
    }
    return ST_OK;
}

static Status rounds(const LoopRun *run, sn_tensor **carry, sn_tensor **next) {
    for (int64_t i = 0;; i++) {
        bool on = false;
        TRY(goes_on(run, carry, &on));
        if (!on) return ST_OK;
        if (run->max_iterations && i == run->max_iterations)
            return error_raise(ST_VALUE, "sn_while_loop: the condition still holds after max_iterations, %lld",
                               (long long)run->max_iterations);
        TRY(one_round(run, carry, next));
    }
}

/* A carry that no round changed is. */
static Status set_carries(const LoopRun *run, sn_tensor *const *carry) {
    for (int i = 0; i < run->call->n_in; i++) {
        run->call->out[i] = is_given(run, carry[i]) ? tape_clone(carry[i], NULL) : carry[i];
        if (!run->call->out[i]) return error_pending() ? error_pending() : ST_MEMORY;
    }
    return ST_OK;
}

static Status run_loop(LoopRun *run, sn_tensor **carry, sn_tensor **next) {
    for (int i = 0; i < run->call->n_in; i++) carry[i] = run->call->in[i];
    TRY(flow_carry(carry, run->call->n_in));
    if (!run->test.arena) TRY(trace_bodies(run, carry));
    TRY(check_gradients(run));
    TRY(rounds(run, carry, next));
    return set_carries(run, carry);
}

static Status with_carries(LoopRun *run) {
    const int n = run->call->n_in;
    sn_tensor **const buffer = mem_zero((size_t)(2 * n + 1) * sizeof *buffer);
    const Status status = buffer ? run_loop(run, buffer, buffer + n) : ST_MEMORY;
    mem_free(buffer);
    return status;
}

static LoopRun loop_of(const FlowCall *call, int64_t max_iterations) {
    const int n = call->n_in;
    LoopRun run = {.call = call, .max_iterations = max_iterations};
    run.test = (FlowBody){.op = call->op, .what = "the condition", .n_in = n, .n_out = 1};
    run.body = (FlowBody){.op = call->op, .what = "the body", .n_in = n, .n_out = n};
    return run;
}

static void loop_free(LoopRun *run) {
    body_trace_free(&run->test);
    body_trace_free(&run->body);
}

/* Of carries as they will be. */
static Status record_bodies(LoopRun *run, FlowRecord *record) {
    const int n = run->call->n_in;
    const Meta **const metas = mem_zero((size_t)(n + 1) * sizeof *metas);
    if (!metas) return ST_MEMORY;
    Status status = flow_carry_metas(run->call, n, metas);
    if (status == ST_OK) status = flow_record_body(record, &run->test, metas);
    if (status == ST_OK) status = flow_record_body(record, &run->body, metas);
    for (int i = 0; i < n && metas[i]; i++) meta_release(metas[i]);
    mem_free(metas);
    return status;
}

static Status check_types(const LoopRun *run) {
    const Graph *const test = run->test.graph, *const body = run->body.graph;
    TRY(flow_is_predicate(run->call->op, "what the condition gives", test->outputs.at[0].value->base.meta));
    for (int i = 0; i < run->call->n_in; i++)
        TRY(flow_same_type(run->call->op, "carry", i, run->call->in[i]->base.meta, "before the body",
                           body->outputs.at[i].value->base.meta, "behind it"));
    return ST_OK;
}

static Status record_loop(LoopRun *run, FlowRecord *record);

/* Inside of transforms: round by round on handles while one value says whether it goes on; where examples differ, again
 * as an op, which each example has rounds of its own of. */
static Status loop_at_level(LoopRun *run) {
    const FlowBody *const bodies[] = {&run->test, &run->body};
    const sn_state *const state = state_get();
    FlowRun around;
    bool differs = tracer_symbolic(state) != NULL;
    TRY(flow_level_inputs(run->call));
    TRY(trace_bodies(run, run->call->in));
    TRY(check_gradients(run));
    if (!differs) {
        LoopRun each = *run;
        each.test.itself = each.body.itself = true;
        each.differs = &differs;
        TRY(flow_level_begin(run->call, bodies, 2, &around));
        const Status status = with_carries(&each);
        if (!differs) return flow_end(run->call, &around, status);
        TRY(flow_level_leave(run->call, &around, status));
    }
    TRY(flow_level_graphs(run->call, bodies, 2));
    FlowRecord record = {.call = run->call};
    loop_free(run);
    TRY(record_loop(run, &record));
    return record.reason ? error_raise(ST_UNSUPPORTED, "sn_while_loop: %s", reason_text(record.reason)) : ST_OK;
}

static Status record_loop(LoopRun *run, FlowRecord *record) {
    TRY(flow_record_inputs(record));
    const FlowBody *const bodies[] = {&run->test, &run->body};
    TRY(record_bodies(run, record));
    flow_record_tape(record, bodies, 2, false);
    if (record->reason) return error_pending();
    TRY(check_types(run));
    const char *const test = flow_text(&run->test), *const body = flow_text(&run->body);
    if (!test || !body) return ST_MEMORY;
    Arg args[] = {A_NONE,   A_INT(run->call->n_in), A_INT(run->max_iterations), A_STR(test), A_STR(body), A_INT(0),
                  A_INT(0), A_INTS(NULL, 0)};
    return flow_record_op(record, OP_ROW(while_loop), args, 0, bodies, 2);
}

Status flow_while(const FlowCall *call, const FlowBodies *loop, int64_t max_iterations) {
    FlowRun around;
    LoopRun run = loop_of(call, max_iterations);
    run.test.run = loop->first, run.test.closure = loop->first_closure;
    run.body.run = loop->second, run.body.closure = loop->second_closure;
    FlowRecord record = {.call = call};
    if (state_get()->level) {
        const Status status = loop_at_level(&run);
        loop_free(&run);
        return status;
    }
    if (flow_captures()) {
        const Status status = record_loop(&run, &record);
        loop_free(&run);
        if (status != ST_OK || !record.reason) return status;
    }
    TRY(flow_begin(call, record.reason, &around));
    const Status status = with_carries(&run);
    loop_free(&run);
    return flow_end(call, &around, status);
}

Status flow_while_run(OpCall *op, bool compiled) {
    const Arg *const operands = &op->args[0];
    const int n = (int)op->args[1].i;
    const FlowCall call = {
        .op = "sn_while_loop", .in = flow_operands(operands), .n_in = n, .out = op->outs, .n_out = n};
    Val *const *closed = operands->vals + n;
    LoopRun run = loop_of(&call, op->args[2].i);
    FlowRun around;
    op->n_outs = n;
    Status status = flow_body_read(&run.test, op->args[3].string, compiled, &closed);
    if (status == ST_OK) status = flow_body_read(&run.body, op->args[4].string, compiled, &closed);
    if (status == ST_OK) status = flow_op_begin(&call, &around);
    if (status == ST_OK) status = flow_end(&call, &around, with_carries(&run));
    loop_free(&run);
    return status;
}
