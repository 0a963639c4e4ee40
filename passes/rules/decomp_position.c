/* decomp_position.c: reads and writes at positions of several dims, as reads and writes of the rows of one: the dims
 * that have positions are brought together and merged, and each position becomes the number of its row, ordered as
 * [B2.7] has it.
 *
 *     x[:, i, j]  with x [a, b, c]  reads  x viewed [a, b * c]  at  i * c + j  of dim 1 */
#include "passes/rules/decomp.h"
#include "ir/meta_rules.h"
#include "ir/op_ids.h"

typedef struct Merged {
    Val *self;   /* [before..., merged dims, after...] */
    Val *number; /* of the row, with the positions' own sizes */
    int dim;     /* where the merged dim is */
    int rank;
    int64_t order[MAX_RANK]; /* of self's dims before merging */
    int64_t parts[MAX_RANK]; /* sizes in that order */
    int n_merged;
} Merged;

typedef struct Positions {
    int n;
    Val *at[MAX_RANK];    /* each for one dim */
    Val *given[MAX_RANK]; /* as the call has it, or of a mask */
    int dim[MAX_RANK];
} Positions;

/* A mask stands for the positions where it is true, one tensor for each of its dims. */
static bool add_mask(Builder *b, Positions *all, Val *mask, int dim) {
    Val *found[MAX_RANK] = {0};
    if (emit(b, OP_where, &V(mask), 1, found) != ST_OK) return false;
    for (int d = 0; d < mask->meta->rank; d++) {
        all->dim[all->n] = dim + d;
        all->given[all->n] = all->at[all->n] = found[d];
        all->n++;
    }
    return true;
}

static bool positions_of(Builder *b, const Arg *list, const Meta *self, Positions *all) {
    *all = (Positions){0};
    for (int i = 0, dim = 0; i < list->n; i++, dim++) {
        Val *const index = list->vals[i];
        if (!index) continue;
        if (index->meta->dtype == DT_bool || index->meta->dtype == DT_u8) {
            if (!add_mask(b, all, index, dim)) return false;
            dim += index->meta->rank - 1;
            continue;
        }
        all->dim[all->n] = dim;
        all->given[all->n] = index;
        all->at[all->n] = E(b, index_positions, V(index), I(self->sizes[dim]), I(dim));
        if (!all->at[all->n++]) return false;
    }
    return true;
}

static bool are_together(const Positions *all) {
    for (int i = 1; i < all->n; i++)
        if (all->dim[i] != all->dim[i - 1] + 1) return false;
    return true;
}

/* self with the dims that have positions side by side, where they are or first. */
static void bring_together(const Positions *all, const Meta *self, Merged *m) {
    bool has[MAX_RANK] = {false};
    for (int i = 0; i < all->n; i++) has[all->dim[i]] = true;
    m->dim = are_together(all) ? all->dim[0] : 0;
    m->n_merged = all->n;
    m->rank = self->rank;
    int n = 0;
    for (int d = 0; n < m->dim; d++) m->order[n++] = d;
    for (int i = 0; i < all->n; i++) m->order[n++] = all->dim[i];
    for (int d = m->dim; d < self->rank; d++)
        if (!has[d]) m->order[n++] = d;
    for (int d = 0; d < self->rank; d++) m->parts[d] = self->sizes[m->order[d]];
}

static Val *permuted(Builder *b, Val *x, const int64_t *order, int rank) {
    bool plain = true;
    for (int d = 0; d < rank; d++) plain &= order[d] == d;
    return plain ? x : E(b, permute, V(x), A_INTS(order, rank));
}

/* The sizes of [before..., middle..., after...]. */
static int sizes_around(const Merged *m, const int64_t *middle, int n_middle, int64_t *sizes) {
    int n = 0;
    for (int d = 0; d < m->dim; d++) sizes[n++] = m->parts[d];
    for (int d = 0; d < n_middle; d++) sizes[n++] = middle[d];
    for (int d = m->dim + m->n_merged; d < m->rank; d++) sizes[n++] = m->parts[d];
    return n;
}

static Val *merge(Builder *b, Val *x, Merged *m) {
    if (m->n_merged == 1) return x;
    int64_t sizes[MAX_RANK], all = 1;
    for (int i = 0; i < m->n_merged; i++) all = sym_mul(b->env, all, m->parts[m->dim + i]);
    return reshaped(b, x, sizes, sizes_around(m, &all, 1, sizes));
}

