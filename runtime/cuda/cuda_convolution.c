/* cuda_convolution.c: convolutions and their gradients on a CUDA device, each as the one form of
 * kernels/cuda/convolution.cuh:
 *
 *                        m                 column                    place                       left     source
 *   convolution          channel out       (image, position)         (channel in, tap)           weight   input
 *   its input gradient   channel in        (image, position of in)   (channel out, tap)          weight   grad_output
 *   its weight gradient  channel out       (channel in, tap)         (image, position of out)    grad     input
 *
 * A transposed convolution is the second, its input gradient the first, and in its weight gradient input and grad
 * change places. Which kernel runs, and whether chunks have blocks of their own, is a question of sizes and never of
 * bits. */
#include "kernels/cuda/planes.h"
#include "runtime/cuda/cuda_native.h"
#include "runtime/device/spatial.h"

enum {
    TILE = 64, /* rows and columns of a block of convolve_tiles */
    FEW = 16,  /* rows or places: an element a thread */
    CHUNK = 4096,
    BUSY = 256, /* blocks that fill a device */
    LARGE = 1 << 30,
    WORKSPACE_MOST = 64 << 20,
};

typedef struct ConvCall {
    CudaConvolution g;
    DType dtype;
    void *left, *source, *bias, *to;
} ConvCall;

/* Strides of a tensor: of its first two dims, then the spatial ones, 0 for missing ones. */
typedef struct Five {
    int64_t first, second, at[SPATIAL_DIMS];
} Five;
static Five strides_of(const sn_tensor *t) {
    const Meta *const meta = t->base.meta;
    const int n = meta->rank - 2;
    Five five = {.first = meta->strides[0], .second = meta->strides[1]};
    for (int d = 0; d < n; d++) five.at[SPATIAL_DIMS - n + d] = meta->strides[2 + d];
    return five;
}

static void copy_dims(int64_t *to, const int64_t *from) { memcpy(to, from, SPATIAL_DIMS * sizeof *to); }
static int64_t product_of(const int64_t *dims) { return dims[0] * dims[1] * dims[2]; }

static void put_source(CudaConvolution *g, const sn_tensor *source) {
    const Five strides = strides_of(source);
    spatial_sizes(source->base.meta, source->base.meta->rank - 2, g->size);
    copy_dims(g->source, strides.at);
}

/* The first form, or the second: turned. */
static void convolution_of(const OpCall *call, const sn_tensor *source, bool turned, ConvCall *c) {
    const sn_tensor *const weight = named_tensor(call, "weight"), *const out = call->outs[0];
    const ConvGeometry geometry = conv_geometry(call, weight->base.meta->sizes);
    const Five w = strides_of(weight), s = strides_of(source), o = strides_of(out);
    CudaConvolution *const g = &c->g;
    const int64_t channels = source->base.meta->sizes[1] / geometry.groups;
    const int64_t rows = out->base.meta->sizes[1] / geometry.groups;
    *g = (CudaConvolution){.groups = geometry.groups,
                           .rows = rows,
                           .outer_columns = out->base.meta->sizes[0],
                           .outer_places = channels,
                           .left_group = (turned ? channels : rows) * w.first,
                           .left_row = turned ? w.second : w.first,
                           .left_outer = turned ? w.first : w.second,
                           .source_group = channels * s.second,
                           .source_column = s.first,
                           .source_place = s.second,
                           .to_group = rows * o.second,
                           .to_row = o.second,
                           .to_outer = o.first};
    put_source(g, source);
    spatial_sizes(out->base.meta, out->base.meta->rank - 2, g->columns);
    copy_dims(g->places, geometry.kernel);
    copy_dims(g->left, w.at);
    copy_dims(g->to, o.at);
    for (int d = 0; d < SPATIAL_DIMS; d++) {
        g->padding[d] = geometry.padding[d], g->dilation[d] = geometry.dilation[d];
        g->stride[d] = turned ? geometry.stride[d] : 0;
        g->place_step[d] = geometry.stride[d] / common_divisor(geometry.stride[d], geometry.dilation[d]);
        g->by_column[d] = geometry.stride[d], g->by_place[d] = geometry.dilation[d], g->start[d] = -geometry.padding[d];
    }
    c->left = tensor_data(weight);
}

