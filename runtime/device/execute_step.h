/* execute_step.h: between execute.c (a call's memory) and execute_step.c (one entry of the call
 * sequence). */
#ifndef SINTER_RUNTIME_EXECUTE_STEP_H
#define SINTER_RUNTIME_EXECUTE_STEP_H
#include "runtime/device/execute.h"
#include "runtime/cpu/interp.h"

struct Executable {
    Plan *plan;
    bool own_arena;
    int n_codes;
    NestCode *codes;        /* of all nests of all kernels, in order */
    int *first_code;        /* by step */
    const Meta **out_metas; /* by output; NULL: symbolic */
};

typedef struct Launch { /* one call */
    const Executable *e;
    sn_tensor *const *inputs;
    const int64_t *symbols;
    const double *floats;
    sn_tensor **outs;
    void **slots;   /* pointers, by slot */
    Storage *arena; /* NULL: none needed */
} Launch;

static inline int64_t launch_int(const Launch *launch, int64_t value) {
    return sym_is(value) ? sym_eval(launch->e->plan->graph->env, value, launch->symbols) : value;
}

Status step_run(Launch *launch, int step);

#endif
