/* deriv_view.c: derivatives of views and of ops that only move data: the gradient moves back. Where
 * a view leaves elements out, theirs is 0: a fresh tensor of zeros with the gradient put in its
 * place. */
#include "passes/rules/deriv.h"

/* view, squeeze, unsqueeze: the same elements in the same order. */
Status deriv_reshape_back(Deriv *d) {
    const Meta *const meta = d->arg_meta[0];
    return deriv_set(d, 0, reshape_to(d->b, grad_of(d), meta->sizes, meta->rank));
}

Status deriv_expand(Deriv *d) { return deriv_set(d, 0, grad_of(d)); }
Status deriv_alias(Deriv *d) { return deriv_set(d, 0, grad_of(d)); }
Status deriv_clone(Deriv *d) { return deriv_set(d, 0, grad_of(d)); }
Status deriv_to_copy(Deriv *d) { return deriv_set(d, 0, to_device_of(d->b, grad_of(d), d->arg_meta[0])); }

Status deriv_permute(Deriv *d) {
    const int rank = d->arg_meta[0]->rank;
    int64_t back[MAX_RANK];
    for (int i = 0; i < rank; i++) back[dim_wrap(d->args[1].ints[i], rank)] = i;
    return deriv_set(d, 0, E(d->b, permute, V(grad_of(d)), A_INTS(back, rank)));
}

Status deriv_transpose(Deriv *d) {
    return deriv_set(d, 0, E(d->b, transpose_int, V(grad_of(d)), d->args[1], d->args[2]));
}
Status deriv_t(Deriv *d) { return deriv_set(d, 0, E(d->b, t, V(grad_of(d)))); }

Status deriv_slice(Deriv *d) {
    Val *const zeros = zeros_of(d->b, d->arg_meta[0]);
    return deriv_set(d, 0,
                     E(d->b, slice_scatter, V(zeros), V(grad_of(d)), d->args[1], d->args[2], d->args[3], d->args[4]));
}
Status deriv_select(Deriv *d) {
    Val *const zeros = zeros_of(d->b, d->arg_meta[0]);
    return deriv_set(d, 0, E(d->b, select_scatter, V(zeros), V(grad_of(d)), d->args[1], d->args[2]));
}

/* Zeros with src where the view (size, stride, offset) of row-major memory is. */
static Val *placed(Deriv *d, const int64_t *stride, int64_t offset) {
    Val *const g = grad_of(d), *const zeros = zeros_of(d->b, d->arg_meta[0]);
    return E(d->b, view_scatter, V(zeros), V(g), A_INTS(g->meta->sizes, g->meta->rank), A_INTS(stride, g->meta->rank),
             I(offset));
}

/* (self, offset, dim1, dim2): the diagonal is the last dim of the result. */
Status deriv_diagonal(Deriv *d) {
    SymEnv *const env = d->b->env;
    const Meta *const meta = d->arg_meta[0];
    int64_t all[MAX_RANK], stride[MAX_RANK];
    meta_contiguous_strides(env, meta->sizes, meta->rank, all);
    const int64_t dim1 = dim_wrap(d->args[2].i, meta->rank), dim2 = dim_wrap(d->args[3].i, meta->rank);
    const int64_t shift = d->args[1].i;
    int n = 0;
    for (int i = 0; i < meta->rank; i++)
        if (i != dim1 && i != dim2) stride[n++] = all[i];
    stride[n] = sym_add(env, all[dim1], all[dim2]);
    const int64_t offset = shift >= 0 ? sym_mul(env, shift, all[dim2]) : sym_mul(env, -shift, all[dim1]);
    return deriv_set(d, 0, placed(d, stride, offset));
}

/* (self, dimension, size, step): windows may overlap, so position k of all windows is put back at
 * once, for each k. */
