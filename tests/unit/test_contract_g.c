/* test_contract_g.c: the contract's rules of gradients [semantics G1 to G6]; each test's name
 * begins with its rule. Compiled and eager are compared bit for bit, gradients included. */
#include "tests/unit/contract.h"

typedef struct Host {
    sn_tensor *w, *b, *kept;
    int branch, hooks;
} Host;

static float at(sn_tensor *t, int64_t i) { return ((const float *)sn_data(t, SN_F32))[i]; }

/* G1: one order ------------------------------------------------------------------------------- */

START_TEST(g1_contributions_are_added_in_order_of_calls) {
    /* d/dx of big*x + one*x - big*x: newest first, (-big + one) + big is 0, any other order 1 */
    sn_tensor *const x = sn_requires_grad_(sn_full(SN_INTS(1), sn_float(1), SN_F32), true);
    sn_tensor *const a = sn_mul_scalar(x, sn_float(1e8)), *const b = sn_mul_scalar(x, sn_float(1));
    sn_tensor *const c = sn_mul_scalar(x, sn_float(-1e8));
    ck_assert_int_eq(sn_backward(sn_sum(sn_add(sn_add(a, b), c))), SN_OK);
    ck_assert(at(sn_grad(x), 0) == (float)((-1e8f + 1.0f) + 1e8f));
    ck_assert(at(sn_grad(x), 0) == 0);
}
END_TEST

static sn_status three_uses(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    sn_tensor *const a = sn_mul_scalar(x, sn_float(1e8)), *const b = sn_mul_scalar(x, sn_float(1));
    sn_tensor *const c = sn_mul_scalar(x, sn_float(-1e8));
    return sn_out(f, 0, sn_add(sn_add(a, b), c));
}

/* The function's result is used beside other uses of x, before and after: its backward continues
 * partial sums. */
static sn_tensor *around(sn_function *fn, uint64_t seed) {
    sn_tensor *const x = LEAF(seed, 16);
    sn_tensor *const before = sn_mul_scalar(x, sn_float(0.1));
    sn_tensor *const y = SN_CALL(fn, x);
    sn_tensor *const after = sn_sin(x);
    ck_assert_int_eq(sn_backward(sn_sum(sn_add(sn_add(before, y), after))), SN_OK);
    return sn_grad(x);
}

START_TEST(g1_a_compiled_segment_continues_partial_sums) {
    const Twin twin = twin_new(three_uses, NULL, NULL, NULL);
    for (int i = 0; i < 4; i++) {
        sn_tensor *const want = around(twin.eager, (uint64_t)i), *const got = around(twin.fast, (uint64_t)i);
        ck_assert_msg(same_bits(got, want), "call %d", i);
    }
    twin_free(twin);
}
END_TEST

static sn_status two_outputs(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    sn_out(f, 1, sn_exp(sn_sin(x)));
    return sn_out(f, 0, sn_mul(x, x));
}

START_TEST(g1_an_undefined_gradient_is_not_made_into_zeros) {
    const Twin twin = twin_new(two_outputs, NULL, NULL, NULL);
    for (int i = 0; i < 8; i++) {
        sn_tensor *grads[2];
        for (int k = 0; k < 2; k++) {
            sn_tensor *const x = LEAF((uint64_t)i, 9);
            sn_tensor *out[2];
            ck_assert_int_eq(sn_call(k ? twin.fast : twin.eager, &x, 1, out, 2), SN_OK);
            sn_tensor *root = sn_sum(out[i & 1]);
            if (i > 4) root = sn_add(root, sn_sum(out[!(i & 1)]));
            ck_assert_int_eq(sn_backward(root), SN_OK);
            grads[k] = sn_grad(x);
        }
        ck_assert_msg(same_bits(grads[0], grads[1]), "call %d", i);
    }
    twin_free(twin);
}
END_TEST

/* G2, G3: what is merged and saved ------------------------------------------------------------ */

static sn_status equal_parts(sn_frame *f) { /* cse before differentiation would merge the sums */
    sn_tensor *const x = sn_in(f, 0);
    sn_tensor *const a = sn_sin(x), *const b = sn_sin(x);
    return sn_out(f, 0, sn_add(sn_mul_scalar(a, sn_float(1e7)), sn_mul_scalar(b, sn_float(0.3))));
}

