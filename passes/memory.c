/* memory.c: lifetimes of slots over the steps, and the arenas, one a device: every intermediate, and the workspace of
 * a native op, gets a range that no other live one uses, 64-byte aligned.
 *
 * Plain sizes are placed first-fit by size, largest first (the classic offset packing). A symbolic
 * size shares a range only with values of the same expression, as nothing else is known to fit;
 * ranges of symbolic size follow the plain ones. */
#include <stdlib.h>

#include "passes/internal.h"
#include "passes/lower.h"
#include "runtime/base/error.h"

enum { ALIGNMENT = 64 };

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

static bool overlap_in_time(const Slot *a, const Slot *b) { return a->first <= b->last && b->first <= a->last; }

typedef VEC(Slot *) Slots;

/* The placed slots by their time. What overlaps with [first, last] is alive at `first` or starts later within it: the
 * former are in the ranges of a tree over the steps that `first` lies in, the latter in the steps' lists. */
typedef struct Calendar {
    Arena *arena;
    int n_steps;
    Slots *alive;  /* tree: node i has the children 2i and 2i+1, step s is leaf n_steps + s */
    Slots *starts; /* by step */
    Slots all;     /* by offset; those from `n_sorted` on as they were placed */
    int n_sorted;
    int64_t work; /* slots looked at and moved */
    Slots found;
} Calendar;

static int by_offset(const void *a, const void *b) {
    const Slot *const x = *(Slot *const *)a, *const y = *(Slot *const *)b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

static void place_slot(Calendar *calendar, Slot *slot) {
    VEC_PUSH(calendar->arena, &calendar->all, slot);
    VEC_PUSH(calendar->arena, &calendar->starts[slot->first], slot);
    int low = slot->first + calendar->n_steps, high = slot->last + calendar->n_steps;
    for (; low <= high; low = (low + 1) / 2, high = (high - 1) / 2) {
        if (low & 1) VEC_PUSH(calendar->arena, &calendar->alive[low], slot);
        if (!(high & 1)) VEC_PUSH(calendar->arena, &calendar->alive[high], slot);
    }
}

static void take_memory(Calendar *calendar, const Slots *slots) {
    for (int i = 0; i < slots->n; i++) VEC_PUSH(calendar->arena, &calendar->found, slots->at[i]);
}

static int number_together(const Calendar *calendar, const Slot *slot) {
    int n = 0;
    for (int i = slot->first + calendar->n_steps; i > 0; i /= 2) n += calendar->alive[i].n;
    for (int step = slot->first + 1; step <= slot->last; step++) n += calendar->starts[step].n;
    return n;
}

static const Slots *all_sorted(Calendar *calendar) {
    Slots *const all = &calendar->all;
    for (; calendar->n_sorted < all->n; calendar->n_sorted++) {
        Slot *const slot = all->at[calendar->n_sorted];
        int i = calendar->n_sorted;
        for (; i > 0 && by_offset(&all->at[i - 1], &slot) > 0; i--) all->at[i] = all->at[i - 1];
        all->at[i] = slot;
        calendar->work += calendar->n_sorted - i + 1;
    }
    return all;
}

/* Placed slots by offset: those that are alive together with `slot`, or, where these are many, all. */
static const Slots *together(Calendar *calendar, const Slot *slot) {
    if (number_together(calendar, slot) > calendar->all.n / 16) return all_sorted(calendar);
    calendar->found.n = 0;
    for (int i = slot->first + calendar->n_steps; i > 0; i /= 2) take_memory(calendar, &calendar->alive[i]);
    for (int step = slot->first + 1; step <= slot->last; step++) take_memory(calendar, &calendar->starts[step]);
    if (calendar->found.n > 1) qsort(calendar->found.at, (size_t)calendar->found.n, sizeof(Slot *), by_offset);
    return &calendar->found;
}

/* The lowest offset where `slot` fits beside the placed ones. */
static int64_t first_fit(Calendar *calendar, const Slot *slot) {
    const Slots *const others = together(calendar, slot);
    calendar->work += others->n;
    int64_t offset = 0;
    for (int i = 0; i < others->n; i++) {
        const Slot *const other = others->at[i];
        if (offset + slot->bytes <= other->offset) break;
        if (!overlap_in_time(slot, other)) continue;
        offset = max_i64(offset, round_up(other->offset + other->bytes, ALIGNMENT));
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
    const int steps = plan->steps.n;
    Calendar calendar = {.arena = plan->arena, .n_steps = steps};
    calendar.alive = ARENA_ARRAY(plan->arena, Slots, 2 * steps + 2);
    calendar.starts = ARENA_ARRAY(plan->arena, Slots, steps + 1);
    int n = 0;
    int64_t end = 0;
    for (int i = 0; i < plan->slots.n; i++) {
        Slot *const slot = &plan->slots.at[i];
        if (is_in(slot, device) && !sym_is(slot->bytes) && slot->first >= 0) order[n++] = slot;
    }
    if (n > 1) qsort(order, (size_t)n, sizeof *order, by_size);
    for (int i = 0; i < n; i++) {
        order[i]->offset = first_fit(&calendar, order[i]);
        end = max_i64(end, round_up(order[i]->offset + order[i]->bytes, ALIGNMENT));
        place_slot(&calendar, order[i]);
    }
    *work += calendar.work;
    return end;
}

static bool shares_slot(const Slot *slot, const Slot *const *members, int n) {
    for (int i = 0; i < n; i++)
        if (overlap_in_time(slot, members[i])) return false;
    return true;
}

/* A range of one symbolic size and all values of that size that fit in it one after the other. */
static int64_t fill_range(Plan *plan, int first, int64_t offset, const Slot **members) {
    SymEnv *const env = plan->env;
    const int64_t bytes = plan->slots.at[first].bytes;
    const Device device = plan->slots.at[first].meta->device;
    int n = 0, last = -1;
    for (int i = first; i < plan->slots.n; i++) {
        Slot *const slot = &plan->slots.at[i];
        if (!is_in(slot, device) || slot->bytes != bytes || slot->offset >= 0 || slot->first < 0) continue;
        if (slot->first <= last && !shares_slot(slot, members, n)) continue;
        slot->offset = offset;
        last = slot->last > last ? slot->last : last;
        members[n++] = slot;
    }
    const int64_t units = sym_div(env, sym_add(env, bytes, ALIGNMENT - 1), ALIGNMENT);
    return sym_add(env, offset, sym_mul(env, units, ALIGNMENT));
}

static int64_t pack_arena(Plan *plan, Device device, Slot **order, int64_t *work) {
    int64_t end = pack_plain(plan, device, order, work);
    for (int i = 0; i < plan->slots.n; i++)
        if (is_in(&plan->slots.at[i], device) && sym_is(plan->slots.at[i].bytes)) plan->slots.at[i].offset = -1;
    for (int i = 0; i < plan->slots.n; i++) {
        const Slot *const slot = &plan->slots.at[i];
        if (!is_in(slot, device) || !sym_is(slot->bytes) || slot->first < 0 || slot->offset != -1) continue;
        end = fill_range(plan, i, end, (const Slot **)order);
    }
    return end;
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
    (void)options;
    if (graph->plan)
        pack(graph->plan, &graph->lowering->work.places);
    else
        error_raise(ST_ARGUMENT, "memory: the graph is not lowered");
    return graph->plan != NULL;
}
