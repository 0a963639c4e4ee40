/* test_views.c: views among a segment's values are what they are in eager: one memory with what they
 * view, and, to the tape, ways to write it [semantics C2, G5]. Every body runs eagerly and compiled,
 * outputs are then written with gradients on, and what is seen of all of it is compared. */
#include "tests/unit/contract.h"

enum { MOST = 4 };

typedef struct Seen {
    sn_tensor *out[MOST], *grads[2];
    char error[256];
} Seen;

/* out[0] *= w, then a backward from all results. */
static Seen write_first(sn_function *fn, bool grad, int n_out) {
    Seen seen = {.error = ""};
    sn_tensor *const leaf = sn_requires_grad_(F32(1, 4, 6), grad), *const w = LEAF(2, 1);
    sn_tensor *const x = sn_mul_scalar(leaf, sn_float(2));
    ck_assert_int_eq(sn_call(fn, &x, 1, seen.out, n_out), SN_OK);
    seen.out[n_out] = x;
    sn_mul_(seen.out[0], w);
    sn_tensor *loss = sn_sum(sn_sin(seen.out[0]));
    for (int i = 1; i <= n_out; i++) loss = sn_add(loss, sn_sum(sn_mul_scalar(sn_exp(seen.out[i]), sn_float(i))));
    if (!sn_check()) sn_backward(loss);
    if (sn_check()) strncpy(seen.error, sn_error_take()->message, sizeof seen.error - 1);
    seen.grads[0] = grad ? sn_grad(leaf) : NULL;
    seen.grads[1] = sn_grad(w);
    return seen;
}

static void expect_same(const Seen *want, const Seen *got, int n_out) {
    ck_assert_str_eq(got->error, want->error);
    for (int i = 0; i <= n_out; i++) ck_assert_msg(same_bits(got->out[i], want->out[i]), "%d", i);
    for (int i = 0; i < 2; i++) ck_assert_msg(same_bits(got->grads[i], want->grads[i]), "grad %d", i);
}

static void try_body(sn_body body, bool grad, int n_out, const sn_compile_options *options) {
    const Twin twin = twin_new(body, NULL, NULL, options);
    const Seen want = write_first(twin.eager, grad, n_out);
    for (int i = 0; i < 3; i++) {
        const Seen got = write_first(twin.fast, grad, n_out);
        expect_same(&want, &got, n_out);
    }
    ck_assert_int_gt(stats_of(twin.fast).ops_generated + stats_of(twin.fast).ops_interpreted, 0);
    twin_free(twin);
}

static void try_all(sn_body body, int n_out) {
    for (int grad = 0; grad < 2; grad++) {
        try_body(body, grad, n_out, NULL);
        try_body(body, grad, n_out, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY));
    }
}

static sn_status view_of_input(sn_frame *f) {
    return sn_out(f, 0, sn_slice(sn_transpose(sn_in(f, 0), 0, 1), 0, 1, 5, 2));
}

static sn_status view_and_whole(sn_frame *f) {
    sn_tensor *const h = sn_exp(sn_in(f, 0));
    sn_out(f, 1, h);
    return sn_out(f, 0, sn_select(h, 0, 1));
}

/* Their whole is no result, yet what is written to one is seen in the other. */
static sn_status two_views(sn_frame *f) {
    sn_tensor *const h = sn_exp(sn_in(f, 0));
    sn_out(f, 1, sn_transpose(h, 0, 1));
    return sn_out(f, 0, sn_slice(h, 0, 1, 3, 1));
}

static sn_status lone_view(sn_frame *f) { return sn_out(f, 0, sn_unsqueeze(sn_exp(sn_in(f, 0)), 0)); }

static sn_status detached_views(sn_frame *f) {
    sn_tensor *const d = sn_detach(sn_exp(sn_in(f, 0)));
    sn_out(f, 1, sn_transpose(d, 0, 1));
    return sn_out(f, 0, sn_slice(d, 0, 1, 3, 1));
}

static sn_status without_grad(sn_frame *f) {
    sn_grad_mode_set(SN_GRAD_OFF);
    sn_tensor *const view = sn_select(sn_in(f, 0), 0, 1);
    sn_grad_mode_set(SN_GRAD_ON);
    return sn_out(f, 0, view);
}

static sn_status lone_without_grad(sn_frame *f) {
    sn_grad_mode_set(SN_GRAD_OFF);
    sn_tensor *const view = sn_select(sn_exp(sn_in(f, 0)), 0, 1);
    sn_grad_mode_set(SN_GRAD_ON);
    return sn_out(f, 0, view);
}

