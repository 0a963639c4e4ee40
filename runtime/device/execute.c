/* execute.c: runs plans. Per call: sizes evaluated, outputs and one arena a device allocated, steps run in order.
 *
 *   inputs -> slots' pointers -> for each step: kernel (its device's launch), native op, or copy between devices
 *
 * The first step with a failed check ends
 * the call; lowering has put everything that is visible outside after all checks, so nothing was
 * committed then [semantics C8]. */
#include "runtime/device/execute.h"

#include <stdatomic.h>
#include <stdio.h>

#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/fpenv.h"
#include "runtime/core/custom_op.h"
#include "runtime/device/device.h"
#include "runtime/device/front.h"
#include "runtime/device/launch.h"
#include "runtime/device/repeat.h"
#include "runtime/device/step_cost.h"
#include "runtime/device/watch.h"

static HOT_THREAD_LOCAL ExecuteCounts counts;
ExecuteCounts *execute_counts(void) { return &counts; }

/* building ------------------------------------------------------------------------------------ */

/* Each row makes what all its kernels of the plan need, when the first of them is met. */
static Status build_codes(Executable *e, const NativeCode *native, void *context) {
    for (int s = 0; s < e->plan->steps.n; s++)
        if (e->plan->steps.at[s].kind == STEP_kernel && !e->codes[s])
            TRY(e->rows[s]->make_code(e->rows[s], e, native, context));
    return ST_OK;
}

static bool plain_meta(const Meta *meta) {
    for (int i = 0; i < meta->rank; i++)
        if (sym_is(meta->sizes[i]) || sym_is(meta->strides[i])) return false;
    return true;
}

/* Metas of the outputs: interned now where nothing in them is symbolic. */
static Status build_metas(Executable *e) {
    for (int i = 0; i < e->plan->outputs.n; i++) {
        const Meta *const meta = e->plan->outputs.at[i].meta;
        if (!meta || !plain_meta(meta)) continue;
        e->out_metas[i] = meta_intern(meta->dtype, meta->device, meta->sizes, meta->strides, meta->rank, meta->wrapped);
        if (!e->out_metas[i]) return error_pending();
        meta_retain(e->out_metas[i]);
    }
    return ST_OK;
}

static void build_written(Executable *e) {
    for (int i = 0; i < e->plan->inputs.n; i++)
        if (e->plan->inputs.at[i].written) e->written[e->n_written++] = i;
}

/* By output: is it one that can be made late? By input: may it go early? */
static void mark_kept(const Plan *plan, bool *in, bool *out) {
    for (int i = 0; i < plan->inputs.n; i++) in[i] = !plan->inputs.at[i].written;
    for (int i = 0; i < plan->outputs.n; i++) out[i] = plan->outputs.at[i].kind == OUT_new;
    for (int i = 0; i < plan->outputs.n; i++) {
        const PlanOutput *const output = &plan->outputs.at[i];
        if (output->kind == OUT_input || output->kind == OUT_view_of_input) in[output->base] = false;
        if (output->kind == OUT_view_of_output) out[output->base] = false;
    }
}

static void list_turns(const Plan *plan, Turns *turns, bool *in, bool *out) {
    mark_kept(plan, in, out);
    for (int i = 0; i < plan->outputs.n; i++) turns->out_slot[i] = -1;
    for (int i = 0; i < plan->slots.n; i++) {
        const Slot *const slot = &plan->slots.at[i];
        if (slot->kind == SLOT_input && slot->last >= 0 && in[slot->index]) {
            turns->next_end[slot->index] = turns->ends[slot->last];
            turns->ends[slot->last] = slot->index + 1;
        }
        if (slot->kind == SLOT_output && slot->first > 0 && out[slot->index]) {
            turns->next_start[slot->index] = turns->starts[slot->first];
            turns->starts[slot->first] = slot->index + 1;
            turns->out_slot[slot->index] = i;
        }
    }
}

static Status build_turns(Executable *e) {
    const Plan *const plan = e->plan;
    const size_t in = (size_t)plan->inputs.n, out = (size_t)plan->outputs.n, steps = (size_t)plan->steps.n;
    Turns *const turns = e->turns = mem_zero(sizeof *turns + (2 * steps + in + 2 * out) * sizeof(int) + in + out);
    if (!turns) return ST_MEMORY;
    turns->ends = (int *)(turns + 1);
    turns->next_end = turns->ends + steps;
    turns->starts = turns->next_end + in;
    turns->next_start = turns->starts + steps;
    turns->out_slot = turns->next_start + out;
    bool *const marks = (bool *)(turns->out_slot + out);
    list_turns(plan, turns, marks, marks + in);
    return ST_OK;
}

