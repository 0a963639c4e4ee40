/* engine_workers.c: see engine_workers.h. When two large nodes wait, what is left of the run is counted once: how often
 * each node is used by others that have not run. A node whose count is 0 has all of its gradients, whatever its place
 * in the order.
 *
 *   #9 Add  ->  heap: [#8 Sin, #5 Gelu]     #8 runs here, #5 on a worker; then #7, #6 and, at its turn, what #5 gave
 *
 * Nodes with user code (hooks, custom functions, compiled functions, packed values, a program's kernels) run in their
 * turn on the caller's thread, and nothing that comes behind them before that: while a callback runs, which may write,
 * add hooks to older nodes or fork, no job is out. */
#include "runtime/autograd/engine_workers.h"

#include <pthread.h>
#include <stdlib.h>

#include "runtime/base/alloc.h"
#include "runtime/base/arena.h"
#include "runtime/base/bail.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/core/custom_op.h"
#include "runtime/core/pool.h"
#include "runtime/core/override.h"
#include "runtime/core/profile.h"
#include "runtime/device/watch.h"

typedef struct Counted {
    const TapeNode *node;
    int uses; /* edges of nodes that have not run */
} Counted;

struct EngineWorkers {
    Arena *arena;
    Map counted; /* by node */
    VEC(Counted *) order;
    uint64_t *user_code; /* sequence numbers of nodes that have some, ascending */
    int n_user_code;
    int64_t hooks; /* tape_hooks_added when they were listed */
    int n_jobs, most_jobs;
};

typedef enum JobState { JOB_queued, JOB_running, JOB_over } JobState;
struct WorkerJob {
    WorkerJob *next; /* in the queue */
    EngineWorkers *run;
    TapeNode *node;
    JobState state; /* under the lock */
    TapeBackward call;
    Status status;
    ErrorSlot error;
    Context context; /* of the caller, as the next two */
    const void *site;
    int64_t settings[SET_COUNT];
    sn_tensor **grad_in; /* by edge; owned when it is over */
    bool *needs;
};

/* workers -------------------------------------------------------------------------------------- */

enum { MOST_WORKERS = 15 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER, over = PTHREAD_COND_INITIALIZER;
static WorkerJob *first, *last; /* under the lock */
static int n_workers;

static WorkerJob *next_job(void) {
    WorkerJob *const job = first;
    first = job->next;
    if (!first) last = NULL;
    job->state = JOB_running;
    return job;
}

void engine_workers_log(const TapeNode *node, const char *what) {
    if (LIKELY(!log_on(LOG_autograd, LOG_DEBUG))) return;
    Text name = {0};
    node->class->name(node, &name);
    LOG(autograd, DEBUG, "#%lld %s %s", (long long)node->sequence, text_str(&name), what);
    text_free(&name);
}

static void enter_job(sn_state *state, const WorkerJob *job) {
    scope_enter_modes(state, &job->context);
    state->site = job->site;
    for (int i = 0; i < SET_COUNT; i++) state->settings[i].number = job->settings[i];
}

static Status run_on_worker(WorkerJob *job, sn_state *state) {
    TRY(scope_push(state, false));
    const Status status = job->node->class->backward(job->node, &job->call);
    for (int i = 0; i < job->node->n_edges; i++) {
        if (status != ST_OK) job->grad_in[i] = NULL;
        if (job->grad_in[i]) tensor_retain(job->grad_in[i]);
    }
    scope_pop(state);
    return status;
}

static void run_job(WorkerJob *job) {
    sn_state *const state = state_get();
    enter_job(state, job);
    state_grad_mode_set(state, SN_GRAD_OFF);
    engine_workers_log(job->node, "begins on a worker");
    job->status = run_on_worker(job, state);
    engine_workers_log(job->node, "ends on a worker");
    if (job->status == ST_OK) return;
    job->error = *error_slot();
    error_clear();
}

static void *worker(void *nothing) {
    (void)nothing;
    pthread_mutex_lock(&lock);
    for (;;) {
        while (!first) pthread_cond_wait(&wake, &lock);
        WorkerJob *const job = next_job();
        pthread_mutex_unlock(&lock);
        run_job(job);
        pthread_mutex_lock(&lock);
        job->state = JOB_over;
        pthread_cond_broadcast(&over);
    }
    return NULL;
}

static void forget_workers(void) { /* in the child of a fork */
    static const pthread_mutex_t fresh_lock = PTHREAD_MUTEX_INITIALIZER;
    static const pthread_cond_t fresh_cond = PTHREAD_COND_INITIALIZER;
    lock = fresh_lock;
    wake = over = fresh_cond;
    first = last = NULL;
    n_workers = 0;
}
static void watch_forks(void) { pthread_atfork(NULL, NULL, forget_workers); }

/* Under the lock. False: there is none. */
static bool have_workers(int n) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    pthread_t thread;
    while (n_workers < n && n_workers < MOST_WORKERS && pthread_create(&thread, NULL, worker, NULL) == 0) {
        pthread_detach(thread);
        n_workers++;
    }
    return n_workers > 0;
}

