/* test_batch_norm.c: batch and group norm beyond single calls: running statistics are written once per call, in eager,
 * compiled and replayed alike; a channels_last input has the bits of a contiguous one and gives channels_last; a sample
 * of group norm alone has the bits that it has in its batch. */
#include "tests/unit/contract.h"

enum { N = 4, C = 6, H = 3, W = 5 };

typedef struct Net {
    sn_tensor *weight, *bias, *mean, *var;
    bool training, gradients;
} Net;

static Net net_new(bool training, bool gradients) {
    return (Net){.weight = sn_requires_grad_(F32(1, C), true),
                 .bias = sn_requires_grad_(F32(2, C), true),
                 .mean = F32(3, C),
                 .var = sn_exp(F32(4, C)),
                 .training = training,
                 .gradients = gradients};
}

static sn_status normalise(sn_frame *f) {
    const Net *const net = sn_closure(f);
    sn_tensor *const y =
        sn_batch_norm(sn_in(f, 0), net->weight, net->bias, net->mean, net->var, net->training, 0.25, 0.1);
    return sn_out(f, 0, sn_mul(y, y));
}

static void check_net(bool training) {
    Net fast = net_new(training, true), eager = net_new(training, true);
    const Twin twin = twin_new(normalise, &fast, &eager, NULL);
    for (int i = 0; i < 5; i++) {
        sn_tensor *const x = F32(10 + i, N, C, H, W), *const leaf[] = {sn_requires_grad_(sn_clone(x), true),
                                                                       sn_requires_grad_(sn_clone(x), true)};
        sn_tensor *const y = sn_call1(twin.eager, SN_TENSORS(leaf[0])), *const z =
                                                                            sn_call1(twin.fast, SN_TENSORS(leaf[1]));
        ck_assert_msg(y && z, "%s", sn_check() ? sn_error_take()->message : "no result");
        ck_assert(same_bits(y, z));
        ck_assert(same_bits(eager.mean, fast.mean));
        ck_assert(same_bits(eager.var, fast.var));
        ck_assert_int_eq(sn_backward(sn_sum(y)), SN_OK);
        ck_assert_int_eq(sn_backward(sn_sum(z)), SN_OK);
        ck_assert(same_bits(sn_grad(leaf[0]), sn_grad(leaf[1])));
        ck_assert(same_bits(sn_grad(eager.weight), sn_grad(fast.weight)));
        ck_assert(same_bits(sn_grad(eager.bias), sn_grad(fast.bias)));
    }
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    ck_assert(same_bits(fast.mean, F32(3, C)) == !training);
    twin_free(twin);
}

START_TEST(running_statistics_follow_in_training) { check_net(true); }
END_TEST
START_TEST(running_statistics_stay_outside_of_training) { check_net(false); }
END_TEST

/* By the formula, in double. */
START_TEST(values_are_the_formulas) {
    Net net = net_new(true, false);
    sn_tensor *const x = F32(5, N, C, H, W);
    float in[N][C][H * W], out[N][C][H * W], mean[C], var[C], old_mean[C], old_var[C], w[C], b[C];
    sn_read(net.mean, old_mean, sizeof old_mean), sn_read(net.var, old_var, sizeof old_var);
    sn_tensor *const y = sn_batch_norm(x, net.weight, net.bias, net.mean, net.var, true, 0.25, 0.1);
    sn_read(x, in, sizeof in), sn_read(y, out, sizeof out);
    sn_read(net.mean, mean, sizeof mean), sn_read(net.var, var, sizeof var);
    sn_read(net.weight, w, sizeof w), sn_read(net.bias, b, sizeof b);
    for (int c = 0; c < C; c++) {
        double sum = 0, squares = 0;
        const int n = N * H * W;
        for (int i = 0; i < n; i++) sum += in[i / (H * W)][c][i % (H * W)];
        for (int i = 0; i < n; i++) {
            const double away = in[i / (H * W)][c][i % (H * W)] - sum / n;
            squares += away * away;
        }
        ck_assert_double_eq_tol(mean[c], 0.75 * old_mean[c] + 0.25 * sum / n, 1e-6);
        ck_assert_double_eq_tol(var[c], 0.75 * old_var[c] + 0.25 * squares / (n - 1), 1e-5);
        for (int i = 0; i < n; i++) {
            const double away = in[i / (H * W)][c][i % (H * W)] - sum / n;
            ck_assert_double_eq_tol(out[i / (H * W)][c][i % (H * W)], away / sqrt(squares / n + 0.1) * w[c] + b[c],
                                    1e-5);
        }
    }
}
END_TEST

static sn_tensor *channels_last(sn_tensor *x) {
    return sn_permute(sn_clone(sn_contiguous(sn_permute(x, SN_INTS(0, 2, 3, 1)))), SN_INTS(0, 3, 1, 2));
}

START_TEST(layouts_have_the_same_bits) {
    Net a = net_new(true, false), b = net_new(true, false);
    sn_tensor *const x = F32(6, N, C, H, W), *const last = channels_last(x);
    sn_tensor *const y = sn_batch_norm(x, a.weight, a.bias, a.mean, a.var, true, 0.25, 0.1);
    sn_tensor *const z = sn_batch_norm(last, b.weight, b.bias, b.mean, b.var, true, 0.25, 0.1);
    ck_assert_int_eq(sn_strides(y).data[1], H * W);
    ck_assert_int_eq(sn_strides(z).data[1], 1);
    ck_assert(same_bits(y, z) && same_bits(a.mean, b.mean) && same_bits(a.var, b.var));
    sn_tensor *const g = sn_group_norm(x, 3, a.weight, a.bias), *const h = sn_group_norm(last, 3, a.weight, a.bias);
    ck_assert_int_eq(sn_strides(h).data[1], 1);
    ck_assert(same_bits(g, h));
    sn_tensor *const alone = sn_group_norm(sn_narrow(x, 0, 2, 1), 3, a.weight, a.bias);
    ck_assert(same_bits(alone, sn_narrow(g, 0, 2, 1)));
}
END_TEST

START_TEST(instance_norm_writes_the_mean_of_samples) {
    Net net = net_new(true, false);
    sn_tensor *const x = F32(7, N, C, H, W), *const old = sn_clone(net.mean);
    sn_tensor *const y = sn_instance_norm(x, NULL, NULL, net.mean, net.var, true, 0.25, 0.1);
    ck_assert_msg(y != NULL, "%s", sn_check() ? sn_error_take()->message : "no result");
    sn_tensor *const want = sn_add(sn_mul_scalar(old, sn_float(0.75)),
                                   sn_mul_scalar(sn_mean_dim(x, SN_INTS(0, 2, 3), false), sn_float(0.25)));
    float got[C], by[C];
    sn_read(net.mean, got, sizeof got), sn_read(want, by, sizeof by);
    for (int c = 0; c < C; c++) ck_assert_double_eq_tol(got[c], by[c], 1e-6);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {running_statistics_follow_in_training, running_statistics_stay_outside_of_training,
                                  values_are_the_formulas, layouts_have_the_same_bits,
                                  instance_norm_writes_the_mean_of_samples};
    return contract_main("test_batch_norm", tests, (int)(sizeof tests / sizeof *tests));
}
