/* test_quant_pass.c: int8 products in captured graphs [acceptance 5.23]: what the pass makes of a graph, how far its
 * results are from f32's (a bound by the scales alone), and how well it reads handwritten digits. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/base/log.h"
#include "tests/unit/public_check.h"
#include "tests/unit/suite.h"

typedef struct Mlp {
    sn_tensor *w1, *b1, *w2, *b2;
} Mlp;

static sn_status mlp(sn_frame *f) {
    const Mlp *const m = sn_closure(f);
    sn_tensor *const h = sn_relu(sn_linear(sn_in(f, 0), m->w1, m->b1));
    return sn_out(f, 0, sn_linear(h, m->w2, m->b2));
}

static Mlp random_mlp(void) {
    sn_seed(5);
    return (Mlp){sn_randn(SN_INTS(8, 4), SN_F32), sn_randn(SN_INTS(8), SN_F32), sn_randn(SN_INTS(3, 8), SN_F32),
                 sn_randn(SN_INTS(3), SN_F32)};
}

static sn_graph *graph_of(sn_body body, const void *closure, sn_tensor *x, sn_dynamic dynamic) {
    sn_function *const fn = sn_compile(body, (void *)closure, SN_COMPILE_OPTIONS(.dynamic = dynamic));
    sn_graph *const g = sn_graph_capture(fn, (const sn_value[]){sn_val(x)}, 1);
    ck_assert_msg(g != NULL, "%s", sn_error_take()->message);
    sn_function_free(fn);
    return g;
}

static sn_tensor *called(sn_graph *g, sn_tensor *x) {
    sn_function *const fn = sn_graph_compile(g, NULL);
    sn_tensor *y = NULL;
    for (int i = 0; i < 2; i++) ck_assert_msg(sn_call(fn, &x, 1, &y, 1) == SN_OK, "%s", sn_error_take()->message);
    sn_function_free(fn);
    return y;
}

static sn_tensor *of_body(sn_body body, const void *closure, sn_tensor *x) {
    sn_function *const fn = sn_compile(body, (void *)closure, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
    sn_tensor *const y = SN_CALL(fn, x);
    sn_function_free(fn);
    return y;
}

static void expect_same(sn_tensor *a, sn_tensor *b) {
    expect_ok();
    ck_assert(sn_equal(a, b));
}

static int count_ops(sn_graph *g, const char *op) {
    int n = 0;
    for (int i = 0; i < sn_graph_count(g); i++) n += !strcmp(sn_node_op(sn_graph_node(g, i)), op);
    return n;
}

static sn_graph *converted(sn_body body, const void *closure, sn_tensor *x, bool by_fakes) {
    sn_graph *const g = graph_of(body, closure, x, SN_DYNAMIC_NEVER);
    sn_quantizer *const q = sn_quant_prepare(g, NULL);
    ck_assert_msg(q != NULL, "%s", sn_error_take()->message);
    expect_same(called(g, x), of_body(body, closure, x));
    if (by_fakes) ck_assert_int_eq(sn_quant_fake(q), SN_OK);
    ck_assert_msg(sn_quant_convert(q) == SN_OK, "%s", sn_error_take()->message);
    ck_assert_int_eq(sn_graph_check(g), SN_OK);
    sn_quantizer_free(q);
    return g;
}

static void expect_text(sn_graph *g, const char *part) {
    ck_assert_msg(strstr(sn_graph_text(g), part) != NULL, "no '%s' in %s", part, sn_graph_text(g));
}

/* Observed, the graph gives what the function gives; converted, its text is that of integers. */
START_TEST(a5_23_observers_then_integers) {
    const Mlp m = random_mlp();
    sn_tensor *const x = sn_randn(SN_INTS(5, 4), SN_F32);
    sn_graph *const g = graph_of(mlp, &m, x, SN_DYNAMIC_NEVER);
    sn_quantizer *const q = sn_quant_prepare(g, NULL);
    ck_assert_int_eq(sn_quant_count(q), 2);
    ck_assert_int_eq(count_ops(g, "quant::observe"), 2);
    ck_assert_int_eq(sn_quant_convert(q), SN_ERR_STATE);
    expect_error(SN_ERR_STATE, "no value yet");
    expect_same(called(g, x), of_body(mlp, &m, x));
    ck_assert_int_eq(sn_quant_convert(q), SN_OK);
    ck_assert_int_eq(sn_graph_check(g), SN_OK);
    ck_assert_int_eq(count_ops(g, "quant::observe") + count_ops(g, "aten::addmm") + count_ops(g, "aten::t"), 0);
    expect_text(g, "(%x0: f32[5,4], %closed1: f32[8], %closed3: f32[3], %weight0: i8[4,8], %offset0: i32[8], "
                   "%weight1: i8[8,3])");
    expect_text(
        g, "%1 = aten::_int_mm(%0, %weight0)\n  %2 = aten::sub.Tensor(%1, %offset0)\n  %3 = aten::mul.Tensor(%2, ");
    ck_assert_int_eq(sn_quant_convert(q), SN_ERR_STATE);
    expect_error(SN_ERR_STATE, "converted already");
    sn_quantizer_free(q);
    ck_assert_int_eq(sn_size(called(g, x), 1), 3);
    sn_graph_free(g);
}
END_TEST

