/* eager_write.c: what in-place and out forms need before they run, as PyTorch does it: an out
 * tensor of other sizes is resized; memory that is written may not hold an element twice; an
 * operand that overlaps it in part is copied first (PyTorch refuses that), one that is the same
 * tensor is fine. */
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/core/ends.h"
#include "runtime/eager/eager.h"

static const char *written_name(const OpCall *call, int i) {
    static const char *const outs[] = {"out", "out1", "out2", "out3"};
    if (call->form == FORM_inplace) return call->row->params[0].name;
    return call->row->n_out == 1 || i >= COUNT_OF(outs) ? "out" : outs[i];
}

static int n_written(const OpCall *call) { return call->form == FORM_out ? call->row->n_out : 1; }

/* Byte ranges of two tensors of one storage meet. */
static bool ranges_meet(const sn_tensor *a, const sn_tensor *b) {
    const char *const at = tensor_data(a), *const bt = tensor_data(b);
    return at < bt + meta_bytes(b->base.meta) && bt < at + meta_bytes(a->base.meta);
}

static bool overlaps_partly(const sn_tensor *a, const sn_tensor *b) {
    if (a == b || a->storage != b->storage || !a->storage) return false;
    if (a->offset == b->offset && a->base.meta == b->base.meta) return false;
    return ranges_meet(a, b);
}

static sn_tensor *copy_of(sn_tensor *t, Key key) {
    const Meta *const meta = t->base.meta;
    const Meta *const plain = meta_intern_contiguous(meta->dtype, meta->device, meta->sizes, meta->rank);
    sn_tensor *const copy = plain ? tensor_new(plain) : NULL;
    if (!copy) return NULL;
    const OpRow *const row = OP_ROW(copy);
    const Arg args[] = {A_VAL(&copy->base), A_VAL(&t->base), A_BOOL(0)};
    sn_tensor *outs[MAX_OUTS];
    OpCall call = {.row = row, .form = FORM_inplace, .args = args, .outs = outs, .n_outs = 1, .key = key};
    return dispatch_entry(row, key)(&call) == ST_OK ? copy : NULL;
}

static Status separate(const OpCall *call, int i, Val **val, bool *copied) {
    sn_tensor *const t = tensor_of(*val);
    for (int w = 0; t && w < n_written(call); w++) {
        if (call->form == FORM_inplace && i == 0) continue;
        if (!overlaps_partly(t, call_written(call, w))) continue;
        sn_tensor *const copy = copy_of(t, call->key);
        if (!copy) return error_pending();
        *val = &copy->base;
        *copied = true;
        return ST_OK;
    }
    return ST_OK;
}

Status eager_separate(const OpCall *call, Arg args[MAX_ARGS], bool *copied) {
    for (int i = 0; i < call->row->n_params; i++) {
        args[i] = call->args[i];
        if (args[i].kind == ARG_tensor) TRY(separate(call, i, &args[i].val, copied));
    }
    return ST_OK;
}

/* What is laid out anew is a view no more, in any mode: its old view op does not lead there. */
Status eager_resize(sn_tensor *out, const Meta *meta) {
    if (out->base.meta->numel)
        LOG(memory, INFO, "a tensor with %lld elements was resized to %lld", (long long)out->base.meta->numel,
            (long long)meta->numel);
    int64_t needed; /* an empty view may begin anywhere */
    if (out->offset < 0 || !mul_ok(out->offset, dtype_bytes(meta->dtype), &needed) ||
        !add_ok(needed, (int64_t)meta_bytes(meta), &needed))
        return error_raise(ST_VALUE, "a tensor at element %lld of its storage can't be resized",
                           (long long)out->offset);
    if ((size_t)needed > out->storage->bytes) TRY(storage_resize(out->storage, (size_t)needed));
    tensor_set_meta(out, meta);
    if (out->autograd) history_class(out->autograd)->end_view(out);
    return ST_OK;
}

