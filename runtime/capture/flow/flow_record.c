/* flow_record.c: control flow as an op of a graph: whether it can be one, its bodies as texts, its operands. Texts are
 * kept, with the graphs that they are, as long as the process lives: what is recorded names them. */
#include <pthread.h>

#include "runtime/autograd/tape.h"
#include "runtime/base/alloc.h"
#include "runtime/capture/flow/flow.h"
#include "runtime/capture/record/capture.h"
#include "runtime/capture/record/segment.h"
#include "runtime/core/emission.h"

typedef struct FlowCode {
    const char *text;
    Graph *graph; /* of it, made when it first runs */
    Arena *arena;
    struct FlowCode *same_hash;
} FlowCode;

static pthread_mutex_t codes_lock = PTHREAD_MUTEX_INITIALIZER;
static Map codes;

/* Under the lock. */
static FlowCode *code_of(const char *text) {
    const uint64_t hash = hash_bytes(11, text, strlen(text));
    FlowCode *const first = map_get(&codes, hash);
    for (FlowCode *code = first; code; code = code->same_hash)
        if (!strcmp(code->text, text)) return code;
    Arena *const arena = arena_new();
    FlowCode *const code = arena ? ARENA_NEW(arena, FlowCode) : NULL;
    if (code) *code = (FlowCode){.text = arena_strdup(arena, text), .arena = arena, .same_hash = first};
    if (code && code->text && map_set(&codes, hash, code)) return code;
    arena_free(arena);
    return NULL;
}

const char *flow_text(FlowBody *body) {
    Text text = {0};
    graph_print(body->graph, &text);
    pthread_mutex_lock(&codes_lock);
    const FlowCode *const code = error_pending() == ST_OK ? code_of(text_str(&text)) : NULL;
    pthread_mutex_unlock(&codes_lock);
    text_free(&text);
    return code ? code->text : NULL;
}

static Status graph_of_text(const char *text, Graph **out) {
    pthread_mutex_lock(&codes_lock);
    FlowCode *const code = code_of(text);
    Status status = code ? ST_OK : ST_MEMORY;
    if (code && !code->graph) {
        status = graph_parse(code->arena, text, strlen(text), &code->graph);
        if (status == ST_OK) graph_number(code->graph);
    }
    if (status == ST_OK) *out = code->graph;
    pthread_mutex_unlock(&codes_lock);
    return status;
}

Status flow_body_read(FlowBody *body, const char *text, Val *const **closed) {
    TRY(graph_of_text(text, &body->graph));
    if (!(body->arena = arena_new())) return ST_MEMORY;
    body->n_out = body->graph->outputs.n;
    for (int i = body->n_in; i < body->graph->inputs.n; i++) {
        sn_tensor *const t = tensor_of(*(*closed)++);
        TRY(tensor_ready(t, body->op));
        if (!VEC_ROOM(body->arena, &body->closed)) return ST_MEMORY;
        body->closed.at[body->closed.n++] = tensor_retained(t);
    }
    return ST_OK;
}

/* What can be recorded ---------------------------------------------------------------------------- */

bool flow_records(void) {
    const sn_state *const state = state_get();
    return flow_captures() || (state->grad_mode == SN_GRAD_ON && !state->level);
}

bool flow_captures(void) { return state_get()->emission || state_get()->capture; }

bool flow_traces_again(void) { return state_get()->capture != NULL; }

/* A graph holds it on the CPU only; eager has no graph. */
static const char *tensor_refusal(sn_tensor *t) {
    const sn_state *const state = state_get();
    if (state->emission || !state->capture) return NULL;
    return device_is_host(t->base.meta->device) ? NULL : "what it uses is on another device";
}

