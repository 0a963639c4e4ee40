/* sparse.c: sparse tensors (sinter/sparse.h): making them, their parts, conversions. */
#include "frontend/api/enter.h"
#include "frontend/api/ops_call.h"
#include "frontend/api/sparse.h"

/* A part of a sparse tensor: i64 or values, on the CPU. */
static Status check_part(sn_tensor *t, const char *what, const char *part, int rank, bool positions) {
    TRY(error_pending());
    if (!t) return error_raise(ST_ARGUMENT, "%s: %s is NULL", what, part);
    TRY(tensor_valid(t, what));
    TRY(tensor_alone(t, what));
    const Meta *const meta = t->base.meta;
    if (t->keys & KEYS_UNCAPTURED || meta->device != DEV_cpu)
        return error_raise(ST_UNSUPPORTED, "%s: %s must be a dense tensor on the CPU", what, part);
    if (meta->rank != rank)
        return error_raise(ST_SHAPE, "%s: %s must have %d dims, not %d", what, part, rank, meta->rank);
    if (positions && meta->dtype != DT_i64)
        return error_raise(ST_DTYPE, "%s: %s must be i64, not %s", what, part, dtype_name(meta->dtype));
    return ST_OK;
}

static Status check_sizes(sn_ints sizes, const char *what) {
    if (sizes.n < 1 || sizes.n > MAX_RANK || !sizes.data)
        return error_raise(ST_SHAPE, "%s: sizes has %lld dims", what, (long long)sizes.n);
    for (int i = 0; i < sizes.n; i++)
        if (sizes.data[i] < 0)
            return error_raise(ST_SHAPE, "%s: size %lld of dim %d is negative", what, (long long)sizes.data[i], i);
    return ST_OK;
}

static Status check_counts(const sn_tensor *positions, int dim, const sn_tensor *values, const char *what) {
    const int64_t n = positions->base.meta->sizes[dim], m = values->base.meta->sizes[0];
    return n == m ? ST_OK
                  : error_raise(ST_SHAPE, "%s: %lld positions for %lld values", what, (long long)n, (long long)m);
}

static Status check_coo(sn_tensor *positions, sn_tensor *values, sn_ints sizes, const char *what) {
    TRY(check_part(positions, what, "positions", 2, true));
    TRY(check_part(values, what, "values", 1, false));
    TRY(check_sizes(sizes, what));
    if (positions->base.meta->sizes[0] != sizes.n)
        return error_raise(ST_SHAPE, "%s: positions has %lld dims and sizes %lld", what,
                           (long long)positions->base.meta->sizes[0], (long long)sizes.n);
    TRY(check_counts(positions, 1, values, what));
    return sparse_check_range(positions, "position", 0, sizes, what);
}

sn_tensor *sn_sparse_coo(sn_tensor *positions, sn_tensor *values, sn_ints sizes) {
    API_ENTER(sn_sparse_coo);
    if (check_coo(positions, values, sizes, "sn_sparse_coo") != ST_OK) return NULL;
    return sparse_new(&(SparseFields){.values = values, .positions = positions}, sizes.data, (int)sizes.n);
}

static Status check_rows(sn_tensor *rows, sn_tensor *columns, const char *what) {
    TRY(tensor_ready(rows, what));
    const int64_t n = columns->base.meta->sizes[0], last = rows->base.meta->sizes[0] - 1;
    for (int64_t r = 0; r <= last; r++) {
        const int64_t begin = sparse_element(rows, 0, r), least = r ? sparse_element(rows, 0, r - 1) : 0;
        if (begin < least || begin > n || (!r && begin) || (r == last && begin != n))
            return error_raise(ST_VALUE, "%s: rows[%lld] is %lld; rows ascend from 0 to the %lld entries", what,
                               (long long)r, (long long)begin, (long long)n);
        for (int64_t e = least + 1; e < begin; e++)
            if (sparse_element(columns, 0, e) <= sparse_element(columns, 0, e - 1))
                return error_raise(ST_VALUE, "%s: columns[%lld] is %lld, behind %lld in one row", what, (long long)e,
                                   (long long)sparse_element(columns, 0, e),
                                   (long long)sparse_element(columns, 0, e - 1));
    }
    return ST_OK;
}

static Status check_csr(sn_tensor *rows, sn_tensor *columns, sn_tensor *values, sn_ints sizes, const char *what) {
    TRY(check_part(rows, what, "rows", 1, true));
    TRY(check_part(columns, what, "columns", 1, true));
    TRY(check_part(values, what, "values", 1, false));
    TRY(check_sizes(sizes, what));
    if (sizes.n != 2) return error_raise(ST_SHAPE, "%s: sizes has %lld dims, not 2", what, (long long)sizes.n);
    if (rows->base.meta->sizes[0] != sizes.data[0] + 1)
        return error_raise(ST_SHAPE, "%s: %lld row starts for %lld rows and the end", what,
                           (long long)rows->base.meta->sizes[0], (long long)sizes.data[0]);
    TRY(check_counts(columns, 0, values, what));
    TRY(sparse_check_range(columns, "column", 1, (sn_ints){sizes.data + 1, 1}, what));
    return check_rows(rows, columns, what);
}

sn_tensor *sn_sparse_csr(sn_tensor *rows, sn_tensor *columns, sn_tensor *values, sn_ints sizes) {
    API_ENTER(sn_sparse_csr);
    if (check_csr(rows, columns, values, sizes, "sn_sparse_csr") != ST_OK) return NULL;
    const SparseFields parts = {.values = values, .rows = rows, .columns = columns, .coalesced = true};
    return sparse_new(&parts, sizes.data, 2);
}

