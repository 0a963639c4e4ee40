/* attention_forward.c: attention by blocks of rows: their scores, softmax and output while the scores are in L2. A part
 * is some rows of a unit. Where it has several blocks, keys and values are packed once for all of them; for one block
 * (a decoding step) a panel of keys is turned in L1 when its turn comes and values are read where they lie. */
#include "runtime/core/pool.h"
#include "runtime/cpu/attention_heads.h"
#include "runtime/device/alloc_cpu.h"

enum { SCORE_BYTES = 256 << 10, MOST_ROWS = 96 };

typedef struct Forward {
    Attention *a;
    sn_tensor *const *outs;
    int64_t block, score_ld, width_ld, value_ld; /* rows of a block */
    int64_t splits, each;                        /* parts of a unit; rows of one */
    bool packed;
    bool in_place; /* values */
    size_t query, scores, out, more, max, sum, chunks, room, panel_rows, turned, value, turned_offsets, value_offsets,
        limits, bytes; /* where a part has what */
} Forward;

typedef struct ForwardPart {
    const Forward *f;
    const Attention *a;
    char *memory;
    int64_t unit;
    AttentionRows key, value;
    const char *values;
    bool finite;
} ForwardPart;

static int64_t *limits_of(const ForwardPart *p) { return (int64_t *)(void *)(p->memory + p->f->limits); }

static int64_t panel_bytes(const Attention *a) { return a->width * PANEL * a->bytes; }

static const char *panel_at(const ForwardPart *p, int64_t j) {
    char *const to = p->memory + p->f->turned + (p->f->packed ? j / PANEL * panel_bytes(p->a) : 0);
    if (!p->f->packed) attention_panel(p->a, &p->key, j, to, p->memory + p->f->panel_rows);
    return to;
}

/* Scores of the block's rows for keys that any of them has. */
static void block_scores(const ForwardPart *p, int64_t n, int64_t keys) {
    const Forward *const f = p->f;
    const Attention *const a = p->a;
    const int64_t *const limits = limits_of(p);
    for (int64_t j = 0; j < keys; j += PANEL) {
        int64_t first = 0, end = n;
        while (limits[first] <= j) first++;
        while (limits[end - 1] <= j) end--;
        attention_scores(a,
                         &(AttentionScores){.a = p->memory + f->query + first * f->width_ld * a->bytes,
                                            .panel = panel_at(p, j),
                                            .c = p->memory + f->scores + (first * f->score_ld + j) * a->bytes,
                                            .more = p->memory + f->more,
                                            .offsets = (const int64_t *)(const void *)(p->memory + f->turned_offsets),
                                            .a_ld = f->width_ld,
                                            .c_ld = f->score_ld,
                                            .m = end - first,
                                            .width = a->width});
    }
}

/* Rows of a block that one head of query has, from row `at` of the block and query t of the head on. */
typedef struct HeadRows {
    int64_t g, t, at, n;
} HeadRows;

static HeadRows next_head(const Attention *a, int64_t first, int64_t at, int64_t n) {
    const int64_t t = (first + at) % a->rows;
    return (HeadRows){(first + at) / a->rows, t, at, min_i64(n - at, a->rows - t)};
}

/* Probabilities of rows, 0 behind their keys. */
static void softmax_rows(const ForwardPart *p, const HeadRows *rows, int64_t keys) {
    const Forward *const f = p->f;
    const Attention *const a = p->a;
    const AttentionMask mask = attention_mask(a, p->unit, rows->g, p->memory + f->room);
    for (int64_t i = rows->at, t = rows->t; i < rows->at + rows->n; i++, t++) {
        const int64_t limit = limits_of(p)[i];
        char *const scores = p->memory + f->scores + i * f->score_ld * a->bytes;
        AttentionRow row = {.scores = scores,
                            .max = p->memory + f->max + i * a->bytes,
                            .sum = p->memory + f->sum + i * a->bytes,
                            .chunks = p->memory + f->chunks,
                            .scale = a->scale,
                            .n = limit};
        attention_mask_row(a, &mask, t, &row);
        attention_softmax(a->type, &row);
        memset(scores + limit * a->bytes, 0, (size_t)((keys - limit) * a->bytes));
    }
}

static bool nothing_kept(const Attention *a, const char *max) {
    return a->type == S_f64 ? *(const double *)(const void *)max == -__builtin_inf()
                            : *(const float *)(const void *)max == -__builtin_inff();
}

