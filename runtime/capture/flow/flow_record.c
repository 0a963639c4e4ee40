/* flow_record.c: control flow as an op of a graph: whether it can be one, its operands, its launch. */
#include "ir/flow_text.h"
#include "runtime/autograd/tape.h"
#include "ir/op_ids.h"
#include "runtime/base/alloc.h"
#include "runtime/capture/flow/flow.h"
#include "runtime/capture/record/capture.h"
#include "runtime/capture/record/segment.h"
#include "runtime/core/breaks.h"
#include "runtime/core/tracer.h"

/* What can be recorded ---------------------------------------------------------------------------- */

bool flow_records(void) {
    const sn_state *const state = state_get();
    return flow_captures() || (state->grad_mode == SN_GRAD_ON && !state->level);
}

bool flow_captures(void) { return state_get()->tracer != NULL; }

bool flow_traces_again(void) { return tracer_recording(state_get()) != NULL; }

/* Eager has no graph. */
static Reason tensor_refusal(sn_tensor *t) {
    const sn_state *const state = state_get();
    if (!tracer_recording(state) || state->level) return NULL;
    return device_has_executor(t->base.meta->device) ? NULL : BREAK_REASON(flow_device);
}

Status flow_record_inputs(FlowRecord *record) {
    const FlowCall *const call = record->call;
    TRY(error_pending());
    if (call->n_out > MAX_OUTS && flow_captures()) record->reason = BREAK_REASON(many_results);
    for (int i = 0; i < call->n_in; i++) {
        if (!call->in[i]) return error_raise(ST_ARGUMENT, "%s: input %d is NULL", call->op, i);
        TRY(tensor_valid(call->in[i], call->op));
        if (!record->reason) record->reason = tensor_refusal(call->in[i]);
    }
    return error_pending();
}

/* A reason outlives the body. */
static Reason lasting(Reason reason) {
    const Capture *const capture = capture_of(state_get()->tracer);
    return capture ? reason_from(arena_strdup(capture->arena, reason_text(reason))) : BREAK_REASON(flow_untraced);
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
    if (record->reason || tracer_symbolic(state) || state->level) return;
    flow_marks(record->call, bodies, n_bodies, true, &marks);
    if (!state->tracer && !one) record->reason = BREAK_REASON(flow_not_recorded);
    if (!state->tracer || state->grad_mode != SN_GRAD_ON) return;
    if (marks.n_tracked && !one) record->reason = BREAK_REASON(flow_part_grad);
    if (marks.n_tracked > MAX_OUTS) record->reason = BREAK_REASON(flow_many_grads);
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

static Status run_launched(OpCall *call) {
    static const struct {
        OpId op;
        FlowKernel *run;
    } rows[] = {{OP_cond, flow_cond_run}, {OP_while_loop, flow_while_run}, {OP_scan, flow_scan_run}};
    for (int i = 0; i < COUNT_OF(rows); i++)
        if (call->row == op_row(rows[i].op)) return rows[i].run(call, true);
    bool done = false;
    TRY(flow_joint_run(call, &done));
    return done ? ST_OK : flow_backward_op(call);
}

/* The first values of fresh memory: no write that a version counts. */
static Status fill(sn_tensor *result, sn_tensor *from) {
    const Arg copy[] = {A_VAL(&result->base), A_VAL(&from->base), A_BOOL(false)};
    const uint32_t version = tensor_version(result);
    sn_tensor *written;
    TRY(dispatch(OP_ROW(copy), FORM_inplace, copy, NULL, &written));
    if (result->storage) atomic_store_explicit(&result->storage->version, version, memory_order_relaxed);
    return ST_OK;
}

static Status launch_plain(OpCall *call);

/* Texts with symbols, of a composite's parts, get the numbers of this launch. */
Status flow_launch(OpCall *call) {
    if (flow_args_are_plain(call->row, call->args)) return launch_plain(call);
    Arena *const arena = arena_new();
    Arg args[MAX_ARGS];
    OpCall plain = *call;
    memcpy(args, call->args, sizeof *args * (size_t)call->row->n_params);
    plain.args = args;
    FlowNumbers numbers;
    Status status = arena ? flow_numbers_put(arena, call->row, args, &numbers) : ST_MEMORY;
    for (int i = 0; status == ST_OK && i < numbers.count; i++)
        status = flow_code_share(args[numbers.texts[i].param].string, numbers.texts[i].general, numbers.texts[i].values,
                                 numbers.texts[i].n);
    if (status == ST_OK) status = launch_plain(&plain);
    arena_free(arena);
    return status;
}

/* The graph's seed and number take the place of the thread's; results go to where the plan has them. */
static Status launch_plain(OpCall *call) {
    sn_state *const state = state_get();
    sn_tensor *made[MAX_OUTS] = {0};
    OpCall own = *call;
    own.outs = made;
    const uint64_t seed = state->seed, sequence = state->sequence;
    state->seed = (uint64_t)call->args[op_param_find(call->row, "seed")].i;
    state->sequence = (uint64_t)call->args[op_param_find(call->row, "number")].i;
    const Status status = run_launched(&own);
    state->seed = seed, state->sequence = sequence;
    TRY(status);
    for (int i = 0; i < own.n_outs; i++) TRY(fill(call->outs[i], made[i]));
    return ST_OK;
}
