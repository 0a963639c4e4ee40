/* background.h: work that a thread of the library does while the program goes on: code of compiled functions
 * (sn_compile_options.background).
 *
 *   background_run(job)       false: there is no worker; who asks does it
 *   background_wait(owner)    the owner's jobs are done
 *   background_withdraw(owner)   those that are begun are done, the others will not be
 *
 * One worker serves the process, in order: compilers take locks of their own. It starts with the first job. A job runs
 * in a state of its own, with the settings of who gave it. At the program's end and before a fork the job that runs is
 * waited for, so that no compiler is left in the middle. After either there is no worker, and jobs that were not begun
 * are done by who waits for them. */
#ifndef SINTER_RUNTIME_BACKGROUND_H
#define SINTER_RUNTIME_BACKGROUND_H
#include "runtime/core/state.h"

typedef struct BackgroundJob BackgroundJob;
struct BackgroundJob {
    uint64_t owner;
    void (*make)(BackgroundJob *job); /* what it raises is nobody's */
    void (*drop)(BackgroundJob *job); /* after `make` or in its place; frees it */
    sn_state *state;                  /* background_run's, as the next two */
    const char *function;             /* log_function of who gave it */
    BackgroundJob *next;
};

uint64_t background_owner(void); /* a new one; never 0 */
/* True: it is the worker's. False: neither made nor dropped. */
bool background_run(BackgroundJob *job);
void background_wait(uint64_t owner); /* 0: all */
/* Where there is no worker any more, does the owner's jobs. */
void background_help(uint64_t owner);
void background_withdraw(uint64_t owner);
/* All jobs are done, and the worker ends; the next job starts another one. */
void background_shutdown(void);
/* A library was opened whose own end must come after the worker's. */
void background_opened(void);

/* Tests: */
typedef struct BackgroundTest {
    bool hold;          /* no further job is begun */
    int64_t slow_ns;    /* a job takes so much longer */
    int64_t fail_after; /* allocations that succeed in a job, plus 1; 0: all */
} BackgroundTest;
void background_test(BackgroundTest how);
typedef struct BackgroundCounts {
    int queued, done; /* done: by the worker */
    bool running;
} BackgroundCounts;
BackgroundCounts background_counts(void);

#endif
