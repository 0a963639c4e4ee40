/* meta_sampler.c: planes and volumes read at positions between elements, bags of embeddings. */
#include "ir/meta_rules.h"

/* grids --------------------------------------------------------------------------------------- */

static Status mode_is(const MetaCall *call, int arg, const char *names) {
    const int64_t mode = call->args[arg].i;
    if (mode >= 0 && mode <= 2) return ST_OK;
    return meta_fail(call, ST_ARGUMENT, "%s must be 0, 1 or 2 (%s), not %lld", arg_name(call, arg), names,
                     (long long)mode);
}

/* input [N,C,H,W] and grid [N,h,w,2] from argument `first` on (of rank 5: [N,C,D,H,W] and [N,d,h,w,3]), then the two
 * modes. */
static Status grid_fits(const MetaCall *call, int first, int rank) {
    const Meta *const input = tensor_meta(call, first), *const grid = tensor_meta(call, first + 1);
    if (input->rank != rank || grid->rank != rank || !sym_same(call->env, grid->sizes[rank - 1], rank - 2) ||
        !sym_same(call->env, input->sizes[0], grid->sizes[0]))
        return meta_fail(call, ST_SHAPE, "input %s must be %s and grid %s %s", SIZES(call, input),
                         rank == 4 ? "[N,C,H,W]" : "[N,C,D,H,W]", SIZES(call, grid),
                         rank == 4 ? "[N,h,w,2]" : "[N,d,h,w,3]");
    for (int d = 2; d < rank; d++)
        if (sym_same(call->env, input->sizes[d], 0))
            return meta_fail(call, ST_SHAPE, "input %s has %s without elements", SIZES(call, input),
                             rank == 4 ? "planes" : "volumes");
    if (!dtype_is_float(input->dtype) || input->dtype != grid->dtype)
        return meta_fail(call, ST_DTYPE, "input and grid must be of one floating point dtype, not %s and %s",
                         dtype_name(input->dtype), dtype_name(grid->dtype));
    TRY(same_device(call, input, grid));
    TRY(mode_is(call, first + 2, rank == 4 ? "bilinear, nearest, bicubic" : "trilinear, nearest, tricubic"));
    return mode_is(call, first + 3, "zeros, border, reflection");
}

/* input's batch and channels, and grid's dims */
static void sampled_sizes(const Meta *input, const Meta *grid, int64_t *sizes) {
    memcpy(sizes, input->sizes, 2 * sizeof *sizes);
    for (int d = 2; d < input->rank; d++) sizes[d] = grid->sizes[d - 1];
}

static Status sampled(MetaCall *call, int rank) {
    TRY(grid_fits(call, 0, rank));
    const Meta *const input = tensor_meta(call, 0);
    int64_t sizes[5];
    sampled_sizes(input, tensor_meta(call, 1), sizes);
    TRY(check_numel(call, sizes, rank));
    out_plain(call, 0, input->dtype, input->device, sizes, rank);
    return ST_OK;
}

/* (input, grid, interpolation_mode, padding_mode, align_corners) */
Status meta_grid_sampler_2d(MetaCall *call) { return sampled(call, 4); }
Status meta_grid_sampler_3d(MetaCall *call) { return sampled(call, 5); }
Status meta_grid_sampler(MetaCall *call) { return sampled(call, tensor_meta(call, 0)->rank == 5 ? 5 : 4); }

static Status sampled_backward(MetaCall *call, int rank) {
    TRY(grid_fits(call, 1, rank));
    const Meta *const grad = tensor_meta(call, 0), *const input = tensor_meta(call, 1),
                      *const grid = tensor_meta(call, 2);
    const Arg *const mask = &call->args[6];
    const int64_t none = 0;
    int64_t sizes[5];
    sampled_sizes(input, grid, sizes);
    if (grad->rank != rank || !all_same(call->env, grad->sizes, sizes, rank))
        return meta_fail(call, ST_SHAPE, "grad_output %s does not have the sizes %s of the result", SIZES(call, grad),
                         sizes_text(call, sizes, rank).at);
    if (grad->dtype != input->dtype)
        return meta_fail(call, ST_DTYPE, "grad_output is %s, but input is %s", dtype_name(grad->dtype),
                         dtype_name(input->dtype));
    TRY(same_device(call, grad, input));
    if (mask->n != 2) return meta_fail(call, ST_ARGUMENT, "output_mask needs 2 entries");
    if (mask->ints[0])
        out_plain(call, 0, input->dtype, input->device, input->sizes, rank);
    else
        out_plain(call, 0, input->dtype, input->device, &none, 1);
    out_plain(call, 1, grid->dtype, grid->device, grid->sizes, rank);
    call->order = ORDER_index;
    return ST_OK;
}

