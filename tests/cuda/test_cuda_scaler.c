/* test_cuda_scaler.c: optimizers and the loss scaler with parameters on a GPU (unit/test_scaler.c): compiled as eager,
 * and a gradient that is inf skips the step [acceptance 3.01, 4.03]. */
#include "tests/unit/contract.h"

enum { DIM = 16 };

typedef struct Model {
    sn_dict *d;
    sn_tensor *w;
    sn_optim *optim;
    sn_scaler *scaler;
} Model;

static sn_tensor *there(sn_tensor *t) { return sn_to_device(t, SN_CUDA(0)); }

static Model model_new(bool scaled) {
    Model m = {.d = sn_dict_new()};
    m.w = sn_param(m.d, "w", there(F32(1, DIM, DIM)));
    m.optim = sn_adam(m.d, 1e-2, 0.01);
    if (scaled) m.scaler = sn_scaler_new(SN_SCALER_OPTIONS(.init_scale = 1024, .growth_interval = 2));
    ck_assert_msg(m.optim && (m.scaler || !scaled), "%s", sn_error_take()->message);
    return m;
}

static void model_free(Model m) {
    sn_scaler_free(m.scaler);
    sn_optim_free(m.optim);
    sn_dict_free(m.d);
}

static sn_status train(sn_frame *f) {
    const Model *const m = sn_closure(f);
    sn_optim_zero_grad(m->optim);
    sn_tensor *const loss = sn_mean(sn_matmul(sn_in(f, 0), m->w));
    sn_backward(m->scaler ? sn_scaler_scale(m->scaler, loss) : loss);
    if (m->scaler)
        sn_scaler_step(m->scaler, m->optim), sn_scaler_update(m->scaler);
    else
        sn_optim_step(m->optim);
    return sn_out(f, 0, loss);
}

static double scale_of(const Model *m) { return sn_item(sn_dict_get(sn_scaler_dict(m->scaler), "scale")); }

START_TEST(a3_01_adam_steps_on_the_device) {
    Model fast = model_new(false), eager = model_new(false);
    const Twin twin = twin_new(train, &fast, &eager, NULL);
    for (int i = 0; i < 4; i++) {
        TWIN_CALL(twin, there(F32(3 + (uint64_t)i, 8, DIM)));
        ck_assert(same_bits(fast.w, eager.w));
    }
    ck_assert_int_eq(stats_of(twin.fast).breaks, 0);
    twin_free(twin);
    model_free(fast), model_free(eager);
}
END_TEST

START_TEST(a4_03_infs_skip_and_halve) {
    Model fast = model_new(true), eager = model_new(true);
    const Twin twin = twin_new(train, &fast, &eager, NULL);
    double scale = 1024;
    for (int i = 0; i < 5; i++) {
        sn_tensor *const x = F32(3 + (uint64_t)i, 8, DIM), *const before = sn_clone(fast.w);
        if (i == 2) sn_fill_(sn_select(sn_select(x, 0, 2), 0, 5), sn_float(INFINITY));
        TWIN_CALL(twin, there(x));
        scale *= i == 2 ? 0.5 : i == 1 || i == 4 ? 2 : 1;
        ck_assert(same_bits(fast.w, eager.w) && same_bits(fast.w, before) == (i == 2));
        ck_assert(scale_of(&fast) == scale && scale_of(&eager) == scale);
    }
    ck_assert_int_eq(stats_of(twin.fast).breaks, 0);
    twin_free(twin);
    model_free(fast), model_free(eager);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {a3_01_adam_steps_on_the_device, a4_03_infs_skip_and_halve};
    return contract_main("test_cuda_scaler", tests, (int)(sizeof tests / sizeof *tests));
}
