/* test_flow_gradients.c: gradients of control flow in compiled functions [semantics T1, T2, T3]: one graph, eager's
 * bits, whichever branch is taken, whatever the sums before it hold. */
#include "runtime/device/execute.h"
#include "tests/unit/contract.h"

enum { WIDE = 4, LENGTH = 5, WEIGHTS = 3, CALLS = 4 };

typedef struct Cell Cell;
typedef sn_tensor *LossFn(Cell *c, sn_tensor *x);
struct Cell {
    sn_tensor *w[WEIGHTS];
    bool inside; /* the backward is part of the function */
    LossFn *loss;
};

/* Bodies -------------------------------------------------------------------------------------------------- */

static sn_status cell(sn_frame *f) { /* h = tanh(h w0 + x w1) */
    const Cell *const c = sn_closure(f);
    sn_tensor *const h = sn_matmul(sn_in(f, 0), c->w[0]);
    sn_tensor *const next = sn_tanh(sn_add(h, sn_matmul(sn_in(f, 1), c->w[1])));
    sn_out(f, 0, next);
    return sn_out(f, 1, sn_mul(next, next));
}

static sn_status noisy_cell(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 1), *const kept = sn_mul(x, sn_rand_like(x));
    const Cell *const c = sn_closure(f);
    sn_tensor *const next = sn_sin(sn_add(sn_matmul(sn_in(f, 0), c->w[0]), kept));
    sn_out(f, 0, next);
    return sn_out(f, 1, sn_in(f, 0));
}

static sn_status grow(sn_frame *f) {
    const Cell *const c = sn_closure(f);
    return sn_out(f, 0, sn_exp(sn_matmul(sn_in(f, 0), sn_mul(c->w[0], c->w[2]))));
}

static sn_status shrink(sn_frame *f) {
    const Cell *const c = sn_closure(f);
    sn_tensor *const y = sn_mul_scalar(sn_in(f, 0), sn_float(0.25));
    sn_relu_(sn_select(y, 0, 0));
    return sn_out(f, 0, sn_mul(y, c->w[1]));
}

static sn_tensor *cond(sn_tensor *x, void *closure) {
    sn_tensor *y = NULL;
    sn_cond(sn_gt_scalar(sn_sum(x), sn_float(0)), grow, shrink, closure, NULL, SN_TENSORS(x), &y, 1);
    return y;
}

static sn_status cond_cell(sn_frame *f) {
    sn_tensor *const next = sn_add(sn_mul_scalar(sn_in(f, 0), sn_float(0.5)), cond(sn_in(f, 1), sn_closure(f)));
    sn_out(f, 0, next);
    return sn_out(f, 1, sn_cos(next));
}

/* Losses: of x f32[5, 4, 4], with uses of the weights before and behind ------------------------------------- */

static sn_tensor *scan_with(Cell *c, sn_tensor *x, sn_body body, bool reverse) {
    sn_tensor *out[2] = {NULL}, *const start = sn_matmul(sn_select(x, 0, 0), c->w[0]);
    sn_scan(body, c, SN_SCAN_OPTIONS(.reverse = reverse), SN_TENSORS(start, x), out, 2);
    sn_tensor *const behind = sn_sum(sn_matmul(out[0], c->w[0]));
    return sn_add(behind, sn_sum(out[1]));
}

static sn_tensor *scan_loss(Cell *c, sn_tensor *x) { return scan_with(c, x, cell, false); }
static sn_tensor *reverse_loss(Cell *c, sn_tensor *x) { return scan_with(c, x, cell, true); }
static sn_tensor *noisy_loss(Cell *c, sn_tensor *x) { return scan_with(c, x, noisy_cell, false); }
static sn_tensor *nested_loss(Cell *c, sn_tensor *x) { return scan_with(c, x, cond_cell, false); }

static sn_tensor *cond_loss(Cell *c, sn_tensor *x) {
    sn_tensor *const before = sn_mul(sn_select(x, 0, 1), c->w[2]);
    sn_tensor *const y = cond(sn_select(x, 0, 0), c), *const z = cond(sn_tanh(before), c);
    return sn_sum(sn_add(sn_mul(y, c->w[2]), z));
}

static sn_status twice_as_input(sn_frame *f) {
    sn_tensor *const p = sn_mul(sn_in(f, 0), sn_in(f, 1));
    return sn_out(f, 0, sn_matmul(p, ((Cell *)sn_closure(f))->w[0]));
}

/* One tensor is both inputs, and views of it what the body closes over; it has a sum before. */
static sn_tensor *map_loss(Cell *c, sn_tensor *x) {
    sn_tensor *y = NULL;
    sn_map(twice_as_input, c, NULL, SN_TENSORS(c->w[0], c->w[0]), &y, 1);
    return sn_sum(sn_add(sn_mul(y, c->w[0]), sn_mean(x)));
}

