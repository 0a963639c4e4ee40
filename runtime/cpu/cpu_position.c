/* cpu_position.c: positions that the host checks: sn::index_positions. */
#include "runtime/core/dispatch.h"
#include "runtime/core/element.h"
#include "runtime/cpu/cpu_copy.h"
#include "runtime/device/alloc_cpu.h"
#include "runtime/device/positions.h"

typedef struct Checked {
    int64_t *to, size, dim;
    DType dtype;
    Status status;
} Checked;

static void check_one(void *context, const char *element, size_t bytes) {
    Checked *const c = context;
    const int64_t given = element_int(c->dtype, element), at = given < 0 ? given + c->size : given;
    (void)bytes;
    *c->to++ = at;
    if (LIKELY(at >= 0 && at < c->size) || c->status != ST_OK) return;
    c->status = raise_index_position(given, c->size, c->dim);
}

/* (index, size, dim) */
Status cpu_index_positions(OpCall *call) {
    const sn_tensor *const index = tensor_of(call->args[0].val), *const out = call->outs[0];
    const Meta *const meta = index->base.meta;
    const size_t bytes = (size_t)max_i64(meta->numel, 1) * sizeof(int64_t);
    int64_t *const values = cpu_alloc(bytes), strides[MAX_RANK];
    if (!values) return error_pending();
    Checked c = {values, call->args[1].i, call->args[2].i, meta->dtype, ST_OK};
    each_element(index, check_one, &c);
    meta_contiguous_strides(NULL, meta->sizes, meta->rank, strides);
    const StridedSpan from = {(char *)values, DT_i64, strides}, to = span_of(out);
    if (c.status == ST_OK) span_copy(&to, &from, meta->sizes, meta->rank);
    cpu_free(values, bytes);
    return c.status;
}
