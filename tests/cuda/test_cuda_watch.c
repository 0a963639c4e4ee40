/* test_cuda_watch.c: steps of a CUDA device that are watched (runtime/device/watch.h): one for each launch, in order,
 * with its stream and its time on the device, told when the device has passed it; a graph of launches is one. */
#include <sinter/sinter.h>

#include "tests/cuda/emulated_control.h"
#include "tests/unit/public_check.h"
#include "tests/unit/suite.h"
#include "tests/unit/watched.h"

enum { GPU = SN_CUDA(0) };

static sn_tensor *there(int64_t rows, int64_t columns) {
    return sn_to_device(sn_randn(SN_INTS(rows, columns), SN_F32), GPU);
}

static void synchronize(void) { ck_assert_int_eq(sn_device_synchronize(GPU), SN_OK); }

/* Each step has been a launch since. */
static void expect_launches(int64_t before) {
    if (is_emulated()) ck_assert_int_eq(emulated().launches - before, n_watched);
    for (int i = 0; i < n_watched; i++) {
        ck_assert_int_eq(watched[i].device, GPU);
        ck_assert_int_gt(watched[i].ns, 0);
    }
}

START_TEST(eager_ops_are_steps) {
    sn_tensor *const x = there(6, 40), *places;
    sn_sort(sn_exp(sn_add(x, x)), 1, false, &places); /* their programs are made */
    synchronize();
    const int64_t before = emulated().launches;
    watched_begin();
    sn_tensor *const y = sn_exp(sn_add(x, x));
    sn_cumsum(y, 1, SN_F32);
    if (is_emulated()) { /* the device has run nothing */
        watch_passed();
        ck_assert_int_eq(n_watched, 0);
    }
    synchronize();
    ck_assert_int_eq(n_watched, 3);
    watch_end();
    ck_assert_int_eq(n_watched, 3);
    expect_launches(before);
    watched_is(0, "", "k0_add", 0);
    watched_is(1, "", "k0_exp", 0);
    watched_is(2, "", "aten::cumsum", 0);
    for (int i = 0; i < 3; i++) ck_assert_ptr_eq(watched[i].stream, sn_stream_own(GPU));
}
END_TEST

START_TEST(steps_are_told_with_their_stream) {
    sn_stream *const side = sn_stream_new(GPU);
    sn_tensor *const x = there(6, 40);
    synchronize();
    watched_begin();
    const sn_scope scope = sn_scope_begin();
    ck_assert_int_eq(sn_stream_use(side), SN_OK);
    sn_exp(x);
    sn_scope_end(scope);
    sn_exp(x);
    watch_end(); /* waits for both */
    ck_assert_int_eq(n_watched, 2);
    ck_assert_ptr_eq(watched[0].stream, side);
    ck_assert_ptr_eq(watched[1].stream, sn_stream_own(GPU));
    synchronize();
    sn_stream_free(side);
}
END_TEST

static sn_status scans(sn_frame *f) {
    sn_tensor *const y = sn_cumsum(sn_tanh(sn_in(f, 0)), 1, SN_F32);
    return sn_out(f, 0, sn_softmax(sn_mul(y, y), -1));
}

static int call_watched(sn_function *fn, sn_tensor *x, int64_t *launches) {
    synchronize();
    const int64_t before = emulated().launches;
    watched_begin();
    SN_CALL(fn, x);
    expect_ok();
    synchronize();
    watch_end();
    *launches = emulated().launches - before;
    return n_watched;
}

static void expect_scans(void) {
    ck_assert_int_eq(n_watched, 3);
    watched_is(0, "scans", "k0_tanh", 0);
    watched_is(1, "scans", "aten::cumsum", 0);
    watched_is(2, "scans", "k2_mul_amax_sub_exp_sum_more", 0);
}

START_TEST(steps_of_functions_are_those_launched) {
    sn_function *const fn = sn_compile(scans, NULL, SN_COMPILE_OPTIONS(.name = "scans"));
    sn_tensor *const x = there(6, 40);
    int64_t launches;
    for (int call = 0; call < 2; call++) SN_CALL(fn, x);
    for (int call = 0; call < 2; call++) {
        const int n = call_watched(fn, x, &launches);
        expect_scans();
        if (is_emulated()) ck_assert_int_eq(launches, n);
    }
    sn_function_free(fn);
}
END_TEST

