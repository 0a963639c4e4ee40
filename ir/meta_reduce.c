/* meta_reduce.c: results of reductions: sizes, dtypes, and the canonical order of additions [semantics B2]: trailing
 * reduced dims use L, all others S, decided by the logical dims alone. */
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
