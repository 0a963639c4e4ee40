/* launch_memory.c: the memory of a call: its results and intermediates, from its start to its end, or by step.
 *
 *     whole      one arena a device and all results are there from the start
 *     by step    what a step writes first comes before it, what it reads last goes behind it (Plan.by_step)
 *
 * Inputs that the call owns go behind the last step that reads them either way. */
#include "runtime/device/launch_memory.h"

#include "runtime/base/alloc.h"

/* turns --------------------------------------------------------------------------------------- */

static void push_lifetime(const StepLists *list, int step, int item) {
    list->next[item] = list->first[step];
    list->first[step] = item + 1;
}

static void list_inputs(const Plan *plan, StepLifetimes *lifetimes, bool *stays) {
    for (int i = 0; i < plan->inputs.n; i++) stays[i] = plan->inputs.at[i].written;
    for (int i = 0; i < plan->outputs.n; i++) {
        const PlanOutput *const output = &plan->outputs.at[i];
        if (output->kind == OUT_input || output->kind == OUT_view_of_input) stays[output->base] = true;
    }
    for (int i = 0; i < plan->inputs.n; i++) {
        const int last = plan->slots.at[i].last;
        if (!stays[i]) push_lifetime(&lifetimes->inputs_end, last < 0 ? 0 : last + 1, i);
    }
}

static void list_slots(const Plan *plan, StepLifetimes *lifetimes) {
    for (int i = 0; i < plan->slots.n; i++) {
        const Slot *const slot = &plan->slots.at[i];
        if (slot->kind == SLOT_output) lifetimes->out_slot[slot->index] = i;
        if (slot->kind != SLOT_arena || slot->first < 0) continue;
        push_lifetime(&lifetimes->slots_start, slot->first, i);
        push_lifetime(&lifetimes->slots_end, slot->last, i);
    }
}

/* Where the memory of a new output, or of a view of one, is written first; 0: it is there from the start. */
static int first_step(const Plan *plan, const StepLifetimes *lifetimes, int output) {
    const PlanOutput *const out = &plan->outputs.at[output];
    const int base = out->kind == OUT_view_of_output ? out->base : output;
    if (plan->outputs.at[base].kind != OUT_new) return 0;
    return max_i64(plan->slots.at[lifetimes->out_slot[base]].first, 0);
}

/* A list begins with what was put there last: views come behind their bases. */
static void list_outputs(const Plan *plan, StepLifetimes *lifetimes) {
    for (int bases = 0; bases < 2; bases++) {
        for (int i = 0; i < plan->outputs.n; i++) {
            const int first = first_step(plan, lifetimes, i);
            if (first > 0 && (plan->outputs.at[i].kind == OUT_new) == (bases == 1))
                push_lifetime(&lifetimes->outputs_start, first, i);
        }
    }
}

static int *carve_list(int *at, StepLists *list, size_t steps, size_t items) {
    *list = (StepLists){at, at + steps};
    return at + steps + items;
}

Status lifetimes_new(const Plan *plan, StepLifetimes **out) {
    const size_t in = (size_t)plan->inputs.n, outs = (size_t)plan->outputs.n, slots = (size_t)plan->slots.n;
    const size_t steps = (size_t)plan->steps.n;
    StepLifetimes *const lifetimes = *out =
        mem_zero(sizeof *lifetimes + (4 * steps + 1 + in + 2 * outs + 2 * slots) * sizeof(int) + in);
    if (!lifetimes) return ST_MEMORY;
    int *at = carve_list((int *)(lifetimes + 1), &lifetimes->inputs_end, steps + 1, in);
    at = carve_list(at, &lifetimes->outputs_start, steps, outs);
    at = carve_list(at, &lifetimes->slots_start, steps, slots);
    at = carve_list(at, &lifetimes->slots_end, steps, slots);
    lifetimes->out_slot = at;
    list_inputs(plan, lifetimes, (bool *)(at + outs));
    list_slots(plan, lifetimes);
    list_outputs(plan, lifetimes);
    return ST_OK;
}

/* outputs ------------------------------------------------------------------------------------- */

const Meta *launch_output_meta(const Launch *launch, int i) {
    const Executable *const e = launch->e;
    if (e->out_metas[i]) return e->out_metas[i];
    const Meta *const meta = e->plan->outputs.at[i].meta;
    int64_t sizes[MAX_RANK], strides[MAX_RANK];
    for (int d = 0; d < meta->rank; d++) {
        sizes[d] = launch_int(launch, meta->sizes[d]);
        strides[d] = launch_int(launch, meta->strides[d]);
    }
    return meta_intern(meta->dtype, meta->device, sizes, strides, meta->rank, meta->wrapped);
}

static sn_tensor *make_new(const Launch *launch, int i, const Meta *meta) {
    Storage *const given = launch->given ? launch->given[i] : NULL;
    if (UNLIKELY(given != NULL)) return tensor_from_storage(given, meta, 0);
    execute_counts()->allocations++;
    return tensor_new(meta);
}

static sn_tensor *make_output(const Launch *launch, int i) {
    const PlanOutput *const output = &launch->e->plan->outputs.at[i];
    if (output->kind == OUT_input) return launch->inputs[output->base];
    const Meta *const meta = launch_output_meta(launch, i);
    if (!meta) return NULL;
    if (output->kind == OUT_new) return make_new(launch, i, meta);
    sn_tensor *const base =
        output->kind == OUT_view_of_input ? launch->inputs[output->base] : launch->outs[output->base];
    return tensor_view(base, meta, base->offset + launch_int(launch, output->offset));
}

