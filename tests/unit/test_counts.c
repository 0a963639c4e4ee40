/* test_counts.c: counts that a user is promised: kernels of a call sequence, tensors saved for
 * backward, memory taken by a call, compiles. Each number is asserted, not timed. */
#include <stdio.h>

#include "runtime/device/execute.h"
#include "runtime/capture/function/function.h"
#include "runtime/capture/training/training.h"
#include "tests/unit/contract.h"

typedef struct Model {
    sn_tensor *w, *b, *r;
    int64_t position;
} Model;

/* Kernels: entries of the call sequence ------------------------------------------------------- */

/* Calls thrice, compared with eager; the kernels of the only graph. */
static int64_t kernels_of(sn_body body, Model *model, sn_tensors in) {
    const Twin twin = twin_new(body, model, model, SN_COMPILE_OPTIONS(.full_graph = true));
    for (int i = 0; i < 3; i++) twin_call(twin, in, in);
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    ck_assert_int_eq(stats_of(twin.fast).graphs, 1);
    const int64_t kernels = stats_of(twin.fast).kernels;
    if (kernels != 1) fprintf(stderr, "%s\n", sn_explain(twin.fast));
    twin_free(twin);
    return kernels;
}

static sn_status multiply_add(sn_frame *f) {
    return sn_out(f, 0, sn_add(sn_mul_scalar(sn_in(f, 0), sn_float(2)), sn_in(f, 1)));
}

START_TEST(a_times_2_plus_b_is_1_kernel) {
    ck_assert_int_eq(kernels_of(multiply_add, NULL, SN_TENSORS(F32(1, 64, 33), F32(2, 64, 33))), 1);
}
END_TEST

static sn_status norm_block(sn_frame *f) {
    const Model *const m = sn_closure(f);
    sn_tensor *const h = sn_add(sn_gelu(sn_add(sn_in(f, 0), m->b)), m->r);
    return sn_out(f, 0, sn_layer_norm(h, SN_INTS(48), m->w, m->b));
}

START_TEST(layer_norm_of_gelu_and_residual_is_1_kernel) {
    Model m = {.w = F32(1, 48), .b = F32(2, 48), .r = F32(3, 20, 48)};
    ck_assert_int_eq(kernels_of(norm_block, &m, SN_TENSORS(F32(4, 20, 48))), 1);
}
END_TEST

static sn_status softmax(sn_frame *f) { return sn_out(f, 0, sn_softmax(sn_in(f, 0), -1)); }

static sn_status part_of_remainder(sn_frame *f) {
    sn_tensor *const part = sn_narrow(sn_remainder(sn_in(f, 0), sn_in(f, 1)), 0, 0, 3);
    return sn_out(f, 0, sn_add(part, part));
}

/* That of ints would be made whole: a divisor may be 0 in the other rows [C8]. */
START_TEST(a_part_of_a_float_remainder_is_1_kernel) {
    sn_tensors in = SN_TENSORS(F32(1, 6, 8), F32(2, 6, 8));
    ck_assert_int_eq(kernels_of(part_of_remainder, NULL, in), 1);
}
END_TEST

START_TEST(softmax_is_1_kernel) { ck_assert_int_eq(kernels_of(softmax, NULL, SN_TENSORS(F32(1, 20, 100))), 1); }
END_TEST

static sn_status linear_gelu(sn_frame *f) {
    const Model *const m = sn_closure(f);
    return sn_out(f, 0, sn_gelu(sn_linear(sn_in(f, 0), m->w, m->b)));
}

START_TEST(linear_bias_gelu_is_1_kernel) {
    Model m = {.w = F32(1, 64, 48), .b = F32(2, 64)};
    ck_assert_int_eq(kernels_of(linear_gelu, &m, SN_TENSORS(F32(4, 20, 48))), 1);
}
END_TEST

static sn_status classify(sn_frame *f) {
    return sn_out(f, 0, sn_nll_loss(sn_log_softmax(sn_in(f, 0), 1), sn_in(f, 1)));
}

static sn_tensor *classes(int64_t n, int64_t of) {
    int64_t data[64];
    for (int64_t i = 0; i < n; i++) data[i] = (i * 7 + 3) % of;
    return sn_from_data(data, SN_INTS(n), SN_I64);
}

