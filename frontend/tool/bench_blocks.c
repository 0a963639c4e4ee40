/* bench_blocks.c: rows of GPT-2's blocks: one, and twelve with and without checkpoints; blocks of a perceptron alone;
 * and a token decoded beside a cache of keys and values. A block's weights: norm 1, qkv, projection, norm 2, both
 * layers of the perceptron, each a weight and a bias. */
#include <stdlib.h>

#include "frontend/tool/bench_make.h"

static sn_tensor *block_norm(sn_tensor *x, sn_tensor *const *w) {
    return sn_layer_norm(x, SN_INTS(BENCH_WIDTH), w[0], w[1]);
}
static sn_tensor *block_linear(sn_tensor *x, sn_tensor *const *w) { return sn_linear(x, w[0], w[1]); }
static sn_tensor *block_attention(sn_tensor *x, sn_tensor *const *w) {
    const int64_t b = sn_size(x, 0), t = sn_size(x, 1);
    sn_tensor *parts = sn_view(block_linear(x, w), SN_INTS(b, t, 3, BENCH_HEADS, BENCH_WIDTH / BENCH_HEADS));
    parts = sn_permute(parts, SN_INTS(2, 0, 3, 1, 4));
    sn_tensor *q = sn_select(parts, 0, 0), *k = sn_select(parts, 0, 1), *v = sn_select(parts, 0, 2);
    sn_tensor *y = sn_scaled_dot_product_attention_ex(q, k, v, NULL, 0, true, (sn_value){0}, false);
    return block_linear(sn_reshape(sn_transpose(y, 1, 2), SN_INTS(b, t, BENCH_WIDTH)), w + 2);
}
sn_tensor *bench_block(sn_tensor *x, sn_tensor *const *w) {
    x = sn_add(x, block_attention(block_norm(x, w), w + 2));
    sn_tensor *h = sn_gelu_ex(block_linear(block_norm(x, w + 6), w + 8), "tanh");
    return sn_add(x, block_linear(h, w + 10));
}
/* Inputs: x, then its weights. */
static sn_status gpt2_block(sn_frame *f) {
    sn_tensor *w[BENCH_BLOCK_WEIGHTS];
    for (int i = 0; i < BENCH_BLOCK_WEIGHTS; i++) w[i] = sn_in(f, 1 + i);
    return sn_out(f, 0, bench_block(sn_in(f, 0), w));
}
/* The i-th one. */
sn_tensor *bench_block_weight(int i) {
    static const int64_t layers[][2] = {{0, 0}, {3 * BENCH_WIDTH, BENCH_WIDTH}, {BENCH_WIDTH, BENCH_WIDTH},
                                        {0, 0}, {4 * BENCH_WIDTH, BENCH_WIDTH}, {BENCH_WIDTH, 4 * BENCH_WIDTH}};
    const int64_t rows = layers[i / 2][0], columns = layers[i / 2][1];
    if (i % 2) return sn_randn(SN_INTS(rows ? rows : BENCH_WIDTH), SN_F32);
    sn_tensor *const weight = rows ? sn_randn(SN_INTS(rows, columns), SN_F32) : sn_randn(SN_INTS(BENCH_WIDTH), SN_F32);
    return sn_mul_scalar(weight, sn_float(rows ? 0.02 : 1));
}
void bench_make_gpt2_block(Work *w, const int64_t *s) {
    const bool grad = s[2] != 0;
    w->kind = grad ? WORK_backward : WORK_forward;
    w->body = gpt2_block;
    keep(w, sn_requires_grad_(sn_randn(SN_INTS(s[0], s[1], BENCH_WIDTH), SN_F32), grad));
    for (int i = 0; i < BENCH_BLOCK_WEIGHTS; i++) keep(w, sn_requires_grad_(bench_block_weight(i), grad));
}

/* 12 of them: all that they make is kept for the backward, or each is a checkpoint. */
enum { STACKED = 12 };

static sn_status stacked_blocks(sn_frame *f) {
    const bool *const checkpoints = sn_closure(f);
    sn_tensor *in[1 + BENCH_BLOCK_WEIGHTS] = {sn_in(f, 0)};
    for (int i = 0; i < STACKED; i++) {
        for (int k = 1; k <= BENCH_BLOCK_WEIGHTS; k++) in[k] = sn_in(f, BENCH_BLOCK_WEIGHTS * i + k);
        sn_tensor *out = NULL;
        if (*checkpoints)
            sn_checkpoint(gpt2_block, NULL, NULL, (sn_tensors){in, 1 + BENCH_BLOCK_WEIGHTS}, &out, 1);
        else
            out = bench_block(in[0], in + 1);
        in[0] = out;
    }
    return sn_out(f, 0, in[0]);
}

void bench_make_blocks(Work *w, const int64_t *s) { /* b, t, with checkpoints */
    static bool checkpoints[] = {false, true};
    w->kind = WORK_backward;
    w->body = stacked_blocks;
    w->closure = &checkpoints[s[2]];
    normal(w, SN_INTS(s[0], s[1], BENCH_WIDTH));
    for (int i = 0; i < STACKED * BENCH_BLOCK_WEIGHTS; i++)
        keep(w, sn_requires_grad_(bench_block_weight(i % BENCH_BLOCK_WEIGHTS), true));
}

