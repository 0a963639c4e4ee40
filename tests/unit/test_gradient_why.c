/* test_gradient_why.c: a gradient that does not flow: sn_gradient_why says where it ends, with op and line [acceptance
 * 9.19]. */
#include <stdio.h>

#include "tests/unit/contract.h"

static char line_of[3][64]; /* "test_gradient_why.c:12" */
#define HERE(i) snprintf(line_of[i], sizeof line_of[i], "test_gradient_why.c:%d", __LINE__)

static void begin(void) {
    ck_assert_int_eq(sn_setting_set("track_tensors", "1"), SN_OK);
    memset(line_of, 0, sizeof line_of);
}

static void says(sn_tensor *y, sn_tensor *x, const char *want) {
    const char *const text = sn_gradient_why(y, x);
    ck_assert_msg(sn_check() == SN_OK, "%s", sn_error_take()->message);
    ck_assert_msg(strstr(text, want) != NULL, "'%s' is not in: %s", want, text);
}

static void says_at(sn_tensor *y, sn_tensor *x, const char *before, int place, const char *behind) {
    char want[256];
    snprintf(want, sizeof want, "%s%s%s", before, line_of[place], behind);
    says(y, x, want);
}

START_TEST(a9_19_it_flows) {
    begin();
    sn_tensor *const w = LEAF(1, 3), *const y = sn_sum(sn_mul(sn_exp(w), w));
    says(y, w, "a gradient flows");
    sn_backward(y);
    ck_assert_ptr_nonnull(sn_grad(w));
}
END_TEST

START_TEST(a9_19_detached_where) {
    begin();
    sn_tensor *const w = LEAF(1, 3), *const v = LEAF(2, 3);
    sn_tensor *const h = sn_exp(w);
    HERE(0);
    sn_tensor *const d = sn_detach(h); /* the line below the one that is noted */
    sn_tensor *const y = sn_sum(sn_mul(sn_sin(d), v));
    snprintf(line_of[1], sizeof line_of[1], "test_gradient_why.c:%d", atoi(strrchr(line_of[0], ':') + 1) + 1);
    says(y, v, "a gradient flows");
    says_at(y, w, "detached by aten::detach at ", 1, ": its result has no history");
    ck_assert_int_eq(sn_backward(y), SN_OK);
    ck_assert_ptr_null(sn_grad(w));
    ck_assert_ptr_nonnull(sn_grad(v));
}
END_TEST

START_TEST(a9_19_no_grad_where) {
    begin();
    sn_tensor *const w = LEAF(1, 3);
    HERE(0);
    const sn_scope scope = sn_no_grad_begin();
    sn_tensor *const h = sn_mul(w, w);
    sn_tensor *const kept = sn_keep(h);
    sn_scope_end(scope);
    sn_tensor *const y = sn_sum(sn_exp(kept));
    const int line = atoi(strrchr(line_of[0], ':') + 1);
    snprintf(line_of[1], sizeof line_of[1], "test_gradient_why.c:%d", line + 1);
    snprintf(line_of[2], sizeof line_of[2], "test_gradient_why.c:%d", line + 2);
    says_at(y, w, "aten::mul.Tensor at ", 2, " ran with gradients off, set at ");
    says_at(y, w, "gradients off, set at ", 1, "\n");
    ck_assert_ptr_null(strstr(sn_gradient_why(y, w), "aten::exp"));
    sn_release(kept);
}
END_TEST

START_TEST(a9_19_what_is_not_differentiable) {
    begin();
    sn_tensor *const w = LEAF(1, 3);
    says(sn_to(sn_argmax(w, 0, false), SN_F32), w, "aten::argmax at test_gradient_why.c:");
    says(sn_to(sn_argmax(w, 0, false), SN_F32), w, "is not differentiable: its result is i64");
    says(sn_to(sn_gt_scalar(w, sn_float(0)), SN_F32), w, "is not differentiable: its result is bool");
    says(sn_ones_like(w), w, "aten::ones_like at test_gradient_why.c:");
}
END_TEST

START_TEST(a9_19_each_leaf_has_its_own_reasons) {
    begin();
    sn_tensor *const a = LEAF(1, 3), *const b = LEAF(2, 3), *const c = LEAF(3, 3), *const x = F32(4, 3);
    sn_tensor *const y = sn_sum(sn_mul(sn_add(sn_detach(sn_exp(a)), sn_ceil(sn_detach(b))), x));
    says(y, a, "detached by aten::detach");
    says(y, b, "detached by aten::detach");
    says(y, c, "no op that it was computed by was given that leaf");
    says(y, x, "it requires no gradients: sn_requires_grad_");
    const sn_grad_mode mode = sn_grad_mode_set(SN_INFERENCE);
    sn_tensor *const inside = sn_exp(a);
    sn_grad_mode_set(mode);
    says(inside, a, "it was made in inference mode");
    says(sn_clone(inside), a, "outside of inference mode");
    says(sn_mul(inside, x), a, "was given a tensor that was made in inference mode");
    sn_tensor *const written = sn_zeros(SN_INTS(3), SN_F32); /* in place, too */
    sn_copy_(written, sn_detach(a));
    says(sn_sum(written), a, "detached by aten::detach");
}
END_TEST

START_TEST(a9_19_what_is_asked_wrongly) {
    sn_tensor *const early = LEAF(1, 3), *const y = sn_exp(early);
    if (!strcmp(sn_setting_get("check_handles"), "0")) { /* which tracks tensors, too */
        ck_assert_str_eq(sn_gradient_why(y, early), "");
        expect_error(SN_ERR_STATE, "the setting track_tensors is off");
    }
    begin();
    ck_assert_str_eq(sn_gradient_why(y, y), "");
    expect_error(SN_ERR_ARGUMENT, "x is no leaf");
    says(sn_detach(y), early, "detached by aten::detach");
    says(F32(1, 3), early, "no op that it was computed by");
}
END_TEST

int main(void) {
    const TTest *const tests[] = {a9_19_it_flows,
                                  a9_19_detached_where,
                                  a9_19_no_grad_where,
                                  a9_19_what_is_not_differentiable,
                                  a9_19_each_leaf_has_its_own_reasons,
                                  a9_19_what_is_asked_wrongly};
    return contract_main("gradient_why", tests, sizeof tests / sizeof *tests);
}
