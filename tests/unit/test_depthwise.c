/* test_depthwise.c: convolutions with one channel in each group, and both gradients, bit for bit against the rule
 * [B2.4] written out element by element: padding left out, positions of a weight's gradient in chunks of 4,096, +0 at
 * the end, then bias. Steps, dilations, borders wider than the image, transposed ones, channels_last, numbers that are
 * not finite, channels that do not fill a vector. */
#include <sinter/ops.h>

#include "tests/unit/contract.h"

typedef struct Depthwise {
    int64_t images, channels, rows, size[2], kernel[2], step[2], padding[2], dilation[2];
    bool transposed, last, special;
} Depthwise;

/* Along a dim: position `small` of the side that the kernel makes smaller, and a tap, meet this one of the other. */
static int64_t met(const Depthwise *d, int dim, int64_t small, int64_t tap) {
    return small * d->step[dim] - d->padding[dim] + tap * d->dilation[dim];
}

static int64_t result_side(const Depthwise *d, int dim) {
    const int64_t wide = (d->kernel[dim] - 1) * d->dilation[dim] + 1;
    return d->transposed ? (d->size[dim] - 1) * d->step[dim] - 2 * d->padding[dim] + wide
                         : (d->size[dim] + 2 * d->padding[dim] - wide) / d->step[dim] + 1;
}

static float get(const float *plane, const int64_t *size, int64_t y, int64_t x) { return plane[y * size[1] + x]; }

/* From the large side to the small one: a chain over the taps that meet an element. */
static float gathered(const Depthwise *d, const float *large, const int64_t *size, const float *w, int64_t y,
                      int64_t x) {
    float sum = 0;
    for (int64_t t = 0; t < d->kernel[0] * d->kernel[1]; t++) {
        const int64_t from_y = met(d, 0, y, t / d->kernel[1]), from_x = met(d, 1, x, t % d->kernel[1]);
        if (from_y >= 0 && from_x >= 0 && from_y < size[0] && from_x < size[1])
            sum = fmaf(w[t], get(large, size, from_y, from_x), sum);
    }
    return sum;
}

/* The small side's position that meets `large` by the tap, or -1. */
static int64_t meeting(const Depthwise *d, int dim, int64_t large, int64_t tap, int64_t size) {
    const int64_t at = large + d->padding[dim] - tap * d->dilation[dim];
    return at >= 0 && at % d->step[dim] == 0 && at / d->step[dim] < size ? at / d->step[dim] : -1;
}

static float scattered(const Depthwise *d, const float *small, const int64_t *size, const float *w, int64_t y,
                       int64_t x, float sum) {
    for (int64_t t = 0; t < d->kernel[0] * d->kernel[1]; t++) {
        const int64_t from_y = meeting(d, 0, y, t / d->kernel[1], size[0]);
        const int64_t from_x = meeting(d, 1, x, t % d->kernel[1], size[1]);
        if (from_y >= 0 && from_x >= 0) sum = fmaf(w[t], get(small, size, from_y, from_x), sum);
    }
    return sum;
}

/* The gradient of tap t: a chain over (image, small position), `small` times what it meets of `large`. */
static float weight_sum(const Depthwise *d, const float *small, const int64_t *small_size, int64_t small_image,
                        const float *large, const int64_t *large_size, int64_t large_image, int64_t t) {
    const int64_t each = small_size[0] * small_size[1], all = d->images * each;
    float total = 0, sum = 0;
    for (int64_t i = 0; i < all; i++) {
        const int64_t y = met(d, 0, i % each / small_size[1], t / d->kernel[1]);
        const int64_t x = met(d, 1, i % small_size[1], t % d->kernel[1]);
        if (y >= 0 && x >= 0 && y < large_size[0] && x < large_size[1])
            sum = fmaf(small[i / each * small_image + i % each], get(large + i / each * large_image, large_size, y, x),
                       sum);
        if (i + 1 < all && (i + 1) % 4096) continue;
        total = i < 4096 ? sum : total + sum;
        sum = 0;
    }
    return total + 0.0f;
}

static sn_tensor *last_of(sn_tensor *x) {
    return sn_permute(sn_contiguous(sn_permute(x, SN_INTS(0, 2, 3, 1))), SN_INTS(0, 3, 1, 2));
}

