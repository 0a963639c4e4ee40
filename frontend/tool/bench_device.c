/* bench_device.c: rows on a device other than the CPU: where their inputs are, how long they are, and the copy which
 * they are measured against: what a device-to-device copy of as many bytes reaches, in turn with the row. */
#include <stdlib.h>

#include "frontend/tool/bench.h"
#include "runtime/base/clock.h"
#include "runtime/core/tensor.h"
#include "runtime/device/device.h"

static sn_tensor *there_as_here(sn_tensor *t, const BenchDevice *place) {
    const bool grad = sn_requires_grad(t), is_float = dtype_is_float(t->base.meta->dtype);
    sn_tensor *const made = sn_to(sn_detach(t), is_float && place->dtype ? place->dtype : sn_dtype_of(t));
    return sn_requires_grad_(sn_to_device(made, place->device), grad);
}

/* A leaf stays one. */
void bench_place(Work *w, const char *row, const BenchDevice *place) {
    if (place->device != SN_CPU && w->closure_free) {
        error_raise(ST_UNSUPPORTED, "%s makes tensors of its own, on the CPU", row);
        return;
    }
    for (int i = 0; i < w->n_in && !sn_check(); i++) {
        const sn_scope scope = sn_scope_begin();
        sn_tensor *const made = there_as_here(w->in[i], place);
        if (made) {
            sn_release(w->in[i]);
            w->in[i] = sn_keep(made);
        }
        sn_scope_end(scope);
    }
}

/* Rows of `columns` elements that make `streams` tensors `bytes` long. */
int64_t bench_rows_of(const BenchRow *row, int64_t bytes) {
    const int64_t each = row->streams * row->sizes[1] * (int64_t)dtype_bytes((DType)(row->dtype ? row->dtype : SN_F32));
    return bytes > each ? bytes / each : 1;
}

double bench_copy_gbs(sn_device device, int64_t bytes) {
    enum { TIMES = 7 };
    const int64_t n = bytes / 2;
    double rates[TIMES];
    const sn_scope scope = sn_scope_begin();
    sn_tensor *const from = sn_to_device(sn_empty(SN_INTS(n), SN_U8), device), *const to = sn_clone(from);
    for (int i = -1; i < TIMES && !sn_check(); i++) { /* the first one does not count */
        sn_device_synchronize(device);
        const int64_t start = clock_ns();
        memory_copy(to->storage->memory, tensor_data(to), from->storage->memory, tensor_data(from), (size_t)n);
        sn_device_synchronize(device);
        if (i >= 0) rates[i] = 2.0 * (double)n / (double)(clock_ns() - start);
    }
    sn_scope_end(scope);
    if (sn_check()) return 0;
    qsort(rates, TIMES, sizeof *rates, bench_by_value);
    return rates[TIMES / 2];
}