/* x + fc2(gelu(fc1(norm(x)))): a norm and two layers, each a weight and a bias. */
enum { MLP_WEIGHTS = 6 };

static sn_status mlp_blocks(sn_frame *f) {
    sn_tensor *x = sn_in(f, 0), *w[MLP_WEIGHTS];
    for (int first = 1; first < sn_in_count(f); first += MLP_WEIGHTS) {
        for (int i = 0; i < MLP_WEIGHTS; i++) w[i] = sn_in(f, first + i);
        x = sn_add(x, block_linear(sn_gelu_ex(block_linear(block_norm(x, w), w + 2), "tanh"), w + 4));
    }
    return sn_out(f, 0, x);
}
void bench_make_mlp_blocks(Work *w, const int64_t *s) {
    const bool grad = s[2] != 0;
    w->kind = grad ? WORK_backward : WORK_forward;
    w->body = mlp_blocks;
    keep(w, sn_requires_grad_(sn_randn(SN_INTS(s[1], BENCH_WIDTH), SN_F32), grad));
    for (int i = 0; i < s[0] * MLP_WEIGHTS; i++) /* the last six of a block's */
        keep(w, sn_requires_grad_(bench_block_weight(BENCH_BLOCK_WEIGHTS - MLP_WEIGHTS + i % MLP_WEIGHTS), grad));
}

/* decoding ------------------------------------------------------------------------------------ */

/* The token's key and value are written into the last place of the cache. */
static sn_tensor *decode_attention(sn_tensor *x, sn_tensor *const *w, sn_tensor *keys, sn_tensor *values) {
    const int64_t last = sn_size(keys, 2) - 1;
    sn_tensor *parts = sn_view(block_linear(x, w), SN_INTS(1, 1, 3, BENCH_HEADS, BENCH_WIDTH / BENCH_HEADS));
    parts = sn_permute(parts, SN_INTS(2, 0, 3, 1, 4));
    sn_copy_(sn_narrow(keys, 2, last, 1), sn_select(parts, 0, 1));
    sn_copy_(sn_narrow(values, 2, last, 1), sn_select(parts, 0, 2));
    sn_tensor *y = sn_scaled_dot_product_attention(sn_select(parts, 0, 0), keys, values);
    return block_linear(sn_reshape(sn_transpose(y, 1, 2), SN_INTS(1, 1, BENCH_WIDTH)), w + 2);
}

/* Inputs: the token, embeddings of tokens and places, the last norm, then of each layer its weights, keys and values.
 * Gives the logits. */
enum { DECODE_FIRST = 5, DECODE_LAYER = BENCH_BLOCK_WEIGHTS + 2 };

static sn_status decode(sn_frame *f) {
    sn_tensor *const tokens = sn_in(f, 1), *const places = sn_in(f, 2), *norm[] = {sn_in(f, 3), sn_in(f, 4)};
    sn_tensor *w[DECODE_LAYER];
    sn_tensor *x = sn_embedding(tokens, sn_in(f, 0));
    x = sn_add(x, sn_narrow(places, 0, sn_size(places, 0) - 1, 1));
    for (int first = DECODE_FIRST; first < sn_in_count(f); first += DECODE_LAYER) {
        for (int i = 0; i < DECODE_LAYER; i++) w[i] = sn_in(f, first + i);
        sn_tensor *const keys = w[BENCH_BLOCK_WEIGHTS], *const values = w[BENCH_BLOCK_WEIGHTS + 1];
        x = sn_add(x, decode_attention(block_norm(x, w), w + 2, keys, values));
        x = sn_add(x, block_linear(sn_gelu_ex(block_linear(block_norm(x, w + 6), w + 8), "tanh"), w + 10));
    }
    return sn_out(f, 0, sn_linear(block_norm(x, norm), tokens, NULL));
}
void bench_make_decode(Work *w, const int64_t *s) {
    const int64_t head = BENCH_WIDTH / BENCH_HEADS;
    w->kind = WORK_forward;
    w->body = decode;
    classes(w, SN_INTS(1, 1), s[2]);
    keep(w, sn_mul_scalar(sn_randn(SN_INTS(s[2], BENCH_WIDTH), SN_F32), sn_float(0.02)));
    keep(w, sn_mul_scalar(sn_randn(SN_INTS(s[1], BENCH_WIDTH), SN_F32), sn_float(0.02)));
    normal(w, SN_INTS(BENCH_WIDTH));
    normal(w, SN_INTS(BENCH_WIDTH));
    for (int layer = 0; layer < s[0]; layer++) {
        for (int i = 0; i < BENCH_BLOCK_WEIGHTS; i++) keep(w, bench_block_weight(i));
        normal(w, SN_INTS(1, BENCH_HEADS, s[1], head));
        normal(w, SN_INTS(1, BENCH_HEADS, s[1], head));
    }
}
