/* meta_window.c: pads by mirrored or repeated borders, pools, windows as columns: the last dims change, those before
 * are planes. How many dims are spatial is what the schema says of the list that speaks of them: int[2], SymInt[4]. */
#include "ir/meta_rules.h"

void out_suggested(MetaCall *call, int i, const Meta *like, DType dtype, const int64_t *sizes, int rank) {
    MetaOut *const out = &call->out[i];
    out_plain(call, i, dtype, like->device, sizes, rank);
    if (like->rank != rank || !meta_suggests_channels_last(call->env, like)) return;
    int64_t next = 1;
    for (int k = 0; k < rank; k++) { /* 1, the last ... 2, 0 */
        const int d = k == 0 ? 1 : k == rank - 1 ? 0 : rank - k;
        out->strides[d] = next;
        next = sym_mul(call->env, next, sym_max(call->env, sizes[d], 1));
    }
}

/* One or two dims of planes before n spatial ones; the last `full` may not be empty. */
static Status dims_fit(const MetaCall *call, int arg, int n, int full) {
    const Meta *const meta = tensor_meta(call, arg);
    bool fits = meta->rank == n + 1 || meta->rank == n + 2;
    for (int d = fits ? meta->rank - full : 0; fits && d < meta->rank; d++)
        fits = !sym_same(call->env, meta->sizes[d], 0);
    if (fits) return ST_OK;
    if (full == n)
        return meta_fail(call, ST_SHAPE, "%s must have %d or %d dims, the last %d not of size 0, not sizes %s",
                         arg_name(call, arg), n + 1, n + 2, n, SIZES(call, meta));
    return meta_fail(call, ST_SHAPE, "%s must have %d or %d dims, none but the batch of size 0, not sizes %s",
                     arg_name(call, arg), n + 1, n + 2, SIZES(call, meta));
}
/* Only the batch may be empty. */
static Status planes_fit(const MetaCall *call, int arg, int n) { return dims_fit(call, arg, n, n + 1); }

static Status dtype_is(const MetaCall *call, int arg, bool fits) {
    if (fits) return ST_OK;
    return meta_fail(call, ST_DTYPE, "%s is %s", arg_name(call, arg), dtype_name(tensor_meta(call, arg)->dtype));
}
static Status no_bool(const MetaCall *call, int arg) {
    return dtype_is(call, arg, tensor_meta(call, arg)->dtype != DT_bool);
}
static Status is_float(const MetaCall *call, int arg) {
    return dtype_is(call, arg, dtype_is_float(tensor_meta(call, arg)->dtype));
}
static Status float_or_i64(const MetaCall *call, int arg) {
    const DType dtype = tensor_meta(call, arg)->dtype;
    return dtype_is(call, arg, dtype_is_float(dtype) || dtype == DT_i64);
}

static Status same_dtype(const MetaCall *call, int a, int b) {
    const Meta *const left = tensor_meta(call, a), *const right = tensor_meta(call, b);
    if (left->dtype != right->dtype)
        return meta_fail(call, ST_DTYPE, "%s is %s, but %s is %s", arg_name(call, a), dtype_name(left->dtype),
                         arg_name(call, b), dtype_name(right->dtype));
    return same_device(call, left, right);
}

/* grad_output, argument 0, has the sizes that forward gave. */
static Status grad_fits(const MetaCall *call, const int64_t *sizes, int rank) {
    const Meta *const grad = tensor_meta(call, 0);
    if (grad->rank == rank && all_same(call->env, grad->sizes, sizes, rank)) return ST_OK;
    return meta_fail(call, ST_SHAPE, "grad_output %s does not have the sizes %s of the result", SIZES(call, grad),
                     sizes_text(call, sizes, rank).at);
}

/* pads ---------------------------------------------------------------------------------------- */

static Status pad_length(const MetaCall *call, int arg) {
    const Arg *const pad = &call->args[arg];
    if (pad->n == list_length(call, arg)) return ST_OK;
    return meta_fail(call, ST_ARGUMENT, "padding %s must have %d numbers", sizes_text(call, pad->ints, pad->n).at,
                     list_length(call, arg));
}

