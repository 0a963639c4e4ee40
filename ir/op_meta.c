/* op_meta.c: runs a row's meta rule and checks what in-place and out forms write to [design 3: forms of one row]. */
#include "ir/meta_rules.h"

static Status check_cast(const MetaCall *call, DType from, DType to) {
    if (can_cast(from, to)) return ST_OK;
    return meta_fail(call, ST_DTYPE, "a result of %s doesn't fit a tensor of %s", dtype_name(from), dtype_name(to));
}

static bool equal_sizes(SymEnv *env, const Meta *a, const MetaOut *b) {
    return a->rank == b->rank && all_same(env, a->sizes, b->sizes, a->rank);
}

/* The result of a written form is what was written: its dtype and strides, the rule's sizes. */
static void adopt_layout(MetaOut *out, const Meta *written) {
    out->dtype = written->dtype;
    memcpy(out->strides, written->strides, sizeof *out->strides * (size_t)written->rank);
}

static Status check_inplace(MetaCall *call) {
    const Arg *self = &call->args[0];
    MetaOut *out = &call->out[0];
    if (self->kind != ARG_tensor) return meta_fail(call, ST_ARGUMENT, "self must be a tensor");
    const Meta *meta = self->val->meta;
    TRY(check_cast(call, out->dtype, meta->dtype));
    if (!equal_sizes(call->env, meta, out))
        return meta_fail(call, ST_SHAPE, "self has sizes %s, the result %s", SIZES(call, meta),
                         sizes_text(call, out->sizes, out->rank).at);
    adopt_layout(out, meta);
    out->alias = 0;
    return ST_OK;
}

/* Only elementwise ops convert while they write out. */
static Status check_same(const MetaCall *call, DType result, DType out) {
    const int dtype = op_param_find(call->row, "dtype");
    if (result == out || dtype >= 0) return ST_OK;
    return meta_fail(call, ST_DTYPE, "out must be %s, not %s", dtype_name(result), dtype_name(out));
}

/* Sizes may differ: the runtime resizes; then the strides are those of the rule. */
static Status check_out(MetaCall *call) {
    for (int i = 0; i < call->row->n_out; i++) {
        const Arg *arg = &call->args[call->row->n_params + i];
        if (arg->kind != ARG_tensor || !arg->val) return meta_fail(call, ST_ARGUMENT, "out must be a tensor");
        const Meta *meta = arg->val->meta;
        TRY(check_cast(call, call->out[i].dtype, meta->dtype));
        if (call->row->kind != KIND_pointwise || call->row->flags & OPF_check)
            TRY(check_same(call, call->out[i].dtype, meta->dtype));
        if (equal_sizes(call->env, meta, &call->out[i]))
            adopt_layout(&call->out[i], meta);
        else if (call->row->options) /* as PyTorch: the format is that of a result of its own */
            out_contiguous(call, &call->out[i]);
        call->out[i].dtype = meta->dtype;
        call->out[i].alias = call->row->n_params + i;
    }
    return ST_OK;
}

Status op_meta(MetaCall *call) {
    const OpRow *row = call->row;
    if (call->form == FORM_inplace && row->kind == KIND_view)
        return meta_fail(call, ST_UNSUPPORTED, "%s changes a handle, which graphs don't have; write %s",
                         op_form_name(row, FORM_inplace), row->name);
    const bool named = row->kind == KIND_number || (row->kind == KIND_kernel && row->role != ROLE_resizes);
    if (row->flags & OPF_host && !(call->unbacked && named))
        return meta_fail(call, ST_UNSUPPORTED, "it reads values, which metadata and graphs don't have");
    if (call->env) TRY(op_numbers_check(row, call->args)); /* without one there are no symbols */
    if (row->alias_of) call->row = row->alias_of;
    call->order = ORDER_none;
    Status status = call->row->meta(call);
    if (status == ST_OK && row->limit.kind) status = numbers_limited(call, call->out[0].dtype);
    call->row = row;
    TRY(status);
    if (call->form == FORM_inplace) return check_inplace(call);
    return call->form == FORM_out ? check_out(call) : ST_OK;
}

/* Of what has bounds that are given 1 is no case of its own (sym.h). */
static void specialize_size(SymEnv *env, int64_t *size) {
    const bool one = sym_hint(env, *size) >= 2 && sym_all_given(env, *size);
    if (sym_less(env, *size, one ? 1 : 2)) *size = sym_concrete(env, *size);
}

static void specialize_small(SymEnv *env, int64_t *list, int n) {
    for (int d = 0; d < n; d++)
        if (sym_is(list[d])) specialize_size(env, &list[d]);
}

void meta_specialize_small(SymEnv *env, MetaOut *out) {
    specialize_small(env, out->sizes, out->rank);
    specialize_small(env, out->strides, out->rank);
}
