/* cpu_convolution.c: convolution and its gradients in the order [B2.4], as products of matrices:
 * one chain per element over the rows of conv_patches.h, in chunks of 4,096 positions of the whole kernel.
 *
 * Three sums have one form, result[n, m, x] = sum over (r, tap) of weight[m, r, tap] * source[n, r, x * step + offset
 * of tap]:
 *   convolution        r: channels of input, m: of the result, offset = tap * dilation - padding
 *   transposed one     r: channels of input, m: of the result; position i of the result takes the taps with
 *                      i + padding - tap * dilation divisible by the stride. Positions that leave the same rest by the
 *                      stride, a phase, have the same taps: each phase is a sum of this form with step 1
 *   gradient of input  the transposed convolution of a convolution's grad_output, and the other way round
 * The gradient of weight is in cpu_convolution_weight.c; kernels of one position are in
 * conv_point.h, groups of one channel (depthwise) in conv_taps.h.
 *
 * A product takes padding as 0, where the rule leaves it out. fma(w, 0, sum) is sum, but for the sign of a sum of 0
 * (the rule ends by adding +0, so none has one) and for a w that is inf or NaN: then `left_out` adds element by
 * element. Results do not depend on blocks, layout or threads: an element is one chain. */
#include "runtime/cpu/conv_point.h"
#include "runtime/cpu/conv_product.h"
#include "runtime/cpu/conv_taps.h"
#include "runtime/cpu/cpu_copy.h"
#include "runtime/core/pool.h"
#include "runtime/device/alloc_cpu.h"

enum { LEAST_COLUMNS = 64, /* a panel of the product's */ MOST_COLUMNS = 4096 };

/* convolution ---------------------------------------------------------------------------------------------------- */

/* What a part works in. */
typedef struct ConvScratch {
    char *patch, *sum, *more, *mask;
    size_t bytes;
} ConvScratch;

/* The chain with padding left out, for weights that are not finite. */
static void left_out(const ConvSum *s, int64_t group, int64_t q0, int64_t q1, int64_t first, int64_t n,
                     const ConvScratch *scratch, char *to) {
    const int64_t taps = patches_taps(&s->patches), all = s->channels * taps;
    const int bytes = s->g->bytes;
    Patches mask = s->patches;
    mask.source = s->ones, mask.batch_stride = mask.channel_stride = 0;
    memset(to, 0, (size_t)(s->rows * n * bytes));
    for (int64_t q = q0; q < q1; q++) {
        patches_row(&s->patches, group * s->channels + q / taps, q % taps, first, n, scratch->patch);
        patches_row(&mask, 0, q % taps, first, n, scratch->mask);
        for (int64_t m = 0; m < s->rows; m++)
            add_left_out(s->g, s->weight + ((group * s->rows + m) * all + q) * bytes, scratch->patch, scratch->mask,
                         to + m * n * bytes, n);
    }
}

static Status sum_chunk(const ConvSum *s, int64_t group, int64_t q0, int64_t q1, int64_t first, int64_t n,
                        const ConvScratch *scratch, char *to) {
    const int64_t taps = patches_taps(&s->patches), all = s->channels * taps;
    const int bytes = s->g->bytes;
    if (s->ones) return left_out(s, group, q0, q1, first, n, scratch, to), ST_OK;
    for (int64_t q = q0; q < q1; q++)
        patches_row(&s->patches, group * s->channels + q / taps, q % taps, first, n,
                    scratch->patch + (q - q0) * n * bytes);
    const Chunk chunk = {.g = s->g,
                         .left = s->weight + (group * s->rows * all + q0) * bytes,
                         .left_row = all,
                         .left_column = 1,
                         .patch_row = n,
                         .patch_column = 1,
                         .m = s->rows,
                         .n = n,
                         .k = q1 - q0,
                         .patch = scratch->patch,
                         .to = to,
                         .to_ld = n};
    return conv_multiply(&chunk);
}

/* Where columns lie in the result. */
typedef struct ResultStrides {
    int64_t strides[CONV_DIMS]; /* of its spatial dims, in elements */
    bool whole;                 /* an image's columns are equally far apart, not only those of a line */
} ResultStrides;

static ResultStrides result_strides_of(const ConvSum *s) {
    ResultStrides p = {.whole = true};
    for (int d = 0; d < CONV_DIMS; d++) p.strides[d] = conv_sums_apart(s, d) * s->step[d];
    for (int d = 0; d < CONV_DIMS - 1; d++)
        p.whole &= s->patches.columns[d] == 1 || p.strides[d] == p.strides[d + 1] * s->patches.columns[d + 1];
    return p;
}

