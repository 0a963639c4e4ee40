/* meta_reduce.c: results of reductions: sizes, dtypes, and the canonical order of additions [semantics B2]: trailing
 * reduced dims use L, all others S, decided by the logical dims alone. */
#include <math.h>

#include "ir/meta_rules.h"

typedef struct Reduce {
    const Meta *in;
    bool reduced[MAX_RANK];
    bool keepdim;
    int64_t count; /* elements reduced into one; symbolic or plain */
} Reduce;

/* Reads self, dim (int, list or absent) and keepdim where the row has them. */
static Status reduce_args(const MetaCall *call, Reduce *r) {
    Meta number;
    r->in = arg_meta(call, 0, &number);
    const int dim = op_param_find(call->row, "dim"), keepdim = op_param_find(call->row, "keepdim");
    const Arg none = A_NONE;
    if (dim >= 0 && call->args[dim].kind == ARG_int) {
        int one = 0;
        TRY(wrap_dim(call, call->args[dim].i, r->in->rank, "dim", &one));
        memset(r->reduced, 0, sizeof r->reduced);
        r->reduced[one] = true;
    } else {
        TRY(wrap_dims(call, dim >= 0 ? &call->args[dim] : &none, r->in->rank, r->reduced));
    }
    r->keepdim = keepdim >= 0 && call->args[keepdim].i;
    r->count = 1;
    for (int i = 0; i < r->in->rank; i++)
        if (r->reduced[i]) r->count = sym_mul(call->env, r->count, r->in->sizes[i]);
    return ST_OK;
}

static Status reduce_out(MetaCall *call, const Reduce *r, DType dtype) {
    reduced_out(call, 0, r->in, r->reduced, r->keepdim, dtype);
    call->order = reduction_order(r->in, r->reduced);
    return ST_OK;
}

/* sum, prod: ints add up in i64 unless dtype says otherwise. */
Status meta_sum(MetaCall *call) {
    Reduce r;
    TRY(reduce_args(call, &r));
    const DType own = dtype_is_float(r.in->dtype) ? r.in->dtype : DT_i64;
    return reduce_out(call, &r, dtype_arg(call, "dtype", own));
}

/* amax, amin: the operand's dtype; nothing to choose from is an error. */
Status meta_amax(MetaCall *call) {
    Reduce r;
    TRY(reduce_args(call, &r));
    if (sym_same(call->env, r.count, 0) && r.in->rank) {
        bool empty_result = false;
        for (int i = 0; i < r.in->rank; i++)
            if (r.reduced[i] && sym_same(call->env, r.in->sizes[i], 0)) empty_result = true;
        if (empty_result)
            return meta_fail(call, ST_SHAPE, "self %s has no elements along a reduced dim", SIZES(call, r.in));
    }
    return reduce_out(call, &r, r.in->dtype);
}

/* Several results of one reduction have the same sizes. */
static Status want_float(const MetaCall *call, DType dtype) {
    if (dtype_is_float(dtype)) return ST_OK;
    return meta_fail(call, ST_DTYPE, "needs floating point, not %s", dtype_name(dtype));
}

Status meta_mean(MetaCall *call) {
    Reduce r;
    TRY(reduce_args(call, &r));
    const DType dtype = dtype_arg(call, "dtype", r.in->dtype);
    TRY(want_float(call, dtype));
    return reduce_out(call, &r, dtype);
}

/* max, min of everything. */
Status meta_amax_all(MetaCall *call) {
    Reduce r;
    TRY(reduce_args(call, &r));
    if (sym_same(call->env, r.in->numel, 0))
        return meta_fail(call, ST_SHAPE, "self %s has no elements", SIZES(call, r.in));
    return reduce_out(call, &r, r.in->dtype);
}

/* any, all: bool; u8 stays u8, as in PyTorch. */
Status meta_any(MetaCall *call) {
    Reduce r;
    TRY(reduce_args(call, &r));
    const int dim = op_param_find(call->row, "dim");
    if (dim >= 0 && call->args[dim].kind == ARG_ints && !call->args[dim].n)
        memset(r.reduced, false, sizeof r.reduced); /* no dims: the truth of each element */
    return reduce_out(call, &r, r.in->dtype == DT_u8 ? DT_u8 : DT_bool);
}

static Status nothing_to_choose(const MetaCall *call, const Reduce *r) {
    for (int i = 0; i < r->in->rank; i++)
        if (r->reduced[i] && sym_same(call->env, r->in->sizes[i], 0))
            return meta_fail(call, ST_SHAPE, "self %s has no elements along a reduced dim", SIZES(call, r->in));
    return ST_OK;
}

Status meta_argmax(MetaCall *call) {
    Reduce r;
    TRY(reduce_args(call, &r));
    TRY(nothing_to_choose(call, &r));
    if (r.in->dtype == DT_bool) return meta_fail(call, ST_DTYPE, "self must not be bool");
    if (call->args[1].kind == ARG_none && call->args[2].i) { /* keepdim without dim: every dim stays as 1 */
        memset(r.reduced, true, sizeof r.reduced);
    }
    return reduce_out(call, &r, DT_i64);
}

