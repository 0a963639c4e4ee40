/* ranks.c: see ranks.h. One lock, one condition, and two counts:
 *
 *   rank 0   arrives ............ all are here: use, leaves ............ all have left
 *   rank 1   .......... arrives                         ....... leaves
 *
 * Who arrives waits for the others, or for one of them to end: then nobody can ever come, and all who wait or come get
 * an error that says which rank it was and why. Who has arrived with all others leaves whatever happens, and does not
 * go on before all have, since their memory is read by one another. */
#include "runtime/transform/ranks.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "runtime/base/alloc.h"
#include "runtime/base/refs.h"
#include "runtime/core/state.h"

typedef struct RankGroup RankGroup;
struct sn_comm {
    RankGroup *group;
    int index;
    pthread_t thread, self; /* for who started it, and its own */
    bool started, ended;    /* ended and self: under the lock, which any thread may ask by a stray comm */
    sn_rank_body body;
    void *closure;
    Status status;
    ErrorSlot error; /* that it ended with */
};

struct RankGroup {
    _Atomic int32_t refs;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int n;
    int64_t timeout_ms; /* 0: none */
    /* under the lock: */
    int arrived, left, n_ended;
    uint64_t meetings, departures; /* that were complete */
    int failed;                    /* the rank that made the others fail, -1: none */
    char why[sizeof(((ErrorSlot *)0)->message)];
    const RankOffer **offers; /* by rank */
    sn_comm ranks[];
};

int rank_index(const sn_comm *rank) { return rank->index; }
int rank_count(const sn_comm *rank) { return rank->group->n; }
void rank_retain(sn_comm *rank) { refs_add(&rank->group->refs, 1); }

static void group_release(RankGroup *g) {
    if (!refs_drop(&g->refs)) return;
    pthread_mutex_destroy(&g->lock);
    pthread_cond_destroy(&g->changed);
    mem_free(g->offers);
    mem_free(g);
}
void rank_release(sn_comm *rank) { group_release(rank->group); }

static void make_condition(pthread_cond_t *changed) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(changed, &attributes);
    pthread_condattr_destroy(&attributes);
}

static RankGroup *group_new(int n, int64_t timeout_ms) {
    RankGroup *const g = mem_zero(sizeof *g + (size_t)n * sizeof *g->ranks);
    const RankOffer **const offers = g ? mem_zero((size_t)n * sizeof *offers) : NULL;
    if (!offers) {
        mem_free(g);
        return NULL;
    }
    atomic_init(&g->refs, 1);
    g->n = n, g->timeout_ms = timeout_ms, g->failed = -1, g->offers = offers;
    pthread_mutex_init(&g->lock, NULL);
    make_condition(&g->changed);
    for (int i = 0; i < n; i++) g->ranks[i] = (sn_comm){.group = g, .index = i};
    return g;
}

/* meetings ------------------------------------------------------------------------------------- */

/* Under the lock, as all that follows. The first reason stays. */
static void group_fail(RankGroup *g, int rank, const char *what, const char *why) {
    if (g->failed >= 0) return;
    g->failed = rank;
    snprintf(g->why, sizeof g->why, "rank %d %s%.900s", rank, what, why);
    pthread_cond_broadcast(&g->changed);
}

static void fail_by_ended(RankGroup *g) {
    int i = 0;
    while (!g->ranks[i].ended) i++;
    group_fail(g, i, "has ended and does not come", "");
}

static int first_missing(const RankGroup *g) {
    int i = 0;
    while (i < g->n - 1 && g->offers[i]) i++;
    return i;
}

/* False: it took too long. */
static bool wait_changed(RankGroup *g, const struct timespec *until) {
    if (!g->timeout_ms) return pthread_cond_wait(&g->changed, &g->lock), true;
    return pthread_cond_timedwait(&g->changed, &g->lock, until) != ETIMEDOUT;
}

static struct timespec deadline(const RankGroup *g) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    const int64_t ns = at.tv_nsec + g->timeout_ms % 1000 * 1000000;
    at.tv_sec += (time_t)(g->timeout_ms / 1000 + ns / 1000000000);
    at.tv_nsec = (long)(ns % 1000000000);
    return at;
}

static bool arrive(RankGroup *g, int rank, const RankOffer *offer) {
    if (g->failed >= 0) return false;
    const uint64_t meeting = g->meetings;
    g->offers[rank] = offer;
    if (++g->arrived == g->n) {
        g->meetings++;
        pthread_cond_broadcast(&g->changed);
        return true;
    }
    if (g->n_ended) fail_by_ended(g);
    const struct timespec until = deadline(g);
    while (g->meetings == meeting && g->failed < 0)
        if (!wait_changed(g, &until) && g->meetings == meeting)
            group_fail(g, first_missing(g), "did not come in time", "");
    return g->meetings != meeting;
}

