/* test_keys.c: keys that a program gives to tensors (sn_with_key): the row 1.15 of the acceptance list, by public
 * headers. Eagerly and in compiled functions, where ops at such a key run eagerly. */
#include <stdio.h>

#include "tests/unit/contract.h"

typedef struct NamedKey {
    sn_key key;
    const char *name;
} NamedKey;
static const NamedKey slots[] = {
    {SN_KEY_HIP, "hip"},
    {SN_KEY_XLA, "xla"},
    {SN_KEY_MPS, "mps"},
    {SN_KEY_IPU, "ipu"},
    {SN_KEY_XPU, "xpu"},
    {SN_KEY_HPU, "hpu"},
    {SN_KEY_VE, "ve"},
    {SN_KEY_LAZY, "lazy"},
    {SN_KEY_MTIA, "mtia"},
    {SN_KEY_MAIA, "maia"},
    {SN_KEY_FPGA, "fpga"},
    {SN_KEY_VULKAN, "vulkan"},
    {SN_KEY_METAL, "metal"},
    {SN_KEY_QUANTIZED, "quantized"},
    {SN_KEY_CUSTOM_RNG, "custom_rng"},
    {SN_KEY_MKLDNN, "mkldnn"},
    {SN_KEY_NESTED, "nested"},
    {SN_KEY_NAMED, "named"},
    {SN_KEY_CONJUGATE, "conjugate"},
    {SN_KEY_NEGATIVE, "negative"},
    {SN_KEY_ZERO_TENSOR, "zero_tensor"},
};
enum { N_SLOTS = sizeof slots / sizeof *slots };

static void expect_no_kernel(const sn_tensor *got, const char *op, const char *key) {
    char text[64];
    snprintf(text, sizeof text, "it is not implemented for key %s", key);
    ck_assert_ptr_null(got);
    const sn_error *const e = sn_error_take();
    ck_assert_int_eq(e->status, SN_ERR_UNSUPPORTED);
    ck_assert_str_eq(e->op, op);
    ck_assert_msg(strstr(e->message, text) != NULL, "%s", e->message);
}

START_TEST(a1_15_ops_on_each_key_are_not_implemented_for_it) {
    sn_tensor *const x = F32(1, 2, 3);
    for (int i = 0; i < N_SLOTS; i++) {
        sn_tensor *const t = sn_with_key(x, slots[i].key);
        char keys[64], line[64];
        snprintf(line, sizeof line, "%s: not implemented", slots[i].name);
        ck_assert_msg(strstr(sn_dispatch_dump(sn_op_find("aten::relu")), line) != NULL, "%s", line);
        ck_assert_msg(strstr(sn_keys(t), slots[i].name) != NULL, "%s", sn_keys(t));
        snprintf(keys, sizeof keys, "%s", sn_keys(sn_with_key(t, (sn_key)0)));
        ck_assert_str_eq(keys, "autograd, cpu");
        expect_no_kernel(sn_relu(t), "aten::relu", slots[i].name);
        expect_no_kernel(sn_relu_(t), "aten::relu_", slots[i].name);
        expect_no_kernel(sn_add(x, t), "aten::add.Tensor", slots[i].name);
        expect_no_kernel(sn_t(t), "aten::t", slots[i].name);
        expect_no_kernel(sn_cat(SN_TENSORS(x, t), 0), "aten::cat", slots[i].name);
    }
    ck_assert(same_bits(x, F32(1, 2, 3)));
}
END_TEST

/* Bytes that stand for halves: a program's own dtype. */
static sn_tensor *quantize(const int8_t *at, int64_t n) {
    return sn_with_key(sn_from_data(at, SN_INTS(n), SN_I8), SN_KEY_QUANTIZED);
}

static sn_status add_quantized(sn_frame *f) {
    if (sn_redispatch(f) != SN_OK) return sn_check();
    ++*(int *)sn_closure(f);
    return sn_out(f, 0, sn_with_key(sn_result(f, 0), SN_KEY_QUANTIZED));
}

static sn_status dequantize(sn_frame *f) { /* stands at aten::abs, which it is not */
    return sn_out(f, 0, sn_mul_scalar(sn_with_key(sn_in(f, 0), (sn_key)0), sn_float(0.5)));
}

static sn_status sums(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const y = sn_add(x, x);
    return sn_out(f, 0, sn_mul(sn_abs(sn_add(y, x)), sn_in(f, 1)));
}

