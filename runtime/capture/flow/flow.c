/* flow.c: what all control flow shares: its place in a compiled function, its random numbers, its types. */
#include "runtime/capture/flow/flow.h"

#include "runtime/autograd/region.h"
#include "runtime/autograd/tape.h"
#include "runtime/capture/record/capture.h"
#include "runtime/capture/record/segment.h"
#include "runtime/core/breaks.h"
#include "runtime/core/element.h"

/* Two rounds, so that neighbouring numbers of neighbouring seeds have nothing in common. */
static uint64_t derived_seed(uint64_t seed, uint64_t number) {
    return hash_mix(hash_mix(seed + 0x9E3779B97F4A7C15u, number), number ^ (seed << 1 | seed >> 63));
}

/* Everything that a body may look at is materialized. */
Status flow_pause(const FlowCall *call, Reason reason, FlowRun *run) {
    Capture *const capture = capture_of(state_get()->tracer);
    if (!capture) return ST_OK;
    const Reason why =
        reason_from(arena_printf(capture->arena, BREAK_TEXT(flow_eager), reason ? reason_text(reason) : ""));
    if (!why) return ST_MEMORY;
    capture_breaks(call->op);
    capture_record_break(capture, why);
    TRY(capture_materialize_all(why));
    capture_breaks(NULL);
    run->around = context_enter(state_get(), CONTEXT_eager);
    return ST_OK;
}

void flow_resume(const FlowRun *run) {
    if (run->around.state) context_leave(&run->around);
}

/* Where a body does not return, the generator is what it was for the program that called. */
void flow_count_begin(FlowRun *run) {
    sn_state *const state = state_get();
    run->seed = state->seed, run->sequence = state->sequence;
    if (state->flows++ == state->program.flows) state->flow_seed = run->seed, state->flow_sequence = run->sequence;
}

void flow_derive_generator(FlowRun *run) {
    sn_state *const state = state_get();
    flow_count_begin(run);
    run->own_seed = derived_seed(state->seed, state->sequence);
    state->seed = run->own_seed, state->sequence = 0;
}

Status flow_ready(const char *op, sn_tensor *t) {
    return t && tensor_is_batched(t) ? tensor_valid(t, op) : tensor_ready(t, op);
}

Status flow_op_begin(const FlowCall *call, FlowRun *run) {
    *run = (FlowRun){0};
    TRY(error_pending());
    for (int i = 0; i < call->n_in; i++) TRY(flow_ready(call->op, call->in[i]));
    if (state_get()->level && flow_captures())
        flow_counts(run);
    else
        flow_derive_generator(run);
    return ST_OK;
}

Status flow_begin(const FlowCall *call, Reason reason, FlowRun *run) {
    sn_state *const state = state_get();
    *run = (FlowRun){0};
    for (int i = 0; i < call->n_out; i++) call->out[i] = NULL;
    TRY(error_pending());
    if (tracer_symbolic(state))
        return error_raise(ST_UNSUPPORTED, "%s: %s", call->op, reason ? reason_text(reason) : "in a body");
    for (int i = 0; i < call->n_in; i++)
        if (!call->in[i]) return error_raise(ST_ARGUMENT, "%s: input %d is NULL", call->op, i);
    TRY(flow_pause(call, reason, run));
    Status status = ST_OK;
    for (int i = 0; status == ST_OK && i < call->n_in; i++) status = tensor_ready(call->in[i], call->op);
    flow_derive_generator(run);
    return status == ST_OK ? ST_OK : flow_end(call, run, status);
}

/* The op takes one number, none where it fails [semantics B6]. */
Status flow_end(const FlowCall *call, const FlowRun *run, Status status) {
    sn_state *const state = state_get();
    if (run->counts) return flow_level_end(call, run, status);
    if (status == ST_OK && state->seed != run->own_seed)
        status = error_raise(ST_STATE, "%s: its body seeds the generator", call->op);
    state->seed = run->seed;
    state->sequence = run->sequence + (status == ST_OK);
    state->flows--;
    flow_resume(run);
    for (int i = 0; status == ST_OK && i < call->n_out; i++) region_made(call->out[i]);
    for (int i = 0; status != ST_OK && i < call->n_out; i++) call->out[i] = NULL;
    return status;
}

bool flow_is_row_major(const Meta *meta) { return !meta->wrapped && meta_is_row_major(meta); }

Status flow_carry(sn_tensor **ts, int n) {
    for (int i = 0; i < n; i++) {
        if (flow_is_row_major(ts[i]->base.meta)) continue;
        if (!(ts[i] = tape_clone(ts[i], NULL))) return error_pending() ? error_pending() : ST_MEMORY;
    }
    return ST_OK;
}

Status flow_carry_metas(const FlowCall *call, int n, const Meta **metas) {
    for (int i = 0; i < n; i++) {
        const Meta *const meta = call->in[i]->base.meta;
        metas[i] = meta_intern_contiguous(meta->dtype, meta->device, meta->sizes, meta->rank);
        if (!metas[i]) return ST_MEMORY;
    }
    return ST_OK;
}

Status flow_same_type(const char *op, const char *part, int i, const Meta *a, const char *a_of, const Meta *b,
                      const char *b_of) {
    const bool dtypes = a->dtype == b->dtype, sizes = meta_same_sizes(a, b);
    if (dtypes && sizes && a->device == b->device) return ST_OK;
    Text text = {0};
    text_printf(&text, "%s: %s %d is ", op, part, i);
    Meta plain_a = *a, plain_b = *b; /* strides are no part of it: results are row-major */
    plain_a.contiguous = plain_b.contiguous = true;
    meta_print(NULL, &text, &plain_a);
    text_printf(&text, " %s and ", a_of);
    meta_print(NULL, &text, &plain_b);
    text_printf(&text, " %s", b_of);
    const Status status = error_raise(!dtypes ? ST_DTYPE : !sizes ? ST_SHAPE : ST_DEVICE, "%s", text_str(&text));
    text_free(&text);
    return status;
}

Status flow_is_predicate(const char *op, const char *what, const Meta *meta) {
    if (meta->dtype == DT_bool && meta->numel == 1) return ST_OK;
    Text text = {0};
    meta_print(NULL, &text, meta);
    const Status status = error_raise(meta->dtype != DT_bool ? ST_DTYPE : ST_SHAPE, "%s: %s is %s, not one bool", op,
                                      what, text_str(&text));
    text_free(&text);
    return status;
}

Status flow_decide(const char *op, const char *what, sn_tensor *pred, bool *out) {
    if (!pred) return error_raise(ST_ARGUMENT, "%s: %s is NULL", op, what);
    TRY(flow_ready(op, pred));
    TRY(flow_is_predicate(op, what, pred->base.meta));
    if (UNLIKELY(tensor_is_batched(pred)) && flow_is_known(pred))
        while (tensor_is_batched(pred)) pred = pred->inner;
    sn_tensor *const value = tensor_item(pred, op);
    if (!value) return error_pending();
    *out = element_int(DT_bool, tensor_data(value)) != 0;
    tensor_release(value);
    return ST_OK;
}
