/* test_corner_gradients.c: gradients where a function has none by analysis: ties, bounds, zeros, NaN. The numbers are
 * PyTorch's. Eagerly and compiled. */
#include "tests/unit/contract.h"

enum { MAX_INPUTS = 3, MAX_LENGTH = 12 };

/* One call with what its inputs hold and the gradients of 3 sum(result). */
typedef struct Corner {
    const char *name;
    sn_tensor *(*call)(sn_tensor *const *in);
    int n_inputs, length;
    float in[MAX_INPUTS][MAX_LENGTH], want[MAX_INPUTS][MAX_LENGTH];
} Corner;

static sn_status run(sn_frame *f) {
    const Corner *const corner = sn_closure(f);
    sn_tensor *in[MAX_INPUTS];
    for (int i = 0; i < corner->n_inputs; i++) in[i] = sn_in(f, i);
    return sn_out(f, 0, sn_sum(sn_mul_scalar(corner->call(in), sn_float(3))));
}

static void leaves(const Corner *c, sn_tensor **to) {
    for (int i = 0; i < c->n_inputs; i++)
        to[i] = sn_requires_grad_(sn_from_data(c->in[i], (sn_ints){(int64_t[]){c->length}, 1}, SN_F32), true);
}

static void check_grad(const Corner *c, sn_tensor *leaf, int i) {
    float got[MAX_LENGTH];
    ck_assert_int_eq(sn_read(sn_grad(leaf), got, (size_t)c->length * sizeof *got), SN_OK);
    for (int k = 0; k < c->length; k++) {
        const float want = c->want[i][k];
        ck_assert_msg(isnan(want) ? isnan(got[k]) : fabsf(got[k] - want) <= 1e-6f || got[k] == want,
                      "%s: gradient of input %d at %d: %g, not %g", c->name, i, k, got[k], want);
    }
}

static void check_corner(Corner *c) {
    const Twin twin = twin_new(run, c, c, NULL);
    for (int round = 0; round < 3; round++) {
        sn_tensor *in[2][MAX_INPUTS];
        for (int k = 0; k < 2; k++) {
            leaves(c, in[k]);
            sn_tensor *const loss = sn_call1(k ? twin.fast : twin.eager, (sn_tensors){in[k], c->n_inputs});
            ck_assert_msg(sn_backward(loss) == SN_OK, "%s: %s", c->name, sn_error_take()->message);
        }
        for (int i = 0; i < c->n_inputs; i++) {
            check_grad(c, in[0][i], i);
            ck_assert_msg(same_bits(sn_grad(in[0][i]), sn_grad(in[1][i])), "%s: compiled", c->name);
        }
    }
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    twin_free(twin);
}

#define CALL(name, expr)                                                                                               \
    static sn_tensor *name(sn_tensor *const *in) { return expr; }
static const sn_scalar none; /* an absent limit */

/* clamp --------------------------------------------------------------------------------------- */

CALL(at_least_0, sn_clamp(in[0], sn_float(0), none))
CALL(at_most_1, sn_clamp(in[0], none, sn_float(1)))
CALL(in_0_1, sn_clamp(in[0], sn_float(0), sn_float(1)))
CALL(in_1_0, sn_clamp(in[0], sn_float(1), sn_float(0)))
CALL(at_least_nan, sn_clamp(in[0], sn_float(NAN), none))
CALL(min_0, sn_clamp_min(in[0], sn_float(0)))
CALL(max_1, sn_clamp_max(in[0], sn_float(1)))
#define NUMBERS                                                                                                        \
    1, 6, {                                                                                                            \
        { -1, 0, 0.5f, 1, 2, NAN }                                                                                     \
    }

START_TEST(clamp_by_numbers_loses_the_gradient_at_a_bound) {
    Corner corners[] = {
        {"clamp(0, None)", at_least_0, NUMBERS, {{0, 0, 3, 3, 3, 0}}},
        {"clamp(None, 1)", at_most_1, NUMBERS, {{3, 3, 3, 0, 0, 0}}},
        {"clamp(0, 1)", in_0_1, NUMBERS, {{0, 0, 3, 0, 0, 0}}},
        {"clamp(1, 0)", in_1_0, NUMBERS, {{0}}},
        {"clamp(nan, None)", at_least_nan, NUMBERS, {{0}}},
        {"clamp_min(0)", min_0, NUMBERS, {{0, 0, 3, 3, 3, 0}}},
        {"clamp_max(1)", max_1, NUMBERS, {{3, 3, 3, 0, 0, 0}}},
    };
    for (size_t i = 0; i < sizeof corners / sizeof *corners; i++) check_corner(&corners[i]);
}
END_TEST

