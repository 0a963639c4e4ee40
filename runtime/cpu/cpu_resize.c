/* cpu_resize.c: a tensor gets other sizes, and more memory where they need it; what it had stays where it is in memory,
 * what is new is 0. Its storage grows for its views, too. */
#include "runtime/cpu/cpu_copy.h"
#include "runtime/eager/eager.h"

OpKernel cpu_resize;

static sn_tensor *clone_of(sn_tensor *self) {
    const Arg args[] = {A_VAL(&self->base), A_NONE};
    const OpCall clone = {.row = op_row(OP_clone), .args = args, .n_outs = 1};
    MetaOut out;
    int n = 1;
    const Meta *const meta = call_metas(&clone, 0, &out, &n) == ST_OK ? meta_intern_out(&out) : NULL;
    sn_tensor *const copy = meta ? tensor_new(meta) : NULL;
    if (copy && meta->numel) tensor_copy_into(copy, self);
    return copy;
}

/* (self, size, memory_format) */
Status cpu_resize(OpCall *call) {
    sn_tensor *const self = tensor_of(call->args[0].val);
    TRY(tensor_ready(self, call->row->name));
    MetaOut out = {.alias = -1};
    MetaCall asked = {.row = call->row, .args = call->args, .out = &out, .n_out = 1};
    TRY(call->row->meta(&asked));
    const Meta *const meta = meta_intern_out(&out);
    sn_tensor *const t = !meta ? NULL : call->form == FORM_inplace ? self : clone_of(self);
    if (!t) return error_pending();
    call->outs[0] = t;
    if (t->base.meta == meta) return ST_OK;
    TRY(eager_resize(t, meta));
    tensor_written(t);
    return ST_OK;
}
