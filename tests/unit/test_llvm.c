/* test_llvm.c: nests through the LLVM module and our loader, bit for bit against the native kernels
 * and the canonical orders written out; all instruction sets the host has, or the first ISA_COUNT. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/kernels.h"
#include "runtime/base/alloc.h"
#include "runtime/base/bail.h"
#include "runtime/base/clock.h"
#include "runtime/base/error.h"
#include "runtime/compile/llvm_module.h"
#include "runtime/compile/loader.h"
#include "tests/unit/one_nest.h"
#include "tests/unit/suite.h"

static Arena *arena;

static void setup(void) { arena = arena_new(); }
static void teardown(void) {
    arena_free(arena);
    error_clear();
}

typedef struct Code {
    LoadedCode *loaded;
    NestFn *run;
    size_t bytes;
} Code;

static Code compile_nest(const Nest *nest, const Buf *bufs, int isa) {
    const LlvmModuleTable *module = llvm_module();
    ck_assert_msg(module != NULL, "%s", llvm_module_reason());
    OneNest one = {nest, bufs, "kernel", arena};
    CodegenRequest request = one_nest_request(&one, isa);
    CodegenResult result;
    const Status status = module->compile(&request, &result);
    ck_assert_msg(status == ST_OK, "%s", result.message);
    Code code = {.bytes = result.bytes};
    ck_assert_msg(loader_load(result.object, result.bytes, &code.loaded, NULL) == ST_OK, "%s", error_slot()->message);
    module->free_bytes(result.object);
    code.run = (NestFn *)loader_symbol(code.loaded, one.name);
    ck_assert(code.run != NULL);
    return code;
}

static void run_rect(const Code *code, void *const *bufs, const int64_t *params, const int64_t *lo, const int64_t *hi) {
    NestError error = {.inst = -1};
    code->run(bufs, params, lo, hi, &error);
    ck_assert_int_eq(error.inst, -1);
}

static const int64_t zeros[MAX_LOOP_DIMS];

/* Compiles and runs over the whole of the outer extents. */
static void run_nest(const Nest *nest, const Buf *bufs, int isa, void *const *data, const int64_t *params) {
    const Code code = compile_nest(nest, bufs, isa);
    int64_t hi[MAX_LOOP_DIMS];
    for (int d = 0; d < nest->n_outer; d++)
        hi[d] = sym_is(nest->extent[d]) ? params[sym_id(nest->extent[d])] : nest->extent[d];
    run_rect(&code, data, params, zeros, hi);
    loader_free(code.loaded);
}

static Affine at1(int64_t offset, int64_t c0, int64_t c1, int64_t c2) {
    return (Affine){.offset = offset, .coef = {c0, c1, c2}};
}

static uint64_t next_random(uint64_t *state) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 11;
}

static float random_float(uint64_t *state) { return (float)((double)next_random(state) / (1ull << 52) * 4 - 2); }

static float *random_floats(int64_t n, uint64_t seed) {
    float *x = mem_aligned(64, (size_t)n * 4 + 64);
    for (int64_t i = 0; i < n; i++) x[i] = random_float(&seed);
    return x;
}

static bool same_floats(const float *a, const float *b, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        if (isnan(a[i]) && isnan(b[i])) continue;
        if (memcmp(&a[i], &b[i], 4)) {
            fprintf(stderr, "element %lld: %.9g instead of %.9g\n", (long long)i, a[i], b[i]);
            return false;
        }
    }
    return true;
}

static const Buf f32_bufs[4] = {{DT_f32, BUF_in}, {DT_f32, BUF_in}, {DT_f32, BUF_out}, {DT_f32, BUF_out}};