/* The bound --------------------------------------------------------------------------------------
 * With x' = x + ex and w' = w + ew, where |ex| <= sx / 2 and |ew| <= sw / 2 in the range that was seen, a product is
 * off by at most sum |x| sw / 2 + |w| sx / 2 + sx sw / 4, and what f32 rounds. */

typedef sn_tensor *Product(sn_tensor *x, sn_tensor *w, sn_tensor *bias);
typedef struct Layer {
    Product *product;
    sn_tensor *w, *bias;
} Layer;

static sn_status layer(sn_frame *f) {
    const Layer *const l = sn_closure(f);
    return sn_out(f, 0, l->product(sn_in(f, 0), l->w, l->bias));
}

static double scale_of(sn_tensor *t, const sn_observer_options *options) {
    sn_qparams q;
    sn_observer *const o = sn_observer_new(options);
    sn_observer_observe(o, t);
    ck_assert_int_eq(sn_observer_qparams(o, &q), SN_OK);
    sn_observer_free(o);
    return q.scale;
}

static sn_tensor *times(sn_tensor *t, double by) { return sn_mul_scalar(t, sn_float(by)); }

static sn_tensor *bound_of(Product *product, sn_tensor *x, sn_tensor *w) {
    const double sx = scale_of(x, NULL), sw = scale_of(w, SN_OBSERVER_OPTIONS(.dtype = SN_I8, .symmetric = true));
    sn_tensor *const ax = sn_abs(sn_to(x, SN_F64)), *const aw = sn_abs(sn_to(w, SN_F64));
    sn_tensor *const by_w = times(product(ax, sn_ones_like(aw), NULL), sw / 2);
    sn_tensor *const by_x = times(product(sn_ones_like(ax), aw, NULL), sx / 2);
    sn_tensor *const both = times(product(sn_ones_like(ax), sn_ones_like(aw), NULL), sx * sw / 4);
    return times(sn_add(sn_add(by_w, by_x), both), 1 + 1e-4);
}

static void expect_within_bound(const Layer *l, sn_tensor *x, bool by_fakes) {
    sn_graph *const g = converted(layer, l, x, by_fakes);
    ck_assert_int_eq(count_ops(g, "aten::_int_mm"), 1);
    sn_tensor *const got = sn_to(called(g, x), SN_F64);
    sn_tensor *const wide_bias = l->bias ? sn_to(l->bias, SN_F64) : NULL;
    sn_tensor *const exact = l->product(sn_to(x, SN_F64), sn_to(l->w, SN_F64), wide_bias);
    sn_tensor *const off = sn_abs(sn_sub(got, exact)), *const bound = bound_of(l->product, x, l->w);
    const double worst = sn_item(sn_amax(sn_div(off, bound)));
    expect_ok();
    ck_assert_msg(worst <= 1, "%g of the bound", worst);
    ck_assert_msg(worst > 1e-3, "nothing was rounded: %g of the bound", worst);
    sn_graph_free(g);
}

static sn_tensor *rows(sn_tensor *x, sn_tensor *w, sn_tensor *bias) { return sn_linear(x, w, bias); }
static sn_tensor *columns(sn_tensor *x, sn_tensor *w, sn_tensor *bias) { return sn_mm(x, w); }