static void weight_gradient_of(const OpCall *call, const sn_tensor *left, const sn_tensor *source, ConvCall *c) {
    const sn_tensor *const out = call->outs[0];
    const ConvGeometry geometry = conv_geometry(call, out->base.meta->sizes);
    const Five l = strides_of(left), s = strides_of(source), o = strides_of(out);
    CudaConvolution *const g = &c->g;
    const int64_t channels = out->base.meta->sizes[1], rows = out->base.meta->sizes[0] / geometry.groups;
    *g = (CudaConvolution){.groups = geometry.groups,
                           .rows = rows,
                           .outer_columns = channels,
                           .outer_places = left->base.meta->sizes[0],
                           .left_group = rows * l.second,
                           .left_row = l.second,
                           .left_outer = l.first,
                           .source_group = channels * s.second,
                           .source_column = s.second,
                           .source_place = s.first,
                           .to_group = rows * o.first,
                           .to_row = o.first,
                           .to_outer = o.second};
    put_source(g, source);
    copy_dims(g->columns, geometry.kernel);
    spatial_sizes(left->base.meta, left->base.meta->rank - 2, g->places);
    copy_dims(g->left, l.at);
    copy_dims(g->to, o.at);
    copy_dims(g->by_column, geometry.dilation);
    copy_dims(g->by_place, geometry.stride);
    for (int d = 0; d < SPATIAL_DIMS; d++) g->start[d] = -geometry.padding[d];
    c->left = tensor_data(left);
}

/* launches ------------------------------------------------------------------------------------ */

static int64_t each_of(const CudaConvolution *g) {
    return g->groups * g->rows * g->outer_columns * product_of(g->columns);
}

/* Tiles know coordinates, columns and places as ints. */
static bool is_small(const CudaConvolution *g) {
    const int64_t columns = g->outer_columns * product_of(g->columns), places = g->outer_places * product_of(g->places);
    if (columns >= LARGE || places >= LARGE) return false;
    for (int d = 0; d < SPATIAL_DIMS; d++) {
        const int64_t reach = g->columns[d] * max_i64(g->by_column[d], 1) + g->places[d] * max_i64(g->by_place[d], 1);
        if (reach + g->padding[d] - g->start[d] >= LARGE || g->size[d] >= LARGE) return false;
    }
    return true;
}

static bool takes_tiles(const CudaConvolution *g) {
    return g->rows >= FEW && g->outer_places * product_of(g->places) >= FEW && is_small(g);
}

/* The largest phase is the first. */
static int64_t phases_of(CudaConvolution *g) {
    int64_t phases = 1, columns = g->outer_columns;
    for (int d = 0; d < SPATIAL_DIMS; d++) {
        const int64_t stride = max_i64(g->stride[d], 1);
        phases *= min_i64(stride, g->columns[d]);
        columns *= ceil_div(g->columns[d], stride);
    }
    g->row_tiles = ceil_div(g->rows, TILE), g->column_tiles = ceil_div(columns, TILE);
    return phases;
}

static Status launch_chains(CudaDevice *device, ConvCall *c, void *workspace) {
    CudaConvolution *const g = &c->g;
    const int64_t chunks = max_i64(g->n_chunks, 1);
    CudaHandLaunch launch = {.kernel = HAND_convolve_each,
                             .dtype = c->dtype,
                             .threads = each_of(g) * chunks,
                             HAND_VALUES(&c->left, &c->source, &c->bias, &c->to, &workspace, g)};
    if (takes_tiles(g)) {
        launch.kernel = HAND_convolve_tiles;
        launch.blocks = g->groups * phases_of(g) * g->row_tiles * g->column_tiles * chunks;
    }
    return cuda_hand_launch(device, &launch);
}