START_TEST(map_one_dim) {
    for (int64_t n = 0; n <= 150; n += n < 70 ? 1 : 13) {
        LoopBuilder *b = loop_new(arena, 1, 0, 0, &n);
        const Affine at = at1(0, 1, 0, 0);
        const int sum = loop_prim(b, PRIM_add, loop_load(b, 0, DT_f32, &at), loop_load(b, 1, DT_f32, &at), -1);
        loop_store(b, 2, DT_f32, &at, loop_prim(b, PRIM_mul, sum, loop_const(b, S_f32, 0.5, 0), -1), false);
        Nest nest;
        loop_finish(b, &nest);
        float *x = random_floats(n, 1), *y = random_floats(n, 2), *out = random_floats(n + 8, 3),
              *want = random_floats(n + 8, 3);
        for (int64_t i = 0; i < n; i++) want[i] = (x[i] + y[i]) * 0.5f;
        run_nest(&nest, f32_bufs, _i, (void *[]){x, y, out}, NULL);
        ck_assert(same_floats(out, want, n + 8));
        mem_free(x), mem_free(y), mem_free(out), mem_free(want);
    }
}
END_TEST

static Nest tanh_chain(int64_t n, int links) {
    LoopBuilder *b = loop_new(arena, 1, 0, 0, &n);
    const Affine at = at1(0, 1, 0, 0);
    int x = loop_load(b, 0, DT_f32, &at);
    for (int i = 0; i < links; i++) {
        x = loop_prim(b, PRIM_tanh, x, -1, -1);
        x = loop_prim(b, PRIM_add, x, loop_load(b, 1, DT_f32, &at), -1);
    }
    loop_store(b, 2, DT_f32, &at, x, false);
    Nest nest;
    loop_finish(b, &nest);
    return nest;
}

/* Vectors in lockstep, primitives shared by them: the bits of one link at a time. */
START_TEST(long_chain) {
    enum { LINKS = 4 };
    for (int64_t n = 1; n <= 150; n += n < 70 ? 3 : 17) {
        const Nest chain = tanh_chain(n, LINKS), link = tanh_chain(n, 1);
        float *x = random_floats(n, 1), *y = random_floats(n, 2), *out = random_floats(n + 8, 3),
              *want = random_floats(n + 8, 3);
        run_nest(&chain, f32_bufs, _i, (void *[]){x, y, out}, NULL);
        run_nest(&link, f32_bufs, _i, (void *[]){x, y, want}, NULL);
        for (int i = 1; i < LINKS; i++) run_nest(&link, f32_bufs, _i, (void *[]){want, y, want}, NULL);
        ck_assert(same_floats(out, want, n + 8));
        mem_free(x), mem_free(y), mem_free(out), mem_free(want);
    }
}
END_TEST

/* Order L of sums and fma chains, as design section 5 has it. */
static float order_L(const float *a, const float *b, int64_t n) {
    if (n <= CHUNK_L) {
        float lane[LANES_L] = {0};
        for (int64_t i = 0; i < n; i++)
            lane[i % LANES_L] = b ? fmaf(a[i], b[i], lane[i % LANES_L]) : lane[i % LANES_L] + a[i];
        for (int s = 1; s < LANES_L; s *= 2)
            for (int i = 0; i < LANES_L; i += 2 * s) lane[i] += lane[i + s];
        return lane[0];
    }
    float *part = mem_alloc((size_t)ceil_div(n, CHUNK_L) * 4);
    for (int64_t i = 0; i < n; i += CHUNK_L)
        part[i / CHUNK_L] = order_L(a + i, b ? b + i : NULL, min_i64(n - i, CHUNK_L));
    const float sum = order_L(part, NULL, ceil_div(n, CHUNK_L));
    mem_free(part);
    return sum;
}

static float order_S(const float *a, const float *b, int64_t n, int64_t stride) {
    if (n <= CHUNK_S) {
        float sum = 0;
        for (int64_t i = 0; i < n; i++) sum = b ? fmaf(a[i * stride], b[i * stride], sum) : sum + a[i * stride];
        return sum;
    }
    float *part = mem_alloc((size_t)ceil_div(n, CHUNK_S) * 4);
    for (int64_t i = 0; i < n; i += CHUNK_S)
        part[i / CHUNK_S] = order_S(a + i * stride, b ? b + i * stride : NULL, min_i64(n - i, CHUNK_S), stride);
    const float sum = order_S(part, NULL, ceil_div(n, CHUNK_S), 1);
    mem_free(part);
    return sum;
}

