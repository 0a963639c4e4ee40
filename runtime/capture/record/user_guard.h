/* user_guard.h: guards of state that is the program's own (sn_guard_add): asked as a query is, where replay learns a
 * call and again before each replayed one (query.h). */
#ifndef SINTER_RUNTIME_USER_GUARD_H
#define SINTER_RUNTIME_USER_GUARD_H
#include "runtime/capture/record/function_state.h"

typedef struct UserGuard { /* of a function, as long as it */
    struct UserGuard *next;
    const char *name;
    int64_t (*read)(void *closure);
    void *closure;
} UserGuard;

/* The function's guard of this name and reader; made where it is new. NULL: memory is out. */
const UserGuard *user_guard_of(sn_function *fn, const char *name, int64_t (*read)(void *), void *closure);
/* By a query, which has it as its argument. */
static inline const UserGuard *user_guard_at(int64_t at) { return (const UserGuard *)(uintptr_t)at; }
static inline int64_t user_guard_handle(const UserGuard *guard) { return (int64_t)(uintptr_t)guard; }
/* Raises where it called Sinter: it is asked in the middle of a call. */
int64_t user_guard_read(const UserGuard *guard);

#endif
