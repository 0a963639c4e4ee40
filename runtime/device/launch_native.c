/* launch_native.c: a step of a plan that is no kernel: the device's native kernel of an op, a user's op, or a copy
 * between devices, on tensors over the values' places in the slots; and an op that does not lower, by eager. */
#include "runtime/base/small_array.h"
#include "runtime/core/autocast.h"
#include "runtime/core/context_enter.h"
#include "runtime/core/custom_op.h"
#include "runtime/device/device.h"
#include "runtime/device/launch.h"

/* The memory of a slot of the arena; NULL raises. */
static Storage *arena_of(Launch *launch, Device device) {
    const Plan *const plan = launch->e->plan;
    int i = 0;
    while (plan->arenas.at[i].device != device) i++;
    if (!launch->arenas[i]) launch->arenas[i] = storage_new(device, 0); /* every value in it is empty */
    return launch->arenas[i];
}

/* A tensor over a value's place in its slot. */
static sn_tensor *wrap_value(Launch *launch, const PlanValue *value) {
    const Slot *const slot = &launch->e->plan->slots.at[value->slot];
    const Meta *const meta = value->base.meta;
    int64_t sizes[MAX_RANK], strides[MAX_RANK];
    for (int d = 0; d < meta->rank; d++) {
        sizes[d] = launch_int(launch, meta->sizes[d]);
        strides[d] = launch_int(launch, meta->strides[d]);
    }
    const Meta *const plain = meta_intern(meta->dtype, meta->device, sizes, strides, meta->rank, meta->wrapped);
    if (!plain) return NULL;
    const int64_t offset = launch_int(launch, value->offset);
    if (slot->kind != SLOT_arena) {
        sn_tensor *const of = slot->kind == SLOT_input ? launch->inputs[slot->index] : launch->outs[slot->index];
        return tensor_view(of, plain, of->offset + offset);
    }
    if (launch->blocks) return tensor_from_storage(launch->blocks[value->slot], plain, offset);
    Storage *const arena = arena_of(launch, meta->device);
    const int64_t at = launch_int(launch, slot->offset) / dtype_bytes(meta->dtype);
    return arena ? tensor_from_storage(arena, plain, at + offset) : NULL;
}

/* Arguments of a native op for one call; the arrays have room for all its lists. */
typedef struct Wrapped {
    Launch *launch;
    Val **list;
    int64_t *ints; /* symbolic lists under this call's sizes */
    int n_list, n_ints;
    Status status;
} Wrapped;

static Val *wrap_one(Wrapped *wrapped, const Val *val) {
    sn_tensor *const t = val ? wrap_value(wrapped->launch, plan_value(val)) : NULL;
    if (val && !t) wrapped->status = error_pending();
    return t ? &t->base : NULL;
}

static Arg wrap_ints(Wrapped *wrapped, Arg arg) {
    int64_t *const ints = wrapped->ints + wrapped->n_ints;
    for (int i = 0; i < arg.n; i++) ints[i] = launch_int(wrapped->launch, arg.ints[i]);
    wrapped->n_ints += arg.n;
    return A_INTS(ints, arg.n);
}

static Arg wrap_arg(Wrapped *wrapped, Arg arg) {
    if (arg.kind == ARG_tensor) return A_VAL(wrap_one(wrapped, arg.val));
    if (arg.kind == ARG_runtime) return A_FLOAT(wrapped->launch->floats[arg.i]);
    if (arg.kind == ARG_int) return A_INT(launch_int(wrapped->launch, arg.i));
    if (arg.kind == ARG_ints) return wrap_ints(wrapped, arg);
    if (arg.kind != ARG_tensors) return arg;
    Val **const list = wrapped->list + wrapped->n_list;
    for (int i = 0; i < arg.n; i++) wrapped->list[wrapped->n_list++] = wrap_one(wrapped, arg.vals[i]);
    return A_VALS(list, arg.n);
}

/* It is no write of the program's: versions stay. */
static Status copy_result(sn_tensor *made, sn_tensor *out) {
    const Arg copy[] = {A_VAL(&out->base), A_VAL(&made->base), A_BOOL(false)};
    const uint32_t version = tensor_version(out);
    sn_tensor *written;
    const Status status = dispatch(OP_ROW(copy), FORM_inplace, copy, NULL, &written);
    if (out->storage) atomic_store(&out->storage->version, version);
    return status;
}

/* A user's op, and one that eager runs, makes its own results, which are copied to where the plan wants them. */
static Status copy_results(int n, sn_tensor *const *made, sn_tensor *const *outs) {
    for (int i = 0; i < n; i++) TRY(copy_result(made[i], outs[i]));
    return ST_OK;
}

