/* decomp_view.c: composites that are views, or copies where no view exists; casts that change
 * nothing return their argument itself. */
#include "passes/rules/decomp.h"
#include "ir/op_ids.h"

#include "runtime/base/small_array.h"

DecompFn decomp_reshape, decomp_flatten, decomp_contiguous, decomp_to, decomp_narrow, decomp_view_as, decomp_reshape_as;
DecompFn decomp_expand_as, decomp_broadcast_to, decomp_movedim, decomp_unflatten, decomp_split, decomp_split_with_sizes;
DecompFn decomp_chunk, decomp_unbind, decomp_stack, decomp_repeat;

Status decomp_reshape(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return done1(outs, reshaped(b, args[0].val, args[1].ints, args[1].n));
}

Status decomp_flatten(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const Meta *const meta = args[0].val->meta;
    const int first = dim_of(&args[1], meta->rank), last = dim_of(&args[2], meta->rank);
    int64_t sizes[MAX_RANK + 1] = {1};
    int n = 0;
    if (meta->rank == 0) return done1(outs, E(b, view, args[0], A_INTS(sizes, 1)));
    if (first > last) return error_raise(ST_ARGUMENT, "aten::flatten: start_dim %d is after end_dim %d", first, last);
    for (int d = 0; d < meta->rank; d++) {
        if (d > first && d <= last)
            sizes[n - 1] = sym_mul(b->env, sizes[n - 1], meta->sizes[d]);
        else
            sizes[n++] = meta->sizes[d];
    }
    if (first == last) return done1(outs, args[0].val);
    return done1(outs, reshaped(b, args[0].val, sizes, n));
}

Status decomp_contiguous(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const bool done = meta_is_in_format(b->env, args[0].val->meta, args[1].i);
    return done1(outs, done ? args[0].val : E(b, clone, args[0], I(args[1].i)));
}

static const Arg *named(const OpRow *row, const Arg *args, const char *name) {
    const int i = op_param_find(row, name);
    return i < 0 || args[i].kind == ARG_none ? NULL : &args[i];
}

Status decomp_to(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const Meta *const meta = args[0].val->meta;
    const Arg *const other = named(row, args, "other");
    const Arg others[] = {other ? I(other->val->meta->dtype) : A_NONE, other ? I(other->val->meta->device) : A_NONE};
    const Arg *const dtype = other ? &others[0] : named(row, args, "dtype"), *const device =
                                                                                 other ? &others[1]
                                                                                       : named(row, args, "device");
    const Arg *const copy = named(row, args, "copy"), *const format = named(row, args, "memory_format");
    const bool same = (!dtype || dtype->i == (int64_t)meta->dtype) && (!device || device->i == meta->device);
    const bool kept = !format || format->i == 1 /* preserve_format */ || (format->i == 0 && meta->contiguous);
    if (same && !(copy && copy->i) && kept) return done1(outs, args[0].val);
    const Arg full[] = {args[0],       dtype ? *dtype : A_NONE,  A_NONE, device ? *device : A_NONE, A_NONE,
                        A_BOOL(false), format ? *format : A_NONE};
    return done1(outs, emit1(b, OP__to_copy, full, COUNT_OF(full)));
}

Status decomp_narrow(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const Meta *const meta = args[0].val->meta;
    const int dim = dim_of(&args[1], meta->rank);
    int64_t start = args[2].i;
    if (sym_less(b->env, start, 0)) start = sym_add(b->env, start, meta->sizes[dim]);
    const int64_t end = sym_add(b->env, start, args[3].i);
    if (sym_less(b->env, args[3].i, 0) || sym_less(b->env, meta->sizes[dim], end))
        return error_raise(ST_ARGUMENT, "aten::narrow: start and length exceed the size of dim %d", dim);
    return done1(outs, E(b, slice_Tensor, args[0], I(dim), I(start), I(end)));
}

Status decomp_view_as(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const Meta *const like = args[1].val->meta;
    return done1(outs, E(b, view, args[0], A_INTS(like->sizes, like->rank)));
}
Status decomp_reshape_as(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const Meta *const like = args[1].val->meta;
    return done1(outs, reshaped(b, args[0].val, like->sizes, like->rank));
}
Status decomp_expand_as(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const Meta *const like = args[1].val->meta;
    return done1(outs, E(b, expand, args[0], A_INTS(like->sizes, like->rank)));
}
Status decomp_broadcast_to(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return done1(outs, E(b, expand, args[0], args[1]));
}