static Status padded_size(const MetaCall *call, const Arg *pad, int pair, bool mirrored, int64_t *size) {
    const int64_t before = pad->ints[2 * pair], after = pad->ints[2 * pair + 1];
    int64_t sum = 0;
    const bool plain = !sym_is(before) && !sym_is(after) && !sym_is(*size);
    const bool reaches = mirrored && (sym_at_most(call->env, *size, before) || sym_at_most(call->env, *size, after));
    if (reaches)
        return meta_fail(call, ST_SHAPE, "padding %s must be less than the size %lld of its dim",
                         sizes_text(call, pad->ints, pad->n).at, (long long)sym_hint(call->env, *size));
    if (plain && (!add_ok(before, after, &sum) || !add_ok(*size, sum, &sum)))
        return meta_fail(call, ST_SHAPE, "padding %s: more elements than memory can hold",
                         sizes_text(call, pad->ints, pad->n).at);
    sum = sym_add(call->env, *size, sym_add(call->env, before, after));
    if (sym_less(call->env, sum, 1))
        return meta_fail(call, ST_SHAPE, "padding %s leaves nothing of a dim of size %lld",
                         sizes_text(call, pad->ints, pad->n).at, (long long)sym_hint(call->env, *size));
    *size = sum;
    return ST_OK;
}

/* The sizes of `self` with its pads. */
static Status padded(const MetaCall *call, int self, int arg, bool mirrored, int64_t *sizes) {
    const Meta *const meta = tensor_meta(call, self);
    TRY(pad_length(call, arg));
    const int n = call->args[arg].n / 2;
    TRY(planes_fit(call, self, n));
    memcpy(sizes, meta->sizes, sizeof *sizes * (size_t)meta->rank);
    for (int i = 0; i < n; i++) TRY(padded_size(call, &call->args[arg], i, mirrored, &sizes[meta->rank - 1 - i]));
    return check_numel(call, sizes, meta->rank);
}

static Status pad(MetaCall *call, bool mirrored) {
    const Meta *const self = tensor_meta(call, 0);
    int64_t sizes[MAX_RANK];
    TRY(padded(call, 0, 1, mirrored, sizes));
    TRY(no_bool(call, 0));
    out_suggested(call, 0, self, self->dtype, sizes, self->rank);
    return ST_OK;
}
Status meta_reflection_pad(MetaCall *call) { return pad(call, true); }
Status meta_replication_pad(MetaCall *call) { return pad(call, false); }

/* What a backward gives: self's sizes. */
static Status like_self(MetaCall *call, int self, int n, bool suggested) {
    const Meta *const meta = tensor_meta(call, self);
    if (suggested && meta->rank == n + 2)
        out_suggested(call, 0, meta, meta->dtype, meta->sizes, meta->rank);
    else
        out_plain(call, 0, meta->dtype, meta->device, meta->sizes, meta->rank);
    call->order = ORDER_index;
    return ST_OK;
}

static Status pad_backward(MetaCall *call, bool mirrored) {
    int64_t sizes[MAX_RANK];
    TRY(padded(call, 1, 2, mirrored, sizes));
    TRY(grad_fits(call, sizes, tensor_meta(call, 1)->rank));
    TRY(same_dtype(call, 0, 1));
    TRY(is_float(call, 0));
    const Meta *const self = tensor_meta(call, 1);
    out_suggested(call, 0, self, self->dtype, self->sizes, self->rank);
    return ST_OK;
}
Status meta_reflection_pad_backward(MetaCall *call) { return pad_backward(call, true); }
Status meta_replication_pad_backward(MetaCall *call) { return pad_backward(call, false); }

/* pools --------------------------------------------------------------------------------------- */

typedef struct PoolWindow { /* by spatial dim */
    int n;
    int64_t kernel[3], stride[3], padding[3], dilation[3];
} PoolWindow;

/* A number for all dims or one for each, between least and what keeps sizes from overflowing; an empty list where
 * `fallback` is what it stands for. */
