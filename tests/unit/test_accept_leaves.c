/* test_accept_leaves.c: what tensors say of their history, on the CPU, on meta and in fake mode: sn_is_leaf,
 * sn_version_of, sn_output_nr, sn_grad_fn and edges beside what PyTorch 2.15 says of the same lines [9.10, 9.11]. */
#include "tests/unit/contract.h"

#include "runtime/base/base.h"

typedef enum Where { ON_CPU, ON_META, IN_FAKE_MODE, PLACES } Where;

static sn_tensor *make(Where where) {
    sn_tensor *const t = sn_ones(SN_INTS(3), SN_F32);
    return where == ON_META ? sn_to_device(t, SN_META) : t;
}

/* is_leaf, requires_grad, _version, grad_fn.name() without its number, output_nr. */
static bool counts_writes; /* where there is memory */

static void says(const char *what, sn_tensor *t, bool leaf, bool tracked, int64_t version, const char *name, int nr) {
    ck_assert_msg(t != NULL, "%s: %s", what, sn_error_take()->message);
    sn_grad_node *const node = sn_grad_fn(t);
    sn_grad_info info = {.size = sizeof info, .name = "none"};
    if (node) ck_assert_int_eq(sn_grad_node_get(node, &info), SN_OK);
    ck_assert_msg(sn_is_leaf(t) == leaf, "%s: leaf %d", what, sn_is_leaf(t));
    ck_assert_msg(sn_requires_grad(t) == tracked, "%s: requires_grad %d", what, sn_requires_grad(t));
    ck_assert_msg(sn_version_of(t) == (counts_writes ? version : 0), "%s: version %lld", what,
                  (long long)sn_version_of(t));
    ck_assert_msg(!strcmp(info.name, name), "%s: %s, not %s", what, info.name, name);
    ck_assert_msg(sn_output_nr(t) == nr, "%s: output %d", what, sn_output_nr(t));
    ck_assert_msg(sn_check() == SN_OK, "%s: %s", what, sn_error_take()->message);
    sn_grad_node_free(node);
}

static sn_status halve(sn_frame *f) {
    sn_out(f, 0, sn_mul_scalar(sn_in(f, 0), sn_float(0.5)));
    return sn_out(f, 1, sn_mul_scalar(sn_in(f, 0), sn_float(0.25)));
}
static sn_status halve_backward(sn_frame *f) { return sn_set_grad_of(f, 0, sn_grad_of(f, 1)); }
static const sn_custom halves = {sizeof halves, "halves", halve, halve_backward, NULL};

static void check_place(Where where) {
    counts_writes = where == ON_CPU;
    sn_tensor *x = make(where);
    says("x", x, true, false, 0, "none", 0);
    sn_requires_grad_(x, true);
    says("x that requires gradients", x, true, true, 0, "none", 0);
    sn_tensor *const y = sn_mul_scalar(x, sn_float(2));
    says("x * 2", y, false, true, 0, "MulBackward", 0);
    says("detached", sn_detach(y), true, false, 0, "none", 0);
    says("a view", sn_view(y, SN_INTS(-1)), false, true, 0, "ViewBackward", 0);
    sn_tensor *const copy = sn_clone(x);
    sn_add_scalar_(copy, sn_float(1));
    says("added to in place", copy, false, true, 1, "AddBackward", 0);
    sn_tensor *two[2] = {NULL};
    ck_assert_int_eq(sn_custom_call(&halves, NULL, &x, 1, two, 2), SN_OK);
    says("the second of a function", two[1], false, true, 0, "halvesBackward", 1);
    sn_tensor *indices, *const sorted = sn_sort(x, -1, false, &indices);
    says("sorted", sorted, false, true, 0, "SortBackward", 0);
    says("its indices", indices, true, false, 0, "none", 0);
    sn_tensor *const zeroed = make(where);
    sn_zero_(zeroed);
    says("zeroed", zeroed, true, false, 1, "none", 0);
    const sn_grad_mode mode = sn_grad_mode_set(SN_GRAD_OFF);
    says("without gradients", sn_mul_scalar(x, sn_float(2)), true, false, 0, "none", 0);
    sn_grad_mode_set(mode);
    sn_grad_node *const node = sn_grad_fn(y);
    sn_grad_edge edge = {.size = sizeof edge};
    ck_assert_int_eq(sn_grad_node_edge(node, 0, &edge), SN_OK);
    ck_assert_ptr_eq(edge.leaf, x);
    ck_assert_int_eq(edge.output, 0);
    sn_grad_node_free(node);
}

START_TEST(a9_11_leaf_version_and_node_are_pytorchs) { check_place(ON_CPU); }
END_TEST

START_TEST(a9_11_on_meta_they_are_the_same) { check_place(ON_META); }
END_TEST

START_TEST(a9_11_in_fake_mode_they_are_the_same) {
    const bool before = sn_fake_mode_set(true);
    check_place(IN_FAKE_MODE);
    sn_fake_mode_set(before);
}
END_TEST

static sn_status two_results(sn_frame *f) {
    sn_tensor *const y = sn_mul_scalar(sn_in(f, 0), sn_float(2));
    sn_out(f, 0, sn_exp(y));
    return sn_out(f, 1, sn_gt_scalar(y, sn_float(0)));
}

/* Of a compiled function's results they are eager's. */
START_TEST(a9_11_of_compiled_results_they_are_eagers) {
    sn_function *const fn = sn_compile(two_results, NULL, NULL);
    counts_writes = true;
    for (int i = 0; i < 3; i++) {
        sn_tensor *x = sn_requires_grad_(F32(1, 3), true), *out[2];
        sn_call(fn, &x, 1, out, 2);
        says("result 0", out[0], false, true, 0, "ExpBackward", 0);
        says("result 1", out[1], true, false, 0, "none", 0);
    }
    sn_function_free(fn);
}
END_TEST

START_TEST(a9_10_an_inference_tensor_has_no_version) {
    const sn_grad_mode mode = sn_grad_mode_set(SN_INFERENCE);
    sn_tensor *const t = sn_ones(SN_INTS(3), SN_F32);
    sn_grad_mode_set(mode);
    ck_assert(sn_is_leaf(t));
    ck_assert_int_eq(sn_version_of(t), -1);
    expect_error(SN_ERR_STATE, "Inference tensors do not track version counter");
    sn_tensor *const copy = sn_clone(t); /* a normal tensor again */
    ck_assert_int_eq(sn_version_of(copy), 0);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {a9_11_leaf_version_and_node_are_pytorchs, a9_11_on_meta_they_are_the_same,
                                  a9_11_in_fake_mode_they_are_the_same, a9_11_of_compiled_results_they_are_eagers,
                                  a9_10_an_inference_tensor_has_no_version};
    return contract_main("accept_leaves", tests, COUNT_OF(tests));
}