Status decomp_movedim(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const int rank = args[0].val->meta->rank;
    const bool list = args[1].kind == ARG_ints; /* else an int each */
    const int64_t *const source = list ? args[1].ints : &args[1].i, *const destination =
                                                                        list ? args[2].ints : &args[2].i;
    int64_t order[MAX_RANK];
    bool moved[MAX_RANK] = {false};
    for (int d = 0; d < rank; d++) order[d] = -1;
    for (int i = 0; i < (list ? args[1].n : 1); i++) {
        const int from = dim_of(&I(source[i]), rank), to = dim_of(&I(destination[i]), rank);
        order[to] = from;
        moved[from] = true;
    }
    for (int d = 0, next = 0; d < rank; d++) {
        if (order[d] >= 0) continue;
        while (moved[next]) next++;
        order[d] = next++;
    }
    return done1(outs, E(b, permute, args[0], A_INTS(order, rank)));
}

Status decomp_unflatten(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const Meta *const meta = args[0].val->meta;
    const int dim = dim_of(&args[1], meta->rank);
    int64_t sizes[MAX_RANK], known = 1;
    int n = 0, hole = -1;
    for (int d = 0; d < meta->rank; d++) {
        if (d != dim) sizes[n++] = meta->sizes[d];
        for (int i = 0; d == dim && i < args[2].n; i++) {
            if (args[2].ints[i] == -1)
                hole = n;
            else
                known = sym_mul(b->env, known, args[2].ints[i]);
            sizes[n++] = args[2].ints[i];
        }
    }
    if (hole >= 0 && known != 0) sizes[hole] = sym_div(b->env, meta->sizes[dim], known);
    return done1(outs, E(b, view, args[0], A_INTS(sizes, n)));
}

/* lists --------------------------------------------------------------------------------------- */

static Val *part(Builder *b, Val *x, int dim, int64_t start, int64_t end) {
    return E(b, slice_Tensor, V(x), I(dim), I(start), I(end));
}

/* size / by, rounded up; 0 by 0 is 0. */
static int64_t quotient_above(SymEnv *env, int64_t size, int64_t by) {
    if (sym_same(env, by, 0)) return 0;
    if (!sym_is(by)) by = min_i64(by, SYM_MOST);                      /* no size is more, and sums with it fit */
    return sym_div(env, sym_add(env, size, sym_sub(env, by, 1)), by); /* as PyTorch's exports have it */
}

/* How many is a decision. least: a dim of size 0 has as many empty parts. */
static Status equal_parts(Builder *b, Val *x, int dim, int64_t each, int64_t least, Val **outs) {
    const int64_t size = x->meta->sizes[dim];
    const int64_t n = max_i64(least, sym_concrete(b->env, quotient_above(b->env, size, each)));
    for (int64_t i = 0; i < n; i++) {
        const int64_t start = sym_mul(b->env, each, i);
        outs[i] = part(b, x, dim, start, i == n - 1 ? size : sym_add(b->env, start, each));
        if (!outs[i]) return error_pending();
    }
    return ST_OK;
}

Status decomp_split(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const int dim = dim_of(&args[2], args[0].val->meta->rank);
    return equal_parts(b, args[0].val, dim, args[1].i, 1, outs);
}

Status decomp_chunk(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const int dim = dim_of(&args[2], args[0].val->meta->rank);
    const int64_t size = args[0].val->meta->sizes[dim], chunks = args[1].i;
    const bool none = sym_same(b->env, size, 0);
    return equal_parts(b, args[0].val, dim, none ? 0 : quotient_above(b->env, size, chunks), none ? chunks : 1, outs);
}

Status decomp_split_with_sizes(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const int dim = dim_of(&args[2], args[0].val->meta->rank);
    int64_t at = 0;
    for (int i = 0; i < args[1].n; i++) {
        const int64_t end = sym_add(b->env, at, args[1].ints[i]);
        outs[i] = part(b, args[0].val, dim, at, end);
        if (!outs[i]) return error_pending();
        at = end;
    }
    return ST_OK;
}

Status decomp_unbind(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const int dim = dim_of(&args[1], args[0].val->meta->rank);
    const int64_t n = sym_concrete(b->env, args[0].val->meta->sizes[dim]);
    for (int64_t i = 0; i < n; i++) {
        outs[i] = E(b, select_int, args[0], I(dim), I(i));
        if (!outs[i]) return error_pending();
    }
    return ST_OK;
}

/* copies -------------------------------------------------------------------------------------- */

