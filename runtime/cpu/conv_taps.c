/* conv_taps.c: see conv_taps.h; here images lie plane by plane. A block of lines of the source is copied with zeros for
 * its padding, one plane for each rest of the position by the step (a phase), so that every tap reads the columns of the
 * block as one run that begins at its own place:
 *
 *     step 2, taps at -1 0 1          phase 0: s[-1] s[1] s[3] s[5] ..    taps -1 and 1 read from the first and second
 *                                     phase 1: s[0]  s[2] s[4] s[6] ..    tap 0 from the first
 *
 * With the lines of a block behind each other, all of it is one run, and what lies between two lines' ends is computed
 * and not kept: short lines fill vectors, too. fma(w, 0, sum) is sum as in cpu_convolution.c, so weights are finite. */
#include "runtime/cpu/conv_taps.h"

#include "runtime/core/pool.h"
#include "runtime/cpu/cpu_copy.h"
#include "runtime/device/alloc_cpu.h"

enum {
    BLOCK_BYTES = 24 << 10, /* of source lines at once: they and the result stay in L1 */
    MOST_COLUMNS = 2048,
    MOST_TAPS = 512,
    PART_WORK = 1 << 18, /* fma of a part, about */
};

/* How taps of one dim lie: the lowest offset, and what is beyond it. */
typedef struct TapWindow {
    int64_t low, reach, phases; /* reach: columns that a phase has behind those of the block */
} TapWindow;

static TapWindow window_of(const Patches *p, int d) {
    int64_t low = p->offset[d][0], high = low;
    for (int t = 1; t < p->taps[d]; t++) {
        low = min_i64(low, p->offset[d][t]);
        high = max_i64(high, p->offset[d][t]);
    }
    return (TapWindow){low, (high - low) / p->step[d], min_i64(p->step[d], high - low + 1)};
}

typedef struct TapPlan {
    ConvSum *s;
    TapWindow y, x;
    int64_t lines, columns;      /* of a block of the result */
    int64_t pitch, plane, whole; /* elements of a line, a phase, a channel of the source's block */
    int64_t taps;                /* of all channels of a group */
    int64_t apart, result_line;  /* elements of the result from column to column, line to line */
    bool direct;                 /* sums go to the result itself */
    int64_t units, per_part;     /* a unit is a group of an image */
} TapPlan;

bool taps_serve(const ConvSum *s) {
    const Patches *const p = &s->patches;
    const bool flat = p->columns[0] == 1 && p->taps[0] == 1 && p->size[0] == 1 && p->offset[0][0] == 0;
    return s->channels == 1 && kernel_size(s->g) <= CONV_CHUNK && !s->ones && flat && patches_taps(p) > 0 &&
           patches_taps(p) <= MOST_TAPS && (s->g->type == S_f32 || s->g->type == S_f64);
}

static int64_t result_stride(const ConvSum *s, int d) {
    const Meta *const meta = s->out->base.meta;
    const int lead = CONV_DIMS + 2 - meta->rank;
    return d < lead ? 0 : meta->strides[2 + d - lead];
}

static TapPlan plan_taps(ConvSum *s) {
    const Patches *const p = &s->patches;
    const DType dtype = s->out->base.meta->dtype;
    TapPlan plan = {.s = s, .y = window_of(p, 1), .x = window_of(p, 2), .taps = s->channels * patches_taps(p)};
    plan.columns = min_i64(p->columns[2], MOST_COLUMNS);
    plan.pitch = plan.columns + plan.x.reach;
    const int64_t line_bytes = plan.y.phases * plan.x.phases * s->channels * plan.pitch * s->g->bytes;
    const int64_t fit = BLOCK_BYTES / line_bytes - plan.y.reach, useful = 4 * (plan.y.reach + 1);
    plan.lines = min_i64(p->columns[1], max_i64(fit, useful));
    plan.plane = (plan.lines + plan.y.reach) * plan.pitch;
    plan.whole = plan.y.phases * plan.x.phases * plan.plane;
    plan.apart = result_stride(s, 2) * s->step[2], plan.result_line = result_stride(s, 1) * s->step[1];
    plan.direct = dtype == compute_dtype(dtype) && plan.apart == 1 && plan.columns >= 2 * tap_lanes();
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
    const int64_t bytes = plan->s->g->bytes, slack = plan->x.reach + 2 * tap_lanes();
    const size_t source = (size_t)round_up((plan->s->channels * plan->whole + slack) * bytes, 64);
    const size_t result = plan->direct ? 0 : (size_t)round_up((plan->lines * plan->pitch + slack) * bytes, 64);
    w->bytes = source + result + (size_t)plan->taps * sizeof *w->taps;
    if (!(w->source = cpu_alloc(w->bytes))) return ST_MEMORY;
    w->result = w->source + source;
    w->taps = (const void **)(void *)(w->result + result);
    memset(w->source, 0, source); /* what lies behind the last line is computed with, though not kept */
    return ST_OK;
}

