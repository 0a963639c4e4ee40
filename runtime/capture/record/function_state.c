/* function_state.c: see function_state.h. */
#include "runtime/capture/record/function_state.h"

#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/lock.h"
#include "runtime/core/site.h"
#include "runtime/core/breaks.h"
#include "runtime/core/settings.h"
#include "runtime/core/user_guard.h"

Arena *function_arena_acquire(sn_function *fn) {
    const bool locked = lock_shared(&fn->lock);
    Arena *const spare = fn->call_arena;
    fn->call_arena = NULL;
    unlock_shared(&fn->lock, locked);
    return spare ? spare : arena_new();
}

void function_arena_release(sn_function *fn, Arena *arena) {
    arena_reset(arena);
    const bool locked = lock_shared(&fn->lock);
    Arena *const extra = fn->call_arena ? arena : NULL;
    if (!extra) fn->call_arena = arena;
    unlock_shared(&fn->lock, locked);
    arena_free(extra);
}

/* What happened ------------------------------------------------------------------------------- */

/* "aten::item: a value is needed on the host" */
struct CompileLock {
    InProgress in_progress; /* first */
    sn_function *fn;
};

static void lock_left(InProgress *lock) {
    pthread_mutex_unlock(&((CompileLock *)lock)->fn->compiling);
    mem_free(lock);
}

/* Without memory it is not known to be in progress, and nothing else fails. */
CompileLock *compile_lock(sn_function *fn) {
    CompileLock *const lock = mem_alloc(sizeof *lock);
    pthread_mutex_lock(&fn->compiling);
    if (!lock) return error_clear(), NULL;
    lock->fn = fn;
    in_progress_begin(state_get(), &lock->in_progress, lock_left);
    return lock;
}

void compile_unlock(sn_function *fn, CompileLock *lock) {
    pthread_mutex_unlock(&fn->compiling);
    if (lock) in_progress_end(state_get(), &lock->in_progress);
    mem_free(lock);
}

static char *break_words(const char *breaker, const char *reason) {
    Text text = {0};
    text_printf(&text, "%s%s%s", breaker ? breaker : "", breaker ? ": " : "", reason);
    return text.at;
}

static bool says(const BreakRow *row, const char *breaker, const char *reason) {
    const size_t n = breaker ? strlen(breaker) : 0;
    if (n && (strncmp(row->reason, breaker, n) != 0 || strncmp(row->reason + n, ": ", 2) != 0)) return false;
    return !strcmp(row->reason + n + (n ? 2 : 0), reason);
}

const char *function_record_break(sn_function *fn, Reason why, const void *site) {
    sn_state *const state = state_get();
    const char *const reason = reason_text(why);
    const char *const breaker = state->breaker;
    state->breaker = NULL;
    if (UNLIKELY(log_on(LOG_graph_breaks, LOG_INFO))) {
        char where[256];
        site_name(site, where, sizeof where);
        log_line(LOG_graph_breaks, LOG_INFO, "%s: break at %s: %s%s%s", fn->name, where, breaker ? breaker : "",
                 breaker ? ": " : "", reason);
    }
    char *words = NULL;
    pthread_mutex_lock(&fn->lock);
    for (int i = 0; i < fn->breaks.n && !words; i++) {
        BreakRow *const row = &fn->breaks.at[i];
        if (row->site == site && says(row, breaker, reason)) {
            row->count++;
            words = row->reason;
        }
    }
    if (!words) {
        fn->stats.breaks++;
        words = break_words(breaker, reason);
        const BreakId known = break_find(reason), id = known ? known : BREAK_user_break;
        if (words) VEC_PUSH(fn->arena, &fn->breaks, ((BreakRow){.reason = words, .id = id, .site = site, .count = 1}));
    }
    pthread_mutex_unlock(&fn->lock);
    return words;
}

enum { MAX_FOREIGN = 32 }; /* texts that are kept: one may have an address in it */

Reason function_record_foreign(sn_function *fn, const char *text) {
    const char *known = NULL;
    pthread_mutex_lock(&fn->lock);
    for (int i = 0; i < fn->foreign.n && !known; i++)
        if (!strcmp(fn->foreign.at[i], text)) known = fn->foreign.at[i];
    if (!known && fn->foreign.n < MAX_FOREIGN && (known = arena_strdup(fn->arena, text)))
        VEC_PUSH(fn->arena, &fn->foreign, known);
    pthread_mutex_unlock(&fn->lock);
    return known ? reason_from(known) : BREAK_REASON(backend_failed);
}

void function_record_recompile(sn_function *fn, const char *text) {
    LOG(recompiles, INFO, "%s: %s", fn->name, text);
    pthread_mutex_lock(&fn->lock);
    if (fn->recompiles.n < 256) VEC_PUSH(fn->arena, &fn->recompiles, ((RecompileRow){.text = mem_strdup(text)}));
    pthread_mutex_unlock(&fn->lock);
}

void function_record_failure(sn_function *fn, TrieNode *end, BailCode code, const char *text) {
    LOG(compile, WARNING, "%s: a segment runs eagerly: %s: %s", fn->name, bail_name(code), text);
    pthread_mutex_lock(&fn->lock);
    VEC_PUSH(fn->arena, &fn->failures, ((FailureRow){.code = code, .text = arena_strdup(fn->arena, text)}));
    end->failure = arena_strdup(fn->arena, text);
    pthread_mutex_unlock(&fn->lock);
}

Reason function_record_limit(sn_function *fn, bool failed) {
    const bool full = function_is_full(fn);
    pthread_mutex_lock(&fn->lock);
    fn->limit_hits++;
    const bool say = !fn->limit_said && !failed;
    if (say) fn->limit_said = true;
    pthread_mutex_unlock(&fn->lock);
    if (say)
        LOG(recompiles, WARNING, "%s: %d %s; further cases run eagerly", fn->name,
            full ? (int)setting_number(SET_accumulated_recompile_limit) : function_recompile_limit(fn),
            full ? "compiled segments: the accumulated recompile limit"
                 : "variants of one segment: the recompile limit");
    return failed ? BREAK_REASON(failed) : full ? BREAK_REASON(accumulated_limit) : BREAK_REASON(recompile_limit);
}

int function_recompile_limit(const sn_function *fn) {
    if (fn->options.recompile_limit > 0) return fn->options.recompile_limit;
    return (int)setting_number(SET_recompile_limit);
}

bool function_is_full(const sn_function *fn) {
    return atomic_load_explicit(&fn->n_compiled, memory_order_relaxed) >=
           (int)setting_number(SET_accumulated_recompile_limit);
}

/* Guards of the program's --------------------------------------------------------------------- */

static UserGuard *find_guard(const sn_function *fn, const UserGuard *like) {
    for (UserGuard *g = fn->guards; g; g = g->next)
        if (g->read == like->read && g->closure == like->closure && !strcmp(g->name, like->name)) return g;
    return NULL;
}

const UserGuard *function_guard(sn_function *fn, const UserGuard *like) {
    const bool locked = lock_shared(&fn->lock);
    UserGuard *guard = find_guard(fn, like);
    if (!guard && (guard = arena_alloc(fn->arena, sizeof *guard))) {
        *guard = (UserGuard){fn->guards, arena_strdup(fn->arena, like->name), like->read, like->closure};
        if (guard->name)
            fn->guards = guard;
        else
            guard = NULL;
    }
    unlock_shared(&fn->lock, locked);
    if (!guard) error_raise(ST_MEMORY, "sn_guard_add: memory is out");
    return guard;
}
