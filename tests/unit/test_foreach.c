/* test_foreach.c: ops of lists that write (ir/ops/foreach_write.def) and give no results: compiled and in text graphs
 * they leave the bits that they leave eagerly. What that is, is held against PyTorch by cases.foreach. */
#include <sinter/dispatch.h>
#include <sinter/graph.h>
#include <sinter/ops.h>

#include "tests/unit/contract.h"

enum { TENSORS = 10, PARAMS = 2 };

static sn_status call(const char *op, const sn_value *args, int n) {
    sn_value none[1];
    int n_out = 0;
    return sn_op_call(sn_op_find(op), args, n, none, &n_out);
}
#define RUN(op, ...)                                                                                                   \
    call(op, (const sn_value[]){__VA_ARGS__}, (int)(sizeof((const sn_value[]){__VA_ARGS__}) / sizeof(sn_value)))

/* Inputs: two parameters, gradients, both averages, steps. A step as torch.optim's foreach AdamW makes it, then a fused
 * one of the same tensors. */
static sn_status step(sn_frame *f) {
    sn_tensor *t[TENSORS];
    sn_value list[TENSORS / PARAMS];
    for (int i = 0; i < TENSORS; i++) t[i] = sn_in(f, i);
    for (int i = 0; i < TENSORS / PARAMS; i++) list[i] = sn_tensors_value((sn_tensors){&t[i * PARAMS], PARAMS});
    const sn_value params = list[0], grads = list[1], means = list[2], squares = list[3], steps = list[4];
    RUN("aten::_foreach_add_.Scalar", steps, sn_int(1));
    RUN("aten::_foreach_lerp_.Scalar", means, grads, sn_float(0.1));
    RUN("aten::_foreach_mul_.Scalar", squares, sn_float(0.99));
    RUN("aten::_foreach_addcmul_.Scalar", squares, grads, grads, sn_float(0.01));
    RUN("aten::_foreach_addcdiv_.Scalar", params, means, squares, sn_float(-0.01));
    return RUN("aten::_fused_adamw_", params, grads, means, squares, sn_tensors_value((sn_tensors){NULL, 0}), steps,
               sn_float(0.01), sn_float(0.9), sn_float(0.99), sn_float(0.1), sn_float(1e-8), sn_bool(false),
               sn_bool(false));
}

static void inputs(sn_tensor **t) {
    for (int i = 0; i < TENSORS; i++) {
        t[i] = i < 8 ? F32((uint64_t)i, 3, 4) : sn_full((sn_ints){NULL, 0}, sn_float(2), SN_F32);
        if (i == 6 || i == 7) t[i] = sn_add_scalar(sn_abs(t[i]), sn_float(0.5));
    }
}

static void same_after(sn_function *fn, sn_function *eager, int calls, int n_out) {
    sn_tensor *a[TENSORS], *b[TENSORS], *first = NULL;
    inputs(a), inputs(b);
    for (int i = 0; i < calls; i++) {
        ck_assert_int_eq(sn_call(fn, a, TENSORS, &first, n_out), SN_OK);
        ck_assert_int_eq(sn_call(eager, b, TENSORS, NULL, 0), SN_OK);
        for (int k = 0; k < TENSORS; k++) ck_assert_msg(same_bits(a[k], b[k]), "call %d, tensor %d", i, k);
    }
}

START_TEST(steps_compile_with_the_bits_of_eager) {
    sn_grad_mode_set(SN_GRAD_OFF);
    const Twin twin = twin_new(step, NULL, NULL, NULL);
    same_after(twin.fast, twin.eager, 4, 0);
    ck_assert(stats_of(twin.fast).compiles > 0);
    twin_free(twin);
}
END_TEST

START_TEST(graphs_of_steps_write_their_inputs) {
    static const char text[] =
        "graph f(%p: f32[3,4], %q: f32[3,4], %g: f32[3,4], %h: f32[3,4], %m: f32[3,4], %n: f32[3,4], %v: f32[3,4], "
        "%w: f32[3,4], %s: f32[], %t: f32[]) {\n"
        "  aten::_foreach_add_.Scalar([%s, %t], 1)\n"
        "  aten::_foreach_lerp_.Scalar([%m, %n], [%g, %h], 0.1)\n"
        "  aten::_foreach_mul_.ScalarList([%v, %w], [0.99, 0.99])\n"
        "  aten::_foreach_addcmul_.Scalar([%v, %w], [%g, %h], [%g, %h], 0.01)\n"
        "  aten::_foreach_addcdiv_.Scalar([%p, %q], [%m, %n], [%v, %w], -0.01)\n"
        "  aten::_fused_adamw_([%p, %q], [%g, %h], [%m, %n], [%v, %w], [], [%s, %t], lr=0.01, beta1=0.9, beta2=0.99, "
        "weight_decay=0.1, eps=1e-08, amsgrad=False, maximize=False)\n"
        "  return %p\n}\n";
    sn_grad_mode_set(SN_GRAD_OFF);
    sn_graph *const graph = sn_graph_parse(text, sizeof text - 1);
    ck_assert_msg(graph != NULL, "%s", sn_check() ? sn_error_take()->message : "");
    sn_function *const fn = sn_graph_compile(graph, NULL);
    ck_assert_msg(fn != NULL, "%s", sn_check() ? sn_error_take()->message : "");
    sn_function *const eager = sn_compile(step, NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
    same_after(fn, eager, 3, 1);
    sn_function_free(fn);
    sn_function_free(eager);
    sn_graph_free(graph);
}
END_TEST

START_TEST(lists_that_do_not_fit_are_refused) {
    sn_tensor *x[] = {F32(1, 2), F32(2, 3)};
    const sn_value both = sn_tensors_value((sn_tensors){x, 2}), one = sn_tensors_value((sn_tensors){x, 1});
    RUN("aten::_foreach_add_.List", both, one);
    expect_error(SN_ERR_ARGUMENT, "1 elements, but the first list 2");
    sn_tensor *ints[] = {sn_ones(SN_INTS(2), SN_I64)};
    RUN("aten::_foreach_sqrt_", sn_tensors_value((sn_tensors){ints, 1}));
    expect_error(SN_ERR_DTYPE, "can't hold f32");
    RUN("aten::_fused_sgd_", both, one, one, sn_float(0), sn_float(0), sn_float(0.1), sn_float(0), sn_bool(false),
        sn_bool(false), sn_bool(true));
    expect_error(SN_ERR_ARGUMENT, "grads has 1 tensors for 2 parameters");
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        steps_compile_with_the_bits_of_eager,
        graphs_of_steps_write_their_inputs,
        lists_that_do_not_fit_are_refused,
    };
    return contract_main("test_foreach", tests, (int)(sizeof tests / sizeof *tests));
}
