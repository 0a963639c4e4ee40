/* test_layouts.c: ops on images know no layout [kernels/orders.md]: a channels_last input has the bits of a contiguous
 * one, and so have its gradients, in eager, recorded and replayed calls; it gives a channels_last output [1.13]. The
 * strides are those that PyTorch 2.15 gives. */
#include "tests/unit/contract.h"

enum { CHANNELS = 8 };

typedef struct Weights {
    sn_tensor *kernel, *single, *turned, *scale, *shift, *mean, *var;
} Weights;

static Weights weights_new(void) {
    return (Weights){.kernel = LEAF(1, CHANNELS, CHANNELS, 3, 3),
                     .single = LEAF(2, CHANNELS, 1, 3, 3),
                     .turned = LEAF(3, CHANNELS, CHANNELS / 2, 3, 3),
                     .scale = LEAF(4, CHANNELS),
                     .shift = LEAF(5, CHANNELS),
                     .mean = F32(6, CHANNELS),
                     .var = sn_exp(F32(7, CHANNELS))};
}

typedef sn_tensor *ImageOp(const Weights *w, sn_tensor *x);

static sn_tensor *conv(const Weights *w, sn_tensor *x) {
    return sn_conv2d_ex(x, w->kernel, w->shift, SN_INTS(2, 1), SN_INTS(1, 1), SN_INTS(1, 2), 1);
}
static sn_tensor *depthwise(const Weights *w, sn_tensor *x) {
    return sn_conv2d_ex(x, w->single, NULL, SN_INTS(1), SN_INTS(1), SN_INTS(1), CHANNELS);
}
static sn_tensor *transposed(const Weights *w, sn_tensor *x) {
    return sn_conv_transpose2d_ex(x, w->turned, NULL, SN_INTS(2), SN_INTS(1), SN_INTS(1), 2, SN_INTS(1));
}
static sn_tensor *batch_norm(const Weights *w, sn_tensor *x) {
    return sn_batch_norm(x, w->scale, w->shift, NULL, NULL, true, 0.1, 1e-5);
}
static sn_tensor *batch_norm_running(const Weights *w, sn_tensor *x) {
    return sn_batch_norm(x, w->scale, w->shift, w->mean, w->var, false, 0.1, 1e-5);
}
static sn_tensor *group_norm(const Weights *w, sn_tensor *x) { return sn_group_norm(x, 4, w->scale, w->shift); }
#define OF_X(name, call)                                                                                               \
    static sn_tensor *name(const Weights *w, sn_tensor *x) {                                                           \
        (void)w;                                                                                                       \
        return call;                                                                                                   \
    }
OF_X(max_pool, sn_max_pool2d(x, SN_INTS(3, 3), SN_INTS(2, 2), SN_INTS(1, 1)))
OF_X(avg_pool, sn_avg_pool2d(x, SN_INTS(3, 3), SN_INTS(2, 2), SN_INTS(1, 1)))
OF_X(adaptive, sn_adaptive_avg_pool2d(x, SN_INTS(3, 2)))
OF_X(adaptive_to_one, sn_adaptive_avg_pool2d(x, SN_INTS(1, 1)))
OF_X(bilinear, sn_upsample_bilinear2d(x, SN_INTS(9, 11), false))
OF_X(nearest, sn_upsample_nearest2d(x, SN_INTS(9, 11)))
OF_X(reflection_pad, sn_reflection_pad2d(x, SN_INTS(1, 1, 2, 2)))
OF_X(replication_pad, sn_replication_pad2d(x, SN_INTS(1, 1, 2, 2)))
OF_X(constant_pad, sn_constant_pad_nd(x, SN_INTS(1, 1, 2, 2), sn_float(0.5)))
OF_X(one_sided_pad, sn_constant_pad_nd(x, SN_INTS(0, 1, -1, 0), sn_float(0)))
OF_X(no_pad, sn_constant_pad_nd(x, SN_INTS(0, 0), sn_float(0)))
OF_X(cut, sn_constant_pad_nd(x, SN_INTS(-1, -1), sn_float(0)))
OF_X(hardswish, sn_hardswish(x))
OF_X(both, sn_cat(SN_TENSORS(x, sn_neg(x)), 1))

