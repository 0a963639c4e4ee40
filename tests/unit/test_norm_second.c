/* test_norm_second.c: second derivatives of batch norm, whose backward has a rule of its own: in training that goes
 * through the batch's statistics, which are arguments, so that differences must move them with the input (the op tests'
 * differences hold them fixed). */
#include <math.h>

#include "tests/unit/contract.h"

enum { BATCH = 5, CHANNELS = 3 };
static const double EPS = 1e-3;

typedef struct Norm {
    sn_tensor *x, *g, *w;
    bool train;
    const int64_t *mask;
} Norm;

static sn_tensor *numbers(int64_t rows, int64_t columns, double start) {
    double at[BATCH * CHANNELS];
    for (int64_t i = 0; i < rows * columns; i++) at[i] = sin(start + 1.7 * (double)i) + 0.1 * start;
    return columns > 1 ? sn_from_data(at, SN_INTS(rows, columns), SN_F64) : sn_from_data(at, SN_INTS(rows), SN_F64);
}

/* Sums of all results, weighted. */
static sn_tensor *loss_of(const Norm *n) {
    sn_tensor *const x = sn_detach(n->x);
    sn_tensor *const mean = sn_mean_dim(x, SN_INTS(0), false), *const away = sn_sub(x, mean);
    sn_tensor *const var = sn_mean_dim(sn_mul(away, away), SN_INTS(0), false);
    sn_tensor *const rstd = sn_rsqrt(sn_add_scalar(var, sn_float(EPS)));
    sn_tensor *const of_running = numbers(CHANNELS, 1, 2), *const spread = sn_exp(of_running);
    const sn_value in[] = {sn_val(n->g),
                           sn_val(n->x),
                           sn_val(n->w),
                           sn_val(of_running),
                           sn_val(spread),
                           n->train ? sn_val(mean) : sn_none(),
                           n->train ? sn_val(rstd) : sn_none(),
                           sn_bool(n->train),
                           sn_float(EPS),
                           {.kind = SN_KIND_INTS, .n = 3, .ints = n->mask}};
    sn_value out[3];
    int n_out = 3;
    ck_assert_msg(sn_op_call(sn_op_find("aten::native_batch_norm_backward"), in, 10, out, &n_out) == SN_OK, "%s",
                  sn_error_take()->message);
    sn_tensor *sum = NULL;
    for (int i = 0; i < 3; i++) {
        if (!n->mask[i]) continue;
        sn_tensor *const by = i ? numbers(CHANNELS, 1, i) : numbers(BATCH, CHANNELS, 3);
        sn_tensor *const part = sn_sum(sn_mul(out[i].tensor, by));
        sum = sum ? sn_add(sum, part) : part;
    }
    return sum;
}

static void follow(const Norm *n, sn_tensor *leaf, sn_tensor *grad, const char *name) {
    double *const at = sn_data_mut(leaf, SN_F64), got[BATCH * CHANNELS] = {0};
    if (grad) ck_assert_int_eq(sn_read(grad, got, (size_t)sn_numel(grad) * sizeof *got), SN_OK);
    for (int64_t i = 0; i < sn_numel(leaf); i++) {
        const double step = 1e-5, middle = at[i];
        at[i] = middle + step;
        const double above = sn_item(loss_of(n));
        at[i] = middle - step;
        const double want = (above - sn_item(loss_of(n))) / (2 * step);
        at[i] = middle;
        ck_assert_msg(fabs(got[i] - want) <= 1e-6 * (1 + fabs(want)), "%s %s %d%d%d [%d]: %g, not %g", name,
                      n->train ? "train" : "eval", (int)n->mask[0], (int)n->mask[1], (int)n->mask[2], (int)i, got[i],
                      want);
    }
}

START_TEST(batch_norm_has_second_derivatives) {
    static const int64_t masks[][3] = {{1, 1, 1}, {1, 0, 0}, {0, 1, 0}, {0, 0, 1}, {1, 1, 0}};
    for (int train = 0; train < 2; train++)
        for (int m = 0; m < 5; m++) {
            const Norm n = {.x = sn_requires_grad_(numbers(BATCH, CHANNELS, 1), true),
                            .g = sn_requires_grad_(numbers(BATCH, CHANNELS, 5), true),
                            .w = sn_requires_grad_(numbers(CHANNELS, 1, 4), true),
                            .train = train,
                            .mask = masks[m]};
            sn_tensor *leaves[] = {n.x, n.g, n.w}, *grads[3] = {NULL}, *loss = loss_of(&n);
            ck_assert_int_eq(
                sn_gradients((sn_tensors){&loss, 1}, (sn_tensors){leaves, 3}, (sn_tensors){0}, SN_ALLOW_UNUSED, grads),
                SN_OK);
            const sn_grad_mode mode = sn_grad_mode_set(SN_GRAD_OFF);
            static const char *const names[] = {"input", "grad_out", "weight"};
            for (int i = 0; i < 3; i++) follow(&n, leaves[i], grads[i], names[i]);
            sn_grad_mode_set(mode);
        }
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        batch_norm_has_second_derivatives,
    };
    return contract_main("test_norm_second", tests, (int)(sizeof tests / sizeof *tests));
}