/* A list is as long as the kernel has made it. */
static COLD Status call_custom_list(const OpRow *row, const Arg *args, sn_tensor *const *outs, int n_outs) {
    sn_tensor *made[MAX_LIST];
    int n = 0;
    TRY(dispatch_list(row, args, made, &n));
    TRY(custom_op_check_results(row, made, n, outs, n_outs));
    return copy_results(n, made, outs);
}

static Status call_custom(const OpRow *row, const Arg *args, sn_tensor *const *outs, int n_outs) {
    sn_tensor *made[MAX_OUTS] = {0};
    if (UNLIKELY(row->returns_list)) return call_custom_list(row, args, outs, n_outs);
    TRY(dispatch(row, FORM_functional, args, NULL, made));
    TRY(custom_op_check_results(row, made, n_outs, outs, n_outs));
    return copy_results(n_outs, made, outs);
}

/* Below all keys but the device's: the graph has what they would add. Strides may be others than the plan's, which lays
 * out values anew. */
static Status call_eager(const OpRow *row, const Arg *args, Key key, sn_tensor *const *outs) {
    sn_tensor *made[MAX_OUTS] = {0};
    OpCall call = {.row = row, .args = args, .outs = made, .n_outs = row->n_out, .key = key};
    TRY(dispatch_entry(row, key)(&call));
    return copy_results(row->n_out, made, outs);
}

static Status call_wrapped(Wrapped *wrapped, const Step *step) {
    Launch *const launch = wrapped->launch;
    Arg args[MAX_ARGS];
    sn_tensor *outs[MAX_OUTS] = {0};
    for (int i = 0; i < step->row->n_params; i++) args[i] = wrap_arg(wrapped, step->args[i]);
    for (int i = 0; i < step_outs(step); i++)
        if (!(outs[i] = wrap_value(launch, step->outs[i]))) return error_pending();
    TRY(wrapped->status);
    if (op_dynamic(step->row)) return call_custom(step->row, args, outs, step_outs(step));
    const DeviceRow *const device = device_row(step->device);
    if (step->kind == STEP_eager) return call_eager(step->row, args, device->key, outs);
    OpCall call = {.row = step->row, .args = args, .outs = outs, .n_outs = step_outs(step), .key = device->key};
    if (call_is_empty(&call)) return ST_OK;
    if (step->workspace >= 0) call.workspace = launch->slots[step->workspace];
    OpKernel *const kernel = device->native(step->row);
    return kernel ? kernel(&call) : error_raise(ST_INTERNAL, "%s has no native kernel", step->row->name);
}

static Status call_native(Launch *launch, const Step *step) {
    Val *few_values[32];
    int64_t few_ints[32];
    int n = 0;
    for (int i = 0; i < step->row->n_params; i++) n += step->args[i].n;
    Wrapped wrapped = {.launch = launch, .list = SMALL_ARRAY(few_values, n), .ints = SMALL_ARRAY(few_ints, n)};
    SMALL_ARRAY_OWNER list = {few_values, wrapped.list}, ints = {few_ints, wrapped.ints};
    return wrapped.list && wrapped.ints ? call_wrapped(&wrapped, step) : ST_MEMORY;
}

static bool same_bytes(const Meta *a, const Meta *b) {
    return a->dtype == b->dtype && a->contiguous && b->contiguous && meta_same_sizes(a, b);
}

/* As they lie, or by way of the key that knows both devices. */
static Status copy_between(Launch *launch, const Step *step) {
    sn_tensor *const from = wrap_value(launch, plan_value(step->args[0].val)), *written;
    sn_tensor *const to = from ? wrap_value(launch, step->outs[0]) : NULL;
    if (!to) return error_pending();
    const Device there = from->base.meta->device;
    if (same_bytes(to->base.meta, from->base.meta))
        return memory_copy(to->storage->memory, tensor_data(to), from->storage->memory, tensor_data(from),
                           (size_t)meta_bytes(to->base.meta));
    const Arg args[] = {A_VAL(&to->base), A_VAL(&from->base), A_BOOL(false)};
    const Key key = device_row(device_is_host(there) ? step->device : there)->key;
    OpCall call = {.row = OP_ROW(copy), .form = FORM_inplace, .args = args, .outs = &written, .n_outs = 1, .key = key};
    return dispatch_entry(call.row, key)(&call);
}

Status launch_native(Launch *launch, const Step *step) {
    sn_state *const state = state_get();
    TRY(scope_push(state, false));
    context_enter_scope(state, CONTEXT_library);
    const Status status = step->kind == STEP_copy ? copy_between(launch, step) : call_native(launch, step);
    scope_pop(state);
    return status;
}
