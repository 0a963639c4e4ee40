/* gemm.c: GEMM of one instruction set: the same driver (gemm_type.h) for the four compute types, compiled once per
 * level. Exports gemm_level_<level>. */
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/prims.h"

#define PASTE_(a, b) a##b
#define PASTE(a, b)  PASTE_(a, b)

extern const KernelTable PASTE(kernel_table_, KERNEL_LEVEL);

static const int element_bytes[DT_COUNT] = {
#define DTYPE(name, bytes, category, compute) [DT_##name] = bytes,
#include "ir/dtype.def"
#undef DTYPE
};
static const uint8_t compute_type[DT_COUNT] = {
#define DTYPE(name, bytes, category, compute) [DT_##name] = S_##compute,
#include "ir/dtype.def"
#undef DTYPE
};

/* One register of each type, and acc + a * b as the order wants it. */
enum { REGISTER_BYTES = 4 * LANES, TILE_VECTORS = LANES == 16 ? 4 : 2 };
typedef e_f32 r_f32 __attribute__((ext_vector_type(REGISTER_BYTES / 4)));
typedef e_f64 r_f64 __attribute__((ext_vector_type(REGISTER_BYTES / 8)));
typedef e_i32 r_i32 __attribute__((ext_vector_type(REGISTER_BYTES / 4)));
typedef e_i64 r_i64 __attribute__((ext_vector_type(REGISTER_BYTES / 8)));
#if HAVE_FMA
INLINE r_f32 mac_f32(r_f32 a, r_f32 b, r_f32 acc) { return __builtin_elementwise_fma(a, b, acc); }
INLINE r_f64 mac_f64(r_f64 a, r_f64 b, r_f64 acc) { return __builtin_elementwise_fma(a, b, acc); }
INLINE float mac_one_f32(float a, float b, float acc) { return __builtin_fmaf(a, b, acc); }
INLINE double mac_one_f64(double a, double b, double acc) { return __builtin_fma(a, b, acc); }
#else
INLINE r_f32 mac_f32(r_f32 a, r_f32 b, r_f32 acc) { return vec_fma_f32(a, b, acc); }
OUTLINE double mac_one_f64(double a, double b, double acc) { return soft_fma_one(a, b, acc); }
INLINE r_f64 mac_f64(r_f64 a, r_f64 b, r_f64 acc) {
    return (r_f64){mac_one_f64(a[0], b[0], acc[0]), mac_one_f64(a[1], b[1], acc[1])};
}
INLINE float mac_one_f32(float a, float b, float acc) { return vec_fma_f32((v_f32)a, (v_f32)b, (v_f32)acc)[0]; }
#endif
INLINE r_i32 mac_i32(r_i32 a, r_i32 b, r_i32 acc) { return a * b + acc; }
INLINE r_i64 mac_i64(r_i64 a, r_i64 b, r_i64 acc) { return a * b + acc; }
INLINE int32_t mac_one_i32(int32_t a, int32_t b, int32_t acc) { return a * b + acc; }
INLINE int64_t mac_one_i64(int64_t a, int64_t b, int64_t acc) { return a * b + acc; }

/* Index lists of transposing stages: pairs of rows swap their blocks of s columns. */
#define LOW_OF(j, s, n)      ((j) & (s) ? (n) + (j) - (s) : (j))
#define HIGH_OF(j, s, n)     ((j) & (s) ? (n) + (j) : (j) + (s))
#define INDEX_2(F, s, n, j)  F(j, s, n), F((j) + 1, s, n)
#define INDEX_4(F, s, n, j)  INDEX_2(F, s, n, j), INDEX_2(F, s, n, (j) + 2)
#define INDEX_8(F, s, n, j)  INDEX_4(F, s, n, j), INDEX_4(F, s, n, (j) + 4)
#define INDEX_16(F, s, n, j) INDEX_8(F, s, n, j), INDEX_8(F, s, n, (j) + 8)
#define SWAP_STAGE(r, n, s)                                                                                            \
    UNROLL for (int i = 0; i < n; i++) if (!(i & s)) {                                                                 \
        const __typeof__(r[0]) x = r[i], y = r[i + s];                                                                 \
        r[i] = __builtin_shufflevector(x, y, PASTE(INDEX_, n)(LOW_OF, s, n, 0));                                       \
        r[i + s] = __builtin_shufflevector(x, y, PASTE(INDEX_, n)(HIGH_OF, s, n, 0));                                  \
    }
#define TRANSPOSE_2(r, n)  SWAP_STAGE(r, n, 1)
#define TRANSPOSE_4(r, n)  TRANSPOSE_2(r, n) SWAP_STAGE(r, n, 2)
#define TRANSPOSE_8(r, n)  TRANSPOSE_4(r, n) SWAP_STAGE(r, n, 4)
#define TRANSPOSE_16(r, n) TRANSPOSE_8(r, n) SWAP_STAGE(r, n, 8)

/* Literals, because they are pasted. */
#if defined(__AVX512F__)
#define WIDTH_4 16
#define WIDTH_8 8
#elif defined(__AVX2__)
#define WIDTH_4 8
#define WIDTH_8 4
#else
#define WIDTH_4 4
#define WIDTH_8 2
#endif

#define T     f32
#define WIDTH WIDTH_4
#include "kernels/cpu/gemm_type.h"
#include "kernels/cpu/gemm_offsets.h"
#undef T
#define T i32
#include "kernels/cpu/gemm_type.h"
#undef T
#undef WIDTH
#define T     f64
#define WIDTH WIDTH_8
#include "kernels/cpu/gemm_type.h"
#include "kernels/cpu/gemm_offsets.h"
#undef T
#define T i64
#include "kernels/cpu/gemm_type.h"
#undef T
#undef WIDTH

static void run_gemm(const GemmCall *call, const GemmBlocking *plan) {
    void (*const runs[S_COUNT])(const GemmCall *, const GemmBlocking *) = {
        [S_f32] = run_f32, [S_f64] = run_f64, [S_i32] = run_i32, [S_i64] = run_i64};
    runs[compute_type[call->dtype]](call, plan);
}

static void pack_b(const GemmCall *call, const GemmBlocking *plan, void *packed) {
    void (*const packs[S_COUNT])(const GemmCall *, const GemmBlocking *, void *) = {
        [S_f32] = pack_all_f32, [S_f64] = pack_all_f64, [S_i32] = pack_all_i32, [S_i64] = pack_all_i64};
    packs[compute_type[call->dtype]](call, plan, packed);
}

static void transpose(int bytes, const void *from, int64_t from_ld, void *to, int64_t to_ld, int64_t rows,
                      int64_t columns) {
    if (bytes == 4)
        transpose_i32(from, from_ld, to, to_ld, rows, columns);
    else
        transpose_i64(from, from_ld, to, to_ld, rows, columns);
}

extern const GemmLevel PASTE(gemm_level_, KERNEL_LEVEL);
const GemmLevel PASTE(gemm_level_,
                      KERNEL_LEVEL) = {run_gemm, pack_b, {offset_product_f32, offset_product_f64}, transpose};
