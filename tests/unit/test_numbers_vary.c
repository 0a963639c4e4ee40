/* test_numbers_vary.c: numbers, lists, dims and flags of ops that change between the calls of one function give eager's
 * results whatever they change to [semantics C4]; where a schema says int, no rule is ever handed a symbol. */
#include <signal.h>
#include <sinter/transform.h>
#include <stdio.h>

#include "ir/builder.h"
#include "ir/op_ids.h"
#include "ir/graph.h"
#include "runtime/base/error.h"
#include "tests/unit/contract.h"

typedef struct Numbers {
    int64_t at[2];
} Numbers;

static sn_tensor *gradient_of(sn_tensor *x, sn_tensor *y) {
    sn_tensor *grad = NULL;
    sn_gradients(SN_TENSORS(sn_sum(sn_mul(y, y))), SN_TENSORS(x), (sn_tensors){NULL, 0}, 0, &grad);
    return grad;
}

static sn_tensor *flipped(sn_tensor *x, const int64_t *n) { return sn_flip(x, SN_INTS(n[0])); }
static sn_tensor *turned(sn_tensor *x, const int64_t *n) { return sn_rot90(x, n[0], SN_INTS(1, 2)); }
static sn_tensor *rolled(sn_tensor *x, const int64_t *n) { return sn_roll(x, SN_INTS(n[1]), SN_INTS(n[0])); }
static sn_tensor *summed_up(sn_tensor *x, const int64_t *n) { return sn_cumsum(x, n[0], SN_F32); }
static sn_tensor *sums_gradient(sn_tensor *x, const int64_t *n) { return gradient_of(x, sn_cumsum(x, n[0], SN_F32)); }
static sn_tensor *products_gradient(sn_tensor *x, const int64_t *n) {
    return gradient_of(x, sn_cumprod(x, n[0], SN_F32));
}
static sn_tensor *softmax_gradient(sn_tensor *x, const int64_t *n) { return gradient_of(x, sn_softmax(x, n[0])); }
static sn_tensor *expanded(sn_tensor *x, const int64_t *n) {
    return sn_broadcast_to(sn_narrow(x, 1, 0, 1), SN_INTS(2, n[0], 3));
}
static sn_tensor *expanded_before(sn_tensor *x, const int64_t *n) { return sn_expand(x, SN_INTS(n[0], -1, n[1], 3)); }
static sn_tensor *viewed(sn_tensor *x, const int64_t *n) { return sn_reshape(x, SN_INTS(n[0], 3)); }
static sn_tensor *sliced(sn_tensor *x, const int64_t *n) { return sn_slice(x, 1, n[0], n[1], 1); }
static sn_tensor *selected(sn_tensor *x, const int64_t *n) { return sn_select(x, 1, n[0]); }
static sn_tensor *padded(sn_tensor *x, const int64_t *n) {
    return sn_constant_pad_nd(x, SN_INTS(n[0], n[1]), sn_float(0.5));
}
static sn_tensor *added(sn_tensor *x, const int64_t *n) { return sn_add_scalar(x, sn_int(n[0])); }