/* Chunks side by side, as many as workspace holds, then their sums in order. */
static Status launch_chunks(CudaDevice *device, ConvCall *c, int64_t chunks, char *workspace, int64_t at_once) {
    CudaConvolution *const g = &c->g;
    char *sums = workspace + each_of(g) * stype_bytes(dtype_compute(c->dtype));
    void *before = workspace;
    for (g->first_chunk = 0; g->first_chunk < chunks; g->first_chunk += at_once) {
        g->n_chunks = min_i64(at_once, chunks - g->first_chunk);
        int is_last = g->first_chunk + g->n_chunks == chunks;
        TRY(launch_chains(device, c, sums));
        TRY(cuda_hand_launch(device, &(CudaHandLaunch){.kernel = HAND_convolve_join,
                                                       .dtype = c->dtype,
                                                       .threads = each_of(g),
                                                       HAND_VALUES(&c->to, &before, &sums, g, &is_last)}));
    }
    return ST_OK;
}

static bool is_idle(CudaConvolution *g) {
    const int64_t tiles = g->groups * phases_of(g) * g->row_tiles * g->column_tiles;
    return (takes_tiles(g) ? tiles : ceil_div(each_of(g), CUDA_HAND_THREADS)) < BUSY;
}

/* Chunks of the transposed form are not equally long. */
static int64_t chunks_apart(CudaConvolution *g) {
    const int64_t chunks = ceil_div(g->outer_places * product_of(g->places), CHUNK);
    return chunks > 1 && is_idle(g) && !(g->stride[0] | g->stride[1] | g->stride[2]) && !g->bias ? chunks : 1;
}

static Status launch_all(CudaDevice *device, ConvCall *c) {
    const int64_t chunks = chunks_apart(&c->g), each = each_of(&c->g) * stype_bytes(dtype_compute(c->dtype));
    if (chunks == 1) return launch_chains(device, c, NULL);
    const int64_t at_once = min_i64(chunks, max_i64(WORKSPACE_MOST / each, 1));
    const size_t bytes = (size_t)((at_once + 1) * each);
    char *const workspace = device->row.memory.allocate(&device->row.memory, bytes);
    if (!workspace) return error_pending();
    const Status status = launch_chunks(device, c, chunks, workspace, at_once);
    device->row.memory.free(&device->row.memory, workspace, bytes);
    return status;
}

static Status run(const OpCall *call, const sn_tensor *source, ConvCall *c) {
    CudaDevice *const device = cuda_hand_device(call);
    const sn_tensor *const out = call->outs[0];
    c->source = tensor_data(source), c->to = tensor_data(out), c->dtype = out->base.meta->dtype;
    if (!out->base.meta->numel) return ST_OK;
    TRY(cuda_enter(device));
    const Status status = launch_all(device, c);
    cuda_leave(device);
    return status;
}

/* rows ---------------------------------------------------------------------------------------- */

Status cuda_convolution(OpCall *call) {
    const sn_tensor *const input = named_tensor(call, "input"), *const bias = named_tensor(call, "bias");
    ConvCall c = {0};
    convolution_of(call, input, conv_is_transposed(call), &c);
    if (bias) c.bias = tensor_data(bias), c.g.bias = bias->base.meta->strides[0];
    return run(call, input, &c);
}

Status cuda_convolution_input(OpCall *call) {
    const sn_tensor *const grad = named_tensor(call, "grad_output");
    ConvCall c = {0};
    convolution_of(call, grad, !conv_is_transposed(call), &c);
    return run(call, grad, &c);
}

Status cuda_convolution_weight(OpCall *call) {
    const sn_tensor *const grad = named_tensor(call, "grad_output"), *const input = named_tensor(call, "input");
    const bool transposed = conv_is_transposed(call);
    ConvCall c = {0};
    weight_gradient_of(call, transposed ? input : grad, transposed ? grad : input, &c);
    return run(call, transposed ? grad : input, &c);
}
