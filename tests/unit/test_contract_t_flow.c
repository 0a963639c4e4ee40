/* test_contract_t_flow.c: rules T1, T2, T3 of the contract: control flow as ops. */
#include "tests/unit/contract.h"

typedef struct Weights {
    sn_tensor *w, *v;
    int runs;
} Weights;

static void expect_ok(void) { ck_assert_msg(sn_check() == SN_OK, "%s", sn_error_take()->message); }

/* T1 -------------------------------------------------------------------------------------------- */

static sn_status draw_twice(sn_frame *f) {
    sn_tensor *const a = sn_rand_like(sn_in(f, 0));
    return sn_out(f, 0, sn_add(a, sn_rand_like(a)));
}

static sn_status pass_on(sn_frame *f) { return sn_out(f, 0, sn_in(f, 0)); }

static sn_status draw_carry(sn_frame *f) {
    sn_tensor *const y = sn_rand_like(sn_in(f, 1));
    sn_out(f, 0, sn_add(sn_in(f, 0), y));
    return sn_out(f, 1, y);
}

static sn_tensor *cond1(bool taken, sn_body yes, sn_body no, void *closure, sn_tensor *x) {
    sn_tensor *out = NULL;
    sn_cond(sn_full(SN_INTS(), sn_bool(taken), SN_BOOL), yes, no, closure, NULL, SN_TENSORS(x), &out, 1);
    return out;
}

START_TEST(t1_control_flow_takes_one_sequence_number) {
    sn_tensor *const x = F32(1, 8);
    sn_seed(7);
    sn_rand_like(x);
    sn_tensor *const second = sn_rand_like(x);
    for (int taken = 0; taken < 2; taken++) { /* two random ops inside, or none: one number */
        sn_seed(7);
        ck_assert_ptr_nonnull(cond1(taken, draw_twice, pass_on, NULL, x));
        ck_assert(same_bits(sn_rand_like(x), second));
    }
    sn_seed(7);
    sn_tensor *out[2];
    ck_assert_int_eq(sn_scan(draw_carry, NULL, NULL, SN_TENSORS(F32(2, 8), F32(3, 5, 8)), out, 2), SN_OK);
    ck_assert(same_bits(sn_rand_like(x), second));
}
END_TEST

START_TEST(t1_random_numbers_inside_count_through_the_rounds) {
    sn_tensor *first[2], *again[2], *other[2], *const zero = sn_zeros(SN_INTS(8), SN_F32), *const xs = F32(3, 5, 8);
    sn_seed(7);
    ck_assert_int_eq(sn_scan(draw_carry, NULL, NULL, SN_TENSORS(zero, xs), first, 2), SN_OK);
    ck_assert_int_eq(sn_scan(draw_carry, NULL, NULL, SN_TENSORS(zero, xs), other, 2), SN_OK);
    sn_seed(7);
    ck_assert_int_eq(sn_scan(draw_carry, NULL, NULL, SN_TENSORS(zero, xs), again, 2), SN_OK);
    ck_assert(same_bits(first[1], again[1]));
    ck_assert(!same_bits(first[1], other[1])); /* of another number */
    for (int64_t i = 1; i < 5; i++)            /* of another round */
        ck_assert(!same_bits(sn_select(first[1], 0, 0), sn_select(first[1], 0, i)));
    sn_seed(7);
    ck_assert(!same_bits(sn_select(first[1], 0, 0), sn_rand_like(zero))); /* and not the program's own */
}
END_TEST

static sn_status fails(sn_frame *f) {
    return sn_out(f, 0, sn_index_select(sn_rand_like(sn_in(f, 0)), 0, sn_closure(f)));
}

START_TEST(t1_what_fails_takes_no_number) {
    sn_tensor *const x = F32(1, 8), *const index = sn_from_data((const int64_t[]){9}, SN_INTS(1), SN_I64);
    sn_seed(3);
    sn_tensor *const first = sn_rand_like(x);
    sn_seed(3);
    ck_assert_ptr_null(cond1(true, fails, fails, index, x));
    ck_assert_int_eq(sn_error_take()->status, SN_ERR_VALUE);
    ck_assert(same_bits(sn_rand_like(x), first));
}
END_TEST

