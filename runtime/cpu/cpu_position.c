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

/* The key's own entry, as nonzero's: how many there are is known from the values only. */
Status cpu_repeat_positions(OpCall *call) {
    sn_tensor *const self = tensor_of(call->args[0].val);
    TRY(tensor_ready(self, call->row->name));
    const Meta *const counts = self->base.meta;
    const int64_t *const from = tensor_data(self), stride = counts->rank ? counts->strides[0] : 1;
    int64_t total = 0;
    for (int64_t i = 0; i < counts->numel; i++) {
        if (from[i * stride] < 0)
            return error_raise(ST_VALUE, "%s: repeats must not be negative, but element %lld is %lld", call->row->name,
                               (long long)i, (long long)from[i * stride]);
        if (__builtin_add_overflow(total, from[i * stride], &total))
            return error_raise(ST_SHAPE, "%s: the sum of repeats does not fit in 64 bits", call->row->name);
    }
    const Meta *const meta = meta_intern_contiguous(DT_i64, DEV_cpu, &total, 1);
    call->outs[0] = meta ? tensor_new(meta) : NULL;
    if (!call->outs[0]) return error_pending() ? error_pending() : ST_MEMORY;
    int64_t *to = tensor_data(call->outs[0]);
    for (int64_t i = 0; i < counts->numel; i++)
        for (int64_t k = 0; k < from[i * stride]; k++) *to++ = i;
    return ST_OK;
}
