/* reduce.h: the canonical reductions [B2.1]: a chunk of up to 1,024 elements goes to 64 lanes, lane = i
 * mod 64, each folded in ascending order from the identity; the lanes are joined by a tree of adjacent pairs (1, 2, 4,
 * 8, 16, 32 apart). Missing elements are skipped: +0, 1 and the extremes are neutral because lanes start from them, an
 * fma chain is masked (+0 is not neutral after -0).
 *
 * max, min, any, all and ints give the same in any order; they use the shape all the same. */
#ifndef SINTER_KERNELS_CPU_REDUCE_H
#define SINTER_KERNELS_CPU_REDUCE_H
#include "ir/order.h"
#include "kernels/cpu/prims.h"

enum { RED_LANES = LANES_L, RED_VECTORS = RED_LANES / LANES };

#define ADD(a, b)      ((a) + (b))
#define MULTIPLY(a, b) ((a) * (b))

/* 64 lanes to one: even and odd elements meet, six times. */
#define HALVE(T, n, to, from, OP)                                                                                      \
    typedef e_##T to##_ __attribute__((ext_vector_type(n)));                                                           \
    const to##_ to = OP(from.even, from.odd);
#define PAIR_TREE(name, T, OP)                                                                                         \
    INLINE e_##T tree_##name##_##T(const v_##T *lanes) {                                                               \
        typedef e_##T All __attribute__((ext_vector_type(RED_LANES)));                                                 \
        All all;                                                                                                       \
        memcpy(&all, lanes, sizeof all);                                                                               \
        HALVE(T, RED_LANES / 2, a, all, OP)                                                                            \
        HALVE(T, RED_LANES / 4, b, a, OP)                                                                              \
        HALVE(T, RED_LANES / 8, c, b, OP)                                                                              \
        HALVE(T, RED_LANES / 16, d, c, OP)                                                                             \
        HALVE(T, RED_LANES / 32, e, d, OP)                                                                             \
        return OP(e.x, e.y);                                                                                           \
    }
#define PAIR_TREES(T) PAIR_TREE(sum, T, ADD) PAIR_TREE(prod, T, MULTIPLY)
PAIR_TREES(f32)
PAIR_TREES(f64)
PAIR_TREES(i32)
PAIR_TREES(i64)
#define tree_dot_f32 tree_sum_f32
#define tree_dot_f64 tree_sum_f64
#define tree_dot_i32 tree_sum_i32
#define tree_dot_i64 tree_sum_i64

/* Extremes of floats within a vector are taken on ints of the same order: -0 below +0, NaN at the winning end. */
#define ORDERED(T, I, high)                                                                                            \
    INLINE v_##I ordered_##T(v_##T a) { return (v_##I)a ^ (((v_##I)a < 0) & (high)); }                                 \
    INLINE e_##T max_lanes_##T(v_##T a) {                                                                              \
        const e_##I key = __builtin_reduce_max(a != a ? (v_##I)(high) : ordered_##T(a));                               \
        const e_##I bits = key < 0 ? key ^ (high) : key;                                                               \
        return __builtin_bit_cast(e_##T, bits);                                                                        \
    }                                                                                                                  \
    INLINE e_##T min_lanes_##T(v_##T a) {                                                                              \
        const e_##I key = __builtin_reduce_min(a != a ? (v_##I)(~(high)) : ordered_##T(a));                            \
        const e_##I bits = key < 0 ? key ^ (high) : key;                                                               \
        return __builtin_bit_cast(e_##T, bits);                                                                        \
    }
ORDERED(f32, i32, INT32_MAX)
ORDERED(f64, i64, INT64_MAX)
INLINE e_i32 max_lanes_i32(v_i32 a) { return __builtin_reduce_max(a); }
INLINE e_i64 max_lanes_i64(v_i64 a) { return __builtin_reduce_max(a); }
INLINE e_i32 min_lanes_i32(v_i32 a) { return __builtin_reduce_min(a); }
INLINE e_i64 min_lanes_i64(v_i64 a) { return __builtin_reduce_min(a); }
INLINE e_b any_lanes_b(v_b a) { return __builtin_reduce_or(a); }
INLINE e_b all_lanes_b(v_b a) { return __builtin_reduce_and(a); }
INLINE v_b vec_any_b(v_b a, v_b b) { return a | b; }
INLINE v_b vec_all_b(v_b a, v_b b) { return a & b; }

#define FOLD_TREE(name, T)                                                                                             \
    INLINE e_##T tree_##name##_##T(const v_##T *lanes) {                                                               \
        v_##T joined = lanes[0];                                                                                       \
        for (int v = 1; v < RED_VECTORS; v++) joined = vec_##name##_##T(joined, lanes[v]);                             \
        return name##_lanes_##T(joined);                                                                               \
    }
#define FOLD_TREES(T) FOLD_TREE(max, T) FOLD_TREE(min, T)
FOLD_TREES(f32)
FOLD_TREES(f64)
FOLD_TREES(i32)
FOLD_TREES(i64)
FOLD_TREE(any, b)
FOLD_TREE(all, b)

/* One step of a lane: acc op x. */
#define STEPS(T)                                                                                                       \
    INLINE v_##T step_sum_##T(v_##T acc, v_##T x) { return acc + x; }                                                  \
    INLINE v_##T step_prod_##T(v_##T acc, v_##T x) { return acc * x; }                                                 \
    INLINE v_##T step_max_##T(v_##T acc, v_##T x) { return vec_max_##T(acc, x); }                                      \
    INLINE v_##T step_min_##T(v_##T acc, v_##T x) { return vec_min_##T(acc, x); }
