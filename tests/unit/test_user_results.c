/* test_user_results.c: user's ops that give lists and numbers: by the boxed call, in compiled functions, their
 * gradients, on tensors without values, under vmap, in texts and plans; and what is wrong with a body that gives
 * something else. */
#include <sinter/dispatch.h>
#include <sinter/infer.h>
#include <sinter/inspect.h>
#include <sinter/transform.h>

#include "tests/unit/contract.h"

static const sn_op *op_of(const sn_op_desc *desc) {
    const sn_op *const op = sn_op_register(desc);
    ck_assert_msg(op != NULL, "%s", sn_error_take()->message);
    return op;
}

/* res::rows(Tensor x, int n) -> Tensor[]: its first n rows, each times its number ---------------- */

static sn_status rows_meta(sn_frame *f) {
    for (int64_t i = 0; i < sn_in_int(f, 1); i++) sn_out(f, (int)i, sn_empty_like(sn_select(sn_in(f, 0), 0, 0)));
    return sn_check();
}
static sn_status rows_cpu(sn_frame *f) {
    for (int64_t i = 0; i < sn_in_int(f, 1); i++)
        sn_out(f, (int)i, sn_mul_scalar(sn_select(sn_in(f, 0), 0, i), sn_int(i + 1)));
    return sn_check();
}
static sn_status rows_derivative(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *grad = sn_zeros_like(x);
    for (int64_t i = 0; i < sn_in_int(f, 1); i++) {
        sn_tensor *const g = sn_grad_of(f, (int)i);
        if (g) grad = sn_add(grad, sn_select_scatter(sn_zeros_like(x), sn_mul_scalar(g, sn_int(i + 1)), 0, i));
    }
    return sn_set_grad_of(f, 0, grad);
}
static const sn_op *rows_op(void) {
    const sn_op *const known = sn_op_find("res::rows");
    if (known) return known;
    sn_error_take();
    return op_of(SN_OP_DESC(.schema = "res::rows(Tensor x, int n) -> Tensor[]", .flags = SN_OP_PURE, .meta = rows_meta,
                            .cpu = rows_cpu, .derivative = rows_derivative, .saves = "x"));
}

static int call_rows(sn_tensor *x, int64_t n, sn_value *out, int room) {
    const sn_value in[] = {sn_val(x), sn_int(n)};
    int count = room;
    return sn_op_call(rows_op(), in, 2, out, &count) == SN_OK ? count : -1;
}

START_TEST(a_list_stands_one_by_one) {
    sn_tensor *const x = F32(1, 4, 3);
    sn_value out[9];
    for (int n = 0; n <= 4; n++) {
        ck_assert_int_eq(call_rows(x, n, out, 9), n);
        for (int i = 0; i < n; i++)
            ck_assert(same_bits(out[i].tensor, sn_mul_scalar(sn_select(x, 0, i), sn_int(i + 1))));
        for (int i = n; i < 9; i++) ck_assert_int_eq(out[i].kind, SN_KIND_NONE);
    }
    ck_assert_int_eq(call_rows(x, 3, out, 2), -1);
    expect_error(SN_ERR_ARGUMENT, "has 3 results, and out has room for 2");
}
END_TEST

static sn_status use_rows(sn_frame *f) {
    sn_value out[4];
    sn_tensor *const x = sn_relu(sn_in(f, 0));
    if (call_rows(x, 3, out, 4) != 3) return sn_check();
    return sn_out(f, 0, sn_add(sn_mul(out[0].tensor, out[2].tensor), sn_exp(out[1].tensor)));
}

START_TEST(a_list_is_a_node_of_graphs) {
    const Twin twin = twin_new(use_rows, NULL, NULL, NULL);
    for (int i = 0; i < 4; i++) TWIN_CALL(twin, F32(i, 4, 3));
    const sn_stats stats = stats_of(twin.fast);
    ck_assert_msg(stats.breaks == 0, "%s", sn_explain(twin.fast));
    ck_assert(strstr(sn_dump(twin.fast, "capture"), "%2, %3, %4 = res::rows(%") ||
              strstr(sn_dump(twin.fast, "capture"), "%1, %2, %3 = res::rows(%0, 3)"));
    twin_free(twin);
}
END_TEST

static sn_status train_rows(sn_frame *f) {
    sn_value out[4];
    if (call_rows(sn_mul(sn_in(f, 0), sn_in(f, 0)), 3, out, 4) != 3) return sn_check();
    sn_backward(sn_sum(sn_mul(out[0].tensor, out[2].tensor)));
    return sn_out(f, 0, sn_sum(out[1].tensor));
}

START_TEST(a_list_has_gradients) {
    const Twin twin = twin_new(train_rows, NULL, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        sn_tensor *const a = LEAF(i, 4, 3), *const b = LEAF(i, 4, 3), *const c = LEAF(i, 4, 3);
        ck_assert_ptr_nonnull(SN_CALL(twin.fast, a));
        ck_assert_ptr_nonnull(SN_CALL(twin.eager, b));
        ck_assert(same_bits(sn_grad(a), sn_grad(b)));
        sn_tensor *const y = sn_mul(c, c); /* the same by ops */
        sn_backward(sn_sum(sn_mul(sn_select(y, 0, 0), sn_mul_scalar(sn_select(y, 0, 2), sn_int(3)))));
        ck_assert(sn_allclose(sn_grad(a), sn_grad(c), 1e-6, 1e-6));
    }
    ck_assert_msg(stats_of(twin.fast).breaks == 0, "%s", sn_explain(twin.fast));
    twin_free(twin);
}
END_TEST

