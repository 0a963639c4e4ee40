/* attention_heads.h: attention on the CPU in the order [B2.14], what its forward (attention_forward.c) and backward
 * (attention_backward.c) share: where a head's rows lie, keys in panels for the GEMM's tiles, rows of scores with their
 * mask, and products that end at each row's last key.
 *
 *     unit   one head of key and value with the `group` heads of query that attend to it
 *     row    of a unit: query t of head g is row g * rows + t
 *     block  some rows of a unit, whose scores stay in L2
 *     panel  PANEL keys, turned: [width][PANEL] in memory */
#ifndef SINTER_RUNTIME_CPU_ATTENTION_HEADS_H
#define SINTER_RUNTIME_CPU_ATTENTION_HEADS_H
#include <stdatomic.h>

#include "kernels/kernels.h"
#include "runtime/core/dispatch.h"

enum {
    PANEL = 64,
    TILE = 6,         /* rows of the GEMM's tile */
    BLOCK_KEYS = 128, /* that products which end early go on by: with its columns a part of L1 */
    CHUNK_CHAIN = 4096
};

typedef struct Attention {
    const sn_tensor *query, *key, *value, *mask; /* mask: NULL */
    SType type;                                  /* the compute type */
    int bytes;                                   /* of it */
    int lead;                                    /* dims before the last two */
    int64_t units, group, rows, keys, width, value_width;
    bool causal;
    double scale;
    _Atomic bool no_memory;
} Attention;

/* The call's operands by name; max and sum are the caller's. */
void attention_of_call(Attention *a, const OpCall *call);

/* The first element of t for a head, t: [lead.., row, column], or without the column. of_key: it has key's heads. */
char *attention_head(const Attention *a, const sn_tensor *t, int last, bool of_key, int64_t unit, int64_t g);
/* Rows first .. first + n of [rows, width] at `from` to memory of the compute type, ld apart; or back. */
typedef struct AttentionRows {
    char *at;
    const Meta *meta; /* whose last two strides count */
    int64_t width;
} AttentionRows;
AttentionRows attention_rows(const Attention *a, const sn_tensor *t, bool of_key, int64_t unit, int64_t g);
void attention_load(const Attention *a, const AttentionRows *from, int64_t first, int64_t n, char *to, int64_t ld);
void attention_store(const Attention *a, const AttentionRows *to, int64_t first, int64_t n, const char *from,
                     int64_t ld);

/* Keys that row t of a head has. */
static inline int64_t attention_limit(const Attention *a, int64_t t) {
    return a->causal && t + 1 < a->keys ? t + 1 : a->keys;
}
static inline int64_t attention_ld(int64_t n) { return round_up(n, 16); } /* whole vectors */

/* The panel of keys (or rows of value) from j on to [width][PANEL]; `rows` is room for PANEL rows. */
void attention_panel(const Attention *a, const AttentionRows *from, int64_t j, char *to, char *rows);
/* c[i][..PANEL] = chains over `width` of a[i][..] and the panel, i < m; `more` is room for m rows of PANEL where
 * width > 4,096. */
typedef struct AttentionScores {
    const char *a, *panel;
    char *c, *more;
    const int64_t *offsets; /* p * PANEL */
    int64_t a_ld, c_ld, m, width;
} AttentionScores;
void attention_scores(const Attention *a, const AttentionScores *s);

/* What a row's mask is, for n keys. */
typedef struct AttentionMask {
    char *at;                   /* of the head; NULL: none */
    int64_t row, column, bytes; /* strides in elements */
    DType dtype;
    char *room; /* n elements of the compute type */
} AttentionMask;
AttentionMask attention_mask(const Attention *a, int64_t unit, int64_t g, char *room);
void attention_mask_row(const Attention *a, const AttentionMask *mask, int64_t t, AttentionRow *row);

/* c[i] = the chain over keys below limit(i) of a[i][key] b[key], cut every 4,096, + 0: a[i] is 0 behind its limit up to
 * the largest one. Where b is not finite, each row ends where its keys do. */
typedef struct AttentionChain {
    const char *a, *b;
    char *c, *more;         /* [m][c_ld]; more: as c, where keys > 4,096 */
    const int64_t *limits;  /* by row */
    const int64_t *offsets; /* p * b_ld, p < 4,096 */
    int64_t a_ld, b_ld, c_ld, m, width;
    bool finite;
} AttentionChain;
void attention_chain(const Attention *a, const AttentionChain *chain);

/* Whether other threads are worth their waking; what calls the parts in either case. */
bool attention_is_large(const Attention *a);
void attention_parts(const Attention *a, int n, void (*part)(void *context, int i), void *context);
/* offsets[p] = p * ld, p < n */
void attention_offsets(int64_t *offsets, int64_t n, int64_t ld);
bool attention_rows_finite(const Attention *a, const char *at, int64_t ld, int64_t n, int64_t width);
/* A part of a part's memory: 64-byte aligned bytes behind *bytes, which grows. */
static inline size_t attention_reserve(size_t *bytes, int64_t need) {
    const size_t at = *bytes;
    *bytes += (size_t)round_up(need, 64);
    return at;
}

void attention_forward(Attention *a, sn_tensor *const *outs); /* out, max, sum */
void attention_backward(Attention *a, const sn_tensor *grad, const sn_tensor *max, const sn_tensor *sum,
                        sn_tensor *const *outs); /* dq, dk, dv */

#endif