static Status per_dim(const MetaCall *call, int arg, int n, int64_t least, const int64_t *fallback, int64_t *out) {
    const Arg *const a = &call->args[arg];
    const int64_t *const given = a->kind == ARG_int ? &a->i : a->ints;
    const int count = a->kind == ARG_int ? 1 : a->n;
    if (count == 0 && fallback) {
        memcpy(out, fallback, sizeof *out * (size_t)n);
        return ST_OK;
    }
    if (count != 1 && count != n)
        return meta_fail(call, ST_ARGUMENT, "%s %s must have 1 or %d numbers", arg_name(call, arg),
                         sizes_text(call, given, count).at, n);
    for (int i = 0; i < n; i++) {
        out[i] = sym_concrete(call->env, given[count == 1 ? 0 : i]);
        if (out[i] < least || out[i] > INT32_MAX)
            return meta_fail(call, ST_ARGUMENT, "%s must be at least %lld and fit 32 bits, not %lld",
                             arg_name(call, arg), (long long)least, (long long)out[i]);
    }
    return ST_OK;
}

static int param_named(const MetaCall *call, const char *name) { return op_param_find(call->row, name); }

static Status pool_of(const MetaCall *call, PoolWindow *pool) {
    const int kernel = param_named(call, "kernel_size"), dilation = param_named(call, "dilation");
    const int n = pool->n = list_length(call, kernel);
    for (int i = 0; i < n; i++) pool->dilation[i] = 1;
    TRY(per_dim(call, kernel, n, 1, NULL, pool->kernel));
    TRY(per_dim(call, kernel + 1, n, 1, pool->kernel, pool->stride));
    TRY(per_dim(call, kernel + 2, n, 0, NULL, pool->padding));
    if (dilation >= 0) TRY(per_dim(call, dilation, n, 1, NULL, pool->dilation));
    for (int i = 0; i < n; i++)
        if (2 * pool->padding[i] > pool->dilation[i] * (pool->kernel[i] - 1) + 1)
            return meta_fail(call, ST_ARGUMENT, "padding %lld is more than half of the window %lld",
                             (long long)pool->padding[i], (long long)(pool->dilation[i] * (pool->kernel[i] - 1) + 1));
    return ST_OK;
}

/* How many windows there are; in ceil_mode the last may begin in self or in what is padded before it. */
static int64_t windows(SymEnv *env, const PoolWindow *pool, int i, int64_t size, bool ceil_mode) {
    const int64_t reach = pool->dilation[i] * (pool->kernel[i] - 1) + 1;
    const int64_t whole = sym_add(env, size, 2 * pool->padding[i] - reach);
    const int64_t up = ceil_mode ? pool->stride[i] - 1 : 0;
    int64_t n = sym_add(env, sym_div(env, sym_add(env, whole, up), pool->stride[i]), 1);
    if (ceil_mode &&
        sym_at_most(env, sym_add(env, size, pool->padding[i]), sym_mul(env, sym_sub(env, n, 1), pool->stride[i])))
        n = sym_sub(env, n, 1);
    return n;
}

static Status pooled(const MetaCall *call, int self, PoolWindow *pool, int64_t *sizes) {
    const Meta *const meta = tensor_meta(call, self);
    const Arg *const ceil_mode = &call->args[param_named(call, "ceil_mode")];
    TRY(pool_of(call, pool));
    TRY(planes_fit(call, self, pool->n));
    const int first = meta->rank - pool->n;
    memcpy(sizes, meta->sizes, sizeof *sizes * (size_t)meta->rank);
    for (int i = 0; i < pool->n; i++) {
        sizes[first + i] = windows(call->env, pool, i, meta->sizes[first + i], ceil_mode->i != 0);
        if (sym_less(call->env, sizes[first + i], 1))
            return meta_fail(call, ST_SHAPE, "kernel_size %lld is larger than the padded size of self %s",
                             (long long)pool->kernel[i], SIZES(call, meta));
    }
    return check_numel(call, sizes, meta->rank);
}

static void pool_out(MetaCall *call, int i, const Meta *self, DType dtype, const int64_t *sizes, bool suggested) {
    if (suggested)
        out_suggested(call, i, self, dtype, sizes, self->rank);
    else
        out_plain(call, i, dtype, self->device, sizes, self->rank);
}

