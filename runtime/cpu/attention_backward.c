/* attention_backward.c: gradients of attention by blocks of rows [B2.14]. A part is a unit: dk and dv are chains over
 * all its queries, which go on from block to block in sums that lie turned, [width][key], so that probabilities and
 * their gradients are the right operand of the products where they are:
 *
 *     dv^T += grad^T p        dk^T += query^T ds        dq = ds key */
#include <math.h>

#include "runtime/core/pool.h"
#include "runtime/cpu/attention_heads.h"
#include "runtime/device/alloc_cpu.h"

enum { SLOPE_BYTES = 192 << 10, MOST_ROWS = 96 };

typedef struct Backward {
    Attention *a;
    const sn_tensor *grad, *max, *sum;
    sn_tensor *const *outs;
    int64_t block, block_ld, score_ld, width_ld, value_ld, widest;
    bool cut; /* several chunks of queries */
    size_t query, grads, query_turned, grad_turned, p, slopes, dq, more, chunks, room, key_panels, value_panels, keys,
        dk, dv, dk_more, dv_more, panel_offsets, key_offsets, score_offsets, limits, bytes;
} Backward;

typedef struct BackwardPart {
    const Backward *b;
    const Attention *a;
    char *memory;
    int64_t unit;
    bool keys_finite;
} BackwardPart;

typedef struct RowBlock {
    int64_t g, first, n, keys; /* of head g; keys that any row has */
    bool finite;               /* what is multiplied with zeros for keys left out */
} RowBlock;

static int64_t *ints_at(const BackwardPart *p, size_t at) { return (int64_t *)(void *)(p->memory + at); }

static void multiply_panels(const BackwardPart *p, const RowBlock *block, size_t rows, size_t panels, int64_t width,
                            size_t to) {
    const Backward *const b = p->b;
    const Attention *const a = p->a;
    const int64_t *const limits = ints_at(p, b->limits), ld = attention_ld(width);
    for (int64_t j = 0; j < block->keys; j += PANEL) {
        int64_t first = 0;
        while (limits[first] <= j) first++;
        attention_scores(a, &(AttentionScores){.a = p->memory + rows + first * ld * a->bytes,
                                               .panel = p->memory + panels + j * width * a->bytes,
                                               .c = p->memory + to + (first * b->score_ld + j) * a->bytes,
                                               .more = p->memory + b->more,
                                               .offsets = ints_at(p, b->panel_offsets),
                                               .a_ld = ld,
                                               .c_ld = b->score_ld,
                                               .m = block->n - first,
                                               .width = width});
    }
}

static char *row_number(const BackwardPart *p, const sn_tensor *t, int64_t g, int64_t row) {
    const Meta *const meta = t->base.meta;
    return attention_head(p->a, t, 1, false, p->unit, g) + row * meta->strides[meta->rank - 1] * p->a->bytes;
}

/* p and ds of the block's rows, 0 behind their keys. */
static void block_slopes(const BackwardPart *p, const RowBlock *block) {
    const Backward *const b = p->b;
    const Attention *const a = p->a;
    const AttentionMask mask = attention_mask(a, p->unit, block->g, p->memory + b->room);
    for (int64_t i = 0; i < block->n; i++) {
        const int64_t n = ints_at(p, b->limits)[i], t = block->first + i;
        char *const scores = p->memory + b->p + i * b->score_ld * a->bytes;
        char *const slopes = p->memory + b->slopes + i * b->score_ld * a->bytes;
        AttentionRow row = {.scores = scores,
                            .max = row_number(p, b->max, block->g, t),
                            .sum = row_number(p, b->sum, block->g, t),
                            .chunks = p->memory + b->chunks,
                            .scale = a->scale,
                            .n = n,
                            .given = true};
        attention_mask_row(a, &mask, t, &row);
        attention_softmax(a->type, &row);
        attention_slope(a->type, &(AttentionSlope){slopes, scores, p->memory + b->chunks, a->scale, n});
        memset(scores + n * a->bytes, 0, (size_t)((round_up(block->keys, PANEL) - n) * a->bytes));
        memset(slopes + n * a->bytes, 0, (size_t)((round_up(block->keys, PANEL) - n) * a->bytes));
    }
}

