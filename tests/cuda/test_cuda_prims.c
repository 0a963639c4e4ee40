/* test_cuda_prims.c: the text before every CUDA program (kernels/cuda/prelude.h): each primitive, cast and conversion
 * of it, as a kernel of its own, gives on the device what the CPU's block kernels give, bit for bit (any NaN
 * is any other); and by the machine's NVRTC they compile for both architectures without a warning or a spill. */
#include "kernels/cuda/prelude.h"
#include "runtime/base/text.h"
#include "runtime/cuda/nvrtc.h"
#include "tests/cuda/device_code.h"
#include "tests/cuda/emulated_control.h"
#include "tests/ref/nan.h"
#include "tests/unit/kernel_inputs.h"
#include "tests/unit/suite.h"

enum { N = 4096, THREADS = 128 };

typedef struct PrimRow {
    const char *name;
    Prim prim;
    int arity;
    bool is_bool;
} PrimRow;
static const PrimRow rows[] = {
#define RESULT_T                                             false
#define RESULT_B                                             true
#define SCALAR(name, arity, types, result, llvm, bound, doc) {#name, PRIM_##name, arity, RESULT_##result},
#include "ir/scalar.def"
#undef SCALAR
};

static SType first_type(const PrimRow *row, SType type) { return row->prim == PRIM_select ? S_b : type; }
static SType result_type(const PrimRow *row, SType type) { return row->is_bool ? S_b : type; }
static bool exists(const PrimRow *row, SType type) { return kernel_table()->prim((int)row->prim, type) != NULL; }

static void print_prim(Text *text, const PrimRow *row, SType type) {
    const char *const first = stype_name(first_type(row, type)), *const t = stype_name(type);
    text_printf(text,
                "KERNEL prim_%s_%s(v_%s *out, const v_%s *a, const v_%s *b, const v_%s *c, int n) {\n"
                "    const int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                "    if (i < n) out[i] = vec_%s_%s(a[i]",
                row->name, t, stype_name(result_type(row, type)), first, t, t, row->name, t);
    for (int k = 1; k < row->arity; k++) text_printf(text, ", %c[i]", 'a' + k);
    text_puts(text, ");\n}\n");
}

static void print_cast(Text *text, SType from, SType to) {
    const char *const a = stype_name(from), *const b = stype_name(to);
    text_printf(text,
                "KERNEL cast_%s_to_%s(v_%s *out, const v_%s *a, int n) {\n"
                "    const int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                "    if (i < n) out[i] = cast_%s_%s(a[i]);\n}\n",
                a, b, b, a, a, b);
}

static void print_memory(Text *text, DType dtype) {
    const char *const d = dtype_name(dtype), *const t = stype_name(dtype_compute(dtype));
    text_printf(text,
                "KERNEL load_%s(v_%s *out, const memory_%s *a, int n) {\n"
                "    const int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                "    if (i < n) out[i] = get_%s(a, i);\n}\n"
                "KERNEL store_%s(memory_%s *out, const v_%s *a, int n) {\n"
                "    const int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                "    if (i < n) put_%s(out, i, a[i]);\n}\n",
                d, t, d, d, d, d, t, d);
}

static const char *program(void) {
    static Text text;
    if (text.at) return text.at;
    text_puts(&text, cuda_prelude);
    for (int i = 0; i < COUNT_OF(rows); i++)
        for (int type = 0; type < S_COUNT; type++)
            if (exists(&rows[i], (SType)type)) print_prim(&text, &rows[i], (SType)type);
    for (int from = 0; from < S_COUNT; from++)
        for (int to = 0; to < S_COUNT; to++)
            if (from != to) print_cast(&text, (SType)from, (SType)to);
    for (int dtype = 0; dtype < DT_COUNT; dtype++)
        if (dtype != DT_default) print_memory(&text, (DType)dtype);
    return text.at;
}

/* running --------------------------------------------------------------------------------------- */

static CuFunction kernel_named(const char *format, const char *a, const char *b) {
    static CuLibrary library;
    char name[64];
    if (!library) library = load_text(program(), "prims");
    snprintf(name, sizeof name, format, a, b);
    return kernel_of(library, name);
}

static bool same_element(DType dtype, const char *a, const char *b) {
    const size_t bytes = (size_t)dtype_bytes(dtype);
    return !memcmp(a, b, bytes) || (is_nan_at(dtype, a) && is_nan_at(dtype, b));
}

static void expect_same(const char *name, DType dtype, const char *got, const char *expected) {
    const int bytes = dtype_bytes(dtype);
    for (int i = 0; i < N; i++)
        if (!same_element(dtype, got + i * bytes, expected + i * bytes)) ck_abort_msg("%s: element %d", name, i);
}

static DType dtype_of(SType type) {
    static const DType of[S_COUNT] = {DT_f32, DT_f64, DT_i32, DT_i64, DT_bool};
    return of[type];
}

