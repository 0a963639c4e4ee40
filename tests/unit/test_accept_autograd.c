/* test_accept_autograd.c: rows of the acceptance list about autograd whose tests need compiled functions or threads,
 * named by their number; the others are in test_autograd.c, 3.01 in test_optim.c, 3.05 in test_gradients.c, 3.11 in
 * test_engine.c. */
#include "tests/unit/contract.h"

enum { ROWS = 24, WIDTH = 32 };

typedef struct Block { /* a small transformer block: [ROWS, WIDTH] -> [ROWS, WIDTH] */
    sn_tensor *gain, *bias, *qkv, *up, *down;
} Block;

static Block block_new(void) {
    return (Block){.gain = LEAF(1, WIDTH),
                   .bias = LEAF(2, WIDTH),
                   .qkv = LEAF(3, WIDTH, WIDTH),
                   .up = LEAF(4, 4 * WIDTH, WIDTH),
                   .down = LEAF(5, WIDTH, 4 * WIDTH)};
}

static sn_status block_body(sn_frame *f) {
    const Block *const b = sn_closure(f);
    sn_tensor *const x = sn_in(f, 0);
    sn_tensor *const q = sn_linear(x, b->qkv, NULL);
    sn_tensor *const h = sn_add(x, sn_matmul(sn_softmax(sn_matmul(q, sn_t(q)), -1), q));
    sn_tensor *const n = sn_layer_norm(h, SN_INTS(WIDTH), b->gain, b->bias);
    return sn_out(f, 0, sn_add(h, sn_linear(sn_gelu(sn_linear(n, b->up, NULL)), b->down, NULL)));
}

/* By the nodes that are alive: what a compiled function recorded is one. */
static int64_t saved_bytes(void) {
    sn_grad_info nodes[64] = {{.size = sizeof *nodes}};
    const int64_t n = sn_live_nodes(nodes, 64);
    int64_t bytes = 0;
    for (int64_t i = 0; i < n && i < 64; i++) bytes += nodes[i].saved_bytes;
    return bytes;
}

START_TEST(a3_02_saved_memory_is_reported_per_op) {
    const Block b = block_new();
    sn_function *const fn = sn_compile(block_body, (void *)&b, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
    sn_tensor *const y = SN_CALL(fn, F32(6, ROWS, WIDTH));
    const char *const text = sn_grad_text(y);
    static const char *const ops[] = {"SoftmaxBackward", "NativeLayerNormBackward", "GeluBackward"};
    for (int i = 0; i < (int)(sizeof ops / sizeof *ops); i++) {
        const char *const line = strstr(text, ops[i]);
        ck_assert_msg(line && strcspn(line, "\n") > strcspn(line, ";"), "%s in: %s", ops[i], text);
        const char *const bytes = strstr(line, " bytes)");
        ck_assert_msg(bytes && bytes < line + strcspn(line, "\n"), "%s", line);
    }
    const int64_t gelu = ROWS * 4 * WIDTH * (int64_t)sizeof(float);
    ck_assert_int_ge(saved_bytes(), 2 * gelu); /* its argument and its result */
    sn_function_free(fn);
}
END_TEST

/* Eager saves what the rules ask for; compiled code saves what the cut chose and computes the rest again. */
START_TEST(a3_09_saving_and_recomputing_give_equal_gradients) {
    Block blocks[] = {block_new(), block_new()};
    const Twin twin = twin_new(block_body, &blocks[0], &blocks[1], NULL);
    int64_t saved[2] = {0};
    for (int i = 0; i < 3; i++) {
        sn_tensor *grads[2];
        for (int k = 0; k < 2; k++) {
            sn_tensor *const x = LEAF(6 + (uint64_t)i, ROWS, WIDTH);
            sn_tensor *const y = SN_CALL(k ? twin.eager : twin.fast, x);
            saved[k] = saved_bytes();
            ck_assert_int_eq(sn_backward(sn_sum(sn_mul(y, y))), SN_OK);
            grads[k] = sn_grad(x);
        }
        ck_assert_msg(same_bits(grads[0], grads[1]), "call %d", i);
    }
    ck_assert(same_bits(sn_grad(blocks[0].up), sn_grad(blocks[1].up)));
    ck_assert(same_bits(sn_grad(blocks[0].gain), sn_grad(blocks[1].gain)));
    ck_assert_msg(saved[0] > 0 && saved[0] < saved[1], "compiled saves %lld bytes, eager %lld", (long long)saved[0],
                  (long long)saved[1]);
    twin_free(twin);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        a3_02_saved_memory_is_reported_per_op,
        a3_09_saving_and_recomputing_give_equal_gradients,
    };
    return contract_main("test_accept_autograd", tests, (int)(sizeof tests / sizeof *tests));
}