static sn_tensor *gradient(sn_function *fn, sn_tensor *x) {
    sn_requires_grad_(x, true);
    ck_assert_msg(sn_backward(sn_sum(SN_CALL(fn, x))) == SN_OK, "%s", sn_error_take()->message);
    return sn_grad(x);
}

START_TEST(g2_equal_parts_stay_two_contributions) {
    const Twin twin = twin_new(equal_parts, NULL, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        sn_tensor *const want = gradient(twin.eager, F32((uint64_t)i, 50)), *const got = gradient(twin.fast,
                                                                                                  F32((uint64_t)i, 50));
        ck_assert(same_bits(got, want));
    }
    twin_free(twin);
}
END_TEST

static sn_status squares(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    return sn_out(f, 0, sn_exp(sn_mul(x, ((Host *)sn_closure(f))->w)));
}

START_TEST(g3_versions_of_saved_values_are_checked) {
    Host host = {.w = F32(3, 9)};
    const Twin twin = twin_new(squares, &host, &host, NULL);
    for (int i = 0; i < 4; i++) {
        for (int k = 0; k < 2; k++) {
            sn_tensor *const x = LEAF(1, 9);
            sn_tensor *const y = SN_CALL(k ? twin.fast : twin.eager, x);
            sn_add_scalar_(host.w, sn_float(1)); /* what backward reads */
            ck_assert_int_ne(sn_backward(sn_sum(y)), SN_OK);
            expect_error(SN_ERR_STATE, "but writes in place took it to version");
        }
    }
    twin_free(twin);
}
END_TEST

/* Only a weight's gradient reads self and end. */
static sn_status blend(sn_frame *f) {
    sn_tensor *const end = ((Host *)sn_closure(f))->w;
    return sn_out(f, 0, sn_lerp_scalar(sn_in(f, 0), end, sn_float(0.25)));
}

START_TEST(g3_lerp_by_a_number_saves_nothing) {
    Host host = {.w = F32(3, 9)};
    const Twin twin = twin_new(blend, &host, &host, NULL);
    for (int i = 0; i < 4; i++) {
        for (int k = 0; k < 2; k++) {
            sn_tensor *const x = LEAF(1, 9);
            sn_tensor *const y = SN_CALL(k ? twin.fast : twin.eager, x);
            sn_add_scalar_(host.w, sn_float(1));
            ck_assert_int_eq(sn_backward(sn_sum(y)), SN_OK);
            ck_assert(sn_item(sn_amin(sn_grad(x))) == 0.75);
            ck_assert(sn_item(sn_amax(sn_grad(x))) == 0.75);
        }
    }
    twin_free(twin);
}
END_TEST

START_TEST(g3_a_compiled_node_expands_for_double_backward) {
    Host host = {.w = F32(3, 9)};
    const Twin twin = twin_new(squares, &host, &host, NULL);
    for (int i = 0; i < 3; i++) {
        sn_tensor *second[2];
        for (int k = 0; k < 2; k++) {
            sn_tensor *const x = LEAF((uint64_t)i, 9);
            sn_tensor *const y = sn_sum(SN_CALL(k ? twin.fast : twin.eager, x));
            sn_tensor *first;
            ck_assert_msg(sn_gradients(SN_TENSORS(y), SN_TENSORS(x), (sn_tensors){0}, SN_CREATE_GRAPH, &first) == SN_OK,
                          "%s", sn_error_take()->message);
            ck_assert_int_eq(sn_backward(sn_sum(sn_mul(first, first))), SN_OK);
            second[k] = sn_grad(x);
        }
        ck_assert(same_bits(second[0], second[1]));
    }
    twin_free(twin);
}
END_TEST

static sn_status product(sn_frame *f) { return sn_out(f, 0, sn_mul(sn_in(f, 0), sn_in(f, 1))); }

/* The gradient of w in fn(x, w), which is x; x changes its place in histories in between. */
static sn_tensor *value_back(sn_function *fn, sn_tensor *x, bool detach) {
    sn_tensor *const w = LEAF(7, 9), *const y = SN_CALL(fn, x, w), *grad = NULL;
    if (detach)
        sn_detach_(x);
    else
        sn_requires_grad_(x, true);
    sn_gradients(SN_TENSORS(sn_sum(y)), SN_TENSORS(w), (sn_tensors){0}, SN_CREATE_GRAPH, &grad);
    ck_assert_msg(grad && same_bits(grad, x), "%s", sn_error_take()->message);
    return grad;
}

