/* test_checkpoint.c: regions whose values a backward computes again [semantics T6]: gradients have the bits of the run
 * without, less memory is held, and what a second run would not do alike is an error. */
#include <setjmp.h>

#include "tests/unit/checkpoint_net.h"

/* a3_17: dropout inside, gradients with the bits of the plain run, which holds more. */
START_TEST(a3_17_recomputing_has_the_bits_and_a_lower_peak) {
    static Net plain, checkpointed;
    net_fill(&plain, 0.25F);
    net_fill(&checkpointed, 0.25F);
    checkpointed.checkpoints = true;
    sn_function *const fns[] = {sn_compile(net_body, &plain, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER)),
                                sn_compile(net_body, &checkpointed, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER))};
    for (uint64_t i = 0; i < 3; i++) {
        const sn_scope scope = sn_scope_begin();
        const Ran a = run(fns[0], &plain, i), b = run(fns[1], &checkpointed, i);
        same_runs(&a, &b);
        ck_assert_msg(b.peak < a.peak * 6 / 10, "%lld of %lld bytes", (long long)b.peak, (long long)a.peak);
        release(&a), release(&b);
        sn_scope_end(scope);
    }
    sn_function_free(fns[0]);
    sn_function_free(fns[1]);
}
END_TEST

static const char *const products[] = {"aten::mm", "aten::matmul", "aten::linear", "aten::addmm", NULL};
static int asked;
static sn_checkpoint_choice all_saved(void *context, const char *op) {
    asked += context == products && !strncmp(op, "aten::", 6);
    return SN_CHECKPOINT_SAVE;
}