Status deriv_unfold(Deriv *d) {
    Builder *const b = d->b;
    const Meta *const meta = d->arg_meta[0];
    Val *const g = grad_of(d), *sum = NULL;
    const int64_t size = d->args[2].i, step = d->args[3].i;
    if (size == 0) return deriv_set(d, 0, zeros_of(b, meta)); /* of what has no dims, too */
    if (meta->rank == 0) return deriv_set(d, 0, reshape_to(b, g, meta->sizes, 0));
    const int64_t dim = dim_wrap(d->args[1].i, meta->rank);
    const int64_t windows = g->meta->sizes[dim],
                  span = sym_add(b->env, sym_mul(b->env, sym_sub(b->env, windows, 1), step), 1);
    for (int64_t k = 0; k < size; k++) {
        Val *const part = E(b, select_int, V(g), I(g->meta->rank - 1), I(k));
        Val *const back =
            E(b, slice_scatter, V(zeros_of(b, meta)), V(part), I(dim), I(k), I(sym_add(b->env, span, k)), I(step));
        sum = sum ? add(b, sum, back) : back;
    }
    return deriv_set(d, 0, sum);
}

/* as_strided and sn::view_of: self and result name places of one memory; the gradient of a place is the sum over
 * the elements of the result that are there, and elements of self that share one share it equally
 * (PyTorch's as_strided_backward). */
typedef struct Window { /* elements of memory, from the first that either names */
    Builder *b;
    const Meta *meta; /* dtype and device of the gradient */
    int64_t n;
} Window;

/* One past the last place that a layout names, from its first. */
static int64_t span_of(SymEnv *env, const Meta *meta) {
    int64_t span = 1;
    for (int i = 0; i < meta->rank; i++) {
        if (sym_identical(meta->sizes[i], 0)) return 0;
        span = sym_add(env, span, sym_mul(env, sym_sub(env, meta->sizes[i], 1), meta->strides[i]));
    }
    return span;
}

/* Dims from the smallest stride up: a step must lead past all that the smaller ones reach. */
static bool names_twice(SymEnv *env, const Meta *meta) {
    bool used[MAX_RANK] = {false};
    int64_t reach = 0;
    for (int left = meta->rank; left; left--) {
        int next = -1;
        for (int d = 0; d < meta->rank; d++)
            if (!used[d] && (next < 0 || sym_less(env, meta->strides[d], meta->strides[next]))) next = d;
        used[next] = true;
        if (!sym_less(env, 1, meta->sizes[next])) continue;
        if (!sym_less(env, reach, meta->strides[next])) return true;
        const int64_t steps = sym_sub(env, meta->sizes[next], 1);
        reach = sym_add(env, reach, sym_mul(env, steps, meta->strides[next]));
    }
    return false;
}

/* Zeros with each element of x added at its place. */
static Val *added_up(const Window *w, Val *x, const Meta *layout, int64_t offset) {
    Builder *const b = w->b;
    Val *const zeros =
        E(b, zeros_strided, A_INTS(&w->n, 1), A_INTS(&(int64_t){1}, 1), I(w->meta->dtype), I(w->meta->device));
    Val *const all = E(b, arange, I(w->n), I(DT_i64), A_NONE, I(w->meta->device));
    Val *const places =
        E(b, view_of, V(all), A_INTS(layout->sizes, layout->rank), A_INTS(layout->strides, layout->rank), I(offset));
    Val *const index = reshape_to(b, places, &layout->numel, 1);
    Val *const source = reshape_to(b, x, &layout->numel, 1);
    return index && source ? E(b, index_add, V(zeros), I(0), V(index), V(source)) : NULL;
}

/* (self, size, stride, storage_offset): the offset counts from self's first element here. */
Status deriv_as_strided(Deriv *d) {
    SymEnv *const env = d->b->env;
    const Meta *const self = d->arg_meta[0], *const out = d->result_meta[0];
    const int64_t shift = d->args[3].kind == ARG_int ? d->args[3].i : 0;
    const int64_t before = sym_less(env, shift, 0) ? sym_sub(env, 0, shift) : 0;
    const int64_t start = sym_add(env, before, shift);
    const Window w = {
        .b = d->b,
        .meta = self,
        .n = sym_max(env, sym_add(env, before, span_of(env, self)), sym_add(env, start, span_of(env, out)))};
    Val *sum = added_up(&w, grad_of(d), out, start);
    if (names_twice(env, self)) {
        Val *const ones = E(d->b, full, A_INTS(self->sizes, self->rank), F(1), I(self->dtype), A_NONE, I(self->device));
        sum = sum ? quotient(d->b, sum, added_up(&w, ones, self, before)) : NULL;
    }
    return deriv_set(
        d, 0, E(d->b, view_of, V(sum), A_INTS(self->sizes, self->rank), A_INTS(self->strides, self->rank), I(before)));
}

