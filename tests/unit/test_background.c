/* test_background.c: code that is made while the program goes on (option background): the bits are eager's before and
 * after it comes, calls are counted apart until then, and whatever happens to function, process or memory while the
 * worker compiles, nothing is lost. */
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/bail.h"
#include "runtime/core/background.h"
#include "tests/unit/contract.h"
#include "tests/unit/explained.h"

static const BackgroundTest held = {.hold = true}, slow = {.slow_ns = 50000000}, plain = {0};

static void pass_ms(int64_t ms) { nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL); }

static void until_running(void) {
    while (!background_counts().running) pass_ms(1);
}

typedef struct Host {
    double number; /* code of its own by number: nothing is found compiled */
    int bodies;
} Host;

static sn_status numbered(sn_frame *f) {
    Host *const host = sn_closure(f);
    host->bodies++;
    sn_tensor *const h = sn_mul_scalar(sn_in(f, 0), sn_float(host->number));
    return sn_out(f, 0, sn_softmax(sn_add(h, sn_in(f, 0)), -1));
}

static Twin twin_behind(sn_body body, Host *host, sn_compile_mode mode) {
    static Host others[8]; /* of the eager ones */
    static int n;
    Host *const other = &others[n++ % 8];
    *other = *host;
    return twin_new(body, host, other, SN_COMPILE_OPTIONS(.background = true, .mode = mode));
}

static void expect_waits(void) {
    ck_assert_int_eq(last_path(), SN_PATH_EAGER);
    ck_assert_str_eq(last_reason(), "its code is being made in the background");
}

static void call_waits(Twin twin, uint64_t seed) {
    TWIN_CALL(twin, F32(seed, 5, 40));
    expect_waits();
}

static void call_compiled(Twin twin, uint64_t seed) {
    TWIN_CALL(twin, F32(seed, 5, 40));
    ck_assert_msg(last_path() == SN_PATH_COMPILED, "path %d: %s", last_path(), last_reason());
}

static void wait_for_code(sn_function *fn) { ck_assert_int_eq(sn_function_wait(fn), SN_OK); }

/* The swap ------------------------------------------------------------------------------------ */

START_TEST(calls_run_eagerly_until_their_code_is_there) {
    Host host = {.number = 1.5};
    const Twin twin = twin_behind(numbered, &host, SN_COMPILE_VERIFY);
    background_test(held);
    TWIN_CALL(twin, F32(0, 5, 40));
    for (int i = 1; i < 4; i++) call_waits(twin, (uint64_t)i);
    sn_stats stats = stats_of(twin.fast);
    ck_assert_int_eq(stats.ops_waiting, 9);
    ck_assert_int_eq(stats.ops_eager + stats.ops_interpreted + stats.ops_generated, 0);
    ck_assert_int_eq(stats.compiles, 1);
    expect_explained(twin.fast, "9 ops ran eagerly while code was made\n");
    expect_explained(twin.fast, "  its code is being made in the background\n");
    ck_assert_ptr_null(strstr(sn_explain(twin.fast), "not from a compiled call sequence"));
    background_test(plain);
    wait_for_code(twin.fast);
    call_compiled(twin, 4);
    stats = stats_of(twin.fast);
    ck_assert_int_eq(stats.ops_waiting, 9);
    ck_assert_int_eq(stats.ops_generated, 3);
    ck_assert_int_eq(stats.ops_eager, 0);
    ck_assert_int_eq(stats.compiles, 1);
    ck_assert_int_eq(stats.graphs, 1);
    ck_assert_int_gt(stats.kernels, 0);
    expect_explained(twin.fast, "compiled share 1.0000");
    ck_assert_ptr_null(strstr(sn_explain(twin.fast), "is being made"));
    ck_assert_ptr_nonnull(strstr(sn_explain_json(twin.fast), "\"ops_waiting\": 9"));
    twin_free(twin);
}
END_TEST

