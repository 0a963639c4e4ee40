/* check_meta.c: what the meta rule says against what eager makes. */
#include "runtime/base/error.h"
#include "tests/ops/ops.h"

static int64_t offset_of_first(const SampleCall *call) { return call->n_tensors ? call->tensors[0]->offset : 0; }

static bool equal_lists(const int64_t *a, const int64_t *b, int n) {
    return !n || !memcmp(a, b, (size_t)n * sizeof *a);
}

static void compare(const Case *c, int i, const MetaOut *out, sn_tensor *t) {
    const Meta *const meta = t->base.meta;
    if (out->dtype != meta->dtype)
        ops_fail(c, "result %d: the rule says %s, eager %s", i, dtype_name(out->dtype), dtype_name(meta->dtype));
    else if (out->rank != meta->rank || !equal_lists(out->sizes, meta->sizes, meta->rank))
        ops_fail(c, "result %d: sizes differ", i);
    else if (!equal_lists(out->strides, meta->strides, meta->rank))
        ops_fail(c, "result %d: strides differ: rank %d, %lld.. and %lld..", i, meta->rank, (long long)out->strides[0],
                 (long long)meta->strides[0]);
}

/* Of a list result i shows element i. */
static const sn_tensor *aliased(const SampleCall *call, int i, const MetaOut *out) {
    const Arg *const arg = out->alias < 0 ? NULL : &call->args[out->alias];
    return !arg ? NULL : tensor_of(arg->kind == ARG_tensors ? arg->vals[i] : arg->val);
}

static void compare_storage(const Case *c, const SampleCall *call, int i, const MetaOut *out, const sn_tensor *t) {
    const sn_tensor *const base = aliased(call, i, out);
    bool shares = false;
    for (int k = 0; k < call->n_tensors; k++) shares |= call->tensors[k]->storage == t->storage;
    if (shares != (base != NULL)) ops_fail(c, "result %d: sharing memory differs", i);
    if (!base) return;
    const int64_t bytes = base->offset * dtype_bytes(base->base.meta->dtype),
                  offset = bytes / dtype_bytes(t->base.meta->dtype) + out->offset;
    if (t->offset != offset)
        ops_fail(c, "result %d: the rule says offset %lld, eager %lld", i, (long long)offset, (long long)t->offset);
}

void check_meta(const Case *c) {
    SampleCall call;
    sn_tensor *outs[MAX_LIST];
    MetaOut metas[32];
    int n;
    if (!ops_run(c, &call, outs, &n)) return;
    MetaCall meta = {.row = c->row,
                     .args = call.args,
                     .base_offset = offset_of_first(&call),
                     .out = metas,
                     .n_out = c->row->returns_list ? 32 : c->row->n_out};
    if (op_meta(&meta) != ST_OK) {
        ops_fail(c, "the rule refuses what eager runs: %s", sn_error_take()->message);
        return;
    }
    if (meta.n_out != n) ops_fail(c, "the rule says %d results, eager %d", meta.n_out, n);
    for (int i = 0; i < n && i < meta.n_out; i++) {
        compare(c, i, &metas[i], outs[i]);
        compare_storage(c, &call, i, &metas[i], outs[i]);
    }
}