static const struct NumbersRow {
    const char *name;
    sn_tensor *(*body)(sn_tensor *x, const int64_t *n);
    int64_t first[10], second[10];
} rows[] = {
    {"flip", flipped, {0, 2, 1, -1, 0, 2, -3, 1, 1, 0}, {0}},
    {"rot90", turned, {0, 1, 3, 2, -1, 5, 1, 2, 0, 3}, {0}},
    {"roll", rolled, {0, 2, 1, -1, 1, 2, 0, 0, 1, 2}, {0, 1, -1, 2, 4, -2, 0, 3, 5, 1}},
    {"cumsum", summed_up, {0, 2, 1, -1, 0, 2, -3, 1, 1, 0}, {0}},
    {"cumsum's gradient", sums_gradient, {0, 2, 1, -1, 0, 2, -3, 1, 1, 0}, {0}},
    {"cumprod's gradient", products_gradient, {0, 2, 1, -1, 0, 2, -3, 1, 1, 0}, {0}},
    {"softmax's gradient", softmax_gradient, {0, 2, 1, -1, 0, 2, -3, 1, 1, 0}, {0}},
    {"broadcast_to", expanded, {-1, 4, 0, -1, 0, 3, 1, 5, -1, 2}, {0}},
    {"expand", expanded_before, {2, 3, 0, 1, 5, 0, 2, 4, 1, 3}, {-1, 3, -1, 3, -1, -1, 3, 3, -1, 3}},
    {"reshape", viewed, {-1, 6, -1, 6, 6, -1, 6, -1, -1, 6}, {0}},
    {"slice", sliced, {0, 1, -1, -2, 2, 0, -3, 1, -1, 0}, {3, -1, 3, 0, 1, -2, -1, 2, 9, 0}},
    {"select", selected, {0, -1, 1, -2, 2, -3, 0, 1, -1, 2}, {0}},
    {"constant_pad_nd", padded, {0, 1, 2, -1, 0, 3, -2, 1, 4, 0}, {0, 0, 3, 1, -1, 2, 2, 1, 0, 5}},
    {"add", added, {0, 1, -1, 5, -7, 0, 3, 1 << 30, -1, 2}, {0}},
};

typedef struct NumbersCase {
    const struct NumbersRow *row;
    int64_t n[2];
} NumbersCase;

static sn_status calls_row(sn_frame *f) {
    const NumbersCase *const c = sn_closure(f);
    return sn_out(f, 0, c->row->body(sn_in(f, 0), c->n));
}

static void expect_as_eager(const struct NumbersRow *row, bool sizes_vary, sn_dynamic dynamic) {
    NumbersCase fast = {row, {0}};
    sn_function *const fn = sn_compile(calls_row, &fast, SN_COMPILE_OPTIONS(.dynamic = dynamic));
    for (int i = 0; i < 40; i++) {
        const int k = i < 10 ? i : (i * 7 + i / 3) % 10;
        const sn_scope scope = sn_scope_begin();
        sn_tensor *const x = LEAF((uint64_t)i, sizes_vary ? 2 + i % 3 : 2, 3, 3);
        fast.n[0] = row->first[k], fast.n[1] = row->second[k];
        sn_tensor *const want = row->body(x, fast.n), *got = NULL;
        const sn_status refused = sn_check();
        if (refused) sn_error_take();
        got = SN_CALL(fn, x);
        ck_assert_msg(!got == !want, "%s of %lld %lld: %s", row->name, (long long)fast.n[0], (long long)fast.n[1],
                      sn_check() ? sn_error_take()->message : "no error");
        if (sn_check()) sn_error_take();
        ck_assert_msg(same_bits(got, want), "%s of %lld %lld, call %d", row->name, (long long)fast.n[0],
                      (long long)fast.n[1], i);
        sn_scope_end(scope);
    }
    sn_function_free(fn);
}

START_TEST(c4_structural_numbers_are_never_data) {
    const struct NumbersRow *const row = &rows[_i];
    expect_as_eager(row, false, SN_DYNAMIC_AUTO);
    expect_as_eager(row, true, SN_DYNAMIC_AUTO);
    expect_as_eager(row, true, SN_DYNAMIC_ALWAYS);
}
END_TEST

/* By an input of the call, and by one that is computed from a size: expressions, which a dim may not be. */
static sn_status flips_by_an_input(sn_frame *f) {
    const sn_sym dim = sn_in_sym(f, 1), rank = sn_sym_size(sn_in(f, 0), 0);
    sn_out(f, 0, sn_flip(sn_in(f, 0), SN_INTS(sn_sym_arg(dim))));
    sn_out(f, 1, sn_flip(sn_in(f, 0), SN_INTS(sn_sym_arg(sn_sym_op(rank, '%', sn_sym_int(3))))));
    return sn_out(f, 2, sn_rot90(sn_in(f, 0), sn_sym_arg(dim), SN_INTS(0, 1)));
}