static sn_status seeds(sn_frame *f) {
    sn_seed(5);
    return sn_out(f, 0, sn_in(f, 0));
}

START_TEST(t1_a_body_does_not_seed) {
    ck_assert_ptr_null(cond1(true, seeds, seeds, NULL, F32(1, 8)));
    expect_error(SN_ERR_STATE, "sn_cond: its body seeds the generator");
}
END_TEST

/* T2 -------------------------------------------------------------------------------------------- */

static sn_status double_it(sn_frame *f) { return sn_out(f, 0, sn_mul_scalar(sn_in(f, 0), sn_float(2))); }
static sn_status to_int(sn_frame *f) { return sn_out(f, 0, sn_to(sn_in(f, 0), SN_I64)); }
static sn_status half_of_it(sn_frame *f) { return sn_out(f, 0, sn_narrow(sn_in(f, 0), 0, 0, 4)); }

static sn_status count_runs(sn_frame *f) {
    Weights *const w = sn_closure(f);
    w->runs++;
    return sn_out(f, 0, sn_add(sn_in(f, 0), w->w));
}

static sn_status ask_value(sn_frame *f) {
    Weights *const w = sn_closure(f);
    w->runs++;
    const double by = sn_item(sn_amax(sn_in(f, 0))) > 0 ? 3 : 4;
    return sn_out(f, 0, sn_mul_scalar(sn_in(f, 0), sn_float(by)));
}

START_TEST(t2_the_predicate_says_which_body_gives_the_result) {
    sn_tensor *const x = F32(1, 8);
    ck_assert(same_bits(cond1(true, double_it, pass_on, NULL, x), sn_mul_scalar(x, sn_float(2))));
    ck_assert(same_bits(cond1(false, double_it, pass_on, NULL, x), x));
    Weights other = {.w = F32(2, 8)}, one = {.w = F32(3, 8)};
    sn_tensor *out = NULL, *const no = sn_full(SN_INTS(1), sn_bool(false), SN_BOOL);
    const sn_cond_options options = {.size = sizeof options, .false_closure = &other};
    sn_cond(no, count_runs, count_runs, &one, &options, SN_TENSORS(x), &out, 1);
    ck_assert(same_bits(out, sn_add(x, other.w)));
}
END_TEST

START_TEST(t2_types_that_differ_are_named) {
    sn_tensor *const x = F32(1, 8);
    ck_assert_ptr_null(cond1(true, double_it, to_int, NULL, x));
    expect_error(SN_ERR_DTYPE, "sn_cond: result 0 is f32[8] in the true branch and i64[8] in the false branch");
    ck_assert_ptr_null(cond1(false, half_of_it, double_it, NULL, x));
    expect_error(SN_ERR_SHAPE, "sn_cond: result 0 is f32[4] in the true branch and f32[8] in the false branch");
}
END_TEST

START_TEST(t2_predicates_that_are_none) {
    sn_tensor *out = NULL, *const x = F32(1, 8);
    sn_cond(x, pass_on, pass_on, NULL, NULL, SN_TENSORS(x), &out, 1);
    expect_error(SN_ERR_DTYPE, "sn_cond: the predicate is f32[8], not one bool");
    sn_cond(sn_gt_scalar(x, sn_float(0)), pass_on, pass_on, NULL, NULL, SN_TENSORS(x), &out, 1);
    expect_error(SN_ERR_SHAPE, "sn_cond: the predicate is bool[8], not one bool");
    sn_cond(NULL, pass_on, pass_on, NULL, NULL, SN_TENSORS(x), &out, 1);
    expect_error(SN_ERR_ARGUMENT, "sn_cond: the predicate is NULL");
    sn_cond(x, NULL, pass_on, NULL, NULL, SN_TENSORS(x), &out, 1);
    expect_error(SN_ERR_ARGUMENT, "sn_cond: if_true is NULL");
    sn_tensor *const none[] = {NULL};
    sn_cond(x, pass_on, pass_on, NULL, NULL, (sn_tensors){none, 1}, &out, 1);
    expect_error(SN_ERR_ARGUMENT, "sn_cond: input 0 is NULL");
}
END_TEST

