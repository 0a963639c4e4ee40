/* conv_taps_weight.c: the gradient of the weight of a depthwise convolution: chains over (image, position) that run
 * beside each other in vectors of channels, with as many taps as there are registers. Images whose channels lie beside
 * each other are read where they lie; of others a block of channels is turned round, some lines at a time. A tap that
 * would read padding is left out. The order is that of cpu_convolution_weight.c [B2.4]. */
#include "runtime/cpu/conv_taps.h"
#include "runtime/device/alloc_cpu.h"
#include "runtime/core/pool.h"

enum {
    LINES_BYTES = 128 << 10, /* of turned lines at once: a part of L2 */
    PIXEL_CHANNELS = 64,     /* of a part, where they lie beside each other */
};

/* Lines of one operand: the first that is there, and elements from one to the next. */
typedef struct PixelLines {
    const char *at;
    int64_t first, line, pixel;
} PixelLines;

typedef struct WeightPlan {
    ConvWeightSum *s;
    Inside all;
    int64_t channels; /* of a part */
    int64_t lines;    /* turned at once */
    int64_t taps;
} WeightPlan;

typedef struct ChainScratch {
    char *chains, *totals; /* [tap][channel]: of this chunk, of those before */
    char *left, *source;   /* turned lines */
    const char **lines;
    const void **from;
    void **to;
    size_t bytes;
} ChainScratch;

/* What a part is at. */
typedef struct WeightPart {
    const WeightPlan *plan;
    ChainScratch w;
    int64_t channel, have; /* its first one; as many as there are */
    int64_t position;      /* of (image, position) */
} WeightPart;

bool conv_taps_weight_serve(const ConvWeightSum *s) {
    const Patches *const p = &s->patches;
    return s->channels == 1 && s->rows == 1 && s->g->groups >= 4 && patches_are_flat(p) &&
           (s->g->type == S_f32 || s->g->type == S_f64);
}

/* The chunk is complete: the first one's sums stand, later ones are added. */
static void end_chunk(WeightPart *part) {
    const ConvGeometry *const g = part->plan->s->g;
    const int64_t n = part->plan->taps * part->plan->channels;
    if (part->position <= CONV_CHUNK)
        memcpy(part->w.totals, part->w.chains, (size_t)(n * g->bytes));
    else
        add_elements(g, part->w.totals, part->w.chains, n);
    memset(part->w.chains, 0, (size_t)(n * g->bytes));
}

static void add_line(WeightPart *part, const char *left, int64_t left_pixel, int64_t pixel) {
    const WeightPlan *const plan = part->plan;
    const Patches *const p = &plan->s->patches;
    const TapList list = {part->w.from, part->w.to, part->w.chains, plan->channels};
    for (int64_t x = 0, run; x < p->columns[2]; x += run, part->position += run) {
        if (part->position && part->position % CONV_CHUNK == 0) end_chunk(part);
        run = x >= plan->all.lo && x < plan->all.hi ? plan->all.hi - x : 1;
        run = min_i64(run, CONV_CHUNK - part->position % CONV_CHUNK);
        const int64_t taps = conv_pixels_list(p, part->w.lines, x, pixel, &list);
        taps_weights(plan->s->g->type, &(TapWeights){.to = part->w.to,
                                                     .source = part->w.from,
                                                     .left = left + x * left_pixel * p->bytes,
                                                     .source_step = p->step[2] * pixel,
                                                     .left_step = left_pixel,
                                                     .taps = taps,
                                                     .pixels = run,
                                                     .n = plan->s->by_pixel ? part->have : plan->channels});
    }
}

/* Lines y .. y + lines of the left operand. */
static void add_lines(WeightPart *part, const PixelLines *left, const PixelLines *source, int64_t y, int64_t lines) {
    const Patches *const p = &part->plan->s->patches;
    for (int64_t i = y; i < y + lines; i++) {
        conv_pixels_lines(p, source->at - source->first * source->line * p->bytes, i, source->line * p->bytes,
                          part->w.lines);
        add_line(part, left->at + (i - left->first) * left->line * p->bytes, left->pixel, source->pixel);
    }
}

/* An image whose channels lie beside each other. */
static void add_pixels(WeightPart *part, int64_t image) {
    const ConvWeightSum *const s = part->plan->s;
    const int bytes = s->g->bytes;
    const PixelStrides *const l = &s->left_pixels, *const r = &s->source_pixels;
    const PixelLines left = {s->left + (image * l->image + part->channel) * bytes, 0, l->line, l->pixel};
    const PixelLines source = {s->patches.source + (image * r->image + part->channel) * bytes, 0, r->line, r->pixel};
    add_lines(part, &left, &source, 0, s->patches.columns[1]);
}

