/* test_cuda_quantize.c: observers, fake_quantize and int8 products in graphs of tensors on a CUDA device
 * (unit/test_observer.c, test_quantize.c, test_quant_pass.c) [acceptance 5.23]. Products of integers are exact, so that
 * bits are the CPU's. By public headers. */
#include <stdio.h>

#include "tests/cuda/emulated_control.h"
#include "tests/unit/contract.h"

enum { GPU = SN_CUDA(0) };

static sn_tensor *on(sn_device device, sn_tensor *t) { return sn_to_device(t, device); }

static sn_qparams params_of(sn_tensor *t, const sn_observer_options *options) {
    sn_qparams q;
    sn_observer *const o = sn_observer_new(options);
    ck_assert_int_eq(sn_observer_observe(o, t), SN_OK);
    ck_assert_int_eq(sn_observer_qparams(o, &q), SN_OK);
    sn_observer_free(o);
    return q;
}

START_TEST(a5_23_observers_see_values_of_a_device) {
    static const sn_observer_options kinds[] = {{.size = sizeof *kinds},
                                                {.size = sizeof *kinds, .kind = SN_OBSERVE_HISTOGRAM, .bins = 16}};
    for (int k = 0; k < 2; k++) {
        sn_tensor *const x = F32(1, 5, 4);
        const sn_qparams want = params_of(x, &kinds[k]), got = params_of(on(GPU, x), &kinds[k]);
        ck_assert(got.scale == want.scale && got.zero_point == want.zero_point && got.scale > 0);
    }
}
END_TEST

static sn_status fakes(sn_frame *f) {
    return sn_out(f, 0, sn_fake_quantize_per_tensor_affine(sn_in(f, 0), 0.1, 3, -20, 20));
}

START_TEST(a5_23_fake_quantize_on_a_device) {
    const Twin twin = twin_new(fakes, NULL, NULL, NULL);
    for (uint64_t i = 0; i < 3; i++) {
        sn_tensor *const x = sn_requires_grad_(on(GPU, F32(i, 5, 4)), true), *const y = LEAF(i, 5, 4);
        sn_tensor *const got = TWIN_CALL(twin, x), *const want = SN_CALL(twin.eager, y);
        ck_assert(same_bits(got, want));
        sn_backward(sn_sum(got)), sn_backward(sn_sum(want));
        ck_assert(same_bits(sn_grad(x), sn_grad(y))); /* 0 outside of the range */
    }
    twin_free(twin);
}
END_TEST

typedef struct Mlp {
    sn_tensor *w1, *b1, *w2;
} Mlp;
static Mlp mlp_on(sn_device device) {
    return (Mlp){on(device, F32(2, 8, 4)), on(device, F32(3, 8)), on(device, F32(4, 3, 8))};
}
static sn_status mlp(sn_frame *f) {
    const Mlp *const m = sn_closure(f);
    return sn_out(f, 0, sn_linear(sn_relu(sn_linear(sn_in(f, 0), m->w1, m->b1)), m->w2, NULL));
}

static int count_ops(sn_graph *g, const char *op) {
    int n = 0;
    for (int i = 0; i < sn_graph_count(g); i++) n += !strcmp(sn_node_op(sn_graph_node(g, i)), op);
    return n;
}

static sn_tensor *called(sn_graph *g, sn_tensor *x) {
    sn_function *const fn = sn_graph_compile(g, NULL);
    sn_tensor *y = NULL;
    for (int i = 0; i < 2; i++) ck_assert_msg(sn_call(fn, &x, 1, &y, 1) == SN_OK, "%s", sn_error_take()->message);
    ck_assert_int_eq(sn_device_of(y), sn_device_of(x));
    sn_function_free(fn);
    return y;
}

/* The results by fake_quantize and by integers. */
static void quantized(sn_device device, sn_tensor *out[3]) {
    const Mlp m = mlp_on(device);
    sn_tensor *const x = on(device, F32(1, 5, 4));
    sn_function *const fn = sn_compile(mlp, (void *)&m, SN_COMPILE_OPTIONS(.dynamic = SN_DYNAMIC_NEVER));
    sn_graph *const g = sn_graph_capture(fn, (const sn_value[]){sn_val(x)}, 1);
    ck_assert_msg(g != NULL, "%s", sn_error_take()->message);
    out[0] = SN_CALL(fn, x);
    sn_quantizer *const q = sn_quant_prepare(g, NULL);
    ck_assert_int_eq(count_ops(g, "quant::observe"), 2);
    ck_assert(same_bits(called(g, x), out[0]));
    ck_assert_msg(sn_quant_fake(q) == SN_OK, "%s", sn_error_take()->message);
    ck_assert_int_eq(count_ops(g, "aten::fake_quantize_per_tensor_affine"), 4);
    out[1] = called(g, x);
    ck_assert_msg(sn_quant_convert(q) == SN_OK, "%s", sn_error_take()->message);
    ck_assert_int_eq(count_ops(g, "aten::_int_mm"), 2);
    out[2] = called(g, x);
    sn_quantizer_free(q);
    sn_graph_free(g);
    sn_function_free(fn);
}

START_TEST(a5_23_int8_products_of_a_device_have_the_cpus_bits) {
    sn_tensor *want[3], *got[3];
    quantized(SN_CPU, want);
    quantized(GPU, got);
    for (int i = 0; i < 3; i++) ck_assert_msg(same_bits(got[i], want[i]), "way %d", i);
    for (int i = 1; i < 3; i++) { /* rounded, and not by much */
        const double off = sn_item(sn_amax(sn_abs(sn_sub(got[i], got[0]))));
        ck_assert_msg(off > 0 && off < 0.2, "way %d: %g", i, off);
    }
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        a5_23_observers_see_values_of_a_device,
        a5_23_fake_quantize_on_a_device,
        a5_23_int8_products_of_a_device_have_the_cpus_bits,
    };
    if (lacks_compiler()) return skip_without_compiler();
    return contract_main("test_cuda_quantize", tests, (int)(sizeof tests / sizeof *tests));
}
