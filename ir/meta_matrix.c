/* meta_matrix.c: small ops put together of others (ops/matrix.def). */
#include "ir/meta_rules.h"
#include "ir/op.h"

MetaFn meta_diagonal;

/* (self, diagonal): of a vector the matrix, of a matrix the vector. */
static Status square_of(MetaCall *call, int64_t n) {
    const Meta *const self = tensor_meta(call, 0);
    const int64_t offset = call->args[1].i;
    if (offset > INT32_MAX || offset < -INT32_MAX)
        return meta_fail(call, ST_ARGUMENT, "%s %lld is too large", arg_name(call, 1), (long long)offset);
    const int64_t size = sym_add(call->env, n, offset < 0 ? -offset : offset), sizes[] = {size, size};
    out_plain(call, 0, self->dtype, self->device, sizes, 2);
    return check_numel(call, sizes, 2);
}

Status meta_diagflat(MetaCall *call) { return square_of(call, tensor_meta(call, 0)->numel); }

Status meta_diag(MetaCall *call) {
    const Meta *const self = tensor_meta(call, 0);
    if (self->rank == 1) return square_of(call, self->sizes[0]);
    if (self->rank != 2)
        return meta_fail(call, ST_SHAPE, "self must have 1 or 2 dims, not sizes %s", SIZES(call, self));
    const Arg args[] = {call->args[0], call->args[1], A_INT(0), A_INT(1)};
    MetaCall view = *call;
    view.row = OP_ROW(diagonal), view.args = args;
    TRY(meta_diagonal(&view));
    call->out[0].alias = -1, call->out[0].offset = 0;
    out_contiguous(call, &call->out[0]);
    return ST_OK;
}

static Status flipped(MetaCall *call, int least) {
    const Meta *const self = tensor_meta(call, 0);
    if (self->rank < least)
        return meta_fail(call, ST_SHAPE, "self must have %d dims at least, not sizes %s", least, SIZES(call, self));
    out_like(call, 0, self, self->dtype);
    return ST_OK;
}
Status meta_fliplr(MetaCall *call) { return flipped(call, 2); }
Status meta_flipud(MetaCall *call) { return flipped(call, 1); }

/* Dims of size 1, the last name's digit at least. */
Status meta_atleast(MetaCall *call) {
    const Meta *const self = tensor_meta(call, 0);
    const int least = call->row->base[strlen("atleast_")] - '0', rank = self->rank;
    const int missing = rank < least ? least - rank : 0, before = least == 3 && rank == 2 ? 0 : missing > 0;
    MetaOut *const out = &call->out[0];
    int64_t sizes[MAX_RANK];
    if (rank + missing > MAX_RANK) return meta_fail(call, ST_SHAPE, "more than %d dims", MAX_RANK);
    for (int d = 0; d < rank + missing; d++) sizes[d] = d >= before && d < before + rank ? self->sizes[d - before] : 1;
    if (!rank) sizes[0] = 1;
    out_set(out, self->dtype, self->device, sizes, rank + missing);
    for (int d = 0; d < rank + missing; d++)
        out->strides[d] = d >= before && d < before + rank ? self->strides[d - before]
                          : d < before && rank             ? sym_mul(call->env, self->sizes[0], self->strides[0])
                                                           : 1;
    out->alias = 0;
    return ST_OK;
}

static Status same_dtypes(const MetaCall *call) {
    const Meta *const self = tensor_meta(call, 0);
    for (int i = 1; i <= 2; i++) {
        if (tensor_meta(call, i)->dtype != self->dtype)
            return meta_fail(call, ST_DTYPE, "%s is %s, but self is %s", arg_name(call, i),
                             dtype_name(tensor_meta(call, i)->dtype), dtype_name(self->dtype));
        TRY(same_device(call, self, tensor_meta(call, i)));
    }
    return ST_OK;
}

/* self broadcasts to the product's sizes. */
static Status with_addend(MetaCall *call, const int64_t *sizes, int n) {
    const Meta *const self = tensor_meta(call, 0);
    int64_t all[MAX_RANK];
    int rank = n;
    memcpy(all, sizes, sizeof *sizes * (size_t)n);
    if (!broadcast_into(call->env, all, &rank, self->sizes, self->rank) || rank != n ||
        !all_same(call->env, all, sizes, n))
        return meta_fail(call, ST_SHAPE, "self %s does not broadcast to %s", SIZES(call, self),
                         sizes_text(call, sizes, n).at);
    out_plain(call, 0, self->dtype, self->device, sizes, n);
    call->order = ORDER_chain;
    return check_numel(call, sizes, n);
}

Status meta_addbmm(MetaCall *call) {
    const Meta *const a = tensor_meta(call, 1), *const b = tensor_meta(call, 2);
    if (a->rank != 3 || b->rank != 3 || !sym_same(call->env, a->sizes[0], b->sizes[0]) ||
        !sym_same(call->env, a->sizes[2], b->sizes[1]))
        return meta_fail(call, ST_SHAPE, "batch1 %s and batch2 %s are no batches of matrices to multiply",
                         SIZES(call, a), SIZES(call, b));
    TRY(same_dtypes(call));
    return with_addend(call, (const int64_t[]){a->sizes[1], b->sizes[2]}, 2);
}

