/* cpu_matmul.c: native products of matrices [semantics B2: ORDER_chain]. Floats and wide ints go to
 * gemm(); the narrow int types, which nobody tunes for, are summed with wrap in plain loops. */
#include "runtime/cpu_gemm.h"
#include "runtime/cpu_kernels.h"
#include "runtime/element.h"

typedef struct Operand { /* [batch, row, column] */
    char *at;
    int64_t stride[3];
} Operand;

static Operand operand(const sn_tensor *t) {
    const Meta *const meta = t->base.meta;
    const int64_t *const s = meta->strides + meta->rank - 2;
    return (Operand){tensor_data(t), {meta->rank == 3 ? meta->strides[0] : 0, s[0], s[1]}};
}

static bool is_wide(DType dtype) {
    return dtype_is_float(dtype) || dtype == DT_i64 || dtype == DT_i32;
}

static Status product_wide(const Operand *a, const Operand *b, const Operand *c, GemmCall call) {
    call.a = a->at, call.b = b->at, call.c = c->at;
    call.a_batch = a->stride[0], call.a_row = a->stride[1], call.a_col = a->stride[2];
    call.b_batch = b->stride[0], call.b_row = b->stride[1], call.b_col = b->stride[2];
    call.c_batch = c->stride[0], call.c_row = c->stride[1], call.c_col = c->stride[2];
    return gemm_run(&call);
}

static const void *at(const Operand *o, int bytes, int64_t batch, int64_t row, int64_t column) {
    return o->at + (batch * o->stride[0] + row * o->stride[1] + column * o->stride[2]) * bytes;
}

static void product_narrow(const Operand *a, const Operand *b, const Operand *c,
                           const GemmCall *call) {
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

static Status product(OpCall *call) {
    const sn_tensor *const a = tensor_of(call->args[0].val), *const b =
                                                                 tensor_of(call->args[1].val);
    const Meta *const ma = a->base.meta, *const mb = b->base.meta;
    if (ma->dtype == DT_bool)
        return error_raise(ST_DTYPE, "%s is not implemented for dtype bool", call->row->name);
    const GemmCall sizes = {.dtype = ma->dtype,
                            .m = ma->sizes[ma->rank - 2],
                            .k = ma->sizes[ma->rank - 1],
                            .n = mb->sizes[mb->rank - 1],
                            .batch = ma->rank == 3 ? ma->sizes[0] : 1};
    const Operand oa = operand(a), ob = operand(b), oc = operand(call->outs[0]);
    if (is_wide(ma->dtype)) return product_wide(&oa, &ob, &oc, sizes);
    product_narrow(&oa, &ob, &oc, &sizes);
    return ST_OK;
}

Status cpu_mm(OpCall *call) { return product(call); }