static sn_status many_rows(sn_frame *f) {
    sn_value out[12];
    sn_tensor *const x = sn_relu(sn_in(f, 0));
    if (call_rows(x, 12, out, 12) != 12) return sn_check();
    return sn_out(f, 0, sn_add(out[0].tensor, out[11].tensor));
}

START_TEST(a_long_list_runs_at_once_and_says_why) {
    const Twin twin = twin_new(many_rows, NULL, NULL, NULL);
    for (int i = 0; i < 3; i++) TWIN_CALL(twin, F32(i, 12, 3));
    ck_assert_msg(strstr(sn_explain(twin.fast), "it has more than 8 results"), "%s", sn_explain(twin.fast));
    twin_free(twin);
}
END_TEST

/* res::each(Tensor x) -> (int, Tensor[]): its rows, as many as x has, behind their count; res::logged(Tensor x, int n)
 * -> Tensor[]: n copies, in order with other effects ------ */

static sn_status each_body(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    const int n = (int)sn_size(x, 0);
    sn_out_value(f, 0, sn_int(n));
    for (int i = 0; i < n; i++) sn_out(f, 1 + i, sn_neg(sn_select(x, 0, i)));
    return sn_check();
}
static sn_status use_each(sn_frame *f) {
    sn_value in = sn_val(sn_relu(sn_in(f, 0))), out[16];
    int n = 16;
    if (sn_op_call(sn_op_find("res::each"), &in, 1, out, &n) != SN_OK) return sn_check();
    sn_tensor *sum = sn_mul_scalar(sn_in(f, 0), out[0]);
    for (int i = 1; i < n; i++) sum = sn_add(sum, out[i].tensor);
    return sn_out(f, 0, sn_exp(sum));
}

/* Its length follows a size: the steps of one call are not those of another, whichever comes first. */
START_TEST(a_list_has_another_length_in_each_call) {
    static const int sizes[] = {2, 3, 2, 5, 1, 3, 9, 4, 2, 9, 5, 1};
    op_of(SN_OP_DESC(.schema = "res::each(Tensor x) -> (int, Tensor[])", .flags = SN_OP_PURE, .meta = each_body,
                     .cpu = each_body));
    for (int how = 0; how < 4; how++) {
        const sn_dynamic dynamic = how & 2 ? SN_DYNAMIC_ALWAYS : SN_DYNAMIC_AUTO;
        const Twin twin =
            twin_new(use_each, NULL, NULL,
                     SN_COMPILE_OPTIONS(.mode = how & 1 ? SN_COMPILE_REPLAY : SN_COMPILE_VERIFY, .dynamic = dynamic));
        for (int i = 0; i < 12; i++) TWIN_CALL(twin, F32((uint64_t)i, sizes[i], 3));
        twin_free(twin);
    }
}
END_TEST

static int logged;
static sn_status logged_meta(sn_frame *f) {
    for (int i = 0; i < sn_in_int(f, 1); i++) sn_out(f, i, sn_empty_like(sn_in(f, 0)));
    return sn_check();
}
static sn_status logged_cpu(sn_frame *f) {
    logged++;
    for (int i = 0; i < sn_in_int(f, 1); i++) sn_out(f, i, sn_clone(sn_in(f, 0)));
    return sn_check();
}
static sn_status use_logged(sn_frame *f) {
    const sn_value in[] = {sn_val(sn_relu(sn_in(f, 0))), sn_int(*(const int *)sn_closure(f))};
    sn_value out[4];
    int n = 4;
    if (sn_op_call(sn_op_find("res::logged"), in, 2, out, &n) != SN_OK) return sn_check();
    sn_tensor *sum = sn_exp(sn_in(f, 0));
    for (int i = 0; i < n; i++) sum = sn_add(sum, out[i].tensor);
    return sn_out(f, 0, sum);
}

/* No graph holds an op without results; a number says how many there are. */
START_TEST(a_list_may_be_empty) {
    op_of(SN_OP_DESC(.schema = "res::logged(Tensor x, int n) -> Tensor[]", .flags = SN_OP_ORDERED, .meta = logged_meta,
                     .cpu = logged_cpu));
    static const int counts[] = {0, 1, 0, 3, 2, 3, 0, 1};
    int n = 0;
    const Twin twin = twin_new(use_logged, &n, &n, NULL);
    for (int i = 0; i < 24; i++) {
        n = counts[i % 8];
        logged = 0;
        TWIN_CALL(twin, F32((uint64_t)i, 2, 3));
        ck_assert_int_eq(logged, 2);
    }
    ck_assert_msg(strstr(sn_explain(twin.fast), "an op without results"), "%s", sn_explain(twin.fast));
    twin_free(twin);
}
END_TEST

/* res::peak(Tensor x, int k) -> (Tensor, int, float): x without its sum; its sizes' product times k; its sum ------ */