static void store_numbers(const ForwardPart *p, int which, const HeadRows *rows, const char *from) {
    const sn_tensor *const t = p->f->outs[which];
    const Meta *const meta = t->base.meta;
    const int64_t step = meta->strides[meta->rank - 1] * p->a->bytes;
    char *const to = attention_head(p->a, t, 1, false, p->unit, rows->g) + rows->t * step;
    for (int64_t i = 0; i < rows->n; i++)
        memcpy(to + i * step, from + (rows->at + i) * p->a->bytes, (size_t)p->a->bytes);
}

static void store_rows(const ForwardPart *p, const HeadRows *rows) {
    const Forward *const f = p->f;
    const Attention *const a = p->a;
    const AttentionRows to = attention_rows(a, f->outs[0], false, p->unit, rows->g);
    char *const out = p->memory + f->out;
    for (int64_t i = rows->at; i < rows->at + rows->n; i++)
        if (nothing_kept(a, p->memory + f->max + i * a->bytes))
            memset(out + i * f->value_ld * a->bytes, 0, (size_t)(f->value_ld * a->bytes));
    attention_store(a, &to, rows->t, rows->n, out + rows->at * f->value_ld * a->bytes, f->value_ld);
    store_numbers(p, 1, rows, p->memory + f->max);
    store_numbers(p, 2, rows, p->memory + f->sum);
}

static void load_rows(const ForwardPart *p, const HeadRows *rows) {
    const Forward *const f = p->f;
    const Attention *const a = p->a;
    const AttentionRows query = attention_rows(a, a->query, false, p->unit, rows->g);
    attention_load(a, &query, rows->t, rows->n, p->memory + f->query + rows->at * f->width_ld * a->bytes, f->width_ld);
    for (int64_t i = 0; i < rows->n; i++) limits_of(p)[rows->at + i] = attention_limit(a, rows->t + i);
}

static void run_block(const ForwardPart *p, int64_t first, int64_t n) {
    const Forward *const f = p->f;
    const Attention *const a = p->a;
    const Meta *const value = a->value->base.meta;
    HeadRows rows;
    int64_t keys = 0;
    for (int64_t i = 0; i < n; i += rows.n) {
        rows = next_head(a, first, i, n);
        load_rows(p, &rows);
        keys = max_i64(keys, limits_of(p)[i + rows.n - 1]);
    }
    block_scores(p, n, keys);
    for (int64_t i = 0; i < n; i += rows.n) {
        rows = next_head(a, first, i, n);
        softmax_rows(p, &rows, keys);
    }
    attention_chain(a, &(AttentionChain){.a = p->memory + f->scores,
                                         .b = p->values,
                                         .c = p->memory + f->out,
                                         .more = p->memory + f->more,
                                         .limits = limits_of(p),
                                         .offsets = (const int64_t *)(const void *)(p->memory + f->value_offsets),
                                         .a_ld = f->score_ld,
                                         .b_ld = f->in_place ? value->strides[value->rank - 2] : f->value_ld,
                                         .c_ld = f->value_ld,
                                         .m = n,
                                         .width = a->value_width,
                                         .finite = p->finite});
    for (int64_t i = 0; i < n; i += rows.n) {
        rows = next_head(a, first, i, n);
        store_rows(p, &rows);
    }
}

/* Keys that the part's rows have in all. */
static int64_t part_keys(const Attention *a, int64_t first, int64_t end) {
    return first / a->rows != (end - 1) / a->rows ? attention_limit(a, a->rows - 1)
                                                  : attention_limit(a, (end - 1) % a->rows);
}

static void pack_operands(ForwardPart *p, int64_t keys) {
    const Forward *const f = p->f;
    const Attention *const a = p->a;
    const Meta *const value = a->value->base.meta;
    for (int64_t j = 0; j < keys && f->packed; j += PANEL)
        attention_panel(a, &p->key, j, p->memory + f->turned + j / PANEL * panel_bytes(a), p->memory + f->panel_rows);
    if (!f->in_place) attention_load(a, &p->value, 0, keys, p->memory + f->value, f->value_ld);
    p->values = f->in_place ? p->value.at : p->memory + f->value;
    const int64_t ld = f->in_place ? value->strides[value->rank - 2] : f->value_ld;
    p->finite = !a->causal || attention_rows_finite(a, p->values, ld, keys, a->value_width);
}

