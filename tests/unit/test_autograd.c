/* test_autograd.c: the tape and its engine: accumulation, order, modes, hooks, versions, in-place
 * ops and views, custom functions, gradients of gradients, listings [semantics G1, G5;
 * the rows of the acceptance list are in test_accept_tape.c]. */
#include <math.h>
#include <stdlib.h>

#include <sinter/dispatch.h>
#include <sinter/memory.h>

#include "runtime/autograd/custom_function.h"
#include "ir/op_ids.h"
#include "runtime/autograd/tape.h"
#include "runtime/base/alloc.h"
#include "runtime/base/text.h"
#include "tests/unit/suite.h"

#define OK(expr)  ck_assert_msg((expr) == 0, "%s: %s", #expr, sn_error_take()->message)
#define DIMS(...) SN_INTS(__VA_ARGS__)

static void setup(void) {}
static void teardown(void) {
    sn_error_take();
    sn_grad_mode_set(SN_GRAD_ON);
    sn_scope_end(SN_SCOPE_ROOT);
    ck_assert_int_eq(tape_live_nodes(), 0);
}

static sn_tensor *op(OpId id, OpForm form, const Arg *args, int n) {
    Arg full[MAX_ARGS];
    sn_tensor *outs[MAX_LIST] = {0};
    if (op_args_normalize(op_row(id), args, n, full) != ST_OK) return NULL;
    return dispatch(op_row(id), form, full, NULL, outs) == ST_OK ? outs[0] : NULL;
}
#define OP(id, ...)  op(OP_##id, FORM_functional, (const Arg[]){__VA_ARGS__}, COUNT_OF(((const Arg[]){__VA_ARGS__})))
#define OP_(id, ...) op(OP_##id, FORM_inplace, (const Arg[]){__VA_ARGS__}, COUNT_OF(((const Arg[]){__VA_ARGS__})))
#define T(t)         A_VAL(&(t)->base)

static sn_tensor *floats(int64_t n, const float *values) {
    sn_tensor *const t = sn_from_data(values, (sn_ints){&n, 1}, SN_F32);
    ck_assert_ptr_nonnull(t);
    return t;
}
#define FLOATS(...) floats(SN_COUNT(float, __VA_ARGS__), (const float[]){__VA_ARGS__})
static sn_tensor *leaf(sn_tensor *t) { return sn_requires_grad_(t, true); }
static sn_tensor *scalar(float value) {
    sn_tensor *const t = sn_from_data(&value, (sn_ints){(const int64_t[]){0}, 0}, SN_F32);
    ck_assert_ptr_nonnull(t);
    return t;
}
static sn_tensor *total(sn_tensor *t) { return OP(sum_dim_IntList, T(t), A_NONE); }
static float at(sn_tensor *t, int64_t i) {
    ck_assert_msg(t != NULL, "no tensor: %s", sn_error_take()->message);
    float values[64];
    OK(sn_read(t, values, (size_t)sn_numel(t) * sizeof(float)));
    return values[i];
}
static void fails(sn_status status, sn_status wanted, const char *text) {
    const sn_error *const error = sn_error_take();
    ck_assert_msg(status == wanted, "status %d: %s", (int)status, error->message);
    ck_assert_msg(strstr(error->message, text) != NULL, "'%s' lacks '%s'", error->message, text);
}

/* gradients ----------------------------------------------------------------------------------- */

START_TEST(broadcasts_are_summed) {
    sn_tensor *const x = leaf(FLOATS(1, 2, 3)), *const s = leaf(scalar(2));
    OK(sn_backward(total(OP(mul_Tensor, T(x), T(s)))));
    ck_assert_int_eq(sn_rank(sn_grad(s)), 0);
    ck_assert_float_eq(at(sn_grad(s), 0), 6);
    ck_assert_float_eq(at(sn_grad(x), 2), 2);
}
END_TEST