START_TEST(a1_15_a_programs_kernels_serve_a_key) {
    int calls = 0;
    sn_override *const add = sn_op_override(sn_op_find("aten::add.Tensor"), SN_KEY_QUANTIZED, add_quantized, &calls);
    sn_override *const abs = sn_op_override(sn_op_find("aten::abs"), SN_KEY_QUANTIZED, dequantize, NULL);
    ck_assert(add && abs);
    const Twin twin = twin_new(sums, NULL, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        sn_tensor *const q = quantize((const int8_t[]){1, 2, (int8_t)(-3 - i)}, 3), *const w = F32(7, 3);
        sn_tensor *const got = TWIN_CALL(twin, q, w);
        ck_assert(same_bits(
            got, sn_mul(sn_from_data((const float[]){1.5F, 3, -4.5F - 1.5F * (float)i}, SN_INTS(3), SN_F32), w)));
    }
    ck_assert_int_eq(calls, 12);
    expect_no_kernel(sn_neg(quantize((const int8_t[]){1}, 1)), "aten::neg", "quantized");
    ck_assert(strstr(sn_explain(twin.fast), "whose key has no compiled code") != NULL);
    twin_free(twin);
    sn_override_free(add);
    sn_override_free(abs);
    expect_no_kernel(sn_abs(quantize((const int8_t[]){1}, 1)), "aten::abs", "quantized");
}
END_TEST

static sn_status pass_on(sn_frame *f) {
    ++*(int *)sn_closure(f);
    return sn_redispatch(f);
}

static sn_status twice(sn_frame *f) { return sn_out(f, 0, sn_exp(sn_mul(sn_in(f, 0), sn_in(f, 0)))); }

/* What was captured with plain tensors is not what runs for one that has a key. */
START_TEST(a1_15_a_compiled_function_notices_the_key) {
    const sn_compile_mode modes[] = {SN_COMPILE_VERIFY, SN_COMPILE_REPLAY};
    for (int m = 0; m < 2; m++) {
        sn_function *const fn = sn_compile(twice, NULL, SN_COMPILE_OPTIONS(.mode = modes[m]));
        sn_tensor *const x = F32(1, 4), *const t = sn_with_key(x, SN_KEY_MKLDNN);
        sn_tensor *const want = SN_CALL(fn, x);
        for (int i = 0; i < 3; i++) ck_assert(same_bits(SN_CALL(fn, x), want));
        expect_no_kernel(SN_CALL(fn, t), "aten::mul.Tensor", "mkldnn");
        int calls = 0;
        sn_override *const all = sn_fallback_set(SN_KEY_MKLDNN, pass_on, &calls);
        for (int i = 0; i < 3; i++) ck_assert(same_bits(SN_CALL(fn, t), want));
        ck_assert_int_eq(calls, 3); /* the product of plain memory is plain */
        sn_override_free(all);
        ck_assert(same_bits(SN_CALL(fn, x), want));
        sn_function_free(fn);
    }
}
END_TEST

START_TEST(a1_15_gradients_go_through_a_programs_kernels) {
    int calls = 0;
    sn_override *const all = sn_fallback_set(SN_KEY_NESTED, pass_on, &calls);
    sn_tensor *const x = sn_requires_grad_(sn_with_key(F32(1, 4), SN_KEY_NESTED), true);
    ck_assert_int_eq(sn_backward(sn_sum(sn_mul_scalar(x, sn_float(3)))), SN_OK);
    ck_assert(same_bits(sn_grad(x), sn_full(SN_INTS(4), sn_float(3), SN_F32)));
    ck_assert_int_eq(calls, 1);
    sn_override_free(all);
}
END_TEST

static sn_status is_true(sn_frame *f) { return sn_out(f, 0, sn_relu(sn_in(f, 0))); }

START_TEST(a1_15_bad_keys_and_what_takes_none) {
    sn_tensor *const x = F32(1, 2), *const t = sn_with_key(x, SN_KEY_XPU);
    ck_assert_ptr_null(sn_with_key(x, SN_KEY_CPU));
    expect_error(SN_ERR_ARGUMENT, "sn_with_key: key 1 is not one that a program gives");
    ck_assert_ptr_null(sn_with_key(x, (sn_key)63));
    expect_error(SN_ERR_ARGUMENT, "key 63");
    ck_assert_ptr_null(sn_with_key(NULL, SN_KEY_XPU));
    expect_error(SN_ERR_ARGUMENT, "sn_with_key: the tensor is NULL");
    sn_tensor *out;
    ck_assert_int_eq(sn_cond(sn_full((sn_ints){(const int64_t[]){0}, 0}, sn_bool(true), SN_BOOL), is_true, is_true,
                             NULL, NULL, SN_TENSORS(t), &out, 1),
                     SN_ERR_UNSUPPORTED);
    expect_error(SN_ERR_UNSUPPORTED, "sn_cond: it is not implemented for key xpu, which input 0 has");
    ck_assert_int_eq(sn_vmap(is_true, NULL, NULL, SN_TENSORS(t), &out, 1), SN_ERR_UNSUPPORTED);
    expect_error(SN_ERR_UNSUPPORTED, "not implemented for key xpu");
    ck_assert(strstr(sn_tensor_report(t, sn_op_find("aten::relu"), NULL), "not implemented") != NULL);
    ck_assert(same_bits(t, x)); /* its memory is there to read */
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        a1_15_ops_on_each_key_are_not_implemented_for_it,
        a1_15_a_programs_kernels_serve_a_key,
        a1_15_a_compiled_function_notices_the_key,
        a1_15_gradients_go_through_a_programs_kernels,
        a1_15_bad_keys_and_what_takes_none,
    };
    return contract_main("test_keys", tests, (int)(sizeof tests / sizeof *tests));
}
