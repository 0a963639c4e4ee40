/* test_kernels_gemm.c: GEMM against the scalar chain, bit for bit, over shapes, strides, dtypes, batches, row splits,
 * packed operands and tile callbacks, at every instruction set. KERNEL_BENCH=1 prints speeds against the fma probe,
 * KERNEL_BENCH=1x768x3072,8x768x768 those of shapes. */
#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "tests/unit/kernel_inputs.h"
#include "tests/unit/suite.h"

#include <stdio.h>
#include <stdlib.h>

static void convert_in(DType dtype, void *out, const void *src, int64_t i) {
    kernel_table()->load(dtype)(out, (const char *)src + i * dtype_bytes(dtype), 1, 1);
}

/* C[i,j] by the definition: chains of 4,096 in the compute type, their results added in order. */
static void reference_element(const GemmCall *call, int64_t batch, int64_t i, int64_t j, void *out) {
    const SType type = dtype_compute(call->dtype);
    double f64 = 0, total64 = 0;
    float f32 = 0, total32 = 0;
    uint64_t ints = 0;
    for (int64_t p = 0; p < call->k; p++) {
        union {
            float f32;
            double f64;
            int32_t i32;
            int64_t i64;
        } a, b;
        convert_in(call->dtype, &a, call->a, batch * call->a_batch + i * call->a_row + p * call->a_col);
        convert_in(call->dtype, &b, call->b, batch * call->b_batch + p * call->b_row + j * call->b_col);
        if (p % 4096 == 0 && p) {
            total32 = p == 4096 ? f32 : total32 + f32, total64 = p == 4096 ? f64 : total64 + f64;
            f32 = 0, f64 = 0;
        }
        if (type == S_f32) f32 = fmaf(a.f32, b.f32, f32);
        if (type == S_f64) f64 = fma(a.f64, b.f64, f64);
        if (type == S_i32) ints += (uint64_t)((int64_t)a.i32 * b.i32);
        if (type == S_i64) ints += (uint64_t)a.i64 * (uint64_t)b.i64;
    }
    if (call->k > 4096) f32 = total32 + f32, f64 = total64 + f64;
    const int32_t low = (int32_t)ints;
    const void *const value = type == S_f32   ? (void *)&f32
                              : type == S_f64 ? (void *)&f64
                              : type == S_i32 ? (const void *)&low
                                              : (const void *)&ints;
    memcpy(out, value, (size_t)stype_bytes(type));
}

/* Small integers over a power of two, some zeros of both signs and tiny values; NaN-free. */
static void fill_matrix(DType dtype, void *at, int64_t n, uint64_t seed) {
    for (int64_t i = 0; i < n; i++) {
        const uint64_t bits = random_bits(seed * 7919 + (uint64_t)i);
        const double value = bits % 61 == 0 ? -0.0 : random_between(bits, -2, 2) * (bits % 53 ? 1 : 0x1p-140);
        const int32_t whole = (int32_t)bits;
        const float single = (float)value;
        const int64_t wide = (int64_t)bits;
        const SType type = dtype_compute(dtype);
        const void *const from = type == S_f32   ? (const void *)&single
                                 : type == S_f64 ? (const void *)&value
                                 : type == S_i32 ? (const void *)&whole
                                                 : (const void *)&wide;
        kernel_table()->store(dtype)((char *)at + i * dtype_bytes(dtype), 1, from, 1);
    }
}

typedef struct Layout {
    const char *name;
    bool a_turned, b_turned, c_turned;
    int gap; /* extra elements per row */
} Layout;
static const Layout layouts[] = {{"NN", false, false, false, 0},
                                 {"NT", false, true, false, 0},
                                 {"TN", true, false, false, 3},
                                 {"TT", true, true, true, 1},
                                 {"NN to turned C", false, false, true, 0}};

