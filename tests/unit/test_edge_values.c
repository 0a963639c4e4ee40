/* test_edge_values.c: what PyTorch computes at edges [semantics B9], eagerly and compiled: operands that are wider than
 * the dtype they promote to, gradients at ties, zeros and NaN, reductions of nothing, values outside of a domain. The
 * sweep over all rows is recorded (tests/oracle/torch_edges.py); here stands one small program of each kind. */
#include "tests/unit/contract.h"

#define FLOATS(...) sn_from_data((const float[]){__VA_ARGS__}, SN_INTS(SN_COUNT(float, __VA_ARGS__)), SN_F32)
#define LONGS(...)  sn_from_data((const int64_t[]){__VA_ARGS__}, SN_INTS(SN_COUNT(int64_t, __VA_ARGS__)), SN_I64)

typedef struct Edge {
    const char *what;
    sn_tensor *(*compute)(sn_tensor *const *in);
    void (*make)(sn_tensor **in);
    int n_in;
    double want[8]; /* in order */
    int n;          /* 0: a value error that says `says` */
    const char *says;
} Edge;

static sn_status edge_body(sn_frame *f) {
    const Edge *const edge = sn_closure(f);
    sn_tensor *in[4];
    for (int i = 0; i < edge->n_in; i++) in[i] = sn_in(f, i);
    return sn_out(f, 0, edge->compute(in));
}

static bool same_number(double a, double b) { return isnan(a) ? isnan(b) : a == b && signbit(a) == signbit(b); }

static void check_edge(const Edge *edge, sn_compile_mode mode) {
    sn_function *const fn = sn_compile(edge_body, (void *)edge, SN_COMPILE_OPTIONS(.mode = mode));
    for (int call = 0; call < 2; call++) {
        const sn_scope scope = sn_scope_begin();
        sn_tensor *in[4], *out = NULL;
        double got[8] = {0};
        edge->make(in);
        const sn_status status = sn_call(fn, in, edge->n_in, &out, 1);
        if (edge->n == 0) {
            const sn_error *const error = sn_error_take();
            ck_assert_msg(error->status == SN_ERR_VALUE && strstr(error->message, edge->says), "%s: %s", edge->what,
                          error->message);
        } else {
            ck_assert_msg(status == SN_OK && sn_numel(out) == edge->n, "%s: %s", edge->what, sn_error_take()->message);
            ck_assert_int_eq(sn_read(sn_to(sn_detach(out), SN_F64), got, (size_t)edge->n * sizeof *got), SN_OK);
            for (int i = 0; i < edge->n; i++)
                ck_assert_msg(same_number(got[i], edge->want[i]), "%s: element %d is %g, not %g", edge->what, i, got[i],
                              edge->want[i]);
        }
        sn_scope_end(scope);
    }
    sn_function_free(fn);
}

static void check_edges(const Edge *edges, int n) {
    for (int i = 0; i < n; i++) {
        check_edge(&edges[i], SN_COMPILE_EAGER);
        check_edge(&edges[i], SN_COMPILE_VERIFY);
    }
}
#define CHECK_EDGES(edges) check_edges(edges, (int)(sizeof(edges) / sizeof *(edges)))

/* promotion ------------------------------------------------------------------------------------------------------- */

static void make_f16(sn_tensor **in) { in[0] = sn_to(FLOATS(0.1f, -0.1f), SN_F16); }
static void make_bf16(sn_tensor **in) { in[0] = sn_to(FLOATS(0.1f, -0.1f), SN_BF16); }
static void make_f16_f32(sn_tensor **in) { make_f16(in), in[1] = sn_scalar_tensor(sn_float(0.1), SN_F32); }
static void make_f32_f64(sn_tensor **in) {
    in[0] = FLOATS(0.1f, 0.2f), in[1] = sn_scalar_tensor(sn_float(0.1), SN_F64);
}
static void make_f16_small(sn_tensor **in) { make_f16(in), in[1] = sn_scalar_tensor(sn_float(1e-9), SN_F32); }
static void make_i8_i64(sn_tensor **in) {
    in[0] = sn_to(LONGS(44, -2, 100), SN_I8);
    in[1] = sn_scalar_tensor(sn_int(200), SN_I64);
}
static void make_i64_f16(sn_tensor **in) { in[0] = LONGS(2049, 70000), in[1] = sn_to(FLOATS(1, 1), SN_F16); }
static void make_shrunk(sn_tensor **in) { in[0] = sn_to(FLOATS(1e-3f, 0.5f), SN_F16); }

