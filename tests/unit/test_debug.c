/* test_debug.c: modes that show what a program does [semantics T7]: hooks of what is saved, anomaly mode; compiled
 * functions run eagerly meanwhile, and say so. */
#include "tests/unit/contract.h"

typedef struct Seen {
    int packed, unpacked;
    bool wrong, fails;
    sn_dtype dtype;
} Seen;

static sn_status narrows(sn_frame *f) {
    Seen *const seen = sn_closure(f);
    seen->packed++;
    if (seen->fails) return sn_fail(SN_ERR_IO, "the disk is full");
    return sn_out(f, 0, sn_to(sn_in(f, 0), seen->dtype));
}
static sn_status widens(sn_frame *f) {
    Seen *const seen = sn_closure(f);
    seen->unpacked++;
    sn_tensor *const t = sn_to(sn_in(f, 0), SN_F32);
    return sn_out(f, 0, seen->wrong ? sn_sum(t) : t);
}
static sn_status same(sn_frame *f) {
    Seen *const seen = sn_closure(f);
    seen->packed++;
    return sn_out(f, 0, sn_in(f, 0));
}

static sn_status body(sn_frame *f) {
    sn_tensor *const w = sn_closure(f);
    return sn_out(f, 0, sn_sum(sn_sin(sn_mul(sn_exp(sn_mul(sn_in(f, 0), w)), w))));
}

static sn_tensor *grad_of(sn_tensor *w, sn_function *fn, sn_body pack, sn_body unpack, Seen *seen) {
    sn_grad_set(w, NULL);
    const sn_scope scope = sn_scope_begin();
    if (pack) ck_assert_int_eq(sn_saved_hooks_set(pack, unpack, seen), SN_OK);
    sn_tensor *const y = sn_scope_return(scope, SN_CALL(fn, F32(3, 8, 4)));
    ck_assert_msg(y && sn_backward(y) == SN_OK, "%s", sn_error_take()->message);
    return sn_clone(sn_grad(w));
}

START_TEST(t7_hooks_keep_what_is_saved_in_another_way) {
    sn_tensor *const w = LEAF(2, 8, 4);
    sn_function *const fns[] = {sn_compile(body, w, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER)),
                                sn_compile(body, w, NULL),
                                sn_compile(body, w, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY))};
    sn_tensor *const want = grad_of(w, fns[0], NULL, NULL, NULL);
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < 4; i++) { /* compiled before, and then again */
            Seen seen = {.dtype = SN_F64};
            ck_assert(same_bits(grad_of(w, fns[k], NULL, NULL, NULL), want));
            ck_assert(same_bits(grad_of(w, fns[k], narrows, widens, &seen), want));
            ck_assert_int_eq(seen.packed, 4); /* x, exp's result, that again, sin's argument; no leaf */
            ck_assert_int_eq(seen.unpacked, seen.packed);
            if (k) ck_assert_msg(strstr(last_reason(), "packed"), "%s", last_reason());
            seen.dtype = SN_BF16;
            ck_assert(!same_bits(grad_of(w, fns[k], narrows, widens, &seen), want));
        }
    for (int k = 0; k < 3; k++) sn_function_free(fns[k]);
}
END_TEST

/* What hooks keep counts, by its own size: sin's argument alone, 32 elements. */
START_TEST(what_hooks_keep_is_counted) {
    static const sn_dtype dtypes[] = {SN_F64, SN_BF16};
    static const char *const says[] = {"256 bytes in 1 node", "64 bytes in 1 node"};
    for (int i = 0; i < 2; i++) {
        Seen seen = {.dtype = dtypes[i]};
        sn_grad_info nodes[2] = {{.size = sizeof nodes[0]}};
        const sn_scope scope = sn_scope_begin();
        ck_assert_int_eq(sn_saved_hooks_set(narrows, widens, &seen), SN_OK);
        sn_tensor *const y = sn_scope_return(scope, sn_sin(sn_add(LEAF(1, 8, 4), F32(2, 8, 4))));
        ck_assert_msg(strstr(sn_saved_text(y), says[i]) != NULL, "%s", sn_saved_text(y));
        ck_assert_int_ge(sn_live_nodes(nodes, 2), 2);
        ck_assert_int_eq(nodes[0].saved_bytes, i ? 64 : 256);
        ck_assert_msg(strstr(sn_grad_text(y), i ? "(64 bytes)" : "(256 bytes)") != NULL, "%s", sn_grad_text(y));
    }
}
END_TEST