/* parts --------------------------------------------------------------------------------------- */

static const SparseFields *parts_of(sn_tensor *t, const char *what) {
    if (tensor_valid(t, what) != ST_OK) return NULL;
    const SparseFields *const parts = sparse_fields(t);
    if (!parts) error_raise(ST_ARGUMENT, "%s: the tensor is dense", what);
    return parts;
}

static sn_tensor *needed_part(sn_tensor *t, sn_tensor *found, const char *what) {
    if (!found && sparse_fields(t))
        error_raise(ST_ARGUMENT, "%s: a tensor of layout %s has none", what,
                    t->keys & KEY_BIT(sparse_csr) ? "CSR" : "COO");
    return found;
}

sn_tensor *sn_sparse_values(sn_tensor *t) {
    API_ENTER(sn_sparse_values);
    const SparseFields *const parts = parts_of(t, "sn_sparse_values");
    return parts ? parts->values : NULL;
}
sn_tensor *sn_sparse_positions(sn_tensor *t) {
    API_ENTER(sn_sparse_positions);
    const SparseFields *const parts = parts_of(t, "sn_sparse_positions");
    return parts ? needed_part(t, parts->positions, "sn_sparse_positions") : NULL;
}
sn_tensor *sn_sparse_rows(sn_tensor *t) {
    API_ENTER(sn_sparse_rows);
    const SparseFields *const parts = parts_of(t, "sn_sparse_rows");
    return parts ? needed_part(t, parts->rows, "sn_sparse_rows") : NULL;
}
sn_tensor *sn_sparse_columns(sn_tensor *t) {
    API_ENTER(sn_sparse_columns);
    const SparseFields *const parts = parts_of(t, "sn_sparse_columns");
    return parts ? needed_part(t, parts->columns, "sn_sparse_columns") : NULL;
}
bool sn_is_coalesced(sn_tensor *t) {
    const SparseFields *const parts = parts_of(t, "sn_is_coalesced");
    return parts && parts->coalesced;
}

/* conversions --------------------------------------------------------------------------------- */

typedef sn_tensor *Conversion(sn_tensor *t);

static sn_tensor *convert(sn_tensor *t, const char *what, Conversion *how) {
    sn_state *const state = state_get();
    const uint32_t depth = state->n_scopes;
    if (scope_push(state, false) != ST_OK) return NULL;
    sn_tensor *out = how(t);
    if (out != t)
        scope_pop_passing(state, depth, &out, 1);
    else
        scope_pop(state);
    if (!out) error_set_op(what);
    return out;
}

/* All positions that are not 0, as nonzero gives them. */
static sn_tensor *coo_of_dense(sn_tensor *t) {
    const Meta *const meta = t->base.meta;
    const int64_t all = meta->numel;
    Builder *const b = eager_builder();
    Val *const found = E(b, nonzero, V(&t->base));
    Val *const positions = found ? E(b, clone, V(E(b, t, V(found))), I(0)) : NULL;
    if (!positions) return NULL;
    SparseFields parts = {.values = tensor_of(positions), .positions = tensor_of(positions), .coalesced = true};
    sn_tensor *const shape = sparse_new(&parts, meta->sizes, meta->rank); /* to ask for places */
    sn_tensor *const places = shape ? sparse_places(shape) : NULL;
    Val *const flat = places ? E(b, reshape, V(&t->base), A_INTS(&all, 1)) : NULL;
    parts.values = flat ? tensor_of(E(b, index_select, V(flat), I(0), V(&places->base))) : NULL;
    return parts.values ? sparse_new(&parts, meta->sizes, meta->rank) : NULL;
}

static sn_tensor *csr_of_dense(sn_tensor *t) {
    sn_tensor *const coo = coo_of_dense(t);
    return coo ? sparse_to_csr(coo) : NULL;
}

sn_tensor *sn_coalesce(sn_tensor *t) {
    API_ENTER(sn_coalesce);
    return parts_of(t, "sn_coalesce") ? convert(t, "sn_coalesce", sparse_coalesced) : NULL;
}

sn_tensor *sn_to_dense(sn_tensor *t) {
    API_ENTER(sn_to_dense);
    if (tensor_valid(t, "sn_to_dense") != ST_OK) return NULL;
    return sparse_fields(t) ? convert(t, "sn_to_dense", sparse_dense) : t;
}

static Status check_dense(sn_tensor *t, const char *what, bool matrix) {
    TRY(tensor_valid(t, what));
    if (matrix && t->base.meta->rank != 2)
        return error_raise(ST_SHAPE, "%s: the tensor has %d dims, not 2", what, t->base.meta->rank);
    return sparse_fields(t) || t->base.meta->rank
               ? check_part(sparse_fields(t) ? sparse_fields(t)->values : t, what, "the tensor",
                            sparse_fields(t) ? 1 : t->base.meta->rank, false)
               : error_raise(ST_SHAPE, "%s: the tensor has 0 dims", what);
}

sn_tensor *sn_to_sparse(sn_tensor *t) {
    API_ENTER(sn_to_sparse);
    if (check_dense(t, "sn_to_sparse", false) != ST_OK) return NULL;
    return convert(t, "sn_to_sparse", sparse_fields(t) ? sparse_to_coo : coo_of_dense);
}

sn_tensor *sn_to_sparse_csr(sn_tensor *t) {
    API_ENTER(sn_to_sparse_csr);
    if (check_dense(t, "sn_to_sparse_csr", true) != ST_OK) return NULL;
    return convert(t, "sn_to_sparse_csr", sparse_fields(t) ? sparse_to_csr : csr_of_dense);
}