static void forward_part(void *context, int part) {
    Forward *const f = context;
    const Attention *const a = f->a;
    const int64_t all = a->group * a->rows, first = part % f->splits * f->each, end = min_i64(first + f->each, all);
    if (first >= end) return;
    ForwardPart p = {.f = f, .a = a, .unit = part / f->splits, .memory = cpu_alloc(f->bytes)};
    if (!p.memory) {
        atomic_store(&f->a->no_memory, true);
        return;
    }
    p.key = attention_rows(a, a->key, true, p.unit, 0), p.value = attention_rows(a, a->value, true, p.unit, 0);
    const Meta *const value = a->value->base.meta;
    attention_offsets((int64_t *)(void *)(p.memory + f->turned_offsets), a->width, PANEL);
    attention_offsets((int64_t *)(void *)(p.memory + f->value_offsets), min_i64(a->keys, CHUNK_CHAIN),
                      f->in_place ? value->strides[value->rank - 2] : f->value_ld);
    pack_operands(&p, part_keys(a, first, end));
    for (int64_t i = first; i < end; i += f->block) run_block(&p, i, min_i64(f->block, end - i));
    cpu_free(p.memory, f->bytes);
}

/* Values are read where they lie if whole vectors do: by many blocks where their rows are close, by one where they are
 * not all in the same cache sets. */
static bool values_in_place(const Forward *f) {
    const Attention *const a = f->a;
    const Meta *const value = a->value->base.meta;
    const int64_t step = value->strides[value->rank - 2] * a->bytes;
    const bool close = step >= 0 && step <= a->value_width * a->bytes * 2,
               spread = f->block <= TILE || step % 4096 != 0;
    return dtype_bytes(value->dtype) == a->bytes && value->strides[value->rank - 1] == 1 &&
           a->value_width * a->bytes % 64 == 0 && (f->packed ? close && spread : spread);
}

static void plan_memory(Forward *f) {
    const Attention *const a = f->a;
    const int64_t n = f->block, panels = ceil_div(a->keys, PANEL);
    f->query = attention_reserve(&f->bytes, n * f->width_ld * a->bytes);
    f->scores = attention_reserve(&f->bytes, n * f->score_ld * a->bytes);
    f->out = attention_reserve(&f->bytes, n * f->value_ld * a->bytes);
    f->more = attention_reserve(&f->bytes, n * max_i64(f->value_ld, PANEL) * a->bytes);
    f->max = attention_reserve(&f->bytes, n * a->bytes), f->sum = attention_reserve(&f->bytes, n * a->bytes);
    f->chunks = attention_reserve(&f->bytes, (a->keys / 1024 + 1) * a->bytes);
    f->room = attention_reserve(&f->bytes, a->mask ? a->keys * a->bytes : 0);
    f->panel_rows = attention_reserve(&f->bytes, PANEL * f->width_ld * a->bytes);
    f->turned = attention_reserve(&f->bytes, (f->packed ? panels : 1) * panel_bytes(a));
    f->value = attention_reserve(&f->bytes, f->in_place ? 0 : a->keys * f->value_ld * a->bytes);
    f->turned_offsets = attention_reserve(&f->bytes, a->width * (int64_t)sizeof(int64_t));
    f->value_offsets = attention_reserve(&f->bytes, min_i64(a->keys, CHUNK_CHAIN) * (int64_t)sizeof(int64_t));
    f->limits = attention_reserve(&f->bytes, n * (int64_t)sizeof(int64_t));
}

/* outs: out, max, sum */
void attention_forward(Attention *a, sn_tensor *const *outs) {
    const int64_t all = a->group * a->rows;
    if (!a->units || !all) return;
    Forward f = {.a = a, .outs = outs, .width_ld = attention_ld(a->width), .value_ld = attention_ld(a->value_width)};
    f.score_ld = round_up(max_i64(a->keys, 1), PANEL) + 16; /* rows lie in different cache sets */
    const int64_t fits = SCORE_BYTES / (f.score_ld * a->bytes) / TILE * TILE;
    const int threads = attention_is_large(a) ? pool_threads() : 1;
    f.splits = a->units >= 2 * threads || threads == 1 ? 1 : ceil_div(2 * threads, a->units);
    f.each = ceil_div(all, f.splits);
    f.block = min_i64(f.each, max_i64(TILE, min_i64(MOST_ROWS, fits)));
    f.each = round_up(f.each, f.block), f.splits = ceil_div(all, f.each);
    f.packed = f.each > f.block;
    f.in_place = values_in_place(&f);
    plan_memory(&f);
    attention_parts(a, (int)(a->units * f.splits), forward_part, &f);
}
