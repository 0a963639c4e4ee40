/* test_eager_code.c: code of eager's programs (setting eager_compile): asked for once a program has cost enough, made
 * by the worker, taken by the next call; with the interpreter's bits before and after, and without it where there is no
 * thread, no memory or no LLVM. Costs are counted by a failpoint that makes each call cost enough, not by a clock. */
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ir/op_ids.h"
#include "runtime/base/alloc.h"
#include "runtime/base/bail.h"
#include "runtime/core/background.h"
#include "runtime/core/state.h"
#include "runtime/eager/eager.h"
#include "tests/unit/contract.h"

static const BackgroundTest held = {.hold = true}, plain = {0};

/* From now on; with nothing of the tests before. */
static void begin(const char *when, const char *failpoints) {
    eager_cache_free(state_get());
    ck_assert_int_eq(sn_setting_set("eager_compile", when), SN_OK);
    failpoint_set(failpoints);
}

static void end(void) {
    background_test(plain);
    background_wait(0);
    begin("never", NULL);
}

static EagerCodeCounts since(EagerCodeCounts before) {
    const EagerCodeCounts now = eager_code_counts();
    return (EagerCodeCounts){now.asked - before.asked, now.ready - before.ready, now.failed - before.failed};
}

static void expect_counts(EagerCodeCounts before, int64_t asked, int64_t ready, int64_t failed) {
    const EagerCodeCounts n = since(before);
    ck_assert_int_eq(n.asked, asked);
    ck_assert_int_eq(n.ready, ready);
    ck_assert_int_eq(n.failed, failed);
}

static sn_tensor *normed(sn_tensor *x) { return sn_layer_norm_ex(x, SN_INTS(40), NULL, NULL, 1e-5, false); }

/* By the interpreter, whose programs the tests' own do not share. */
static sn_tensor *wanted(sn_tensor *x) {
    begin("never", NULL);
    sn_tensor *const y = normed(x);
    begin("auto", "eager_costs");
    return y;
}

START_TEST(a_costly_program_gets_code_once) {
    sn_tensor *const x = F32(1, 5, 40), *const want = wanted(x);
    const EagerCodeCounts before = eager_code_counts();
    background_test(held);
    for (int i = 0; i < 3; i++) ck_assert(same_bits(normed(x), want));
    expect_counts(before, 1, 0, 0);
    background_test(plain);
    background_wait(0);
    expect_counts(before, 1, 1, 0);
    const int64_t compiled = execute_counts()->launches;
    for (int i = 0; i < 3; i++) ck_assert(same_bits(normed(x), want));
    ck_assert_int_gt(execute_counts()->launches, compiled);
    expect_counts(before, 1, 1, 0);
    end();
}
END_TEST

START_TEST(a_cheap_program_asks_for_nothing) {
    const EagerCodeCounts before = eager_code_counts();
    const int done = background_counts().done;
    begin("auto", NULL);
    sn_tensor *const x = F32(1, 5, 40);
    for (int i = 0; i < 5; i++) normed(x);
    begin("never", "eager_costs");
    for (int i = 0; i < 5; i++) normed(x);
    expect_counts(before, 0, 0, 0);
    ck_assert_int_eq(background_counts().done, done);
    end();
}
END_TEST

START_TEST(always_is_at_once) {
    sn_tensor *const x = F32(2, 7, 40), *const want = wanted(x);
    const EagerCodeCounts before = eager_code_counts();
    begin("always", NULL);
    ck_assert(same_bits(normed(x), want));
    expect_counts(before, 1, 1, 0);
    end();
}
END_TEST

/* What was made stays for the day that the setting says otherwise. */
START_TEST(never_is_at_once_too) {
    EagerProgram program = {.run = (Executable *)1, .coded = (Executable *)2};
    begin("always", NULL);
    ck_assert_ptr_eq(eager_program_ready(&program, "an op"), program.coded);
    sn_setting_set("eager_compile", "never");
    ck_assert_ptr_eq(eager_program_ready(&program, "an op"), program.run);
    end();
}
END_TEST

/* A program for any size: the first sizes of a key have programs of their own. */
START_TEST(one_code_serves_all_sizes) {
    begin("always", "one_size");
    const EagerCodeCounts before = eager_code_counts();
    sn_tensor *got[6];
    for (int64_t n = 0; n < 6; n++) got[n] = sn_softmax(F32((uint64_t)n, n + 3, 40), -1);
    expect_counts(before, 1, 1, 0);
    begin("never", NULL);
    for (int64_t n = 0; n < 6; n++) ck_assert(same_bits(got[n], sn_softmax(F32((uint64_t)n, n + 3, 40), -1)));
    end();
}
END_TEST

/* Numbers that vary are parameters of the code. */
START_TEST(one_code_serves_all_numbers) {
    sn_tensor *const x = F32(3, 5, 40);
    begin("always", NULL);
    const EagerCodeCounts before = eager_code_counts();
    sn_tensor *got[4];
    for (int i = 0; i < 4; i++) got[i] = sn_layer_norm_ex(x, SN_INTS(40), NULL, NULL, 0.1 + 0.13 * i, false);
    expect_counts(before, 1, 1, 0);
    begin("never", NULL);
    for (int i = 0; i < 4; i++)
        ck_assert(same_bits(got[i], sn_layer_norm_ex(x, SN_INTS(40), NULL, NULL, 0.1 + 0.13 * i, false)));
    end();
}
END_TEST