START_TEST(log_softmax_and_nll_loss_are_1_kernel) {
    ck_assert_int_eq(kernels_of(classify, NULL, SN_TENSORS(F32(1, 32, 10), classes(32, 10))), 1);
}
END_TEST

static sn_status entropy(sn_frame *f) { return sn_out(f, 0, sn_cross_entropy(sn_in(f, 0), sn_in(f, 1))); }

START_TEST(cross_entropy_is_1_kernel) {
    ck_assert_int_eq(kernels_of(entropy, NULL, SN_TENSORS(F32(1, 32, 10), classes(32, 10))), 1);
}
END_TEST

enum { TENSORS = 20 };

typedef struct Trainer {
    sn_dict *dict;
    sn_optim *optim;
    sn_tensor *params[TENSORS];
} Trainer;

static Trainer trainer_new(void) {
    Trainer t = {.dict = sn_dict_new()};
    for (int i = 0; i < TENSORS; i++) {
        char name[16];
        snprintf(name, sizeof name, "p%d", i);
        t.params[i] = sn_param(t.dict, name, F32((uint64_t)i, 3 + i % 5, 8 + i));
    }
    t.optim = sn_adamw(t.dict, 1e-2, 0.1);
    return t;
}

static void trainer_free(Trainer *t) {
    sn_optim_free(t->optim);
    sn_dict_free(t->dict);
}

static void set_gradients(const Trainer *t, int step) {
    for (int i = 0; i < TENSORS; i++) sn_grad_set(t->params[i], F32((uint64_t)(100 * step + i), 3 + i % 5, 8 + i));
}

static sn_status optimize(sn_frame *f) { return sn_optim_step(((Trainer *)sn_closure(f))->optim); }

START_TEST(adamw_over_20_tensors_is_1_kernel) {
    Trainer fast = trainer_new(), slow = trainer_new();
    const Twin twin = twin_new(optimize, &fast, &slow, SN_COMPILE_OPTIONS(.full_graph = true));
    for (int step = 0; step < 5; step++) {
        set_gradients(&fast, step);
        set_gradients(&slow, step);
        ck_assert_int_eq(sn_call(twin.eager, NULL, 0, NULL, 0), SN_OK);
        ck_assert_msg(sn_call(twin.fast, NULL, 0, NULL, 0) == SN_OK, "%s", sn_error_take()->message);
        for (int i = 0; i < TENSORS; i++)
            ck_assert_msg(same_bits(fast.params[i], slow.params[i]), "step %d, tensor %d", step, i);
    }
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    const Variant *const newest = twin.fast->variants.at[twin.fast->variants.n - 1];
    ck_assert_int_eq(newest->info.kernels, 1);
    ck_assert_int_le(stats_of(twin.fast).compiles, 2); /* the step count costs no third one */
    twin_free(twin);
    trainer_free(&fast);
    trainer_free(&slow);
}
END_TEST

/* Training ------------------------------------------------------------------------------------ */

static sn_status gelu_of_sum(sn_frame *f) { return sn_out(f, 0, sn_gelu(sn_add(sn_in(f, 0), sn_in(f, 1)))); }

START_TEST(a_chain_saves_one_tensor) {
    const Twin twin = twin_new(gelu_of_sum, NULL, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        sn_tensor *const x = LEAF(1, 30), *const b = LEAF(2, 30), *const p = LEAF(1, 30), *const q = LEAF(2, 30);
        sn_tensor *const y = twin_call(twin, SN_TENSORS(x, b), SN_TENSORS(p, q));
        ck_assert_int_eq(sn_backward(sn_sum(y)), SN_OK);
        ck_assert_int_eq(sn_backward(sn_sum(SN_CALL(twin.eager, p, q))), SN_OK);
        ck_assert(same_bits(sn_grad(x), sn_grad(p)) && same_bits(sn_grad(b), sn_grad(q)));
    }
    ck_assert_int_eq(last_path(), SN_PATH_EAGER);
    ck_assert_int_eq(twin.fast->variants.n, 1);
    ck_assert_int_eq(training_saved(twin.fast->variants.at[0]->training), 1);
    twin_free(twin);
}
END_TEST

/* Memory -------------------------------------------------------------------------------------- */

