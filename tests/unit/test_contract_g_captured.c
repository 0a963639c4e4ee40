/* test_contract_g_captured.c: a backward inside of a compiled body [semantics G4]: it reaches what eager's
 * tape would reach, and leaves the results' histories as eager leaves them. Bits are those of eager. */
#include "tests/unit/contract.h"

typedef struct Host {
    sn_tensor *w, *b;    /* leaves */
    sn_tensor *detached; /* w's memory, without its history */
} Host;

static Host host_new(void) {
    sn_tensor *const w = LEAF(1, 4);
    return (Host){.w = w, .b = LEAF(2, 4), .detached = sn_detach(w)};
}

/* G4: leaves that are not reached ---------------------------------------------------------------- */

typedef sn_tensor *(*Loss)(const Host *host, sn_tensor *x);

static sn_tensor *by_detach(const Host *h, sn_tensor *x) { return sn_mul(sn_detach(sn_mul(h->w, x)), h->b); }

static sn_tensor *by_outside_detach(const Host *h, sn_tensor *x) {
    sn_tensor *const unused = sn_mul(h->w, x);
    return sn_mul(sn_mul(h->detached, sn_detach(unused)), h->b);
}

static sn_tensor *without_gradients(const Host *h, sn_tensor *x) {
    const sn_grad_mode before = sn_grad_mode_set(SN_GRAD_OFF);
    sn_tensor *const scale = sn_exp(sn_mul(h->w, x)), *const view = sn_view(h->w, SN_INTS(4));
    sn_grad_mode_set(before);
    return sn_mul(sn_mul(scale, view), h->b);
}

static sn_tensor *by_comparison(const Host *h, sn_tensor *x) {
    return sn_mul(sn_to(sn_gt(sn_mul(h->w, x), x), SN_F32), h->b);
}

static sn_tensor *by_integers(const Host *h, sn_tensor *x) {
    sn_tensor *const whole = sn_to(sn_mul_scalar(h->w, sn_float(3)), SN_I32);
    return sn_mul(sn_mul(whole, h->b), x);
}

static sn_tensor *by_place(const Host *h, sn_tensor *x) {
    return sn_mul(sn_index_select(h->b, 0, sn_argmax(sn_mul(h->w, x), 0, true)), x);
}

/* The loss has read what is multiplied by w afterwards. */
static sn_tensor *before_the_write(const Host *h, sn_tensor *x) {
    sn_tensor *const y = sn_mul_scalar(h->b, sn_float(3)), *const read = sn_add(y, x);
    sn_mul_(y, h->w);
    return read;
}

/* A copy, of which no write is seen; the view is written. */
static sn_tensor *by_a_copy(const Host *h, sn_tensor *x) {
    sn_tensor *const y = sn_expand(sn_mul_scalar(h->b, sn_float(3)), SN_INTS(2, 4));
    sn_tensor *const copy = sn_reshape(sn_t(sn_clone(y)), SN_INTS(8));
    sn_tensor *const z = sn_clone(y), *const flat = sn_reshape(sn_t(z), SN_INTS(8));
    sn_mul_(sn_select(z, 0, 1), h->w);
    return sn_add(sn_add(copy, flat), sn_sum(x));
}

static const struct {
    const char *name;
    Loss loss;
} losses[] = {{"detach", by_detach},
              {"detached outside", by_outside_detach},
              {"no gradients", without_gradients},
              {"comparison", by_comparison},
              {"integers", by_integers},
              {"argmax", by_place},
              {"before the write", before_the_write},
              {"copy", by_a_copy}};

typedef struct Case {
    Host host;
    Loss loss;
} Case;

static sn_status goes_back(sn_frame *f) {
    const Case *const c = sn_closure(f);
    sn_tensor *const loss = sn_sum(c->loss(&c->host, sn_in(f, 0)));
    sn_backward(loss);
    return sn_out(f, 0, sn_detach(loss));
}

