/* test_cuda_products.c: products on a CUDA device by cores of our own: random sizes, strides, batches and dtypes have
 * the CPU's bits, whichever tile runs; every tile does; by the machine's NVRTC the cores compile for both architectures
 * without a spill.
 *
 *   PRODUCT_SEED=1000 PRODUCT_COUNT=500 bin/test_cuda_products   (PRODUCT_REGISTERS=1: what the cores take) */
#include <sinter/sinter.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/base/base.h"
#include "runtime/cuda/cuda_gemm_core.h"
#include "runtime/cuda/nvrtc.h"
#include "tests/cuda/emulated_control.h"
#include "tests/unit/contract.h"
#include "tests/unit/suite.h"

enum { GPU = SN_CUDA(0) };

static int first_seed = 1, n_seeds = 60;

static sn_tensor *there(sn_tensor *x) { return sn_to_device(x, GPU); }
static sn_tensor *here(sn_tensor *x) { return sn_to_device(x, SN_CPU); }

/* random operands ------------------------------------------------------------------------------- */

static uint64_t state;

static int below(int n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int)((state >> 33) % (uint64_t)n);
}

/* Few large ones: the emulated device multiplies some ten million pairs a second. */
static int64_t random_size(void) {
    static const int most[] = {2, 3, 5, 18, 40, 70, 140};
    return below(most[below(COUNT_OF(most))]);
}
static int64_t random_depth(void) {
    static const int64_t long_ones[] = {4095, 4096, 4097, 4100, 8192, 8195, 9000};
    return below(5) ? random_size() : long_ones[below(COUNT_OF(long_ones))];
}

static sn_tensor *random_values(sn_ints sizes, sn_dtype dtype) {
    sn_tensor *const x =
        sn_mul_scalar(sn_randn(sizes, SN_F32), sn_float(dtype == SN_I32 || dtype == SN_I64 ? 1000 : 1));
    return sn_to(x, dtype);
}

/* [batch, rows, columns] in memory: plain, transposed, with rows apart, at an odd place, every second column, or one
 * row for all (or column, or batch). On the device as on the CPU: a copy is plain, so views are made there again. */
typedef struct Operand {
    sn_tensor *cpu, *gpu;
} Operand;

static Operand random_operand(int64_t batch, int64_t rows, int64_t columns, sn_dtype dtype) {
    const int way = below(8);
    const bool one_batch = !below(4);
    const int64_t b = one_batch ? 1 : batch;
    sn_tensor *base = way == 1   ? random_values(SN_INTS(b, columns, rows), dtype)
                      : way == 2 ? random_values(SN_INTS(b, rows, columns + 4), dtype)
                      : way == 3 ? random_values(SN_INTS(b, rows, columns + 5), dtype)
                      : way == 4 ? random_values(SN_INTS(b, rows, 2 * columns), dtype)
                      : way == 5 ? random_values(SN_INTS(b, 1, columns), dtype)
                      : way == 6 ? random_values(SN_INTS(b, rows, 1), dtype)
                                 : random_values(SN_INTS(b, rows, columns), dtype);
    Operand operand = {base, there(base)};
    for (int i = 0; i < 2; i++) {
        sn_tensor **const x = i ? &operand.gpu : &operand.cpu;
        if (way == 1) *x = sn_transpose(*x, 1, 2);
        if (way == 2) *x = sn_slice(*x, 2, 0, columns, 1);
        if (way == 3) *x = sn_slice(*x, 2, 1, columns + 1, 1);
        if (way == 4) *x = sn_slice(*x, 2, 0, 2 * columns, 2);
        *x = sn_expand(*x, SN_INTS(batch, rows, columns));
    }
    return operand;
}

static sn_tensor *product_of(int form, sn_tensor *a, sn_tensor *b, sn_tensor *c) {
    if (form == 0) return sn_bmm(a, b);
    if (form == 1) return sn_baddbmm_ex(c, a, b, sn_int(2), sn_int(3));
    a = sn_select(a, 0, 0), b = sn_select(b, 0, 0), c = sn_select(c, 0, 0);
    if (form == 2) return sn_mm(a, b);
    if (form == 3) return sn_addmm(c, a, b);
    if (form == 4) return sn_mv(a, sn_select(b, 1, 0));
    return sn_dot(sn_select(a, 0, 0), sn_select(b, 1, 0));
}