START_TEST(a5_23_int8_linear_is_within_its_bound) {
    static const int64_t inner[] = {1, 7, 64, 300};
    sn_seed(3);
    for (int i = 0; i < 4; i++) {
        const int64_t k = inner[i];
        const Layer linear = {rows, sn_randn(SN_INTS(9, k), SN_F32), sn_randn(SN_INTS(9), SN_F32)};
        const Layer plain = {rows, linear.w, NULL}, product = {columns, sn_randn(SN_INTS(k, 9), SN_F32), NULL};
        expect_within_bound(&linear, sn_randn(SN_INTS(11, k), SN_F32), i & 1);
        expect_within_bound(&plain, sn_randn(SN_INTS(2, 3, k), SN_F32), false);
        expect_within_bound(&product, sn_relu(sn_randn(SN_INTS(11, k), SN_F32)), i & 1);
    }
}
END_TEST

static sn_tensor *image(sn_tensor *x, sn_tensor *w, sn_tensor *bias) {
    return sn_conv2d_ex(x, w, bias, SN_INTS(2, 1), SN_INTS(1, 2), SN_INTS(1, 1), 1);
}
static sn_tensor *image_without_padding(sn_tensor *x, sn_tensor *w, sn_tensor *bias) {
    return sn_conv2d_ex(x, w, bias, SN_INTS(1, 1), SN_INTS(0, 0), SN_INTS(1, 1), 1);
}

START_TEST(a5_23_int8_convolutions_are_within_their_bound) {
    sn_seed(4);
    const Layer l = {image, sn_randn(SN_INTS(5, 3, 2, 3), SN_F32), sn_randn(SN_INTS(5), SN_F32)};
    const Layer plain = {image_without_padding, l.w, NULL};
    expect_within_bound(&l, sn_randn(SN_INTS(2, 3, 7, 6), SN_F32), false);
    expect_within_bound(&l, sn_add_scalar(sn_rand(SN_INTS(1, 3, 7, 6), SN_F32), sn_float(1)), true);
    expect_within_bound(&plain, sn_randn(SN_INTS(2, 3, 7, 6), SN_F32), true);
}
END_TEST

/* fake_quantize ---------------------------------------------------------------------------------- */

static sn_tensor *faked(sn_tensor *t, const sn_observer_options *options) {
    sn_qparams q;
    sn_observer *const o = sn_observer_new(options);
    sn_observer_observe(o, t);
    ck_assert_int_eq(sn_observer_qparams(o, &q), SN_OK);
    sn_observer_free(o);
    return sn_fake_quantize_per_tensor_affine(t, q.scale, q.zero_point, q.quant_min, q.quant_max);
}

/* In floats the graph computes with what the integers stand for; gradients pass straight through. */
START_TEST(a5_23_fake_quantize_in_the_place_of_observers) {
    sn_seed(6);
    const Layer l = {rows, sn_requires_grad_(sn_randn(SN_INTS(4, 6), SN_F32), true), sn_randn(SN_INTS(4), SN_F32)};
    sn_tensor *const x = sn_randn(SN_INTS(5, 6), SN_F32);
    sn_graph *const g = graph_of(layer, &l, x, SN_DYNAMIC_NEVER);
    sn_quantizer *const q = sn_quant_prepare(g, NULL);
    const sn_grad_mode mode = sn_grad_mode_set(SN_GRAD_OFF);
    called(g, x);
    sn_grad_mode_set(mode);
    ck_assert_int_eq(sn_quant_fake(q), SN_OK);
    ck_assert_int_eq(sn_graph_check(g), SN_OK);
    ck_assert_int_eq(count_ops(g, "aten::fake_quantize_per_tensor_affine"), 2);
    ck_assert_int_eq(sn_quant_fake(q), SN_ERR_STATE);
    expect_error(SN_ERR_STATE, "fake_quantize already");
    sn_tensor *const y = called(g, x);
    sn_tensor *const w = faked(l.w, SN_OBSERVER_OPTIONS(.dtype = SN_I8, .symmetric = true));
    expect_same(y, sn_linear(faked(x, NULL), w, l.bias));
    sn_tensor *const again = sn_linear(faked(x, NULL), w, l.bias), *slope[2];
    const sn_tensors leaves = SN_TENSORS(l.w);
    sn_gradients(SN_TENSORS(sn_sum(y)), leaves, (sn_tensors){0}, 0, &slope[0]);
    sn_gradients(SN_TENSORS(sn_sum(again)), leaves, (sn_tensors){0}, 0, &slope[1]);
    expect_same(slope[0], slope[1]);
    sn_quantizer_free(q);
    sn_graph_free(g);
}
END_TEST

