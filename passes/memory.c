/* memory.c: lifetimes of slots over the steps, and the arena: every intermediate gets a range that
 * no other live one uses, 64-byte aligned.
 *
 * Plain sizes are placed first-fit by size, largest first (the classic offset packing). A symbolic
 * size shares a range only with values of the same expression, as nothing else is known to fit;
 * ranges of symbolic size follow the plain ones. */
#include "passes/internal.h"
#include "runtime/base/error.h"

enum { ALIGNMENT = 64 };

static void use(Plan *plan, int slot, int step) {
    if (slot < 0) return;
    Slot *const s = &plan->slots.at[slot];
    if (s->first < 0) s->first = step;
    s->last = step;
}

typedef struct UseStep {
    Plan *plan;
    int step;
} UseStep;

static void use_val(const UseStep *at, const Val *v) {
    if (v) use(at->plan, at->plan->places[gval((Val *)v)->id].slot, at->step);
}

static void lifetimes(Plan *plan) {
    for (int i = 0; i < plan->steps.n; i++) {
        const Step *const step = &plan->steps.at[i];
        if (step->kind == STEP_kernel) {
            for (int b = 0; b < step->kernel->n_bufs; b++) use(plan, step->bufs[b], i);
            continue;
        }
        const UseStep at = {plan, i};
        for (int a = 0; a < step->row->n_params; a++) {
            const Arg *const arg = &step->args[a];
            if (arg->kind == ARG_tensor) use_val(&at, arg->val);
            for (int k = 0; arg->kind == ARG_tensors && k < arg->n; k++) use_val(&at, arg->vals[k]);
        }
        for (int r = 0; r < step->row->n_out; r++) use_val(&at, &step->outs[r]->base);
    }
}

static bool overlap_in_time(const Slot *a, const Slot *b) { return a->first <= b->last && b->first <= a->last; }

/* The lowest offset where `slot` fits beside the `n` placed ones. */
static int64_t first_fit(Slot *const *placed, int n, const Slot *slot) {
    int64_t offset = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (int i = 0; i < n; i++) {
            const Slot *const other = placed[i];
            const bool apart = offset + slot->bytes <= other->offset || other->offset + other->bytes <= offset;
            if (apart || !overlap_in_time(other, slot)) continue;
            offset = round_up(other->offset + other->bytes, ALIGNMENT);
            moved = true;
        }
    }
    return offset;
}

static int64_t pack_plain(Plan *plan, Slot **order) {
    int n = 0;
    int64_t end = 0;
    for (int i = 0; i < plan->slots.n; i++) {
        Slot *const slot = &plan->slots.at[i];
        if (slot->kind != SLOT_arena || sym_is(slot->bytes) || slot->first < 0) continue;
        int at = n++;
        for (; at > 0 && order[at - 1]->bytes < slot->bytes; at--) order[at] = order[at - 1];
        order[at] = slot;
    }
    for (int i = 0; i < n; i++) {
        order[i]->offset = first_fit(order, i, order[i]);
        end = max_i64(end, round_up(order[i]->offset + order[i]->bytes, ALIGNMENT));
    }
    return end;
}

static bool shares(const Slot *slot, const Slot *const *members, int n) {
    for (int i = 0; i < n; i++)
        if (overlap_in_time(slot, members[i])) return false;
    return true;
}

/* A range of one symbolic size and all values of that size that fit in it one after the other. */
static int64_t fill_range(Plan *plan, int first, int64_t offset, const Slot **members) {
    SymEnv *const env = plan->graph->env;
    const int64_t bytes = plan->slots.at[first].bytes;
    int n = 0;
    for (int i = first; i < plan->slots.n; i++) {
        Slot *const slot = &plan->slots.at[i];
        if (slot->kind != SLOT_arena || slot->bytes != bytes || slot->offset >= 0 || slot->first < 0) continue;
        if (!shares(slot, members, n)) continue;
        slot->offset = offset;
        members[n++] = slot;
    }
    const int64_t units = sym_div(env, sym_add(env, bytes, ALIGNMENT - 1), ALIGNMENT);
    return sym_add(env, offset, sym_mul(env, units, ALIGNMENT));
}

static void pack(Plan *plan) {
    lifetimes(plan);
    Slot **const order = ARENA_ARRAY(plan->arena, Slot *, plan->slots.n + 1);
    int64_t end = pack_plain(plan, order);
    for (int i = 0; i < plan->slots.n; i++)
        if (plan->slots.at[i].kind == SLOT_arena && sym_is(plan->slots.at[i].bytes)) plan->slots.at[i].offset = -1;
    for (int i = 0; i < plan->slots.n; i++) {
        const Slot *const slot = &plan->slots.at[i];
        if (slot->kind != SLOT_arena || !sym_is(slot->bytes) || slot->first < 0 || slot->offset != -1) continue;
        end = fill_range(plan, i, end, (const Slot **)order);
    }
    plan->arena_bytes = end;
}

bool pass_memory(Graph *graph, const PassOptions *options) {
    (void)options;
    if (graph->plan)
        pack(graph->plan);
    else
        error_raise(ST_ARGUMENT, "memory: the graph is not lowered");
    return graph->plan != NULL;
}