/* Element of the first channel that column x of all is. */
static int64_t source_at(const ConvSum *s, const ResultStrides *p, int64_t x) {
    const int64_t *const columns = s->patches.columns;
    int64_t at = x / patches_per_image(&s->patches) * s->out->base.meta->strides[0];
    for (int d = CONV_DIMS - 1; d >= 0; x /= columns[d--])
        at += x % columns[d] * p->strides[d] + s->first[d] * conv_sums_apart(s, d);
    return at;
}

/* Columns first .. first + n of `rows` rows of sums, n apart, to where they belong in the result: as many at once as
 * are equally far apart there. */
static void store_sums(const ConvSum *s, int64_t channel, int64_t first, int64_t n, const char *sums) {
    const ResultStrides places = result_strides_of(s);
    const int64_t line = places.whole ? patches_per_image(&s->patches) : s->patches.columns[2];
    for (int64_t x = 0, some; x < n; x += some) {
        some = min_i64(n - x, line - (first + x) % line);
        const int64_t at = source_at(s, &places, first + x) + channel * s->out->base.meta->strides[1];
        conv_sums_store(s, at, places.strides[2], sums + x * s->g->bytes, n, some);
    }
}

static void finish_sums(const ConvSum *s, int64_t group, int64_t first, int64_t n, char *sums) {
    for (int64_t m = 0; m < s->rows; m++) conv_sums_add_bias(s, group * s->rows + m, sums + m * n * s->g->bytes, n);
    store_sums(s, group * s->rows, first, n, sums);
}

static Status sum_block(const ConvSum *s, int64_t group, int64_t first, int64_t n, const ConvScratch *scratch) {
    const int64_t all = s->channels * patches_taps(&s->patches);
    memset(scratch->sum, 0, all ? 0 : (size_t)(s->rows * n * s->g->bytes));
    for (int64_t q = 0, end; q < all; q = end) {
        end = conv_sums_chunk_end(s, q);
        TRY(sum_chunk(s, group, q, end, first, n, scratch, q ? scratch->more : scratch->sum));
        if (q) add_elements(s->g, scratch->sum, scratch->more, s->rows * n);
    }
    finish_sums(s, group, first, n, scratch->sum);
    return ST_OK;
}

static Status scratch_begin(const ConvSum *s, ConvScratch *scratch) {
    const int64_t all = s->channels * patches_taps(&s->patches), deep = s->ones ? 1 : min_i64(all, CONV_CHUNK);
    const size_t patch = (size_t)(round_up(max_i64(deep, 1) * s->block * s->g->bytes, 64));
    const size_t sums = (size_t)(round_up(s->rows * s->block * s->g->bytes, 64));
    const size_t mask = s->ones ? (size_t)round_up(s->block * s->g->bytes, 64) : 0;
    scratch->bytes = patch + 2 * sums + mask;
    if (!(scratch->patch = cpu_alloc(scratch->bytes))) return ST_MEMORY;
    scratch->sum = scratch->patch + patch, scratch->more = scratch->sum + sums, scratch->mask = scratch->more + sums;
    return ST_OK;
}

static int64_t all_columns(const ConvSum *s) { return s->g->batch * patches_per_image(&s->patches); }

static void sum_part(void *context, int part) {
    ConvSum *const s = context;
    const int64_t blocks = ceil_div(all_columns(s), s->block), first = part % blocks * s->block;
    ConvScratch scratch;
    if (scratch_begin(s, &scratch) != ST_OK) {
        atomic_store(&s->no_memory, true);
        return;
    }
    if (sum_block(s, part / blocks, first, min_i64(s->block, all_columns(s) - first), &scratch) != ST_OK)
        atomic_store(&s->no_memory, true);
    cpu_free(scratch.patch, scratch.bytes);
}

static Status run_sum(ConvSum *s) {
    const int64_t deep = min_i64(max_i64(s->channels * patches_taps(&s->patches), 1), CONV_CHUNK);
    const int64_t fits = CONV_BLOCK_BYTES / (deep * s->g->bytes) / LEAST_COLUMNS * LEAST_COLUMNS;
    const int64_t columns = all_columns(s);
    if (!columns || !s->rows) return ST_OK;
    if (s->by_pixel) return conv_pixels_run(s);
    if (conv_taps_serve(s)) return conv_taps_run(s);
    if (conv_product_serves(s)) return conv_product_run(s);
    s->block = min_i64(max_i64(min_i64(fits, MOST_COLUMNS), LEAST_COLUMNS), columns);
    pool_run((int)(s->g->groups * ceil_div(columns, s->block)), sum_part, s);
    return s->no_memory ? error_raise(ST_MEMORY, "out of memory for a convolution's patches") : ST_OK;
}