/* Along another dim, of views, a carry that is no copy of itself; what is scanned has a sum before. */
static sn_tensor *strided_loss(Cell *c, sn_tensor *x) {
    sn_tensor *out[2] = {NULL}, *const turned = sn_transpose(x, 0, 1), *const start = sn_t(c->w[1]);
    sn_scan(cell, c, SN_SCAN_OPTIONS(.dim = 1), SN_TENSORS(start, turned), out, 2);
    sn_tensor *const squares = sn_sum(sn_mul(turned, turned));
    return sn_add(sn_add(sn_sum(out[0]), sn_sum(sn_mul(out[1], out[1]))), squares);
}

/* Gradients of -0, with sums before and without, of several rounds and of one. */
static sn_tensor *zero_loss_of(Cell *c, sn_tensor *x, bool before) {
    sn_tensor *out[2] = {NULL}, *const none = sn_full(SN_INTS(), sn_float(-0.0), SN_F32);
    sn_scan(cell, c, NULL, SN_TENSORS(sn_mul(sn_select(x, 0, 0), none), x), out, 2);
    sn_tensor *const sum = sn_sum(sn_mul(out[1], none));
    return before ? sn_add(sum, sn_sum(sn_mul(x, none))) : sum;
}

static sn_tensor *zero_loss(Cell *c, sn_tensor *x) { return zero_loss_of(c, x, false); }
static sn_tensor *zero_sum_loss(Cell *c, sn_tensor *x) { return zero_loss_of(c, x, true); }
static sn_tensor *one_round_loss(Cell *c, sn_tensor *x) { return zero_loss_of(c, sn_narrow(x, 0, 0, 1), false); }
static sn_tensor *one_round_sum_loss(Cell *c, sn_tensor *x) { return zero_loss_of(c, sn_narrow(x, 0, 2, 1), true); }

/* What the body gives is what it was given, and one value more than once. */
static sn_status passing_cell(sn_frame *f) {
    const Cell *const c = sn_closure(f);
    sn_tensor *const next = sn_mul(sn_in(f, 0), c->w[0]);
    sn_out(f, 0, next);
    sn_out(f, 1, sn_in(f, 0));
    sn_out(f, 2, sn_in(f, 2));
    sn_out(f, 3, sn_in(f, 0));
    return sn_out(f, 4, next);
}

static sn_tensor *passing_loss(Cell *c, sn_tensor *x) {
    sn_tensor *out[5] = {NULL}, *const a = sn_select(x, 0, 0), *const b = sn_tanh(c->w[1]);
    sn_scan(passing_cell, c, SN_SCAN_OPTIONS(.carries = 2), SN_TENSORS(a, b, x), out, 5);
    sn_tensor *loss = sn_sum(sn_mul(out[1], c->w[0]));
    for (int i = 0; i < 5; i++) loss = sn_add(loss, sn_sum(sn_sin(out[i])));
    return loss;
}

/* A body in the body uses more tensors than a step of a plan has results. */
enum { PARTS = 10 };
static sn_status product_of_parts(sn_frame *f) {
    sn_tensor *const *const parts = sn_closure(f);
    sn_tensor *y = sn_in(f, 0);
    for (int i = 0; i < PARTS; i++) y = sn_mul(sn_add(y, parts[i]), parts[(i + 1) % PARTS]);
    return sn_out(f, 0, y);
}

static sn_status cell_of_parts(sn_frame *f) {
    const Cell *const c = sn_closure(f);
    sn_tensor *parts[PARTS], *y = NULL;
    for (int i = 0; i < PARTS; i++)
        parts[i] = sn_mul_scalar(sn_select(c->w[i & 1], 0, i % WIDE), sn_float(0.3 + i * 0.1));
    sn_map(product_of_parts, parts, NULL, SN_TENSORS(sn_in(f, 1)), &y, 1);
    sn_out(f, 0, sn_tanh(sn_add(sn_in(f, 0), y)));
    return sn_out(f, 1, y);
}
static sn_tensor *parts_loss(Cell *c, sn_tensor *x) { return scan_with(c, x, cell_of_parts, false); }

/* The history of y does not see what is written to it. */
static sn_status unseen_cell(sn_frame *f) {
    const Cell *const c = sn_closure(f);
    sn_tensor *const y = sn_mul(sn_in(f, 0), c->w[0]);
    const sn_scope off = sn_no_grad_begin();
    sn_mul_scalar_(y, sn_float(2));
    sn_scope_end(off);
    sn_tensor *const next = sn_add(y, sn_in(f, 1));
    sn_out(f, 0, next);
    return sn_out(f, 1, next);
}
static sn_tensor *unseen_loss(Cell *c, sn_tensor *x) { return scan_with(c, x, unseen_cell, false); }

static sn_status detached_cell(sn_frame *f) {
    const Cell *const c = sn_closure(f);
    sn_tensor *const y = sn_mul(sn_in(f, 0), c->w[0]);
    sn_mul_scalar_(sn_detach(y), sn_float(2));
    sn_tensor *const next = sn_add(y, sn_in(f, 1));
    sn_out(f, 0, next);
    return sn_out(f, 1, next);
}
static sn_tensor *detached_loss(Cell *c, sn_tensor *x) { return scan_with(c, x, detached_cell, true); }