/* (grad_output, input, grid, interpolation_mode, padding_mode, align_corners, output_mask) */
Status meta_grid_sampler_2d_backward(MetaCall *call) { return sampled_backward(call, 4); }
Status meta_grid_sampler_3d_backward(MetaCall *call) { return sampled_backward(call, 5); }

/* bags ---------------------------------------------------------------------------------------- */

static const Meta *tensor_named(const MetaCall *call, const char *name) {
    const int i = op_param_find(call->row, name);
    return i < 0 ? NULL : tensor_meta(call, i);
}

static Status positions_fit(const MetaCall *call, const char *name) {
    const Meta *const at = tensor_named(call, name);
    if (at->rank != 1) return meta_fail(call, ST_SHAPE, "%s must have 1 dim, not sizes %s", name, SIZES(call, at));
    if (at->dtype == DT_i32 || at->dtype == DT_i64) return ST_OK;
    return meta_fail(call, ST_DTYPE, "%s must be i32 or i64, not %s", name, dtype_name(at->dtype));
}

static Status bag_mode(const MetaCall *call, int64_t *mode) {
    *mode = arg_named(call, "mode")->i;
    if (*mode >= BAG_sum && *mode <= BAG_max) return ST_OK;
    return meta_fail(call, ST_ARGUMENT, "mode must be 0, 1 or 2 (sum, mean, max), not %lld", (long long)*mode);
}

/* One for each index, and only of sums. */
static Status sample_weights_fit(const MetaCall *call, const Meta *like, int64_t mode) {
    const Meta *const given = tensor_named(call, "per_sample_weights"), *const indices = tensor_named(call, "indices");
    if (!given) return ST_OK;
    if (mode != BAG_sum) return meta_fail(call, ST_ARGUMENT, "per_sample_weights are for mode 0 (sum) only");
    if (given->rank != 1 || !sym_same(call->env, given->sizes[0], indices->sizes[0]))
        return meta_fail(call, ST_SHAPE, "per_sample_weights %s must have the sizes %s of indices", SIZES(call, given),
                         SIZES(call, indices));
    if (given->dtype == like->dtype) return same_device(call, given, like);
    return meta_fail(call, ST_DTYPE, "per_sample_weights are %s, not %s", dtype_name(given->dtype),
                     dtype_name(like->dtype));
}

static Status table_fits(const MetaCall *call, const char *name) {
    const Meta *const table = tensor_named(call, name);
    if (table->rank != 2)
        return meta_fail(call, ST_SHAPE, "%s must have 2 dims, not sizes %s", name, SIZES(call, table));
    if (dtype_is_float(table->dtype)) return ST_OK;
    return meta_fail(call, ST_DTYPE, "%s must be floating point, not %s", name, dtype_name(table->dtype));
}

/* PyTorch leaves each index' bag out where a sum needs it nowhere: rows in one piece and no padding row. */
static bool has_no_bags(const MetaCall *call, int64_t mode, bool pads) {
    const Meta *const weight = tensor_named(call, "weight"), *const by = tensor_named(call, "per_sample_weights");
    return mode == BAG_sum && weight->dtype != DT_f64 && !pads && sym_same(call->env, weight->strides[1], 1) &&
           (!by || sym_same(call->env, by->strides[0], 1));
}

