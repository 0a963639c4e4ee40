/* user_guard.c: see user_guard.h. */
#include "runtime/capture/record/user_guard.h"

#include <string.h>

#include "runtime/base/lock.h"

static UserGuard *find_guard(const sn_function *fn, const char *name, int64_t (*read)(void *), const void *closure) {
    for (UserGuard *g = fn->guards; g; g = g->next)
        if (g->read == read && g->closure == closure && !strcmp(g->name, name)) return g;
    return NULL;
}

const UserGuard *user_guard_of(sn_function *fn, const char *name, int64_t (*read)(void *), void *closure) {
    const bool locked = lock_shared(&fn->lock);
    UserGuard *guard = find_guard(fn, name, read, closure);
    if (!guard && (guard = arena_alloc(fn->arena, sizeof *guard))) {
        *guard = (UserGuard){fn->guards, arena_strdup(fn->arena, name), read, closure};
        if (guard->name)
            fn->guards = guard;
        else
            guard = NULL;
    }
    unlock_shared(&fn->lock, locked);
    if (!guard) error_raise(ST_MEMORY, "sn_guard_add: memory is out");
    return guard;
}

int64_t user_guard_read(const UserGuard *guard) {
    const sn_state *const state = state_get();
    const uint32_t handles = state->handles.n, scopes = state->n_scopes;
    const Status before = error_pending();
    const int64_t now = guard->read(guard->closure);
    if (state_get() != state || state->handles.n != handles || state->n_scopes != scopes || error_pending() != before)
        error_raise(ST_STATE, "sn_guard_add: guard '%s' calls Sinter, and it is read in the middle of a call",
                    guard->name);
    return now;
}
