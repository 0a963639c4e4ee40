/* level_flow.c: see level_flow.h. */
#include "runtime/transform/level_flow.h"

#include "runtime/autograd/tape.h"
#include "runtime/base/alloc.h"
#include "runtime/capture/flow/flow.h"
#include "runtime/capture/record/segment.h"
#include "runtime/transform/vmap.h"
#include "runtime/core/breaks.h"

static bool is_op(const OpCall *call, OpId op) { return call->row == op_row(op); }

/* Does one of the bodies draw random numbers? The strings among the arguments are the bodies. */
static bool flow_draws(const OpCall *call) {
    bool any = false;
    for (int i = 0; i < call->row->n_params; i++)
        any |= call->args[i].kind == ARG_string && flow_text_draws(call->args[i].string);
    return any;
}

static FlowCall flow_call_of(const OpCall *call) {
    const bool cond = is_op(call, OP_ID(cond)) || is_op(call, OP_ID(cond_backward));
    return (FlowCall){.op = cond ? "sn_cond" : is_op(call, OP_ID(while_loop)) ? "sn_while_loop" : "sn_scan"};
}

/* examples ------------------------------------------------------------------------------------ */

typedef struct OneExample {
    Level level; /* a chunk of one */
    int64_t at;  /* among the level's */
} OneExample;

static Val *alone(const Level *one, Val *val) {
    sn_tensor *const inner = level_inner(one, val);
    if (!inner) return val;
    Val *const part = E(eager_builder(), narrow, V(&inner->base), I(0), I(((const OneExample *)one)->at), I(1));
    sn_tensor *const t = part ? tensor_batched(tensor_of(part), one->id) : NULL;
    return t ? &t->base : NULL;
}

static OpKernel *kernel_of(const OpCall *call) {
    return is_op(call, OP_ID(cond)) ? flow_cond_op : is_op(call, OP_ID(scan)) ? flow_scan_op : flow_while_op;
}

static Status run_alone(const OpCall *call, OneExample *example, sn_tensor **outs, int *n) {
    __attribute__((cleanup(level_args_end))) LevelArgs a = {0};
    sn_state *const state = state_get();
    Level *const one = &example->level;
    TRY(level_args_map(&a, call, one, alone));
    OpCall own = *call;
    own.args = a.args, own.outs = outs;
    TRY(scope_push(state, false));
    const uint32_t depth = state->n_scopes - 1;
    level_enter(state, one);
    const Status status = kernel_of(call)(&own);
    level_leave(state, one);
    *n = own.n_outs;
    scope_pop_passing(state, depth, outs, status == ST_OK ? *n : 0);
    return status;
}

/* Parts come in the order of examples: [result * examples + example]. */
static Status run_all_alone(const OpCall *call, const Level *level, Val **parts, int *n) {
    sn_state *const state = state_get();
    const uint64_t sequence = state->sequence;
    sn_tensor **const outs = mem_zero(MAX_LIST * sizeof *outs);
    Status status = outs ? ST_OK : ST_MEMORY;
    for (int64_t i = 0; i < level->size && status == ST_OK; i++) {
        OneExample one = {.level = *level, .at = i};
        one.level.size = 1, one.level.start = level->start + i;
        state->sequence = sequence;
        status = run_alone(call, &one, outs, n);
        for (int k = 0; k < *n && status == ST_OK; k++) {
            sn_tensor *const inner = level_inner(level, &outs[k]->base);
            parts[k * level->size + i] = inner ? &inner->base : vmap_repeat(&one.level, &outs[k]->base);
            if (!parts[k * level->size + i]) status = error_pending();
        }
    }
    mem_free(outs);
    return status;
}

static Status set_parts(OpCall *call, const Level *level, Val *const *parts, int n) {
    sn_tensor *outs[MAX_LIST];
    for (int k = 0; k < n; k++) {
        outs[k] = tensor_of(E(eager_builder(), cat, A_VALS(parts + k * level->size, level->size), I(0)));
        if (!outs[k]) return error_pending();
    }
    return vmap_set_results(call, level, outs, n);
}

/* Each draws the numbers of its place: it runs op by op, as a chunk of one. */
static Status loop_alone(OpCall *call, const Level *level) {
    FlowCall flow = flow_call_of(call);
    FlowRun around = {0};
    int n = 0;
    TRY(state_untraced(flow.op));
    TRY(flow_pause(&flow, BREAK_REASON(flow_random_differs), &around));
    Val **const parts = mem_zero((size_t)(MAX_LIST * level->size + 1) * sizeof *parts);
    Status status = parts ? run_all_alone(call, level, parts, &n) : ST_MEMORY;
    if (status == ST_OK) status = set_parts(call, level, parts, n);
    mem_free(parts);
    flow_resume(&around);
    return status;
}

Status vmap_flow(OpCall *call, const Level *level) {
    const bool draws = call->row->flags & OPF_random && flow_draws(call), some = level_has(call, level);
    if (draws && level->random == VMAP_error)
        return error_raise(ST_STATE,
                           "%s: a random op in a body inside of sn_vmap: options.randomness says whether its numbers "
                           "are the same or different for all examples",
                           flow_call_of(call).op);
    if (draws && level->random == VMAP_different && (some || level->size != 1)) return loop_alone(call, level);
    return some ? vmap_loop(call, level, true) : level_pass(call);
}

/* gradients ----------------------------------------------------------------------------------- */

/* Whether the level itself can say which branch runs. */
static bool decides(const OpCall *call) {
    if (is_op(call, OP_ID(scan)) || is_op(call, OP_ID(scan_backward))) return true;
    return !is_op(call, OP_ID(while_loop)) && flow_is_known(tensor_of(call->args[0].val));
}

static bool tracks_any(const OpCall *call) {
    bool any = false;
    for (int i = 0; i < call->row->n_params; i++)
        for (int k = 0; call->args[i].kind == ARG_tensors && k < call->args[i].n; k++)
            any |= tape_tracks(tensor_of(call->args[i].vals[k]));
    return any;
}

/* Op by op, on the level's handles. */
static Status run_here(OpCall *call) {
    FlowCall flow = flow_call_of(call);
    FlowRun around = {0};
    if (tracer_recording(state_get()) && flow_draws(call)) TRY(flow_pause(&flow, BREAK_REASON(flow_random), &around));
    const Status status = kernel_of(call)(call);
    flow_resume(&around);
    return status;
}

Status grad_flow(OpCall *call) {
    if (!tracks_any(call)) return redispatch(call);
    if (is_op(call, OP_ID(while_loop)))
        return error_raise(ST_ARGUMENT,
                           "sn_while_loop: an operand requires gradients, which a loop of unknown length does not "
                           "give: use sn_scan");
    const bool again = is_op(call, OP_ID(cond_backward)) || is_op(call, OP_ID(scan_backward));
    if (again)
        return error_raise(ST_UNSUPPORTED,
                           "%s: gradients of its gradient, where the predicate differs from example to example",
                           flow_call_of(call).op);
    return decides(call) ? run_here(call) : tape_kernel(call);
}

/* tangents ------------------------------------------------------------------------------------ */

Status dual_flow(OpCall *call) {
    if (is_op(call, OP_ID(cond_backward)) || is_op(call, OP_ID(scan_backward)) || !decides(call))
        return error_raise(ST_UNSUPPORTED, "%s: tangents, where the predicate differs from example to example",
                           flow_call_of(call).op);
    return run_here(call);
}
