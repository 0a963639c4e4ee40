/* background.c: see background.h. A list of jobs, one lock, and two conditions: `wake` for the worker, `done` for who
 * waits for jobs.
 *
 *   background_run -> first, ..., last -> running -> dropped
 *
 * Forking: the child has only the thread that forked. Its copy of a compiler in the middle of something would be
 * unusable, locks and all, so the fork waits for the end of the running job, holding the lock.
 *
 * The end: exit runs what was registered last first, and libraries that are opened register their own ends. So ours is
 * registered again whenever one was opened (background_opened): then it is the first to run, and waits. */
#include "runtime/core/background.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "runtime/base/alloc.h"
#include "runtime/base/fpenv.h"
#include "runtime/base/log.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER, done = PTHREAD_COND_INITIALIZER;
/* Under the lock: */
static BackgroundJob *first, *last;
static uint64_t running; /* whose job; 0: none */
static pthread_t worker;
static bool has_worker, ends; /* ends: it is to, when it has done all jobs, or if alone the one that runs */
static bool alone;            /* there will be none: a fork's child, or the program ends */
static bool registered;
static BackgroundTest test;
static int n_done;

uint64_t background_owner(void) {
    static _Atomic uint64_t newest;
    return atomic_fetch_add(&newest, 1) + 1;
}

static bool is_worker(void) { return has_worker && pthread_equal(worker, pthread_self()); }

/* the list ------------------------------------------------------------------------------------ */

static void append(BackgroundJob *job) {
    job->next = NULL;
    *(last ? &last->next : &first) = job;
    last = job;
}

/* The first one of the owner's, 0: of all; or NULL. before: what it follows. */
static BackgroundJob *find(uint64_t owner, BackgroundJob **before) {
    BackgroundJob *job = first;
    *before = NULL;
    while (job && owner && job->owner != owner) *before = job, job = job->next;
    return job;
}

static BackgroundJob *take_job(uint64_t owner) {
    BackgroundJob *before, *const job = find(owner, &before);
    if (!job) return NULL;
    *(before ? &before->next : &first) = job->next;
    if (last == job) last = before;
    return job;
}

static bool is_running(uint64_t owner) { return running && (!owner || running == owner); }

static bool has_any(uint64_t owner) { return is_running(owner) || find(owner, &(BackgroundJob *){NULL}); }

/* jobs ---------------------------------------------------------------------------------------- */

static void drop(BackgroundJob *job) {
    sn_state *const own = job->state;
    job->drop(job);
    state_free(own);
}

static void do_job(BackgroundJob *job) {
    sn_state *const before = state_use(job->state);
    const char *const function = log_function_swap(job->function);
    job->make(job);
    log_function_swap(function);
    error_clear();
    state_use(before);
}

static void do_tested(BackgroundJob *job, const BackgroundTest *how) {
    const struct timespec span = {.tv_sec = how->slow_ns / 1000000000, .tv_nsec = how->slow_ns % 1000000000};
    if (how->slow_ns) nanosleep(&span, NULL);
    mem_fail_after(how->fail_after - 1);
    do_job(job);
    mem_fail_after(-1);
}

/* the worker ---------------------------------------------------------------------------------- */

static void work_on(BackgroundJob *job) {
    const BackgroundTest how = test;
    running = job->owner;
    pthread_mutex_unlock(&lock);
    do_tested(job, &how);
    drop(job);
    pthread_mutex_lock(&lock);
    running = 0;
    n_done++;
    pthread_cond_broadcast(&done);
}