START_TEST(g1_contributions_are_added_newest_first) {
    /* c, b, a in that order: (-1e8 + 1) + 1e8 = 0 in f32, any order that cancels first gives 1 */
    sn_tensor *const x = leaf(scalar(1));
    sn_tensor *const a = OP(mul_Tensor, T(x), A_FLOAT(1e8));
    sn_tensor *const b = OP(mul_Tensor, T(x), A_FLOAT(1));
    sn_tensor *const c = OP(mul_Tensor, T(x), A_FLOAT(-1e8));
    OK(sn_backward(OP(add_Tensor, T(OP(add_Tensor, T(a), T(c))), T(b))));
    ck_assert_float_eq(at(sn_grad(x), 0), 0);
    sn_tensor *const y = leaf(scalar(1));
    sn_tensor *const d = OP(mul_Tensor, T(y), A_FLOAT(1));
    sn_tensor *const e = OP(mul_Tensor, T(y), A_FLOAT(1e8));
    sn_tensor *const f = OP(mul_Tensor, T(y), A_FLOAT(-1e8));
    OK(sn_backward(OP(add_Tensor, T(OP(add_Tensor, T(d), T(f))), T(e))));
    ck_assert_float_eq(at(sn_grad(y), 0), 1);
}
END_TEST

START_TEST(deep_graphs_need_no_stack) {
    sn_tensor *const x = leaf(scalar(1));
    sn_tensor *y = sn_keep(OP(add_Tensor, T(x), A_FLOAT(1)));
    for (int i = 0; i < 200000; i++) {
        const sn_scope scope = sn_scope_begin();
        sn_tensor *const next = sn_keep(OP(add_Tensor, T(y), A_FLOAT(1)));
        sn_release(y);
        y = next;
        sn_scope_end(scope);
    }
    OK(sn_backward(y));
    ck_assert_float_eq(at(sn_grad(x), 0), 1);
    sn_release(y);
}
END_TEST

START_TEST(a_grad_is_the_leafs_own_memory) {
    sn_tensor *const x = leaf(FLOATS(1, 2)), *const w = leaf(FLOATS(3, 4)), *const g = FLOATS(5, 6);
    sn_tensor *const y = OP(add_Tensor, T(x), T(w));
    OK(sn_backward_ex(SN_TENSORS(y), SN_TENSORS(g), 0));
    ck_assert_ptr_ne(sn_grad(x)->storage, g->storage);
    ck_assert_ptr_ne(sn_grad(x)->storage, sn_grad(w)->storage);
    OP_(mul_Tensor, T(sn_grad(x)), A_FLOAT(0));
    ck_assert_float_eq(at(sn_grad(w), 1), 6);
    ck_assert_float_eq(at(g, 1), 6);
}
END_TEST

START_TEST(roots_are_checked) {
    sn_tensor *const x = leaf(FLOATS(1, 2));
    fails(sn_backward(x), SN_ERR_ARGUMENT, "one element");
    fails(sn_backward(total(FLOATS(1, 2))), SN_ERR_STATE, "requires no gradients");
    sn_tensor *const y = OP(mul_Tensor, T(x), T(x));
    fails(sn_backward_ex(SN_TENSORS(y), SN_TENSORS(FLOATS(1, 2, 3)), 0), SN_ERR_SHAPE, "f32[3] for f32[2]");
}
END_TEST

/* keeping and freeing ------------------------------------------------------------------------- */

START_TEST(a_graph_is_freed_by_backward) {
    sn_tensor *const x = leaf(FLOATS(1, 2));
    sn_tensor *const y = total(OP(mul_Tensor, T(x), T(x)));
    OK(sn_backward_ex(SN_TENSORS(y), (sn_tensors){0}, SN_RETAIN_GRAPH));
    OK(sn_backward(y));
    ck_assert_float_eq(at(sn_grad(x), 1), 8);
    fails(sn_backward(y), SN_ERR_STATE, "what it saved is gone");
}
END_TEST

