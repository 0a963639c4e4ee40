/* plan.c: see plan.h. */
#include "ir/plan.h"

int plan_arena(Plan *plan, Device device) {
    for (int i = 0; i < plan->arenas.n; i++)
        if (plan->arenas.at[i].device == device) return i;
    VEC_PUSH(plan->arena, &plan->arenas, ((PlanArena){.device = device}));
    return plan->arenas.n - 1;
}

const PlanOp *plan_op(const Plan *plan, int id) {
    return id >= 0 && id < plan->n_ops && plan->ops[id].row ? &plan->ops[id] : NULL;
}
