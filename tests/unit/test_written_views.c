/* test_written_views.c: gradients of programs that write views and what is viewed, and then use both several times
 * [semantics G1, G5]. Each program is f(x) of one leaf of doubles; its gradient at x = 3 is known by hand, eager's is
 * compared with central differences too, and a compiled function's with eager's bits. */
#include "tests/unit/contract.h"

enum { N = 4 };

/* Programs: a scalar from x. y = 2 x is the base of all views. */
static sn_tensor *times(sn_tensor *t, double by) { return sn_mul_scalar(t, sn_float(by)); }
/* With a break behind each of these writes the views are stale inputs of the segments that follow. */
static bool breaks;
static sn_tensor *times_(sn_tensor *t, double by) {
    sn_mul_scalar_(t, sn_float(by));
    if (breaks) sn_graph_break("a test");
    return t;
}
static sn_tensor *flat(sn_tensor *t) { return sn_view(t, SN_INTS(N)); }
static sn_tensor *sum2(sn_tensor *a, sn_tensor *b) { return sn_sum(sn_add(a, b)); }
static sn_tensor *sum3(sn_tensor *a, sn_tensor *b, sn_tensor *c) { return sn_sum(sn_add(sn_add(a, b), c)); }

static sn_tensor *view_used_twice(sn_tensor *x) {
    sn_tensor *const v = flat(times(x, 2));
    times_(v, .5);
    return sum2(times(v, 2), times(v, 4));
}

static sn_tensor *view_and_its_negative(sn_tensor *x) {
    sn_tensor *const v = flat(times(x, 2));
    times_(v, .5);
    return sn_neg(sn_sum(sn_mul(v, sn_neg(v))));
}

static sn_tensor *one_node_twice(sn_tensor *x) {
    sn_tensor *const v = flat(times(x, 2));
    times_(v, .5);
    return sn_sum(sn_mul(v, v));
}

static sn_tensor *view_and_base(sn_tensor *x) {
    sn_tensor *const y = times(x, 2), *const v = sn_narrow(y, 0, 0, N);
    times_(v, .5);
    sn_tensor *const a = times(v, 2), *const b = times(y, 4), *const c = times(v, 8);
    return sum3(a, b, c);
}

static sn_tensor *fresh_memory(sn_tensor *x) {
    sn_tensor *const y = sn_zeros(SN_INTS(N), SN_F64), *const v = flat(y);
    sn_add_(v, x);
    return sum2(times(v, 2), times(v, 4));
}

static sn_tensor *base_written(sn_tensor *x) {
    sn_tensor *const y = times(x, 2), *const v = flat(y);
    times_(y, .5);
    sn_tensor *const a = times(v, 2), *const b = times(y, 4), *const c = times(v, 8);
    return sum3(a, b, c);
}

static sn_tensor *view_of_view(sn_tensor *x) {
    sn_tensor *const y = times(x, 2), *const v = sn_view(y, SN_INTS(2, N / 2)), *const w = flat(v);
    times_(w, .5);
    sn_tensor *const a = times(w, 2), *const b = times(flat(v), 4), *const c = times(y, 8);
    return sum3(a, b, sn_add(c, times(w, 16)));
}

static sn_tensor *chain_of_writes(sn_tensor *x) { /* v = y = (x + 1)^2 */
    sn_tensor *const y = times(x, 2), *const v = flat(y);
    times_(v, .5);
    sn_add_scalar_(y, sn_float(1));
    sn_mul_(v, v);
    sn_tensor *const a = times(v, 2), *const b = times(y, 4), *const c = times(v, 8);
    return sum3(a, b, c);
}

static sn_tensor *a_view_writes_another(sn_tensor *x) { /* y = 2 (x0, x1, x0 + x2, x0 + .. + x3) */
    sn_tensor *const y = times(x, 2);
    sn_tensor *const a = sn_narrow(y, 0, 0, 2), *const b = sn_narrow(y, 0, 2, 2);
    sn_add_(b, a);
    sn_add_(sn_narrow(b, 0, 1, 1), sn_narrow(b, 0, 0, 1));
    sn_tensor *const p = sn_sum(sn_mul(a, a)), *const q = sn_sum(sn_mul(b, sn_neg(b)));
    return sn_add(sn_add(p, q), sn_sum(y));
}

static sn_tensor *in_lists(sn_tensor *x) {
    sn_tensor *const y = times(x, 2), *const v = flat(y);
    times_(y, .5);
    return sn_sum(times(sn_cat(SN_TENSORS(v, y, v), 0), 2));
}

