/* launch.h: one call of an Executable, between execute.c (the call's memory and the order of the steps) and what runs a
 * step: launch_native.c for native ops, the device's launch for kernels. */
#ifndef SINTER_RUNTIME_LAUNCH_H
#define SINTER_RUNTIME_LAUNCH_H
#include "runtime/device/execute.h"

enum { PLAN_DEVICES = 8 }; /* of one plan; more run eagerly */

typedef struct StepLifetimes StepLifetimes; /* runtime/device/launch_memory.h */
typedef struct Repeat Repeat;               /* runtime/device/repeat.h */

struct Executable {
    Plan *plan;
    const struct DeviceRow **rows; /* by step: of its device */
    bool own_arena;
    void **codes; /* by step: a kernel's, of the kind that its device's row makes; NULL: another step */
    int n_outs;
    const Meta **out_metas; /* by output, retained; NULL: symbolic */
    int n_written;
    int *written; /* the inputs that are */
    StepLifetimes *lifetimes;
    Repeat *repeat; /* NULL: every call runs step by step */
    char *function; /* the compiled function's name; NULL: eager's */
};

typedef struct Launch { /* one call */
    const Executable *e;
    sn_tensor *const *inputs;
    sn_tensor **owned; /* references that go at their turns, or NULL */
    const int64_t *symbols;
    const double *floats;
    sn_tensor **outs;
    Storage *const *given;         /* by output, or NULL: memory for it; NULL: none for any */
    int64_t *ns;                   /* by step: how long it took; NULL: nobody asks */
    void **slots;                  /* pointers, by slot */
    Storage *arenas[PLAN_DEVICES]; /* as the plan's; NULL: none needed */
    Storage **blocks;              /* by slot, of arenas: memory that comes by step; NULL: it is in the arenas */
} Launch;

static inline int64_t launch_int(const Launch *launch, int64_t value) {
    return sym_is(value) ? sym_eval(launch->e->plan->env, value, launch->symbols) : value;
}

Status launch_native(Launch *launch, const Step *step); /* a copy, too */

#endif