/* counting -------------------------------------------------------------------------------------- */

static uint64_t counted_key(const TapeNode *node) { return (uint64_t)(uintptr_t)node; }

static Counted *count_node(EngineWorkers *run, const TapeNode *node) {
    Counted *counted = map_get(&run->counted, counted_key(node));
    if (counted) return counted;
    if (!(counted = ARENA_NEW(run->arena, Counted)) || !map_set(&run->counted, counted_key(node), counted)) return NULL;
    counted->node = node;
    const int n = run->order.n;
    VEC_PUSH(run->arena, &run->order, counted);
    return run->order.n > n ? counted : NULL;
}

static const TapeNode *node_at(const TapeEdge *edge) {
    const TapeEdge *const now = tape_edge_now(edge);
    return now->leaf ? NULL : now->target;
}

static bool count_all(EngineWorkers *run, TapeNode *const *waiting, int n) {
    for (int i = 0; i < n; i++)
        if (!count_node(run, waiting[i])) return false;
    for (int i = 0; i < run->order.n; i++) {
        const TapeNode *const node = run->order.at[i]->node;
        for (int k = 0; k < node->n_edges; k++) {
            const TapeNode *const to = node_at(&node->edges[k]);
            Counted *const counted = to ? count_node(run, to) : NULL;
            if (to && !counted) return false;
            if (to) counted->uses++;
        }
    }
    return true;
}

/* The program unpacks it, or it has kernels of the program's. */
static bool saves_users(const TapeNode *node) {
    int n;
    const TapeSaved *const saved = tape_node_saved(node, &n);
    for (int i = 0; i < n; i++)
        if (saved[i].is_packed || (saved[i].tensor && saved[i].tensor->keys & KEYS_UNCAPTURED)) return true;
    return false;
}

static bool has_user_code(const TapeNode *node) {
    const OpRow *const row = tape_node_row(node);
    return !row || op_dynamic(row) || node->hooks || saves_users(node);
}