/* sum and dot over the inner dim of [rows, n]; plain or with the extent as a parameter. */
static Nest row_sums(int64_t rows, int64_t n, bool symbolic) {
    const int64_t inner = symbolic ? sym_make(0) : n, extent[2] = {rows, inner};
    LoopBuilder *b = loop_new(arena, 1, 1, 0, extent);
    const Affine at = at1(0, inner, 1, 0), to = at1(0, 1, 0, 0);
    const int x = loop_load(b, 0, DT_f32, &at), y = loop_load(b, 1, DT_f32, &at);
    loop_store(b, 2, DT_f32, &to, loop_reduce(b, RED_sum, x, -1), true);
    loop_store(b, 3, DT_f32, &to, loop_reduce(b, RED_dot, x, y), true);
    Nest nest;
    loop_finish(b, &nest);
    return nest;
}

static void check_row_sums(int64_t rows, int64_t n, bool symbolic, int isa) {
    const Nest nest = row_sums(rows, n, symbolic);
    float *x = random_floats(rows * n, 5), *y = random_floats(rows * n, 6), *sum = random_floats(rows, 7),
          *dot = random_floats(rows, 8);
    if (n == 1) x[0] = -1e-30f, y[0] = 1e-30f; /* the chain's result is -0 */
    run_nest(&nest, f32_bufs, isa, (void *[]){x, y, sum, dot}, &n);
    for (int64_t r = 0; r < rows; r++) {
        const float want[2] = {order_L(x + r * n, NULL, n), order_L(x + r * n, y + r * n, n)};
        const float have[2] = {sum[r], dot[r]};
        ck_assert_msg(same_floats(have, want, 2), "n %lld symbolic %d", (long long)n, symbolic);
    }
    mem_free(x), mem_free(y), mem_free(sum), mem_free(dot);
}

START_TEST(order_L_sums) {
    static const int64_t lengths[] = {0, 1, 3, 17, 63, 64, 65, 100, 768, 1000, 1024, 1025, 2048, 2112, 5000};
    for (int k = 0; k < COUNT_OF(lengths); k++)
        for (int symbolic = 0; symbolic < 2; symbolic++) check_row_sums(3, lengths[k], symbolic, _i);
    check_row_sums(1, 1024 * 1024 + 5, false, _i);
    check_row_sums(1, 2 * 1024 * 1024 + 1025, true, _i);
}
END_TEST

static void check_column_sums(int64_t rows, int64_t n, bool symbolic, int isa) {
    const int64_t inner = symbolic ? sym_make(0) : rows, extent[2] = {n, inner};
    LoopBuilder *b = loop_new(arena, 1, 1, 1, extent);
    const Affine at = at1(0, 1, n, 0), to = at1(0, 1, 0, 0);
    const int x = loop_load(b, 0, DT_f32, &at), y = loop_load(b, 1, DT_f32, &at);
    loop_store(b, 2, DT_f32, &to, loop_reduce(b, RED_sum, x, -1), true);
    loop_store(b, 3, DT_f32, &to, loop_reduce(b, RED_dot, x, y), true);
    Nest nest;
    loop_finish(b, &nest);
    float *px = random_floats(rows * n, 5), *py = random_floats(rows * n, 6), *sum = random_floats(n, 7),
          *dot = random_floats(n, 8);
    if (rows == 1) px[0] = -1e-30f, py[0] = 1e-30f;
    run_nest(&nest, f32_bufs, isa, (void *[]){px, py, sum, dot}, &rows);
    for (int64_t c = 0; c < n; c++) {
        const float want[2] = {order_S(px + c, NULL, rows, n), order_S(px + c, py + c, rows, n)};
        const float have[2] = {sum[c], dot[c]};
        ck_assert_msg(same_floats(have, want, 2), "rows %lld symbolic %d", (long long)rows, symbolic);
    }
    mem_free(px), mem_free(py), mem_free(sum), mem_free(dot);
}

START_TEST(order_S_sums) {
    static const int64_t lengths[] = {0, 1, 5, 64, 65, 128, 700, 4096, 4097, 9000};
    for (int k = 0; k < COUNT_OF(lengths); k++)
        for (int symbolic = 0; symbolic < 2; symbolic++) {
            check_column_sums(lengths[k], 5 + 67 * (k % 2), symbolic, _i);
            check_column_sums(lengths[k], lengths[k] < 1000 ? 1101 : 160, symbolic, _i);
        }
    check_column_sums(300000, 3, false, _i);
}
END_TEST