START_TEST(g5_a_write_through_a_compiled_view_reaches_the_input) { try_all(view_of_input, 1); }
END_TEST
START_TEST(g5_a_write_through_a_compiled_view_reaches_its_whole) { try_all(view_and_whole, 2); }
END_TEST
START_TEST(g5_a_write_through_a_compiled_view_reaches_another_view) { try_all(two_views, 2); }
END_TEST
START_TEST(g5_a_compiled_view_may_be_written_alone) { try_all(lone_view, 1); }
END_TEST
START_TEST(g5_views_of_what_was_detached_share_a_history) { try_all(detached_views, 2); }
END_TEST
START_TEST(g5_a_view_made_without_gradients_refuses_a_write_with_them) {
    try_all(without_grad, 1);
    try_all(lone_without_grad, 1);
}
END_TEST

/* Composites that end in another shape of what they made: no views to the tape. */
enum { MADE = 9 };

static sn_status made_by_composites(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const cube = sn_view(x, SN_INTS(2, 2, 6));
    sn_tensor *const across = sn_transpose(x, 0, 1), *const row = sn_select(x, 0, 0);
    sn_grad_mode_set(SN_GRAD_OFF);
    sn_tensor *const made[MADE] = {
        sn_matmul(cube, across),
        sn_matmul(cube, sn_transpose(cube, 1, 2)),
        sn_matmul(cube, row),
        sn_matmul(row, across),
        sn_linear(cube, x, NULL),
        sn_reshape(across, SN_INTS(4, 6)),
        sn_flatten(across, 0, 1),
        sn_repeat(x, SN_INTS(2, 3)),
        sn_logsumexp(x, SN_INTS(1), false),
    };
    sn_grad_mode_set(SN_GRAD_ON);
    for (int i = 0; i < MADE; i++)
        if (sn_out(f, i, made[i])) return sn_check();
    return SN_OK;
}

static void write_made(sn_function *fn, sn_tensor **made, sn_tensor **grads) {
    sn_tensor *const x = F32(1, 4, 6);
    ck_assert_int_eq(sn_call(fn, &x, 1, made, MADE), SN_OK);
    for (int i = 0; i < MADE; i++) {
        sn_tensor *const w = LEAF(2, 1);
        ck_assert_msg(sn_mul_(made[i], w) != NULL, "%d", i);
        ck_assert_int_eq(sn_backward(sn_sum(made[i])), SN_OK);
        grads[i] = sn_grad(w);
    }
}

START_TEST(g5_what_a_composite_made_without_gradients_can_be_written_with_them) {
    const Twin twin = twin_new(made_by_composites, NULL, NULL, NULL);
    sn_tensor *want[2][MADE], *got[2][MADE];
    write_made(twin.eager, want[0], want[1]);
    for (int call = 0; call < 3; call++) {
        write_made(twin.fast, got[0], got[1]);
        for (int i = 0; i < MADE; i++)
            ck_assert_msg(same_bits(got[0][i], want[0][i]) && same_bits(got[1][i], want[1][i]), "%d", i);
    }
    ck_assert_int_gt(stats_of(twin.fast).ops_generated + stats_of(twin.fast).ops_interpreted, 0);
    twin_free(twin);
}
END_TEST

/* Each of these writes has two things against it: the tape says its own first. */
static sn_status of_a_leaf(sn_frame *f) {
    sn_tensor *const rows = sn_expand(sn_select(sn_in(f, 0), 0, 1), SN_INTS(3, 6));
    return sn_out(f, 0, sn_mul_scalar_(rows, sn_float(.5)));
}

static sn_status compared(sn_frame *f) {
    sn_tensor *const rows = sn_expand(sn_select(sn_in(f, 0), 0, 1), SN_INTS(3, 6));
    return sn_out(f, 0, sn_eq_scalar_(rows, sn_float(.5)));
}

static sn_status made_without_grad(sn_frame *f) {
    sn_tensor *const h = sn_exp(sn_in(f, 0));
    sn_grad_mode_set(SN_GRAD_OFF);
    sn_tensor *const rows = sn_expand(sn_select(h, 0, 1), SN_INTS(3, 6));
    sn_grad_mode_set(SN_GRAD_ON);
    return sn_out(f, 0, sn_mul_(rows, sn_expand(sn_select(h, 0, 0), SN_INTS(3, 6))));
}

