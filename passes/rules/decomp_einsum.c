/* decomp_einsum.c: an einsum as batched products of matrices (or of elements, where nothing is summed), from the
 * left. */
#include "ir/einsum.h"
#include "ir/op.h"
#include "passes/rules/decomp.h"

DecompFn decomp_einsum;

/* The operand with all dims, those that it lacks of size 1; of a label that stands twice, the diagonal. */
static Val *with_all_dims(Builder *b, Val *x, const Einsum *e, int k) {
    int64_t order[EINSUM_DIMS];
    int at[EINSUM_DIMS], n = 0;
    for (int d = 0; d < e->n_dims; d++) at[d] = -1;
    for (int i = 0; x && i < e->rank[k]; i++) {
        const int d = e->dim[k][i];
        if (at[d] < 0) {
            at[d] = n++;
            continue;
        }
        x = E(b, diagonal, V(x), I(0), I(at[d]), I(n)); /* which becomes the last dim */
        x = E(b, movedim_int, V(x), I(-1), I(at[d]));
    }
    for (int d = 0; d < e->n_dims; d++) {
        if (at[d] < 0) x = E(b, unsqueeze, V(x), I(n)), at[d] = n++;
        order[d] = at[d];
    }
    return E(b, permute, V(x), A_INTS(order, e->n_dims));
}

static Val *summed_over(Builder *b, Val *x, const Einsum *e, const bool *which) {
    int64_t dims[EINSUM_DIMS];
    int n = 0;
    for (int d = 0; d < e->n_dims; d++)
        if (which[d]) dims[n++] = d;
    return n ? sum_over(b, x, dims, n, true) : x;
}

/* Dims in this order, in three: those of the first group, of the second, of the third. */
static Val *as_matrices(Builder *b, Val *x, const int64_t *order, int n, const int *groups) {
    Val *const turned = E(b, permute, V(x), A_INTS(order, n));
    if (!turned) return NULL;
    int64_t sizes[3];
    for (int k = 0, d = 0; k < 3; d += groups[k++]) sizes[k] = sym_product(b->env, turned->meta->sizes + d, groups[k]);
    return reshaped(b, turned, sizes, 3);
}

static Val *einsum_of_two(Builder *b, Val *x, Val *y, const Einsum *e, const int *order, const int counts[4]) {
    const int n = e->n_dims, both = counts[0], own = counts[1], sum = counts[2], rest = counts[3];
    int64_t left[EINSUM_DIMS], right[EINSUM_DIMS], sizes[EINSUM_DIMS], back[EINSUM_DIMS];
    for (int i = 0; i < n; i++) { /* x: both, own, summed, rest; y: both, summed, rest, own */
        left[i] = order[i];
        right[i] = order[i < both ? i : i < both + sum + rest ? i + own : i - sum - rest];
        const bool is_summed = i >= both + own && i < both + own + sum;
        sizes[i] = is_summed ? 1 : (i < both + own ? x : y)->meta->sizes[order[i]];
        back[order[i]] = i;
    }
    Val *const a = as_matrices(b, x, left, n, (const int[]){both, own, sum + rest});
    Val *const c = as_matrices(b, y, right, n, (const int[]){both, sum, rest + own});
    if (!a || !c) return NULL;
    const DType common = dtype_promote(a->meta->dtype, c->meta->dtype); /* sums of ints are wider */
    Val *const product = E(b, bmm, V(in_dtype(b, a, common)), V(in_dtype(b, c, common)));
    return product ? E(b, permute, V(reshaped(b, product, sizes, n)), A_INTS(back, n)) : NULL;
}

static Val *contraction(Builder *b, Val *x, Val *y, const Einsum *e, int *left) {
    if (!x || !y) return NULL;
    const EinsumStep step = einsum_step(b->env, e, left, x->meta->sizes, y->meta->sizes);
    int order[EINSUM_DIMS], counts[4];
    einsum_product(b->env, e, &step, x->meta->sizes, y->meta->sizes, order, counts);
    Val *const a = summed_over(b, x, e, step.sum_a), *const c = summed_over(b, y, e, step.sum_b);
    if (!step.any) return E(b, mul_Tensor, V(a), V(c));
    return a && c ? einsum_of_two(b, a, c, e, order, counts) : NULL;
}

/* The dims behind the result's are of size 1; of one operand they are summed over. */
static Val *without_summed(Builder *b, Val *x, const Einsum *e) {
    int64_t dims[EINSUM_DIMS];
    const int n = e->n_dims - e->n_out;
    for (int i = 0; i < n; i++) dims[i] = e->n_out + i;
    if (!n) return x;
    return e->n_operands == 1 ? sum_over(b, x, dims, n, false) : E(b, squeeze_dims, V(x), A_INTS(dims, n));
}

/* (equation, tensors, path) */
Status decomp_einsum(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    Einsum e;
    Val *const *const tensors = args[1].vals;
    int ranks[EINSUM_OPERANDS] = {0}, left[EINSUM_DIMS] = {0};
    for (int k = 0; k < args[1].n && k < EINSUM_OPERANDS; k++) ranks[k] = tensors[k]->meta->rank;
    const char *const wrong = einsum_parse(args[0].string, ranks, args[1].n, &e);
    if (wrong) return error_raise(ST_ARGUMENT, "%s: %s", row->name, wrong); /* the meta rule says more */
    Val *all[EINSUM_OPERANDS] = {NULL};
    for (int k = 0; k < e.n_operands; k++) {
        all[k] = with_all_dims(b, tensors[k], &e, k);
        for (int d = 0; all[k] && d < e.n_dims; d++) left[d] += !sym_same(b->env, all[k]->meta->sizes[d], 1);
    }
    Val *x = all[0];
    for (int k = 1; k < e.n_operands; k++) x = contraction(b, x, all[k], &e, left);
    x = e.n_operands == 1 && e.n_dims == e.n_out ? E(b, clone, V(x)) : without_summed(b, x, &e);
    return done1(outs, in_layout_of(b, row, args, 0, x));
}
