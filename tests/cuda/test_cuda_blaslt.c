/* test_cuda_blaslt.c: products of f16 and bf16 by cuBLASLt: a row's bits do not depend on how many rows come with it
 * nor on where they lie, compiled code has eager's, what others see is not written after a failed check, a call of a
 * preset reduce-overhead is one launch. On the emulated device by its look-alike (emulator/blaslt.c), whose algorithms
 * have other bits each, so that a wrong pin shows; on a GPU by the library, with every number of rows. */
#include <sinter/sinter.h>
#include <stdio.h>

#include "runtime/cuda/blaslt.h"
#include "tests/cuda/blaslt_test.h"

enum { MOST_ROWS = 300 };

/* rows ------------------------------------------------------------------------------------------ */

typedef enum Form { FORM_mm, FORM_weight, FORM_linear, FORM_turned, FORMS } Form;
static const char *const form_names[] = {"mm(x, w)", "mm(x, t(w))", "linear", "mm(t(x), w)"};

typedef struct Rows {
    Form form;
    sn_dtype dtype;
    int64_t n, k;
    sn_tensor *x, *w, *bias;
} Rows;

static Rows rows_new(Form form, sn_dtype dtype, int64_t n, int64_t k) {
    const bool by_n = form == FORM_weight || form == FORM_linear;
    Rows rows = {form, dtype, n, k, .bias = values(SN_INTS(n), dtype)};
    rows.x = form == FORM_turned ? sn_t(values(SN_INTS(k, MOST_ROWS), dtype)) : values(SN_INTS(MOST_ROWS, k), dtype);
    rows.w = by_n ? values(SN_INTS(n, k), dtype) : values(SN_INTS(k, n), dtype);
    return rows;
}

static sn_tensor *product(const Rows *rows, sn_tensor *x, sn_tensor *w) {
    if (rows->form == FORM_linear) return sn_linear(x, w, rows->bias);
    return sn_mm(x, rows->form == FORM_weight ? sn_t(w) : w);
}

/* The sampled ones are about the multiples that the look-alike's algorithms take. */
static bool is_tried(int64_t m) {
    static const int tried[] = {1, 2, 3, 7, 8, 9, 16, 17, 31, 63, 64, 65, 127, 128, 129, 255, 299, 300};
    if (!on_emulator()) return true;
    for (int i = 0; i < COUNT_OF(tried); i++)
        if (tried[i] == m) return true;
    return false;
}

static void expect_rows(const Rows *rows) {
    char what[80];
    snprintf(what, sizeof what, "%s, dtype %d, n %d, k %d", form_names[rows->form], (int)rows->dtype, (int)rows->n,
             (int)rows->k);
    sn_tensor *const all = here(product(rows, rows->x, rows->w));
    const int id = library_counts().last_id;
    for (int64_t m = 1; m <= MOST_ROWS; m++) {
        const sn_scope scope = sn_scope_begin();
        const int64_t first = (MOST_ROWS - m) / 3;
        if (is_tried(m)) {
            expect_same(product(rows, rows_from(rows->x, 0, m), rows->w), rows_from(all, 0, m), what, m);
            expect_same(product(rows, rows_from(rows->x, first, m), rows->w), rows_from(all, first, m), what, m);
            ck_assert_int_eq(library_counts().last_id, id);
        }
        sn_scope_end(scope);
    }
}

START_TEST(any_number_of_rows_has_the_bits_of_the_batch) {
    static const int sizes[][2] = {{48, 64}, {16, 100}, {50, 24}};
    const EmulatedBlasltCounts before = library_counts();
    for (int i = 0; i < COUNT_OF(sizes); i++) {
        const sn_scope scope = sn_scope_begin();
        const Rows rows = rows_new((Form)_i, i == 1 ? SN_F16 : SN_BF16, sizes[i][0], sizes[i][1]);
        expect_rows(&rows);
        sn_scope_end(scope);
    }
    const EmulatedBlasltCounts after = library_counts();
    if (!on_emulator()) return;
    ck_assert_int_gt(after.products, before.products);
    ck_assert_int_le(after.heuristics - before.heuristics, COUNT_OF(sizes)); /* once for all numbers of rows */
    if (_i == FORM_mm || _i == FORM_turned) ck_assert_int_gt(after.refused, before.refused);
}
END_TEST

