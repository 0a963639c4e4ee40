/* attention_heads.c: what forward and backward of attention share (attention_heads.h). */
#include "runtime/cpu/attention_heads.h"

#include <math.h>

#include "runtime/core/pool.h"

/* operands ------------------------------------------------------------------------------------- */

static const sn_tensor *operand_of(const OpCall *call, const char *name) {
    const Arg *const arg = &call->args[op_param_find(call->row, name)];
    return arg->kind == ARG_tensor && arg->val ? tensor_of(arg->val) : NULL;
}

void attention_of_call(Attention *a, const OpCall *call) {
    const Arg *const scale = &call->args[op_param_find(call->row, "scale")];
    a->query = operand_of(call, "query"), a->key = operand_of(call, "key"), a->value = operand_of(call, "value");
    a->mask = operand_of(call, "attn_mask");
    const Meta *const q = a->query->base.meta, *const k = a->key->base.meta;
    a->lead = q->rank - 2;
    a->type = dtype_compute(q->dtype), a->bytes = stype_bytes(a->type);
    a->rows = q->sizes[a->lead], a->width = q->sizes[a->lead + 1];
    a->keys = k->sizes[a->lead], a->value_width = a->value->base.meta->sizes[a->lead + 1];
    a->units = 1, a->group = 1;
    for (int d = 0; d < a->lead; d++) a->units *= k->sizes[d];
    if (a->lead && k->sizes[a->lead - 1]) a->group = q->sizes[a->lead - 1] / k->sizes[a->lead - 1];
    a->causal = call->args[op_param_find(call->row, "is_causal")].i != 0;
    a->scale = scale->kind == ARG_none ? 1 / sqrt((double)a->width) : arg_double(scale);
}

char *attention_head(const Attention *a, const sn_tensor *t, int last, bool of_key, int64_t unit, int64_t g) {
    const Meta *const meta = t->base.meta;
    const int64_t *const sizes = a->key->base.meta->sizes;
    int64_t at = 0;
    for (int d = a->lead - 1; d >= 0; unit /= sizes[d--]) {
        const int own = d + meta->rank - last - a->lead; /* a mask may have fewer dims */
        int64_t i = unit % sizes[d];
        if (d == a->lead - 1 && !of_key) i = i * a->group + g;
        if (own >= 0 && meta->sizes[own] != 1) at += i * meta->strides[own];
    }
    return (char *)tensor_data(t) + at * dtype_bytes(meta->dtype);
}

AttentionRows attention_rows(const Attention *a, const sn_tensor *t, bool of_key, int64_t unit, int64_t g) {
    const Meta *const meta = t->base.meta;
    return (AttentionRows){attention_head(a, t, 2, of_key, unit, g), meta, meta->sizes[meta->rank - 1]};
}

static char *row_at(const AttentionRows *rows, int64_t i) {
    return rows->at + i * rows->meta->strides[rows->meta->rank - 2] * dtype_bytes(rows->meta->dtype);
}

void attention_load(const Attention *a, const AttentionRows *from, int64_t first, int64_t n, char *to, int64_t ld) {
    LoadFn *const load = kernel_table()->load(from->meta->dtype);
    const int64_t step = from->meta->strides[from->meta->rank - 1], gap = ld - from->width;
    const bool plain = step == 1 && dtype_bytes(from->meta->dtype) == a->bytes;
    for (int64_t i = 0; i < n; i++, to += ld * a->bytes) {
        if (plain)
            memcpy(to, row_at(from, first + i), (size_t)(from->width * a->bytes));
        else
            load(to, row_at(from, first + i), step, from->width);
        if (gap) memset(to + from->width * a->bytes, 0, (size_t)(gap * a->bytes));
    }
}

void attention_store(const Attention *a, const AttentionRows *to, int64_t first, int64_t n, const char *from,
                     int64_t ld) {
    StoreFn *const store = kernel_table()->store(to->meta->dtype);
    const int64_t step = to->meta->strides[to->meta->rank - 1];
    for (int64_t i = 0; i < n; i++) store(row_at(to, first + i), step, from + i * ld * a->bytes, to->width);
}

bool attention_rows_finite(const Attention *a, const char *at, int64_t ld, int64_t n, int64_t width) {
    bool finite = true;
    for (int64_t i = 0; i < n && finite; i++) finite = attention_finite(a->type, at + i * ld * a->bytes, width);
    return finite;
}

bool attention_is_large(const Attention *a) {
    return a->units * a->group * a->rows * a->keys * (a->width + a->value_width) >= 1 << 17;
}

void attention_parts(const Attention *a, int n, void (*part)(void *context, int i), void *context) {
    if (attention_is_large(a))
        pool_run(n, part, context);
    else
        for (int i = 0; i < n; i++) part(context, i);
}

/* scores --------------------------------------------------------------------------------------- */

void attention_offsets(int64_t *offsets, int64_t n, int64_t ld) {
    for (int64_t p = 0; p < n; p++) offsets[p] = p * ld;
}

void attention_panel(const Attention *a, const AttentionRows *from, int64_t j, char *to, char *rows) {
    const int64_t n = min_i64(PANEL, a->keys - j), ld = attention_ld(from->width);
    const Meta *const meta = from->meta;
    const bool native = dtype_bytes(meta->dtype) == a->bytes && meta->strides[meta->rank - 1] == 1;
    if (n < PANEL) memset(to, 0, (size_t)(from->width * PANEL * a->bytes));
    if (!native) attention_load(a, from, j, n, rows, ld);
    kernel_transpose(a->bytes, native ? row_at(from, j) : rows, native ? meta->strides[meta->rank - 2] : ld, to, PANEL,
                     n, from->width);
}

