/* test_quant_recorded.c: int8 linear layers beside PyTorch's [acceptance 5.23]: tests/oracle/quant_layers.safetensors
 * holds what its observers chose and what its CPU's product of u8 by i8 gave in f32 (tests/oracle/torch_quantize.py).
 * A graph that sn_quant_convert makes of linear, with observers that have seen the same, gives that within the
 * tolerance of the recorded cases. */
#include <sinter/quant.h>
#include <stdio.h>

#include "tests/unit/contract.h"

static const char *const kinds[] = {"small", "plain", "deep", "shifted"};

typedef struct Layer {
    sn_tensor *weight, *bias;
} Layer;

static sn_status linear(sn_frame *f) {
    const Layer *const l = sn_closure(f);
    return sn_out(f, 0, sn_linear(sn_in(f, 0), l->weight, l->bias));
}

/* NULL: there is none. */
static sn_tensor *recorded(sn_dict *file, const char *kind, const char *what) {
    char name[64];
    snprintf(name, sizeof name, "%s.%s", kind, what);
    sn_tensor *const t = sn_dict_get(file, name);
    sn_error_take();
    return t;
}

static sn_tensor *called(sn_graph *g, const sn_compile_options *options, sn_tensor *x) {
    sn_function *const fn = sn_graph_compile(g, options);
    sn_tensor *y = NULL;
    for (int i = 0; i < 2; i++) ck_assert_msg(sn_call(fn, &x, 1, &y, 1) == SN_OK, "%s", sn_error_take()->message);
    sn_function_free(fn);
    return y;
}

static sn_graph *captured(const Layer *l, sn_tensor *x) {
    sn_function *const fn = sn_compile(linear, (void *)l, SN_COMPILE_OPTIONS(.dynamic = SN_DYNAMIC_NEVER));
    sn_graph *const g = sn_graph_capture(fn, (const sn_value[]){sn_val(x)}, 1);
    ck_assert_msg(g != NULL, "%s", sn_error_take()->message);
    sn_function_free(fn);
    return g;
}

static sn_qparams params_of(sn_tensor *t, const sn_observer_options *options) {
    sn_qparams params = {0};
    sn_observer *const o = sn_observer_new(options);
    sn_observer_observe(o, t);
    ck_assert_int_eq(sn_observer_qparams(o, &params), SN_OK);
    sn_observer_free(o);
    return params;
}

/* The scales of input and weight, and the input's zero point. */
static void expect_params(sn_dict *file, const char *kind) {
    double want[3];
    ck_assert_int_eq(sn_read(recorded(file, kind, "params"), want, sizeof want), SN_OK);
    const sn_qparams x = params_of(recorded(file, kind, "seen"), NULL);
    const sn_qparams w =
        params_of(recorded(file, kind, "weight"), SN_OBSERVER_OPTIONS(.dtype = SN_I8, .symmetric = true));
    ck_assert_msg((float)x.scale == (float)want[0], "%s: %.9g, not %.9g", kind, x.scale, want[0]);
    ck_assert_msg((float)w.scale == (float)want[1], "%s: %.9g, not %.9g", kind, w.scale, want[1]);
    ck_assert_int_eq(x.zero_point, (int64_t)want[2]);
}

START_TEST(a5_23_recorded_int8_layers_of_pytorch) {
    sn_dict *const file = sn_dict_load(SINTER_ORACLE "/quant_layers.safetensors");
    ck_assert_msg(file != NULL, "%s", sn_error_take()->message);
    const char *const kind = kinds[_i];
    sn_tensor *const seen = recorded(file, kind, "seen"), *const x = recorded(file, kind, "in");
    const Layer l = {recorded(file, kind, "weight"), recorded(file, kind, "bias")};
    ck_assert(seen && x && l.weight);
    expect_params(file, kind);
    sn_graph *const g = captured(&l, seen);
    sn_quantizer *const q = sn_quant_prepare(g, NULL);
    ck_assert_int_eq(sn_quant_count(q), 1);
    called(g, NULL, seen);
    ck_assert_msg(sn_quant_convert(q) == SN_OK, "%s", sn_error_take()->message);
    sn_quantizer_free(q);
    sn_tensor *const y = called(g, NULL, x), *const eager = called(g, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER), x);
    ck_assert_msg(sn_allclose(y, recorded(file, kind, "out"), 1.3e-6, 1e-5), "%s:\n%s\n%s", kind, sn_repr(y),
                  sn_repr(recorded(file, kind, "out")));
    ck_assert(same_bits(y, eager));
    sn_graph_free(g);
    sn_dict_free(file);
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("quant_recorded");
    tcase_add_loop_test(tests, a5_23_recorded_int8_layers_of_pytorch, 0, (int)(sizeof kinds / sizeof *kinds));
    return suite_run("quant_recorded", tests);
}