static void block_query(const BackwardPart *p, const RowBlock *block) {
    const Backward *const b = p->b;
    const Attention *const a = p->a;
    attention_chain(a, &(AttentionChain){.a = p->memory + b->slopes,
                                         .b = p->memory + b->keys,
                                         .c = p->memory + b->dq,
                                         .more = p->memory + b->more,
                                         .limits = ints_at(p, b->limits),
                                         .offsets = ints_at(p, b->key_offsets),
                                         .a_ld = b->score_ld,
                                         .b_ld = b->width_ld,
                                         .c_ld = b->width_ld,
                                         .m = block->n,
                                         .width = a->width,
                                         .finite = p->keys_finite});
    const AttentionRows to = attention_rows(a, b->outs[0], false, p->unit, block->g);
    attention_store(a, &to, block->first, block->n, p->memory + b->dq, b->width_ld);
}

/* sums [width][key] += turned [width][row] scores [row][key] */
typedef struct KeySums {
    size_t rows, turned, scores, sums; /* rows: turned, as they were */
    int64_t width;
} KeySums;

static void add_panels(const BackwardPart *p, const RowBlock *block, const KeySums *s) {
    const Backward *const b = p->b;
    const Attention *const a = p->a;
    for (int64_t j = 0; j < block->keys; j += PANEL) {
        const int64_t first = a->causal ? max_i64(0, j - block->first) : 0; /* row that has key j */
        const OffsetRun run = {p->memory + s->scores + (first * b->score_ld + j) * a->bytes,
                               p->memory + s->sums + j * a->bytes, b->score_ld, PANEL};
        gemm_offsets(a->type, &(OffsetProduct){.a = p->memory + s->turned + first * a->bytes,
                                               .a_ld = b->block_ld,
                                               .m = s->width,
                                               .k = block->n - first,
                                               .offset = ints_at(p, b->score_offsets),
                                               .run = &run,
                                               .runs = 1,
                                               .continues = true});
    }
}

/* The same element by element, without the keys that a row does not have. */
static void add_left_out(const BackwardPart *p, const RowBlock *block, const KeySums *s) {
    const Backward *const b = p->b;
    const int64_t *const limits = ints_at(p, b->limits), ld = attention_ld(s->width);
    for (int64_t i = 0; i < block->n; i++)
        for (int64_t c = 0; c < s->width; c++)
            for (int64_t j = 0; j < limits[i]; j++) {
                const int64_t row = i * ld + c, score = i * b->score_ld + j, sum = c * b->score_ld + j;
                char *const m = p->memory;
                if (p->a->type == S_f64) {
                    double *const to = (double *)(void *)(m + s->sums) + sum;
                    *to = fma(((double *)(void *)(m + s->rows))[row], ((double *)(void *)(m + s->scores))[score], *to);
                } else {
                    float *const to = (float *)(void *)(m + s->sums) + sum;
                    *to = fmaf(((float *)(void *)(m + s->rows))[row], ((float *)(void *)(m + s->scores))[score], *to);
                }
            }
}

static void load_block(const BackwardPart *p, RowBlock *block) {
    const Backward *const b = p->b;
    const Attention *const a = p->a;
    const AttentionRows query = attention_rows(a, a->query, false, p->unit, block->g);
    const AttentionRows grad = attention_rows(a, b->grad, false, p->unit, block->g);
    char *const rows = p->memory + b->query, *const grads = p->memory + b->grads;
    attention_load(a, &query, block->first, block->n, rows, b->width_ld);
    attention_load(a, &grad, block->first, block->n, grads, b->value_ld);
    kernel_transpose(a->bytes, rows, b->width_ld, p->memory + b->query_turned, b->block_ld, block->n, a->width);
    kernel_transpose(a->bytes, grads, b->value_ld, p->memory + b->grad_turned, b->block_ld, block->n, a->value_width);
    for (int64_t i = 0; i < block->n; i++) ints_at(p, b->limits)[i] = attention_limit(a, block->first + i);
    block->keys = attention_limit(a, block->first + block->n - 1);
    block->finite = !a->causal || (attention_rows_finite(a, rows, b->width_ld, block->n, a->width) &&
                                   attention_rows_finite(a, grads, b->value_ld, block->n, a->value_width));
}

