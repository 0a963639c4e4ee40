/* suite.h: the end of a test program's main: its one test case as a suite. Returns the exit status.
 * CK_RUN_CASE, CK_FORK and CK_VERBOSITY of Check's environment count. No code is kept on disk but by tests that say
 * so. */
#ifndef SINTER_TESTS_UNIT_SUITE_H
#define SINTER_TESTS_UNIT_SUITE_H
#include <check.h>
#include <stdlib.h>

/* GCC's address sanitizer takes no lock of its allocator's before a fork: where another thread is in it then, the child
 * waits for that thread for ever. Tests that fork beside working threads are for other builds. */
#ifdef __SANITIZE_ADDRESS__
enum { CAN_FORK_BESIDE_THREADS = 0 };
#else
enum { CAN_FORK_BESIDE_THREADS = 1 };
#endif

static inline int suite_run(const char *name, TCase *tests) {
    setenv("SINTER_CACHE_DIR", "off", 1);
    Suite *const suite = suite_create(name);
    suite_add_tcase(suite, tests);
    SRunner *const runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}

#endif
