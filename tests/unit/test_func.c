/* test_func.c: derivatives of functions by public functions alone [semantics T4]: sn_func_grad, sn_func_vjp,
 * sn_func_jvp, sn_jacobian, sn_hessian; nested, with sn_vmap, with gradients outside, compiled. */
#include <sinter/transform.h>

#include "tests/unit/contract.h"

static void must(sn_status status) { ck_assert_msg(status == SN_OK, "%s", status ? sn_error_take()->message : ""); }

/* The first result of a transform. */
#define FIRST(transform, body, closure, options, ...)                                                                  \
    ({                                                                                                                 \
        sn_tensor *first_ = NULL;                                                                                      \
        must(transform(body, closure, options, SN_TENSORS(__VA_ARGS__), &first_, 1));                                  \
        first_;                                                                                                        \
    })
#define GRAD(body, closure, ...) FIRST(sn_func_grad, body, closure, NULL, __VA_ARGS__)
#define VMAP(body, closure, ...) FIRST(sn_vmap, body, closure, NULL, __VA_ARGS__)

static sn_status cubes(sn_frame *f) { /* the sum of x^3 */
    sn_tensor *const x = sn_in(f, 0);
    return sn_out(f, 0, sn_sum(sn_mul(sn_mul(x, x), x)));
}

static sn_status grad_of(sn_frame *f) { /* of the body in the closure */
    sn_tensor *out = NULL;
    sn_func_grad((sn_body)sn_closure(f), NULL, NULL, SN_TENSORS(sn_in(f, 0)), &out, 1);
    return sn_out(f, 0, out);
}

static sn_status sum_of_grad(sn_frame *f) {
    sn_tensor *out = NULL;
    sn_func_grad((sn_body)sn_closure(f), NULL, NULL, SN_TENSORS(sn_in(f, 0)), &out, 1);
    return sn_out(f, 0, sn_sum(out));
}