static sn_status cube(sn_frame *f) {
    sn_save(f, sn_in(f, 0));
    return sn_out(f, 0, sn_mul(sn_in(f, 0), sn_mul(sn_in(f, 0), sn_in(f, 0))));
}

static sn_status cube_backward(sn_frame *f) {
    sn_tensor *const x = sn_saved(f, 0);
    return sn_set_grad_of(f, 0, sn_mul(sn_grad_of(f, 0), times(sn_mul(x, x), 3)));
}

static sn_tensor *custom_functions(sn_tensor *x) {
    static const sn_custom fn = {.size = sizeof fn, .name = "cube", .forward = cube, .backward = cube_backward};
    sn_tensor *const y = times(x, 2), *const v = flat(y);
    times_(y, .5);
    sn_tensor *a = NULL, *b = NULL;
    sn_custom_call(&fn, NULL, &v, 1, &a, 1);
    sn_custom_call(&fn, NULL, &v, 1, &b, 1);
    return sum3(a, times(b, 2), times(v, 3));
}

static sn_tensor *second_derivative(sn_tensor *x) { /* of v^3 + y^3 with v = y = x: 12 x */
    sn_tensor *const y = times(x, 2), *const v = flat(y);
    times_(v, .5);
    sn_tensor *const f = sum2(sn_mul(v, sn_mul(v, v)), sn_mul(y, sn_mul(v, y)));
    sn_tensor *grad = NULL;
    if (sn_gradients(SN_TENSORS(f), SN_TENSORS(x), (sn_tensors){0}, SN_CREATE_GRAPH, &grad)) return NULL;
    return sn_sum(grad);
}

static sn_status weighted(sn_frame *f) {
    sn_tensor *const a = times(sn_in(f, 0), 2);
    return sn_out(f, 0, sn_add(a, sn_sin(sn_in(f, 0))));
}

/* The captured functions of a test live as long as it. */
static sn_function *inner;

static sn_tensor *into_a_compiled_function(sn_tensor *x) {
    sn_tensor *const y = times(x, 2), *const v = flat(y);
    times_(v, .5);
    sn_tensor *const a = SN_CALL(inner, v), *const b = SN_CALL(inner, y), *const c = SN_CALL(inner, v);
    return sum3(a, b, sn_add(c, times(v, 3)));
}

typedef struct Case {
    const char *name;
    sn_tensor *(*program)(sn_tensor *x);
    double grad[N]; /* at x = 3 */
} Case;

#define EVERY(g)                                                                                                       \
    { g, g, g, g }
#define COS_3 (-0.98999249660044545727)
static const Case cases[] = {
    {"view used twice", view_used_twice, EVERY(6)},
    {"view and its negative", view_and_its_negative, EVERY(6)},
    {"one node twice", one_node_twice, EVERY(6)},
    {"view and base", view_and_base, EVERY(14)},
    {"fresh memory", fresh_memory, EVERY(6)},
    {"base written", base_written, EVERY(14)},
    {"view of view", view_of_view, EVERY(30)},
    {"chain of writes", chain_of_writes, EVERY(112)},
    {"a view writes another", a_view_writes_another, {-114, -68, -140, -94}},
    {"in lists", in_lists, EVERY(6)},
    {"custom functions", custom_functions, EVERY(84)},
    {"second derivative", second_derivative, EVERY(36)},
    {"into a compiled function", into_a_compiled_function, EVERY(9 + 3 * COS_3)},
};

static sn_tensor *leaf_of(const double *at) { return sn_requires_grad_(sn_from_data(at, SN_INTS(N), SN_F64), true); }

static double value_at(const Case *c, const double *at) {
    return *(const double *)sn_data(c->program(leaf_of(at)), SN_F64);
}

static sn_tensor *gradient_of(sn_tensor *x, sn_tensor *f) {
    ck_assert_int_eq(sn_backward(f), SN_OK);
    return sn_grad(x);
}

START_TEST(g5_what_is_written_and_seen_through_views) {
    const Case *const c = &cases[_i];
    double x[N] = {3, 3, 3, 3};
    const double step = 0x1p-16;
    sn_tensor *const leaf = leaf_of(x);
    const double *const grad = sn_data(gradient_of(leaf, c->program(leaf)), SN_F64);
    for (int i = 0; i < N; i++) {
        ck_assert_msg(fabs(grad[i] - c->grad[i]) < 1e-12, "%s: %g, not %g", c->name, grad[i], c->grad[i]);
        x[i] = 3 + step;
        const double above = value_at(c, x);
        x[i] = 3 - step;
        const double difference = (above - value_at(c, x)) / (2 * step);
        x[i] = 3;
        ck_assert_msg(fabs(difference - c->grad[i]) < 1e-5, "%s: %g by differences, not %g", c->name, difference,
                      c->grad[i]);
    }
}
END_TEST

