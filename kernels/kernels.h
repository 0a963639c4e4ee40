/* kernels.h: what is written by hand for the CPU: block kernels of every scalar primitive, conversions, the canonical
 * reductions, GEMM; and the bitcode of the primitives for the JIT. One table per instruction set, chosen at start-up
 * (SINTER_ISA=v2|v3|v4 selects a lower one); all give the same bits [semantics B4].
 *
 * kernels/cpu is compiled by clang-19 only: natively for x86-64-v2, v3 (AVX2, FMA) and v4 (-mprefer-vector-width=512),
 * and to bitcode, from the same headers, with -O2 -ffp-contract=off -fno-math-errno and no builtins of x86. */
#ifndef SINTER_KERNELS_KERNELS_H
#define SINTER_KERNELS_KERNELS_H
#include "ir/dtype.h"

typedef enum Isa { ISA_v2, ISA_v3, ISA_v4, ISA_COUNT } Isa;
const char *isa_name(Isa isa);
Isa isa_host(void);      /* the best the CPU has */
Isa isa_used(void);      /* host's, or SINTER_ISA's if lower */
void isa_force(int isa); /* tests: an Isa, or -1 to go back */

enum { BLOCK = 1024 }; /* elements of an interpreter block; its memory is 64-byte aligned and holds BLOCK elements */

/* out[i] = prim(a[i], b[i], c[i]), i < n <= BLOCK, elements of the compute type (bools: bytes 0/1). out may be one of
 * the operands. May not read or write past n elements. */
typedef void BlockFn(void *out, const void *a, const void *b, const void *c, int64_t n);
/* out[i] = the compute-type value of src[i * stride]; stride in elements, any sign, 0 splats. */
typedef void LoadFn(void *out, const void *src, int64_t stride, int64_t n);
/* dst[i * stride] = value[i] rounded to the dtype. */
typedef void StoreFn(void *dst, int64_t stride, const void *value, int64_t n);
/* One chunk of order L: n <= CHUNK_L elements to one value in *out (its type as in loop.h). */
typedef void ReduceFn(void *out, const void *a, const void *b, int64_t n);

typedef struct KernelTable {
    Isa isa;
    BlockFn *(*prim)(int prim, SType type); /* Prim of loop.h; NULL where the type does not exist */
    BlockFn *(*cast)(SType from, SType to);
    LoadFn *(*load)(DType dtype);
    StoreFn *(*store)(DType dtype);
    /* RedKind of loop.h except argmax/argmin; max, min, any, all, sum, dot, prod over one chunk of L */
    ReduceFn *(*reduce_L)(int red, SType type);
    /* S accumulates rows elementwise: acc[i] = acc[i] op a[i] (dot: fma(a[i], b[i], acc[i])), in place */
    BlockFn *(*accumulate)(int red, SType type); /* (acc, acc, a, b, n) */
} KernelTable;
const KernelTable *kernel_table(void); /* of isa_used() */

/* GEMM: C[i,j] = chain over ascending k of A[i,k] B[k,j], chunks of 4,096 [semantics B2]. dtypes f32 and f64 natively;
 * f16/bf16 operands are converted while packing and computed in f32 (the caller rounds at the store); ints in i64/i32.
 * `tile`, if given, is called once per finished tile with the accumulators in L1; else C is stored (compute type ->
 * dtype). Strides in elements, any order (NN, NT, TN, TT). Deterministic for any split of rows and columns. */
typedef struct GemmTile {
    const void *at;                     /* accumulators of the compute type */
    int64_t ld;                         /* elements per tile row */
    int64_t row, column, rows, columns; /* where in C */
    int64_t batch;
} GemmTile;
typedef void GemmTileFn(void *context, const GemmTile *tile);
typedef struct GemmCall {
    DType dtype;
    int64_t m, n, k, batch;
    const void *a, *b;
    void *c;
    int64_t a_row, a_col, b_row, b_col, c_row, c_col; /* strides */
    int64_t a_batch, b_batch, c_batch;
    GemmTileFn *tile;
    void *context;
    void *workspace;            /* gemm_workspace() bytes, 64-byte aligned; one per thread serves any part */
    const void *packed_b;       /* B already packed by gemm_pack_b for batch 1, or NULL */
    int64_t part_rows;          /* the most rows of a part: all parts follow the plan made for these */
    int64_t row_begin, row_end; /* rows of every batch this call computes, at most part_rows */
} GemmCall;
size_t gemm_workspace(const GemmCall *call);
void gemm(const GemmCall *call);
size_t gemm_packed_bytes(const GemmCall *call);
void gemm_pack_b(const GemmCall *call, void *packed);
/* c[i][j] = chain over p < k of a[i * a_ld + p] * b[offset[p] + j] from +0, i < m, j < n, for each of several runs of
 * columns: a product whose B lies as offsets say. f32 and f64, k <= 4,096; strides in elements. Columns up to the next
 * multiple of 64 bytes are read and written too. continues: the chain goes on from what c holds. */
