/* test_clip.c: sn_clip_grad_norm against torch.nn.utils.clip_grad_norm_, eager and compiled [acceptance 3.01]. */
#include "tests/unit/contract.h"

enum { WIDTH = 32 };

static float number(sn_tensor *t) { return (float)sn_item(t); }

static sn_tensor *with_grad(sn_dict *d, const char *name, sn_tensor *grad) {
    sn_tensor *const p = sn_param(d, name, sn_zeros_like(grad));
    ck_assert_int_eq(sn_grad_set(p, grad), SN_OK);
    return p;
}

/* By hand, in f32 and in PyTorch's order: norm of norms, reciprocal(norm + 1e-6) max_norm, at most 1. */
START_TEST(a3_01_clipping_scales_all_gradients) {
    static const float three[] = {3, 0}, four[] = {0, 4, 0};
    for (int i = 0; i < 2; i++) {
        const float max_norm = i ? 2 : 10;
        sn_dict *const d = sn_dict_new();
        sn_tensor *const a = with_grad(d, "a", sn_from_data(three, SN_INTS(2), SN_F32));
        sn_tensor *const b = with_grad(d, "b", sn_from_data(four, SN_INTS(3), SN_F32));
        ck_assert_int_eq(sn_dict_set(d, "tied", a), SN_OK); /* the same tensor counts once */
        ck_assert_int_eq(sn_dict_set(d, "buffer", F32(1, 3)), SN_OK);
        ck_assert_ptr_nonnull(sn_param(d, "unused", F32(2, 3)));
        sn_tensor *const total = sn_clip_grad_norm(d, max_norm);
        const float factor = i ? 1 / (5.0f + 1e-6f) * max_norm : 1;
        ck_assert_float_eq(number(total), 5);
        ck_assert_int_eq(sn_rank(total), 0);
        ck_assert_float_eq(number(sn_select(sn_grad(a), 0, 0)), 3 * factor);
        ck_assert_float_eq(number(sn_select(sn_grad(b), 0, 1)), 4 * factor);
        sn_dict_free(d);
    }
}
END_TEST

START_TEST(without_gradients_the_norm_is_zero) {
    sn_dict *const d = sn_dict_new();
    ck_assert_float_eq(number(sn_clip_grad_norm(d, 1)), 0);
    ck_assert_ptr_nonnull(sn_param(d, "p", F32(1, 4)));
    sn_tensor *const total = sn_clip_grad_norm(d, 1);
    ck_assert(sn_rank(total) == 0 && sn_dtype_of(total) == SN_F32 && number(total) == 0);
    sn_dict_free(d);
}
END_TEST

START_TEST(a_norm_that_is_no_number_spoils_the_gradients) {
    sn_dict *const d = sn_dict_new();
    with_grad(d, "p", sn_div_scalar(sn_zeros(SN_INTS(2), SN_F32), sn_float(0)));
    sn_tensor *const q = with_grad(d, "q", F32(1, 2));
    ck_assert(isnan(number(sn_clip_grad_norm(d, 1))));
    ck_assert(isnan(number(sn_select(sn_grad(q), 0, 1))));
    sn_dict_free(d);
}
END_TEST

typedef struct Model {
    sn_dict *d;
    sn_tensor *w, *v;
    sn_optim *optim;
} Model;

static Model model_new(void) {
    Model m = {.d = sn_dict_new()};
    m.w = sn_param(m.d, "w", F32(1, WIDTH, WIDTH));
    m.v = sn_param(m.d, "v", F32(2, WIDTH, WIDTH));
    m.optim = sn_adamw(m.d, 1e-2, 0.01);
    return m;
}

static void model_free(Model m) {
    sn_optim_free(m.optim);
    sn_dict_free(m.d);
}

static sn_status train(sn_frame *f) {
    const Model *const m = sn_closure(f);
    sn_optim_zero_grad(m->optim);
    sn_tensor *const h = sn_tanh(sn_matmul(sn_in(f, 0), m->w));
    sn_backward(sn_sum(sn_matmul(h, m->v)));
    sn_tensor *const total = sn_clip_grad_norm(m->d, 0.5);
    sn_optim_step(m->optim);
    return sn_out(f, 0, total);
}

START_TEST(a3_01_a_clipped_step_is_one_graph) {
    Model fast = model_new(), eager = model_new();
    const Twin twin = twin_new(train, &fast, &eager, NULL);
    for (int i = 0; i < 4; i++) {
        ck_assert(number(TWIN_CALL(twin, F32(3 + (uint64_t)i, 8, WIDTH))) > 0.5f);
        ck_assert(same_bits(fast.w, eager.w) && same_bits(fast.v, eager.v));
        ck_assert(same_bits(sn_grad(fast.w), sn_grad(eager.w)));
    }
    const sn_stats stats = stats_of(twin.fast);
    ck_assert_int_eq(stats.breaks, 0);
    ck_assert_int_eq(stats.graphs, 1);
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    twin_free(twin);
    model_free(fast), model_free(eager);
}
END_TEST

START_TEST(bad_arguments_are_named) {
    sn_dict *const d = sn_dict_new();
    ck_assert_ptr_null(sn_clip_grad_norm(NULL, 1));
    expect_error(SN_ERR_ARGUMENT, "the dictionary is NULL");
    ck_assert_ptr_null(sn_clip_grad_norm(d, -1));
    expect_error(SN_ERR_ARGUMENT, "max_norm");
    ck_assert_ptr_null(sn_clip_grad_norm(d, NAN));
    expect_error(SN_ERR_ARGUMENT, "max_norm");
    sn_dict_free(d);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        a3_01_clipping_scales_all_gradients,
        without_gradients_the_norm_is_zero,
        a_norm_that_is_no_number_spoils_the_gradients,
        a3_01_a_clipped_step_is_one_graph,
        bad_arguments_are_named,
    };
    return contract_main("test_clip", tests, (int)(sizeof tests / sizeof *tests));
}