/* A batch of rows is pooled as planes of one row each: results are laid out as theirs, without that dim. */
static Status rows_as_planes(MetaCall *call, Status pooled_so_far) {
    const Meta *const self = tensor_meta(call, 0);
    if (pooled_so_far != ST_OK || self->rank != 3) return pooled_so_far;
    const int64_t *const sizes = self->sizes, *const strides = self->strides;
    const int64_t row = sym_mul(call->env, sizes[2], strides[2]), plane_sizes[] = {sizes[0], sizes[1], 1, sizes[2]};
    const int64_t plane_strides[] = {strides[0], strides[1], row, strides[2]};
    const Meta planes = {.dtype = self->dtype, .rank = 4, .sizes = plane_sizes, .strides = plane_strides};
    const bool channels_last = meta_suggests_channels_last(call->env, &planes);
    for (int i = 0; channels_last && i < call->row->n_out; i++) {
        MetaOut *const out = &call->out[i];
        out->strides[0] = sym_mul(call->env, out->sizes[1], out->sizes[2]);
        out->strides[1] = 1;
        out->strides[2] = out->sizes[1];
    }
    return ST_OK;
}

/* (self, kernel_size, stride, padding, dilation, ceil_mode): values and where they are, or the values alone */
Status meta_max_pool(MetaCall *call) {
    const Meta *const self = tensor_meta(call, 0);
    int64_t sizes[MAX_RANK];
    PoolWindow pool;
    TRY(pooled(call, 0, &pool, sizes));
    TRY(no_bool(call, 0));
    const bool suggested = pool.n > 1 && self->rank == pool.n + 2;
    pool_out(call, 0, self, self->dtype, sizes, suggested);
    if (call->row->n_out > 1) pool_out(call, 1, self, DT_i64, sizes, suggested);
    return ST_OK;
}
Status meta_max_pool1d(MetaCall *call) { return rows_as_planes(call, meta_max_pool(call)); }

/* (grad_output, self, kernel_size, stride, padding, dilation, ceil_mode, indices) */
Status meta_max_pool_backward(MetaCall *call) {
    const Meta *const indices = tensor_meta(call, 7);
    int64_t sizes[MAX_RANK];
    PoolWindow pool;
    TRY(pooled(call, 1, &pool, sizes));
    const int rank = tensor_meta(call, 1)->rank;
    TRY(grad_fits(call, sizes, rank));
    TRY(same_dtype(call, 0, 1));
    TRY(is_float(call, 0));
    if (indices->dtype != DT_i64)
        return meta_fail(call, ST_DTYPE, "indices must be i64, not %s", dtype_name(indices->dtype));
    if (indices->rank != rank || !all_same(call->env, indices->sizes, sizes, rank))
        return meta_fail(call, ST_SHAPE, "indices %s do not have the sizes %s of grad_output", SIZES(call, indices),
                         sizes_text(call, sizes, rank).at);
    return like_self(call, 1, pool.n, true);
}

static Status divisor_fits(const MetaCall *call) {
    const int i = param_named(call, "divisor_override");
    if (i < 0 || call->args[i].kind == ARG_none || !sym_same(call->env, call->args[i].i, 0)) return ST_OK;
    return meta_fail(call, ST_ARGUMENT, "divisor_override must not be 0");
}

Status meta_avg_pool(MetaCall *call) {
    const Meta *const self = tensor_meta(call, 0);
    int64_t sizes[MAX_RANK];
    PoolWindow pool;
    TRY(pooled(call, 0, &pool, sizes));
    TRY(divisor_fits(call));
    TRY(float_or_i64(call, 0));
    pool_out(call, 0, self, self->dtype, sizes, pool.n == 2 && self->rank == 4);
    return ST_OK;
}
Status meta_avg_pool1d(MetaCall *call) { return rows_as_planes(call, meta_avg_pool(call)); }

/* (grad_output, self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override) */
Status meta_avg_pool_backward(MetaCall *call) {
    int64_t sizes[MAX_RANK];
    PoolWindow pool;
    TRY(pooled(call, 1, &pool, sizes));
    TRY(grad_fits(call, sizes, tensor_meta(call, 1)->rank));
    TRY(divisor_fits(call));
    TRY(same_dtype(call, 0, 1));
    TRY(float_or_i64(call, 0));
    return like_self(call, 1, pool.n, pool.n == 2);
}

