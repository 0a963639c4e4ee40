/* test_user_ops.c: what a program adds to the dispatcher: ops whose kernels say one thing and do another, kernels and
 * modes at its keys. Eager and compiled code ask the same of them. */
#include <sinter/dispatch.h>

#include "tests/unit/contract.h"

static const sn_op *op_of(const sn_op_desc *desc) {
    const sn_op *const op = sn_op_register(desc);
    ck_assert_msg(op != NULL, "%s", sn_error_take()->message);
    return op;
}

static sn_status meta_like(sn_frame *f) { return sn_out(f, 0, sn_empty_like(sn_in(f, 0))); }

/* An op in a body: closure is the op. */
static sn_status call_op(sn_frame *f) {
    const sn_value in = sn_val(sn_relu(sn_in(f, 0)));
    return sn_out(f, 0, sn_op_call1(sn_closure(f), &in, 1));
}

/* Three calls of each: recorded, then compiled. All end in the same error. */
static void fails_alike(const sn_op *op, sn_tensor *x, sn_status status, const char *text) {
    const Twin twin = twin_new(call_op, (void *)(uintptr_t)op, (void *)(uintptr_t)op, NULL);
    for (int i = 0; i < 3; i++) {
        ck_assert_ptr_null(SN_CALL(twin.eager, x));
        expect_error(status, text);
        ck_assert_ptr_null(SN_CALL(twin.fast, x));
        expect_error(status, text);
    }
    twin_free(twin);
}

/* what a PURE op returns ---------------------------------------------------------------------- */

static sn_status return_input(sn_frame *f) { return sn_out(f, 0, sn_in(f, 0)); }
static sn_status return_view(sn_frame *f) { return sn_out(f, 0, sn_view(sn_in(f, 0), SN_INTS(4, 3))); }
static sn_status return_turned(sn_frame *f) {
    sn_tensor *const turned = sn_transpose(sn_exp(sn_in(f, 0)), 0, 1);
    return sn_out(f, 0, sn_transpose(sn_contiguous(turned), 0, 1));
}
static sn_status return_exp(sn_frame *f) { return sn_out(f, 0, sn_exp(sn_in(f, 0))); }

static const sn_op *pure_op(const char *schema, sn_body kernel) {
    return op_of(SN_OP_DESC(.schema = schema, .flags = SN_OP_PURE, .meta = meta_like, .cpu = kernel));
}

START_TEST(a_pure_op_has_results_of_its_own) {
    sn_tensor *const x = F32(1, 4, 3);
    const sn_op *const same = pure_op("own::same(Tensor x) -> Tensor", return_input);
    fails_alike(same, x, SN_ERR_CALLBACK, "returned the memory of argument 'x' as result 0");
    const sn_op *const view = pure_op("own::view(Tensor x) -> Tensor", return_view);
    fails_alike(view, x, SN_ERR_CALLBACK, "returned the memory of argument 'x' as result 0");
}
END_TEST

START_TEST(a_kernel_returns_the_layout_that_meta_said) {
    const sn_op *const turned = pure_op("own::turned(Tensor x) -> Tensor", return_turned);
    fails_alike(turned, F32(1, 4, 3), SN_ERR_SHAPE,
                "returned f32[4,3]{1,4} as result 0, where its meta rule said f32[4,3]");
    const sn_op *const good = pure_op("own::exp(Tensor x) -> Tensor", return_exp);
    const Twin twin = twin_new(call_op, (void *)(uintptr_t)good, (void *)(uintptr_t)good, NULL);
    for (int i = 0; i < 3; i++) TWIN_CALL(twin, sn_transpose(F32(i, 4, 3), 0, 1));
    twin_free(twin);
}
END_TEST

/* Strides of dims of size 1 and 0: those that meta said, eager and compiled alike. */
static sn_status meta_row_major(sn_frame *f) {
    return sn_out(f, 0, sn_empty_like(sn_clone_ex(sn_in(f, 0), sn_int(SN_CONTIGUOUS_FORMAT))));
}
static sn_status return_odd(sn_frame *f) { /* f32[1,3]{1,1} */
    sn_tensor *const turned = sn_clone_ex(sn_transpose(sn_in(f, 0), 0, 1), sn_int(SN_CONTIGUOUS_FORMAT));
    return sn_out(f, 0, sn_transpose(turned, 0, 1));
}