/* Carries that take each other's place, and are one value. */
static sn_status swapping_cell(sn_frame *f) {
    sn_tensor *const sum = sn_add(sn_in(f, 0), sn_in(f, 1));
    sn_out(f, 0, sn_in(f, 1));
    sn_out(f, 1, sum);
    sn_out(f, 2, sn_in(f, 0));
    return sn_out(f, 3, sn_mul(sum, sn_in(f, 3)));
}
static sn_tensor *swapping_loss(Cell *c, sn_tensor *x) {
    sn_tensor *out[4] = {NULL};
    sn_scan(swapping_cell, c, SN_SCAN_OPTIONS(.carries = 3), SN_TENSORS(c->w[0], sn_t(c->w[1]), c->w[2], x), out, 4);
    sn_tensor *loss = sn_sum(sn_mul(out[3], out[0]));
    for (int i = 0; i < 3; i++) loss = sn_add(loss, sn_sum(sn_sin(out[i])));
    return loss;
}

static LossFn *const losses[] = {scan_loss,     reverse_loss,   noisy_loss,         nested_loss,
                                 cond_loss,     map_loss,       strided_loss,       zero_loss,
                                 zero_sum_loss, one_round_loss, one_round_sum_loss, passing_loss,
                                 parts_loss,    unseen_loss,    detached_loss,      swapping_loss};
enum { LOSSES = sizeof losses / sizeof *losses };

static sn_status whole(sn_frame *f) {
    Cell *const c = sn_closure(f);
    sn_tensor *const loss = c->loss(c, sn_in(f, 0));
    if (c->inside) sn_backward(loss);
    return sn_out(f, 0, loss);
}

/* Running --------------------------------------------------------------------------------------------------- */

typedef struct Ran {
    sn_tensor *loss, *of_x, *grads[WEIGHTS];
} Ran;

static void cell_fill(Cell *c, LossFn *loss, bool inside) {
    *c = (Cell){.inside = inside, .loss = loss};
    for (int i = 0; i < WEIGHTS; i++) c->w[i] = LEAF(20 + i, WIDE, WIDE);
}

/* The sign of x's sum says which branch is taken. */
static Ran run(sn_function *fn, Cell *c, int call) {
    Ran ran = {0};
    sn_tensor *const values = F32(7 + call, LENGTH, WIDE, WIDE);
    sn_tensor *const x = sn_requires_grad_(call & 1 ? sn_abs(values) : sn_neg(sn_abs(values)), true);
    for (int i = 0; i < WEIGHTS; i++) sn_grad_set(c->w[i], NULL);
    sn_seed(100 + call);
    ran.loss = SN_CALL(fn, x);
    ck_assert_msg(ran.loss != NULL, "%s", sn_error_take()->message);
    if (!c->inside) ck_assert_msg(sn_backward(ran.loss) == SN_OK, "%s", sn_error_take()->message);
    ran.of_x = sn_grad(x);
    for (int i = 0; i < WEIGHTS; i++) ran.grads[i] = sn_grad(c->w[i]);
    return ran;
}

static void same_runs(const Ran *a, const Ran *b) {
    ck_assert(same_bits(a->loss, b->loss));
    ck_assert(same_bits(a->of_x, b->of_x));
    for (int i = 0; i < WEIGHTS; i++) ck_assert_msg(same_bits(a->grads[i], b->grads[i]), "weight %d", i);
}

static void compare(LossFn *loss, bool inside) {
    Cell cells[2];
    for (int i = 0; i < 2; i++) cell_fill(&cells[i], loss, inside);
    const Twin twin = twin_new(whole, &cells[0], &cells[1], NULL);
    for (int call = 0; call < CALLS; call++) {
        const Ran want = run(twin.eager, &cells[1], call), got = run(twin.fast, &cells[0], call);
        same_runs(&want, &got);
    }
    const sn_stats stats = stats_of(twin.fast);
    ck_assert_msg(!stats.breaks && stats.graphs == 1 && last_path() == SN_PATH_COMPILED, "%s", sn_explain(twin.fast));
    const char *const text = sn_dump(twin.fast, inside ? "joint" : "backward");
    ck_assert_msg(text && strstr(text, "_backward("), "%s", text);
    twin_free(twin);
}

START_TEST(t3_compiled_training_is_one_graph_with_eagers_bits) { compare(losses[_i / 2], _i & 1); }
END_TEST

/* Beside the usual backward ------------------------------------------------------------------------------- */

static sn_status two_results(sn_frame *f) {
    Cell *const c = sn_closure(f);
    sn_tensor *const x = sn_in(f, 0), *out[2] = {NULL};
    sn_scan(noisy_cell, c, NULL, SN_TENSORS(sn_select(x, 0, 0), x), out, 2);
    sn_out(f, 0, out[0]);
    return sn_out(f, 1, out[1]);
}

typedef struct Use {
    bool first, second; /* results that have gradients */
    bool behind;        /* w[0] has a sum already */
    bool frozen;        /* x requires none */
    bool twice;
} Use;

static const Use uses[] = {{.first = true},
                           {.second = true},
                           {.first = true, .behind = true},
                           {.second = true, .frozen = true},
                           {.first = true, .second = true, .behind = true, .twice = true}};
enum { USES = sizeof uses / sizeof *uses };

