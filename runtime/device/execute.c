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
#include "runtime/device/launch_memory.h"
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
    if (status == ST_OK) status = lifetimes_new(plan, &e->lifetimes);
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
    mem_free(e->lifetimes);
    mem_free(e->function);
    mem_free(e);
}

size_t executable_bytes(const Executable *e) {
    size_t bytes = sizeof *e + (size_t)e->plan->steps.n * sizeof *e->codes;
    for (int i = 0; i < e->plan->steps.n; i++) bytes += e->codes[i] ? e->rows[i]->code_bytes(e->codes[i]) : 0;
    return bytes + (e->own_arena ? arena_bytes(e->plan->arena) : 0);
}

/* running ------------------------------------------------------------------------------------- */

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
        profile_record_bytes(&watched.span, cost.bytes, cost.flops);
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
    TRY(memory_of_call(launch));
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

static Status run_steps(Launch *launch, Storage **blocks) {
    Status status = ST_OK;
    TRY(check_writable(launch));
    if (UNLIKELY(launch->e->repeat != NULL) && run_repeated(launch, launch->e->repeat, &status)) return status;
    TRY(memory_begin(launch, blocks));
    const bool by_step = launch->blocks || launch->owned;
    for (int s = 0; s < launch->e->plan->steps.n; s++) {
        if (by_step) TRY(memory_before(launch, s));
        TRY(launch->ns ? run_timed(launch, s) : run_step(launch, s));
        if (by_step) memory_after(launch, s);
    }
    count_writes(launch);
    return ST_OK;
}

int executable_outputs(const Executable *e) { return e->plan->outputs.n; }

ExecuteResult execute_result(const Executable *e, int i, const int64_t *symbols) {
    const PlanOutput *const output = &e->plan->outputs.at[i];
    const Launch launch = {.e = e, .symbols = symbols};
    ExecuteResult result = {.kind = output->kind, .base = output->base};
    if (output->kind == OUT_none) return result;
    if (output->kind == OUT_view_of_input || output->kind == OUT_view_of_output)
        result.offset = launch_int(&launch, output->offset);
    if (output->kind != OUT_input) result.meta = launch_output_meta(&launch, i);
    return result;
}

enum { FEW_SLOTS = 64 };

/* What a call holds goes also where a user's kernel in it does not return. */
typedef struct LaunchHeld {
    Launch launch;
    void *few[FEW_SLOTS];
    Storage *few_blocks[FEW_SLOTS];
    uint32_t fp;
} LaunchHeld;

static void launch_end(LaunchHeld *held) {
    fp_leave(held->fp);
    memory_end(&held->launch);
    if (UNLIKELY(held->launch.slots != held->few)) mem_free(held->launch.slots);
}

static inline Status run_call(const Launch *call) {
    __attribute__((cleanup(launch_end))) LaunchHeld held;
    const Executable *const e = call->e;
    held.launch = *call;
    held.fp = fp_enter();
    const bool many = e->plan->slots.n > FEW_SLOTS;
    held.launch.slots = many ? mem_alloc(2 * (size_t)e->plan->slots.n * sizeof(void *)) : held.few;
    Storage **const blocks = many ? (Storage **)(held.launch.slots + e->plan->slots.n) : held.few_blocks;
    return held.launch.slots ? run_steps(&held.launch, blocks) : ST_MEMORY;
}

Status execute_steps(Executable *e, sn_tensor *const *inputs, const int64_t *symbols, const double *floats,
                     sn_tensor **outs) {
    return run_call(&(Launch){.e = e, .inputs = inputs, .symbols = symbols, .floats = floats, .outs = outs});
}

Status execute_timed(Executable *e, sn_tensor *const *inputs, const int64_t *symbols, const double *floats,
                     sn_tensor **outs, int64_t *ns) {
    return run_call(&(Launch){.e = e, .inputs = inputs, .symbols = symbols, .floats = floats, .outs = outs, .ns = ns});
}

bool executable_is_foreign(const Executable *e) { return e->plan->front != NULL; }

Status execute(Executable *e, sn_tensor *const *inputs, const int64_t *symbols, const double *floats,
               sn_tensor **outs) {
    return execute_into(e, inputs, symbols, floats, NULL, outs);
}

Status execute_into(Executable *e, sn_tensor *const *inputs, const int64_t *symbols, const double *floats,
                    Storage *const *given, sn_tensor **outs) {
    if (UNLIKELY(e->plan->front != NULL)) return front_execute(e, inputs, symbols, floats, outs);
    return run_call(
        &(Launch){.e = e, .inputs = inputs, .symbols = symbols, .floats = floats, .given = given, .outs = outs});
}

Status execute_last(Executable *e, sn_tensor *const *inputs, sn_tensor **owned, const int64_t *symbols,
                    const double *floats, sn_tensor **outs) {
    return run_call(
        &(Launch){.e = e, .inputs = inputs, .owned = owned, .symbols = symbols, .floats = floats, .outs = outs});
}