START_TEST(double_backward_through_a_saved_result) { /* exp saves its result */
    sn_tensor *const x = leaf(scalar(0.5f));
    sn_tensor *first, *second;
    OK(sn_gradients(SN_TENSORS(OP(exp, T(x))), SN_TENSORS(x), (sn_tensors){0}, SN_CREATE_GRAPH, &first));
    OK(sn_gradients(SN_TENSORS(first), SN_TENSORS(x), (sn_tensors){0}, 0, &second));
    ck_assert_float_eq(at(first, 0), at(second, 0));
    ck_assert_float_eq_tol(at(second, 0), expf(0.5f), 1e-6);
}
END_TEST

START_TEST(gradients_touch_only_what_was_asked) {
    sn_tensor *const x = leaf(FLOATS(1, 2)), *const w = leaf(FLOATS(3, 4)), *const other = leaf(FLOATS(1, 1));
    sn_tensor *const h = OP(mul_Tensor, T(x), T(w)), *const y = total(OP(mul_Tensor, T(h), T(h)));
    sn_tensor *out[2];
    OK(sn_gradients(SN_TENSORS(y), SN_TENSORS(h, x), (sn_tensors){0}, SN_RETAIN_GRAPH, out));
    ck_assert_float_eq(at(out[0], 1), 16);
    ck_assert_float_eq(at(out[1], 1), 64);
    ck_assert_ptr_null(sn_grad(x));
    ck_assert_ptr_null(sn_grad(w));
    fails(sn_gradients(SN_TENSORS(y), SN_TENSORS(x, other), (sn_tensors){0}, SN_RETAIN_GRAPH, out), SN_ERR_ARGUMENT,
          "nothing leads from the roots to tensor 1");
    ck_assert_ptr_null(out[0]);
    OK(sn_gradients(SN_TENSORS(y), SN_TENSORS(x, other), (sn_tensors){0}, SN_ALLOW_UNUSED, out));
    ck_assert_ptr_nonnull(out[0]);
    ck_assert_ptr_null(out[1]);
}
END_TEST

START_TEST(gradients_of_the_same_tensor_twice) {
    sn_tensor *const x = leaf(FLOATS(1, 2)), *out[2];
    OK(sn_gradients(SN_TENSORS(total(OP(mul_Tensor, T(x), T(x)))), SN_TENSORS(x, x), (sn_tensors){0}, 0, out));
    ck_assert_float_eq(at(out[0], 1), 4);
    ck_assert_float_eq(at(out[1], 1), 4);
}
END_TEST

/* modes and flags ----------------------------------------------------------------------------- */

START_TEST(scopes_restore_the_mode) {
    const sn_scope scope = sn_scope_begin();
    sn_grad_mode_set(SN_GRAD_OFF);
    sn_scope_end(scope);
    ck_assert_int_eq(sn_grad_mode_set(SN_GRAD_ON), SN_GRAD_ON);
}
END_TEST

/* in-place ops -------------------------------------------------------------------------------- */

START_TEST(in_place_ops_have_their_functional_gradient) { /* G5: y = x + 1, y *= y' with y' its own
                                                             old value needed */
    sn_tensor *const x = leaf(FLOATS(1, 2)), *const w = leaf(FLOATS(3, 4));
    sn_tensor *const y = OP(add_Tensor, T(x), A_FLOAT(1));
    ck_assert_ptr_eq(OP_(mul_Tensor, T(y), T(w)), y);
    OP_(mul_Tensor, T(y), T(y));
    OK(sn_backward(total(y))); /* ((x + 1) w)^2 */
    ck_assert_float_eq(at(sn_grad(x), 0), 2 * 2 * 3 * 3);
    ck_assert_float_eq(at(sn_grad(w), 1), 2 * 4 * 9);
}
END_TEST

START_TEST(writing_a_view_changes_its_base) {
    sn_tensor *const base = FLOATS(1, 2, 3, 4), *const w = leaf(FLOATS(10, 20));
    sn_tensor *const matrix = OP(view, T(base), A_INTS(((int64_t[]){2, 2}), 2));
    sn_tensor *const row = OP(select_int, T(matrix), A_INT(1), A_INT(0)); /* a column */
    OP_(mul_Tensor, T(row), T(w));
    ck_assert(sn_requires_grad(base));
    ck_assert(sn_requires_grad(matrix));
    OK(sn_backward(total(OP(mul_Tensor, T(base), T(base)))));
    ck_assert_float_eq(at(sn_grad(w), 0), 2 * 10 * 1 * 1);
    ck_assert_float_eq(at(sn_grad(w), 1), 2 * 20 * 3 * 3);
}
END_TEST