static GemmCall call_of(DType dtype, int64_t batch, int64_t m, int64_t n, int64_t k, const Layout *layout) {
    const int64_t gap = layout->gap;
    GemmCall call = {.dtype = dtype, .m = m, .n = n, .k = k, .batch = batch, .part_rows = m, .row_end = m};
    const int64_t a_ld = (layout->a_turned ? m : k) + gap, b_ld = (layout->b_turned ? k : n) + gap;
    const int64_t c_ld = (layout->c_turned ? m : n) + gap;
    call.a_row = layout->a_turned ? 1 : a_ld, call.a_col = layout->a_turned ? a_ld : 1;
    call.b_row = layout->b_turned ? 1 : b_ld, call.b_col = layout->b_turned ? b_ld : 1;
    call.c_row = layout->c_turned ? 1 : c_ld, call.c_col = layout->c_turned ? c_ld : 1;
    call.a_batch = a_ld * (layout->a_turned ? k : m), call.b_batch = b_ld * (layout->b_turned ? n : k);
    call.c_batch = c_ld * (layout->c_turned ? n : m);
    return call;
}

typedef struct Collect { /* a tile callback that stores to C as gemm would */
    const GemmCall *call;
    int64_t elements;
} Collect;

static void collect_tile(void *context, const GemmTile *tile) {
    Collect *const collect = context;
    const GemmCall *const call = collect->call;
    const int size = stype_bytes(dtype_compute(call->dtype)), bytes = dtype_bytes(call->dtype);
    for (int64_t i = 0; i < tile->rows; i++) {
        const int64_t at = tile->batch * call->c_batch + (tile->row + i) * call->c_row + tile->column * call->c_col;
        kernel_table()->store(call->dtype)((char *)call->c + at * bytes, call->c_col,
                                           (const char *)tile->at + i * tile->ld * size, tile->columns);
        collect->elements += tile->columns;
    }
}

static unsigned char canaries[4096]; /* behind a workspace, where no part may write */

/* Parts of at most `rows` rows, with one workspace for all of them. */
static void run_parts(GemmCall call, int64_t rows) {
    call.part_rows = rows;
    const size_t bytes = gemm_workspace(&call);
    unsigned char *const workspace = mem_aligned(64, bytes + sizeof canaries);
    call.workspace = workspace;
    memset(canaries, 0x6b, sizeof canaries);
    memcpy(workspace + bytes, canaries, sizeof canaries);
    for (call.row_begin = 0; call.row_begin < call.m; call.row_begin = call.row_end) {
        call.row_end = min_i64(call.row_begin + rows, call.m);
        gemm(&call);
        ck_assert_msg(!memcmp(workspace + bytes, canaries, sizeof canaries),
                      "rows %ld to %ld wrote behind their workspace", (long)call.row_begin, (long)call.row_end);
    }
    mem_free(workspace);
}

/* In thirds, with a shorter part at the end where m is not a multiple; by tiles in parts of 64 rows, as a pool has
 * them. */
typedef enum Way { WAY_whole, WAY_rows, WAY_packed, WAY_tiles, WAY_COUNT } Way;

static void run_way(GemmCall call, Way way) {
    Collect collect = {&call, 0};
    void *packed = NULL;
    if (way == WAY_packed) {
        packed = mem_aligned(64, gemm_packed_bytes(&call) + 64);
        gemm_pack_b(&call, packed);
        call.packed_b = packed;
    }
    if (way == WAY_tiles) call.tile = collect_tile, call.context = &collect;
    run_parts(call, way == WAY_rows ? ceil_div(call.m, 3) : way == WAY_tiles ? 64 : call.m);
    if (way == WAY_tiles) ck_assert_int_eq(collect.elements, call.batch * call.m * call.n);
    mem_free(packed);
}