/* A body runs once to be traced; one that asks for a value runs itself, and only where it is taken. */
START_TEST(t2_a_body_that_cannot_be_traced_runs_eagerly) {
    sn_tensor *const x = F32(1, 8);
    Weights w = {.w = F32(2, 8)};
    ck_assert(same_bits(cond1(true, count_runs, count_runs, &w, x), sn_add(x, w.w)));
    ck_assert_int_eq(w.runs, 2); /* each branch once */
    w.runs = 0;
    ck_assert(same_bits(cond1(true, ask_value, ask_value, &w, x), sn_mul_scalar(x, sn_float(3))));
    ck_assert_int_eq(w.runs, 3);
    ck_assert_int_eq(sn_check(), SN_OK);
}
END_TEST

static sn_tensor *kept;
static sn_status keeps(sn_frame *f) {
    sn_tensor *const y = sn_neg(sn_in(f, 0));
    kept = sn_keep(y);
    return sn_out(f, 0, y);
}

START_TEST(t2_what_a_body_keeps_has_a_value) {
    sn_tensor *const x = F32(1, 8);
    ck_assert(same_bits(cond1(true, keeps, pass_on, NULL, x), sn_neg(x)));
    ck_assert(same_bits(kept, sn_neg(x)));
    sn_release(kept);
}
END_TEST

static sn_status write_input(sn_frame *f) { return sn_out(f, 0, sn_add_scalar_(sn_in(f, 0), sn_float(1))); }
static sn_status write_closed(sn_frame *f) {
    const Weights *const w = sn_closure(f);
    sn_mul_(sn_select(w->w, 0, 1), sn_select(sn_in(f, 0), 0, 0));
    return sn_out(f, 0, sn_in(f, 0));
}
static sn_status write_own(sn_frame *f) {
    sn_tensor *const y = sn_mul_scalar(sn_in(f, 0), sn_float(3));
    sn_zero_(sn_narrow(y, 0, 0, 2));
    return sn_out(f, 0, sn_relu_(y));
}

START_TEST(t2_outside_memory_is_not_written) {
    sn_tensor *const x = F32(1, 8), *const before = sn_clone(x);
    Weights w = {.w = F32(2, 8)};
    sn_tensor *const w_before = sn_clone(w.w);
    for (int taken = 0; taken < 2; taken++) {
        ck_assert_ptr_null(cond1(taken, write_input, double_it, NULL, x));
        expect_error(SN_ERR_ARGUMENT, "sn_cond: the true branch writes into its input 0 (by aten::add_");
        ck_assert_ptr_null(cond1(taken, double_it, write_closed, &w, x));
        expect_error(SN_ERR_ARGUMENT, "sn_cond: the false branch writes into closed over tensor 0 (by aten::mul_");
    }
    ck_assert(same_bits(x, before) && same_bits(w.w, w_before));
    sn_tensor *want = sn_mul_scalar(x, sn_float(3));
    sn_zero_(sn_narrow(want, 0, 0, 2));
    ck_assert(same_bits(cond1(true, write_own, double_it, NULL, x), sn_relu(want)));
}
END_TEST

static sn_status turn(sn_frame *f) { return sn_out(f, 0, sn_t(sn_in(f, 0))); }
static sn_status copy_turned(sn_frame *f) { return sn_out(f, 0, sn_contiguous(sn_t(sn_in(f, 0)))); }

START_TEST(t2_results_are_row_major_and_their_own) {
    sn_tensor *const x = F32(1, 3, 4);
    for (int taken = 0; taken < 2; taken++) {
        sn_tensor *const y = cond1(taken, turn, copy_turned, NULL, x);
        ck_assert(sn_is_contiguous(y) && same_bits(y, sn_contiguous(sn_t(x))));
        sn_zero_(y);
        ck_assert(sn_item(sn_amax(sn_abs(x))) > 0);
    }
    sn_tensor *const same = cond1(true, pass_on, pass_on, NULL, x);
    ck_assert_ptr_ne(same, x);
    sn_zero_(same);
    ck_assert(sn_item(sn_amax(sn_abs(x))) > 0);
}
END_TEST

static sn_status constant(sn_frame *f) {
    (void)f;
    return sn_out(f, 0, sn_ones(SN_INTS(8), SN_F32));
}
static sn_status times_w(sn_frame *f) {
    const Weights *const w = sn_closure(f);
    return sn_out(f, 0, sn_mul(sn_in(f, 0), w->w));
}

