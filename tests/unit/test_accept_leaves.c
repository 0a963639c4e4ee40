/* test_accept_leaves.c: what tensors say of their history, on the CPU, on meta and in fake mode: sn_is_leaf,
 * sn_version_of, sn_output_nr, sn_grad_fn and edges beside what PyTorch 2.15 says of the same lines [9.10, 9.11]. */
#include <malloc.h>

#include "tests/unit/contract.h"

#include "runtime/base/base.h"

typedef enum Where { ON_CPU, ON_META, IN_FAKE_MODE, PLACES } Where;

static sn_tensor *make(Where where) {
    sn_tensor *const t = sn_ones(SN_INTS(3), SN_F32);
    return where == ON_META ? sn_to_device(t, SN_META) : t;
}

/* is_leaf, requires_grad, _version, grad_fn.name() without its number, output_nr. */
static void says(const char *what, sn_tensor *t, bool leaf, bool tracked, int64_t version, const char *name, int nr) {
    ck_assert_msg(t != NULL, "%s: %s", what, sn_error_take()->message);
    sn_grad_node *const node = sn_grad_fn(t);
    sn_grad_info info = {.size = sizeof info, .name = "none"};
    if (node) ck_assert_int_eq(sn_grad_node_get(node, &info), SN_OK);
    ck_assert_msg(sn_is_leaf(t) == leaf, "%s: leaf %d", what, sn_is_leaf(t));
    ck_assert_msg(sn_requires_grad(t) == tracked, "%s: requires_grad %d", what, sn_requires_grad(t));
    ck_assert_msg(sn_version_of(t) == version, "%s: version %lld", what, (long long)sn_version_of(t));
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

static sn_tensor *two_by_three(Where where) {
    sn_tensor *const t = sn_ones(SN_INTS(2, 3), SN_F32);
    return where == ON_META ? sn_to_device(t, SN_META) : t;
}

/* Of several that share memory, or would. */
static void versions_are(const char *what, sn_tensor *const *of, const int64_t *versions, int n) {
    for (int i = 0; i < n; i++)
        ck_assert_msg(sn_version_of(of[i]) == versions[i], "%s: version %lld of tensor %d, not %lld", what,
                      (long long)sn_version_of(of[i]), i, (long long)versions[i]);
}
#define VERSIONS_ARE(what, n, versions, ...)                                                                           \
    versions_are(what, (sn_tensor *const[]){__VA_ARGS__}, (const int64_t[])versions, n)
#define EACH(...)                                                                                                      \
    { __VA_ARGS__ }

/* What PyTorch 2.15 says of these lines on the CPU, on meta and under FakeTensorMode alike; out= that is resized counts
 * there, too. */
static void check_versions(Where where) {
    sn_tensor *const x = two_by_three(where);
    sn_tensor *const view = sn_view(x, SN_INTS(-1)), *const alone = sn_detach(x), *const turned = sn_t(x);
    VERSIONS_ARE("made", 4, EACH(0, 0, 0, 0), x, view, alone, turned);
    sn_add_scalar_(x, sn_float(1));
    VERSIONS_ARE("x += 1", 4, EACH(1, 1, 1, 1), x, view, alone, turned);
    sn_mul_scalar_(view, sn_float(2));
    VERSIONS_ARE("view *= 2", 4, EACH(2, 2, 2, 2), x, view, alone, turned);
    sn_tensor *const copy = sn_clone(x);
    VERSIONS_ARE("a copy", 2, EACH(0, 2), copy, x);
    sn_add_out(copy, x, x);
    VERSIONS_ARE("out=copy", 2, EACH(1, 2), copy, x);
    sn_zero_(x);
    sn_fill_(x, sn_float(3));
    sn_copy_(x, copy);
    VERSIONS_ARE("zero, fill, copy", 2, EACH(5, 5), x, turned);
    sn_add_scalar_(sn_select(x, 0, 0), sn_float(1));
    VERSIONS_ARE("x[0] += 1", 2, EACH(6, 6), x, view);
    sn_tensor *const s = two_by_three(where), *parts[2];
    ck_assert_int_eq(sn_split(s, 1, 0, parts, 2), 2);
    sn_add_scalar_(s, sn_float(1));
    VERSIONS_ARE("s += 1", 3, EACH(1, 1, 1), s, parts[0], parts[1]);
    sn_release(sn_keep(view)); /* a handle that goes takes nothing along */
    VERSIONS_ARE("after", 1, EACH(6), x);
    ck_assert_msg(sn_check() == SN_OK, "%s", sn_error_take()->message);
}

START_TEST(a9_11_versions_count_writes_as_pytorchs) {
    check_versions(ON_CPU);
    check_versions(ON_META);
    const bool before = sn_fake_mode_set(true);
    check_versions(IN_FAKE_MODE);
    sn_fake_mode_set(before);
}
END_TEST

static sn_status bump(sn_frame *f) { return sn_add_scalar_(sn_in(f, 0), sn_float(1)) ? SN_OK : sn_check(); }

/* What a backward needs was written: the error that there is with values. */
START_TEST(a9_11_saved_and_written_without_values_is_an_error) {
    const sn_op *const op =
        sn_op_register(SN_OP_DESC(.schema = "leaves::bump_(Tensor(a!) x) -> ()", .flags = SN_OP_PURE, .cpu = bump));
    ck_assert_ptr_nonnull(op);
    for (int place = ON_CPU; place < PLACES; place++) {
        const bool before = sn_fake_mode_set(place == IN_FAKE_MODE);
        sn_tensor *const y = sn_exp(sn_mul_scalar(sn_requires_grad_(make((Where)place), true), sn_float(2)));
        sn_tensor *const z = sn_sum(y);
        sn_grad_mode_set(SN_GRAD_OFF);
        const sn_value in = sn_val(sn_detach(y));
        int n = 0;
        ck_assert_int_eq(sn_op_call(op, &in, 1, NULL, &n), SN_OK); /* by a user's op, once */
        sn_grad_mode_set(SN_GRAD_ON);
        ck_assert_int_eq(sn_version_of(y), 1);
        ck_assert_int_ne(sn_backward(z), SN_OK);
        expect_error(SN_ERR_STATE, "version");
        sn_fake_mode_set(before);
    }
}
END_TEST

/* Handles that come and go by the thousand leave nothing behind. */
START_TEST(a9_11_counters_go_with_their_tensors) {
    size_t before = 0;
    keep_no_handles();
    for (int round = 0; round < 20; round++) {
        if (round == 2) before = mallinfo2().uordblks;
        const sn_scope scope = sn_scope_begin();
        for (int i = 0; i < 500; i++) {
            sn_tensor *const x = two_by_three(ON_META), *const view = sn_view(x, SN_INTS(-1));
            ck_assert_int_eq(sn_version_of(view), 0); /* a new tensor where an old one was counts from 0 */
            sn_add_scalar_(i % 2 ? x : view, sn_float(1));
            ck_assert_int_eq(sn_version_of(x), 1);
        }
        sn_scope_end(scope);
    }
    const size_t after = mallinfo2().uordblks; /* of 18,000 handles' counters nothing is left */
    ck_assert_msg(after < before + 200000, "%zu bytes more", after - before);
}
END_TEST

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
    const TTest *const tests[] = {
        a9_11_leaf_version_and_node_are_pytorchs,  a9_11_on_meta_they_are_the_same,
        a9_11_versions_count_writes_as_pytorchs,   a9_11_saved_and_written_without_values_is_an_error,
        a9_11_counters_go_with_their_tensors,      a9_11_in_fake_mode_they_are_the_same,
        a9_11_of_compiled_results_they_are_eagers, a9_10_an_inference_tensor_has_no_version};
    return contract_main("accept_leaves", tests, COUNT_OF(tests));
}
