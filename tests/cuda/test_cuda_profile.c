/* test_cuda_profile.c: profiles (sinter/profile.h) of a device whose work goes on after the call: what it did stands in
 * the device columns of what launched it, and an arrow of the trace goes there. */
#include <sinter/sinter.h>

#include "tests/cuda/emulated_control.h"
#include "tests/unit/profile_json.h"
#include "tests/unit/public_check.h"
#include "tests/unit/suite.h"

enum { GPU = SN_CUDA(0) };

static sn_tensor *there(int64_t rows, int64_t columns) {
    return sn_to_device(sn_randn(SN_INTS(rows, columns), SN_F32), GPU);
}

static const Json *table_of(Arena *arena, sn_profile *p) {
    const char *const text = sn_profile_table(p, SN_PROFILE_TABLE_OPTIONS(.json = true, .rows = -1));
    return strict_json(arena, text, strlen(text));
}

static int64_t number(const Json *row, const char *key) { return json_get(row, key)->i; }

/* Arrows in the trace: one for each piece of the device's work. */
static int arrows_of(Arena *arena, sn_profile *p) {
    int arrows;
    const char *const text = sn_profile_trace(p);
    const Json *const events = json_get(strict_json(arena, text, strlen(text)), "traceEvents");
    trace_check(events, &arrows);
    return arrows;
}

START_TEST(a7_13_eager_ops_have_their_time_on_the_device) {
    Arena *const arena = arena_new();
    sn_tensor *const x = there(6, 40);
    sn_exp(sn_add(x, x)); /* their programs are made */
    sn_device_synchronize(GPU);
    sn_profile *const p = sn_profile_start(NULL);
    for (int i = 0; i < 3; i++) sn_exp(sn_add(x, x));
    const Json *const table = table_of(arena, p);
    const Json *const add = row_named(table, "aten::add.Tensor", NULL), *const exp =
                                                                            row_named(table, "aten::exp", NULL);
    ck_assert_int_eq(number(add, "calls"), 3);
    ck_assert_int_gt(number(add, "device_self_ns"), 0);
    ck_assert_int_gt(number(exp, "device_total_ns"), 0);
    ck_assert_ptr_nonnull(strstr(sn_profile_table(p, NULL), "device ms"));
    ck_assert_int_eq(arrows_of(arena, p), 6);
    expect_ok();
    arena_free(arena);
    sn_profile_free(p);
}
END_TEST

static sn_status scans(sn_frame *f) {
    sn_tensor *const y = sn_cumsum(sn_tanh(sn_in(f, 0)), 1, SN_F32);
    return sn_out(f, 0, sn_softmax(sn_mul(y, y), -1));
}

static void expect_call(sn_function *fn, sn_tensor *x, const char *step, int steps) {
    Arena *const arena = arena_new();
    sn_profile *const p = sn_profile_start(NULL);
    SN_CALL(fn, x);
    expect_ok();
    const Json *const table = table_of(arena, p);
    const Json *const call = row_named(table, "scans", NULL), *const kernel = row_named(table, step, NULL);
    ck_assert_str_eq(json_string(json_get(kernel, "function")), "scans");
    ck_assert_int_gt(number(kernel, "device_self_ns"), 0);
    ck_assert_int_ge(number(call, "device_total_ns"), number(kernel, "device_self_ns"));
    ck_assert_int_eq(arrows_of(arena, p), steps);
    arena_free(arena);
    sn_profile_free(p);
}

START_TEST(a7_14_arrows_go_to_the_kernels_of_a_call) {
    sn_function *const fn = sn_compile(scans, NULL, SN_COMPILE_OPTIONS(.name = "scans"));
    sn_tensor *const x = there(6, 40);
    for (int call = 0; call < 2; call++) SN_CALL(fn, x);
    expect_call(fn, x, "k0_tanh", 3);
    sn_function_free(fn);
}
END_TEST

START_TEST(a7_14_a_graph_of_launches_is_one_arrow) {
    sn_function *const fn =
        sn_compile(scans, NULL, SN_COMPILE_OPTIONS(.name = "scans", .preset = SN_PRESET_REDUCE_OVERHEAD));
    sn_tensor *const x = there(6, 40);
    for (int call = 0; call < 3; call++) SN_CALL(fn, x);
    expect_call(fn, x, "graph of 3 steps", 1);
    sn_function_free(fn);
}
END_TEST

START_TEST(work_of_streams_is_on_tracks_of_their_own) {
    Arena *const arena = arena_new();
    sn_stream *const side = sn_stream_new(GPU);
    sn_tensor *const x = there(6, 40);
    sn_profile *const p = sn_profile_start(NULL);
    const sn_scope scope = sn_scope_begin();
    sn_stream_use(side);
    sn_exp(x);
    sn_scope_end(scope);
    sn_exp(x);
    const char *const text = sn_profile_trace(p);
    const Json *const events = json_get(strict_json(arena, text, strlen(text)), "traceEvents");
    int tracks = 0;
    for (int i = 0; i < events->n; i++) {
        const Json *const name = json_get(json_get(&events->items[i], "args"), "name");
        tracks += is_phase(&events->items[i], "M") && name && !strncmp(json_string(name), "cuda:0, stream ", 15);
    }
    ck_assert_int_eq(tracks, 2);
    sn_profile_free(p);
    sn_stream_free(side);
    arena_free(arena);
}
END_TEST

/* There and back again: what the device does is copying. */
START_TEST(a7_15_copies_between_devices_are_named) {
    sn_tensor *const host = sn_randn(SN_INTS(512, 512), SN_F32);
    sn_to_device(host, GPU);
    sn_device_synchronize(GPU);
    sn_profile *const p = sn_profile_start(NULL);
    for (int i = 0; i < 5; i++) sn_to_device(sn_to_device(host, GPU), SN_CPU);
    const char *const hints = sn_profile_hints(p);
    ck_assert_msg(strstr(hints, "copy-bound: ") != NULL, "%s%s", hints, sn_profile_table(p, NULL));
    sn_profile_free(p);
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("cuda_profile");
    tcase_add_test(tests, a7_13_eager_ops_have_their_time_on_the_device);
    tcase_add_test(tests, a7_14_arrows_go_to_the_kernels_of_a_call);
    tcase_add_test(tests, a7_14_a_graph_of_launches_is_one_arrow);
    tcase_add_test(tests, work_of_streams_is_on_tracks_of_their_own);
    tcase_add_test(tests, a7_15_copies_between_devices_are_named);
    return suite_run("cuda_profile", tests);
}