/* S rows of L rows: sum over dims 0 and 2 of [a, m, n]. */
START_TEST(order_S_of_L) {
    const int64_t a = 130, m = 3, n = 1100, extent[3] = {m, a, n};
    LoopBuilder *b = loop_new(arena, 1, 2, 1, extent);
    const Affine at = at1(0, n, m * n, 1), to = at1(0, 1, 0, 0);
    const int x = loop_load(b, 0, DT_f32, &at);
    loop_store(b, 2, DT_f32, &to, loop_reduce(b, RED_sum, x, -1), true);
    Nest nest;
    loop_finish(b, &nest);
    float *px = random_floats(a * m * n, 5), *sum = random_floats(m, 7), *part = random_floats(a, 1);
    run_nest(&nest, f32_bufs, _i, (void *[]){px, NULL, sum}, NULL);
    for (int64_t c = 0; c < m; c++) {
        for (int64_t s = 0; s < a; s++) part[s] = order_L(px + (s * m + c) * n, NULL, n);
        const float want = order_S(part, NULL, a, 1);
        ck_assert(same_floats(&sum[c], &want, 1));
    }
    mem_free(px), mem_free(sum), mem_free(part);
}
END_TEST

/* Operands that reach the edges of every type. */
static void fill_edges(void *at, SType type, int64_t n, uint64_t seed) {
    static const double edges[] = {0,    -0.0, 1,   -1,  0.5, 2,    INFINITY,    -INFINITY, NAN,   1e-40, -1e-310,
                                   1e30, 87,   -90, 700, 3.5, -2.5, 2147483648., 1e19,      -1e19, 65504, 65520};
    for (int64_t i = 0; i < n; i++) {
        const uint64_t r = next_random(&seed);
        const double f = r % 3 ? (double)random_float(&seed) * (double)(1 + r % 17) : edges[r / 3 % COUNT_OF(edges)];
        const int64_t v = r % 3 ? (int64_t)(r % 41) - 20 : (int64_t)(r << (r % 12)) * (r % 2 ? 1 : -1);
        switch (type) {
        case S_f32:
            ((float *)at)[i] = (float)f;
            break;
        case S_f64:
            ((double *)at)[i] = f;
            break;
        case S_i32:
            ((int32_t *)at)[i] = r % 97 ? (int32_t)v : INT32_MIN;
            break;
        case S_i64:
            ((int64_t *)at)[i] = r % 97 ? v : INT64_MIN;
            break;
        default:
            ((uint8_t *)at)[i] = r & 1;
            break;
        }
    }
}

static bool same_values(const void *a, const void *b, SType type, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        const size_t bytes = (size_t)stype_bytes(type), at = bytes * (size_t)i;
        if (!memcmp((const char *)a + at, (const char *)b + at, bytes)) continue;
        if (type == S_f32 && isnan(((const float *)a)[i]) && isnan(((const float *)b)[i])) continue;
        if (type == S_f64 && isnan(((const double *)a)[i]) && isnan(((const double *)b)[i])) continue;
        return false;
    }
    return true;
}

static const DType dtype_of[S_COUNT] = {DT_f32, DT_f64, DT_i32, DT_i64, DT_bool};

