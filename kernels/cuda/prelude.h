/* prelude.h: the text that stands before the kernels of every CUDA program: the primitives (the CPU's own text),
 * memory of every dtype, reductions, checked indices. A generator names in it:
 *
 *   v_<T>                      compute types: f32 f64 i32 i64 b (a bool is 0 or 1)
 *   vec_<prim>_<T>(v_T...)     a primitive of ir/scalar.def; cast_<A>_<B>(v_A)
 *   get_<dtype>(p, i)          an element of memory as its compute type; memory_<dtype> is what lies there
 *   put_<dtype>(p, i, v)       rounded to the dtype; of_<dtype>, to_<dtype>: the same of one memory_<dtype>
 *   Four<memory_D>             four elements, aligned
 *   red_<kind>_<T>             partial results of a reduction: start_, join_, result_<kind>_<T>; tree_: of 16 threads
 *                              with 4 lanes each; chain_<T>(x, y, acc): a step of a dot; element_argmax_<T>(x, i)
 *   checked(index, bound...)   -1, and the failure noted, where it is out of bounds
 *   KERNEL name(...)           a kernel
 *
 * prelude.cmake makes the text while building, without comments and includes; NVRTC reads it in 4 ms. It is compiled
 * without fused products (-fmad=false), and there is no -fwrapv: sums, products, negations and left shifts of ints
 * that may wrap are written in unsigned arithmetic, and a number is made an int only where one holds it. The emulated
 * device ends a kernel at the first place that forgets it. test_cuda_prims runs every primitive there: the bits are
 * the CPU's. */
#ifndef SINTER_KERNELS_CUDA_PRELUDE_H
#define SINTER_KERNELS_CUDA_PRELUDE_H
#include <stdint.h>

extern const char cuda_prelude[]; /* a string */
/* After it and a few names (kernels/cuda/gemm.cuh): product(a, b, c, CudaGemm, wide, later), what a block does. */
extern const char cuda_gemm[];
enum { CUDA_GEMM_CHUNK = 4096 };

/* Kernels written by hand, <name>.cuh, after it and "#define DTYPE f16", "#define TYPE f32" (its compute type). */
extern const char cuda_text_windows[], cuda_text_convolution[], cuda_text_bags[], cuda_text_products[];
extern const char cuda_text_moves[], cuda_text_positions[], cuda_text_scans[], cuda_text_scatter[], cuda_text_sorts[];

typedef struct CudaGemm { /* strides in elements */
    int64_t m, n, k;
    int64_t a_batch, a_row, a_col, b_batch, b_row, b_col, c_batch, c_row, c_col;
} CudaGemm;

#endif
