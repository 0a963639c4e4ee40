/* test_vmap_flow.c: control flow and checkpoints inside of transforms: the bits of a loop over the examples [semantics
 * T4, T5], whatever differs from example to example. */
#include <sinter/transform.h>

#include "tests/unit/contract.h"

enum { B = 4, N = 5 };

static void expect_ok(void) { ck_assert_msg(sn_check() == SN_OK, "%s", sn_error_take()->message); }

/* bodies -------------------------------------------------------------------------------------- */

static sn_status curved(sn_frame *f) { return sn_out(f, 0, sn_tanh(sn_mul(sn_in(f, 0), sn_closure(f)))); }
static sn_status bent(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    return sn_out(f, 0, sn_add(sn_mul(x, x), sn_mul(sn_exp(x), sn_closure(f))));
}

/* Which branch: by the sign of the sum. */
static sn_tensor *branch(sn_tensor *x, sn_tensor *w) {
    sn_tensor *y = NULL;
    sn_cond(sn_gt_scalar(sn_sum(x), sn_float(0)), curved, bent, w, NULL, SN_TENSORS(x), &y, 1);
    return y;
}
static sn_status cond_of(sn_frame *f) { return sn_out(f, 0, branch(sn_in(f, 0), sn_in(f, 1))); }
static sn_status cond_total(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const w = sn_in(f, 1);
    return sn_out(f, 0, sn_sum(sn_mul(branch(sn_mul(x, w), w), x))); /* sums before and behind it go on */
}
static sn_status cond_grad(sn_frame *f) {
    sn_tensor *g[2] = {NULL};
    const int64_t both[] = {0, 1};
    sn_func_grad(cond_total, NULL, SN_FUNC_GRAD_OPTIONS(.argnums = {both, 2}), SN_TENSORS(sn_in(f, 0), sn_in(f, 1)), g,
                 2);
    sn_out(f, 0, g[0]);
    return sn_out(f, 1, g[1]);
}
static sn_status known_cond(sn_frame *f) { /* the predicate is one for all */
    sn_tensor *const x = sn_in(f, 0), *const w = sn_in(f, 1), *y = NULL;
    sn_cond(sn_gt_scalar(sn_sum(w), sn_float(0)), curved, bent, w, NULL, SN_TENSORS(x), &y, 1);
    return sn_out(f, 0, y);
}

static sn_status small(sn_frame *f) { return sn_out(f, 0, sn_lt_scalar(sn_sum(sn_in(f, 0)), sn_float(50))); }
static sn_status grow(sn_frame *f) {
    sn_out(f, 0, sn_add(sn_mul_scalar(sn_in(f, 0), sn_float(1.5)), sn_closure(f)));
    return sn_out(f, 1, sn_add_scalar(sn_in(f, 1), sn_int(1)));
}
static sn_status while_of(sn_frame *f) { /* as many rounds as the example needs */
    sn_tensor *out[2] = {NULL}, *const count = sn_full(SN_INTS(), sn_int(0), SN_I64);
    sn_tensor *const step = sn_abs(sn_in(f, 1));
    sn_while_loop(small, grow, step, NULL, SN_TENSORS(sn_abs(sn_in(f, 0)), count), out, 2);
    sn_out(f, 0, out[0]);
    return sn_out(f, 1, out[1]);
}
static sn_status fewer(sn_frame *f) { return sn_out(f, 0, sn_lt_scalar(sn_in(f, 1), sn_int(3))); }
static sn_status counted(sn_frame *f) { /* the count is one for all */
    sn_tensor *out[2] = {NULL}, *const count = sn_full(SN_INTS(), sn_int(0), SN_I64);
    sn_while_loop(fewer, grow, sn_in(f, 1), NULL, SN_TENSORS(sn_in(f, 0), count), out, 2);
    return sn_out(f, 0, out[0]);
}