/* Lines first .. end of an image's plane, turned from [channel][position] to [position][channel]. */
static PixelLines turn(const WeightPart *part, const char *plane, int64_t size, int64_t width, int64_t first,
                       int64_t end, char *to) {
    const WeightPlan *const plan = part->plan;
    const int bytes = plan->s->g->bytes;
    kernel_transpose(bytes, plane + first * width * bytes, size, to, plan->channels, part->have, (end - first) * width);
    return (PixelLines){to, first, width * plan->channels, plan->channels};
}

/* An image of planes, block of lines by block of lines. */
static void add_planes(WeightPart *part, int64_t image) {
    const ConvWeightSum *const s = part->plan->s;
    const Patches *const p = &s->patches;
    const int64_t low = p->offset[1][0], high = p->offset[1][p->taps[1] - 1];
    const int64_t size = p->columns[1] * p->columns[2], channel = image * s->g->groups + part->channel;
    const char *const left = s->left + channel * size * p->bytes;
    const char *const source = p->source + channel * p->channel_stride * p->bytes;
    for (int64_t y = 0; y < p->columns[1]; y += part->plan->lines) {
        const int64_t end = min_i64(y + part->plan->lines, p->columns[1]);
        const int64_t from = min_i64(max_i64(y * p->step[1] + low, 0), p->size[1]);
        const int64_t to = max_i64(from, min_i64((end - 1) * p->step[1] + high + 1, p->size[1]));
        const PixelLines turned = turn(part, left, size, p->columns[2], y, end, part->w.left);
        const PixelLines under = turn(part, source, p->channel_stride, p->size[2], from, to, part->w.source);
        add_lines(part, &turned, &under, y, end - y);
    }
}

static Status weight_scratch_begin(const WeightPlan *plan, ChainScratch *w) {
    const Patches *const p = &plan->s->patches;
    const int64_t line = plan->channels * p->bytes, reach = p->offset[1][p->taps[1] - 1] - p->offset[1][0];
    const size_t chains = (size_t)round_up(plan->taps * line, 64);
    const bool turned = !plan->s->by_pixel;
    const int64_t under = min_i64(p->size[1], (plan->lines - 1) * p->step[1] + reach + 1);
    const size_t left = turned ? (size_t)round_up(plan->lines * p->columns[2] * line, 64) : 0;
    const size_t source = turned ? (size_t)round_up(under * p->size[2] * line, 64) : 0;
    w->bytes = 2 * chains + left + source + (size_t)(2 * plan->taps + p->taps[1]) * sizeof *w->to;
    if (!(w->chains = cpu_alloc(w->bytes))) return ST_MEMORY;
    w->totals = w->chains + chains, w->left = w->totals + chains, w->source = w->left + left;
    w->to = (void **)(void *)(w->source + source);
    w->from = (const void **)(w->to + plan->taps), w->lines = (const char **)(w->from + plan->taps);
    memset(w->chains, 0, 2 * chains + left + source); /* channels beyond the last are computed with, though not kept */
    return ST_OK;
}

static void weight_taps_part(void *context, int number) {
    const WeightPlan *const plan = context;
    ConvWeightSum *const s = plan->s;
    WeightPart part = {.plan = plan, .channel = number * plan->channels};
    part.have = min_i64(plan->channels, s->g->groups - part.channel);
    if (weight_scratch_begin(plan, &part.w) != ST_OK) {
        atomic_store(&s->no_memory, true);
        return;
    }
    for (int64_t image = 0; image < s->g->batch; image++) (s->by_pixel ? add_pixels : add_planes)(&part, image);
    end_chunk(&part);
    kernel_transpose(s->g->bytes, part.w.totals, plan->channels, s->to + part.channel * plan->taps * s->g->bytes,
                     plan->taps, plan->taps, part.have);
    cpu_free(part.w.chains, part.w.bytes);
}

Status conv_taps_weight_run(ConvWeightSum *s) {
    const Patches *const p = &s->patches;
    WeightPlan plan = {.s = s, .all = conv_pixels_with_all(p), .taps = kernel_size(s->g)};
    plan.channels = s->by_pixel ? min_i64(PIXEL_CHANNELS, s->g->groups) : taps_lanes();
    const int64_t each = (p->columns[2] + p->step[1] * p->size[2]) * plan.channels * p->bytes;
    plan.lines = min_i64(p->columns[1], max_i64(LINES_BYTES / max_i64(each, 1), 4));
    pool_run((int)ceil_div(s->g->groups, plan.channels), weight_taps_part, &plan);
    return s->no_memory ? error_raise(ST_MEMORY, "out of memory for lines of a convolution's input") : ST_OK;
}
