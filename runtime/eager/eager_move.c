/* eager_move.c: copies between devices, and what any device has that has memory: copies, views, empty tensors.
 *
 *   _to_copy, clone, copy    src -> host -> dtype and layout of the result, on the host -> the result's device
 *   the same layout          one copy of bytes, which goes on after the call where that is asked for (non_blocking) and
 *                            one of both is in pinned memory
 *
 * A value's layout may leave gaps (a slice of a larger tensor): what lies in them is read and written back as it was.
 * eager_on_host runs a device's op on the host, for devices that have no kernel for it. */
#include "runtime/base/small_array.h"
#include "runtime/device/device.h"
#include "runtime/device/stream.h"
#include "runtime/eager/eager.h"

static size_t data_bytes(const Meta *meta) { return meta->numel ? meta_bytes(meta) : 0; }

static Status copy_span(sn_tensor *to, sn_tensor *from) {
    return memory_copy(to->storage->memory, tensor_data(to), from->storage->memory, tensor_data(from),
                       data_bytes(from->base.meta));
}

/* Both on the host. */
static Status copy_on_host(sn_tensor *to, sn_tensor *from) {
    const Arg args[] = {A_VAL(&to->base), A_VAL(&from->base), A_BOOL(false)};
    sn_tensor *outs[MAX_OUTS];
    const Key key = device_row(DEV_host)->key;
    OpCall call = {.row = OP_ROW(copy), .form = FORM_inplace, .args = args, .outs = outs, .n_outs = 1, .key = key};
    return dispatch_entry(call.row, key)(&call);
}

static Status move_by_host(sn_tensor *to, sn_tensor *from) {
    sn_tensor *const source = tensor_on_host(from), *const target = source ? tensor_on_host(to) : NULL;
    Status status = target ? copy_on_host(target, source) : error_pending();
    if (status == ST_OK && target != to) status = copy_span(to, target);
    tensor_release(source);
    tensor_release(target);
    return status;
}

/* from, cast and broadcast, into to's elements. later: the caller waits for that himself. */
static Status move(sn_tensor *to, sn_tensor *from, bool later) {
    TRY(tensor_ready(from, "a copy"));
    TRY(tensor_ready(to, "a copy"));
    const Meta *const meta = to->base.meta;
    if (meta_same_layout(meta, from->base.meta) && meta_is_dense(NULL, meta->sizes, meta->strides, meta->rank) &&
        to->storage != from->storage)
        return later && pinned_can_copy(to, from) ? pinned_copy(to, from, data_bytes(meta)) : copy_span(to, from);
    return move_by_host(to, from);
}

/* The values that a copy has: the last of its one or two tensors. */
static sn_tensor *source_of(const OpCall *call) {
    return tensor_of(call->args[call->args[1].kind == ARG_tensor ? 1 : 0].val);
}

static bool is_later(const OpCall *call) {
    int i = call->row->n_params - 1;
    while (i >= 0 && strcmp(call->row->params[i].name, "non_blocking")) i--;
    return i >= 0 && call->args[i].kind == ARG_bool && call->args[i].i;
}

static Status move_into(OpCall *call, sn_tensor *to) {
    TRY(eager_prepare_write(call));
    TRY(move(to, source_of(call), is_later(call)));
    tensor_written(to);
    call->outs[0] = to;
    return ST_OK;
}

/* All tensors and the result are on one device, which has code of its own for this. */
static bool stays(const OpCall *call) {
    const DeviceRow *const row = device_of_key(call->key);
    Device device = call->args[call->args[1].kind == ARG_tensor ? 1 : 0].val->meta->device;
    bool same = row && row->launch && key_of_device(device) == UINT64_C(1) << call->key;
    for (int i = 0; i < call->row->n_params; i++) {
        const Arg *const arg = &call->args[i];
        if (arg->kind == ARG_tensor && arg->val) same &= arg->val->meta->device == device;
    }
    if (call->row->device >= 0 && call->args[call->row->device].kind == ARG_int)
        same &= call->args[call->row->device].i == device;
    for (int i = 0; call->form == FORM_out && i < call->row->n_out; i++)
        same &= call->out_args[i]->base.meta->device == device;
    return same;
}

