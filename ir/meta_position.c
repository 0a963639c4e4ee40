/* meta_position.c: reads and writes at positions of several dims. Positions themselves are checked where they are used
 * (OPF_check); here their dtypes and shapes. How many a mask stands for depends on values: it is a symbol of a graph's
 * own (MetaCall.unbacked), and no compiled graph holds such a call. */
#include "ir/meta_rules.h"

/* The dims that indices speak of: a mask takes as many as it has. */
typedef struct Indexed {
    int n, rank; /* tensors; dims of what they have in common */
    int first, last;
    int at; /* where their dims are in what is read */
    bool has[MAX_RANK];
    bool counts;             /* how many a mask stands for is a size of the result */
    int64_t sizes[MAX_RANK]; /* what they broadcast to */
} Indexed;

static bool is_mask(const Meta *meta) { return meta->dtype == DT_bool || meta->dtype == DT_u8; }

static Status mask_fits(const MetaCall *call, const Meta *self, const Meta *mask, int dim) {
    if (call->env && !call->unbacked)
        return meta_fail(call, ST_UNSUPPORTED, "indices: how many positions a mask stands for depends on its values");
    if (!mask->rank) return meta_fail(call, ST_SHAPE, "indices: a mask needs a dim at least");
    bool fits = dim + mask->rank <= self->rank;
    for (int d = 0; fits && d < mask->rank; d++) fits = sym_same(call->env, mask->sizes[d], self->sizes[dim + d]);
    if (fits) return ST_OK;
    return meta_fail(call, ST_SHAPE, "indices: the mask %s does not fit self %s at dim %d", SIZES(call, mask),
                     SIZES(call, self), dim);
}

static Status add_index(MetaCall *call, Indexed *all, const Meta *self, const Meta *index, int dim) {
    if (is_mask(index)) {
        TRY(mask_fits(call, self, index, dim));
    } else if (index->dtype != DT_i64 && index->dtype != DT_i32) {
        return meta_fail(call, ST_DTYPE, "indices must be i64, i32, bool or u8, not %s", dtype_name(index->dtype));
    }
    if (dim >= self->rank) return meta_fail(call, ST_SHAPE, "too many indices for self %s", SIZES(call, self));
    TRY(same_device(call, self, index));
    int64_t some[1] = {1};
    if (is_mask(index) && call->env && all->counts) TRY(meta_unbacked_size(call, &some[0]));
    const int64_t *const sizes = is_mask(index) ? some : index->sizes;
    const int rank = is_mask(index) ? 1 : index->rank;
    if (!broadcast_into(call->env, all->sizes, &all->rank, sizes, rank))
        return meta_fail(call, ST_SHAPE, "indices: %s does not broadcast with %s", SIZES(call, index),
                         sizes_text(call, all->sizes, all->rank).at);
    if (!all->n++) all->first = dim;
    for (int d = 0; d < (is_mask(index) ? index->rank : 1); d++) all->has[all->last = dim + d] = true;
    return ST_OK;
}

/* The sizes of what is read: a mask counts as one position. */
static Status indexed_sizes(MetaCall *call, Indexed *all, int64_t *sizes, int *rank) {
    const Meta *const self = tensor_meta(call, 0);
    const Arg *const list = &call->args[1];
    *all = (Indexed){.counts = all->counts};
    for (int i = 0, dim = 0; i < list->n; i++) {
        const Meta *const index = list->vals[i] ? list->vals[i]->meta : NULL;
        if (index) TRY(add_index(call, all, self, index, dim));
        dim += index && is_mask(index) ? index->rank : 1;
        if (dim > self->rank) return meta_fail(call, ST_SHAPE, "too many indices for self %s", SIZES(call, self));
    }
    bool together = true;
    int taken = 0, n = 0;
    for (int d = 0; d < self->rank; d++) {
        taken += all->has[d];
        together &= !all->n || d < all->first || d > all->last || all->has[d];
    }
    if (self->rank - taken + all->rank > MAX_RANK) return meta_fail(call, ST_SHAPE, "more than %d dims", MAX_RANK);
    all->at = together ? all->first : 0;
    for (int d = 0; d <= self->rank; d++) {
        if (all->n && d == all->at)
            for (int k = 0; k < all->rank; k++) sizes[n++] = all->sizes[k];
        if (d < self->rank && !all->has[d]) sizes[n++] = self->sizes[d];
    }
    *rank = n;
    return check_numel(call, sizes, n);
}

