/* meta_matmul.c: products of matrices: shapes, one dtype for all operands, ORDER_chain [semantics B2]. */
#include "ir/meta_rules.h"

static Status want_rank(const MetaCall *call, int i, int rank) {
    const Meta *meta = tensor_meta(call, i);
    if (meta->rank == rank) return ST_OK;
    return meta_fail(call, ST_SHAPE, "%s must have %d dims, not sizes %s", arg_name(call, i), rank, SIZES(call, meta));
}

static Status want_same_dtype(const MetaCall *call, int a, int b) {
    const Meta *left = tensor_meta(call, a), *right = tensor_meta(call, b);
    if (left->dtype != right->dtype)
        return meta_fail(call, ST_DTYPE, "%s is %s, but %s is %s", arg_name(call, a), dtype_name(left->dtype),
                         arg_name(call, b), dtype_name(right->dtype));
    return same_device(call, left, right);
}

static Status want_equal(const MetaCall *call, int a, int dim_a, int b, int dim_b) {
    const Meta *left = tensor_meta(call, a), *right = tensor_meta(call, b);
    const int64_t x = left->sizes[dim_a], y = right->sizes[dim_b];
    if (sym_same(call->env, x, y)) return ST_OK;
    return meta_fail(call, ST_SHAPE, "%s %s does not match %s %s: %lld != %lld", arg_name(call, b), SIZES(call, right),
                     arg_name(call, a), SIZES(call, left), (long long)sym_hint(call->env, x),
                     (long long)sym_hint(call->env, y));
}

Status meta_mm(MetaCall *call) {
    TRY(want_rank(call, 0, 2));
    TRY(want_rank(call, 1, 2));
    TRY(want_same_dtype(call, 0, 1));
    TRY(want_equal(call, 0, 1, 1, 0));
    const Meta *a = tensor_meta(call, 0), *b = tensor_meta(call, 1);
    out_plain(call, 0, a->dtype, a->device, (const int64_t[]){a->sizes[0], b->sizes[1]}, 2);
    call->order = ORDER_chain;
    return ST_OK;
}
