/* test_backward_memory.c: what a compiled backward holds at most [semantics G5]. What it computes again stands where
 * the engine's order first reads it, for every key of it alike; what nobody can reach is not saved. */
#include <stdio.h>

#include "tests/unit/contract.h"

enum { LAYERS = 16, BLOCKS = 32, ROWS = 512, WIDTH = 64, WIDE = 256 };
static const int64_t VALUE_BYTES = ROWS * WIDTH * 4, WIDE_BYTES = ROWS * WIDE * 4;

/* Of the functions that are looked at: each test runs with sizes that are known, and with symbolic ones. */
static sn_dynamic dynamic;

static sn_memory memory_now(void) {
    sn_memory memory = {.size = sizeof memory};
    sn_memory_get(SN_CPU, &memory);
    return memory;
}

/* From where it is called on, beyond what is there. */
static int64_t begin_peak(void) {
    sn_memory_trim(SN_CPU);
    sn_memory_reset_peak(SN_CPU);
    return memory_now().current;
}

static sn_tensor *weight(uint64_t seed, int64_t rows, int64_t columns) {
    return sn_requires_grad_(sn_mul_scalar(make_f32(SN_INTS(rows, columns), seed), sn_float(0.1)), true);
}

/* Layers with weights of their own ------------------------------------------------------------------------------ */

typedef struct Net {
    sn_tensor *up[BLOCKS], *down[BLOCKS], *attend[BLOCKS];
} Net;

static sn_status layers(sn_frame *f) {
    const Net *const net = sn_closure(f);
    sn_tensor *h = sn_in(f, 0);
    for (int i = 0; i < LAYERS; i++)
        h = sn_add(h, sn_linear(sn_gelu(sn_linear(h, net->up[i], NULL)), net->down[i], NULL));
    return sn_out(f, 0, sn_mean(sn_square(h)));
}

static sn_tensor *transformer_block(const Net *net, int i, sn_tensor *x) {
    sn_tensor *const n = sn_layer_norm(x, SN_INTS(WIDTH), NULL, NULL), *const q = sn_linear(n, net->attend[i], NULL);
    sn_tensor *const h = sn_add(x, sn_scaled_dot_product_attention(q, n, n));
    sn_tensor *const m = sn_layer_norm(h, SN_INTS(WIDTH), NULL, NULL);
    return sn_add(h, sn_linear(sn_gelu(sn_linear(m, net->up[i], NULL)), net->down[i], NULL));
}

static sn_status transformer(sn_frame *f) {
    sn_tensor *x = sn_in(f, 0);
    for (int i = 0; i < BLOCKS; i++) x = transformer_block(sn_closure(f), i, x);
    return sn_out(f, 0, sn_mean(sn_square(x)));
}

typedef struct Held {
    int64_t saved, peak; /* after the forward; at most in the backward */
} Held;

static Held train(sn_function *fn, const Net *net, int layers_of, const int64_t *sizes, int rank) {
    Held held = {0};
    for (int step = 0; step < 3; step++) {
        const sn_scope scope = sn_scope_begin();
        for (int i = 0; i < layers_of; i++) sn_grad_set(net->up[i], NULL), sn_grad_set(net->down[i], NULL);
        for (int i = 0; i < layers_of; i++) sn_grad_set(net->attend[i], NULL);
        sn_tensor *const x = make_f32((sn_ints){sizes, rank}, 1);
        const int64_t before = begin_peak();
        sn_tensor *const loss = SN_CALL(fn, x);
        held.saved = memory_now().current - before;
        sn_memory_reset_peak(SN_CPU);
        ck_assert_int_eq(sn_backward(loss), SN_OK);
        held.peak = memory_now().peak - before;
        sn_scope_end(scope);
    }
    return held;
}

static void net_fill(Net *net) {
    for (int i = 0; i < BLOCKS; i++) {
        net->up[i] = weight(3 * (uint64_t)i, WIDE, WIDTH);
        net->down[i] = weight(3 * (uint64_t)i + 1, WIDTH, WIDE);
        net->attend[i] = weight(3 * (uint64_t)i + 2, WIDTH, WIDTH);
    }
}