/* i * c + j: row-major among the merged dims; the positions broadcast. */
static Val *row_number(Builder *b, const Positions *all, const Merged *m) {
    Val *number = all->at[0];
    for (int i = 1; i < all->n; i++) {
        Val *const above = E(b, mul_Tensor, V(number), I(m->parts[m->dim + i]));
        number = E(b, add_Tensor, V(above), V(all->at[i]));
    }
    return number;
}

static bool merged_of(Builder *b, const Arg *args, const Positions *all, Merged *m) {
    bring_together(all, args[0].val->meta, m);
    m->number = row_number(b, all, m);
    m->self = merge(b, permuted(b, args[0].val, m->order, m->rank), m);
    return m->number && m->self;
}

static Val *flat_number(Builder *b, const Merged *m) {
    const int64_t sizes[1] = {m->number->meta->numel};
    return m->number->meta->rank == 1 ? m->number : reshaped(b, m->number, sizes, 1);
}

DecompFn decomp_masked_select, decomp_masked_scatter, decomp_masked_scatter_backward;
DecompFn decomp_index, decomp_index_put;

/* The layout that index gives the call with what a mask stands for in the mask's place. */
static Val *in_index_layout(Builder *b, const OpRow *row, const Arg *args, const Positions *all, Val *x) {
    Val *list[MAX_RANK] = {0};
    int n = 0;
    for (int i = 0; i < all->n; i++) list[all->dim[i]] = all->given[i], n = all->dim[i] + 1;
    return in_layout_of(b, row, (const Arg[]){args[0], A_VALS(list, n)}, 0, x);
}

Status decomp_index(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    Positions all;
    Merged m;
    int64_t sizes[MAX_RANK];
    if (!positions_of(b, &args[1], args[0].val->meta, &all)) return error_pending();
    if (!all.n) return done1(outs, E(b, clone, args[0]));
    if (!merged_of(b, args, &all, &m)) return error_pending();
    Val *const read = E(b, index_select, V(m.self), I(m.dim), V(flat_number(b, &m)));
    const int rank = sizes_around(&m, m.number->meta->sizes, m.number->meta->rank, sizes);
    Val *const placed = m.number->meta->rank == 1 ? read : reshaped(b, read, sizes, rank);
    return done1(outs, in_index_layout(b, row, args, &all, placed));
}

/* values as [before..., all positions, after...] */
static Val *spread_values(Builder *b, Val *values, const Merged *m) {
    const Meta *const number = m->number->meta;
    int64_t sizes[MAX_RANK];
    const int rank = sizes_around(m, number->sizes, number->rank, sizes);
    Val *const wide = E(b, expand, V(values), A_INTS(sizes, rank));
    return number->rank == 1 ? wide : reshaped(b, wide, sizes, sizes_around(m, &number->numel, 1, sizes));
}

/* The row numbers at every element of values: scatter takes no less. */
static Val *spread_number(Builder *b, const Merged *m, const Meta *values) {
    int64_t sizes[MAX_RANK];
    for (int d = 0; d < values->rank; d++) sizes[d] = d == m->dim ? values->sizes[d] : 1;
    Val *const number = reshaped(b, m->number, sizes, values->rank);
    return E(b, expand, V(number), A_INTS(values->sizes, values->rank));
}

/* Dims apart again and in their places, in the strides of self. */
static Val *put_back(Builder *b, Val *written, const Merged *m, const Arg *self) {
    int64_t back[MAX_RANK];
    for (int d = 0; d < m->rank; d++) back[m->order[d]] = d;
    Val *const apart = m->n_merged == 1 ? written : reshaped(b, written, m->parts, m->rank);
    Val *const placed = apart ? permuted(b, apart, back, m->rank) : NULL;
    int64_t strides[MAX_RANK]; /* a clone's */
    bool same = placed != NULL;
    if (same) preserved_strides(b->env, self->val->meta, strides);
    for (int d = 0; same && d < m->rank; d++) same = builder_identical(b, placed->meta->strides[d], strides[d]);
    return same || !placed ? placed : E(b, copy, V(E(b, clone, *self)), V(placed));
}