Status eager_move(OpCall *call) {
    if (stays(call)) return eager_kernel(call);
    if (call->form != FORM_functional) return move_into(call, call_written(call, 0));
    TRY(tensor_ready(source_of(call), call->row->name));
    METAS_OF_CALL metas;
    TRY(eager_metas(call, 0, &metas));
    const Meta *const meta = metas.at[0].meta;
    const bool later = is_later(call), down = later && device_is_host(meta->device);
    sn_tensor *const to = down ? pinned_tensor(meta, source_of(call)->base.meta->device) : tensor_new(meta);
    if (!to) return error_pending();
    TRY(move(to, source_of(call), later));
    call->outs[0] = to;
    return ST_OK;
}

static Status make_empty(OpCall *call) {
    if (call->form != FORM_functional) {
        TRY(eager_prepare_write(call));
        call->outs[0] = call_written(call, 0);
        return ST_OK;
    }
    METAS_OF_CALL metas;
    TRY(eager_metas(call, 0, &metas));
    call->outs[0] = tensor_new(metas.at[0].meta);
    return call->outs[0] ? ST_OK : error_pending();
}

static OpKernel *kernel_of(const OpRow *row) {
    if (row->flags & OPF_across) return eager_move;
    return row->kind == KIND_view ? eager_kernel : row->flags & OPF_unset ? make_empty : NULL;
}

void eager_serve(Key key) {
    for (int op = 0; op < op_row_count(); op++) {
        const OpRow *const row = op_row_at(op);
        OpKernel *const kernel = row->alias_of ? NULL : kernel_of(row);
        if (kernel) dispatch_register(row, key, kernel);
    }
}

/* an op of a device's on the host ------------------------------------------------------------- */

typedef struct HostCall {
    const OpCall *there;
    Arg args[MAX_ARGS];
    sn_tensor *out_args[MAX_OUTS];
    Val **list; /* of all tensor lists */
    int n_list;
    Device device; /* of the results */
} HostCall;

/* In the innermost scope. */
static Status to_host(Val *val, Val **here) {
    sn_tensor *const t = tensor_of(val);
    *here = val;
    if (!t || !device_has_memory(t->base.meta->device)) return ST_OK;
    TRY(tensor_ready(t, "a copy to the CPU"));
    if (device_is_host(t->base.meta->device)) return ST_OK;
    sn_tensor *const copy = tensor_copy_to_host(t);
    if (!copy) return error_pending();
    *here = &copy->base;
    return tensor_adopt(state_get(), copy) ? ST_OK : ST_MEMORY;
}

static Status arg_to_host(HostCall *host, const Arg *there, Arg *here) {
    *here = *there;
    if (there->kind == ARG_tensor) return to_host(there->val, &here->val);
    if (there->kind != ARG_tensors) return ST_OK;
    Val **const list = host->list + host->n_list;
    for (int i = 0; i < there->n; i++) TRY(to_host(there->vals[i], &list[i]));
    host->n_list += there->n;
    here->vals = list;
    return ST_OK;
}

static Status args_to_host(HostCall *host) {
    const OpCall *const there = host->there;
    const OpRow *const row = there->row;
    for (int i = 0; i < row->n_params; i++) TRY(arg_to_host(host, &there->args[i], &host->args[i]));
    for (int i = 0; there->form == FORM_out && i < row->n_out; i++) {
        Val *out;
        TRY(to_host(&there->out_args[i]->base, &out));
        host->out_args[i] = tensor_of(out);
    }
    if (row->device < 0 || there->args[row->device].kind != ARG_int) return ST_OK;
    host->device = (Device)there->args[row->device].i;
    host->args[row->device] = A_INT(DEV_host);
    return ST_OK;
}

