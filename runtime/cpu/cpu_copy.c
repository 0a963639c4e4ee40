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

/* Bytes of an element are a constant in each loop. */
#define COPY_EACH(type)                                                                                                \
    for (int64_t i = 0; i < n; i++) memcpy(to + i * to_step, from + i * from_step, sizeof(type))
static void copy_same(char *to, int64_t to_stride, const char *from, int64_t from_stride, int64_t n, int64_t bytes) {
    const int64_t to_step = to_stride * bytes, from_step = from_stride * bytes;
    if (to_stride == 1 && from_stride == 1)
        memcpy(to, from, (size_t)(n * bytes));
    else if (bytes == 4)
        COPY_EACH(int32_t);
    else if (bytes == 8)
        COPY_EACH(int64_t);
    else if (bytes == 2)
        COPY_EACH(int16_t);
    else
        COPY_EACH(char);
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

static void copy_dims(const StridedSpan *to, const StridedSpan *from, const int64_t *sizes, int rank) {
    if (rank <= 1) {
        copy_run(to, rank ? to->strides[0] : 1, from, rank ? from->strides[0] : 1, rank ? sizes[0] : 1);
        return;
    }
    StridedSpan t = {to->at, to->dtype, to->strides + 1}, f = {from->at, from->dtype, from->strides + 1};
    for (int64_t i = 0; i < sizes[0]; i++) {
        copy_dims(&t, &f, sizes + 1, rank - 1);
        t.at += to->strides[0] * dtype_bytes(to->dtype);
        f.at += from->strides[0] * dtype_bytes(from->dtype);
    }
}

/* One dim is dense in `from`, another in `to`: channels_last and back. */
void copy_transposed(char *to, int64_t to_ld, const char *from, int64_t from_ld, int64_t n, int64_t m, int bytes) {
    if (bytes == 4 || bytes == 8)
        kernel_transpose(bytes, from, from_ld, to, to_ld, m, n);
    else
        for (int64_t k = 0; k < n; k++) copy_same(to + k * to_ld * bytes, 1, from + k * bytes, from_ld, m, bytes);
}

typedef struct CopyDims { /* dims of more than one element, joined where both sides walk on */
    int n;
    int64_t sizes[MAX_RANK], to[MAX_RANK], from[MAX_RANK];
} CopyDims;

static void join_dims(const StridedSpan *to, const StridedSpan *from, const int64_t *sizes, int rank, CopyDims *d) {
    d->n = 0;
    for (int i = 0; i < rank; i++) {
        if (sizes[i] == 1) continue;
        const int last = d->n - 1;
        const bool joins =
            d->n && d->to[last] == to->strides[i] * sizes[i] && d->from[last] == from->strides[i] * sizes[i];
        const int at = joins ? last : d->n++;
        d->sizes[at] = joins ? d->sizes[at] * sizes[i] : sizes[i];
        d->to[at] = to->strides[i], d->from[at] = from->strides[i];
    }
}

static int64_t dims_reach(const CopyDims *d, const int64_t *strides) {
    int64_t reach = 1;
    for (int i = 0; i < d->n; i++) reach += (d->sizes[i] - 1) * strides[i];
    return reach;
}

static int unit_dim(const CopyDims *d, const int64_t *strides) {
    for (int i = 0; i < d->n; i++)
        if (strides[i] == 1) return i;
    return -1;
}

/* Elements may go in any order. */
static bool is_apart(const StridedSpan *to, const StridedSpan *from, const CopyDims *d, int64_t bytes) {
    const uintptr_t t = (uintptr_t)to->at, f = (uintptr_t)from->at;
    return t + (uintptr_t)(dims_reach(d, d->to) * bytes) <= f || f + (uintptr_t)(dims_reach(d, d->from) * bytes) <= t;
}

static void transpose_dims(const CopyDims *d, int dim, int transposed, int dense, char *to, const char *from,
                           int bytes) {
    while (dim == transposed || dim == dense) dim++;
    if (dim >= d->n) {
        copy_transposed(to, d->to[transposed], from, d->from[dense], d->sizes[transposed], d->sizes[dense], bytes);
        return;
    }
    for (int64_t i = 0; i < d->sizes[dim]; i++)
        transpose_dims(d, dim + 1, transposed, dense, to + i * d->to[dim] * bytes, from + i * d->from[dim] * bytes,
                       bytes);
}

void span_copy(const StridedSpan *to, const StridedSpan *from, const int64_t *sizes, int rank) {
    CopyDims d;
    for (int i = 0; i < rank; i++)
        if (!sizes[i]) return;
    join_dims(to, from, sizes, rank, &d);
    const int transposed = unit_dim(&d, d.from), dense = unit_dim(&d, d.to), bytes = dtype_bytes(to->dtype);
    const bool same = to->dtype == from->dtype && to->dtype != DT_bool;
    if (same && transposed >= 0 && dense >= 0 && transposed != dense && is_apart(to, from, &d, bytes))
        transpose_dims(&d, 0, transposed, dense, to->at, from->at, bytes);
    else
        copy_dims(&(StridedSpan){to->at, to->dtype, d.to}, &(StridedSpan){from->at, from->dtype, d.from}, d.sizes, d.n);
}

void number_to_block(SType type, const Arg *number, void *block, int n) {
    const double f64 = arg_double(number);
    const float f32 = arg_single(number);
    const int64_t i64 = arg_int(number, S_i64);
    const int32_t i32 = (int32_t)arg_int(number, S_i32);
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