START_TEST(g3_a_saved_value_has_the_history_of_the_call) {
    const Twin twin = twin_new(product, NULL, NULL, NULL);
    for (int i = 0; i < 6; i++) {
        sn_function *const fn = i % 2 ? twin.fast : twin.eager;
        ck_assert(!sn_requires_grad(value_back(fn, F32(1, 9), false)));
        sn_tensor *const from = LEAF(2, 9), *const x = sn_mul_scalar(from, sn_float(2));
        ck_assert_int_eq(sn_backward(sn_sum(value_back(fn, x, true))), SN_OK);
        ck_assert(at(sn_grad(from), 0) == 2);
    }
    twin_free(twin);
}
END_TEST

static sn_status two_sines(sn_frame *f) {
    sn_tensor *const a = sn_sin(sn_in(f, 0));
    sn_out(f, 1, a);
    return sn_out(f, 0, sn_sin(a));
}

/* The result that backward needs is written before or after the first derivative. */
static void write_saved(sn_function *fn, bool after, char *message) {
    sn_tensor *const x = LEAF(1, 9), *out[2], *first = NULL;
    ck_assert_int_eq(sn_call(fn, &x, 1, out, 2), SN_OK);
    sn_tensor *const y = sn_sum(out[0]);
    for (int i = 0; i < 2 && !sn_check(); i++) {
        if (i == after) {
            const sn_grad_mode mode = sn_grad_mode_set(SN_GRAD_OFF);
            sn_mul_scalar_(out[1], sn_float(2));
            sn_grad_mode_set(mode);
        }
        if (i == 0)
            sn_gradients(SN_TENSORS(y), SN_TENSORS(x), (sn_tensors){0}, SN_CREATE_GRAPH, &first);
        else
            sn_backward(sn_sum(first));
    }
    ck_assert_int_eq(sn_check(), SN_ERR_STATE);
    strncpy(message, sn_error_take()->message, 255);
}

START_TEST(g3_versions_are_checked_where_eagers_nodes_took_over) {
    for (int after = 0; after < 2; after++) {
        const Twin twin = twin_new(two_sines, NULL, NULL, NULL);
        char want[256] = "", got[256] = "";
        write_saved(twin.eager, after, want);
        ck_assert_ptr_nonnull(strstr(want, "but writes in place took it to version"));
        for (int i = 0; i < 3; i++) {
            write_saved(twin.fast, after, got);
            ck_assert_str_eq(got, want);
        }
        twin_free(twin);
    }
}
END_TEST

START_TEST(g3_backward_twice_needs_retain_graph) {
    Host host = {.w = F32(3, 9)};
    sn_function *const fn = sn_compile(squares, &host, NULL);
    for (int i = 0; i < 3; i++) {
        sn_tensor *const x = LEAF(1, 9);
        sn_tensor *const y = sn_sum(SN_CALL(fn, x));
        ck_assert_int_eq(sn_backward_ex(SN_TENSORS(y), (sn_tensors){0}, SN_RETAIN_GRAPH), SN_OK);
        sn_tensor *const once = sn_clone(sn_grad(x));
        ck_assert_int_eq(sn_backward(y), SN_OK);
        ck_assert(same_bits(sn_grad(x), sn_add(once, once)));
        ck_assert_int_ne(sn_backward(y), SN_OK);
        sn_error_take();
    }
    sn_function_free(fn);
}
END_TEST

/* G4: captured backward ----------------------------------------------------------------------- */

static sn_status train_step(sn_frame *f) {
    const Host *const host = sn_closure(f);
    sn_tensor *const y = sn_gelu(sn_linear(sn_in(f, 0), host->w, host->b));
    sn_tensor *const loss = sn_mean(sn_mul(y, y));
    sn_backward(loss);
    return sn_out(f, 0, loss);
}

static sn_status retaining(sn_frame *f) {
    sn_tensor *const y = sn_sum(sn_mul(sn_in(f, 0), sn_in(f, 0)));
    sn_backward_ex(SN_TENSORS(y), (sn_tensors){0}, SN_RETAIN_GRAPH);
    return sn_out(f, 0, y);
}

START_TEST(g3_a_backward_inside_may_retain_the_graph) {
    const Twin twin = twin_new(retaining, NULL, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        sn_tensor *grads[2];
        for (int k = 0; k < 2; k++) {
            sn_tensor *const x = LEAF(3, 7);
            ck_assert_int_eq(sn_backward(SN_CALL(k ? twin.fast : twin.eager, x)), SN_OK);
            grads[k] = sn_grad(x);
        }
        ck_assert(same_bits(grads[0], grads[1]));
    }
    twin_free(twin);
}
END_TEST

