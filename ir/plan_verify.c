/* plan_verify.c: what a plan must satisfy before an executor sees it. */
#include "ir/plan.h"

#include "runtime/base/error.h"

static Status refuse_step(int step, const char *what) {
    return error_raise(ST_INTERNAL, "plan, step %d: %s", step, what);
}

static bool slot_exists(const Plan *plan, int slot) { return slot >= 0 && slot < plan->slots.n; }

static Status check_kernel(const Plan *plan, int number, const Step *step) {
    TRY(kernel_verify(step->kernel));
    for (int b = 0; b < step->kernel->n_bufs; b++)
        if (step->bufs[b] != -1 && !slot_exists(plan, step->bufs[b]))
            return refuse_step(number, "a buffer in a slot that is not there");
    return ST_OK;
}

static Status check_native(const Plan *plan, int number, const Step *step) {
    for (int r = 0; r < step->row->n_out; r++)
        if (!slot_exists(plan, plan->places[step->outs[r]->id].slot))
            return refuse_step(number, "a native op's result without memory");
    return ST_OK;
}

/* A step that may fail on values: nothing visible outside may be written before it [C8]. */
static bool may_fail(const Plan *plan, const Step *step) {
    if (step->kind == STEP_native) return step->row->flags & OPF_may_fail;
    for (const Node *node = plan->graph->first; node; node = node->next)
        for (int i = 0; i < step->n_ops; i++)
            if (node->id == step->ops[i] && node->row->flags & OPF_check) return true;
    return false;
}

static Status check_steps(const Plan *plan) {
    bool written = false;
    for (int i = 0; i < plan->steps.n; i++) {
        const Step *const step = &plan->steps.at[i];
        TRY(step->kind == STEP_kernel ? check_kernel(plan, i, step) : check_native(plan, i, step));
        if (written && may_fail(plan, step)) return refuse_step(i, "a check after memory visible outside was written");
        written |= step->write_back;
    }
    return ST_OK;
}

static bool is_placed(const Slot *slot) { return slot->kind == SLOT_arena && slot->first >= 0; }

static Status check_pair(const Slot *a, const Slot *b, int i, int k) {
    if (a->first > b->last || b->first > a->last) return ST_OK;
    const bool known = !sym_is(a->offset) && !sym_is(a->bytes) && !sym_is(b->offset) &&
                       !sym_is(b->bytes); /* symbolic ranges start at expressions of their own */
    const bool apart =
        known ? a->offset + a->bytes <= b->offset || b->offset + b->bytes <= a->offset : a->offset != b->offset;
    if (apart || a->bytes == 0 || b->bytes == 0) return ST_OK;
    return error_raise(ST_INTERNAL, "plan: slots %d and %d overlap while both are alive", i, k);
}

static Status check_arena(const Plan *plan) {
    for (int i = 0; i < plan->slots.n; i++)
        for (int k = 0; k < i; k++)
            if (is_placed(&plan->slots.at[i]) && is_placed(&plan->slots.at[k]))
                TRY(check_pair(&plan->slots.at[i], &plan->slots.at[k], i, k));
    return ST_OK;
}

Status plan_verify(const Plan *plan, bool packed) {
    TRY(check_steps(plan));
    return packed ? check_arena(plan) : ST_OK;
}