Status meta_addmv(MetaCall *call) {
    const Meta *const mat = tensor_meta(call, 1), *const vec = tensor_meta(call, 2);
    if (mat->rank != 2 || vec->rank != 1 || !sym_same(call->env, mat->sizes[1], vec->sizes[0]))
        return meta_fail(call, ST_SHAPE, "mat %s and vec %s are no matrix and vector to multiply", SIZES(call, mat),
                         SIZES(call, vec));
    TRY(same_dtypes(call));
    return with_addend(call, mat->sizes, 1);
}

/* (x, y, dim) */
Status meta_linalg_vecdot(MetaCall *call) {
    const Meta *const x = tensor_meta(call, 0), *const y = tensor_meta(call, 1);
    bool reduced[MAX_RANK] = {false};
    int dim;
    if (!dtype_is_float(x->dtype) || x->dtype != y->dtype)
        return meta_fail(call, ST_DTYPE, "x is %s and y %s: they must be floats of one dtype", dtype_name(x->dtype),
                         dtype_name(y->dtype));
    Elementwise e = {.n = 2, .in = {x, y}, .arg = {0, 1}};
    TRY(elementwise_out(call, &e, x->dtype));
    const MetaOut both = call->out[0];
    TRY(wrap_dim(call, call->args[2].i, both.rank, "dim", &dim));
    if (both.rank) reduced[dim] = true;
    int64_t sizes[MAX_RANK];
    int rank = 0;
    for (int d = 0; d < both.rank; d++)
        if (!reduced[d]) sizes[rank++] = both.sizes[d];
    out_plain(call, 0, x->dtype, x->device, sizes, rank);
    return ST_OK;
}

Status meta_ldexp(MetaCall *call) {
    Elementwise e = {0};
    elementwise_add(call, &e, 0);
    elementwise_add(call, &e, 1);
    return elementwise_out(call, &e, default_float(promoted(&e)));
}

Status meta_is_infinity(MetaCall *call) {
    Elementwise e = {.n = 1, .in = {tensor_meta(call, 0)}};
    return elementwise_out(call, &e, DT_bool);
}

Status meta_deg2rad(MetaCall *call) {
    Elementwise e = {.n = 1, .in = {tensor_meta(call, 0)}};
    return elementwise_out(call, &e, default_float(tensor_meta(call, 0)->dtype));
}

static Status positions_fit(const MetaCall *call) {
    const Meta *const index = tensor_meta(call, 2);
    if (index->dtype != DT_i64) return meta_fail(call, ST_DTYPE, "index is %s, not i64", dtype_name(index->dtype));
    if (index->rank <= 1) return ST_OK;
    return meta_fail(call, ST_SHAPE, "index must have 1 dim at most, not sizes %s", SIZES(call, index));
}

/* (self, dim, index, source) */
Status meta_index_copy(MetaCall *call) {
    const Meta *const self = tensor_meta(call, 0), *const index = tensor_meta(call, 2),
                      *const source = tensor_meta(call, 3);
    int dim;
    TRY(wrap_dim(call, call->args[1].i, self->rank, "dim", &dim));
    TRY(positions_fit(call));
    if (source->dtype != self->dtype)
        return meta_fail(call, ST_DTYPE, "source is %s, but self is %s", dtype_name(source->dtype),
                         dtype_name(self->dtype));
    bool fits = source->rank == self->rank || (self->rank <= 1 && source->rank <= 1);
    for (int d = 0; fits && self->rank && source->rank && d < self->rank; d++)
        fits = sym_same(call->env, source->sizes[d], d == dim ? index->numel : self->sizes[d]);
    if (!self->rank || !source->rank) fits = fits && sym_same(call->env, source->numel, index->numel);
    if (!fits)
        return meta_fail(call, ST_SHAPE, "source %s does not fit self %s with index %s", SIZES(call, source),
                         SIZES(call, self), SIZES(call, index));
    out_plain(call, 0, self->dtype, self->device, self->sizes, self->rank);
    return ST_OK;
}

/* (self, dim, index, value) */
Status meta_index_fill(MetaCall *call) {
    const Meta *const self = tensor_meta(call, 0), *const value = tensor_meta(call, 3);
    int dim;
    TRY(wrap_dim(call, call->args[1].i, self->rank, "dim", &dim));
    TRY(positions_fit(call));
    if (value && value->rank)
        return meta_fail(call, ST_SHAPE, "value must have no dims, not sizes %s", SIZES(call, value));
    out_plain(call, 0, self->dtype, self->device, self->sizes, self->rank);
    return ST_OK;
}

/* (size, physical_layout, options) */
MetaFn meta_empty;
Status meta_empty_permuted(MetaCall *call) {
    const Arg *const size = &call->args[0], *const order = &call->args[1];
    bool seen[MAX_RANK] = {false};
    TRY(meta_empty(call));
    int64_t next = 1;
    bool fits = order->n == size->n;
    for (int i = order->n - 1; fits && i >= 0; i--) {
        const int64_t d = order->ints[i];
        fits = d >= 0 && d < size->n && !seen[d];
        if (!fits) break;
        seen[d] = true;
        call->out[0].strides[d] = next;
        next = sym_mul(call->env, next, sym_max(call->env, size->ints[d], 1));
    }
    if (fits) return ST_OK;
    return meta_fail(call, ST_ARGUMENT, "physical_layout %s does not name each of %d dims once",
                     sizes_text(call, order->ints, order->n).at, size->n);
}
