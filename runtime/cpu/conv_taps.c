/* conv_taps.c: conv_taps.h where images lie plane by plane: sums over the lines of conv_lines.h, tap by tap. fma(w, 0,
 * sum) is sum as in cpu_convolution.c, so weights are finite. */
#include "runtime/cpu/conv_taps.h"

#include "runtime/core/pool.h"
#include "runtime/cpu/conv_lines.h"
#include "runtime/cpu/cpu_copy.h"
#include "runtime/device/alloc_cpu.h"

enum {
    SOURCE_BYTES = 24 << 10, /* of lines at once: they and the result stay in L1 */
    MOST_COLUMNS = 2048,
    MOST_TAPS = 512,
    PART_WORK = 1 << 18, /* fma of a part, about */
};

typedef struct TapPlan {
    ConvSum *s;
    ConvLines b;
    int64_t taps;               /* of all channels of a group */
    int64_t apart, result_line; /* elements of the result from column to column, line to line */
    bool direct;                /* sums go to the result itself */
    int64_t units, per_part;    /* a unit is a group of an image */
} TapPlan;

bool conv_taps_serve(const ConvSum *s) {
    return s->channels == 1 && kernel_size(s->g) <= CONV_CHUNK && conv_lines_serve(s) &&
           patches_taps(&s->patches) <= MOST_TAPS;
}

static TapPlan plan_taps(ConvSum *s) {
    const Patches *const p = &s->patches;
    const DType dtype = s->out->base.meta->dtype;
    TapPlan plan = {.s = s, .b = conv_lines_of(p, s->channels, SOURCE_BYTES, MOST_COLUMNS)};
    plan.taps = s->channels * patches_taps(p);
    plan.apart = conv_sums_apart(s, 2) * s->step[2], plan.result_line = conv_sums_apart(s, 1) * s->step[1];
    plan.direct = dtype == compute_dtype(dtype) && plan.apart == 1 && plan.b.columns >= 2 * taps_lanes();
    plan.units = s->g->batch * s->g->groups;
    const int64_t work = max_i64(p->columns[1] * p->columns[2] * plan.taps * s->rows, 1);
    plan.per_part = max_i64(1, PART_WORK / work);
    return plan;
}

/* What a part works in. */
typedef struct TapScratch {
    char *source, *result;
    const void **taps; /* by channel and tap: where in `source` it begins */
    size_t bytes;
} TapScratch;

static Status tap_scratch_begin(const TapPlan *plan, TapScratch *w) {
    const int64_t bytes = plan->s->g->bytes;
    const size_t source = (size_t)round_up(conv_lines_elements(&plan->b) * bytes, 64);
    const size_t result = plan->direct ? 0 : (size_t)round_up((plan->b.plane + 2 * taps_lanes()) * bytes, 64);
    w->bytes = source + result + (size_t)plan->taps * sizeof *w->taps;
    if (!(w->source = cpu_alloc(w->bytes))) return ST_MEMORY;
    w->result = w->source + source;
    w->taps = (const void **)(void *)(w->result + result);
    memset(w->source, 0, source); /* what lies behind the last line is computed with, though not kept */
    int64_t offsets[MOST_TAPS];
    conv_lines_offsets(&plan->b, offsets);
    for (int64_t t = 0; t < plan->taps; t++) w->taps[t] = w->source + offsets[t] * bytes;
    return ST_OK;
}

/* A block of one channel of the result, whose first element is `to`. */
static void sum_rows(const TapPlan *plan, const TapScratch *w, int64_t channel, int64_t lines, int64_t columns,
                     char *to) {
    static const char zero[8];
    const ConvSum *const s = plan->s;
    const DType dtype = s->out->base.meta->dtype;
    TapRows call = {.to = to,
                    .to_ld = plan->result_line,
                    .source_ld = plan->b.pitch,
                    .source = w->taps,
                    .weight = s->weight + channel * plan->taps * s->g->bytes,
                    .bias = s->bias ? s->bias + channel * s->g->bytes : zero,
                    .taps = plan->taps,
                    .rows = lines,
                    .n = columns};
    const bool direct = plan->direct && columns >= taps_lanes();
    if (!direct) {
        call.to = w->result, call.rows = 1;
        call.n = round_up(conv_lines_run(&plan->b, lines, columns), taps_lanes());
    }
    taps_rows(s->g->type, &call);
    for (int64_t i = 0; i < lines && !direct; i++)
        kernel_table()->store(dtype)(to + i * plan->result_line * dtype_bytes(dtype), plan->apart,
                                     w->result + i * plan->b.pitch * s->g->bytes, columns);
}

/* A group of an image, block by block. */
static void sum_unit(const TapPlan *plan, const TapScratch *w, int64_t unit) {
    const ConvSum *const s = plan->s;
    const Patches *const p = &s->patches;
    const Meta *const meta = s->out->base.meta;
    const int64_t image = unit / s->g->groups, group = unit % s->g->groups, bytes = dtype_bytes(meta->dtype);
    const char *const source =
        p->source + (image * p->batch_stride + group * s->channels * p->channel_stride) * p->bytes;
    const int64_t first = s->first[1] * conv_sums_apart(s, 1) + s->first[2] * conv_sums_apart(s, 2);
    char *const result = (char *)tensor_data(s->out) + (image * meta->strides[0] + first) * bytes;
    for (int64_t y = 0; y < p->columns[1]; y += plan->b.lines)
        for (int64_t x = 0; x < p->columns[2]; x += plan->b.columns) {
            const int64_t lines = min_i64(plan->b.lines, p->columns[1] - y);
            conv_lines_fill(&plan->b, source, y, lines, x, w->source);
            for (int64_t m = 0; m < s->rows; m++) {
                const int64_t channel = group * s->rows + m;
                const int64_t at = channel * meta->strides[1] + y * plan->result_line + x * plan->apart;
                sum_rows(plan, w, channel, lines, min_i64(plan->b.columns, p->columns[2] - x), result + at * bytes);
            }
        }
}

static void taps_part(void *context, int part) {
    const TapPlan *const plan = context;
    TapScratch w;
    if (tap_scratch_begin(plan, &w) != ST_OK) {
        atomic_store(&plan->s->no_memory, true);
        return;
    }
    for (int64_t u = part * plan->per_part; u < min_i64((part + 1) * plan->per_part, plan->units); u++)
        sum_unit(plan, &w, u);
    cpu_free(w.source, w.bytes);
}

Status conv_taps_run(ConvSum *s) {
    TapPlan plan = plan_taps(s);
    pool_run((int)ceil_div(plan.units, plan.per_part), taps_part, &plan);
    return s->no_memory ? error_raise(ST_MEMORY, "out of memory for lines of a convolution's input") : ST_OK;
}