static bool wrong_number;
static sn_status peak_meta(sn_frame *f) {
    sn_out(f, 0, sn_empty_like(sn_in(f, 0)));
    sn_out_value(f, 1, sn_int(sn_numel(sn_in(f, 0)) * sn_in_int(f, 1)));
    return sn_out_none(f, 2);
}
static sn_status peak_cpu(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const sum = sn_sum(x);
    sn_out(f, 0, sn_sub(x, sum));
    sn_out_value(f, 1, sn_int(sn_numel(x) * sn_in_int(f, 1) + wrong_number));
    return sn_out_value(f, 2, sn_float(sn_item(sum)));
}
static sn_status sized_derivative(sn_frame *f) {
    ck_assert_ptr_null(sn_grad_of(f, 1));
    sn_tensor *const g = sn_grad_of(f, 0);
    return sn_set_grad_of(f, 0, sn_sub(g, sn_sum(g)));
}
/* Nothing flows back through a number, whatever is done with what stands for it. */
static sn_status peak_derivative(sn_frame *f) {
    ck_assert_ptr_null(sn_grad_of(f, 2));
    return sized_derivative(f);
}
static const sn_op *peak_op(void) {
    const sn_op *const known = sn_op_find("res::peak");
    if (known) return known;
    sn_error_take();
    return op_of(SN_OP_DESC(.schema = "res::peak(Tensor x, int k) -> (Tensor, SymInt, float)", .flags = SN_OP_PURE,
                            .meta = peak_meta, .cpu = peak_cpu, .derivative = peak_derivative));
}

/* res::sized(Tensor x, int k) -> (Tensor, SymInt): without the sum, all is known before it runs */
static sn_status sized_meta(sn_frame *f) {
    sn_out(f, 0, sn_empty_like(sn_in(f, 0)));
    return sn_out_value(f, 1, sn_int(sn_numel(sn_in(f, 0)) * sn_in_int(f, 1)));
}
static sn_status sized_cpu(sn_frame *f) {
    sn_out(f, 0, sn_sub(sn_in(f, 0), sn_sum(sn_in(f, 0))));
    return sn_out_value(f, 1, sn_int(sn_numel(sn_in(f, 0)) * sn_in_int(f, 1) + wrong_number));
}
static bool call_sized(sn_tensor *x, int64_t k, sn_value out[2]) {
    const sn_value in[] = {sn_val(x), sn_int(k)};
    int n = 2;
    return sn_op_call(sn_op_find("res::sized"), in, 2, out, &n) == SN_OK && n == 2;
}

static bool call_peak(sn_tensor *x, int64_t k, sn_value out[3]) {
    const sn_value in[] = {sn_val(x), sn_int(k)};
    int n = 3;
    return sn_op_call(peak_op(), in, 2, out, &n) == SN_OK && n == 3;
}

START_TEST(numbers_come_as_numbers) {
    sn_tensor *const x = LEAF(1, 2, 3);
    sn_value out[3];
    ck_assert(call_peak(x, 5, out));
    ck_assert_int_eq(out[1].kind, SN_KIND_INT);
    ck_assert_int_eq(out[1].i, 30);
    ck_assert_int_eq(out[2].kind, SN_KIND_FLOAT);
    ck_assert(out[2].f == sn_item(sn_sum(x)));
    ck_assert(sn_requires_grad(out[0].tensor));
    sn_backward(sn_sum(out[0].tensor));
    ck_assert(sn_item(sn_select(sn_select(sn_grad(x), 0, 0), 0, 0)) == 1 - 6);
}
END_TEST

static sn_status use_sized(sn_frame *f) {
    sn_value out[2];
    if (!call_sized(sn_relu(sn_in(f, 0)), 2, out)) return sn_check();
    sn_tensor *const y = sn_mul_scalar(out[0].tensor, out[1]); /* by the meta rule: nothing has run */
    return sn_out(f, 0, sn_exp(sn_mul_scalar(y, sn_float(0.01))));
}
static sn_status use_sum(sn_frame *f) {
    sn_value out[3];
    if (!call_peak(sn_relu(sn_in(f, 0)), 2, out)) return sn_check();
    return sn_out(f, 0, sn_mul_scalar(out[0].tensor, out[2]));
}

START_TEST(a_number_that_meta_says_breaks_no_graph) {
    for (int mode = 0; mode < 2; mode++) {
        const Twin twin = twin_new(
            use_sized, NULL, NULL,
            SN_COMPILE_OPTIONS(.mode = mode ? SN_COMPILE_REPLAY : SN_COMPILE_VERIFY, .dynamic = SN_DYNAMIC_ALWAYS));
        for (int i = 0; i < 8; i++) TWIN_CALL(twin, F32(i, 2 + i % 4, 3)); /* other sizes, other numbers */
        ck_assert_int_eq(stats_of(twin.fast).breaks, 0);
        twin_free(twin);
    }
}
END_TEST

START_TEST(a_number_of_values_ends_the_segment) {
    for (int mode = 0; mode < 2; mode++) {
        const Twin twin =
            twin_new(use_sum, NULL, NULL, SN_COMPILE_OPTIONS(.mode = mode ? SN_COMPILE_REPLAY : SN_COMPILE_VERIFY));
        for (int i = 0; i < 6; i++) TWIN_CALL(twin, F32(i, 4, 3));
        ck_assert_msg(stats_of(twin.fast).breaks > 0, "%s", sn_explain(twin.fast));
        ck_assert_msg(strstr(sn_explain(twin.fast), "a value is needed on the host"), "%s", sn_explain(twin.fast));
        twin_free(twin);
    }
}
END_TEST

/* closure: whether the number of values is asked for, too */
static sn_status train_numbers(sn_frame *f) {
    sn_value out[3];
    sn_tensor *const square = sn_mul(sn_in(f, 0), sn_in(f, 0));
    if (!(sn_closure(f) ? call_peak(square, 2, out) : call_sized(square, 2, out))) return sn_check();
    sn_tensor *const loss = sn_sum(sn_mul_scalar(sn_mul(out[0].tensor, out[0].tensor), out[1]));
    sn_backward(loss);
    return sn_out(f, 0, sn_detach(loss));
}