/* Its algorithm takes nothing but 2,048 rows at a time. */
START_TEST(rows_are_added_where_the_algorithm_needs_them) {
    if (!on_emulator()) return;
    const Rows rows = rows_new(FORM_weight, SN_BF16, 8, 8);
    sn_tensor *const all = here(product(&rows, rows.x, rows.w));
    ck_assert_int_eq(library_counts().last_id, 23);
    ck_assert_int_eq(library_counts().last_columns, 2048);
    for (int m = 1; m < 20; m += 9)
        expect_same(product(&rows, rows_from(rows.x, 5, m), rows.w), rows_from(all, 5, m), "", m);
}
END_TEST

/* Strides that the library does not take, addresses, batches, numbers of alpha and beta. */
START_TEST(products_are_right_wherever_operands_lie) {
    const sn_dtype dtype = _i ? SN_F16 : SN_BF16;
    sn_tensor *const a = values(SN_INTS(3, 20, 32), dtype), *const b = values(SN_INTS(3, 32, 24), dtype);
    sn_tensor *const c = values(SN_INTS(3, 20, 24), dtype), *const ca = here(a), *const cb = here(b);
    expect_near(sn_bmm(a, b), sn_bmm(ca, cb));
    expect_near(sn_bmm(sn_expand(rows_from(a, 1, 1), SN_INTS(3, 20, 32)), b),
                sn_bmm(sn_expand(rows_from(ca, 1, 1), SN_INTS(3, 20, 32)), cb));
    expect_near(sn_baddbmm_ex(c, a, b, sn_float(2), sn_float(0.5)),
                sn_baddbmm_ex(here(c), ca, cb, sn_float(2), sn_float(0.5)));
    for (int first = 0; first < 3; first++) {
        sn_tensor *const wide = values(SN_INTS(20, 35), dtype), *const x = sn_slice(wide, 1, first, first + 32, 1);
        sn_tensor *const w = sn_select(b, 0, 1), *const same = sn_mm(sn_contiguous(x), w);
        expect_near(sn_mm(x, w), sn_mm(here(x), here(w)));
        expect_same(sn_mm(x, w), same, "columns from", first); /* a copy is not another algorithm */
        sn_tensor *const every = sn_slice(values(SN_INTS(20, 64), dtype), 1, first & 1, 64, 2);
        expect_same(sn_mm(every, w), sn_mm(sn_contiguous(every), w), "every second column from", first);
    }
    expect_near(sn_mm(sn_slice(sn_select(a, 0, 0), 1, 0, 0, 1), sn_slice(sn_select(b, 0, 0), 0, 0, 0, 1)),
                sn_zeros(SN_INTS(20, 24), dtype)); /* k is 0 */
}
END_TEST

/* compiled -------------------------------------------------------------------------------------- */

static sn_status body(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const w = sn_in(f, 1), *const v = sn_in(f, 2), *const b = sn_in(f, 3);
    sn_tensor *const h = sn_gelu(sn_linear(x, w, b)), *const plain = sn_mm(h, v);
    sn_tensor *const relu = sn_relu(sn_mm(h, sn_t(v)));
    sn_tensor *const none = sn_addmm_ex(relu, h, v, sn_float(0), sn_float(1));
    return sn_out(f, 0, sn_add(sn_add(sn_mul(plain, relu), none), sn_to(sn_mm(sn_exp(plain), sn_t(v)), SN_BF16)));
}

/* As in eager code an epilogue's sum is rounded first or not, by the op. */
START_TEST(compiled_products_have_the_bits_of_eager) {
    static const int rows[] = {1, 5, 32, 33};
    const Twin twin = twin_new(body, NULL, NULL, NULL);
    const EmulatedBlasltCounts before = library_counts();
    sn_tensor *in[4] = {NULL, values(SN_INTS(24, 24), SN_BF16), values(SN_INTS(24, 24), SN_BF16),
                        values(SN_INTS(24), SN_BF16)};
    for (int i = 0; i < 3 * COUNT_OF(rows); i++) {
        in[0] = values(SN_INTS(rows[i % COUNT_OF(rows)], 24), SN_BF16);
        expect_ok();
        twin_call(twin, (sn_tensors){in, 4}, (sn_tensors){in, 4});
    }
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    if (on_emulator()) ck_assert_int_eq(library_counts().products - before.products, 2 * 5 * 3 * COUNT_OF(rows));
    twin_free(twin);
}
END_TEST

