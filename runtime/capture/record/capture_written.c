/* capture_written.c: see capture_written.h. The functional op's kernel computes on copies laid out as the arguments,
 * so its bits are those of the op itself; where copies would not show what the arguments do (another argument shows the
 * same memory, or there are gaps between the elements), or the tape or a region has a say, the op runs at once. */
#include "runtime/capture/record/capture_written.h"

#include "ir/builder.h"
#include "runtime/capture/record/capture_thread.h"
#include "runtime/core/breaks.h"
#include "runtime/core/context_enter.h"
#include "runtime/core/custom_write.h"
#include "runtime/core/override.h"

/* Whose memory a tensor shows: equal numbers, equal memory. */
static uintptr_t memory_number(const Trace *trace, const sn_tensor *t) {
    const struct Placeholder *const p = t->placeholder;
    if (!p) return (uintptr_t)t->storage;
    const Operand root = trace_root(trace, p->value);
    return operand_is_input(root) ? (uintptr_t)trace->inputs.at[operand_input(root)].storage : (uintptr_t)root << 1 | 1;
}

static bool shows(Capture *c, sn_tensor *t, uintptr_t memory) {
    return t && capture_make_earlier(c, t) == ST_OK && memory_number(c->trace, t) == memory;
}

static bool arg_shows(Capture *c, const Arg *arg, uintptr_t memory) {
    bool any = arg->kind == ARG_tensor && shows(c, tensor_of(arg->val), memory);
    for (int k = 0; arg->kind == ARG_tensors && k < arg->n; k++) any |= shows(c, tensor_of(arg->vals[k]), memory);
    return any;
}

/* NULL: copies show what the argument does. */
static Reason not_alone(Capture *c, const OpCall *call, int written) {
    sn_tensor *const t = tensor_of(call->args[written].val);
    if (!t || capture_make_earlier(c, t) != ST_OK) return BREAK_REASON(writes_absent);
    for (int i = 0; i < call->row->n_params; i++)
        if (i != written && arg_shows(c, &call->args[i], memory_number(c->trace, t)))
            return BREAK_REASON(writes_shared);
    const Meta *const meta = t->base.meta;
    if (meta_is_dense(NULL, meta->sizes, meta->strides, meta->rank)) return NULL;
    return BREAK_REASON(writes_gaps);
}

static bool is_tracked(const Arg *arg) {
    bool any = arg->kind == ARG_tensor && arg->val && capture_requires_grad(tensor_of(arg->val));
    for (int k = 0; arg->kind == ARG_tensors && k < arg->n; k++)
        any |= arg->vals[k] && capture_requires_grad(tensor_of(arg->vals[k]));
    return any;
}

/* Errors and versions are the tape's matter; so are the histories that the kernel's own ops give to what they write,
 * which copies written back would not have. */
static Reason tape_decides(const DynamicOp *op, const OpCall *call) {
    const sn_grad_mode mode = state_get()->grad_mode;
    for (int i = 0; mode != SN_INFERENCE && i < op->n_written; i++)
        if (capture_is_inference(tensor_of(call->args[op->written[i]].val))) return BREAK_REASON(writes_inference);
    for (int i = 0; mode == SN_GRAD_ON && i < call->row->n_params; i++)
        if (is_tracked(&call->args[i])) return BREAK_REASON(writes_grad);
    return NULL;
}

Reason capture_written_refusal(Capture *c, const OpCall *call) {
    const DynamicOp *const op = op_dynamic(call->row);
    if (!op || !op->functional) return NULL;
    Reason why = NULL;
    for (int i = 0; !why && i < op->n_written; i++) why = not_alone(c, call, op->written[i]);
    return why ? why : tape_decides(op, call);
}

static bool becomes_functional(Capture *c, const DynamicOp *op, const OpCall *call) {
    if (!op || !op->functional || state_get()->modes || override_covers(call->row) || c->region) return false;
    const bool entered = capture_enter(c);
    const bool fits = !capture_written_refusal(c, call);
    capture_leave(c, entered);
    return fits;
}

static Status call_functional(const DynamicOp *op, OpCall *call) {
    sn_tensor *outs[MAX_OUTS] = {0};
    TRY(dispatch(&op->functional->row, FORM_functional, call->args, NULL, outs));
    for (int i = 0; i < op->n_written; i++)
        TRY(emit_write(eager_builder(), call->args[op->written[i]].val, &outs[op->n_fresh + i]->base));
    custom_write_set_results(call, op, op->row.n_out);
    for (int i = 0, fresh = 0; i < call->row->n_out; i++)
        if (op->result_of[i] < 0) call->outs[i] = outs[fresh++];
    return ST_OK;
}

bool capture_written(Capture *c, OpCall *call, Status *status) {
    const DynamicOp *const op = op_dynamic(call->row);
    if (!becomes_functional(c, op, call)) return false;
    const ContextSaved saved = context_enter(state_get(), CONTEXT_below_calls);
    *status = call_functional(op, call);
    context_leave(&saved);
    return true;
}