START_TEST(numbers_have_no_gradient) {
    for (int values = 0; values < 2; values++) {
        const Twin twin = twin_new(train_numbers, values ? "" : NULL, values ? "" : NULL, NULL);
        for (int i = 0; i < 3; i++) {
            sn_tensor *const a = LEAF(i, 4, 3), *const b = LEAF(i, 4, 3);
            ck_assert_ptr_nonnull(SN_CALL(twin.fast, a));
            ck_assert_ptr_nonnull(SN_CALL(twin.eager, b));
            ck_assert(same_bits(sn_grad(a), sn_grad(b)));
        }
        ck_assert_int_eq(stats_of(twin.fast).breaks > 0, values);
        twin_free(twin);
    }
}
END_TEST

START_TEST(without_values_only_the_rule_says_numbers) {
    sn_value out[3];
    for (int fake = 0; fake < 2; fake++) {
        if (fake) sn_fake_mode_set(true);
        sn_tensor *const x = fake ? sn_zeros(SN_INTS(4, 3), SN_F32) : sn_to_device(F32(1, 4, 3), SN_META);
        const sn_value in[] = {sn_val(x), sn_int(2)};
        int n = 3;
        ck_assert_int_ne(sn_op_call(peak_op(), in, 2, out, &n), SN_OK); /* the float is of values */
        const sn_error *const error = sn_error_take();
        ck_assert_msg(strstr(error->message, "res::peak") != NULL, "%s", error->message);
        const sn_op *const first = sn_op_find("res::count");
        const sn_value one[] = {sn_val(x)};
        n = 3;
        ck_assert_int_eq(sn_op_call(first, one, 1, out, &n), SN_OK);
        ck_assert_int_eq(n, 1);
        ck_assert_int_eq(out[0].kind, SN_KIND_INT);
        ck_assert_int_eq(out[0].i, 12);
    }
    sn_fake_mode_set(false);
}
END_TEST

/* res::grown(Tensor(a!) x) -> (Tensor(a!), Tensor[], int): what a result is an argument is that handle everywhere. */
static sn_status grown_meta(sn_frame *f) {
    sn_out(f, 1, sn_empty_like(sn_in(f, 0)));
    return sn_out_value(f, 2, sn_int(3));
}
static sn_status grown_cpu(sn_frame *f) {
    sn_out(f, 0, sn_add_scalar_(sn_in(f, 0), sn_int(1)));
    sn_out(f, 1, sn_clone(sn_in(f, 0)));
    return sn_out_value(f, 2, sn_int(3));
}

START_TEST(a_result_beside_a_list_is_its_argument) {
    const sn_op *const op = op_of(SN_OP_DESC(.schema = "res::grown(Tensor(a!) x) -> (Tensor(a!), Tensor[], int)",
                                             .meta = grown_meta, .cpu = grown_cpu));
    for (int where = 0; where < 3; where++) {
        if (where == 2) sn_fake_mode_set(true);
        sn_tensor *const x = where == 0   ? F32(1, 4, 3)
                             : where == 1 ? sn_to_device(F32(1, 4, 3), SN_META)
                                          : sn_zeros(SN_INTS(4, 3), SN_F32);
        const sn_value in = sn_val(x);
        sn_value out[3];
        int n = 3;
        const int64_t before = sn_version_of(x);
        ck_assert_msg(sn_op_call(op, &in, 1, out, &n) == SN_OK, "%s", sn_error_take()->message);
        ck_assert_int_eq(n, 3);
        ck_assert_ptr_eq(out[0].tensor, x);
        ck_assert_ptr_ne(out[1].tensor, x);
        ck_assert_int_eq(out[2].i, 3);
        ck_assert(sn_version_of(x) > before);
    }
    sn_fake_mode_set(false);
}
END_TEST

/* res::count(Tensor x) -> int; res::any(Tensor x) -> bool; res::first(Tensor x) -> Scalar; res::mixed: all in one -- */

static sn_status count_meta(sn_frame *f) { return sn_out_value(f, 0, sn_int(sn_numel(sn_in(f, 0)))); }
static sn_status any_cpu(sn_frame *f) {
    return sn_out_value(f, 0, sn_bool(sn_item_int(sn_any(sn_gt_scalar(sn_in(f, 0), sn_int(0)))) != 0));
}
static sn_status first_cpu(sn_frame *f) {
    sn_tensor *const one = sn_select(sn_reshape(sn_in(f, 0), SN_INTS(-1)), 0, 0);
    return sn_out_value(f, 0, sn_dtype_of(one) == SN_I64 ? sn_int(sn_item_int(one)) : sn_float(sn_item(one)));
}
static sn_status mixed_cpu(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    sn_out(f, 0, sn_neg(x));
    for (int i = 0; i < (int)sn_size(x, 0); i++) sn_out(f, 1 + i, sn_clone(sn_select(x, 0, i)));
    sn_out_value(f, 1 + (int)sn_size(x, 0), sn_int(sn_size(x, 0)));
    return sn_out(f, 2 + (int)sn_size(x, 0), sn_abs(x));
}
static sn_status mixed_meta(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    const int n = (int)sn_size(x, 0);
    sn_out(f, 0, sn_empty_like(x));
    for (int i = 0; i < n; i++) sn_out(f, 1 + i, sn_empty_like(sn_select(x, 0, i)));
    sn_out_none(f, 1 + n);
    return sn_out(f, 2 + n, sn_empty_like(x));
}
static void register_numbers(void) {
    rows_op();
    peak_op();
    op_of(SN_OP_DESC(.schema = "res::sized(Tensor x, int k) -> (Tensor, SymInt)", .flags = SN_OP_PURE,
                     .meta = sized_meta, .cpu = sized_cpu, .derivative = sized_derivative));
    op_of(SN_OP_DESC(.schema = "res::count(Tensor x) -> int", .flags = SN_OP_PURE, .meta = count_meta,
                     .cpu = count_meta));
    op_of(SN_OP_DESC(.schema = "res::any(Tensor x) -> bool", .cpu = any_cpu));
    op_of(SN_OP_DESC(.schema = "res::first(Tensor x) -> Scalar", .cpu = first_cpu));
    op_of(SN_OP_DESC(.schema = "res::mixed(Tensor x) -> (Tensor, Tensor[], int, Tensor)", .flags = SN_OP_PURE,
                     .meta = mixed_meta, .cpu = mixed_cpu));
}

