/* plan_verify.c: what a plan must satisfy before an executor sees it, be it of lowering or of a text. Where memory is
 * reached is checked by plan_reach.c. */
#include "ir/plan.h"

#include <stdlib.h>

#include "ir/schema.h"
#include "runtime/base/alloc.h"
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

/* Inputs first, in order; then one of every new output, and the arenas'. `has_slot`: by output. */
static Status check_each_slot(const Plan *plan, bool *has_slot) {
    int wanted = 0, outputs = 0, arena = 0;
    for (int i = 0; i < plan->slots.n; i++) {
        const Slot *const slot = &plan->slots.at[i];
        const bool input = slot->kind == SLOT_input;
        if (input != (i < plan->inputs.n) || (input && slot->index != i)) return refuse_slot(i, "not an input's place");
        if (!device_has_memory(slot->meta->device)) return refuse_slot(i, "a device without memory");
        if (slot->kind == SLOT_arena && slot->index != arena++) return refuse_slot(i, "not the arena's next");
        if (slot->kind != SLOT_output) continue;
        if (!is_output_slot(plan, slot)) return refuse_slot(i, "not a new output's");
        if (has_slot[slot->index]) return refuse_slot(i, "a second one of the same output");
        has_slot[slot->index] = true;
        outputs++;
    }
    for (int i = 0; i < plan->outputs.n; i++) wanted += plan->outputs.at[i].kind == OUT_new;
    if (plan->slots.n < plan->inputs.n || outputs != wanted)
        return error_raise(ST_INTERNAL, "plan: %d slots of new outputs, which are %d", outputs, wanted);
    return ST_OK;
}

static Status check_slots(const Plan *plan) {
    bool *const has_slot = mem_zero((size_t)plan->outputs.n);
    const Status status = has_slot ? check_each_slot(plan, has_slot) : ST_MEMORY;
    mem_free(has_slot);
    return status;
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
    const bool any = step->kind == STEP_copy || (step->row && step->row->flags & OPF_flow);
    NEED(any || val->meta->device == step->device, "a value on another device than the step");
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
    NEED(step_outs(step) <= MAX_OUTS, "more results than a step may have");
    for (int r = 0; r < step_outs(step); r++) TRY(check_value(c, &step->outs[r]->base, true));
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

static bool is_placed(const Slot *slot) {
    return slot->kind == SLOT_arena && slot->first >= 0 && slot->last >= slot->first && slot->bytes;
}

/* Symbolic ranges start at expressions of their own, and nothing more is known of them. */
static bool is_known(const Slot *slot) { return !sym_is(slot->offset) && !sym_is(slot->bytes); }

/* A sweep over the steps: the slots that are alive, which lie apart, by device and offset. A new one is compared with
 * its neighbours. */
typedef struct Sweep {
    const Slot **by_first, **by_last, **alive;
    int n, n_alive;
} Sweep;

static int compare_places(const Slot *a, const Slot *b) {
    if (a->meta->device != b->meta->device) return a->meta->device < b->meta->device ? -1 : 1;
    return (a->offset > b->offset) - (a->offset < b->offset);
}

static int by_first(const void *a, const void *b) {
    const Slot *const x = *(const Slot *const *)a, *const y = *(const Slot *const *)b;
    return x->first != y->first ? (x->first > y->first) - (x->first < y->first) : (x > y) - (x < y);
}

static int by_last(const void *a, const void *b) {
    const Slot *const x = *(const Slot *const *)a, *const y = *(const Slot *const *)b;
    return (x->last > y->last) - (x->last < y->last);
}

/* Where it is among those alive, or would be. */
static int alive_place(const Sweep *sweep, const Slot *slot) {
    int low = 0, high = sweep->n_alive;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (compare_places(sweep->alive[middle], slot) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The nearest of a known range on the same device, before `at` or from there on; NULL: none. */
static const Slot *known_neighbour(const Sweep *sweep, int at, int step, const Slot *slot) {
    for (; at >= 0 && at < sweep->n_alive && sweep->alive[at]->meta->device == slot->meta->device; at += step)
        if (is_known(sweep->alive[at])) return sweep->alive[at];
    return NULL;
}

/* A slot that is alive and not apart from this one; NULL: none. */
static const Slot *alive_overlap(const Sweep *sweep, int at, const Slot *slot) {
    if (at < sweep->n_alive && !compare_places(sweep->alive[at], slot)) return sweep->alive[at];
    if (!is_known(slot)) return NULL;
    const Slot *const before = known_neighbour(sweep, at - 1, -1, slot);
    const Slot *const after = known_neighbour(sweep, at, 1, slot);
    if (before && before->offset + before->bytes > slot->offset) return before;
    return after && slot->offset + slot->bytes > after->offset ? after : NULL;
}

static void move_alive(Sweep *sweep, int to, int from) {
    memmove(&sweep->alive[to], &sweep->alive[from], sizeof *sweep->alive * (size_t)(sweep->n_alive - from));
    sweep->n_alive += to - from;
}

static Status sweep_arena(const Plan *plan, Sweep *sweep) {
    for (int i = 0, ended = 0; i < sweep->n; i++) {
        const Slot *const slot = sweep->by_first[i];
        for (; sweep->by_last[ended]->last < slot->first; ended++) {
            const int at = alive_place(sweep, sweep->by_last[ended]);
            move_alive(sweep, at, at + 1);
        }
        const int at = alive_place(sweep, slot);
        const Slot *const other = alive_overlap(sweep, at, slot);
        if (other)
            return error_raise(ST_INTERNAL, "plan: slots %d and %d overlap while both are alive",
                               (int)(slot - plan->slots.at), (int)(other - plan->slots.at));
        move_alive(sweep, at + 1, at);
        sweep->alive[at] = slot;
    }
    return ST_OK;
}

static Status check_arena(const Plan *plan) {
    const Slot **const room = mem_alloc(sizeof *room * 3 * (size_t)(plan->slots.n + 1));
    if (!room) return ST_MEMORY;
    Sweep sweep = {.by_first = room, .by_last = room + plan->slots.n, .alive = room + 2 * plan->slots.n};
    for (int i = 0; i < plan->slots.n; i++) {
        const Slot *const slot = &plan->slots.at[i];
        if (is_placed(slot)) sweep.by_first[sweep.n] = sweep.by_last[sweep.n] = slot, sweep.n++;
    }
    if (sweep.n > 1) qsort(sweep.by_first, (size_t)sweep.n, sizeof *room, by_first);
    if (sweep.n > 1) qsort(sweep.by_last, (size_t)sweep.n, sizeof *room, by_last);
    const Status status = sweep_arena(plan, &sweep);
    mem_free(room);
    return status;
}

Status plan_verify(const Plan *plan, bool packed) {
    TRY(check_outputs(plan));
    TRY(check_slots(plan));
    TRY(check_steps(plan, packed));
    return packed ? check_arena(plan) : ST_OK;
}