START_TEST(a_result_of_size_one_lies_as_meta_said) {
    const sn_op *const op = op_of(SN_OP_DESC(.schema = "own::odd(Tensor x) -> Tensor", .flags = SN_OP_PURE,
                                             .meta = meta_row_major, .cpu = return_odd));
    const Twin twin = twin_new(call_op, (void *)(uintptr_t)op, (void *)(uintptr_t)op, NULL);
    for (int i = 0; i < 4; i++) {
        sn_tensor *const x = F32(i, 1, 3);
        sn_tensor *const eager = SN_CALL(twin.eager, x), *const fast = SN_CALL(twin.fast, x);
        ck_assert_msg(eager && fast, "%s", sn_error_take()->message);
        ck_assert(same_bits(eager, fast));
        for (int d = 0; d < 2; d++) {
            ck_assert_int_eq(sn_strides(eager).data[d], d ? 1 : 3);
            ck_assert_int_eq(sn_strides(fast).data[d], d ? 1 : 3);
        }
    }
    twin_free(twin);
}
END_TEST

/* what an op writes --------------------------------------------------------------------------- */

static sn_status add_one_inside(sn_frame *f) { return sn_out(f, 0, sn_add_scalar_(sn_in(f, 0), sn_float(1))); }

START_TEST(an_op_that_writes_a_leaf_is_refused_as_an_in_place_op_is) {
    static const char *const schema = "own::bump_(Tensor(a!) x) -> Tensor(a!)";
    const sn_op *const op = op_of(SN_OP_DESC(.schema = schema, .cpu = add_one_inside));
    sn_tensor *const leaf = LEAF(1, 4), *const plain = F32(1, 4);
    sn_value in = sn_val(leaf);
    ck_assert_ptr_null(sn_op_call1(op, &in, 1));
    expect_error(SN_ERR_STATE, "a leaf that requires gradients would be written in place");
    ck_assert(same_bits(sn_detach(leaf), plain));
    sn_grad_mode_set(SN_GRAD_OFF);
    ck_assert_ptr_nonnull(sn_op_call1(op, &in, 1));
    sn_grad_mode_set(SN_GRAD_ON);
    in = sn_val(plain);
    ck_assert_ptr_nonnull(sn_op_call1(op, &in, 1));
    ck_assert(same_bits(sn_detach(leaf), plain));
}
END_TEST

/* kernels and modes --------------------------------------------------------------------------- */

static int seen_inputs;
static sn_tensor *seen_out, *seen_result;

static sn_status looks(sn_frame *f) {
    seen_inputs = sn_in_count(f);
    seen_out = sn_in(f, seen_inputs - 1);
    ck_assert_ptr_null(sn_result(f, 0));
    expect_error(SN_ERR_ARGUMENT, "result 0 of 1 is not set");
    ck_assert_int_eq(sn_redispatch(f), SN_OK);
    seen_result = sn_keep(sn_clone(sn_result(f, 0)));
    return SN_OK;
}

START_TEST(a_mode_sees_out_and_reads_results) {
    sn_tensor *const x = F32(1, 4), *const out = F32(2, 4);
    sn_user_mode_push(looks, NULL);
    sn_tensor *const y = sn_add_out(out, x, x);
    sn_user_mode_pop();
    ck_assert_ptr_eq(y, out);
    ck_assert_ptr_eq(seen_out, out);
    ck_assert_int_eq(seen_inputs, 4); /* self, other, alpha, out */
    ck_assert(same_bits(seen_result, sn_add(x, x)) && same_bits(out, seen_result));
    sn_release(seen_result);
}
END_TEST