static void train_both(sn_body body, Net *net, int layers_of, sn_ints sizes, Held *eager, Held *compiled) {
    sn_function *const slow = sn_compile(body, net, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
    sn_function *const fast = sn_compile(body, net, SN_COMPILE_OPTIONS(.dynamic = dynamic));
    *eager = train(slow, net, layers_of, sizes.data, (int)sizes.n);
    *compiled = train(fast, net, layers_of, sizes.data, (int)sizes.n);
    ck_assert_msg(last_path() == SN_PATH_COMPILED, "%s", sn_explain(fast));
    sn_function_free(slow), sn_function_free(fast);
}

/* It keeps a value and a wide one a layer, of which the wide one's gelu is computed again: 19.5 MB when all of these
 * stood at the top. Gradients of weights take the place of what is read. */
START_TEST(g5_recomputed_values_stand_by_the_layer_that_reads_them) {
    static Net net;
    net_fill(&net);
    Held eager, compiled;
    train_both(layers, &net, LAYERS, SN_INTS(ROWS, WIDTH), &eager, &compiled);
    ck_assert_msg(compiled.saved <= eager.saved * 6 / 10, "%lld of %lld bytes saved", (long long)compiled.saved,
                  (long long)eager.saved);
    ck_assert_msg(compiled.peak <= compiled.saved + 3 * WIDE_BYTES && compiled.peak <= 14000000, "%lld bytes",
                  (long long)compiled.peak);
    ck_assert_int_lt(compiled.peak, eager.peak);
}
END_TEST

START_TEST(g5_a_transformer_holds_what_is_saved_and_two_layers) {
    static Net net;
    net_fill(&net);
    Held eager, compiled;
    train_both(transformer, &net, BLOCKS, SN_INTS(2, ROWS / 2, WIDTH), &eager, &compiled);
    ck_assert_msg(compiled.peak <= compiled.saved + 2 * eager.saved / BLOCKS,
                  "%lld bytes, %lld saved, a layer has %lld", (long long)compiled.peak, (long long)compiled.saved,
                  (long long)eager.saved / BLOCKS);
    ck_assert_int_lt(compiled.peak, eager.peak);
}
END_TEST

/* Checkpoints, by what the backward is asked for ---------------------------------------------------------------- */

enum { CHECKPOINTS = 16 };

typedef enum Way { SUM_OUTSIDE, DENSE, SUM_INSIDE, BACKWARD_INSIDE, MEAN_OUTSIDE, USED_AGAIN, ONE_GRADIENT, WAYS } Way;
typedef struct Checkpointed {
    sn_tensor *up, *down; /* of all regions */
    Way way;
} Checkpointed;

static sn_status region(sn_frame *f) {
    const Checkpointed *const c = sn_closure(f);
    return sn_out(f, 0, sn_tanh(sn_linear(sn_gelu(sn_linear(sn_in(f, 0), c->up, NULL)), c->down, NULL)));
}

static sn_status regions(sn_frame *f) {
    Checkpointed *const c = sn_closure(f);
    sn_tensor *h = sn_in(f, 0);
    for (int i = 0; i < CHECKPOINTS; i++) {
        sn_tensor *out;
        if (sn_checkpoint(region, c, NULL, SN_TENSORS(h), &out, 1)) return sn_check();
        h = out;
    }
    if (c->way == SUM_INSIDE || c->way == BACKWARD_INSIDE) h = sn_sum(h);
    if (c->way == BACKWARD_INSIDE) sn_backward(h);
    return sn_out(f, 0, h);
}

static void go_back(const Checkpointed *c, sn_tensor *y, sn_tensor *grad) {
    sn_tensor *one;
    if (c->way == SUM_OUTSIDE) sn_backward(sn_sum(y));
    if (c->way == DENSE) sn_backward_ex(SN_TENSORS(y), SN_TENSORS(grad), 0);
    if (c->way == SUM_INSIDE) sn_backward(y);
    if (c->way == MEAN_OUTSIDE) sn_backward(sn_mean(sn_mul(y, y)));
    if (c->way == USED_AGAIN) sn_backward(sn_add(sn_sum(sn_mul(y, y)), sn_sum(sn_mul(c->up, c->up))));
    if (c->way == ONE_GRADIENT) sn_gradients(SN_TENSORS(y), SN_TENSORS(c->up), SN_TENSORS(grad), 0, &one);
}

static int64_t peak_of_way(Way way) {
    Checkpointed c = {.up = weight(1, WIDE, WIDTH), .down = weight(2, WIDTH, WIDE), .way = way};
    sn_tensor *const x = F32(3, ROWS, WIDTH), *const grad = F32(4, ROWS, WIDTH);
    sn_function *const fn = sn_compile(regions, &c, SN_COMPILE_OPTIONS(.dynamic = dynamic));
    int64_t peak = 0;
    for (int step = 0; step < 4; step++) {
        const sn_scope scope = sn_scope_begin();
        sn_grad_set(c.up, NULL), sn_grad_set(c.down, NULL);
        const int64_t before = begin_peak();
        go_back(&c, SN_CALL(fn, x), grad);
        peak = memory_now().peak - before;
        ck_assert_int_eq(sn_check(), SN_OK);
        sn_scope_end(scope);
    }
    sn_function_free(fn);
    return peak;
}

/* Saved is a value for each region; one region's values come again at a time, two of them wide with their gradients.
 * Other keys are made from what the tape holds, which is computed from the same saved values: it was all at the top.
 * Gradients of the weights are summed layer by layer: 6.3 MB when one kernel summed all of them at the end. */
START_TEST(g5_a_checkpoint_saves_memory_whatever_the_backward_is_asked_for) {
    const int64_t dense = peak_of_way(DENSE);
    for (Way way = 0; way < WAYS; way++) {
        const int64_t peak = peak_of_way(way);
        int64_t most = way < USED_AGAIN ? 4600000 : dense + 1000000;
        ck_assert_msg(peak <= most, "way %d: %lld bytes, dense %lld", (int)way, (long long)peak, (long long)dense);
        ck_assert_int_ge(peak, CHECKPOINTS * VALUE_BYTES);
    }
}
END_TEST

/* What is not saved --------------------------------------------------------------------------------------------- */

/* What eager's tape has of the second product goes when the body returns. */
static sn_status with_loose_end(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const w = sn_in(f, 1);
    sn_exp(sn_linear(sn_exp(sn_linear(x, w, NULL)), sn_t(w), NULL));
    return sn_out(f, 0, sn_tanh(sn_linear(x, w, NULL)));
}

START_TEST(g3_what_no_result_comes_from_is_not_saved) {
    sn_function *const fn = sn_compile(with_loose_end, NULL, SN_COMPILE_OPTIONS(.dynamic = dynamic));
    sn_tensor *const x = F32(1, ROWS, WIDTH), *const w = weight(2, WIDE, WIDTH);
    for (int step = 0; step < 3; step++) {
        const sn_scope scope = sn_scope_begin();
        const int64_t before = begin_peak();
        sn_tensor *const y = SN_CALL(fn, x, w);
        ck_assert_int_le(memory_now().current - before, WIDE_BYTES + (WIDE_BYTES >> 3)); /* y, which is saved */
        sn_grad_set(w, NULL);
        ck_assert_int_eq(sn_backward(sn_sum(y)), SN_OK);
        ck_assert_ptr_nonnull(sn_grad(w));
        sn_scope_end(scope);
    }
    sn_function_free(fn);
}
END_TEST

/* What a backward does not reach ------------------------------------------------------------------------------- */

static sn_tensor *tower(sn_tensor *h, sn_tensor *const *weights) {
    for (int i = 0; i < LAYERS; i++) h = sn_tanh(sn_matmul(h, weights[i]));
    return h;
}

static sn_status two_towers(sn_frame *f) {
    const Net *const net = sn_closure(f);
    sn_out(f, 0, tower(sn_in(f, 0), net->attend));
    return sn_out(f, 1, tower(sn_in(f, 0), net->attend + LAYERS));
}

typedef struct Branches {
    int64_t held, between, left; /* after the forward, after the first tower's backward, after the second one's */
    sn_tensor *first, *second;   /* gradients */
} Branches;

static Branches train_towers(sn_compile_mode mode, const Net *net) {
    sn_function *const fn = sn_compile(two_towers, (void *)net, SN_COMPILE_OPTIONS(.mode = mode, .dynamic = dynamic));
    Branches b = {0};
    for (int step = 0; step < 3; step++) {
        const sn_scope scope = sn_scope_begin();
        for (int i = 0; i < 2 * LAYERS; i++) sn_grad_set(net->attend[i], NULL);
        sn_tensor *const x = F32(1, ROWS, WIDTH), *out[2] = {NULL}, *const grad = F32(2, ROWS, WIDTH);
        const int64_t before = begin_peak();
        ck_assert_int_eq(sn_call(fn, (sn_tensor *[]){x}, 1, out, 2), SN_OK);
        b.held = memory_now().current - before;
        ck_assert_int_eq(sn_backward_ex(SN_TENSORS(out[0]), SN_TENSORS(grad), 0), SN_OK);
        b.between = memory_now().current - before;
        ck_assert_int_eq(sn_backward_ex(SN_TENSORS(out[1]), SN_TENSORS(grad), 0), SN_OK);
        b.left = memory_now().current - before;
        ck_assert_int_ne(sn_backward_ex(SN_TENSORS(out[0]), SN_TENSORS(grad), 0), SN_OK);
        ck_assert_ptr_nonnull(strstr(sn_error_take()->message, "gone since the first backward"));
        sn_scope_end(scope);
    }
    b.first = sn_keep(sn_clone(sn_grad(net->attend[0])));
    b.second = sn_keep(sn_clone(sn_grad(net->attend[LAYERS])));
    sn_function_free(fn);
    return b;
}

/* As eager's nodes do, a launch keeps what the steps hold that no backward has run, and no more. */
START_TEST(g5_what_a_branch_holds_goes_with_its_backward) {
    static Net net;
    net_fill(&net);
    const Branches eager = train_towers(SN_COMPILE_EAGER, &net), compiled = train_towers(SN_COMPILE_VERIFY, &net);
    ck_assert_msg(compiled.held <= eager.held && compiled.between <= eager.between && compiled.left <= eager.left,
                  "%lld, %lld, %lld bytes, eager %lld, %lld, %lld", (long long)compiled.held,
                  (long long)compiled.between, (long long)compiled.left, (long long)eager.held,
                  (long long)eager.between, (long long)eager.left);
    ck_assert_int_le(eager.between, eager.held - LAYERS / 2 * VALUE_BYTES);
    ck_assert(same_bits(eager.first, compiled.first) && same_bits(eager.second, compiled.second));
    sn_release(eager.first), sn_release(eager.second), sn_release(compiled.first), sn_release(compiled.second);
}
END_TEST

/* Halves of a value, joined the other way round: sizes that are multiples of one expression. */
static sn_status halves(sn_frame *f) {
    const Net *const net = sn_closure(f);
    sn_tensor *h = sn_in(f, 0);
    for (int i = 0; i < BLOCKS; i++) {
        sn_tensor *const a = sn_narrow(h, 1, 0, WIDTH), *const b = sn_narrow(h, 1, WIDTH, WIDTH);
        h = sn_cat(SN_TENSORS(sn_matmul(b, net->attend[i]), sn_matmul(a, net->attend[i])), 1);
    }
    return sn_out(f, 0, sn_mean(sn_square(h)));
}

/* No more than eager and a whole: the arena is there from the start, when all that is saved still is. */
START_TEST(g5_halves_lie_where_a_whole_was) {
    static Net net;
    net_fill(&net);
    Held eager, compiled;
    train_both(halves, &net, BLOCKS, SN_INTS(ROWS, 2 * WIDTH), &eager, &compiled);
    ck_assert_msg(compiled.peak <= eager.peak + 2 * VALUE_BYTES, "%lld bytes, eager %lld", (long long)compiled.peak,
                  (long long)eager.peak);
}
END_TEST

int main(int n, char **words) {
    const TTest *const tests[] = {
        g5_recomputed_values_stand_by_the_layer_that_reads_them,
        g5_a_transformer_holds_what_is_saved_and_two_layers,
        g5_a_checkpoint_saves_memory_whatever_the_backward_is_asked_for,
        g3_what_no_result_comes_from_is_not_saved,
        g5_what_a_branch_holds_goes_with_its_backward,
        g5_halves_lie_where_a_whole_was,
    };
    if (n > 1 && !strcmp(words[1], "symbolic")) dynamic = SN_DYNAMIC_ALWAYS;
    return contract_main("test_backward_memory", tests, (int)(sizeof tests / sizeof *tests));
}
