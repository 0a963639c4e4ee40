/* interp_reduce.c: the canonical reductions over streams of blocks [B2.1, B2.2].
 *
 * Order L: a row of at most 1,024 elements is one call of the kernel; a longer one comes in chunks,
 * whose results gather in levels of 1,024 that are reduced by the same rule. Order S: rows are
 * accumulated into columns, 64 to a chunk, again in levels. A full level is passed on only when one
 * more arrives: a single chunk's result stands as it is. */
#include "runtime/cpu/interp_frame.h"

static RedKind joining(RedKind kind) { return kind == RED_dot ? RED_sum : kind; }

/* The identity of a reduction, n times. */
static void fill_identity(const InterpFrame *f, RedKind kind, SType type, char *out, int64_t n) {
    char one[8] __attribute__((aligned(8))) = {0};
    if (kind == RED_argmax || kind == RED_argmin)
        type = S_i64;
    else
        f->kernels->reduce[kind][type](one, one, one, 0);
    f->kernels->load[dtype_of(type)](out, one, 0, n);
}

/* order S ------------------------------------------------------------------------------------- */

static char *sums_at(const Reduction *r, int level) { return r->sums + (int64_t)level * BLOCK * stype_bytes(r->type); }

/* b: the second operand of a dot whose rows come from memory; sums of sums are plain. */
static void push_row(const InterpFrame *f, Reduction *r, int level, const char *a, const char *b, int64_t n) {
    const RedKind kind = b ? r->kind : joining(r->kind);
    char *const sums = sums_at(r, level);
    if (r->n_rows[level] == CHUNK_S) {
        push_row(f, r, level + 1, sums, NULL, n);
        r->n_rows[level] = 0;
    }
    if (!r->n_rows[level]) fill_identity(f, kind, r->type, sums, n);
    f->kernels->accumulate[kind][r->type](sums, sums, a, b, n);
    r->n_rows[level]++;
}

static void finish_rows(const InterpFrame *f, Reduction *r, char *out, int64_t n) {
    int level = 0;
    for (; r->n_rows[level + 1]; level++) push_row(f, r, level + 1, sums_at(r, level), NULL, n);
    memcpy(out, sums_at(r, level), (size_t)(n * stype_bytes(r->type)));
    memset(r->n_rows, 0, sizeof r->n_rows);
}

/* order L ------------------------------------------------------------------------------------- */

static char *partials_at(const Reduction *r, int level) {
    return r->partial + (int64_t)level * CHUNK_L * stype_bytes(r->type);
}

static void push_partial(const InterpFrame *f, Reduction *r, int level, const char *value) {
    const int size = stype_bytes(r->type);
    if (r->n_partial[level] == CHUNK_L) {
        char joined[8] __attribute__((aligned(8)));
        f->kernels->reduce[joining(r->kind)][r->type](joined, partials_at(r, level), NULL, CHUNK_L);
        r->n_partial[level] = 0;
        push_partial(f, r, level + 1, joined);
    }
    memcpy(partials_at(r, level) + (int64_t)r->n_partial[level]++ * size, value, (size_t)size);
}

static void finish_partials(const InterpFrame *f, Reduction *r, char *out) {
    ReduceFn *const join = f->kernels->reduce[joining(r->kind)][r->type];
    const int size = stype_bytes(r->type);
    for (int level = 0;; level++) {
        const bool last = !r->n_partial[level + 1];
        char joined[8] __attribute__((aligned(8)));
        if (last && r->n_partial[level] == 1)
            memcpy(joined, partials_at(r, level), (size_t)size);
        else
            join(joined, partials_at(r, level), NULL, r->n_partial[level]);
        r->n_partial[level] = 0;
        if (last) {
            memcpy(out, joined, (size_t)size);
            return;
        }
        push_partial(f, r, level + 1, joined);
    }
}

/* positions ----------------------------------------------------------------------------------- */

/* Largest or smallest so far of one column or row; NaN beats all, the first of equals stays. */
#define BEST(T)                                                                                                        \
    static void best_##T(Reduction *r, int64_t at, const void *values, int64_t n, int64_t first) {                     \
        const bool largest = r->kind == RED_argmax;                                                                    \
        T best = ((T *)r->best)[at];                                                                                   \
        int64_t position = r->position[at];                                                                            \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            const T x = ((const T *)values)[i];                                                                        \
            const bool beats = largest ? x > best : x < best;                                                          \
            if (position < 0 || beats || (x != x && best == best)) best = x, position = first + i;                     \
        }                                                                                                              \
        ((T *)r->best)[at] = best;                                                                                     \
        r->position[at] = position;                                                                                    \
    }