/* set: w has a gradient from elsewhere, which stays. */
static void try_loss(int at, bool set) {
    Case fast = {host_new(), losses[at].loss}, slow = {host_new(), losses[at].loss};
    sn_tensor *const given = set ? F32(5, 4) : NULL;
    sn_grad_set(fast.host.w, given), sn_grad_set(slow.host.w, given);
    const Twin twin = twin_new(goes_back, &fast, &slow, NULL);
    for (int i = 0; i < 4; i++) {
        TWIN_CALL(twin, F32((uint64_t)i, 4));
        ck_assert_msg(same_bits(sn_grad(fast.host.b), sn_grad(slow.host.b)), "%s, call %d", losses[at].name, i);
        ck_assert_ptr_eq(sn_grad(slow.host.w), given);
        ck_assert_msg(sn_grad(fast.host.w) == given, "%s, call %d", losses[at].name, i);
    }
    ck_assert_msg(last_path() == SN_PATH_COMPILED, "%s: %s", losses[at].name, last_reason());
    twin_free(twin);
}

START_TEST(g4_a_leaf_that_is_not_reached_keeps_its_gradient) {
    for (int at = 0; at < (int)(sizeof losses / sizeof *losses); at++)
        for (int set = 0; set < 2; set++) try_loss(at, set);
}
END_TEST

/* Two players, each with a loss and a step of its own. */
static void step(sn_tensor *w) {
    const sn_grad_mode before = sn_grad_mode_set(SN_GRAD_OFF);
    sn_sub_(w, sn_mul_scalar(sn_grad(w), sn_float(0.125)));
    sn_grad_mode_set(before);
    sn_grad_set(w, NULL);
}

static sn_status two_players(sn_frame *f) {
    const Host *const h = sn_closure(f);
    sn_tensor *const made = sn_tanh(sn_mul(h->w, sn_in(f, 0)));
    sn_tensor *const first = sn_sum(sn_exp(sn_mul(sn_detach(made), h->b)));
    sn_backward(first);
    step(h->b);
    sn_tensor *const second = sn_sum(sn_exp(sn_neg(sn_mul(made, h->b))));
    sn_backward(second);
    step(h->w);
    sn_grad_set(h->b, NULL);
    sn_out(f, 1, sn_detach(second));
    return sn_out(f, 0, sn_detach(first));
}

START_TEST(g4_two_losses_of_one_body_reach_their_own_leaves) {
    Host fast = host_new(), slow = host_new();
    const Twin twin = twin_new(two_players, &fast, &slow, NULL);
    for (int i = 0; i < 5; i++) {
        sn_tensor *const x = F32((uint64_t)i, 4), *want[2], *got[2];
        ck_assert_int_eq(sn_call(twin.eager, &x, 1, want, 2), SN_OK);
        ck_assert_msg(sn_call(twin.fast, &x, 1, got, 2) == SN_OK, "%s", sn_error_take()->message);
        for (int k = 0; k < 2; k++) ck_assert(same_bits(got[k], want[k]));
        ck_assert(same_bits(fast.w, slow.w) && same_bits(fast.b, slow.b));
    }
    ck_assert_msg(last_path() == SN_PATH_COMPILED, "%s", last_reason());
    twin_free(twin);
}
END_TEST

/* G3: what a backward inside leaves to the results ------------------------------------------------ */

enum { RESULTS = 3 };

/* A training step that returns what it predicts, and what was made after the update. */
static sn_status returns_predictions(sn_frame *f) {
    const Host *const h = sn_closure(f);
    sn_tensor *const x = sn_in(f, 0);
    sn_tensor *const y = sn_add(sn_mul(x, h->w), h->b);
    sn_tensor *const loss = sn_mean(sn_mul(y, y));
    sn_backward(loss);
    step(h->w);
    step(h->b);
    sn_out(f, 1, sn_unsqueeze(y, 0));
    sn_out(f, 2, sn_add(h->w, x));
    return sn_out(f, 0, loss);
}

/* Nothing on the way holds anything, so that each of these can be gone through again. */
static sn_status returns_sums(sn_frame *f) {
    const Host *const h = sn_closure(f);
    sn_tensor *const y = sn_sub(h->w, sn_in(f, 0)), *const z = sn_zeros(SN_INTS(2, 4), SN_F32);
    sn_copy_(sn_select(z, 0, 1), sn_neg(y));
    sn_backward(sn_add(sn_sum(y), sn_sum(z)));
    step(h->w);
    sn_out(f, 1, z);
    sn_out(f, 2, sn_sum(h->b));
    return sn_out(f, 0, y);
}

