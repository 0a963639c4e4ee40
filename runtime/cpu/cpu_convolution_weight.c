/* cpu_convolution_weight.c: the gradient of a convolution's weight, in the order [B2.4]:
 *
 *   result[m, r, tap] = chain over (image, x) of left[image, m, x] * source[image, r, x * step + offset of tap]
 *
 * left is grad_output and source the input; of a transposed convolution, whose weight has the channels of input first,
 * the other way round. A chunk is 4,096 positions (image, x): its left operand is gathered, the rows of its patches lie
 * beside it, and their product is added to the chunks before. As in cpu_convolution.c, padding counts as 0 where left
 * is finite and is left out element by element where it is not. */
#include "runtime/cpu/conv_point.h"
#include "runtime/cpu/conv_taps.h"
#include "runtime/cpu/cpu_copy.h"
#include "runtime/core/pool.h"
#include "runtime/device/alloc_cpu.h"

typedef struct WeightScratch {
    char *left, *patch, *more; /* [rows][k]; [block][k]; [rows][block] */
    char *columns, *mask;      /* left_out: [k][block] */
    size_t bytes;
} WeightScratch;

static int64_t count_positions(const ConvWeightSum *s) { return s->g->batch * patches_per_image(&s->patches); }
static int64_t patch_rows(const ConvWeightSum *s) { return s->channels * kernel_size(s->g); }

/* left[m][first .. first + k] of the group */
static void gather_left(const ConvWeightSum *s, int64_t group, int64_t first, int64_t k, char *to) {
    const int64_t each = patches_per_image(&s->patches), all = s->g->groups * s->rows;
    const int bytes = s->g->bytes;
    for (int64_t m = 0; m < s->rows; m++)
        for (int64_t i = first, some; i < first + k; i += some, to += some * bytes) {
            const int64_t image = i / each, x = i % each;
            some = min_i64(each - x, first + k - i);
            memcpy(to, s->left + ((image * all + group * s->rows + m) * each + x) * bytes, (size_t)(some * bytes));
        }
}

/* from [n][k] to [k][n] */
static void transpose(const char *from, char *to, int64_t n, int64_t k, int bytes) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < k; j++) memcpy(to + (j * n + i) * bytes, from + (i * k + j) * bytes, (size_t)bytes);
}

/* The chain with padding left out, for a left operand that is not finite; patch holds [n][k]. */
static void left_out(const ConvWeightSum *s, int64_t q0, int64_t n, int64_t first, int64_t k, const WeightScratch *w,
                     char *to, int64_t to_ld) {
    const int64_t taps = kernel_size(s->g);
    const int bytes = s->g->bytes;
    Patches mask = s->patches;
    mask.source = s->ones, mask.batch_stride = mask.channel_stride = 0;
    transpose(w->patch, w->columns, n, k, bytes);
    for (int64_t q = 0; q < n; q++) patches_row(&mask, 0, (q0 + q) % taps, first, k, w->patch + q * k * bytes);
    transpose(w->patch, w->mask, n, k, bytes);
    for (int64_t m = 0; m < s->rows; m++) {
        memset(to + m * to_ld * bytes, 0, (size_t)(n * bytes));
        for (int64_t i = 0; i < k; i++)
            add_left_out(s->g, w->left + (m * k + i) * bytes, w->columns + i * n * bytes, w->mask + i * n * bytes,
                         to + m * to_ld * bytes, n);
    }
}

static void gather_operands(const ConvWeightSum *s, int64_t group, int64_t q0, int64_t first, const WeightScratch *w,
                            Chunk *chunk) {
    const int64_t taps = kernel_size(s->g), k = chunk->k;
    gather_left(s, group, first, k, w->left);
    for (int64_t q = 0; q < chunk->n; q++)
        patches_row(&s->patches, group * s->channels + (q0 + q) / taps, (q0 + q) % taps, first, k,
                    w->patch + q * k * s->g->bytes);
    chunk->left = w->left, chunk->patch = w->patch;
    chunk->left_row = chunk->patch_column = k, chunk->left_column = chunk->patch_row = 1;
}

/* Both operands where they lie. */
static void place_operands(const ConvWeightSum *s, int64_t q0, int64_t first, Chunk *chunk) {
    chunk->left = s->left + first * s->left_pixels.pixel * s->g->bytes;
    chunk->patch = s->patches.source + (first * s->source_pixels.pixel + q0) * s->g->bytes;
    chunk->left_row = chunk->patch_column = 1;
    chunk->left_column = s->left_pixels.pixel, chunk->patch_row = s->source_pixels.pixel;
}