/* Taps of one dim: of all of them or of a phase. */
typedef struct Taps {
    int n;
    int64_t *offset, *number; /* by tap of the phase: where it reads; which of the kernel's it is */
} Taps;

static void taps_all(const ConvGeometry *g, int d, Taps *taps) {
    taps->n = (int)g->kernel[d];
    for (int t = 0; t < taps->n; t++) taps->offset[t] = t * g->dilation[d] - g->padding[d], taps->number[t] = t;
}

static void taps_of_phase(const ConvGeometry *g, int d, int64_t phase, Taps *taps) {
    taps->n = 0;
    for (int t = 0; t < g->kernel[d]; t++) {
        const int64_t from = phase + g->padding[d] - t * g->dilation[d];
        if (from % g->stride[d]) continue;
        taps->offset[taps->n] = from / g->stride[d];
        taps->number[taps->n++] = t;
    }
}

/* Memory of one convolution: taps, and the weights of a phase. */
typedef struct ConvTables {
    int64_t *at;
    size_t bytes;
    Taps taps[CONV_DIMS];
    int64_t *whole;
    char *weight;
} ConvTables;

static Status work_begin(const ConvGeometry *g, int64_t weights, ConvTables *w) {
    const int64_t k = kernel_size(g), sides = g->kernel[0] + g->kernel[1] + g->kernel[2];
    w->bytes = (size_t)(2 * sides + k + 1) * sizeof *w->at + (size_t)(weights * g->bytes);
    if (!(w->at = cpu_alloc(w->bytes))) return ST_MEMORY;
    int64_t *next = w->at;
    for (int d = 0; d < CONV_DIMS; d++) {
        w->taps[d] = (Taps){.offset = next, .number = next + g->kernel[d]};
        next += 2 * g->kernel[d];
    }
    w->whole = next;
    w->weight = (char *)(next + k);
    return ST_OK;
}

/* Points the sum at the work's taps. */
static void use_taps(ConvSum *s, const ConvTables *w) {
    int64_t i = 0;
    for (int d = 0; d < CONV_DIMS; d++) s->patches.taps[d] = w->taps[d].n, s->patches.offset[d] = w->taps[d].offset;
    for (int a = 0; a < w->taps[0].n; a++)
        for (int b = 0; b < w->taps[1].n; b++)
            for (int c = 0; c < w->taps[2].n; c++)
                w->whole[i++] = (w->taps[0].number[a] * s->g->kernel[1] + w->taps[1].number[b]) * s->g->kernel[2] +
                                w->taps[2].number[c];
    s->whole = w->whole;
}

/* weight [groups * channels, rows, kernel] as [groups][rows][channels][taps of the phase] */
static void transpose_weight(const ConvSum *s, const char *weight, char *to) {
    const int64_t taps = patches_taps(&s->patches), kernel = kernel_size(s->g);
    const int bytes = s->g->bytes;
    for (int64_t g = 0; g < s->g->groups; g++)
        for (int64_t m = 0; m < s->rows; m++)
            for (int64_t r = 0; r < s->channels; r++) {
                const char *const from = weight + ((g * s->channels + r) * s->rows + m) * kernel * bytes;
                for (int64_t t = 0; t < taps; t++, to += bytes) memcpy(to, from + s->whole[t] * bytes, (size_t)bytes);
            }
}

static Status run_plain(ConvSum *s, const char *weight, ConvTables *w) {
    const ConvGeometry *const g = s->g;
    for (int d = 0; d < CONV_DIMS; d++) {
        taps_all(g, d, &w->taps[d]);
        s->patches.step[d] = g->stride[d], s->step[d] = 1, s->first[d] = 0;
    }
    conv_plane(s->out->base.meta, s->patches.columns);
    use_taps(s, w);
    s->weight = weight;
    return run_sum(s);
}