/* While the code for other sizes is made, that of the first ones runs. */
START_TEST(a_new_case_waits_beside_one_that_runs) {
    Host host = {.number = 2.5};
    const Twin twin = twin_behind(numbered, &host, SN_COMPILE_VERIFY);
    TWIN_CALL(twin, F32(0, 5, 40));
    wait_for_code(twin.fast);
    background_test(held);
    TWIN_CALL(twin, F32(1, 6, 40));
    TWIN_CALL(twin, F32(2, 6, 40));
    expect_waits();
    call_compiled(twin, 3);
    background_test(plain);
    wait_for_code(twin.fast);
    TWIN_CALL(twin, F32(4, 7, 40)); /* of any size now */
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    ck_assert_int_eq(stats_of(twin.fast).compiles, 2);
    twin_free(twin);
}
END_TEST

START_TEST(replay_learns_when_there_is_code) {
    Host host = {.number = 3.5};
    const Twin twin = twin_behind(numbered, &host, SN_COMPILE_REPLAY);
    background_test(held);
    TWIN_CALL(twin, F32(0, 5, 40));
    call_waits(twin, 1);
    ck_assert_int_eq(host.bodies, 2);
    background_test(plain);
    wait_for_code(twin.fast);
    for (uint64_t i = 2; i < 6; i++) call_compiled(twin, i); /* two of them teach that its argument is meant */
    ck_assert_int_eq(host.bodies, 4);
    twin_free(twin);
}
END_TEST

static sn_status two_results(sn_frame *f) {
    const Host *const host = sn_closure(f);
    sn_tensor *const h = sn_mul_scalar(sn_tanh(sn_mul(sn_in(f, 0), sn_in(f, 1))), sn_float(host->number));
    sn_out(f, 0, h);
    return sn_out(f, 1, sn_sum_dim(sn_exp(h), SN_INTS(0), false));
}

/* both: a gradient comes to each result. */
static sn_tensor *gradient(sn_function *fn, uint64_t seed, bool both) {
    sn_tensor *const x = LEAF(seed, 4, 9), *const w = LEAF(seed + 1, 4, 9), *out[2];
    ck_assert_int_eq(sn_call(fn, (sn_tensor *[]){x, w}, 2, out, 2), SN_OK);
    sn_tensor *root = sn_sum(out[0]);
    if (both) root = sn_add(root, sn_sum(out[1]));
    ck_assert_int_eq(sn_backward(root), SN_OK);
    return sn_add(sn_grad(x), sn_grad(w));
}

static void same_gradient(Twin twin, uint64_t seed, bool both) {
    ck_assert(same_bits(gradient(twin.fast, seed, both), gradient(twin.eager, seed, both)));
}

START_TEST(gradients_before_and_after) {
    Host host = {.number = 4.5};
    const Twin twin = twin_behind(two_results, &host, SN_COMPILE_VERIFY);
    background_test(held);
    for (uint64_t i = 0; i < 3; i++) same_gradient(twin, i, true);
    expect_waits();
    background_test(plain);
    wait_for_code(twin.fast);
    same_gradient(twin, 3, true);
    wait_for_code(twin.fast);
    expect_explained(twin.fast, "backward compiled for 1 other key:"); /* for a gradient of strides 0 */
    background_test(held);
    same_gradient(twin, 4, false); /* a backward of another key runs as eager's nodes until there is code */
    ck_assert_int_eq(background_counts().queued, 1);
    same_gradient(twin, 5, false);
    expect_explained(twin.fast, "for 1 other key:");
    background_test(plain);
    wait_for_code(twin.fast);
    same_gradient(twin, 6, false);
    expect_explained(twin.fast, "backward compiled for 2 other keys:");
    twin_free(twin);
}
END_TEST

/* Its results keep the variant, and its backward's code is made after the function is gone. */
START_TEST(a_backward_after_the_function_was_freed) {
    Host host = {.number = 4.25};
    const Twin twin = twin_behind(two_results, &host, SN_COMPILE_VERIFY);
    same_gradient(twin, 0, true);
    wait_for_code(twin.fast);
    sn_tensor *const x = LEAF(7, 4, 9), *const w = LEAF(8, 4, 9), *out[2];
    ck_assert_int_eq(sn_call(twin.fast, (sn_tensor *[]){x, w}, 2, out, 2), SN_OK);
    sn_tensor *const want = gradient(twin.eager, 7, false);
    twin_free(twin);
    ck_assert_int_eq(sn_backward(sn_sum(out[0])), SN_OK);
    ck_assert(same_bits(sn_add(sn_grad(x), sn_grad(w)), want));
    background_wait(0);
    ck_assert_int_eq(sn_check(), SN_OK);
}
END_TEST