START_TEST(t6_policies_change_no_bit) {
    static Net plain, saving, all;
    net_fill(&plain, 0.25F), net_fill(&saving, 0.25F), net_fill(&all, 0.25F);
    saving.checkpoints = all.checkpoints = true;
    saving.options = SN_CHECKPOINT_OPTIONS(.save = products);
    all.options = SN_CHECKPOINT_OPTIONS(.policy = all_saved, .context = (void *)products);
    Net *const nets[] = {&plain, &saving, &all};
    Ran ran[3];
    for (int i = 0; i < 3; i++) {
        sn_function *const fn = sn_compile(net_body, nets[i], SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
        ran[i] = run(fn, nets[i], 3);
        sn_function_free(fn);
    }
    same_runs(&ran[0], &ran[1]);
    same_runs(&ran[0], &ran[2]);
    ck_assert_int_gt(asked, 0);
    ck_assert_int_lt(ran[1].peak, ran[2].peak);
    for (int i = 0; i < 3; i++) release(&ran[i]);
}
END_TEST

static sn_checkpoint_choice neither(void *context, const char *op) { return (sn_checkpoint_choice)7; }

static sn_status sine_body(sn_frame *f) { return sn_out(f, 0, sn_sin(sn_exp(sn_in(f, 0)))); }

static sn_status with_options(sn_frame *f) {
    sn_tensor *y;
    sn_checkpoint(sine_body, NULL, sn_closure(f), SN_TENSORS(sn_in(f, 0)), &y, 1);
    return sn_out(f, 0, y);
}

START_TEST(t6_wrong_policies_are_errors) {
    static const char *const wrong[] = {"aten::exp", "aten::exq", NULL}, *const written[] = {"aten::exp_", NULL};
    const sn_checkpoint_options options[] = {*SN_CHECKPOINT_OPTIONS(.save = wrong),
                                             *SN_CHECKPOINT_OPTIONS(.save = written),
                                             *SN_CHECKPOINT_OPTIONS(.policy = neither)};
    static const char *const says[] = {"save[1]: 'aten::exq' is no op", "save[0]: 'aten::exp_' is no op",
                                       "policy gives 7 for aten::exp"};
    for (int i = 0; i < 6; i++) {
        const sn_compile_mode mode = i % 2 ? SN_COMPILE_VERIFY : SN_COMPILE_EAGER;
        sn_function *const fn = sn_compile(with_options, (void *)&options[i / 2], SN_COMPILE_OPTIONS(.mode = mode));
        ck_assert_ptr_null(SN_CALL(fn, LEAF(3, 4)));
        expect_error(SN_ERR_ARGUMENT, says[i / 2]);
        sn_function_free(fn);
    }
}
END_TEST

static sn_status two_draws(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const noise = sn_rand(SN_INTS(4), SN_F32);
    return sn_out(f, 0, sn_sum(sn_mul(sn_dropout(sn_mul(sn_sin(x), noise), 0.5, true), sn_rand_like(x))));
}

static sn_status draws_twice(sn_frame *f) {
    sn_tensor *y;
    sn_checkpoint(two_draws, NULL, sn_closure(f), SN_TENSORS(sn_in(f, 0)), &y, 1);
    return sn_out(f, 0, y);
}

/* What is behind a random op that is saved draws what it drew. */
START_TEST(t6_a_saved_random_op_takes_its_number) {
    static const char *const first[] = {"aten::rand", NULL}, *const second[] = {"aten::native_dropout", NULL};
    const sn_checkpoint_options options[] = {*SN_CHECKPOINT_OPTIONS(.save = NULL),
                                             *SN_CHECKPOINT_OPTIONS(.save = first),
                                             *SN_CHECKPOINT_OPTIONS(.save = second)};
    for (int i = 0; i < 6; i++) {
        sn_tensor *grads[2];
        const sn_compile_mode mode = i % 2 ? SN_COMPILE_VERIFY : SN_COMPILE_EAGER;
        for (int k = 0; k < 2; k++) {
            sn_function *const fn =
                sn_compile(k ? draws_twice : two_draws, (void *)&options[i / 2], SN_COMPILE_OPTIONS(.mode = mode));
            sn_tensor *const x = LEAF(3, 4);
            sn_seed(5);
            ck_assert_int_eq(sn_backward(SN_CALL(fn, x)), SN_OK);
            grads[k] = sn_grad(x);
            sn_function_free(fn);
        }
        ck_assert(same_bits(grads[0], grads[1]));
    }
}
END_TEST

static sn_tensor *sine_gradient(sn_function *fn, bool api) {
    sn_tensor *const x = LEAF(3, 4);
    const sn_scope scope = sn_scope_begin();
    ck_assert_int_eq((api ? sn_api_mode_push : sn_user_mode_push)(doubles_op, (void *)"aten::sin"), SN_OK);
    sn_tensor *const y = sn_scope_return(scope, SN_CALL(fn, x));
    ck_assert_int_eq(sn_backward(sn_sum(sn_mul(y, y))), SN_OK);
    return sn_grad(x);
}

START_TEST(t6_modes_of_the_forward_count_that_are_gone_by_the_backward) {
    for (int i = 0; i < 4; i++) {
        const sn_compile_mode mode = i % 2 ? SN_COMPILE_VERIFY : SN_COMPILE_EAGER;
        sn_function *const plain = sn_compile(sine_body, NULL, SN_COMPILE_OPTIONS(.mode = mode));
        sn_function *const fn = sn_compile(with_options, NULL, SN_COMPILE_OPTIONS(.mode = mode));
        for (int calls = 0; calls < 2; calls++)
            ck_assert(same_bits(sine_gradient(fn, i / 2), sine_gradient(plain, i / 2)));
        sn_function_free(plain), sn_function_free(fn);
    }
}
END_TEST

/* Small regions ---------------------------------------------------------------------------------------------------- */

typedef struct World {
    sn_tensor *w, *other;
    int runs, freed, changes;
    sn_body inner;
    bool fails;
} World;

static sn_status gated(sn_frame *f) {
    World *const w = sn_closure(f);
    w->runs++;
    sn_tensor *const h = sn_exp(sn_mul(sn_in(f, 0), w->w));
    return sn_out(f, 0, sn_sin(sn_mul(h, sn_dropout(h, 0.5, true))));
}

static sn_tensor *checkpointed(sn_body body, World *w, sn_tensor *x) {
    sn_tensor *out = NULL;
    sn_checkpoint(body, w, NULL, SN_TENSORS(x), &out, 1);
    return out;
}

static sn_status outer(sn_frame *f) {
    World *const w = sn_closure(f);
    sn_tensor *const h = sn_tanh(sn_mul(sn_in(f, 0), w->w));
    sn_tensor *const inner = checkpointed(gated, w, h);
    return sn_out(f, 0, sn_mul(sn_cos(inner), h));
}
static sn_status outer_plain(sn_frame *f) {
    World *const w = sn_closure(f);
    sn_tensor *const h = sn_tanh(sn_mul(sn_in(f, 0), w->w));
    sn_function *const fn = sn_compile(gated, w, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
    sn_tensor *const inner = SN_CALL(fn, h);
    sn_function_free(fn);
    return sn_out(f, 0, sn_mul(sn_cos(inner), h));
}

static sn_tensor *called(sn_body body, World *w, sn_tensor *x) {
    sn_function *const fn = sn_compile(body, w, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
    sn_tensor *const y = SN_CALL(fn, x);
    sn_function_free(fn);
    return y;
}

START_TEST(t6_regions_lie_in_each_other) {
    sn_tensor *grads[2][2];
    World w = {.w = LEAF(7, 8, 4)};
    for (int k = 0; k < 2; k++) {
        sn_seed(4);
        sn_grad_set(w.w, NULL);
        w.runs = 0;
        sn_tensor *const x = LEAF(8, 8, 4);
        sn_tensor *const y = k ? checkpointed(outer, &w, x) : called(outer_plain, &w, x);
        ck_assert_msg(sn_backward(sn_sum(y)) == SN_OK, "%s", sn_error_take()->message);
        grads[k][0] = sn_clone(sn_grad(w.w)), grads[k][1] = sn_clone(sn_grad(x));
        ck_assert_int_eq(w.runs, k ? 3 : 1); /* again for the outer region's slots, and for its own */
    }
    ck_assert(same_bits(grads[0][0], grads[1][0]) && same_bits(grads[0][1], grads[1][1]));
}
END_TEST

START_TEST(t6_a_second_backward_and_its_own_gradient) {
    sn_tensor *seen[2][4];
    World w = {.w = LEAF(7, 8, 4)};
    for (int k = 0; k < 2; k++) {
        sn_seed(4);
        sn_grad_set(w.w, NULL);
        sn_tensor *const x = LEAF(8, 8, 4);
        sn_tensor *const y = k ? checkpointed(gated, &w, x) : called(gated, &w, x);
        sn_tensor *const root = sn_sum(sn_mul(y, y));
        ck_assert_int_eq(sn_backward_ex(SN_TENSORS(root), (sn_tensors){0}, SN_RETAIN_GRAPH), SN_OK);
        seen[k][0] = sn_clone(sn_grad(x));
        sn_tensor *first = NULL, *second = NULL;
        ck_assert_int_eq(sn_gradients(SN_TENSORS(root), SN_TENSORS(x), (sn_tensors){0}, SN_CREATE_GRAPH, &first),
                         SN_OK);
        seen[k][1] = first;
        ck_assert_int_eq(
            sn_gradients(SN_TENSORS(sn_sum(first)), SN_TENSORS(w.w), (sn_tensors){0}, SN_RETAIN_GRAPH, &second), SN_OK);
        seen[k][2] = second;
        ck_assert_int_eq(sn_backward(root), SN_OK);
        seen[k][3] = sn_clone(sn_grad(x));
        ck_assert_int_eq(sn_backward(root), SN_ERR_STATE);
        expect_error(SN_ERR_STATE, "SN_RETAIN_GRAPH");
    }
    for (int i = 0; i < 4; i++) ck_assert_msg(same_bits(seen[0][i], seen[1][i]), "%d", i);
}
END_TEST

START_TEST(t6_what_the_region_read_is_checked_for_writes) {
    World w = {.w = LEAF(7, 8, 4)};
    sn_tensor *const x = F32(8, 8, 4);
    sn_tensor *y = checkpointed(gated, &w, x);
    sn_add_(x, x); /* an input */
    ck_assert_int_eq(sn_backward(sn_sum(y)), SN_ERR_STATE);
    const sn_error *const error = sn_error_take();
    ck_assert_msg(strstr(error->message, "aten::mul") && strstr(error->message, "test_checkpoint.c"), "%s",
                  error->message);
    y = checkpointed(gated, &w, F32(8, 8, 4));
    const sn_scope off = sn_no_grad_begin();
    sn_add_(w.w, w.w); /* closed over */
    sn_scope_end(off);
    ck_assert_int_eq(sn_backward(sn_sum(y)), SN_ERR_STATE);
    expect_error(SN_ERR_STATE, "took it to version 1");
}
END_TEST

static sn_status writes(sn_frame *f) {
    World *const w = sn_closure(f);
    sn_tensor *const h = sn_exp(sn_mul(sn_in(f, 0), w->w));
    sn_add_(w->fails ? w->other : sn_zeros(SN_INTS(8, 4), SN_F32), sn_detach(h)); /* memory of its own it may write */
    return sn_out(f, 0, sn_sin(sn_relu_(sn_mul(h, h))));
}
static sn_status goes_back(sn_frame *f) {
    World *const w = sn_closure(f);
    sn_backward(sn_sum(sn_mul(sn_in(f, 0), w->w)));
    return sn_out(f, 0, sn_exp(w->w));
}

START_TEST(t6_writes_to_outside_memory_are_errors) {
    World w = {.w = LEAF(7, 8, 4), .other = F32(9, 8, 4), .fails = true};
    sn_tensor *const before = sn_clone(w.other);
    ck_assert(!checkpointed(writes, &w, F32(8, 8, 4)));
    expect_error(SN_ERR_STATE, "aten::add_");
    ck_assert(same_bits(w.other, before));
    ck_assert(!checkpointed(goes_back, &w, F32(8, 8, 4)));
    expect_error(SN_ERR_STATE, "sn_backward");
    ck_assert(!sn_grad(w.w));
    w.fails = false;
    sn_tensor *const y = checkpointed(writes, &w, F32(8, 8, 4)), *const plain = called(writes, &w, F32(8, 8, 4));
    ck_assert(same_bits(y, plain));
    ck_assert_int_eq(sn_backward(sn_sum(y)), SN_OK);
    sn_tensor *const grad = sn_clone(sn_grad(w.w));
    sn_grad_set(w.w, NULL);
    ck_assert_int_eq(sn_backward(sn_sum(plain)), SN_OK);
    ck_assert(same_bits(grad, sn_grad(w.w)));
}
END_TEST

static sn_status changes(sn_frame *f) {
    World *const w = sn_closure(f);
    w->runs++;
    sn_tensor *h = sn_mul(sn_in(f, 0), w->w);
    if (w->runs > 1 && w->changes == 1) h = sn_sin(h);
    if (w->runs > 1 && w->changes == 2) return sn_out(f, 0, h);
    if (w->runs > 1 && w->changes == 3) h = sn_exp(sn_narrow(h, 0, 0, 4));
    if (w->runs > 1 && w->changes == 4) return sn_fail(SN_ERR_VALUE, "the body's own");
    return sn_out(f, 0, sn_cos(sn_exp(h)));
}

START_TEST(t6_a_second_run_whose_ops_differ_says_which) {
    static const char *const says[][2] = {
        {"aten::sin", "aten::exp"}, {"ends after 1 ops", "aten::exp"}, {"aten::slice", "aten::exp"}, {"own", "own"}};
    for (int i = 1; i <= 4; i++) {
        World w = {.w = LEAF(7, 8, 4), .changes = i};
        sn_tensor *const y = checkpointed(changes, &w, F32(8, 8, 4));
        ck_assert_int_ne(sn_backward(sn_sum(y)), SN_OK);
        const sn_error *const error = sn_error_take();
        ck_assert_msg(strstr(error->message, says[i - 1][0]) || i == 3, "%s", error->message);
        ck_assert_msg(strstr(error->message, says[i - 1][1]), "%s", error->message);
        ck_assert_int_eq(error->status, i == 4 ? SN_ERR_VALUE : SN_ERR_STATE);
        w.changes = 0; /* and it may be gone through again */
        ck_assert_msg(sn_backward(sn_sum(y)) == SN_OK, "%s", sn_error_take()->message);
    }
}
END_TEST

static void count_free(void *data, void *context) {
    (void)context;
    ((World *)data)->freed++;
}

START_TEST(t6_the_closure_is_freed_once) {
    World w = {.w = LEAF(7, 8, 4)};
    const sn_checkpoint_options *const options = SN_CHECKPOINT_OPTIONS(.closure_free = count_free);
    sn_tensor *y = NULL;
    for (int i = 0; i < 3; i++) {
        const sn_scope scope = sn_scope_begin();
        w.freed = 0;
        if (i == 2) sn_grad_mode_set(SN_GRAD_OFF);
        ck_assert_int_eq(sn_checkpoint(gated, &w, options, SN_TENSORS(F32(8, 8, 4)), &y, 1), SN_OK);
        ck_assert_int_eq(w.freed, i == 2);
        if (!i) ck_assert_int_eq(sn_backward(sn_sum(y)), SN_OK);
        sn_scope_end(scope);
        ck_assert_int_eq(w.freed, 1);
    }
    w.freed = 0;
    ck_assert(sn_checkpoint(NULL, &w, options, SN_TENSORS(F32(8, 8, 4)), &y, 1) != SN_OK);
    expect_error(SN_ERR_ARGUMENT, "body is NULL");
    ck_assert_int_eq(w.freed, 1);
}
END_TEST

static sn_status doubled(sn_frame *f) { return sn_out(f, 0, sn_mul_scalar(sn_in(f, 0), sn_float(2))); }
static sn_status drawn(sn_frame *f) { return sn_out(f, 0, sn_mul(sn_in(f, 0), sn_rand_like(sn_in(f, 0)))); }
static sn_status chooses(sn_frame *f) {
    const World *const w = sn_closure(f);
    sn_tensor *const h = sn_mul(sn_in(f, 0), w->w), *y = NULL;
    const bool up = w->changes;
    sn_cond(up ? sn_ge(sn_sum(h), sn_sum(h)) : sn_lt(sn_sum(h), sn_sum(h)), doubled, drawn, NULL, NULL, SN_TENSORS(h),
            &y, 1);
    return sn_out(f, 0, sn_exp(y));
}

/* Both branches are traced, and what their ops give there is nothing that a policy could save. */
START_TEST(t6_a_policy_saves_nothing_of_a_traced_body) {
    for (int up = 0; up < 2; up++) {
        sn_tensor *grad[2];
        for (int k = 0; k < 2; k++) {
            World w = {.w = LEAF(7, 8, 4), .changes = up};
            sn_tensor *y = NULL;
            sn_seed(5);
            ck_assert_int_eq(sn_checkpoint(chooses, &w, k ? SN_CHECKPOINT_OPTIONS(.policy = all_saved) : NULL,
                                           SN_TENSORS(F32(8, 8, 4)), &y, 1),
                             SN_OK);
            ck_assert_msg(sn_backward(sn_sum(y)) == SN_OK, "%s", sn_error_take()->message);
            grad[k] = sn_grad(w.w);
        }
        ck_assert(same_bits(grad[0], grad[1]));
    }
}
END_TEST

/* Modes, ordered ops, custom functions, callbacks that leave ---------------------------------- */

static int said;
static sn_status says_body(sn_frame *f) {
    said++;
    return sn_out(f, 0, sn_mul_scalar(sn_in(f, 0), sn_float(2)));
}
static sn_status like(sn_frame *f) { return sn_out(f, 0, sn_empty_like(sn_in(f, 0))); }
static sn_status says_grad(sn_frame *f) { return sn_set_grad_of(f, 0, sn_mul_scalar(sn_grad_of(f, 0), sn_float(2))); }

static sn_status speaks(sn_frame *f) {
    World *const w = sn_closure(f);
    static const sn_op *op;
    if (!op)
        op = sn_op_register(SN_OP_DESC(.schema = "checkpoint::says(Tensor x) -> Tensor", .flags = SN_OP_ORDERED,
                                       .meta = like, .cpu = says_body, .derivative = says_grad));
    sn_tensor *const h = sn_exp(sn_mul(sn_in(f, 0), w->w));
    sn_tensor *const s = sn_op_call1(op, (sn_value[]){sn_val(h)}, 1);
    return sn_out(f, 0, sn_sin(sn_mul(s, s)));
}

START_TEST(t6_ordered_effects_happen_once) {
    World w = {.w = LEAF(7, 8, 4)};
    said = 0;
    sn_tensor *const y = checkpointed(speaks, &w, F32(8, 8, 4));
    ck_assert_msg(sn_backward(sn_sum(y)) == SN_OK, "%s", sn_error_take()->message);
    ck_assert_int_eq(said, 1);
    sn_tensor *const grad = sn_clone(sn_grad(w.w));
    sn_grad_set(w.w, NULL);
    ck_assert_int_eq(sn_backward(sn_sum(called(speaks, &w, F32(8, 8, 4)))), SN_OK);
    ck_assert(same_bits(grad, sn_grad(w.w)));
}
END_TEST

static sn_status mixed(sn_frame *f) {
    World *const w = sn_closure(f);
    sn_tensor *const h = sn_linear(sn_in(f, 0), w->w, NULL);
    return sn_out(f, 0, sn_sum(sn_mul(sn_gelu(sn_linear(sn_tanh(h), w->w, NULL)), h)));
}

START_TEST(t6_the_second_run_has_the_modes_of_the_first) {
    sn_tensor *grads[2];
    World w = {.w = LEAF(7, 8, 8)};
    for (int k = 0; k < 2; k++) {
        sn_grad_set(w.w, NULL);
        const sn_scope scope = sn_scope_begin();
        sn_autocast_set(SN_CPU, SN_BF16);
        sn_tensor *const x = F32(8, 4, 8);
        sn_tensor *const y = sn_to(k ? checkpointed(mixed, &w, x) : called(mixed, &w, x), SN_F32);
        sn_tensor *const root = sn_scope_return(scope, y);
        ck_assert_msg(sn_backward(root) == SN_OK, "%s", sn_error_take()->message);
        grads[k] = sn_clone(sn_grad(w.w));
    }
    ck_assert(same_bits(grads[0], grads[1]));
}
END_TEST

static sn_status squares(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    sn_tensor *const e = sn_exp(x);
    sn_save(f, x), sn_save(f, e);
    return sn_out(f, 0, sn_mul(e, e));
}
static sn_status squares_back(sn_frame *f) {
    sn_tensor *const e = sn_saved(f, 1);
    return sn_set_grad_of(f, 0, sn_mul(sn_mul(e, e), sn_add(sn_grad_of(f, 0), sn_sin(sn_saved(f, 0)))));
}
static sn_status custom(sn_frame *f) {
    World *const w = sn_closure(f);
    static const sn_custom fn = {.size = sizeof fn, .name = "squares", .forward = squares, .backward = squares_back};
    sn_tensor *const h = sn_tanh(sn_mul(sn_in(f, 0), w->w));
    sn_tensor *out = NULL;
    sn_custom_call(&fn, NULL, &h, 1, &out, 1);
    return sn_out(f, 0, sn_sin(out));
}

START_TEST(t6_custom_functions_save_into_slots) {
    sn_tensor *grads[2];
    World w = {.w = LEAF(7, 8, 8)};
    for (int k = 0; k < 2; k++) {
        sn_grad_set(w.w, NULL);
        sn_tensor *const x = F32(8, 8, 8);
        sn_tensor *const y = k ? checkpointed(custom, &w, x) : called(custom, &w, x);
        ck_assert_msg(sn_backward(sn_sum(y)) == SN_OK, "%s", sn_error_take()->message);
        grads[k] = sn_clone(sn_grad(w.w));
    }
    ck_assert(same_bits(grads[0], grads[1]));
}
END_TEST

static jmp_buf out_of_it;
static sn_status leaves(sn_frame *f) {
    World *const w = sn_closure(f);
    sn_tensor *const h = sn_exp(sn_mul(sn_in(f, 0), w->w));
    if (++w->runs == w->changes) longjmp(out_of_it, 1);
    return sn_out(f, 0, sn_sin(sn_mul(h, h)));
}

START_TEST(t6_a_body_that_does_not_return_leaves_nothing) {
    static World w;
    w = (World){.w = LEAF(7, 8, 4), .changes = 1};
    sn_seed(8);
    const sn_scope scope = sn_scope_begin();
    if (!setjmp(out_of_it)) {
        checkpointed(leaves, &w, F32(8, 8, 4));
        ck_abort_msg("it returned");
    }
    ck_assert_int_eq(sn_scope_end(scope), SN_OK);
    ck_assert_uint_eq(sn_rng_get().seed, 8);
    ck_assert_int_eq(sn_backward(sn_sum(checkpointed(leaves, &w, F32(8, 8, 4)))), SN_OK);
    const sn_scope off = sn_no_grad_begin();
    sn_add_(w.w, w.w); /* no region looks on */
    ck_assert_int_eq(sn_scope_end(off), SN_OK);
}
END_TEST

/* What is saved, by public headers ---------------------------------------------------------------- */

/* The bytes that nodes with this name save (NULL: all nodes), of what this state has recorded. */
static int64_t saved_by(const char *name) {
    static sn_grad_info nodes[2000];
    int64_t bytes = 0;
    for (int i = 0; i < 2000; i++) nodes[i].size = sizeof *nodes;
    const int64_t n = sn_live_nodes(nodes, 2000);
    ck_assert_int_le(n, 2000);
    for (int64_t i = 0; i < n; i++) bytes += name && strcmp(nodes[i].name, name) != 0 ? 0 : nodes[i].saved_bytes;
    return bytes;
}

START_TEST(a3_02_saved_bytes_by_op_and_less_with_checkpoints) {
    static Net net;
    net_fill(&net, 0.25F);
    sn_function *const fn = sn_compile(net_body, &net, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
    const int64_t parameters = BLOCKS * (int64_t)sizeof(float) * (2 * WIDTH + 9 * WIDTH * WIDTH);
    int64_t all[2];
    for (int k = 0; k < 2; k++) {
        const sn_scope scope = sn_scope_begin();
        net.checkpoints = k;
        ck_assert(SN_CALL(fn, LEAF(500, ROWS, WIDTH)) != NULL);
        all[k] = saved_by(NULL);
        const int64_t gelu = saved_by("GeluBackward"), softmax = saved_by("SoftmaxBackward");
        ck_assert_int_eq(gelu, k ? 0 : BLOCKS * (int64_t)sizeof(float) * ROWS * 4 * WIDTH);
        ck_assert_int_eq(softmax, k ? 0 : BLOCKS * (int64_t)sizeof(float) * ROWS * ROWS);
        sn_scope_end(scope);
    }
    ck_assert_msg(all[0] > 4 * parameters, "%lld bytes", (long long)all[0]);
    ck_assert_msg(all[1] < all[0] / 2, "%lld of %lld bytes", (long long)all[1], (long long)all[0]);
    sn_function_free(fn);
}
END_TEST

static sn_status sine_of_exp(sn_frame *f) { return sn_out(f, 0, sn_sin(sn_exp(sn_in(f, 0)))); }

/* What the policy saves is there between forward and backward, for the nodes that need it. */
START_TEST(a3_02_what_a_checkpoint_saves_has_its_bytes) {
    static const char *const exp_alone[] = {"aten::exp", NULL};
    for (int saves = 0; saves < 2; saves++) {
        const sn_scope scope = sn_scope_begin();
        sn_tensor *y = NULL;
        ck_assert_int_eq(sn_checkpoint(sine_of_exp, NULL, SN_CHECKPOINT_OPTIONS(.save = saves ? exp_alone : NULL),
                                       SN_TENSORS(LEAF(1, 10, 10)), &y, 1),
                         SN_OK);
        ck_assert_int_eq(saved_by("ExpBackward"), saves ? 400 : 0);
        ck_assert_int_eq(saved_by("SinBackward"), saves ? 400 : 0);
        const char *const text = sn_grad_text(y);
        ck_assert_msg((strstr(text, "f32[10,10] (checkpoint) (400 bytes)") != NULL) == saves, "%s", text);
        ck_assert_msg(strstr(text, saves ? "2 nodes, 400 bytes saved" : "2 nodes, 0 bytes saved") != NULL, "%s", text);
        sn_scope_end(scope);
    }
}
END_TEST

/* exp(x) sin(x), with exp(x) saved, and with x alone, from which the backward makes it again. */
static sn_status wave(sn_frame *f) {
    const bool saves = *(const bool *)sn_closure(f);
    sn_tensor *const x = sn_in(f, 0), *const e = sn_exp(x);
    sn_save(f, x);
    if (saves) sn_save(f, e);
    return sn_out(f, 0, sn_mul(e, sn_sin(x)));
}
static sn_status wave_back(sn_frame *f) {
    const bool saves = *(const bool *)sn_closure(f);
    sn_tensor *const x = sn_saved(f, 0), *const e = saves ? sn_saved(f, 1) : sn_exp(x);
    return sn_set_grad_of(f, 0, sn_mul(sn_grad_of(f, 0), sn_mul(e, sn_add(sn_sin(x), sn_cos(x)))));
}
static sn_status wave_body(sn_frame *f) {
    static const sn_custom fn = {.size = sizeof fn, .name = "Wave", .forward = wave, .backward = wave_back};
    sn_tensor *const h = sn_tanh(sn_in(f, 0));
    sn_tensor *out = NULL;
    sn_custom_call(&fn, sn_closure(f), &h, 1, &out, 1);
    return sn_out(f, 0, sn_sum(sn_mul(out, out)));
}

START_TEST(a3_09_a_saving_and_a_recomputing_function_give_equal_gradients) {
    static bool saves[] = {true, false};
    for (int i = 0; i < 6; i++) { /* eagerly, then compiled */
        sn_tensor *grads[2];
        int64_t bytes[2];
        for (int k = 0; k < 2; k++) {
            const sn_compile_mode mode = i < 3 ? SN_COMPILE_EAGER : SN_COMPILE_VERIFY;
            sn_function *const fn = sn_compile(wave_body, &saves[k], SN_COMPILE_OPTIONS(.mode = mode));
            for (int calls = 0; calls < 2; calls++) {
                sn_tensor *const x = LEAF(4, 8, 16), *const y = SN_CALL(fn, x);
                bytes[k] = saved_by("WaveBackward");
                ck_assert_msg(sn_backward(y) == SN_OK, "%s", sn_error_take()->message);
                grads[k] = sn_clone(sn_grad(x));
            }
            sn_function_free(fn);
        }
        ck_assert(same_bits(grads[0], grads[1]));
        ck_assert_int_eq(bytes[0], 2 * 8 * 16 * (int64_t)sizeof(float));
        ck_assert_int_eq(bytes[1], 8 * 16 * (int64_t)sizeof(float));
    }
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        a3_17_recomputing_has_the_bits_and_a_lower_peak,
        t6_policies_change_no_bit,
        t6_a_saved_random_op_takes_its_number,
        t6_wrong_policies_are_errors,
        t6_modes_of_the_forward_count_that_are_gone_by_the_backward,
        t6_regions_lie_in_each_other,
        t6_a_second_backward_and_its_own_gradient,
        t6_what_the_region_read_is_checked_for_writes,
        t6_writes_to_outside_memory_are_errors,
        t6_a_second_run_whose_ops_differ_says_which,
        t6_a_policy_saves_nothing_of_a_traced_body,
        t6_the_closure_is_freed_once,
        t6_ordered_effects_happen_once,
        t6_the_second_run_has_the_modes_of_the_first,
        t6_custom_functions_save_into_slots,
        t6_a_body_that_does_not_return_leaves_nothing,
        a3_02_saved_bytes_by_op_and_less_with_checkpoints,
        a3_02_what_a_checkpoint_saves_has_its_bytes,
        a3_09_a_saving_and_a_recomputing_function_give_equal_gradients,
    };
    return contract_main("test_checkpoint", tests, (int)(sizeof tests / sizeof *tests));
}