/* The tape's own gradient of the first output by x. */
static sn_tensor *by_tape(sn_body body, void *closure, sn_tensor *x) {
    sn_function *const fn = sn_compile(body, closure, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
    sn_tensor *leaf = sn_requires_grad_(sn_clone(sn_detach(x)), true), *y = NULL, *out = NULL;
    must(sn_call(fn, &leaf, 1, &y, 1));
    must(sn_gradients((sn_tensors){&y, 1}, (sn_tensors){&leaf, 1}, (sn_tensors){0}, 0, &out));
    sn_function_free(fn);
    return out;
}

/* sn_func_grad -------------------------------------------------------------------------------- */

START_TEST(t4_gradients_are_the_tapes) {
    sn_tensor *const x = F32(1, 3, 4), *const got = GRAD(cubes, NULL, x);
    ck_assert(same_bits(got, by_tape(cubes, NULL, x)));
    ck_assert(!sn_requires_grad(got));
    ck_assert(sn_allclose(GRAD(sum_of_grad, (void *)cubes, x), sn_mul_scalar(x, sn_float(6)), 1e-6, 1e-6));
    ck_assert_ptr_null(sn_grad(x));
}
END_TEST

static sn_status loss_and_more(sn_frame *f) { /* inputs x, w; outputs: loss, logits, nothing of them */
    sn_tensor *const logits = sn_matmul(sn_in(f, 0), sn_in(f, 1));
    sn_out(f, 0, sn_mean(sn_mul(logits, logits)));
    sn_out(f, 1, logits);
    sn_out(f, 2, sn_ones(SN_INTS(2), SN_I64));
    return sn_check();
}

START_TEST(t4_values_and_more_outputs_come_behind_the_gradients) {
    sn_tensor *const x = F32(1, 3, 4), *const w = F32(2, 4, 2), *out[5];
    must(sn_func_grad(loss_and_more, NULL, SN_FUNC_GRAD_OPTIONS(.argnums = SN_INTS(-1, 0)), SN_TENSORS(x, w), out, 5));
    sn_tensor *const logits = sn_matmul(x, w), *const slope = sn_mul_scalar(logits, sn_float(2.0 / 6));
    ck_assert(sn_allclose(out[0], sn_matmul(sn_t(x), slope), 1e-5, 1e-6));
    ck_assert(sn_allclose(out[1], sn_matmul(slope, sn_t(w)), 1e-5, 1e-6));
    ck_assert(same_bits(out[2], sn_mean(sn_mul(logits, logits))));
    ck_assert(same_bits(out[3], logits));
    ck_assert_int_eq(sn_dtype_of(out[4]), SN_I64);
}
END_TEST

/* vjp, jacobian, hessian ---------------------------------------------------------------------- */

static sn_status two_outputs(sn_frame *f) { /* x [3]: sin x, and the outer product x x */
    sn_tensor *const x = sn_in(f, 0);
    sn_out(f, 0, sn_sin(x));
    sn_out(f, 1, sn_mul(sn_unsqueeze(x, 0), sn_unsqueeze(x, 1)));
    return sn_check();
}

START_TEST(t4_vjp_takes_cotangents) {
    sn_tensor *const x = F32(1, 3), *const u = F32(2, 3), *const v = F32(3, 3, 3), *out[3];
    must(sn_func_vjp(two_outputs, NULL, SN_FUNC_VJP_OPTIONS(.cotangents = SN_TENSORS(u, v)), SN_TENSORS(x), out, 3));
    sn_tensor *const want = sn_add(sn_mul(u, sn_cos(x)), sn_mv(sn_add(v, sn_t(v)), x));
    ck_assert(sn_allclose(out[0], want, 1e-5, 1e-5));
    ck_assert(same_bits(out[1], sn_sin(x)));
    must(sn_func_vjp(two_outputs, NULL, SN_FUNC_VJP_OPTIONS(.cotangents = SN_TENSORS(u, NULL)), SN_TENSORS(x), out, 1));
    ck_assert(sn_allclose(out[0], sn_mul(u, sn_cos(x)), 1e-6, 1e-6));
}
END_TEST

START_TEST(t4_jacobian_and_hessian) {
    sn_tensor *const x = F32(1, 3), *out[2];
    must(sn_jacobian(two_outputs, NULL, NULL, SN_TENSORS(x), out, 2));
    ck_assert(sn_allclose(out[0], sn_diag_embed(sn_cos(x), 0, -2, -1), 0, 0));
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            for (int k = 0; k < 3; k++) {
                const double want = (i == k) * sn_item(sn_select(x, 0, j)) + (j == k) * sn_item(sn_select(x, 0, i));
                ck_assert_double_eq_tol(sn_item(sn_select(sn_select(sn_select(out[1], 0, i), 0, j), 0, k)), want, 1e-6);
            }
    sn_tensor *const hessian = FIRST(sn_hessian, cubes, NULL, NULL, x);
    ck_assert(sn_allclose(hessian, sn_diag_embed(sn_mul_scalar(x, sn_float(6)), 0, -2, -1), 1e-6, 1e-6));
    sn_tensor *forward[2];
    must(sn_jacobian(two_outputs, NULL, SN_JACOBIAN_OPTIONS(.forward = true), SN_TENSORS(x), forward, 2));
    ck_assert(sn_allclose(forward[0], out[0], 0, 0));
    ck_assert(sn_allclose(forward[1], out[1], 0, 0));
    ck_assert(
        sn_allclose(FIRST(sn_hessian, cubes, NULL, SN_JACOBIAN_OPTIONS(.forward = true), x), hessian, 1e-6, 1e-6));
}
END_TEST

/* forward mode -------------------------------------------------------------------------------- */

START_TEST(t4_jvp_gives_tangents_and_values) {
    sn_tensor *const x = F32(1, 3), *const t = F32(2, 3), *out[4];
    must(sn_func_jvp(two_outputs, NULL, SN_FUNC_JVP_OPTIONS(.tangents = SN_TENSORS(t), .n_tangents = 2), SN_TENSORS(x),
                     out, 4));
    ck_assert(same_bits(out[0], sn_mul(t, sn_cos(x))));
    sn_tensor *const outer = sn_mul(sn_unsqueeze(t, 0), sn_unsqueeze(x, 1));
    ck_assert(sn_allclose(out[1], sn_add(outer, sn_t(outer)), 1e-6, 1e-6));
    ck_assert(same_bits(out[2], sn_sin(x)));
    ck_assert(same_bits(out[3], sn_mul(sn_unsqueeze(x, 0), sn_unsqueeze(x, 1))));
    ck_assert(!sn_requires_grad(out[0]));
}
END_TEST

static sn_status tangent_of(sn_frame *f) { /* inputs x, t: of the body in the closure */
    sn_tensor *out = NULL;
    sn_func_jvp((sn_body)sn_closure(f), NULL, SN_FUNC_JVP_OPTIONS(.tangents = SN_TENSORS(sn_in(f, 1))),
                SN_TENSORS(sn_in(f, 0)), &out, 1);
    return sn_out(f, 0, out);
}

static sn_status grad_of_cubes(sn_frame *f) { return sn_out(f, 0, GRAD(cubes, NULL, sn_in(f, 0))); }

static sn_status slope_along(sn_frame *f) { /* inputs x, t: d/dx of the tangent of cubes */
    sn_tensor *out = NULL;
    sn_func_grad(tangent_of, (void *)cubes, NULL, SN_TENSORS(sn_in(f, 0), sn_in(f, 1)), &out, 1);
    return sn_out(f, 0, out);
}

static sn_status twice_along(sn_frame *f) { /* inputs x, t: the second derivative of cubes along t */
    sn_tensor *out = NULL;
    sn_func_jvp(tangent_of, (void *)cubes, SN_FUNC_JVP_OPTIONS(.tangents = SN_TENSORS(sn_in(f, 1), NULL)),
                SN_TENSORS(sn_in(f, 0), sn_in(f, 1)), &out, 1);
    return sn_out(f, 0, out);
}

START_TEST(t4_forward_over_reverse_and_reverse_over_forward) {
    sn_tensor *const x = F32(1, 3, 4), *const t = F32(2, 3, 4), *const want = sn_mul(sn_mul_scalar(x, sn_float(6)), t);
    sn_tensor *const over_reverse =
        FIRST(sn_func_jvp, grad_of_cubes, NULL, SN_FUNC_JVP_OPTIONS(.tangents = SN_TENSORS(t)), x);
    sn_function *const over_forward = sn_compile(slope_along, NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
    sn_function *const twice = sn_compile(twice_along, NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
    ck_assert(sn_allclose(over_reverse, want, 1e-5, 1e-5));
    ck_assert(sn_allclose(SN_CALL(over_forward, x, t), want, 1e-5, 1e-5));
    ck_assert(sn_allclose(SN_CALL(twice, x, t), sn_sum(sn_mul(want, t)), 1e-5, 1e-5));
    sn_function_free(over_forward);
    sn_function_free(twice);
}
END_TEST

static sn_status normalises(sn_frame *f) { /* x [4]: ops with rules of all kinds */
    sn_tensor *const x = sn_in(f, 0), *const y = sn_layer_norm(x, SN_INTS(4), NULL, NULL);
    sn_tensor *const z = sn_cumsum(sn_softmax(sn_mul(y, sn_max(x)), 0), 0, SN_DTYPE_DEFAULT);
    return sn_out(f, 0, sn_cat(SN_TENSORS(z, sn_reshape(sn_matmul(x, sn_unsqueeze(y, 1)), SN_INTS(1))), 0));
}

static sn_status mapped_tangents(sn_frame *f) { /* inputs x [n, 4], t [n, 4] */
    sn_tensor *out = NULL;
    sn_vmap(tangent_of, (void *)normalises, NULL, SN_TENSORS(sn_in(f, 0), sn_in(f, 1)), &out, 1);
    return sn_out(f, 0, out);
}

START_TEST(t4_vmap_of_tangents_has_the_loops_bits_eager_and_compiled) {
    sn_tensor *const x = F32(1, 5, 4), *const t = F32(2, 5, 4);
    const Twin twin = twin_new(mapped_tangents, NULL, NULL, NULL);
    for (int n = 0; n < 3; n++) {
        sn_tensor *const all = TWIN_CALL(twin, x, t);
        for (int i = 0; i < 5; i++) {
            sn_tensor *const one =
                FIRST(sn_func_jvp, normalises, NULL, SN_FUNC_JVP_OPTIONS(.tangents = SN_TENSORS(sn_select(t, 0, i))),
                      sn_select(x, 0, i));
            ck_assert(same_bits(sn_select(all, 0, i), one));
        }
    }
    ck_assert_int_eq(stats_of(twin.fast).graphs, 1);
    ck_assert_int_eq(stats_of(twin.fast).breaks, 0);
    twin_free(twin);
}
END_TEST

static sn_status writes_with_tangents(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const y = sn_add(x, sn_ones_like(x)), *const z = sn_zeros_like(x);
    sn_mul_(sn_select(y, 0, 1), sn_select(x, 0, 0)); /* a view's tangent is a view of the tangent */
    sn_add_(z, x);                                   /* one that had none */
    sn_mul_(z, y);
    return sn_out(f, 0, sn_add(sn_sum(z), sn_sum(y)));
}
static sn_status writes_its_input(sn_frame *f) { return sn_out(f, 0, sn_mul_(sn_in(f, 0), sn_in(f, 0))); }
static sn_status writes_into_a_part(sn_frame *f) {
    sn_tensor *const z = sn_zeros(SN_INTS(2, 3), SN_F32);
    sn_copy_(sn_select(z, 0, 0), sn_in(f, 0));
    return sn_out(f, 0, z);
}

START_TEST(t4_a_tangent_follows_what_is_written) {
    sn_tensor *const x = F32(1, 3, 4), *const t = F32(2, 3, 4), *const was = sn_clone(t), *out;
    const Twin twin = twin_new(tangent_of, (void *)writes_with_tangents, (void *)writes_with_tangents, NULL);
    sn_tensor *const slope = GRAD(writes_with_tangents, NULL, x);
    for (int n = 0; n < 3; n++) ck_assert(sn_allclose(TWIN_CALL(twin, x, t), sn_sum(sn_mul(slope, t)), 1e-5, 1e-5));
    ck_assert(same_bits(t, was));
    twin_free(twin);
    const sn_func_jvp_options *const along = SN_FUNC_JVP_OPTIONS(.tangents = SN_TENSORS(t));
    ck_assert_int_eq(sn_func_jvp(writes_its_input, NULL, along, SN_TENSORS(x), &out, 1), SN_ERR_STATE);
    expect_error(SN_ERR_STATE, "from outside");
    sn_tensor *const v = F32(3, 3);
    ck_assert_int_eq(
        sn_func_jvp(writes_into_a_part, NULL, SN_FUNC_JVP_OPTIONS(.tangents = SN_TENSORS(v)), SN_TENSORS(v), &out, 1),
        SN_ERR_UNSUPPORTED);
    expect_error(SN_ERR_UNSUPPORTED, "has views");
    ck_assert_int_eq(sn_func_jvp(cubes, NULL, along, SN_TENSORS(v), &out, 1), SN_ERR_SHAPE);
    expect_error(SN_ERR_SHAPE, "tangent of input 0 is f32[3,4], the input f32[3]");
    ck_assert_int_eq(sn_func_jvp(cubes, NULL, NULL, SN_TENSORS(v), &out, 1), SN_ERR_ARGUMENT);
    expect_error(SN_ERR_ARGUMENT, "0 entries for 1 inputs");
}
END_TEST

/* composed ------------------------------------------------------------------------------------ */

static sn_status normed(sn_frame *f) { /* inputs x [4], w [3, 4], g [3]: what has rules of its own, and parts */
    sn_tensor *const y = sn_linear(sn_in(f, 0), sn_in(f, 1), NULL);
    sn_tensor *const z = sn_layer_norm(y, SN_INTS(3), sn_in(f, 2), NULL);
    return sn_out(f, 0, sn_sum(sn_mul(sn_softmax(z, 0), sn_gelu(z))));
}

static sn_status grads_of_normed(sn_frame *f) { /* by all three */
    sn_tensor *out[3] = {NULL};
    sn_func_grad(normed, NULL, SN_FUNC_GRAD_OPTIONS(.argnums = SN_INTS(0, 1, 2)),
                 SN_TENSORS(sn_in(f, 0), sn_in(f, 1), sn_in(f, 2)), out, 3);
    for (int i = 0; i < 3; i++) sn_out(f, i, out[i]);
    return sn_check();
}

static sn_status per_sample(sn_frame *f) { /* for each x, the same w and g */
    sn_tensor *out[3] = {NULL};
    sn_vmap(grads_of_normed, NULL, SN_VMAP_OPTIONS(.in_dims = SN_INTS(0, SN_NO_INT, SN_NO_INT)),
            SN_TENSORS(sn_in(f, 0), sn_in(f, 1), sn_in(f, 2)), out, 3);
    for (int i = 0; i < 3; i++) sn_out(f, i, out[i]);
    return sn_check();
}

/* Calls a body that sets 3 outputs. */
static void call3(sn_function *fn, sn_tensor *x, sn_tensor *w, sn_tensor *g, sn_tensor **out) {
    must(sn_call(fn, (sn_tensor *[]){x, w, g}, 3, out, 3));
}

START_TEST(a2_20_vmap_of_gradients_has_the_loops_bits_eager_and_compiled) {
    sn_tensor *const x = F32(1, 5, 4), *const w = F32(2, 3, 4), *const g = F32(3, 3), *one[3], *all[3];
    sn_function *const eager = sn_compile(per_sample, NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
    sn_function *const alone = sn_compile(grads_of_normed, NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
    sn_function *const fast = sn_compile(per_sample, NULL, NULL);
    call3(eager, x, w, g, all);
    for (int i = 0; i < 5; i++) {
        call3(alone, sn_select(x, 0, i), w, g, one);
        for (int k = 0; k < 3; k++) ck_assert(same_bits(sn_select(all[k], 0, i), one[k]));
    }
    for (int n = 0; n < 3; n++) {
        call3(fast, x, w, g, one);
        for (int k = 0; k < 3; k++) ck_assert(same_bits(one[k], all[k]));
    }
    ck_assert_int_eq(stats_of(fast).graphs, 1);
    ck_assert_int_eq(stats_of(fast).breaks, 0);
    sn_function_free(eager);
    sn_function_free(alone);
    sn_function_free(fast);
}
END_TEST

static sn_status mapped_cubes(sn_frame *f) { /* the sum over rows of the sum of x^3, by sn_vmap */
    sn_tensor *rows = NULL;
    sn_vmap(cubes, NULL, NULL, SN_TENSORS(sn_in(f, 0)), &rows, 1);
    return sn_out(f, 0, sn_sum(rows));
}

START_TEST(t4_gradients_of_vmap_and_outside) {
    sn_tensor *const x = LEAF(1, 3, 4);
    ck_assert(same_bits(GRAD(mapped_cubes, NULL, x), by_tape(mapped_cubes, NULL, x)));
    sn_tensor *const slope = sn_sum(GRAD(cubes, NULL, x)); /* its own gradient is the second one */
    must(sn_backward(slope));
    ck_assert(sn_allclose(sn_grad(x), sn_mul_scalar(x, sn_float(6)), 1e-6, 1e-6));
    sn_tensor *const with = GRAD(cubes, NULL, x);
    ck_assert(sn_requires_grad(with));
    const sn_scope off = sn_no_grad_begin();
    sn_tensor *const without = GRAD(cubes, NULL, x);
    ck_assert(same_bits(without, with));
    ck_assert(!sn_requires_grad(without));
    sn_scope_end(off);
}
END_TEST

static sn_status second_of(sn_frame *f) {
    sn_tensor *out = NULL;
    sn_hessian((sn_body)sn_closure(f), NULL, SN_JACOBIAN_OPTIONS(.forward = true), SN_TENSORS(sn_in(f, 0)), &out, 1);
    return sn_out(f, 0, out);
}

START_TEST(t4_compiled_it_is_one_graph_with_the_bits_of_eager) {
    sn_tensor *const x = LEAF(1, 3, 4);
    static const sn_body bodies[] = {grad_of, sum_of_grad, mapped_cubes, second_of};
    for (int i = 0; i < 4; i++) {
        const Twin twin = twin_new(bodies[i], (void *)cubes, (void *)cubes, NULL);
        for (int n = 0; n < 3; n++) {
            sn_tensor *const got = TWIN_CALL(twin, x); /* compares with eager */
            ck_assert_ptr_nonnull(got);
            must(sn_backward(sn_sum(got)));
        }
        ck_assert_int_eq(stats_of(twin.fast).graphs, 1);
        ck_assert_int_eq(stats_of(twin.fast).breaks, 0);
        twin_free(twin);
    }
}
END_TEST

/* what a body may, and may not ---------------------------------------------------------------- */

static sn_status writes_its_own(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const y = sn_mul(x, x), *const buffer = sn_zeros(SN_INTS(2, 4), SN_F32);
    sn_mul_(sn_select(y, 0, 1), sn_select(x, 0, 0));
    sn_copy_(sn_select(buffer, 0, 1), sn_select(y, 0, 1));
    sn_add_(buffer, sn_exp(buffer));
    return sn_out(f, 0, sn_add(sn_sum(y), sn_sum(buffer)));
}

START_TEST(t4_a_body_may_write_what_it_made) {
    sn_tensor *const x = F32(1, 3, 4), *const got = GRAD(writes_its_own, NULL, x);
    ck_assert(same_bits(got, by_tape(writes_its_own, NULL, x)));
    const Twin twin = twin_new(grad_of, (void *)writes_its_own, (void *)writes_its_own, NULL);
    for (int n = 0; n < 3; n++) ck_assert(same_bits(TWIN_CALL(twin, x), got));
    twin_free(twin);
}
END_TEST

static sn_status asks_its_value(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    return sn_out(f, 0, sn_sum(sn_item(sn_sum(x)) > 0 ? sn_mul(x, x) : sn_neg(x)));
}

START_TEST(t4_a_value_is_known_where_no_vmap_is_around) {
    sn_tensor *const x = F32(1, 3, 4), *const up = sn_abs(x), *const down = sn_neg(up);
    const Twin twin = twin_new(grad_of, (void *)asks_its_value, (void *)asks_its_value, NULL);
    for (int n = 0; n < 2; n++) {
        ck_assert(same_bits(TWIN_CALL(twin, up), sn_mul_scalar(up, sn_float(2))));
        ck_assert(same_bits(TWIN_CALL(twin, down), sn_neg(sn_ones_like(down))));
    }
    twin_free(twin);
    sn_tensor *out;
    ck_assert_int_eq(sn_vmap(grad_of, (void *)asks_its_value, NULL, SN_TENSORS(x), &out, 1), SN_ERR_STATE);
    expect_error(SN_ERR_STATE, "sn_item");
}
END_TEST

static sn_status gives_its_input(sn_frame *f) { return sn_out(f, 0, sn_in(f, 0)); }
static sn_status gives_a_number(sn_frame *f) { return sn_out(f, 0, sn_argmax(sn_in(f, 0), SN_NO_INT, false)); }
static sn_status gives_a_constant(sn_frame *f) { return sn_out(f, 0, sn_sum(sn_detach(sn_in(f, 0)))); }
static sn_tensor *kept;
static sn_status keeps_a_handle(sn_frame *f) { return kept = sn_keep(sn_exp(sn_in(f, 0))), sn_out(f, 0, sn_sum(kept)); }
static sn_status writes_from_outside(sn_frame *f) {
    sn_add_(sn_closure(f), sn_in(f, 0));
    return sn_out(f, 0, sn_sum(sn_in(f, 0)));
}
static sn_status turns_from_outside(sn_frame *f) {
    sn_t_(sn_closure(f));
    return sn_out(f, 0, sn_sum(sn_in(f, 0)));
}
static sn_status detaches_from_outside(sn_frame *f) {
    sn_detach_(sn_closure(f));
    return sn_out(f, 0, sn_sum(sn_in(f, 0)));
}
static sn_status saves_and_writes(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const y = sn_exp(x), *const z = sn_mul(y, x);
    sn_add_(y, x);
    return sn_out(f, 0, sn_sum(z));
}
static sn_status goes_backward(sn_frame *f) {
    sn_backward(sn_sum(sn_in(f, 0)));
    return sn_out(f, 0, sn_sum(sn_in(f, 0)));
}

static void refused(sn_body body, void *closure, sn_tensor *x, sn_status status, const char *says) {
    sn_tensor *out = x;
    ck_assert_int_eq(sn_func_grad(body, closure, NULL, SN_TENSORS(x), &out, 1), status);
    ck_assert_ptr_null(out);
    expect_error(status, says);
}

START_TEST(t4_what_is_no_gradient_is_an_error_that_says_so) {
    sn_tensor *const x = F32(1, 3, 4), *const scalar = sn_sum(x), *const outside = F32(3, 3, 4);
    ck_assert(same_bits(GRAD(gives_its_input, NULL, scalar), sn_ones_like(scalar)));
    ck_assert(same_bits(GRAD(gives_a_constant, NULL, x), sn_zeros_like(x)));
    refused(gives_its_input, NULL, x, SN_ERR_SHAPE, "f32[3,4]");
    refused(gives_a_number, NULL, x, SN_ERR_DTYPE, "i64");
    refused(cubes, NULL, sn_ones(SN_INTS(2), SN_I64), SN_ERR_DTYPE, "argument 0 is i64");
    refused(writes_from_outside, outside, x, SN_ERR_STATE, "from outside");
    refused(turns_from_outside, outside, x, SN_ERR_STATE, "aten::t_: inside of sn_func_grad and its like a tensor");
    refused(detaches_from_outside, outside, x, SN_ERR_STATE, "aten::detach_: inside of sn_func_grad and its like");
    ck_assert(same_bits(outside, F32(3, 3, 4)));
    refused(saves_and_writes, NULL, x, SN_ERR_STATE, "version");
    refused(goes_backward, NULL, x, SN_ERR_STATE, "sn_backward");
    refused(NULL, NULL, x, SN_ERR_ARGUMENT, "body is NULL");
    GRAD(keeps_a_handle, NULL, x);
    ck_assert_ptr_null(sn_exp(kept));
    expect_error(SN_ERR_STATE, "has ended");
    sn_release(kept);
}
END_TEST

START_TEST(t4_bad_options_name_the_argument_and_its_value) {
    sn_tensor *const x = F32(1, 3), *out[2];
    const sn_tensors in = SN_TENSORS(x);
    ck_assert_int_eq(sn_func_grad(cubes, NULL, SN_FUNC_GRAD_OPTIONS(.argnums = SN_INTS(2)), in, out, 1),
                     SN_ERR_ARGUMENT);
    expect_error(SN_ERR_ARGUMENT, "argnums has 2, of 1 inputs");
    ck_assert_int_eq(sn_func_grad(cubes, NULL, SN_FUNC_GRAD_OPTIONS(.argnums = SN_INTS(0, -1)), in, out, 2),
                     SN_ERR_ARGUMENT);
    expect_error(SN_ERR_ARGUMENT, "0 twice");
    ck_assert_int_eq(sn_func_vjp(cubes, NULL, NULL, in, out, 1), SN_ERR_ARGUMENT);
    expect_error(SN_ERR_ARGUMENT, "cotangents has 0 entries");
    ck_assert_int_eq(sn_func_vjp(cubes, NULL, SN_FUNC_VJP_OPTIONS(.cotangents = SN_TENSORS(x)), in, out, 1),
                     SN_ERR_SHAPE);
    expect_error(SN_ERR_SHAPE, "cotangent of output 0 is f32[3], the output f32[]");
    ck_assert_int_eq(sn_hessian(cubes, NULL, NULL, in, out, 0), SN_ERR_ARGUMENT);
    expect_error(SN_ERR_ARGUMENT, "room for 0");
}
END_TEST

int main(void) {
    const TTest *const tests[] = {t4_gradients_are_the_tapes,
                                  t4_values_and_more_outputs_come_behind_the_gradients,
                                  t4_vjp_takes_cotangents,
                                  t4_jacobian_and_hessian,
                                  t4_jvp_gives_tangents_and_values,
                                  t4_forward_over_reverse_and_reverse_over_forward,
                                  t4_vmap_of_tangents_has_the_loops_bits_eager_and_compiled,
                                  t4_a_tangent_follows_what_is_written,
                                  a2_20_vmap_of_gradients_has_the_loops_bits_eager_and_compiled,
                                  t4_gradients_of_vmap_and_outside,
                                  t4_compiled_it_is_one_graph_with_the_bits_of_eager,
                                  t4_a_body_may_write_what_it_made,
                                  t4_a_value_is_known_where_no_vmap_is_around,
                                  t4_what_is_no_gradient_is_an_error_that_says_so,
                                  t4_bad_options_name_the_argument_and_its_value};
    return contract_main("test_func", tests, (int)(sizeof tests / sizeof *tests));
}