void attention_scores(const Attention *a, const AttentionScores *s) {
    if (!s->width)
        for (int64_t i = 0; i < s->m; i++) memset(s->c + i * s->c_ld * a->bytes, 0, (size_t)(PANEL * a->bytes));
    for (int64_t p = 0; p < s->width; p += CHUNK_CHAIN) {
        const OffsetRun run = {s->panel, p ? s->more : s->c, p ? PANEL : s->c_ld, PANEL};
        gemm_offsets(a->type, &(OffsetProduct){.a = s->a + p * a->bytes,
                                               .a_ld = s->a_ld,
                                               .m = s->m,
                                               .k = min_i64(s->width - p, CHUNK_CHAIN),
                                               .offset = s->offsets + p,
                                               .run = &run,
                                               .runs = 1});
        for (int64_t i = 0; i < s->m && p; i++)
            attention_add(a->type, s->c + i * s->c_ld * a->bytes, s->more + i * PANEL * a->bytes, PANEL);
    }
}

AttentionMask attention_mask(const Attention *a, int64_t unit, int64_t g, char *room) {
    AttentionMask mask = {.room = room};
    if (!a->mask) return mask;
    const Meta *const meta = a->mask->base.meta;
    const int rank = meta->rank;
    if (rank > 0 && meta->sizes[rank - 1] != 1) mask.column = meta->strides[rank - 1];
    if (rank > 1 && meta->sizes[rank - 2] != 1) mask.row = meta->strides[rank - 2];
    mask.at = rank > 2 ? attention_head(a, a->mask, 2, false, unit, g) : tensor_data(a->mask);
    mask.dtype = meta->dtype, mask.bytes = dtype_bytes(meta->dtype);
    return mask;
}

void attention_mask_row(const Attention *a, const AttentionMask *mask, int64_t t, AttentionRow *row) {
    if (!mask->at) return;
    const char *const at = mask->at + t * mask->row * mask->bytes;
    const bool kept = mask->dtype == DT_bool, direct = mask->column == 1 && (kept || mask->bytes == a->bytes);
    if (!direct) kernel_table()->load(mask->dtype)(mask->room, at, mask->column, row->n);
    const void *const given = direct ? at : mask->room;
    if (kept)
        row->kept = given;
    else
        row->added = given;
}

/* products over keys ----------------------------------------------------------------------------- */

typedef struct ChainStep { /* keys from k0 on, which continue what `to` has */
    char *to;
    int64_t k0;
} ChainStep;

static void chain_rows(const Attention *a, const AttentionChain *chain, const ChainStep *step, int64_t first, int64_t m,
                       int64_t k) {
    const OffsetRun run = {chain->b + step->k0 * chain->b_ld * a->bytes, step->to + first * chain->c_ld * a->bytes,
                           chain->c_ld, chain->width};
    gemm_offsets(a->type, &(OffsetProduct){.a = chain->a + (first * chain->a_ld + step->k0) * a->bytes,
                                           .a_ld = chain->a_ld,
                                           .m = m,
                                           .k = k,
                                           .offset = chain->offsets,
                                           .run = &run,
                                           .runs = 1,
                                           .continues = true});
}

/* How many keys of a step's `most` the rows of a tile have: the largest limit counts. */
static int64_t tile_keys(const AttentionChain *chain, const ChainStep *step, int64_t first, int64_t n, int64_t most) {
    int64_t limit = 0;
    for (int64_t i = first; i < first + n; i++) limit = max_i64(limit, chain->limits[i]);
    return max_i64(0, min_i64(limit - step->k0, most));
}

/* Neighbouring tiles that end at one key go together. */
static void chain_step(const Attention *a, const AttentionChain *chain, const ChainStep *step, int64_t most) {
    const int64_t tile = chain->finite ? TILE : 1;
    for (int64_t i = 0, end; i < chain->m; i = end) {
        const int64_t k = tile_keys(chain, step, i, min_i64(tile, chain->m - i), most);
        end = min_i64(i + tile, chain->m);
        while (end < chain->m && tile_keys(chain, step, end, min_i64(tile, chain->m - end), most) == k)
            end = min_i64(end + tile, chain->m);
        if (k) chain_rows(a, chain, step, i, end - i, k);
    }
}

void attention_chain(const Attention *a, const AttentionChain *chain) {
    int64_t keys = 0;
    for (int64_t i = 0; i < chain->m; i++) keys = max_i64(keys, chain->limits[i]);
    memset(chain->c, 0, (size_t)(chain->m * chain->c_ld * a->bytes));
    for (int64_t c = 0; c < keys; c += CHUNK_CHAIN) {
        const int64_t end = min_i64(c + CHUNK_CHAIN, keys);
        char *const to = c ? chain->more : chain->c;
        if (c) memset(to, 0, (size_t)(chain->m * chain->c_ld * a->bytes));
        const int64_t by = a->causal ? BLOCK_KEYS : CHUNK_CHAIN;
        for (int64_t k = c; k < end; k += by) chain_step(a, chain, &(ChainStep){to, k}, min_i64(by, end - k));
        if (c) attention_add(a->type, chain->c, to, chain->m * chain->c_ld);
    }
    attention_add(a->type, chain->c, NULL, chain->m * chain->c_ld);
}
