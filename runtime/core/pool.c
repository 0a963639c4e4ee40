/* pool.c: fork-join threads. A run publishes a body and a counter; the caller and the workers take
 * indices from it until none is left, so how indices map to threads never matters for results
 * (every index writes its own part).
 *
 * Workers start with the first run that needs them and sleep between runs. A run inside a run, and
 * a run while another thread's is going on, happens serially on the caller. After a fork the child
 * has no workers and starts its own. */
#define _GNU_SOURCE /* sched_getaffinity */
#include "runtime/core/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#include "runtime/base/fpenv.h"
#include "runtime/core/settings.h"

typedef struct PoolRun {
    void (*body)(void *context, int i);
    void *context;
    int n;
    _Atomic int next;
} PoolRun;

static pthread_mutex_t running = PTHREAD_MUTEX_INITIALIZER; /* held by the thread whose run uses the workers */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER, done = PTHREAD_COND_INITIALIZER;
static PoolRun *current; /* under lock */
static uint64_t round_number;
static int n_workers, busy, wanted = -1, stop_generation;
static pthread_t workers[SETTING_MOST_THREADS];
static HOT_THREAD_LOCAL bool inside;

static int host_cores(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
    const long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int)n : 1;
}

static void work(PoolRun *run) {
    for (int i; (i = atomic_fetch_add(&run->next, 1)) < run->n;) run->body(run->context, i);
}

/* `born`: the generation it was made for; it may be over by the time that the thread starts. */
static void *worker(void *born) {
    const int generation = (int)(intptr_t)born;
    fp_set(FP_DEFAULT);
    inside = true;
    pthread_mutex_lock(&lock);
    uint64_t seen = round_number;
    for (;;) {
        while (generation == stop_generation && (seen == round_number || !current)) {
            seen = round_number;
            pthread_cond_wait(&wake, &lock);
        }
        if (generation != stop_generation) break;
        seen = round_number;
        PoolRun *const run = current;
        busy++;
        pthread_mutex_unlock(&lock);
        work(run);
        pthread_mutex_lock(&lock);
        if (--busy == 0) pthread_cond_signal(&done);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void stop_workers(void) {
    pthread_mutex_lock(&lock);
    stop_generation++;
    const int n = n_workers;
    n_workers = 0;
    pthread_cond_broadcast(&wake);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < n; i++) pthread_join(workers[i], NULL);
}

static void forget_workers(void) { /* in the child of a fork */
    static const pthread_mutex_t fresh_lock = PTHREAD_MUTEX_INITIALIZER;
    static const pthread_cond_t fresh_cond = PTHREAD_COND_INITIALIZER;
    running = lock = fresh_lock;
    wake = done = fresh_cond;
    current = NULL;
    n_workers = busy = 0;
}

static void first_time(void) {
    pthread_atfork(NULL, NULL, forget_workers);
    if (wanted < 0) wanted = (int)setting_initial(SET_threads);
}

int pool_threads(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, first_time);
    const int n = wanted > 0 ? wanted : host_cores();
    return n < SETTING_MOST_THREADS ? n : SETTING_MOST_THREADS;
}

void pool_threads_set(int threads) {
    pool_threads();
    pthread_mutex_lock(&running);
    if (threads != wanted) stop_workers();
    wanted = threads > 0 ? threads : 0;
    pthread_mutex_unlock(&running);
}

static void start_workers(int n) {
    void *const born = (void *)(intptr_t)stop_generation; /* changes under `running` only */
    while (n_workers < n && pthread_create(&workers[n_workers], NULL, worker, born) == 0) n_workers++;
}

static void run_serially(int n, void (*body)(void *context, int i), void *context) {
    for (int i = 0; i < n; i++) body(context, i);
}

void pool_run(int n, void (*body)(void *context, int i), void *context) {
    const int threads = n > 1 && !inside ? pool_threads() : 1;
    if (threads <= 1 || pthread_mutex_trylock(&running) != 0) {
        run_serially(n, body, context);
        return;
    }
    PoolRun run = {.body = body, .context = context, .n = n};
    start_workers(threads - 1);
    pthread_mutex_lock(&lock);
    current = &run;
    round_number++;
    pthread_cond_broadcast(&wake);
    pthread_mutex_unlock(&lock);
    inside = true;
    work(&run);
    inside = false;
    pthread_mutex_lock(&lock);
    current = NULL; /* who wakes later finds nothing */
    while (busy) pthread_cond_wait(&done, &lock);
    pthread_mutex_unlock(&lock);
    pthread_mutex_unlock(&running);
}