STEPS(f32)
STEPS(f64)
STEPS(i32)
STEPS(i64)
INLINE v_b step_any_b(v_b acc, v_b x) { return vec_any_b(acc, x); }
INLINE v_b step_all_b(v_b acc, v_b x) { return vec_all_b(acc, x); }
INLINE v_f32 step_dot_f32(v_f32 acc, v_f32 x, v_f32 y) { return vec_fma_f32(x, y, acc); }
INLINE v_f64 step_dot_f64(v_f64 acc, v_f64 x, v_f64 y) { return vec_fma_f64(x, y, acc); }
INLINE v_i32 step_dot_i32(v_i32 acc, v_i32 x, v_i32 y) { return x * y + acc; }
INLINE v_i64 step_dot_i64(v_i64 acc, v_i64 x, v_i64 y) { return x * y + acc; }

/* What lanes start from. */
#define START(name, T, value)                                                                                          \
    INLINE v_##T start_##name##_##T(void) { return (v_##T)(value); }
#define STARTS(T, low, high) START(sum, T, 0) START(dot, T, 0) START(prod, T, 1) START(max, T, low) START(min, T, high)
STARTS(f32, -__builtin_inff(), __builtin_inff())
STARTS(f64, -__builtin_inf(), __builtin_inf())
STARTS(i32, INT32_MIN, INT32_MAX)
STARTS(i64, INT64_MIN, INT64_MAX)
START(any, b, 0)
START(all, b, 1)

/* The lanes below n, as a bool vector. */
INLINE v_b first_lanes(int64_t n) {
    v_b index;
    for (int i = 0; i < LANES; i++) index[i] = (char)i;
    return bool_b(index < (v_b)(char)n);
}

#define REDUCE_UNARY(name, T)                                                                                          \
    static void reduce_##name##_##T(void *out, const void *a, const void *b, int64_t n) {                              \
        v_##T acc[RED_VECTORS];                                                                                        \
        for (int v = 0; v < RED_VECTORS; v++) acc[v] = start_##name##_##T();                                           \
        int64_t i = 0;                                                                                                 \
        for (; i + RED_LANES <= n; i += RED_LANES)                                                                     \
            for (int v = 0; v < RED_VECTORS; v++) acc[v] = step_##name##_##T(acc[v], get_##T(a, i + v * LANES));       \
        for (int v = 0; i < n; v++, i += LANES) {                                                                      \
            const bool whole = n - i >= LANES;                                                                         \
            const v_b present = first_lanes(whole ? LANES : n - i);                                                    \
            const v_##T x = whole ? get_##T(a, i) : get_part_##T(a, i, n - i);                                         \
            acc[v] = vec_select_##T(present, step_##name##_##T(acc[v], x), acc[v]);                                    \
        }                                                                                                              \
        *(e_##T *)out = tree_##name##_##T(acc);                                                                        \
    }
#define REDUCE_BINARY(name, T)                                                                                         \
    static void reduce_##name##_##T(void *out, const void *a, const void *b, int64_t n) {                              \
        v_##T acc[RED_VECTORS];                                                                                        \
        for (int v = 0; v < RED_VECTORS; v++) acc[v] = start_##name##_##T();                                           \
        int64_t i = 0;                                                                                                 \
        for (; i + RED_LANES <= n; i += RED_LANES)                                                                     \
            for (int v = 0; v < RED_VECTORS; v++)                                                                      \
                acc[v] = step_##name##_##T(acc[v], get_##T(a, i + v * LANES), get_##T(b, i + v * LANES));              \
        for (int v = 0; i < n; v++, i += LANES) {                                                                      \
            const bool whole = n - i >= LANES;                                                                         \
            const v_b present = first_lanes(whole ? LANES : n - i);                                                    \
            const v_##T x = whole ? get_##T(a, i) : get_part_##T(a, i, n - i);                                         \
            const v_##T y = whole ? get_##T(b, i) : get_part_##T(b, i, n - i);                                         \
            acc[v] = vec_select_##T(present, step_##name##_##T(acc[v], x, y), acc[v]);                                 \
        }                                                                                                              \
        *(e_##T *)out = tree_##name##_##T(acc);                                                                        \
    }

/* Order S: rows are accumulated elementwise, acc = acc op a (dot: fma(a, b, acc)). */
#define ACCUMULATE_UNARY(name, T)                                                                                      \
    static void accumulate_##name##_##T(void *acc, const void *old, const void *a, const void *b, int64_t n) {         \
        int64_t i = 0;                                                                                                 \
        for (; i + LANES <= n; i += LANES) put_##T(acc, i, step_##name##_##T(get_##T(old, i), get_##T(a, i)));         \
        if (i < n)                                                                                                     \
            put_part_##T(acc, i, n - i, step_##name##_##T(get_part_##T(old, i, n - i), get_part_##T(a, i, n - i)));    \
    }
#define ACCUMULATE_BINARY(name, T)                                                                                     \
    static void accumulate_##name##_##T(void *acc, const void *old, const void *a, const void *b, int64_t n) {         \
        int64_t i = 0;                                                                                                 \
        for (; i + LANES <= n; i += LANES)                                                                             \
            put_##T(acc, i, step_##name##_##T(get_##T(old, i), get_##T(a, i), get_##T(b, i)));                         \
        if (i < n)                                                                                                     \
            put_part_##T(                                                                                              \
                acc, i, n - i,                                                                                         \
                step_##name##_##T(get_part_##T(old, i, n - i), get_part_##T(a, i, n - i), get_part_##T(b, i, n - i))); \
    }

#endif