/* (weight, indices, offsets, ...): bags [B,D], each index' bag, their sizes, origins of maxima */
static Status bags(MetaCall *call, bool pads) {
    const Meta *const weight = tensor_named(call, "weight"), *const indices = tensor_named(call, "indices"),
                      *const offsets = tensor_named(call, "offsets");
    const bool ends = arg_named(call, "include_last_offset")->i != 0;
    int64_t mode;
    TRY(table_fits(call, "weight"));
    TRY(positions_fit(call, "indices"));
    TRY(positions_fit(call, "offsets"));
    TRY(bag_mode(call, &mode));
    TRY(sample_weights_fit(call, weight, mode));
    TRY(same_device(call, weight, indices));
    TRY(same_device(call, weight, offsets));
    if (ends && sym_less(call->env, offsets->sizes[0], 1))
        return meta_fail(call, ST_SHAPE, "offsets %s must have a last one", SIZES(call, offsets));
    const DType dtype = indices->dtype == offsets->dtype ? indices->dtype : DT_i64;
    const int64_t count = sym_sub(call->env, offsets->sizes[0], ends), none = 0, sizes[] = {count, weight->sizes[1]};
    TRY(check_numel(call, sizes, 2));
    out_plain(call, 0, weight->dtype, weight->device, sizes, 2);
    out_plain(call, 1, dtype, weight->device, has_no_bags(call, mode, pads) ? &none : indices->sizes, 1);
    out_plain(call, 2, dtype, weight->device, sizes, 1);
    out_plain(call, 3, dtype, weight->device, sizes, mode == BAG_max ? 2 : 1);
    return ST_OK;
}

Status meta_embedding_bag(MetaCall *call) {
    const Arg *const padding = arg_named(call, "padding_idx");
    return bags(call, padding && padding->i >= 0);
}

/* A sum's sizes, which nobody needs, are as many as offsets. */
Status meta_embedding_bag_forward_only(MetaCall *call) {
    TRY(meta_embedding_bag(call));
    const Meta *const offsets = tensor_named(call, "offsets");
    for (int i = 2; i < 4 && arg_named(call, "mode")->i == BAG_sum; i++)
        out_plain(call, i, call->out[i].dtype, offsets->device, offsets->sizes, 1);
    return ST_OK;
}

Status meta_embedding_bag_padding_idx(MetaCall *call) {
    const Meta *const weight = tensor_meta(call, 0);
    const Arg *const padding = arg_named(call, "padding_idx");
    TRY(table_fits(call, "weight"));
    if (padding->kind == ARG_int) {
        const int64_t at = sym_concrete(call->env, padding->i), rows = sym_concrete(call->env, weight->sizes[0]);
        if (at < -rows || at >= rows)
            return meta_fail(call, ST_ARGUMENT, "padding_idx %lld is none of the %lld rows of weight", (long long)at,
                             (long long)rows);
    }
    return bags(call, padding->kind == ARG_int);
}

/* (grad, indices, ..., bag_size, maximum_indices, num_weights, ...) */
static Status bag_gradient(MetaCall *call) {
    const Meta *const grad = tensor_meta(call, 0);
    int64_t mode;
    TRY(table_fits(call, "grad"));
    TRY(positions_fit(call, "indices"));
    TRY(positions_fit(call, "offset2bag"));
    TRY(bag_mode(call, &mode));
    TRY(sample_weights_fit(call, grad, mode));
    const Meta *const sizes_of = tensor_named(call, "bag_size"), *const from = tensor_named(call, "maximum_indices");
    if (mode == BAG_mean && (sizes_of->rank != 1 || !sym_same(call->env, sizes_of->sizes[0], grad->sizes[0])))
        return meta_fail(call, ST_SHAPE, "bag_size %s must have one size for each row of grad %s",
                         SIZES(call, sizes_of), SIZES(call, grad));
    if (mode == BAG_max && (from->rank != 2 || !all_same(call->env, from->sizes, grad->sizes, 2)))
        return meta_fail(call, ST_SHAPE, "maximum_indices %s must have the sizes %s of grad", SIZES(call, from),
                         SIZES(call, grad));
    const int64_t sizes[] = {arg_named(call, "num_weights")->i, grad->sizes[1]};
    if (sym_less(call->env, sizes[0], 0)) return meta_fail(call, ST_ARGUMENT, "num_weights must not be negative");
    TRY(check_numel(call, sizes, 2));
    out_plain(call, 0, grad->dtype, grad->device, sizes, 2);
    call->order = ORDER_index;
    return ST_OK;
}

static Status one_bag_each(const MetaCall *call) {
    const Meta *const bags = tensor_named(call, "offset2bag"), *const indices = tensor_named(call, "indices");
    if (sym_same(call->env, bags->sizes[0], indices->sizes[0])) return ST_OK;
    return meta_fail(call, ST_SHAPE, "offset2bag %s must have the sizes %s of indices", SIZES(call, bags),
                     SIZES(call, indices));
}

Status meta_embedding_bag_dense_backward(MetaCall *call) {
    TRY(bag_gradient(call));
    return one_bag_each(call);
}