BEST(float)
BEST(double)
BEST(int32_t)
BEST(int64_t)
BEST(uint8_t)

typedef void BestFn(Reduction *r, int64_t at, const void *values, int64_t n, int64_t first);
static BestFn *const best_of[S_COUNT] = {best_float, best_double, best_int32_t, best_int64_t, best_uint8_t};

/* Once a NaN is best, `x > best` is false and x != x no longer wins: the first NaN stays. */
static void position_step(InterpFrame *f, Reduction *r, const char *values) {
    const int size = stype_bytes(r->type);
    BestFn *const best = best_of[r->type];
    const int64_t columns = f->wide.fast.n;
    if (f->columns) {
        for (int64_t s = 0; s < f->wide.slow.n; s++)
            for (int64_t c = 0; c < columns; c++)
                best(r, c, values + (s * columns + c) * size, 1, f->wide.slow.start + s);
        return;
    }
    for (int64_t row = 0; row < f->wide.slow.n; row++)
        best(r, row, values + row * columns * size, columns, f->wide.fast.start);
}

/* steps --------------------------------------------------------------------------------------- */

static bool finds_position(const Reduction *r) { return r->kind == RED_argmax || r->kind == RED_argmin; }

void reduction_begin(InterpFrame *f, Reduction *r) {
    memset(r->n_partial, 0, sizeof r->n_partial);
    memset(r->n_rows, 0, sizeof r->n_rows);
    if (!finds_position(r)) return;
    memset(r->best, 0, (size_t)(BLOCK * stype_bytes(r->type)));
    for (int64_t i = 0; i < f->narrow.n; i++) r->position[i] = -1;
}

/* The L rows inside one outer position of this block. */
static void reduce_rows(InterpFrame *f, Reduction *r, const char *a, const char *b, int64_t n, char *out) {
    const int size = stype_bytes(r->type);
    ReduceFn *const reduce = f->kernels->reduce[r->kind][r->type];
    const bool chunked = f->n_l > CHUNK_L;
    const int64_t length = chunked ? n : f->n_l;
    for (int64_t at = 0; at < n; at += length) {
        char value[8] __attribute__((aligned(8)));
        reduce(value, a + at * size, b ? b + at * size : NULL, length);
        if (chunked) {
            push_partial(f, r, 0, value);
            if (!f->row_ends) return;
            finish_partials(f, r, value);
        }
        if (f->program->n_s)
            push_row(f, r, 0, value, NULL, 1);
        else
            memcpy(out, value, (size_t)size);
    }
}

void reduction_step(InterpFrame *f, const BlockInst *step) {
    Reduction *const r = &f->reductions[step->number];
    const char *const a = f->slot[step->a], *const b = step->b >= 0 ? f->slot[step->b] : NULL;
    const int size = stype_bytes(r->type);
    const int64_t columns = f->wide.fast.n;
    if (finds_position(r)) {
        position_step(f, r, a);
        return;
    }
    if (f->columns) {
        for (int64_t s = 0; s < f->wide.slow.n; s++)
            push_row(f, r, 0, a + s * columns * size, b ? b + s * columns * size : NULL, columns);
        return;
    }
    char *const out = f->home[step->out];
    for (int64_t row = 0; row < f->wide.slow.n; row++) {
        reduce_rows(f, r, a + row * columns * size, b ? b + row * columns * size : NULL, columns, out + row * size);
        if (f->program->n_s && f->keep) finish_rows(f, r, out + row * size, 1);
    }
}

void reduction_end(InterpFrame *f, const BlockInst *step) {
    Reduction *const r = &f->reductions[step->number];
    char *const out = f->home[step->out];
    f->slot[step->out] = out;
    if (!f->group[GROUP_inner].total)
        fill_identity(f, r->kind, r->type, out, f->narrow.n);
    else if (finds_position(r))
        memcpy(out, r->position, (size_t)f->narrow.n * sizeof *r->position);
    else if (f->columns)
        finish_rows(f, r, out, f->narrow.n);
    else if (f->program->n_s && !f->keep)
        finish_rows(f, r, out, 1);
}
