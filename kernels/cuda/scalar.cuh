/* scalar.cuh: what the primitives' text (kernels/cpu/convert.h, math_*.h, prims.h) stands on in a CUDA program: the names
 * of vec.h and fma.h, where a vector is one scalar and a mask an int, 0 or 1. No header of NVIDIA's is included: every
 * word is one that its compiler knows by itself. */
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
typedef unsigned __int128 u128;
#define INT32_MIN       (-2147483647 - 1)
#define INT32_MAX       2147483647
#define INT64_MAX       9223372036854775807LL
#define INT64_MIN       (-INT64_MAX - 1)
#define COUNT_OF(array) ((int)(sizeof(array) / sizeof((array)[0])))

#define LANES    1
#define HAVE_FMA 1
#define INLINE   static __device__ __forceinline__
#define OUTLINE  static __device__ __noinline__
#define UNROLL   _Pragma("unroll")

typedef float e_f32, v_f32;
typedef double e_f64, v_f64;
typedef int32_t e_i32, v_i32;
typedef int64_t e_i64, v_i64;
typedef signed char e_b, v_b;
typedef uint32_t v_u32;
typedef uint64_t v_u64;
typedef uint16_t v_u16;
typedef int m_f32, m_f64, m_i32, m_i64;
typedef signed char m_b;
#define CONVERT(v, type) ((type)(v))
#define AT(v, i)         (v)

INLINE v_i32 bits_f32(v_f32 a) { return __float_as_int(a); }
INLINE v_i64 bits_f64(v_f64 a) { return __double_as_longlong(a); }
INLINE v_f32 float_of(v_i32 bits) { return __int_as_float(bits); }
INLINE v_f64 double_of(v_i64 bits) { return __longlong_as_double(bits); }
#define of_bits_f32 float_of
#define of_bits_f64 double_of

#define BOOLS(T)                                                                                                       \
    INLINE v_b bool_##T(int mask) { return mask != 0; }                                                                \
    INLINE int mask_##T(v_b a) { return a != 0; }
BOOLS(f32)
BOOLS(f64)
BOOLS(i32)
BOOLS(i64)
BOOLS(b)
INLINE bool any_i32(v_i32 a) { return a != 0; }
INLINE bool any_i64(v_i64 a) { return a != 0; }

/* clang's builtins */
#define ROUNDED(name, on_float, on_double)                                                                             \
    INLINE float name(float a) { return on_float(a); }                                                                 \
    INLINE double name(double a) { return on_double(a); }
ROUNDED(rounded_sqrt, __fsqrt_rn, __dsqrt_rn)
ROUNDED(rounded_floor, floorf, floor)
ROUNDED(rounded_ceil, ceilf, ceil)
ROUNDED(rounded_trunc, truncf, trunc)
ROUNDED(rounded_roundeven, rintf, rint)
#define __builtin_elementwise_sqrt      rounded_sqrt
#define __builtin_elementwise_floor     rounded_floor
#define __builtin_elementwise_ceil      rounded_ceil
#define __builtin_elementwise_trunc     rounded_trunc
#define __builtin_elementwise_roundeven rounded_roundeven
#define __builtin_clzll(a)              __clzll((int64_t)(a))
#define __builtin_fma                   __fma_rn
#define __builtin_inff()                __int_as_float(0x7f800000)
#define __builtin_inf()                 __longlong_as_double(0x7ff0000000000000LL)
#define __builtin_nanf(s)               __int_as_float(0x7fc00000)
#define __builtin_nan(s)                __longlong_as_double(0x7ff8000000000000LL)

INLINE v_f32 vec_fma_f32(v_f32 a, v_f32 b, v_f32 c) { return __fmaf_rn(a, b, c); }
INLINE v_f64 vec_fma_f64(v_f64 a, v_f64 b, v_f64 c) { return __fma_rn(a, b, c); }