static sn_tensor *clone_of(sn_tensor *self, Key key) {
    const OpRow *const row = OP_ROW(clone);
    const Arg args[] = {A_VAL(&self->base), A_NONE};
    sn_tensor *outs[MAX_OUTS];
    OpCall call = {.row = row, .args = args, .outs = outs, .n_outs = 1, .key = key};
    return dispatch_entry(row, key)(&call) == ST_OK ? outs[0] : NULL;
}

/* (self, size, memory_format): what self had stays where it is in memory, what is new is 0. Its storage grows for its
 * views, too. */
Status eager_resized(OpCall *call) {
    sn_tensor *const self = tensor_of(call->args[0].val);
    TRY(tensor_ready(self, call->row->name));
    MetaOut out = {.alias = -1};
    MetaCall asked = {.row = call->row, .args = call->args, .out = &out, .n_out = 1};
    TRY(call->row->meta(&asked));
    const Meta *const meta = meta_intern_out(&out);
    sn_tensor *const t = !meta ? NULL : call->form == FORM_inplace ? self : clone_of(self, call->key);
    if (!t) return error_pending();
    call->outs[0] = t;
    if (t->base.meta == meta) return ST_OK;
    TRY(eager_resize(t, meta));
    tensor_written(t);
    return ST_OK;
}

/* What is resized has no old contents left that an operand could be. */
static Status check_no_operand(const OpCall *call, const sn_tensor *out) {
    for (int i = 0; i < call->row->n_params; i++) {
        const Arg *const a = &call->args[i];
        const int n = a->kind == ARG_tensors ? a->n : a->kind == ARG_tensor;
        for (int k = 0; k < n; k++) {
            const Val *const val = a->kind == ARG_tensors ? a->vals[k] : a->val;
            if (val && tensor_of((Val *)val)->storage == out->storage)
                return error_raise(ST_VALUE, "%s: an out tensor that has to be resized shares memory with %s",
                                   op_form_name(call->row, call->form), call->row->params[i].name);
        }
    }
    return ST_OK;
}

static Status overlapping(const OpCall *call, int i, const Meta *meta) {
    Text text = {0};
    sizes_print(NULL, &text, meta->sizes, meta->rank);
    text_puts(&text, " with strides ");
    sizes_print(NULL, &text, meta->strides, meta->rank);
    const Status status =
        error_raise(ST_VALUE, "%s: %s %s has several elements at one place in memory; clone() it first",
                    op_form_name(call->row, call->form), written_name(call, i), text_str(&text));
    text_free(&text);
    return status;
}

static Status check_memory(const OpCall *call, int i) {
    const sn_tensor *const t = call_written(call, i);
    if (t->storage && t->storage->read_only)
        return error_raise(ST_STATE, "%s: the memory to be written is read-only", op_form_name(call->row, call->form));
    if (!meta_overlaps(t->base.meta)) return ST_OK;
    return overlapping(call, i, t->base.meta);
}

Status eager_check_written(const OpCall *call) {
    for (int i = 0; i < n_written(call); i++) TRY(check_memory(call, i));
    return ST_OK;
}

/* One tensor that is to be two results of other sizes was resized for the later one. */
static Status check_written_sizes(const OpCall *call, const EagerMetas *metas) {
    for (int i = 0; i < n_written(call); i++)
        if (!meta_same_sizes(call_written(call, i)->base.meta, metas->at[i].meta))
            return error_raise(ST_ARGUMENT, "%s: out %d is another result's tensor, too", call->row->name, i);
    return ST_OK;
}

Status eager_prepare_write(OpCall *call) {
    for (int i = 0; i < n_written(call); i++) TRY(tensor_ready(call_written(call, i), call->row->name));
    METAS_OF_CALL metas;
    TRY(eager_metas(call, 0, &metas));
    for (int i = 0; i < n_written(call); i++) {
        sn_tensor *const t = call_written(call, i);
        const Meta *const meta = metas.at[i].meta;
        TRY(check_memory(call, i)); /* also what will be resized, as PyTorch does */
        if (t->base.meta != meta && !meta_same_sizes(t->base.meta, meta)) {
            TRY(check_no_operand(call, t));
            TRY(eager_resize(t, meta));
        }
    }
    return check_written_sizes(call, &metas);
}