static void check_prim(Prim prim, SType type, int isa) {
    enum { N = 1000 };
    const SType first = prim == PRIM_select ? S_b : type, result = prim_returns_bool(prim) ? S_b : type;
    const DType dtypes[4] = {dtype_of[first], dtype_of[type], dtype_of[type], dtype_of[result]};
    Buf bufs[4];
    for (int k = 0; k < 4; k++) bufs[k] = (Buf){dtypes[k], k < 3 ? BUF_in : BUF_out};
    const int64_t n = N;
    LoopBuilder *b = loop_new(arena, 1, 0, 0, &n);
    const Affine at = at1(0, 1, 0, 0);
    int operand[3] = {-1, -1, -1};
    for (int k = 0; k < prim_arity(prim); k++) operand[k] = loop_load(b, k, dtypes[k], &at);
    loop_store(b, 3, dtypes[3], &at, loop_prim(b, prim, operand[0], operand[1], operand[2]), false);
    Nest nest;
    loop_finish(b, &nest);
    static _Alignas(64) char data[5][BLOCK * 8];
    fill_edges(data[0], first, N, 11), fill_edges(data[1], type, N, 12), fill_edges(data[2], type, N, 13);
    run_nest(&nest, bufs, isa, (void *[]){data[0], data[1], data[2], data[3]}, NULL);
    kernel_table()->prim(prim, type)(data[4], data[0], data[1], data[2], N);
    ck_assert_msg(same_values(data[3], data[4], result, N), "%s.%s isa %d", prim_name(prim), stype_name(type), isa);
}

START_TEST(every_primitive) {
    for (int prim = 0; prim < PRIM_COUNT; prim++)
        for (int type = 0; type < S_COUNT; type++)
            if (prim_has_type((Prim)prim, (SType)type) && kernel_table()->prim(prim, (SType)type))
                check_prim((Prim)prim, (SType)type, _i);
}
END_TEST

/* A chain load -> cast -> store between any two dtypes. */
static void check_convert(DType from, DType to, int isa) {
    enum { N = 999 };
    const Buf bufs[2] = {{from, BUF_in}, {to, BUF_out}};
    const int64_t n = N;
    LoopBuilder *b = loop_new(arena, 1, 0, 0, &n);
    const Affine at = at1(0, 1, 0, 0), back = at1(N - 1, -1, 0, 0);
    loop_store(b, 1, to, &at, loop_cast(b, dtype_compute(to), loop_load(b, 0, from, &back)), false);
    Nest nest;
    loop_finish(b, &nest);
    static _Alignas(64) char in[BLOCK * 8], wide[BLOCK * 8], cast[BLOCK * 8], want[BLOCK * 8], have[BLOCK * 8];
    uint64_t seed = 5;
    if (dtype_bytes(from) <= 2)
        for (int i = 0; i < 2 * N; i++)
            in[i] = (char)(from == DT_bool ? next_random(&seed) & 1 : next_random(&seed) >> 9);
    else
        fill_edges(in, dtype_compute(from), N, 3);
    memset(want, 0, sizeof want), memset(have, 0, sizeof have);
    const KernelTable *table = kernel_table();
    const SType a = dtype_compute(from), c = dtype_compute(to);
    table->load(from)(wide, in + (N - 1) * dtype_bytes(from), -1, N);
    if (a == c)
        memcpy(cast, wide, sizeof wide);
    else
        table->cast(a, c)(cast, wide, NULL, NULL, N);
    table->store(to)(want, 1, cast, N);
    run_nest(&nest, bufs, isa, (void *[]){in, have}, NULL);
    if (dtype_bytes(to) >= 4) {
        ck_assert_msg(same_values(have, want, c, N), "%s to %s", dtype_name(from), dtype_name(to));
        return;
    }
    ck_assert_msg(!memcmp(have, want, (size_t)(N * dtype_bytes(to))), "%s to %s isa %d", dtype_name(from),
                  dtype_name(to), isa);
}

START_TEST(every_conversion) {
    for (int from = 1; from < DT_COUNT; from++)
        for (int to = 1; to < DT_COUNT; to++) check_convert((DType)from, (DType)to, _i);
}
END_TEST

static double now_ms(void) { return (double)clock_ns() * 1e-6; }

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* x + b, times tanh of it, plus r: [8192, 768]. The same request gives the same bytes; the time is
 * for information. */
