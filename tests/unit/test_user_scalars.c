/* test_user_scalars.c: pointwise ops of a program by a scalar expression: what it computes, in which dtype, that it
 * fuses with eager's bits, and what a wrong text is told. */
#include <stdio.h>

#include "ir/expression.h"
#include "runtime/base/error.h"
#include "tests/unit/contract.h"

static const sn_op *scalar_op(const char *schema, const char *text) {
    const sn_op *const op = sn_op_register(SN_OP_DESC(.schema = schema, .scalar = text));
    ck_assert_msg(op != NULL, "%s", sn_error_take()->message);
    return op;
}

static sn_tensor *call2(const sn_op *op, sn_tensor *x, sn_tensor *y) {
    const sn_value in[] = {sn_val(x), sn_val(y)};
    sn_tensor *const result = sn_op_call1(op, in, y ? 2 : 1);
    ck_assert_msg(result != NULL, "%s", sn_error_take()->message);
    return result;
}

static void expect_same(sn_tensor *got, sn_tensor *want) {
    ck_assert_msg(same_bits(got, want), "%s is not %s", sn_repr(got), sn_repr(want));
}

/* fusing -------------------------------------------------------------------------------------- */

static sn_status gate_derivative(sn_frame *f) { /* max(x, 0) * y + by */
    sn_tensor *const g = sn_grad_of(f, 0), *const x = sn_in(f, 0), *const y = sn_in(f, 1);
    sn_set_grad_of(f, 0, sn_mul(sn_mul(g, y), sn_gt_scalar(x, sn_int(0))));
    return sn_set_grad_of(f, 1, sn_mul(g, sn_relu(x)));
}

static const sn_op *gate_op(void) {
    const sn_op *const op =
        sn_op_register(SN_OP_DESC(.schema = "s::gate(Tensor x, Tensor y, float by) -> Tensor", .flags = SN_OP_PURE,
                                  .scalar = "max(x, 0) * y + by", .derivative = gate_derivative, .saves = "x, y"));
    ck_assert_msg(op != NULL, "%s", sn_error_take()->message);
    return op;
}

static sn_status gates(sn_frame *f) {
    const sn_value in[] = {sn_val(sn_sin(sn_in(f, 0))), sn_val(sn_in(f, 1)), sn_float(0.3)};
    return sn_out(f, 0, sn_exp(sn_op_call1(sn_closure(f), in, 3)));
}

START_TEST(a6_01_a_scalar_op_fuses) {
    void *const op = (void *)(uintptr_t)gate_op();
    const Twin twin = twin_new(gates, op, op, NULL);
    for (int i = 0; i < 4; i++) TWIN_CALL(twin, F32(i, 4, 6), F32(i + 9, 6));
    ck_assert_int_eq(stats_of(twin.fast).breaks, 0);
    ck_assert_ptr_nonnull(strstr(sn_explain(twin.fast), "k0_sin_gate_exp: aten::sin, s::gate, aten::exp"));
    for (int i = 2; i < 6; i++) TWIN_CALL(twin, F32(i, i, 6), F32(i + 9, 6)); /* any size, */
    TWIN_CALL(twin, sn_transpose(F32(3, 6, 4), 0, 1), F32(7, 6));             /* any strides */
    TWIN_CALL(twin, F32(1, 0, 6), F32(2, 6));
    twin_free(twin);
}
END_TEST

START_TEST(a6_01_a_scalar_op_has_gradients) {
    void *const op = (void *)(uintptr_t)gate_op();
    const Twin twin = twin_new(gates, op, op, NULL);
    for (int i = 0; i < 3; i++) {
        sn_tensor *const a[] = {LEAF(i, 4, 6), LEAF(i + 9, 4, 6)}, *const b[] = {LEAF(i, 4, 6), LEAF(i + 9, 4, 6)};
        sn_backward(sn_sum(sn_call1(twin.fast, (sn_tensors){a, 2})));
        sn_backward(sn_sum(sn_call1(twin.eager, (sn_tensors){b, 2})));
        ck_assert_int_eq(sn_check(), SN_OK);
        expect_same(sn_grad(a[0]), sn_grad(b[0]));
        expect_same(sn_grad(a[1]), sn_grad(b[1]));
    }
    ck_assert_int_eq(stats_of(twin.fast).ops_eager, 0);
    twin_free(twin);
}
END_TEST

/* what is computed ---------------------------------------------------------------------------- */