/* There may be no channels where planes are lines or images, as in PyTorch. */
static Status adaptive_fits(const MetaCall *call, int arg, int n) { return dims_fit(call, arg, n, n < 3 ? n : n + 1); }

/* (self, output_size): self with these last sizes. */
static Status adaptive_sizes(MetaCall *call, int64_t *sizes) {
    const Meta *const self = tensor_meta(call, 0);
    const Arg *const size = &call->args[1];
    const int64_t *const given = size->kind == ARG_int ? &size->i : size->ints;
    const int n = list_length(call, 1), count = size->kind == ARG_int ? 1 : size->n;
    if (count != n && size->kind != ARG_int)
        return meta_fail(call, ST_ARGUMENT, "output_size %s must have %d numbers", sizes_text(call, given, count).at,
                         n);
    TRY(is_float(call, 0));
    memcpy(sizes, self->sizes, sizeof *sizes * (size_t)self->rank);
    for (int i = 0; i < n; i++) {
        const int64_t of_dim = given[size->kind == ARG_int ? 0 : i];
        if (sym_less(call->env, of_dim, 0))
            return meta_fail(call, ST_ARGUMENT, "output_size %s must not be negative",
                             sizes_text(call, given, count).at);
        sizes[self->rank - n + i] = of_dim;
    }
    return check_numel(call, sizes, self->rank);
}

Status meta_adaptive_avg_pool(MetaCall *call) {
    const Meta *const self = tensor_meta(call, 0);
    const int n = list_length(call, 1);
    int64_t sizes[MAX_RANK];
    TRY(adaptive_fits(call, 0, n));
    TRY(adaptive_sizes(call, sizes));
    pool_out(call, 0, self, self->dtype, sizes, n == 2 && self->rank == 4);
    return ST_OK;
}
Status meta_adaptive_avg_pool1d(MetaCall *call) { return rows_as_planes(call, meta_adaptive_avg_pool(call)); }

Status meta_adaptive_max_pool(MetaCall *call) {
    const Meta *const self = tensor_meta(call, 0);
    const int n = list_length(call, 1);
    int64_t sizes[MAX_RANK];
    TRY(planes_fit(call, 0, n));
    TRY(adaptive_sizes(call, sizes));
    for (int i = 0; i < 2; i++) pool_out(call, i, self, i ? DT_i64 : self->dtype, sizes, n == 2 && self->rank == 4);
    return ST_OK;
}
Status meta_adaptive_max_pool1d(MetaCall *call) { return rows_as_planes(call, meta_adaptive_max_pool(call)); }

/* (grad_output, self): the planes agree */
static Status adaptive_backward(MetaCall *call, int n) {
    const Meta *const grad = tensor_meta(call, 0), *const self = tensor_meta(call, 1);
    TRY(adaptive_fits(call, 1, n));
    if (grad->rank != self->rank || !all_same(call->env, grad->sizes, self->sizes, self->rank - n))
        return meta_fail(call, ST_SHAPE, "grad_output %s does not fit self %s", SIZES(call, grad), SIZES(call, self));
    TRY(same_dtype(call, 0, 1));
    TRY(is_float(call, 0));
    return like_self(call, 1, n, n == 2);
}
static Status adaptive_max_backward(MetaCall *call, int n) {
    const Meta *const grad = tensor_meta(call, 0), *const indices = tensor_meta(call, 2);
    TRY(planes_fit(call, 1, n));
    TRY(adaptive_backward(call, n));
    if (indices->dtype != DT_i64)
        return meta_fail(call, ST_DTYPE, "indices must be i64, not %s", dtype_name(indices->dtype));
    if (indices->rank == grad->rank && all_same(call->env, indices->sizes, grad->sizes, grad->rank)) return ST_OK;
    return meta_fail(call, ST_SHAPE, "indices %s do not have the sizes of grad_output %s", SIZES(call, indices),
                     SIZES(call, grad));
}
Status meta_adaptive_max_pool2d_backward(MetaCall *call) { return adaptive_max_backward(call, 2); }
Status meta_adaptive_max_pool3d_backward(MetaCall *call) { return adaptive_max_backward(call, 3); }
Status meta_adaptive_avg_pool2d_backward(MetaCall *call) { return adaptive_backward(call, 2); }
Status meta_adaptive_avg_pool3d_backward(MetaCall *call) { return adaptive_backward(call, 3); }

