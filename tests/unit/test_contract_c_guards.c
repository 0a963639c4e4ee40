/* test_contract_c_guards.c: what compiled code was made for and what may differ without it [semantics C7]. That each
 * row of guard.def is needed is shown by test_failing.c; here stand the items of the rule that are no row: they are
 * part of an op's edge, follow the state at the call, or make no difference to code (runtime/capture/README.md). */
#include "tests/unit/contract.h"

typedef struct Host {
    int runs, seen;
    sn_tensor *kept;
} Host;

static const sn_compile_mode modes[] = {SN_COMPILE_VERIFY, SN_COMPILE_REPLAY};

/* Data pointers: every element offset is one class, and minibatch slices cost nothing --------- */

static sn_status normed(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const h = sn_gelu(sn_matmul(x, sn_t(sn_in(f, 1))));
    sn_add_scalar_(sn_in(f, 1), sn_float(0.5));
    return sn_out(f, 0, sn_softmax(h, -1));
}

static sn_tensor *at_offset(float *memory, int64_t rows, int offset) {
    fill_floats(memory + offset, rows * 33, (uint64_t)offset);
    return sn_wrap(SN_BLOB(.data = memory + offset, .bytes = (size_t)rows * 33 * sizeof(float),
                           .sizes = SN_INTS(rows, 33), .dtype = SN_F32));
}

START_TEST(c7_alignment_of_data_is_no_case) {
    static float memory[4][40 * 33];
    for (int m = 0; m < 2; m++) {
        const Twin twin = twin_new(normed, NULL, NULL, SN_COMPILE_OPTIONS(.mode = modes[m]));
        for (int i = 0; i < 20; i++) {
            sn_tensor *const a = at_offset(memory[0], 30, i), *const w = at_offset(memory[1], 17, 19 - i);
            sn_tensor *const b = at_offset(memory[2], 30, i), *const v = at_offset(memory[3], 17, 19 - i);
            twin_call(twin, SN_TENSORS(a, w), SN_TENSORS(b, v));
            ck_assert(same_bits(w, v));
        }
        ck_assert_int_eq(stats_of(twin.fast).compiles, 1);
        ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
        twin_free(twin);
    }
}
END_TEST

static sn_status rectified(sn_frame *f) {
    ((Host *)sn_closure(f))->runs++;
    return sn_out(f, 0, sn_relu(sn_in(f, 0)));
}

START_TEST(c7_minibatch_slices_do_not_recompile) {
    Host host = {0};
    for (int m = 0; m < 2; m++) {
        const Twin twin = twin_new(rectified, &host, &host, SN_COMPILE_OPTIONS(.mode = modes[m]));
        sn_tensor *const all = F32(1, 90, 7);
        for (int i = 0; i < 9; i++) TWIN_CALL(twin, sn_narrow(all, 0, i * 10 + i % 2, 9));
        ck_assert_int_eq(stats_of(twin.fast).compiles, 1);
        twin_free(twin);
    }
}
END_TEST

/* An offset is no guard, so whoever asks for one gets that of the call. */
static sn_status reads_offset(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const part = sn_narrow(x, 0, 2, 3);
    const double places = (double)(sn_storage_offset(x) * 1000 + sn_storage_offset(part));
    return sn_out(f, 0, sn_mul_scalar(sn_exp(part), sn_float(places)));
}

START_TEST(c7_an_offset_that_is_read_is_the_calls) {
    for (int m = 0; m < 2; m++) {
        const Twin twin = twin_new(reads_offset, NULL, NULL, SN_COMPILE_OPTIONS(.mode = modes[m]));
        sn_tensor *const all = F32(1, 90, 7);
        for (int i = 0; i < 9; i++) TWIN_CALL(twin, sn_narrow(all, 0, i * 10 + i % 2, 9));
        twin_free(twin);
    }
}
END_TEST

/* A size that is an int of the call may be 1, and then strides follow other rules. */
static sn_status lays_out(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    const int64_t n = sn_size(x, 0), m = sn_size(x, 1);
    sn_tensor *const flat = sn_view(x, SN_INTS(n * m));
    sn_tensor *const turned = sn_as_strided(flat, SN_INTS(m, n), SN_INTS(1, m), 0);
    return sn_out(f, 0, sn_add(turned, sn_t(sn_neg(x))));
}