/* new tensors of old parts -------------------------------------------------------------------- */

/* (tensors, dim); empty 1-D tensors have no part in the result (PyTorch's rule). */
Status deriv_cat(Deriv *d) {
    Builder *const b = d->b;
    const Arg *const list = &d->args[0];
    Val *const g = grad_of(d);
    const int64_t dim = dim_wrap(d->args[1].i, g->meta->rank);
    int64_t at = 0;
    for (int i = 0; i < list->n; i++) {
        const Meta *const part = list->vals[i]->meta;
        const bool empty = part->rank == 1 && part->sizes[0] == 0;
        const int64_t size = empty ? 0 : part->sizes[dim];
        Val *const grad = empty ? zeros_of(b, part) : slice_of(b, g, dim, at, size);
        if (!grad) return error_pending();
        d->grad_list[i] = cast_to(b, grad, part->dtype);
        at = sym_add(b->env, at, size);
    }
    return error_pending();
}

Status deriv_constant_pad_nd(Deriv *d) {
    SymEnv *const env = d->b->env;
    int64_t back[2 * MAX_RANK];
    for (int i = 0; i < d->args[1].n; i++) back[i] = sym_sub(env, 0, d->args[1].ints[i]);
    return deriv_set(d, 0, E(d->b, constant_pad_nd, V(grad_of(d)), A_INTS(back, d->args[1].n)));
}

/* (self, src, dim, start, end, step) */
Status deriv_slice_scatter(Deriv *d) {
    Builder *const b = d->b;
    const Arg g = V(grad_of(d)), *const a = d->args;
    if (wants(d, 0))
        TRY(deriv_set(d, 0, E(b, slice_scatter, g, V(zeros_of(b, d->arg_meta[1])), a[2], a[3], a[4], a[5])));
    return wants(d, 1) ? deriv_set(d, 1, E(b, slice_Tensor, g, a[2], a[3], a[4], a[5])) : ST_OK;
}

/* (self, src, dim, index) */
Status deriv_select_scatter(Deriv *d) {
    Builder *const b = d->b;
    const Arg g = V(grad_of(d)), *const a = d->args;
    if (wants(d, 0)) TRY(deriv_set(d, 0, E(b, select_scatter, g, V(zeros_of(b, d->arg_meta[1])), a[2], a[3])));
    return wants(d, 1) ? deriv_set(d, 1, E(b, select_int, g, a[2], a[3])) : ST_OK;
}

/* (self, src, offset, dim1, dim2) */
Status deriv_diagonal_scatter(Deriv *d) {
    Builder *const b = d->b;
    const Arg g = V(grad_of(d)), *const a = d->args;
    if (wants(d, 0)) TRY(deriv_set(d, 0, E(b, diagonal_scatter, g, V(zeros_of(b, d->arg_meta[1])), a[2], a[3], a[4])));
    return wants(d, 1) ? deriv_set(d, 1, E(b, diagonal, g, a[2], a[3], a[4])) : ST_OK;
}

/* (self, offset, dim1, dim2) */
Status deriv_diag_embed(Deriv *d) {
    return deriv_set(d, 0, E(d->b, diagonal, V(grad_of(d)), d->args[1], d->args[2], d->args[3]));
}

Status deriv_flip(Deriv *d) { return deriv_set(d, 0, E(d->b, flip, V(grad_of(d)), d->args[1])); }
Status deriv_tril(Deriv *d) { return deriv_set(d, 0, E(d->b, tril, V(grad_of(d)), d->args[1])); }
Status deriv_triu(Deriv *d) { return deriv_set(d, 0, E(d->b, triu, V(grad_of(d)), d->args[1])); }
