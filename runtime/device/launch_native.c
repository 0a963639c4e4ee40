/* launch_native.c: a step of a plan that is an op of its own: the device's native kernel of the row, or a user's op, on
 * tensors over the values' places in the slots. */
#include "runtime/base/room.h"
#include "runtime/core/custom_op.h"
#include "runtime/device/device.h"
#include "runtime/device/launch.h"

/* A tensor over a value's place in its slot. */
static sn_tensor *wrap_value(Launch *launch, const GVal *value) {
    const Plan *const plan = launch->e->plan;
    const Place *const place = &plan->places[value->id];
    const Slot *const slot = &plan->slots.at[place->slot];
    const Meta *const meta = value->base.meta;
    int64_t sizes[MAX_RANK], strides[MAX_RANK];
    for (int d = 0; d < meta->rank; d++) {
        sizes[d] = launch_int(launch, meta->sizes[d]);
        strides[d] = launch_int(launch, place->strides ? place->strides[d] : meta->strides[d]);
    }
    const Meta *const plain = meta_intern(meta->dtype, meta->device, sizes, strides, meta->rank, meta->wrapped);
    if (!plain) return NULL;
    const int64_t offset = launch_int(launch, place->offset);
    if (slot->kind != SLOT_arena) {
        sn_tensor *const of = slot->kind == SLOT_input ? launch->inputs[slot->index] : launch->outs[slot->index];
        return tensor_view(of, plain, of->offset + offset);
    }
    const int64_t at = launch_int(launch, slot->offset) / dtype_bytes(meta->dtype);
    if (!launch->arena && !(launch->arena = storage_new(launch->e->device, 0)))
        return NULL; /* every value in the arena is empty */
    return tensor_from_storage(launch->arena, plain, at + offset);
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
    sn_tensor *const t = val ? wrap_value(wrapped->launch, (const GVal *)val) : NULL;
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

/* A user's op makes its own results, which are copied to where the plan wants them. */
static Status call_custom(const OpRow *row, const Arg *args, sn_tensor *const *outs) {
    sn_tensor *made[MAX_OUTS] = {0};
    TRY(dispatch(row, FORM_functional, args, NULL, made));
    for (int i = 0; i < row->n_out; i++) {
        TRY(custom_op_check_result(row, i, made[i]->base.meta, outs[i]->base.meta));
        const Arg copy[] = {A_VAL(&outs[i]->base), A_VAL(&made[i]->base), A_BOOL(false)};
        sn_tensor *written;
        TRY(dispatch(op_row(OP_copy), FORM_inplace, copy, NULL, &written));
    }
    return ST_OK;
}

static Status call_wrapped(Wrapped *wrapped, const Step *step) {
    Launch *const launch = wrapped->launch;
    Arg args[MAX_ARGS];
    sn_tensor *outs[MAX_OUTS] = {0};
    for (int i = 0; i < step->row->n_params; i++) args[i] = wrap_arg(wrapped, step->args[i]);
    for (int i = 0; i < step->row->n_out; i++)
        if (!(outs[i] = wrap_value(launch, step->outs[i]))) return error_pending();
    TRY(wrapped->status);
    if (op_dynamic(step->row)) return call_custom(step->row, args, outs);
    const DeviceRow *const device = device_row(launch->e->device);
    OpCall call = {.row = step->row, .args = args, .outs = outs, .n_outs = step->row->n_out, .key = device->key};
    OpKernel *const kernel = device->native(step->row);
    return kernel ? kernel(&call) : error_raise(ST_INTERNAL, "%s has no native kernel", step->row->name);
}

static Status call_native(Launch *launch, const Step *step) {
    Val *few_values[32];
    int64_t few_ints[32];
    int n = 0;
    for (int i = 0; i < step->row->n_params; i++) n += step->args[i].n;
    Wrapped wrapped = {.launch = launch, .list = ROOM(few_values, n), .ints = ROOM(few_ints, n)};
    ROOM_KEPT list = {few_values, wrapped.list}, ints = {few_ints, wrapped.ints};
    return wrapped.list && wrapped.ints ? call_wrapped(&wrapped, step) : ST_MEMORY;
}

Status launch_native(Launch *launch, const Step *step) {
    sn_state *const state = state_get();
    TRY(scope_push(state, false));
    state_grad_mode_set(state, SN_GRAD_OFF); /* the scope's end puts the mode back */
    const Status status = call_native(launch, step);
    scope_pop(state);
    return status;
}