CALL(between, sn_clamp_tensor(in[0], in[1], in[2]))
CALL(at_least, sn_clamp_tensor(in[0], in[1], NULL))
CALL(at_most, sn_clamp_tensor(in[0], NULL, in[1]))
CALL(min_tensor, sn_clamp_min_tensor(in[0], in[1]))
CALL(max_tensor, sn_clamp_max_tensor(in[0], in[1]))
#define PAIRS                                                                                                          \
    2, 6, {                                                                                                            \
        {0, 0, 1, NAN, 0, 1}, { 0, 1, 0, 0, NAN, NAN }                                                                 \
    }
#define LOWER                                                                                                          \
    {                                                                                                                  \
        {1.5f, 0, 3, 3, 3, 3}, { 1.5f, 3, 0, 3, 3, 3 }                                                                 \
    }
#define UPPER                                                                                                          \
    {                                                                                                                  \
        {1.5f, 3, 0, 3, 3, 3}, { 1.5f, 0, 3, 3, 3, 3 }                                                                 \
    }

START_TEST(clamp_by_tensors_shares_the_gradient_at_a_bound) {
    Corner corners[] = {
        {"clamp(min, max)",
         between,
         3,
         12,
         {{0, 0, 0, 0, 1, 1, 1, 1, 2, NAN, NAN, NAN},
          {0, 0, 1, 1, 0, 0, 1, 1, 1, 1, 0, NAN},
          {0, 1, 0, 1, 1, NAN, 0, 2, 0, 0, 1, 1}},
         {{3, 1.5f, 0, 0, 1.5f, 3, 0, 1.5f, 0, 3, 3, 3},
          {0, 1.5f, 0, 3, 0, 0, 0, 1.5f, 0, 0, 0, 0},
          {0, 0, 3, 0, 1.5f, 0, 3, 0, 3, 3, 0, 0}}},
        {"clamp(min, None)", at_least, PAIRS, LOWER},
        {"clamp(None, max)", at_most, PAIRS, UPPER},
        {"clamp_min(min)", min_tensor, PAIRS, LOWER},
        {"clamp_max(max)", max_tensor, PAIRS, UPPER},
    };
    for (size_t i = 0; i < sizeof corners / sizeof *corners; i++) check_corner(&corners[i]);
}
END_TEST

/* xlogy --------------------------------------------------------------------------------------- */

static sn_tensor *xlogy_form(const char *form, sn_value self, sn_value other) {
    return sn_op_call1(sn_op_find(form), (const sn_value[]){self, other}, 2);
}
#define BY_NUMBER(n) xlogy_form("aten::xlogy.Scalar_Other", sn_val(in[0]), sn_float(n))
#define OF_NUMBER(n) xlogy_form("aten::xlogy.Scalar_Self", sn_float(n), sn_val(in[0]))
CALL(xlogy_2, BY_NUMBER(2))
CALL(xlogy_0, BY_NUMBER(0))
CALL(xlogy_minus_1, BY_NUMBER(-1))
CALL(xlogy_nan, BY_NUMBER(NAN))
CALL(two_xlogy, OF_NUMBER(2))
CALL(zero_xlogy, OF_NUMBER(0))
CALL(both_xlogy, sn_xlogy(in[0], in[1]))
CALL(unseen_xlogy_0, sn_mul_scalar(BY_NUMBER(0), sn_float(0)))
#define SELF                                                                                                           \
    1, 5, {                                                                                                            \
        { -1, 0, 0.5f, 2, NAN }                                                                                        \
    }
#define LOG8 2.07944154f /* 3 log 2 */

START_TEST(xlogy_has_gradients_beside_numbers) {
    Corner corners[] = {
        {"xlogy(x, 2)", xlogy_2, SELF, {{LOG8, LOG8, LOG8, LOG8, LOG8}}},
        {"xlogy(x, 0)", xlogy_0, SELF, {{-INFINITY, 0, -INFINITY, -INFINITY, -INFINITY}}},
        {"xlogy(x, -1)", xlogy_minus_1, SELF, {{NAN, 0, NAN, NAN, NAN}}},
        {"xlogy(x, nan)", xlogy_nan, SELF, {{NAN, 0, NAN, NAN, NAN}}},
        {"0 xlogy(x, 0)", unseen_xlogy_0, SELF, {{0}}}, /* xlogy(gradient, other) */
        {"xlogy(2, x)", two_xlogy, SELF, {{-6, INFINITY, 12, 3, NAN}}},
        {"xlogy(0, x)", zero_xlogy, SELF, {{-0.0f, NAN, 0, 0, NAN}}},
        {"xlogy(x, y)",
         both_xlogy,
         2,
         8,
         {{0, 0, 0, 0, 1, 1, NAN, NAN}, {0, 1, -1, NAN, 0, NAN, 0, NAN}},
         {{0, 0, 0, NAN, -INFINITY, NAN, -INFINITY, NAN}, {NAN, 0, 0, NAN, INFINITY, NAN, NAN, NAN}}},
    };
    for (size_t i = 0; i < sizeof corners / sizeof *corners; i++) check_corner(&corners[i]);
}
END_TEST

