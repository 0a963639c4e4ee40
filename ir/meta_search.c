/* meta_search.c: positions in sorted numbers, medians, repeated positions, triangles' positions, classes as rows
 * (ops/search.def). Where values decide how many there are, no graph holds the call; eagerly nobody reads the sizes. */
#include "ir/meta_rules.h"

MetaFn meta_index_add;

static bool search_is_number(const MetaCall *call, int i) { return call->args[i].kind != ARG_tensor; }

static Status sides_agree(const MetaCall *call) {
    const int right = op_param_find(call->row, "right"), side = op_param_find(call->row, "side");
    if (!arg_given(call, side)) return ST_OK;
    const char *const text = call->args[side].string;
    const bool is_left = !strcmp(text, "left");
    if (!is_left && strcmp(text, "right"))
        return meta_fail(call, ST_ARGUMENT, "side must be 'left' or 'right', not '%s'", text);
    if (call->args[right].i && is_left) return meta_fail(call, ST_ARGUMENT, "side is 'left', but right is set");
    return ST_OK;
}

/* All dims but the last. */
static bool same_rows(const MetaCall *call, const Meta *a, const Meta *b, int less) {
    return a->rank == b->rank && (a->rank <= less || all_same(call->env, a->sizes, b->sizes, a->rank - less));
}

static Status sorter_fits(const MetaCall *call, const Meta *sorted) {
    const Meta *const sorter = tensor_meta(call, op_param_find(call->row, "sorter"));
    if (!sorter) return ST_OK;
    if (sorter->dtype != DT_i64)
        return meta_fail(call, ST_DTYPE, "sorter must be i64, not %s", dtype_name(sorter->dtype));
    if (!same_rows(call, sorter, sorted, 0))
        return meta_fail(call, ST_SHAPE, "sorter %s does not have the sizes of sorted_sequence %s", SIZES(call, sorter),
                         SIZES(call, sorted));
    return same_device(call, sorted, sorter);
}

/* What is searched for in `sorted`, argument `values`: a number has no dims. */
static Status searched(MetaCall *call, int values, int sorted) {
    const Meta *const rows = tensor_meta(call, sorted);
    const DType dtype = call->args[op_param_find(call->row, "out_int32")].i ? DT_i32 : DT_i64;
    if (!rows->rank) return meta_fail(call, ST_SHAPE, "%s has no dims", arg_name(call, sorted));
    if (rows->dtype == DT_bool) return meta_fail(call, ST_DTYPE, "%s must not be bool", arg_name(call, sorted));
    if (search_is_number(call, values)) {
        if (rows->rank != 1)
            return meta_fail(call, ST_SHAPE, "%s must have 1 dim for a number, not sizes %s", arg_name(call, sorted),
                             SIZES(call, rows));
        return out_plain(call, 0, dtype, rows->device, NULL, 0), ST_OK;
    }
    const Meta *const x = tensor_meta(call, values);
    if (rows->rank != 1 && !same_rows(call, rows, x, 1))
        return meta_fail(call, ST_SHAPE, "%s %s and %s %s must have the same dims but for the last",
                         arg_name(call, sorted), SIZES(call, rows), arg_name(call, values), SIZES(call, x));
    out_plain(call, 0, dtype, rows->device, x->sizes, x->rank);
    return same_device(call, rows, x);
}

/* (sorted_sequence, self, out_int32, right, side, sorter) */
Status meta_searchsorted(MetaCall *call) {
    TRY(sides_agree(call));
    TRY(sorter_fits(call, tensor_meta(call, 0)));
    return searched(call, 1, 0);
}

/* (self, boundaries, out_int32, right) */
Status meta_bucketize(MetaCall *call) {
    const Meta *const boundaries = tensor_meta(call, 1);
    if (boundaries->rank != 1)
        return meta_fail(call, ST_SHAPE, "boundaries must have 1 dim, not sizes %s", SIZES(call, boundaries));
    return searched(call, 0, 1);
}

static Status orders(const MetaCall *call) {
    const Meta *const self = tensor_meta(call, 0);
    return self->dtype == DT_bool ? meta_fail(call, ST_DTYPE, "self must not be bool") : ST_OK;
}

Status meta_median(MetaCall *call) {
    TRY(orders(call));
    out_plain(call, 0, tensor_meta(call, 0)->dtype, tensor_meta(call, 0)->device, NULL, 0);
    return ST_OK;
}