START_TEST(g4_grad_slots_are_guarded_absent_or_present) {
    Host fast = {.w = LEAF(1, 4, 6), .b = LEAF(2, 4)}, slow = {.w = LEAF(1, 4, 6), .b = LEAF(2, 4)};
    const Twin twin = twin_new(train_step, &fast, &slow, NULL);
    for (int i = 0; i < 10; i++) {
        if (i % 5 < 3) { /* absent; the other calls accumulate */
            sn_grad_set(fast.w, NULL), sn_grad_set(fast.b, NULL);
            sn_grad_set(slow.w, NULL), sn_grad_set(slow.b, NULL);
        }
        TWIN_CALL(twin, F32((uint64_t)i, 8, 6));
        ck_assert_msg(same_bits(sn_grad(fast.w), sn_grad(slow.w)), "call %d", i);
        ck_assert(same_bits(sn_grad(fast.b), sn_grad(slow.b)));
    }
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    ck_assert_int_eq(stats_of(twin.fast).breaks, 0);
    twin_free(twin);
}
END_TEST

enum { MANY = 20 };

static sn_status many_leaves(sn_frame *f) {
    sn_tensor *const *const leaves = sn_closure(f);
    sn_tensor *h = sn_in(f, 0);
    for (int i = 0; i < MANY; i++) h = sn_add(h, sn_mul(leaves[i], sn_in(f, 0)));
    sn_tensor *const loss = sn_sum(h);
    sn_backward(loss);
    return sn_out(f, 0, loss);
}

START_TEST(g4_a_captured_backward_reaches_any_number_of_leaves) {
    sn_tensor *fast[MANY], *slow[MANY];
    for (int i = 0; i < MANY; i++) fast[i] = LEAF((uint64_t)i, 6), slow[i] = LEAF((uint64_t)i, 6);
    const Twin twin = twin_new(many_leaves, fast, slow, NULL);
    for (int call = 0; call < 3; call++) {
        TWIN_CALL(twin, F32((uint64_t)call, 6));
        for (int i = 0; i < MANY; i++) ck_assert(same_bits(sn_grad(fast[i]), sn_grad(slow[i])));
    }
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    twin_free(twin);
}
END_TEST

static sn_status overwrites_leaf(sn_frame *f) {
    Host *const host = sn_closure(f);
    sn_tensor *const loss = sn_sum(sn_mul(sn_copy(host->w, sn_in(f, 0)), host->b));
    sn_backward(loss);
    return sn_out(f, 0, loss);
}

START_TEST(g4_what_a_copy_overwrites_gets_zeros) {
    Host fast = {.w = LEAF(1, 2, 4), .b = LEAF(2, 4)}, slow = {.w = LEAF(1, 2, 4), .b = LEAF(2, 4)};
    const Twin twin = twin_new(overwrites_leaf, &fast, &slow, NULL);
    for (int i = 0; i < 3; i++) {
        TWIN_CALL(twin, F32((uint64_t)i, 4));
        ck_assert(same_bits(sn_grad(fast.w), sn_full(SN_INTS(2, 4), sn_float(0), SN_F32)));
        ck_assert(same_bits(sn_grad(fast.b), sn_grad(slow.b)));
    }
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    twin_free(twin);
}
END_TEST

/* The mask is a leaf, and a constant to the rule. */
static sn_status masks_by_leaf(sn_frame *f) {
    const Host *const host = sn_closure(f);
    const sn_value in[] = {sn_val(host->w), sn_val(host->b), sn_float(2)};
    sn_tensor *const loss = sn_sum(sn_op_call1(sn_op_find("aten::native_dropout_backward"), in, 3));
    sn_backward(loss);
    return sn_out(f, 0, loss);
}

START_TEST(g4_a_leaf_without_a_gradient_is_left_alone) {
    Host fast = {.w = LEAF(1, 4), .b = LEAF(2, 4)}, slow = {.w = LEAF(1, 4), .b = LEAF(2, 4)};
    const Twin twin = twin_new(masks_by_leaf, &fast, &slow, NULL);
    for (int i = 0; i < 3; i++) {
        TWIN_CALL(twin, F32((uint64_t)i, 4));
        ck_assert(!sn_grad(fast.b) && !sn_grad(slow.b));
        ck_assert(same_bits(sn_grad(fast.w), sn_grad(slow.w)));
    }
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    twin_free(twin);
}
END_TEST