static int by_number(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* All that was counted lives: edges from what the run holds lead to it. */
static void list_user_code(EngineWorkers *run) {
    run->hooks = tape_hooks_added();
    run->n_user_code = 0;
    for (int i = 0; i < run->order.n; i++)
        if (has_user_code(run->order.at[i]->node))
            run->user_code[run->n_user_code++] = run->order.at[i]->node->sequence;
    qsort(run->user_code, (size_t)run->n_user_code, sizeof *run->user_code, by_number);
}

static bool make_lists(EngineWorkers *run, TapeNode *const *waiting, int n) {
    if (!count_all(run, waiting, n)) return false;
    if (!(run->user_code = ARENA_ARRAY(run->arena, uint64_t, run->order.n + 1))) return false;
    list_user_code(run);
    return true;
}

/* a run ----------------------------------------------------------------------------------------- */

static bool is_seen(const sn_state *state) {
    return state->modes || state->api_modes || state->saved_hooks || state->level || state->tracer ||
           state->include & KEY_BIT(anomaly) || atomic_load_explicit(&override_count, memory_order_relaxed) ||
           watch_is_on() || profile_is_on() || failpoints_set();
}

EngineWorkers *engine_workers_new(TapeNode *const *waiting, int n) {
    const int threads = is_seen(state_get()) ? 1 : pool_threads();
    if (threads < 2) return NULL;
    Arena *const arena = arena_new();
    EngineWorkers *const run = arena ? ARENA_NEW(arena, EngineWorkers) : NULL;
    if (run) {
        run->arena = arena;
        run->most_jobs = threads - 1 < MOST_WORKERS ? threads - 1 : MOST_WORKERS;
        if (make_lists(run, waiting, n)) return run;
        map_free(&run->counted);
    }
    arena_free(arena);
    error_clear();
    return NULL;
}

void engine_workers_free(EngineWorkers *run) {
    map_free(&run->counted);
    arena_free(run->arena);
}

bool engine_workers_have_capacity(const EngineWorkers *run) { return run->n_jobs < run->most_jobs; }

static bool on_host(const TapeNode *node) {
    const Meta *const *const metas = tape_arg_metas(node);
    for (const Meta *const *at = metas; at < node->out_meta + node->n_outs; at++)
        if (*at && !device_is_host((*at)->device)) return false;
    return true;
}

/* May another thread run the node? Its kernels must be the library's own, on the host, without random numbers. */
static bool may_run_elsewhere(const TapeNode *node) {
    if (has_user_code(node) || (node->dropped && node->saves) || !on_host(node)) return false;
    return node->streams == state_get()->streams && !(tape_node_row(node)->flags & OPF_random);
}

bool engine_workers_allow(EngineWorkers *run, const TapeNode *node, const TapeNode *current) {
    const Counted *const counted = worker_is_worth(node) ? map_get(&run->counted, counted_key(node)) : NULL;
    if (!counted || counted->uses || is_seen(state_get())) return false; /* a callback may have begun a mode */
    if (run->hooks != tape_hooks_added()) list_user_code(run);
    while (run->n_user_code && run->user_code[run->n_user_code - 1] > current->sequence) run->n_user_code--;
    if (run->n_user_code && run->user_code[run->n_user_code - 1] >= node->sequence) return false;
    return may_run_elsewhere(node);
}

void engine_workers_passed(EngineWorkers *run, const TapeNode *node) {
    for (int k = 0; k < node->n_edges; k++) {
        const TapeNode *const to = node_at(&node->edges[k]);
        Counted *const counted = to ? map_get(&run->counted, counted_key(to)) : NULL;
        if (counted) counted->uses--;
    }
}

/* a job ----------------------------------------------------------------------------------------- */

static WorkerJob *job_new(EngineWorkers *run, TapeNode *node, const bool *needs) {
    const size_t n = (size_t)node->n_edges;
    WorkerJob *const job = mem_zero(sizeof *job + n * (sizeof(sn_tensor *) + sizeof(bool)));
    if (!job) return NULL;
    const sn_state *const state = state_get();
    job->run = run;
    job->node = node;
    job->grad_in = (sn_tensor **)(job + 1);
    job->needs = (bool *)(job->grad_in + n);
    memcpy(job->needs, needs, n * sizeof *needs);
    job->context = state->context, job->site = state->site;
    for (int i = 0; i < SET_COUNT; i++) job->settings[i] = state->settings[i].number;
    return job;
}

WorkerJob *worker_start(EngineWorkers *run, TapeNode *node, sn_tensor *const *grad_out, const bool *needs,
                        bool retain) {
    WorkerJob *const job = job_new(run, node, needs);
    if (!job) {
        error_clear();
        return NULL;
    }
    job->call = (TapeBackward){.grad_out = grad_out, .needs = job->needs, .grad_in = job->grad_in, .retain = retain};
    pthread_mutex_lock(&lock);
    const bool taken = have_workers(run->most_jobs);
    if (taken) {
        *(last ? &last->next : &first) = job;
        last = job;
        pthread_cond_signal(&wake);
    }
    pthread_mutex_unlock(&lock);
    run->n_jobs += taken;
    if (!taken) mem_free(job);
    return taken ? job : NULL;
}

bool worker_cancel(WorkerJob *job) {
    pthread_mutex_lock(&lock);
    const bool queued = job->state == JOB_queued;
    if (queued) {
        WorkerJob **at = &first, *before = NULL;
        while (*at != job) before = *at, at = &before->next;
        *at = job->next;
        if (last == job) last = before;
        job->state = JOB_over;
    }
    pthread_mutex_unlock(&lock);
    return queued;
}

static void wait_for(WorkerJob *job) {
    pthread_mutex_lock(&lock);
    while (job->state != JOB_over) pthread_cond_wait(&over, &lock);
    pthread_mutex_unlock(&lock);
}

Status worker_finish(WorkerJob *job) {
    wait_for(job);
    if (job->status != ST_OK) *error_slot() = job->error;
    return job->status;
}

sn_tensor *worker_result(WorkerJob *job, int edge) {
    sn_tensor *const grad = job->grad_in[edge];
    if (!grad || tensor_in_scope(grad)) return grad; /* what passes through is held by others as well */
    job->grad_in[edge] = NULL;
    return scope_adopt(state_get(), grad) ? grad : NULL;
}

void worker_job_free(WorkerJob *job) {
    if (!worker_cancel(job)) wait_for(job);
    for (int i = 0; i < job->node->n_edges; i++) tensor_release(job->grad_in[i]);
    job->run->n_jobs--;
    mem_free(job);
}