/* What each way back gives, or the error it is. */
typedef struct Way {
    char error[256];
    sn_tensor *grad;
} Way;

static Way way_of(sn_status status, sn_tensor *grad) {
    Way way = {.grad = status == SN_OK ? grad : NULL};
    const sn_error *const e = sn_error_take();
    if (status != SN_OK) strncpy(way.error, e->message, sizeof way.error - 1);
    return way;
}

/* From one result: to one leaf only, then with a graph of its own, then to all leaves, twice. */
static int go_ways(const Host *h, sn_tensor *from, Way *to) {
    int n = 0;
    sn_tensor *const root = sn_sum(sn_mul_scalar(from, sn_float(1.5)));
    sn_tensor *const xs[] = {h->w, h->b};
    for (int i = 0; i < 4; i++) {
        sn_tensor *grad = NULL;
        const sn_tensors x = {&xs[i & 1], 1};
        const sn_status status = sn_gradients(SN_TENSORS(root), x, (sn_tensors){0},
                                              SN_ALLOW_UNUSED | (i < 2 ? SN_RETAIN_GRAPH : SN_CREATE_GRAPH), &grad);
        to[n++] = way_of(status, grad);
    }
    for (int i = 0; i < 2; i++) {
        to[n++] = way_of(sn_backward(sn_sum(from)), NULL);
        to[n++] = (Way){.grad = sn_grad(h->w)};
        to[n++] = (Way){.grad = sn_grad(h->b)};
    }
    return n;
}

static void try_results(sn_body body) {
    Host fast = host_new(), slow = host_new();
    const Twin twin = twin_new(body, &fast, &slow, NULL);
    for (int i = 0; i < 6; i++) {
        sn_tensor *const x = F32((uint64_t)i, 4), *want[RESULTS], *got[RESULTS];
        sn_grad_set(fast.b, NULL), sn_grad_set(slow.b, NULL);
        sn_grad_set(fast.w, NULL), sn_grad_set(slow.w, NULL);
        ck_assert_int_eq(sn_call(twin.eager, &x, 1, want, RESULTS), SN_OK);
        ck_assert_int_eq(sn_call(twin.fast, &x, 1, got, RESULTS), SN_OK);
        for (int k = 0; k < RESULTS; k++) {
            ck_assert(same_bits(got[k], want[k]));
            ck_assert_int_eq(sn_requires_grad(got[k]), sn_requires_grad(want[k]));
        }
        ck_assert(same_bits(fast.w, slow.w) && same_bits(fast.b, slow.b));
        Way ways[2][16];
        const int n = go_ways(&slow, want[i % RESULTS], ways[0]);
        go_ways(&fast, got[i % RESULTS], ways[1]);
        for (int k = 0; k < n; k++) {
            ck_assert_str_eq(ways[1][k].error, ways[0][k].error);
            ck_assert_msg(same_bits(ways[1][k].grad, ways[0][k].grad), "call %d, way %d", i, k);
        }
    }
    ck_assert_msg(last_path() == SN_PATH_COMPILED, "%s", last_reason());
    twin_free(twin);
}

START_TEST(g3_results_of_a_step_have_the_history_that_its_backward_left) {
    try_results(returns_predictions);
    try_results(returns_sums);
}
END_TEST

/* A part that the backward has not reached still holds values: such a segment runs eagerly. */
static sn_status returns_another(sn_frame *f) {
    const Host *const h = sn_closure(f);
    sn_tensor *const y = sn_mul(sn_in(f, 0), h->w);
    sn_backward(sn_sum(y));
    return sn_out(f, 0, sn_exp(h->b));
}

