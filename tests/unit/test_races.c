/* test_races.c: threads that compute, log and profile while another one starts, reads and frees profiles, and changes
 * the handler, the topics, the chosen functions and the file of log lines. Built with the sanitizer that sees races,
 * which does not know LLVM: nothing asks for it here. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/unit/contract.h"

enum { THREADS = 3, ROUNDS = 60 };
static _Atomic bool over;

static sn_status waves(sn_frame *f) { return sn_out(f, 0, sn_exp(sn_sin(sn_in(f, 0)))); }

/* Names of its own, which a profile keeps: of ranges, of functions that are freed before it is read. */
static void *works(void *number) {
    char name[32];
    for (int i = 0; !atomic_load(&over); i++) {
        const sn_scope scope = sn_scope_begin();
        sn_tensor *const x = LEAF(1, 8);
        snprintf(name, sizeof name, "f%d of %d", (int)(intptr_t)number, i % 97);
        sn_profile_range(name);
        sn_function *const fn = sn_compile(waves, NULL, SN_COMPILE_OPTIONS(.name = name, .backend = "interpreter"));
        sn_backward(sn_sum(SN_CALL(fn, x)));
        ck_assert_msg(sn_check() == SN_OK, "%s", sn_error_take()->message);
        sn_function_free(fn);
        sn_scope_end(scope);
    }
    return NULL;
}

static void takes(void *context, int level, const char *topic, const char *line) {
    (void)level;
    atomic_fetch_add((_Atomic int *)context, line[0] != '\0' && topic[0] != '\0');
}

static bool has_names(const char *table) { return strstr(table, "f0 of ") || strstr(table, "exp"); }

static void change(int round, const char *path, _Atomic int *lines) {
    static const char *const names[] = {"", "f0 of 1", "f1 of 2,f2 of 3"};
    sn_logging_set(round % 3 ? takes : NULL, &lines[round % 2], round % 2 ? "+compile" : "-compile,-general");
    sn_setting_set("logs_function", names[round % 3]);
    sn_setting_set("logs_file", round % 2 ? path : "");
    ck_assert_msg(sn_check() == SN_OK, "%s", sn_error_take()->message);
}

START_TEST(a_profile_and_the_log_change_beside_threads) {
    pthread_t threads[THREADS];
    _Atomic int lines[2] = {0};
    char path[] = "/tmp/sinter-races-XXXXXX";
    close(mkstemp(path));
    sn_setting_set("logs_file", path);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, works, (void *)(intptr_t)i), 0);
    int n_named = 0;
    for (int round = 0; round < ROUNDS; round++) {
        sn_profile *const p = sn_profile_start(NULL);
        ck_assert_msg(p != NULL, "%s", sn_error_take()->message);
        change(round, path, lines);
        usleep(2000);
        sn_profile_stop(p);
        n_named += has_names(sn_profile_table(p, NULL));
        sn_profile_free(p);
    }
    atomic_store(&over, true);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    sn_logging_set(NULL, NULL, "-all");
    sn_setting_set("logs_file", "");
    unlink(path);
    ck_assert_int_gt(n_named, 0);
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("races");
    tcase_add_test(tests, a_profile_and_the_log_change_beside_threads);
    tcase_set_timeout(tests, 120);
    return suite_run("test_races", tests);
}
