/* test_assert.c: ops without results and graphs of them (ir/ops/assert.def): eagerly, compiled and in texts they pass,
 * or say what the program says; what composites write in a text graph. */
#include <sinter/dispatch.h>
#include <sinter/graph.h>
#include <sinter/ops.h>

#include "tests/unit/contract.h"

static sn_status run(const char *op, const sn_value *args, int n) {
    sn_value none[1];
    int n_out = 0;
    return sn_op_call(sn_op_find(op), args, n, none, &n_out);
}
#define RUN(op, ...)                                                                                                   \
    run(op, (const sn_value[]){__VA_ARGS__}, (int)(sizeof((const sn_value[]){__VA_ARGS__}) / sizeof(sn_value)))

static void refused(sn_status status, sn_status want, const char *says) {
    ck_assert_int_eq(status, want);
    const sn_error *const error = sn_error_take();
    ck_assert_msg(strstr(error->message, says) != NULL, "%s", error->message);
}

static sn_tensor *flag(bool value) { return sn_full((sn_ints){NULL, 0}, sn_bool(value), SN_BOOL); }

START_TEST(they_check_eagerly) {
    sn_tensor *const x = F32(1, 2, 3);
    ck_assert_int_eq(RUN("aten::_assert_async", sn_val(flag(true))), SN_OK);
    ck_assert_int_eq(RUN("aten::_assert_async.msg", sn_val(flag(true)), sn_str("no")), SN_OK);
    refused(RUN("aten::_assert_async.msg", sn_val(flag(false)), sn_str("x's sum is 0")), SN_ERR_VALUE, "x's sum is 0");
    refused(RUN("aten::_assert_async", sn_val(x)), SN_ERR_SHAPE, "[2, 3]");
    ck_assert_int_eq(RUN("aten::_assert_scalar", sn_int(3), sn_str("no")), SN_OK);
    refused(RUN("aten::_assert_scalar", sn_int(0), sn_str("it is none")), SN_ERR_VALUE, "it is none");
    ck_assert_int_eq(RUN("aten::sym_constrain_range", sn_int(3), sn_int(1), sn_int(3)), SN_OK);
    refused(RUN("aten::sym_constrain_range_for_size", sn_int(-1)), SN_ERR_VALUE, "-1");
    refused(RUN("aten::sym_constrain_range_for_size", sn_int(3), sn_none(), sn_int(2)), SN_ERR_VALUE, "greater than 2");
    ck_assert_int_eq(RUN("aten::_assert_tensor_metadata", sn_val(x), sn_ints_value(SN_INTS(2, 3)),
                         sn_ints_value(SN_INTS(3, 1)), sn_int(SN_F32)),
                     SN_OK);
    refused(RUN("aten::_assert_tensor_metadata", sn_val(x), sn_ints_value(SN_INTS(3, 2))), SN_ERR_SHAPE, "[3, 2]");
    refused(RUN("aten::_assert_tensor_metadata", sn_val(x), sn_none(), sn_ints_value(SN_INTS(1, 2))), SN_ERR_SHAPE,
            "[1, 2]");
    refused(RUN("aten::_assert_tensor_metadata", sn_val(x), sn_none(), sn_none(), sn_int(SN_I64)), SN_ERR_DTYPE, "i64");
}
END_TEST

/* graphs -------------------------------------------------------------------------------------- */

static sn_function *parsed(const char *text) {
    sn_graph *const graph = sn_graph_parse(text, strlen(text));
    ck_assert_msg(graph != NULL, "%s", sn_check() ? sn_error_take()->message : "");
    sn_function *const fn = sn_graph_compile(graph, NULL);
    ck_assert_msg(fn != NULL, "%s", sn_check() ? sn_error_take()->message : "");
    sn_graph_free(graph);
    return fn;
}

static sn_tensor *called(sn_function *fn, sn_tensor *x) {
    sn_tensor *y = NULL;
    sn_call(fn, &x, 1, &y, 1);
    return y;
}

