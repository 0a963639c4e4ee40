/* memory.c: lifetimes of slots over the steps, and the arenas, one a device: every intermediate, and the workspace of
 * a native op, gets a range that no other live one uses, 64-byte aligned.
 *
 * Plain sizes are placed first-fit by size, largest first (the classic offset packing). Ranges of symbolic size follow
 * the plain ones (memory_symbolic.c).
 *
 * One allocation a call is the quickest, but it is there when a product packs its operand, a library is called or a
 * result is kept, of which eager has freed the most by then. So a call takes it by step where more than a line of it
 * for each slot would lie idle in some step [semantics G5]. */
#include <stdlib.h>

#include "passes/calendar.h"
#include "passes/internal.h"
#include "passes/lower.h"
#include "runtime/base/error.h"

static void use(Plan *plan, int slot, int step) {
    if (slot < 0) return;
    Slot *const s = &plan->slots.at[slot];
    if (s->first < 0) s->first = step;
    s->last = step;
}

static void use_val(Plan *plan, const Val *v, int step) {
    if (v) use(plan, plan_value(v)->slot, step);
}

static void use_arg(Plan *plan, const Arg *arg, int step) {
    if (arg->kind == ARG_tensor) use_val(plan, arg->val, step);
    for (int k = 0; arg->kind == ARG_tensors && k < arg->n; k++) use_val(plan, arg->vals[k], step);
}

static void lifetimes(Plan *plan) {
    for (int i = 0; i < plan->steps.n; i++) {
        const Step *const step = &plan->steps.at[i];
        if (step->kind == STEP_kernel) {
            for (int b = 0; b < step->kernel->n_bufs; b++) use(plan, step->bufs[b], i);
            continue;
        }
        for (int a = 0; a < step_args(step); a++) use_arg(plan, &step->args[a], i);
        for (int r = 0; r < step_outs(step); r++) use_val(plan, &step->outs[r]->base, i);
        use(plan, step->workspace, i);
    }
}

/* Of a plan that is one launch the host's steps run before all others (runtime/device/execute.c), so what a device
 * takes from the host stays as it is until the last of them. */
static void keep_for_devices(Plan *plan) {
    int last = -1;
    for (int i = 0; i < plan->steps.n; i++)
        if (device_is_host(plan->steps.at[i].device)) last = i;
    for (int i = 0; i < last; i++) {
        const Step *const step = &plan->steps.at[i];
        if (step->kind != STEP_copy || device_is_host(step->device)) continue;
        Slot *const from = &plan->slots.at[plan_value(step->args[0].val)->slot];
        if (device_is_host(from->meta->device) && from->last < last) from->last = last;
    }
}

/* The lowest offset where `slot` fits beside the placed ones. */
static int64_t first_fit(Calendar *calendar, const Slot *slot) {
    const Slots *const others = calendar_together(calendar, slot);
    calendar->work += others->n;
    int64_t offset = 0;
    for (int i = 0; i < others->n; i++) {
        const Slot *const other = others->at[i];
        if (offset + slot->bytes <= other->offset) break;
        if (!overlap_in_time(slot, other)) continue;
        offset = max_i64(offset, round_up(other->offset + other->bytes, SLOT_ALIGNMENT));
    }
    return offset;
}

/* Largest first, then in order. */
static int by_size(const void *a, const void *b) {
    const Slot *const x = *(Slot *const *)a, *const y = *(Slot *const *)b;
    return x->bytes != y->bytes ? (x->bytes < y->bytes) - (x->bytes > y->bytes) : (x > y) - (x < y);
}

/* Of one device's arena, like what follows. */
static bool is_in(const Slot *slot, Device device) { return slot->kind == SLOT_arena && slot->meta->device == device; }