/* Rows q0 .. q0 + n of the patches at k positions. */
static Status sum_chunk(const ConvWeightSum *s, int64_t group, int64_t q0, int64_t n, int64_t first, int64_t k,
                        const WeightScratch *w) {
    const int64_t all = patch_rows(s);
    const int bytes = s->g->bytes;
    char *const result = s->to + (group * s->rows * all + q0) * bytes, *const to = first ? w->more : result;
    const int64_t to_ld = first ? n : all;
    Chunk chunk = {.g = s->g, .m = s->rows, .n = n, .k = k, .to = to, .to_ld = to_ld};
    if (s->by_position) {
        place_operands(s, q0, first, &chunk);
    } else {
        gather_operands(s, group, q0, first, w, &chunk);
    }
    if (s->ones)
        left_out(s, q0, n, first, k, w, to, to_ld);
    else
        TRY(conv_multiply(&chunk));
    for (int64_t m = 0; m < s->rows && first; m++)
        add_elements(s->g, result + m * all * bytes, w->more + m * n * bytes, n);
    return ST_OK;
}

static Status scratch_begin(const ConvWeightSum *s, WeightScratch *w) {
    const int64_t k = min_i64(count_positions(s), CONV_CHUNK), bytes = s->g->bytes;
    const size_t left = (size_t)round_up(s->rows * k * bytes, 64), patch = (size_t)round_up(s->block * k * bytes, 64);
    const size_t more = (size_t)round_up(s->rows * s->block * bytes, 64);
    w->bytes = left + more + patch * (s->ones ? 3 : 1);
    if (!(w->left = cpu_alloc(w->bytes))) return ST_MEMORY;
    w->more = w->left + left, w->patch = w->more + more;
    w->columns = w->patch + patch, w->mask = w->columns + patch;
    return ST_OK;
}

static void weight_part(void *context, int part) {
    ConvWeightSum *const s = context;
    const int64_t all = patch_rows(s), blocks = ceil_div(all, s->block), q0 = part % blocks * s->block;
    WeightScratch w;
    Status status = scratch_begin(s, &w);
    if (status == ST_OK) {
        for (int64_t i = 0; i < count_positions(s) && status == ST_OK; i += CONV_CHUNK)
            status = sum_chunk(s, part / blocks, q0, min_i64(s->block, all - q0), i,
                               min_i64(CONV_CHUNK, count_positions(s) - i), &w);
        cpu_free(w.left, w.bytes);
    }
    if (status != ST_OK) atomic_store(&s->no_memory, true);
}

static Status run_sum(ConvWeightSum *s) {
    static const char zero[8];
    const int64_t all = patch_rows(s), n = s->g->groups * s->rows * all;
    const int64_t k = min_i64(count_positions(s), CONV_CHUNK);
    if (!n) return ST_OK;
    if (!k) return memset(s->to, 0, (size_t)(n * s->g->bytes)), ST_OK;
    if (conv_taps_weight_serve(s)) {
        TRY(conv_taps_weight_run(s));
        return add_number(s->g, s->to, zero, n), ST_OK;
    }
    s->block = min_i64(all, max_i64(CONV_BLOCK_BYTES / (k * s->g->bytes), 1));
    pool_run((int)(s->g->groups * ceil_div(all, s->block)), weight_part, s);
    add_number(s->g, s->to, zero, n);
    return s->no_memory ? error_raise(ST_MEMORY, "out of memory for a convolution's patches") : ST_OK;
}

/* What is owned while it runs. */
typedef struct WeightHeld {
    DenseData left, source, result, ones;
    int64_t *offsets;
    size_t offsets_bytes;
} WeightHeld;

static void weight_operands_end(WeightHeld *h) {
    plain_end(&h->left);
    plain_end(&h->source);
    plain_end(&h->result);
    plain_end(&h->ones);
    if (h->offsets) cpu_free(h->offsets, h->offsets_bytes);
}

static Status own(DenseData *p, int64_t n, int bytes) {
    p->owned = (size_t)(max_i64(n, 1) * bytes);
    return (p->at = cpu_alloc(p->owned)) ? ST_OK : ST_MEMORY;
}

