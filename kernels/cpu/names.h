/* names.h: numbers and types of the scalar primitives and reductions as kernels see them. The enums repeat those of
 * ir/loop.h, which kernels may not include (the tests assert that they agree).
 *
 * EACH_F(M, ...) etc. apply M(type, ...) for the operand types of a row's `types` word. A few rows exist for one type
 * only, as their doc says; ABSENT_name_type marks the other. IF_PRESENT(name, type)(tokens) drops what is absent. */
#ifndef SINTER_KERNELS_CPU_NAMES_H
#define SINTER_KERNELS_CPU_NAMES_H

enum {
#define SCALAR(name, arity, types, result, ...) KP_##name,
#include "ir/scalar.def"
#undef SCALAR
    KP_COUNT
};
enum { KR_sum, KR_dot, KR_prod, KR_max, KR_min, KR_any, KR_all, KR_COUNT };

#define EACH_F(M, ...)   M(f32, __VA_ARGS__) M(f64, __VA_ARGS__)
#define EACH_I(M, ...)   M(i32, __VA_ARGS__) M(i64, __VA_ARGS__)
#define EACH_FI(M, ...)  EACH_F(M, __VA_ARGS__) EACH_I(M, __VA_ARGS__)
#define EACH_IB(M, ...)  EACH_I(M, __VA_ARGS__) M(b, __VA_ARGS__)
#define EACH_FIB(M, ...) EACH_FI(M, __VA_ARGS__) M(b, __VA_ARGS__)

#define ABSENT_philox_i32     ~, DROP
#define ABSENT_round_f16_f64  ~, DROP
#define ABSENT_round_bf16_f64 ~, DROP
#define ABSENT_wrap_i16_i64   ~, DROP
#define ABSENT_wrap_i8_i64    ~, DROP
#define ABSENT_wrap_u8_i64    ~, DROP

#define KEEP(...) __VA_ARGS__
#define DROP(...)
#define SECOND(a, b, ...)   b
#define PICK(...)           SECOND(__VA_ARGS__, KEEP, )
#define IF_PRESENT(name, T) PICK(ABSENT_##name##_##T)

/* The result's type: T is the operand's, B is bool. */
#define RESULT_T(T) T
#define RESULT_B(T) b

/* M(from, to) for every cast. */
#define CASTS_FROM(M, from, t1, t2, t3, t4) M(from, t1) M(from, t2) M(from, t3) M(from, t4)
#define EACH_CAST(M)                                                                                                   \
    CASTS_FROM(M, f32, f64, i32, i64, b)                                                                               \
    CASTS_FROM(M, f64, f32, i32, i64, b)                                                                               \
    CASTS_FROM(M, i32, f32, f64, i64, b)                                                                               \
    CASTS_FROM(M, i64, f32, f64, i32, b) CASTS_FROM(M, b, f32, f64, i32, i64)

/* M1(name, type) for reductions of one operand, M2 for those of two. */
#define EACH_REDUCTION_OF(T, M1, M2) M1(sum, T) M1(prod, T) M1(max, T) M1(min, T) M2(dot, T)
#define EACH_REDUCTION(M1, M2)                                                                                         \
    EACH_REDUCTION_OF(f32, M1, M2)                                                                                     \
    EACH_REDUCTION_OF(f64, M1, M2)                                                                                     \
    EACH_REDUCTION_OF(i32, M1, M2) EACH_REDUCTION_OF(i64, M1, M2) M1(any, b) M1(all, b)

#endif
