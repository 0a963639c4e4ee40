/* conv_point.c: see conv_point.h. Where channels lie beside each other, positions are the rows of one product; else
 * each image is a product whose columns are its positions. */
#include "runtime/cpu/conv_point.h"

#include "ir/loop.h"
#include "runtime/core/pool.h"
#include "runtime/cpu/cpu_copy.h"
#include "runtime/cpu/cpu_gemm.h"
#include "runtime/device/alloc_cpu.h"

enum { WIDE = 64 /* numbers in a row of the bias as tiles add it */ };

bool conv_point_layout(const sn_tensor *t, PointLayout *layout) {
    const Meta *const meta = t->base.meta;
    const int64_t *const strides = meta->strides;
    int64_t positions = 1, apart = 1;
    for (int d = meta->rank - 1; d >= 2; positions *= meta->sizes[d--]) {
        if (meta->sizes[d] == 1) continue;
        if (positions == 1) apart = strides[d];
        if (strides[d] != positions * apart) return false;
    }
    *layout = (PointLayout){strides[0], strides[1], apart, meta->sizes[0] == 1 || strides[0] == positions * apart};
    return true;
}

static bool is_point(const ConvGeometry *g) {
    for (int d = 0; d < SPATIAL_DIMS; d++)
        if (g->kernel[d] != 1 || g->stride[d] != 1 || g->padding[d]) return false;
    return g->type == S_f32 || g->type == S_f64;
}

bool conv_point_serves(const ConvGeometry *g, const sn_tensor *a, const sn_tensor *b) {
    PointLayout layout;
    return is_point(g) && conv_point_layout(a, &layout) && conv_point_layout(b, &layout);
}

typedef struct PointRun {
    const ConvPoint *c;
    PointLayout source, out;
    GemmCall call;    /* of one image and group */
    bool by_position; /* rows of the product are positions */
    char *numbers;    /* 0 + bias in the compute type: one for each channel, by_position; else rows of WIDE */
    size_t bytes;
    int64_t rows, channels; /* m and r of a group */
    _Atomic bool failed;
} PointRun;

/* A product's share: which group and image its tiles belong to. */
typedef struct PointPart {
    const PointRun *run;
    int64_t group;
    char *out;
} PointPart;

/* A tile, + 0 + bias, to where it belongs. */
static void store_tile(void *context, const GemmTile *tile) {
    const PointPart *const part = context;
    const PointRun *const run = part->run;
    const ConvGeometry *const g = run->c->g;
    BlockFn *const add = kernel_table()->prim(PRIM_add, g->type);
    StoreFn *const store = kernel_table()->store(g->dtype);
    const bool direct = compute_dtype(g->dtype) == g->dtype && run->call.c_col == 1;
    BlockBuffer sums;
    for (int64_t i = 0; i < tile->rows; i++)
        for (int64_t j = 0, n; j < tile->columns; j += n) {
            const int64_t row = tile->row + i, column = tile->column + j, first = part->group * run->rows;
            n = min_i64(tile->columns - j, WIDE);
            const int64_t number = run->by_position ? first + column : (first + row) * WIDE;
            char *const to = part->out + (row * run->call.c_row + column * run->call.c_col) * dtype_bytes(g->dtype);
            add(direct ? to : sums.at, (const char *)tile->at + (i * tile->ld + j) * g->bytes,
                run->numbers + number * g->bytes, NULL, n);
            if (!direct) store(to, run->call.c_col, sums.at, n);
        }
}

