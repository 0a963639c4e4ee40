/* interp_move.c: moves blocks between memory and slots: strided, broadcast and gathered places.
 *
 * A shape is cut into rectangles in which a place walks both spans with one stride each; usually it
 * is one rectangle, and where that is contiguous and needs no conversion, loads just point into the
 * buffer. */
#include "runtime/cpu/interp_frame.h"

typedef struct SpanIterator { /* the runs of one span, in order */
    const GroupDims *group;
    const int64_t *stride;
    int64_t index[MAX_LOOP_DIMS];
    int64_t left, offset, step, run;
    int64_t rows, row_step; /* as many whole runs of the last dim as follow each other evenly */
} SpanIterator;

/* Where the next run starts (offset), its step and length. False: the span is done. */
static bool span_next_run(SpanIterator *w) {
    if (w->left <= 0) return false;
    w->rows = 1;
    if (!w->group) { /* one run for the whole span */
        w->run = w->left;
        w->left = 0;
        return true;
    }
    const int last = w->group->n - 1;
    w->offset = 0;
    for (int i = 0; i <= last; i++) w->offset += w->index[i] * w->stride[i];
    w->step = w->stride[last];
    w->run = min_i64(w->left, w->group->extent[last] - w->index[last]);
    int moved = last;
    if (last > 0 && w->run == w->group->extent[last]) {
        moved = last - 1;
        w->rows = min_i64(w->left / w->run, w->group->extent[moved] - w->index[moved]);
        w->row_step = w->stride[moved];
    }
    w->left -= w->run * w->rows;
    w->index[moved] += moved == last ? w->run : w->rows;
    for (int i = moved; i > 0 && w->index[i] == w->group->extent[i]; i--) {
        w->index[i] = 0;
        w->index[i - 1]++;
    }
    return true;
}

static SpanIterator span_begin(const InterpFrame *f, const AccessAddress *place, GroupSpan span) {
    SpanIterator w = {.left = span.n};
    if (span.group == GROUP_none) return w;
    if (place->flat[span.group]) {
        w.step = place->flat_stride[span.group];
        w.offset = span.start * w.step;
        return w;
    }
    w.group = &f->group[span.group];
    w.stride = place->stride[span.group];
    int64_t rest = span.start;
    for (int i = w.group->n - 1; i >= 0; i--) {
        w.index[i] = rest % w.group->extent[i];
        rest /= w.group->extent[i];
    }
    return w;
}

typedef struct MoveRect {
    int64_t at, pitch; /* in the block: first element, elements from one row to the next */
    int64_t offset;    /* in memory, elements */
    int64_t rows, columns, row_step, step;
} MoveRect;

typedef void RectFn(const InterpFrame *f, const AccessAddress *place, char *block, const MoveRect *rect);

/* A fast span of several rows: one rectangle of those for each slow position. */
static void each_fast_row(const InterpFrame *f, const AccessAddress *place, char *block, MoveRect rect,
                          const SpanIterator *fast, RectFn *visit) {
    const int64_t slow_n = rect.rows, slow_step = rect.row_step, slow_pitch = rect.pitch;
    rect.rows = fast->rows;
    rect.row_step = fast->row_step;
    rect.pitch = fast->run;
    for (int64_t i = 0; i < slow_n; i++, rect.at += slow_pitch, rect.offset += slow_step) visit(f, place, block, &rect);
}

static void each_rect(const InterpFrame *f, const AccessAddress *place, const Shape *shape, char *block,
                      RectFn *visit) {
    int64_t row = 0;
    for (SpanIterator slow = span_begin(f, place, shape->slow); span_next_run(&slow); row += slow.run * slow.rows) {
        int64_t column = 0;
        for (SpanIterator fast = span_begin(f, place, shape->fast); span_next_run(&fast);
             column += fast.run * fast.rows) {
            for (int64_t again = 0; again < slow.rows; again++) {
                MoveRect rect = {.at = (row + again * slow.run) * shape->fast.n + column,
                                 .pitch = shape->fast.n,
                                 .offset = place->offset + slow.offset + again * slow.row_step + fast.offset,
                                 .rows = slow.run,
                                 .columns = fast.run,
                                 .row_step = slow.step,
                                 .step = fast.step};
                if (fast.rows == 1)
                    visit(f, place, block, &rect);
                else
                    each_fast_row(f, place, block, rect, &fast, visit);
            }
        }
    }
}