START_TEST(keys_that_nothing_has_are_refused) {
    const sn_op *const add = sn_op_find("aten::add.Tensor");
    static const sn_key reserved[] = {SN_KEY_VMAP, SN_KEY_FUNCTIONALIZE};
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++) {
        ck_assert_ptr_null(sn_fallback_set(reserved[i], looks, NULL));
        expect_error(SN_ERR_UNSUPPORTED, "a kernel there would never run");
        ck_assert_ptr_null(sn_op_override(add, reserved[i], looks, NULL));
        expect_error(SN_ERR_UNSUPPORTED, "in this version");
    }
    static const int internal[] = {0, 20, 39, 56, -1, 5};
    for (size_t i = 0; i < sizeof internal / sizeof *internal; i++) {
        ck_assert_ptr_null(sn_fallback_set((sn_key)internal[i], looks, NULL));
        expect_error(SN_ERR_ARGUMENT, "is unknown");
    }
}
END_TEST

static sn_status on_the_cpu(sn_frame *f) {
    (void)f;
    return sn_out(f, 0, sn_ones(SN_INTS(4), SN_F32));
}

START_TEST(a_backends_result_is_on_its_device) {
    sn_override *const o = sn_op_override(sn_op_find("aten::relu"), SN_KEY_META, on_the_cpu, NULL);
    const sn_value meta = sn_int(SN_META);
    sn_tensor *const x = sn_to_copy_ex(F32(1, 4), SN_F32, (sn_value){0}, meta, (sn_value){0}, false, (sn_value){0});
    ck_assert_ptr_nonnull(x);
    ck_assert_ptr_null(sn_relu(x));
    expect_error(SN_ERR_DEVICE, "its kernel at key meta returned result 0 on cpu");
    sn_override_free(o);
}
END_TEST

/* a kernel among pointwise ops --------------------------------------------------------------- */

static sn_status doubled_kernel(sn_frame *f) {
    sn_tensor *const x = sn_contiguous(sn_in(f, 0)), *const y = sn_empty_like(x);
    const float *const from = sn_data(x, SN_F32);
    float *const to = sn_data_mut(y, SN_F32);
    for (int64_t i = 0; from && to && i < sn_numel(x); i++) to[i] = 2 * from[i];
    return sn_out(f, 0, y);
}

static sn_status relu_around(sn_frame *f) {
    const sn_value in = sn_val(sn_relu(sn_mul(sn_in(f, 0), sn_in(f, 0))));
    return sn_out(f, 0, sn_relu(sn_sin(sn_op_call1(sn_closure(f), &in, 1))));
}

START_TEST(a6_03_relu_fuses_around_a_kernel_op) {
    void *const op = (void *)(uintptr_t)pure_op("own::doubled(Tensor x) -> Tensor", doubled_kernel);
    const Twin twin = twin_new(relu_around, op, op, NULL);
    for (int i = 0; i < 4; i++) TWIN_CALL(twin, F32(i, 4, 3));
    const sn_stats stats = stats_of(twin.fast);
    ck_assert_msg(stats.graphs == 1 && stats.breaks == 0 && stats.ops_eager == 0, "%s", sn_explain(twin.fast));
    const char *const said = sn_explain(twin.fast);
    ck_assert_msg(strstr(said, "mul_relu: aten::mul.Tensor, aten::relu;"), "%s", said);
    ck_assert_msg(strstr(said, "sin_relu: aten::sin, aten::relu;"), "%s", said);
    twin_free(twin);
}
END_TEST

/* clip_norm ----------------------------------------------------------------------------------- */

/* x min(1, most / |x|): by ops its gradient is exact; as a function with its own gradient the factor counts as a
 * constant, which costs one product. */
static sn_tensor *clip_factor(sn_tensor *x, double most) {
    sn_tensor *const norm = sn_sqrt(sn_sum(sn_mul(x, x)));
    return sn_clamp_max(sn_mul_scalar(sn_reciprocal(norm), sn_float(most)), sn_int(1));
}
static sn_status clip_forward(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const factor = clip_factor(x, *(double *)sn_closure(f));
    sn_save(f, factor);
    return sn_out(f, 0, sn_mul(x, factor));
}
static sn_status clip_backward(sn_frame *f) { return sn_set_grad_of(f, 0, sn_mul(sn_grad_of(f, 0), sn_saved(f, 0))); }