static void check_case(DType dtype, int64_t batch, int64_t m, int64_t n, int64_t k, const Layout *layout) {
    GemmCall call = call_of(dtype, batch, m, n, k, layout);
    const int bytes = dtype_bytes(dtype);
    const size_t c_bytes = (size_t)(call.c_batch * batch * bytes);
    char *const a = mem_zero((size_t)(call.a_batch * batch * bytes) + 64), *const b = mem_zero(
                                                                               (size_t)(call.b_batch * batch * bytes) +
                                                                               64);
    char *const c = mem_zero(c_bytes + 64), *const want = mem_zero(c_bytes + 64);
    fill_matrix(dtype, a, call.a_batch * batch, 1), fill_matrix(dtype, b, call.b_batch * batch, 2);
    call.a = a, call.b = b, call.c = c;
    memset(want, 0x55, c_bytes + 64);
    for (int64_t z = 0; z < batch; z++)
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++) {
                char value[8];
                reference_element(&call, z, i, j, value);
                const int64_t at = z * call.c_batch + i * call.c_row + j * call.c_col;
                kernel_table()->store(dtype)(want + at * bytes, 1, value, 1);
            }
    for (int level = 0; level < levels(); level++)
        for (int way = 0; way < WAY_COUNT; way++) {
            if (way == WAY_packed && batch > 1) continue; /* packed_b is for one B */
            isa_force(level);
            memset(c, 0x55, c_bytes + 64);
            run_way(call, (Way)way);
            ck_assert_msg(!memcmp(c, want, c_bytes + 64), "%s %s %ldx%ldx%ld batch %ld, way %d at %s",
                          dtype_name(dtype), layout->name, (long)m, (long)n, (long)k, (long)batch, way,
                          isa_name((Isa)level));
        }
    isa_force(-1);
    mem_free(a), mem_free(b), mem_free(c), mem_free(want);
}

START_TEST(shapes_and_layouts_give_the_chain) {
    static const int64_t shapes[][3] = {{1, 1, 1},     {4, 4, 4},     {1, 64, 7},    {3, 65, 33},   {6, 128, 16},
                                        {7, 130, 70},  {13, 17, 100}, {20, 64, 64},  {37, 100, 50}, {30, 1024, 5},
                                        {9, 1024, 70}, {200, 3, 9},   {2, 200, 130}, {5, 3, 0},     {47, 100, 33},
                                        {80, 300, 9},  {1, 200, 70}};
    for (int i = 0; i < COUNT_OF(shapes); i++) {
        check_case(DT_f32, 1, shapes[i][0], shapes[i][1], shapes[i][2], &layouts[_i]);
        if (i % 3 == 0) check_case(DT_f32, 3, shapes[i][0], shapes[i][1], shapes[i][2], &layouts[_i]);
        check_case(DT_f64, 1, shapes[i][0], shapes[i][1], shapes[i][2], &layouts[_i]);
    }
}
END_TEST

/* B's k stride is 1. 64 rows of A are packed and B is read in place; of the 33 that are left, alone, nobody would, and
 * B packed is larger than the workspace of the others. */
START_TEST(the_last_part_follows_the_plan_of_all) {
    check_case(DT_f32, 2, 97, 1100, 40, &layouts[1]);
    check_case(DT_f64, 2, 97, 1100, 20, &layouts[1]);
}
END_TEST

START_TEST(every_dtype_gives_the_chain) {
    static const DType dtypes[] = {DT_f16, DT_bf16, DT_i64, DT_i32, DT_i16, DT_i8, DT_u8};
    check_case(dtypes[_i], 1, 5, 3, 4, &layouts[0]);
    for (int layout = 0; layout < COUNT_OF(layouts); layout++) {
        check_case(dtypes[_i], 2, 9, 70, 67, &layouts[layout]);
        check_case(dtypes[_i], 1, 20, 40, 65, &layouts[layout]);
    }
}
END_TEST

/* More than one k block, and more than one chunk of the order, thin and not. */
START_TEST(long_chains_are_cut_at_4096) {
    static const int64_t lengths[] = {1025, 4096, 4097, 9000};
    check_case(DT_f32, 1, 2, 70, lengths[_i], &layouts[0]);
    check_case(DT_f32, 1, 14, 66, lengths[_i], &layouts[1]);
    check_case(DT_f32, 1, 1, 64, lengths[_i], &layouts[1]);
    check_case(DT_f32, 1, 70, 66, lengths[_i], &layouts[1]);
    check_case(DT_f32, 1, 80, 90, lengths[_i], &layouts[1]); /* turned */
    check_case(DT_f64, 1, 3, 5, lengths[_i], &layouts[1]);
    check_case(DT_bf16, 1, 13, 5, lengths[_i], &layouts[2]);
}
END_TEST