static bool has_mask(const Arg *list) {
    for (int i = 0; i < list->n; i++)
        if (list->vals[i] && is_mask(list->vals[i]->meta)) return true;
    return false;
}

/* The tensor `meta` along result dims from `at` on, broadcasting to `rank` dims in all; 0 and 1 beside them. A dim of
 * size 1 has no say either: its stride is anything, and a variant for any size may know another one. */
static Meta index_along(const Meta *meta, int at, int rank, int64_t *sizes, int64_t *strides) {
    for (int d = 0; d < rank; d++) {
        const int k = d - at;
        const bool inside = k >= 0 && k < meta->rank;
        sizes[d] = inside ? meta->sizes[k] : 1;
        strides[d] = inside && !sym_identical(sizes[d], 1) ? meta->strides[k] : 0;
    }
    return (Meta){.rank = rank, .sizes = sizes, .strides = strides};
}

/* TensorIterator's of self, which stands still where the positions' dims are, and of each index at these dims (more
 * than it has room for have no say). */
static void indexed_strides(MetaCall *call, const Indexed *all, const int64_t *sizes, int rank) {
    const Meta *const self = tensor_meta(call, 0), *operands[MAX_OPERANDS];
    const Arg *const list = &call->args[1];
    int64_t strides[MAX_OPERANDS][MAX_RANK], own[MAX_OPERANDS][MAX_RANK];
    Meta views[MAX_OPERANDS];
    int n = 1;
    for (int d = 0, to = 0; d <= self->rank; d++) {
        for (int k = 0; d == all->at && k < all->rank; k++) strides[0][to++] = 0;
        if (d < self->rank && !all->has[d]) strides[0][to++] = self->strides[d];
    }
    views[0] = (Meta){.rank = rank, .sizes = sizes, .strides = strides[0]};
    for (int i = 0; i < list->n && n < MAX_OPERANDS; i++) {
        const Meta *const index = list->vals[i] ? list->vals[i]->meta : NULL;
        if (index) views[n] = index_along(index, all->at + all->rank - index->rank, rank, own[n], strides[n]), n++;
    }
    for (int i = 0; i < n; i++) operands[i] = &views[i];
    iterated_strides(call, operands, n);
}

Status meta_index(MetaCall *call) {
    const Meta *const self = tensor_meta(call, 0);
    int64_t sizes[MAX_RANK];
    int rank;
    Indexed all = {.counts = true};
    TRY(indexed_sizes(call, &all, sizes, &rank));
    if (!all.n) {
        out_like(call, 0, self, self->dtype);
        return ST_OK;
    }
    out_plain(call, 0, self->dtype, self->device, sizes, rank);
    if (!has_mask(&call->args[1])) indexed_strides(call, &all, sizes, rank);
    return ST_OK;
}