static sn_status two_results(sn_frame *f) {
    const Model *const m = sn_closure(f);
    sn_tensor *const h = sn_matmul(sn_in(f, 0), m->w);
    sn_tensor *const y = sn_matmul(sn_gelu(h), m->w);
    sn_out(f, 1, sn_softmax(y, -1));
    return sn_out(f, 0, sn_matmul(sn_relu(y), m->w));
}

/* Memory comes by step where it would lie idle: h, gelu(h) and y, each from its first use to its last [G5]. */
START_TEST(one_block_an_intermediate_and_one_allocation_an_output) {
    Model m = {.w = F32(1, 40, 40)};
    sn_function *const fn = sn_compile(two_results, &m, NULL);
    sn_tensor *const x = F32(2, 30, 40), *out[2];
    for (int i = 0; i < 2; i++) ck_assert_int_eq(sn_call(fn, &x, 1, out, 2), SN_OK);
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    const ExecuteCounts before = *execute_counts();
    ck_assert_int_eq(sn_call(fn, &x, 1, out, 2), SN_OK);
    const ExecuteCounts after = *execute_counts();
    ck_assert_int_eq(after.arena_allocations - before.arena_allocations, 3);
    ck_assert_int_eq(after.allocations - before.allocations, 2);
    ck_assert_int_eq(after.copies - before.copies, 0);
    sn_function_free(fn);
}
END_TEST

/* Compiles ------------------------------------------------------------------------------------ */

static int64_t compiles_for_batches(sn_dynamic dynamic) {
    Model m = {.w = F32(1, 64, 48), .b = F32(2, 64)};
    const Twin twin = twin_new(linear_gelu, &m, &m, SN_COMPILE_OPTIONS(.dynamic = dynamic));
    for (int i = 0; i < 12; i++) TWIN_CALL(twin, F32(i, 8 << i % 3, 48));
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    const int64_t compiles = stats_of(twin.fast).compiles;
    twin_free(twin);
    return compiles;
}

START_TEST(batch_sizes_cost_2_compiles) { ck_assert_int_eq(compiles_for_batches(SN_DYNAMIC_AUTO), 2); }
END_TEST

START_TEST(always_dynamic_costs_1) { ck_assert_int_eq(compiles_for_batches(SN_DYNAMIC_ALWAYS), 1); }
END_TEST

START_TEST(never_dynamic_costs_3) { ck_assert_int_eq(compiles_for_batches(SN_DYNAMIC_NEVER), 3); }
END_TEST

static sn_status flattens(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    return sn_out(f, 0, sn_tanh(sn_view(x, SN_INTS(sn_size(x, 0) * sn_size(x, 1)))));
}
static sn_status without_the_last_column(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    return sn_out(f, 0, sn_tanh(sn_narrow(x, 1, 0, sn_size(x, 1) - 1)));
}
static sn_status without_the_last(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    return sn_out(f, 0, sn_tanh(sn_narrow(x, 0, 0, sn_size(x, 0) - 1)));
}

enum { SHAPES = 8 };
static int64_t compiles_for_shapes(sn_body body, const int64_t (*shapes)[2], bool grad) {
    const Twin twin = twin_new(body, NULL, NULL, NULL);
    for (int i = 0; i < SHAPES; i++) {
        sn_tensor *const fast = F32(i, shapes[i][0], shapes[i][1]), *const slow = sn_clone(fast);
        if (grad) sn_requires_grad_(fast, true), sn_requires_grad_(slow, true);
        sn_tensor *const want = sn_call1(twin.eager, SN_TENSORS(slow)), *const got =
                                                                            sn_call1(twin.fast, SN_TENSORS(fast));
        ck_assert(same_bits(got, want));
        if (grad) sn_backward(sn_sum(want)), sn_backward(sn_sum(got));
        ck_assert(!grad || same_bits(sn_grad(fast), sn_grad(slow)));
    }
    const int64_t compiles = stats_of(twin.fast).compiles;
    twin_free(twin);
    return compiles;
}

/* One as it is, one for each size that turns out to vary, whatever follows from both; and one for a size of 1, after
 * which what varied still does. */
