/* test_convolution.c: the order of a convolution [B2.4], bit for bit against the rule written out with fmaf: padding
 * left out, chunks of 4,096 positions, layouts, weights that are not finite. */
#include <sinter/ops.h>

#include "tests/unit/contract.h"

typedef struct Shape { /* square kernel and image, one image */
    int64_t channels, out, size, kernel, stride, padding;
} Shape;

static int64_t result_size(Shape s) { return (s.size + 2 * s.padding - s.kernel) / s.stride + 1; }

/* One element of the result: chunk by chunk, +0 at the end, then bias. */
static float element(Shape s, const float *x, const float *w, float bias, int64_t row, int64_t column) {
    const int64_t taps = s.kernel * s.kernel, n = s.channels * taps;
    float total = 0;
    for (int64_t begin = 0; begin < n; begin += 4096) {
        float sum = 0;
        for (int64_t q = begin; q < n && q < begin + 4096; q++) {
            const int64_t y = row * s.stride - s.padding + q % taps / s.kernel;
            const int64_t z = column * s.stride - s.padding + q % taps % s.kernel;
            if (y < 0 || z < 0 || y >= s.size || z >= s.size) continue;
            sum = fmaf(w[q], x[(q / taps * s.size + y) * s.size + z], sum);
        }
        total = begin ? total + sum : sum;
    }
    return total + 0.0f + bias;
}

static sn_tensor *convolved(Shape s, sn_tensor *x, sn_tensor *w, sn_tensor *bias) {
    const int64_t stride[] = {s.stride, s.stride}, padding[] = {s.padding, s.padding}, one[] = {1, 1}, zero[] = {0, 0};
    sn_tensor *const y = sn_convolution(x, w, bias, (sn_ints){stride, 2}, (sn_ints){padding, 2}, (sn_ints){one, 2},
                                        false, (sn_ints){zero, 2}, 1);
    ck_assert_msg(y != NULL, "%s", sn_error_take()->message);
    return y;
}

static sn_tensor *channels_last(sn_tensor *x) {
    return sn_permute(sn_contiguous(sn_permute(x, SN_INTS(0, 2, 3, 1))), SN_INTS(0, 3, 1, 2));
}

/* Blocks of every class that a convolution may work in hold NaN when it asks for them. */
static void dirty_memory(void) {
    const sn_scope scope = sn_scope_begin();
    for (int64_t power = 1 << 12; power < 1 << 19; power *= 2)
        for (int64_t eighth = 8; eighth < 16; eighth++) sn_full(SN_INTS(power / 8 * eighth), sn_float(NAN), SN_F32);
    sn_scope_end(scope);
}

/* special: one weight of the first result channel is infinite, one of its second NaN. */
static void check(Shape s, bool special) {
    const int64_t side = result_size(s), each = s.channels * s.kernel * s.kernel, n = s.out * side * side;
    float *const x = malloc((size_t)(s.channels * s.size * s.size) * 4), *const w = malloc((size_t)(s.out * each) * 4);
    float *const bias = malloc((size_t)s.out * 4), *const want = malloc((size_t)n * 4);
    fill_floats(x, s.channels * s.size * s.size, 1);
    fill_floats(w, s.out * each, 2);
    fill_floats(bias, s.out, 3);
    if (special) w[0] = INFINITY, w[each + 1] = NAN;
    for (int64_t i = 0; i < n; i++) {
        const int64_t m = i / side / side;
        want[i] = element(s, x, w + m * each, bias[m], i / side % side, i % side);
    }
    sn_tensor *const tx = sn_from_data(x, SN_INTS(1, s.channels, s.size, s.size), SN_F32);
    sn_tensor *const tw = sn_from_data(w, SN_INTS(s.out, s.channels, s.kernel, s.kernel), SN_F32);
    sn_tensor *const tb = sn_from_data(bias, SN_INTS(s.out), SN_F32);
    sn_tensor *const wanted = sn_from_data(want, SN_INTS(1, s.out, side, side), SN_F32);
    dirty_memory();
    sn_tensor *const last = convolved(s, channels_last(tx), tw, tb);
    ck_assert_msg(same_bits(convolved(s, tx, tw, tb), wanted), "contiguous differs from the rule");
    ck_assert_msg(same_bits(last, wanted), "channels_last differs from the rule");
    ck_assert_int_eq(sn_strides(last).data[1], 1);
    free(x), free(w), free(bias), free(want);
}

START_TEST(follows_the_rule) {
    check((Shape){3, 5, 9, 3, 1, 1}, false);
    check((Shape){4, 7, 12, 5, 2, 4}, false);
    check((Shape){70, 30, 10, 3, 2, 1}, false);
    check((Shape){5, 9, 40, 3, 1, 1}, false); /* from lines, by offsets */
    check((Shape){3, 7, 66, 7, 2, 3}, false);
    check((Shape){2, 3, 45, 3, 1, 4}, false);
    check((Shape){60, 70, 47, 4, 3, 0}, false);
}
END_TEST

/* 470 * 9 is 4,230 positions: a second chunk. */
START_TEST(chunks_are_cut_by_position) {
    check((Shape){470, 9, 6, 3, 1, 2}, false);
    check((Shape){470, 2, 31, 3, 1, 1}, false);
}
END_TEST