/* columns ------------------------------------------------------------------------------------- */

/* How many windows lie along each of two dims of these sizes, by the four lists from argument `first` on. */
static Status windows_along(const MetaCall *call, int first, const int64_t *sizes, int64_t *kernel, int64_t *n) {
    PoolWindow p = {.n = 2};
    TRY(per_dim(call, first, 2, 1, NULL, p.kernel));
    TRY(per_dim(call, first + 1, 2, 1, NULL, p.dilation));
    TRY(per_dim(call, first + 2, 2, 0, NULL, p.padding));
    TRY(per_dim(call, first + 3, 2, 1, NULL, p.stride));
    for (int i = 0; i < 2; i++) {
        kernel[i] = p.kernel[i];
        n[i] = windows(call->env, &p, i, sizes[i], false);
        if (sym_less(call->env, n[i], 1))
            return meta_fail(call, ST_SHAPE, "a kernel of %lld with dilation %lld does not fit size %lld of dim %d",
                             (long long)p.kernel[i], (long long)p.dilation[i], (long long)sym_hint(call->env, sizes[i]),
                             i - 2);
    }
    return ST_OK;
}

static Status float_or_bool(const MetaCall *call, int arg) {
    const DType dtype = tensor_meta(call, arg)->dtype;
    return dtype_is(call, arg, dtype_is_float(dtype) || dtype == DT_bool);
}

/* (self, kernel_size, dilation, padding, stride) */
Status meta_im2col(MetaCall *call) {
    const Meta *const self = tensor_meta(call, 0);
    int64_t kernel[2], n[2], sizes[3];
    TRY(planes_fit(call, 0, 2));
    TRY(windows_along(call, 1, self->sizes + self->rank - 2, kernel, n));
    TRY(float_or_bool(call, 0));
    const int batched = self->rank == 4;
    if (batched) sizes[0] = self->sizes[0];
    sizes[batched] = sym_mul(call->env, self->sizes[batched], kernel[0] * kernel[1]);
    sizes[batched + 1] = sym_mul(call->env, n[0], n[1]);
    TRY(check_numel(call, sizes, batched + 2));
    out_plain(call, 0, self->dtype, self->device, sizes, batched + 2);
    return ST_OK;
}

/* (self, output_size, kernel_size, dilation, padding, stride) */
Status meta_col2im(MetaCall *call) {
    const Meta *const self = tensor_meta(call, 0);
    const Arg *const size = &call->args[1];
    int64_t kernel[2], n[2], sizes[4];
    TRY(planes_fit(call, 0, 1));
    if (size->n != 2 || sym_less(call->env, size->ints[0], 1) || sym_less(call->env, size->ints[1], 1))
        return meta_fail(call, ST_ARGUMENT, "output_size %s must have 2 sizes above 0",
                         sizes_text(call, size->ints, size->n).at);
    TRY(windows_along(call, 2, size->ints, kernel, n));
    TRY(float_or_bool(call, 0));
    const int batched = self->rank == 3;
    const int64_t area = kernel[0] * kernel[1], rows = self->sizes[batched], blocks = sym_mul(call->env, n[0], n[1]);
    if (!sym_same(call->env, sym_mod(call->env, rows, area), 0) ||
        !sym_same(call->env, self->sizes[batched + 1], blocks))
        return meta_fail(call, ST_SHAPE,
                         "self %s must have a multiple of %lld rows and %lld columns for output_size %s",
                         SIZES(call, self), (long long)area, (long long)sym_hint(call->env, blocks),
                         sizes_text(call, size->ints, 2).at);
    if (batched) sizes[0] = self->sizes[0];
    sizes[batched] = sym_div(call->env, rows, area);
    memcpy(sizes + batched + 1, size->ints, 2 * sizeof *sizes);
    TRY(check_numel(call, sizes, batched + 3));
    out_plain(call, 0, self->dtype, self->device, sizes, batched + 3);
    call->order = ORDER_index;
    return ST_OK;
}

/* pad by mode --------------------------------------------------------------------------------- */

MetaFn meta_constant_pad_nd;