/* A value that two products take is rounded once; one that is a product itself, after it. */
static sn_status shares(sn_frame *f) {
    const Mlp *const m = sn_closure(f);
    sn_tensor *const x = sn_in(f, 0), *const h = sn_linear(x, m->w1, NULL), *const y = sn_linear(h, m->w2, m->b2);
    return sn_out(f, 0, sn_cat(SN_TENSORS(y, sn_linear(x, m->w1, m->b1)), 1));
}

START_TEST(a5_23_shared_values_are_rounded_once) {
    const Mlp m = random_mlp();
    sn_tensor *const x = sn_randn(SN_INTS(5, 4), SN_F32);
    for (int by_fakes = 0; by_fakes < 2; by_fakes++) {
        sn_graph *const g = converted(shares, &m, x, by_fakes);
        ck_assert_int_eq(count_ops(g, "aten::_int_mm"), 3);
        ck_assert_int_eq(count_ops(g, "quantized_decomposed::quantize_per_tensor"), 2);
        ck_assert_int_eq(count_ops(g, "aten::fake_quantize_per_tensor_affine"), 0);
        sn_tensor *const off = sn_abs(sn_sub(called(g, x), of_body(shares, &m, x)));
        ck_assert_double_lt(sn_item(sn_amax(off)), 0.2);
        sn_graph_free(g);
    }
}
END_TEST

/* One weight, or one transpose of it, in several products: w1 by one transpose, w2 by itself twice and by its own. */
static sn_status shares_weights(sn_frame *f) {
    const Mlp *const m = sn_closure(f);
    sn_tensor *const x = sn_in(f, 0), *const w1 = sn_t(m->w1), *const h = sn_mm(x, w1);
    sn_tensor *const y = sn_mm(h, sn_t(m->w2)), *const z = sn_mm(sn_relu(x), w1);
    return sn_out(f, 0, sn_cat(SN_TENSORS(z, sn_mm(y, m->w2), sn_mm(sn_relu(y), m->w2)), 1));
}

START_TEST(a5_23_shared_weights_go_once) {
    const Mlp m = random_mlp();
    sn_tensor *const x = sn_randn(SN_INTS(5, 4), SN_F32), *const want = of_body(shares_weights, &m, x);
    for (int by_fakes = 0; by_fakes < 2; by_fakes++) {
        sn_graph *const g = converted(shares_weights, &m, x, by_fakes);
        expect_ok();
        ck_assert_int_eq(count_ops(g, "aten::_int_mm"), 5);
        ck_assert_int_eq(count_ops(g, "aten::t"), 0);
        ck_assert_msg(!strstr(sn_graph_text(g), "closed"), "a weight stayed: %s", sn_graph_text(g));
        const double off = sn_item(sn_amax(sn_abs(sn_sub(called(g, x), want))));
        ck_assert_double_lt(off, 0.05 * sn_item(sn_amax(sn_abs(want))));
        sn_graph_free(g);
    }
}
END_TEST

/* Digits ----------------------------------------------------------------------------------------- */

typedef struct Digits {
    sn_tensor *x, *labels, *test_x, *test_labels;
    sn_dict *params;
    sn_optim *optim;
    Mlp m;
} Digits;

static sn_tensor *pixels(sn_dict *file, const char *name) {
    return times(sn_to(sn_dict_get(file, name), SN_F32), 1.0 / 16);
}

static Digits digits_new(void) {
    sn_dict *const file = sn_dict_load(SINTER_DIGITS);
    Digits d = {.x = pixels(file, "train.x"),
                .labels = sn_to(sn_dict_get(file, "train.y"), SN_I64),
                .test_x = pixels(file, "test.x"),
                .test_labels = sn_to(sn_dict_get(file, "test.y"), SN_I64),
                .params = sn_dict_new()};
    sn_dict_free(file);
    sn_seed(7);
    sn_param_linear(d.params, "fc1", 64, 128, &d.m.w1, &d.m.b1);
    sn_param_linear(d.params, "fc2", 128, 10, &d.m.w2, &d.m.b2);
    d.optim = sn_adamw(d.params, 2e-3, 0.01);
    expect_ok();
    return d;
}