/* Few rows, and columns of B contiguous in k: squares turn in registers, one or two at once, and what is left. */
START_TEST(few_rows_turn_squares_of_b) {
    static const int64_t columns[] = {16, 48, 112, 71}, ks[] = {1, 15, 16, 50, 4133};
    static const DType dtypes[] = {DT_f32, DT_f64, DT_i32, DT_i64};
    for (int n = 0; n < COUNT_OF(columns); n++)
        for (int k = 0; k < COUNT_OF(ks); k++) check_case(DT_f32, 1 + k % 2, _i + 1, columns[n], ks[k], &layouts[1]);
    for (int i = 0; i < COUNT_OF(dtypes); i++) {
        check_case(dtypes[i], 2, _i + 1, 96, 37, &layouts[3]);
        check_case(dtypes[i], 1, _i + 1, 40, 1050, &layouts[1]);
    }
}
END_TEST

/* At every level, around the sides of its squares; what lies behind a row stays. */
START_TEST(a_transpose_moves_each_element) {
    enum { SIDE = 37, LD = SIDE + 3 };
    static uint8_t from[SIDE * LD * 8], to[SIDE * LD * 8];
    for (int i = 0; i < (int)sizeof from; i++) from[i] = (uint8_t)random_bits((uint64_t)i);
    for (int level = 0; level < levels() * 2; level++) {
        const int bytes = level % 2 ? 8 : 4;
        isa_force(level / 2);
        for (int rows = 1; rows <= SIDE; rows++)
            for (int columns = 1; columns <= SIDE; columns++) {
                memset(to, 0x5a, sizeof to);
                kernel_transpose(bytes, from, LD, to, LD, rows, columns);
                for (int c = 0; c < columns; c++) {
                    for (int r = 0; r < rows; r++)
                        ck_assert_mem_eq(to + (c * LD + r) * bytes, from + (r * LD + c) * bytes, (size_t)bytes);
                    ck_assert_int_eq(to[(c * LD + rows) * bytes], 0x5a);
                }
            }
    }
}
END_TEST

static double seconds(void) { return 1e-9 * (double)clock_ns(); }

/* Ordinary values: subnormal ones, which the checks have among theirs, slow some cores down a hundredfold. */
static void fill_ordinary(DType dtype, char *at, int64_t n, uint64_t seed) {
    for (int64_t i = 0; i < n; i++) {
        const double value = random_between(random_bits(seed * 7919 + (uint64_t)i), -2, 2);
        const float single = (float)value;
        const void *const from = dtype_compute(dtype) == S_f64 ? (const void *)&value : &single;
        kernel_table()->store(dtype)(at + i * dtype_bytes(dtype), 1, from, 1);
    }
}

enum { BENCH_SAMPLES = 400 };

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *samples, int n) {
    qsort(samples, (size_t)n, sizeof *samples, by_value);
    return samples[n / 2];
}