Status decomp_stack(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const Meta *const first = args[0].vals[0]->meta;
    const int rank = first->rank + 1, dim = dim_of(&args[1], rank);
    if (dim < first->rank) {
        int64_t sizes[MAX_RANK];
        for (int d = 0; d < rank; d++) sizes[d] = d == dim ? args[0].n : first->sizes[d - (d > dim)];
        return done1(outs, E(b, _unsafe_view, V(E(b, cat, args[0], I(dim))), A_INTS(sizes, rank)));
    }
    Val *few[32], **const parts = SMALL_ARRAY(few, args[0].n);
    bool made = parts != NULL;
    for (int i = 0; made && i < args[0].n; i++) made = (parts[i] = E(b, unsqueeze, V(args[0].vals[i]), I(dim)));
    Val *const joined = made ? E(b, cat, A_VALS(parts, args[0].n), I(dim)) : NULL;
    small_array_free(few, parts);
    return done1(outs, joined);
}

/* [a, b] repeated [r, s]: expanded to [r, a, s, b], copied, merged. */
Status decomp_repeat(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const Meta *const meta = args[0].val->meta;
    const int n = args[1].n, extra = n - meta->rank;
    int64_t ones[MAX_RANK], wide[MAX_RANK], merged[MAX_RANK];
    if (extra < 0 || 2 * n > MAX_RANK)
        return error_raise(ST_ARGUMENT, "aten::repeat: %d repeats for a tensor of %d dims", n, meta->rank);
    for (int d = 0; d < n; d++) {
        const int64_t size = d < extra ? 1 : meta->sizes[d - extra];
        ones[2 * d] = 1;
        wide[2 * d] = args[1].ints[d];
        ones[2 * d + 1] = wide[2 * d + 1] = size;
        merged[d] = sym_mul(b->env, size, args[1].ints[d]);
    }
    Val *const spread = reshaped(b, args[0].val, ones, 2 * n);
    Val *const copy = E(b, clone, V(E(b, expand, V(spread), A_INTS(wide, 2 * n))), I(0));
    return done1(outs, E(b, _unsafe_view, V(copy), A_INTS(merged, n)));
}

DecompFn decomp_numpy_T, decomp_broadcast_tensors, decomp_meshgrid;

Status decomp_numpy_T(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const int rank = args[0].val->meta->rank;
    int64_t order[MAX_RANK];
    for (int d = 0; d < rank; d++) order[d] = rank - 1 - d;
    return done1(outs, E(b, permute, args[0], A_INTS(order, rank)));
}

/* The sizes that all broadcast to, from behind; the meta rule has seen that they do. */
static int common_sizes(Builder *b, const Arg *list, int64_t *sizes) {
    int rank = 0;
    for (int i = 0; i < list->n; i++) rank = (int)max_i64(rank, list->vals[i]->meta->rank);
    for (int d = 0; d < rank; d++) sizes[d] = 1;
    for (int i = 0; i < list->n; i++) {
        const Meta *const meta = list->vals[i]->meta;
        int64_t *const at = &sizes[rank - meta->rank];
        for (int d = 0; d < meta->rank; d++)
            if (sym_same(b->env, at[d], 1)) at[d] = meta->sizes[d];
    }
    return rank;
}

Status decomp_broadcast_tensors(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    int64_t sizes[MAX_RANK];
    const int rank = common_sizes(b, &args[0], sizes);
    for (int i = 0; i < args[0].n; i++) {
        outs[i] = E(b, expand, V(args[0].vals[i]), A_INTS(sizes, rank));
        if (!outs[i]) return error_pending();
    }
    return ST_OK;
}

/* (tensors, [indexing]): tensor i is dim i of the grid; of 'xy' the first two are exchanged. */
Status decomp_meshgrid(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const Arg *const list = &args[0];
    const bool exchanged = row->n_params > 1 && !strcmp(args[1].string, "xy") && list->n > 1;
    int64_t grid[MAX_RANK], sizes[MAX_RANK];
    for (int i = 0; i < list->n; i++)
        grid[exchanged && i < 2 ? 1 - i : i] = list->vals[i]->meta->rank ? list->vals[i]->meta->sizes[0] : 1;
    for (int i = 0; i < list->n; i++) {
        const int at = exchanged && i < 2 ? 1 - i : i;
        for (int d = 0; d < list->n; d++) sizes[d] = d == at ? grid[d] : 1;
        Val *const apart = E(b, view, V(list->vals[i]), A_INTS(sizes, list->n));
        outs[i] = E(b, expand, V(apart), A_INTS(grid, list->n));
        if (!outs[i]) return error_pending();
    }
    return ST_OK;
}