static sn_status goes_back_twice(sn_frame *f) {
    const Host *const host = sn_closure(f);
    for (int i = 0; i < 2; i++) sn_backward(sn_sum(sn_mul(host->w, sn_in(f, 0))));
    return sn_out(f, 0, sn_neg(sn_in(f, 0)));
}

/* Row-major for a leaf that is not dense: expanded, or a transposed part. */
START_TEST(g4_a_captured_gradient_has_the_layout_of_the_tapes) {
    for (int k = 0; k < 2; k++) {
        sn_tensor *const fast = sn_requires_grad_(
            k ? sn_expand(F32(1, 1, 4), SN_INTS(3, 4)) : sn_transpose(sn_narrow(F32(1, 4, 6), 1, 2, 3), 0, 1), true);
        Host host = {.w = fast}, other = {.w = sn_requires_grad_(sn_alias(sn_detach(fast)), true)};
        const Twin twin = twin_new(goes_back_twice, &host, &other, NULL);
        for (int i = 0; i < 3; i++) {
            TWIN_CALL(twin, F32((uint64_t)i, 4));
            ck_assert(same_bits(sn_grad(host.w), sn_grad(other.w)));
            ck_assert_int_eq(sn_strides(sn_grad(host.w)).data[0], 4);
            ck_assert_int_eq(sn_strides(sn_grad(other.w)).data[0], 4);
            sn_grad_set(host.w, NULL), sn_grad_set(other.w, NULL);
        }
        ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
        twin_free(twin);
    }
}
END_TEST

/* The root is made at the first item; the second runs the segment again, whose backward has been, and whose gradient is
 * gone. */
static sn_status clears_gradient(sn_frame *f) {
    Host *const host = sn_closure(f);
    sn_tensor *const u = sn_sum(sn_in(f, 0)), *const h = sn_mul(host->w, u);
    sn_tensor *const loss = sn_sum(sn_mul(h, h));
    sn_backward(loss);
    sn_grad_set(host->w, NULL);
    const double first = sn_item(loss), second = sn_item(u);
    return sn_out(f, 0, sn_full(SN_INTS(1), sn_float(first + second), SN_F32));
}

START_TEST(g4_a_segment_that_runs_again_does_not_go_backward_again) {
    Host fast = {.w = LEAF(1, 6)}, slow = {.w = LEAF(1, 6)};
    const Twin twin = twin_new(clears_gradient, &fast, &slow, NULL);
    for (int i = 0; i < 4; i++) TWIN_CALL(twin, F32((uint64_t)i, 6));
    twin_free(twin);
}
END_TEST

static sn_status doubles_gradient(sn_frame *f) {
    ((Host *)sn_closure(f))->hooks++;
    return sn_out(f, 0, sn_mul_scalar(sn_in(f, 0), sn_float(2)));
}

START_TEST(g4_hooks_run_once_each_call) {
    Host fast = {.w = LEAF(1, 4, 6), .b = LEAF(2, 4)}, slow = {.w = LEAF(1, 4, 6), .b = LEAF(2, 4)};
    sn_hook_add(fast.w, doubles_gradient, &fast);
    sn_hook_add(slow.w, doubles_gradient, &slow);
    const Twin twin = twin_new(train_step, &fast, &slow, NULL);
    for (int i = 0; i < 4; i++) {
        TWIN_CALL(twin, F32((uint64_t)i, 8, 6));
        ck_assert_int_eq(fast.hooks, i + 1);
        ck_assert(same_bits(sn_grad(fast.w), sn_grad(slow.w)));
    }
    twin_free(twin);
}
END_TEST

/* G5, G6 -------------------------------------------------------------------------------------- */

static sn_status in_place(sn_frame *f) {
    sn_tensor *const h = sn_mul_scalar(sn_in(f, 0), sn_float(3));
    sn_tensor *const row = sn_select(h, 0, 1);
    sn_mul_(row, row); /* through a view */
    sn_add_scalar_(h, sn_float(1));
    return sn_out(f, 0, h);
}

static sn_status functional(sn_frame *f) {
    sn_tensor *const h = sn_mul_scalar(sn_in(f, 0), sn_float(3));
    sn_tensor *const row = sn_select(h, 0, 1);
    sn_tensor *const whole = sn_select_scatter(h, sn_mul(row, row), 0, 1);
    return sn_out(f, 0, sn_add_scalar(whole, sn_float(1)));
}

