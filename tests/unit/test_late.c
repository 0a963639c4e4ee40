/* test_late.c: values of an earlier segment that are returned, or asked for only after it has run [semantics C2]:
 * results of its code, with eager's place on the tape [G1] and what backward has used up or the caller has written
 * since [G3]. */
#include "runtime/capture/function/function.h"
#include "tests/unit/contract.h"

typedef struct Host {
    sn_tensor *w;
    int asks; /* which elided value the body goes on with; 0: none */
} Host;

static sn_status early_results(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    sn_tensor *const a = sn_exp(x);
    sn_tensor *const b = sn_sin(x);
    sn_graph_break("between");
    sn_tensor *const c = sn_tanh(x);
    sn_out(f, 0, a);
    sn_out(f, 1, b);
    return sn_out(f, 2, c);
}

static sn_tensor *gradient_of_three(sn_function *fn, uint64_t seed) {
    sn_tensor *const x = LEAF(seed, 50);
    sn_tensor *out[3];
    ck_assert_int_eq(sn_call(fn, &x, 1, out, 3), SN_OK);
    ck_assert_int_eq(sn_backward(sn_sum(sn_mul(sn_mul(out[0], out[1]), out[2]))), SN_OK);
    return sn_grad(x);
}

START_TEST(c2_what_is_returned_of_an_earlier_segment_is_its_output) {
    const Twin twin = twin_new(early_results, NULL, NULL, NULL);
    for (uint64_t i = 0; i < 4; i++)
        ck_assert_msg(same_bits(gradient_of_three(twin.fast, i), gradient_of_three(twin.eager, i)),
                      "call %d: the order of a gradient's sum [G1]", (int)i);
    ck_assert_int_eq(twin.fast->variants.n, 2);
    ck_assert_int_eq(twin.fast->variants.at[0]->n_outputs, 2);
    ck_assert_int_eq(twin.fast->variants.at[1]->n_outputs, 1);
    ck_assert_int_eq(stats_of(twin.fast).ops_eager, 0);
    twin_free(twin);
}
END_TEST

/* h, s and y are of one segment; which of h and s the code behind it reads is up to the host. */
static sn_status asks_later(sn_frame *f) {
    const Host *const host = sn_closure(f);
    sn_tensor *const x = sn_in(f, 0);
    sn_tensor *const h = sn_exp(x);
    sn_tensor *const s = sn_sin(h);
    sn_tensor *const y = sn_mul(s, host->w);
    sn_graph_break("between");
    sn_tensor *z = sn_tanh(x);
    if (host->asks & 1) z = sn_add(z, sn_cos(h));
    if (host->asks & 2) z = sn_add(z, sn_sigmoid(s));
    sn_out(f, 1, y);
    return sn_out(f, 0, z);
}

static void expect_gradients(Twin twin, const Host *host, uint64_t seed) {
    sn_tensor *grads[2][2];
    for (int k = 0; k < 2; k++) {
        sn_tensor *const x = LEAF(seed, 5, 7);
        sn_tensor *out[2];
        sn_grad_set(host->w, NULL);
        ck_assert_int_eq(sn_call(k ? twin.fast : twin.eager, &x, 1, out, 2), SN_OK);
        sn_tensor *const u = sn_exp(x); /* a node between the launches and the backward */
        sn_tensor *const sum = sn_add(sn_mul(out[0], out[1]), sn_mul(u, out[1]));
        ck_assert_msg(sn_backward(sn_sum(sum)) == SN_OK, "%s", sn_error_take()->message);
        grads[k][0] = sn_grad(x);
        grads[k][1] = sn_clone(sn_grad(host->w));
    }
    for (int i = 0; i < 2; i++)
        ck_assert_msg(same_bits(grads[0][i], grads[1][i]), "asks %d, gradient %d", host->asks, i);
}

START_TEST(g1_a_value_that_is_asked_for_late_has_its_place_on_the_tape) {
    static const int orders[][6] = {{0, 0, 1, 1, 2, 3}, {0, 2, 3, 1, 0, 2}, {1, 0, 3, 3, 2, 0}};
    for (int o = 0; o < 6; o++) {
        Host host = {.w = LEAF(3, 5, 7)};
        const Twin twin = twin_new(asks_later, &host, &host,
                                   SN_COMPILE_OPTIONS(.mode = o < 3 ? SN_COMPILE_VERIFY : SN_COMPILE_REPLAY));
        for (int i = 0; i < 6; i++) {
            host.asks = orders[o % 3][i];
            expect_gradients(twin, &host, (uint64_t)i);
        }
        twin_free(twin);
    }
}
END_TEST

START_TEST(c2_what_was_asked_for_is_a_result_from_then_on) {
    Host host = {.w = LEAF(3, 5, 7)};
    const Twin twin = twin_new(asks_later, &host, &host, NULL);
    for (int i = 0; i < 12; i++) {
        host.asks = i < 3 ? 0 : i % 4;
        expect_gradients(twin, &host, (uint64_t)i);
        if (i < 8) continue; /* every case has been there */
        ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
        ck_assert_int_le(stats_of(twin.fast).compiles, 7);
    }
    twin_free(twin);
}
END_TEST

