/* test_contract_g_keys.c: the backward of a compiled forward [semantics G1, G3, G5]: one per key, the
 * versions of what eager's nodes hold, expansion into them, and peak memory. Bits are those of eager. */
#include <sinter/nn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/capture/function/function.h"
#include "runtime/capture/training/training.h"
#include "tests/unit/contract.h"

typedef struct Host {
    sn_tensor *w, *b;
    sn_optim *optim;
    sn_compile_mode mode;
    int hooks;
} Host;

/* How many backwards beside the usual one the function has compiled, and their kernels. */
static int keys_of(const sn_function *fn, int *kernels) {
    int n = 0;
    *kernels = 0;
    for (int i = 0; i < fn->variants.n; i++) {
        int k;
        n += training_signatures(fn->variants.at[i], &k);
        *kernels += k;
    }
    return n;
}

#define EXPECT_KEYS(fn, want, want_kernels)                                                                            \
    do {                                                                                                               \
        int kernels;                                                                                                   \
        ck_assert_int_eq(keys_of(fn, &kernels), want);                                                                 \
        ck_assert_int_eq(kernels, want_kernels);                                                                       \
    } while (0)

static void backward(sn_tensor *root) { ck_assert_msg(sn_backward(root) == SN_OK, "%s", sn_error_take()->message); }

/* G1: one backward per key -------------------------------------------------------------------- */

static sn_status two_outputs(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    sn_out(f, 1, sn_exp(sn_sin(x)));
    return sn_out(f, 0, sn_mul(x, x));
}

static sn_tensor *of_one(sn_function *fn, int which) {
    sn_tensor *const x = LEAF(7, 40);
    sn_tensor *out[2];
    ck_assert_int_eq(sn_call(fn, &x, 1, out, 2), SN_OK);
    backward(sn_sum(sn_mul(out[which], out[which])));
    return sn_grad(x);
}

START_TEST(g1_a_backward_is_compiled_once_for_each_defined_set) {
    const Twin twin = twin_new(two_outputs, NULL, NULL, NULL);
    of_one(twin.fast, 0); /* records */
    for (int i = 0; i < 6; i++) {
        sn_tensor *const want = of_one(twin.eager, i & 1);
        ck_assert_msg(same_bits(of_one(twin.fast, i & 1), want), "call %d", i);
        EXPECT_KEYS(twin.fast, i ? 2 : 1, i ? 2 : 1); /* each one kernel */
    }
    twin_free(twin);
}
END_TEST

static sn_tensor *both_spread(sn_function *fn) { /* gradients of stride 0 */
    sn_tensor *const x = LEAF(7, 40);
    sn_tensor *out[2];
    ck_assert_int_eq(sn_call(fn, &x, 1, out, 2), SN_OK);
    backward(sn_add(sn_sum(out[0]), sn_sum(out[1])));
    return sn_grad(x);
}

START_TEST(g1_the_layout_of_a_gradient_is_part_of_the_key) {
    const Twin twin = twin_new(two_outputs, NULL, NULL, NULL);
    both_spread(twin.fast);
    for (int i = 0; i < 3; i++) {
        sn_tensor *const want = both_spread(twin.eager);
        ck_assert(same_bits(both_spread(twin.fast), want));
        EXPECT_KEYS(twin.fast, 1, 1);
    }
    twin_free(twin);
}
END_TEST

static sn_status three_uses(sn_frame *f) { /* any other order of the sums has other bits */
    sn_tensor *const x = sn_in(f, 0);
    sn_tensor *const a = sn_mul_scalar(x, sn_float(1e8)), *const b = sn_mul_scalar(x, sn_float(1));
    sn_tensor *const c = sn_mul_scalar(x, sn_float(-1e8));
    return sn_out(f, 0, sn_add(sn_add(a, b), c));
}

/* Two launches feed one leaf, which is used before, between and after them too. */
static sn_tensor *two_launches(sn_function *fn) {
    sn_tensor *const x = LEAF(5, 33);
    sn_tensor *sum = sn_mul_scalar(x, sn_float(0.1));
    sn_tensor *y = SN_CALL(fn, x);
    sum = sn_add(sum, sn_mul(y, y));
    sum = sn_add(sum, sn_sin(x));
    y = SN_CALL(fn, x);
    sum = sn_add(sum, sn_mul(y, y));
    backward(sn_sum(sn_add(sum, sn_cos(x))));
    return sn_grad(x);
}

START_TEST(g1_partial_sums_are_arguments_of_the_compiled_backward) {
    const Twin twin = twin_new(three_uses, NULL, NULL, NULL);
    two_launches(twin.fast);
    for (int i = 0; i < 3; i++) {
        sn_tensor *const want = two_launches(twin.eager);
        ck_assert(same_bits(two_launches(twin.fast), want));
        EXPECT_KEYS(twin.fast, 1, 1);
    }
    twin_free(twin);
}
END_TEST

