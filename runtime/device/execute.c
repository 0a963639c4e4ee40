/* execute.c: runs plans. Per call: sizes evaluated, outputs and one arena allocated, steps run in
 * order.
 *
 *   inputs -> slots' pointers -> for each step: kernel (the device's launch), or native op
 *
 * The first step with a failed check ends
 * the call; lowering has put everything that is visible outside after all checks, so nothing was
 * committed then [semantics C8]. */
#include "runtime/device/execute.h"

#include <stdatomic.h>
#include <stdio.h>

#include "codegen/codegen.h"
#include "runtime/base/alloc.h"
#include "runtime/base/fpenv.h"
#include "runtime/device/device.h"
#include "runtime/device/launch.h"

static HOT_THREAD_LOCAL ExecuteCounts counts;
ExecuteCounts *execute_counts(void) { return &counts; }

/* building ------------------------------------------------------------------------------------ */

static Status code_for(const Kernel *kernel, const Nest *nest, const NativeCode *native, void *context,
                       NestCode *code) {
    code->native = native ? native->take(context, nest) : NULL;
    if (code->native) return ST_OK;
    BlockProgram *program;
    TRY(block_compile(nest, kernel->bufs, &program));
    code->program = program;
    return ST_OK;
}

static Status build_codes(Executable *e, const NativeCode *native, void *context) {
    int at = 0;
    for (int s = 0; s < e->plan->steps.n; s++) {
        const Step *const step = &e->plan->steps.at[s];
        e->first_code[s] = at;
        for (int k = 0; step->kind == STEP_kernel && k < step->kernel->n_nests; k++, at++)
            TRY(code_for(step->kernel, &step->kernel->nests[k], native, context, &e->codes[at]));
    }
    return ST_OK;
}

static bool plain_meta(const Meta *meta) {
    for (int i = 0; i < meta->rank; i++)
        if (sym_is(meta->sizes[i]) || sym_is(meta->strides[i])) return false;
    return true;
}

/* Metas of the outputs: interned now where nothing in them is symbolic. */
static Status build_metas(Executable *e) {
    for (int i = 0; i < e->plan->graph->outputs.n; i++) {
        const Output *const output = &e->plan->graph->outputs.at[i];
        if (output->kind == OUT_none) continue;
        const Meta *const meta = output->value->base.meta;
        if (!plain_meta(meta)) continue;
        e->out_metas[i] = meta_intern(meta->dtype, meta->device, meta->sizes, meta->strides, meta->rank, meta->wrapped);
        if (!e->out_metas[i]) return error_pending();
    }
    return ST_OK;
}

Status executable_new(Plan *plan, bool own_arena, const NativeCode *native, void *context, Executable **out) {
    int n_codes = 0;
    for (int s = 0; s < plan->steps.n; s++)
        if (plan->steps.at[s].kind == STEP_kernel) n_codes += plan->steps.at[s].kernel->n_nests;
    Executable *const e = mem_zero(sizeof *e);
    if (!e) return ST_MEMORY;
    *e = (Executable){.plan = plan, .device = plan->device, .n_codes = n_codes, .native = native};
    e->codes = mem_zero(((size_t)n_codes + 1) * sizeof *e->codes);
    e->first_code = mem_zero(((size_t)plan->steps.n + 1) * sizeof *e->first_code);
    e->out_metas = mem_zero(((size_t)plan->graph->outputs.n + 1) * sizeof *e->out_metas);
    Status status = e->codes && e->first_code && e->out_metas ? ST_OK : ST_MEMORY;
    for (int s = 0; s < plan->steps.n && status == ST_OK; s++)
        if (plan->steps.at[s].kernel) status = kernel_verify(plan->steps.at[s].kernel);
    if (status == ST_OK) status = build_codes(e, native, context);
    if (status == ST_OK) status = build_metas(e);
    if (status != ST_OK) {
        executable_free(e);
        return status;
    }
    e->own_arena = own_arena;
    *out = e;
    return ST_OK;
}

void executable_free(Executable *e) {
    if (!e) return;
    for (int i = 0; e->codes && i < e->n_codes; i++) {
        mem_free((void *)(uintptr_t)e->codes[i].program);
        if (e->codes[i].native) e->native->give(e->codes[i].native);
    }
    if (e->own_arena) arena_free(e->plan->arena);
    mem_free(e->codes);
    mem_free(e->first_code);
    mem_free(e->out_metas);
    mem_free(e);
}

size_t executable_bytes(const Executable *e) {
    size_t bytes = sizeof *e + (size_t)e->n_codes * sizeof *e->codes;
    for (int i = 0; i < e->n_codes; i++) bytes += e->codes[i].program ? block_program_bytes(e->codes[i].program) : 0;
    return bytes + (e->own_arena ? arena_bytes(e->plan->arena) : 0);
}