START_TEST(random_products_have_the_bits_of_the_cpu) {
    static const sn_dtype dtypes[] = {SN_F32, SN_F32, SN_F32, SN_F64, SN_I32, SN_I64, SN_F16, SN_BF16};
    for (int seed = first_seed; seed < first_seed + n_seeds; seed++) {
        const sn_scope scope = sn_scope_begin();
        state = (uint64_t)seed;
        sn_seed((uint64_t)seed);
        for (int i = 0; i < 4; i++) below(2);
        const int form = below(6);
        const sn_dtype dtype = dtypes[below(COUNT_OF(dtypes))];
        const int64_t least = form >= 4, batch = form >= 2 ? 1 : 1 + below(3);
        const int64_t k = random_depth(), m = random_size() + least, n = random_size() + least;
        const Operand a = random_operand(batch, m, k, dtype), b = random_operand(batch, k, n, dtype);
        const Operand c = random_operand(batch, m, n, dtype);
        ck_assert_msg(sn_check() == SN_OK, "%s", sn_error_take()->message);
        sn_tensor *const got = here(product_of(form, a.gpu, b.gpu, c.gpu));
        sn_tensor *const want = product_of(form, a.cpu, b.cpu, c.cpu);
        ck_assert_msg(sn_check() == SN_OK, "%s", sn_error_take()->message);
        ck_assert_msg(same_bits(got, want), "seed %d: form %d, dtype %d, [%d, %d, %d, %d]", seed, form, (int)dtype,
                      (int)batch, (int)m, (int)n, (int)k);
        sn_scope_end(scope);
    }
}
END_TEST

/* Which core it is says the choice itself; that it is right, the bits. */
static CudaCore core_for(int64_t m, int64_t n, int64_t k) {
    static float block[4];
    CudaProduct product = {.dtype = DT_f32,
                           .batches = 1,
                           .a = (void *)((uintptr_t)block & ~(uintptr_t)15),
                           .b = (void *)((uintptr_t)block & ~(uintptr_t)15),
                           .g = {.m = m, .n = n, .k = k, .a_row = k, .a_col = 1, .b_row = n, .b_col = 1}};
    return cuda_core_choose(&product, 4);
}

START_TEST(large_tiles_have_the_bits_of_the_cpu) {
    static const struct {
        int64_t m, n, k;
        CoreLies left, right;
    } rows[] = {
        {132, 260, 64, LIES_along_k, LIES_along_x},  {257, 131, 40, LIES_along_k, LIES_anyhow},
        {140, 129, 4100, LIES_along_k, LIES_anyhow}, {129, 132, 4099, LIES_anyhow, LIES_along_x},
        {256, 128, 0, LIES_along_k, LIES_along_x},
    };
    for (int i = 0; i < COUNT_OF(rows); i++) {
        const int64_t m = rows[i].m, n = rows[i].n, k = rows[i].k;
        const CudaCore core = core_for(m, n, k);
        ck_assert_int_eq(core.tile, CORE_large);
        ck_assert_int_eq(core.left, rows[i].left);
        ck_assert_int_eq(core.right, rows[i].right);
        sn_tensor *const a = random_values(SN_INTS(m, k), SN_F32), *const b = random_values(SN_INTS(k, n), SN_F32);
        sn_tensor *const got = here(sn_mm(there(a), there(b)));
        ck_assert_msg(sn_check() == SN_OK, "%s", sn_error_take()->message);
        ck_assert_msg(same_bits(got, sn_mm(a, b)), "row %d", i);
        /* the other two layouts of each operand */
        sn_tensor *const at = there(sn_contiguous(sn_t(a))), *const bt = there(sn_contiguous(sn_t(b)));
        ck_assert_msg(same_bits(here(sn_mm(sn_t(at), sn_t(bt))), got), "row %d, transposed", i);
    }
}
END_TEST

/* Operands whose quads are aligned: other tiles and dtypes, at sizes that random ones seldom have. */
START_TEST(tiles_of_all_dtypes_have_the_bits_of_the_cpu) {
    static const sn_dtype dtypes[] = {SN_F32, SN_F64, SN_I32, SN_I64, SN_F16, SN_BF16};
    for (int i = 0; i < COUNT_OF(dtypes); i++)
        for (int m = 4; m < 100; m += 76) {
            sn_tensor *const a = random_values(SN_INTS(m, 36), dtypes[i]), *const b = random_values(SN_INTS(36, 72),
                                                                                                    dtypes[i]);
            sn_tensor *const want = sn_mm(a, b), *const at = there(sn_contiguous(sn_t(a)));
            ck_assert_msg(same_bits(here(sn_mm(there(a), there(b))), want), "dtype %d, %d rows", i, m);
            ck_assert_msg(same_bits(here(sn_mm(sn_t(at), there(b))), want), "dtype %d, %d rows, transposed", i, m);
        }
}
END_TEST

START_TEST(sizes_choose_tiles) {
    ck_assert_int_eq(core_for(1, 4096, 4096).tile, CORE_small);
    ck_assert_int_eq(core_for(4096, 16, 4096).tile, CORE_small); /* by B' A' */
    ck_assert_int_eq(core_for(17, 128, 64).tile, CORE_medium);
    ck_assert_int_eq(core_for(128, 256, 64).tile, CORE_large);
}
END_TEST

/* what is said -------------------------------------------------------------------------------- */

static sn_status two_products(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    return sn_out(f, 0, sn_mm(sn_softmax(sn_mm(x, x), -1), x));
}