static sn_status product(sn_frame *f) { return sn_out(f, 0, sn_mul(sn_in(f, 0), sn_in(f, 1))); }

static sn_tensor *one_wanted(sn_function *fn, int which) {
    sn_tensor *const in[] = {LEAF(1, 12), LEAF(2, 12)};
    sn_tensor *y, *grad;
    ck_assert_int_eq(sn_call(fn, in, 2, &y, 1), SN_OK);
    ck_assert_int_eq(sn_gradients(SN_TENSORS(sn_sum(sn_mul(y, y))), SN_TENSORS(in[which]), (sn_tensors){0}, 0, &grad),
                     SN_OK);
    return grad;
}

START_TEST(g1_only_wanted_gradients_are_computed) {
    const Twin twin = twin_new(product, NULL, NULL, NULL);
    one_wanted(twin.fast, 0);
    for (int i = 0; i < 4; i++) {
        sn_tensor *const want = one_wanted(twin.eager, i & 1);
        ck_assert(same_bits(one_wanted(twin.fast, i & 1), want));
    }
    EXPECT_KEYS(twin.fast, 2, 2);
    twin_free(twin);
}
END_TEST

/* Keys beyond the bound expand, with the same bits. */
static sn_status ten_outputs(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    for (int i = 0; i < 10; i++) sn_out(f, i, sn_sin(sn_mul_scalar(x, sn_float(i + 1))));
    return sn_check();
}

static sn_tensor *of_ten(sn_function *fn, int which) {
    sn_tensor *const x = LEAF(3, 9);
    sn_tensor *out[10];
    ck_assert_int_eq(sn_call(fn, &x, 1, out, 10), SN_OK);
    backward(sn_sum(sn_mul(out[which], out[which])));
    return sn_grad(x);
}

START_TEST(g1_keys_are_bounded) {
    const Twin twin = twin_new(ten_outputs, NULL, NULL, NULL);
    of_ten(twin.fast, 0);
    for (int i = 0; i < 20; i++) {
        sn_tensor *const want = of_ten(twin.eager, i % 10);
        ck_assert_msg(same_bits(of_ten(twin.fast, i % 10), want), "call %d", i);
    }
    EXPECT_KEYS(twin.fast, 8, 8);
    ck_assert_ptr_nonnull(strstr(sn_explain(twin.fast), ": a backward is compiled for 8 other keys at most"));
    twin_free(twin);
}
END_TEST

/* Symbolic sizes: a key is compiled once for all of them. */
static sn_tensor *of_one_sized(sn_function *fn, int which, int64_t rows) {
    sn_tensor *const x = LEAF(7, rows, 6);
    sn_tensor *out[2];
    ck_assert_int_eq(sn_call(fn, &x, 1, out, 2), SN_OK);
    sn_tensor *sum = sn_mul(out[which], sn_t(sn_contiguous(sn_t(out[which]))));
    if (rows & 1) sum = sn_add(sum, sn_exp(x)); /* a partial sum */
    backward(sn_sum(sum));
    return sn_grad(x);
}

START_TEST(g1_a_key_of_symbolic_sizes_is_compiled_once) {
    const Twin twin = twin_new(two_outputs, NULL, NULL, SN_COMPILE_OPTIONS(.dynamic = SN_DYNAMIC_ALWAYS));
    of_one_sized(twin.fast, 0, 3);
    for (int64_t rows = 2; rows < 18; rows++) {
        const int which = (int)(rows / 2 & 1);
        sn_tensor *const want = of_one_sized(twin.eager, which, rows);
        ck_assert_msg(same_bits(of_one_sized(twin.fast, which, rows), want), "%d rows", (int)rows);
    }
    ck_assert_int_eq(stats_of(twin.fast).compiles, 1);
    EXPECT_KEYS(twin.fast, 4, 4);
    twin_free(twin);
}
END_TEST

static sn_status square_and_sine(sn_frame *f) { return sn_out(f, 0, sn_mul(sn_in(f, 0), sn_sin(sn_in(f, 0)))); }

/* What a segment passes on is laid out as eager's: as its rule makes it of the gradient that comes, whose layout is of
 * symbolic sizes too. So are sums that go on. */
static sn_tensor *of_rows(int64_t rows, int layout) {
    switch (layout) {
    case 0:
        return F32(8, rows, 6);
    case 1:
        return sn_t(F32(8, 6, rows));
    case 2:
        return sn_expand(F32(8, 1, 6), SN_INTS(rows, 6));
    default:
        return sn_slice(F32(8, rows, 13), 1, 1, 13, 2);
    }
}

static sn_tensor *passed_on(sn_function *fn, int64_t rows, int layout, int of_sum) {
    sn_tensor *const inner = sn_neg(LEAF(7, rows, 6)), *const y = SN_CALL(fn, inner);
    sn_tensor *const roots[] = {y, sn_abs(inner)}, *const grads[] = {of_rows(rows, layout), of_rows(rows, of_sum)};
    const int n = of_sum < 0 ? 1 : 2;
    sn_tensor *got;
    ck_assert_msg(sn_gradients((sn_tensors){roots, n}, SN_TENSORS(inner), (sn_tensors){grads, n}, 0, &got) == SN_OK,
                  "%s", sn_error_take()->message);
    return got;
}

