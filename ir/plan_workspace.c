/* plan_workspace.c: the native ops whose scratch memory is known by sizes alone: a plan has it as a slot, so that the
 * pass `memory` packs it and a call allocates nothing for it. Eager calls have none: kernels then take it themselves
 * (OpCall.workspace). */
#include "ir/plan.h"
#include "ir/op_ids.h"

typedef int64_t WorkspaceRule(SymEnv *env, const Arg *args);

/* Twice a line of keys and places (runtime/cpu/cpu_sort.c; runtime/cuda/cuda_sort.c, where there is one line). */
static int64_t sorted_line(SymEnv *env, const Arg *args) {
    const Meta *const self = args[0].val->meta;
    const int64_t n = self->rank ? self->sizes[dim_wrap(args[2].i, self->rank)] : 1;
    return sym_mul(env, n, 4 * (int64_t)sizeof(int64_t));
}

static WorkspaceRule *const rules[OP_IDS] = {[OP_sort_stable] = sorted_line, [OP_topk] = sorted_line};

int64_t workspace_bytes(SymEnv *env, const OpRow *row, const Arg *args) {
    WorkspaceRule *const rule = !op_is_made(row) ? rules[row->id] : NULL;
    return rule ? rule(env, args) : 0;
}
