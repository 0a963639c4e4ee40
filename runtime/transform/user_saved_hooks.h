/* user_saved_hooks.h: a program's hooks, which keep what ops save in another way [semantics T7]. */
#ifndef SINTER_RUNTIME_USER_SAVED_HOOKS_H
#define SINTER_RUNTIME_USER_SAVED_HOOKS_H
#include "runtime/core/frame.h"

/* Until the innermost scope ends. */
Status user_saved_hooks_push(sn_body pack, sn_body unpack, void *closure);

#endif
