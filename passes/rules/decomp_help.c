/* decomp_help.c: pieces that decompositions share. */
#include "passes/rules/decomp.h"

Val *in_dtype(Builder *b, Val *x, DType dtype) {
    return !x || x->meta->dtype == dtype ? x : E(b, _to_copy, V(x), I(dtype));
}

Val *widened(Builder *b, Val *x) {
    return x && dtype_is_half(x->meta->dtype) ? in_dtype(b, x, DT_f32) : x;
}

Val *sum_over(Builder *b, Val *x, const int64_t *dims, int n, bool keepdim) {
    return E(b, sum_dim_IntList, V(x), n ? A_INTS(dims, n) : A_NONE, A_BOOL(keepdim));
}

Val *optional(const Arg *a) { return a->kind == ARG_tensor ? a->val : NULL; }

int dim_of(const Arg *a, int rank) {
    const int64_t count = rank ? rank : 1;
    return (int)(a->i < 0 ? a->i + count : a->i);
}

Status decomp_done(Val **outs, int n, Val *const *values) {
    for (int i = 0; i < n; i++)
        if (!values[i])
            return error_pending() ? error_pending()
                                   : error_raise(ST_INTERNAL, "a decomposition lost a value");
    for (int i = 0; i < n; i++) outs[i] = values[i];
    return ST_OK;
}

/* PyTorch's rule (computeStride): runs of dims whose strides continue each other may be cut and
 * merged freely. */
static bool can_view(SymEnv *env, const Meta *from, const int64_t *sizes, int n) {
    if (!sym_is(from->numel) && from->numel <= 1) return true;
    int to = n - 1;
    int64_t run = 1;
    for (int d = from->rank - 1; d >= 0; d--) {
        run = sym_mul(env, run, from->sizes[d]);
        const bool ends = d == 0 || (from->sizes[d - 1] != 1 &&
                                     !sym_same(env, from->strides[d - 1],
                                               sym_mul(env, from->sizes[d], from->strides[d])));
        if (!ends) continue;
        int64_t taken = 1;
        while (to >= 0 && (taken != run || sizes[to] == 1)) {
            if (sym_less(env, run, taken) && taken != run) return false;
            taken = sym_mul(env, taken, sizes[to--]);
        }
        if (!sym_same(env, taken, run)) return false;
        run = 1;
    }
    return to < 0;
}

Val *reshaped(Builder *b, Val *x, const int64_t *sizes, int n) {
    if (!x) return NULL;
    int64_t known = 1, full[MAX_RANK];
    int hole = -1;
    if (n > MAX_RANK) {
        error_raise(ST_SHAPE, "reshape: more than %d dims", MAX_RANK);
        return NULL;
    }
    for (int d = 0; d < n; d++) {
        full[d] = sizes[d];
        if (sizes[d] == -1)
            hole = d;
        else
            known = sym_mul(b->env, known, sizes[d]);
    }
    if (hole >= 0 && known != 0) full[hole] = sym_div(b->env, x->meta->numel, known);
    if (!x->meta->rank || can_view(b->env, x->meta, full, n))
        return E(b, view, V(x), A_INTS(sizes, n));
    return E(b, view, V(E(b, clone, V(x), I(0))), A_INTS(sizes, n));
}