static sn_tensor *as(sn_tensor *x, sn_dtype dtype) { return sn_to_copy(x, dtype); }

/* A function by itself is the table's op, in every dtype, with its errors of dtype. */
START_TEST(a6_01_functions_are_the_tables_ops) {
    static const char *const unary[] = {
        "exp",        "exp2",        "log",         "log2",  "log10",    "log1p",      "expm1",      "sqrt",
        "rsqrt",      "sin",         "cos",         "tan",   "tanh",     "erf",        "erfc",       "sigmoid",
        "silu",       "gelu",        "mish",        "relu6", "softplus", "round",      "sign",       "frac",
        "reciprocal", "isnan",       "isfinite",    "isinf", "signbit",  "acos",       "acosh",      "asin",
        "asinh",      "atan",        "atanh",       "cosh",  "sinh",     "hardswish",  "elu",        "celu",
        "hardshrink", "hardsigmoid", "log_sigmoid", "logit", "relu",     "softshrink", "leaky_relu", "logical_not"};
    static const char *const binary[] = {"atan2",   "fmax",      "fmin",     "hypot", "logaddexp",   "maximum",
                                         "minimum", "heaviside", "copysign", "xlogy", "logical_and", "logical_xor"};
    static const sn_dtype dtypes[] = {SN_F32, SN_F64, SN_I32, SN_I64};
    for (int i = 0; i < COUNT_OF(unary) + COUNT_OF(binary); i++) {
        const bool two = i >= COUNT_OF(unary);
        const char *const name = two ? binary[i - COUNT_OF(unary)] : unary[i];
        char schema[80], text[80], row[80];
        snprintf(schema, sizeof schema, "f::%s(Tensor x%s) -> Tensor", name, two ? ", Tensor y" : "");
        snprintf(text, sizeof text, two ? "%s(x, y)" : "%s(x)", name);
        snprintf(row, sizeof row, "aten::%s", name);
        const sn_op *const own = scalar_op(schema, text);
        const sn_op *table = sn_op_find(row);
        if (!table) {
            sn_error_take();
            strcat(row, ".Tensor");
            table = sn_op_find(row);
        }
        ck_assert_msg(table != NULL, "%s", row);
        for (int d = 0; d < COUNT_OF(dtypes); d++) {
            sn_tensor *const x = as(F32(i, 40), dtypes[d]), *const y = as(F32(i + 1, 40), dtypes[d]);
            const sn_value in[] = {sn_val(x), sn_val(y)};
            sn_tensor *const want = sn_op_call1(table, in, 1 + two);
            if (!want)
                sn_error_take(); /* not for ints */
            else
                expect_same(call2(own, x, two ? y : NULL), want);
        }
    }
}
END_TEST

START_TEST(a6_01_an_expression_has_the_dtype_that_it_needs) {
    sn_tensor *const ints = sn_arange_start(sn_int(-3), sn_int(5), SN_I32);
    sn_tensor *const f = F32(3, 8), *const half = as(f, SN_F16), *const truth = sn_gt_scalar(f, sn_int(0));
    const sn_op *const sum = scalar_op("d::sum(Tensor x, Tensor y) -> Tensor", "x + 2 * y");
    expect_same(call2(sum, ints, ints), sn_mul_scalar(ints, sn_int(3)));
    expect_same(call2(sum, ints, f), sn_add(ints, sn_mul_scalar(f, sn_int(2))));
    ck_assert_int_eq(sn_dtype_of(call2(sum, half, half)), SN_F16);
    ck_assert_int_eq(sn_dtype_of(call2(sum, half, f)), SN_F32);
    ck_assert_int_eq(sn_dtype_of(call2(sum, truth, truth)), SN_I64);
    const sn_op *const share = scalar_op("d::share(Tensor x, Tensor y) -> Tensor", "x / 2 + 0 * y");
    expect_same(call2(share, ints, ints), sn_div_scalar(ints, sn_int(2)));
    const sn_op *const less = scalar_op("d::less(Tensor x, Tensor y) -> Tensor", "x < y");
    expect_same(call2(less, ints, f), sn_lt(ints, f));
    const sn_op *const count = scalar_op("d::count(Tensor x, Tensor y) -> Tensor", "(x < y) + (x >= y) + (x == x)");
    expect_same(call2(count, ints, ints), sn_full(SN_INTS(8), sn_int(2), SN_I32));
    /* once rounded: 1 + 2^-11 is no f16, twice it less 2 is 2^-10 */
    const sn_op *const once = scalar_op("d::once(Tensor x, Tensor y) -> Tensor", "(x + y) * 2 - 2");
    sn_tensor *const one = as(sn_ones(SN_INTS(1), SN_F32), SN_F16);
    sn_tensor *const small = as(sn_full(SN_INTS(1), sn_float(0x1p-11), SN_F32), SN_F16);
    ck_assert_double_eq(sn_item(call2(once, one, small)), 0x1p-10);
    const sn_op *const bits = scalar_op("d::bits(Tensor x, Tensor y) -> Tensor", "xor(shl(x, 2), idiv(y, 3))");
    expect_same(call2(bits, ints, ints),
                sn_bitwise_xor(sn_mul_scalar(ints, sn_int(4)),
                               sn_div_mode(ints, as(sn_full(SN_INTS(1), sn_int(3), SN_I32), SN_I32), "trunc")));
    const sn_value in[] = {sn_val(f), sn_val(f)};
    ck_assert_ptr_null(sn_op_call1(bits, in, 2));
    expect_error(SN_ERR_DTYPE, "d::bits: its expression is of ints, not f32");
}
END_TEST