static const Meta *meta_at(const Meta *meta, Device device) {
    return meta_intern(meta->dtype, device, meta->sizes, meta->strides, meta->rank, meta->wrapped);
}

static Status result_back(const HostCall *host, sn_tensor *here, sn_tensor **there) {
    const Meta *const meta = meta_at(here->base.meta, host->device);
    *there = meta ? tensor_new(meta) : NULL;
    return *there ? copy_span(*there, here) : error_pending();
}

/* Laid out anew where the op has resized it. */
static Status written_back(sn_tensor *here, sn_tensor *there) {
    if (here == there) return ST_OK;
    if (!meta_same_sizes(here->base.meta, there->base.meta)) {
        const Meta *const meta = meta_at(here->base.meta, there->base.meta->device);
        TRY(meta ? eager_resize(there, meta) : error_pending());
    }
    TRY(move(there, here, false));
    tensor_written(there);
    return ST_OK;
}

static Status results_back(const HostCall *host, OpCall *here, sn_tensor **outs) {
    for (int i = 0; i < here->n_outs; i++) {
        if (here->form == FORM_functional) {
            TRY(result_back(host, here->outs[i], &outs[i]));
        } else {
            outs[i] = call_written(host->there, i);
            TRY(written_back(call_written(here, i), outs[i]));
        }
    }
    return ST_OK;
}

/* Of the first tensor there: a key may have several devices. */
static Device device_there(const OpCall *call, const DeviceRow *row) {
    for (int i = 0; i < call->row->n_params; i++) {
        const Arg *const arg = &call->args[i];
        Val *const *const vals = arg->kind == ARG_tensors ? arg->vals : &arg->val;
        const int n = arg->kind == ARG_tensors ? arg->n : arg->kind == ARG_tensor;
        for (int k = 0; k < n; k++)
            if (vals[k] && key_of_device(vals[k]->meta->device) == UINT64_C(1) << row->key)
                return vals[k]->meta->device;
    }
    return row->memory.device;
}

static Status run_on_host(HostCall *host, sn_tensor **outs, int *n_outs) {
    const OpCall *const there = host->there;
    TRY(args_to_host(host));
    const Key key = device_row(DEV_host)->key;
    OpKernel *const kernel = dispatch_entry(there->row, key);
    if (!kernel) return error_raise(ST_UNSUPPORTED, "%s: the CPU has no kernel for it", there->row->name);
    const int capacity = there->row->returns_list ? MAX_LIST : MAX_OUTS;
    sn_tensor *few[MAX_OUTS], **const made = SMALL_ARRAY(few, capacity);
    if (!made) return ST_MEMORY;
    SMALL_ARRAY_OWNER kept = {few, made};
    memset(made, 0, sizeof *made * (size_t)capacity);
    OpCall here = *there;
    here.args = host->args;
    here.out_args = there->form == FORM_out ? host->out_args : NULL;
    here.outs = made;
    here.key = key;
    TRY(kernel(&here));
    *n_outs = here.n_outs;
    return results_back(host, &here, outs);
}

Status eager_on_host(const OpCall *call, sn_tensor **outs, int *n_outs) {
    Val *few[32];
    int n = 0;
    for (int i = 0; i < call->row->n_params; i++) n += call->args[i].kind == ARG_tensors ? call->args[i].n : 0;
    HostCall host = {.there = call, .list = SMALL_ARRAY(few, n)};
    if (!host.list) return ST_MEMORY;
    SMALL_ARRAY_OWNER list = {few, host.list};
    const DeviceRow *const row = device_of_key(call->key);
    if (!row || device_is_host(row->memory.device))
        return error_raise(ST_STATE, "%s: only a registered device's op can be run on the CPU", call->row->name);
    host.device = device_there(call, row);
    return run_on_host(&host, outs, n_outs);
}