static sn_tensor *is_tenth(sn_tensor *const *in) { return sn_eq_scalar(in[0], sn_float(0.1)); }
static sn_tensor *tenth_less(sn_tensor *const *in) { return sn_rsub_scalar(in[0], sn_float(0.1)); }
static sn_tensor *in_tenths(sn_tensor *const *in) { return sn_remainder_scalar(in[0], sn_float(0.1)); }
static sn_tensor *over_thousand(sn_tensor *const *in) { return sn_mul_scalar(in[0], sn_float(1e5)); }
static sn_tensor *shrunk(sn_tensor *const *in) { return sn_hardshrink(in[0], sn_float(1e-3)); }
static sn_tensor *equal(sn_tensor *const *in) { return sn_eq(in[0], in[1]); }
static sn_tensor *both_true(sn_tensor *const *in) { return sn_logical_and(in[0], in[1]); }
static sn_tensor *larger(sn_tensor *const *in) { return sn_maximum(in[0], in[1]); }
static sn_tensor *less(sn_tensor *const *in) { return sn_lt(in[0], in[1]); }
static sn_tensor *floored(sn_tensor *const *in) { return sn_floor_divide(in[0], in[1]); }
static sn_tensor *rest(sn_tensor *const *in) { return sn_remainder(in[0], in[1]); }
static sn_tensor *sum_of(sn_tensor *const *in) { return sn_add(in[0], in[1]); }

START_TEST(b9_operands_are_brought_to_the_promoted_dtype) {
    static const Edge edges[] = {
        {"f16 == 0.1", is_tenth, make_f16, 1, {1, 0}, 2},
        {"bf16 == 0.1", is_tenth, make_bf16, 1, {1, 0}, 2},
        {"0.1 - f16", tenth_less, make_f16, 1, {0, 0.199951171875}, 2},
        {"f16 % 0.1", in_tenths, make_f16, 1, {0, -0.0}, 2},
        {"f16 * 1e5: a factor stays f32", over_thousand, make_f16, 1, {10000, -10000}, 2},
        {"hardshrink of f16", shrunk, make_shrunk, 1, {0, 0.5}, 2},
        {"f32 == 0-dim f64", equal, make_f32_f64, 2, {1, 0}, 2},
        {"f16 == 0-dim f32", equal, make_f16_f32, 2, {1, 0}, 2},
        {"f16 and a 0-dim f32 that f16 has not", both_true, make_f16_small, 2, {0, 0}, 2},
        {"maximum of i8 and a 0-dim i64", larger, make_i8_i64, 2, {44, -2, 100}, 3},
        {"i8 < 0-dim i64", less, make_i8_i64, 2, {0, 0, 0}, 3},
        {"i8 // 0-dim i64", floored, make_i8_i64, 2, {-1, 0, -2}, 3},
        {"i8 % 0-dim i64", rest, make_i8_i64, 2, {-12, -2, -12}, 3},
        {"i64 + f16: f16 has no 2049", sum_of, make_i64_f16, 2, {2048, INFINITY}, 2},
    };
    CHECK_EDGES(edges);
}
END_TEST

/* gradients ------------------------------------------------------------------------------------------------------- */