static int64_t pack_plain(Plan *plan, Device device, Slot **order, int64_t *work) {
    Calendar calendar;
    calendar_init(&calendar, plan->arena, plan->steps.n);
    int n = 0;
    int64_t end = 0;
    for (int i = 0; i < plan->slots.n; i++) {
        Slot *const slot = &plan->slots.at[i];
        if (is_in(slot, device) && !sym_is(slot->bytes) && slot->first >= 0) order[n++] = slot;
    }
    if (n > 1) qsort(order, (size_t)n, sizeof *order, by_size);
    for (int i = 0; i < n; i++) {
        order[i]->offset = first_fit(&calendar, order[i]);
        end = max_i64(end, round_up(order[i]->offset + order[i]->bytes, SLOT_ALIGNMENT));
        calendar_place(&calendar, order[i]);
    }
    *work += calendar.work;
    return end;
}

int64_t pack_arena(Plan *plan, Device device, Slot **order, int64_t *work) {
    const int64_t end = pack_plain(plan, device, order, work);
    int n = 0;
    for (int i = 0; i < plan->slots.n; i++) {
        Slot *const slot = &plan->slots.at[i];
        if (is_in(slot, device) && sym_is(slot->bytes) && slot->first >= 0) order[n++] = slot;
    }
    return n ? pack_symbolic(plan, (SlotList){order, n}, end, work) : end;
}

/* by step ------------------------------------------------------------------------------------- */

static int64_t hinted_bytes(const Plan *plan, const Slot *slot) { return sym_hint(plan->env, slot->bytes); }

/* Bytes that are alive in each step, as differences to the one before. */
static int64_t most_alive(const Plan *plan, Device device) {
    int64_t *const change = ARENA_ARRAY(plan->arena, int64_t, plan->steps.n + 2), most = 0, now = 0;
    for (int i = 0; i < plan->slots.n; i++) {
        const Slot *const slot = &plan->slots.at[i];
        if (!is_in(slot, device) || slot->first < 0) continue;
        change[slot->first] += hinted_bytes(plan, slot), change[slot->last + 1] -= hinted_bytes(plan, slot);
    }
    for (int s = 0; s < plan->steps.n; s++) most = max_i64(most, now += change[s]);
    return most;
}

/* What a step neither reads nor writes, nor one behind it what one before it wrote: the most of it in any step. */
static int64_t most_idle(const Plan *plan) {
    int64_t *const change = ARENA_ARRAY(plan->arena, int64_t, plan->steps.n + 2), most = 0, now = 0;
    for (int i = 0; i < plan->arenas.n; i++) now += sym_hint(plan->env, plan->arenas.at[i].bytes);
    for (int i = 0; i < plan->slots.n; i++) {
        const Slot *const slot = &plan->slots.at[i];
        if (slot->kind == SLOT_input || slot->first < 0) continue;
        if (slot->kind == SLOT_output) now += hinted_bytes(plan, slot);
        change[slot->first] -= hinted_bytes(plan, slot);
        if (slot->kind == SLOT_arena) change[slot->last + 1] += hinted_bytes(plan, slot);
    }
    for (int s = 0; s < plan->steps.n; s++) most = max_i64(most, now += change[s]);
    return most;
}

static void choose_by_step(Plan *plan) {
    plan->by_step = most_idle(plan) > (int64_t)SLOT_ALIGNMENT * plan->slots.n;
    for (int i = 0; plan->by_step && i < plan->arenas.n; i++)
        plan->arenas.at[i].most = most_alive(plan, plan->arenas.at[i].device);
}

static void pack(Plan *plan, int64_t *work) {
    lifetimes(plan);
    keep_for_devices(plan);
    Slot **const order = ARENA_ARRAY(plan->arena, Slot *, plan->slots.n + 1);
    plan_arena(plan, DEV_host);
    for (int i = 0; i < plan->slots.n; i++)
        if (plan->slots.at[i].kind == SLOT_arena) plan_arena(plan, plan->slots.at[i].meta->device);
    for (int i = 0; i < plan->arenas.n; i++)
        plan->arenas.at[i].bytes = pack_arena(plan, plan->arenas.at[i].device, order, work);
}

bool pass_memory(Graph *graph, const PassOptions *options) {
    if (!graph->plan) {
        error_raise(ST_ARGUMENT, "memory: the graph is not lowered");
        return false;
    }
    pack(graph->plan, &graph->lowering->work.places);
    if (!options->must_run) choose_by_step(graph->plan); /* eager's own have few steps */
    return true;
}