/* Threads ------------------------------------------------------------------------------------- */

enum { CALLERS = 3, CALLS = 12 };

static void *call_often(void *function) {
    for (int i = 0; i < CALLS; i++) {
        sn_tensor *const x = F32(i, 5, 40), *const got = SN_CALL(function, x);
        ck_assert_ptr_nonnull(got);
        ck_assert(same_bits(got, sn_softmax(sn_add(sn_mul_scalar(x, sn_float(5.5)), x), -1)));
        sn_scope_end(SN_SCOPE_ROOT);
        pass_ms(1);
    }
    return NULL;
}

static sn_status shared(sn_frame *f) {
    sn_tensor *const h = sn_mul_scalar(sn_in(f, 0), sn_float(5.5));
    return sn_out(f, 0, sn_softmax(sn_add(h, sn_in(f, 0)), -1));
}

START_TEST(threads_call_what_is_swapped_in) {
    sn_function *const fn = sn_compile(shared, NULL, SN_COMPILE_OPTIONS(.background = true));
    pthread_t threads[CALLERS];
    for (int i = 0; i < CALLERS; i++) pthread_create(&threads[i], NULL, call_often, fn);
    for (int i = 0; i < 20; i++) {
        ck_assert_ptr_nonnull(sn_explain(fn));
        pass_ms(1);
    }
    wait_for_code(fn);
    for (int i = 0; i < CALLERS; i++) pthread_join(threads[i], NULL);
    const sn_stats stats = stats_of(fn);
    ck_assert_int_eq(stats.compiles, 1);
    ck_assert_int_eq(stats.calls, CALLERS * CALLS);
    sn_function_free(fn);
}
END_TEST

/* Ends ---------------------------------------------------------------------------------------- */

START_TEST(a_function_is_freed_while_its_code_is_made) {
    Host host = {.number = 6.5};
    const Twin runs = twin_behind(numbered, &host, SN_COMPILE_VERIFY);
    background_test(slow);
    TWIN_CALL(runs, F32(0, 5, 40));
    until_running();
    twin_free(runs);
    ck_assert_int_eq(background_counts().done, 1);
    background_test(held);
    const Twin queued = twin_behind(numbered, &host, SN_COMPILE_VERIFY);
    TWIN_CALL(queued, F32(0, 5, 40));
    ck_assert_int_eq(background_counts().queued, 1);
    twin_free(queued);
    ck_assert_int_eq(background_counts().queued, 0);
    background_test(plain);
    background_wait(0);
    ck_assert_int_eq(background_counts().done, 1);
}
END_TEST

START_TEST(shutting_down_waits_for_code) {
    Host first = {.number = 7.5}, second = {.number = 7.25};
    const Twin runs = twin_behind(numbered, &first, SN_COMPILE_VERIFY);
    background_test(slow);
    TWIN_CALL(runs, F32(0, 5, 40));
    const Twin queued = twin_behind(numbered, &second, SN_COMPILE_VERIFY);
    TWIN_CALL(queued, F32(0, 5, 40));
    ck_assert_int_eq(sn_shutdown(), SN_OK);
    background_test(plain);
    call_compiled(runs, 1);
    call_compiled(queued, 1);
    TWIN_CALL(runs, F32(1, 6, 40)); /* with another worker */
    wait_for_code(runs.fast);
    TWIN_CALL(runs, F32(1, 6, 40));
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    twin_free(runs);
    twin_free(queued);
}
END_TEST

static Host leaving; /* what a process has when it exits */
static Twin left;