START_TEST(t7_wrong_hooks_are_errors) {
    sn_tensor *const w = LEAF(2, 8, 4), *const x = F32(3, 8, 4);
    Seen seen = {.dtype = SN_F32, .wrong = true};
    ck_assert_int_eq(sn_saved_hooks_set(NULL, widens, &seen), SN_ERR_ARGUMENT);
    expect_error(SN_ERR_ARGUMENT, "pack is NULL");
    sn_scope scope = sn_scope_begin();
    sn_saved_hooks_set(narrows, widens, &seen);
    sn_tensor *const y = sn_sum(sn_exp(sn_mul(x, w)));
    ck_assert_int_eq(sn_backward(y), SN_ERR_CALLBACK);
    expect_error(SN_ERR_CALLBACK, "ExpBackward f32[], not f32[8,4]");
    seen.fails = true;
    ck_assert(!sn_exp(w));
    expect_error(SN_ERR_IO, "disk");
    sn_scope_end(scope);
    scope = sn_scope_begin();
    sn_saved_hooks_set(same, same, &seen);
    sn_tensor *const h = sn_mul(x, w), *const z = sn_sum(sn_mul(h, w));
    sn_add_(h, h); /* kept as it is, so that a write shows */
    ck_assert_int_eq(sn_backward(z), SN_ERR_STATE);
    expect_error(SN_ERR_STATE, "version");
    sn_scope_end(scope);
    seen.packed = 0;
    sn_exp(w);
    ck_assert_int_eq(seen.packed, 0); /* they ended with the scope */
}
END_TEST

static sn_status sets_hooks(sn_frame *f) {
    Seen *const seen = sn_closure(f);
    sn_tensor *const h = sn_exp(sn_in(f, 0));
    sn_saved_hooks_set(narrows, widens, seen);
    return sn_out(f, 0, sn_sin(sn_mul(h, sn_in(f, 0))));
}

static sn_status two_sines(sn_frame *f) { return sn_out(f, 0, sn_sin(sn_sin(sn_in(f, 0)))); }

/* What a checkpoint makes again no hook sees, in a compiled body either. */
static sn_status sets_hooks_around_a_checkpoint(sn_frame *f) {
    sn_tensor *y;
    sn_saved_hooks_set(narrows, widens, sn_closure(f));
    sn_checkpoint(two_sines, NULL, NULL, SN_TENSORS(sn_mul_scalar(sn_in(f, 0), sn_float(2))), &y, 1);
    return sn_out(f, 0, y);
}

static void same_gradients(sn_body setting, sn_dtype dtype) {
    Seen fast = {.dtype = dtype}, eager = fast;
    const Twin twin = twin_new(setting, &fast, &eager, NULL);
    for (uint64_t i = 0; i < 4; i++) {
        sn_tensor *grads[2];
        for (int k = 0; k < 2; k++) {
            sn_tensor *const x = LEAF(i, 8, 4);
            ck_assert_msg(sn_backward(sn_sum(SN_CALL(k ? twin.fast : twin.eager, x))) == SN_OK, "%s",
                          sn_error_take()->message);
            grads[k] = sn_grad(x);
        }
        ck_assert(same_bits(grads[0], grads[1]));
        ck_assert_int_eq(fast.packed, eager.packed);
        ck_assert_int_eq(fast.unpacked, eager.unpacked);
    }
    twin_free(twin);
}

START_TEST(t7_a_body_may_set_them) { same_gradients(sets_hooks, SN_F64); }
END_TEST
START_TEST(t7_a_body_may_set_them_around_a_checkpoint) { same_gradients(sets_hooks_around_a_checkpoint, SN_BF16); }
END_TEST

static sn_status takes_root(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    sn_tensor *const a = sn_sub(sn_mul(x, x), sn_exp(x));
    sn_tensor *const b = sn_sqrt(a); /* of something negative */
    return sn_out(f, 0, sn_sum(sn_mul(b, x)));
}
static sn_status infinite_slope(sn_frame *f) {
    sn_tensor *const x = sn_mul_scalar(sn_in(f, 0), sn_float(0));
    return sn_out(f, 0, sn_sum(sn_mul(sn_sqrt(x), x))); /* 0 times infinity, backward only */
}

