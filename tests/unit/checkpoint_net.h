/* checkpoint_net.h: transformer blocks, each with a checkpoint or without, and what a training step of them leaves. */
#ifndef SINTER_TESTS_UNIT_CHECKPOINT_NET_H
#define SINTER_TESTS_UNIT_CHECKPOINT_NET_H
#include "tests/unit/contract.h"

enum { ROWS = 256, WIDTH = 64, BLOCKS = 6 };

typedef struct Block { /* of a transformer; its weights */
    sn_tensor *gain, *bias, *qkv, *up, *down;
    float drop;
} Block;

typedef struct Net {
    Block blocks[BLOCKS];
    bool checkpoints;
    const sn_checkpoint_options *options;
} Net;

static inline void net_fill(Net *net, float drop) {
    for (int i = 0; i < BLOCKS; i++) {
        const uint64_t seed = 10 * (uint64_t)i;
        net->blocks[i] = (Block){.gain = LEAF(seed + 1, WIDTH),
                                 .bias = LEAF(seed + 2, WIDTH),
                                 .qkv = LEAF(seed + 3, WIDTH, WIDTH),
                                 .up = LEAF(seed + 4, 4 * WIDTH, WIDTH),
                                 .down = LEAF(seed + 5, WIDTH, 4 * WIDTH),
                                 .drop = drop};
    }
}

static sn_tensor *block(const Block *b, sn_tensor *x) {
    sn_tensor *const q = sn_mul_scalar(sn_linear(x, b->qkv, NULL), sn_float(0.05));
    sn_tensor *const a = sn_dropout(sn_softmax(sn_matmul(q, sn_t(q)), -1), b->drop, true);
    sn_tensor *const h = sn_add(x, sn_matmul(a, q));
    sn_tensor *const n = sn_layer_norm(h, SN_INTS(WIDTH), b->gain, b->bias);
    return sn_add(h, sn_linear(sn_gelu(sn_linear(n, b->up, NULL)), b->down, NULL));
}
static sn_status block_body(sn_frame *f) { return sn_out(f, 0, block(sn_closure(f), sn_in(f, 0))); }

static sn_tensor *block_call(Block *b, sn_tensor *x, bool checkpoint, const sn_checkpoint_options *options) {
    if (!checkpoint) return block(b, x);
    sn_tensor *out = NULL;
    sn_checkpoint(block_body, b, options, SN_TENSORS(x), &out, 1);
    return out;
}

static sn_status net_body(sn_frame *f) {
    Net *const net = sn_closure(f);
    sn_tensor *x = sn_in(f, 0);
    for (int i = 0; i < BLOCKS; i++) x = block_call(&net->blocks[i], x, net->checkpoints, net->options);
    return sn_out(f, 0, x);
}

/* What a run leaves. */
typedef struct Ran {
    sn_tensor *y, *grads[5 * BLOCKS], *of_input, *drawn;
    int64_t peak; /* beyond what was there */
} Ran;

static sn_memory memory_now(void) {
    sn_memory memory = {.size = sizeof memory};
    sn_memory_get(SN_CPU, &memory);
    return memory;
}

static sn_tensor *weight(const Net *net, int i) {
    const Block *const b = &net->blocks[i / 5];
    sn_tensor *const weights[] = {b->gain, b->bias, b->qkv, b->up, b->down};
    return weights[i % 5];
}

static inline Ran run(sn_function *fn, Net *net, uint64_t seed) {
    Ran ran = {0};
    for (int i = 0; i < 5 * BLOCKS; i++) sn_grad_set(weight(net, i), NULL);
    sn_seed(seed);
    const int64_t before = memory_now().current;
    sn_memory_reset_peak(SN_CPU);
    const sn_scope step = sn_scope_begin();
    sn_tensor *const x = LEAF(500 + seed, ROWS, WIDTH);
    sn_tensor *const y = SN_CALL(fn, x);
    ck_assert_msg(y != NULL, "%s", sn_error_take()->message);
    ck_assert_msg(sn_backward(sn_sum(sn_mul(y, y))) == SN_OK, "%s", sn_error_take()->message);
    ran.of_input = sn_keep(sn_grad(x));
    ran.y = sn_keep(sn_detach(y));
    sn_scope_end(step);
    ran.peak = memory_now().peak - before;
    ran.drawn = sn_rand(SN_INTS(4), SN_F32);
    for (int i = 0; i < 5 * BLOCKS; i++) ran.grads[i] = sn_clone(sn_grad(weight(net, i)));
    return ran;
}

static inline void same_runs(const Ran *a, const Ran *b) {
    ck_assert(same_bits(a->y, b->y));
    ck_assert(same_bits(a->of_input, b->of_input));
    ck_assert_msg(same_bits(a->drawn, b->drawn), "the generator is elsewhere");
    for (int i = 0; i < 5 * BLOCKS; i++) ck_assert_msg(same_bits(a->grads[i], b->grads[i]), "gradient %d", i);
}

static inline void release(const Ran *ran) {
    sn_release(ran->y);
    sn_release(ran->of_input);
}

#endif