static void use(sn_function *fn, Cell *c, const Use *how, sn_tensor **grads) {
    sn_tensor *const x = sn_requires_grad_(F32(5, LENGTH, WIDE, WIDE), !how->frozen), *out[2] = {NULL};
    sn_grad_set(c->w[0], NULL);
    sn_seed(3);
    ck_assert_msg(sn_call(fn, &x, 1, out, 2) == SN_OK, "%s", sn_error_take()->message);
    sn_tensor *loss = sn_sum(how->first ? sn_exp(out[0]) : sn_sin(out[1]));
    if (how->first && how->second) loss = sn_add(loss, sn_sum(sn_mul(out[1], out[1])));
    if (how->behind) loss = sn_add(loss, sn_sum(sn_matmul(c->w[0], c->w[0])));
    for (int i = 0; i <= how->twice; i++)
        ck_assert_msg(sn_backward_ex(SN_TENSORS(loss), (sn_tensors){0}, !i && how->twice ? SN_RETAIN_GRAPH : 0) ==
                          SN_OK,
                      "%s", sn_error_take()->message);
    grads[0] = sn_grad(c->w[0]);
    grads[1] = sn_grad(x);
}

START_TEST(t3_other_keys_and_expanded_nodes_have_eagers_bits) {
    Cell cells[2];
    for (int i = 0; i < 2; i++) cell_fill(&cells[i], NULL, false);
    const Twin twin = twin_new(two_results, &cells[0], &cells[1], NULL);
    for (int i = 0; i < 2 * USES; i++) {
        sn_tensor *want[2], *got[2];
        use(twin.eager, &cells[1], &uses[i % USES], want);
        use(twin.fast, &cells[0], &uses[i % USES], got);
        ck_assert_msg(same_bits(want[0], got[0]) && same_bits(want[1], got[1]), "use %d", i);
    }
    ck_assert_int_eq(stats_of(twin.fast).breaks, 0);
    twin_free(twin);
}
END_TEST

/* The same by hand, with the numbers that the scan draws left out. */
static sn_status by_hand(sn_frame *f) {
    const Cell *const c = sn_closure(f);
    sn_tensor *const x = sn_in(f, 0), *ys[LENGTH];
    sn_tensor *h = sn_select(x, 0, 0);
    for (int i = 0; i < LENGTH; i++) {
        sn_tensor *const slice = sn_select(x, 0, i);
        sn_tensor *const a = sn_matmul(h, c->w[0]);
        h = sn_tanh(sn_add(a, sn_matmul(slice, c->w[1])));
        ys[i] = sn_mul(h, h);
    }
    sn_out(f, 0, h);
    return sn_out(f, 1, sn_stack((sn_tensors){ys, LENGTH}, 0));
}

static sn_status by_scan(sn_frame *f) {
    Cell *const c = sn_closure(f);
    sn_tensor *const x = sn_in(f, 0), *out[2] = {NULL};
    sn_scan(cell, c, NULL, SN_TENSORS(sn_select(x, 0, 0), x), out, 2);
    sn_out(f, 0, out[0]);
    return sn_out(f, 1, out[1]);
}

/* The gradient of the norm of a gradient. */
static void second_order(sn_function *fn, Cell *c, sn_tensor **second) {
    sn_tensor *const x = LEAF(5, LENGTH, WIDE, WIDE), *out[2] = {NULL}, *first = NULL;
    sn_call(fn, &x, 1, out, 2);
    sn_tensor *const loss = sn_add(sn_sum(sn_exp(out[0])), sn_sum(out[1]));
    sn_gradients(SN_TENSORS(loss), SN_TENSORS(c->w[0]), (sn_tensors){0}, SN_CREATE_GRAPH, &first);
    ck_assert_msg(first != NULL, "%s", sn_error_take()->message);
    sn_gradients(SN_TENSORS(sn_sum(sn_mul(first, first))), SN_TENSORS(c->w[0], x), (sn_tensors){0}, 0, second);
    ck_assert_msg(second[0] && second[1], "%s", sn_error_take()->message);
}