START_TEST(views_see_what_was_written_into_their_base) {
    sn_tensor *const x = leaf(FLOATS(1, 2, 3, 4)), *const w = leaf(FLOATS(5, 6));
    sn_tensor *const base = OP(mul_Tensor, T(x), A_FLOAT(2));
    sn_tensor *const pairs = OP(view, T(base), A_INTS(((int64_t[]){2, 2}), 2));
    sn_tensor *const second = OP(select_int, T(pairs), A_INT(0), A_INT(1));
    OP_(copy, T(second), T(w)); /* base = 2 x0, 2 x1, w0, w1 */
    OK(sn_backward(total(OP(mul_Tensor, T(pairs), T(pairs)))));
    const float dx[] = {8, 16, 0, 0}, dw[] = {10, 12};
    for (int i = 0; i < 4; i++) ck_assert_float_eq(at(sn_grad(x), i), dx[i]);
    for (int i = 0; i < 2; i++) ck_assert_float_eq(at(sn_grad(w), i), dw[i]);
}
END_TEST

/* hooks --------------------------------------------------------------------------------------- */

static sn_status failing_hook(sn_frame *f) {
    (void)f;
    return sn_fail(SN_ERR_VALUE, "the hook found a NaN");
}
START_TEST(a_failing_hook_stops_backward) {
    sn_tensor *const x = leaf(FLOATS(1, 2));
    sn_hook_add(x, failing_hook, NULL);
    fails(sn_backward(total(OP(mul_Tensor, T(x), T(x)))), SN_ERR_VALUE, "found a NaN");
    ck_assert_ptr_null(sn_grad(x));
}
END_TEST

static sn_status backward_inside(sn_frame *f) { /* a run inside a run, over the same leaf */
    sn_tensor *const x = sn_closure(f);
    ck_assert_int_eq(sn_grad_mode_set(SN_GRAD_ON), SN_GRAD_OFF);
    return sn_backward(total(OP(mul_Tensor, T(x), A_FLOAT(100))));
}
START_TEST(a_hook_may_run_backward) {
    sn_tensor *const x = leaf(FLOATS(1, 2));
    sn_tensor *const h = OP(mul_Tensor, T(x), T(x));
    sn_hook_add(h, backward_inside, x);
    OK(sn_backward(OP(add_Tensor, T(total(h)), T(total(x)))));
    ck_assert_float_eq(at(sn_grad(x), 1), 105); /* 100 from inside, 2 x + 1 */
}
END_TEST

typedef struct Removal { /* a hook that takes hooks of the tensor away, and the one that it adds */
    sn_tensor *of;
    int64_t ids[4];
    int n, added;
} Removal;

static sn_status count_it(sn_frame *f) {
    ++*(int *)sn_closure(f);
    return SN_OK;
}
static sn_status remove_them(sn_frame *f) {
    Removal *const r = sn_closure(f);
    for (int i = 0; i < r->n; i++) sn_hook_remove(r->of, r->ids[i]);
    r->n = 0;
    sn_hook_add(r->of, count_it, &r->added);
    return SN_OK;
}
/* Of a leaf, and of a result: later, earlier and the running one; what is new waits for the next run. */
START_TEST(a_hook_may_remove_and_add_hooks) {
    sn_tensor *const x = leaf(FLOATS(1, 2)), *const h = OP(mul_Tensor, T(x), A_FLOAT(3));
    sn_tensor *const of[] = {x, h};
    Removal r[2];
    for (int k = 0; k < 2; k++) {
        int early = 0, late = 0;
        const int64_t first = sn_hook_add(of[k], count_it, &early), self = sn_hook_add(of[k], remove_them, &r[k]),
                      next = sn_hook_add(of[k], count_it, &late), last = sn_hook_add(of[k], count_it, &late);
        r[k] = (Removal){.of = of[k], .ids = {self, next, last, first}, .n = 4};
        for (int i = 0; i < 2; i++) OK(sn_backward_ex(SN_TENSORS(total(h)), (sn_tensors){0}, SN_RETAIN_GRAPH));
        ck_assert_int_eq(early, 1);
        ck_assert_int_eq(late, 0);
        ck_assert_int_eq(r[k].added, 1);
    }
}
END_TEST