static double clip_most = 1.5;
static sn_status clip_exactly(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    return sn_out(f, 0, sn_mul(x, clip_factor(x, clip_most)));
}
static sn_status clip_approximately(sn_frame *f) {
    static const sn_custom clip = {
        .size = sizeof clip, .name = "clip_norm", .forward = clip_forward, .backward = clip_backward};
    sn_tensor *const x = sn_in(f, 0), *y;
    sn_custom_call(&clip, &clip_most, &x, 1, &y, 1);
    return sn_out(f, 0, y);
}

/* The gradient of sum(y * weight). */
static sn_tensor *clip_gradient(sn_function *fn, sn_tensor *x, sn_tensor *weight) {
    sn_tensor *const leaf = sn_requires_grad_(sn_clone(x), true), *grad;
    sn_gradients(SN_TENSORS(sn_sum(sn_mul(SN_CALL(fn, leaf), weight))), SN_TENSORS(leaf), (sn_tensors){0}, 0, &grad);
    ck_assert_msg(grad != NULL, "%s", sn_error_take()->message);
    return grad;
}
static double clip_loss(sn_function *fn, sn_tensor *x, sn_tensor *weight) {
    return sn_item(sn_sum(sn_mul(SN_CALL(fn, x), weight)));
}

START_TEST(a6_04_clip_norm_with_exact_and_approximate_gradients) {
    const Twin exact = twin_new(clip_exactly, NULL, NULL, NULL), near = twin_new(clip_approximately, NULL, NULL, NULL);
    for (int i = 0; i < 4; i++) {
        sn_tensor *const x = sn_mul_scalar(sn_to_copy(F32(i, 12), SN_F64), sn_float(i % 2 ? 1 : 0.1));
        sn_tensor *const weight = sn_to_copy(F32(i + 9, 12), SN_F64), *const y = TWIN_CALL(exact, x);
        ck_assert(same_bits(y, TWIN_CALL(near, x)));
        const double norm = sn_item(sn_sqrt(sn_sum(sn_mul(x, x)))), clipped = sn_item(sn_sqrt(sn_sum(sn_mul(y, y))));
        ck_assert(clipped <= clip_most * (1 + 1e-12) && (norm > clip_most) == (i % 2));
        sn_tensor *const gradient = clip_gradient(exact.fast, x, weight);
        ck_assert(same_bits(gradient, clip_gradient(exact.eager, x, weight)));
        ck_assert(same_bits(clip_gradient(near.fast, x, weight), clip_gradient(near.eager, x, weight)));
        sn_tensor *const step = sn_mul_scalar(weight, sn_float(1e-6));
        const double difference =
            (clip_loss(exact.eager, sn_add(x, step), weight) - clip_loss(exact.eager, sn_sub(x, step), weight)) / 2e-6;
        ck_assert_double_eq_tol(sn_item(sn_sum(sn_mul(gradient, weight))), difference, 1e-5);
        /* the approximate one: the factor, a constant */
        ck_assert(same_bits(clip_gradient(near.eager, x, weight), sn_mul(weight, clip_factor(x, clip_most))));
        ck_assert(same_bits(clip_gradient(near.eager, x, weight), gradient) == !(i % 2));
    }
    twin_free(exact);
    twin_free(near);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        a_pure_op_has_results_of_its_own,
        a_kernel_returns_the_layout_that_meta_said,
        a_result_of_size_one_lies_as_meta_said,
        an_op_that_writes_a_leaf_is_refused_as_an_in_place_op_is,
        a_mode_sees_out_and_reads_results,
        keys_that_nothing_has_are_refused,
        a_backends_result_is_on_its_device,
        a6_03_relu_fuses_around_a_kernel_op,
        a6_04_clip_norm_with_exact_and_approximate_gradients,
    };
    return contract_main("test_user_ops", tests, (int)(sizeof tests / sizeof *tests));
}