static Status taps_begin(ConvWeightSum *s, WeightHeld *h) {
    const ConvGeometry *const g = s->g;
    h->offsets_bytes = (size_t)(g->kernel[0] + g->kernel[1] + g->kernel[2]) * sizeof *h->offsets;
    if (!(h->offsets = cpu_alloc(max_i64((int64_t)h->offsets_bytes, 8)))) return ST_MEMORY;
    int64_t *next = h->offsets;
    for (int d = 0; d < CONV_DIMS; d++) {
        s->patches.step[d] = g->stride[d], s->patches.taps[d] = (int)g->kernel[d], s->patches.offset[d] = next;
        for (int t = 0; t < g->kernel[d]; t++) *next++ = t * g->dilation[d] - g->padding[d];
    }
    return ST_OK;
}

/* The result's own memory where that is row-major in the compute type. */
static Status result_begin(ConvWeightSum *s, const sn_tensor *out, WeightHeld *h) {
    const Meta *const meta = out->base.meta;
    if (meta->contiguous && meta->dtype == compute_dtype(meta->dtype)) {
        s->to = tensor_data(out);
        return ST_OK;
    }
    TRY(own(&h->result, meta->numel, s->g->bytes));
    s->to = h->result.at;
    return ST_OK;
}

static void result_end(const sn_tensor *out, const WeightHeld *h) {
    const Meta *const meta = out->base.meta;
    int64_t strides[MAX_RANK];
    if (!h->result.at) return;
    meta_contiguous_strides(NULL, meta->sizes, meta->rank, strides);
    const StridedSpan from = {h->result.at, compute_dtype(meta->dtype), strides}, to = span_of(out);
    span_copy(&to, &from, meta->sizes, meta->rank);
}

/* One group with a kernel of one position, and channels that lie beside each other. */
static bool positions_serve(ConvWeightSum *s, const sn_tensor *left, const sn_tensor *source) {
    PointLayout l, r;
    if (s->g->groups != 1 || s->g->dtype != compute_dtype(s->g->dtype) || !conv_point_serves(s->g, left, source))
        return false;
    conv_point_layout(left, &l), conv_point_layout(source, &r);
    s->left_pixels.pixel = l.position, s->source_pixels.pixel = r.position;
    return l.channel == 1 && r.channel == 1 && l.merged && r.merged;
}

static Status weight_gradient(ConvWeightSum *s, const sn_tensor *left, const sn_tensor *source, const sn_tensor *out,
                              WeightHeld *h) {
    const ConvGeometry *const g = s->g;
    const Meta *const meta = source->base.meta;
    const int64_t plane = conv_plane(meta, s->patches.size);
    conv_plane(left->base.meta, s->patches.columns);
    s->rows = left->base.meta->sizes[1] / g->groups, s->channels = meta->sizes[1] / g->groups;
    TRY(taps_begin(s, h));
    s->by_pixel =
        conv_taps_weight_serve(s) && conv_pixels_of(left, &s->left_pixels) && conv_pixels_of(source, &s->source_pixels);
    s->by_position = !s->by_pixel && positions_serve(s, left, source);
    const bool placed = s->by_pixel || s->by_position;
    if (!placed) TRY(plain_begin(left, &h->left));
    if (!placed) TRY(plain_begin(source, &h->source));
    TRY(result_begin(s, out, h));
    if (!placed && !conv_taps_weight_serve(s) && !all_finite(h->left.at, g->type, left->base.meta->numel)) {
        TRY(own(&h->ones, plane, g->bytes));
        fill_ones(g, h->ones.at, plane);
    }
    s->left = placed ? tensor_data(left) : h->left.at, s->ones = h->ones.at;
    s->patches.source = placed ? tensor_data(source) : h->source.at, s->patches.bytes = g->bytes;
    s->patches.channel_stride = plane, s->patches.batch_stride = plane * meta->sizes[1];
    TRY(run_sum(s));
    result_end(out, h);
    return ST_OK;
}

Status cpu_convolution_weight(OpCall *call) {
    const sn_tensor *const grad = named_tensor(call, "grad_output"), *const input = named_tensor(call, "input");
    const ConvGeometry g = conv_geometry(call, call->outs[0]->base.meta->sizes);
    const bool transposed = conv_is_transposed(call);
    ConvWeightSum s = {.g = &g};
    WeightHeld held = {0};
    const Status status =
        weight_gradient(&s, transposed ? input : grad, transposed ? grad : input, call->outs[0], &held);
    weight_operands_end(&held);
    return status;
}