/* outputs ------------------------------------------------------------------------------------- */

static const Meta *output_meta(const Launch *launch, int i) {
    const Executable *const e = launch->e;
    if (e->out_metas[i]) return e->out_metas[i];
    const Meta *const meta = e->plan->graph->outputs.at[i].value->base.meta;
    int64_t sizes[MAX_RANK], strides[MAX_RANK];
    for (int d = 0; d < meta->rank; d++) {
        sizes[d] = launch_int(launch, meta->sizes[d]);
        strides[d] = launch_int(launch, meta->strides[d]);
    }
    return meta_intern(meta->dtype, meta->device, sizes, strides, meta->rank, meta->wrapped);
}

static sn_tensor *make_output(const Launch *launch, int i) {
    const Output *const output = &launch->e->plan->graph->outputs.at[i];
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

/* New ones first: views of outputs may come before their base. */
static Status make_outputs(Launch *launch) {
    const Graph *const graph = launch->e->plan->graph;
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < graph->outputs.n; i++) {
            const OutKind kind = graph->outputs.at[i].kind;
            if (kind == OUT_none)
                launch->outs[i] = NULL;
            else if ((kind == OUT_view_of_output) == (pass == 1) && !(launch->outs[i] = make_output(launch, i)))
                return error_pending();
        }
    }
    return ST_OK;
}

/* slots --------------------------------------------------------------------------------------- */

static Status make_arena(Launch *launch) {
    const int64_t bytes = launch_int(launch, launch->e->plan->arena_bytes);
    if (!bytes) return ST_OK;
    counts.arena_allocations++;
    launch->arena = storage_new(launch->e->device, (size_t)bytes);
    return launch->arena ? ST_OK : ST_MEMORY;
}

static void place_slots(Launch *launch) {
    const Plan *const plan = launch->e->plan;
    for (int i = 0; i < plan->slots.n; i++) {
        const Slot *const slot = &plan->slots.at[i];
        void *at;
        if (slot->kind == SLOT_input)
            at = tensor_data(launch->inputs[slot->index]);
        else if (slot->kind == SLOT_output)
            at = tensor_data(launch->outs[slot->index]);
        else
            at = launch->arena ? (char *)launch->arena->data + launch_int(launch, slot->offset) : NULL;
        launch->slots[i] = at;
    }
}

static void count_writes(const Launch *launch) {
    const Graph *const graph = launch->e->plan->graph;
    for (int i = 0; i < graph->writes.n; i++) tensor_written(launch->inputs[graph->writes.at[i].input->index]);
}

/* Code is made for layouts, not for memory; eager says which op it was. */
static Status check_writable(const Launch *launch) {
    const Graph *const graph = launch->e->plan->graph;
    for (int i = 0; i < graph->writes.n; i++)
        if (launch->inputs[graph->writes.at[i].input->index]->storage->read_only)
            return error_raise(ST_VALUE, "a tensor in read-only memory would be written");
    return ST_OK;
}

static Status run_steps(Launch *launch) {
    TRY(check_writable(launch));
    TRY(make_arena(launch));
    TRY(make_outputs(launch));
    place_slots(launch);
    const DeviceRow *const device = device_row(launch->e->device);
    for (int s = 0; s < launch->e->plan->steps.n; s++) {
        const Step *const step = &launch->e->plan->steps.at[s];
        counts.launches++;
        TRY(step->kind == STEP_native ? launch_native(launch, step) : device->launch(launch, s));
    }
    count_writes(launch);
    return ST_OK;
}

int executable_outputs(const Executable *e) { return e->plan->graph->outputs.n; }

enum { FEW_SLOTS = 64 };

/* What a call holds goes also where a user's kernel in it does not return. */
typedef struct LaunchHeld {
    Launch launch;
    void *few[FEW_SLOTS];
    uint32_t fp;
} LaunchHeld;

static void launch_end(LaunchHeld *held) {
    fp_leave(held->fp);
    if (held->launch.arena) storage_release(held->launch.arena);
    if (UNLIKELY(held->launch.slots != held->few)) mem_free(held->launch.slots);
}

Status execute(Executable *e, sn_tensor *const *inputs, const int64_t *symbols, const double *floats,
               sn_tensor **outs) {
    const bool many = e->plan->slots.n > FEW_SLOTS;
    void **const slots = many ? mem_alloc((size_t)e->plan->slots.n * sizeof(void *)) : NULL;
    if (many && !slots) return ST_MEMORY;
    __attribute__((cleanup(launch_end))) LaunchHeld held;
    held.launch = (Launch){.e = e, .inputs = inputs, .symbols = symbols, .floats = floats, .outs = outs};
    held.launch.slots = many ? slots : held.few;
    held.fp = fp_enter();
    return run_steps(&held.launch);
}