/* (self, dim, keepdim) */
Status meta_median_dim(MetaCall *call) {
    const Meta *const self = tensor_meta(call, 0);
    bool reduced[MAX_RANK] = {false};
    int dim = 0;
    TRY(orders(call));
    TRY(wrap_dim(call, call->args[1].i, self->rank, "dim", &dim));
    if (self->rank && sym_same(call->env, self->sizes[dim], 0))
        return meta_fail(call, ST_SHAPE, "dim %d of self %s has no element", dim, SIZES(call, self));
    reduced[dim] = true;
    for (int i = 0; i < 2; i++) reduced_out(call, i, self, reduced, call->args[2].i, i ? DT_i64 : self->dtype);
    call->order = ORDER_none;
    return ST_OK;
}

static Status depends_on_values(const MetaCall *call, const char *what) {
    if (!call->env) return ST_OK;
    return meta_fail(call, ST_UNSUPPORTED, "how many %s there are depends on values", what);
}

/* (self, num_classes) */
Status meta_one_hot(MetaCall *call) {
    const Meta *const self = tensor_meta(call, 0);
    int64_t sizes[MAX_RANK], n = call->args[1].i;
    if (self->dtype != DT_i64) return meta_fail(call, ST_DTYPE, "self must be i64, not %s", dtype_name(self->dtype));
    if (self->rank == MAX_RANK) return meta_fail(call, ST_SHAPE, "more than %d dims", MAX_RANK);
    const bool is_open = !sym_is(n) && n == -1, is_empty = sym_same(call->env, self->numel, 0);
    if (is_open && is_empty)
        return meta_fail(call, ST_ARGUMENT, "num_classes -1 of self %s, which has no largest element",
                         SIZES(call, self));
    if (!is_open && sym_less(call->env, n, 1))
        return meta_fail(call, ST_ARGUMENT, "num_classes must be at least 1, or -1, not %s",
                         sizes_text(call, &n, 1).at);
    if (is_open) TRY(depends_on_values(call, "classes"));
    if (self->rank) memcpy(sizes, self->sizes, sizeof *sizes * (size_t)self->rank);
    sizes[self->rank] = is_open ? 1 : n;
    TRY(check_numel(call, sizes, self->rank + 1));
    out_plain(call, 0, DT_i64, self->device, sizes, self->rank + 1);
    return ST_OK;
}

static Status repeats_fit(const MetaCall *call, int i) {
    const Meta *const repeats = tensor_meta(call, i);
    if (repeats->dtype == DT_i64 || repeats->dtype == DT_i32) return ST_OK;
    return meta_fail(call, ST_DTYPE, "repeats must be i64 or i32, not %s", dtype_name(repeats->dtype));
}

/* The given count, which is `fallback` where there is none. */
static Status repeated_size(const MetaCall *call, int64_t fallback, int64_t *size) {
    const Arg *const given = arg_named(call, "output_size");
    *size = given->kind == ARG_int ? given->i : fallback;
    if (!sym_less(call->env, *size, 0)) return ST_OK;
    return meta_fail(call, ST_ARGUMENT, "output_size must not be negative, but is %s", sizes_text(call, size, 1).at);
}

/* (repeats, output_size) */
Status meta_repeat_interleave(MetaCall *call) {
    const Meta *const repeats = tensor_meta(call, 0);
    int64_t size;
    TRY(repeats_fit(call, 0));
    if (repeats->rank != 1)
        return meta_fail(call, ST_SHAPE, "repeats must have 1 dim, not sizes %s", SIZES(call, repeats));
    if (!arg_given(call, 1)) TRY(depends_on_values(call, "positions"));
    TRY(repeated_size(call, 0, &size));
    out_plain(call, 0, repeats->dtype, repeats->device, &size, 1);
    return ST_OK;
}

/* self with another size along a dim; without one, all elements are that dim. */
static Status along_dim(MetaCall *call, const Arg *dim, int *at, int64_t *sizes, int *rank) {
    const Meta *const self = tensor_meta(call, 0);
    *at = 0, *rank = 1, sizes[0] = self->numel;
    if (dim->kind != ARG_int) return ST_OK;
    TRY(wrap_dim(call, dim->i, self->rank, "dim", at));
    if (!self->rank) return ST_OK;
    *rank = self->rank;
    memcpy(sizes, self->sizes, sizeof *sizes * (size_t)self->rank);
    return ST_OK;
}

