/* test_switched_off.c: what the caller makes of a leaf after the call says nothing about the history of the call
 * [semantics G3]: where a compiled node becomes eager's nodes, these lead to the leaves that there were, as eager's own
 * do. */
#include "runtime/base/bail.h"
#include "tests/unit/contract.h"

typedef struct Leaves { /* w is held by a node, b only led to, also from a list */
    sn_tensor *x, *w, *b;
} Leaves;

static sn_status body(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const w = sn_in(f, 1), *const b = sn_in(f, 2);
    sn_tensor *const h = sn_add(sn_sin(sn_mul(x, w)), b);
    return sn_out(f, 0, sn_sum(sn_exp(sn_cat(SN_TENSORS(b, h), 0))));
}

/* After the call ------------------------------------------------------------------------------ */

typedef void After(const Leaves *l);

static void switch_off(const Leaves *l) {
    sn_requires_grad_(l->w, false);
    sn_requires_grad_(l->b, false);
}

static void detach(const Leaves *l) {
    sn_detach_(l->w);
    sn_detach_(l->b);
}

/* b has a history of its own then, which the call knew nothing of. */
static void make_a_result(const Leaves *l) {
    switch_off(l);
    sn_add_(l->b, sn_mul(l->x, l->x));
}

/* Backwards ----------------------------------------------------------------------------------- */

typedef void Backward(const Leaves *l, sn_tensor *out);

static void once(const Leaves *l, sn_tensor *out) {
    (void)l;
    sn_backward(out);
}

static void with_graph(const Leaves *l, sn_tensor *out) {
    (void)l;
    sn_backward_ex(SN_TENSORS(out), (sn_tensors){0}, SN_CREATE_GRAPH);
}

static sn_tensor *first_of_x(const Leaves *l, sn_tensor *out) {
    sn_tensor *grad = NULL;
    sn_gradients(SN_TENSORS(out), SN_TENSORS(l->x), (sn_tensors){0}, SN_CREATE_GRAPH, &grad);
    return grad;
}

static void twice(const Leaves *l, sn_tensor *out) { sn_backward(sn_sum(first_of_x(l, out))); }

/* The nodes hold w itself, and what derivatives of derivatives record sees what it is by then. */
static void third_after_on_again(const Leaves *l, sn_tensor *out) {
    sn_tensor *const first = first_of_x(l, out);
    sn_requires_grad_(l->w, true);
    sn_backward(sn_sum(first_of_x(l, sn_sum(first))));
}

static Leaves gradients(sn_function *fn, uint64_t seed, After *after, Backward *go) {
    const Leaves l = {LEAF(seed, 6), LEAF(seed + 10, 6), LEAF(seed + 20, 6)};
    sn_tensor *const out = SN_CALL(fn, l.x, l.w, l.b);
    after(&l);
    go(&l, out);
    ck_assert_msg(!sn_check(), "%s", sn_error_take()->message);
    return (Leaves){sn_grad(l.x), sn_grad(l.w), sn_grad(l.b)};
}

static void same_as_eager(After *after, Backward *go) {
    const Twin twin = twin_new(body, NULL, NULL, NULL);
    for (uint64_t i = 0; i < 3; i++) {
        const Leaves want = gradients(twin.eager, i, after, go);
        const Leaves got = gradients(twin.fast, i, after, go);
        ck_assert(want.w && want.b);
        ck_assert_msg(same_bits(got.x, want.x), "call %d: x", (int)i);
        ck_assert_msg(same_bits(got.w, want.w), "call %d: w", (int)i);
        ck_assert_msg(same_bits(got.b, want.b), "call %d: b", (int)i);
    }
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    twin_free(twin);
}

START_TEST(under_create_graph) {
    After *const afters[] = {switch_off, detach, make_a_result};
    for (int i = 0; i < 3; i++) {
        same_as_eager(afters[i], with_graph);
        same_as_eager(afters[i], twice);
        same_as_eager(afters[i], third_after_on_again);
    }
}
END_TEST

START_TEST(where_the_backward_has_no_code) {
    failpoint_set("backward");
    same_as_eager(switch_off, once);
    same_as_eager(detach, once);
    same_as_eager(make_a_result, once);
    failpoint_set("");
}
END_TEST

int main(void) {
    const TTest *const tests[] = {under_create_graph, where_the_backward_has_no_code};
    return contract_main("test_switched_off", tests, 2);
}