static void expect_passed_on_alike(sn_dynamic dynamic, int64_t most_rows) {
    static const int layouts[][2] = {{0, -1}, {1, -1}, {2, -1}, {3, -1}, {1, 0}, {1, 1}, {2, 1}, {3, 3}};
    const Twin twin = twin_new(square_and_sine, NULL, NULL, SN_COMPILE_OPTIONS(.dynamic = dynamic));
    for (int64_t rows = 2; rows <= most_rows; rows++)
        for (int i = 0; i < 8; i++) {
            sn_tensor *const want = passed_on(twin.eager, rows, layouts[i][0], layouts[i][1]);
            sn_tensor *const got = passed_on(twin.fast, rows, layouts[i][0], layouts[i][1]);
            ck_assert_msg(same_bits(got, want), "%d rows, layouts %d", (int)rows, i);
            for (int d = 0; d < 2; d++)
                ck_assert_msg(sn_strides(got).data[d] == sn_strides(want).data[d], "%d rows, layouts %d: strides",
                              (int)rows, i);
        }
    EXPECT_KEYS(twin.fast, 7, 7); /* the usual backward serves the first */
    twin_free(twin);
}

START_TEST(g1_gradients_are_laid_out_as_eagers) {
    expect_passed_on_alike(SN_DYNAMIC_NEVER, 2);
    expect_passed_on_alike(SN_DYNAMIC_ALWAYS, 9);
}
END_TEST

/* What a rule decides of a size is the key's guard, not the forward's. */
static sn_status two_sums(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const w = sn_in(f, 1);
    sn_out(f, 1, sn_sum_dim(sn_mul(x, w), SN_INTS(0), false));
    return sn_out(f, 0, sn_mm(sn_t(x), x));
}

static sn_tensor *of_two_sums(sn_function *fn, int which, int64_t rows) {
    sn_tensor *const in[] = {LEAF(7, rows, 6), LEAF(8, rows, 1)};
    sn_tensor *out[2];
    ck_assert_int_eq(sn_call(fn, in, 2, out, 2), SN_OK);
    backward(sn_sum(sn_mul(out[which], out[which])));
    return sn_grad(in[0]);
}

START_TEST(g1_sizes_that_a_key_decides_are_its_own_guards) {
    const Twin twin = twin_new(two_sums, NULL, NULL, SN_COMPILE_OPTIONS(.dynamic = SN_DYNAMIC_ALWAYS));
    of_two_sums(twin.fast, 0, 3);
    for (int64_t rows = 2; rows < 40; rows++) {
        sn_tensor *const want = of_two_sums(twin.eager, rows & 1, rows);
        ck_assert_msg(same_bits(of_two_sums(twin.fast, rows & 1, rows), want), "%d rows", (int)rows);
    }
    int kernels;
    ck_assert_int_le(keys_of(twin.fast, &kernels), 8);
    ck_assert_int_ge(keys_of(twin.fast, &kernels), 2);
    ck_assert_int_eq(stats_of(twin.fast).compiles, 1);
    twin_free(twin);
}
END_TEST

/* G3: what is saved --------------------------------------------------------------------------- */

static sn_status gelu_of_sum(sn_frame *f) {
    return sn_out(f, 0, sn_gelu(sn_add(sn_in(f, 0), ((Host *)sn_closure(f))->b)));
}

START_TEST(g3_what_eager_does_not_hold_may_be_written) {
    sn_tensor *const b = LEAF(4, 8);
    Host host = {.b = b};
    const Twin twin = twin_new(gelu_of_sum, &host, &host, NULL);
    for (int i = 0; i < 4; i++) {
        sn_tensor *grads[2];
        for (int k = 0; k < 2; k++) {
            sn_tensor *const x = F32((uint64_t)i, 3, 8);
            sn_grad_set(b, NULL);
            sn_tensor *const y = SN_CALL(k ? twin.fast : twin.eager, x);
            sn_zero_(x); /* add holds nothing, gelu the sum */
            backward(sn_sum(y));
            grads[k] = sn_clone(sn_grad(b));
        }
        ck_assert_msg(same_bits(grads[0], grads[1]), "call %d", i);
    }
    ck_assert_int_eq(training_saved(twin.fast->variants.at[0]->training), 1);
    twin_free(twin);
}
END_TEST

/* To passes the value that a node holds is the same as an input's or a result's; to eager it is another tensor. */
static sn_status holds_a_clone(sn_frame *f) {
    sn_tensor *const c = sn_clone(sn_in(f, 0));
    return sn_out(f, 0, sn_mul(c, sn_in(f, 1)));
}