/* What runs each step. */
static Status build_rows(Executable *e) {
    if (e->plan->arenas.n > PLAN_DEVICES)
        return error_raise(ST_UNSUPPORTED, "a plan on more than %d devices", PLAN_DEVICES);
    for (int s = 0; s < e->plan->steps.n; s++) {
        const Step *const step = &e->plan->steps.at[s];
        const DeviceRow *const row = e->rows[s] = device_row(step->device);
        if (!row || (step->kind == STEP_kernel && !row->launch) || (step->kind == STEP_native && !row->native))
            return error_raise(ST_DEVICE, "%s: there is nothing that runs plans", DEVICE_TEXT(step->device));
        if (step->kind == STEP_native && !op_dynamic(step->row) && !row->native(step->row))
            return error_raise(ST_UNSUPPORTED, "%s has no kernel on %s", step->row->name, DEVICE_TEXT(step->device));
    }
    return ST_OK;
}

Status executable_new(Plan *plan, bool own_arena, const NativeCode *native, void *context, Executable **out) {
    Executable *const e = mem_zero(sizeof *e);
    if (!e) return ST_MEMORY;
    *e = (Executable){.plan = plan, .n_outs = plan->outputs.n};
    e->codes = mem_zero(((size_t)plan->steps.n + 1) * sizeof *e->codes);
    e->out_metas = mem_zero(((size_t)plan->outputs.n + 1) * sizeof *e->out_metas);
    e->rows = mem_zero(((size_t)plan->steps.n + 1) * sizeof *e->rows);
    e->written = mem_zero(((size_t)plan->inputs.n + 1) * sizeof *e->written);
    const bool made = e->codes && e->out_metas && e->rows && e->written;
    Status status = made ? build_rows(e) : ST_MEMORY;
    if (made) build_written(e);
    for (int s = 0; s < plan->steps.n && status == ST_OK; s++)
        if (plan->steps.at[s].kernel) status = kernel_verify(plan->steps.at[s].kernel);
    if (status == ST_OK) status = build_codes(e, native, context);
    if (status == ST_OK) status = build_metas(e);
    if (status == ST_OK) status = build_turns(e);
    if (status != ST_OK) {
        executable_free(e);
        return status;
    }
    e->own_arena = own_arena;
    *out = e;
    return ST_OK;
}

Status executable_name(Executable *e, const char *function) {
    return (e->function = mem_strdup(function)) ? ST_OK : ST_MEMORY;
}

void executable_free(Executable *e) {
    if (!e) return;
    repeat_free(e->repeat);
    for (int s = 0; e->codes && s < e->plan->steps.n; s++)
        if (e->codes[s]) e->rows[s]->drop_code(e->codes[s]);
    for (int i = 0; e->out_metas && i < e->n_outs; i++)
        if (e->out_metas[i]) meta_release(e->out_metas[i]);
    if (e->own_arena) arena_free(e->plan->arena);
    mem_free(e->codes);
    mem_free(e->out_metas);
    mem_free(e->rows);
    mem_free(e->written);
    mem_free(e->turns);
    mem_free(e->function);
    mem_free(e);
}

size_t executable_bytes(const Executable *e) {
    size_t bytes = sizeof *e + (size_t)e->plan->steps.n * sizeof *e->codes;
    for (int i = 0; i < e->plan->steps.n; i++) bytes += e->codes[i] ? e->rows[i]->code_bytes(e->codes[i]) : 0;
    return bytes + (e->own_arena ? arena_bytes(e->plan->arena) : 0);
}

/* outputs ------------------------------------------------------------------------------------- */