START_TEST(t3_double_backward_goes_through_the_rounds) {
    Cell cells[3];
    for (int i = 0; i < 3; i++) cell_fill(&cells[i], NULL, false);
    const Twin twin = twin_new(by_scan, &cells[0], &cells[1], NULL);
    sn_function *const hand = sn_compile(by_hand, &cells[2], SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
    for (int i = 0; i < 3; i++) {
        sn_tensor *want[2], *got[2], *loop[2];
        second_order(twin.eager, &cells[1], want);
        second_order(twin.fast, &cells[0], got);
        second_order(hand, &cells[2], loop);
        for (int k = 0; k < 2; k++) {
            ck_assert_msg(same_bits(want[k], got[k]), "bits of call %d, gradient %d", i, k);
            ck_assert_msg(sn_allclose(want[k], loop[k], 1e-4, 1e-4), "call %d, gradient %d", i, k);
        }
    }
    sn_function_free(hand);
    twin_free(twin);
}
END_TEST

START_TEST(t3_what_an_op_of_control_flow_uses_may_not_change) {
    Cell cells[2];
    for (int i = 0; i < 2; i++) cell_fill(&cells[i], NULL, false);
    const Twin twin = twin_new(by_scan, &cells[0], &cells[1], NULL);
    for (int i = 0; i < 6; i++) {
        sn_tensor *const x = F32(5, LENGTH, WIDE, WIDE), *out[2];
        sn_call(i & 1 ? twin.fast : twin.eager, &x, 1, out, 2);
        sn_zero_(x);
        ck_assert_int_ne(sn_backward(sn_sum(out[0])), SN_OK);
        expect_error(SN_ERR_STATE, "ScanBackward");
    }
    twin_free(twin);
}
END_TEST

/* What a body saved and then wrote: its backward is eager's error, with code too. */
static sn_status overwriting_cell(sn_frame *f) {
    const Cell *const c = sn_closure(f);
    sn_tensor *const y = sn_exp(sn_in(f, 0));
    sn_tensor *const kept = sn_mul(y, c->w[0]);
    sn_mul_scalar_(y, sn_float(2));
    sn_out(f, 0, sn_add(sn_in(f, 0), sn_in(f, 1)));
    return sn_out(f, 1, kept);
}

static sn_tensor *overwriting_loss(Cell *c, sn_tensor *x) { return scan_with(c, x, overwriting_cell, false); }

static void backward_fails(LossFn *loss, sn_status status, const char *why) {
    Cell cells[2];
    for (int i = 0; i < 2; i++) cell_fill(&cells[i], loss, false);
    const Twin twin = twin_new(whole, &cells[0], &cells[1], NULL);
    for (int i = 0; i < 6; i++) {
        sn_tensor *const y = SN_CALL(i & 1 ? twin.fast : twin.eager, LEAF(5, LENGTH, WIDE, WIDE));
        ck_assert_msg(y != NULL, "%s", sn_error_take()->message);
        ck_assert_msg(sn_backward(y) != SN_OK, "call %d", i);
        expect_error(status, why);
    }
    twin_free(twin);
}

START_TEST(t3_what_eagers_tape_refuses_in_a_body_is_refused_with_code) {
    backward_fails(overwriting_loss, SN_ERR_STATE, "that it saved at version 0");
}
END_TEST

static int n_hooks;
static sn_status count_hook(sn_frame *f) {
    (void)f;
    n_hooks++;
    return SN_OK;
}

START_TEST(t3_hooks_of_what_is_used_run_once) {
    Cell cells[2];
    for (int i = 0; i < 2; i++) cell_fill(&cells[i], NULL, false);
    const Twin twin = twin_new(by_scan, &cells[0], &cells[1], NULL);
    for (int i = 0; i < 4; i++) {
        Cell *const c = &cells[!(i & 1)];
        sn_tensor *const x = sn_mul_scalar(LEAF(5, LENGTH, WIDE, WIDE), sn_float(0.5)), *out[2];
        const int64_t on_w = sn_hook_add(c->w[0], count_hook, NULL), on_x = sn_hook_add(x, count_hook, NULL);
        n_hooks = 0;
        sn_call(i & 1 ? twin.fast : twin.eager, &x, 1, out, 2);
        ck_assert_msg(sn_backward(sn_sum(out[0])) == SN_OK, "%s", sn_error_take()->message);
        ck_assert_int_eq(n_hooks, 2);
        ck_assert_int_ne(sn_backward(sn_sum(out[1])), SN_OK); /* without retain_graph */
        expect_error(SN_ERR_STATE, "go twice");
        sn_hook_remove(c->w[0], on_w);
        sn_hook_remove(x, on_x);
    }
    twin_free(twin);
}
END_TEST

/* What cannot be one op says why ---------------------------------------------------------------------------- */

static sn_status detached(sn_frame *f) {
    sn_tensor *const y = sn_matmul(sn_in(f, 0), ((Cell *)sn_closure(f))->w[0]);
    sn_out(f, 0, y);
    return sn_out(f, 1, sn_detach(y));
}

static sn_status with_detached(sn_frame *f) {
    sn_tensor *out[2] = {NULL};
    sn_map(detached, sn_closure(f), NULL, SN_TENSORS(sn_in(f, 0)), out, 2);
    ck_assert(!sn_requires_grad(out[1]) && sn_requires_grad(out[0]));
    return sn_out(f, 0, sn_add(out[0], out[1]));
}

static sn_status sum_all(sn_frame *f) {
    sn_tensor *y = sn_in(f, 0);
    sn_tensor *const *const w = sn_closure(f);
    for (int i = 0; i < 9; i++) y = sn_add(y, w[i]);
    return sn_out(f, 0, y);
}

static sn_status with_many(sn_frame *f) {
    sn_tensor *y = NULL;
    sn_map(sum_all, sn_closure(f), NULL, SN_TENSORS(sn_in(f, 0)), &y, 1);
    return sn_out(f, 0, y);
}

static void runs_eagerly(sn_body body, void *closure, sn_tensor *w, const char *why) {
    const Twin twin = twin_new(body, closure, closure, NULL);
    for (int i = 0; i < 3; i++) {
        sn_tensor *grads[2];
        for (int k = 0; k < 2; k++) {
            sn_grad_set(w, NULL);
            sn_tensor *const y = SN_CALL(k ? twin.fast : twin.eager, F32(5, LENGTH, WIDE, WIDE));
            ck_assert_msg(sn_backward(sn_sum(sn_mul(y, y))) == SN_OK, "%s", sn_error_take()->message);
            grads[k] = sn_clone(sn_grad(w));
        }
        ck_assert(same_bits(grads[0], grads[1]));
    }
    ck_assert_msg(strstr(sn_explain(twin.fast), why), "%s", sn_explain(twin.fast));
    twin_free(twin);
}

START_TEST(t3_what_is_no_op_runs_eagerly_and_says_why) {
    Cell c;
    cell_fill(&c, NULL, false);
    runs_eagerly(with_detached, &c, c.w[0], "a result of it requires no gradient, and others do");
    sn_tensor *w[9];
    for (int i = 0; i < 9; i++) w[i] = LEAF(i, WIDE, WIDE);
    runs_eagerly(with_many, w, w[4], "more than 8 tensors that it uses require gradients");
}
END_TEST

/* Code ---------------------------------------------------------------------------------------------------- */

static sn_status chain_cell(sn_frame *f) { /* six ops, one nest */
    sn_tensor *const a = sn_sin(sn_add(sn_in(f, 0), sn_in(f, 1))), *const b = sn_mul(a, sn_in(f, 0));
    sn_tensor *const next = sn_tanh(sn_add(b, sn_mul(b, a)));
    sn_out(f, 0, next);
    return sn_out(f, 1, sn_add(next, sn_rand_like(next)));
}

static int64_t launches_since(int64_t before) { return execute_counts()->launches - before; }

static sn_status chain(sn_frame *f) {
    sn_tensor *out[2] = {NULL};
    sn_scan(chain_cell, NULL, NULL, SN_TENSORS(sn_in(f, 0), sn_in(f, 1)), out, 2);
    return sn_out(f, 0, sn_cat(SN_TENSORS(sn_unsqueeze(out[0], 0), out[1]), 0));
}

START_TEST(t1_bodies_in_a_compiled_function_are_fused) {
    enum { ROUNDS = 20 };
    const Twin twin = twin_new(chain, NULL, NULL, NULL);
    int64_t launches = 0;
    for (int i = 0; i < 4; i++) {
        sn_tensor *const h = F32(1, WIDE), *const x = F32(2 + i, ROUNDS, WIDE);
        sn_seed(i);
        sn_tensor *const want = SN_CALL(twin.eager, h, x);
        sn_seed(i);
        const int64_t before = execute_counts()->launches;
        sn_tensor *const got = SN_CALL(twin.fast, h, x);
        launches = launches_since(before);
        ck_assert(same_bits(want, got));
    }
    ck_assert_int_ge(launches, ROUNDS);
    ck_assert_msg(launches < 2 * ROUNDS, "%lld", (long long)launches); /* one a round, and what is around them */
    twin_free(twin);
}
END_TEST

START_TEST(t3_gradients_of_bodies_are_fused) {
    enum { ROUNDS = 20 };
    const Twin twin = twin_new(chain, NULL, NULL, NULL);
    int64_t launches = 0;
    for (int i = 0; i < 4; i++) {
        sn_tensor *grads[4], *const x = F32(2 + i, ROUNDS, WIDE);
        for (int k = 0; k < 2; k++) {
            sn_tensor *const h = LEAF(1, WIDE), *const xs = sn_requires_grad_(sn_clone(x), true);
            const int64_t before = execute_counts()->launches;
            sn_seed(i);
            sn_tensor *const y = SN_CALL(k ? twin.fast : twin.eager, h, xs);
            ck_assert_msg(sn_backward(sn_sum(y)) == SN_OK, "%s", sn_error_take()->message);
            launches = launches_since(before);
            grads[2 * k] = sn_grad(h), grads[2 * k + 1] = sn_grad(xs);
        }
        ck_assert(same_bits(grads[0], grads[2]) && same_bits(grads[1], grads[3]));
    }
    /* Forward, forward again, backward and where a slice's gradient goes. */
    ck_assert_msg(launches >= 3 * ROUNDS && launches < 6 * ROUNDS, "%lld", (long long)launches);
    twin_free(twin);
}
END_TEST

/* By name ------------------------------------------------------------------------------------------------- */

#define GRAPH_OF(operands, gradients, counts, of, defined)                                                             \
    "graph f(%h: f32[4], %x: f32[5,4], %w: f32[4], %o: f32[7]) {\n"                                                    \
    "  %0, %1, %2 = sn::scan_backward(" operands ", " gradients ", [], " counts ", 0, False, '" BODY "', " of          \
    ", [], " defined ", 1, 2)\n  return %0, %1, %2\n}\n"
#define BODY_OF(input)                                                                                                 \
    "graph body(%x0: " input ", %x1: f32[4], %closed0: f32[4]) {\\n  %0 = aten::mul.Tensor(%x0, %closed0)\\n"          \
    "  %1 = aten::add.Tensor(%0, %x1)\\n  return %1, %0\\n}\\n"
#define BODY BODY_OF("f32[4]")

static const struct {
    const char *text, *why; /* NULL: it is right */
} by_name[] = {
    {GRAPH_OF("[%h, %x, %w]", "[%h, %x]", "2, 1", "[0, 1, 2]", "[0, 1]"), NULL},
    {GRAPH_OF("[%h, %x, %w]", "[%h, %x]", "2, 1", "[0, 1, 2]", "[0, 100000]"), "below 2"},
    {GRAPH_OF("[%h, %x, %w]", "[%h, %x]", "2, 1", "[0, 1, 2]", "[0, 0]"), "each once"},
    {GRAPH_OF("[%h, %x, %w]", "[%o, %x]", "2, 1", "[0, 1, 2]", "[0, 1]"), "gradient 0 is f32 of sizes [7]"},
    {GRAPH_OF("[%h, %x, %w]", "[%h, %h]", "2, 1", "[0, 1, 2]", "[0, 1]"), "gradient 1 is f32 of sizes [4]"},
    {GRAPH_OF("[%h, %x, %w]", "[%h, %x]", "-1, 1", "[0, 1, 2]", "[0, 1]"), "-1 inputs"},
    {GRAPH_OF("[%h, %x, %w]", "[%h, %x]", "9, 1", "[0, 1, 2]", "[0, 1]"), "9 inputs"},
    {GRAPH_OF("[%h, %x, %w]", "[%h, %x]", "2, -1", "[0, 1, 2]", "[0, 1]"), "-1 of them carried"},
    {GRAPH_OF("[%h, %x, %w]", "[%h, %x]", "2, 5", "[0, 1, 2]", "[0, 1]"), "5 of them carried"},
    {GRAPH_OF("[%h, %x]", "[%h, %x]", "2, 1", "[0, 1]", "[0, 1]"), "2 operands for a body of 3 inputs"},
    {GRAPH_OF("[%h, %x, %w]", "[%h, %x]", "2, 1", "[0, 1, 7]", "[0, 1]"), "7 comes before 2"},
#undef BODY
#define BODY BODY_OF("f32[3]")
    {GRAPH_OF("[%h, %x, %w]", "[%h, %x]", "2, 1", "[0, 1, 2]", "[0, 1]"), "does not broadcast"},
#undef BODY
#define BODY                                                                                                           \
    "graph body(%x0: f32[4], %x1: f32[4], %closed0: f32[4]) {\\n  %0 = aten::add_.Tensor(%x0, %x1)\\n  return %x1, "   \
    "%x1\\n}\\n"
    {GRAPH_OF("[%h, %x, %w]", "[%h, %x]", "2, 1", "[0, 1, 2]", "[0, 1]"), "writes its input %x0"},
#undef BODY
#define BODY "graph body[s0=4>=2](%x0: f32[s0], %x1: f32[4], %closed0: f32[4]) {\\n  return %x1, %x1\\n}\\n"
    {GRAPH_OF("[%h, %x, %w]", "[%h, %x]", "2, 1", "[0, 1, 2]", "[0, 1]"), NULL},
#undef BODY
#define BODY "graph body(%x0: f32[4], s0: int, %x1: f32[4], %closed0: f32[4]) {\\n  return %x1, %x1\\n}\\n"
    {GRAPH_OF("[%h, %x, %w]", "[%h, %x]", "2, 1", "[0, 1, 2]", "[0, 1]"), "0 ints for a body of 1"},
#undef BODY
#define BODY "graph body(%x0: f32[s0*2], %x1: f32[4], %closed0: f32[4]) {\\n  return %x1, %x1\\n}\\n"
    {GRAPH_OF("[%h, %x, %w]", "[%h, %x]", "2, 1", "[0, 1, 2]", "[0, 1]"), "symbols that no size before it is"},
};
enum { BY_NAME = sizeof by_name / sizeof *by_name };

START_TEST(t3_gradients_by_name_check_their_arguments) {
    sn_graph *const g = sn_graph_parse(by_name[_i].text, strlen(by_name[_i].text));
    if (by_name[_i].why) {
        ck_assert_ptr_null(g);
        expect_error(SN_ERR_PARSE, by_name[_i].why);
        return;
    }
    ck_assert_msg(g != NULL, "%s", sn_error_take()->message);
    sn_function *const fn = sn_graph_compile(g, NULL);
    sn_tensor *const x = F32(2, 5, 4), *const h = F32(1, 4), *first[3], *out[3];
    for (int i = 0; i < 3; i++) {
        sn_tensor *const in[] = {h, x, F32(3, 4), F32(4, 7)};
        ck_assert_msg(sn_call(fn, in, 4, i ? out : first, 3) == SN_OK, "%s", sn_error_take()->message);
        for (int k = 0; i && k < 3; k++) ck_assert(same_bits(first[k], out[k]));
    }
    ck_assert(last_path() == SN_PATH_COMPILED);
    sn_function_free(fn);
    sn_graph_free(g);
}
END_TEST

/* What a traced body asks ----------------------------------------------------------------------------------- */

typedef struct Asking {
    sn_frame *around;
    int what;
} Asking;
enum { ASKS = 6 };

static sn_status asking(sn_frame *f) {
    const Asking *const a = sn_closure(f);
    sn_tensor *const y = sn_in(f, 0), *const other = sn_in(a->around, 1);
    switch (a->what) {
    case 0:
        return sn_out(f, 0, sn_mul_scalar(y, sn_float((double)sn_size(other, 0))));
    case 1:
        return sn_out(f, 0, sn_mul_scalar(y, sn_float((double)sn_in_int(a->around, 2))));
    case 2:
        return sn_out(f, 0, sn_narrow(y, 0, 0, sn_sym_arg(sn_in_sym(a->around, 2))));
    case 3:
        return sn_out(f, 0, sn_narrow(y, 0, 0, sn_sym_arg(sn_sym_size(other, 0))));
    case 4:
        return sn_out(f, 0, sn_mul_scalar(y, sn_in_value(a->around, 2)));
    default:
        return sn_out(f, 0, sn_mul_scalar(y, sn_float(sn_requires_grad(other) ? 2 : 3)));
    }
}

static sn_status around_asking(sn_frame *f) {
    Asking a = {f, *(int *)sn_closure(f)};
    sn_tensor *y = NULL;
    sn_map(asking, &a, NULL, SN_TENSORS(sn_in(f, 0)), &y, 1);
    return sn_out(f, 0, y);
}

START_TEST(c6_replay_guards_what_a_traced_body_asked) {
    int what = _i / 2;
    const sn_compile_options *const options =
        SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY, .dynamic = _i & 1 ? SN_DYNAMIC_ALWAYS : SN_DYNAMIC_AUTO);
    const Twin twin = twin_new(around_asking, &what, &what, options);
    for (int i = 0; i < 12; i++) {
        sn_tensor *const other = F32(1, 2 + i % 4, 3), *want = NULL, *got = NULL;
        if (i & 4) sn_requires_grad_(other, true);
        const sn_value in[] = {sn_val(F32(i, LENGTH, 8)), sn_val(other), sn_int(2 + i % 5)};
        ck_assert_msg(sn_call_values(twin.eager, in, 3, &want, 1) == SN_OK, "%s", sn_error_take()->message);
        ck_assert_msg(sn_call_values(twin.fast, in, 3, &got, 1) == SN_OK, "%s", sn_error_take()->message);
        ck_assert_msg(same_bits(want, got), "call %d", i);
    }
    twin_free(twin);
}
END_TEST