static sn_status gives_a_clone(sn_frame *f) {
    sn_tensor *const h = sn_exp(sn_in(f, 1));
    sn_out(f, 1, sn_clone(h));
    return sn_out(f, 0, sn_mul(h, sn_in(f, 0)));
}

static sn_status gives_its_twin(sn_frame *f) {
    sn_tensor *const a = sn_mul_scalar(sn_in(f, 0), sn_float(2.5));
    sn_tensor *const b = sn_mul_scalar(sn_in(f, 0), sn_float(2.5));
    sn_out(f, 1, a);
    return sn_out(f, 0, sn_mul(b, sn_in(f, 1)));
}

START_TEST(g3_what_another_tensor_holds_may_be_written) {
    static const sn_body bodies[] = {holds_a_clone, gives_a_clone, gives_its_twin};
    for (int n = 0; n < 3; n++) {
        const Twin twin = twin_new(bodies[n], NULL, NULL, NULL);
        for (int i = 0; i < 4; i++) {
            sn_tensor *grads[2];
            for (int k = 0; k < 2; k++) {
                sn_tensor *const in[] = {F32((uint64_t)i, 5, 7), LEAF((uint64_t)i + 9, 5, 7)};
                sn_tensor *out[2] = {NULL, NULL};
                ck_assert_int_eq(sn_call(k ? twin.fast : twin.eager, in, 2, out, n ? 2 : 1), SN_OK);
                const sn_grad_mode before = sn_grad_mode_set(SN_GRAD_OFF);
                sn_mul_scalar_(n ? out[1] : in[0], sn_float(3));
                sn_grad_mode_set(before);
                backward(sn_sum(out[0]));
                grads[k] = sn_grad(in[1]);
            }
            ck_assert_msg(same_bits(grads[0], grads[1]), "body %d, call %d", n, i);
        }
        twin_free(twin);
    }
}
END_TEST

static sn_status exp_of_product(sn_frame *f) {
    return sn_out(f, 0, sn_exp(sn_mul(sn_in(f, 0), ((Host *)sn_closure(f))->w)));
}

START_TEST(g3_the_version_error_names_the_node_of_eager) {
    Host host = {.w = F32(3, 9)};
    const Twin twin = twin_new(exp_of_product, &host, &host, NULL);
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < 2; k++) {
            sn_tensor *const x = LEAF(1, 9);
            sn_tensor *const y = SN_CALL(k ? twin.fast : twin.eager, x);
            const sn_grad_mode before = sn_grad_mode_set(SN_GRAD_OFF);
            sn_add_scalar_(i & 1 ? host.w : y, sn_float(1));
            sn_grad_mode_set(before);
            ck_assert_int_ne(sn_backward(sn_sum(y)), SN_OK);
            expect_error(SN_ERR_STATE, i & 1 ? "MulBackward needs the f32[9] that it saved at version"
                                             : "ExpBackward needs the f32[9] that it saved at version 0");
            ck_assert_ptr_null(sn_grad(x));
        }
    twin_free(twin);
}
END_TEST

START_TEST(g3_nodes_are_used_up_one_by_one) {
    const Twin twin = twin_new(two_outputs, NULL, NULL, NULL);
    for (int i = 0; i < 4; i++) {
        sn_tensor *grads[2];
        for (int k = 0; k < 2; k++) {
            sn_tensor *const x = LEAF(6, 10);
            sn_tensor *out[2];
            ck_assert_int_eq(sn_call(k ? twin.fast : twin.eager, &x, 1, out, 2), SN_OK);
            backward(sn_sum(out[0]));
            backward(sn_sum(out[1])); /* other nodes */
            ck_assert_int_ne(sn_backward(sn_sum(out[1])), SN_OK);
            expect_error(SN_ERR_STATE, "ExpBackward: what it saved is gone since the first backward");
            grads[k] = sn_grad(x);
        }
        ck_assert(same_bits(grads[0], grads[1]));
    }
    twin_free(twin);
}
END_TEST

static sn_status count_hook(sn_frame *f) {
    ((Host *)sn_closure(f))->hooks++;
    return sn_out(f, 0, sn_mul_scalar(sn_in(f, 0), sn_float(3)));
}

static sn_status hooked(sn_frame *f) {
    Host *const host = sn_closure(f);
    sn_tensor *const h = sn_mul(sn_in(f, 0), sn_in(f, 0));
    sn_hook_add(h, count_hook, host);
    return sn_out(f, 0, sn_sin(h));
}

START_TEST(g3_hooks_on_intermediates_run) {
    Host fast = {0}, slow = {0};
    const Twin twin = twin_new(hooked, &fast, &slow, NULL);
    for (int i = 0; i < 4; i++) {
        sn_tensor *grads[2];
        for (int k = 0; k < 2; k++) {
            sn_tensor *const x = LEAF((uint64_t)i, 11);
            backward(sn_sum(SN_CALL(k ? twin.fast : twin.eager, x)));
            grads[k] = sn_grad(x);
        }
        ck_assert_int_eq(fast.hooks, i + 1);
        ck_assert(same_bits(grads[0], grads[1]));
    }
    twin_free(twin);
}
END_TEST

