/* block.c: the block kernels of one instruction set: every primitive and cast as a loop over up to BLOCK elements,
 * loads and stores of every dtype, the canonical reductions, and the table that names them. Compiled once per level
 * with KERNEL_LEVEL = v2, v3, v4 by clang; exports kernel_table_<level> alone. Tails go through partial vectors, so
 * nothing is read or written past n. */
#include "kernels/cpu/names.h"
#include "kernels/cpu/reduce.h"
#include "kernels/kernels.h"

#define PASTE_(a, b) a##b
#define PASTE(a, b)  PASTE_(a, b)

/* Loops over whole vectors, then a part. R is the type of the result, X, Y, Z those of the operands. */
#define LOOP1(NAME, FN, R, X)                                                                                          \
    static void NAME(void *out, const void *a, const void *b, const void *c, int64_t n) {                              \
        int64_t i = 0;                                                                                                 \
        for (; i + LANES <= n; i += LANES) put_##R(out, i, FN(get_##X(a, i)));                                         \
        if (i < n) put_part_##R(out, i, n - i, FN(get_part_##X(a, i, n - i)));                                         \
    }
#define LOOP2(NAME, FN, R, X, Y)                                                                                       \
    static void NAME(void *out, const void *a, const void *b, const void *c, int64_t n) {                              \
        int64_t i = 0;                                                                                                 \
        for (; i + LANES <= n; i += LANES) put_##R(out, i, FN(get_##X(a, i), get_##Y(b, i)));                          \
        if (i < n) put_part_##R(out, i, n - i, FN(get_part_##X(a, i, n - i), get_part_##Y(b, i, n - i)));              \
    }
#define LOOP3(NAME, FN, R, X, Y, Z)                                                                                    \
    static void NAME(void *out, const void *a, const void *b, const void *c, int64_t n) {                              \
        int64_t i = 0;                                                                                                 \
        for (; i + LANES <= n; i += LANES) put_##R(out, i, FN(get_##X(a, i), get_##Y(b, i), get_##Z(c, i)));           \
        if (i < n)                                                                                                     \
            put_part_##R(out, i, n - i,                                                                                \
                         FN(get_part_##X(a, i, n - i), get_part_##Y(b, i, n - i), get_part_##Z(c, i, n - i)));         \
    }

/* Three operands of one type, but select's first. */
#define FIRST_select(T)                         b
#define FIRST_fma(T)                            T
#define FIRST_philox(T)                         T
#define LOOP3_(NAME, FN, R, X, Y, Z)            LOOP3(NAME, FN, R, X, Y, Z)
#define TRIPLE(NAME, FN, T, FIRST)              LOOP3_(NAME, FN, T, FIRST, T, T)
#define LOOP2_(NAME, FN, R, X, Y)               LOOP2(NAME, FN, R, X, Y)
#define PRIM_1(T, name, R)                      LOOP1(prim_##name##_##T, vec_##name##_##T, T, T)
#define PRIM_2(T, name, R)                      LOOP2_(prim_##name##_##T, vec_##name##_##T, RESULT_##R(T), T, T)
#define PRIM_3(T, name, R)                      TRIPLE(prim_##name##_##T, vec_##name##_##T, T, FIRST_##name(T))
#define PRIM_LOOP(T, name, arity, R)            IF_PRESENT(name, T)(PRIM_##arity(T, name, R))
#define SCALAR(name, arity, types, result, ...) EACH_##types(PRIM_LOOP, name, arity, result)
#include "ir/scalar.def"
#undef SCALAR

#define PRIM_ENTRY(T, name) IF_PRESENT(name, T)([S_##T] = prim_##name##_##T, )
static BlockFn *const prims[KP_COUNT][S_COUNT] = {
#define SCALAR(name, arity, types, result, ...) [KP_##name] = {EACH_##types(PRIM_ENTRY, name)},
#include "ir/scalar.def"
#undef SCALAR
};

#define CAST_LOOP(from, to)  LOOP1(block_cast_##from##_##to, cast_##from##_##to, to, from)
#define CAST_ENTRY(from, to) [S_##from][S_##to] = block_cast_##from##_##to,
EACH_CAST(CAST_LOOP)
static BlockFn *const casts[S_COUNT][S_COUNT] = {EACH_CAST(CAST_ENTRY)};

/* Memory of each dtype: the element read (raw), and its conversion to and from the compute type. */
#define MEMORY_TYPES(M)                                                                                                \
    M(f64, f64, f64, SAME, SAME)                                                                                       \
    M(f32, f32, f32, SAME, SAME)                                                                                       \
    M(f16, u16, f32, f32_of_f16, f16_of_f32)                                                                           \
    M(bf16, u16, f32, f32_of_bf16, bf16_of_f32)                                                                        \
    M(i64, i64, i64, SAME, SAME)                                                                                       \
    M(i32, i32, i32, SAME, SAME)                                                                                       \
    M(i16, i16, i32, WIDEN, NARROW_i16)                                                                                \
    M(i8, i8, i32, WIDEN, NARROW_i8) M(u8, u8, i32, WIDEN, NARROW_u8) M(bool, b, b, TRUTH, SAME)
#define SAME(v)       (v)
#define WIDEN(v)      CONVERT(v, v_i32)
#define NARROW_i16(v) CONVERT(v, v_i16)
#define NARROW_i8(v)  CONVERT(v, v_i8)
#define NARROW_u8(v)  CONVERT(v, v_u8)
#define TRUTH(v)      bool_b((v) != 0)

#define LOAD_LOOP(dtype, raw, T, IN, OUT)                                                                              \
    static void load_##dtype(void *out, const void *src, int64_t stride, int64_t n) {                                  \
        const e_##raw *from = src;                                                                                     \
        int64_t i = 0;                                                                                                 \
        for (; stride == 1 && i + LANES <= n; i += LANES) put_##T(out, i, IN(get_##raw(from, i)));                     \
        for (; i < n; i += LANES) {                                                                                    \
            const int64_t part = n - i < LANES ? n - i : LANES;                                                        \
            v_##raw v = (v_##raw)0;                                                                                    \
            if (stride == 0)                                                                                           \
                v = (v_##raw) * from;                                                                                  \
            else                                                                                                       \
                for (int64_t k = 0; k < part; k++) v[k] = from[(i + k) * stride];                                      \
            put_part_##T(out, i, part, IN(v));                                                                         \
        }                                                                                                              \
    }
#define STORE_LOOP(dtype, raw, T, IN, OUT)                                                                             \
    static void store_##dtype(void *dst, int64_t stride, const void *value, int64_t n) {                               \
        e_##raw *to = dst;                                                                                             \
        int64_t i = 0;                                                                                                 \
        for (; stride == 1 && i + LANES <= n; i += LANES) put_##raw(to, i, OUT(get_##T(value, i)));                    \
        for (; i < n; i += LANES) {                                                                                    \
            const int64_t part = n - i < LANES ? n - i : LANES;                                                        \
            const v_##raw v = OUT(get_part_##T(value, i, part));                                                       \
            for (int64_t k = 0; k < part; k++) to[(i + k) * stride] = v[k];                                            \
        }                                                                                                              \
    }