/* Without gradients too, and with random numbers, which are drawn once. */
static sn_status draws(sn_frame *f) {
    const Host *const host = sn_closure(f);
    sn_tensor *const x = sn_in(f, 0);
    sn_tensor *const h = sn_mul(x, sn_rand_like(x));
    sn_tensor *const y = sn_add(h, sn_rand_like(x));
    sn_graph_break("between");
    sn_tensor *const z = sn_rand_like(y);
    return sn_out(f, 0, host->asks ? sn_add(sn_add(h, z), y) : sn_add(y, z));
}

START_TEST(c2_random_numbers_of_a_late_value_are_those_of_its_call) {
    Host host = {0};
    const Twin twin = twin_new(draws, &host, &host, NULL);
    for (int i = 0; i < 6; i++) {
        host.asks = i == 2 || i > 3;
        sn_tensor *const x = F32((uint64_t)i, 40);
        sn_seed(9);
        sn_tensor *const want = sn_add(SN_CALL(twin.eager, x), sn_rand_like(x));
        sn_seed(9);
        ck_assert(same_bits(sn_add(SN_CALL(twin.fast, x), sn_rand_like(x)), want));
    }
    twin_free(twin);
}
END_TEST

/* The first backward has used up the nodes that hold something, for values that are asked for after it too. */
static sn_status backward_between(sn_frame *f) {
    const Host *const host = sn_closure(f);
    sn_tensor *const x = sn_in(f, 0);
    sn_tensor *const h = sn_exp(x);
    sn_tensor *const y = sn_mul(h, host->w);
    sn_graph_break("before the backward");
    sn_backward(sn_sum(sn_mul(y, sn_add(host->w, x))));
    sn_graph_break("between");
    return sn_out(f, 0, host->asks ? sn_sin(h) : sn_cos(x));
}

/* One call each way and the backward of its result: the same error, which is `text` ("": none), and gradient. */
static void expect_same_end(const Twin *twin, uint64_t seed, char text[256]) {
    char texts[2][256] = {"", ""};
    sn_tensor *grad[2];
    for (int k = 0; k < 2; k++) {
        sn_tensor *const x = LEAF(seed, 9);
        sn_tensor *const y = SN_CALL(k ? twin->fast : twin->eager, x);
        if (sn_backward(sn_sum(y)) != SN_OK) strncpy(texts[k], sn_error_take()->message, sizeof texts[k] - 1);
        grad[k] = sn_grad(x);
    }
    ck_assert_str_eq(texts[1], texts[0]);
    ck_assert(same_bits(grad[0], grad[1]));
    memcpy(text, texts[0], sizeof texts[0]);
}

START_TEST(g3_a_late_value_knows_what_backward_has_used_up) {
    Host host = {.w = LEAF(3, 9)};
    const Twin twin = twin_new(backward_between, &host, &host, NULL);
    for (int i = 0; i < 6; i++) {
        host.asks = i == 2 || i > 3;
        char text[256];
        expect_same_end(&twin, (uint64_t)i, text);
        ck_assert_int_eq(text[0] != '\0', host.asks);
    }
    twin_free(twin);
}
END_TEST

/* No result of the first launch comes from s, of which it has no nodes. */
static sn_status backward_beside(sn_frame *f) {
    const Host *const host = sn_closure(f);
    sn_tensor *const x = sn_in(f, 0);
    sn_tensor *const s = sn_sin(x);
    sn_tensor *const t = sn_tanh(x);
    sn_tensor *const e = sn_exp(x);
    sn_graph_break("before the backward");
    sn_backward(sn_sum(t));
    sn_graph_break("between");
    sn_tensor *y = sn_mul(e, host->w);
    if (host->asks & 1) y = sn_mul(y, s);
    if (host->asks & 2) y = sn_mul(y, t);
    return sn_out(f, 0, y);
}

START_TEST(g3_what_is_used_up_is_told_of_the_same_nodes_where_the_first_launch_had_fewer) {
    for (int asks = 0; asks < 4; asks++) {
        Host host = {.w = LEAF(3, 9)};
        const Twin twin = twin_new(backward_beside, &host, &host, NULL);
        for (int i = 0; i < 5; i++) {
            host.asks = i < 2 ? 0 : asks;
            char text[256];
            expect_same_end(&twin, (uint64_t)i, text);
            ck_assert_int_eq(strstr(text, "TanhBackward") != NULL, host.asks >= 2);
        }
        twin_free(twin);
    }
}
END_TEST