static void expect_same_error(sn_body body, const char *text) {
    const Twin twin = twin_new(body, NULL, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        ck_assert_ptr_null(SN_CALL(twin.eager, LEAF(1, 4, 6)));
        expect_error(SN_ERR_STATE, text);
        ck_assert_ptr_null(SN_CALL(twin.fast, LEAF(1, 4, 6)));
        expect_error(SN_ERR_STATE, text);
    }
    twin_free(twin);
}

START_TEST(g5_the_tape_refuses_a_write_before_the_backend_does) {
    expect_same_error(of_a_leaf, "a view of a leaf that requires gradients");
    expect_same_error(compared, "a view of a leaf that requires gradients");
    expect_same_error(made_without_grad, "a view made while gradients were off");
}
END_TEST

/* A leaf may be a view itself, as the parameters in one buffer are: what is viewed of it is no less of a leaf. */
START_TEST(g5_a_view_of_a_leaf_that_is_a_view_refuses_a_write) {
    const Twin twin = twin_new(of_a_leaf, NULL, NULL, NULL);
    sn_function *const both[] = {twin.eager, twin.fast};
    for (int i = 0; i < 6; i++) {
        sn_tensor *const buffer = sn_zeros(SN_INTS(5, 6), SN_F32);
        sn_tensor *const leaf = sn_requires_grad_(sn_narrow(buffer, 0, 1, 4), true);
        ck_assert_ptr_null(SN_CALL(both[i % 2], leaf));
        expect_error(SN_ERR_STATE, "a view of a leaf that requires gradients");
        ck_assert(!sn_requires_grad(buffer));
        sn_tensor *const row = sn_expand(sn_select(sn_alias(leaf), 0, 1), SN_INTS(1, 6));
        ck_assert_ptr_null(sn_mul_scalar_(row, sn_float(.5)));
        expect_error(SN_ERR_STATE, "a view of a leaf that requires gradients");
    }
    twin_free(twin);
}
END_TEST

static sn_status in_inference(sn_frame *f) {
    sn_grad_mode_set(SN_INFERENCE);
    sn_tensor *const view = sn_select(sn_in(f, 0), 0, 1);
    sn_grad_mode_set(SN_GRAD_ON);
    return sn_out(f, 0, view);
}

START_TEST(g5_a_view_made_in_inference_mode_is_none_to_the_tape) { try_all(in_inference, 1); }
END_TEST

/* The same write by transpose and by as_strided, which names places of the base's memory; the
 * gradient comes in another layout than the base's. */
static void write_transposed(sn_tensor *base, int64_t offset, bool strided, sn_tensor *w) {
    sn_tensor *const view =
        strided ? sn_as_strided(base, SN_INTS(2, 4), SN_INTS(1, 2), offset) : sn_transpose(base, 0, 1);
    sn_mul_(view, w);
    sn_tensor *const flat = sn_contiguous(sn_transpose(base, 0, 1));
    ck_assert_int_eq(sn_backward(sn_sum(sn_mul(flat, F32(5, 2, 4)))), SN_OK);
}

START_TEST(g5_a_write_through_as_strided_goes_back_by_places) {
    sn_tensor *grads[2][3];
    for (int strided = 0; strided < 2; strided++) {
        sn_tensor *const x = LEAF(1, 4, 2), *const w = LEAF(2, 2, 4), *const v = LEAF(3, 2, 4);
        write_transposed(sn_mul_scalar(x, sn_float(2)), 0, strided, w);
        write_transposed(sn_detach(sn_narrow(F32(4, 6, 2), 0, 1, 4)), 2, strided, v);
        grads[strided][0] = sn_grad(x);
        grads[strided][1] = sn_grad(w);
        grads[strided][2] = sn_grad(v);
    }
    for (int i = 0; i < 3; i++) {
        ck_assert_ptr_nonnull(grads[0][i]);
        ck_assert_msg(same_bits(grads[0][i], grads[1][i]), "%d", i);
    }
}
END_TEST

START_TEST(g5_places_beside_the_base_have_zero_gradients) {
    sn_tensor *const base = sn_detach(sn_narrow(F32(1, 4, 6), 1, 0, 2)), *const w = LEAF(2, 3, 6);
    sn_mul_(sn_as_strided(base, SN_INTS(3, 6), SN_INTS(6, 1), 0), w);
    ck_assert_int_eq(sn_backward(sn_sum(base)), SN_OK);
    sn_tensor *const beside = sn_narrow(sn_grad(w), 1, 2, 4);
    ck_assert(same_bits(sn_abs(beside), sn_full(SN_INTS(3, 4), sn_float(0), SN_F32)));
}
END_TEST

