/* bench_make.h: what makes the work of rows: inputs, and the makers that stand in files of their own. A maker gets the
 * sizes of its row (bench_peers.def, bench_rows.c). */
#ifndef SINTER_TOOL_BENCH_MAKE_H
#define SINTER_TOOL_BENCH_MAKE_H
#include "frontend/tool/bench.h"

static inline sn_tensor *keep(Work *w, sn_tensor *t) { return w->in[w->n_in++] = sn_keep(t); }
static inline sn_tensor *normal(Work *w, sn_ints sizes) { return keep(w, sn_randn(sizes, SN_F32)); }
static inline sn_tensor *leaf(Work *w, sn_ints sizes) { return sn_requires_grad_(normal(w, sizes), true); }
/* n of `count` classes. */
static inline sn_tensor *classes(Work *w, sn_ints sizes, int64_t count) {
    return keep(w, sn_to(sn_mul_scalar(sn_rand(sizes, SN_F32), sn_float((double)count)), SN_I64));
}

/* bench_images.c: in, out, kernel, stride, side, channels_last, groups; batch 8, padding kernel / 2, no bias. */
void bench_make_convolution(Work *w, const int64_t *s);

/* bench_attention.c: heads, heads of keys, queries, keys, window (0: none), with a backward; batch 1, head dim 64. */
void bench_make_attention(Work *w, const int64_t *s);

/* bench_blocks.c */
enum { BENCH_WIDTH = 768, BENCH_HEADS = 12, BENCH_BLOCK_WEIGHTS = 12 };
sn_tensor *bench_block(sn_tensor *x, sn_tensor *const *weights); /* a pre-norm GPT-2 block: gelu by tanh, causal */
sn_tensor *bench_block_weight(int i);                            /* the i-th of a block's */
void bench_make_gpt2_block(Work *w, const int64_t *s);           /* batch, length, with a backward */
void bench_make_blocks(Work *w, const int64_t *s);               /* batch, length, with checkpoints */
void bench_make_mlp_blocks(Work *w, const int64_t *s);           /* blocks, rows, with a backward */
void bench_make_decode(Work *w, const int64_t *s);               /* layers, cache, vocabulary */

/* bench_steps.c: training steps. */
void bench_make_mlp_step(Work *w, const int64_t *s);     /* batch */
void bench_make_digits_step(Work *w, const int64_t *s);  /* batch */
void bench_make_convnet_step(Work *w, const int64_t *s); /* batch */
void bench_make_gpt2_step(Work *w, const int64_t *s);    /* layers, batch, length, vocabulary */
void bench_make_adamw(Work *w, const int64_t *s);        /* rows, columns of 20 tensors */

#endif