START_TEST(c5_layouts_of_size_1_are_cases) {
    static const int64_t sizes[][2] = {{4, 6}, {8, 6}, {8, 10}, {7, 3}, {2, 2}, {1, 5}, {5, 1}};
    const Twin twin = twin_new(lays_out, NULL, NULL, NULL);
    for (int i = 0; i < 14; i++) {
        sn_tensor *const x = F32((uint64_t)i, sizes[i % 7][0], sizes[i % 7][1]);
        const sn_ints got = sn_strides(SN_CALL(twin.fast, x));
        const sn_ints want = sn_strides(SN_CALL(twin.eager, x));
        ck_assert_msg(got.data[0] == want.data[0] && got.data[1] == want.data[1], "call %d", i);
    }
    twin_free(twin);
}
END_TEST

/* User modes ---------------------------------------------------------------------------------- */

static sn_status sees_ops(sn_frame *f) {
    ((Host *)sn_closure(f))->seen++;
    return sn_redispatch(f);
}

static sn_status writes_one_reads_both(sn_frame *f) {
    sn_add_(sn_in(f, 0), sn_in(f, 1));
    return sn_out(f, 0, sn_mul_scalar(sn_in(f, 1), sn_float(2)));
}

static float first_of_overlapping(sn_function *fn, float *memory, int offset) {
    sn_tensor *const a = sn_wrap(SN_BLOB(.data = memory, .bytes = 64, .sizes = SN_INTS(16), .dtype = SN_F32)),
                     *const b =
                         sn_wrap(SN_BLOB(.data = memory + offset, .bytes = 64, .sizes = SN_INTS(16), .dtype = SN_F32));
    sn_tensor *const out = sn_call1(fn, SN_TENSORS(a, b));
    ck_assert_ptr_nonnull(out);
    return *(const float *)sn_data(out, SN_F32);
}

/* Blocks of users' memory that lie apart at first, and then do not; either one may be the lower. */
static void two_storages_of_the_same_bytes(sn_compile_mode mode) {
    static const int offsets[] = {16, 16, 8, 16, 15, 0, 17, 16};
    const Twin twin = twin_new(writes_one_reads_both, NULL, NULL, SN_COMPILE_OPTIONS(.mode = mode));
    float fast[33], slow[33];
    fill_floats(fast, 33, 3), memcpy(slow, fast, sizeof slow);
    for (int i = 0; i < (int)(sizeof offsets / sizeof *offsets); i++) {
        const float want = first_of_overlapping(twin.eager, slow, offsets[i]);
        ck_assert_float_eq(first_of_overlapping(twin.fast, fast, offsets[i]), want);
        ck_assert_mem_eq(fast, slow, sizeof slow);
        ck_assert_int_eq(last_path() == SN_PATH_COMPILED, i > 0 && offsets[i] >= 16);
    }
    twin_free(twin);
}

START_TEST(c7_two_storages_of_the_same_bytes) {
    two_storages_of_the_same_bytes(SN_COMPILE_VERIFY);
    two_storages_of_the_same_bytes(SN_COMPILE_REPLAY);
}
END_TEST

START_TEST(c7_user_modes_see_every_op) {
    for (int m = 0; m < 2; m++) {
        Host host = {0};
        sn_function *const fn = sn_compile(rectified, &host, SN_COMPILE_OPTIONS(.mode = modes[m]));
        sn_tensor *const x = F32(1, 10), *const want = sn_relu(x);
        for (int i = 0; i < 3; i++) SN_CALL(fn, x);
        ck_assert_int_eq(sn_user_mode_push(sees_ops, &host), SN_OK);
        for (int i = 0; i < 2; i++) ck_assert(same_bits(SN_CALL(fn, x), want));
        ck_assert_int_eq(host.seen, 2);
        ck_assert_ptr_nonnull(strstr(sn_explain(fn), "a user mode is active"));
        sn_user_mode_pop();
        ck_assert(same_bits(SN_CALL(fn, x), want));
        ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
        ck_assert_int_eq(host.seen, 2);
        sn_function_free(fn);
    }
}
END_TEST

/* Grad and inference modes -------------------------------------------------------------------- */