START_TEST(compiling_is_deterministic) {
    enum { MOST = 50 };
    const int times = _i == ISA_v2 ? 5 : MOST; /* v2 spells out every fma */
    const int64_t extent[2] = {8192, 768};
    LoopBuilder *b = loop_new(arena, 2, 0, 0, extent);
    const Affine at = at1(0, 768, 1, 0), column = at1(0, 0, 1, 0);
    const int x = loop_prim(b, PRIM_add, loop_load(b, 0, DT_f32, &at), loop_load(b, 2, DT_f32, &column), -1);
    const int y = loop_prim(b, PRIM_mul, x, loop_prim(b, PRIM_tanh, x, -1, -1), -1);
    loop_store(b, 3, DT_f32, &at, loop_prim(b, PRIM_add, y, loop_load(b, 1, DT_f32, &at), -1), false);
    Nest nest;
    loop_finish(b, &nest);
    OneNest one = {&nest, f32_bufs, "kernel", arena};
    CodegenRequest request = one_nest_request(&one, _i);
    CodegenResult first = {0}, result;
    double took[MOST];
    for (int k = 0; k < times; k++) {
        const double start = now_ms();
        LoadedCode *code;
        ck_assert_int_eq(llvm_module()->compile(&request, &result), ST_OK);
        ck_assert_int_eq(loader_load(result.object, result.bytes, &code, NULL), ST_OK);
        took[k] = now_ms() - start;
        loader_free(code);
        if (k == 0) {
            first = result;
            continue;
        }
        ck_assert_uint_eq(result.bytes, first.bytes);
        ck_assert_int_eq(memcmp(result.object, first.object, first.bytes), 0);
        llvm_module()->free_bytes(result.object);
    }
    llvm_module()->free_bytes(first.object);
    qsort(took, (size_t)times, sizeof *took, by_value);
    printf("%s: a fused pointwise kernel compiles and loads in %.2f ms (median of %d)\n", isa_name((Isa)_i),
           took[times / 2], times);
}
END_TEST

typedef struct Worker {
    const CodegenRequest *request;
    CodegenResult result;
    Status status;
} Worker;

static void *compile_in_thread(void *at) {
    Worker *worker = at;
    worker->status = llvm_module()->compile(worker->request, &worker->result);
    return NULL;
}

