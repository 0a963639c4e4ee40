/* plan.c: see plan.h. */
#include "ir/plan.h"

void plan_merge_print(const PlanMerge *merge, Text *text) {
    const char *const said = merge->why ? merge->why : "";
    text_printf(text, "%s (%%%d) with %s (%%%d): %s%s", merge->from->base, merge->from_id, merge->to->base,
                merge->to_id, said, *said ? "; " : "");
    if (merge->bytes < 0)
        text_printf(text, "traffic would rise by %lld bytes", (long long)-merge->bytes);
    else
        text_printf(text, "%lld bytes %s", (long long)merge->bytes, merge->why ? "would be saved" : "saved");
}

int plan_arena(Plan *plan, Device device) {
    for (int i = 0; i < plan->arenas.n; i++)
        if (plan->arenas.at[i].device == device) return i;
    VEC_PUSH(plan->arena, &plan->arenas, ((PlanArena){.device = device}));
    return plan->arenas.n - 1;
}

const PlanOp *plan_op(const Plan *plan, int id) {
    return id >= 0 && id < plan->n_ops && plan->ops[id].row ? &plan->ops[id] : NULL;
}

int plan_eager_steps(const Plan *plan, const Step **first) {
    int n = 0;
    *first = NULL;
    for (int i = plan->steps.n - 1; i >= 0; i--)
        if (plan->steps.at[i].kind == STEP_eager) *first = &plan->steps.at[i], n++;
    return n;
}

bool op_runs_alone(const OpRow *row) {
    const bool computes = row->kind == KIND_pointwise || row->kind == KIND_reduction || row->kind == KIND_kernel;
    return computes && !(row->flags & (OPF_random | OPF_flow | OPF_host | OPF_ordered | OPF_unset));
}