static void run_block(const BackwardPart *p, RowBlock *block, bool first_chunk) {
    const Backward *const b = p->b;
    const Attention *const a = p->a;
    load_block(p, block);
    multiply_panels(p, block, b->query, b->key_panels, a->width, b->p);
    multiply_panels(p, block, b->grads, b->value_panels, a->value_width, b->slopes);
    block_slopes(p, block);
    block_query(p, block);
    const KeySums sums[] = {{b->query, b->query_turned, b->slopes, first_chunk ? b->dk : b->dk_more, a->width},
                            {b->grads, b->grad_turned, b->p, first_chunk ? b->dv : b->dv_more, a->value_width}};
    for (int i = 0; i < 2; i++) (block->finite ? add_panels : add_left_out)(p, block, &sums[i]);
}

/* A chunk of queries of a head: its sums begin at 0; those of the first one stand, others are added to them. */
static void run_chunk(const BackwardPart *p, int64_t g, int64_t first, int64_t end) {
    const Backward *const b = p->b;
    const Attention *const a = p->a;
    const bool first_chunk = !g && !first;
    const int64_t dk = a->width * b->score_ld, dv = a->value_width * b->score_ld;
    memset(p->memory + (first_chunk ? b->dk : b->dk_more), 0, (size_t)(dk * a->bytes));
    memset(p->memory + (first_chunk ? b->dv : b->dv_more), 0, (size_t)(dv * a->bytes));
    for (int64_t i = first; i < end; i += b->block)
        run_block(p, &(RowBlock){.g = g, .first = i, .n = min_i64(b->block, end - i)}, first_chunk);
    if (first_chunk) return;
    attention_add(a->type, p->memory + b->dk, p->memory + b->dk_more, dk);
    attention_add(a->type, p->memory + b->dv, p->memory + b->dv_more, dv);
}

/* Sums [width][key] to rows of a gradient, + 0. */
static void store_sums(const BackwardPart *p, size_t sums, const sn_tensor *out) {
    const Backward *const b = p->b;
    const Attention *const a = p->a;
    const AttentionRows to = attention_rows(a, out, true, p->unit, 0);
    const int64_t ld = attention_ld(to.width);
    char *const room = p->memory + b->more;
    for (int64_t j = 0; j < a->keys; j += PANEL) {
        const int64_t n = min_i64(PANEL, a->keys - j);
        kernel_transpose(a->bytes, p->memory + sums + j * a->bytes, b->score_ld, room, ld, to.width, n);
        for (int64_t i = 0; i < n; i++) attention_add(a->type, room + i * ld * a->bytes, NULL, to.width);
        attention_store(a, &to, j, n, room, ld);
    }
}

static void pack_unit(BackwardPart *p) {
    const Backward *const b = p->b;
    const Attention *const a = p->a;
    const AttentionRows key = attention_rows(a, a->key, true, p->unit, 0),
                        value = attention_rows(a, a->value, true, p->unit, 0);
    attention_offsets(ints_at(p, b->panel_offsets), b->widest, PANEL);
    attention_offsets(ints_at(p, b->key_offsets), min_i64(a->keys, CHUNK_CHAIN), b->width_ld);
    attention_offsets(ints_at(p, b->score_offsets), b->block, b->score_ld);
    for (int64_t j = 0; j < a->keys; j += PANEL) {
        attention_panel(a, &key, j, p->memory + b->key_panels + j * a->width * a->bytes, p->memory + b->more);
        attention_panel(a, &value, j, p->memory + b->value_panels + j * a->value_width * a->bytes, p->memory + b->more);
    }
    attention_load(a, &key, 0, a->keys, p->memory + b->keys, b->width_ld);
    p->keys_finite = !a->causal || attention_rows_finite(a, p->memory + b->keys, b->width_ld, a->keys, a->width);
}