static const char *explained(sn_dtype dtype, bool json) {
    static sn_function *last;
    if (last) sn_function_free(last);
    sn_tensor *const x = there(random_values(SN_INTS(24, 24), dtype));
    last = sn_compile(two_products, NULL, NULL);
    for (int call = 0; call < 2; call++) SN_CALL(last, x);
    ck_assert_msg(sn_check() == SN_OK, "%s", sn_error_take()->message);
    return json ? sn_explain_json(last) : sn_explain(last);
}

/* Once for all products of a plan. */
START_TEST(explain_says_that_the_library_is_absent) {
    static const char remark[] = "on no tensor cores: cuBLASLt is absent: there is no cuBLASLt (none";
    for (int json = 0; json < 2; json++) {
        const char *const half = explained(SN_BF16, json), *const at = strstr(half, remark);
        ck_assert_msg(at && strstr(at, "install NVIDIA's CUDA toolkit") && !strstr(at + 1, remark), "%s", half);
        ck_assert_ptr_nonnull(strstr(explained(SN_F16, json), remark));
        ck_assert_ptr_null(strstr(explained(SN_F32, json), "cuBLASLt")); /* it is not asked */
    }
}
END_TEST

/* NVIDIA's own compiler ------------------------------------------------------------------------- */

static int number_before(const char *text, const char *what) {
    const char *at = strstr(text, what);
    ck_assert_msg(at != NULL, "%s", text);
    while (at > text && at[-1] >= '0' && at[-1] <= '9') at--;
    return atoi(at);
}

static void compile_core(CudaCore core, int arch) {
    CudaCode code;
    CoreName name;
    Text text = {0};
    text_puts(&text, cuda_prelude);
    cuda_core_print(&text, &core);
    ck_assert_msg(cuda_compile_verbose(text_str(&text), cuda_core_name(&core, &name), arch, &code) == ST_OK, "%s",
                  sn_error_take()->message);
    const int registers = number_before(code.log, " registers");
    if (getenv("PRODUCT_REGISTERS")) printf("sm_%d %s: %d registers\n", arch, name.buffer, registers);
    ck_assert_msg(!number_before(code.log, " bytes spill stores") && !number_before(code.log, " bytes spill loads"),
                  "%s", code.log);
    ck_assert_msg(!strstr(code.log, "warning"), "%s", code.log);
    const int most = stype_bytes(dtype_compute(core.dtype)) == 8 ? 256 : 128; /* of 65,536: a block's share */
    ck_assert_msg(registers <= most, "%s: %d registers", name.buffer, registers);
    cuda_code_free(&code);
    text_free(&text);
}

START_TEST(cores_compile_without_spills) {
    static const DType others[] = {DT_f64, DT_i32, DT_i64, DT_f16, DT_bf16};
    const char *why;
    use_real_nvrtc();
    if (!nvrtc_find(&why)) {
        printf("skipped: %s\n", why);
        return;
    }
    for (int left = 0; left < CORE_LIES; left++)
        for (int right = 0; right < CORE_LIES; right++)
            if (left != LIES_anyhow || right != LIES_anyhow)
                compile_core((CudaCore){DT_f32, CORE_large, (CoreLies)left, (CoreLies)right}, _i);
    for (int i = 0; i < COUNT_OF(others); i++)
        compile_core((CudaCore){others[i], dtype_bytes(others[i]) == 8 ? CORE_medium_long : CORE_medium, LIES_anyhow,
                                LIES_anyhow},
                     _i);
    compile_core((CudaCore){DT_f32, CORE_medium, LIES_anyhow, LIES_anyhow}, _i);
    compile_core((CudaCore){DT_f32, CORE_small, LIES_along_k, LIES_along_x}, _i);
    compile_core((CudaCore){DT_i64, CORE_small_long, LIES_anyhow, LIES_anyhow}, _i);
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("cuda_products");
    tcase_set_timeout(tests, 300);
    if (getenv("PRODUCT_SEED")) first_seed = atoi(getenv("PRODUCT_SEED"));
    if (getenv("PRODUCT_COUNT")) n_seeds = atoi(getenv("PRODUCT_COUNT"));
    tcase_add_test(tests, sizes_choose_tiles);
    if (!lacks_compiler()) {
        tcase_add_test(tests, random_products_have_the_bits_of_the_cpu);
        tcase_add_test(tests, tiles_of_all_dtypes_have_the_bits_of_the_cpu);
        tcase_add_test(tests, large_tiles_have_the_bits_of_the_cpu);
        tcase_add_test(tests, explain_says_that_the_library_is_absent);
    } else
        puts("skipped: running them: no clang here, by which the emulated device runs kernels");
    tcase_add_loop_test(tests, cores_compile_without_spills, 80, 81);
    tcase_add_loop_test(tests, cores_compile_without_spills, 90, 91);
    return suite_run("cuda_products", tests);
}
