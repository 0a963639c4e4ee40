/* Presets on the CPU [acceptance 5.18]: reduce-overhead is one launch in memory that stays; max-autotune takes the
 * shapes that sn_tune has measured. */
#include <pthread.h>

#include "runtime/device/execute.h"
#include "tests/unit/contract.h"

static bool has(const char *text, const char *part) { return strstr(text, part) != NULL; }

/* Several steps, with values between them in the arena. */
static sn_status layers(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const w = sn_in(f, 1);
    sn_tensor *const h = sn_softmax(sn_mm(sn_gelu(sn_mm(x, w)), w), -1);
    sn_out(f, 0, sn_cumsum(h, 0, SN_DTYPE_DEFAULT));
    return sn_out(f, 1, sn_sum_dim(h, SN_INTS(0), false));
}

static ExecuteCounts counted(sn_function *fn, sn_tensor *x, sn_tensor *w, sn_tensor **out) {
    const ExecuteCounts before = *execute_counts();
    ck_assert_int_eq(sn_call(fn, (sn_tensor *[]){x, w}, 2, out, 2), SN_OK);
    const ExecuteCounts now = *execute_counts();
    return (ExecuteCounts){.launches = now.launches - before.launches,
                           .allocations = now.allocations - before.allocations,
                           .arena_allocations = now.arena_allocations - before.arena_allocations};
}

static void expect_one_launch(sn_compile_mode mode) {
    const sn_compile_options options = {
        .size = sizeof options, .mode = mode, .preset = SN_PRESET_REDUCE_OVERHEAD, .dynamic = SN_DYNAMIC_NEVER};
    sn_function *const fn = sn_compile(layers, NULL, &options);
    sn_function *const plain = sn_compile(layers, NULL, SN_COMPILE_OPTIONS(.mode = mode, .dynamic = SN_DYNAMIC_NEVER));
    sn_tensor *out[2], *want[2], *const w = F32(9, 6, 6);
    for (int i = 0; i < 2; i++) counted(fn, F32(i, 4, 6), w, out), counted(plain, F32(i, 4, 6), w, want);
    for (int i = 2; i < 6; i++) {
        sn_tensor *const x = F32(i, 4, 6);
        const ExecuteCounts one = counted(fn, x, w, out), steps = counted(plain, x, w, want);
        ck_assert_int_eq(one.launches, 1);
        ck_assert_int_eq(one.arena_allocations, 0);
        ck_assert_int_eq(one.allocations, 2); /* the results, which are new ones */
        ck_assert_int_gt(steps.launches, 1);
        ck_assert_int_eq(steps.arena_allocations, 1);
        ck_assert(same_bits(out[0], want[0]) && same_bits(out[1], want[1]));
    }
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    ck_assert_msg(has(sn_explain(fn), "one launch a call, in memory that stays: 5 times"), "%s", sn_explain(fn));
    sn_function_free(fn);
    sn_function_free(plain);
}

START_TEST(a5_18_reduce_overhead_is_one_launch_and_allocates_results_alone) {
    expect_one_launch(SN_COMPILE_VERIFY);
    expect_one_launch(SN_COMPILE_REPLAY);
}
END_TEST

/* Larger sizes need a larger arena, once. */
START_TEST(a5_18_memory_that_stays_grows_with_the_sizes) {
    sn_function *const fn =
        sn_compile(layers, NULL, SN_COMPILE_OPTIONS(.preset = SN_PRESET_REDUCE_OVERHEAD, .dynamic = SN_DYNAMIC_ALWAYS));
    sn_function *const eager = sn_compile(layers, NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
    sn_tensor *out[2], *want[2], *const w = F32(9, 6, 6);
    for (int i = 0; i < 8; i++) {
        sn_tensor *const x = F32(i, i % 2 ? 4 : 64, 6);
        const ExecuteCounts counts = counted(fn, x, w, out);
        ck_assert(i < 2 || (counts.launches == 1 && counts.arena_allocations == 0));
        sn_call(eager, (sn_tensor *[]){x, w}, 2, want, 2);
        ck_assert(same_bits(out[0], want[0]) && same_bits(out[1], want[1]));
    }
    sn_function_free(fn);
    sn_function_free(eager);
}
END_TEST

typedef struct Thread {
    sn_function *fn;
    int wrong;
} Thread;

static void *calls(void *arg) {
    Thread *const t = arg;
    for (int i = 0; i < 200; i++) {
        const sn_scope scope = sn_scope_begin();
        sn_tensor *out[2], *want[2], *in[] = {F32(i, 4, 6), F32(9, 6, 6)};
        sn_call(t->fn, in, 2, out, 2);
        sn_stance_set(SN_STANCE_FORCE_EAGER);
        sn_call(t->fn, in, 2, want, 2);
        sn_stance_set(SN_STANCE_DEFAULT);
        t->wrong += sn_check() || !same_bits(out[0], want[0]) || !same_bits(out[1], want[1]);
        sn_scope_end(scope);
    }
    return NULL;
}

/* Whoever finds the memory taken runs in memory of the call. */
START_TEST(a5_18_threads_share_a_function_of_one_launch) {
    sn_function *const fn = sn_compile(layers, NULL, SN_COMPILE_OPTIONS(.preset = SN_PRESET_REDUCE_OVERHEAD));
    pthread_t threads[4];
    Thread of[4];
    for (int i = 0; i < 4; i++) {
        of[i] = (Thread){fn, 0};
        ck_assert_int_eq(pthread_create(&threads[i], NULL, calls, &of[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        ck_assert_int_eq(of[i].wrong, 0);
    }
    sn_function_free(fn);
}
END_TEST

static sn_status loss(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const w = sn_in(f, 1);
    return sn_out(f, 0, sn_sum(sn_tanh(sn_mm(sn_softmax(sn_mm(x, w), -1), w))));
}

START_TEST(a5_18_forward_and_backward_are_one_launch_each) {
    const Twin twin = twin_new(loss, NULL, NULL, SN_COMPILE_OPTIONS(.preset = SN_PRESET_REDUCE_OVERHEAD));
    for (int i = 0; i < 4; i++) {
        sn_tensor *const a = LEAF(i, 4, 6), *const b = LEAF(i, 4, 6), *const w = F32(9, 6, 6);
        sn_backward(SN_CALL(twin.fast, a, w));
        sn_backward(SN_CALL(twin.eager, b, w));
        ck_assert(same_bits(sn_grad(a), sn_grad(b)));
    }
    const char *const text = sn_explain(twin.fast), *const backward = strstr(text, "kernels of backward");
    ck_assert_msg(has(text, "in memory that stays: 3 times"), "%s", text);
    ck_assert_msg(backward && has(backward, "in memory that stays: 3 times"), "%s", text);
    twin_free(twin);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        a5_18_reduce_overhead_is_one_launch_and_allocates_results_alone,
        a5_18_memory_that_stays_grows_with_the_sizes,
        a5_18_threads_share_a_function_of_one_launch,
        a5_18_forward_and_backward_are_one_launch_each,
    };
    return contract_main("presets", tests, sizeof tests / sizeof *tests);
}
