/* spatial.c: see spatial.h. */
#include "runtime/device/spatial.h"

static const Arg *named_arg(const OpCall *call, const char *name) {
    const int i = op_param_find(call->row, name);
    return i < 0 ? NULL : &call->args[i];
}

const sn_tensor *named_tensor(const OpCall *call, const char *name) {
    const Arg *const arg = named_arg(call, name);
    return arg->kind == ARG_tensor ? tensor_of(arg->val) : NULL;
}

static void fill_dims(const int64_t *from, int n, int64_t fallback, int64_t *to) {
    const int lead = SPATIAL_DIMS - n;
    for (int i = 0; i < SPATIAL_DIMS; i++) to[i] = i < lead ? fallback : from[i - lead];
}

int64_t spatial_sizes(const Meta *meta, int dims, int64_t *sizes) {
    fill_dims(meta->sizes + meta->rank - dims, dims, 1, sizes);
    return sizes[0] * sizes[1] * sizes[2];
}

/* A number for all dims, or one for each. */
static int64_t number_at(const Arg *a, int i) { return a->kind == ARG_int ? a->i : a->ints[a->n == 1 ? 0 : i]; }

/* convolutions -------------------------------------------------------------------------------- */

static void spatial_list(const OpCall *call, const char *name, int dims, int64_t fallback, int64_t *to) {
    int64_t all[SPATIAL_DIMS];
    for (int i = 0; i < dims; i++) all[i] = number_at(named_arg(call, name), i);
    fill_dims(all, dims, fallback, to);
}

bool conv_is_transposed(const OpCall *call) { return named_arg(call, "transposed")->i != 0; }

ConvGeometry conv_geometry(const OpCall *call, const int64_t *weight_sizes) {
    const Meta *const meta = call->outs[0]->base.meta;
    const int dims = meta->rank - 2;
    ConvGeometry g = {.dtype = meta->dtype,
                      .type = dtype_compute(meta->dtype),
                      .bytes = stype_bytes(dtype_compute(meta->dtype)),
                      .batch = tensor_of(call->args[0].val)->base.meta->sizes[0],
                      .groups = named_arg(call, "groups")->i};
    fill_dims(weight_sizes + 2, dims, 1, g.kernel);
    spatial_list(call, "stride", dims, 1, g.stride);
    spatial_list(call, "padding", dims, 0, g.padding);
    spatial_list(call, "dilation", dims, 1, g.dilation);
    return g;
}

/* pools --------------------------------------------------------------------------------------- */

PoolReach pool_reach(const OpCall *call, int i) {
    const int kernel = op_param_find(call->row, "kernel_size");
    const Arg *const stride = &call->args[kernel + 1], *const dilation = named_arg(call, "dilation");
    const bool given = stride->kind == ARG_int || stride->n;
    return (PoolReach){number_at(&call->args[kernel], i), number_at(given ? stride : &call->args[kernel], i),
                       number_at(&call->args[kernel + 2], i), dilation ? number_at(dilation, i) : 1};
}

int pool_dims(const OpCall *call, int list) { return call->row->params[list].suffix[1] - '0'; }

int64_t pool_divisor(const OpCall *call) {
    const Arg *const divisor = named_arg(call, "divisor_override");
    return divisor && divisor->kind == ARG_int ? divisor->i : 0;
}

bool pool_is_padded(const OpCall *call) {
    const Arg *const padded = named_arg(call, "count_include_pad");
    return padded && padded->i;
}