/* By image and group, or by group where images follow each other. */
static void point_part(void *context, int number) {
    PointRun *const run = context;
    const ConvPoint *const c = run->c;
    const int bytes = dtype_bytes(c->g->dtype);
    const int64_t image = number / c->g->groups, group = number % c->g->groups;
    PointPart part = {.run = run, .group = group};
    GemmCall call = run->call;
    const char *const source = (const char *)tensor_data(c->source) +
                               (image * run->source.image + group * run->channels * run->source.channel) * bytes;
    const int64_t first = group * (c->transposed ? run->channels : run->rows) * c->weight->base.meta->strides[0];
    const char *const weight = (const char *)tensor_data(c->weight) + first * bytes;
    part.out = (char *)tensor_data(c->out) + (image * run->out.image + group * run->rows * run->out.channel) * bytes;
    call.a = run->by_position ? source : weight, call.b = run->by_position ? weight : source;
    call.c = part.out, call.tile = store_tile, call.context = &part;
    if (gemm_run(&call) != ST_OK) atomic_store(&run->failed, true);
}

static Status numbers_begin(PointRun *run) {
    const ConvGeometry *const g = run->c->g;
    const int64_t n = g->groups * run->rows, wide = run->by_position ? 1 : WIDE;
    static const char zero[8];
    DenseData bias = {0};
    run->bytes = (size_t)(max_i64(n, 1) * wide * g->bytes);
    if (run->c->bias) TRY(plain_begin(run->c->bias, &bias));
    run->numbers = cpu_alloc(run->bytes);
    for (int64_t i = 0; i < n && run->numbers; i++)
        conv_splat(run->numbers + i * wide * g->bytes, bias.at ? bias.at + i * g->bytes : zero, g->bytes, wide);
    plain_end(&bias);
    if (!run->numbers) return ST_MEMORY;
    add_number(g, run->numbers, zero, n * wide);
    return ST_OK;
}

/* The call of one group: by position [x, r] [r, m], else [m, r] [r, x]. */
static GemmCall point_call(const PointRun *run, int64_t positions) {
    const ConvPoint *const c = run->c;
    const int64_t *const strides = c->weight->base.meta->strides;
    const int64_t by_row = strides[c->transposed], by_channel = strides[!c->transposed];
    GemmCall call = {.dtype = c->g->dtype, .k = run->channels, .batch = 1};
    if (run->by_position) {
        call.m = positions, call.n = run->rows;
        call.a_row = run->source.position, call.a_col = run->source.channel;
        call.b_row = by_channel, call.b_col = by_row;
        call.c_row = run->out.position, call.c_col = run->out.channel;
        return call;
    }
    call.m = run->rows, call.n = positions;
    call.a_row = by_row, call.a_col = by_channel;
    call.b_row = run->source.channel, call.b_col = run->source.position;
    call.c_row = run->out.channel, call.c_col = run->out.position;
    return call;
}

static Status run_point(PointRun *run) {
    const ConvPoint *const c = run->c;
    const Meta *const meta = c->source->base.meta;
    int64_t sizes[SPATIAL_DIMS];
    const int64_t images = meta->sizes[0], positions = conv_plane(meta, sizes);
    const bool merged = run->by_position && run->source.merged && run->out.merged;
    run->call = point_call(run, positions * (merged ? images : 1));
    const int64_t parts = (merged ? 1 : images) * c->g->groups;
    if (!run->call.m || !run->call.n || !images) return ST_OK;
    if (parts == 1)
        point_part(run, 0); /* its rows are shared between threads */
    else
        pool_run((int)parts, point_part, run);
    return run->failed ? error_raise(ST_MEMORY, "out of memory for a convolution's products") : ST_OK;
}

Status conv_point_run(const ConvPoint *c) {
    const sn_tensor *const out = c->out;
    PointRun run = {.c = c,
                    .rows = out->base.meta->sizes[1] / c->g->groups,
                    .channels = c->source->base.meta->sizes[1] / c->g->groups};
    conv_point_layout(c->source, &run.source), conv_point_layout(out, &run.out);
    run.by_position = run.source.channel == 1 && run.out.channel == 1 && run.source.position != 1;
    Status status = numbers_begin(&run);
    if (status == ST_OK) status = run_point(&run);
    if (run.numbers) cpu_free(run.numbers, run.bytes);
    return status;
}