static void check_prim(const PrimRow *row, SType type) {
    static char in[3][N * 8], got[N * 8], expected[N * 8];
    const SType types[3] = {first_type(row, type), type, type}, to = result_type(row, type);
    CuAddress at[3], out = device_copy(NULL, N * 8);
    int n = N;
    for (int k = 0; k < 3; k++) {
        fill_input(types[k], (uint64_t)(row->prim * 3 + k) * 31 + 7, in[k], N);
        at[k] = device_copy(in[k], N * 8);
    }
    const CuFunction f = kernel_named("prim_%s_%s", row->name, stype_name(type));
    ck_assert_int_eq(LAUNCH(f, N / THREADS, THREADS, &out, &at[0], &at[1], &at[2], &n), CU_success);
    ck_assert_int_eq(read_back(got, out, N * 8), CU_success);
    for (int i = 0; i < N; i += BLOCK) {
        const int bytes = stype_bytes(type), first = stype_bytes(types[0]);
        kernel_table()->prim((int)row->prim, type)(expected + i * stype_bytes(to), in[0] + i * first, in[1] + i * bytes,
                                                   in[2] + i * bytes, BLOCK);
    }
    char name[64];
    snprintf(name, sizeof name, "%s of %s", row->name, stype_name(type));
    expect_same(name, dtype_of(to), got, expected);
    for (int k = 0; k < 3; k++) cu.MemFree(at[k]);
    cu.MemFree(out);
}

START_TEST(primitives_have_the_bits_of_the_cpu) {
    int n = 0;
    open_device();
    for (int i = 0; i < COUNT_OF(rows); i++)
        for (int type = 0; type < S_COUNT; type++)
            if (exists(&rows[i], (SType)type)) check_prim(&rows[i], (SType)type), n++;
    ck_assert_int_gt(n, 100);
}
END_TEST

/* One kernel of one operand on the device. */
static void run_unary(CuFunction f, const char *in, char *got) {
    CuAddress at = device_copy(in, N * 8), out = device_copy(NULL, N * 8);
    int n = N;
    ck_assert_int_eq(LAUNCH(f, N / THREADS, THREADS, &out, &at, &n), CU_success);
    ck_assert_int_eq(read_back(got, out, N * 8), CU_success);
    cu.MemFree(at), cu.MemFree(out);
}

START_TEST(casts_have_the_bits_of_the_cpu) {
    static char in[N * 8], got[N * 8], expected[N * 8];
    open_device();
    for (int from = 0; from < S_COUNT; from++) {
        for (int to = 0; to < S_COUNT; to++) {
            if (from == to) continue;
            const char *const a = stype_name((SType)from), *const b = stype_name((SType)to);
            fill_input((SType)from, (uint64_t)from * 5 + 3, in, N);
            run_unary(kernel_named("cast_%s_to_%s", a, b), in, got);
            for (int i = 0; i < N; i += BLOCK)
                kernel_table()->cast((SType)from, (SType)to)(expected + i * stype_bytes((SType)to),
                                                             in + i * stype_bytes((SType)from), NULL, NULL, BLOCK);
            expect_same(a, dtype_of((SType)to), got, expected);
        }
    }
}
END_TEST

/* 16-bit floats: all of them; others: what comes. Bools: any byte but 0 is true. */
START_TEST(memory_has_the_bits_of_the_cpu) {
    static char in[N * 8], got[N * 8], expected[N * 8];
    open_device();
    for (int d = 0; d < DT_COUNT; d++) {
        const DType dtype = (DType)d;
        if (dtype == DT_default) continue;
        const SType type = dtype_compute(dtype);
        for (int round = 0; round < 16; round++) {
            for (int i = 0; i < N * 8 / 2; i++) ((uint16_t *)(void *)in)[i] = (uint16_t)(i + round * N);
            run_unary(kernel_named("load_%s", dtype_name(dtype), ""), in, got);
            kernel_table()->load(dtype)(expected, in, 1, N);
            expect_same(dtype_name(dtype), dtype_of(type), got, expected);
        }
        fill_input(type, (uint64_t)d * 11 + 1, in, N);
        run_unary(kernel_named("store_%s", dtype_name(dtype), ""), in, got);
        kernel_table()->store(dtype)(expected, 1, in, N);
        expect_same(dtype_name(dtype), dtype, got, expected);
    }
}
END_TEST

/* NVIDIA's own compiler ------------------------------------------------------------------------- */

/* "12 bytes spill stores": the number is 0 wherever the words stand. */
static void expect_no_spills(const char *log) {
    for (const char *at = strstr(log, " bytes spill"); at; at = strstr(at + 1, " bytes spill"))
        ck_assert_msg(at[-1] == '0' && at[-2] == ' ', "%.60s", at - 12);
}

START_TEST(compiles_without_spills) {
    const char *why;
    CudaCode code;
    use_real_nvrtc();
    if (!nvrtc_find(&why)) {
        printf("skipped: %s\n", why);
        return;
    }
    ck_assert(cuda_compile(program(), "prims", _i, &code) == ST_OK);
    ck_assert_str_eq(code.log, "");
    cuda_code_free(&code);
    ck_assert(cuda_compile_verbose(program(), "prims", _i, &code) == ST_OK);
    ck_assert_ptr_nonnull(strstr(code.log, "bytes spill"));
    expect_no_spills(code.log);
    cuda_code_free(&code);
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("cuda_prims");
    tcase_set_timeout(tests, 300);
    if (!lacks_compiler()) {
        tcase_add_test(tests, primitives_have_the_bits_of_the_cpu);
        tcase_add_test(tests, casts_have_the_bits_of_the_cpu);
        tcase_add_test(tests, memory_has_the_bits_of_the_cpu);
    } else {
        puts("skipped: running them: no clang here, by which the emulated device runs kernels");
    }
    tcase_add_loop_test(tests, compiles_without_spills, 80, 81);
    tcase_add_loop_test(tests, compiles_without_spills, 90, 91);
    return suite_run("cuda_prims", tests);
}
