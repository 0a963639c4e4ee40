/* test_accept_boxed.c: lines 2.09 and 2.15 of the acceptance list by public headers: one boxed kernel for every schema,
 * and what the modes without gradients leave out. */
#include "tests/unit/public_check.h"
#include "tests/unit/suite.h"

/* One logger ------------------------------------------------------------------------------------- */

static char seen[8192];
static sn_status logger(sn_frame *f) {
    strncat(seen, sn_op_schema(sn_frame_op(f)), sizeof seen - strlen(seen) - 1);
    strncat(seen, "\n", sizeof seen - strlen(seen) - 1);
    return sn_redispatch(f);
}

static int count_lines(const char *text) {
    int n = 0;
    for (; (text = strchr(text, '\n')); text++) n++;
    return n;
}

static sn_tensor *marked(sn_tensor *t) { return sn_with_key(t, SN_KEY_XPU); }

/* Tensors, numbers, lists of ints and of tensors, strings, dtypes, several results: the kernel knows none of them. */
START_TEST(a2_09_one_boxed_logger_handles_every_schema) {
    sn_override *const o = sn_fallback_set(SN_KEY_XPU, logger, NULL);
    sn_tensor *const plain = sn_reshape(range(8), SN_INTS(2, 4)), *const x = marked(plain), *pieces[2], *where = NULL;
    sn_tensor *const got[] = {sn_add(x, x),
                              sn_clamp(x, sn_float(-1), sn_float(1)),
                              sn_sum_dim(x, SN_INTS(1), true),
                              sn_mm(x, sn_t(plain)),
                              sn_transpose(x, 0, 1),
                              sn_where(sn_gt_scalar(plain, sn_float(0)), x, x),
                              sn_cat(SN_TENSORS(x, x), 0),
                              sn_gelu_ex(x, "tanh"),
                              sn_to(x, SN_F64),
                              sn_topk(x, 2, -1, true, true, &where)};
    sn_tensor *const want[] = {sn_add(plain, plain),
                               sn_clamp(plain, sn_float(-1), sn_float(1)),
                               sn_sum_dim(plain, SN_INTS(1), true),
                               sn_mm(plain, sn_t(plain)),
                               sn_transpose(plain, 0, 1),
                               plain,
                               sn_cat(SN_TENSORS(plain, plain), 0),
                               sn_gelu_ex(plain, "tanh"),
                               sn_to(plain, SN_F64),
                               sn_topk(plain, 2, -1, true, true, NULL)};
    ck_assert_int_eq(sn_split(x, 1, 0, pieces, 2), 2);
    expect_ok();
    for (int i = 0; i < (int)(sizeof got / sizeof *got); i++) ck_assert_msg(sn_equal(got[i], want[i]), "result %d", i);
    ck_assert_ptr_nonnull(where);
    static const char *const schemas[] = {"aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1)",
                                          "aten::clamp.Tensor(Tensor self, Tensor? min=None",
                                          "aten::sum.dim_IntList(Tensor self, int[1]? dim",
                                          "aten::mm(",
                                          "aten::transpose.int(Tensor(a) self",
                                          "aten::where.self(",
                                          "aten::cat(Tensor[] tensors",
                                          "aten::gelu(Tensor self, *, str approximate",
                                          "aten::_to_copy(Tensor self, *, ScalarType? dtype=None",
                                          "aten::topk(",
                                          "aten::slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None"};
    for (int i = 0; i < (int)(sizeof schemas / sizeof *schemas); i++)
        ck_assert_msg(strstr(seen, schemas[i]) != NULL, "%s is not in:\n%s", schemas[i], seen);
    ck_assert_int_ge(count_lines(seen), 10);
    sn_override_free(o);
    ck_assert_ptr_null(sn_add(x, x)); /* nobody serves the key any more */
    expect_error(SN_ERR_UNSUPPORTED, "xpu");
}
END_TEST

/* Fifty small ops ---------------------------------------------------------------------------------- */

static int n_autograd, n_cpu;
static void count_keys(void *context, int level, const char *topic, const char *line) {
    n_autograd += strstr(line, ": autograd") != NULL;
    n_cpu += strstr(line, ": cpu") != NULL;
}

/* How many kernels run for them. */
static void expect_entries(sn_grad_mode mode, int autograd) {
    sn_tensor *const leaf = sn_requires_grad_(range(4), true);
    const sn_grad_mode before = sn_grad_mode_set(mode);
    n_autograd = n_cpu = 0;
    sn_tensor *y = leaf;
    for (int i = 0; i < 50; i++) y = sn_mul(y, leaf);
    sn_grad_mode_set(before);
    expect_ok();
    ck_assert_int_eq(sn_requires_grad(y), mode == SN_GRAD_ON);
    ck_assert_int_eq(n_cpu, 50);
    ck_assert_int_eq(n_autograd, autograd);
}

START_TEST(a2_15_inference_enters_half_the_kernels) {
    sn_logging_set(count_keys, NULL, "");
    ck_assert_int_eq(sn_setting_set("dispatch_trace", "1"), SN_OK);
    expect_entries(SN_GRAD_ON, 50);
    expect_entries(SN_GRAD_OFF, 50); /* the autograd kernel is entered, and records nothing */
    expect_entries(SN_INFERENCE, 0);
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("boxed");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, a2_09_one_boxed_logger_handles_every_schema);
    tcase_add_test(tests, a2_15_inference_enters_half_the_kernels);
    return suite_run("acceptance: boxed kernels", tests);
}