START_TEST(t2_results_require_gradients_if_they_do_in_either_branch) {
    Weights w = {.w = LEAF(2, 8)};
    sn_tensor *const x = F32(1, 8);
    sn_tensor *const y = cond1(false, times_w, constant, &w, x);
    ck_assert(sn_requires_grad(y));
    ck_assert_int_eq(sn_backward(sn_sum(y)), SN_OK);
    ck_assert(same_bits(sn_grad(w.w), sn_zeros(SN_INTS(8), SN_F32))); /* nothing of it came from w */
    ck_assert(!sn_requires_grad(cond1(false, constant, constant, &w, x)));
    sn_grad_mode_set(SN_GRAD_OFF);
    ck_assert(!sn_requires_grad(cond1(false, times_w, constant, &w, x)));
    sn_grad_mode_set(SN_GRAD_ON);
}
END_TEST

static sn_status take_ninth(sn_frame *f) { return sn_out(f, 0, sn_index_select(sn_in(f, 0), 0, sn_closure(f))); }
static sn_status consume_first(sn_frame *f) { return sn_out(f, 0, sn_narrow(sn_in(f, 0), 0, 0, 1)); }

START_TEST(t2_only_the_taken_branch_fails_on_values) {
    sn_tensor *const x = F32(1, 8), *const index = sn_from_data((const int64_t[]){9}, SN_INTS(1), SN_I64);
    ck_assert_ptr_nonnull(cond1(false, take_ninth, consume_first, index, x));
    ck_assert_ptr_null(cond1(true, take_ninth, consume_first, index, x));
    expect_error(SN_ERR_VALUE, "index");
}
END_TEST

static sn_status nested(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *out = NULL;
    sn_cond(sn_gt_scalar(sn_sum(x), sn_float(0)), double_it, pass_on, NULL, NULL, SN_TENSORS(x), &out, 1);
    return sn_out(f, 0, sn_add_scalar(out, sn_float(1)));
}

START_TEST(t2_control_flow_nests) {
    sn_tensor *const ones = sn_ones(SN_INTS(8), SN_F32);
    ck_assert(same_bits(cond1(true, nested, pass_on, NULL, ones), sn_full(SN_INTS(8), sn_float(3), SN_F32)));
    ck_assert(same_bits(cond1(true, nested, pass_on, NULL, sn_neg(ones)), sn_zeros(SN_INTS(8), SN_F32)));
}
END_TEST

/* Loops ----------------------------------------------------------------------------------------- */

static sn_status below_hundred(sn_frame *f) { return sn_out(f, 0, sn_lt_scalar(sn_sum(sn_in(f, 0)), sn_float(100))); }
static sn_status always(sn_frame *f) { return sn_out(f, 0, sn_ge_scalar(sn_sum(sn_in(f, 0)), sn_float(-1e30))); }
static sn_status widen(sn_frame *f) { return sn_out(f, 0, sn_to(sn_in(f, 0), SN_F64)); }

START_TEST(t2_a_loop_runs_while_its_condition_holds) {
    sn_tensor *const x = sn_ones(SN_INTS(8), SN_F32), *out = NULL;
    sn_while_loop(below_hundred, double_it, NULL, NULL, SN_TENSORS(x), &out, 1);
    ck_assert(same_bits(out, sn_full(SN_INTS(8), sn_float(16), SN_F32)));
    sn_tensor *const big = sn_full(SN_INTS(8), sn_float(50), SN_F32);
    sn_while_loop(below_hundred, double_it, NULL, NULL, SN_TENSORS(big), &out, 1);
    ck_assert(same_bits(out, big) && out != big);
}
END_TEST