MEMORY_TYPES(LOAD_LOOP)
MEMORY_TYPES(STORE_LOOP)
#define LOAD_ENTRY(dtype, raw, T, IN, OUT)  [DT_##dtype] = load_##dtype,
#define STORE_ENTRY(dtype, raw, T, IN, OUT) [DT_##dtype] = store_##dtype,
static LoadFn *const loads[DT_COUNT] = {MEMORY_TYPES(LOAD_ENTRY)};
static StoreFn *const stores[DT_COUNT] = {MEMORY_TYPES(STORE_ENTRY)};

EACH_REDUCTION(REDUCE_UNARY, REDUCE_BINARY)
EACH_REDUCTION(ACCUMULATE_UNARY, ACCUMULATE_BINARY)
#define REDUCE_ENTRY(name, T)     [KR_##name][S_##T] = reduce_##name##_##T,
#define ACCUMULATE_ENTRY(name, T) [KR_##name][S_##T] = accumulate_##name##_##T,
static ReduceFn *const reduces[KR_COUNT][S_COUNT] = {EACH_REDUCTION(REDUCE_ENTRY, REDUCE_ENTRY)};
static BlockFn *const accumulates[KR_COUNT][S_COUNT] = {EACH_REDUCTION(ACCUMULATE_ENTRY, ACCUMULATE_ENTRY)};

static BlockFn *find_prim(int prim, SType type) { return prims[prim][type]; }
static BlockFn *find_cast(SType from, SType to) { return casts[from][to]; }
static LoadFn *find_load(DType dtype) { return loads[dtype]; }
static StoreFn *find_store(DType dtype) { return stores[dtype]; }
static ReduceFn *find_reduce(int red, SType type) { return red < KR_COUNT ? reduces[red][type] : NULL; }
static BlockFn *find_accumulate(int red, SType type) { return red < KR_COUNT ? accumulates[red][type] : NULL; }

extern const KernelTable PASTE(kernel_table_, KERNEL_LEVEL);
const KernelTable PASTE(kernel_table_, KERNEL_LEVEL) = {
    .isa = PASTE(ISA_, KERNEL_LEVEL),
    .prim = find_prim,
    .cast = find_cast,
    .load = find_load,
    .store = find_store,
    .reduce_L = find_reduce,
    .accumulate = find_accumulate,
};