/* custom functions ---------------------------------------------------------------------------- */

static sn_status square_forward(sn_frame *f) {
    sn_save(f, sn_in(f, 0));
    return sn_out(f, 0, OP(mul_Tensor, T(sn_in(f, 0)), T(sn_in(f, 0))));
}
static sn_status square_backward(sn_frame *f) {
    sn_tensor *const slope = OP(mul_Tensor, T(sn_saved(f, 0)), A_FLOAT(2));
    return sn_set_grad_of(f, 0, OP(mul_Tensor, T(sn_grad_of(f, 0)), T(slope)));
}
START_TEST(custom_functions_differentiate_twice) {
    const sn_custom square = {sizeof square, "square", square_forward, square_backward, NULL};
    sn_tensor *const x = leaf(scalar(3)), *const in[] = {x}, *y, *first, *second;
    OK(sn_custom_call(&square, NULL, in, 1, &y, 1));
    OK(sn_gradients(SN_TENSORS(y), SN_TENSORS(x), (sn_tensors){0}, SN_CREATE_GRAPH, &first));
    OK(sn_gradients(SN_TENSORS(first), SN_TENSORS(x), (sn_tensors){0}, 0, &second));
    ck_assert_float_eq(at(first, 0), 6);
    ck_assert_float_eq(at(second, 0), 2);
}
END_TEST

/* ops made at run time ------------------------------------------------------------------------ */

static sn_status cube_cpu(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    return sn_out(f, 0, OP(mul_Tensor, T(OP(mul_Tensor, T(x), T(x))), T(x)));
}
static sn_status cube_meta(sn_frame *f) { return sn_out(f, 0, OP(empty_like, T(sn_in(f, 0)))); }
static sn_status cube_derivative(sn_frame *f) { /* 3 y / x */
    sn_tensor *const ratio = OP(div_Tensor, T(sn_result(f, 0)), T(sn_in(f, 0)));
    sn_tensor *const slope = OP(mul_Tensor, T(ratio), A_FLOAT(sn_in_float(f, 1)));
    return sn_set_grad_of(f, 0, OP(mul_Tensor, T(sn_grad_of(f, 0)), T(slope)));
}

START_TEST(custom_ops_have_derivatives) {
    const sn_op *const cube = sn_op_register(SN_OP_DESC(.schema = "my::cube(Tensor x, float k=3.0) -> Tensor",
                                                        .flags = SN_OP_PURE, .meta = cube_meta, .cpu = cube_cpu,
                                                        .derivative = cube_derivative, .saves = "x, result"));
    ck_assert_msg(cube != NULL, "%s", sn_error_take()->message);
    sn_tensor *const x = leaf(FLOATS(1, 2));
    sn_tensor *const y = sn_op_call1(cube, (const sn_value[]){sn_val(x)}, 1);
    ck_assert(sn_requires_grad(y));
    OK(sn_backward(total(y)));
    ck_assert_float_eq(at(sn_grad(x), 1), 12);
}
END_TEST

/* compiled nodes ------------------------------------------------------------------------------ */

static Status triple_backward(void *context, TapeBackward *call) { /* continues the partial sum [G1] */
    (*(int *)context)++;
    sn_tensor *const part = OP(mul_Tensor, T(call->grad_out[0]), A_FLOAT(3));
    call->grad_in[0] = call->partial[0] ? OP(add_Tensor, T(call->partial[0]), T(part)) : part;
    return ST_OK;
}
static void triple_release(void *context) { *(int *)context += 100; }
static const TapeCompiled triple = {.name = "Triple", .backward = triple_backward, .release = triple_release};