static bool result_tracks(sn_function *fn, sn_tensor *x, sn_grad_mode mode) {
    const sn_grad_mode before = sn_grad_mode_set(mode);
    sn_tensor *const y = SN_CALL(fn, x);
    sn_grad_mode_set(before);
    ck_assert_msg(y != NULL, "%s", sn_error_take()->message);
    return sn_requires_grad(y);
}

START_TEST(c7_grad_modes_are_cases) {
    for (int m = 0; m < 2; m++) {
        Host host = {0};
        sn_function *const fn = sn_compile(rectified, &host, SN_COMPILE_OPTIONS(.mode = modes[m]));
        sn_tensor *const x = LEAF(1, 10);
        for (int i = 0; i < 9; i++) {
            static const sn_grad_mode each[] = {SN_GRAD_OFF, SN_GRAD_ON, SN_INFERENCE};
            ck_assert_int_eq(result_tracks(fn, x, each[i % 3]), each[i % 3] == SN_GRAD_ON);
        }
        ck_assert_int_le(stats_of(fn).compiles, 3);
        sn_function_free(fn);
    }
}
END_TEST

/* Flushed in the second mode, which is not that of the first two ops. */
static sn_status changes_mode(sn_frame *f) {
    const sn_grad_mode *const each = sn_closure(f);
    sn_tensor *const x = sn_in(f, 0);
    sn_grad_mode_set(each[0]);
    sn_tensor *const y = sn_mul(x, x), *const view = sn_t(x);
    sn_grad_mode_set(each[1]);
    sn_item(sn_sum(sn_in(f, 1)));
    sn_out(f, 0, y);
    return sn_out(f, 1, view);
}

/* The backward of a product of it with a leaf works, or its error says why not. */
static bool is_saved(sn_tensor *t) {
    sn_tensor *const leaf = sn_requires_grad_(sn_ones_like(t), true);
    sn_backward(sn_sum(sn_mul(leaf, t)));
    const bool saved = sn_check() == SN_OK;
    if (saved)
        ck_assert(same_bits(sn_grad(leaf), sn_detach(t)));
    else
        expect_error(SN_ERR_STATE, "Inference tensors cannot be saved for backward");
    return saved;
}

START_TEST(c7_results_are_of_the_mode_of_their_op) {
    for (int k = 0; k < 9 * 2 * 2; k++) {
        sn_grad_mode each[] = {(sn_grad_mode)(k % 3), (sn_grad_mode)(k / 3 % 3)};
        const bool tracked = k / 9 % 2;
        sn_function *const fn = sn_compile(changes_mode, each, SN_COMPILE_OPTIONS(.mode = modes[k / 18]));
        for (int i = 0; i < 4; i++) {
            sn_tensor *const x = sn_requires_grad_(F32(i, 2, 3), tracked), *outs[2];
            sn_tensor *const in[] = {x, F32(i, 2)};
            ck_assert_int_eq(sn_call(fn, in, 2, outs, 2), SN_OK);
            const bool on = each[0] == SN_GRAD_ON && tracked;
            ck_assert_int_eq(sn_requires_grad(outs[0]), on);
            ck_assert_int_eq(sn_requires_grad(outs[1]), on);
            ck_assert_int_eq(is_saved(outs[0]), each[0] != SN_INFERENCE);
            ck_assert(is_saved(outs[1]));
        }
        sn_function_free(fn);
    }
}
END_TEST

/* Generators: the one of the state that calls ------------------------------------------------- */

static sn_status noisy(sn_frame *f) { return sn_out(f, 0, sn_add(sn_in(f, 0), sn_rand(SN_INTS(10), SN_F32))); }

