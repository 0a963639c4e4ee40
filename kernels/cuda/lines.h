/* lines.h: what kernels over tensors of any dims are told, in C and in CUDA C alike (a part of both texts): moves,
 * scatters, scans, sorts, positions. Strides are in elements; `line` is what lies along one dim. */
#ifndef SINTER_KERNELS_CUDA_LINES_H
#define SINTER_KERNELS_CUDA_LINES_H
#include <stdint.h>

enum { CUDA_DIMS = 64, CUDA_OPERANDS = 4 };

/* Elements of these sizes, row-major, and where they lie in up to four tensors. */
typedef struct CudaDims {
    int64_t n, size[CUDA_DIMS], stride[CUDA_OPERANDS][CUDA_DIMS];
} CudaDims;

/* sorts.cuh: `kept` elements of each line of n come out. */
typedef struct CudaSort {
    CudaDims dims; /* where lines begin: what is sorted, values, indices */
    int64_t lines, n, kept;
    int64_t from, values, indices; /* strides along a line */
    int64_t slots, parts;          /* of a part, a power of two; parts of a line */
    int64_t capacity;              /* of a line in workspace */
    int descending;
} CudaSort;

/* A number of the host's, for any compute type. */
typedef struct CudaNumber {
    double f;
    int64_t i;
} CudaNumber;

enum { JOIN_add, JOIN_mul, JOIN_max, JOIN_min };

/* scatter.cuh: what sources give to the positions of one dim of a tensor, `at` of dims. */
typedef struct CudaScatter {
    CudaDims dims; /* of the result: where an element lies in it, in self, in source, and its line in index */
    int64_t at;    /* of dims: strides 2 and 3 are 0 there; -1: the tensor has one element */
    int64_t limit[CUDA_DIMS]; /* of other dims: there are sources below it */
    int64_t all, n;           /* elements; sources of a line */
    int64_t source, index;    /* their strides along a line */
    int64_t skip;             /* a position that gets nothing; -1: none */
    int how, alone, mean;     /* JOIN_; the first source stands in the place of what was there; divided at the end */
    int scaled;               /* each source times `by` */
    int by_count;             /* each source over how many there are */
    int sorted, wide;         /* index is in order, with places beside it; it is i64, not i32 */
} CudaScatter;

/* scans.cuh */
enum { CUDA_bool, CUDA_f64, CUDA_f32, CUDA_f16, CUDA_bf16, CUDA_i64, CUDA_i32, CUDA_i16, CUDA_i8, CUDA_u8 };
typedef struct CudaScan {
    CudaDims dims; /* where lines begin: what is scanned, the result */
    int64_t lines, n, chunks;
    int64_t from, to; /* strides along a line */
    int dtype;        /* CUDA_ of what is scanned */
    int multiplies;
} CudaScan;

/* positions.cuh: elements of `size`, row-major, and where positions of each dim are written. */
typedef struct CudaPositions {
    CudaDims dims; /* of what is read */
    int64_t n, rank, size[CUDA_DIMS];
    int64_t *to[CUDA_DIMS];
} CudaPositions;

#endif