/* max.dim, min.dim: values and their first positions. */
Status meta_max_dim(MetaCall *call) {
    Reduce r;
    TRY(reduce_args(call, &r));
    TRY(nothing_to_choose(call, &r));
    TRY(reduce_out(call, &r, r.in->dtype));
    reduced_out(call, 1, r.in, r.reduced, r.keepdim, DT_i64);
    return ST_OK;
}

Status meta_var(MetaCall *call) {
    Reduce r;
    TRY(reduce_args(call, &r));
    TRY(want_float(call, r.in->dtype));
    return reduce_out(call, &r, r.in->dtype);
}

Status meta_var_mean(MetaCall *call) {
    Reduce r;
    TRY(reduce_args(call, &r));
    TRY(want_float(call, r.in->dtype));
    TRY(reduce_out(call, &r, r.in->dtype));
    reduced_out(call, 1, r.in, r.reduced, r.keepdim, r.in->dtype);
    return ST_OK;
}

Status meta_logsumexp(MetaCall *call) {
    Reduce r;
    TRY(reduce_args(call, &r));
    return reduce_out(call, &r, default_float(r.in->dtype));
}

/* dot and mv: products along the last dim of the first operand, in order L with fma lanes. */
static Status products(MetaCall *call, int rank) {
    const Meta *a = tensor_meta(call, 0), *b = tensor_meta(call, 1);
    if (a->rank != rank || b->rank != 1)
        return meta_fail(call, ST_SHAPE, "needs %d-D and 1-D operands, not sizes %s and %s", rank, SIZES(call, a),
                         SIZES(call, b));
    if (a->dtype != b->dtype)
        return meta_fail(call, ST_DTYPE, "%s is %s, but %s is %s", arg_name(call, 0), dtype_name(a->dtype),
                         arg_name(call, 1), dtype_name(b->dtype));
    if (a->dtype == DT_bool) return meta_fail(call, ST_DTYPE, "%s must not be bool", arg_name(call, 0));
    TRY(same_device(call, a, b));
    if (!sym_same(call->env, a->sizes[rank - 1], b->sizes[0]))
        return meta_fail(call, ST_SHAPE, "%s %s does not match %s %s", arg_name(call, 1), SIZES(call, b),
                         arg_name(call, 0), SIZES(call, a));
    out_plain(call, 0, a->dtype, a->device, a->sizes, rank - 1);
    call->order = ORDER_L;
    return ST_OK;
}

Status meta_row_dots(MetaCall *call) {
    const Meta *const self = tensor_meta(call, 0), *const other = tensor_meta(call, 1);
    if (!self->rank || other->rank != self->rank || !all_same(call->env, self->sizes, other->sizes, self->rank))
        return meta_fail(call, ST_SHAPE, "needs operands of the same sizes, and a dim, not %s and %s",
                         SIZES(call, self), SIZES(call, other));
    if (self->dtype != other->dtype || self->dtype == DT_bool)
        return meta_fail(call, ST_DTYPE, "needs operands of one dtype, not bool: not %s and %s",
                         dtype_name(self->dtype), dtype_name(other->dtype));
    TRY(same_device(call, self, other));
    out_plain(call, 0, self->dtype, self->device, self->sizes, self->rank - 1);
    call->order = ORDER_L;
    return ST_OK;
}
Status meta_dot(MetaCall *call) { return products(call, 1); }
Status meta_mv(MetaCall *call) { return products(call, 2); }

/* Norms: floats, in dtype where it is given; nothing to choose from where ord does is an error. */
Status meta_vector_norm(MetaCall *call) {
    Reduce r;
    TRY(reduce_args(call, &r));
    const DType dtype = dtype_arg(call, "dtype", r.in->dtype);
    const Arg *const order = &call->args[1];
    const double p = order->kind == ARG_none ? 2 : arg_double_now(call->env, order);
    TRY(want_float(call, r.in->dtype));
    TRY(want_float(call, dtype));
    if (dtype_promote(r.in->dtype, dtype) != dtype)
        return meta_fail(call, ST_DTYPE, "dtype %s is narrower than self's %s", dtype_name(dtype),
                         dtype_name(r.in->dtype));
    if ((p < 0 || isinf(p)) && sym_same(call->env, r.count, 0) && !sym_same(call->env, r.in->numel, r.count))
        return meta_fail(call, ST_SHAPE, "a norm of order %g of no elements of self %s", p, SIZES(call, r.in));
    if ((p < 0 || isinf(p)) && sym_same(call->env, r.in->numel, 0) && r.count == 0)
        return meta_fail(call, ST_SHAPE, "a norm of order %g of no elements", p);
    return reduce_out(call, &r, dtype);
}