static sn_status loss_body(sn_frame *f) {
    sn_tensor *const h = sn_relu(sn_linear(sn_in(f, 0), sn_in(f, 1), NULL));
    return sn_out(f, 0, sn_sum(sn_to(sn_mm(h, sn_in(f, 2)), SN_F32)));
}

static sn_tensor *leaf(sn_tensor *x) { return sn_requires_grad_(sn_detach(x), true); }

START_TEST(gradients_of_compiled_products_have_the_bits_of_eager) {
    const Twin twin = twin_new(loss_body, NULL, NULL, NULL);
    sn_tensor *const given[] = {values(SN_INTS(19, 40), SN_BF16), values(SN_INTS(24, 40), SN_BF16),
                                values(SN_INTS(24, 12), SN_BF16)};
    for (int call = 0; call < 3; call++) {
        sn_tensor *fast[3], *eager[3];
        for (int i = 0; i < 3; i++) fast[i] = leaf(given[i]), eager[i] = leaf(given[i]);
        ck_assert_int_eq(sn_backward(sn_call1(twin.fast, (sn_tensors){fast, 3})), SN_OK);
        ck_assert_int_eq(sn_backward(sn_call1(twin.eager, (sn_tensors){eager, 3})), SN_OK);
        for (int i = 0; i < 3; i++) expect_same(sn_grad(fast[i]), sn_grad(eager[i]), "the gradient of", i);
    }
    twin_free(twin);
}
END_TEST

/* checks, errors -------------------------------------------------------------------------------- */

static sn_tensor *places(int64_t a, int64_t b) {
    const int64_t at[] = {a, b};
    return there(sn_from_data(at, SN_INTS(2), SN_I64));
}

START_TEST(a_product_writes_nothing_that_others_see_after_a_failed_check) {
    const sn_dtype dtype = SN_BF16;
    sn_tensor *const x = values(SN_INTS(4, 16), dtype), *const w = values(SN_INTS(16, 24), dtype);
    sn_tensor *const out = there(sn_zeros(SN_INTS(2, 24), dtype)), *const turned =
                                                                       there(sn_zeros(SN_INTS(24, 2), dtype));
    sn_tensor *const zeros = sn_zeros(SN_INTS(2, 24), dtype), *const wrong = places(1, 9), *const right = places(1, 3);
    sn_tensor *const rows = sn_index_select(x, 0, wrong);
    sn_mm_out(out, rows, w);
    sn_mm_out(sn_t(turned), rows, w);
    sn_mm(rows, w);
    expect_ok();
    ck_assert_int_eq(sn_device_synchronize(GPU), SN_ERR_VALUE);
    expect_error(SN_ERR_VALUE, "aten::index_select: index 9 is out of range for 4 elements");
    expect_same(out, zeros, "out", 0);
    expect_same(sn_t(turned), zeros, "turned", 0);
    sn_tensor *const chosen = sn_index_select(x, 0, right), *const want = sn_mm(chosen, w);
    sn_mm_out(out, chosen, w);
    sn_mm_out(sn_t(turned), chosen, w);
    expect_same(out, want, "out", 1);
    expect_same(sn_t(turned), want, "turned", 1);
}
END_TEST

