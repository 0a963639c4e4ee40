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

static Status check_eager(const PlanCheck *c, const Step *step) {
    NEED(op_runs_alone(step->row), "an op that eager does not run for a plan");
    NEED(step->workspace < 0, "a workspace that no kernel takes");
    return check_native(c, step);
}

static bool checks_values(const Plan *plan, int id) {
    const PlanOp *const op = plan_op(plan, id);
    return op && op->row->flags & OPF_check;
}

/* A step that may fail on values: nothing visible outside may be written before it [C8]. */
static bool may_fail(const Plan *plan, const Step *step) {
    if (step->row) return step->row->flags & OPF_may_fail;
    for (int i = 0; i < step->n_ops; i++)
        if (checks_values(plan, step->ops[i])) return true;
    return false;
}

static Status check_step(const PlanCheck *c, const Step *step) {
    NEED(step->kind == STEP_copy ? device_has_memory(step->device) : device_has_executor(step->device),
         "a device without executor");
    return step->kind == STEP_kernel   ? check_kernel(c, step)
           : step->kind == STEP_native ? check_native(c, step)
           : step->kind == STEP_eager  ? check_eager(c, step)
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

/* A slot that has its place, under values of the symbols. */
typedef struct SlotRange {
    const Slot *slot;
    int64_t offset, bytes;
} SlotRange;

/* A sweep over the steps: the ranges that are alive, which lie apart, by device and offset. A new one is compared with
 * its neighbours. */
typedef struct Sweep {
    SlotRange *ranges;
    const SlotRange **by_first, **by_last, **alive;
    int n, n_alive;
} Sweep;

static int compare_places(const SlotRange *a, const SlotRange *b) {
    if (a->slot->meta->device != b->slot->meta->device) return a->slot->meta->device < b->slot->meta->device ? -1 : 1;
    return (a->offset > b->offset) - (a->offset < b->offset);
}

static int by_first(const void *a, const void *b) {
    const SlotRange *const x = *(const SlotRange *const *)a, *const y = *(const SlotRange *const *)b;
    return x->slot->first != y->slot->first ? (x->slot->first > y->slot->first) - (x->slot->first < y->slot->first)
                                            : (x > y) - (x < y);
}

static int by_last(const void *a, const void *b) {
    const SlotRange *const x = *(const SlotRange *const *)a, *const y = *(const SlotRange *const *)b;
    return (x->slot->last > y->slot->last) - (x->slot->last < y->slot->last);
}

/* Where it is among those alive, or would be. */
static int alive_place(const Sweep *sweep, const SlotRange *range) {
    int low = 0, high = sweep->n_alive;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (compare_places(sweep->alive[middle], range) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static const SlotRange *neighbour(const Sweep *sweep, int at, const SlotRange *range) {
    if (at < 0 || at >= sweep->n_alive) return NULL;
    return sweep->alive[at]->slot->meta->device == range->slot->meta->device ? sweep->alive[at] : NULL;
}

/* A range that is alive and not apart from this one; NULL: none. */
static const SlotRange *alive_overlap(const Sweep *sweep, int at, const SlotRange *range) {
    const SlotRange *const before = neighbour(sweep, at - 1, range), *const after = neighbour(sweep, at, range);
    if (before && before->offset + before->bytes > range->offset) return before;
    return after && range->offset + range->bytes > after->offset ? after : NULL;
}

static void move_alive(Sweep *sweep, int to, int from) {
    memmove(&sweep->alive[to], &sweep->alive[from], sizeof *sweep->alive * (size_t)(sweep->n_alive - from));
    sweep->n_alive += to - from;
}

static Status sweep_arena(const Plan *plan, Sweep *sweep) {
    for (int i = 0, ended = 0; i < sweep->n; i++) {
        const SlotRange *const range = sweep->by_first[i];
        for (; sweep->by_last[ended]->slot->last < range->slot->first; ended++) {
            const int at = alive_place(sweep, sweep->by_last[ended]);
            move_alive(sweep, at, at + 1);
        }
        const int at = alive_place(sweep, range);
        const SlotRange *const other = alive_overlap(sweep, at, range);
        if (other)
            return error_raise(ST_INTERNAL, "plan: slots %d and %d overlap while both are alive",
                               (int)(range->slot - plan->slots.at), (int)(other->slot - plan->slots.at));
        move_alive(sweep, at + 1, at);
        sweep->alive[at] = range;
    }
    return ST_OK;
}

/* Whether the symbols may have these values: no size is negative then. */
static bool find_ranges(const Plan *plan, const int64_t *symbols, Sweep *sweep) {
    bool possible = true;
    sweep->n = sweep->n_alive = 0;
    for (int i = 0; i < plan->slots.n; i++) {
        const Slot *const slot = &plan->slots.at[i];
        if (!is_placed(slot)) continue;
        SlotRange *const range = &sweep->ranges[sweep->n];
        *range =
            (SlotRange){slot, sym_eval(plan->env, slot->offset, symbols), sym_eval(plan->env, slot->bytes, symbols)};
        possible &= range->bytes >= 0;
        if (range->bytes > 0) sweep->by_first[sweep->n] = sweep->by_last[sweep->n] = range, sweep->n++;
    }
    return possible;
}

static Status check_ranges(const Plan *plan, const int64_t *symbols, Sweep *sweep) {
    if (!find_ranges(plan, symbols, sweep)) return ST_OK;
    if (sweep->n > 1) qsort(sweep->by_first, (size_t)sweep->n, sizeof *sweep->by_first, by_first);
    if (sweep->n > 1) qsort(sweep->by_last, (size_t)sweep->n, sizeof *sweep->by_last, by_last);
    return sweep_arena(plan, sweep);
}

/* Values for the symbols: the hints at first, then the least that they may have, then some that are apart. */
enum { ROUNDS = 3 };
static bool fill_symbols(const Plan *plan, int round, int64_t *symbols) {
    for (int i = 0; plan->env && i < sym_free_count(plan->env); i++) {
        const SymExpr *const e = sym_expr(plan->env, sym_free_at(plan->env, i));
        symbols[i] = round == 0 || e->b == SYM_LEAST ? e->hint : round == 1 ? e->b : e->b + 5 + 11 * (int64_t)i;
    }
    for (int i = 0; round && i < sym_guard_count(plan->env); i++)
        if (!sym_guard_holds(plan->env, sym_guard_at(plan->env, i), symbols)) return false;
    return true;
}

static Status check_arena(const Plan *plan) {
    const int n = plan->slots.n + 1, n_symbols = plan->env ? sym_free_count(plan->env) : 0;
    SlotRange *const ranges = mem_alloc(sizeof *ranges * (size_t)n);
    const SlotRange **const buffer = mem_alloc(sizeof *buffer * 3 * (size_t)n);
    int64_t *const symbols = mem_alloc(sizeof *symbols * (size_t)(n_symbols + 1));
    Sweep sweep = {.ranges = ranges, .by_first = buffer, .by_last = buffer + n, .alive = buffer + 2 * n};
    Status status = ranges && buffer && symbols ? ST_OK : ST_MEMORY;
    for (int round = 0; status == ST_OK && round < (n_symbols ? ROUNDS : 1); round++)
        if (fill_symbols(plan, round, symbols)) status = check_ranges(plan, symbols, &sweep);
    mem_free(ranges), mem_free(buffer), mem_free(symbols);
    return status;
}

Status plan_verify(const Plan *plan, bool packed) {
    TRY(check_outputs(plan));
    TRY(check_slots(plan));
    TRY(check_steps(plan, packed));
    return packed ? check_arena(plan) : ST_OK;
}
