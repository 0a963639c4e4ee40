/* plan_verify.c: what a plan must satisfy before an executor sees it, be it of lowering or of a text. Where memory is
 * reached is checked by plan_reach.c. */
#include "ir/plan.h"

#include "ir/schema.h"
#include "runtime/base/error.h"

typedef struct PlanCheck {
    const Plan *plan;
    bool packed; /* lifetimes are known */
    int step;
} PlanCheck;

static Status refuse_step(const PlanCheck *c, const char *what) {
    return error_raise(ST_INTERNAL, "plan, step %d: %s", c->step, what);
}

static Status refuse_slot(int slot, const char *what) {
    return error_raise(ST_INTERNAL, "plan, slot %d: %s", slot, what);
}

#define NEED(condition, what)                                                                                          \
    do {                                                                                                               \
        if (!(condition)) return refuse_step(c, what);                                                                 \
    } while (0)

/* slots --------------------------------------------------------------------------------------- */

static bool is_output_slot(const Plan *plan, const Slot *slot) {
    return slot->index >= 0 && slot->index < plan->outputs.n && plan->outputs.at[slot->index].kind == OUT_new &&
           plan->outputs.at[slot->index].meta->dtype == slot->meta->dtype &&
           plan->outputs.at[slot->index].meta->device == slot->meta->device;
}

/* Inputs first, in order; then one of every new output, and the arenas'. */
static Status check_slots(const Plan *plan) {
    int outputs = 0, wanted = 0;
    for (int i = 0; i < plan->slots.n; i++) {
        const Slot *const slot = &plan->slots.at[i];
        const bool input = slot->kind == SLOT_input;
        if (input != (i < plan->inputs.n) || (input && slot->index != i)) return refuse_slot(i, "not an input's place");
        if (!device_has_memory(slot->meta->device)) return refuse_slot(i, "a device without memory");
        outputs += slot->kind == SLOT_output;
        if (slot->kind == SLOT_output && !is_output_slot(plan, slot)) return refuse_slot(i, "not a new output's");
        for (int k = 0; slot->kind == SLOT_output && k < i; k++)
            if (plan->slots.at[k].kind == SLOT_output && plan->slots.at[k].index == slot->index)
                return refuse_slot(i, "a second one of the same output");
    }
    for (int i = 0; i < plan->outputs.n; i++) wanted += plan->outputs.at[i].kind == OUT_new;
    if (plan->slots.n < plan->inputs.n || outputs != wanted)
        return error_raise(ST_INTERNAL, "plan: %d slots of new outputs, which are %d", outputs, wanted);
    return ST_OK;
}

static Status check_outputs(const Plan *plan) {
    for (int i = 0; i < plan->outputs.n; i++) {
        const PlanOutput *const out = &plan->outputs.at[i];
        bool fits = true;
        if (out->kind == OUT_input || out->kind == OUT_view_of_input)
            fits = out->base >= 0 && out->base < plan->inputs.n;
        if (out->kind == OUT_view_of_output) /* whose own base is no such view */
            fits = out->base >= 0 && out->base < plan->outputs.n && plan->outputs.at[out->base].kind != OUT_none &&
                   plan->outputs.at[out->base].kind != OUT_view_of_output;
        if (out->kind == OUT_kept || !fits)
            return error_raise(ST_INTERNAL, "plan: output %d refers to number %d", i, out->base);
    }
    return ST_OK;
}

/* values -------------------------------------------------------------------------------------- */

static Status check_slot(const PlanCheck *c, int slot, bool written) {
    NEED(slot >= 0 && slot < c->plan->slots.n, "something in a slot that is not there");
    const Slot *const s = &c->plan->slots.at[slot];
    NEED(!c->packed || (s->first <= c->step && c->step <= s->last), "a slot outside of its lifetime");
    if (!written || s->kind != SLOT_input) return ST_OK;
    NEED(c->plan->inputs.at[s->index].written, "an input is written that the plan does not say so of");
    NEED(c->plan->steps.at[c->step].write_back, "an input is written by a step that does not write back");
    return ST_OK;
}

static Status check_value(const PlanCheck *c, const Val *val, bool written) {
    const Step *const step = &c->plan->steps.at[c->step];
    TRY(check_slot(c, plan_value(val)->slot, written));
    const Meta *const slot = c->plan->slots.at[plan_value(val)->slot].meta;
    NEED(slot->device == val->meta->device, "a value on another device than its slot");
    NEED(slot->dtype == val->meta->dtype, "a value of another dtype than its slot");
    NEED(step->kind == STEP_copy || val->meta->device == step->device, "a value on another device than the step");
    return ST_OK;
}

/* kernels ------------------------------------------------------------------------------------- */

static Status check_params(const PlanCheck *c, const Kernel *kernel) {
    for (int i = 0; i < kernel->n_params; i++) {
        const int64_t value = kernel->params[i];
        if (kernel->param_is_float && kernel->param_is_float[i])
            NEED(value >= 0 && value < c->plan->floats.n, "a runtime float that is not there");
        else
            NEED(sym_belongs(c->plan->env, value), "a parameter of other symbols");
    }
    return ST_OK;
}

