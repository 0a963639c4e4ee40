/* cpu_copy.c: see cpu_copy.h. Copies go dim by dim down to runs along the last one, in blocks: load
 * to the compute type, cast, store. */
#include "runtime/cpu/cpu_copy.h"

#include "runtime/device/alloc_cpu.h"

StridedSpan span_of(const sn_tensor *t) {
    return (StridedSpan){tensor_data(t), t->base.meta->dtype, t->base.meta->strides};
}

DType compute_dtype(DType dtype) {
    static const DType of[S_COUNT] = {DT_f32, DT_f64, DT_i32, DT_i64, DT_bool};
    return of[dtype_compute(dtype)];
}

typedef struct Block {
    _Alignas(64) char at[BLOCK * 8];
} Block;

static void copy_same(char *to, int64_t to_stride, const char *from, int64_t from_stride, int64_t n, int64_t bytes) {
    if (to_stride == 1 && from_stride == 1) {
        memcpy(to, from, (size_t)(n * bytes));
        return;
    }
    for (int64_t i = 0; i < n; i++) memcpy(to + i * to_stride * bytes, from + i * from_stride * bytes, (size_t)bytes);
}

static void copy_run(const StridedSpan *to, int64_t to_stride, const StridedSpan *from, int64_t from_stride,
                     int64_t n) {
    const int64_t to_bytes = dtype_bytes(to->dtype), from_bytes = dtype_bytes(from->dtype);
    if (to->dtype == from->dtype && to->dtype != DT_bool) { /* bools are stored as 0 or 1 */
        copy_same(to->at, to_stride, from->at, from_stride, n, to_bytes);
        return;
    }
    const KernelTable *const table = kernel_table();
    const SType a = dtype_compute(from->dtype), b = dtype_compute(to->dtype);
    Block loaded, cast;
    for (int64_t i = 0; i < n; i += BLOCK) {
        const int64_t some = min_i64(BLOCK, n - i);
        table->load(from->dtype)(loaded.at, from->at + i * from_stride * from_bytes, from_stride, some);
        if (a != b) table->cast(a, b)(cast.at, loaded.at, NULL, NULL, some);
        table->store(to->dtype)(to->at + i * to_stride * to_bytes, to_stride, a != b ? cast.at : loaded.at, some);
    }
}

void span_copy(const StridedSpan *to, const StridedSpan *from, const int64_t *sizes, int rank) {
    if (rank <= 1) {
        copy_run(to, rank ? to->strides[0] : 1, from, rank ? from->strides[0] : 1, rank ? sizes[0] : 1);
        return;
    }
    StridedSpan t = {to->at, to->dtype, to->strides + 1}, f = {from->at, from->dtype, from->strides + 1};
    for (int64_t i = 0; i < sizes[0]; i++) {
        span_copy(&t, &f, sizes + 1, rank - 1);
        t.at += to->strides[0] * dtype_bytes(to->dtype);
        f.at += from->strides[0] * dtype_bytes(from->dtype);
    }
}

void number_to_block(SType type, const Arg *number, void *block, int n) {
    const double f64 = arg_double(number);
    const float f32 = (float)f64;
    const int64_t i64 = number->kind == ARG_float ? (int64_t)number->f : number->i;
    const int32_t i32 = (int32_t)i64;
    const uint8_t b = f64 != 0;
    const void *const values[S_COUNT] = {&f32, &f64, &i32, &i64, &b};
    const size_t bytes = (size_t)stype_bytes(type);
    for (int i = 0; i < n; i++) memcpy((char *)block + (size_t)i * bytes, values[type], bytes);
}

void span_fill(const StridedSpan *to, const Arg *number, const int64_t *sizes, int rank) {
    Block one;
    char element[8];
    static const int64_t zeros[MAX_RANK];
    number_to_block(dtype_compute(to->dtype), number, one.at, 1);
    kernel_table()->store(to->dtype)(element, 1, one.at, 1);
    span_copy(to, &(StridedSpan){element, to->dtype, zeros}, sizes, rank);
}

void tensor_copy_into(const sn_tensor *out, const sn_tensor *a) {
    const StridedSpan to = span_of(out), from = span_of(a);
    span_copy(&to, &from, out->base.meta->sizes, out->base.meta->rank);
}

void *compute_buffer(const sn_tensor *t, size_t *owned_bytes) {
    const Meta *const meta = t->base.meta;
    const DType dtype = compute_dtype(meta->dtype);
    *owned_bytes = 0;
    if (meta->contiguous && dtype == meta->dtype) return tensor_data(t);
    const size_t bytes = (size_t)max_i64(meta->numel, 1) * (size_t)dtype_bytes(dtype);
    void *const buffer = cpu_alloc(bytes);
    if (!buffer) return NULL;
    *owned_bytes = bytes;
    int64_t strides[MAX_RANK];
    meta_contiguous_strides(NULL, meta->sizes, meta->rank, strides);
    const StridedSpan to = {buffer, dtype, strides}, from = span_of(t);
    span_copy(&to, &from, meta->sizes, meta->rank);
    return buffer;
}