static sn_status carried(sn_frame *f) {
    sn_tensor *const next = sn_tanh(sn_add(sn_mul(sn_in(f, 0), sn_closure(f)), sn_in(f, 1)));
    sn_out(f, 0, next);
    return sn_out(f, 1, sn_mul(next, sn_in(f, 1)));
}
static sn_tensor *scan_total_of(sn_tensor *x, sn_tensor *w) {
    sn_tensor *out[2] = {NULL};
    sn_scan(carried, w, SN_SCAN_OPTIONS(.reverse = true), SN_TENSORS(sn_zeros_like(sn_select(x, 0, 0)), x), out, 2);
    return sn_add(sn_sum(out[1]), sn_sum(out[0]));
}
static sn_status scan_of(sn_frame *f) { return sn_out(f, 0, scan_total_of(sn_in(f, 0), sn_sum(sn_in(f, 1)))); }
static sn_status scan_grad(sn_frame *f) {
    sn_tensor *g = NULL;
    sn_func_grad(scan_of, NULL, NULL, SN_TENSORS(sn_in(f, 0), sn_in(f, 1)), &g, 1);
    return sn_out(f, 0, g);
}
static sn_status branch_of_slice(sn_frame *f) { return sn_out(f, 0, branch(sn_in(f, 0), sn_closure(f))); }
static sn_status map_of(sn_frame *f) {
    sn_tensor *y = NULL;
    sn_map(branch_of_slice, sn_sum(sn_in(f, 1)), NULL, SN_TENSORS(sn_in(f, 0)), &y, 1);
    return sn_out(f, 0, y);
}
static sn_status map_grad_total(sn_frame *f) {
    sn_tensor *y = NULL;
    sn_map(branch_of_slice, sn_sum(sn_in(f, 1)), NULL, SN_TENSORS(sn_in(f, 0)), &y, 1);
    return sn_out(f, 0, sn_sum(sn_mul(y, sn_in(f, 0))));
}
static sn_status map_grad(sn_frame *f) {
    sn_tensor *g[2] = {NULL};
    const int64_t both[] = {0, 1};
    sn_func_grad(map_grad_total, NULL, SN_FUNC_GRAD_OPTIONS(.argnums = {both, 2}), SN_TENSORS(sn_in(f, 0), sn_in(f, 1)),
                 g, 2);
    sn_out(f, 0, g[0]);
    return sn_out(f, 1, g[1]);
}

/* against a loop ------------------------------------------------------------------------------ */

typedef struct Mapped {
    sn_body body;
    int64_t w_dim; /* of the second input: SN_NO_INT one for all */
    int n_out;
} Mapped;

static sn_status all_at_once(sn_frame *f) {
    const Mapped *const m = sn_closure(f);
    sn_tensor *out[2] = {NULL};
    const int64_t dims[] = {0, m->w_dim};
    sn_vmap(m->body, NULL, SN_VMAP_OPTIONS(.in_dims = {dims, 2}), SN_TENSORS(sn_in(f, 0), sn_in(f, 1)), out, m->n_out);
    for (int k = 0; k < m->n_out; k++) sn_out(f, k, out[k]);
    return sn_check();
}

