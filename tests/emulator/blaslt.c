/* blaslt.c: libemulated_blaslt: the functions of blaslt.def on the emulated device, whose kernel it launches as the
 * library does its own: stream-ordered, captured with the stream, each access to memory looked at. It is stricter than
 * the library, and gives a mistake away:
 *
 *   rounding    f32 is read as tf32
 *   order       each algorithm (id, tile) begins its sums at another k and keeps 10 bits of them after every 8 terms,
 *               so that a wrong pin has other bits in bf16, too; what the heuristics choose depends on all sizes, types
 *               and layouts, and on the reductions that are allowed
 *   alignment   addresses must lie as the heuristics were told (by 256 bytes, where they were not), rows by 16
 *   sizes       66 takes everything, 41 multiples of 8 columns, 40 an even number of them, 23 multiples of 2,048 (the
 *               columns are Sinter's rows)
 *   workspace   is written
 *
 * blaslt.h has how a call is made to fail. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda/blaslt.h"
#include "runtime/cuda/driver.h"
#include "tests/emulator/blaslt.h"

#define PUBLIC __attribute__((visibility("default")))

enum { STATUS_not_initialized = 1, STATUS_invalid_value = 7, STATUS_execution_failed = 13, MAGIC = 0x17a190 };
enum { WORKSPACE = 256, ALIGNED = 16, ALIGNED_WELL = 256 };

struct BlasltHandleOpaque {
    int unused;
};
struct BlasltDescOpaque {
    BlasltCompute compute;
    int32_t turned[2];
};
struct BlasltLayoutOpaque {
    BlasltType type;
    int64_t rows, columns, ld, batch;
    int32_t batches;
};
struct BlasltPreferenceOpaque {
    size_t workspace;
    uint32_t reductions, aligned[4];
};
/* BlasltAlgo's words */
enum { WORD_magic, WORD_id, WORD_tile, WORD_splits, WORD_aligned };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static EmulatedBlasltCounts counts;

/* failing --------------------------------------------------------------------------------------- */

typedef enum Function {
#define BLASLT(type, name, parameters) FN_##name,
#include "runtime/cuda/blaslt.def"
    FN_COUNT
} Function;

static struct { int status, after; } failing[FN_COUNT];

PUBLIC EmulatedBlasltFail emulated_blaslt_fail;
PUBLIC void emulated_blaslt_fail(const char *name, int status, int after) {
    static const char *const names[] = {
#define BLASLT(type, name, parameters) #name,
#include "runtime/cuda/blaslt.def"
    };
    for (int i = 0; i < FN_COUNT; i++)
        if (!strcmp(names[i], name)) failing[i].status = status, failing[i].after = after;
}

PUBLIC EmulatedBlasltCount emulated_blaslt_count;
PUBLIC void emulated_blaslt_count(EmulatedBlasltCounts *out) {
    pthread_mutex_lock(&lock);
    *out = counts;
    pthread_mutex_unlock(&lock);
}

static int planned(Function function) {
    if (!failing[function].status || failing[function].after--) return LT_success;
    const int status = failing[function].status;
    failing[function].status = LT_success;
    return status;
}