/* reductions ---------------------------------------------------------------------------------- */

static sn_tensor *rows_of(sn_tensor *x, int64_t columns) { return sn_reshape(x, SN_INTS(-1, columns)); }
#define DEVIATION(correction) sn_std_correction_ex(rows_of(in[0], 3), SN_INTS(1), sn_float(correction), false)
CALL(std_all, sn_std(in[0]))
CALL(std_rows, sn_std_dim(rows_of(in[0], 3), SN_INTS(1), true, true))
CALL(std_correction_0, DEVIATION(0))
CALL(std_correction_3, DEVIATION(3))

START_TEST(std_of_equal_elements_has_no_slope) {
    Corner corners[] = {
        {"std()", std_all, 1, 3, {{2, 2, 2}}, {{0, 0, 0}}},
        {"std(1)", std_rows, 1, 6, {{2, 2, 2, 1, 2, 3}}, {{0, 0, 0, -1.5f, 0, 1.5f}}},
        {"correction 0", std_correction_0, 1, 6, {{2, 2, 2, 1, 2, 3}}, {{0, 0, 0, -1.22474480f, 0, 1.22474480f}}},
        {"correction 3", std_correction_3, 1, 3, {{2, 2, 2}}, {{NAN, NAN, NAN}}},
    };
    for (size_t i = 0; i < sizeof corners / sizeof *corners; i++) check_corner(&corners[i]);
}
END_TEST

CALL(row_max, sn_max_dim(rows_of(in[0], 4), 1, false, NULL))
CALL(row_min, sn_min_dim(rows_of(in[0], 4), -1, true, NULL))
CALL(row_amax, sn_amax_ex(rows_of(in[0], 4), SN_INTS(1), false))
#define ROWS                                                                                                           \
    1, 12, {                                                                                                           \
        { 1, 3, 3, 2, NAN, 0, NAN, 5, 0, -0.0f, 0, -1 }                                                                \
    }

START_TEST(a_tie_is_the_named_elements_where_there_are_indices) {
    Corner corners[] = {
        {"max(1)", row_max, ROWS, {{0, 3, 0, 0, 3, 0, 0, 0, 3, 0, 0, 0}}},
        {"min(1)", row_min, ROWS, {{3, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 3}}},
        {"amax(1)", row_amax, 1, 4, {{1, 3, 3, 2}}, {{0, 1.5f, 1.5f, 0}}},
    };
    for (size_t i = 0; i < sizeof corners / sizeof *corners; i++) check_corner(&corners[i]);
}
END_TEST

static sn_tensor *boxed(const char *op, sn_value a, sn_value b, sn_value c) {
    return sn_op_call1(sn_op_find(op), (const sn_value[]){a, b, c}, 3);
}
CALL(where_true, boxed("aten::where.self", sn_bool(true), sn_val(in[0]), sn_val(in[1])))
CALL(where_false, boxed("aten::where.ScalarSelf", sn_bool(false), sn_float(1.5), sn_val(in[0])))
CALL(where_other, boxed("aten::where.ScalarOther", sn_bool(false), sn_val(in[0]), sn_float(1.5)))
CALL(filled, boxed("aten::masked_fill.Scalar", sn_val(in[0]), sn_bool(true), sn_float(2)))
CALL(not_filled, boxed("aten::masked_fill.Scalar", sn_val(in[0]), sn_bool(false), sn_float(2)))
#define FEW                                                                                                            \
    {                                                                                                                  \
        {1, -2}, { 3, 4 }                                                                                              \
    }

/* A number stands for a tensor of no dims, as everywhere in a boxed call. */
START_TEST(a_mask_may_be_a_number) {
    Corner corners[] = {
        {"where(true)", where_true, 2, 2, FEW, {{3, 3}, {0, 0}}},
        {"where(false, number, x)", where_false, 1, 2, FEW, {{3, 3}}},
        {"where(false, x, number)", where_other, 1, 2, FEW, {{0, 0}}},
        {"masked_fill(true)", filled, 1, 2, FEW, {{0, 0}}},
        {"masked_fill(false)", not_filled, 1, 2, FEW, {{3, 3}}},
    };
    for (size_t i = 0; i < sizeof corners / sizeof *corners; i++) check_corner(&corners[i]);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {clamp_by_numbers_loses_the_gradient_at_a_bound,
                                  clamp_by_tensors_shares_the_gradient_at_a_bound,
                                  xlogy_has_gradients_beside_numbers,
                                  std_of_equal_elements_has_no_slope,
                                  a_tie_is_the_named_elements_where_there_are_indices,
                                  a_mask_may_be_a_number};
    return contract_main("test_corner_gradients", tests, (int)(sizeof tests / sizeof *tests));
}