/* One example's call, by a function that runs it as it is. */
static void one_by_one(const Mapped *m, sn_tensor *x, sn_tensor *w, sn_tensor **want) {
    sn_tensor *parts[2][B];
    sn_function *const fn = sn_compile(m->body, NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
    for (int i = 0; i < B; i++) {
        sn_tensor *out[2] = {NULL};
        sn_tensor *const in[] = {sn_select(x, 0, i), m->w_dim == 0 ? sn_select(w, 0, i) : w};
        sn_call(fn, in, 2, out, m->n_out);
        expect_ok();
        for (int k = 0; k < m->n_out; k++) parts[k][i] = out[k];
    }
    for (int k = 0; k < m->n_out; k++) want[k] = sn_stack((sn_tensors){parts[k], B}, 0);
    sn_function_free(fn);
}

/* The calls in a mode, on tensors that were made in it. */
static void check_mapped_in(sn_grad_mode grad_mode, sn_body body, int n_out) {
    const sn_scope mark = sn_scope_begin();
    sn_tensor *const x = sn_sub_scalar(F32(3, B, N), sn_float(0.5));
    for (int batched = 0; batched < 2; batched++) {
        Mapped m = {body, batched ? 0 : SN_NO_INT, n_out};
        sn_tensor *const w = batched ? F32(4, B, N) : F32(5, N), *want[2], *out[2];
        one_by_one(&m, x, w, want);
        for (int mode = 0; mode < 2; mode++) {
            sn_function *const fn =
                sn_compile(all_at_once, &m, SN_COMPILE_OPTIONS(.mode = mode ? SN_COMPILE_VERIFY : SN_COMPILE_EAGER));
            for (int call = 0; call < 3; call++) {
                const sn_scope inside = sn_scope_begin();
                sn_grad_mode_set(grad_mode);
                sn_call(fn, (sn_tensor *const[]){sn_clone(x), sn_clone(w)}, 2, out, n_out);
                expect_ok();
                for (int k = 0; k < n_out; k++)
                    ck_assert_msg(same_bits(out[k], want[k]), "result %d, w %s, mode %d, call %d:\n%s\n%s", k,
                                  batched ? "batched" : "one", mode, call, sn_repr(out[k]), sn_repr(want[k]));
                sn_scope_end(inside);
            }
            sn_function_free(fn);
        }
    }
    sn_scope_end(mark);
}
static void check_mapped(sn_body body, int n_out) { check_mapped_in(SN_GRAD_ON, body, n_out); }

START_TEST(t5_control_flow_in_vmap_has_the_loops_bits) {
    check_mapped(cond_of, 1);
    check_mapped(known_cond, 1);
    check_mapped(while_of, 2);
    check_mapped(counted, 1);
    check_mapped(scan_of, 1);
    check_mapped(map_of, 1);
}
END_TEST

START_TEST(t5_gradients_of_control_flow_in_vmap_have_the_loops_bits) {
    check_mapped(cond_grad, 2);
    check_mapped(scan_grad, 1);
    check_mapped(map_grad, 2);
}
END_TEST

/* The functions' gradients are their own, whatever the caller's mode. */
START_TEST(t4_gradients_of_control_flow_under_the_callers_mode) {
    for (int mode = 0; mode < 2; mode++) {
        check_mapped_in(mode ? SN_INFERENCE : SN_GRAD_OFF, cond_grad, 2);
        check_mapped_in(mode ? SN_INFERENCE : SN_GRAD_OFF, scan_grad, 1);
        check_mapped_in(mode ? SN_INFERENCE : SN_GRAD_OFF, map_grad, 2);
    }
}
END_TEST

/* other levels -------------------------------------------------------------------------------- */

static sn_status scan_of_w(sn_frame *f) { return sn_out(f, 0, scan_total_of(sn_in(f, 0), sn_closure(f))); }
static sn_status map_of_w(sn_frame *f) {
    sn_tensor *y = NULL;
    sn_map(branch_of_slice, sn_closure(f), NULL, SN_TENSORS(sn_in(f, 0)), &y, 1);
    return sn_out(f, 0, sn_sum(y));
}
static sn_status cond_of_w(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    return sn_out(f, 0, sn_sum(sn_mul(branch(x, sn_closure(f)), x)));
}
static sn_status rounds_of_w(sn_frame *f) { /* by a count */
    sn_tensor *out[2] = {NULL}, *const count = sn_full(SN_INTS(), sn_int(0), SN_I64);
    sn_while_loop(fewer, grow, sn_closure(f), NULL, SN_TENSORS(sn_in(f, 0), count), out, 2);
    return sn_out(f, 0, sn_sum(sn_mul(out[0], out[0])));
}

static sn_status vmap_of_w(sn_frame *f) { /* what the branches close over has a level, too */
    sn_tensor *const x = sn_in(f, 0), *y = NULL;
    sn_vmap(branch_of_slice, sn_mul(sn_sum(x), sn_closure(f)), NULL, SN_TENSORS(x), &y, 1);
    return sn_out(f, 0, sn_sum(sn_mul(y, x)));
}

static sn_tensor *f64(uint64_t seed, int64_t n) { return sn_to(F32(seed, n), SN_F64); }
static sn_tensor *step_along(sn_tensor *x, int64_t i, double by) {
    double one[N] = {0};
    one[i] = by;
    return sn_add(x, sn_from_data(one, SN_INTS(N), SN_F64));
}

static double value_at(sn_body body, void *w, sn_tensor *x) {
    sn_function *const fn = sn_compile(body, w, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
    const double value = sn_item(SN_CALL(fn, x));
    sn_function_free(fn);
    expect_ok();
    return value;
}
static sn_tensor *gradient_at(sn_body body, void *w, sn_tensor *x) {
    sn_tensor *g = NULL;
    sn_func_grad(body, w, NULL, SN_TENSORS(x), &g, 1);
    expect_ok();
    return g;
}
static double tangent_at(sn_body body, void *w, sn_tensor *x, sn_tensor *t) {
    sn_tensor *out = NULL;
    sn_func_jvp(body, w, SN_FUNC_JVP_OPTIONS(.tangents = SN_TENSORS(t)), SN_TENSORS(x), &out, 1);
    expect_ok();
    return sn_item(out);
}

/* Gradient, tangent and, by differences of gradients, hessian. */
static void check_derivatives(sn_body body, bool second) {
    enum { STEPS = 1 };
    const sn_scope mark = sn_scope_begin();
    sn_tensor *const w = sn_full(SN_INTS(), sn_float(0.7), SN_F64), *const x = f64(11, N), *hessian = NULL;
    const double h = 1e-5;
    sn_tensor *const g = gradient_at(body, w, x);
    if (second) sn_hessian(body, w, NULL, SN_TENSORS(x), &hessian, 1);
    expect_ok();
    for (int64_t i = 0; i < N; i++) {
        sn_tensor *const up = step_along(x, i, h), *const down = step_along(x, i, -h);
        const double slope = (value_at(body, w, up) - value_at(body, w, down)) / (2 * h);
        ck_assert_double_eq_tol(sn_item(sn_select(g, 0, i)), slope, 1e-7);
        ck_assert_double_eq_tol(tangent_at(body, w, x, step_along(sn_zeros_like(x), i, 1)), slope, 1e-7);
        if (!second) continue;
        sn_tensor *const row =
            sn_mul_scalar(sn_sub(gradient_at(body, w, up), gradient_at(body, w, down)), sn_float(1 / (2 * h)));
        ck_assert(sn_allclose(sn_select(hessian, 0, i), row, 1e-6, 1e-6));
    }
    sn_scope_end(mark);
}

START_TEST(t4_derivatives_of_functions_with_control_flow) {
    check_derivatives(scan_of_w, true);
    check_derivatives(map_of_w, true);
    check_derivatives(cond_of_w, true);
    check_derivatives(vmap_of_w, true);
}
END_TEST

START_TEST(t4_tangents_go_through_a_while_loop_and_gradients_do_not) {
    sn_tensor *const w = sn_full(SN_INTS(), sn_float(0.7), SN_F64), *const x = f64(11, N), *out = NULL;
    const double h = 1e-5;
    for (int64_t i = 0; i < N; i++) {
        const double slope =
            (value_at(rounds_of_w, w, step_along(x, i, h)) - value_at(rounds_of_w, w, step_along(x, i, -h))) / (2 * h);
        ck_assert_double_eq_tol(tangent_at(rounds_of_w, w, x, step_along(sn_zeros_like(x), i, 1)), slope, 1e-6);
    }
    sn_func_grad(rounds_of_w, w, NULL, SN_TENSORS(x), &out, 1);
    expect_error(SN_ERR_ARGUMENT, "sn_while_loop: input 0 requires gradients");
}
END_TEST

static sn_status inner_rows(sn_frame *f) { /* a level inside: over the rows of one example */
    sn_tensor *y = NULL;
    sn_vmap(cond_of, NULL, SN_VMAP_OPTIONS(.in_dims = SN_INTS(0, SN_NO_INT)), SN_TENSORS(sn_in(f, 0), sn_in(f, 1)), &y,
            1);
    return sn_out(f, 0, y);
}
static sn_status inner_gradients(sn_frame *f) {
    sn_tensor *g[2] = {NULL};
    sn_vmap(cond_grad, NULL, SN_VMAP_OPTIONS(.in_dims = SN_INTS(0, SN_NO_INT)), SN_TENSORS(sn_in(f, 0), sn_in(f, 1)), g,
            2);
    sn_out(f, 0, g[0]);
    return sn_out(f, 1, g[1]);
}

START_TEST(t4_levels_in_levels) {
    sn_tensor *const x = F32(7, 2, B, N), *const w = F32(8, 2, N), *y = NULL, *g[2], *want[2];
    sn_vmap(inner_rows, NULL, NULL, SN_TENSORS(x, w), &y, 1);
    expect_ok();
    sn_vmap(inner_gradients, NULL, NULL, SN_TENSORS(x, w), g, 2);
    expect_ok();
    for (int i = 0; i < 2; i++) {
        one_by_one(&(Mapped){cond_of, SN_NO_INT, 1}, sn_select(x, 0, i), sn_select(w, 0, i), want);
        ck_assert(same_bits(sn_select(y, 0, i), want[0]));
        one_by_one(&(Mapped){cond_grad, SN_NO_INT, 2}, sn_select(x, 0, i), sn_select(w, 0, i), want);
        ck_assert(same_bits(sn_select(g[0], 0, i), want[0]) && same_bits(sn_select(g[1], 0, i), want[1]));
    }
}
END_TEST

static sn_status step_of_a_branch(sn_frame *f) { /* a level in the body of a scan: what is traced */
    sn_tensor *y = NULL;
    sn_vmap(cond_of, NULL, SN_VMAP_OPTIONS(.in_dims = SN_INTS(0, SN_NO_INT)), SN_TENSORS(sn_in(f, 0), sn_in(f, 1)), &y,
            1);
    sn_out(f, 0, y);
    return sn_out(f, 1, sn_sum(y));
}
static sn_status scan_of_levels(sn_frame *f) {
    sn_tensor *out[2] = {NULL};
    sn_scan(step_of_a_branch, NULL, NULL, SN_TENSORS(sn_in(f, 0), sn_in(f, 1)), out, 2);
    sn_out(f, 0, out[0]);
    return sn_out(f, 1, out[1]);
}

START_TEST(t4_levels_inside_of_bodies) {
    sn_tensor *const x = F32(7, B, N), *const w = F32(8, 3, N), *out[2], *h = x, *want[2];
    for (int i = 0; i < 3; i++) {
        one_by_one(&(Mapped){cond_of, SN_NO_INT, 1}, h, sn_select(w, 0, i), want);
        h = want[0];
    }
    for (int mode = 0; mode < 2; mode++) {
        sn_function *const fn =
            sn_compile(scan_of_levels, NULL, SN_COMPILE_OPTIONS(.mode = mode ? SN_COMPILE_VERIFY : SN_COMPILE_EAGER));
        for (int call = 0; call < 2; call++) {
            sn_call(fn, (sn_tensor *const[]){x, w}, 2, out, 2);
            expect_ok();
            ck_assert(same_bits(out[0], h));
        }
        sn_function_free(fn);
    }
}
END_TEST

/* random numbers ------------------------------------------------------------------------------ */

static sn_status noisy(sn_frame *f) {
    sn_tensor *const noise = sn_rand_like(sn_in(f, 0));
    return sn_out(f, 0, sn_add(sn_in(f, 0), sn_add(noise, sn_rand_like(noise))));
}
static sn_status drawing(sn_frame *f) { /* both branches alike: the numbers are those of a predicate for all */
    sn_tensor *const x = sn_in(f, 0), *y = NULL;
    sn_cond(sn_gt_scalar(sn_closure(f) ? sn_sum(x) : sn_full(SN_INTS(), sn_float(1), SN_F32), sn_float(0)), noisy,
            noisy, NULL, NULL, SN_TENSORS(x), &y, 1);
    return sn_out(f, 0, sn_add(y, sn_rand_like(y)));
}
typedef struct Drawing {
    sn_vmap_randomness how;
    int64_t chunk;
    bool differs;
} Drawing;
static sn_status draw_all(sn_frame *f) {
    const Drawing *const d = sn_closure(f);
    sn_tensor *y = NULL;
    sn_vmap(drawing, d->differs ? f : NULL, SN_VMAP_OPTIONS(.randomness = d->how, .chunk_size = d->chunk),
            SN_TENSORS(sn_in(f, 0)), &y, 1);
    return sn_out(f, 0, y);
}
static sn_tensor *drawn(Drawing d, sn_tensor *x, sn_compile_mode mode) {
    sn_function *const fn = sn_compile(draw_all, &d, SN_COMPILE_OPTIONS(.mode = mode));
    sn_tensor *y = NULL;
    for (int call = 0; call < 2; call++) {
        sn_seed(3);
        y = SN_CALL(fn, x);
    }
    sn_function_free(fn);
    return y;
}

START_TEST(t5_random_numbers_in_bodies) {
    sn_tensor *const x = F32(9, B, N);
    ck_assert_ptr_null(drawn((Drawing){.differs = true}, x, SN_COMPILE_EAGER));
    expect_error(SN_ERR_STATE, "sn_cond: a random op in a body inside of sn_vmap");
    for (int how = SN_VMAP_RANDOM_SAME; how <= SN_VMAP_RANDOM_DIFFERENT; how++) {
        sn_tensor *const want = drawn((Drawing){.how = how}, x, SN_COMPILE_EAGER);
        expect_ok();
        for (int k = 0; k < 8; k++) { /* whatever the predicate, the chunk and the mode */
            const Drawing d = {.how = how, .chunk = k & 1 ? 3 : 0, .differs = k & 2};
            sn_tensor *const y = drawn(d, x, k & 4 ? SN_COMPILE_VERIFY : SN_COMPILE_EAGER);
            expect_ok();
            ck_assert_msg(same_bits(y, want), "randomness %d, variant %d", how, k);
        }
    }
}
END_TEST

/* what cannot be traced ----------------------------------------------------------------------- */

static sn_status asks(sn_frame *f) {
    return sn_out(f, 0, sn_mul_scalar(sn_in(f, 0), sn_float(sn_item(sn_closure(f)))));
}
static sn_status asking_cond(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *y = NULL;
    sn_cond(sn_gt_scalar(sn_sum(x), sn_float(0)), asks, asks, sn_closure(f), NULL, SN_TENSORS(x), &y, 1);
    return sn_out(f, 0, y);
}
static sn_status asking_map(sn_frame *f) {
    sn_tensor *y = NULL;
    sn_map(asks, sn_closure(f), NULL, SN_TENSORS(sn_in(f, 0)), &y, 1);
    return sn_out(f, 0, y);
}

START_TEST(t5_a_body_that_asks_for_a_value) {
    sn_tensor *const by = sn_full(SN_INTS(), sn_float(2), SN_F32), *const x = F32(1, B, N), *y = NULL;
    sn_vmap(asking_cond, by, NULL, SN_TENSORS(x), &y, 1);
    expect_error(SN_ERR_UNSUPPORTED, "the predicate differs from example to example, and the true branch cannot be");
    sn_vmap(asking_map, by, NULL, SN_TENSORS(x), &y, 1); /* nothing differs: it runs itself */
    expect_ok();
    ck_assert(same_bits(y, sn_mul_scalar(x, sn_float(2))));
}
END_TEST

/* checkpoints --------------------------------------------------------------------------------- */

static int n_freed;
static void count_freed(void *closure, void *context) {
    (void)closure, (void)context;
    n_freed++;
}
static sn_status checkpointed(sn_frame *f) {
    sn_tensor *y = NULL;
    sn_checkpoint(cond_total, NULL, SN_CHECKPOINT_OPTIONS(.closure_free = count_freed),
                  SN_TENSORS(sn_in(f, 0), sn_in(f, 1)), &y, 1);
    return sn_out(f, 0, y);
}
static sn_status checkpointed_grad(sn_frame *f) {
    sn_tensor *g = NULL;
    sn_func_grad(checkpointed, NULL, NULL, SN_TENSORS(sn_in(f, 0), sn_in(f, 1)), &g, 1);
    return sn_out(f, 0, g);
}
static sn_status plain_grad(sn_frame *f) {
    sn_tensor *g = NULL;
    sn_func_grad(cond_total, NULL, NULL, SN_TENSORS(sn_in(f, 0), sn_in(f, 1)), &g, 1);
    return sn_out(f, 0, g);
}

static int said;
static void count_lines(void *context, int level, const char *topic, const char *line) {
    (void)context, (void)level, (void)topic;
    said += !strncmp(line, "sn_checkpoint: inside of sn_vmap", 32);
}

START_TEST(t6_checkpoints_in_transforms_have_the_values_and_gradients_of_their_ops) {
    sn_tensor *const x = F32(1, B, N), *const w = F32(2, B, N), *y = NULL, *want = NULL;
    sn_logging_set(count_lines, NULL, NULL);
    sn_vmap(checkpointed, NULL, NULL, SN_TENSORS(x, w), &y, 1);
    sn_vmap(cond_total, NULL, NULL, SN_TENSORS(x, w), &want, 1);
    expect_ok();
    ck_assert(same_bits(y, want));
    ck_assert_int_eq(n_freed, 1);
    sn_vmap(checkpointed_grad, NULL, NULL, SN_TENSORS(x, w), &y, 1);
    sn_vmap(plain_grad, NULL, NULL, SN_TENSORS(x, w), &want, 1);
    expect_ok();
    ck_assert(same_bits(y, want));
    ck_assert_int_eq(said, 1);
    check_mapped(checkpointed_grad, 1); /* compiled, too */
}
END_TEST

int main(void) {
    const TTest *const tests[] = {t5_control_flow_in_vmap_has_the_loops_bits,
                                  t5_gradients_of_control_flow_in_vmap_have_the_loops_bits,
                                  t4_gradients_of_control_flow_under_the_callers_mode,
                                  t4_derivatives_of_functions_with_control_flow,
                                  t4_tangents_go_through_a_while_loop_and_gradients_do_not,
                                  t4_levels_in_levels,
                                  t4_levels_inside_of_bodies,
                                  t5_random_numbers_in_bodies,
                                  t5_a_body_that_asks_for_a_value,
                                  t6_checkpoints_in_transforms_have_the_values_and_gradients_of_their_ops};
    return contract_main("test_vmap_flow", tests, (int)(sizeof tests / sizeof *tests));
}