static void leave(RankGroup *g) {
    const uint64_t departure = g->departures;
    if (++g->left == g->n) {
        g->arrived = g->left = 0;
        memset(g->offers, 0, (size_t)g->n * sizeof(void *));
        g->departures++;
        pthread_cond_broadcast(&g->changed);
    }
    while (g->departures == departure) pthread_cond_wait(&g->changed, &g->lock);
}

static Status check_rank(const sn_comm *rank, const char *what) {
    TRY(error_pending());
    if (!rank) return error_raise(ST_ARGUMENT, "%s: comm is NULL", what);
    pthread_mutex_lock(&rank->group->lock);
    const bool ended = rank->ended, own = pthread_equal(rank->self, pthread_self());
    pthread_mutex_unlock(&rank->group->lock);
    if (!ended && own) return ST_OK;
    return error_raise(ST_STATE, "%s: rank %d %s", what, rank->index, ended ? "has ended" : "is another thread");
}

Status rank_meet(sn_comm *rank, const RankOffer *offer, sn_tensor **outs, Status (*use)(const RankMeeting *meeting)) {
    TRY(check_rank(rank, offer->what));
    RankGroup *const g = rank->group;
    pthread_mutex_lock(&g->lock);
    const bool met = arrive(g, rank->index, offer);
    pthread_mutex_unlock(&g->lock);
    if (!met) return error_raise(ST_STATE, "%s: %s", offer->what, g->why); /* which does not change any more */
    const Status status = use(&(RankMeeting){.rank = rank->index, .n_ranks = g->n, .offers = g->offers, .outs = outs});
    pthread_mutex_lock(&g->lock);
    leave(g);
    pthread_mutex_unlock(&g->lock);
    return status;
}

/* threads -------------------------------------------------------------------------------------- */

/* However its body ended. */
static void rank_end(sn_comm **at) {
    sn_comm *const rank = *at;
    RankGroup *const g = rank->group;
    rank->error = *error_slot();
    error_clear();
    pthread_mutex_lock(&g->lock);
    rank->ended = true;
    g->n_ended++;
    if (rank->status != ST_OK)
        group_fail(g, rank->index, "has failed: ", rank->error.message);
    else if (g->arrived)
        fail_by_ended(g);
    pthread_mutex_unlock(&g->lock);
}

static void *rank_thread(void *argument) {
    __attribute__((cleanup(rank_end))) sn_comm *rank = argument;
    pthread_mutex_lock(&rank->group->lock);
    rank->self = pthread_self();
    pthread_mutex_unlock(&rank->group->lock);
    rank->status = ST_CALLBACK; /* until it returns */
    const Status status = (Status)rank->body(rank, rank->closure);
    if (status != ST_OK && error_pending() == ST_OK)
        error_raise(status, "its body returned status %d and raised no error", (int)status);
    rank->status = error_pending();
    return NULL;
}

static bool start_rank(sn_comm *rank, sn_rank_body body, void *closure) {
    rank->body = body, rank->closure = closure;
    return rank->started = pthread_create(&rank->thread, NULL, rank_thread, rank) == 0;
}

static void start_failed(RankGroup *g, int rank) {
    pthread_mutex_lock(&g->lock);
    g->ranks[rank].ended = true;
    g->n_ended++;
    group_fail(g, rank, "could not be started", "");
    pthread_mutex_unlock(&g->lock);
}

/* The error of the rank that failed by itself. */
static Status raise_first(const RankGroup *g) {
    int i = g->failed;
    for (int k = 0; k < g->n && (i < 0 || g->ranks[i].status == ST_OK); k++)
        if (g->ranks[k].status != ST_OK) i = k;
    if (i < 0 || (g->ranks[i].started && g->ranks[i].status == ST_OK)) return ST_OK;
    const sn_comm *const rank = &g->ranks[i];
    if (!rank->started) return error_raise(ST_MEMORY, "sn_ranks_run: %s", g->why);
    const bool told = rank->error.status != ST_OK;
    error_raise(rank->status, "rank %d: %.900s", i, told ? rank->error.message : "its thread ended in the body");
    if (rank->error.op[0]) error_set_op(rank->error.op);
    error_set_where(rank->error.where);
    return rank->status;
}

Status ranks_run(int n, sn_rank_body body, void *closure, int64_t timeout_ms) {
    RankGroup *const g = group_new(n, timeout_ms);
    if (!g) return ST_MEMORY;
    for (int i = 0; i < n; i++) {
        if (start_rank(&g->ranks[i], body, closure)) continue;
        start_failed(g, i);
        break;
    }
    for (int i = 0; i < n && g->ranks[i].started; i++) pthread_join(g->ranks[i].thread, NULL);
    const Status status = raise_first(g);
    group_release(g);
    return status;
}