static sn_status sum_and_intermediate(sn_frame *f) {
    sn_tensor *const h = sn_mul(sn_in(f, 0), ((const Host *)sn_closure(f))->w);
    sn_out(f, 1, h);
    return sn_out(f, 0, sn_sum(sn_exp(h)));
}
static sn_status triple(sn_frame *f) { return sn_out(f, 0, sn_mul_scalar(sn_in(f, 0), sn_float(3))); }

/* A hook on a result, and a gradient at it, where the gradient comes from another result of the same segment. */
START_TEST(g3_results_that_are_intermediates_too) {
    Host fast = {.w = LEAF(1, 6)}, slow = {.w = LEAF(1, 6)};
    const Twin twin = twin_new(sum_and_intermediate, &fast, &slow, NULL);
    for (int i = 0; i < 4; i++) {
        sn_tensor *const x = F32(i, 6), *got[2], *want[2], *got_grad, *want_grad;
        ck_assert_int_eq(sn_call(twin.fast, &x, 1, got, 2), SN_OK);
        ck_assert_int_eq(sn_call(twin.eager, &x, 1, want, 2), SN_OK);
        sn_hook_add(got[1], triple, NULL);
        sn_hook_add(want[1], triple, NULL);
        ck_assert_int_eq(sn_backward(got[0]), SN_OK);
        ck_assert_int_eq(sn_backward(want[0]), SN_OK);
        ck_assert(same_bits(sn_grad(fast.w), sn_grad(slow.w)));
        ck_assert_int_eq(sn_call(twin.fast, &x, 1, got, 2), SN_OK);
        ck_assert_int_eq(sn_call(twin.eager, &x, 1, want, 2), SN_OK);
        ck_assert_int_eq(sn_gradients(SN_TENSORS(got[0]), SN_TENSORS(got[1]), (sn_tensors){0}, 0, &got_grad), SN_OK);
        ck_assert_int_eq(sn_gradients(SN_TENSORS(want[0]), SN_TENSORS(want[1]), (sn_tensors){0}, 0, &want_grad), SN_OK);
        ck_assert(same_bits(got_grad, want_grad));
    }
    twin_free(twin);
}
END_TEST

/* Gradients of [6,4] in layouts of their own: the first ones name an element several times, later ones are dense. */
static sn_tensor *laid_out_as(int i) {
    sn_tensor *const g = F32(31, 6, 40), *const line = F32(32, 40);
    const int64_t steps[] = {0, 0, 0, 1, 1, 2, 3, 40, 40, 1, 41, 4};
    const int64_t others[] = {0, 1, 2, 0, 1, 1, 1, 1, 2, 6, 1, 1};
    sn_tensor *const from = i < 7 ? line : sn_reshape(g, SN_INTS(-1));
    if (i >= 12) return sn_slice(sn_slice(g, 1, i - 12, i - 8, 1), 0, 0, 6, 1);
    return sn_as_strided(i == 10 ? F32(33, 300) : from, SN_INTS(6, 4), SN_INTS(steps[i], others[i]), 0);
}

/* Beyond the bound of keys a gradient of another layout runs as eager's nodes do: code made for strides of 0 cannot
 * take a dense one. */
START_TEST(g1_beyond_the_keys_every_layout_of_a_gradient_is_served) {
    const Twin twin = twin_new(square_and_sine, NULL, NULL, NULL);
    sn_tensor *const x = LEAF(7, 6, 4);
    for (int i = 0; i < 3; i++) backward(sn_sum(SN_CALL(twin.fast, x)));
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 12; i++) {
            sn_tensor *const g = laid_out_as(i);
            sn_tensor *got, *want;
            sn_tensor *const fast = SN_CALL(twin.fast, x), *const slow = SN_CALL(twin.eager, x);
            ck_assert_msg(sn_gradients(SN_TENSORS(fast), SN_TENSORS(x), SN_TENSORS(g), 0, &got) == SN_OK,
                          "layout %d: %s", i, sn_error_take()->message);
            ck_assert_int_eq(sn_gradients(SN_TENSORS(slow), SN_TENSORS(x), SN_TENSORS(g), 0, &want), SN_OK);
            ck_assert_msg(same_bits(got, want), "layout %d", i);
            for (int d = 0; d < 2; d++) ck_assert_int_eq(sn_strides(got).data[d], sn_strides(want).data[d]);
        }
    int kernels;
    ck_assert_int_eq(keys_of(twin.fast, &kernels), 8);
    twin_free(twin);
}
END_TEST

static sn_status attention(sn_frame *f) {
    const Host *const host = sn_closure(f);
    sn_tensor *const h = sn_gelu(sn_linear(sn_in(f, 0), host->w, host->b));
    return sn_out(f, 0, sn_mul(sn_softmax(h, -1), sn_tanh(sn_in(f, 0))));
}