static sn_value one_number(const char *op, sn_tensor *x) {
    sn_value in = sn_val(x), out = sn_none();
    int n = 1;
    const sn_op *const found = sn_op_find(op);
    ck_assert_msg(found && sn_op_call(found, &in, 1, &out, &n) == SN_OK, "%s", sn_error_take()->message);
    return out;
}

START_TEST(each_kind_of_number) {
    sn_tensor *const x = F32(3, 2, 2);
    ck_assert(one_number("res::any", x).kind == SN_KIND_BOOL && one_number("res::any", x).i == 1);
    ck_assert_int_eq(one_number("res::any", sn_zeros(SN_INTS(2), SN_F32)).i, 0);
    ck_assert_int_eq(one_number("res::first", x).kind, SN_KIND_FLOAT);
    ck_assert_int_eq(one_number("res::first", sn_arange(sn_int(3), SN_I64)).kind, SN_KIND_INT);
    ck_assert_int_eq(one_number("res::count", x).i, 4);
    const sn_value in = sn_val(x);
    ck_assert_ptr_null(sn_op_call1(sn_op_find("res::count"), &in, 1));
    expect_error(SN_ERR_ARGUMENT, "the result of res::count is a number, which sn_op_call gives");
    sn_value out[6];
    int n = 6;
    ck_assert_int_eq(sn_op_call(sn_op_find("res::mixed"), &in, 1, out, &n), SN_OK);
    ck_assert_int_eq(n, 5);
    ck_assert(same_bits(out[2].tensor, sn_select(x, 0, 1)) && out[3].kind == SN_KIND_INT && out[3].i == 2);
    ck_assert(same_bits(out[4].tensor, sn_abs(x)));
}
END_TEST

static sn_status use_mixed(sn_frame *f) {
    const sn_value in = sn_val(sn_exp(sn_in(f, 0)));
    sn_value out[6];
    int n = 6;
    if (sn_op_call(sn_op_find("res::mixed"), &in, 1, out, &n) != SN_OK) return sn_check();
    return sn_out(f, 0, sn_add(sn_mul_scalar(out[4].tensor, out[3]), sn_add(out[1].tensor, out[2].tensor)));
}

START_TEST(a_list_beside_numbers_is_compiled) {
    const Twin twin = twin_new(use_mixed, NULL, NULL, NULL);
    for (int i = 0; i < 4; i++) TWIN_CALL(twin, F32(i, 2, 3));
    twin_free(twin);
}
END_TEST

/* res::join(Tensor[] x, Tensor w) -> Tensor[]: each times w; a list among the arguments has gradients, too ------- */

static sn_status join_meta(sn_frame *f) {
    const sn_value list = sn_in_value(f, 0);
    for (int i = 0; i < list.n; i++) sn_out(f, i, sn_empty_like(list.tensors[i]));
    return sn_check();
}
static sn_status join_cpu(sn_frame *f) {
    const sn_value list = sn_in_value(f, 0);
    for (int i = 0; i < list.n; i++) sn_out(f, i, sn_mul(list.tensors[i], sn_in(f, 1)));
    return sn_check();
}
static sn_status join_derivative(sn_frame *f) {
    const sn_value list = sn_in_value(f, 0);
    sn_tensor *w = NULL;
    sn_set_grad_of(f, 0, sn_grad_of(f, 0));
    expect_error(SN_ERR_ARGUMENT, "input 0 is a list of tensors: sn_set_grad_of_item");
    sn_set_grad_of_item(f, 0, 7, sn_grad_of(f, 0));
    expect_error(SN_ERR_ARGUMENT, "input 0 has no tensor 7; it has 2");
    for (int i = 0; i < list.n; i++) {
        sn_tensor *const g = sn_grad_of(f, i);
        if (!g) continue;
        sn_set_grad_of_item(f, 0, i, sn_mul(g, sn_in(f, 1)));
        sn_tensor *const part = sn_mul(g, list.tensors[i]);
        w = w ? sn_add(w, part) : part;
    }
    return sn_set_grad_of(f, 1, w);
}
/* Nothing of the list is saved: no tensors are there. */
static sn_status blind_derivative(sn_frame *f) {
    const sn_value list = sn_in_value(f, 0);
    for (int i = 0; i < list.n; i++) ck_assert_ptr_null(list.tensors[i]);
    for (int i = 0; i < list.n; i++) sn_set_grad_of_item(f, 0, i, sn_grad_of(f, i));
    return sn_check();
}