START_TEST(t2_bad_loops_are_errors) {
    sn_tensor *const x = sn_ones(SN_INTS(8), SN_F32), *out = NULL;
    const sn_while_options bound = {.size = sizeof bound, .max_iterations = 17};
    sn_while_loop(always, double_it, NULL, &bound, SN_TENSORS(x), &out, 1);
    expect_error(SN_ERR_VALUE, "sn_while_loop: the condition still holds after max_iterations, 17");
    ck_assert_ptr_null(out);
    sn_while_loop(always, widen, NULL, &bound, SN_TENSORS(x), &out, 1);
    expect_error(SN_ERR_DTYPE, "sn_while_loop: carry 0 is f32[8] before the body and f64[8] behind it");
    sn_while_loop(double_it, double_it, NULL, &bound, SN_TENSORS(x), &out, 1);
    expect_error(SN_ERR_DTYPE, "sn_while_loop: what the condition gives is f32[8], not one bool");
    sn_scan(draw_carry, NULL, NULL, SN_TENSORS(x), &out, 1);
    expect_error(SN_ERR_ARGUMENT, "sn_scan: n_in is 1, n_out 1 and n_carry 1: nothing is left");
    sn_map(double_it, NULL, SN_MAP_OPTIONS(.dim = 3), SN_TENSORS(x), &out, 1);
    expect_error(SN_ERR_SHAPE, "sn_map: input 0 has 1 dims, and no dim 3");
    sn_map(double_it, NULL, NULL, SN_TENSORS(x, F32(1, 4)), &out, 1);
    expect_error(SN_ERR_SHAPE, "sn_map: input 1 has 4 in dim 0, input 0 has 8");
}
END_TEST

static sn_status cell(sn_frame *f) { /* h = tanh(h w + x v) */
    const Weights *const w = sn_closure(f);
    sn_tensor *const h = sn_matmul(sn_in(f, 0), w->w);
    sn_tensor *const next = sn_tanh(sn_add(h, sn_matmul(sn_in(f, 1), w->v)));
    sn_out(f, 0, next);
    return sn_out(f, 1, sn_mul(next, next));
}

enum { LENGTH = 5, WIDE = 4 };

/* The same by hand. */
static void by_hand(const Weights *w, sn_tensor *h, sn_tensor *xs, int64_t dim, bool reverse, sn_tensor **out) {
    sn_tensor *ys[LENGTH];
    for (int k = 0; k < LENGTH; k++) {
        const int i = reverse ? LENGTH - 1 - k : k;
        sn_tensor *const x = sn_select(xs, dim, i);
        sn_tensor *const a = sn_matmul(h, w->w);
        h = sn_tanh(sn_add(a, sn_matmul(x, w->v)));
        ys[i] = sn_mul(h, h);
    }
    out[0] = h;
    out[1] = sn_stack((sn_tensors){ys, LENGTH}, 0);
}

START_TEST(t3_scan_is_the_loop_bit_for_bit) {
    Weights w = {.w = F32(1, WIDE, WIDE), .v = F32(2, WIDE, WIDE)};
    for (int k = 0; k < 4; k++) {
        const int64_t dim = k & 1;
        const bool reverse = k & 2;
        sn_tensor *const h = F32(3, 2, WIDE);
        sn_tensor *const xs = dim ? F32(4, 2, LENGTH, WIDE) : F32(4, LENGTH, 2, WIDE);
        sn_tensor *want[2], *got[2];
        by_hand(&w, h, xs, dim, reverse, want);
        sn_scan(cell, &w, SN_SCAN_OPTIONS(.dim = dim, .reverse = reverse), SN_TENSORS(h, xs), got, 2);
        expect_ok();
        ck_assert(same_bits(want[0], got[0]) && same_bits(want[1], got[1]));
    }
    sn_tensor *none[2], *const h = F32(3, 2, WIDE);
    ck_assert_int_eq(sn_scan(cell, &w, NULL, SN_TENSORS(h, F32(4, 0, 2, WIDE)), none, 2), SN_OK);
    ck_assert(same_bits(none[0], h) && none[0] != h && sn_size(none[1], 0) == 0 && sn_size(none[1], 2) == WIDE);
}
END_TEST

/* A use behind the scan has its share of a gradient first, and the scan's rounds continue that sum, the last one first:
 * as by hand, bit for bit. */
