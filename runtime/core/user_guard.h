/* user_guard.h: guards of state that is the program's own (sn_guard_add): asked as a query is, where replay learns a
 * call and again before each replayed one (runtime/autograd/query.h). */
#ifndef SINTER_RUNTIME_USER_GUARD_H
#define SINTER_RUNTIME_USER_GUARD_H
#include <stdint.h>

typedef struct UserGuard { /* of a function, as long as it */
    struct UserGuard *next;
    const char *name;
    int64_t (*read)(void *closure);
    void *closure;
} UserGuard;

/* That of the call which the code that runs now is a part of, as a query has it (user_guard_at). 0: there is no call,
 * or memory is out. */
int64_t user_guard_of(const char *name, int64_t (*read)(void *), void *closure);
static inline const UserGuard *user_guard_at(int64_t at) { return (const UserGuard *)(uintptr_t)at; }
/* Raises where it called Sinter: it is asked in the middle of a call. */
int64_t user_guard_read(const UserGuard *guard);

#endif