START_TEST(a6_01_ints_of_an_expression_are_exact) {
    static const int64_t values[] = {0, 1, -1, (INT64_C(1) << 53) + 1, INT64_MAX, INT64_MIN};
    sn_tensor *const x = sn_from_data(values, SN_INTS(6), SN_I64), *const ones = sn_ones(SN_INTS(6), SN_I64);
    const sn_op *const odd = scalar_op("n::odd(Tensor x) -> Tensor", "x + 9007199254740993");
    expect_same(call2(odd, x, NULL), sn_add_scalar(x, sn_int(9007199254740993)));
    const sn_op *const most = scalar_op("n::most(Tensor x) -> Tensor", "max(x, 9223372036854775807)");
    expect_same(call2(most, x, NULL), sn_full(SN_INTS(6), sn_int(INT64_MAX), SN_I64));
    const sn_op *const least = scalar_op("n::least(Tensor x) -> Tensor", "min(x, -9223372036854775808)");
    expect_same(call2(least, x, NULL), sn_mul_scalar(ones, sn_int(INT64_MIN)));
    const sn_op *const row = scalar_op("n::row(Tensor x) -> Tensor", "threshold(x, 9007199254740992, -7)");
    expect_same(call2(row, x, NULL), sn_threshold(x, sn_int(9007199254740992), sn_int(-7)));
    sn_tensor *const narrow = sn_to_copy(x, SN_I32);
    const sn_op *const wide = scalar_op("n::wide(Tensor x) -> Tensor", "x + 3000000000"); /* as the table's: wraps */
    expect_same(call2(wide, narrow, NULL), sn_add_scalar(narrow, sn_int(3000000000)));
}
END_TEST

static sn_status odd_of(sn_frame *f) {
    const sn_value in[] = {sn_in_value(f, 0)};
    return sn_out(f, 0, sn_op_call1(sn_closure(f), in, 1));
}

START_TEST(a6_01_exact_ints_are_compiled) {
    void *const op = (void *)(uintptr_t)scalar_op("n::mixed(Tensor x) -> Tensor",
                                                  "max(x + 9007199254740993, -9223372036854775808) + 3000000001");
    const Twin twin = twin_new(odd_of, op, op, NULL);
    for (int i = 0; i < 3; i++) TWIN_CALL(twin, sn_arange_start(sn_int(i - 3), sn_int(5), SN_I64));
    for (int i = 0; i < 3; i++) TWIN_CALL(twin, sn_arange_start(sn_int(i - 3), sn_int(5), SN_I32));
    ck_assert_int_eq(stats_of(twin.fast).breaks, 0);
    twin_free(twin);
}
END_TEST