START_TEST(t3_backward_continues_partial_sums_last_round_first) {
    for (int k = 0; k < 2; k++) {
        sn_tensor *grads[2][4];
        for (int by_op = 0; by_op < 2; by_op++) {
            Weights w = {.w = LEAF(1, WIDE, WIDE), .v = LEAF(2, WIDE, WIDE)};
            sn_tensor *const h = LEAF(3, 2, WIDE), *const xs = LEAF(4, LENGTH, 2, WIDE), *out[2];
            if (by_op)
                sn_scan(cell, &w, SN_SCAN_OPTIONS(.reverse = k), SN_TENSORS(h, xs), out, 2);
            else
                by_hand(&w, h, xs, 0, k, out);
            expect_ok();
            sn_tensor *const sum = sn_sum(out[1]);
            sn_tensor *const last = sn_sum(sn_matmul(out[0], w.w));
            ck_assert_int_eq(sn_backward(sn_add(sum, last)), SN_OK);
            sn_tensor *const leaves[] = {w.w, w.v, h, xs};
            for (int i = 0; i < 4; i++) grads[by_op][i] = sn_grad(leaves[i]);
        }
        for (int i = 0; i < 4; i++) ck_assert_msg(same_bits(grads[0][i], grads[1][i]), "leaf %d", i);
    }
}
END_TEST

static sn_status gated(sn_frame *f) {
    const Weights *const w = sn_closure(f);
    sn_tensor *const a = sn_mul(sn_in(f, 0), w->w);
    return sn_out(f, 0, sn_exp(sn_mul(a, w->w)));
}

START_TEST(t3_cond_and_map_have_the_gradients_of_what_ran) {
    sn_tensor *grads[3];
    for (int way = 0; way < 3; way++) {
        Weights w = {.w = LEAF(1, 3)};
        sn_tensor *const x = F32(2, 4, 3), *y = NULL;
        if (way == 0) y = sn_exp(sn_mul(sn_mul(x, w.w), w.w));
        if (way == 1) y = cond1(true, gated, pass_on, &w, x);
        if (way == 2) sn_map(gated, &w, NULL, SN_TENSORS(x), &y, 1);
        sn_tensor *const more = sn_sum(sn_mul(y, w.w));
        ck_assert_int_eq(sn_backward(more), SN_OK);
        grads[way] = sn_grad(w.w);
    }
    ck_assert(same_bits(grads[0], grads[1]));
    ck_assert(sn_allclose(grads[0], grads[2], 1e-5, 1e-5));
}
END_TEST

static sn_status grow(sn_frame *f) {
    const Weights *const w = sn_closure(f);
    return sn_out(f, 0, sn_add(sn_in(f, 0), w->w));
}

START_TEST(t3_a_while_loop_gives_no_gradients_and_says_so) {
    Weights w = {.w = sn_ones(SN_INTS(4), SN_F32)};
    sn_tensor *const leaf = LEAF(1, 4), *const plain = F32(1, 4), *out = NULL;
    sn_while_loop(below_hundred, grow, &w, NULL, SN_TENSORS(leaf), &out, 1);
    expect_error(SN_ERR_ARGUMENT, "sn_while_loop: input 0 requires gradients");
    sn_requires_grad_(w.w, true);
    sn_while_loop(below_hundred, grow, &w, NULL, SN_TENSORS(plain), &out, 1);
    expect_error(SN_ERR_ARGUMENT, "closed over tensor 0 requires gradients, which a loop of unknown length does not "
                                  "give: use sn_scan");
    const sn_scope mark = sn_no_grad_begin();
    sn_while_loop(below_hundred, grow, &w, NULL, SN_TENSORS(leaf), &out, 1);
    expect_ok();
    ck_assert(!sn_requires_grad(out) && sn_item(sn_sum(out)) >= 100);
    sn_scope_end(mark);
}
END_TEST

/* In a compiled function it runs eagerly, with the same bits and the reason. */
static sn_status with_flow(sn_frame *f) {
    Weights *const w = sn_closure(f);
    sn_tensor *const x = sn_mul(sn_in(f, 0), w->w), *out[2], *y = NULL;
    sn_cond(sn_gt_scalar(sn_sum(x), sn_float(0)), gated, pass_on, w, NULL, SN_TENSORS(x), &y, 1);
    sn_scan(draw_carry, NULL, NULL, SN_TENSORS(sn_sum_dim(y, SN_INTS(0), false), y), out, 2);
    return sn_out(f, 0, sn_add(out[1], out[0]));
}