static sn_status use_join(sn_frame *f) {
    const sn_value in[] = {{.kind = SN_KIND_TENSORS, .n = 2, .tensors = (sn_tensor *[]){sn_in(f, 0), sn_in(f, 1)}},
                           sn_val(sn_in(f, 2))};
    sn_value out[2];
    int n = 2;
    if (sn_op_call(sn_op_find(sn_closure(f)), in, 2, out, &n) != SN_OK) return sn_check();
    sn_tensor *const y = sn_mul(out[0].tensor, out[1].tensor);
    if (sn_requires_grad(y)) sn_backward(sn_sum(y));
    return sn_out(f, 0, sn_detach(y));
}

START_TEST(lists_in_and_out_have_gradients) {
    static const char *const names[] = {"res::join", "res::blind"};
    op_of(SN_OP_DESC(.schema = "res::join(Tensor[] x, Tensor w) -> Tensor[]", .flags = SN_OP_PURE, .meta = join_meta,
                     .cpu = join_cpu, .derivative = join_derivative, .saves = "x, w"));
    op_of(SN_OP_DESC(.schema = "res::blind(Tensor[] x, Tensor w) -> Tensor[]", .flags = SN_OP_PURE, .meta = join_meta,
                     .cpu = join_cpu, .derivative = blind_derivative));
    for (int op = 0; op < 2; op++) {
        void *const name = (void *)(uintptr_t)names[op];
        const Twin twin = twin_new(use_join, name, name, NULL);
        for (int i = 0; i < 6; i++) {
            const bool train = i >= 3;
            sn_tensor *in[2][3];
            for (int k = 0; k < 6; k++)
                in[k / 3][k % 3] = train ? LEAF((uint64_t)(k % 3), 2, 3) : F32((uint64_t)(k % 3), 2, 3);
            twin_call(twin, (sn_tensors){in[0], 3}, (sn_tensors){in[1], 3});
            for (int k = 0; train && k < 3; k++) ck_assert(same_bits(sn_grad(in[0][k]), sn_grad(in[1][k])));
            if (!train || op) continue;
            sn_tensor *const w = in[0][2], *const want = sn_mul(in[0][1], sn_mul(w, w)); /* d (x0 w x1 w) / d x0 */
            ck_assert(sn_allclose(sn_grad(in[0][0]), want, 1e-6, 1e-6));
            ck_assert(sn_grad(w) != NULL);
        }
        twin_free(twin);
    }
}
END_TEST

/* wrong bodies -------------------------------------------------------------------------------- */

static int wrong_how;
static sn_status wrong_cpu(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    if (wrong_how == 0) return sn_out(f, 0, sn_neg(x));
    if (wrong_how == 1) return sn_out_value(f, 0, sn_float(1.5));
    if (wrong_how == 2) return sn_out_none(f, 0);
    if (wrong_how == 3) return sn_out_value(f, 0, (sn_value){.kind = SN_KIND_STRING, .string = "a"});
    return SN_OK;
}
static sn_status number_cpu(sn_frame *f) { return sn_out_value(f, 0, sn_int(1)); }
static sn_status hole_cpu(sn_frame *f) {
    sn_out(f, 0, sn_neg(sn_in(f, 0)));
    return sn_out(f, 2, sn_neg(sn_in(f, 0)));
}
static sn_status short_cpu(sn_frame *f) { return sn_out(f, 0, sn_neg(sn_in(f, 0))); }

static void fails(const char *op, sn_status status, const char *text) {
    sn_value in = sn_val(F32(1, 2, 2)), out[4];
    int n = 4;
    ck_assert_int_ne(sn_op_call(sn_op_find(op), &in, 1, out, &n), SN_OK);
    ck_assert_int_eq(n, 0);
    for (int i = 0; i < 4; i++) ck_assert_int_eq(out[i].kind, SN_KIND_NONE);
    expect_error(status, text);
}

START_TEST(a_body_gives_what_its_schema_has) {
    op_of(SN_OP_DESC(.schema = "res::wrong(Tensor x) -> int", .cpu = wrong_cpu));
    static const char *const texts[] = {
        "res::wrong: output 0 is f32[2,2], where its schema has int (sn_out_value)",
        "res::wrong: output 0 is a float, where its schema has int",
        "res::wrong: output 0 can't be absent: it is no compiled function's, nor a number in a meta rule",
        "output 0 is a string: it is a tensor, an int, a float or a bool", "the callback set no output 0"};
    for (wrong_how = 0; wrong_how < 5; wrong_how++)
        fails("res::wrong",
              wrong_how == 2   ? SN_ERR_UNSUPPORTED
              : wrong_how == 3 ? SN_ERR_ARGUMENT
                               : SN_ERR_CALLBACK,
              texts[wrong_how]);
    op_of(SN_OP_DESC(.schema = "res::tensor(Tensor x) -> Tensor", .cpu = number_cpu));
    fails("res::tensor", SN_ERR_UNSUPPORTED, "output 0 is no number: only a user's op whose schema says so has one");
    op_of(SN_OP_DESC(.schema = "res::pair(Tensor x) -> (Tensor, int)", .cpu = number_cpu));
    fails("res::pair", SN_ERR_CALLBACK, "the callback set no output 1");
    op_of(SN_OP_DESC(.schema = "res::hole(Tensor x) -> Tensor[]", .cpu = hole_cpu));
    fails("res::hole", SN_ERR_CALLBACK, "res::hole: the callback set output 2, but not output 1");
    op_of(SN_OP_DESC(.schema = "res::short(Tensor x) -> (Tensor, Tensor[], Tensor)", .cpu = short_cpu));
    fails("res::short", SN_ERR_CALLBACK, "the callback set 1 outputs; beside its list the op has 2");
}
END_TEST