/* Signs before a number are its own, so it is one for parameters that are plain numbers. */
START_TEST(a6_01_signed_numbers_are_plain) {
    sn_tensor *const x = F32(3, 40);
    const sn_op *const leaky = scalar_op("m::leaky(Tensor x) -> Tensor", "leaky_relu(x, -0.1)");
    expect_same(call2(leaky, x, NULL), sn_leaky_relu(x, sn_float(-0.1)));
    const sn_op *const elu = scalar_op("m::elu(Tensor x) -> Tensor", "elu(x, -1)");
    const sn_value in[] = {sn_val(x), sn_int(-1)};
    expect_same(call2(elu, x, NULL), sn_op_call1(sn_op_find("aten::elu"), in, 2));
    const sn_op *const tanh = scalar_op("m::tanh(Tensor x) -> Tensor", "hardtanh(x, - -+-0.5, +0.5)");
    expect_same(call2(tanh, x, NULL), sn_hardtanh(x, sn_float(-0.5), sn_float(0.5)));
    const sn_op *const sum = scalar_op("m::sum(Tensor x) -> Tensor", "x--1+-2*-x");
    expect_same(call2(sum, x, NULL), sn_add(sn_add_scalar(x, sn_int(1)), sn_mul_scalar(sn_neg(x), sn_int(-2))));
}
END_TEST

static int build_gate(sn_expr *e, void *closure) {
    const int x = sn_expr_arg(e, "x"), zero = sn_expr_number(e, sn_int(0));
    const int most = sn_expr_call(e, "max", (const int[]){x, zero}, 2);
    const int product = sn_expr_call(e, "mul", (const int[]){most, sn_expr_arg(e, "y")}, 2);
    return sn_expr_call(e, closure, (const int[]){product, sn_expr_arg(e, "by")}, 2);
}

START_TEST(a6_01_an_expression_is_built_by_calls) {
    const char *const schema = "s::built(Tensor x, Tensor y, float by) -> Tensor";
    const sn_op *const built =
        sn_op_register(SN_OP_DESC(.schema = schema, .scalar_body = build_gate, .closure = "add"));
    ck_assert_msg(built != NULL, "%s", sn_error_take()->message);
    sn_value in[] = {sn_val(F32(1, 30)), sn_val(F32(2, 30)), sn_float(0.3)};
    expect_same(sn_op_call1(built, in, 3), sn_op_call1(gate_op(), in, 3));
    ck_assert_ptr_null(sn_op_register(SN_OP_DESC(.schema = "s::none(Tensor x, Tensor y, float by) -> Tensor",
                                                 .scalar_body = build_gate, .closure = "frobnicate")));
    expect_error(SN_ERR_ARGUMENT, "s::none: scalar expression: there is no function 'frobnicate'");
    ck_assert_ptr_null(sn_op_register(SN_OP_DESC(.schema = "s::other(Tensor x) -> Tensor", .scalar_body = build_gate)));
    expect_error(SN_ERR_ARGUMENT, "s::other: scalar expression: the schema has no parameter 'y'");
}
END_TEST

static int registers_inside(sn_expr *e, void *closure) {
    ck_assert_ptr_nonnull(scalar_op(closure, "x * 3"));
    return sn_expr_call(e, "neg", (const int[]){sn_expr_arg(e, "x")}, 1);
}

START_TEST(a6_01_an_op_is_registered_while_another_is_built) {
    const sn_op *const outer =
        sn_op_register(SN_OP_DESC(.schema = "r::outer(Tensor x) -> Tensor", .closure = "r::inner(Tensor x) -> Tensor",
                                  .scalar_body = registers_inside));
    ck_assert_msg(outer != NULL, "%s", sn_error_take()->message);
    sn_tensor *const x = F32(1, 6);
    expect_same(call2(outer, x, NULL), sn_neg(x));
    expect_same(call2(sn_op_find("r::inner"), x, NULL), sn_mul_scalar(x, sn_int(3)));
    ck_assert_ptr_null(
        sn_op_register(SN_OP_DESC(.schema = "r::same(Tensor x) -> Tensor", .closure = "r::same(Tensor x) -> Tensor",
                                  .scalar_body = registers_inside)));
    expect_error(SN_ERR_ARGUMENT, "op r::same exists already"); /* the inner one, which was first */
}
END_TEST

/* other layers -------------------------------------------------------------------------------- */

static sn_status gate_of_example(sn_frame *f) {
    const sn_value in[] = {sn_in_value(f, 0), sn_in_value(f, 1), sn_float(0.5)};
    return sn_out(f, 0, sn_op_call1(sn_closure(f), in, 3));
}

