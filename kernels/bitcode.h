/* bitcode.h: the scalar primitives as LLVM bitcode (LLVM 19) per instruction set, for codegen/llvm to link and inline.
 * Made here as one module, cut into one per function and held by codegen/llvm (tool/bitcode_split.c, library.c).
 *
 * Below, W is isa_lanes(isa) (v2: 4, v3: 8, v4: 16), T one of f32 f64 i32 i64 b, and vT the vector type
 *     f32 <W x float>   f64 <W x double>   i32 <W x i32>   i64 <W x i64>   b <W x i8>, each lane 0 or 1
 * Results of type b are 0 or 1 per lane too. All functions are pure (memory(none), nounwind, willreturn), alwaysinline,
 * linkonce, take and return plain vectors by value, and have no target attributes: give the functions they are
 * inlined into target-cpu x86-64-v2/v3/v4, and for v4 "prefer-vector-width"="512". They may call internal helpers that
 * stay out of line (large sine arguments; fma of doubles on v2): those come with each function that needs them,
 * linkonce. They import nothing but llvm.* intrinsics that the level has instructions for.
 *
 *   vR @sn_<prim>_<T>(vT...)        every row of ir/scalar.def whose llvm column is CALL, for each of its types;
 *                                   operands as in the row (select: vb, vT, vT)
 *   vB @sn_cast_<A>_<B>(vA)         every A != B: float to int saturates and NaN gives 0; to b is != 0
 *   <W x float> @sn_load_f16(<W x i16>)   <W x float> @sn_load_bf16(<W x i16>)      exact widening
 *   <W x i16> @sn_store_f16(<W x float>)  <W x i16> @sn_store_bf16(<W x float>)     rounded to nearest even
 *   T  @sn_tree_<red>_<T>(vT x 64/W)      joins the 64 lanes of order L, lanes 0..W-1 in the first operand and so on;
 *                                   red: sum prod max min dot for f32 f64 i32 i64, any all for b (T is then i8) */
#ifndef SINTER_KERNELS_BITCODE_H
#define SINTER_KERNELS_BITCODE_H
#include "kernels/kernels.h"

/* The module of one function; the bytes live as long as the library. NULL: there is none. */
const void *kernels_bitcode(Isa isa, const char *name, size_t *bytes);

#endif