START_TEST(what_no_op_returns_is_refused) {
    static const char *const schemas[][2] = {
        {"res::a(Tensor x) -> int[]", "result 0 is int[]"},
        {"res::b(Tensor x) -> str", "result 0 is str"},
        {"res::c(Tensor x) -> Tensor?", "result 0 is Tensor?"},
        {"res::d(Tensor x) -> (Tensor[], int, Tensor[])", "results 0 and 2 are lists, and nothing says where one ends"},
        {"res::e(Tensor(a!)[] x) -> Tensor(a!)[]", "result 0 is a list of arguments"}};
    for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++) {
        ck_assert_ptr_null(sn_op_register(SN_OP_DESC(.schema = schemas[i][0], .cpu = wrong_cpu)));
        expect_error(SN_ERR_UNSUPPORTED, schemas[i][1]);
    }
}
END_TEST

/* A kernel that gives another count or number than its meta rule: an error, eager and compiled alike. */
static sn_status longer_cpu(sn_frame *f) {
    for (int i = 0; i < 3; i++) sn_out(f, i, sn_clone(sn_select(sn_in(f, 0), 0, 0)));
    return sn_check();
}
static sn_status longer_meta(sn_frame *f) {
    for (int i = 0; i < 2; i++) sn_out(f, i, sn_empty_like(sn_select(sn_in(f, 0), 0, 0)));
    return sn_check();
}
static sn_status use_longer(sn_frame *f) {
    const sn_value in = sn_val(sn_relu(sn_in(f, 0)));
    sn_value out[4];
    int n = 4;
    if (sn_op_call(sn_op_find("res::longer"), &in, 1, out, &n) != SN_OK) return sn_check();
    return sn_out(f, 0, out[0].tensor);
}

START_TEST(the_kernel_gives_what_the_rule_said) {
    op_of(SN_OP_DESC(.schema = "res::longer(Tensor x) -> Tensor[]", .flags = SN_OP_PURE, .meta = longer_meta,
                     .cpu = longer_cpu));
    const Twin longer = twin_new(use_longer, NULL, NULL, NULL), sized = twin_new(use_sized, NULL, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        ck_assert_ptr_null(SN_CALL(longer.eager, F32(i, 4, 3)));
        expect_error(SN_ERR_SHAPE, "res::longer: its kernel returned 3 results, where its meta rule said 2");
        ck_assert_ptr_null(SN_CALL(longer.fast, F32(i, 4, 3)));
        expect_error(SN_ERR_SHAPE, "res::longer: its kernel returned 3 results, where its meta rule said 2");
        TWIN_CALL(sized, F32(i, 4, 3));
        wrong_number = true;
        ck_assert_ptr_null(SN_CALL(sized.eager, F32(i, 4, 3)));
        expect_error(SN_ERR_VALUE, "res::sized: its kernel returned 25 as result 1, where its meta rule said 24");
        ck_assert_ptr_null(SN_CALL(sized.fast, F32(i, 4, 3)));
        expect_error(SN_ERR_VALUE, "res::sized: its kernel returned 25 as result 1, where its meta rule said 24");
        wrong_number = false;
    }
    twin_free(longer);
    twin_free(sized);
}
END_TEST

static sn_status fewer_cpu(sn_frame *f) { return sn_out(f, 0, sn_clone(sn_select(sn_in(f, 0), 0, 0))); }

START_TEST(the_check_of_ops_knows_lists_and_numbers) {
    static const char *const names[] = {"res::peak", "res::sized", "res::rows", "res::mixed", "res::count"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const sn_value in[] = {sn_val(F32(1, 3, 2)), sn_int(2)};
        const sn_op_sample sample = {in, i > 2 ? 1 : 2};
        const sn_status status = sn_op_check(sn_op_find(names[i]), &sample, 1);
        ck_assert_msg(status == SN_OK, "%s", sn_error_take()->message);
    }
    const sn_value in = sn_val(F32(1, 3, 2));
    op_of(SN_OP_DESC(.schema = "res::fewer(Tensor x) -> Tensor[]", .meta = longer_meta, .cpu = fewer_cpu));
    ck_assert_int_ne(sn_op_check(sn_op_find("res::fewer"), &(sn_op_sample){&in, 1}, 1), SN_OK);
    expect_error(SN_ERR_SHAPE, "its kernel returned 1 results, where its meta rule said 2");
}
END_TEST

/* elsewhere ----------------------------------------------------------------------------------- */

static sn_status one_example(sn_frame *f) {
    sn_value out[4];
    if (call_rows(sn_in(f, 0), 2, out, 4) != 2) return sn_check();
    return sn_out(f, 0, sn_add(out[0].tensor, out[1].tensor));
}
static sn_status one_number_each(sn_frame *f) {
    sn_value out[3];
    if (!call_peak(sn_in(f, 0), 2, out)) return sn_check();
    return sn_out(f, 0, out[0].tensor);
}

