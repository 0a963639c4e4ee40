/* test_user_writes.c: user's ops that write arguments (Tensor(a!)) in compiled functions: nodes of graphs as their
 * functional ops, with eager's bits in results and in what is written; what copies cannot show runs at once. */
#include <sinter/dispatch.h>
#include <stdio.h>

#include "tests/unit/contract.h"

static const sn_op *op_of(const sn_op_desc *desc) {
    const sn_op *const op = sn_op_register(desc);
    ck_assert_msg(op != NULL, "%s", sn_error_take()->message);
    return op;
}

static sn_tensor *ema(const sn_op *op, sn_tensor *average, sn_tensor *x) {
    sn_value in[] = {sn_val(average), sn_val(x), sn_float(0.75)}, out[2] = {sn_val(NULL)};
    int n = 2;
    sn_op_call(op, in, 3, out, &n);
    return n ? out[0].tensor : NULL;
}

/* average = decay average + (1 - decay) x, element by element, by its address */
static sn_status blend(sn_frame *f) {
    sn_tensor *const x = sn_contiguous(sn_in(f, 1));
    float *const to = sn_data_mut(sn_in(f, 0), SN_F32);
    const float *const from = sn_data(x, SN_F32), decay = (float)sn_in_float(f, 2);
    if (!to || !from) return sn_check();
    for (int64_t i = 0; i < sn_numel(x); i++) to[i] = decay * to[i] + (1 - decay) * from[i];
    return SN_OK;
}
static sn_status blend_and_return(sn_frame *f) { return blend(f) ? sn_check() : sn_out(f, 0, sn_in(f, 0)); }
/* The same by ops, which take any strides. */
static sn_status blend_by_ops(sn_frame *f) {
    sn_tensor *const average = sn_in(f, 0);
    const double decay = sn_in_float(f, 2);
    sn_mul_scalar_(average, sn_float(decay));
    return sn_add_(average, sn_mul_scalar(sn_in(f, 1), sn_float(1 - decay))) ? SN_OK : sn_check();
}
static sn_status meta_nothing(sn_frame *f) { return f ? SN_OK : SN_ERR_INTERNAL; }
static sn_status meta_like_x(sn_frame *f) { return sn_out(f, 0, sn_empty_like(sn_in(f, 1))); }
/* A new result beside what is written: x less the average before. */
static sn_status blend_and_rest(sn_frame *f) {
    sn_tensor *const rest = sn_sub(sn_contiguous(sn_in(f, 1)), sn_in(f, 0));
    return blend(f) ? sn_check() : sn_out(f, 0, rest);
}

typedef struct Held {
    const sn_op *op;
    sn_tensor *average;
} Held;

/* Two functions with an average each, after the same calls. */
typedef struct Pair {
    Held fast, eager;
    Twin twin;
} Pair;

static void pair_start(Pair *pair, sn_body body, const sn_op *op, sn_tensor *average) {
    *pair = (Pair){.fast = {op, sn_keep(sn_clone(average))}, .eager = {op, sn_keep(sn_clone(average))}};
    pair->twin = twin_new(body, &pair->fast, &pair->eager, NULL);
}

/* w::ema_, of this process. */
static const sn_op *ema_op(void) {
    return op_of(SN_OP_DESC(.schema = "w::ema_(Tensor(a!) average, Tensor x, float decay) -> ()", .flags = SN_OP_PURE,
                            .cpu = blend));
}

static void pair_call(Pair *pair, sn_tensor *x) {
    TWIN_CALL(pair->twin, x);
    ck_assert(same_bits(pair->fast.average, pair->eager.average));
}

static void pair_free(Pair *pair) {
    twin_free(pair->twin);
    sn_release(pair->fast.average);
    sn_release(pair->eager.average);
}

/* One graph and no break: the calls after the first ran as compiled code. */
static void is_one_graph(const Pair *pair) {
    const sn_stats stats = stats_of(pair->twin.fast);
    ck_assert_msg(stats.graphs == 1 && stats.breaks == 0, "%s", sn_explain(pair->twin.fast));
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
}