/* Second derivatives through every input; x is used outside too. */
static void second(sn_function *fn, const Host *host, uint64_t seed, sn_tensor **out) {
    sn_tensor *const x = LEAF(seed, 5, 6);
    sn_tensor *const y = sn_add(SN_CALL(fn, x), sn_mul(x, x));
    sn_tensor *first[3];
    ck_assert_msg(sn_gradients(SN_TENSORS(sn_sum(sn_mul(y, y))), SN_TENSORS(x, host->w, host->b), (sn_tensors){0},
                               SN_CREATE_GRAPH, first) == SN_OK,
                  "%s", sn_error_take()->message);
    sn_tensor *sum = sn_sum(sn_mul(first[0], first[0]));
    sum = sn_add(sum, sn_sum(sn_mul(first[1], first[1])));
    sum = sn_add(sum, sn_sum(first[2]));
    ck_assert_msg(sn_gradients(SN_TENSORS(sum), SN_TENSORS(x, host->w, host->b), (sn_tensors){0}, 0, out) == SN_OK,
                  "%s", sn_error_take()->message);
}

START_TEST(g3_double_backward_goes_through_eagers_nodes) {
    Host host = {.w = LEAF(1, 6, 6), .b = LEAF(2, 6)};
    const Twin twin = twin_new(attention, &host, &host, NULL);
    for (uint64_t i = 0; i < 3; i++) {
        sn_tensor *want[3], *got[3];
        second(twin.eager, &host, i, want);
        second(twin.fast, &host, i, got);
        for (int k = 0; k < 3; k++) ck_assert_msg(same_bits(got[k], want[k]), "call %d, gradient %d", (int)i, k);
    }
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    twin_free(twin);
}
END_TEST

/* A custom function's node is behind what was called before it, pending or not: three contributions to x tell. */
static sn_status sine(sn_frame *f) {
    sn_save(f, sn_in(f, 0));
    return sn_out(f, 0, sn_sin(sn_in(f, 0)));
}

static sn_status sine_backward(sn_frame *f) {
    return sn_set_grad_of(f, 0, sn_mul(sn_grad_of(f, 0), sn_cos(sn_saved(f, 0))));
}

static sn_status beside_a_custom_function(sn_frame *f) {
    static const sn_custom custom = {.size = sizeof custom, .name = "sine", .forward = sine, .backward = sine_backward};
    sn_tensor *x = sn_in(f, 0);
    sn_tensor *const a = sn_relu(x);
    sn_tensor *b = NULL;
    sn_custom_call(&custom, NULL, &x, 1, &b, 1);
    sn_out(f, 1, a);
    return sn_out(f, 0, b);
}

static sn_tensor *second_of_two(sn_function *fn, uint64_t seed) {
    sn_tensor *const x = LEAF(seed, 5, 6);
    sn_tensor *out[2], *grad;
    ck_assert_int_eq(sn_call(fn, &x, 1, out, 2), SN_OK);
    sn_tensor *const first = sn_sum(sn_mul(out[1], sn_cos(out[1])));
    sn_tensor *const sum = sn_add(first, sn_sum(sn_mul(out[0], sn_cos(out[0]))));
    ck_assert_int_eq(sn_gradients(SN_TENSORS(sum), SN_TENSORS(x), (sn_tensors){0}, SN_CREATE_GRAPH, &grad), SN_OK);
    backward(sn_sum(sn_mul(grad, grad)));
    return sn_grad(x);
}

START_TEST(g1_a_custom_node_comes_behind_what_was_pending) {
    const Twin twin = twin_new(beside_a_custom_function, NULL, NULL, NULL);
    for (uint64_t i = 0; i < 4; i++)
        ck_assert_msg(same_bits(second_of_two(twin.fast, i), second_of_two(twin.eager, i)), "call %d", (int)i);
    twin_free(twin);
}
END_TEST

/* A hook on the result moves along, and the result itself may be what is derived by. */
START_TEST(g3_an_expanded_node_keeps_hooks_and_results) {
    Host host = {.w = LEAF(1, 6, 6), .b = LEAF(2, 6)};
    const Twin twin = twin_new(attention, &host, &host, NULL);
    for (uint64_t i = 0; i < 3; i++) {
        sn_tensor *got[2][2];
        Host seen[2] = {{0}, {0}};
        for (int k = 0; k < 2; k++) {
            sn_tensor *const x = LEAF(i, 5, 6);
            sn_tensor *const y = SN_CALL(k ? twin.fast : twin.eager, x);
            const int64_t hook = sn_hook_add(y, count_hook, &seen[k]);
            ck_assert_int_eq(sn_gradients(SN_TENSORS(sn_sum(sn_mul(y, y))), SN_TENSORS(x, y), (sn_tensors){0},
                                          SN_CREATE_GRAPH, got[k]),
                             SN_OK);
            sn_hook_remove(y, hook);
            backward(sn_sum(sn_mul(got[k][0], got[k][1])));
            got[k][0] = sn_grad(x);
            ck_assert_int_eq(seen[k].hooks, 1);
        }
        ck_assert(same_bits(got[0][0], got[1][0]) && same_bits(got[0][1], got[1][1]));
    }
    twin_free(twin);
}
END_TEST