START_TEST(c4_dims_that_inputs_say_are_replayed) {
    sn_function *const fn = sn_compile(flips_by_an_input, NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY));
    for (int i = 0; i < 40; i++) {
        const int64_t dim = (i * 7 + i / 3) % 3, rows_now = 2 + (i * 5 + i / 4) % 5;
        sn_tensor *const x = F32((uint64_t)i, rows_now, 3, 4), *out[3];
        ck_assert_int_eq(sn_call_values(fn, (sn_value[]){sn_val(x), sn_int(dim)}, 2, out, 3), SN_OK);
        ck_assert(same_bits(out[0], sn_flip(x, SN_INTS(dim))));
        ck_assert(same_bits(out[1], sn_flip(x, SN_INTS(rows_now % 3))));
        ck_assert(same_bits(out[2], sn_rot90(x, dim, SN_INTS(0, 1))));
    }
    sn_function_free(fn);
}
END_TEST

/* What a rule emits ---------------------------------------------------------------------------- */

static Status emit_flip_by_a_symbol(Arena *arena) {
    Graph *const graph = graph_new(arena, "f");
    const int64_t sizes[] = {2, 3}, strides[] = {3, 1}, dim = sym_free(graph->env, 1, 0);
    Val *outs[1] = {NULL};
    GVal *const x = graph_input(graph, "x", meta_new(arena, graph->env, DT_f32, DEV_cpu, sizes, strides, 2));
    return emit(&graph->builder, OP_flip, (const Arg[]){A_VAL(&x->base), A_INTS(&dim, 1)}, 2, outs);
}

START_TEST(a_rule_that_passes_a_symbol_for_an_int_is_told) {
    Arena *const arena = arena_new();
    ck_assert_int_eq(emit_flip_by_a_symbol(arena), ST_UNSUPPORTED);
    expect_error(SN_ERR_UNSUPPORTED, "dims is int[] in the schema");
    arena_free(arena);
}
END_TEST

START_TEST(c5_a_text_cannot_give_a_symbol_for_a_dim) {
    static const char text[] = "graph f(%x: f32[s0,3], s1: int) {\n"
                               "  %0: f32[s0,3] = aten::flip(%x, [s1])\n"
                               "  return %0\n}\n";
    ck_assert_ptr_null(sn_graph_parse(text, sizeof text - 1));
    expect_error(sn_check(), "dims is int[] in the schema");
}
END_TEST

/* Numbers of the function, in bodies that are traced by themselves, where numbers are plain. */
static sn_sym of_function;
static sn_status adds_square(sn_frame *f) {
    const sn_sym square = sn_sym_op(of_function, '*', of_function);
    return sn_out(f, 0, sn_add_scalar(sn_in(f, 0), sn_int(sn_sym_arg(square))));
}
static sn_status is_below(sn_frame *f) {
    const sn_sym limit = sn_sym_op(of_function, '+', sn_sym_int(40));
    return sn_out(f, 0, sn_lt_scalar(sn_sum(sn_in(f, 0)), sn_int(sn_sym_arg(limit))));
}
static sn_status sums_up(sn_frame *f) {
    sn_tensor *const sum = sn_add(sn_in(f, 0), sn_in(f, 1));
    sn_out(f, 0, sum);
    return sn_out(f, 1, sn_mul_scalar(sum, sn_int(sn_sym_arg(sn_sym_op(of_function, '+', of_function)))));
}
static sn_status asks_and_adds(sn_frame *f) { /* runs at once: a value is asked for */
    sn_tensor *const x = sn_in(f, 0);
    const int64_t square = sn_sym_value(sn_sym_op(of_function, '*', of_function));
    return sn_out(f, 0, sn_item(sn_sum(x)) > 1e9 ? x : sn_add_scalar(x, sn_int(square + sn_sym_value(of_function))));
}
static sn_status numbers_in_flow(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *out[6] = {NULL};
    of_function = sn_sym_op(sn_in_sym(f, 1), '+', sn_sym_size(x, 0));
    const sn_tensors in = SN_TENSORS(x);
    sn_cond(sn_gt_scalar(sn_sum(x), sn_float(0)), adds_square, adds_square, NULL, NULL, in, out, 1);
    sn_map(adds_square, NULL, NULL, in, out + 1, 1);
    sn_while_loop(is_below, adds_square, NULL, NULL, SN_TENSORS(sn_ones_like(x)), out + 2, 1);
    sn_scan(sums_up, NULL, NULL, SN_TENSORS(sn_select(x, 0, 0), x), out + 3, 2);
    sn_map(asks_and_adds, NULL, NULL, in, out + 5, 1);
    for (int i = 0; i < 6; i++) sn_out(f, i, out[i]);
    return sn_check();
}