static sn_status run_case(sn_frame *f) { return sn_out(f, 0, ((const Case *)sn_closure(f))->program(sn_in(f, 0))); }

static void compiled_as_eager(const Case *c) {
    const double x[N] = {3, -0.7, 1.1, 1e-3};
    const Twin twin = twin_new(run_case, (void *)c, (void *)c, NULL);
    for (int i = 0; i < 4; i++) {
        sn_tensor *const p = leaf_of(x), *const q = leaf_of(x);
        sn_tensor *const want = gradient_of(p, SN_CALL(twin.eager, p));
        sn_tensor *const got = gradient_of(q, SN_CALL(twin.fast, q));
        ck_assert_msg(same_bits(got, want), "%s, call %d", c->name, i);
    }
    twin_free(twin);
}

START_TEST(g5_compiled_as_in_eager) { compiled_as_eager(&cases[_i]); }
END_TEST
START_TEST(g5_compiled_with_breaks_as_in_eager) {
    breaks = true;
    compiled_as_eager(&cases[_i]);
}
END_TEST

/* A stale view's new history has the place of its first use: behind the base's uses before that. */
static sn_status order_of_uses(sn_frame *f) {
    sn_tensor *const y = sn_in(f, 0), *const v = sn_in(f, 1);
    sn_tensor *const a = times(y, 0.1), *const b = sn_sin(y), *const c = times(v, 0.3);
    sn_tensor *const d = sn_exp(y), *const e = sn_cos(v);
    return sn_out(f, 0, sum3(a, b, sn_add(c, sn_add(d, e))));
}

static sn_tensor *use_in_order(sn_function *fn) {
    sn_tensor *const x = LEAF(1, 64), *const y = times(x, 2), *const v = sn_view(y, SN_INTS(64));
    times_(y, .7);
    return gradient_of(x, SN_CALL(fn, y, v));
}

START_TEST(g1_a_stale_views_history_has_the_place_of_its_first_use) {
    const Twin twin = twin_new(order_of_uses, NULL, NULL, NULL);
    sn_tensor *const want = use_in_order(twin.eager);
    for (int i = 0; i < 4; i++) ck_assert_msg(same_bits(use_in_order(twin.fast), want), "%d", i);
    twin_free(twin);
}
END_TEST

/* Each stale view has a history of its own, from the base on, also where one is a view of another. */
static sn_status views_of_views(sn_frame *f) {
    sn_tensor *const y = times(sn_in(f, 0), 2);
    sn_tensor *const v = sn_view(y, SN_INTS(8, 8)), *const w = sn_view(v, SN_INTS(64));
    times_(y, .7);
    sn_tensor *const a = sn_sin(w), *const b = sn_flatten(sn_exp(v), 0, 1);
    sn_tensor *const c = sn_cos(y), *const d = times(w, .1);
    sn_tensor *const e = sn_flatten(sn_sigmoid(v), 0, 1);
    return sn_out(f, 0, sum3(a, b, sn_add(c, sn_add(d, e))));
}

START_TEST(g1_views_of_views_get_histories_of_their_own) {
    const Twin twin = twin_new(views_of_views, NULL, NULL, NULL);
    sn_tensor *const p = LEAF(1, 64), *const want = gradient_of(p, SN_CALL(twin.eager, p));
    for (int i = 0; i < 4; i++) {
        sn_tensor *const q = LEAF(1, 64);
        ck_assert_msg(same_bits(gradient_of(q, SN_CALL(twin.fast, q)), want), "%d", i);
    }
    ck_assert_int_gt(stats_of(twin.fast).ops_generated, 0);
    twin_free(twin);
}
END_TEST

int main(void) {
    inner = sn_compile(weighted, NULL, NULL);
    TCase *const tcase = tcase_create("written views");
    const int n = (int)(sizeof cases / sizeof *cases);
    tcase_add_loop_test(tcase, g5_what_is_written_and_seen_through_views, 0, n);
    tcase_add_loop_test(tcase, g5_compiled_as_in_eager, 0, n);
    tcase_add_loop_test(tcase, g5_compiled_with_breaks_as_in_eager, 0, n);
    tcase_add_test(tcase, g1_a_stale_views_history_has_the_place_of_its_first_use);
    tcase_add_test(tcase, g1_views_of_views_get_histories_of_their_own);
    return suite_run("written views", tcase);
}