START_TEST(g5_in_place_gradients_are_those_of_the_functional_form) {
    const Twin written = twin_new(in_place, NULL, NULL, NULL), pure = twin_new(functional, NULL, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        sn_tensor *const want = gradient(pure.eager, F32((uint64_t)i, 4, 5));
        ck_assert(same_bits(gradient(written.eager, F32((uint64_t)i, 4, 5)), want));
        ck_assert(same_bits(gradient(written.fast, F32((uint64_t)i, 4, 5)), want));
        ck_assert(same_bits(gradient(pure.fast, F32((uint64_t)i, 4, 5)), want));
    }
    twin_free(written);
    twin_free(pure);
}
END_TEST

static sn_status compares_in_place(sn_frame *f) {
    sn_tensor *const h = sn_mul_scalar(sn_in(f, 0), sn_float(3));
    sn_value args[] = {sn_val(h), sn_val(sn_in(f, 0))};
    sn_op_call1(sn_op_find("aten::le_.Tensor"), args, 2);
    return sn_out(f, 0, sn_mul(h, h));
}

START_TEST(g5_a_comparison_in_place_ends_the_history_with_zeros) {
    const Twin twin = twin_new(compares_in_place, NULL, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        sn_tensor *const want = gradient(twin.eager, F32((uint64_t)i, 6));
        for (int k = 0; k < 6; k++) ck_assert(at(want, k) == 0);
        ck_assert(same_bits(gradient(twin.fast, F32((uint64_t)i, 6)), want));
    }
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    twin_free(twin);
}
END_TEST

/* Where gradients are off a write leaves the history of its target as it is, which the graph's new
 * value would not have: such segments run eagerly. */
typedef struct Unseen {
    sn_grad_mode mode;
    bool detached;
} Unseen;

static sn_status writes_unseen(sn_frame *f) {
    const Unseen *const how = sn_closure(f);
    sn_tensor *const h = sn_mul_scalar(sn_in(f, 0), sn_float(3));
    const sn_grad_mode before = sn_grad_mode_set(how->mode);
    sn_mul_scalar_(how->detached ? sn_detach(h) : h, sn_float(5));
    sn_grad_mode_set(before);
    return sn_out(f, 0, sn_mul(h, h));
}

static sn_status writes_detached(sn_frame *f) {
    sn_tensor *const h = sn_mul_scalar(sn_in(f, 0), sn_float(3)), *const d = sn_detach(h);
    sn_mul_(d, sn_in(f, 0)); /* d has a history from here on, but not that of h */
    return sn_out(f, 0, sn_add(d, sn_mul_scalar(h, sn_float(2))));
}

START_TEST(g5_a_write_that_the_tape_does_not_see_keeps_the_history) {
    Unseen cases[] = {{SN_GRAD_OFF, false}, {SN_INFERENCE, false}, {SN_GRAD_ON, true}};
    for (int c = 0; c < 3; c++) {
        const Twin twin = twin_new(writes_unseen, &cases[c], &cases[c], NULL);
        for (int i = 0; i < 3; i++) {
            sn_tensor *const x = F32((uint64_t)i, 6);
            sn_tensor *const want = gradient(twin.eager, F32((uint64_t)i, 6));
            for (int k = 0; k < 6; k++) ck_assert(at(want, k) == at(x, k) * 3 * 5 * 2 * 3);
            ck_assert_msg(same_bits(gradient(twin.fast, F32((uint64_t)i, 6)), want), "case %d", c);
        }
        ck_assert_msg(strstr(last_reason(), "a write that the tape does not see"), "%s", last_reason());
        twin_free(twin);
    }
}
END_TEST

START_TEST(g5_a_detached_view_takes_a_history_of_its_own) {
    const Twin twin = twin_new(writes_detached, NULL, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        sn_tensor *const want = gradient(twin.eager, F32((uint64_t)i, 6));
        ck_assert(same_bits(gradient(twin.fast, F32((uint64_t)i, 6)), want));
    }
    ck_assert_msg(strstr(last_reason(), "to a detached view"), "%s", last_reason());
    twin_free(twin);
}
END_TEST

/* To a captured backward a parameter is one leaf, whatever wrote it in between. */
typedef struct Leaf {
    sn_tensor *w;
    Unseen how;
} Leaf;