static sn_status smooths(sn_frame *f) { /* reads it before, between and after the writes */
    const Held *const held = sn_closure(f);
    sn_tensor *const x = sn_relu(sn_in(f, 0)), *const before = sn_exp(held->average);
    ema(held->op, held->average, x);
    sn_tensor *const between = sn_mul(held->average, x);
    ema(held->op, held->average, between);
    return sn_out(f, 0, sn_add(sn_sub(before, between), held->average));
}

static void smooths_as_one_graph(const sn_op *op) {
    Pair pair;
    pair_start(&pair, smooths, op, F32(7, 4, 6));
    for (int i = 0; i < 4; i++) pair_call(&pair, F32(i, 4, 6));
    is_one_graph(&pair);
    ck_assert_ptr_nonnull(strstr(sn_dump(pair.twin.fast, "capture"), "functional(%"));
    pair_free(&pair);
}

START_TEST(a6_01_an_op_that_writes_is_a_node_of_the_graph) {
    smooths_as_one_graph(ema_op());
    smooths_as_one_graph(op_of(SN_OP_DESC(.schema = "w::same_(Tensor(a!) average, Tensor x, float decay) -> Tensor(a!)",
                                          .flags = SN_OP_PURE, .meta = meta_nothing, .cpu = blend_and_return)));
    smooths_as_one_graph(op_of(SN_OP_DESC(.schema = "w::rest_(Tensor(a!) average, Tensor x, float decay) -> Tensor",
                                          .flags = SN_OP_PURE, .meta = meta_like_x, .cpu = blend_and_rest)));
}
END_TEST

static sn_status smooths_rows(sn_frame *f) { /* a row, whose memory begins inside the average's */
    const Held *const held = sn_closure(f);
    for (int row = 0; row < 3; row++) {
        sn_tensor *const at = sn_select(held->average, 0, row);
        ema(held->op, at, sn_select(sn_in(f, 0), 0, 2 - row));
    }
    return sn_out(f, 0, sn_mul(held->average, sn_in(f, 0)));
}

START_TEST(a6_01_a_view_is_written_where_it_lies) {
    Pair pair;
    pair_start(&pair, smooths_rows, ema_op(), F32(7, 3, 5));
    for (int i = 0; i < 4; i++) pair_call(&pair, F32(i, 3, 5));
    is_one_graph(&pair);
    pair_free(&pair);
}
END_TEST

static sn_status smooths_both(sn_frame *f) {
    const sn_op *const op = sn_closure(f);
    ema(op, sn_in(f, 0), sn_exp(sn_in(f, 1)));
    return sn_out(f, 0, sn_add(sn_in(f, 0), sn_in(f, 1)));
}

START_TEST(a6_01_any_size_runs_one_graph) {
    const sn_op *const op = ema_op();
    const Twin twin = twin_new(smooths_both, (void *)(uintptr_t)op, (void *)(uintptr_t)op, NULL);
    for (int i = 0; i < 5; i++) {
        sn_tensor *const a = F32(i, 3 + i, 4), *const b = F32(i, 3 + i, 4), *const x = F32(i + 9, 3 + i, 4);
        twin_call(twin, SN_TENSORS(a, x), SN_TENSORS(b, x));
        ck_assert(same_bits(a, b));
    }
    ck_assert_int_eq(stats_of(twin.fast).breaks, 0);
    ck_assert_msg(stats_of(twin.fast).graphs <= 2, "%s", sn_explain(twin.fast));
    twin_free(twin);
}
END_TEST

/* What copies would not show: the op runs at once. */
static void runs_at_once(sn_body body, const sn_op *op, const char *why) {
    Pair pair;
    pair_start(&pair, body, op, F32(7, 3, 4));
    for (int i = 0; i < 4; i++) pair_call(&pair, F32(i, 3, 4));
    ck_assert_msg(strstr(sn_explain(pair.twin.fast), why) != NULL, "%s", sn_explain(pair.twin.fast));
    pair_free(&pair);
}