START_TEST(t7_anomaly_mode_names_the_first_op) {
    sn_function *const fns[] = {sn_compile(takes_root, NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER)),
                                sn_compile(takes_root, NULL, NULL),
                                sn_compile(takes_root, NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY))};
    for (int k = 0; k < 3; k++) {
        sn_tensor *const x = F32(3, 8, 4);
        for (int i = 0; i < 3; i++) ck_assert(SN_CALL(fns[k], x) != NULL);
        const sn_scope scope = sn_scope_begin();
        ck_assert(!sn_anomaly_set(true));
        ck_assert(sn_anomaly_set(true));
        ck_assert(!SN_CALL(fns[k], x));
        const sn_error *const error = sn_error_take();
        ck_assert_int_eq(error->status, SN_ERR_VALUE);
        ck_assert_msg(strstr(error->op, "aten::sqrt") && strstr(error->where, "test_debug.c"), "%s: %s at %s",
                      error->op, error->message, error->where);
        ck_assert(SN_CALL(fns[k], sn_mul_scalar(x, sn_float(NAN))) != NULL); /* its input has one */
        sn_scope_end(scope);
        ck_assert(SN_CALL(fns[k], x) != NULL);
        if (k) ck_assert_msg(last_path() == SN_PATH_COMPILED, "%s", last_reason());
        sn_function_free(fns[k]);
    }
}
END_TEST

START_TEST(t7_anomaly_mode_looks_at_a_backward) {
    sn_function *const fns[] = {sn_compile(infinite_slope, NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER)),
                                sn_compile(infinite_slope, NULL, NULL)};
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < 2; i++) ck_assert_int_eq(sn_backward(SN_CALL(fns[k], LEAF(3, 8, 4))), SN_OK);
        sn_tensor *const y = SN_CALL(fns[k], LEAF(3, 8, 4)); /* compiled, where k is 1 */
        const sn_scope scope = sn_scope_begin();
        sn_anomaly_set(true);
        ck_assert_int_eq(sn_backward(y), SN_ERR_VALUE);
        expect_error(SN_ERR_VALUE, "no input of the op");
        sn_scope_end(scope);
        sn_function_free(fns[k]);
    }
}
END_TEST

/* What the program called is in the forward. */
START_TEST(t7_anomaly_mode_names_the_call_of_the_forward) {
    sn_function *const fns[] = {sn_compile(infinite_slope, NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER)),
                                sn_compile(infinite_slope, NULL, NULL)};
    for (int k = 0; k < 2; k++) {
        const sn_scope scope = sn_scope_begin();
        sn_anomaly_set(true);
        ck_assert_int_eq(sn_backward(SN_CALL(fns[k], LEAF(3, 8, 4))), SN_ERR_VALUE);
        const sn_error *const error = sn_error_take();
        ck_assert_msg(strstr(error->message, "Backward of the call at test_debug.c:") != NULL, "%s", error->message);
        ck_assert_msg(strstr(error->where, "test_debug.c:") != NULL, "%s", error->where);
        sn_scope_end(scope);
        sn_function_free(fns[k]);
    }
}
END_TEST

static sn_status log_of_sine(sn_frame *f) { return sn_out(f, 0, sn_log(sn_sin(sn_in(f, 0)))); }

static sn_status flows(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *branch, *slices;
    sn_cond(sn_gt_scalar(sn_sum(x), sn_float(-100)), log_of_sine, log_of_sine, NULL, NULL, SN_TENSORS(x), &branch, 1);
    sn_map(log_of_sine, NULL, NULL, SN_TENSORS(x), &slices, 1);
    sn_out(f, 0, branch);
    return sn_out(f, 1, slices);
}

static sn_status takes_errors(sn_frame *f) {
    double factor = sn_item(sn_sum(sn_in(f, 0)));
    if (sn_check() != SN_OK) sn_error_take(), factor = -1000;
    return sn_out(f, 0, sn_mul_scalar(sn_in(f, 0), sn_float(factor)));
}

START_TEST(t2_a_body_that_takes_errors_has_values) {
    sn_tensor *const x = F32(7, 3), *const yes = sn_ones((sn_ints){0}, SN_BOOL), *y;
    const double sum = sn_item(sn_sum(x));
    ck_assert_int_eq(sn_cond(yes, takes_errors, log_of_sine, NULL, NULL, SN_TENSORS(x), &y, 1), SN_OK);
    ck_assert(same_bits(y, sn_mul_scalar(x, sn_float(sum))));
}
END_TEST

static sn_status sets_modes(sn_frame *f) {
    sn_user_mode_push(doubles_op, (void *)"aten::sin");
    sn_tensor *const y = sn_sin(sn_in(f, 0));
    sn_api_mode_push(doubles_op, (void *)"aten::sin");
    sn_anomaly_set(true);
    return sn_out(f, 0, sn_log(sn_add(y, sn_sin(sn_in(f, 1)))));
}