/* In a process of its own: it exits so long after the call that compiles. */
static void exits_after(BackgroundTest how, int64_t ms) {
    const pid_t child = fork();
    if (!child) {
        leaving.number = 8.5;
        left = twin_behind(numbered, &leaving, SN_COMPILE_VERIFY);
        background_test(how);
        TWIN_CALL(left, F32(0, 5, 40));
        if (how.slow_ns) until_running();
        pass_ms(ms);
        exit(sn_check() ? 1 : 7);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 7, "after %d ms: status %x", (int)ms, (unsigned)status);
}

START_TEST(a_process_exits_while_code_is_made) {
    exits_after(slow, 0);
    exits_after(held, 0);
    for (int64_t ms = 0; ms < 24; ms += 3) exits_after(plain, ms); /* while the compiler is opened, and later */
}
END_TEST

/* Forking ------------------------------------------------------------------------------------- */

/* A child that hangs says where, instead of a test that times out. */
static void say_where(int signal) {
    void *calls[64];
    (void)signal;
    backtrace_symbols_fd(calls, backtrace(calls, 64), STDERR_FILENO);
    _exit(9);
}

static void in_child(Twin twin, int done) {
    void *first[1];
    backtrace(first, 1); /* opens what it needs before something hangs */
    signal(SIGALRM, say_where);
    alarm(300);
    Host host = {.number = 9.75};
    const Twin fresh = twin_behind(numbered, &host, SN_COMPILE_VERIFY);
    background_test(plain);
    TWIN_CALL(twin, F32(2, 5, 40));
    call_compiled(twin, 3);
    TWIN_CALL(fresh, F32(0, 5, 40));
    call_compiled(fresh, 1); /* made at the end of the call before */
    ck_assert_int_eq(stats_of(fresh.fast).ops_waiting, 0);
    _exit(background_counts().done != done || sn_check() ? 1 : 7);
}

static void expect_child(Twin twin) {
    const int done = background_counts().done + background_counts().running;
    const pid_t child = fork();
    if (!child) in_child(twin, done);
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 7, "status %x", (unsigned)status);
}

static void forks_while(BackgroundTest how, double number) {
    if (!CAN_FORK_BESIDE_THREADS) return;
    Host host = {.number = number};
    const Twin twin = twin_behind(numbered, &host, SN_COMPILE_VERIFY);
    background_test(how);
    TWIN_CALL(twin, F32(0, 5, 40));
    if (how.slow_ns) until_running();
    expect_child(twin);
    background_test(plain);
    wait_for_code(twin.fast);
    call_compiled(twin, 1);
    twin_free(twin);
}

START_TEST(a_fork_while_code_is_queued) { forks_while(held, 9.5); }
END_TEST
START_TEST(a_fork_while_code_is_made) { forks_while(slow, 9.25); }
END_TEST

/* Failing ------------------------------------------------------------------------------------- */

/* The n-th allocation of the job fails, and all after it. False: it has less. */
static bool runs_out_at(int n) {
    Host host = {.number = 10 + n};
    const Twin twin = twin_behind(numbered, &host, SN_COMPILE_VERIFY);
    background_test((BackgroundTest){.fail_after = n + 1});
    TWIN_CALL(twin, F32(0, 5, 40));
    wait_for_code(twin.fast);
    background_test(plain);
    ck_assert_int_eq(sn_check(), SN_OK);
    for (uint64_t i = 1; i < 3; i++) TWIN_CALL(twin, F32(i, 5, 40));
    const bool failed = last_path() != SN_PATH_COMPILED;
    if (failed) {
        ck_assert_int_eq(last_path(), SN_PATH_EAGER);
        expect_explained(twin.fast, ": out of memory");
        expect_explained(twin.fast, last_reason());
        expect_explained(twin.fast, "not from a compiled call sequence: 6 ops: its segment could not be compiled");
        ck_assert_ptr_null(strstr(sn_explain(twin.fast), "interpreted, hit"));
    }
    twin_free(twin);
    return failed;
}

START_TEST(memory_runs_out_in_the_worker) {
    int n = 0;
    sn_logging_set(NULL, NULL, "-compile");
    while (runs_out_at(n)) n++;
    ck_assert_int_gt(n, 10);
}
END_TEST