static sn_tensor *gradient(sn_tensor *of, sn_tensor *by) {
    sn_tensor *g[1] = {NULL};
    sn_gradients(SN_TENSORS(sn_sum(of)), SN_TENSORS(by), (sn_tensors){0}, 0, g);
    return g[0];
}
static void make_pair(sn_tensor **in) {
    in[0] = sn_requires_grad_(FLOATS(0, 1, NAN), true), in[1] = sn_requires_grad_(FLOATS(0, 1, 2), true);
}
static void make_nan(sn_tensor **in) { in[0] = sn_requires_grad_(FLOATS(1, NAN, 3), true); }
static void make_ignored(sn_tensor **in) {
    in[0] = sn_requires_grad_(sn_reshape(FLOATS(1, 2, 3, 4, 5, 6), SN_INTS(2, 3)), true);
    in[1] = LONGS(-100, -100);
}
static sn_tensor *angle_slope(sn_tensor *const *in) { return gradient(sn_atan2(in[0], in[1]), in[0]); }
static sn_tensor *fmax_slope(sn_tensor *const *in) { return gradient(sn_fmax(in[0], in[1]), in[0]); }
static sn_tensor *fmin_slope(sn_tensor *const *in) { return gradient(sn_fmin(in[0], in[1]), in[1]); }
static sn_tensor *max_slope(sn_tensor *const *in) { return gradient(sn_max(in[0]), in[0]); }
static sn_tensor *loss_slope(sn_tensor *const *in) { return gradient(sn_cross_entropy(in[0], in[1]), in[0]); }

START_TEST(b9_gradients_at_ties_zeros_and_nan) {
    static const Edge edges[] = {
        {"atan2", angle_slope, make_pair, 2, {0, 0.5, NAN}, 3},
        {"fmax, by self", fmax_slope, make_pair, 2, {0.5, 0.5, 0}, 3},
        {"fmin, by other", fmin_slope, make_pair, 2, {0.5, 0.5, 1}, 3},
        {"max with a NaN", max_slope, make_nan, 1, {0, 1, 0}, 3},
        {"a loss of ignored targets", loss_slope, make_ignored, 2, {0, 0, 0, 0, 0, 0}, 6},
    };
    CHECK_EDGES(edges);
}
END_TEST

/* nothing, and outside of a domain -------------------------------------------------------------------------------- */

static void make_no_rows(sn_tensor **in) { in[0] = sn_zeros(SN_INTS(0, 2), SN_F32); }
static void make_beyond(sn_tensor **in) { in[0] = FLOATS(0.5f, 1.5f), in[1] = FLOATS(1, 1); }
static void make_beyond_target(sn_tensor **in) { in[0] = FLOATS(0.5f, 1), in[1] = FLOATS(1, -0.5f); }
static void make_nan_chance(sn_tensor **in) { in[0] = FLOATS(0, 1, NAN); }
static sn_tensor *log_sum(sn_tensor *const *in) { return sn_logsumexp(in[0], SN_INTS(0), false); }
static sn_tensor *cross(sn_tensor *const *in) { return sn_binary_cross_entropy(in[0], in[1]); }
static sn_tensor *chosen(sn_tensor *const *in) { return sn_bernoulli(in[0]); }
static sn_tensor *chosen_between(sn_tensor *const *in) { return sn_bernoulli(sn_mul_scalar(in[0], sn_float(2))); }

START_TEST(b9_reductions_of_nothing) {
    static const Edge edges[] = {{"logsumexp of no rows", log_sum, make_no_rows, 1, {-INFINITY, -INFINITY}, 2}};
    CHECK_EDGES(edges);
}
END_TEST

START_TEST(b9_values_outside_of_a_domain_are_value_errors) {
    static const Edge edges[] = {
        {"an input above 1", cross, make_beyond, 2,
         .says = "binary_cross_entropy: probabilities must be from 0 to 1, but element 1"},
        {"a target below 0", cross, make_beyond_target, 2, .says = "element 1"},
        {"a NaN", chosen, make_nan_chance, 1,
         .says = "aten::bernoulli: probabilities must be from 0 to 1, but element 2"},
        {"of a value in a kernel", chosen_between, make_beyond, 2, .says = "element 1"},
    };
    CHECK_EDGES(edges);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        b9_operands_are_brought_to_the_promoted_dtype,
        b9_gradients_at_ties_zeros_and_nan,
        b9_reductions_of_nothing,
        b9_values_outside_of_a_domain_are_value_errors,
    };
    return contract_main("test_edge_values", tests, (int)(sizeof tests / sizeof *tests));
}