START_TEST(t1_compiled_functions_have_eagers_bits) {
    Weights a = {.w = LEAF(1, 3)}, b = {.w = LEAF(1, 3)};
    const Twin twin = twin_new(with_flow, &a, &b, NULL);
    for (int i = 0; i < 4; i++) {
        sn_tensor *y[2];
        for (int k = 0; k < 2; k++) {
            sn_seed(9);
            y[k] = SN_CALL(k ? twin.eager : twin.fast, F32(2 + (uint64_t)i, 4, 3));
            ck_assert_int_eq(sn_backward(sn_sum(y[k])), SN_OK);
        }
        ck_assert(same_bits(y[0], y[1]));
        ck_assert(same_bits(sn_grad(a.w), sn_grad(b.w)));
    }
    ck_assert(strstr(sn_explain(twin.fast), "control flow runs eagerly"));
    twin_free(twin);
}
END_TEST

/* Without gradients all four are ops of one graph, random numbers and bodies in bodies included. */
static sn_status all_four(sn_frame *f) {
    Weights *const w = sn_closure(f);
    sn_tensor *const x = sn_mul(sn_in(f, 0), w->w), *out[2], *y = NULL, *z = NULL, *q = NULL;
    w->runs++;
    sn_cond(sn_gt_scalar(sn_sum(x), sn_float(0)), nested, draw_twice, w, NULL, SN_TENSORS(x), &y, 1);
    sn_scan(draw_carry, w, SN_SCAN_OPTIONS(.reverse = true), SN_TENSORS(sn_t(sn_t(sn_select(y, 0, 0))), y), out, 2);
    sn_map(nested, w, SN_MAP_OPTIONS(.dim = 1), SN_TENSORS(sn_t(out[1])), &z, 1);
    sn_while_loop(below_hundred, grow, w, NULL, SN_TENSORS(sn_abs(x)), &q, 1);
    sn_tensor *const noise = sn_rand_like(q);
    return sn_out(f, 0, sn_add(sn_add(q, noise), sn_add(sn_t(z), out[0])));
}

START_TEST(t2_without_gradients_it_is_part_of_one_graph) {
    static const sn_compile_mode modes[] = {SN_COMPILE_VERIFY, SN_COMPILE_REPLAY};
    for (int m = 0; m < 2; m++) {
        Weights a = {.w = sn_ones(SN_INTS(4, 4), SN_F32)}, b = {.w = sn_ones(SN_INTS(4, 4), SN_F32)};
        const Twin twin = twin_new(all_four, &a, &b, SN_COMPILE_OPTIONS(.mode = modes[m], .full_graph = true));
        for (int i = 0; i < 6; i++) {
            sn_tensor *y[2], *after[2];
            for (int k = 0; k < 2; k++) {
                sn_seed(9);
                sn_tensor *const x = F32(2 + (uint64_t)i, 4, 4);
                y[k] = SN_CALL(k ? twin.eager : twin.fast, i & 1 ? sn_abs(x) : sn_neg(sn_abs(x)));
                ck_assert_msg(y[k], "%s", sn_error_take()->message);
                after[k] = sn_rand_like(y[k]);
            }
            ck_assert(same_bits(y[0], y[1]) && same_bits(after[0], after[1]));
        }
        const sn_stats stats = stats_of(twin.fast);
        ck_assert_int_eq(stats.graphs, 1);
        ck_assert_int_eq(stats.breaks, 0);
        ck_assert_int_eq(stats.ops_eager, 0);
        ck_assert(m == 0 || a.runs < 6);
        ck_assert(strstr(sn_dump(twin.fast, "capture"), "sn::cond(") &&
                  strstr(sn_dump(twin.fast, "loops"), "sn::scan("));
        twin_free(twin);
    }
}
END_TEST

static sn_status checked(sn_frame *f) {
    Weights *const w = sn_closure(f);
    sn_tensor *const x = sn_in(f, 0), *y = NULL;
    sn_cond(sn_gt_scalar(sn_sum(x), sn_float(0)), take_ninth, consume_first, w->v, NULL, SN_TENSORS(x), &y, 1);
    sn_add_scalar_(w->w, sn_float(1));
    return sn_out(f, 0, y);
}