static void fails_at(const char *point, double number) {
    Host host = {.number = number};
    const Twin twin = twin_behind(numbered, &host, SN_COMPILE_VERIFY);
    failpoint_set(point);
    TWIN_CALL(twin, F32(0, 5, 40));
    wait_for_code(twin.fast);
    failpoint_set(NULL);
    ck_assert_int_eq(sn_check(), SN_OK);
    TWIN_CALL(twin, F32(1, 5, 40));
    ck_assert_int_eq(last_path(), SN_PATH_INTERPRETED);
    char says[64];
    snprintf(says, sizeof says, "no generated code: %s: ", point);
    expect_explained(twin.fast, says);
    ck_assert_int_eq(stats_of(twin.fast).ops_generated, 0);
    twin_free(twin);
}

START_TEST(a_stage_fails_in_the_worker) {
    fails_at("codegen", 100.5);
    fails_at("llvm_verify", 101.5);
    fails_at("emit", 102.5);
    fails_at("load", 103.5);
    fails_at("exec_memory", 104.5);
}
END_TEST

START_TEST(full_graph_hears_of_it) {
    Host host = {.number = 105.5};
    sn_function *const fn = sn_compile(numbered, &host, SN_COMPILE_OPTIONS(.background = true, .full_graph = true));
    background_test(held);
    ck_assert_ptr_nonnull(SN_CALL(fn, F32(0, 5, 40)));
    background_test((BackgroundTest){.fail_after = 1});
    wait_for_code(fn);
    background_test(plain);
    ck_assert_ptr_null(SN_CALL(fn, F32(1, 5, 40)));
    expect_error(SN_ERR_MEMORY, "full_graph, but nothing was compiled: out of memory");
    sn_function_free(fn);
}
END_TEST

/* Saving waits for the code, which the next call runs: what a file has is what calls have run. */
START_TEST(saving_waits_for_code) {
    char path[64];
    snprintf(path, sizeof path, "test_background.%d.plan", (int)getpid());
    Host host = {.number = 107.5};
    const Twin twin = twin_behind(numbered, &host, SN_COMPILE_REPLAY);
    background_test(slow);
    TWIN_CALL(twin, F32(1, 5, 40));
    call_waits(twin, 2);
    ck_assert_int_eq(sn_plan_save(twin.fast, path, NULL), SN_ERR_UNSUPPORTED);
    expect_error(SN_ERR_UNSUPPORTED, "no call has run the code that was made in the background: call it once more");
    call_compiled(twin, 3); /* it is there */
    call_compiled(twin, 4);
    ck_assert_msg(sn_plan_save(twin.fast, path, NULL) == SN_OK, "%s", sn_error_take()->message);
    background_test(plain);
    sn_function *const loaded = sn_plan_load(path, NULL);
    ck_assert_msg(loaded != NULL, "%s", sn_error_take()->message);
    remove(path);
    sn_tensor *const x = F32(5, 5, 40);
    ck_assert(same_bits(SN_CALL(loaded, x), SN_CALL(twin.eager, x)));
    sn_function_free(loaded);
    twin_free(twin);
}
END_TEST

START_TEST(nothing_to_wait_for) {
    Host host = {.number = 106.5};
    sn_function *const fn = sn_compile(numbered, &host, NULL);
    wait_for_code(fn);
    ck_assert_int_eq(sn_function_wait(NULL), SN_ERR_ARGUMENT);
    expect_error(SN_ERR_ARGUMENT, "sn_function_wait");
    sn_function_free(fn);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        calls_run_eagerly_until_their_code_is_there,
        a_new_case_waits_beside_one_that_runs,
        replay_learns_when_there_is_code,
        gradients_before_and_after,
        a_backward_after_the_function_was_freed,
        threads_call_what_is_swapped_in,
        a_function_is_freed_while_its_code_is_made,
        shutting_down_waits_for_code,
        a_process_exits_while_code_is_made,
        a_fork_while_code_is_queued,
        a_fork_while_code_is_made,
        memory_runs_out_in_the_worker,
        a_stage_fails_in_the_worker,
        full_graph_hears_of_it,
        saving_waits_for_code,
        nothing_to_wait_for,
    };
    return contract_main("test_background", tests, (int)(sizeof tests / sizeof *tests));
}