static Status rule_of_pads(MetaCall *call, int n, bool mirrored) {
    const Meta *const self = tensor_meta(call, 0);
    int64_t sizes[MAX_RANK];
    TRY(planes_fit(call, 0, n));
    memcpy(sizes, self->sizes, sizeof *sizes * (size_t)self->rank);
    for (int i = 0; i < n; i++) TRY(padded_size(call, &call->args[1], i, mirrored, &sizes[self->rank - 1 - i]));
    TRY(check_numel(call, sizes, self->rank));
    TRY(no_bool(call, 0));
    out_suggested(call, 0, self, self->dtype, sizes, self->rank);
    return ST_OK;
}

/* (self, pad): what stands at the other end is read of what negative pads leave. */
Status meta_pad_circular(MetaCall *call) {
    const Meta *const self = tensor_meta(call, 0);
    const Arg *const pad = &call->args[1];
    SymEnv *const env = call->env;
    int64_t sizes[MAX_RANK];
    if (pad->n % 2 || pad->n / 2 > self->rank)
        return meta_fail(call, ST_ARGUMENT, "pad %s needs pairs for at most %d dims",
                         sizes_text(call, pad->ints, pad->n).at, self->rank);
    memcpy(sizes, self->sizes, sizeof *sizes * (size_t)self->rank);
    for (int i = 0; i < pad->n / 2; i++) {
        int64_t *const size = &sizes[self->rank - 1 - i];
        const int64_t before = sym_concrete(env, pad->ints[2 * i]), after = sym_concrete(env, pad->ints[2 * i + 1]);
        const int64_t most = max_i64(before, after);
        const bool far = min_i64(before, after) < -INT32_MAX || most > INT32_MAX;
        const int64_t cut = far ? 0 : min_i64(before, 0) + min_i64(after, 0);
        if (far || sym_less(env, sym_add(env, *size, cut), most))
            return meta_fail(call, ST_SHAPE, "pad %s goes around a dim of size %lld more than once",
                             sizes_text(call, pad->ints, pad->n).at, (long long)sym_hint(env, *size));
        *size = sym_add(env, *size, before + after);
        if (sym_less(env, *size, 0))
            return meta_fail(call, ST_SHAPE, "pad %s cuts more than a dim has", sizes_text(call, pad->ints, pad->n).at);
    }
    out_plain(call, 0, self->dtype, self->device, sizes, self->rank);
    return check_numel(call, sizes, self->rank);
}

/* In the order of PyTorch's padding_mode, whose numbers _pad_enum takes. */
static int pad_mode(const Arg *mode) {
    static const char *const names[] = {"reflect", "replicate", "circular", "constant"};
    if (mode->kind == ARG_int) return mode->i >= 0 && mode->i < COUNT_OF(names) ? (int)mode->i : -1;
    for (int i = 0; i < COUNT_OF(names); i++)
        if (!strcmp(mode->string, names[i])) return i;
    return -1;
}

/* (self, pad, mode, value): the constant one pads any dims, the others 1 to 3 behind one or two. */
Status meta_pad(MetaCall *call) {
    const Meta *const self = tensor_meta(call, 0);
    const Arg *const pad = &call->args[1], *const mode = &call->args[2], *const value = &call->args[3];
    const int which = pad_mode(mode), n = pad->n / 2;
    if (which < 0)
        return mode->kind == ARG_int ? meta_fail(call, ST_ARGUMENT, "mode must be 0 to 3, not %lld", (long long)mode->i)
                                     : meta_fail(call, ST_ARGUMENT,
                                                 "mode must be 'constant', 'reflect', 'replicate' "
                                                 "or 'circular', not '%s'",
                                                 mode->string);
    if (which == 3) return meta_constant_pad_nd(call);
    if (value->kind == ARG_float && value->f != 0)
        return meta_fail(call, ST_ARGUMENT, "value %g is for mode 'constant' alone", value->f);
    if (pad->n % 2 || n < 1 || n > 3 || (self->rank != n + 1 && self->rank != n + 2))
        return meta_fail(call, ST_ARGUMENT, "pad %s is not for %d dims", sizes_text(call, pad->ints, pad->n).at,
                         self->rank);
    return which == 2 ? meta_pad_circular(call) : rule_of_pads(call, n, which == 0);
}