static sn_status smooths_itself(sn_frame *f) { /* x is what is written, too */
    const Held *const held = sn_closure(f);
    ema(held->op, held->average, sn_flip(held->average, SN_INTS(0)));
    ema(held->op, held->average, held->average);
    ema(held->op, sn_narrow(held->average, 0, 0, 2), sn_narrow(held->average, 0, 1, 2));
    return sn_out(f, 0, sn_add(held->average, sn_in(f, 0)));
}
static sn_status smooths_a_column(sn_frame *f) { /* with gaps */
    const Held *const held = sn_closure(f);
    ema(held->op, sn_select(held->average, 1, 1), sn_select(sn_exp(sn_in(f, 0)), 1, 0));
    return sn_out(f, 0, sn_add(held->average, sn_in(f, 0)));
}

START_TEST(a6_01_what_shares_memory_or_has_gaps_is_written_at_once) {
    const sn_op *const by_ops =
        op_of(SN_OP_DESC(.schema = "w::by_ops_(Tensor(a!) average, Tensor x, float decay) -> ()", .flags = SN_OP_PURE,
                         .meta = meta_nothing, .cpu = blend_by_ops));
    const sn_op *const without_meta = op_of(SN_OP_DESC(.schema = "w::bare_(Tensor(a!) a, Tensor x, float decay) -> ()",
                                                       .flags = SN_OP_PURE, .cpu = blend_by_ops));
    for (int i = 0; i < 2; i++) {
        const sn_op *const op = i ? by_ops : without_meta;
        runs_at_once(smooths_itself, op, "a user's op that writes an argument, whose memory another argument shows");
        runs_at_once(smooths_a_column, op, "a user's op that writes an argument, which has gaps between its elements");
    }
}
END_TEST

/* gradients ----------------------------------------------------------------------------------- */

static sn_status batch_loss(sn_frame *f) { /* statistics beside what is differentiated */
    const Held *const held = sn_closure(f);
    sn_tensor *const h = sn_mul(sn_in(f, 0), sn_in(f, 0));
    ema(held->op, held->average, sn_detach(h));
    return sn_out(f, 0, sn_sum(sn_mul(sn_sub(h, held->average), h)));
}

START_TEST(a6_01_statistics_beside_a_gradient) {
    Pair pair;
    pair_start(&pair, batch_loss, ema_op(), F32(7, 8));
    for (int i = 0; i < 4; i++) {
        sn_tensor *const a = LEAF(i, 8), *const b = LEAF(i, 8);
        sn_tensor *const fast = SN_CALL(pair.twin.fast, a);
        ck_assert_msg(fast != NULL, "%s", sn_error_take()->message);
        const sn_path path = last_path();
        sn_tensor *const eager = SN_CALL(pair.twin.eager, b);
        ck_assert(same_bits(fast, eager) && same_bits(pair.fast.average, pair.eager.average));
        ck_assert(!sn_requires_grad(pair.fast.average) && !sn_requires_grad(pair.eager.average));
        ck_assert_int_eq(sn_backward(fast), SN_OK);
        ck_assert_int_eq(sn_backward(eager), SN_OK);
        ck_assert(same_bits(sn_grad(a), sn_grad(b)));
        ck_assert(i < 2 || path == SN_PATH_COMPILED);
    }
    ck_assert_int_eq(stats_of(pair.twin.fast).breaks, 0);
    pair_free(&pair);
}
END_TEST

static sn_status writes_its_input(sn_frame *f) {
    const Held *const held = sn_closure(f);
    ema(held->op, sn_in(f, 0), held->average);
    return sn_out(f, 0, sn_exp(sn_in(f, 0)));
}

START_TEST(a6_01_a_leaf_is_refused_as_eager_refuses_it) {
    Held held = {ema_op(), sn_keep(F32(3, 4))};
    const Twin twin = twin_new(writes_its_input, &held, &held, NULL);
    for (int i = 0; i < 3; i++) {
        ck_assert_ptr_null(SN_CALL(twin.eager, LEAF(i, 4)));
        expect_error(SN_ERR_STATE, "a leaf that requires gradients would be written in place");
        ck_assert_ptr_null(SN_CALL(twin.fast, LEAF(i, 4)));
        expect_error(SN_ERR_STATE, "a leaf that requires gradients would be written in place");
        sn_tensor *const a = F32(i, 4), *const b = F32(i, 4);
        twin_call(twin, SN_TENSORS(a), SN_TENSORS(b));
        ck_assert(same_bits(a, b) && !same_bits(a, F32(i, 4)));
    }
    twin_free(twin);
    sn_release(held.average);
}
END_TEST