/* inf * 0 for padding would be NaN. */
START_TEST(padding_is_left_out_where_weights_are_not_finite) {
    check((Shape){3, 5, 9, 3, 1, 1}, true);
    check((Shape){470, 3, 4, 3, 1, 1}, true);
}
END_TEST

/* Result, and gradients of input and weight. */
static void differentiated(sn_tensor *x, sn_tensor *w, int64_t stride, bool transposed, sn_tensor **out) {
    const int64_t strides[] = {stride, stride}, one[] = {1, 1}, zero[] = {0, 0};
    sn_requires_grad_(x, true);
    sn_requires_grad_(w, true);
    out[0] = sn_convolution(x, w, NULL, (sn_ints){strides, 2}, (sn_ints){one, 2}, (sn_ints){one, 2}, transposed,
                            (sn_ints){zero, 2}, 2);
    sn_tensor *const given = sn_mul(out[0], out[0]);
    sn_gradients(SN_TENSORS(out[0]), SN_TENSORS(x, w), SN_TENSORS(sn_detach(given)), 0, out + 1);
}

/* Strides of a loop's variable, transposed or not; several images, two groups, sizes around a square of the copies. */
START_TEST(layouts_give_the_same_bits) {
    static const sn_dtype dtypes[] = {SN_F32, SN_F64, SN_BF16};
    const int64_t stride = 1 + _i / 3 % 3;
    const bool transposed = _i >= 9;
    const sn_dtype dtype = dtypes[_i % 3];
    sn_tensor *const x = sn_randn(SN_INTS(3, 34, 7, 9), dtype), *const w = sn_randn(SN_INTS(34, 17, 3, 3), dtype);
    sn_tensor *plain[3], *last[3];
    differentiated(x, w, stride, transposed, plain);
    differentiated(sn_detach(channels_last(x)), sn_detach(channels_last(w)), stride, transposed, last);
    ck_assert_int_eq(sn_strides(last[0]).data[1], 1);
    for (int i = 0; i < 3; i++) ck_assert_msg(same_bits(plain[i], last[i]), "%d differs", i);
    ck_assert_int_eq(sn_check(), SN_OK);
}
END_TEST

/* A kernel of one position is a product where the tensors lie: against the rule, with bias, in chunks, and its
 * gradients in both layouts, where the weight's has more than 4,096 positions. */
START_TEST(kernels_of_one_position) {
    check((Shape){19, 70, 9, 1, 1, 0}, _i);
    check((Shape){4200, 3, 3, 1, 1, 0}, _i);
    sn_tensor *out[2][3];
    const int64_t one[] = {1, 1}, zero[] = {0, 0};
    sn_tensor *const x = sn_randn(SN_INTS(2, 21, 50, 43), SN_F32), *const w = sn_randn(SN_INTS(21, 21, 1, 1), SN_F32);
    for (int last = 0; last < 2; last++) {
        sn_tensor *const in = sn_detach(last ? channels_last(x) : x), *const by = sn_detach(w);
        sn_requires_grad_(in, true), sn_requires_grad_(by, true);
        out[last][0] = sn_convolution(in, by, NULL, (sn_ints){one, 2}, (sn_ints){zero, 2}, (sn_ints){one, 2}, _i,
                                      (sn_ints){zero, 2}, 1);
        sn_gradients(SN_TENSORS(out[last][0]), SN_TENSORS(in, by), SN_TENSORS(sn_detach(out[last][0])), 0,
                     out[last] + 1);
    }
    for (int i = 0; i < 3; i++) ck_assert_msg(same_bits(out[0][i], out[1][i]), "%d differs", i);
    sn_tensor *const turned = sn_convolution(x, sn_transpose(w, 0, 1), NULL, (sn_ints){one, 2}, (sn_ints){zero, 2},
                                             (sn_ints){one, 2}, !_i, (sn_ints){zero, 2}, 1);
    ck_assert(same_bits(out[0][0], turned));
    ck_assert_int_eq(sn_check(), SN_OK);
}
END_TEST

/* A sum over no channels is 0, and bias. */
START_TEST(no_channels_at_all) {
    sn_tensor *const x = sn_randn(SN_INTS(2, 0, 30, 30), SN_F32), *const w = sn_randn(SN_INTS(3, 0, 3, 3), SN_F32);
    sn_tensor *const bias = sn_randn(SN_INTS(3), SN_F32);
    sn_tensor *const y = convolved((Shape){0, 3, 30, 3, 1, 1}, x, w, bias);
    ck_assert(same_bits(y, sn_expand(sn_view(bias, SN_INTS(1, 3, 1, 1)), SN_INTS(2, 3, 30, 30))));
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("rule");
    tcase_add_test(tests, follows_the_rule);
    tcase_add_test(tests, chunks_are_cut_by_position);
    tcase_add_test(tests, padding_is_left_out_where_weights_are_not_finite);
    tcase_add_test(tests, no_channels_at_all);
    tcase_add_loop_test(tests, kernels_of_one_position, 0, 2);
    tcase_add_loop_test(tests, layouts_give_the_same_bits, 0, 18);
    return suite_run("convolution", tests);
}