static sn_status product_exp(sn_frame *f) { return sn_out(f, 0, sn_exp(sn_mul(sn_in(f, 0), sn_in(f, 1)))); }

/* Eager's nodes come used up, where nothing of the launch is left to make them from. */
START_TEST(g3_a_used_up_node_expands) {
    sn_function *const fn = sn_compile(product_exp, NULL, NULL);
    for (uint64_t i = 0; i < 3; i++) {
        const sn_scope scope = sn_scope_begin();
        sn_tensor *const y = SN_CALL(fn, LEAF(i, 5, 6), LEAF(i + 9, 5, 6));
        backward(sn_sum(y));
        sn_tensor *const again = sn_sum(y);
        ck_assert_int_ne(sn_backward_ex(SN_TENSORS(again), (sn_tensors){0}, SN_CREATE_GRAPH), SN_OK);
        expect_error(SN_ERR_STATE, "ExpBackward: what it saved is gone");
        sn_scope_end(scope);
    }
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    sn_function_free(fn);
}
END_TEST

/* What is asked for when its segment has run has the history of the launch, whatever the limit of variants is and
 * whether its code is made yet. */
static sn_status asked_late(sn_frame *f) {
    const Host *const host = sn_closure(f);
    sn_tensor *const h = sn_exp(sn_mul(sn_in(f, 0), sn_in(f, 0))), *const s = sn_sum(sn_sin(h));
    sn_graph_break("here"); /* h is not stored: nothing needs it yet */
    if (host->hooks) return sn_out(f, 0, sn_add(h, s));
    return sn_out(f, 0, s);
}

START_TEST(g3_what_is_asked_for_late_has_the_launchs_history) {
    sn_compile_options *const options[] = {SN_COMPILE_OPTIONS(.recompile_limit = 1),
                                           SN_COMPILE_OPTIONS(.background = true)};
    for (int o = 0; o < 2; o++) {
        Host host = {0};
        const Twin twin = twin_new(asked_late, &host, &host, options[o]);
        for (uint64_t i = 0; i < 8; i++) {
            host.hooks = i > 2;
            if (i == 2 || i == 7) sn_function_wait(twin.fast);
            sn_tensor *grads[2];
            for (int k = 0; k < 2; k++) {
                sn_tensor *const x = LEAF(i, 40);
                backward(sn_sum(SN_CALL(k ? twin.fast : twin.eager, x)));
                grads[k] = sn_grad(x);
            }
            ck_assert_msg(same_bits(grads[0], grads[1]), "options %d, call %d", o, (int)i);
        }
        ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
        twin_free(twin);
    }
}
END_TEST

static sn_status deep(sn_frame *f) { /* with a mask that is made again */
    const Host *const host = sn_closure(f);
    sn_tensor *const h = sn_gelu(sn_linear(sn_in(f, 0), host->w, host->b));
    sn_tensor *const d = sn_dropout(h, 0.3, true);
    return sn_out(f, 0, sn_mul(sn_softmax(d, -1), sn_tanh(sn_in(f, 0))));
}

static sn_tensor *through_deep(sn_function *fn, uint64_t seed) {
    sn_tensor *const x = LEAF(seed, 5, 6);
    sn_seed(seed);
    backward(sn_sum(SN_CALL(fn, x)));
    return sn_grad(x);
}

START_TEST(g3_a_backward_that_does_not_compile_expands) {
    Host host = {.w = F32(1, 6, 6), .b = F32(2, 6)};
    const Twin twin = twin_new(deep, &host, &host, NULL);
    failpoint_set("backward");
    for (uint64_t i = 0; i < 3; i++) {
        sn_tensor *const want = through_deep(twin.eager, i);
        ck_assert(same_bits(through_deep(twin.fast, i), want));
    }
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED); /* the forward */
    EXPECT_KEYS(twin.fast, 0, 0);
    ck_assert_ptr_nonnull(strstr(sn_explain(twin.fast), "eager's nodes for 1 other key: failpoint backward"));
    failpoint_set("");
    twin_free(twin);
}
END_TEST

/* G5: peak memory ----------------------------------------------------------------------------- */

/* The most bytes in use beyond those at the start, in the second of two rounds of calls: the first
 * records and compiles. In a process of its own, since the allocator counts the most of the whole
 * process; a ballast lifts what is in use to the first round's most. */