static const Meta *output_meta(const Launch *launch, int i) {
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

static sn_tensor *make_output(const Launch *launch, int i) {
    const PlanOutput *const output = &launch->e->plan->outputs.at[i];
    if (output->kind == OUT_input) return launch->inputs[output->base];
    const Meta *const meta = output_meta(launch, i);
    if (!meta) return NULL;
    if (output->kind == OUT_new) {
        counts.allocations++;
        return tensor_new(meta);
    }
    sn_tensor *const base =
        output->kind == OUT_view_of_input ? launch->inputs[output->base] : launch->outs[output->base];
    return tensor_view(base, meta, base->offset + launch_int(launch, output->offset));
}

static bool comes_late(const Launch *launch, int output) {
    return launch->owned && launch->e->turns->out_slot[output] >= 0;
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

/* slots --------------------------------------------------------------------------------------- */

static Status make_arenas(Launch *launch) {
    const Plan *const plan = launch->e->plan;
    for (int i = 0; i < plan->arenas.n; i++) {
        const int64_t bytes = launch_int(launch, plan->arenas.at[i].bytes);
        if (!bytes) continue;
        counts.arena_allocations++;
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
        if (slot->kind == SLOT_input)
            at = tensor_data(launch->inputs[slot->index]);
        else if (slot->kind == SLOT_output)
            at = launch->outs[slot->index] ? tensor_data(launch->outs[slot->index]) : NULL;
        else if ((at = arena_start(launch, slot->meta->device)))
            at += launch_int(launch, slot->offset);
        launch->slots[i] = at;
    }
}

static void count_writes(const Launch *launch) {
    for (int i = 0; i < launch->e->n_written; i++) tensor_written(launch->inputs[launch->e->written[i]]);
}

/* Code is made for layouts, not for memory; eager says which op it was. */
static Status check_writable(const Launch *launch) {
    for (int i = 0; i < launch->e->n_written; i++)
        if (launch->inputs[launch->e->written[i]]->storage->read_only)
            return error_raise(ST_VALUE, "a tensor in read-only memory would be written");
    return ST_OK;
}

static Status make_late_outputs(Launch *launch, int step) {
    const Turns *const turns = launch->e->turns;
    for (int i = turns->starts[step]; i; i = turns->next_start[i - 1]) {
        sn_tensor *const made = launch->outs[i - 1] = make_output(launch, i - 1);
        if (!made) return error_pending();
        launch->slots[turns->out_slot[i - 1]] = tensor_data(made);
    }
    return ST_OK;
}

static void let_go(const Launch *launch, int step) {
    const Turns *const turns = launch->e->turns;
    for (int i = turns->ends[step]; i; i = turns->next_end[i - 1]) {
        if (!launch->owned[i - 1]) continue;
        tensor_release(launch->owned[i - 1]);
        launch->owned[i - 1] = NULL;
    }
}

static inline Status run_unwatched(Launch *launch, int s) {
    const Step *const step = &launch->e->plan->steps.at[s];
    counts.launches++;
    return step->kind == STEP_kernel ? launch->e->rows[s]->launch(launch, s) : launch_native(launch, step);
}

static COLD Status run_watched(Launch *launch, int s) {
    __attribute__((cleanup(watch_step_end))) StepWatch watched =
        watch_step_begin(launch->e->function, step_name(&launch->e->plan->steps.at[s]), launch->e->rows[s]);
    if (profile_asks_more(&watched.span)) {
        const StepCost cost = step_cost(launch, &launch->e->plan->steps.at[s]);
        profile_note_bytes(&watched.span, cost.bytes, cost.flops);
    }
    return run_unwatched(launch, s);
}

static inline Status run_step(Launch *launch, int s) {
    return watch_is_on() ? run_watched(launch, s) : run_unwatched(launch, s);
}

static COLD Status run_timed(Launch *launch, int s) {
    const int64_t begin = clock_ns();
    const Status status = run_unwatched(launch, s);
    launch->ns[s] = clock_ns() - begin;
    return status;
}

/* The host's steps read nothing that the device computes. */
static Status run_host_steps(Launch *launch) {
    for (int s = 0; s < launch->e->plan->steps.n; s++)
        if (device_is_host(launch->e->plan->steps.at[s].device)) TRY(run_step(launch, s));
    return ST_OK;
}

/* Results are made first, and nothing goes before the end. */
static Status repeat_steps(Launch *launch, Repeat *repeat) {
    TRY(repeat_arenas(repeat, launch));
    TRY(make_outputs(launch));
    place_slots(launch);
    if (!repeat->of_host) TRY(run_host_steps(launch));
    TRY(repeat->row->repeat(launch, repeat));
    count_writes(launch);
    return ST_OK;
}

/* The host waits for nobody: who has the arenas may be this very thread, in an op of the program. Steps that are
 * watched are steps. */
static bool repeat_enter(Repeat *repeat) {
    if (repeat->of_host) return !watch_is_on() && pthread_mutex_trylock(&repeat->lock) == 0;
    pthread_mutex_lock(&repeat->lock);
    return true;
}

/* False: it is not one launch, or no more. */
static bool run_repeated(Launch *launch, Repeat *repeat, Status *status) {
    sn_tensor **const owned = launch->owned;
    if (!repeat_enter(repeat)) return false;
    const bool repeats = repeat->row != NULL;
    launch->owned = NULL;
    if (repeats) *status = repeat_steps(launch, repeat);
    launch->owned = owned;
    pthread_mutex_unlock(&repeat->lock);
    return repeats;
}

static Status run_steps(Launch *launch) {
    Status status = ST_OK;
    TRY(check_writable(launch));
    if (UNLIKELY(launch->e->repeat != NULL) && run_repeated(launch, launch->e->repeat, &status)) return status;
    TRY(make_arenas(launch));
    TRY(make_outputs(launch));
    place_slots(launch);
    for (int s = 0; s < launch->e->plan->steps.n; s++) {
        if (launch->owned) TRY(make_late_outputs(launch, s));
        TRY(launch->ns ? run_timed(launch, s) : run_step(launch, s));
        if (launch->owned) let_go(launch, s);
    }
    count_writes(launch);
    return ST_OK;
}

int executable_outputs(const Executable *e) { return e->plan->outputs.n; }

enum { FEW_SLOTS = 64 };

/* What a call holds goes also where a user's kernel in it does not return. */
typedef struct LaunchHeld {
    Launch launch;
    void *few[FEW_SLOTS];
    uint32_t fp;
} LaunchHeld;

static void launch_end(LaunchHeld *held) {
    fp_leave(held->fp);
    for (int i = 0; i < held->launch.e->plan->arenas.n; i++)
        if (held->launch.arenas[i]) storage_release(held->launch.arenas[i]);
    for (int i = 0; held->launch.owned && i < held->launch.e->plan->inputs.n; i++)
        if (held->launch.owned[i]) tensor_release(held->launch.owned[i]);
    if (UNLIKELY(held->launch.slots != held->few)) mem_free(held->launch.slots);
}

static inline Status run_call(Executable *e, sn_tensor *const *inputs, sn_tensor **owned, const int64_t *symbols,
                              const double *floats, sn_tensor **outs, int64_t *ns) {
    __attribute__((cleanup(launch_end))) LaunchHeld held;
    held.launch = (Launch){
        .e = e, .inputs = inputs, .owned = owned, .symbols = symbols, .floats = floats, .outs = outs, .ns = ns};
    held.fp = fp_enter();
    const bool many = e->plan->slots.n > FEW_SLOTS;
    held.launch.slots = many ? mem_alloc((size_t)e->plan->slots.n * sizeof(void *)) : held.few;
    return held.launch.slots ? run_steps(&held.launch) : ST_MEMORY;
}

Status execute_steps(Executable *e, sn_tensor *const *inputs, const int64_t *symbols, const double *floats,
                     sn_tensor **outs) {
    return run_call(e, inputs, NULL, symbols, floats, outs, NULL);
}

Status execute_timed(Executable *e, sn_tensor *const *inputs, const int64_t *symbols, const double *floats,
                     sn_tensor **outs, int64_t *ns) {
    return run_call(e, inputs, NULL, symbols, floats, outs, ns);
}

bool executable_is_foreign(const Executable *e) { return e->plan->front != NULL; }

Status execute(Executable *e, sn_tensor *const *inputs, const int64_t *symbols, const double *floats,
               sn_tensor **outs) {
    if (UNLIKELY(e->plan->front != NULL)) return front_execute(e, inputs, symbols, floats, outs);
    return run_call(e, inputs, NULL, symbols, floats, outs, NULL);
}

Status execute_last(Executable *e, sn_tensor *const *inputs, sn_tensor **owned, const int64_t *symbols,
                    const double *floats, sn_tensor **outs) {
    return run_call(e, inputs, owned, symbols, floats, outs, NULL);
}