START_TEST(c4_numbers_of_a_function_may_be_computed_with_in_traced_bodies) {
    sn_function *const eager = sn_compile(numbers_in_flow, NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
    sn_function *const replay = sn_compile(numbers_in_flow, NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY));
    for (int64_t i = 0; i < 6; i++) {
        const sn_value in[] = {sn_val(F32((uint64_t)i, 2 + i % 3, 3)), sn_int(i / 2)};
        sn_tensor *expected[6], *got[6];
        ck_assert_int_eq(sn_call_values(eager, in, 2, expected, 6), SN_OK);
        const sn_status status = sn_call_values(replay, in, 2, got, 6);
        ck_assert_msg(status == SN_OK, "call %d: %s", (int)i, sn_error_take()->message);
        for (int k = 0; k < 6; k++) ck_assert_msg(same_bits(got[k], expected[k]), "call %d, result %d", (int)i, k);
    }
    sn_function_free(eager);
    sn_function_free(replay);
}
END_TEST

static sn_status makes_many_numbers(sn_frame *f) {
    of_function = sn_sym_size(sn_in(f, 0), 0);
    for (int64_t i = 0; i < 100; i++)
        of_function = sn_sym_op(sn_sym_op(of_function, '*', sn_sym_int(i + 3)), '+', sn_sym_size(sn_in(f, 0), 1));
    return sn_out(f, 0, sn_exp(sn_in(f, 0)));
}
static sn_status asks_its_value(sn_frame *f) { return sn_sym_value(of_function), sn_out(f, 0, sn_exp(sn_in(f, 0))); }
static sn_status computes_with_it(sn_frame *f) {
    return sn_sym_op(sn_sym_int(1), '+', of_function), sn_out(f, 0, sn_exp(sn_in(f, 0)));
}

/* Another call's has fewer numbers, none of which it is. */
START_TEST(a_number_of_a_call_that_has_ended_is_an_error) {
    const sn_body bodies[] = {asks_its_value, computes_with_it};
    sn_function *const makes = sn_compile(makes_many_numbers, NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY));
    ck_assert_ptr_nonnull(SN_CALL(makes, F32(1, 2, 3)));
    for (size_t i = 0; i < COUNT_OF(bodies); i++) {
        sn_function *const fn = sn_compile(bodies[i], NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY));
        ck_assert_ptr_null(SN_CALL(fn, F32(1, 2, 3)));
        expect_error(sn_check(), "a symbolic int outlived the call that made it");
        sn_function_free(fn);
    }
    sn_sym_value(of_function);
    expect_error(sn_check(), "a symbolic int outlived the call that made it");
    sn_function_free(makes);
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("numbers");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, c4_structural_numbers_are_never_data, 0, COUNT_OF(rows));
    tcase_add_test(tests, c4_dims_that_inputs_say_are_replayed);
    tcase_add_test(tests, c4_numbers_of_a_function_may_be_computed_with_in_traced_bodies);
    tcase_add_test(tests, a_number_of_a_call_that_has_ended_is_an_error);
    tcase_add_test(tests, c5_a_text_cannot_give_a_symbol_for_a_dim);
#ifdef SINTER_DEBUG
    tcase_add_test_raise_signal(tests, a_rule_that_passes_a_symbol_for_an_int_is_told, SIGABRT);
#else
    tcase_add_test(tests, a_rule_that_passes_a_symbol_for_an_int_is_told);
#endif
    return suite_run("numbers that vary", tests);
}