static Status check_kernel(const PlanCheck *c, const Step *step) {
    TRY(kernel_verify(step->kernel));
    for (int b = 0; b < step->kernel->n_bufs; b++) {
        const Buf *const buf = &step->kernel->bufs[b];
        NEED((step->bufs[b] == -1) == (buf->role == BUF_tile), "the tile and a slot in each other's place");
        if (step->bufs[b] == -1) continue;
        TRY(check_slot(c, step->bufs[b], buf->role != BUF_in));
        const Meta *const meta = c->plan->slots.at[step->bufs[b]].meta;
        NEED(meta->device == step->device, "a buffer on another device");
        NEED(meta->dtype == buf->dtype, "a buffer of another dtype than its slot");
    }
    return check_params(c, step->kernel);
}

/* native ops and copies ----------------------------------------------------------------------- */

static Status check_arg(const PlanCheck *c, const Arg *arg) {
    if (arg->kind == ARG_runtime) NEED(arg->i >= 0 && arg->i < c->plan->floats.n, "a runtime float that is not there");
    if (arg->kind == ARG_tensor && arg->val) TRY(check_value(c, arg->val, false));
    for (int i = 0; arg->kind == ARG_tensors && i < arg->n; i++)
        if (arg->vals[i]) TRY(check_value(c, arg->vals[i], false));
    return ST_OK;
}

static Status check_workspace(const PlanCheck *c, const Step *step) {
    const int64_t bytes = workspace_bytes(c->plan->env, step->row, step->args);
    if (step->workspace < 0) return ST_OK; /* the kernel takes it itself */
    TRY(check_slot(c, step->workspace, false));
    const Slot *const slot = &c->plan->slots.at[step->workspace];
    NEED(slot->kind == SLOT_arena && slot->meta->device == step->device && slot->first == slot->last &&
             sym_identical(slot->bytes, bytes),
         "a workspace that is not what the op needs");
    return ST_OK;
}

static Status check_native(const PlanCheck *c, const Step *step) {
    for (int a = 0; a < step->row->n_params; a++) TRY(check_arg(c, &step->args[a]));
    for (int r = 0; r < step->row->n_out; r++) TRY(check_value(c, &step->outs[r]->base, true));
    return check_workspace(c, step);
}

static Status check_copy(const PlanCheck *c, const Step *step) {
    NEED(step->args[0].kind == ARG_tensor && step->args[0].val, "a copy of nothing");
    TRY(check_value(c, step->args[0].val, false));
    TRY(check_value(c, &step->outs[0]->base, true));
    NEED(step->outs[0]->base.meta->device == step->device, "a copy to another device than its own");
    NEED(step->args[0].val->meta->device != step->device, "a copy within a device");
    NEED(step->args[0].val->meta->rank <= step->outs[0]->base.meta->rank, "a copy of more dims than it has room for");
    return ST_OK;
}

static bool checks_values(const Plan *plan, int id) {
    const PlanOp *const op = plan_op(plan, id);
    return op && op->row->flags & OPF_check;
}

/* A step that may fail on values: nothing visible outside may be written before it [C8]. */
static bool may_fail(const Plan *plan, const Step *step) {
    if (step->kind == STEP_native) return step->row->flags & OPF_may_fail;
    for (int i = 0; i < step->n_ops; i++)
        if (checks_values(plan, step->ops[i])) return true;
    return false;
}

static Status check_step(const PlanCheck *c, const Step *step) {
    NEED(step->kind == STEP_copy ? device_has_memory(step->device) : device_has_executor(step->device),
         "a device without executor");
    return step->kind == STEP_kernel   ? check_kernel(c, step)
           : step->kind == STEP_native ? check_native(c, step)
                                       : check_copy(c, step);
}

static Status check_steps(const Plan *plan, bool packed) {
    bool written = false;
    PlanCheck check = {.plan = plan, .packed = packed}, *const c = &check;
    for (; c->step < plan->steps.n; c->step++) {
        const Step *const step = &plan->steps.at[c->step];
        TRY(check_step(c, step));
        NEED(!written || !may_fail(plan, step), "a check after memory visible outside was written");
        written |= step->write_back;
    }
    return ST_OK;
}

/* memory -------------------------------------------------------------------------------------- */

static bool is_placed(const Slot *slot) { return slot->kind == SLOT_arena && slot->first >= 0; }

static Status check_pair(const Slot *a, const Slot *b, int i, int k) {
    if (a->first > b->last || b->first > a->last || a->meta->device != b->meta->device) return ST_OK;
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
    TRY(check_outputs(plan));
    TRY(check_slots(plan));
    TRY(check_steps(plan, packed));
    return packed ? check_arena(plan) : ST_OK;
}