Status decomp_index_put(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    Positions all;
    Merged m;
    if (!positions_of(b, &args[1], args[0].val->meta, &all)) return error_pending();
    if (!all.n)
        return done1(outs,
                     args[3].i ? E(b, add_Tensor, args[0], args[2]) : E(b, copy, V(E(b, clone, args[0])), args[2]));
    if (!merged_of(b, args, &all, &m)) return error_pending();
    Val *const values = spread_values(b, args[2].val, &m);
    if (!values) return error_pending();
    Val *const written = args[3].i
                             ? E(b, index_add, V(m.self), I(m.dim), V(flat_number(b, &m)), V(values))
                             : E(b, scatter_src, V(m.self), I(m.dim), V(spread_number(b, &m, values->meta)), V(values));
    return done1(outs, put_back(b, written, &m, &args[0]));
}

/* What x and mask broadcast to. */
static int masked_sizes(Builder *b, const Meta *x, const Meta *mask, int64_t *sizes) {
    const Meta *const wide = x->rank >= mask->rank ? x : mask, *const other = wide == x ? mask : x;
    memcpy(sizes, wide->sizes, sizeof *sizes * (size_t)wide->rank);
    for (int d = 0; d < other->rank; d++) {
        int64_t *const at = &sizes[wide->rank - other->rank + d];
        if (sym_same(b->env, *at, 1)) *at = other->sizes[d];
    }
    return wide->rank;
}

/* index by the mask, both in the sizes that they broadcast to */
Status decomp_masked_select(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    Val *both[2];
    int64_t sizes[MAX_RANK];
    const int rank = masked_sizes(b, args[0].val->meta, args[1].val->meta, sizes);
    for (int i = 0; i < 2; i++) {
        both[i] = E(b, expand, args[i], A_INTS(sizes, rank));
        if (!rank) both[i] = E(b, unsqueeze, V(both[i]), I(0)); /* a mask needs a dim */
        if (!both[i]) return error_pending();
    }
    return done1(outs, E(b, index_Tensor, V(both[0]), A_VALS(&both[1], 1)));
}

/* A mask, and what goes with it, as one dim of the elements that they broadcast to. */
typedef struct Masked {
    int rank;
    int64_t sizes[MAX_RANK];
    Val *mask, *x;
    Val *place; /* of a one: how many there are before it */
} Masked;

static Val *in_one_dim(Builder *b, Val *x, const Masked *m) {
    Val *const wide = E(b, expand, V(x), A_INTS(m->sizes, m->rank));
    return wide ? reshaped(b, wide, &wide->meta->numel, 1) : NULL;
}

static Masked masked_of(Builder *b, Val *x, Val *mask) {
    Masked m = {0};
    m.rank = masked_sizes(b, x->meta, mask->meta, m.sizes);
    m.x = in_one_dim(b, x, &m);
    m.mask = in_one_dim(b, mask, &m);
    m.place = E(b, sub_Tensor, V(E(b, cumsum, V(m.mask), I(0))), I(1));
    return m;
}

/* (self, mask, source): each one reads the element of its place. Where there is no source, it may have no ones: then
 * all read from one element that is no source's, and a one reads at -1. */
Status decomp_masked_scatter(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const Masked m = masked_of(b, args[0].val, args[1].val);
    const Meta *const source = args[2].val->meta;
    const bool none = sym_same(b->env, source->numel, 0);
    const int64_t one = 1;
    Val *const from = none ? zeros_of_sizes(b, source, &one, 1) : reshaped(b, args[2].val, &source->numel, 1);
    Val *const at = E(b, where_self, V(m.mask), none ? I(-1) : V(m.place), I(0));
    Val *const read = E(b, index_select, V(from), I(0), V(at));
    Val *const flat = E(b, where_self, V(m.mask), V(read), V(m.x));
    return done1(outs, flat ? reshaped(b, flat, m.sizes, m.rank) : NULL);
}

/* (grad_output, mask, sizes): all but the ones write to an element behind the last, which is left out. */
Status decomp_masked_scatter_backward(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const Masked m = masked_of(b, args[0].val, args[1].val);
    int64_t numel = 1;
    for (int i = 0; i < args[2].n; i++) numel = sym_mul(b->env, numel, args[2].ints[i]);
    const int64_t capacity = sym_add(b->env, numel, 1);
    Val *const zeros = zeros_of_sizes(b, args[0].val->meta, &capacity, 1);
    Val *const at = E(b, where_self, V(m.mask), V(m.place), I(numel));
    Val *const written = E(b, scatter_src, V(zeros), I(0), V(at), V(m.x));
    Val *const ones = E(b, slice_Tensor, V(written), I(0), I(0), I(numel));
    return done1(outs, ones ? reshaped(b, ones, args[2].ints, args[2].n) : NULL);
}