static sn_status strided_views(sn_frame *f) {
    sn_tensor *const h = sn_exp(sn_in(f, 0));
    sn_out(f, 1, h);
    return sn_out(f, 0, sn_as_strided(h, SN_INTS(5, 4), SN_INTS(1, 6), 1));
}

START_TEST(g5_a_compiled_as_strided_is_written_by_places) { try_all(strided_views, 2); }
END_TEST

/* G5: what gets a history by a write -------------------------------------------------------------- */

typedef struct Kept {
    sn_tensor *base, *other; /* without a history; what the body keeps */
} Kept;

static sn_status copied_into_zeros(sn_frame *f) {
    sn_tensor *const b = sn_zeros(SN_INTS(2, 3), SN_F32);
    sn_copy_(sn_select(b, 0, 0), sn_in(f, 0));
    return sn_out(f, 0, b);
}

static sn_status added_to_a_clone(sn_frame *f) {
    sn_tensor *const b = sn_clone(((Kept *)sn_closure(f))->base);
    sn_add_(sn_narrow(b, 0, 0, 1), sn_in(f, 0));
    return sn_out(f, 0, sn_mul_scalar(b, sn_float(2)));
}

static sn_status used_after_a_break(sn_frame *f) {
    sn_tensor *const b = sn_zeros(SN_INTS(2, 3), SN_F32);
    sn_copy_(sn_select(b, 0, 1), sn_in(f, 0));
    sn_graph_break("here");
    return sn_out(f, 0, sn_mul_scalar(b, sn_float(2)));
}

/* A view that is older than the write, one of what was copied, and what was made before. */
static sn_status older_views(sn_frame *f) {
    sn_tensor *const b = sn_mul_scalar(((Kept *)sn_closure(f))->base, sn_float(3));
    sn_tensor *const row = sn_select(b, 0, 1), *const copy = sn_reshape(sn_t(b), SN_INTS(6));
    sn_tensor *const flat = sn_reshape(b, SN_INTS(6)), *const before = sn_mul(b, b);
    sn_add_(sn_select(b, 0, 1), sn_in(f, 0));
    sn_out(f, 1, row);
    sn_out(f, 2, flat);
    sn_out(f, 3, copy);
    sn_out(f, 4, sn_detach(b));
    sn_out(f, 5, before);
    return sn_out(f, 0, sn_sum(sn_mul(b, before)));
}

static sn_status kept_and_returned(sn_frame *f) {
    Kept *const kept = sn_closure(f);
    sn_tensor *const b = sn_mul_scalar(kept->base, sn_float(2));
    sn_add_(sn_select(b, 0, 0), sn_in(f, 0));
    kept->other = sn_keep(b);
    return sn_out(f, 0, sn_sum(b));
}

/* To the tape a view of nothing yet: made where gradients are off, written where they are on. */
static sn_status older_view_without_gradients(sn_frame *f) {
    sn_tensor *const b = sn_mul_scalar(((Kept *)sn_closure(f))->base, sn_float(3));
    const sn_grad_mode before = sn_grad_mode_set(SN_GRAD_OFF);
    sn_tensor *const row = sn_select(b, 0, 0);
    sn_grad_mode_set(before);
    sn_tensor *const unused = sn_mul_scalar(row, sn_float(2));
    sn_add_(b, sn_in(f, 0));
    sn_grad_mode_set(SN_GRAD_OFF);
    sn_tensor *const later = sn_select(b, 0, 0);
    sn_grad_mode_set(before);
    sn_out(f, 1, unused);
    sn_out(f, 2, later);
    return sn_out(f, 0, sn_mul(row, sn_select(b, 0, 1)));
}

static sn_status one_write_after_another(sn_frame *f) {
    sn_tensor *const a = sn_zeros(SN_INTS(2, 3), SN_F32), *const b = sn_zeros(SN_INTS(6), SN_F32);
    sn_copy_(sn_select(a, 0, 0), sn_in(f, 0));
    sn_copy_(sn_view(b, SN_INTS(2, 3)), a);
    sn_mul_scalar_(sn_narrow(b, 0, 1, 3), sn_float(5));
    return sn_out(f, 0, b);
}