/* The second call is a compiled one. */
START_TEST(graphs_hold_them) {
    sn_function *const fn = parsed("graph f(%x: f32[2,3]) {\n"
                                   "  aten::_assert_tensor_metadata(%x, [2,3], None, f32)\n"
                                   "  %0 = aten::sum(%x)\n"
                                   "  %1 = aten::gt.Scalar(%0, 0)\n"
                                   "  aten::_assert_async.msg(%1, 'the sum is \\'low\\'')\n"
                                   "  %2 = aten::mul.Tensor(%x, 2)\n"
                                   "  return %2\n}\n");
    sn_tensor *const x = sn_ones(SN_INTS(2, 3), SN_F32), *const low = sn_neg(x);
    for (int i = 0; i < 3; i++) {
        ck_assert(same_bits(called(fn, x), sn_mul_scalar(x, sn_int(2))));
        ck_assert(!called(fn, low));
        refused(sn_check(), SN_ERR_VALUE, "the sum is 'low'");
    }
    ck_assert(stats_of(fn).compiles > 0);
    sn_function_free(fn);
}
END_TEST

/* A number of sizes is a guard of each call. */
START_TEST(sizes_are_guarded) {
    sn_function *const fn = parsed("graph f[s0=5](%x: f32[s0]) {\n"
                                   "  aten::sym_constrain_range_for_size(s0, min=2, max=8)\n"
                                   "  aten::_assert_scalar((s0%4), 'no multiple')\n"
                                   "  %0 = aten::neg(%x)\n"
                                   "  return %0\n}\n");
    for (int64_t n = 5; n < 8; n++) ck_assert(called(fn, sn_ones(SN_INTS(n), SN_F32)) != NULL);
    ck_assert(!called(fn, sn_ones(SN_INTS(9), SN_F32)));
    refused(sn_check(), SN_ERR_VALUE, "from 2 to 8");
    ck_assert(!called(fn, sn_ones(SN_INTS(8), SN_F32)));
    refused(sn_check(), SN_ERR_VALUE, "no multiple");
    sn_function_free(fn);
}
END_TEST

/* Results that show elements of a list, one of which is written. */
START_TEST(lists_of_views_share_memory) {
    sn_function *const fn = parsed("graph f(%x: f32[3]) {\n"
                                   "  %y = aten::mul.Tensor(%x, 2)\n"
                                   "  %0, %1 = aten::meshgrid.indexing([%x, %y], indexing='xy')\n"
                                   "  %2 = aten::add_.Tensor(%y, 1)\n"
                                   "  %3 = aten::sub.Tensor(%0, %1)\n"
                                   "  return %3\n}\n");
    sn_tensor *const x = F32(2, 3), *const y = sn_add_scalar(sn_mul_scalar(x, sn_int(2)), sn_int(1));
    sn_tensor *const want = sn_sub(sn_unsqueeze(x, 0), sn_unsqueeze(y, 1));
    for (int i = 0; i < 3; i++) ck_assert(same_bits(called(fn, x), want));
    sn_function_free(fn);
}
END_TEST

/* batch_norm in training moves the statistics that it is given. */
START_TEST(what_composites_write_is_written) {
    sn_function *const fn = parsed("graph f(%x: f32[4,3], %m: f32[3], %v: f32[3]) {\n"
                                   "  %0 = aten::batch_norm(%x, None, None, %m, %v, True, 0.1, 1e-05, False)\n"
                                   "  return %0\n}\n");
    sn_tensor *const mean[] = {sn_zeros(SN_INTS(3), SN_F32), sn_zeros(SN_INTS(3), SN_F32)};
    sn_tensor *const var[] = {sn_ones(SN_INTS(3), SN_F32), sn_ones(SN_INTS(3), SN_F32)};
    for (uint64_t i = 0; i < 3; i++) {
        sn_tensor *const x = F32(i, 4, 3), *in[] = {x, mean[0], var[0]}, *got = NULL;
        ck_assert_int_eq(sn_call(fn, in, 3, &got, 1), SN_OK);
        ck_assert(same_bits(got, sn_batch_norm(x, NULL, NULL, mean[1], var[1], true, 0.1, 1e-05)));
        ck_assert(same_bits(mean[0], mean[1]) && same_bits(var[0], var[1]));
    }
    sn_function_free(fn);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        they_check_eagerly,
        graphs_hold_them,
        sizes_are_guarded,
        lists_of_views_share_memory,
        what_composites_write_is_written,
    };
    return contract_main("test_assert", tests, (int)(sizeof tests / sizeof *tests));
}