START_TEST(what_the_library_fails_at_is_said) {
    sn_tensor *const x = values(SN_INTS(4, 16), SN_BF16), *const w = values(SN_INTS(16, 24), SN_BF16);
    if (!on_emulator()) return;
    library_fails("Create", 1, 0);
    ck_assert_ptr_null(sn_mm(x, w));
    expect_error(SN_ERR_INTERNAL, "cuBLASLt cannot be used: as emulated (1)");
    library_fails("MatmulAlgoGetHeuristic", 3, 0);
    ck_assert_ptr_null(sn_mm(x, w));
    expect_error(SN_ERR_MEMORY, "cuBLASLt: an algorithm of a product of bf16, M=2048 N=24 K=16: as emulated (3)");
    library_fails("MatrixLayoutCreate", 7, 1);
    ck_assert_ptr_null(sn_mm(x, w));
    expect_error(SN_ERR_INTERNAL, "cuBLASLt: the description of a product of bf16");
    library_fails("Matmul", 13, 0);
    ck_assert_ptr_null(sn_mm(x, w));
    expect_error(SN_ERR_INTERNAL, "cuBLASLt: the launch of a product of bf16, M=4 N=24 K=16: as emulated (13)");
    expect_near(sn_mm(x, w), sn_mm(here(x), here(w)));
}
END_TEST

/* It says "not supported", once for all: the core of our own, which has the CPU's bits. */
START_TEST(without_an_algorithm_the_core_runs) {
    sn_tensor *const x = values(SN_INTS(4, 16), SN_BF16), *const w = values(SN_INTS(16, 24), SN_BF16);
    if (!on_emulator()) return;
    library_fails("MatmulAlgoGetHeuristic", LT_not_supported, 0);
    for (int m = 1; m <= 4; m++)
        expect_same(sn_mm(rows_from(x, 0, m), w), sn_mm(here(rows_from(x, 0, m)), here(w)), "rows", m);
    ck_assert_int_eq(library_counts().products, 0);
}
END_TEST

START_TEST(without_the_library_the_core_runs) {
    setenv("SINTER_CUDA_BLASLT", "none", 1);
    sn_tensor *const x = values(SN_INTS(40, 16), SN_F16), *const w = values(SN_INTS(16, 24), SN_F16);
    const char *why;
    ck_assert_ptr_null(blaslt_find(&why));
    ck_assert_msg(strstr(why, "there is no cuBLASLt (none: ") && strstr(why, "nvidia-cublas"), "%s", why);
    expect_same(sn_mm(x, w), sn_mm(here(x), here(w)), "mm", 0);
    expect_same(sn_gelu(sn_mm(x, w)), sn_gelu(sn_mm(here(x), here(w))), "mm and gelu", 0);
}
END_TEST

/* one launch ------------------------------------------------------------------------------------- */

static sn_status mlp_body(sn_frame *f) {
    sn_tensor *const *const w = sn_closure(f);
    return sn_out(f, 0, sn_linear(sn_gelu(sn_linear(sn_in(f, 0), w[0], w[1])), w[2], w[3]));
}

static int64_t graphs_launched(void) { return emulated().graphs; }

/* 1024-4096-1024 on a GPU, which the emulated device would take minutes for. The input stays, changes its place, has
 * other rows. */
static void run_mlp(int64_t outer, int64_t inner, int times) {
    enum { WARM = 2 };
    sn_tensor *const w[4] = {values(SN_INTS(inner, outer), SN_BF16), values(SN_INTS(inner), SN_BF16),
                             values(SN_INTS(outer, inner), SN_BF16), values(SN_INTS(outer), SN_BF16)};
    sn_tensor *const x = values(SN_INTS(8, outer), SN_BF16);
    sn_function *const fn =
        sn_compile(mlp_body, (void *)(uintptr_t)w,
                   SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY, .preset = SN_PRESET_REDUCE_OVERHEAD));
    sn_function *const eager = sn_compile(mlp_body, (void *)(uintptr_t)w, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
    sn_tensor *const want = SN_CALL(eager, x);
    for (int i = 0; i < times; i++) {
        const sn_scope scope = sn_scope_begin();
        sn_tensor *const in = i % 10 == 9 ? sn_clone(x) : x;
        const int64_t before = graphs_launched();
        sn_tensor *const y = SN_CALL(fn, in);
        if (on_emulator() && i >= WARM) ck_assert_int_eq(graphs_launched() - before, 1);
        if (i < 20 || i % 100 == 0) expect_same(y, want, "call", i);
        if (i % 50 == 49) ck_assert_int_eq(sn_device_synchronize(GPU), SN_OK);
        sn_scope_end(scope);
    }
    for (int m = 1; m < 4; m++)
        expect_same(SN_CALL(fn, rows_from(x, 0, m)), SN_CALL(eager, rows_from(x, 0, m)), "rows", m);
    expect_ok();
    sn_function_free(fn);
    sn_function_free(eager);
}