static bool comes_late(const Launch *launch, int output) {
    return launch->blocks && first_step(launch->e->plan, launch->e->lifetimes, output) > 0;
}

/* New ones first: views of outputs may come before their base. */
static Status make_outputs(Launch *launch) {
    const Plan *const plan = launch->e->plan;
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < plan->outputs.n; i++) {
            const OutKind kind = plan->outputs.at[i].kind;
            if (kind == OUT_none || comes_late(launch, i))
                launch->outs[i] = NULL;
            else if ((kind == OUT_view_of_output) == (pass == 1) && !(launch->outs[i] = make_output(launch, i)))
                return error_pending();
        }
    }
    return ST_OK;
}

static Status make_late_outputs(Launch *launch, int step) {
    const StepLifetimes *const lifetimes = launch->e->lifetimes;
    for (int i = lifetimes->outputs_start.first[step]; i; i = lifetimes->outputs_start.next[i - 1]) {
        sn_tensor *const made = launch->outs[i - 1] = make_output(launch, i - 1);
        if (!made) return error_pending();
        if (launch->e->plan->outputs.at[i - 1].kind == OUT_new)
            launch->slots[lifetimes->out_slot[i - 1]] = tensor_data(made);
    }
    return ST_OK;
}

/* arenas -------------------------------------------------------------------------------------- */

static Status make_arenas(Launch *launch) {
    const Plan *const plan = launch->e->plan;
    for (int i = 0; i < plan->arenas.n; i++) {
        const int64_t bytes = launch_int(launch, plan->arenas.at[i].bytes);
        if (!bytes) continue;
        execute_counts()->arena_allocations++;
        launch->arenas[i] = storage_new(plan->arenas.at[i].device, (size_t)bytes);
        if (!launch->arenas[i]) return ST_MEMORY;
    }
    return ST_OK;
}

/* NULL: no value in it has elements. */
static char *arena_start(const Launch *launch, Device device) {
    const Plan *const plan = launch->e->plan;
    int i = 0;
    while (plan->arenas.at[i].device != device) i++;
    return launch->arenas[i] ? launch->arenas[i]->data : NULL;
}

static void place_slots(Launch *launch) {
    const Plan *const plan = launch->e->plan;
    for (int i = 0; i < plan->slots.n; i++) {
        const Slot *const slot = &plan->slots.at[i];
        char *at;
        if (slot->kind == SLOT_input) /* one that no step reads may be gone */
            at = launch->owned && slot->first < 0 ? NULL : tensor_data(launch->inputs[slot->index]);
        else if (slot->kind == SLOT_output)
            at = launch->outs[slot->index] ? tensor_data(launch->outs[slot->index]) : NULL;
        else if (launch->blocks)
            at = NULL;
        else if ((at = arena_start(launch, slot->meta->device)))
            at += launch_int(launch, slot->offset);
        launch->slots[i] = at;
    }
}

static void let_go(const Launch *launch, int step_of_end) {
    const StepLists *const list = &launch->e->lifetimes->inputs_end;
    for (int i = list->first[step_of_end]; i; i = list->next[i - 1]) {
        if (!launch->owned[i - 1]) continue;
        tensor_release(launch->owned[i - 1]);
        launch->owned[i - 1] = NULL;
    }
}

Status memory_of_call(Launch *launch) {
    TRY(make_outputs(launch));
    place_slots(launch);
    return ST_OK;
}

Status memory_begin(Launch *launch, Storage **blocks) {
    if (launch->owned) let_go(launch, 0);
    launch->blocks = launch->e->plan->by_step ? blocks : NULL;
    if (launch->blocks)
        memset(blocks, 0, (size_t)launch->e->plan->slots.n * sizeof *blocks);
    else
        TRY(make_arenas(launch));
    return memory_of_call(launch);
}

static Status make_block(Launch *launch, int i) {
    const Slot *const slot = &launch->e->plan->slots.at[i];
    const int64_t bytes = launch_int(launch, slot->bytes);
    execute_counts()->arena_allocations++;
    launch->blocks[i] = storage_new(slot->meta->device, (size_t)bytes);
    if (!launch->blocks[i]) return ST_MEMORY;
    launch->slots[i] = launch->blocks[i]->data;
    return ST_OK;
}

static void drop_block(const Launch *launch, int i) {
    if (launch->blocks[i]) storage_release(launch->blocks[i]);
    launch->blocks[i] = NULL;
}

Status memory_before(Launch *launch, int step) {
    const StepLists *const list = &launch->e->lifetimes->slots_start;
    if (!launch->blocks) return ST_OK;
    TRY(make_late_outputs(launch, step));
    for (int i = list->first[step]; i; i = list->next[i - 1]) TRY(make_block(launch, i - 1));
    return ST_OK;
}

void memory_after(const Launch *launch, int step) {
    const StepLists *const list = &launch->e->lifetimes->slots_end;
    if (launch->owned) let_go(launch, step + 1);
    for (int i = launch->blocks ? list->first[step] : 0; i; i = list->next[i - 1]) drop_block(launch, i - 1);
}

void memory_end(const Launch *launch) {
    const Plan *const plan = launch->e->plan;
    for (int i = 0; i < plan->arenas.n; i++)
        if (launch->arenas[i]) storage_release(launch->arenas[i]);
    for (int i = 0; launch->blocks && i < plan->slots.n; i++) drop_block(launch, i);
    for (int i = 0; launch->owned && i < plan->inputs.n; i++)
        if (launch->owned[i]) tensor_release(launch->owned[i]);
}