/* The first compiled call runs step by step; from the next one on it is a graph. */
START_TEST(a_graph_is_one_step) {
    sn_function *const fn =
        sn_compile(scans, NULL, SN_COMPILE_OPTIONS(.name = "scans", .preset = SN_PRESET_REDUCE_OVERHEAD));
    sn_tensor *const x = there(6, 40), *const other = there(6, 40);
    int64_t launches;
    SN_CALL(fn, x);
    ck_assert_int_eq(call_watched(fn, x, &launches), 3);
    expect_scans();
    for (int call = 0; call < 3; call++) { /* captured, launched, and with other addresses */
        ck_assert_int_eq(call_watched(fn, call == 2 ? other : x, &launches), 1);
        watched_is(0, "scans", "graph of 3 steps", 0);
        ck_assert_int_gt(watched[0].ns, 0);
        ck_assert_ptr_eq(watched[0].stream, sn_stream_own(GPU));
    }
    ck_assert_msg(strstr(sn_explain(fn), "one launch a call") != NULL, "%s", sn_explain(fn));
    sn_function_free(fn);
}
END_TEST

/* kernels of the program ------------------------------------------------------------------------ */

static const char *const source = "extern \"C\" __global__ void twice(const float *x, float *y, int n) {\n"
                                  "    const int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                                  "    if (i < n) y[i] = 2 * x[i];\n"
                                  "}\n";
static sn_kernel *twice_kernel;

static sn_status like(sn_frame *f) { return sn_out(f, 0, sn_empty_like(sn_in(f, 0))); }
static sn_status twice_cuda(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const y = sn_empty_like(x);
    const int64_t n = sn_numel(x);
    const sn_value in[] = {sn_val(x), sn_val(y), sn_int(n)};
    sn_cuda_launch(f, twice_kernel, SN_CUDA_GRID(.blocks = {(uint32_t)(n + 63) / 64}, .threads = {64}), in, 3);
    return sn_out(f, 0, y);
}

static sn_status around(sn_frame *f) {
    const sn_value in = sn_val(sn_tanh(sn_in(f, 0)));
    return sn_out(f, 0, sn_op_call1(sn_closure(f), &in, 1));
}

/* By itself a step, of a compiled function one in the op's. */
START_TEST(kernels_of_the_program_are_steps) {
    twice_kernel = sn_cuda_kernel(source, "twice");
    const sn_op *const op = sn_op_register(
        SN_OP_DESC(.schema = "own::twice(Tensor x) -> Tensor", .flags = SN_OP_PURE, .meta = like, .cuda = twice_cuda));
    ck_assert_msg(twice_kernel && op, "%s", sn_error_take()->message);
    sn_function *const fn = sn_compile(around, (void *)(uintptr_t)op, SN_COMPILE_OPTIONS(.name = "around"));
    sn_tensor *const x = there(6, 40);
    const sn_value in = sn_val(x);
    int64_t launches;
    sn_op_call1(op, &in, 1);
    for (int call = 0; call < 2; call++) SN_CALL(fn, x);
    synchronize();
    const int64_t before = emulated().launches;
    watched_begin();
    sn_op_call1(op, &in, 1);
    watch_end();
    ck_assert_int_eq(n_watched, 1);
    watched_is(0, "", "twice", 0);
    expect_launches(before);
    ck_assert_int_ge(call_watched(fn, x, &launches), 3);
    watched_is(0, "around", "k0_tanh", 0);
    watched_is(1, "around", "own::twice", 0);
    watched_is(2, "", "twice", 1);
    if (is_emulated()) ck_assert_int_eq(launches, n_watched - 1); /* the op's step has those within it */
    sn_function_free(fn);
    sn_kernel_free(twice_kernel);
}
END_TEST

/* A step whose time nobody knows runs as any. */
START_TEST(a_device_without_events_runs_on) {
    sn_tensor *const x = there(6, 40), *const want = sn_exp(sn_to_device(x, SN_CPU));
    sn_exp(x);
    synchronize();
    if (!is_emulated()) return;
    for (int after = 0; after < 3; after++) { /* the one before, the one behind, none */
        fail_next("EventRecord", 2 /* out of memory */, after);
        watched_begin();
        sn_tensor *const y = sn_exp(x);
        expect_ok();
        watch_end();
        ck_assert_int_eq(n_watched, 1);
        ck_assert_str_eq(watched[0].name, "k0_exp");
        ck_assert_int_eq(watched[0].ns > 0, after == 2);
        ck_assert(sn_equal(sn_to_device(y, SN_CPU), want));
    }
}
END_TEST

int main(void) {
    if (lacks_compiler()) return skip_without_compiler();
    TCase *const tests = tcase_create("cuda_watch");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, eager_ops_are_steps);
    tcase_add_test(tests, steps_are_told_with_their_stream);
    tcase_add_test(tests, steps_of_functions_are_those_launched);
    tcase_add_test(tests, a_graph_is_one_step);
    tcase_add_test(tests, kernels_of_the_program_are_steps);
    tcase_add_test(tests, a_device_without_events_runs_on);
    return suite_run("cuda_watch", tests);
}