static const float *floats_of(sn_tensor *t) { return sn_data(sn_contiguous(t), SN_F32); }

typedef struct DepthwiseRun {
    sn_tensor *x, *w, *bias, *y, *given, *gradients[2];
} DepthwiseRun;

static sn_tensor *spoilt(sn_tensor *t, bool special) {
    return sn_detach(special ? sn_masked_fill(t, sn_gt_scalar(t, sn_float(1.8)), sn_float(INFINITY)) : t);
}

static void run(const Depthwise *d, DepthwiseRun *r) {
    const int64_t zero[] = {0, 0}, m = d->channels * d->rows;
    sn_tensor *const x = sn_randn(SN_INTS(d->images, d->channels, d->size[0], d->size[1]), SN_F32);
    const int64_t lead = d->transposed ? d->channels : m, each = d->transposed ? d->rows : 1;
    r->x = sn_detach(d->last ? last_of(x) : x);
    r->w = spoilt(sn_randn(SN_INTS(lead, each, d->kernel[0], d->kernel[1]), SN_F32), d->special);
    r->bias = sn_randn(SN_INTS(m), SN_F32);
    sn_requires_grad_(r->x, true), sn_requires_grad_(r->w, true);
    r->y = sn_convolution(r->x, r->w, r->bias, (sn_ints){d->step, 2}, (sn_ints){d->padding, 2},
                          (sn_ints){d->dilation, 2}, d->transposed, (sn_ints){zero, 2}, d->channels);
    ck_assert_msg(r->y != NULL, "%s", sn_error_take()->message);
    sn_tensor *const given = spoilt(sn_randn(sn_sizes(r->y), SN_F32), d->special);
    r->given = d->last ? sn_detach(last_of(given)) : given;
    ck_assert_int_eq(sn_gradients(SN_TENSORS(r->y), SN_TENSORS(r->x, r->w), SN_TENSORS(r->given), 0, r->gradients),
                     SN_OK);
}

/* NaN is NaN whatever its bits. */
static void same(float have, float want, const char *what, int64_t i) {
    ck_assert_msg((have != have && want != want) || !memcmp(&have, &want, 4), "%s[%ld] is %a, not %a", what, (long)i,
                  (double)have, (double)want);
}

/* Elements of one image and channel m of the result, and of the gradients, if rows is 1. */
static void check_channel(const Depthwise *d, const DepthwiseRun *r, int64_t image, int64_t m) {
    const int64_t side[] = {result_side(d, 0), result_side(d, 1)}, taps = d->kernel[0] * d->kernel[1];
    const int64_t n = d->size[0] * d->size[1], k = side[0] * side[1], c = m / d->rows;
    const float *const x = floats_of(r->x) + (image * d->channels + c) * n, *const w = floats_of(r->w) + m * taps;
    const int64_t plane = (image * d->channels * d->rows + m) * k;
    const float *const y = floats_of(r->y) + plane, *const given = floats_of(r->given) + plane;
    const float bias = floats_of(r->bias)[m];
    for (int64_t i = 0; i < k; i++) {
        const int64_t at_y = i / side[1], at_x = i % side[1];
        const float sum =
            d->transposed ? scattered(d, x, d->size, w, at_y, at_x, 0) : gathered(d, x, d->size, w, at_y, at_x);
        same(y[i], sum + 0.0f + bias, "result", i);
    }
    const float *const dx = floats_of(r->gradients[0]) + (image * d->channels + c) * n;
    for (int64_t i = 0; i < n && d->rows == 1; i++) {
        const int64_t at_y = i / d->size[1], at_x = i % d->size[1];
        const float sum =
            d->transposed ? gathered(d, given, side, w, at_y, at_x) : scattered(d, given, side, w, at_y, at_x, 0);
        same(dx[i], sum + 0.0f, "gradient of input", i);
    }
}

static void check_weight(const Depthwise *d, const DepthwiseRun *r) {
    const int64_t side[] = {result_side(d, 0), result_side(d, 1)}, taps = d->kernel[0] * d->kernel[1];
    const int64_t n = d->size[0] * d->size[1], k = side[0] * side[1];
    const float *const dw = floats_of(r->gradients[1]), *const x = floats_of(r->x), *const given = floats_of(r->given);
    for (int64_t i = 0; i < d->channels * d->rows * taps; i++) {
        const int64_t m = i / taps, c = m / d->rows, all = d->channels * d->rows;
        const float want =
            d->transposed ? weight_sum(d, x + c * n, d->size, d->channels * n, given + m * k, side, all * k, i % taps)
                          : weight_sum(d, given + m * k, side, all * k, x + c * n, d->size, d->channels * n, i % taps);
        same(dw[i], want, "gradient of weight", i);
    }
}