static void run_unit(void *context, int unit) {
    Backward *const b = context;
    const Attention *const a = b->a;
    BackwardPart p = {.b = b, .a = a, .unit = unit, .memory = cpu_alloc(b->bytes)};
    if (!p.memory) {
        atomic_store(&b->a->no_memory, true);
        return;
    }
    pack_unit(&p);
    for (int64_t g = 0; g < a->group; g++)
        for (int64_t i = 0; i < a->rows; i += CHUNK_CHAIN) run_chunk(&p, g, i, min_i64(i + CHUNK_CHAIN, a->rows));
    if (!a->group || !a->rows) run_chunk(&p, 0, 0, 0);
    store_sums(&p, b->dk, b->outs[1]);
    store_sums(&p, b->dv, b->outs[2]);
    cpu_free(p.memory, b->bytes);
}

static void plan_memory(Backward *b) {
    const Attention *const a = b->a;
    const int64_t n = b->block, panels = round_up(a->keys, PANEL), ints = (int64_t)sizeof(int64_t);
    size_t *const bytes = &b->bytes;
    b->query = attention_reserve(bytes, n * b->width_ld * a->bytes);
    b->grads = attention_reserve(bytes, n * b->value_ld * a->bytes);
    b->query_turned = attention_reserve(bytes, a->width * b->block_ld * a->bytes);
    b->grad_turned = attention_reserve(bytes, a->value_width * b->block_ld * a->bytes);
    b->p = attention_reserve(bytes, n * b->score_ld * a->bytes);
    b->slopes = attention_reserve(bytes, n * b->score_ld * a->bytes);
    b->dq = attention_reserve(bytes, n * b->width_ld * a->bytes);
    b->more = attention_reserve(bytes, max_i64(n, PANEL) * max_i64(attention_ld(b->widest), PANEL) * a->bytes);
    b->chunks = attention_reserve(bytes, (a->keys / 1024 + 1) * a->bytes);
    b->room = attention_reserve(bytes, a->mask ? a->keys * a->bytes : 0);
    b->key_panels = attention_reserve(bytes, panels * a->width * a->bytes);
    b->value_panels = attention_reserve(bytes, panels * a->value_width * a->bytes);
    b->keys = attention_reserve(bytes, a->keys * b->width_ld * a->bytes);
    b->dk = attention_reserve(bytes, a->width * b->score_ld * a->bytes);
    b->dv = attention_reserve(bytes, a->value_width * b->score_ld * a->bytes);
    b->dk_more = attention_reserve(bytes, b->cut ? a->width * b->score_ld * a->bytes : 0);
    b->dv_more = attention_reserve(bytes, b->cut ? a->value_width * b->score_ld * a->bytes : 0);
    b->panel_offsets = attention_reserve(bytes, b->widest * ints);
    b->key_offsets = attention_reserve(bytes, min_i64(a->keys, CHUNK_CHAIN) * ints);
    b->score_offsets = attention_reserve(bytes, n * ints);
    b->limits = attention_reserve(bytes, n * ints);
}

/* outs: gradients of query, key, value */
void attention_backward(Attention *a, const sn_tensor *grad, const sn_tensor *max, const sn_tensor *sum,
                        sn_tensor *const *outs) {
    if (!a->units) return;
    Backward b = {.a = a, .grad = grad, .max = max, .sum = sum, .outs = outs};
    b.width_ld = attention_ld(a->width), b.value_ld = attention_ld(a->value_width);
    b.widest = max_i64(a->width, a->value_width);
    b.score_ld = round_up(max_i64(a->keys, 1), PANEL) + 16; /* rows lie in different cache sets */
    const int64_t fits = SLOPE_BYTES / (b.score_ld * a->bytes) / TILE * TILE;
    b.block = max_i64(1, min_i64(a->rows, max_i64(TILE, min_i64(MOST_ROWS, fits))));
    b.block_ld = attention_ld(b.block);
    b.cut = a->group > 1 || a->rows > CHUNK_CHAIN;
    plan_memory(&b);
    attention_parts(a, (int)a->units, run_unit, &b);
}
