/* graph_modes.c: modes of the ops that are put into a graph from now on: gradients, as an attribute of each node;
 * autocast, as casts before it, which are those that the key autocast makes (runtime/autograd/autocast.c). */
#include "frontend/api/graph_build.h"
#include "runtime/core/autocast.h"
#include "runtime/core/dispatch.h"

sn_status sn_graph_grad_mode_set(sn_graph *g, sn_grad_mode mode) {
    Status status = graph_wants(g, "sn_graph_grad_mode_set", "the graph");
    if (status == ST_OK) status = graph_is_own(g, "sn_graph_grad_mode_set");
    if (status == ST_OK && mode != SN_GRAD_ON && mode != SN_GRAD_OFF && mode != SN_INFERENCE)
        status = error_raise(ST_ARGUMENT, "sn_graph_grad_mode_set: %d is no grad mode", (int)mode);
    if (status != ST_OK) return (sn_status)status;
    g->graph->modes = mode == SN_INFERENCE ? NODE_inference : mode == SN_GRAD_OFF ? NODE_no_grad : 0;
    return SN_OK;
}

static Key backend_of(Device device) {
    const uint64_t bits = device_exists(device) ? key_of_device(device) : 0;
    return bits ? (Key)(63 - __builtin_clzll(bits)) : KEY_none;
}

sn_status sn_graph_autocast_set(sn_graph *g, sn_device device, sn_dtype dtype) {
    Status status = graph_wants(g, "sn_graph_autocast_set", "the graph");
    if (status == ST_OK) status = graph_is_own(g, "sn_graph_autocast_set");
    if (status != ST_OK) return (sn_status)status;
    const Key kind = backend_of((Device)device);
    if (kind == KEY_none)
        return (sn_status)error_raise(ST_DEVICE, "sn_graph_autocast_set: there is no device %d", (int)device);
    if (dtype != SN_F32 && !autocast_to((DType)dtype))
        return (sn_status)error_raise(ST_DTYPE, "sn_graph_autocast_set: dtype %d: it is bf16 or f16, or f32 for off",
                                      (int)dtype);
    g->autocast = autocast_word(g->autocast, kind, (DType)dtype);
    return SN_OK;
}

/* A call whose tensors are cast. */
typedef struct CallCasts {
    sn_graph *g;
    BuiltCall *call;
    Key backend;
    DType lower;
} CallCasts;

static bool is_cast(const CallCasts *c, const Val *val, DType to) {
    const Meta *const meta = val ? val->meta : NULL;
    if (!meta || meta->wrapped || !dtype_is_float(meta->dtype) || meta->dtype == DT_f64) return false;
    return meta->dtype != to && backend_of(meta->device) == c->backend;
}

static bool any_cast(const CallCasts *c, DType to) {
    for (int i = 0; i < c->call->row->n_params; i++) {
        const Arg *const arg = &c->call->args[i];
        if (arg->kind == ARG_tensor && is_cast(c, arg->val, to)) return true;
        for (int k = 0; arg->kind == ARG_tensors && k < arg->n; k++)
            if (is_cast(c, arg->vals[k], to)) return true;
    }
    return false;
}

static DType target(const CallCasts *c) {
    const CastPolicy policy = c->call->row->autocast;
    if (policy == CAST_promote) return any_cast(c, c->lower) ? DT_f32 : c->lower;
    return policy == CAST_lower ? c->lower : DT_f32;
}

static Status cast_value(const CallCasts *c, Val **val, DType to) {
    BuiltCall cast = {.row = OP_ROW(_to_copy)};
    if (!is_cast(c, *val, to)) return ST_OK;
    const Arg given[] = {A_VAL(*val), A_INT(to)};
    TRY(op_args_normalize(cast.row, given, COUNT_OF(given), cast.args));
    sn_node *const made = graph_append_call(c->g, &cast);
    if (!made) return error_pending() ? error_pending() : ST_MEMORY;
    *val = &made->node->outs[0].base;
    return ST_OK;
}

static Status cast_arg(const CallCasts *c, Arg *arg, DType to) {
    if (arg->kind == ARG_tensor) return cast_value(c, &arg->val, to);
    if (arg->kind != ARG_tensors) return ST_OK;
    Val **const vals = ARENA_ARRAY(c->g->arena, Val *, arg->n + 1);
    if (!vals) return ST_MEMORY;
    if (arg->n) memcpy(vals, arg->vals, sizeof *vals * (size_t)arg->n);
    arg->vals = vals;
    for (int k = 0; k < arg->n; k++) TRY(cast_value(c, &vals[k], to));
    return ST_OK;
}

/* The dtype parameter, where the call names none and its first tensor would be widened. */
static void name_dtype(const CallCasts *c) {
    const OpRow *const row = c->call->row;
    Arg *const args = c->call->args;
    if (args[0].kind != ARG_tensor || !is_cast(c, args[0].val, DT_f32)) return;
    int i = row->n_params;
    while (--i >= 0 && row->params[i].type != PT_dtype_opt) {}
    if (i >= 0 && args[i].kind == ARG_none) args[i] = A_INT(DT_f32);
}

/* Of the first tensor. */
static Key backend_of_call(const BuiltCall *call) {
    for (int i = 0; i < call->row->n_params; i++) {
        const Arg *const arg = &call->args[i];
        const Val *const val = arg->kind == ARG_tensor              ? arg->val
                               : arg->kind == ARG_tensors && arg->n ? *arg->vals
                                                                    : NULL;
        if (val) return backend_of(val->meta->device);
    }
    return KEY_none;
}

Status graph_cast_call(sn_graph *g, BuiltCall *call) {
    CallCasts c = {.g = g, .call = call, .backend = g->autocast ? backend_of_call(call) : KEY_none};
    if (c.backend == KEY_none || call->form != FORM_functional || call->row->autocast == CAST_none) return ST_OK;
    c.lower = autocast_dtype(g->autocast, c.backend);
    if (c.lower == DT_default) return ST_OK;
    if (call->row->autocast == CAST_f32_dtype) return name_dtype(&c), ST_OK;
    const DType to = target(&c);
    for (int i = 0; i < call->row->n_params; i++) TRY(cast_arg(&c, &call->args[i], to));
    return ST_OK;
}