/* With offsets, which give each index' bag where offset2bag is empty. */
Status meta_embedding_bag_backward(MetaCall *call) {
    TRY(bag_gradient(call));
    TRY(positions_fit(call, "offsets"));
    if (arg_named(call, "sparse")->i) return meta_fail(call, ST_UNSUPPORTED, "there are no sparse gradients");
    return sym_same(call->env, tensor_named(call, "offset2bag")->sizes[0], 0) ? ST_OK : one_bag_each(call);
}

/* (grad, weight, indices, offsets, offset2bag, mode, padding_idx) */
Status meta_embedding_bag_weights_backward(MetaCall *call) {
    const Meta *const grad = tensor_meta(call, 0), *const weight = tensor_meta(call, 1);
    int64_t mode;
    TRY(table_fits(call, "grad"));
    TRY(table_fits(call, "weight"));
    TRY(positions_fit(call, "indices"));
    TRY(positions_fit(call, "offsets"));
    TRY(positions_fit(call, "offset2bag"));
    TRY(bag_mode(call, &mode));
    if (mode != BAG_sum) return meta_fail(call, ST_ARGUMENT, "per_sample_weights are for mode 0 (sum) only");
    if (grad->dtype != weight->dtype || !sym_same(call->env, grad->sizes[1], weight->sizes[1]))
        return meta_fail(call, ST_SHAPE, "grad %s must have the rows' length and the dtype of weight %s",
                         SIZES(call, grad), SIZES(call, weight));
    if (!sym_same(call->env, tensor_named(call, "offset2bag")->sizes[0], 0)) TRY(one_bag_each(call));
    out_plain(call, 0, grad->dtype, grad->device, tensor_named(call, "indices")->sizes, 1);
    return ST_OK;
}

/* (theta or grad, size, align_corners) */
static Status grid_sizes(const MetaCall *call) {
    const Meta *const given = tensor_meta(call, 0);
    const Arg *const size = &call->args[1];
    if (size->n != 4 && size->n != 5)
        return meta_fail(call, ST_ARGUMENT, "size %s must have 4 or 5 numbers",
                         sizes_text(call, size->ints, size->n).at);
    for (int i = 0; i < size->n; i++)
        if (sym_less(call->env, size->ints[i], 0))
            return meta_fail(call, ST_ARGUMENT, "size %s must not be negative",
                             sizes_text(call, size->ints, size->n).at);
    if (dtype_is_float(given->dtype)) return ST_OK;
    return meta_fail(call, ST_DTYPE, "%s is %s", arg_name(call, 0), dtype_name(given->dtype));
}

static Status wrong_grid(const MetaCall *call, const int64_t *want, int n) {
    const Meta *const given = tensor_meta(call, 0);
    if (given->rank == n && all_same(call->env, given->sizes, want, n)) return ST_OK;
    return meta_fail(call, ST_SHAPE, "%s must have sizes %s, not %s", arg_name(call, 0), sizes_text(call, want, n).at,
                     SIZES(call, given));
}

Status meta_affine_grid_generator(MetaCall *call) {
    const Meta *const theta = tensor_meta(call, 0);
    TRY(grid_sizes(call));
    const int dims = call->args[1].n - 2;
    const int64_t *const size = call->args[1].ints, matrix[] = {size[0], dims, dims + 1};
    TRY(wrong_grid(call, matrix, 3));
    int64_t sizes[5] = {size[0]};
    for (int d = 0; d < dims; d++) sizes[1 + d] = size[2 + d];
    sizes[1 + dims] = dims;
    out_plain(call, 0, theta->dtype, theta->device, sizes, dims + 2);
    return check_numel(call, sizes, dims + 2);
}

/* A matrix for each batch, transposed in memory. */
Status meta_affine_grid_generator_backward(MetaCall *call) {
    const Meta *const grad = tensor_meta(call, 0);
    TRY(grid_sizes(call));
    const int dims = call->args[1].n - 2;
    const int64_t *const size = call->args[1].ints, matrix[] = {size[0], dims, dims + 1};
    int64_t sizes[5] = {size[0]};
    for (int d = 0; d < dims; d++) sizes[1 + d] = size[2 + d];
    sizes[1 + dims] = dims;
    TRY(wrong_grid(call, sizes, dims + 2));
    out_plain(call, 0, grad->dtype, grad->device, matrix, 3);
    call->out[0].strides[1] = 1, call->out[0].strides[2] = dims;
    return check_numel(call, matrix, 3);
}