static const struct {
    const char *name;
    ImageOp *op;
} ops[] = {
#define ROW(name)                                                                                                      \
    { #name, name }
    ROW(conv),
    ROW(depthwise),
    ROW(transposed),
    ROW(batch_norm),
    ROW(batch_norm_running),
    ROW(max_pool),
    ROW(avg_pool),
    ROW(adaptive),
    ROW(bilinear),
    ROW(adaptive_to_one),
    ROW(nearest),
    ROW(reflection_pad),
    ROW(replication_pad),
    ROW(constant_pad),
    ROW(one_sided_pad),
    ROW(no_pad),
    ROW(cut),
    ROW(hardswish),
    ROW(both),
    ROW(group_norm),
#undef ROW
};
enum { OPS = sizeof ops / sizeof *ops };

static sn_tensor *channels_last(sn_tensor *x) { return sn_contiguous_ex(x, sn_int(SN_CHANNELS_LAST)); }

static bool is_channels_last(sn_tensor *t) {
    const sn_ints sizes = sn_sizes(t), strides = sn_strides(t);
    return sizes.n == 4 && strides.data[1] == 1 && strides.data[3] == sizes.data[1] &&
           strides.data[2] == sizes.data[1] * sizes.data[3] && strides.data[0] == strides.data[2] * sizes.data[2];
}

typedef struct Closure {
    Weights weights;
    ImageOp *op;
} Closure;

static sn_status body(sn_frame *f) {
    const Closure *const c = sn_closure(f);
    return sn_out(f, 0, c->op(&c->weights, sn_in(f, 0)));
}

/* The result and the gradients of one call. */
typedef struct Got {
    sn_tensor *y, *grad, *of_kernel, *of_scale;
} Got;

static sn_tensor *taken(sn_tensor *leaf) {
    sn_tensor *const grad = sn_grad(leaf), *const copy = grad ? sn_clone(grad) : NULL;
    sn_grad_set(leaf, NULL);
    return copy;
}

static Got call(sn_function *fn, const Weights *w, bool last) {
    sn_tensor *const image = F32(8, 2, CHANNELS, 7, 6);
    sn_tensor *const x = sn_requires_grad_(last ? channels_last(image) : image, true), *const y = SN_CALL(fn, x);
    ck_assert_msg(y != NULL, "%s", sn_error_take()->message);
    const sn_status status = sn_backward(sn_sum(sn_mul(y, y)));
    ck_assert_msg(status == SN_OK, "%s", sn_error_take()->message);
    return (Got){.y = sn_detach(y), .grad = taken(x), .of_kernel = taken(w->kernel), .of_scale = taken(w->scale)};
}

static const sn_compile_mode modes[] = {SN_COMPILE_EAGER, SN_COMPILE_VERIFY, SN_COMPILE_REPLAY};

static void check_mode(Closure *c, sn_compile_mode mode, const char *name, Got *want) {
    sn_function *const fn = sn_compile(body, c, SN_COMPILE_OPTIONS(.mode = mode));
    for (int i = 0; i < 4; i++) {
        const bool last = i / 2;
        const Got got = call(fn, &c->weights, last);
        if (!want->y) *want = got;
        ck_assert_msg(same_bits(got.y, want->y), "%s: mode %d call %d", name, mode, i);
        ck_assert_msg(same_bits(got.grad, want->grad), "%s: mode %d call %d: gradient", name, mode, i);
        ck_assert_msg(same_bits(got.of_kernel, want->of_kernel), "%s: mode %d call %d: of kernel", name, mode, i);
        ck_assert_msg(same_bits(got.of_scale, want->of_scale), "%s: mode %d call %d: of scale", name, mode, i);
        ck_assert_msg(is_channels_last(got.y) == last, "%s: mode %d call %d: layout", name, mode, i);
    }
    sn_function_free(fn);
}

START_TEST(images_know_no_layout) {
    Closure c = {.weights = weights_new(), .op = ops[_i].op};
    Got want = {0};
    for (int m = 0; m < 3; m++) check_mode(&c, modes[m], ops[_i].name, &want);
}
END_TEST

/* Five dims in channels_last_3d, and as a view of images in channels_last. */
START_TEST(elementwise_ops_keep_the_layout_of_volumes) {
    sn_tensor *const rows = F32(1, 2, 3, 4, 5, 6), *const volumes = sn_permute(rows, SN_INTS(0, 4, 1, 2, 3));
    sn_tensor *const images = sn_permute(F32(2, 1, 2, 3, 2), SN_INTS(0, 3, 1, 2));
    sn_tensor *const inputs[] = {volumes, sn_unsqueeze(images, 2)};
    for (int i = 0; i < 2; i++) {
        sn_tensor *const x = inputs[i], *const plain = sn_contiguous(x);
        const struct {
            sn_tensor *got, *want;
        } pairs[] = {
            {sn_relu(x), sn_relu(plain)},
            {sn_add(x, x), sn_add(plain, plain)},
            {sn_where(sn_gt_scalar(x, sn_float(0)), x, x), sn_where(sn_gt_scalar(plain, sn_float(0)), plain, plain)},
            {sn_mul(x, plain), sn_mul(plain, plain)}};
        for (size_t k = 0; k < sizeof pairs / sizeof *pairs; k++) {
            ck_assert(same_bits(sn_contiguous(pairs[k].got), pairs[k].want));
            ck_assert_msg(!memcmp(sn_strides(pairs[k].got).data, sn_strides(x).data, 5 * sizeof(int64_t)),
                          "input %d, op %zu", i, k);
        }
    }
    ck_assert_ptr_null(sn_contiguous_ex(volumes, sn_int(SN_CHANNELS_LAST)));
    expect_error(SN_ERR_ARGUMENT, "channels_last");
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("layouts");
    tcase_add_loop_test(tests, images_know_no_layout, 0, OPS);
    tcase_add_test(tests, elementwise_ops_keep_the_layout_of_volumes);
    return suite_run("layouts", tests);
}