static sn_status writes_a_copy(sn_frame *f) { /* of the first input; the op's result, or what it wrote, is squared */
    sn_tensor *const a = sn_mul_scalar(sn_in(f, 0), sn_int(1)), *const given = ema(sn_closure(f), a, sn_in(f, 1));
    return sn_out(f, 0, sn_mul(a, given ? given : a));
}

/* Which inputs require gradients: bits. */
static sn_tensor *call_and_differentiate(sn_function *fn, int which, sn_tensor **leaves, char *error, size_t capacity) {
    for (int i = 0; i < 2; i++) leaves[i] = which >> i & 1 ? LEAF(i, 6) : F32(i, 6);
    sn_tensor *const y = sn_call1(fn, (sn_tensors){leaves, 2});
    *error = '\0';
    ck_assert_msg(y != NULL, "%s", sn_error_take()->message);
    if (sn_requires_grad(y) && sn_backward(sn_sum(y)) != SN_OK)
        snprintf(error, capacity, "%s", sn_error_take()->message);
    return y;
}

/* Compiled as eager: values, whether there are gradients, what they are, and the error of backward, which has `says`
 * where an input in `wrong` requires gradients. */
static void differentiates_as_eager(const sn_op *op, sn_compile_mode mode, int wrong, const char *says) {
    for (int which = 0; which < 4; which++) {
        sn_function *const fast = sn_compile(writes_a_copy, (void *)(uintptr_t)op, SN_COMPILE_OPTIONS(.mode = mode));
        sn_function *const eager =
            sn_compile(writes_a_copy, (void *)(uintptr_t)op, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
        for (int i = 0; i < 4; i++) {
            sn_tensor *a[2], *b[2];
            char errors[2][256];
            sn_tensor *const y = call_and_differentiate(fast, which, a, errors[0], sizeof errors[0]);
            sn_tensor *const z = call_and_differentiate(eager, which, b, errors[1], sizeof errors[1]);
            ck_assert(same_bits(y, z) && sn_requires_grad(y) == sn_requires_grad(z));
            ck_assert_str_eq(errors[0], errors[1]);
            ck_assert_msg(!(which & wrong) == !errors[1][0] && (!errors[1][0] || strstr(errors[1], says)), "%d: '%s'",
                          which, errors[1]);
            for (int k = 0; k < 2; k++) ck_assert(same_bits(sn_grad(a[k]), sn_grad(b[k])));
        }
        sn_function_free(fast);
        sn_function_free(eager);
    }
}

static sn_status blend_derivative(sn_frame *f) {
    const double decay = sn_in_float(f, 2);
    sn_set_grad_of(f, 0, sn_mul_scalar(sn_grad_of(f, 0), sn_float(decay)));
    return sn_set_grad_of(f, 1, sn_mul_scalar(sn_grad_of(f, 0), sn_float(1 - decay)));
}

START_TEST(a6_01_gradients_of_what_is_written_are_eagers) {
    const sn_op *const by_ops = op_of(SN_OP_DESC(.schema = "w::ops_(Tensor(a!) a, Tensor x, float decay) -> ()",
                                                 .flags = SN_OP_PURE, .cpu = blend_by_ops));
    const sn_op *const given = op_of(SN_OP_DESC(.schema = "w::given_(Tensor(a!) a, Tensor x, float d) -> Tensor(a!)",
                                                .flags = SN_OP_PURE, .cpu = blend_and_return));
    const sn_op *const ruled =
        op_of(SN_OP_DESC(.schema = "w::ruled_(Tensor(a!) a, Tensor x, float d) -> Tensor(a!)", .flags = SN_OP_PURE,
                         .cpu = blend_and_return, .derivative = blend_derivative));
    const sn_op *const rest = op_of(SN_OP_DESC(.schema = "w::rests_(Tensor(a!) a, Tensor x, float d) -> Tensor",
                                               .flags = SN_OP_PURE, .meta = meta_like_x, .cpu = blend_and_rest));
    const sn_op *const bare = ema_op();
    for (int replay = 0; replay < 2; replay++) {
        const sn_compile_mode mode = replay ? SN_COMPILE_REPLAY : SN_COMPILE_VERIFY;
        differentiates_as_eager(by_ops, mode, 0, "");
        differentiates_as_eager(ruled, mode, 0, "");
        differentiates_as_eager(given, mode, 3, "w::given_ has no derivative rule");
        differentiates_as_eager(rest, mode, 3, "w::rests_ has no derivative rule");
        differentiates_as_eager(bare, mode, 1, "w::ema_ has no derivative rule for the argument that it writes");
    }
    sn_tensor *const x = LEAF(1, 2, 3), *const a = sn_exp(x); /* the base of a view that is written */
    ema(bare, sn_select(a, 0, 1), F32(2, 3));
    ck_assert_int_eq(sn_backward(sn_sum(a)), SN_ERR_UNSUPPORTED);
    expect_error(SN_ERR_UNSUPPORTED, "w::ema_ has no derivative rule for the argument that it writes");
}
END_TEST

/* errors ---------------------------------------------------------------------------------------- */

static sn_status fails_half_way(sn_frame *f) { return f ? sn_fail(SN_ERR_VALUE, "half way") : SN_OK; }

START_TEST(a6_01_an_error_names_the_op_of_the_program) {
    Held held = {op_of(SN_OP_DESC(.schema = "w::half_(Tensor(a!) a, Tensor x, float decay) -> ()", .flags = SN_OP_PURE,
                                  .cpu = fails_half_way)),
                 sn_keep(F32(3, 4))};
    const Twin twin = twin_new(writes_its_input, &held, &held, NULL);
    for (int i = 0; i < 3; i++) {
        ck_assert_ptr_null(SN_CALL(twin.fast, F32(i, 4)));
        const sn_error *const error = sn_error_take();
        ck_assert_str_eq(error->message, "w::half_: half way");
        ck_assert_str_eq(error->op, "w::half_");
    }
    twin_free(twin);
    sn_release(held.average);
}
END_TEST

/* what the kernel returns ----------------------------------------------------------------------- */

static sn_status blend_and_copy(sn_frame *f) { return blend(f) ? sn_check() : sn_out(f, 0, sn_clone(sn_in(f, 0))); }
static sn_status blend_and_written(sn_frame *f) {
    return blend(f) ? sn_check() : sn_out(f, 0, sn_view(sn_in(f, 0), SN_INTS(-1)));
}

static sn_status turns(sn_frame *f) { return sn_t_(sn_in(f, 0)) ? SN_OK : sn_check(); }
static sn_status turns_one(sn_frame *f) {
    ema(sn_closure(f), sn_in(f, 0), sn_in(f, 0));
    return sn_out(f, 0, sn_in(f, 0));
}

START_TEST(a6_01_what_is_written_keeps_its_layout) {
    const sn_op *const op = op_of(
        SN_OP_DESC(.schema = "w::turn_(Tensor(a!) a, Tensor x, float d) -> ()", .flags = SN_OP_PURE, .cpu = turns));
    for (int mode = SN_COMPILE_VERIFY; mode <= SN_COMPILE_EAGER; mode++) {
        sn_function *const fn =
            sn_compile(turns_one, (void *)(uintptr_t)op, SN_COMPILE_OPTIONS(.mode = (sn_compile_mode)mode));
        ck_assert_ptr_null(SN_CALL(fn, F32(1, 2, 3)));
        expect_error(SN_ERR_CALLBACK, "its kernel made f32[3,2]{1,3} of argument 'a', which is f32[2,3]: it may write "
                                      "its elements alone");
        sn_function_free(fn);
    }
}
END_TEST

START_TEST(a6_01_a_result_is_what_the_schema_says) {
    const sn_op *const copy = op_of(SN_OP_DESC(.schema = "w::copy_(Tensor(a!) a, Tensor x, float d) -> Tensor(a!)",
                                               .flags = SN_OP_PURE, .meta = meta_nothing, .cpu = blend_and_copy));
    ck_assert_ptr_null(ema(copy, F32(1, 4), F32(2, 4)));
    expect_error(SN_ERR_CALLBACK, "its kernel returned another tensor as result 0, which is argument 'a'");
    const sn_op *const view = op_of(SN_OP_DESC(.schema = "w::view_(Tensor(a!) a, Tensor x, float d) -> Tensor",
                                               .flags = SN_OP_PURE, .meta = meta_like_x, .cpu = blend_and_written));
    ck_assert_ptr_null(ema(view, F32(1, 4), F32(2, 4)));
    expect_error(SN_ERR_CALLBACK, "its kernel returned the memory of argument 'a' as result 0");
}
END_TEST

/* modes that compute metadata, or more than one example --------------------------------------------- */

static sn_status blend_and_both(sn_frame *f) {
    if (blend_and_rest(f)) return sn_check();
    return sn_out(f, 1, sn_in(f, 0));
}

static sn_status blends_a_copy(sn_frame *f) {
    sn_tensor *const average = sn_clone(sn_in(f, 0)), *const first = ema(sn_closure(f), average, sn_in(f, 1));
    return sn_out(f, 0, sn_add(average, first ? first : average));
}

/* Without a kernel's run, and once for each example; whether its first result is the argument. */
static void needs_no_values(const sn_op *op, bool gives_argument) {
    sn_tensor *const average = F32(1, 3, 4), *const x = F32(2, 3, 4), *got[1] = {NULL};
    sn_tensor *const meta = sn_to_device(average, SN_META), *const first = ema(op, meta, sn_to_device(x, SN_META));
    ck_assert_int_eq(sn_check(), SN_OK);
    ck_assert(gives_argument ? first == meta : first != meta);
    const sn_scope scope = sn_scope_begin();
    sn_fake_mode_set(true);
    sn_tensor *const fake = sn_zeros(SN_INTS(3, 4), SN_F32), *const other = ema(op, fake, x);
    ck_assert_int_eq(sn_check(), SN_OK);
    ck_assert(gives_argument ? other == fake : other != fake);
    ema(op, average, x);
    expect_error(SN_ERR_STATE, "a tensor with values would be written by what is fake and has none");
    sn_scope_end(scope);
    ck_assert(same_bits(average, F32(1, 3, 4)));
    ck_assert_int_eq(sn_vmap(blends_a_copy, (void *)(uintptr_t)op, NULL, SN_TENSORS(average, x), got, 1), SN_OK);
    sn_tensor *const want = sn_clone(average), *const result = ema(op, want, x);
    ck_assert(same_bits(got[0], sn_add(want, result ? result : want)));
}

START_TEST(a6_01_results_that_are_arguments_need_no_meta_rule) {
    sn_logging_set(NULL, NULL, "-vmap"); /* which says that it runs once for each example */
    needs_no_values(ema_op(), false);
    needs_no_values(op_of(SN_OP_DESC(.schema = "w::bare_(Tensor(a!) a, Tensor x, float d) -> Tensor(a!)",
                                     .flags = SN_OP_PURE, .cpu = blend_and_return)),
                    true);
    needs_no_values(op_of(SN_OP_DESC(.schema = "w::none_(Tensor(a!) a, Tensor x, float d) -> Tensor(a!)",
                                     .flags = SN_OP_PURE, .meta = meta_nothing, .cpu = blend_and_return)),
                    true);
    needs_no_values(op_of(SN_OP_DESC(.schema = "w::both_(Tensor(a!) a, Tensor x, float d) -> (Tensor, Tensor(a!))",
                                     .flags = SN_OP_PURE, .meta = meta_like_x, .cpu = blend_and_both)),
                    false);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        a6_01_an_op_that_writes_is_a_node_of_the_graph,
        a6_01_a_view_is_written_where_it_lies,
        a6_01_any_size_runs_one_graph,
        a6_01_what_shares_memory_or_has_gaps_is_written_at_once,
        a6_01_statistics_beside_a_gradient,
        a6_01_a_leaf_is_refused_as_eager_refuses_it,
        a6_01_gradients_of_what_is_written_are_eagers,
        a6_01_an_error_names_the_op_of_the_program,
        a6_01_a_result_is_what_the_schema_says,
        a6_01_what_is_written_keeps_its_layout,
        a6_01_results_that_are_arguments_need_no_meta_rule,
    };
    return contract_main("test_user_writes", tests, (int)(sizeof tests / sizeof *tests));
}