START_TEST(a6_01_a_scalar_op_is_batched_and_cast) {
    const sn_op *const op = gate_op();
    sn_tensor *const x = F32(1, 3, 5), *const y = F32(2, 3, 5);
    const sn_value in[] = {sn_val(x), sn_val(y), sn_float(0.5)};
    sn_tensor *mapped;
    sn_vmap(gate_of_example, (void *)(uintptr_t)op, SN_VMAP_OPTIONS(), SN_TENSORS(x, y), &mapped, 1);
    ck_assert_int_eq(sn_check(), SN_OK);
    expect_same(mapped, sn_op_call1(op, in, 3));
    const sn_op *const lower = sn_op_register(
        SN_OP_DESC(.schema = "s::lower(Tensor x) -> Tensor", .scalar = "x * 2", .autocast = SN_CAST_LOWER));
    const sn_scope region = sn_scope_begin();
    sn_autocast_set(SN_CPU, SN_BF16);
    const sn_dtype dtype = sn_dtype_of(call2(lower, x, NULL));
    sn_scope_end(region);
    ck_assert_int_eq(dtype, SN_BF16);
}
END_TEST

/* wrong ones ---------------------------------------------------------------------------------- */

START_TEST(a6_01_a_wrong_expression_says_where) {
    static const struct {
        const char *text, *says;
        sn_status status;
    } rows[] = {{"", "column 1: the text ends too soon", SN_ERR_PARSE},
                {"x +", "column 4: the text ends too soon", SN_ERR_PARSE},
                {"(x", "column 3: ')' is missing here", SN_ERR_PARSE},
                {"x y", "column 3: the expression has ended before", SN_ERR_PARSE},
                {"x < y < x", "column 7: the expression has ended before", SN_ERR_PARSE},
                {"x ** y", "column 4: a number, a name or '(' should be here", SN_ERR_PARSE},
                {"max(x; y)", "column 6: ',' or ')' is missing here", SN_ERR_PARSE},
                {"1e", "column 1: a number is not one", SN_ERR_PARSE},
                {"x + z", "column 5: the schema has no parameter 'z'", SN_ERR_ARGUMENT},
                {"x + foo(y)", "column 5: there is no function 'foo'", SN_ERR_ARGUMENT},
                {"max(x)", "column 1: max takes 2 arguments, not 1", SN_ERR_ARGUMENT},
                {"leaky_relu(x, y)", "column 1: the arguments are not those of", SN_ERR_ARGUMENT},
                {"x + gelu(x, 1)", "column 5: the arguments are not those of", SN_ERR_ARGUMENT},
                {"gelu(x, -0.5)", "column 1: the arguments are not those of", SN_ERR_ARGUMENT},
                {"gelu(x, y)", "column 1: the arguments are not those of", SN_ERR_ARGUMENT},
                {"logit(x, 0.1, 2)", "column 1: the arguments are not those of", SN_ERR_ARGUMENT},
                {"x * 9223372036854775808", "column 5: the int 9223372036854775808 does not fit", SN_ERR_PARSE},
                {"x - -9223372036854775809", "column 5: the int -9223372036854775809 does not fit", SN_ERR_PARSE},
                {"rand(x)", "there is no function 'rand'", SN_ERR_ARGUMENT},
                {"philox(x, x, x)", "there is no function 'philox'", SN_ERR_ARGUMENT},
                {"shl(x, 1) / 2", "one part needs ints, another one floats", SN_ERR_DTYPE}};
    for (int i = 0; i < COUNT_OF(rows); i++) {
        ck_assert_ptr_null(
            sn_op_register(SN_OP_DESC(.schema = "e::wrong(Tensor x, Tensor y) -> Tensor", .scalar = rows[i].text)));
        expect_error(rows[i].status, rows[i].says);
    }
    char deep[500];
    memset(deep, '(', sizeof deep);
    deep[sizeof deep - 1] = '\0';
    ck_assert_ptr_null(sn_op_register(SN_OP_DESC(.schema = "e::deep(Tensor x) -> Tensor", .scalar = deep)));
    expect_error(SN_ERR_PARSE, "too many parentheses are open");
    ck_assert_ptr_nonnull(scalar_op("e::wrong(Tensor x, Tensor y) -> Tensor", "x + y")); /* nothing of them is left */
}
END_TEST

static sn_status sets_nothing(sn_frame *f) { return f ? SN_OK : SN_ERR_INTERNAL; }