static sn_status train_step(sn_frame *f) {
    const Digits *const d = sn_closure(f);
    sn_tensor *const h = sn_relu(sn_linear(sn_in(f, 0), d->m.w1, d->m.b1));
    sn_tensor *const loss = sn_cross_entropy(sn_linear(h, d->m.w2, d->m.b2), sn_in(f, 1));
    sn_optim_zero_grad(d->optim);
    sn_backward(loss);
    sn_optim_step(d->optim);
    return sn_out(f, 0, loss);
}

enum { BATCH = 50, STEPS = 200 };

static void train(Digits *d) {
    sn_function *const step = sn_compile(train_step, d, NULL);
    for (int i = 0; i < STEPS; i++) {
        const sn_scope scope = sn_scope_begin();
        const int64_t at = i % (sn_size(d->x, 0) / BATCH) * BATCH;
        SN_CALL(step, sn_narrow(d->x, 0, at, BATCH), sn_narrow(d->labels, 0, at, BATCH));
        sn_scope_end(scope);
    }
    sn_function_free(step);
    expect_ok();
}

static double accuracy(const Digits *d, sn_tensor *logits) {
    sn_tensor *const right = sn_eq(sn_argmax(logits, -1, false), d->test_labels);
    return sn_item(sn_sum(right)) / (double)sn_numel(d->test_labels);
}

/* Calibrated by batches of one size, it reads the test set at once: sizes are symbols. */
START_TEST(a5_23_digits_are_read_as_well) {
    static const sn_observer_options histogram = {.size = sizeof histogram, .kind = SN_OBSERVE_HISTOGRAM};
    Digits d = digits_new();
    train(&d);
    sn_grad_mode_set(SN_GRAD_OFF);
    sn_graph *const g = graph_of(mlp, &d.m, sn_narrow(d.x, 0, 0, BATCH), SN_DYNAMIC_ALWAYS);
    sn_quantizer *const q = sn_quant_prepare(g, SN_QUANT_OPTIONS(.activation = &histogram));
    sn_function *const seen = sn_graph_compile(g, NULL);
    for (int64_t at = 0; at < 4 * BATCH; at += BATCH) SN_CALL(seen, sn_narrow(d.x, 0, at, BATCH));
    ck_assert_msg(sn_quant_convert(q) == SN_OK, "%s", sn_error_take()->message);
    sn_quantizer_free(q);
    expect_text(g, "f32[s2,s1]");
    const double whole = accuracy(&d, of_body(mlp, &d.m, d.test_x)), small = accuracy(&d, called(g, d.test_x));
    expect_ok();
    ck_assert_double_gt(whole, 0.93);
    ck_assert_msg(fabs(small - whole) <= 0.01, "f32 %.4f, int8 %.4f", whole, small);
    SN_CALL(seen, sn_narrow(d.x, 0, 0, BATCH));
    expect_error(SN_ERR_STATE, "went with its quantizer");
    sn_function_free(seen);
    sn_graph_free(g);
    sn_optim_free(d.optim);
    sn_dict_free(d.params);
}
END_TEST

START_TEST(a5_23_a_weight_that_is_not_finite_is_named) {
    Mlp m = random_mlp();
    sn_graph *const g = graph_of(mlp, &m, sn_randn(SN_INTS(5, 4), SN_F32), SN_DYNAMIC_NEVER);
    sn_quantizer *const q = sn_quant_prepare(g, NULL);
    called(g, sn_randn(SN_INTS(5, 4), SN_F32));
    sn_tensor *const before = sn_clone(m.w2);
    sn_mul_scalar_(sn_narrow(m.w2, 0, 0, 1), sn_float(NAN));
    ck_assert_int_eq(sn_quant_convert(q), SN_ERR_VALUE);
    expect_error(SN_ERR_VALUE, "has values that are not finite");
    sn_copy_(m.w2, before); /* nothing was edited */
    ck_assert_int_eq(sn_quant_convert(q), SN_OK);
    sn_quantizer_free(q);
    sn_graph_free(g);
}
END_TEST

static char heard[1024];
static void keep_line(void *context, int level, const char *topic, const char *line) {
    if (level >= LOG_WARNING && strstr(line, "sn_quant_prepare")) snprintf(heard, sizeof heard, "%s", line);
}