/* Of a body that runs; a trace of it is without its values. */
START_TEST(t7_modes_are_set_in_bodies_of_control_flow) {
    sn_tensor *const yes = sn_ones((sn_ints){0}, SN_BOOL), *y;
    sn_tensor *const x = sn_full(SN_INTS(3), sn_float(0.5), SN_F32), *const z = sn_full_like(x, sn_float(1.5));
    sn_tensor *const bad = sn_full_like(x, sn_float(-1.5)), *const plain = sn_sin(x);
    ck_assert_int_eq(sn_cond(yes, sets_modes, sets_modes, NULL, NULL, SN_TENSORS(x, z), &y, 1), SN_OK);
    ck_assert(same_bits(y, sn_log(sn_add(sn_mul_scalar(sn_sin(x), sn_float(2)),
                                         sn_mul_scalar(sn_mul_scalar(sn_sin(z), sn_float(2)), sn_float(2))))));
    ck_assert_int_eq(sn_cond(yes, sets_modes, sets_modes, NULL, NULL, SN_TENSORS(x, bad), &y, 1), SN_ERR_VALUE);
    ck_assert_str_eq(sn_error_take()->op, "aten::log");
    ck_assert(same_bits(sn_sin(x), plain)); /* the modes ended with the body */
}
END_TEST

/* Each op of a body passes a mode once. */
START_TEST(t7_modes_see_bodies_of_control_flow) {
    for (int i = 0; i < 8; i++) {
        const bool api = i & 1, tracked = i & 2;
        sn_tensor *const x = sn_add_scalar(sn_abs(F32(7, 2, 3)), sn_float(0.5)), *got[2];
        sn_tensor *const want = sn_log(sn_mul_scalar(sn_sin(x), sn_float(2)));
        const sn_compile_mode mode = i & 4 ? SN_COMPILE_VERIFY : SN_COMPILE_EAGER;
        sn_function *const fn = sn_compile(flows, NULL, SN_COMPILE_OPTIONS(.mode = mode));
        if (tracked) sn_requires_grad_(x, true);
        const sn_scope scope = sn_scope_begin();
        ck_assert_int_eq((api ? sn_api_mode_push : sn_user_mode_push)(doubles_op, (void *)"aten::sin"), SN_OK);
        ck_assert_int_eq(sn_call(fn, &x, 1, got, 2), SN_OK);
        for (int k = 0; k < 2; k++) ck_assert(same_bits(sn_detach(got[k]), want));
        sn_scope_end(scope);
        sn_function_free(fn);
    }
}
END_TEST

static sn_status sine_of_product(sn_frame *f) { return sn_out(f, 0, sn_sum(sn_sin(sn_mul(sn_in(f, 0), sn_in(f, 0))))); }

START_TEST(t7_a_mode_of_the_backward_sees_the_ops_of_a_compiled_one) {
    sn_tensor *grads[2];
    for (int k = 0; k < 2; k++) {
        const sn_compile_mode mode = k ? SN_COMPILE_VERIFY : SN_COMPILE_EAGER;
        sn_function *const fn = sn_compile(sine_of_product, NULL, SN_COMPILE_OPTIONS(.mode = mode));
        for (int i = 0; i < 3; i++) {
            sn_tensor *const x = LEAF(5, 6), *const y = SN_CALL(fn, x);
            const sn_scope scope = sn_scope_begin();
            if (i == 2) sn_user_mode_push(doubles_op, (void *)"aten::cos");
            ck_assert_int_eq(sn_backward(y), SN_OK);
            sn_scope_end(scope);
            grads[k] = sn_grad(x);
        }
        sn_function_free(fn);
    }
    ck_assert(same_bits(grads[0], grads[1]));
}
END_TEST

START_TEST(t7_anomaly_mode_looks_into_bodies_of_control_flow) {
    sn_tensor *const x = LEAF(3, 2, 3), *got[2];
    sn_function *const fn = sn_compile(flows, NULL, NULL);
    const sn_scope scope = sn_scope_begin();
    sn_anomaly_set(true);
    ck_assert_int_eq(sn_call(fn, &x, 1, got, 2), SN_ERR_VALUE);
    ck_assert_str_eq(sn_error_take()->op, "aten::log");
    sn_scope_end(scope);
    sn_function_free(fn);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        t2_a_body_that_takes_errors_has_values,
        t7_modes_are_set_in_bodies_of_control_flow,
        t7_modes_see_bodies_of_control_flow,
        t7_a_mode_of_the_backward_sees_the_ops_of_a_compiled_one,
        t7_anomaly_mode_looks_into_bodies_of_control_flow,
        t7_hooks_keep_what_is_saved_in_another_way,
        what_hooks_keep_is_counted,
        t7_wrong_hooks_are_errors,
        t7_a_body_may_set_them,
        t7_a_body_may_set_them_around_a_checkpoint,
        t7_anomaly_mode_names_the_first_op,
        t7_anomaly_mode_looks_at_a_backward,
        t7_anomaly_mode_names_the_call_of_the_forward,
    };
    return contract_main("test_debug", tests, (int)(sizeof tests / sizeof *tests));
}
