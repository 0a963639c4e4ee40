/* vec.h: the vector types that all of kernels/cpu is written in: LANES elements of each scalar type of loop IR.
 *
 * LANES depends on the instruction set only (4, 8, 16) and is the same for every element type, so a f64 vector is two
 * registers wide and a bool vector is LANES bytes of 0/1. A vector `?:` looks at the sign bit of its condition, so that
 * must be a mask (0 or -1), as comparisons give. Only clang's vector extensions and elementwise builtins are used: the
 * same text gives the native block kernels, the JIT's bitcode, and the same bits at every level. The primitives are
 * CUDA C, too, where a vector is one scalar and a mask 0 or 1 (kernels/cuda/scalar.cuh): they use masks in ?:, &, |
 * and ! only, never their bits, and take lanes by AT. */
#ifndef SINTER_KERNELS_CPU_VEC_H
#define SINTER_KERNELS_CPU_VEC_H
#include "runtime/base/base.h"

#if defined(__AVX512F__)
enum { LANES = 16 };
#define HAVE_FMA 1
#elif defined(__AVX2__)
enum { LANES = 8 };
#define HAVE_FMA 1
#else
enum { LANES = 4 };
#define HAVE_FMA 0
#endif

#define INLINE  static inline __attribute__((always_inline, unused))
#define OUTLINE static __attribute__((noinline, unused)) /* rare paths: kept out of the JIT's kernels */

/* Elements and vectors by the names of SType, so that tables can paste them; m_T is what comparing v_T gives. */
typedef float e_f32;
typedef double e_f64;
typedef int32_t e_i32;
typedef int64_t e_i64;
typedef char e_b; /* clang compares signed char vectors to char vectors */
typedef float v_f32 __attribute__((ext_vector_type(LANES)));
typedef double v_f64 __attribute__((ext_vector_type(LANES)));
typedef int32_t v_i32 __attribute__((ext_vector_type(LANES)));
typedef int64_t v_i64 __attribute__((ext_vector_type(LANES)));
typedef char v_b __attribute__((ext_vector_type(LANES)));
typedef uint32_t v_u32 __attribute__((ext_vector_type(LANES)));
typedef uint64_t v_u64 __attribute__((ext_vector_type(LANES)));
typedef uint16_t v_u16 __attribute__((ext_vector_type(LANES)));
typedef int16_t v_i16 __attribute__((ext_vector_type(LANES)));
typedef uint8_t v_u8 __attribute__((ext_vector_type(LANES)));
typedef v_i32 m_f32, m_i32;
typedef v_i64 m_f64, m_i64;
typedef v_b m_b;

#define CONVERT(v, type) __builtin_convertvector(v, type)
#define AT(v, i)         (v)[i]
#define UNROLL           _Pragma("clang loop unroll(full)")

INLINE v_i32 bits_f32(v_f32 a) { return (v_i32)a; }
INLINE v_i64 bits_f64(v_f64 a) { return (v_i64)a; }
INLINE v_f32 float_of(v_i32 bits) { return (v_f32)bits; }
INLINE v_f64 double_of(v_i64 bits) { return (v_f64)bits; }
#define of_bits_f32 float_of
#define of_bits_f64 double_of

/* A comparison's mask (0 or -1 per lane) as a bool vector, and back. */
INLINE v_b bool_i32(v_i32 mask) { return CONVERT(mask, v_b) & (v_b)1; }
INLINE v_b bool_i64(v_i64 mask) { return CONVERT(mask, v_b) & (v_b)1; }
INLINE v_b bool_f32(v_i32 mask) { return bool_i32(mask); }
INLINE v_b bool_f64(v_i64 mask) { return bool_i64(mask); }
INLINE v_b bool_b(v_b mask) { return mask & (v_b)1; }
INLINE v_i32 mask_i32(v_b a) { return CONVERT(a, v_i32) != 0; }
INLINE v_i64 mask_i64(v_b a) { return CONVERT(a, v_i64) != 0; }
INLINE v_i32 mask_f32(v_b a) { return mask_i32(a); }
INLINE v_i64 mask_f64(v_b a) { return mask_i64(a); }
INLINE v_b mask_b(v_b a) { return a != 0; }

INLINE bool any_i32(v_i32 mask) { return __builtin_reduce_or(mask) != 0; }
INLINE bool any_i64(v_i64 mask) { return __builtin_reduce_or(mask) != 0; }

/* Whole and partial vectors in memory; i and n count elements. A partial load fills the rest with zeros. */
#define MEMORY_OF(T)                                                                                                   \
    INLINE v_##T get_##T(const void *p, int64_t i) {                                                                   \
        v_##T v;                                                                                                       \
        memcpy(&v, (const e_##T *)p + i, sizeof(e_##T) * LANES);                                                       \
        return v;                                                                                                      \
    }                                                                                                                  \
    INLINE void put_##T(void *p, int64_t i, v_##T v) { memcpy((e_##T *)p + i, &v, sizeof(e_##T) * LANES); }            \
    INLINE v_##T get_part_##T(const void *p, int64_t i, int64_t n) {                                                   \
        v_##T v = (v_##T)0;                                                                                            \
        memcpy(&v, (const e_##T *)p + i, sizeof(e_##T) * (size_t)n);                                                   \
        return v;                                                                                                      \
    }                                                                                                                  \
    INLINE void put_part_##T(void *p, int64_t i, int64_t n, v_##T v) {                                                 \
        memcpy((e_##T *)p + i, &v, sizeof(e_##T) * (size_t)n);                                                         \
    }
typedef uint16_t e_u16;
typedef int16_t e_i16;
typedef uint8_t e_u8;
typedef char e_i8;
typedef v_b v_i8;
MEMORY_OF(f32)
MEMORY_OF(f64)
MEMORY_OF(i32)
MEMORY_OF(i64)
MEMORY_OF(i8)
MEMORY_OF(u16)
MEMORY_OF(i16)
MEMORY_OF(u8)

/* Blocks of bools may be a user's memory, read in place: a byte that is not 0 is true; what is put is 0 or 1. */
INLINE v_b get_b(const void *p, int64_t i) { return bool_b(get_i8(p, i) != 0); }
INLINE v_b get_part_b(const void *p, int64_t i, int64_t n) { return bool_b(get_part_i8(p, i, n) != 0); }
INLINE void put_b(void *p, int64_t i, v_b v) { put_i8(p, i, v); }
INLINE void put_part_b(void *p, int64_t i, int64_t n, v_b v) { put_part_i8(p, i, n, v); }

#endif