/* Compiled too: the check of the branch that is not taken does not fail, and after one that does nothing is written. */
START_TEST(t2_a_compiled_branch_fails_as_in_eager) {
    sn_tensor *const index = sn_from_data((const int64_t[]){9}, SN_INTS(1), SN_I64);
    Weights w = {.w = F32(2, 8), .v = index};
    sn_function *const fast = sn_compile(checked, &w, NULL);
    sn_tensor *const up = sn_ones(SN_INTS(8), SN_F32), *const down = sn_neg(up);
    for (int i = 0; i < 3; i++) ck_assert(same_bits(SN_CALL(fast, down), sn_narrow(down, 0, 0, 1)));
    sn_tensor *const before = sn_clone(w.w);
    ck_assert_ptr_null(SN_CALL(fast, up));
    expect_error(SN_ERR_VALUE, "index");
    ck_assert(same_bits(w.w, before));
    ck_assert(same_bits(SN_CALL(fast, down), sn_narrow(down, 0, 0, 1)));
    ck_assert_int_eq(stats_of(fast).breaks, 0);
    sn_function_free(fast);
}
END_TEST

/* What is wrong is said when the op is recorded, as in eager. */
static sn_status differs(sn_frame *f) {
    sn_tensor *y = NULL, *const x = sn_in(f, 0);
    sn_cond(sn_gt_scalar(sn_sum(x), sn_float(0)), double_it, to_int, NULL, NULL, SN_TENSORS(x), &y, 1);
    return sn_out(f, 0, y);
}

static sn_status bounded(sn_frame *f) {
    sn_tensor *y = NULL;
    sn_while_loop(always, double_it, NULL, SN_WHILE_OPTIONS(.max_iterations = 17), SN_TENSORS(sn_in(f, 0)), &y, 1);
    return sn_out(f, 0, y);
}

START_TEST(t2_compiled_errors_are_those_of_eager) {
    sn_function *const bad = sn_compile(differs, NULL, NULL), *const endless = sn_compile(bounded, NULL, NULL);
    sn_tensor *const x = sn_ones(SN_INTS(8), SN_F32);
    for (int i = 0; i < 3; i++) {
        ck_assert_ptr_null(SN_CALL(bad, x));
        expect_error(SN_ERR_DTYPE, "sn_cond: result 0 is f32[8] in the true branch and i64[8] in the false branch");
        sn_tensor *const y = SN_CALL(endless, x);
        sn_check() ? (void)0 : (void)sn_item(sn_sum(y));
        expect_error(SN_ERR_VALUE, "sn_while_loop: the condition still holds after max_iterations, 17");
    }
    sn_function_free(bad);
    sn_function_free(endless);
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("control flow");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, t1_control_flow_takes_one_sequence_number);
    tcase_add_test(tests, t1_random_numbers_inside_count_through_the_rounds);
    tcase_add_test(tests, t1_what_fails_takes_no_number);
    tcase_add_test(tests, t1_a_body_does_not_seed);
    tcase_add_test(tests, t1_compiled_functions_have_eagers_bits);
    tcase_add_test(tests, t2_the_predicate_says_which_body_gives_the_result);
    tcase_add_test(tests, t2_types_that_differ_are_named);
    tcase_add_test(tests, t2_predicates_that_are_none);
    tcase_add_test(tests, t2_a_body_that_cannot_be_traced_runs_eagerly);
    tcase_add_test(tests, t2_what_a_body_keeps_has_a_value);
    tcase_add_test(tests, t2_outside_memory_is_not_written);
    tcase_add_test(tests, t2_results_are_row_major_and_their_own);
    tcase_add_test(tests, t2_results_require_gradients_if_they_do_in_either_branch);
    tcase_add_test(tests, t2_only_the_taken_branch_fails_on_values);
    tcase_add_test(tests, t2_control_flow_nests);
    tcase_add_test(tests, t2_a_loop_runs_while_its_condition_holds);
    tcase_add_test(tests, t2_bad_loops_are_errors);
    tcase_add_test(tests, t2_without_gradients_it_is_part_of_one_graph);
    tcase_add_test(tests, t2_a_compiled_branch_fails_as_in_eager);
    tcase_add_test(tests, t2_compiled_errors_are_those_of_eager);
    tcase_add_test(tests, t3_scan_is_the_loop_bit_for_bit);
    tcase_add_test(tests, t3_backward_continues_partial_sums_last_round_first);
    tcase_add_test(tests, t3_cond_and_map_have_the_gradients_of_what_ran);
    tcase_add_test(tests, t3_a_while_loop_gives_no_gradients_and_says_so);
    return suite_run("control flow", tests);
}