Status meta_index_put(MetaCall *call) {
    const Meta *const self = tensor_meta(call, 0), *const values = tensor_meta(call, 2);
    int64_t sizes[MAX_RANK];
    int rank, wide;
    Indexed all = {0};
    TRY(indexed_sizes(call, &all, sizes, &rank));
    if (values->dtype != self->dtype)
        return meta_fail(call, ST_DTYPE, "values is %s, but self is %s", dtype_name(values->dtype),
                         dtype_name(self->dtype));
    wide = rank;
    int64_t joined[MAX_RANK];
    memcpy(joined, sizes, sizeof joined);
    bool fits = has_mask(&call->args[1]) ||
                (values->rank <= rank && broadcast_into(call->env, joined, &wide, values->sizes, values->rank));
    for (int d = 0; fits && !has_mask(&call->args[1]) && d < rank; d++) fits = sym_same(call->env, joined[d], sizes[d]);
    if (!fits)
        return meta_fail(call, ST_SHAPE, "values %s does not broadcast to what indices give, %s", SIZES(call, values),
                         sizes_text(call, sizes, rank).at);
    TRY(same_device(call, self, values));
    out_like(call, 0, self, self->dtype);
    call->order = ORDER_index;
    return ST_OK;
}

/* As of a mask among indices: graphs hold no such call, and it counts as one. */
Status meta_masked_select(MetaCall *call) {
    const Meta *const self = tensor_meta(call, 0), *const mask = tensor_meta(call, 1);
    int64_t some[1] = {1};
    int64_t sizes[MAX_RANK];
    int rank = self->rank;
    if (mask->dtype != DT_bool) return meta_fail(call, ST_DTYPE, "mask must be bool, not %s", dtype_name(mask->dtype));
    memcpy(sizes, self->sizes, sizeof *sizes * (size_t)rank);
    if (!broadcast_into(call->env, sizes, &rank, mask->sizes, mask->rank))
        return meta_fail(call, ST_SHAPE, "mask %s does not broadcast with self %s", SIZES(call, mask),
                         SIZES(call, self));
    if (call->env && !call->unbacked)
        return meta_fail(call, ST_UNSUPPORTED, "how many elements a mask selects depends on its values");
    if (call->env) TRY(meta_unbacked_size(call, &some[0]));
    out_plain(call, 0, self->dtype, self->device, some, 1);
    return same_device(call, self, mask);
}

/* sn::index_positions */
Status meta_index_positions(MetaCall *call) {
    const Meta *const index = tensor_meta(call, 0);
    out_plain(call, 0, DT_i64, index->device, index->sizes, index->rank);
    return ST_OK;
}

static Status mask_of(const MetaCall *call, int i) {
    const Meta *const mask = tensor_meta(call, i);
    if (mask->dtype == DT_bool) return ST_OK;
    return meta_fail(call, ST_DTYPE, "mask must be bool, not %s", dtype_name(mask->dtype));
}

/* (self, mask, source) */
Status meta_masked_scatter(MetaCall *call) {
    const Meta *const self = tensor_meta(call, 0), *const source = tensor_meta(call, 2);
    Elementwise e = {0};
    TRY(mask_of(call, 1));
    if (source->dtype != self->dtype)
        return meta_fail(call, ST_DTYPE, "source is %s, but self is %s", dtype_name(source->dtype),
                         dtype_name(self->dtype));
    elementwise_add(call, &e, 0);
    elementwise_add(call, &e, 1);
    TRY(elementwise_out(call, &e, self->dtype));
    out_contiguous(call, &call->out[0]);
    return same_device(call, self, source);
}

/* (grad_output, mask, sizes) */
Status meta_masked_scatter_backward(MetaCall *call) {
    const Meta *const grad = tensor_meta(call, 0), *const mask = tensor_meta(call, 1);
    const Arg *const sizes = &call->args[2];
    int64_t all[MAX_RANK];
    int rank = grad->rank;
    TRY(mask_of(call, 1));
    memcpy(all, grad->sizes, sizeof *all * (size_t)rank);
    if (!broadcast_into(call->env, all, &rank, mask->sizes, mask->rank))
        return meta_fail(call, ST_SHAPE, "mask %s does not broadcast with grad_output %s", SIZES(call, mask),
                         SIZES(call, grad));
    TRY(check_numel(call, sizes->ints, sizes->n));
    out_plain(call, 0, grad->dtype, grad->device, sizes->ints, sizes->n);
    return same_device(call, grad, mask);
}
