/* hooks.h: what a lower layer of the runtime asks of a higher one. These are the only calls that go up; all others go
 * down the list in runtime/README.md, which tests/check_cycles.c holds against the objects. start.c, the one file that
 * knows every layer, fills the table while the library is loaded, so that no row is ever NULL and nobody asks.
 *
 *   state_make (core)  ->  runtime_hooks.runtime_start()  ->  start.c
 *
 * A row has the name of the function that fills it, whose header says what it does. */
#ifndef SINTER_RUNTIME_HOOKS_H
#define SINTER_RUNTIME_HOOKS_H
#include "runtime/core/dispatch.h"

struct TapeRun;

typedef struct RuntimeHooks {
    /* start: every module's kernels and tables; once per process, before the first state is made */
    void (*runtime_start)(void);

    Status (*flow_launch)(OpCall *call); /* a step of control flow, whose results are there */
} RuntimeHooks;

extern RuntimeHooks runtime_hooks;

#endif