/* A stale view's history begins where it is first used, after other uses of its base. */
static sn_status stale_view_and_base(sn_frame *f) {
    sn_tensor *const b = sn_zeros(SN_INTS(3), SN_F32), *const v = sn_view(b, SN_INTS(1, 3));
    sn_add_(v, sn_in(f, 0));
    sn_out(f, 1, v);
    return sn_out(f, 0, b);
}

enum { GIVEN = 6 };

typedef struct Given {
    sn_tensor *out[GIVEN], *grad;
    bool tracks[GIVEN];
} Given;

/* A backward from all results that require gradients. */
static Given go_back(sn_function *fn, Kept *kept, uint64_t seed, int n_out) {
    Given given = {.grad = NULL};
    sn_tensor *const x = LEAF(seed, 3);
    ck_assert_int_eq(sn_call(fn, &x, 1, given.out, n_out), SN_OK);
    sn_tensor *loss = NULL;
    if (kept->other) given.out[n_out++] = kept->other;
    for (int i = 0; i < n_out; i++) {
        if (!(given.tracks[i] = sn_requires_grad(given.out[i]))) continue;
        sn_tensor *const part = sn_sum(sn_mul_scalar(given.out[i], sn_float(i + 0.5)));
        loss = loss ? sn_add(loss, part) : part;
    }
    ck_assert_ptr_nonnull(loss);
    ck_assert_msg(sn_backward(loss) == SN_OK, "%s", sn_error_take()->message);
    given.grad = sn_grad(x);
    sn_release(kept->other);
    return given;
}

static void try_given(sn_body body, int n_out, const sn_compile_options *options) {
    Kept fast = {.base = F32(9, 2, 3)}, slow = {.base = F32(9, 2, 3)};
    const Twin twin = twin_new(body, &fast, &slow, options);
    for (uint64_t seed = 0; seed < 4; seed++) {
        fast.other = slow.other = NULL;
        const Given want = go_back(twin.eager, &slow, seed, n_out);
        const Given got = go_back(twin.fast, &fast, seed, n_out);
        for (int i = 0; i < n_out; i++) {
            ck_assert_msg(got.tracks[i] == want.tracks[i], "result %d", i);
            ck_assert_msg(same_bits(got.out[i], want.out[i]), "result %d", i);
        }
        ck_assert_ptr_nonnull(got.grad);
        ck_assert(same_bits(got.grad, want.grad));
    }
    ck_assert_msg(last_path() == SN_PATH_COMPILED, "%s", last_reason());
    twin_free(twin);
}

static void try_given_all(sn_body body, int n_out) {
    try_given(body, n_out, NULL);
    try_given(body, n_out, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY));
}

START_TEST(g5_a_write_through_a_view_gives_its_base_a_history) {
    try_given_all(copied_into_zeros, 1);
    try_given_all(added_to_a_clone, 1);
    try_given_all(used_after_a_break, 1);
    try_given_all(one_write_after_another, 1);
    try_given(kept_and_returned, 1, NULL);
}
END_TEST

/* Sums of contributions to the base: in another order they have other bits. */
static sn_tensor *use_both(sn_function *fn, uint64_t seed) {
    sn_tensor *const x = LEAF(seed, 3), *out[2];
    ck_assert_int_eq(sn_call(fn, &x, 1, out, 2), SN_OK);
    sn_tensor *const first = sn_sum(sn_mul(out[0], sn_sin(out[0])));
    sn_tensor *const second = sn_sum(sn_mul_scalar(out[0], sn_float(1e8)));
    sn_tensor *const third = sn_sum(sn_mul_scalar(out[1], sn_float(-1e8)));
    ck_assert_int_eq(sn_backward(sn_add(sn_add(first, second), third)), SN_OK);
    return sn_grad(x);
}

START_TEST(g1_a_stale_view_has_its_place_where_it_is_first_used) {
    const Twin twin = twin_new(stale_view_and_base, NULL, NULL, NULL);
    for (uint64_t seed = 0; seed < 5; seed++) {
        sn_tensor *const want = use_both(twin.eager, seed);
        ck_assert(same_bits(use_both(twin.fast, seed), want));
    }
    ck_assert_msg(last_path() == SN_PATH_COMPILED, "%s", last_reason());
    twin_free(twin);
}
END_TEST

START_TEST(g5_older_views_of_a_written_base_have_its_history) {
    try_given_all(older_views, 6);
    try_given_all(older_view_without_gradients, 3);
}
END_TEST

/* C2: one memory ------------------------------------------------------------------------------- */