/* (self, repeats, dim, output_size) */
Status meta_repeat_interleave_self(MetaCall *call) {
    const Meta *const self = tensor_meta(call, 0), *const repeats = tensor_meta(call, 1);
    int64_t sizes[MAX_RANK];
    int dim, rank;
    TRY(repeats_fit(call, 1));
    TRY(along_dim(call, &call->args[2], &dim, sizes, &rank));
    const bool one = !repeats->rank || (repeats->rank == 1 && sym_same(call->env, repeats->sizes[0], 1));
    if (!one && (repeats->rank != 1 || !sym_same(call->env, repeats->sizes[0], sizes[dim])))
        return meta_fail(call, ST_SHAPE, "repeats %s must have one element, or one for each of %s along dim %d",
                         SIZES(call, repeats), sizes_text(call, sizes, rank).at, dim);
    if (!arg_given(call, 3)) TRY(depends_on_values(call, "slices"));
    TRY(repeated_size(call, sizes[dim], &sizes[dim]));
    TRY(check_numel(call, sizes, rank));
    out_plain(call, 0, self->dtype, self->device, sizes, rank);
    return same_device(call, self, repeats);
}

/* (self, repeats, dim, output_size) */
Status meta_repeat_interleave_int(MetaCall *call) {
    const Meta *const self = tensor_meta(call, 0);
    const int64_t repeats = call->args[1].i;
    int64_t sizes[MAX_RANK], given;
    int dim, rank;
    if (sym_less(call->env, repeats, 0))
        return meta_fail(call, ST_ARGUMENT, "repeats must not be negative, but is %s",
                         sizes_text(call, &repeats, 1).at);
    TRY(along_dim(call, &call->args[2], &dim, sizes, &rank));
    const int64_t both[2] = {sizes[dim], repeats};
    TRY(check_numel(call, both, 2));
    sizes[dim] = sym_mul(call->env, sizes[dim], repeats);
    TRY(repeated_size(call, sizes[dim], &given));
    if (!sym_same(call->env, given, sizes[dim]))
        return meta_fail(call, ST_ARGUMENT, "output_size is %s, but there are %s slices",
                         sizes_text(call, &given, 1).at, sizes_text(call, &sizes[dim], 1).at);
    TRY(check_numel(call, sizes, rank));
    out_plain(call, 0, self->dtype, self->device, sizes, rank);
    return ST_OK;
}

/* Of 1 + 2 ... + n */
static int64_t sum_to(int64_t n) { return n < 1 ? 0 : n * (n + 1) / 2; }

/* How many elements of row by col are on the diagonal at offset or below it: of each row offset + 1, offset + 2 ..., at
 * most col. */
static int64_t below_diagonal(int64_t row, int64_t col, int64_t offset) {
    const int64_t last = min_i64(offset + row, col); /* of the rows that are not whole, the longest */
    const int64_t whole = max_i64(0, min_i64(row, offset + row - col));
    return sum_to(last) - sum_to(min_i64(offset, col)) + whole * col;
}

static Status triangle(MetaCall *call, bool upper) {
    const int64_t row = call->args[0].i, col = call->args[1].i, offset = call->args[2].i;
    const int64_t most = INT64_C(1) << 31, both[2] = {row, col};
    if (row < 0 || col < 0)
        return meta_fail(call, ST_ARGUMENT, "row and col must not be negative, but are %lld and %lld", (long long)row,
                         (long long)col);
    TRY(check_numel(call, both, 2));
    if (row > most || col > most)
        return meta_fail(call, ST_SHAPE, "row %lld and col %lld: at most %lld", (long long)row, (long long)col,
                         (long long)most);
    const int64_t near = max_i64(min_i64(offset, col + 1), -row - 1); /* as good as any that is farther */
    const int64_t below = below_diagonal(row, col, upper ? near - 1 : near);
    const int64_t sizes[2] = {2, upper ? row * col - below : below};
    const int device = call->row->device;
    out_plain(call, 0, dtype_arg(call, "dtype", DT_i64),
              call->args[device].kind == ARG_int ? (Device)call->args[device].i : DEV_cpu, sizes, 2);
    if (call->out[0].dtype == DT_bool) return meta_fail(call, ST_DTYPE, "dtype must not be bool");
    return ST_OK;
}
Status meta_tril_indices(MetaCall *call) { return triangle(call, false); }
Status meta_triu_indices(MetaCall *call) { return triangle(call, true); }

/* (self, dim, index, source, reduce, include_self) */
Status meta_index_reduce(MetaCall *call) {
    static const char *const known[] = {"prod", "mean", "amax", "amin"};
    bool is_known = false;
    for (int i = 0; i < COUNT_OF(known); i++) is_known |= !strcmp(call->args[4].string, known[i]);
    if (!is_known)
        return meta_fail(call, ST_ARGUMENT, "reduce must be 'prod', 'mean', 'amax' or 'amin', not '%s'",
                         call->args[4].string);
    return meta_index_add(call);
}