START_TEST(g3_a_result_that_the_backward_has_not_reached_keeps_its_history) {
    Host fast = host_new(), slow = host_new();
    const Twin twin = twin_new(returns_another, &fast, &slow, NULL);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(sn_backward(sn_sum(TWIN_CALL(twin, F32((uint64_t)i, 4)))), SN_OK);
        ck_assert_int_eq(sn_backward(sn_sum(sn_exp(slow.b))), SN_OK);
        ck_assert(same_bits(sn_grad(fast.b), sn_grad(slow.b)));
    }
    ck_assert_str_eq(last_reason(), "results whose history goes on after a captured backward");
    twin_free(twin);
}
END_TEST

/* What is not captured runs as a break that says what it was. */
static sn_status asks_for_gradients(sn_frame *f) {
    const int *const flags = sn_closure(f);
    sn_tensor *const x = sn_in(f, 0), *grad = NULL;
    sn_gradients(SN_TENSORS(sn_sum(sn_mul(sn_sin(x), x))), SN_TENSORS(x), (sn_tensors){0}, *flags, &grad);
    return sn_out(f, 0, sn_mul(grad, grad));
}

START_TEST(g4_gradients_that_are_asked_for_break_and_say_so) {
    static const struct {
        int flags;
        const char *reason;
    } cases[] = {{0, "gradients that are returned"},
                 {SN_RETAIN_GRAPH, "a backward that retains the graph"},
                 {SN_CREATE_GRAPH, "a backward that makes a graph of its own"}};
    for (int i = 0; i < 3; i++) {
        int flags = cases[i].flags;
        const Twin twin = twin_new(asks_for_gradients, &flags, &flags, NULL);
        for (int k = 0; k < 3; k++) TWIN_CALL(twin, LEAF((uint64_t)k, 4));
        ck_assert_msg(strstr(sn_explain(twin.fast), cases[i].reason), "%s", sn_explain(twin.fast));
        twin_free(twin);
    }
}
END_TEST

/* The root's gradient is a value of the segment, or of an earlier one behind a write to what it is computed from. */
typedef struct Given {
    sn_tensor *w;
    int flags;
    bool earlier;
} Given;

static sn_status goes_with_a_given_gradient(sn_frame *f) {
    const Given *const g = sn_closure(f);
    sn_tensor *const x = sn_in(f, 0), *const grad = sn_cos(x);
    if (g->earlier) {
        sn_graph_break("the gradient is of an earlier segment");
        sn_add_scalar_(x, sn_float(1));
    }
    sn_tensor *const y = sn_mul(g->w, g->w);
    sn_backward_ex(SN_TENSORS(y), SN_TENSORS(grad), (uint32_t)g->flags);
    return sn_out(f, 0, sn_detach(y));
}

START_TEST(g4_a_gradient_that_is_given_may_be_pending) {
    static const Given cases[] = {{.flags = 0},
                                  {.flags = SN_RETAIN_GRAPH},
                                  {.flags = SN_CREATE_GRAPH},
                                  {.flags = 0, .earlier = true},
                                  {.flags = SN_RETAIN_GRAPH, .earlier = true}};
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
        Given fast = cases[i], slow = cases[i];
        fast.w = LEAF(1, 4), slow.w = LEAF(1, 4);
        const Twin twin = twin_new(goes_with_a_given_gradient, &fast, &slow, NULL);
        for (int k = 0; k < 4; k++) {
            sn_tensor *const a = F32((uint64_t)k, 4), *const b = sn_clone(a);
            twin_call(twin, SN_TENSORS(a), SN_TENSORS(b));
            ck_assert_msg(same_bits(sn_grad(fast.w), sn_grad(slow.w)), "case %d, call %d", i, k);
        }
        twin_free(twin);
    }
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        g4_a_leaf_that_is_not_reached_keeps_its_gradient,
        g4_two_losses_of_one_body_reach_their_own_leaves,
        g3_results_of_a_step_have_the_history_that_its_backward_left,
        g3_a_result_that_the_backward_has_not_reached_keeps_its_history,
        g4_gradients_that_are_asked_for_break_and_say_so,
        g4_a_gradient_that_is_given_may_be_pending,
    };
    return contract_main("test_contract_g_captured", tests, (int)(sizeof tests / sizeof *tests));
}