/* The second launch has more nodes, before those of the code between the launches. */
static sn_status many_nodes_late(sn_frame *f) {
    const Host *const host = sn_closure(f);
    sn_tensor *const x = sn_in(f, 0);
    sn_tensor *d = sn_exp(x);
    sn_tensor *const y = sn_mul(d, host->w);
    for (int i = 0; i < 12; i++) d = sn_sin(d);
    sn_graph_break("the first launch");
    sn_tensor *const z = sn_mul(y, sn_cos(y));
    sn_graph_break("its results are used");
    sn_out(f, 0, y);
    sn_out(f, 1, z);
    return sn_out(f, 2, sn_tanh(host->asks ? d : x));
}

/* x: a leaf, or a view whose base was written since: it gets its history when the first launch reads it. */
static sn_tensor *gradient_of_sums(sn_function *fn, bool stale, bool twice, uint64_t seed) {
    sn_tensor *const leaf = LEAF(seed, 3, 9);
    sn_tensor *const base = stale ? sn_neg(leaf) : NULL;
    sn_tensor *x = stale ? sn_narrow(base, 0, 1, 2) : leaf;
    if (stale) sn_mul_scalar_(base, sn_float(0.5));
    sn_tensor *out[3];
    ck_assert_int_eq(sn_call(fn, &x, 1, out, 3), SN_OK);
    sn_tensor *const sum = sn_add(sn_mul(out[0], out[2]), out[1]);
    sn_tensor *root = sn_sum(sn_mul(sum, x));
    ck_assert_int_eq(sn_backward_ex((sn_tensors){&root, 1}, (sn_tensors){NULL, 0}, twice ? SN_CREATE_GRAPH : 0), SN_OK);
    sn_tensor *const grad = sn_grad(leaf);
    if (!twice) return grad;
    sn_tensor *const again = sn_sum(sn_mul(grad, grad));
    sn_grad_set(leaf, NULL);
    ck_assert_int_eq(sn_backward(again), SN_OK);
    return sn_grad(leaf);
}

START_TEST(g1_a_second_launch_with_more_nodes_stays_before_what_used_the_first) {
    for (int way = 0; way < 4; way++) {
        const bool stale = way % 2, twice = way / 2;
        Host host = {.w = LEAF(3, 1, 9)};
        const Twin twin = twin_new(many_nodes_late, &host, &host, NULL);
        for (uint64_t i = 0; i < 5; i++) {
            host.asks = i >= 2;
            sn_tensor *const fast = gradient_of_sums(twin.fast, stale, twice, i);
            sn_tensor *const eager = gradient_of_sums(twin.eager, stale, twice, i);
            ck_assert_msg(same_bits(fast, eager), "way %d, call %d", way, (int)i);
        }
        twin_free(twin);
    }
}
END_TEST

/* Hooks and kept gradients on the first launch's results move along. */
static sn_status count_hook(sn_frame *f) {
    ++*(int *)sn_closure(f);
    return SN_OK;
}

static sn_status hooks_between(sn_frame *f) {
    Host *const host = sn_closure(f);
    sn_tensor *const x = sn_in(f, 0);
    sn_tensor *const h = sn_exp(x);
    sn_tensor *const y = sn_mul(h, host->w);
    sn_graph_break("between");
    sn_hook_add(y, count_hook, &host->asks);
    sn_tensor *const z = host->asks >= 100 ? sn_add(y, sn_sin(h)) : sn_tanh(y);
    return sn_out(f, 0, z);
}

START_TEST(g3_hooks_move_to_the_launch_that_takes_the_place) {
    Host hosts[2] = {{.w = LEAF(3, 9)}, {0}};
    hosts[1].w = hosts[0].w;
    const Twin twin = twin_new(hooks_between, &hosts[1], &hosts[0], NULL);
    for (int i = 0; i < 5; i++) {
        sn_tensor *grad[2];
        for (int k = 0; k < 2; k++) {
            hosts[k].asks = i >= 2 ? 100 : 0;
            sn_tensor *const x = LEAF((uint64_t)i, 9);
            sn_tensor *const y = SN_CALL(k ? twin.fast : twin.eager, x);
            ck_assert_int_eq(sn_backward(sn_sum(y)), SN_OK);
            grad[k] = sn_grad(x);
        }
        ck_assert(same_bits(grad[0], grad[1]));
        ck_assert_int_eq(hosts[1].asks, hosts[0].asks);
        ck_assert_int_eq(hosts[0].asks % 100, 1);
    }
    twin_free(twin);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        c2_what_is_returned_of_an_earlier_segment_is_its_output,
        g1_a_value_that_is_asked_for_late_has_its_place_on_the_tape,
        c2_what_was_asked_for_is_a_result_from_then_on,
        c2_random_numbers_of_a_late_value_are_those_of_its_call,
        g3_a_late_value_knows_what_backward_has_used_up,
        g3_what_is_used_up_is_told_of_the_same_nodes_where_the_first_launch_had_fewer,
        g1_a_second_launch_with_more_nodes_stays_before_what_used_the_first,
        g3_hooks_move_to_the_launch_that_takes_the_place,
    };
    return contract_main("test_late", tests, (int)(sizeof tests / sizeof *tests));
}