/* The values' own error comes from the code as well. */
START_TEST(checks_fail_the_same) {
    const int64_t rows[] = {0, 9};
    sn_tensor *const x = F32(4, 5, 40), *const at = sn_from_data(rows, SN_INTS(2), SN_I64);
    begin("never", NULL);
    ck_assert_ptr_null(sn_index_select(x, 0, at));
    char want[512];
    snprintf(want, sizeof want, "%s", sn_error_take()->message);
    begin("always", NULL);
    for (int i = 0; i < 2; i++) {
        ck_assert_ptr_null(sn_index_select(x, 0, at));
        ck_assert_str_eq(sn_error_take()->message, want);
    }
    end();
}
END_TEST

START_TEST(what_is_dropped_is_not_made) {
    const EagerCodeCounts before = eager_code_counts();
    background_test(held);
    begin("auto", "eager_costs");
    normed(F32(1, 5, 40));
    ck_assert_int_eq(background_counts().queued, 1);
    eager_cache_free(state_get());
    ck_assert_int_eq(background_counts().queued, 0);
    expect_counts(before, 1, 0, 0);
    end();
}
END_TEST

START_TEST(what_is_dropped_while_it_is_made_is_waited_for) {
    const EagerCodeCounts before = eager_code_counts();
    background_test((BackgroundTest){.slow_ns = 50000000});
    begin("auto", "eager_costs");
    normed(F32(1, 5, 40));
    while (!background_counts().running) usleep(100);
    eager_cache_free(state_get());
    expect_counts(before, 1, 1, 0);
    end();
}
END_TEST

/* A child of a process with a worker, and of one without. */
static void forks(const char *when, sn_tensor *x, sn_tensor *want) {
    const pid_t child = fork();
    if (!child) {
        background_test(held); /* a thread would do nothing, and what it is to do is counted */
        begin(when, "eager_costs");
        bool same = true;
        for (int i = 0; i < 3; i++) same &= same_bits(normed(x), want);
        const BackgroundCounts now = background_counts();
        _exit(!same || now.queued || now.running);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}

START_TEST(a_child_starts_no_thread) {
    sn_tensor *const x = F32(5, 5, 40), *const want = wanted(x);
    background_shutdown();
    forks("auto", x, want);
    forks("always", x, want);
    normed(x);
    background_wait(0);
    forks("auto", x, want);
    forks("always", x, want);
    end();
}
END_TEST

static bool runs_out_at(int n, sn_tensor *x, sn_tensor *want) {
    const EagerCodeCounts before = eager_code_counts();
    background_test((BackgroundTest){.fail_after = n + 1});
    begin("auto", "eager_costs");
    ck_assert(same_bits(normed(x), want));
    background_wait(0);
    background_test(plain);
    ck_assert(same_bits(normed(x), want));
    ck_assert_int_eq(sn_check(), SN_OK);
    ck_assert_int_eq(since(before).asked, 1);
    return since(before).failed;
}

START_TEST(memory_runs_out_in_the_worker) {
    sn_tensor *const x = F32(6, 5, 40), *const want = wanted(x);
    int n = 0;
    while (runs_out_at(n, x, want)) n++;
    ck_assert_int_gt(n, 3);
    end();
}
END_TEST

START_TEST(without_code_the_interpreter_stays) {
    sn_tensor *const x = F32(7, 5, 40), *const want = wanted(x);
    const EagerCodeCounts before = eager_code_counts();
    begin("always", "codegen");
    for (int i = 0; i < 3; i++) ck_assert(same_bits(normed(x), want));
    expect_counts(before, 1, 0, 1);
    end();
}
END_TEST

static void *norms(void *x) {
    sn_setting_set("eager_compile", "auto");
    sn_tensor *y = NULL;
    bool same = true;
    const sn_scope scope = sn_scope_begin();
    for (int i = 0; i < 50; i++) {
        sn_tensor *const next = normed(x);
        same &= !y || same_bits(y, next);
        y = next;
    }
    sn_scope_end(scope);
    return same ? x : NULL;
}

START_TEST(threads_have_programs_of_their_own) {
    sn_tensor *const x = F32(8, 5, 40);
    pthread_t threads[4];
    begin("auto", "eager_costs");
    for (int i = 0; i < 4; i++) ck_assert_int_eq(pthread_create(&threads[i], NULL, norms, x), 0);
    for (int i = 0; i < 4; i++) {
        void *same;
        pthread_join(threads[i], &same);
        ck_assert_ptr_eq(same, x);
    }
    end();
}
END_TEST

START_TEST(its_values_are_words) {
    ck_assert_int_eq(sn_setting_set("eager_compile", "sometimes"), SN_ERR_ARGUMENT);
    ck_assert_str_eq(sn_error_take()->message, "setting eager_compile: 'sometimes' is not one of never, auto, always");
    end();
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        a_costly_program_gets_code_once,
        a_cheap_program_asks_for_nothing,
        always_is_at_once,
        never_is_at_once_too,
        one_code_serves_all_sizes,
        one_code_serves_all_numbers,
        checks_fail_the_same,
        what_is_dropped_is_not_made,
        what_is_dropped_while_it_is_made_is_waited_for,
        a_child_starts_no_thread,
        memory_runs_out_in_the_worker,
        without_code_the_interpreter_stays,
        threads_have_programs_of_their_own,
        its_values_are_words,
    };
    return contract_main("test_eager_code", tests, (int)(sizeof tests / sizeof *tests));
}