static void *work(void *unused) {
    (void)unused;
    fp_set(FP_DEFAULT);
    pthread_mutex_lock(&lock);
    while (!ends || (first && !alone)) {
        BackgroundJob *const job = test.hold && !ends ? NULL : take_job(0);
        if (job)
            work_on(job);
        else
            pthread_cond_wait(&wake, &lock);
    }
    has_worker = ends = false;
    pthread_cond_broadcast(&done);
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* Who asks first takes its thread back; others wait for the same. */
static void end_worker(bool program_ends) {
    pthread_mutex_lock(&lock);
    alone |= program_ends;
    const bool mine = has_worker && !ends && !is_worker();
    const pthread_t thread = worker;
    ends |= mine;
    pthread_cond_broadcast(&wake);
    while (!mine && has_worker && !is_worker()) pthread_cond_wait(&done, &lock);
    pthread_mutex_unlock(&lock);
    if (mine) pthread_join(thread, NULL);
}

static void at_exit(void) { end_worker(true); }

void background_shutdown(void) { end_worker(false); }

void background_opened(void) {
    pthread_mutex_lock(&lock);
    const bool again = registered;
    pthread_mutex_unlock(&lock);
    if (again) atexit(at_exit);
}

static void before_fork(void) {
    pthread_mutex_lock(&lock);
    while (running && !is_worker()) pthread_cond_wait(&done, &lock);
}

static void after_fork(void) { pthread_mutex_unlock(&lock); }

static void in_child(void) {
    static const pthread_mutex_t fresh_lock = PTHREAD_MUTEX_INITIALIZER;
    static const pthread_cond_t fresh_cond = PTHREAD_COND_INITIALIZER;
    lock = fresh_lock;
    wake = done = fresh_cond;
    alone |= has_worker;
    has_worker = ends = false;
    running = 0;
}

/* Signals are for the program's own threads. */
static bool start_worker(void) {
    sigset_t all, before;
    if (!registered && (atexit(at_exit) || pthread_atfork(before_fork, after_fork, in_child))) return false;
    registered = true;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    has_worker = pthread_create(&worker, NULL, work, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return has_worker;
}

/* asking -------------------------------------------------------------------------------------- */

bool background_run(BackgroundJob *job) {
    job->state = state_new();
    job->function = log_function();
    const bool made = job->state && settings_copy(job->state, state_get()) == ST_OK;
    pthread_mutex_lock(&lock);
    const bool given = made && !alone && (has_worker || start_worker());
    if (given) append(job);
    pthread_cond_broadcast(&wake);
    pthread_mutex_unlock(&lock);
    if (!given) state_free(job->state);
    if (!made) error_clear();
    return given;
}

void background_wait(uint64_t owner) {
    pthread_mutex_lock(&lock);
    while (has_any(owner) && !is_worker()) {
        BackgroundJob *const job = has_worker ? NULL : take_job(owner);
        if (!job) {
            pthread_cond_wait(&done, &lock);
            continue;
        }
        pthread_mutex_unlock(&lock);
        do_job(job);
        drop(job);
        pthread_mutex_lock(&lock);
    }
    pthread_mutex_unlock(&lock);
}

void background_help(uint64_t owner) {
    pthread_mutex_lock(&lock);
    const bool helps = alone && !has_worker;
    pthread_mutex_unlock(&lock);
    if (helps) background_wait(owner);
}

void background_withdraw(uint64_t owner) {
    pthread_mutex_lock(&lock);
    for (BackgroundJob *job; (job = take_job(owner));) {
        pthread_mutex_unlock(&lock);
        drop(job);
        pthread_mutex_lock(&lock);
    }
    while (is_running(owner) && !is_worker()) pthread_cond_wait(&done, &lock);
    pthread_mutex_unlock(&lock);
}

/* tests --------------------------------------------------------------------------------------- */

void background_test(BackgroundTest how) {
    pthread_mutex_lock(&lock);
    test = how;
    pthread_cond_broadcast(&wake);
    pthread_mutex_unlock(&lock);
}

BackgroundCounts background_counts(void) {
    pthread_mutex_lock(&lock);
    BackgroundCounts counts = {.running = running, .done = n_done};
    for (const BackgroundJob *job = first; job; job = job->next) counts.queued++;
    pthread_mutex_unlock(&lock);
    return counts;
}