void *frame_contiguous(InterpFrame *f, int access, const Shape *shape) {
    const AccessAddress *const place = &f->places[access];
    SpanIterator fast = span_begin(f, place, shape->fast), slow = span_begin(f, place, shape->slow);
    if (!span_next_run(&fast) || fast.left || fast.rows > 1) return NULL;
    if (!span_next_run(&slow) || slow.left || slow.rows > 1) return NULL;
    if (fast.run > 1 && fast.step != 1) return NULL;
    if (slow.run > 1 && slow.step != fast.run) return NULL;
    return place->base + (place->offset + slow.offset + fast.offset) * place->bytes;
}

/* loads --------------------------------------------------------------------------------------- */

enum { SHORT_ROW = 16 };

#define COPY_RECT(T, to, to_row, to_step, from, from_row, from_step)                                                   \
    for (int64_t r = 0; r < rect->rows; r++)                                                                           \
        for (int64_t c = 0; c < rect->columns; c++)                                                                    \
            ((T *)(to))[r * (to_row) + c * (to_step)] = ((const T *)(from))[r * (from_row) + c * (from_step)];

/* The same of bools, whose bytes in memory may be others than 0 and 1. */
#define COPY_TRUTHS(to, to_row, to_step, from, from_row, from_step)                                                    \
    for (int64_t r = 0; r < rect->rows; r++)                                                                           \
        for (int64_t c = 0; c < rect->columns; c++)                                                                    \
            ((uint8_t *)(to))[r * (to_row) + c * (to_step)] =                                                          \
                ((const uint8_t *)(from))[r * (from_row) + c * (from_step)] != 0;

/* Short rows of compute types, of which one is a byte, bool: one loop over both, no call per row. */
static void copy_in(const MoveRect *rect, int bytes, void *to, const void *from) {
    if (bytes == 1)
        COPY_TRUTHS(to, rect->pitch, 1, from, rect->row_step, rect->step)
    else if (bytes == 4)
        COPY_RECT(uint32_t, to, rect->pitch, 1, from, rect->row_step, rect->step)
    else
        COPY_RECT(uint64_t, to, rect->pitch, 1, from, rect->row_step, rect->step)
}

static void copy_out(const MoveRect *rect, int bytes, void *to, const void *from) {
    if (bytes == 1)
        COPY_TRUTHS(to, rect->row_step, rect->step, from, rect->pitch, 1)
    else if (bytes == 4)
        COPY_RECT(uint32_t, to, rect->row_step, rect->step, from, rect->pitch, 1)
    else
        COPY_RECT(uint64_t, to, rect->row_step, rect->step, from, rect->pitch, 1)
}

static bool is_short(const MoveRect *rect, const AccessAddress *place, int size) {
    return rect->columns < SHORT_ROW && rect->rows > 1 && size == place->bytes;
}

static void load_rect(const InterpFrame *f, const AccessAddress *place, char *block, const MoveRect *rect) {
    const int size = stype_bytes(dtype_compute(place->dtype));
    const char *const from = place->base + rect->offset * place->bytes;
    char *const to = block + rect->at * size;
    if (is_short(rect, place, size)) {
        copy_in(rect, size, to, from);
        return;
    }
    LoadFn *const load = f->kernels->load[place->dtype];
    for (int64_t r = 0; r < rect->rows; r++)
        load(to + r * rect->pitch * size, from + r * rect->row_step * place->bytes, rect->step, rect->columns);
}