START_TEST(vmap_goes_example_by_example) {
    sn_tensor *const x = F32(1, 5, 4, 3);
    sn_tensor *out[1];
    ck_assert_msg(sn_vmap(one_example, NULL, NULL, SN_TENSORS(x), out, 1) == SN_OK, "%s", sn_error_take()->message);
    for (int i = 0; i < 5; i++) {
        sn_value want[2];
        ck_assert_int_eq(call_rows(sn_select(x, 0, i), 2, want, 2), 2);
        ck_assert(same_bits(sn_select(out[0], 0, i), sn_add(want[0].tensor, want[1].tensor)));
    }
    ck_assert_int_ne(sn_vmap(one_number_each, NULL, NULL, SN_TENSORS(x), out, 1), SN_OK); /* five floats, one asked */
    const sn_error *const error = sn_error_take();
    ck_assert_msg(strstr(error->message, "res::peak"), "%s", error->message);
}
END_TEST

/* Types, sizes, a list's length, without a run; a number is a tensor of rank 0. */
START_TEST(inference_knows_lists_and_numbers) {
    sn_inferred out[4];
    const sn_value rows[] = {sn_val(F32(1, 4, 3)), sn_int(2)};
    int n = 4;
    ck_assert_msg(sn_op_infer(rows_op(), rows, 2, out, &n, NULL) == SN_OK, "%s", sn_error_take()->message);
    ck_assert_int_eq(n, 2);
    ck_assert(out[1].dtype == SN_F32 && out[1].rank == 1);
    n = 4;
    ck_assert_msg(sn_op_infer(peak_op(), rows, 2, out, &n, NULL) == SN_OK, "%s", sn_error_take()->message);
    ck_assert_int_eq(n, 3);
    ck_assert(out[1].dtype == SN_I64 && out[1].rank == 0 && out[2].dtype == SN_F64 && out[0].rank == 2);
}
END_TEST

static const char graph_text[] = "graph g(%x: f32[2,3]) {\n"
                                 "  %0, %1, %2 = res::peak(%x, 4)\n"
                                 "  %3, %4 = res::rows(%0, 2)\n"
                                 "  %5 = aten::mul.Tensor(%3, %2)\n"
                                 "  return %5, %1, %4\n"
                                 "}\n";

START_TEST(graphs_have_numbers_as_tensors) {
    sn_tensor *const x = F32(1, 2, 3);
    peak_op();
    rows_op();
    sn_graph *const g = sn_graph_parse(graph_text, strlen(graph_text));
    ck_assert_msg(g != NULL, "%s", sn_error_take()->message);
    ck_assert_str_eq(sn_graph_text(g), graph_text);
    sn_function *const fn = sn_graph_compile(g, NULL);
    for (int i = 0; i < 3; i++) {
        sn_tensor *out[3];
        ck_assert_msg(sn_call(fn, &x, 1, out, 3) == SN_OK, "%s", sn_error_take()->message);
        sn_value want[3], rows[2];
        ck_assert(call_peak(x, 4, want));
        ck_assert_int_eq(call_rows(want[0].tensor, 2, rows, 2), 2);
        ck_assert_int_eq(sn_dtype_of(out[0]), SN_F32); /* a number, not a tensor of f64 */
        ck_assert(same_bits(out[0], sn_mul_scalar(rows[0].tensor, want[2])));
        ck_assert_int_eq(sn_item_int(out[1]), 24);
        ck_assert(same_bits(out[2], rows[1].tensor));
    }
    for (int i = 0; i < 3; i++) { /* d (rows of (x - sum x)[0] * sum x) / d x, the sum a constant */
        sn_tensor *const leaf = LEAF((uint64_t)i, 2, 3), *out[3], *in = leaf;
        ck_assert_int_eq(sn_call(fn, &in, 1, out, 3), SN_OK);
        ck_assert_msg(sn_backward(sn_sum(out[0])) == SN_OK, "%s", sn_error_take()->message);
        const double sum = sn_item(sn_sum(sn_detach(leaf)));
        ck_assert(!sn_requires_grad(out[1]));
        for (int row = 0; row < 2; row++)
            ck_assert_double_eq_tol(sn_item(sn_select(sn_select(sn_grad(leaf), 0, row), 0, 1)), (!row - 3) * sum, 1e-4);
    }
    sn_function_free(fn);
    sn_graph_free(g);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        a_list_stands_one_by_one,
        a_list_is_a_node_of_graphs,
        a_list_has_gradients,
        a_long_list_runs_at_once_and_says_why,
        a_list_has_another_length_in_each_call,
        a_list_may_be_empty,
        numbers_come_as_numbers,
        a_number_that_meta_says_breaks_no_graph,
        a_number_of_values_ends_the_segment,
        numbers_have_no_gradient,
        without_values_only_the_rule_says_numbers,
        a_result_beside_a_list_is_its_argument,
        each_kind_of_number,
        a_list_beside_numbers_is_compiled,
        lists_in_and_out_have_gradients,
        a_body_gives_what_its_schema_has,
        what_no_op_returns_is_refused,
        the_kernel_gives_what_the_rule_said,
        the_check_of_ops_knows_lists_and_numbers,
        vmap_goes_example_by_example,
        inference_knows_lists_and_numbers,
        graphs_have_numbers_as_tensors,
    };
    TCase *const tcase = tcase_create("test_user_results");
    tcase_add_checked_fixture(tcase, register_numbers, NULL);
    tcase_set_timeout(tcase, 60);
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) tcase_add_test(tcase, tests[i]);
    return suite_run("test_user_results", tcase);
}