static sn_status whole_after_a_break(sn_frame *f) {
    sn_tensor *const h = sn_mul(sn_in(f, 0), sn_in(f, 0)), *const v = sn_select(h, 0, 1);
    sn_item(v);
    sn_add_(v, v);
    return sn_out(f, 0, h);
}

static sn_status view_after_a_break(sn_frame *f) {
    sn_tensor *const h = sn_mul(sn_in(f, 0), sn_in(f, 0));
    sn_tensor *const v = sn_select(h, 0, 1), *const other = sn_slice(h, 0, 1, 3, 1);
    sn_item(sn_sum(h));
    sn_add_(v, v);
    return sn_out(f, 0, other);
}

static sn_status detached_after_a_break(sn_frame *f) {
    sn_tensor *const h = sn_mul(sn_in(f, 0), sn_in(f, 0)), *const v = sn_select(h, 0, 1);
    sn_item(v);
    sn_add_(sn_detach(h), v);
    return sn_out(f, 0, v);
}

START_TEST(c2_a_view_and_its_whole_are_one_memory_across_a_break) {
    static const sn_body bodies[] = {whole_after_a_break, view_after_a_break, detached_after_a_break};
    for (int i = 0; i < 3; i++) {
        const Twin twin = twin_new(bodies[i], NULL, NULL, NULL);
        for (int k = 0; k < 3; k++) TWIN_CALL(twin, F32((uint64_t)k, 4));
        ck_assert_int_gt(stats_of(twin.fast).ops_generated, 0);
        twin_free(twin);
    }
}
END_TEST

/* G3: versions -------------------------------------------------------------------------------- */

static sn_status writes_twice(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const h = sn_exp(x);
    sn_add_(sn_select(h, 0, 1), sn_select(x, 0, 0));
    sn_add_(h, x);
    sn_neg_(x);
    sn_sin_(x);
    sn_sigmoid_(x);
    return sn_out(f, 0, h);
}

/* w * t saves t, which is then written: the error tells both versions. */
static void version_error(sn_tensor *t, char *text, size_t capacity) {
    sn_tensor *const loss = sn_sum(sn_mul(LEAF(2, 1), t));
    sn_neg_(t);
    ck_assert_int_ne(sn_backward(loss), SN_OK);
    strncpy(text, sn_error_take()->message, capacity - 1);
}

START_TEST(g3_versions_count_every_write_of_a_segment) {
    const Twin twin = twin_new(writes_twice, NULL, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        char text[2][2][256] = {{""}};
        for (int k = 0; k < 2; k++) {
            sn_tensor *const x = F32(1, 4);
            sn_tensor *const h = SN_CALL(k ? twin.fast : twin.eager, x);
            version_error(h, text[k][0], sizeof text[k][0]);
            version_error(x, text[k][1], sizeof text[k][1]);
        }
        ck_assert(strstr(text[0][0], "version 2,") && strstr(text[0][1], "version 3,"));
        ck_assert_str_eq(text[1][0], text[0][0]);
        ck_assert_str_eq(text[1][1], text[0][1]);
    }
    ck_assert_int_gt(stats_of(twin.fast).ops_generated, 0);
    twin_free(twin);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {g5_a_write_through_a_compiled_view_reaches_the_input,
                                  g5_a_write_through_a_compiled_view_reaches_its_whole,
                                  g5_a_write_through_a_compiled_view_reaches_another_view,
                                  g5_a_compiled_view_may_be_written_alone,
                                  g5_views_of_what_was_detached_share_a_history,
                                  g5_a_view_made_without_gradients_refuses_a_write_with_them,
                                  g5_what_a_composite_made_without_gradients_can_be_written_with_them,
                                  g5_the_tape_refuses_a_write_before_the_backend_does,
                                  g5_a_view_of_a_leaf_that_is_a_view_refuses_a_write,
                                  g5_a_view_made_in_inference_mode_is_none_to_the_tape,
                                  g5_a_write_through_as_strided_goes_back_by_places,
                                  g5_places_beside_the_base_have_zero_gradients,
                                  g5_a_compiled_as_strided_is_written_by_places,
                                  g5_a_write_through_a_view_gives_its_base_a_history,
                                  g5_older_views_of_a_written_base_have_its_history,
                                  g1_a_stale_view_has_its_place_where_it_is_first_used,
                                  c2_a_view_and_its_whole_are_one_memory_across_a_break,
                                  g3_versions_count_every_write_of_a_segment};
    return contract_main("test_views", tests, (int)(sizeof tests / sizeof *tests));
}