void frame_load(InterpFrame *f, const BlockInst *step, const Shape *shape) {
    f->slot[step->out] = f->home[step->out];
    if (step->alias) {
        void *const there = frame_contiguous(f, step->access, shape);
        if (there) {
            f->slot[step->out] = there;
            return;
        }
    }
    each_rect(f, &f->places[step->access], shape, f->home[step->out], load_rect);
}

/* indices and gathers ------------------------------------------------------------------------- */

static void index_rect(const InterpFrame *f, const AccessAddress *place, char *block, const MoveRect *rect) {
    int64_t *const to = (int64_t *)block + rect->at;
    for (int64_t r = 0; r < rect->rows; r++)
        for (int64_t c = 0; c < rect->columns; c++)
            to[r * rect->pitch + c] = rect->offset + r * rect->row_step + c * rect->step;
}

void frame_index(InterpFrame *f, const BlockInst *step, const Shape *shape) {
    f->slot[step->out] = f->home[step->out];
    each_rect(f, &f->places[step->access], shape, f->home[step->out], index_rect);
}

static int64_t resolve(const InterpFrame *f, int64_t v) { return sym_is(v) ? f->params[sym_id(v)] : v; }

/* Adds index * scale to the offsets; false at the first index out of range. */
static bool add_indices(InterpFrame *f, const BlockInst *step, int64_t n) {
    const BlockAccess *const access = &block_accesses(f->program)[step->access];
    const int64_t scale = resolve(f, access->scale), bound = resolve(f, access->bound);
    const int64_t *const index = f->slot[step->a];
    for (int64_t i = 0; i < n; i++) {
        int64_t at = index[i];
        if (at < 0 && access->wrap_negative) at += bound;
        if (at < 0 || at >= bound) {
            *f->error = (NestError){.inst = step->number, .index = index[i], .bound = bound};
            return false;
        }
        f->offsets[i] += at * scale;
    }
    return true;
}

#define PICK(T)                                                                                                        \
    for (int64_t i = 0; i < n; i++) ((T *)to)[i] = ((const T *)from)[f->offsets[i]];

static void pick(const InterpFrame *f, char *to, const char *from, int bytes, int64_t n) {
    if (bytes == 1)
        PICK(uint8_t)
    else if (bytes == 2)
        PICK(uint16_t)
    else if (bytes == 4)
        PICK(uint32_t)
    else
        PICK(uint64_t)
}

bool frame_gather(InterpFrame *f, const BlockInst *step, const Shape *shape) {
    const AccessAddress *const place = &f->places[step->access];
    char *const out = f->home[step->out];
    each_rect(f, place, shape, (char *)f->offsets, index_rect);
    if (!add_indices(f, step, shape->n)) return false;
    f->slot[step->out] = out;
    const bool converts = place->bytes != stype_bytes((SType)step->type) || place->dtype == DT_bool;
    pick(f, converts ? f->raw : out, place->base, place->bytes, shape->n);
    if (converts) f->kernels->load[place->dtype](out, f->raw, 1, shape->n);
    return true;
}

/* stores -------------------------------------------------------------------------------------- */

static void store_rect(const InterpFrame *f, const AccessAddress *place, char *block, const MoveRect *rect) {
    const int size = stype_bytes(dtype_compute(place->dtype));
    char *const to = place->base + rect->offset * place->bytes;
    const char *const from = block + rect->at * size;
    if (is_short(rect, place, size)) {
        copy_out(rect, size, to, from);
        return;
    }
    StoreFn *const store = f->kernels->store[place->dtype];
    for (int64_t r = 0; r < rect->rows; r++)
        store(to + r * rect->row_step * place->bytes, rect->step, from + r * rect->pitch * size, rect->columns);
}

void frame_store(InterpFrame *f, const BlockInst *step, const Shape *shape) {
    const AccessAddress *const place = &f->places[step->access];
    char *const value = f->slot[step->a];
    void *const there = frame_contiguous(f, step->access, shape);
    if (there == value && there) return; /* written in place by its maker */
    each_rect(f, place, shape, value, store_rect);
}
