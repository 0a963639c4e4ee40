/* test_cuda_background.c: code for a CUDA device that is made while the program goes on (option background): eager's
 * kernels run until NVRTC is done, with the same bits, and a fork meanwhile leaves the child its CPU. */
#include <check.h>
#include <execinfo.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "runtime/core/background.h"
#include "tests/unit/public_check.h"
#include "tests/unit/suite.h"

enum { GPU = SN_CUDA(0) };

static const BackgroundTest held = {.hold = true}, slow = {.slow_ns = 50000000}, plain = {0};

static sn_status body(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    return sn_out(f, 0, sn_softmax(sn_add(sn_mul_scalar(x, sn_float(0.7)), x), -1));
}

static sn_path call(sn_function *fn, sn_device device) {
    sn_tensor *const x = sn_reshape(range(60), SN_INTS(5, 12));
    sn_tensor *const got = SN_CALL(fn, sn_to_device(x, device));
    sn_call_report report = {.size = sizeof report};
    expect_ok();
    sn_last_call(&report);
    sn_tensor *const want = sn_softmax(sn_add(sn_mul_scalar(x, sn_float(0.7)), x), -1);
    ck_assert_msg(sn_equal(sn_to_device(got, SN_CPU), want), "%s is not %s", sn_repr(got), sn_repr(want));
    return report.path;
}

static sn_function *compile(sn_preset preset) {
    sn_function *const fn = sn_compile(body, NULL, SN_COMPILE_OPTIONS(.background = true, .preset = preset));
    ck_assert_ptr_nonnull(fn);
    return fn;
}

static sn_stats stats_of(sn_function *fn) {
    sn_stats stats = {.size = sizeof stats};
    sn_function_stats(fn, &stats);
    return stats;
}

static void swapped_in(sn_preset preset) {
    sn_function *const fn = compile(preset);
    background_test(held);
    for (int i = 0; i < 3; i++) ck_assert_int_eq(call(fn, GPU), SN_PATH_EAGER);
    ck_assert_int_eq(stats_of(fn).ops_waiting, 6);
    background_test(plain);
    ck_assert_int_eq(sn_function_wait(fn), SN_OK);
    for (int i = 0; i < 3; i++) ck_assert_int_eq(call(fn, GPU), SN_PATH_COMPILED);
    const sn_stats stats = stats_of(fn);
    ck_assert_int_eq(stats.ops_generated, 9);
    ck_assert_int_eq(stats.ops_eager + stats.ops_interpreted, 0);
    ck_assert_int_eq(stats.compiles, 1);
    ck_assert_int_eq(stats.kernels, 1);
    sn_function_free(fn);
}

START_TEST(code_is_swapped_in) {
    swapped_in(SN_PRESET_DEFAULT);
    swapped_in(SN_PRESET_REDUCE_OVERHEAD);
}
END_TEST

enum { CHILD_SECONDS = 300, FRAMES = 100, HUNG = 64 };

/* A child that waits for what no thread of it will give says where. */
static void say_where(int unused) {
    (void)unused;
    void *at[FRAMES];
    backtrace_symbols_fd(at, backtrace(at, FRAMES), STDERR_FILENO);
    _exit(HUNG);
}

/* The child's GPU is lost with the fork; its CPU compiles in the foreground. */
static void in_child(sn_function *fn, sn_tensor *there) {
    alarm(CHILD_SECONDS);
    const bool refused = !SN_CALL(fn, there) && strstr(sn_error_take()->message, "forked after CUDA's first use");
    call(fn, SN_CPU);
    const bool compiled = call(fn, SN_CPU) == SN_PATH_COMPILED;
    _exit(refused && compiled && sn_function_wait(fn) == SN_OK ? 0 : 1 + refused + 2 * compiled);
}

static void forks_while(BackgroundTest how) {
    if (!CAN_FORK_BESIDE_THREADS) return;
    sn_function *const fn = compile(SN_PRESET_DEFAULT);
    sn_tensor *const there = sn_to_device(sn_reshape(range(60), SN_INTS(5, 12)), GPU);
    background_test(how);
    call(fn, GPU);
    backtrace(&(void *){NULL}, 1); /* loads what it needs, here */
    signal(SIGALRM, say_where);
    while (how.slow_ns && !background_counts().running) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    const pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (!child) in_child(fn, there);
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", (unsigned)status);
    background_test(plain);
    ck_assert_int_eq(sn_function_wait(fn), SN_OK);
    ck_assert_int_eq(call(fn, GPU), SN_PATH_COMPILED);
    sn_function_free(fn);
}

START_TEST(a_fork_while_code_is_queued) { forks_while(held); }
END_TEST
START_TEST(a_fork_while_code_is_made) { forks_while(slow); }
END_TEST

int main(void) {
    TCase *const tests = tcase_create("cuda_background");
    tcase_set_timeout(tests, 60); /* a GPU's first context takes its time */
    tcase_add_test(tests, code_is_swapped_in);
    tcase_add_test(tests, a_fork_while_code_is_queued);
    tcase_add_test(tests, a_fork_while_code_is_made);
    return suite_run("test_cuda_background", tests);
}
