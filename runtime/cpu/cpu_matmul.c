/* cpu_matmul.c: native products of matrices [B2.3, ORDER_chain]. Floats and wide ints go to gemm(); the narrow int
 * types, which nobody tunes for, are summed with wrap in plain loops. */
#include "runtime/cpu/cpu_gemm.h"
#include "runtime/core/dispatch.h"
#include "runtime/core/element.h"

typedef struct MatOperand { /* [batch, row, column] */
    char *at;
    int64_t stride[3];
} MatOperand;

static MatOperand matrix_operand(const sn_tensor *t) {
    const Meta *const meta = t->base.meta;
    const int64_t *const s = meta->strides + meta->rank - 2;
    return (MatOperand){tensor_data(t), {meta->rank == 3 ? meta->strides[0] : 0, s[0], s[1]}};
}

static bool is_wide(DType dtype) { return dtype_is_float(dtype) || dtype == DT_i64 || dtype == DT_i32; }

static Status product_wide(const MatOperand *a, const MatOperand *b, const MatOperand *c, GemmCall call) {
    call.a = a->at, call.b = b->at, call.c = c->at;
    call.a_batch = a->stride[0], call.a_row = a->stride[1], call.a_col = a->stride[2];
    call.b_batch = b->stride[0], call.b_row = b->stride[1], call.b_col = b->stride[2];
    call.c_batch = c->stride[0], call.c_row = c->stride[1], call.c_col = c->stride[2];
    return gemm_run(&call);
}

static const void *at(const MatOperand *o, int bytes, int64_t batch, int64_t row, int64_t column) {
    return o->at + (batch * o->stride[0] + row * o->stride[1] + column * o->stride[2]) * bytes;
}

static void product_narrow(const MatOperand *a, const MatOperand *b, const MatOperand *c, const GemmCall *call) {
    const int bytes = dtype_bytes(call->dtype);
    for (int64_t s = 0; s < call->batch; s++)
        for (int64_t i = 0; i < call->m; i++)
            for (int64_t j = 0; j < call->n; j++) {
                uint64_t sum = 0;
                for (int64_t k = 0; k < call->k; k++)
                    sum += (uint64_t)element_int(call->dtype, at(a, bytes, s, i, k)) *
                           (uint64_t)element_int(call->dtype, at(b, bytes, s, k, j));
                memcpy((void *)(uintptr_t)at(c, bytes, s, i, j), &sum, (size_t)bytes);
            }
}

static Status run_product(OpCall *call) {
    const sn_tensor *const a = tensor_of(call->args[0].val), *const b = tensor_of(call->args[1].val);
    const Meta *const ma = a->base.meta, *const mb = b->base.meta;
    if (ma->dtype == DT_bool) return error_raise(ST_DTYPE, "not implemented for dtype bool");
    const GemmCall sizes = {.dtype = ma->dtype,
                            .m = ma->sizes[ma->rank - 2],
                            .k = ma->sizes[ma->rank - 1],
                            .n = mb->sizes[mb->rank - 1],
                            .batch = ma->rank == 3 ? ma->sizes[0] : 1};
    const MatOperand oa = matrix_operand(a), ob = matrix_operand(b), oc = matrix_operand(call->outs[0]);
    if (is_wide(ma->dtype)) return product_wide(&oa, &ob, &oc, sizes);
    product_narrow(&oa, &ob, &oc, &sizes);
    return ST_OK;
}

Status cpu_mm(OpCall *call) { return run_product(call); }
Status cpu_bmm(OpCall *call) { return run_product(call); }

static int64_t factor(const OpCall *call, const char *name) {
    const Arg *const a = &call->args[op_param_find(call->row, name)];
    return arg_int(a, S_i32);
}

/* self read as [batch, row, column], broadcast by strides of 0. */
static MatOperand broadcast_operand(const sn_tensor *t, int rank) {
    const Meta *const meta = t->base.meta;
    MatOperand o = {tensor_data(t), {0}};
    for (int d = 0; d < meta->rank && d < rank; d++)
        if (meta->sizes[meta->rank - 1 - d] != 1) o.stride[2 - d] = meta->strides[meta->rank - 1 - d];
    return o;
}

/* beta self + alpha product of the narrow int types; the wide ones and floats are lowered to a
 * product with an epilogue, in eager too. */
static Status add_product(OpCall *call) {
    const sn_tensor *const out = call->outs[0];
    const Meta *const meta = out->base.meta;
    if (is_wide(meta->dtype) || meta->dtype == DT_bool)
        return error_raise(ST_DTYPE, "%s has no native kernel for dtype %s", call->row->name, dtype_name(meta->dtype));
    OpCall inner = *call;
    inner.args = call->args + 1;
    TRY(run_product(&inner));
    const MatOperand self = broadcast_operand(tensor_of(call->args[0].val), meta->rank), c = matrix_operand(out);
    const int64_t alpha = factor(call, "alpha"), beta = factor(call, "beta");
    const int64_t batch = meta->rank == 3 ? meta->sizes[0] : 1, rows = meta->sizes[meta->rank - 2];
    const int64_t columns = meta->sizes[meta->rank - 1];
    const int bytes = dtype_bytes(meta->dtype);
    for (int64_t s = 0; s < batch; s++)
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < columns; j++) {
                void *const to = (void *)(uintptr_t)at(&c, bytes, s, i, j);
                const uint64_t sum = (uint64_t)alpha * (uint64_t)element_int(meta->dtype, to) +
                                     (uint64_t)beta * (uint64_t)element_int(meta->dtype, at(&self, bytes, s, i, j));
                memcpy(to, &sum, (size_t)bytes);
            }
    return ST_OK;
}

Status cpu_addmm(OpCall *call) { return add_product(call); }
Status cpu_baddbmm(OpCall *call) { return add_product(call); }