typedef struct OffsetRun {
    const void *b;
    void *c;
    int64_t ld, n; /* elements from one row of c to the next; columns */
} OffsetRun;
typedef struct OffsetProduct {
    const void *a;
    int64_t a_ld, m, k;
    const int64_t *offset;
    const OffsetRun *run;
    int64_t runs;
    bool continues;
} OffsetProduct;
void gemm_offsets(SType type, const OffsetProduct *product);
/* to[c * to_ld + r] = from[r * from_ld + c], elements of 4 or 8 bytes; not in the same memory. */
void kernel_transpose(int bytes, const void *from, int64_t from_ld, void *to, int64_t to_ld, int64_t rows,
                      int64_t columns);

/* Sums over the taps of a kernel, where a product of matrices would have one row: chains of fma over ascending taps
 * from +0 [B2.4]. Types f32 and f64; strides in elements; a list of pointers has one for each tap. bias has no -0. */
typedef struct TapRows { /* to[r][i] = chain over t of weight[t] * source[t][r][i], + *bias; i < n, n >= taps_lanes() */
    void *to;
    int64_t to_ld, source_ld;
    const void *const *source;
    const void *weight, *bias;
    int64_t taps, rows, n;
} TapRows;
typedef struct TapPixels { /* to[j][c] = chain over t of weight[t][c] * source[t][j][c], + bias[c]; c < n */
    void *to;
    int64_t to_step, source_step;
    const void *const *source, *const *weight;
    const void *bias;
    int64_t taps, pixels, n;
} TapPixels;
typedef struct TapWeights { /* to[t][c] = fma(left[j][c], source[t][j][c], to[t][c]) by ascending j < pixels; c < n */
    void *const *to;
    const void *const *source;
    const void *left;
    int64_t source_step, left_step;
    int64_t taps, pixels, n;
} TapWeights;
void taps_rows(SType type, const TapRows *call);
void taps_pixels(SType type, const TapPixels *call);
void taps_weights(SType type, const TapWeights *call);
/* to[i] = from[i * step], i < n */
void taps_take_steps(SType type, void *to, const void *from, int64_t step, int64_t n);
int taps_lanes(void); /* elements of a vector of the level in use */

/* Rows of attention [B2.14], f32 and f64. A row has n scores, side by side; what is behind them is left alone. */
typedef struct AttentionRow {
    void *scores;        /* in: products of query and keys; out: p = exp(s - max) / sum, 0 where max is -inf */
    const void *added;   /* n numbers added to the scaled products, or NULL */
    const uint8_t *kept; /* n bools: where false, the score is -inf; or NULL */
    void *max, *sum;     /* one each, of the row: results, or where `given` what they were */
    void *chunks;        /* room for n / 1,024 + 1 elements */
    double scale;        /* rounded to the type */
    int64_t n;
    bool given;
} AttentionRow;
typedef struct AttentionSlope { /* gradient = (gradient - whole) p scale; whole = the sum of p gradient in L */
    void *gradient;             /* in: of p; out: of the products */
    const void *p;
    void *chunks;
    double scale;
    int64_t n;
} AttentionSlope;
void attention_softmax(SType type, const AttentionRow *row);
void attention_slope(SType type, const AttentionSlope *row);
/* to[i] += from[i], or where from is NULL += 0: -0 becomes +0 */
void attention_add(SType type, void *to, const void *from, int64_t n);
bool attention_finite(SType type, const void *from, int64_t n);

/* Vectors of the primitives and of the JIT; the bitcode itself is in kernels/bitcode.h. */
/* f32 lanes of a JIT vector: 4, 8, 16; every type uses this many elements */
int isa_lanes(Isa isa);

/* Probes for the benchmark, printed beside its table. */
double probe_fma_gflops(void);    /* one thread, registers only; the best of several runs */
double probe_fma_once(void);      /* the same from one run of about a millisecond: beside what it is compared with */
double probe_bandwidth_gbs(void); /* one thread, a[i] = b[i] + c[i] over 96 MiB */
typedef enum ProbePass { PROBE_read, PROBE_copy, PROBE_add } ProbePass;
/* One pass over n floats in all, aligned to 64 bytes: a sum of them, one half copied from the other, a third from two
 * others. past: its stores go past the caches. The bytes that it read and wrote. */
int64_t probe_pass(ProbePass pass, bool past, float *memory, int64_t n);

#endif
