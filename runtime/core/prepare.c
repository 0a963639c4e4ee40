/* prepare.c: the table's kernel at KEY_none: a call whose arguments do not say yet which keys it has (OpRow.prepares).
 *
 *   sn_narrow_tensor(x, 0, start, 2)   start, a tensor of one int: the number is read, and the row of ints is called
 *   sn_zeros_out(out, sizes)           out decides the dtype and the device
 *   sn_t_(x)                           nothing is written: the handle changes
 */
#include "runtime/core/dispatch.h"
#include "runtime/core/element.h"

/* narrow.Tensor: the number in a 0-dim tensor of ints, a graph break inside of a call. */
static Status number_param(const OpRow *row, int i, Arg *arg) {
    sn_tensor *const t = arg->kind == ARG_tensor ? tensor_of(arg->val) : NULL;
    TRY(tensor_ready(t, row->name));
    const DType dtype = t->base.meta->dtype;
    if (t->base.meta->rank || !dtype_is_int(dtype))
        return error_raise(ST_ARGUMENT, "%s: %s must be a 0-dim tensor of ints, not %s of %d dims", row->name,
                           row->params[i].name, dtype_name(dtype), t->base.meta->rank);
    sn_tensor *const here = tensor_on_host(t);
    if (!here) return error_pending();
    *arg = A_INT(element_int(dtype, tensor_data(here)));
    tensor_release(here);
    return ST_OK;
}

static Status read_numbers(const OpRow *row, const Arg *args, Arg *full) {
    memcpy(full, args, sizeof *full * (size_t)row->n_params);
    Status status = error_pending();
    for (int i = 0; i < row->n_params && status == ST_OK; i++)
        if (row->params[i].type == PT_tensor && row->alias_of->params[i].type == PT_int)
            status = number_param(row, i, &full[i]);
    if (status != ST_OK) error_set_op(row->name), error_set_site(state_get()->site);
    return status;
}

/* The tensor that a creation row's out form writes decides the dtype and the device. */
static const Arg *options_of_out(const OpRow *row, const Arg *args, const sn_tensor *out, Arg *full) {
    memcpy(full, args, sizeof *full * (size_t)row->n_params);
    if (out) op_args_fill_options(row, out->base.meta, full);
    return full;
}

/* Its handle stands for many examples, whose key changes it. */
static bool is_batched(const Arg *self) {
    return self->kind == ARG_tensor && self->val && tensor_is_batched(tensor_of(self->val));
}

/* The in-place form of a view writes nothing: the handle changes, whatever its keys are. row may be an alias, whose
 * name errors say. */
static COLD Status change_handle(const OpRow *row, const Arg *args, sn_tensor **outs) {
    OpCall call = {
        .row = row, .form = FORM_inplace, .args = args, .outs = outs, .n_outs = 1, .key = KEY_ad_inplace_or_view};
    return dispatch_entry(row->alias_of ? row->alias_of : row, call.key)(&call);
}

static Status prepare_arguments(OpCall *call) {
    const OpRow *const row = call->row;
    const Arg *args = call->args;
    Arg full[MAX_ARGS];
    if (row->alias_of && row->flags & OPF_host) {
        call->outs[0] = NULL;
        TRY(read_numbers(row, args, full));
        args = full;
    }
    if (call->form == FORM_inplace && row->kind == KIND_view && !is_batched(&args[0]))
        return change_handle(row, args, call->outs);
    if (call->form == FORM_out && row->options) args = options_of_out(row, args, call->out_args[0], full);
    return dispatch_at_keys(row, call->form, args, call->out_args, call->outs);
}

void prepare_start(void) { dispatch_fallback(KEY_none, prepare_arguments); }