typedef void Rounds(sn_function *fn, Host *host, int n);
static int64_t peak_of(sn_body body, Rounds *rounds, sn_compile_mode mode) {
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        Host host = {.w = LEAF(1, 256, 64), .b = LEAF(2, 256), .mode = mode};
        sn_function *const fn = sn_compile(body, &host, SN_COMPILE_OPTIONS(.mode = mode));
        sn_memory before = {.size = sizeof before}, after = before;
        rounds(fn, &host, 4);
        sn_memory_get(SN_CPU, &before);
        sn_zeros(SN_INTS(before.peak), SN_U8);
        sn_memory_get(SN_CPU, &before);
        rounds(fn, &host, 4);
        sn_memory_get(SN_CPU, &after);
        const int64_t bytes = after.peak - before.current;
        _exit(write(ends[1], &bytes, sizeof bytes) != sizeof bytes);
    }
    int64_t bytes = -1;
    close(ends[1]); /* a child that fails ends the pipe */
    ck_assert_int_eq(read(ends[0], &bytes, sizeof bytes), sizeof bytes);
    waitpid(child, NULL, 0);
    close(ends[0]);
    return bytes;
}

static sn_status mlp(sn_frame *f) {
    const Host *const host = sn_closure(f);
    sn_tensor *const h = sn_gelu(sn_linear(sn_in(f, 0), host->w, host->b));
    sn_tensor *const y = sn_sigmoid(sn_add(sn_mul(h, h), h));
    return sn_out(f, 0, sn_mean(sn_mul(y, y)));
}

static void train(sn_function *fn, Host *host, int n) {
    for (int i = 0; i < n; i++) {
        const sn_scope scope = sn_scope_begin();
        sn_grad_set(host->w, NULL), sn_grad_set(host->b, NULL);
        sn_backward(SN_CALL(fn, F32(3, 512, 64)));
        sn_scope_end(scope);
    }
}

START_TEST(g5_a_training_step_takes_no_more_memory_than_eager) {
    const int64_t eager = peak_of(mlp, train, SN_COMPILE_EAGER);
    const int64_t compiled = peak_of(mlp, train, SN_COMPILE_VERIFY);
    ck_assert_msg(compiled > 0 && compiled <= eager, "compiled %lld, eager %lld", (long long)compiled,
                  (long long)eager);
}
END_TEST

/* Every moment and parameter is written where it is. */
static sn_status adamw_step(sn_frame *f) { return sn_optim_step(((Host *)sn_closure(f))->optim); }

static sn_optim *adamw_of_20(void) {
    sn_dict *const params = sn_dict_new();
    for (int i = 0; i < 20; i++) {
        char name[16];
        snprintf(name, sizeof name, "p%d", i);
        sn_grad_set(sn_param(params, name, F32((uint64_t)i, 32 + i, 64)), F32((uint64_t)i + 50, 32 + i, 64));
    }
    return sn_adamw(params, 1e-3, 0.01);
}

static void update(sn_function *fn, Host *host, int n) {
    if (!host->optim) host->optim = adamw_of_20();
    for (int i = 0; i < n; i++) {
        const sn_scope scope = sn_scope_begin();
        ck_assert_int_eq(sn_call(fn, NULL, 0, NULL, 0), SN_OK);
        sn_scope_end(scope);
    }
    ck_assert_int_eq(last_path() == SN_PATH_COMPILED, host->mode != SN_COMPILE_EAGER);
}

START_TEST(g5_an_optimizer_takes_no_more_memory_than_eager) {
    const int64_t eager = peak_of(adamw_step, update, SN_COMPILE_EAGER);
    const int64_t compiled = peak_of(adamw_step, update, SN_COMPILE_VERIFY);
    ck_assert_msg(compiled >= 0 && compiled * 100 <= eager, "compiled %lld, eager %lld", (long long)compiled,
                  (long long)eager);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        g1_a_backward_is_compiled_once_for_each_defined_set,
        g1_the_layout_of_a_gradient_is_part_of_the_key,
        g1_partial_sums_are_arguments_of_the_compiled_backward,
        g1_only_wanted_gradients_are_computed,
        g1_keys_are_bounded,
        g1_beyond_the_keys_every_layout_of_a_gradient_is_served,
        g1_a_key_of_symbolic_sizes_is_compiled_once,
        g1_gradients_are_laid_out_as_eagers,
        g1_sizes_that_a_key_decides_are_its_own_guards,
        g3_what_eager_does_not_hold_may_be_written,
        g3_what_another_tensor_holds_may_be_written,
        g3_the_version_error_names_the_node_of_eager,
        g3_nodes_are_used_up_one_by_one,
        g3_hooks_on_intermediates_run,
        g3_results_that_are_intermediates_too,
        g3_double_backward_goes_through_eagers_nodes,
        g1_a_custom_node_comes_behind_what_was_pending,
        g3_an_expanded_node_keeps_hooks_and_results,
        g3_a_used_up_node_expands,
        g3_what_is_asked_for_late_has_the_launchs_history,
        g3_a_backward_that_does_not_compile_expands,
        g5_a_training_step_takes_no_more_memory_than_eager,
        g5_an_optimizer_takes_no_more_memory_than_eager,
    };
    return contract_main("test_contract_g_keys", tests, (int)(sizeof tests / sizeof *tests));
}