START_TEST(c7_the_generator_is_the_callers) {
    for (int m = 0; m < 2; m++) {
        const Twin twin = twin_new(noisy, NULL, NULL, SN_COMPILE_OPTIONS(.mode = modes[m]));
        sn_tensor *const x = sn_keep(F32(1, 10));
        sn_state *const states[] = {sn_state_new(), sn_state_new()};
        for (int i = 0; i < 8; i++) {
            sn_state *const before = sn_state_use(states[i % 2]);
            sn_seed(40 + (uint64_t)(i / 4));
            if (i % 2) sn_rand(SN_INTS(1), SN_F32);
            sn_tensor *const want = SN_CALL(twin.eager, x), *const after = sn_rand(SN_INTS(3), SN_F32);
            sn_seed(40 + (uint64_t)(i / 4));
            if (i % 2) sn_rand(SN_INTS(1), SN_F32);
            ck_assert(same_bits(SN_CALL(twin.fast, x), want));
            ck_assert(same_bits(sn_rand(SN_INTS(3), SN_F32), after));
            sn_state_use(before);
        }
        ck_assert_int_eq(stats_of(twin.fast).compiles, 1);
        sn_state_free(states[0]);
        sn_state_free(states[1]);
        sn_release(x);
        twin_free(twin);
    }
}
END_TEST

/* Hooks and .grad ----------------------------------------------------------------------------- */

static sn_status doubles_gradient(sn_frame *f) {
    ((Host *)sn_closure(f))->seen++;
    return sn_out(f, 0, sn_mul_scalar(sn_in(f, 0), sn_float(2)));
}

static sn_status squares(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    return sn_out(f, 0, sn_sum(sn_mul(x, x)));
}
static sn_status steps(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const y = sn_sum(sn_mul(x, x));
    sn_backward(y);
    return sn_out(f, 0, sn_detach(y));
}

static void gradient(sn_function *fn, sn_tensor *x, bool inside) {
    sn_tensor *const y = SN_CALL(fn, x);
    if (!inside) sn_backward(y);
    ck_assert_msg(sn_check() == SN_OK, "%s", sn_error_take()->message);
}

/* Hooks come and go after the code was made; a .grad is there or not. */
START_TEST(c7_hooks_and_gradients_that_are_there) {
    for (int inside = 0; inside < 2; inside++) {
        Host fast = {0}, slow = {0};
        const Twin twin = twin_new(inside ? steps : squares, NULL, NULL, NULL);
        sn_tensor *const a = LEAF(1, 10), *const b = LEAF(1, 10);
        int64_t hooks[2] = {0, 0};
        for (int i = 0; i < 12; i++) {
            if (i == 3) hooks[0] = sn_hook_add(a, doubles_gradient, &fast);
            if (i == 3) hooks[1] = sn_hook_add(b, doubles_gradient, &slow);
            if (i == 6) sn_hook_remove(a, hooks[0]), sn_hook_remove(b, hooks[1]);
            if (i % 4 == 0) sn_grad_set(a, NULL), sn_grad_set(b, NULL);
            gradient(twin.fast, a, inside);
            if (i == 2 || i == 11) ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
            gradient(twin.eager, b, inside);
            ck_assert(same_bits(sn_grad(a), sn_grad(b)));
            ck_assert_int_eq(fast.seen, slow.seen);
        }
        ck_assert_int_eq(fast.seen, 3);
        twin_free(twin);
    }
}
END_TEST

/* Settings change speed, or what runs, but no code: what was compiled goes on serving. */
START_TEST(c7_the_number_of_threads_is_no_case) {
    const Twin twin = twin_new(normed, NULL, NULL, NULL);
    static const char *const threads[] = {"1", "1", "3", "2"};
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(sn_setting_set("threads", threads[i]), SN_OK);
        sn_tensor *const x = F32(i, 300, 33), *const w = F32(5, 200, 33), *const v = sn_clone(w);
        twin_call(twin, SN_TENSORS(x, w), SN_TENSORS(x, v));
    }
    ck_assert_int_eq(stats_of(twin.fast).compiles, 1);
    twin_free(twin);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        c7_alignment_of_data_is_no_case,
        c7_minibatch_slices_do_not_recompile,
        c7_an_offset_that_is_read_is_the_calls,
        c7_two_storages_of_the_same_bytes,
        c5_layouts_of_size_1_are_cases,
        c7_user_modes_see_every_op,
        c7_grad_modes_are_cases,
        c7_results_are_of_the_mode_of_their_op,
        c7_the_generator_is_the_callers,
        c7_hooks_and_gradients_that_are_there,
        c7_the_number_of_threads_is_no_case,
    };
    return contract_main("test_contract_c_guards", tests, (int)(sizeof tests / sizeof *tests));
}