static sn_status writes_leaf(sn_frame *f) {
    Leaf *const leaf = sn_closure(f);
    sn_tensor *const a = sn_mul(leaf->w, sn_in(f, 0));
    const sn_grad_mode before = sn_grad_mode_set(leaf->how.mode);
    sn_mul_scalar_(leaf->how.detached ? sn_detach(leaf->w) : leaf->w, sn_float(0.5));
    sn_grad_mode_set(before);
    sn_tensor *const sum = sn_sum(sn_add(a, sn_mul_scalar(leaf->w, sn_float(7))));
    sn_backward(sum);
    return sn_out(f, 0, sum);
}

START_TEST(g5_a_leaf_written_where_gradients_are_off_stays_one_leaf) {
    Unseen cases[] = {{SN_GRAD_OFF, false}, {SN_INFERENCE, false}, {SN_GRAD_ON, true}};
    for (int c = 0; c < 3; c++) {
        Leaf fast = {.w = LEAF(1, 6), .how = cases[c]}, slow = {.w = LEAF(1, 6), .how = cases[c]};
        const Twin twin = twin_new(writes_leaf, &fast, &slow, NULL);
        for (int i = 0; i < 3; i++) {
            sn_grad_set(fast.w, NULL), sn_grad_set(slow.w, NULL);
            TWIN_CALL(twin, F32((uint64_t)i, 6));
            ck_assert_msg(same_bits(sn_grad(fast.w), sn_grad(slow.w)), "case %d, call %d", c, i);
        }
        ck_assert(same_bits(fast.w, slow.w));
        if (cases[c].detached)
            ck_assert_str_eq(last_reason(), "a leaf written through a detached view before its backward");
        else
            ck_assert_msg(last_path() == SN_PATH_COMPILED, "case %d: %s", c, last_reason());
        twin_free(twin);
    }
}
END_TEST

static sn_status mixed_modes(sn_frame *f) {
    const Host *const host = sn_closure(f);
    sn_tensor *const x = sn_in(f, 0);
    const sn_grad_mode before = sn_grad_mode_set(SN_GRAD_OFF);
    sn_tensor *const scale = sn_amax(sn_abs(x));
    sn_grad_mode_set(before);
    sn_tensor *const y = sn_div(sn_mul(x, host->w), scale);
    return sn_out(f, 0, sn_mul(y, sn_detach(y)));
}

START_TEST(g6_each_node_keeps_its_modes) {
    Host host = {.w = F32(5, 30)};
    const Twin twin = twin_new(mixed_modes, &host, &host, NULL);
    for (int i = 0; i < 3; i++) {
        sn_tensor *const want = gradient(twin.eager, F32((uint64_t)i, 30));
        ck_assert(same_bits(gradient(twin.fast, F32((uint64_t)i, 30)), want));
    }
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    twin_free(twin);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        g1_contributions_are_added_in_order_of_calls,
        g1_a_compiled_segment_continues_partial_sums,
        g1_an_undefined_gradient_is_not_made_into_zeros,
        g2_equal_parts_stay_two_contributions,
        g3_versions_of_saved_values_are_checked,
        g3_lerp_by_a_number_saves_nothing,
        g3_a_compiled_node_expands_for_double_backward,
        g3_a_saved_value_has_the_history_of_the_call,
        g3_versions_are_checked_where_eagers_nodes_took_over,
        g3_backward_twice_needs_retain_graph,
        g3_a_backward_inside_may_retain_the_graph,
        g4_grad_slots_are_guarded_absent_or_present,
        g4_a_captured_backward_reaches_any_number_of_leaves,
        g4_what_a_copy_overwrites_gets_zeros,
        g4_a_leaf_without_a_gradient_is_left_alone,
        g4_a_captured_gradient_has_the_layout_of_the_tapes,
        g4_a_segment_that_runs_again_does_not_go_backward_again,
        g4_hooks_run_once_each_call,
        g5_in_place_gradients_are_those_of_the_functional_form,
        g5_a_comparison_in_place_ends_the_history_with_zeros,
        g5_a_write_that_the_tape_does_not_see_keeps_the_history,
        g5_a_detached_view_takes_a_history_of_its_own,
        g5_a_leaf_written_where_gradients_are_off_stays_one_leaf,
        g6_each_node_keeps_its_modes,
    };
    return contract_main("test_contract_g", tests, (int)(sizeof tests / sizeof *tests));
}