START_TEST(a5_19_an_mlp_by_the_library_runs_a_thousand_times) {
    if (on_emulator())
        run_mlp(16, 64, 1000);
    else
        run_mlp(1024, 4096, 1000);
}
END_TEST

/* the trace ------------------------------------------------------------------------------------- */

static char said[1 << 16];
static void log_line_into(void *context, int level, const char *topic, const char *line) {
    (void)context, (void)level;
    const size_t n = strlen(said);
    snprintf(said + n, sizeof said - n, "%s: %s;", topic, line);
}

static void expect_said(const char *what) { ck_assert_msg(strstr(said, what) != NULL, "not '%s': %s", what, said); }

START_TEST(a8_02_the_trace_names_core_algorithm_and_sizes_of_a_product) {
    const int64_t n = on_emulator() ? 48 : 3072, k = on_emulator() ? 24 : 768;
    char sizes[64];
    snprintf(sizes, sizeof sizes, ": M=32 N=%d K=%d batches=1;", (int)n, (int)k);
    sn_logging_set(log_line_into, NULL, "dispatch");
    sn_tensor *const x = values(SN_INTS(32, k), SN_BF16), *const w = values(SN_INTS(n, k), SN_BF16);
    said[0] = '\0';
    sn_linear(x, w, values(SN_INTS(n), SN_BF16));
    expect_ok();
    expect_said("dispatch: aten::addmm: cuda;");
    expect_said("dispatch: product bf16: cuBLASLt algorithm ");
    expect_said(sizes);
    said[0] = '\0';
    sn_mm(sn_to(x, SN_F32), sn_t(sn_to(w, SN_F32)));
    expect_said("dispatch: aten::mm: cuda;");
    expect_said(on_emulator() ? "product f32: product_f32_64x64_kk" : "product f32: product_f32_");
    expect_said(sizes);
    sn_logging_set(NULL, NULL, "");
}
END_TEST

/* NVIDIA's own: its functions are there, though no GPU is. */
START_TEST(the_machines_library_has_all_functions) {
    const char *why;
    unsetenv("SINTER_CUDA_BLASLT");
    const Blaslt *const lt = blaslt_find(&why);
    if (!lt) {
        printf("skipped: %s\n", why);
        return;
    }
    ck_assert_int_ge(lt->version, 120000);
    ck_assert_str_ne(lt->GetStatusString(LT_not_supported), "");
}
END_TEST

int main(void) {
    const char *why;
    TCase *const tests = tcase_create("cuda_blaslt");
    tcase_set_timeout(tests, 300);
    tcase_add_test(tests, the_machines_library_has_all_functions);
    if (lacks_compiler())
        puts("skipped: running products: no clang here, by which the emulated device runs kernels");
    else if (!getenv("SINTER_CUDA_BLASLT") && !blaslt_find(&why))
        printf("skipped: running products: %s\n", why);
    else {
        tcase_add_loop_test(tests, any_number_of_rows_has_the_bits_of_the_batch, 0, FORMS);
        tcase_add_test(tests, rows_are_added_where_the_algorithm_needs_them);
        tcase_add_loop_test(tests, products_are_right_wherever_operands_lie, 0, 2);
        tcase_add_test(tests, compiled_products_have_the_bits_of_eager);
        tcase_add_test(tests, gradients_of_compiled_products_have_the_bits_of_eager);
        tcase_add_test(tests, a_product_writes_nothing_that_others_see_after_a_failed_check);
        tcase_add_test(tests, what_the_library_fails_at_is_said);
        tcase_add_test(tests, without_an_algorithm_the_core_runs);
        tcase_add_test(tests, without_the_library_the_core_runs);
        tcase_add_test(tests, a5_19_an_mlp_by_the_library_runs_a_thousand_times);
        tcase_add_test(tests, a8_02_the_trace_names_core_algorithm_and_sizes_of_a_product);
    }
    return suite_run("cuda_blaslt", tests);
}