static Status run_phases(ConvSum *s, const char *weight, ConvTables *w) {
    const ConvGeometry *const g = s->g;
    int64_t sizes[CONV_DIMS], *const first = s->first;
    conv_plane(s->out->base.meta, sizes);
    for (int d = 0; d < CONV_DIMS; d++) s->step[d] = g->stride[d], s->patches.step[d] = 1;
    const int64_t most[CONV_DIMS] = {min_i64(g->stride[0], sizes[0]), min_i64(g->stride[1], sizes[1]),
                                     min_i64(g->stride[2], sizes[2])};
    for (int64_t phase = 0; phase < product3(most); phase++) {
        first[2] = phase % most[2], first[1] = phase / most[2] % most[1], first[0] = phase / most[2] / most[1];
        for (int d = 0; d < CONV_DIMS; d++) {
            taps_of_phase(g, d, first[d], &w->taps[d]);
            s->patches.columns[d] = ceil_div(sizes[d] - first[d], g->stride[d]);
        }
        use_taps(s, w);
        transpose_weight(s, weight, w->weight);
        s->weight = w->weight;
        TRY(run_sum(s));
    }
    return ST_OK;
}

/* A plane of ones as large as the source's. */
static Status ones_begin(const ConvSum *s, DenseData *ones) {
    const int64_t n = max_i64(product3(s->patches.size), 1);
    ones->owned = (size_t)(n * s->g->bytes);
    if (!(ones->at = cpu_alloc(ones->owned))) return ST_MEMORY;
    fill_ones(s->g, ones->at, n);
    return ST_OK;
}

/* No -0 in it: x + 0 + bias is then one addition. */
static Status bias_begin(const sn_tensor *bias, const ConvGeometry *g, DenseData *p) {
    DenseData own;
    static const char zero[8];
    const int64_t n = bias->base.meta->numel;
    TRY(plain_begin(bias, &own));
    p->owned = (size_t)(max_i64(n, 1) * g->bytes);
    p->at = cpu_alloc(p->owned);
    if (p->at) memcpy(p->at, own.at, (size_t)(n * g->bytes));
    plain_end(&own);
    if (p->at) add_number(g, p->at, zero, n);
    return p->at ? ST_OK : ST_MEMORY;
}

/* What is owned while a convolution runs. */
typedef struct ConvOperands {
    DenseData source, weight, bias, ones;
    ConvTables work;
} ConvOperands;

static void operands_end(ConvOperands *h) {
    plain_end(&h->source);
    plain_end(&h->weight);
    plain_end(&h->bias);
    plain_end(&h->ones);
    if (h->work.at) cpu_free(h->work.at, h->work.bytes);
}

static Status convolve_into(ConvSum *s, const sn_tensor *source, const sn_tensor *weight, const sn_tensor *bias,
                            bool transposed, ConvOperands *h) {
    const ConvGeometry *const g = s->g;
    const Meta *const meta = source->base.meta;
    const int64_t plane = conv_plane(meta, s->patches.size);
    s->channels = meta->sizes[1] / g->groups;
    s->rows = s->out->base.meta->sizes[1] / g->groups;
    s->source = source, s->by_pixel = conv_pixels_serve(s);
    if (!s->by_pixel) TRY(plain_begin(source, &h->source));
    TRY(plain_begin(weight, &h->weight));
    if (bias) TRY(bias_begin(bias, g, &h->bias));
    if (!s->by_pixel && !all_finite(h->weight.at, g->type, weight->base.meta->numel)) TRY(ones_begin(s, &h->ones));
    TRY(work_begin(g, transposed ? weight->base.meta->numel : 0, &h->work));
    s->patches.source = s->by_pixel ? tensor_data(source) : h->source.at, s->patches.bytes = g->bytes;
    s->patches.channel_stride = plane, s->patches.batch_stride = plane * meta->sizes[1];
    s->bias = h->bias.at, s->ones = h->ones.at;
    return transposed ? run_phases(s, h->weight.at, &h->work) : run_plain(s, h->weight.at, &h->work);
}

static Status run_convolution(OpCall *call, const char *source, bool transposed, const sn_tensor *bias) {
    const sn_tensor *const weight = named_tensor(call, "weight");
    const ConvGeometry g = conv_geometry(call, weight->base.meta->sizes);
    const sn_tensor *const from = named_tensor(call, source);
    if (conv_point_serves(&g, from, call->outs[0]))
        return conv_point_run(&(ConvPoint){&g, from, weight, bias, call->outs[0], transposed});
    ConvSum s = {.g = &g, .out = call->outs[0]};
    ConvOperands held = {0};
    const Status status = convolve_into(&s, from, weight, bias, transposed, &held);
    operands_end(&held);
    return status;
}

Status cpu_convolution(OpCall *call) {
    return run_convolution(call, "input", conv_is_transposed(call), named_tensor(call, "bias"));
}
Status cpu_convolution_input(OpCall *call) {
    return run_convolution(call, "grad_output", !conv_is_transposed(call), NULL);
}