/* Eager bodies that differ each call: of old ones nothing is kept, and a backward makes again what it needs. */
typedef struct Scale {
    sn_tensor *w;
    double by;
} Scale;

static sn_status scale_cell(sn_frame *f) {
    const Scale *const s = sn_closure(f);
    sn_tensor *const next = sn_tanh(sn_mul(sn_mul_scalar(sn_in(f, 0), sn_float(s->by)), s->w));
    sn_out(f, 0, next);
    return sn_out(f, 1, sn_mul(next, sn_in(f, 1)));
}

static sn_tensor *scale_loss(Scale *s, double by) {
    sn_tensor *out[2] = {NULL};
    s->by = by;
    sn_scan(scale_cell, s, NULL, SN_TENSORS(F32(1, WIDE), F32(2, 3, WIDE)), out, 2);
    return sn_sum(out[1]);
}

START_TEST(t3_a_backward_long_after_its_forward) {
    Scale s = {.w = LEAF(3, WIDE)};
    sn_tensor *want, *late = scale_loss(&s, 0.5);
    ck_assert_int_eq(sn_backward(scale_loss(&s, 0.5)), SN_OK);
    want = sn_clone(sn_grad(s.w));
    for (int i = 0; i < 600; i++) {
        const sn_scope scope = sn_scope_begin();
        ck_assert_ptr_nonnull(scale_loss(&s, 1 + i));
        sn_scope_end(scope);
    }
    sn_grad_set(s.w, NULL);
    ck_assert_int_eq(sn_backward(late), SN_OK);
    ck_assert(same_bits(sn_grad(s.w), want));
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("gradients of control flow");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, t3_compiled_training_is_one_graph_with_eagers_bits, 0, 2 * LOSSES);
    tcase_add_test(tests, t3_other_keys_and_expanded_nodes_have_eagers_bits);
    tcase_add_test(tests, t3_double_backward_goes_through_the_rounds);
    tcase_add_test(tests, t3_what_an_op_of_control_flow_uses_may_not_change);
    tcase_add_test(tests, t3_what_eagers_tape_refuses_in_a_body_is_refused_with_code);
    tcase_add_test(tests, t3_hooks_of_what_is_used_run_once);
    tcase_add_test(tests, t1_bodies_in_a_compiled_function_are_fused);
    tcase_add_test(tests, t3_gradients_of_bodies_are_fused);
    tcase_add_test(tests, t3_a_backward_long_after_its_forward);
    tcase_add_test(tests, t3_what_is_no_op_runs_eagerly_and_says_why);
    tcase_add_loop_test(tests, t3_gradients_by_name_check_their_arguments, 0, BY_NAME);
    tcase_add_loop_test(tests, c6_replay_guards_what_a_traced_body_asked, 0, 2 * ASKS);
    return suite_run("gradients of control flow", tests);
}