START_TEST(threads_compile_at_once) {
    enum { THREADS = 6 };
    const Nest nest = row_sums(8, 5000, false);
    OneNest one = {&nest, f32_bufs, "kernel", arena};
    const CodegenRequest request = one_nest_request(&one, ISA_v3);
    pthread_t threads[THREADS];
    Worker workers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (Worker){.request = &request};
        ck_assert_int_eq(pthread_create(&threads[i], NULL, compile_in_thread, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++) {
        ck_assert_int_eq(workers[i].status, ST_OK);
        ck_assert_uint_eq(workers[i].result.bytes, workers[0].result.bytes);
        ck_assert_int_eq(memcmp(workers[i].result.object, workers[0].result.object, workers[0].result.bytes), 0);
    }
    for (int i = 0; i < THREADS; i++) llvm_module()->free_bytes(workers[i].result.object);
}
END_TEST

/* The assembly of out[i] = x[i] + y[i] over `n` elements; out is buffer 2, or x itself. */
static char *sum_text(int64_t n, int out, int64_t stream_bytes) {
    LoopBuilder *b = loop_new(arena, 1, 0, 0, &n);
    const Affine at = at1(0, 1, 0, 0);
    const int x = loop_load(b, 0, DT_f32, &at), y = loop_load(b, 1, DT_f32, &at);
    loop_store(b, out, DT_f32, &at, loop_prim(b, PRIM_add, x, y, -1), false);
    Nest nest;
    loop_finish(b, &nest);
    static const Buf roles[3] = {{DT_f32, BUF_out}, {DT_f32, BUF_in}, {DT_f32, BUF_out}};
    OneNest one = {&nest, roles, "kernel", arena};
    Machine machine = *machine_at(ISA_v3);
    machine.stream_bytes = stream_bytes;
    const CodegenRequest request = one_nest_on(&one, machine);
    return llvm_module()->text(&request, true);
}

START_TEST(large_results_go_past_the_caches) {
    static const struct {
        int64_t n;
        int out;
        int64_t stream_bytes;
        bool streams;
    } cases[] = {{1000, 2, 3999, true},
                 {1000, 2, 4000, false},
                 {1000, 2, 0, false},
                 {1000, 0, 1, false}}; /* in place: the line is there already */
    for (int i = 0; i < COUNT_OF(cases); i++) {
        char *text = sum_text(cases[i].n, cases[i].out, cases[i].stream_bytes);
        ck_assert_int_eq(strstr(text, "movnt") != NULL, cases[i].streams);
        ck_assert_int_eq(strstr(text, "sfence") != NULL, cases[i].streams);
        llvm_module()->free_bytes(text);
    }
}
END_TEST

START_TEST(text_for_dumps) {
    const int64_t n = 100;
    LoopBuilder *b = loop_new(arena, 1, 0, 0, &n);
    const Affine at = at1(0, 1, 0, 0);
    loop_store(
        b, 2, DT_f32, &at,
        loop_prim(b, PRIM_fma, loop_load(b, 0, DT_f32, &at), loop_load(b, 1, DT_f32, &at), loop_const(b, S_f32, 3, 0)),
        false);
    Nest nest;
    loop_finish(b, &nest);
    OneNest one = {&nest, f32_bufs, "k7_fma", arena};
    const CodegenRequest request = one_nest_request(&one, ISA_v3);
    char *ir = llvm_module()->text(&request, false), *assembly = llvm_module()->text(&request, true);
    ck_assert_ptr_nonnull(strstr(ir, "define void @k7_fma"));
    ck_assert_ptr_nonnull(strstr(ir, "<8 x float>"));
    ck_assert_ptr_nonnull(strstr(assembly, "k7_fma:"));
    ck_assert_ptr_nonnull(strstr(assembly, "vfmadd"));
    llvm_module()->free_bytes(ir);
    llvm_module()->free_bytes(assembly);
}
END_TEST

START_TEST(failures_have_reasons) {
    static const struct {
        const char *point;
        int bail;
    } points[] = {{"codegen", BAIL_codegen}, {"llvm_verify", BAIL_llvm_verify}, {"emit", BAIL_emit}};
    const int64_t n = 100;
    LoopBuilder *b = loop_new(arena, 1, 0, 0, &n);
    const Affine at = at1(0, 1, 0, 0);
    loop_store(b, 2, DT_f32, &at, loop_load(b, 0, DT_f32, &at), false);
    Nest nest;
    loop_finish(b, &nest);
    OneNest one = {&nest, f32_bufs, "kernel", arena};
    CodegenRequest request = one_nest_request(&one, ISA_v2);
    CodegenResult result;
    for (int i = 0; i < COUNT_OF(points); i++) {
        failpoint_set(points[i].point);
        ck_assert_int_ne(llvm_module()->compile(&request, &result), ST_OK);
        failpoint_set(NULL);
        ck_assert_int_eq(result.bail, points[i].bail);
        ck_assert_ptr_nonnull(strstr(error_slot()->message, "failpoint"));
        ck_assert_ptr_null(result.object);
        error_clear();
    }
    nest.insts[0].a = 5; /* loads have no operand, and none may come later */
    ck_assert_int_eq(llvm_module()->compile(&request, &result), ST_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(result.message, "operand"));
    error_clear();
    one.machine.level = 17;
    ck_assert_int_eq(llvm_module()->compile(&request, &result), ST_ARGUMENT);
}
END_TEST

int main(void) {
    TCase *maps = tcase_create("maps");
    tcase_add_checked_fixture(maps, setup, teardown);
    tcase_set_timeout(maps, 120);
    const char *const some = getenv("ISA_COUNT");
    const int isas = some ? atoi(some) : (int)isa_host() + 1;
    tcase_add_loop_test(maps, map_one_dim, 0, isas);
    tcase_add_loop_test(maps, long_chain, 0, isas);
    tcase_add_loop_test(maps, every_primitive, 0, isas);
    tcase_add_loop_test(maps, every_conversion, 0, isas);
    tcase_add_loop_test(maps, order_L_sums, 0, isas);
    tcase_add_loop_test(maps, order_S_sums, 0, isas);
    tcase_add_loop_test(maps, order_S_of_L, 0, isas);
    tcase_add_loop_test(maps, compiling_is_deterministic, 0, isas);
    tcase_add_test(maps, threads_compile_at_once);
    tcase_add_test(maps, large_results_go_past_the_caches);
    tcase_add_test(maps, text_for_dumps);
    tcase_add_test(maps, failures_have_reasons);
    return suite_run("llvm", maps);
}