START_TEST(two_sizes_that_vary_cost_3_compiles) {
    static const int64_t shapes[SHAPES][2] = {{4, 6}, {8, 6}, {8, 10}, {7, 3}, {16, 16}, {5, 9}, {3, 3}, {9, 4}};
    static const int64_t with_one[SHAPES][2] = {{4, 6}, {8, 6}, {1, 6}, {9, 10}, {7, 3}, {1, 6}, {16, 16}, {10, 9}};
    static const sn_body bodies[] = {flattens, without_the_last, without_the_last_column};
    for (int i = 0; i < 6; i++) {
        ck_assert_int_eq(compiles_for_shapes(bodies[i / 2], shapes, i % 2), 3);
        ck_assert_int_eq(compiles_for_shapes(bodies[i / 2], with_one, i % 2), 4);
    }
}
END_TEST

START_TEST(a_hundred_equal_calls_cost_1) {
    Model m = {.w = F32(1, 64, 48), .b = F32(2, 64)};
    sn_function *const fn = sn_compile(linear_gelu, &m, NULL);
    for (int i = 0; i < 100; i++) ck_assert_ptr_nonnull(SN_CALL(fn, F32(i, 16, 48)));
    const sn_stats stats = stats_of(fn);
    ck_assert_int_eq(stats.compiles, 1);
    ck_assert_int_eq(stats.recompiles, 0);
    ck_assert_int_eq(stats.ops_eager + stats.ops_interpreted, 0);
    sn_function_free(fn);
}
END_TEST

static sn_status append_row(sn_frame *f) { /* a KV cache: row `position` is written in place */
    const Model *const m = sn_closure(f);
    sn_tensor *const cache = m->r;
    sn_copy_(sn_narrow(cache, 0, m->position, 1), sn_in(f, 0));
    return sn_out(f, 0, sn_sum_dim(sn_mul(cache, m->w), SN_INTS(0), false));
}

START_TEST(a_hundred_positions_of_a_cache_cost_2) {
    Model fast = {.w = F32(1, 8), .r = F32(2, 128, 8)}, slow = {.w = fast.w, .r = sn_clone(fast.r)};
    const Twin twin = twin_new(append_row, &fast, &slow, NULL);
    for (int i = 0; i < 100; i++) {
        fast.position = slow.position = i;
        TWIN_CALL(twin, F32(i, 1, 8));
    }
    ck_assert(same_bits(fast.r, slow.r));
    ck_assert_int_eq(stats_of(twin.fast).compiles, 2);
    twin_free(twin);
}
END_TEST

START_TEST(equal_kernels_are_generated_once) {
    Model m = {.w = F32(1, 40, 40)};
    sn_function *const one = sn_compile(two_results, &m, NULL), *const two = sn_compile(two_results, &m, NULL);
    sn_tensor *const x = F32(2, 30, 40), *out[2];
    for (int i = 0; i < 2; i++) sn_call(one, &x, 1, out, 2);
    for (int i = 0; i < 2; i++) sn_call(two, &x, 1, out, 2);
    ck_assert_int_gt(one->variants.at[0]->info.generated, 0);
    ck_assert_int_eq(two->variants.at[0]->info.generated, 0);
    ck_assert_int_eq(two->variants.at[0]->info.reused, two->variants.at[0]->info.nests);
    sn_function_free(one);
    sn_function_free(two);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        adamw_over_20_tensors_is_1_kernel,
        a_times_2_plus_b_is_1_kernel,
        layer_norm_of_gelu_and_residual_is_1_kernel,
        softmax_is_1_kernel,
        a_part_of_a_float_remainder_is_1_kernel,
        linear_bias_gelu_is_1_kernel,
        log_softmax_and_nll_loss_are_1_kernel,
        cross_entropy_is_1_kernel,
        a_chain_saves_one_tensor,
        one_block_an_intermediate_and_one_allocation_an_output,
        batch_sizes_cost_2_compiles,
        always_dynamic_costs_1,
        never_dynamic_costs_3,
        a_hundred_equal_calls_cost_1,
        a_hundred_positions_of_a_cache_cost_2,
        two_sizes_that_vary_cost_3_compiles,
        equal_kernels_are_generated_once,
    };
    return contract_main("test_counts", tests, (int)(sizeof tests / sizeof *tests));
}