static void place_taps(const TapPlan *plan, const TapScratch *w) {
    const Patches *const p = &plan->s->patches;
    int64_t next = 0;
    for (int64_t r = 0; r < plan->s->channels; r++)
        for (int a = 0; a < p->taps[1]; a++)
            for (int b = 0; b < p->taps[2]; b++) {
                const int64_t y = p->offset[1][a] - plan->y.low, x = p->offset[2][b] - plan->x.low;
                const int64_t phase = y % p->step[1] * plan->x.phases + x % p->step[2];
                const int64_t at =
                    r * plan->whole + phase * plan->plane + y / p->step[1] * plan->pitch + x / p->step[2];
                w->taps[next++] = w->source + at * p->bytes;
            }
}

/* The source under lines y .. y + lines and columns x .. x + columns of the result. */
static void fill_planes(const TapPlan *plan, const char *source, int64_t y, int64_t lines, int64_t x, char *to) {
    const Patches *const p = &plan->s->patches;
    for (int64_t phase = 0; phase < plan->y.phases * plan->x.phases; phase++) {
        const int64_t down = phase / plan->x.phases + plan->y.low, right = phase % plan->x.phases + plan->x.low;
        char *line = to + phase * plan->plane * p->bytes;
        for (int64_t i = y; i < y + lines + plan->y.reach; i++, line += plan->pitch * p->bytes) {
            const int64_t from = i * p->step[1] + down;
            const bool inside = from >= 0 && from < p->size[1];
            patches_line(p, inside ? source + from * p->size[2] * p->bytes : NULL, right, x, plan->pitch, line);
        }
    }
}

/* A block of one channel of the result, whose first element is `to`. */
static void sum_rows(const TapPlan *plan, const TapScratch *w, int64_t channel, int64_t lines, int64_t columns,
                     char *to) {
    static const char zero[8];
    const ConvSum *const s = plan->s;
    const DType dtype = s->out->base.meta->dtype;
    TapRows call = {.to = to,
                    .to_ld = plan->result_line,
                    .source_ld = plan->pitch,
                    .source = w->taps,
                    .weight = s->weight + channel * plan->taps * s->g->bytes,
                    .bias = s->bias ? s->bias + channel * s->g->bytes : zero,
                    .taps = plan->taps,
                    .rows = lines,
                    .n = columns};
    const bool direct = plan->direct && columns >= tap_lanes();
    if (!direct) {
        call.to = w->result, call.rows = 1;
        call.n = round_up((lines - 1) * plan->pitch + columns, tap_lanes());
    }
    tap_rows(s->g->type, &call);
    for (int64_t i = 0; i < lines && !direct; i++)
        kernel_table()->store(dtype)(to + i * plan->result_line * dtype_bytes(dtype), plan->apart,
                                     w->result + i * plan->pitch * s->g->bytes, columns);
}

/* A group of an image, block by block. */
static void sum_unit(const TapPlan *plan, const TapScratch *w, int64_t unit) {
    const ConvSum *const s = plan->s;
    const Patches *const p = &s->patches;
    const Meta *const meta = s->out->base.meta;
    const int64_t image = unit / s->g->groups, group = unit % s->g->groups, bytes = dtype_bytes(meta->dtype);
    const char *const source =
        p->source + (image * p->batch_stride + group * s->channels * p->channel_stride) * p->bytes;
    const int64_t first = s->first[1] * result_stride(s, 1) + s->first[2] * result_stride(s, 2);
    char *const result = (char *)tensor_data(s->out) + (image * meta->strides[0] + first) * bytes;
    for (int64_t y = 0; y < p->columns[1]; y += plan->lines)
        for (int64_t x = 0; x < p->columns[2]; x += plan->columns) {
            const int64_t lines = min_i64(plan->lines, p->columns[1] - y);
            for (int64_t r = 0; r < s->channels; r++)
                fill_planes(plan, source + r * p->channel_stride * p->bytes, y, lines, x,
                            w->source + r * plan->whole * p->bytes);
            for (int64_t m = 0; m < s->rows; m++) {
                const int64_t channel = group * s->rows + m;
                const int64_t at = channel * meta->strides[1] + y * plan->result_line + x * plan->apart;
                sum_rows(plan, w, channel, lines, min_i64(plan->columns, p->columns[2] - x), result + at * bytes);
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
    place_taps(plan, &w);
    for (int64_t u = part * plan->per_part; u < min_i64((part + 1) * plan->per_part, plan->units); u++)
        sum_unit(plan, &w, u);
    cpu_free(w.source, w.bytes);
}

Status taps_run(ConvSum *s) {
    TapPlan plan = plan_taps(s);
    pool_run((int)ceil_div(plan.units, plan.per_part), taps_part, &plan);
    return s->no_memory ? error_raise(ST_MEMORY, "out of memory for lines of a convolution's input") : ST_OK;
}
