/* bitcode.c: the JIT's primitives. C passes wide vectors by the platform's rules (some by address, some coerced), so
 * here every function works through pointers; bitcode_wrap.c writes the by-value functions of kernels/bitcode.h around
 * them, and the optimizer inlines one into the other. */
#include "kernels/cpu/names.h"
#include "kernels/cpu/reduce.h"

#define ENTRY           __attribute__((always_inline))
#define FIRST_select(T) b
#define FIRST_fma(T)    T
#define FIRST_philox(T) T

#define INNER_1(name, R, X)                                                                                            \
    ENTRY void in_##name(v_##R *out, const v_##X *a) { *out = vec_##name(*a); }
#define INNER_2(name, R, X)                                                                                            \
    ENTRY void in_##name(v_##R *out, const v_##X *a, const v_##X *b) { *out = vec_##name(*a, *b); }
#define INNER_3(name, R, X, Y)                                                                                         \
    ENTRY void in_##name(v_##R *out, const v_##X *a, const v_##Y *b, const v_##Y *c) { *out = vec_##name(*a, *b, *c); }
#define INNER_1_(name, R, X)                    INNER_1(name, R, X)
#define INNER_2_(name, R, X)                    INNER_2(name, R, X)
#define INNER_3_(name, R, X, Y)                 INNER_3(name, R, X, Y)
#define PRIM_1(T, name, R)                      INNER_1_(name##_##T, RESULT_##R(T), T)
#define PRIM_2(T, name, R)                      INNER_2_(name##_##T, RESULT_##R(T), T)
#define PRIM_3(T, name, R)                      INNER_3_(name##_##T, T, FIRST_##name(T), T)
#define PRIM_INNER(T, name, arity, R)           IF_PRESENT(name, T)(PRIM_##arity(T, name, R))
#define SCALAR(name, arity, types, result, ...) EACH_##types(PRIM_INNER, name, arity, result)
#include "ir/scalar.def"
#undef SCALAR

#define CAST_INNER(from, to)                                                                                           \
    ENTRY void in_cast_##from##_##to(v_##to *out, const v_##from *a) { *out = cast_##from##_##to(*a); }
EACH_CAST(CAST_INNER)

ENTRY void in_load_f16(v_f32 *out, const v_u16 *a) { *out = f32_of_f16(*a); }
ENTRY void in_load_bf16(v_f32 *out, const v_u16 *a) { *out = f32_of_bf16(*a); }
ENTRY void in_store_f16(v_u16 *out, const v_f32 *a) { *out = f16_of_f32(*a); }
ENTRY void in_store_bf16(v_u16 *out, const v_f32 *a) { *out = bf16_of_f32(*a); }

#define TREE_INNER(name, T)                                                                                            \
    ENTRY void in_tree_##name##_##T(e_##T *out, const v_##T *lanes) { *out = tree_##name##_##T(lanes); }
EACH_REDUCTION(TREE_INNER, TREE_INNER)