Status flow_record_inputs(FlowRecord *record) {
    const FlowCall *const call = record->call;
    TRY(error_pending());
    if (call->n_out > MAX_OUTS && flow_captures()) record->reason = "it has more than 8 results";
    for (int i = 0; i < call->n_in; i++) {
        if (!call->in[i]) return error_raise(ST_ARGUMENT, "%s: input %d is NULL", call->op, i);
        TRY(tensor_valid(call->in[i], call->op));
        if (!record->reason) record->reason = tensor_refusal(call->in[i]);
    }
    return error_pending();
}

/* A reason outlives the body. */
static const char *lasting(const char *reason) {
    const Capture *const capture = state_get()->capture;
    return capture ? arena_strdup(capture->arena, reason) : "a body in it cannot be traced";
}

Status flow_record_body(FlowRecord *record, FlowBody *body, const Meta *const *params) {
    if (record->reason) return ST_OK;
    TRY(body_trace(body, params));
    if (body->reason && !(record->reason = lasting(body->reason))) return ST_MEMORY;
    for (int i = 0; !record->reason && i < body->closed.n; i++) record->reason = tensor_refusal(body->closed.at[i]);
    return error_pending();
}

/* Who runs a traced body asks. */
void flow_record_tape(FlowRecord *record, const FlowBody *const *bodies, int n_bodies, bool one) {
    const sn_state *const state = state_get();
    FlowMarks marks;
    if (record->reason || state->emission) return;
    flow_marks(record->call, bodies, n_bodies, true, &marks);
    if (!state->capture && !one) record->reason = "nothing is recorded";
    if (!state->capture || state->grad_mode != SN_GRAD_ON) return;
    if (marks.n_tracked && !one) record->reason = "a result of it requires no gradient, and others do";
    if (marks.n_tracked > MAX_OUTS) record->reason = "more than 8 tensors that it uses require gradients";
}

Status flow_record_op(FlowRecord *record, const OpRow *row, Arg *args, int operands, const FlowBody *const *bodies,
                      int n_bodies) {
    const FlowCall *const call = record->call;
    int n = call->n_in;
    for (int k = 0; k < n_bodies; k++) n += bodies[k]->closed.n;
    Val **const vals = mem_alloc((size_t)(n + 1) * sizeof *vals);
    sn_tensor **const outs = mem_zero(MAX_LIST * sizeof *outs);
    Status status = vals && outs ? ST_OK : ST_MEMORY;
    n = 0;
    for (int i = 0; status == ST_OK && i < call->n_in; i++) vals[n++] = &call->in[i]->base;
    for (int k = 0; status == ST_OK && k < n_bodies; k++)
        for (int i = 0; i < bodies[k]->closed.n; i++) vals[n++] = &bodies[k]->closed.at[i]->base;
    int given = 0;
    args[operands] = A_VALS(vals, n);
    if (status == ST_OK) status = dispatch_list(row, args, outs, &given);
    for (int i = 0; i < call->n_out; i++) call->out[i] = status == ST_OK ? outs[i] : NULL;
    mem_free(vals);
    mem_free(outs);
    return status;
}

/* Running ----------------------------------------------------------------------------------------- */

/* The graph's seed and number take the place of the thread's; results go to where the plan has them. */
Status flow_launch(OpCall *call) {
    sn_state *const state = state_get();
    sn_tensor *made[MAX_OUTS] = {0};
    OpCall own = *call;
    own.outs = made;
    const uint64_t seed = state->seed, sequence = state->sequence;
    state->seed = (uint64_t)call->args[op_param_find(call->row, "seed")].i;
    state->sequence = (uint64_t)call->args[op_param_find(call->row, "number")].i;
    const Status status = dispatch_own(call->row, KEY_cpu)(&own);
    state->seed = seed, state->sequence = sequence;
    TRY(status);
    for (int i = 0; i < own.n_outs; i++) {
        const Arg copy[] = {A_VAL(&call->outs[i]->base), A_VAL(&made[i]->base), A_BOOL(false)};
        sn_tensor *written;
        TRY(dispatch(op_row(OP_copy), FORM_inplace, copy, NULL, &written));
    }
    return ST_OK;
}