static sn_status in_autocast(sn_frame *f) {
    const sn_scope scope = sn_scope_begin();
    sn_autocast_set(SN_CPU, SN_BF16);
    const sn_status status = mlp(f);
    sn_scope_end(scope);
    return status;
}
static sn_status of_grown_weight(sn_frame *f) {
    const Mlp *const m = sn_closure(f);
    return sn_out(f, 0, sn_linear(sn_in(f, 0), sn_add_scalar(m->w1, sn_int(1)), NULL));
}
static sn_status of_images(sn_frame *f) { return sn_out(f, 0, sn_conv2d(sn_in(f, 0), sn_closure(f), NULL)); }
static sn_status without_products(sn_frame *f) { return sn_out(f, 0, sn_relu(sn_in(f, 0))); }

static void expect_nothing(sn_body body, const void *closure, sn_tensor *x, sn_dynamic dynamic, const char *why) {
    sn_graph *const g = graph_of(body, closure, x, dynamic);
    heard[0] = '\0';
    log_handler_set(keep_line, NULL);
    sn_quantizer *const q = sn_quant_prepare(g, NULL);
    log_handler_set(NULL, NULL);
    ck_assert(q && sn_quant_count(q) == 0);
    ck_assert_msg(strstr(heard, why) != NULL, "'%s' does not say '%s'", heard, why);
    sn_quantizer_free(q);
    sn_graph_free(g);
}

START_TEST(what_finds_nothing_says_why) {
    const Mlp m = random_mlp();
    sn_tensor *const x = sn_randn(SN_INTS(5, 4), SN_F32), *const w = sn_randn(SN_INTS(2, 3, 3, 3), SN_F32);
    sn_tensor *const images = sn_randn(SN_INTS(2, 3, 6, 6), SN_F32);
    sn_tensor *const last = sn_permute(sn_contiguous(sn_permute(images, SN_INTS(0, 2, 3, 1))), SN_INTS(0, 3, 1, 2));
    expect_nothing(in_autocast, &m, x, SN_DYNAMIC_NEVER, "autocast");
    expect_nothing(of_grown_weight, &m, x, SN_DYNAMIC_NEVER, "its weight is no tensor that the function closes over");
    expect_nothing(of_images, w, last, SN_DYNAMIC_NEVER, "channels_last");
    expect_nothing(of_images, w, images, SN_DYNAMIC_ALWAYS, "its sizes are not known");
    expect_nothing(without_products, NULL, x, SN_DYNAMIC_NEVER, "no product that can be converted");
}
END_TEST

START_TEST(wrong_uses_are_named) {
    const Mlp m = random_mlp();
    ck_assert_ptr_null(sn_quant_prepare(NULL, NULL));
    expect_error(SN_ERR_ARGUMENT, "the graph is NULL");
    sn_graph *const g = graph_of(mlp, &m, sn_randn(SN_INTS(5, 4), SN_F32), SN_DYNAMIC_NEVER);
    static const sn_observer_options bytes = {.size = sizeof bytes};
    ck_assert_ptr_null(sn_quant_prepare(g, SN_QUANT_OPTIONS(.weight = &bytes)));
    expect_error(SN_ERR_ARGUMENT, "symmetric");
    ck_assert_int_eq(sn_quant_fake(NULL), SN_ERR_ARGUMENT);
    expect_error(SN_ERR_ARGUMENT, "quantizer is NULL");
    ck_assert_int_eq(sn_quant_count(NULL), 0);
    sn_quantizer_free(NULL);
    sn_graph_free(g);
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("int8 products");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, a5_23_observers_then_integers);
    tcase_add_test(tests, a5_23_int8_linear_is_within_its_bound);
    tcase_add_test(tests, a5_23_int8_convolutions_are_within_their_bound);
    tcase_add_test(tests, a5_23_fake_quantize_in_the_place_of_observers);
    tcase_add_test(tests, a5_23_shared_values_are_rounded_once);
    tcase_add_test(tests, a5_23_shared_weights_go_once);
    tcase_add_test(tests, a5_23_a_weight_that_is_not_finite_is_named);
    tcase_add_test(tests, a5_23_digits_are_read_as_well);
    tcase_add_test(tests, what_finds_nothing_says_why);
    tcase_add_test(tests, wrong_uses_are_named);
    return suite_run("int8 products", tests);
}
