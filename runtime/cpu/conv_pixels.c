/* conv_pixels.c: conv_taps.h where the channels of a position lie beside each other (channels_last): vectors are of
 * channels, and a tap that would read padding is left out, so weights need not be finite and nothing is copied but the
 * weights, as [tap][channel]. */
#include "runtime/core/pool.h"
#include "runtime/cpu/conv_taps.h"
#include "runtime/cpu/cpu_copy.h"
#include "runtime/device/alloc_cpu.h"

enum { PART_WORK = 1 << 18 /* fma of a part, about */ };

bool conv_pixels_of(const sn_tensor *t, PixelStrides *strides) {
    const Meta *const meta = t->base.meta;
    const int64_t *const own = meta->strides;
    if (meta->rank != 4 || own[1] != 1 || meta->sizes[1] < taps_lanes() || meta->dtype != compute_dtype(meta->dtype))
        return false;
    *strides = (PixelStrides){own[0], own[2], own[3]};
    return true;
}

bool conv_pixels_serve(const ConvSum *s) {
    PixelStrides strides;
    return s->channels == 1 && s->rows == 1 && kernel_size(s->g) <= CONV_CHUNK &&
           (s->g->type == S_f32 || s->g->type == S_f64) && conv_pixels_of(s->source, &strides) &&
           conv_pixels_of(s->out, &strides);
}

Inside conv_pixels_with_all(const Patches *p) {
    Inside all = {0, p->columns[2]};
    for (int t = 0; t < p->taps[2]; t++) conv_patches_inside(p->offset[2][t], p->step[2], p->size[2], &all.lo, &all.hi);
    return all.lo < all.hi ? all : (Inside){p->columns[2], p->columns[2]};
}

void conv_pixels_lines(const Patches *p, const char *at, int64_t y, int64_t line_bytes, const char **lines) {
    for (int t = 0; t < p->taps[1]; t++) {
        const int64_t from = y * p->step[1] + p->offset[1][t];
        lines[t] = from >= 0 && from < p->size[1] ? at + from * line_bytes : NULL;
    }
}

int64_t conv_pixels_list(const Patches *p, const char *const *lines, int64_t x, int64_t pixel, const TapList *to) {
    int64_t n = 0;
    for (int a = 0; a < p->taps[1]; a++)
        for (int b = 0; b < p->taps[2] && lines[a]; b++) {
            const int64_t from = x * p->step[2] + p->offset[2][b];
            if (from < 0 || from >= p->size[2]) continue;
            to->source[n] = lines[a] + from * pixel * p->bytes;
            to->own[n++] = to->first + (a * p->taps[2] + b) * to->apart * p->bytes;
        }
    return n;
}

typedef struct PixelPlan {
    ConvSum *s;
    PixelStrides source, result;
    Inside all;
    char *weight; /* [tap][channel] */
    const char *bias;
    int64_t per_part; /* lines of the result */
} PixelPlan;

/* By tap: the lines of the source; by tap that is inside: where it reads, its weights. */
typedef struct PixelLists {
    const char **lines;
    const void **source;
    void **weight;
    size_t bytes;
} PixelLists;

static Status pixel_lists_begin(const Patches *p, PixelLists *lists) {
    const size_t taps = (size_t)patches_taps(p), lines = (size_t)p->taps[1];
    lists->bytes = (lines + 2 * taps + 1) * sizeof *lists->lines;
    if (!(lists->lines = cpu_alloc(lists->bytes))) return ST_MEMORY;
    lists->source = (const void **)(lists->lines + lines);
    lists->weight = (void **)(lists->source + taps);
    return ST_OK;
}

static void sum_line(const PixelPlan *plan, const PixelLists *lists, int64_t image, int64_t y) {
    const ConvSum *const s = plan->s;
    const Patches *const p = &s->patches;
    const PixelStrides *const to = &plan->result;
    char *const line =
        (char *)tensor_data(s->out) +
        (image * to->image + (y * s->step[1] + s->first[1]) * to->line + s->first[2] * to->pixel) * p->bytes;
    conv_pixels_lines(p, p->source + image * plan->source.image * p->bytes, y, plan->source.line * p->bytes,
                      lists->lines);
    const TapList list = {lists->source, lists->weight, plan->weight, s->g->groups};
    for (int64_t x = 0, run; x < p->columns[2]; x += run) {
        run = x >= plan->all.lo && x < plan->all.hi ? plan->all.hi - x : 1;
        taps_pixels(s->g->type, &(TapPixels){.to = line + x * s->step[2] * to->pixel * p->bytes,
                                             .to_step = s->step[2] * to->pixel,
                                             .source_step = p->step[2] * plan->source.pixel,
                                             .taps = conv_pixels_list(p, lists->lines, x, plan->source.pixel, &list),
                                             .source = lists->source,
                                             .weight = (const void *const *)lists->weight,
                                             .bias = plan->bias,
                                             .pixels = run,
                                             .n = s->g->groups});
    }
}

static void pixels_part(void *context, int part) {
    const PixelPlan *const plan = context;
    const Patches *const p = &plan->s->patches;
    const int64_t all = plan->s->g->batch * p->columns[1], first = part * plan->per_part;
    PixelLists lists;
    if (pixel_lists_begin(p, &lists) != ST_OK) {
        atomic_store(&plan->s->no_memory, true);
        return;
    }
    for (int64_t i = first; i < min_i64(first + plan->per_part, all); i++)
        sum_line(plan, &lists, i / p->columns[1], i % p->columns[1]);
    cpu_free(lists.lines, lists.bytes);
}

Status conv_pixels_run(ConvSum *s) {
    const Patches *const p = &s->patches;
    const int64_t channels = s->g->groups, taps = patches_taps(p);
    PixelPlan plan = {.s = s, .all = conv_pixels_with_all(p)};
    const size_t bytes = (size_t)((taps + 1) * channels * s->g->bytes);
    char *const own = cpu_alloc(bytes);
    if (!own) return ST_MEMORY;
    memset(own, 0, bytes);
    kernel_transpose(s->g->bytes, s->weight, taps, own, channels, channels, taps);
    plan.weight = own, plan.bias = s->bias ? s->bias : own + taps * channels * s->g->bytes;
    conv_pixels_of(s->source, &plan.source);
    conv_pixels_of(s->out, &plan.result);
    plan.per_part = max_i64(1, PART_WORK / max_i64(p->columns[2] * max_i64(taps, 1) * channels, 1));
    pool_run((int)ceil_div(s->g->batch * p->columns[1], plan.per_part), pixels_part, &plan);
    cpu_free(own, bytes);
    return s->no_memory ? error_raise(ST_MEMORY, "out of memory for the taps of a convolution") : ST_OK;
}