START_TEST(a6_01_a_scalar_op_has_no_second_body) {
    ck_assert_ptr_null(
        sn_op_register(SN_OP_DESC(.schema = "e::a(Tensor x) -> Tensor", .scalar = "x", .cpu = sets_nothing)));
    expect_error(SN_ERR_ARGUMENT, "has no kernel, meta rule or decomposition");
    ck_assert_ptr_null(
        sn_op_register(SN_OP_DESC(.schema = "e::a(Tensor x) -> Tensor", .scalar = "x", .scalar_body = build_gate)));
    expect_error(SN_ERR_ARGUMENT, "two expressions");
    ck_assert_ptr_null(
        sn_op_register(SN_OP_DESC(.schema = "e::a(Tensor x) -> Tensor", .scalar = "x", .flags = SN_OP_ORDERED)));
    expect_error(SN_ERR_ARGUMENT, "it is SN_OP_PURE");
    ck_assert_ptr_null(sn_op_register(SN_OP_DESC(.schema = "e::a(Tensor(a!) x) -> Tensor(a!)", .scalar = "x")));
    expect_error(SN_ERR_UNSUPPORTED, "parameter 'x' must be Tensor");
    ck_assert_ptr_null(sn_op_register(SN_OP_DESC(.schema = "e::a(Tensor[] x) -> Tensor", .scalar = "1")));
    expect_error(SN_ERR_UNSUPPORTED, "parameter 'x' must be Tensor");
    ck_assert_ptr_null(sn_op_register(SN_OP_DESC(.schema = "e::a(Tensor x) -> (Tensor, Tensor)", .scalar = "x")));
    expect_error(SN_ERR_ARGUMENT, "the op has 2 results");
    /* what was built before the field was there has none, whatever lies behind its description */
    sn_op_desc old = {.size = offsetof(sn_op_desc, scalar), .schema = "e::a(Tensor x) -> Tensor", .scalar = "((("};
    ck_assert_ptr_null(sn_op_register(&old));
    expect_error(SN_ERR_ARGUMENT, "an op needs a kernel");
}
END_TEST

/* Texts changed at random: each parses or says why, and what parses stays within its parts. */
START_TEST(a6_01_mutated_expressions_are_read_or_refused) {
    static const char *const seeds[] = {"max(x, 0) * y + by", "where(x < y, gelu(x), -1.5e-3 / by)",
                                        "and(isnan(x), x >= 2) + leaky_relu(y, 0.1)", "fma(x, y, 3) != shl(x, 1)"};
    static const char pool[] = "xyb+-*/<>=!(),.0123456789e \t_maxwheri\x80\xff";
    gate_op();
    const OpRow *const row = op_find("s::gate", 7, NULL);
    uint64_t s = 5;
    int read = 0;
    for (int round = 0; round < 10000; round++) {
        char text[96];
        snprintf(text, sizeof text, "%s", seeds[round % 4]);
        for (int k = 0; k < 1 + round % 5; k++) {
            s = s * 6364136223846793005u + 1442695040888963407u;
            const size_t n = strlen(text), at = n ? (s >> 33) % n : 0;
            const char c = pool[(s >> 20) % (sizeof pool - 1)];
            if (n && s >> 62 == 0)
                memmove(text + at, text + at + 1, n - at);
            else if (n + 1 < sizeof text && s >> 62 == 1)
                memmove(text + at + 1, text + at, n - at + 1), text[at] = c;
            else if (n)
                text[at] = c;
        }
        Expression *const e = calloc(1, sizeof *e);
        e->row = row;
        if (expression_parse(e, text) == ST_OK && expression_check(e) == ST_OK) {
            ck_assert(e->root >= 0 && e->root < e->n && e->n <= MAX_EXPR_NODES);
            read++;
        } else {
            ck_assert_ptr_nonnull(strstr(sn_error_take()->message, "s::gate: scalar expression"));
        }
        free(e);
    }
    ck_assert_msg(read > 200 && read < 9000, "%d of 10000 are read", read);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        a6_01_a_scalar_op_fuses,
        a6_01_a_scalar_op_has_gradients,
        a6_01_functions_are_the_tables_ops,
        a6_01_an_expression_has_the_dtype_that_it_needs,
        a6_01_ints_of_an_expression_are_exact,
        a6_01_exact_ints_are_compiled,
        a6_01_signed_numbers_are_plain,
        a6_01_an_expression_is_built_by_calls,
        a6_01_an_op_is_registered_while_another_is_built,
        a6_01_a_scalar_op_is_batched_and_cast,
        a6_01_a_wrong_expression_says_where,
        a6_01_a_scalar_op_has_no_second_body,
        a6_01_mutated_expressions_are_read_or_refused,
    };
    return contract_main("test_user_scalars", tests, (int)(sizeof tests / sizeof *tests));
}