/* The product and the probe in turn: a neighbour's noise is in both. */
static void bench_shape(int64_t m, int64_t n, int64_t k, DType dtype, const Layout *layout) {
    GemmCall call = call_of(dtype, 1, m, n, k, layout);
    const int bytes = dtype_bytes(dtype);
    char *const a = mem_aligned(64, (size_t)(call.a_batch * bytes));
    char *const b = mem_aligned(64, (size_t)(call.b_batch * bytes));
    char *const c = mem_aligned(64, (size_t)(call.c_batch * bytes));
    void *const workspace = mem_aligned(64, gemm_workspace(&call));
    fill_ordinary(dtype, a, call.a_batch, 1), fill_ordinary(dtype, b, call.b_batch, 2);
    call.a = a, call.b = b, call.c = c, call.workspace = workspace;
    const double flops = 2.0 * (double)(m * n * k), width = stype_bytes(dtype_compute(dtype)) / 4;
    const int repeat = flops < 1e6 ? 1000 : 1;
    static double took[BENCH_SAMPLES], probe[BENCH_SAMPLES];
    int samples = 0;
    for (const double begin = seconds(); seconds() - begin < 0.5 && samples < BENCH_SAMPLES;) {
        const double start = seconds();
        for (int i = 0; i < repeat; i++) gemm(&call);
        took[samples] = (seconds() - start) / repeat;
        probe[samples++] = probe_fma_once() / width;
    }
    const double usual = median(took, samples), able = median(probe, samples);
    printf("%s %-4s %-4s %5ldx%-5ldx%-5ld %10.2f us (min %.2f) %6.1f GFLOP/s  %5.1f %% of the probe, "
           "B at %5.1f GB/s\n",
           isa_name(isa_used()), dtype_name(dtype), layout->name, (long)m, (long)n, (long)k, usual * 1e6, took[0] * 1e6,
           flops / usual * 1e-9, flops / usual * 1e-7 / able, (double)(n * k * bytes) / usual * 1e-9);
    mem_free(a), mem_free(b), mem_free(c), mem_free(workspace);
}

/* KERNEL_BENCH=1x768x3072,8x768x768: these shapes of f32 alone, at the level in use, B row-major and column-major. */
static int bench_named(const char *shapes) {
    long m, n, k;
    printf("%s: probe %.1f GFLOP/s, %.1f GB/s\n", isa_name(isa_used()), probe_fma_gflops(), probe_bandwidth_gbs());
    for (const char *at = shapes; at && sscanf(at, "%ldx%ldx%ld", &m, &n, &k) == 3;) {
        for (int layout = 0; layout < 2; layout++) bench_shape(m, n, k, DT_f32, &layouts[layout]);
        at = strchr(at, ',');
        if (at) at++;
    }
    return 0;
}

static int bench(void) {
    static const int64_t shapes[][3] = {{1024, 1024, 1024}, {1024, 3072, 768}, {256, 768, 3072}, {64, 768, 768},
                                        {16, 4096, 4096},   {64, 4096, 1024},  {16, 768, 768},   {8, 3072, 768},
                                        {4, 3072, 768},     {2, 768, 3072},    {1, 3072, 768},   {1, 768, 3072},
                                        {1, 768, 768},      {64, 64, 64},      {16, 16, 16},     {4, 4, 4}};
    for (int level = ISA_v3; level < levels(); level++) {
        isa_force(level);
        printf("%s: probe %.1f GFLOP/s, %.1f GB/s\n", isa_name((Isa)level), probe_fma_gflops(), probe_bandwidth_gbs());
        for (int i = 0; i < COUNT_OF(shapes); i++)
            for (int layout = 0; layout < 2; layout++)
                bench_shape(shapes[i][0], shapes[i][1], shapes[i][2], DT_f32, &layouts[layout]);
        bench_shape(1024, 1024, 1024, DT_f32, &layouts[2]);
        bench_shape(512, 512, 512, DT_f64, &layouts[0]);
        bench_shape(512, 512, 512, DT_bf16, &layouts[1]);
    }
    return 0;
}

int main(void) {
    const char *const benched = getenv("KERNEL_BENCH");
    if (benched) return strchr(benched, 'x') ? bench_named(benched) : bench();
    TCase *const tests = tcase_create("gemm");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, shapes_and_layouts_give_the_chain, 0, COUNT_OF(layouts));
    tcase_add_test(tests, the_last_part_follows_the_plan_of_all);
    tcase_add_loop_test(tests, every_dtype_gives_the_chain, 0, 7);
    tcase_add_loop_test(tests, long_chains_are_cut_at_4096, 0, 4);
    tcase_add_loop_test(tests, few_rows_turn_squares_of_b, 0, 9);
    tcase_add_test(tests, a_transpose_moves_each_element);
    return suite_run("kernels_gemm", tests);
}
