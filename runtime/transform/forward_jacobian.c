/* forward_jacobian.c: jacobians by forward mode: for each argument one run of the body, at a level of examples, one for
 * each element of the argument, with a tangent that is one there. */
#include "runtime/base/alloc.h"
#include "runtime/transform/dual.h"
#include "runtime/transform/func_grad.h"
#include "runtime/transform/vmap.h"

typedef struct JacobianColumns { /* the jacobian by argument `which`; inputs: the body's, then the tangent */
    const FuncSpec *spec;
    int64_t which;
} JacobianColumns;

static sn_status one_column(sn_frame *f) {
    const JacobianColumns *const c = f->closure;
    const FuncSpec *const spec = c->spec;
    const int n = spec->n_in, m = spec->n_outs;
    sn_tensor **const buffer = mem_zero(sizeof *buffer * (size_t)(2 * n + 2 * m)), **const tangents = buffer + n;
    sn_tensor **const outs = tangents + n, **const found = outs + m;
    if (!buffer) return (sn_status)ST_MEMORY;
    for (int i = 0; i < n; i++) buffer[i] = f->in[i].kind == ARG_tensor ? tensor_of(f->in[i].val) : NULL;
    tangents[c->which] = tensor_of(f->in[n].val);
    const Status status = dual_run(&(DualSpec){.what = spec->what,
                                               .body = spec->body,
                                               .closure = spec->closure,
                                               .in = buffer,
                                               .tangents = tangents,
                                               .n_in = n,
                                               .n_outs = m,
                                               .outs = outs,
                                               .tangent = found,
                                               .n_tangents = m});
    for (int i = 0; i < m && status == ST_OK; i++) {
        f->out[i] = found[i];
        tensor_retain(found[i]);
    }
    mem_free(buffer);
    return (sn_status)status;
}

/* columns [sizes of y, elements of x] by argument k. */
static Status shape_columns(const FuncSpec *spec, int k, sn_tensor *const *columns) {
    const Meta *const x = spec->in[spec->argnums[k]]->base.meta;
    for (int i = 0; i < spec->n_outs; i++) {
        Meta y = *columns[i]->base.meta;
        y.rank--;
        sn_tensor *const shaped = func_jacobian_shape(spec, columns[i], &y, x);
        if (!shaped) return error_pending();
        spec->grads[i * spec->n_args + k] = shaped;
    }
    return ST_OK;
}

static Status by_argument(const FuncSpec *spec, int k, int64_t *dims, sn_tensor **in, sn_tensor **columns) {
    sn_tensor *const x = spec->in[spec->argnums[k]];
    TRY(func_check_argument(spec, k));
    const int64_t n = func_count(x);
    in[spec->n_in] = func_basis(spec, x, n);
    if (!in[spec->n_in]) return error_pending();
    for (int i = 0; i < spec->n_in; i++) in[i] = spec->in[i], dims[i] = SN_NO_INT;
    dims[spec->n_in] = 0;
    for (int i = 0; i < spec->n_outs; i++) dims[spec->n_in + 1 + i] = -1;
    TRY(vmap_run(&(VmapSpec){.body = one_column,
                             .closure = &(JacobianColumns){spec, spec->argnums[k]},
                             .in_dims = dims,
                             .out_dims = dims + spec->n_in + 1,
                             .in = in,
                             .n_in = spec->n_in + 1,
                             .out = columns,
                             .n_out = spec->n_outs},
                 n));
    return shape_columns(spec, k, columns);
}

Status func_forward_jacobian(const FuncSpec *spec) {
    sn_state *const state = state_get();
    const uint32_t depth = state->n_scopes;
    const int n = spec->n_in + 1 + spec->n_outs, n_grads = spec->n_args * spec->n_outs;
    int64_t *const dims = mem_zero(sizeof *dims * (size_t)n);
    sn_tensor **const tensors = mem_zero(sizeof *tensors * (size_t)n);
    Status status = dims && tensors ? scope_push(state, false) : ST_MEMORY;
    if (status == ST_OK) {
        for (int k = 0; k < spec->n_args && status == ST_OK; k++)
            status = by_argument(spec, k, dims, tensors, tensors + spec->n_in + 1);
        scope_pop_passing(state, depth, spec->grads, status == ST_OK ? n_grads : 0);
    }
    mem_free(dims);
    mem_free(tensors);
    return status;
}