START_TEST(compiled_nodes_continue_sums) {
    int calls = 0;
    sn_tensor *const x = leaf(scalar(2));
    sn_grad_mode_set(SN_GRAD_OFF);
    sn_tensor *y = OP(mul_Tensor, T(x), A_FLOAT(3));
    sn_grad_mode_set(SN_GRAD_ON);
    OK(tape_add_compiled(&y, 1, (sn_tensor *const[]){x, NULL}, 2, &triple, &calls));
    sn_tensor *const later = OP(mul_Tensor, T(x), A_FLOAT(10));
    OK(sn_backward(OP(add_Tensor, T(y), T(later))));
    ck_assert_float_eq(at(sn_grad(x), 0), 13);
    ck_assert_int_eq(calls, 101);
}
END_TEST

/* listings ------------------------------------------------------------------------------------ */

START_TEST(the_tape_can_be_listed) {
    sn_tensor *const x = leaf(FLOATS(1, 2)), *const w = FLOATS(3, 4);
    sn_tensor *const y = total(OP(mul_Tensor, T(x), T(w)));
    Text text = {0};
    tape_print(&text, y);
    const char *const listing = text_str(&text);
    ck_assert_msg(strstr(listing, "SumBackward -> #") &&
                      strstr(listing, "MulBackward -> AccumulateGrad; saved f32[2] v0"),
                  "%s", listing);
    ck_assert_msg(strstr(listing, "2 nodes, ") != NULL, "%s", listing);
    text_free(&text);
    ck_assert_int_eq(tape_totals(y).nodes, 2);
    ck_assert_int_ge(tape_totals(y).saved_bytes, 8);
    ck_assert_int_eq(tape_live_nodes(), 2);
    sn_tensor *leaves[4];
    ck_assert_int_eq(tape_leaves(&(sn_tensor *){y}, 1, leaves, 4), 1);
    ck_assert_ptr_eq(leaves[0], x);
}
END_TEST

START_TEST(out_of_memory_anywhere_is_clean) {
    sn_tensor *const x = leaf(FLOATS(1, 2)), *const w = leaf(FLOATS(3, 4));
    for (int n = 0, done = 0; !done && n < 400; n++) {
        const sn_scope scope = sn_scope_begin();
        mem_fail_after(n);
        sn_tensor *const h = OP(mul_Tensor, T(x), T(w)), *const y = h ? total(OP(mul_Tensor, T(h), T(x))) : NULL;
        done = y && sn_backward(y) == SN_OK;
        mem_fail_after(-1);
        sn_error_take();
        sn_scope_end(scope);
        if (!done) sn_grad_set(x, NULL), sn_grad_set(w, NULL);
    }
    ck_assert_float_eq(at(sn_grad(w), 1), 4);
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("autograd");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_set_timeout(tests, 60);
    TTest const *const all[] = {broadcasts_are_summed,
                                g1_contributions_are_added_newest_first,
                                deep_graphs_need_no_stack,
                                a_grad_is_the_leafs_own_memory,
                                roots_are_checked,
                                a_graph_is_freed_by_backward,
                                double_backward_through_a_saved_result,
                                gradients_touch_only_what_was_asked,
                                gradients_of_the_same_tensor_twice,
                                scopes_restore_the_mode,
                                in_place_ops_have_their_functional_gradient,
                                writing_a_view_changes_its_base,
                                views_see_what_was_written_into_their_base,
                                a_failing_hook_stops_backward,
                                a_hook_may_run_backward,
                                a_hook_may_remove_and_add_hooks,
                                custom_functions_differentiate_twice,
                                compiled_nodes_continue_sums,
                                custom_ops_have_derivatives,
                                the_tape_can_be_listed,
                                out_of_memory_anywhere_is_clean};
    for (int i = 0; i < COUNT_OF(all); i++) tcase_add_test(tests, all[i]);
    return suite_run("autograd", tests);
}
