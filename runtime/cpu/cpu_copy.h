/* cpu_copy.h: moving elements between layouts, for the native kernels: copies with casts, fills,
 * compute-type buffers. Conversions are those of the block kernels, so they have the bits of a copy
 * op. */
#ifndef SINTER_RUNTIME_CPU_COPY_H
#define SINTER_RUNTIME_CPU_COPY_H
#include "kernels/kernels.h"
#include "runtime/core/dispatch.h"

typedef struct StridedSpan { /* elements in memory; strides in elements, one per dim of the sizes it is
                         used with */
    char *at;
    DType dtype;
    const int64_t *strides;
} StridedSpan;

StridedSpan span_of(const sn_tensor *t);
/* to[i] = from[i] for every index of sizes; equal dtypes keep bits. */
void span_copy(const StridedSpan *to, const StridedSpan *from, const int64_t *sizes, int rank);
/* to[k * to_ld + j] = from[j * from_ld + k] for k < n, j < m; not in the same memory. */
void copy_transposed(char *to, int64_t to_ld, const char *from, int64_t from_ld, int64_t n, int64_t m, int bytes);
/* Every element of `to` is the number, cast to its dtype. */
void span_fill(const StridedSpan *to, const Arg *number, const int64_t *sizes, int rank);
/* out gets a's elements; sizes are out's. */
void tensor_copy_into(const sn_tensor *out, const sn_tensor *a);

/* The tensor's elements row-major in its compute type: its own memory where it is that already,
 * else a fresh buffer
 * (*owned_bytes > 0: cpu_free it). NULL raises. */
void *compute_buffer(const sn_tensor *t, size_t *owned_bytes);
DType compute_dtype(DType dtype); /* the dtype whose elements are the compute type's */
/* n <= BLOCK copies of the number. */
void number_to_block(SType type, const Arg *number, void *block, int n);

#endif