static const Depthwise cases[] = {
    {2, 5, 1, {9, 11}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, false, false, false},
    {1, 16, 1, {7, 7}, {5, 5}, {1, 1}, {2, 2}, {1, 1}, false, false, false},
    {2, 40, 1, {14, 13}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, false, false, false},
    {1, 19, 1, {12, 40}, {3, 5}, {3, 2}, {0, 4}, {2, 1}, false, false, false},
    {3, 4, 2, {10, 10}, {3, 3}, {1, 2}, {1, 1}, {1, 2}, false, false, false},
    {1, 3, 1, {70, 70}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, false, false, false}, /* 4,900 positions */
    {2, 33, 1, {20, 21}, {7, 7}, {1, 1}, {3, 3}, {1, 1}, false, true, false},
    {1, 4, 1, {1, 5000}, {1, 4}, {1, 1}, {0, 3}, {1, 1}, false, false, false}, /* more columns than a block */
    {1, 17, 1, {2, 2}, {3, 3}, {1, 1}, {4, 4}, {1, 1}, false, true, false},    /* places that read padding alone */
    {1, 6, 1, {2, 3}, {3, 3}, {1, 2}, {4, 3}, {1, 1}, false, false, false},
    {2, 24, 1, {9, 8}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, false, true, false},
    {2, 24, 1, {9, 8}, {3, 3}, {2, 3}, {1, 1}, {1, 2}, true, true, false},
    {2, 18, 1, {6, 8}, {4, 3}, {2, 2}, {1, 0}, {1, 1}, true, false, false},
    {1, 5, 2, {6, 8}, {2, 2}, {3, 3}, {0, 0}, {1, 1}, true, false, false}, /* phases without taps */
    {2, 20, 1, {9, 8}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, false, true, true},
    {2, 20, 1, {9, 8}, {3, 3}, {2, 1}, {1, 1}, {1, 1}, false, false, true},
};

START_TEST(depthwise_follows_the_rule) {
    const Depthwise *const d = &cases[_i];
    DepthwiseRun r;
    run(d, &r);
    for (int64_t i = 0; i < d->images; i++)
        for (int64_t m = 0; m < d->channels * d->rows; m++) check_channel(d, &r, i, m);
    check_weight(d, &r);
}
END_TEST

/* Results of bf16 are those of its numbers in f32, rounded; a f64 chain is one of fma. Threads do not matter. */
START_TEST(depthwise_of_other_dtypes_and_threads) {
    static const sn_dtype dtypes[] = {SN_BF16, SN_F64, SN_F32};
    const sn_dtype dtype = dtypes[_i];
    sn_tensor *results[2];
    sn_tensor *const x = sn_randn(SN_INTS(2, 37, 30, 31), dtype), *const w = sn_randn(SN_INTS(37, 1, 3, 3), dtype);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(sn_setting_set("threads", i ? "2" : "1"), SN_OK);
        results[i] = sn_conv2d_ex(i ? last_of(x) : x, w, NULL, SN_INTS(1, 1), SN_INTS(1, 1), SN_INTS(1, 1), 37);
    }
    ck_assert(same_bits(results[0], results[1]));
    sn_tensor *const wide =
        sn_conv2d_ex(sn_to(x, SN_F64), sn_to(w, SN_F64), NULL, SN_INTS(1, 1), SN_INTS(1, 1), SN_INTS(1, 1), 37);
    sn_tensor *const near = sn_isclose(sn_to(results[0], SN_F64), wide, dtype == SN_BF16 ? 1e-2 : 1e-4, 1e-2, false);
    ck_assert(sn_item_int(sn_to(sn_all(near), SN_I64)));
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("rule");
    tcase_add_loop_test(tests, depthwise_follows_the_rule, 0, sizeof cases / sizeof *cases);
    tcase_add_loop_test(tests, depthwise_of_other_dtypes_and_threads, 0, 3);
    return suite_run("depthwise", tests);
}