#define BEGIN(name)                                                                                                    \
    const int fails = planned(FN_##name);                                                                              \
    if (fails) return fails

#define BLASLT(type, name, parameters) PUBLIC type cublasLt##name parameters;
#include "runtime/cuda/blaslt.def"

/* the program ----------------------------------------------------------------------------------- */

static const char *const text =
    "typedef unsigned short Half;\n"
    "struct Product {\n"
    "    long long rows, columns, k, batches, lda, ldb, ldd, a_batch, b_batch, d_batch;\n"
    "    int ta, tb, kind, wide, start, workspace;\n"
    "};\n"
    "static __device__ float of_bits(unsigned u) { float f; __builtin_memcpy(&f, &u, 4); return f; }\n"
    "static __device__ unsigned bits_of(float f) { unsigned u; __builtin_memcpy(&u, &f, 4); return u; }\n"
    "static __device__ float of_half(Half h) {\n"
    "    const unsigned sign = (unsigned)(h & 0x8000) << 16, e = h >> 10 & 31, m = h & 0x3ff;\n"
    "    if (e == 31) return of_bits(sign | 0x7f800000 | m << 13);\n"
    "    if (e) return of_bits(sign | (e + 112) << 23 | m << 13);\n"
    "    return of_bits(sign | bits_of((float)m * 5.9604644775390625e-8f));\n"
    "}\n"
    "static __device__ Half to_half(float f) {\n"
    "    const unsigned u = bits_of(f), sign = u >> 16 & 0x8000, a = u & 0x7fffffff;\n"
    "    if (a > 0x7f800000) return (Half)(sign | 0x7e00);\n"
    "    if (a >= 0x477ff000) return (Half)(sign | 0x7c00);\n"
    "    if (a >= 0x38800000) return (Half)(sign | ((a - 0x38000000 + 0xfff + (a >> 13 & 1)) >> 13));\n"
    "    return (Half)(sign | (bits_of(of_bits(a) + 0.5f) - 0x3f000000));\n"
    "}\n"
    "static __device__ Half to_brain(float f) {\n"
    "    const unsigned u = bits_of(f);\n"
    "    return (Half)((u & 0x7fffffff) > 0x7f800000 ? u >> 16 | 0x40 : (u + 0x7fff + (u >> 16 & 1)) >> 16);\n"
    "}\n"
    "static __device__ float tensor_float(float f) {\n"
    "    const unsigned u = bits_of(f);\n"
    "    return of_bits((u & 0x7fffffff) > 0x7f800000 ? u : (u + 0xfff + (u >> 13 & 1)) & 0xffffe000);\n"
    "}\n"
    "enum { HALF, BRAIN, TENSOR };\n"
    "static __device__ float element(const void *all, long long at, int kind) {\n"
    "    if (kind == TENSOR) return tensor_float(((const float *)all)[at]);\n"
    "    const Half h = ((const Half *)all)[at];\n"
    "    return kind == BRAIN ? of_bits((unsigned)h << 16) : of_half(h);\n"
    "}\n"
    "extern \"C\" __global__ void library_product(const void *a, const void *b, void *d, unsigned *space, Product p) "
    "{\n"
    "    const long long t = (long long)blockIdx.x * blockDim.x + threadIdx.x, per = p.rows * p.columns;\n"
    "    if (t < p.workspace) space[t] = 0x55555555;\n"
    "    if (t >= per * p.batches) return;\n"
    "    const long long batch = t / per, i = t % per % p.rows, j = t % per / p.rows;\n"
    "    float sum = 0;\n"
    "    for (long long q = 0; q < p.k; q++) {\n"
    "        const long long at = (q + p.start) % p.k;\n"
    "        const long long x = p.ta ? at + i * p.lda : i + at * p.lda, y = p.tb ? j + at * p.ldb : at + j * p.ldb;\n"
    "        sum += element(a, batch * p.a_batch + x, p.kind) * element(b, batch * p.b_batch + y, p.kind);\n"
    "        if (q % 8 == 7) sum = of_bits(bits_of(sum) & 0xffffe000);\n"
    "    }\n"
    "    const long long to = batch * p.d_batch + i + j * p.ldd;\n"
    "    if (p.wide) ((float *)d)[to] = sum;\n"
    "    else ((Half *)d)[to] = p.kind == BRAIN ? to_brain(sum) : to_half(sum);\n"
    "}\n";

enum { HALF, BRAIN, TENSOR }; /* as the text has them */
typedef struct Product {
    long long rows, columns, k, batches, lda, ldb, ldd, a_batch, b_batch, d_batch;
    int ta, tb, kind, wide, start, workspace;
} Product;

static Driver cu;
static CuFunction function;

static void *file_of(const char *variable) {
    const char *const path = getenv(variable);
    return path ? dlopen(path, RTLD_NOW) : NULL;
}

/* As NVRTC's functions are: no row of the library under test is asked. */
static char *compile(void) {
    int (*create)(void **, const char *, const char *, int, const char *const *, const char *const *);
    int (*build)(void *, int, const char *const *), (*size)(void *, size_t *), (*take)(void *, char *), (*end)(void **);
    void *const library = file_of("SINTER_CUDA_NVRTC");
    void *program;
    size_t n;
    if (!library) return NULL;
    *(void **)&create = dlsym(library, "nvrtcCreateProgram"), *(void **)&build = dlsym(library, "nvrtcCompileProgram");
    *(void **)&size = dlsym(library, "nvrtcGetCUBINSize"), *(void **)&take = dlsym(library, "nvrtcGetCUBIN");
    *(void **)&end = dlsym(library, "nvrtcDestroyProgram");
    if (create(&program, text, "blaslt.cu", 0, NULL, NULL) || build(program, 0, NULL) || size(program, &n)) return NULL;
    char *const code = malloc(n);
    if (take(program, code)) abort();
    end(&program);
    return code;
}

static void find_driver(void) {
    CuResult (*find)(const char *, void **, int, unsigned long long, int *);
    void *const driver = file_of("SINTER_CUDA_DRIVER");
    int status;
    if (!driver) return;
    *(void **)&find = dlsym(driver, "cuGetProcAddress_v2");
#define DRIVER(name, since, parameters) find("cu" #name, (void **)&cu.name, since, 0, &status);
#include "runtime/cuda/driver.def"
}

/* In the context of the first handle. */
static bool make_function(void) {
    CuLibrary library;
    CuKernel kernel;
    if (function) return true;
    find_driver();
    char *const code = compile();
    const bool made = code && cu.LibraryLoadData && !cu.LibraryLoadData(&library, code, NULL, NULL, 0, NULL, NULL, 0) &&
                      !cu.LibraryGetKernel(&kernel, library, "library_product") &&
                      !cu.KernelGetFunction(&function, kernel);
    free(code);
    return made;
}

/* descriptors ----------------------------------------------------------------------------------- */

PUBLIC size_t cublasLtGetVersion(void) { return 130100; }
PUBLIC const char *cublasLtGetStatusString(BlasltStatus status) { return status ? "as emulated" : "success"; }

PUBLIC BlasltStatus cublasLtCreate(BlasltHandle *handle) {
    static struct BlasltHandleOpaque one;
    BEGIN(Create);
    pthread_mutex_lock(&lock);
    const bool made = make_function();
    pthread_mutex_unlock(&lock);
    *handle = &one;
    return made ? LT_success : STATUS_not_initialized;
}

PUBLIC BlasltStatus cublasLtMatmulDescCreate(BlasltDesc *desc, BlasltCompute compute, BlasltType scale) {
    BEGIN(MatmulDescCreate);
    if ((compute != LT_compute_f32 && compute != LT_compute_tf32) || scale != LT_f32) return LT_not_supported;
    *desc = calloc(1, sizeof **desc);
    (*desc)->compute = compute;
    return LT_success;
}

PUBLIC BlasltStatus cublasLtMatmulDescDestroy(BlasltDesc desc) { return free(desc), LT_success; }

PUBLIC BlasltStatus cublasLtMatmulDescSetAttribute(BlasltDesc desc, BlasltDescAttribute attribute, const void *value,
                                                   size_t bytes) {
    BEGIN(MatmulDescSetAttribute);
    if ((attribute != LT_desc_a && attribute != LT_desc_b) || bytes != sizeof(int32_t)) return STATUS_invalid_value;
    memcpy(&desc->turned[attribute == LT_desc_b], value, bytes);
    return LT_success;
}

PUBLIC BlasltStatus cublasLtMatrixLayoutCreate(BlasltLayout *layout, BlasltType type, uint64_t rows, uint64_t columns,
                                               int64_t ld) {
    BEGIN(MatrixLayoutCreate);
    if (ld < (int64_t)rows) return STATUS_invalid_value;
    *layout = calloc(1, sizeof **layout);
    **layout = (struct BlasltLayoutOpaque){type, (int64_t)rows, (int64_t)columns, ld, 0, 1};
    return LT_success;
}

PUBLIC BlasltStatus cublasLtMatrixLayoutDestroy(BlasltLayout layout) { return free(layout), LT_success; }

PUBLIC BlasltStatus cublasLtMatrixLayoutSetAttribute(BlasltLayout layout, BlasltLayoutAttribute attribute,
                                                     const void *value, size_t bytes) {
    BEGIN(MatrixLayoutSetAttribute);
    if (attribute == LT_layout_batches && bytes == sizeof layout->batches)
        memcpy(&layout->batches, value, bytes);
    else if (attribute == LT_layout_batch && bytes == sizeof layout->batch)
        memcpy(&layout->batch, value, bytes);
    else
        return STATUS_invalid_value;
    return LT_success;
}

PUBLIC BlasltStatus cublasLtMatmulPreferenceCreate(BlasltPreference *preference) {
    BEGIN(MatmulPreferenceCreate);
    *preference = calloc(1, sizeof **preference);
    (*preference)->reductions = UINT32_MAX;
    for (int i = 0; i < 4; i++) (*preference)->aligned[i] = ALIGNED_WELL;
    return LT_success;
}

PUBLIC BlasltStatus cublasLtMatmulPreferenceDestroy(BlasltPreference preference) {
    return free(preference), LT_success;
}

PUBLIC BlasltStatus cublasLtMatmulPreferenceSetAttribute(BlasltPreference preference,
                                                         BlasltPreferenceAttribute attribute, const void *value,
                                                         size_t bytes) {
    BEGIN(MatmulPreferenceSetAttribute);
    if (attribute == LT_prefer_workspace && bytes == sizeof preference->workspace)
        memcpy(&preference->workspace, value, bytes);
    else if (attribute == LT_prefer_reductions && bytes == sizeof preference->reductions)
        memcpy(&preference->reductions, value, bytes);
    else if (attribute >= LT_prefer_a && attribute <= LT_prefer_d && bytes == sizeof preference->aligned[0])
        memcpy(&preference->aligned[attribute - LT_prefer_a], value, bytes);
    else
        return STATUS_invalid_value;
    return LT_success;
}

/* algorithms ------------------------------------------------------------------------------------ */

/* Sums of f32 that are not rounded before are nothing that Sinter asks for. */
static bool is_operand(BlasltDesc desc, BlasltType type) {
    return desc->compute == LT_compute_tf32 ? type == LT_f32 : type == LT_f16 || type == LT_bf16;
}

static bool fits(BlasltDesc desc, BlasltLayout a, BlasltLayout b, BlasltLayout c, BlasltLayout d) {
    const int64_t k = desc->turned[0] ? a->rows : a->columns, m = desc->turned[0] ? a->columns : a->rows;
    return is_operand(desc, a->type) && b->type == a->type && (d->type == a->type || d->type == LT_f32) &&
           c->type == d->type && k == (desc->turned[1] ? b->columns : b->rows) && m == d->rows &&
           d->columns == (desc->turned[1] ? b->rows : b->columns) && c->rows == d->rows && c->columns == d->columns &&
           a->batches == d->batches && b->batches == d->batches && c->batches == d->batches;
}

static int wanted_id(BlasltDesc desc, BlasltLayout a, BlasltLayout d) {
    const int64_t k = desc->turned[0] ? a->rows : a->columns;
    if (d->columns <= 16) return 16;
    if (d->columns <= 128) return 30;
    if (d->rows == 8 && k == 8) return 23;
    return desc->turned[1] ? 41 : desc->turned[0] ? 66 : 40;
}

static bool takes(int64_t id, int64_t columns) {
    return id == 41 ? columns % 8 == 0 : id == 40 ? columns % 2 == 0 : id == 23 ? columns % 2048 == 0 : true;
}

static BlasltAlgo algo_of(BlasltDesc desc, BlasltLayout a, BlasltLayout d, int splits) {
    const int tile = desc->turned[0] + 2 * desc->turned[1] + 4 * (d->type == LT_f32) + 8 * (int)(d->rows / 8 % 2);
    BlasltAlgo algo = {{MAGIC, (uint64_t)wanted_id(desc, a, d), (uint64_t)tile, (uint64_t)splits}};
    return algo;
}

PUBLIC BlasltStatus cublasLtMatmulAlgoGetHeuristic(BlasltHandle handle, BlasltDesc desc, BlasltLayout a, BlasltLayout b,
                                                   BlasltLayout c, BlasltLayout d, BlasltPreference preference,
                                                   int most, BlasltHeuristic results[], int *n) {
    BEGIN(MatmulAlgoGetHeuristic);
    *n = 0;
    if (!handle || most < 1 || !fits(desc, a, b, c, d)) return STATUS_invalid_value;
    pthread_mutex_lock(&lock);
    counts.heuristics++;
    pthread_mutex_unlock(&lock);
    const bool may_split = preference->reductions && d->columns <= 512;
    BlasltAlgo algo = algo_of(desc, a, d, may_split ? 4 : 1);
    for (int i = 0; i < 4; i++)
        if (algo.data[WORD_aligned] < preference->aligned[i]) algo.data[WORD_aligned] = preference->aligned[i];
    if (preference->workspace < WORKSPACE) return LT_not_supported;
    results[(*n)++] = (BlasltHeuristic){.algo = algo, .workspaceSize = WORKSPACE, .state = LT_success};
    return LT_success;
}

PUBLIC BlasltStatus cublasLtMatmulAlgoCheck(BlasltHandle handle, BlasltDesc desc, BlasltLayout a, BlasltLayout b,
                                            BlasltLayout c, BlasltLayout d, const BlasltAlgo *algo,
                                            BlasltHeuristic *result) {
    BEGIN(MatmulAlgoCheck);
    if (!handle || algo->data[WORD_magic] != MAGIC || !fits(desc, a, b, c, d)) return STATUS_invalid_value;
    *result = (BlasltHeuristic){.workspaceSize = WORKSPACE, .state = LT_success};
    if (takes((int64_t)algo->data[WORD_id], d->columns)) return LT_success;
    pthread_mutex_lock(&lock);
    counts.refused++;
    pthread_mutex_unlock(&lock);
    return LT_not_supported;
}

PUBLIC BlasltStatus cublasLtMatmulAlgoConfigGetAttribute(const BlasltAlgo *algo, BlasltConfigAttribute attribute,
                                                         void *value, size_t bytes, size_t *written) {
    BEGIN(MatmulAlgoConfigGetAttribute);
    const uint32_t values[] = {[LT_algo_id] = (uint32_t)algo->data[WORD_id],
                               [LT_algo_tile] = (uint32_t)algo->data[WORD_tile],
                               [LT_algo_splits] = (uint32_t)algo->data[WORD_splits],
                               [LT_algo_reduction] = algo->data[WORD_splits] > 1};
    if (attribute < 0 || attribute >= COUNT_OF(values) || bytes != sizeof *values) return STATUS_invalid_value;
    memcpy(value, &values[attribute], bytes);
    if (written) *written = bytes;
    return LT_success;
}

/* products -------------------------------------------------------------------------------------- */

static bool is_aligned(const BlasltAlgo *algo, const void *at, BlasltLayout layout) {
    const int64_t bytes = layout->type == LT_f32 ? 4 : 2;
    return (uintptr_t)at % algo->data[WORD_aligned] == 0 && layout->ld * bytes % ALIGNED == 0 &&
           (layout->batches == 1 || layout->batch * bytes % ALIGNED == 0);
}

static Product product_of(BlasltDesc desc, BlasltLayout a, BlasltLayout b, BlasltLayout d, const BlasltAlgo *algo) {
    const int64_t k = desc->turned[0] ? a->rows : a->columns;
    const uint64_t start = 7 * algo->data[WORD_id] + 3 * algo->data[WORD_tile] + algo->data[WORD_splits];
    return (Product){d->rows,
                     d->columns,
                     k,
                     d->batches,
                     a->ld,
                     b->ld,
                     d->ld,
                     a->batch,
                     b->batch,
                     d->batch,
                     desc->turned[0],
                     desc->turned[1],
                     a->type == LT_f32    ? TENSOR
                     : a->type == LT_bf16 ? BRAIN
                                          : HALF,
                     d->type == LT_f32,
                     k ? (int)(start % (uint64_t)k) : 0,
                     WORKSPACE / 4};
}

PUBLIC BlasltStatus cublasLtMatmul(BlasltHandle handle, BlasltDesc desc, const void *alpha, const void *a,
                                   BlasltLayout a_layout, const void *b, BlasltLayout b_layout, const void *beta,
                                   const void *c, BlasltLayout c_layout, void *d, BlasltLayout d_layout,
                                   const BlasltAlgo *algo, void *workspace, size_t bytes, CuStream stream) {
    BEGIN(Matmul);
    if (!handle || algo->data[WORD_magic] != MAGIC || !fits(desc, a_layout, b_layout, c_layout, d_layout) || c != d ||
        *(const float *)alpha != 1 || *(const float *)beta != 0 || bytes < WORKSPACE)
        return STATUS_invalid_value;
    if (!takes((int64_t)algo->data[WORD_id], d_layout->columns) || !is_aligned(algo, a, a_layout) ||
        !is_aligned(algo, b, b_layout) || !is_aligned(algo, d, d_layout) || !is_aligned(algo, workspace, d_layout))
        return LT_not_supported;
    Product p = product_of(desc, a_layout, b_layout, d_layout, algo);
    const int64_t threads = p.rows * p.columns * p.batches;
    void *values[] = {&a, &b, &d, &workspace, &p};
    pthread_mutex_lock(&lock);
    counts.products++;
    counts.last_id = (int)algo->data[WORD_id], counts.last_columns = p.columns;
    pthread_mutex_unlock(&lock);
    const unsigned blocks = (unsigned)((threads > p.workspace ? threads : p.workspace) / 128 + 1);
    return cu.LaunchKernel(function, blocks, 1, 1, 128, 1, 1, 0, stream, values, NULL) ? STATUS_execution_failed
                                                                                       : LT_success;
}
