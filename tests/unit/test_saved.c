/* test_saved.c: compiled functions as files [8.05]: a plan that was saved and loaded gives the bits of its function,
 * without the body; what cannot be saved says why; what does not fit names its guard; a file that is not as it was
 * written is refused. Each test writes to a file of its own in the current folder. */
#include <stdio.h>
#include <unistd.h>

#include "runtime/core/tensor.h"
#include "tests/unit/contract.h"

typedef struct Host {
    int runs;
    sn_tensor *w, *b;
} Host;

#define REPLAY(...) SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY, __VA_ARGS__)
#define EMBED       SN_PLAN_OPTIONS(.embed = true)

static char path[64];
static const char *file_name(void) {
    snprintf(path, sizeof path, "test_saved.%d.plan", (int)getpid());
    return path;
}

static sn_function *loaded(const sn_plan_options *options) {
    sn_function *const fn = sn_plan_load(file_name(), options);
    ck_assert_msg(fn != NULL, "%s", sn_error_take()->message);
    return fn;
}

static void saved(sn_function *fn, const sn_plan_options *options) {
    const sn_status status = sn_plan_save(fn, file_name(), options);
    ck_assert_msg(status == SN_OK, "%s", sn_error_take()->message);
}

static void refused(sn_function *fn, const char *why) {
    remove(file_name());
    ck_assert_int_eq(sn_plan_save(fn, file_name(), NULL), SN_ERR_UNSUPPORTED);
    expect_error(SN_ERR_UNSUPPORTED, why);
    ck_assert(access(path, F_OK));
    sn_function_free(fn);
}

static void same_result(sn_tensor *got, sn_tensor *want) {
    ck_assert_msg(got != NULL, "%s", sn_error_take()->message);
    ck_assert(same_bits(got, want));
}

/* bodies -------------------------------------------------------------------------------------- */

static sn_status mlp(sn_frame *f) {
    Host *const h = sn_closure(f);
    h->runs++;
    return sn_out(f, 0, sn_softmax(sn_gelu(sn_linear(sn_in(f, 0), h->w, h->b)), -1));
}

static sn_status scaled(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    const sn_sym n = sn_sym_size(x, 0);
    sn_tensor *const flat = sn_reshape(sn_mul(x, x), SN_INTS(sn_sym_arg(sn_sym_op(n, '*', sn_sym_int(6)))));
    sn_out(f, 1, sn_sum(flat));
    return sn_out(f, 0, sn_mul_scalar(flat, sn_in_value(f, 1)));
}

static sn_status dropped(sn_frame *f) { return sn_out(f, 0, sn_dropout(sn_exp(sn_in(f, 0)), 0.5, true)); }

static sn_status counts(sn_frame *f) {
    Host *const h = sn_closure(f);
    sn_add_(h->w, sn_in(f, 0));
    return sn_out(f, 0, sn_mul_scalar(h->w, sn_float(2.0)));
}

static sn_status indexed(sn_frame *f) {
    const Host *const h = sn_closure(f);
    return sn_out(f, 0, sn_index_select(h->w, 0, sn_in(f, 0)));
}

static sn_status small_or_large(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    return sn_out(f, 0, sn_size(x, 0) > 10 ? sn_relu(x) : sn_exp(x));
}

/* what is saved runs -------------------------------------------------------------------------- */

static const int64_t batches[] = {8, 16, 5, 33, 64, 1, 7};
enum { BATCHES = sizeof batches / sizeof *batches };

/* Calls of so many sizes, and what each gave. */
static void teach(sn_function *fn, sn_tensor **want) {
    for (int i = 0; i < BATCHES; i++) want[i] = SN_CALL(fn, F32(i, batches[i], 6));
    ck_assert_msg(sn_check() == SN_OK, "%s", sn_error_take()->message);
}

static void mlp_runs(sn_path by) {
    Host h = {.w = F32(90, 4, 6), .b = F32(91, 4)};
    sn_function *const fn = sn_compile(mlp, &h, REPLAY(.name = "mlp"));
    sn_tensor *want[BATCHES];
    teach(fn, want);
    saved(fn, EMBED);
    sn_function_free(fn);
    const int runs = h.runs;
    sn_function *const plan = loaded(NULL);
    for (int i = 0; i < BATCHES; i++) same_result(SN_CALL(plan, F32(i, batches[i], 6)), want[i]);
    sn_function *const eager = sn_compile(mlp, &h, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
    for (int n = 2; n < 40; n += 3) same_result(SN_CALL(plan, F32(n, n, 6)), SN_CALL(eager, F32(n, n, 6)));
    ck_assert_int_eq(h.runs, runs + 13);
    ck_assert_int_eq(stats_of(plan).calls, BATCHES + 13);
    ck_assert_msg(!strncmp(sn_explain(plan), "mlp: 20 calls, ", 15), "%s", sn_explain(plan));
    ck_assert_ptr_nonnull(strstr(sn_dump(plan, "loops"), "kernel "));
    SN_CALL(plan, F32(3, 8, 6));
    ck_assert_int_eq(last_path(), by);
    sn_function_free(eager);
    sn_function_free(plan);
    remove(path);
}

START_TEST(several_cases_and_other_sizes_run) { mlp_runs(SN_PATH_COMPILED); }
END_TEST

START_TEST(without_llvm_the_interpreter_runs_it) {
    setenv("SINTER_LLVM_MODULE", "/nowhere", 1);
    mlp_runs(SN_PATH_INTERPRETED);
}
END_TEST

static sn_tensor *call_scaled(sn_function *fn, sn_tensor *x, sn_value by, sn_tensor **sum) {
    sn_tensor *out[2] = {NULL, NULL};
    sn_call_values(fn, (sn_value[]){sn_val(x), by}, 2, out, 2);
    *sum = out[1];
    return out[0];
}

START_TEST(numbers_and_sizes_are_free) {
    sn_function *const fn = sn_compile(scaled, NULL, REPLAY(0)), *const eager = sn_compile(
                                                                     scaled, NULL,
                                                                     SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
    sn_tensor *sum, *want_sum;
    for (int i = 2; i < 6; i++) call_scaled(fn, F32(i, i + 6, 6), sn_float(0.5 * i), &sum);
    saved(fn, NULL);
    sn_function *const plan = loaded(NULL);
    for (int i = 2; i < 12; i++) {
        sn_tensor *const x = F32(i, 3 * i, 6), *const want = call_scaled(eager, x, sn_float(0.3 * i), &want_sum);
        same_result(call_scaled(plan, x, sn_float(0.3 * i), &sum), want);
        same_result(sum, want_sum);
    }
    sn_function_free(plan);
    sn_function_free(eager);
    sn_function_free(fn);
    remove(path);
}
END_TEST

START_TEST(random_ops_take_the_loading_states_numbers) {
    sn_function *const fn = sn_compile(dropped, NULL, REPLAY(0));
    sn_tensor *const x = F32(3, 40, 5), *want[4];
    SN_CALL(fn, F32(1, 40, 5));
    saved((SN_CALL(fn, x), fn), NULL);
    sn_seed(11);
    for (int i = 0; i < 4; i++) want[i] = SN_CALL(fn, x);
    sn_function *const plan = loaded(NULL);
    sn_seed(11);
    for (int i = 0; i < 4; i++) same_result(SN_CALL(plan, x), want[i]);
    ck_assert(!same_bits(want[0], want[1]));
    sn_function_free(plan);
    sn_function_free(fn);
    remove(path);
}
END_TEST

START_TEST(training_functions_save_their_forward) {
    Host h = {.w = LEAF(90, 4, 6), .b = LEAF(91, 4)};
    sn_function *const fn = sn_compile(mlp, &h, REPLAY(0));
    sn_tensor *want[BATCHES];
    teach(fn, want);
    ck_assert(sn_requires_grad(want[0]));
    saved(fn, EMBED);
    sn_function *const plan = loaded(NULL);
    for (int i = 0; i < BATCHES; i++) {
        sn_tensor *const got = SN_CALL(plan, F32(i, batches[i], 6));
        same_result(got, want[i]);
        ck_assert(!sn_requires_grad(got));
    }
    ck_assert_ptr_null(SN_CALL(plan, LEAF(1, 8, 6)));
    expect_error(SN_ERR_ARGUMENT, "argument 0 requires gradients, which a plan does not record");
    const sn_scope off = sn_no_grad_begin();
    same_result(SN_CALL(plan, LEAF(0, 8, 6)), SN_CALL(plan, F32(0, 8, 6)));
    sn_scope_end(off);
    sn_function_free(plan);
    sn_function_free(fn);
    remove(path);
}
END_TEST

START_TEST(writes_to_what_is_closed_over_stay_in_the_function) {
    Host h = {.w = F32(5, 3, 3)};
    sn_function *const fn = sn_compile(counts, &h, REPLAY(0));
    SN_CALL(fn, F32(1, 3, 3));
    SN_CALL(fn, F32(2, 3, 3));
    saved(fn, EMBED);
    sn_function *const plan = loaded(NULL);
    for (int i = 0; i < 3; i++) {
        sn_tensor *const got = SN_CALL(plan, F32(i, 3, 3));
        same_result(got, SN_CALL(fn, F32(i, 3, 3)));
    }
    sn_function_free(plan);
    sn_function_free(fn);
    remove(path);
}
END_TEST

static sn_status calls_plan(sn_frame *f) {
    sn_tensor *y = SN_CALL(sn_closure(f), sn_neg(sn_in(f, 0)));
    return sn_out(f, 0, sn_exp(y));
}

START_TEST(a_compiled_function_may_call_it) {
    Host h = {.w = F32(90, 4, 6), .b = F32(91, 4)};
    sn_function *const fn = sn_compile(mlp, &h, REPLAY(0));
    SN_CALL(fn, F32(1, 8, 6));
    SN_CALL(fn, F32(2, 8, 6));
    saved(fn, EMBED);
    sn_function *const plan = loaded(NULL);
    sn_function *const outer = sn_compile(calls_plan, plan, NULL);
    for (int i = 0; i < 3; i++) same_result(SN_CALL(outer, F32(i, 8, 6)), sn_exp(SN_CALL(fn, sn_neg(F32(i, 8, 6)))));
    sn_function_free(outer);
    sn_function_free(plan);
    sn_function_free(fn);
    remove(path);
}
END_TEST

/* what is closed over ------------------------------------------------------------------------- */

START_TEST(closed_over_tensors_are_given_by_name) {
    Host h = {.w = F32(90, 4, 6), .b = F32(91, 4)};
    sn_dict *const names = sn_dict_new(), *const others = sn_dict_new();
    sn_dict_set(names, "fc.weight", h.w);
    sn_dict_set(names, "fc.bias", h.b);
    sn_function *const fn = sn_compile(mlp, &h, REPLAY(0));
    SN_CALL(fn, F32(1, 8, 6));
    SN_CALL(fn, F32(2, 8, 6));
    saved(fn, SN_PLAN_OPTIONS(.tensors = names));
    ck_assert_ptr_null(sn_plan_load(file_name(), NULL));
    expect_error(SN_ERR_ARGUMENT, "'fc.weight', f32[4,6], which is not in options.tensors");
    sn_dict_set(others, "fc.weight", F32(7, 4, 6));
    sn_dict_set(others, "fc.bias", F32(8, 5));
    ck_assert_ptr_null(sn_plan_load(path, SN_PLAN_OPTIONS(.tensors = others)));
    expect_error(SN_ERR_ARGUMENT, "'fc.bias', f32[4]; it was given f32[5]");
    sn_dict_set(others, "fc.bias", F32(8, 4));
    sn_function *const plan = loaded(SN_PLAN_OPTIONS(.tensors = others));
    Host other = {.w = sn_dict_get(others, "fc.weight"), .b = sn_dict_get(others, "fc.bias")};
    sn_function *const eager = sn_compile(mlp, &other, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
    same_result(SN_CALL(plan, F32(3, 8, 6)), SN_CALL(eager, F32(3, 8, 6)));
    sn_function_free(plan);
    saved(fn, SN_PLAN_OPTIONS(.tensors = names, .embed = true)); /* what is given takes the place of what is stored */
    sn_function *const again = loaded(SN_PLAN_OPTIONS(.tensors = others)), *const own = loaded(NULL);
    same_result(SN_CALL(again, F32(3, 8, 6)), SN_CALL(eager, F32(3, 8, 6)));
    same_result(SN_CALL(own, F32(3, 8, 6)), SN_CALL(fn, F32(3, 8, 6)));
    sn_function_free(again);
    sn_function_free(own);
    sn_function_free(eager);
    sn_function_free(fn);
    sn_dict_free(names);
    sn_dict_free(others);
    remove(path);
}
END_TEST

START_TEST(what_shares_memory_is_not_embedded) {
    sn_tensor *const whole = F32(1, 5, 6);
    Host h = {.w = sn_narrow(whole, 0, 0, 4), .b = sn_select(sn_t(whole), 0, 0)};
    h.b = sn_narrow(h.b, 0, 0, 4);
    sn_function *const fn = sn_compile(mlp, &h, REPLAY(0));
    SN_CALL(fn, F32(1, 8, 6));
    SN_CALL(fn, F32(2, 8, 6));
    ck_assert_int_eq(sn_plan_save(fn, file_name(), EMBED), SN_ERR_UNSUPPORTED);
    expect_error(SN_ERR_UNSUPPORTED, "'closed0' and 'closed1' share memory");
    saved(fn, NULL);
    sn_dict *const given = sn_dict_new();
    sn_dict_set(given, "closed0", h.w);
    sn_dict_set(given, "closed1", h.b);
    sn_function *const plan = loaded(SN_PLAN_OPTIONS(.tensors = given));
    same_result(SN_CALL(plan, F32(3, 8, 6)), SN_CALL(fn, F32(3, 8, 6)));
    sn_function_free(plan);
    sn_function_free(fn);
    sn_dict_free(given);
    remove(path);
}
END_TEST

START_TEST(layouts_of_embedded_tensors_stay) {
    Host h = {.w = sn_t(F32(1, 6, 4)), .b = F32(2, 4)};
    sn_function *const fn = sn_compile(mlp, &h, REPLAY(0));
    SN_CALL(fn, F32(1, 8, 6));
    SN_CALL(fn, F32(2, 8, 6));
    saved(fn, EMBED);
    sn_function *const plan = loaded(NULL);
    same_result(SN_CALL(plan, F32(3, 8, 6)), SN_CALL(fn, F32(3, 8, 6)));
    sn_function_free(plan);
    sn_function_free(fn);
    remove(path);
}
END_TEST

static sn_status adds(sn_frame *f) { return sn_out(f, 0, sn_add(sn_in(f, 0), sn_in(f, 1))); }

/* Of a dim of size 1 the stride is anything, and a case that was compiled for one fits the next call. */
START_TEST(strides_of_single_dims_are_guarded_as_they_are) {
    sn_function *const fn = sn_compile(adds, NULL, REPLAY(0));
    for (int i = 0; i < 8; i++) SN_CALL(fn, F32(i, 1 + i % 3, 2), sn_narrow(F32(i, 1, 4), 1, 2, 1));
    ck_assert_int_le(stats_of(fn).compiles, 3);
    saved(fn, NULL);
    sn_function *const plan = loaded(NULL);
    for (int i = 0; i < 6; i++) {
        sn_tensor *const x = F32(i, 1 + i, 2), *const y = sn_narrow(F32(i + 9, 1, 4), 1, 2, 1);
        same_result(SN_CALL(plan, x, y), sn_add(x, y));
    }
    sn_function_free(plan);
    sn_function_free(fn);
    remove(path);
}
END_TEST

/* In a loop whose scope ends, a tensor may lie where the one before it lay: it is another one all the same. */
START_TEST(tensors_at_one_address_are_told_apart) {
    sn_function *const fn = sn_compile(small_or_large, NULL, REPLAY(0));
    for (int i = 0; i < 3; i++) {
        const sn_scope scope = sn_scope_begin();
        SN_CALL(fn, F32(i, 4, 3));
        sn_scope_end(scope);
    }
    saved(fn, NULL);
    sn_function_free(fn);
    remove(path);
}
END_TEST

/* what does not fit --------------------------------------------------------------------------- */

START_TEST(a_call_that_fits_no_case_names_the_guard) {
    Host h = {.w = F32(90, 4, 6), .b = F32(91, 4)};
    sn_function *const fn = sn_compile(mlp, &h, REPLAY(.name = "mlp"));
    SN_CALL(fn, F32(1, 8, 6));
    SN_CALL(fn, F32(2, 8, 6));
    saved(fn, EMBED);
    sn_function *const plan = loaded(NULL);
    ck_assert_ptr_null(SN_CALL(plan, sn_to(F32(1, 8, 6), SN_F64)));
    expect_error(SN_ERR_ARGUMENT, "plan mlp: no case fits this call: argument 0: f32[s0,s1], now f64[8,6]");
    ck_assert_ptr_null(SN_CALL(plan, F32(1, 9, 6)));
    expect_error(SN_ERR_ARGUMENT, "argument 0: f32[8,6], now f32[9,6]");
    ck_assert_ptr_null(SN_CALL(plan, F32(1, 8, 6), F32(1, 8, 6)));
    expect_error(SN_ERR_ARGUMENT, "1 arguments and 1 results, now 2 and 1");
    ck_assert_ptr_null(SN_CALL(plan, h.w));
    expect_error(SN_ERR_ARGUMENT, "argument 0: f32[8,6], now f32[4,6]");
    ck_assert_ptr_null(SN_CALL(plan, h.w));
    expect_error(SN_ERR_ARGUMENT, "call the function so before sn_plan_save"); /* what to do */
    for (int mode = SN_GRAD_ON; mode <= SN_INFERENCE; mode++) {                /* any grad mode will do */
        const sn_scope scope = sn_scope_begin();
        sn_grad_mode_set((sn_grad_mode)mode);
        sn_tensor *const x = F32(1, 8, 6), *const got = SN_CALL(plan, x);
        ck_assert_msg(got != NULL, "%s", sn_error_take()->message);
        ck_assert_int_eq(!!(got->flags & TF_inference), mode == SN_INFERENCE);
        same_result(got, SN_CALL(fn, x));
        sn_scope_end(scope);
    }
    sn_function_free(plan);
    sn_function_free(fn);
    remove(path);
}
END_TEST

START_TEST(what_the_body_saw_is_a_guard) {
    sn_function *const fn = sn_compile(small_or_large, NULL, REPLAY(0));
    for (int i = 0; i < 3; i++) SN_CALL(fn, F32(i, 4 + i, 3));
    saved(fn, NULL);
    sn_function *const plan = loaded(NULL);
    same_result(SN_CALL(plan, F32(9, 5, 3)), sn_exp(F32(9, 5, 3)));
    ck_assert_ptr_null(SN_CALL(plan, F32(9, 20, 3)));
    expect_error(SN_ERR_ARGUMENT, "s0 == 4, now 20 and 4");
    sn_function_free(plan);
    sn_function_free(fn);
    remove(path);
}
END_TEST

START_TEST(a_failed_check_is_an_error) {
    Host h = {.w = F32(1, 5, 3)};
    sn_function *const fn = sn_compile(indexed, &h, REPLAY(0));
    const int64_t good[] = {0, 4, 2}, bad[] = {0, 5, 2};
    SN_CALL(fn, sn_from_data(good, SN_INTS(3), SN_I64));
    SN_CALL(fn, sn_from_data(good, SN_INTS(3), SN_I64));
    saved(fn, EMBED);
    sn_function *const plan = loaded(NULL);
    same_result(SN_CALL(plan, sn_from_data(good, SN_INTS(3), SN_I64)),
                SN_CALL(fn, sn_from_data(good, SN_INTS(3), SN_I64)));
    ck_assert_ptr_null(SN_CALL(plan, sn_from_data(bad, SN_INTS(3), SN_I64)));
    expect_error(SN_ERR_VALUE, "index");
    sn_function_free(plan);
    sn_function_free(fn);
    remove(path);
}
END_TEST

/* views --------------------------------------------------------------------------------------- */

static sn_status gives_view(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    sn_out(f, 1, sn_exp(x));
    return sn_out(f, 0, sn_t(x));
}

static sn_status gives_result_and_view(sn_frame *f) {
    sn_tensor *const y = sn_exp(sn_in(f, 0));
    sn_out(f, 1, sn_t(y));
    return sn_out(f, 0, y);
}

/* The whole is no result. */
static sn_status gives_two_views(sn_frame *f) {
    sn_tensor *const y = sn_exp(sn_in(f, 0));
    sn_out(f, 1, sn_narrow(y, 1, 1, 2));
    return sn_out(f, 0, sn_select(y, 0, 1));
}

static sn_status gives_view_of_closed_over(sn_frame *f) {
    const Host *const h = sn_closure(f);
    sn_out(f, 1, sn_add(sn_in(f, 0), h->b));
    return sn_out(f, 0, sn_t(sn_narrow(h->w, 0, 1, 2)));
}

static sn_status gives_chain(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const part = sn_slice(x, 0, 1, INT64_MAX, 1);
    sn_out(f, 1, sn_sum(x));
    return sn_out(f, 0, sn_expand(sn_unsqueeze(sn_transpose(part, 0, 1), 0), SN_INTS(3, -1, -1)));
}

/* The sizes are expressions; both are views of one argument, and one is a view of the other. */
static sn_status gives_flat_and_part(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    const sn_sym n = sn_sym_op(sn_sym_size(x, 0), '*', sn_sym_size(x, 1));
    sn_tensor *const flat = sn_view(x, SN_INTS(sn_sym_arg(n)));
    sn_out(f, 1, sn_slice(flat, 0, sn_sym_arg(sn_sym_size(x, 0)), INT64_MAX, 2));
    return sn_out(f, 0, flat);
}

static sn_status gives_written_view(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const y = sn_exp(x), *const v = sn_select(y, 1, 0);
    sn_mul_(v, sn_select(x, 1, 1));
    sn_add_(v, sn_select(x, 1, 2));
    sn_neg_(v);
    sn_out(f, 1, y);
    return sn_out(f, 0, v);
}

static sn_status writes_through_view(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const v = sn_t(sn_narrow(x, 1, 1, 2));
    sn_mul_(v, v);
    sn_neg_(v);
    sn_out(f, 1, sn_sum(x));
    return sn_out(f, 0, v);
}

static sn_status gives_view_without_gradients(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    const sn_scope scope = sn_no_grad_begin();
    sn_tensor *const v = sn_keep(sn_t(x)), *const alone = sn_keep(sn_t(sn_exp(x)));
    sn_scope_end(scope);
    sn_out(f, 1, alone);
    sn_out(f, 0, v);
    sn_release(v);
    sn_release(alone);
    return SN_OK;
}

typedef struct ViewCase {
    const char *name;
    sn_body body;
    bool unwritable; /* a result overlaps itself, or is a view made while gradients were off: a write is an error */
} ViewCase;

static const ViewCase view_cases[] = {{"of an argument", gives_view},
                                      {"of a result", gives_result_and_view},
                                      {"two of one value", gives_two_views},
                                      {"of what is closed over", gives_view_of_closed_over},
                                      {"a chain", gives_chain, true},
                                      {"of an argument and of a view", gives_flat_and_part},
                                      {"written", gives_written_view},
                                      {"written through", writes_through_view},
                                      {"without gradients", gives_view_without_gradients, true}};

enum { SEEN = 3 }; /* the argument and two results */
typedef struct Called {
    sn_tensor *at[SEEN], *closed;
} Called;

static Called call_views(sn_function *fn, sn_tensor *closed, int64_t n, uint64_t seed) {
    Called c = {.at = {F32(seed, n, 6)}, .closed = closed};
    sn_call(fn, &c.at[0], 1, c.at + 1, 2);
    ck_assert_msg(sn_check() == SN_OK, "%s", sn_error_take()->message);
    return c;
}

/* Whose memory, and where: as in the other call. */
static void same_memory(const Called *got, const Called *want, const char *name) {
    for (int i = 1; i < SEEN; i++) {
        const sn_ints a = sn_strides(got->at[i]), b = sn_strides(want->at[i]);
        ck_assert_msg(a.n == b.n && !memcmp(a.data, b.data, (size_t)a.n * sizeof *a.data), "%s: strides of %d", name,
                      i);
        ck_assert_msg(tensor_version(got->at[i]) == tensor_version(want->at[i]), "%s: versions of %d are %u and %u",
                      name, i, tensor_version(got->at[i]), tensor_version(want->at[i]));
        ck_assert_int_eq(got->at[i]->storage == got->closed->storage, want->at[i]->storage == want->closed->storage);
        for (int k = 0; k < i; k++) {
            const bool shared = want->at[i]->storage == want->at[k]->storage;
            ck_assert_msg((got->at[i]->storage == got->at[k]->storage) == shared, "%s: memory of %d and %d", name, i,
                          k);
            if (shared)
                ck_assert_int_eq(got->at[i]->offset - got->at[k]->offset, want->at[i]->offset - want->at[k]->offset);
        }
    }
    ck_assert_int_eq(tensor_version(got->at[0]), tensor_version(want->at[0]));
    for (int i = 0; i < SEEN; i++) ck_assert_msg(same_bits(got->at[i], want->at[i]), "%s: bits of %d", name, i);
}

/* What a write by a recorded op into the one at `written` gives: an error's status, or what all of them are and the
 * gradient. */
static sn_status write_one(Called *c, int written, sn_tensor **w) {
    *w = sn_requires_grad_(sn_full((sn_ints){0}, sn_float(1.5), SN_F32), true);
    sn_mul_(c->at[written], *w);
    sn_tensor *sum = sn_mul(*w, *w);
    for (int i = 0; i < SEEN; i++) sum = sn_add(sum, sn_sum(sn_mul(c->at[i], c->at[i])));
    sn_backward(sn_sum(sum));
    return sn_check() == SN_OK ? SN_OK : sn_error_take()->status;
}

/* A plan of the file and eager, each with a closed-over tensor of its own. */
typedef struct Pair {
    Host host;
    sn_tensor *w;
    sn_function *plan, *eager;
} Pair;

static Pair pair_of(const Host *h) {
    sn_dict *const names = sn_dict_new();
    Pair pair = {.host = {.w = sn_clone(h->w), .b = h->b}, .w = sn_clone(h->w)};
    sn_dict_set(names, "w", pair.w);
    pair.plan = loaded(SN_PLAN_OPTIONS(.tensors = names));
    sn_dict_free(names);
    return pair;
}

static void pair_free(Pair *pair) {
    sn_function_free(pair->plan);
    sn_function_free(pair->eager);
}

static void same_history(const ViewCase *row, const Host *h, int written) {
    Pair pair = pair_of(h);
    pair.eager = sn_compile(row->body, &pair.host, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
    Called got = call_views(pair.plan, pair.w, 5, 77), want = call_views(pair.eager, pair.host.w, 5, 77);
    sn_tensor *of_got, *of_want;
    const sn_status a = write_one(&got, written, &of_got), b = write_one(&want, written, &of_want);
    ck_assert_msg(a == b, "%s: a write into %d gives %d, not %d", row->name, written, (int)a, (int)b);
    ck_assert_msg(b == SN_OK || row->unwritable, "%s: a write into %d fails: %d", row->name, written, (int)b);
    if (b == SN_OK) {
        same_memory(&got, &want, row->name);
        for (int i = 0; i < SEEN; i++) ck_assert_int_eq(sn_requires_grad(got.at[i]), sn_requires_grad(want.at[i]));
        ck_assert_msg(same_bits(sn_grad(of_got), sn_grad(of_want)), "%s: the gradient through %d", row->name, written);
    }
    pair_free(&pair);
}

static void views_are_saved(const ViewCase *row, sn_path by) {
    Host h = {.w = F32(90, 4, 6), .b = F32(91, 6)};
    sn_dict *const names = sn_dict_new();
    sn_dict_set(names, "w", h.w);
    sn_function *const fn = sn_compile(row->body, &h, REPLAY(.name = "views"));
    for (int n = 4; n < 9; n++) call_views(fn, h.w, n, (uint64_t)n);
    saved(fn, SN_PLAN_OPTIONS(.embed = true, .tensors = names));
    Pair pair = pair_of(&h);
    pair.eager = sn_compile(row->body, &pair.host, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
    for (int n = 4; n < 14; n += 3)
        for (int again = 0; again < 2; again++) {
            const Called want = call_views(pair.eager, pair.host.w, n, (uint64_t)n);
            const Called got = call_views(pair.plan, pair.w, n, (uint64_t)n);
            if (row->body != gives_flat_and_part) ck_assert_int_eq(last_path(), by); /* it has no code */
            same_memory(&got, &want, row->name);
        }
    for (int i = 0; i < SEEN; i++) same_history(row, &h, i);
    pair_free(&pair);
    sn_function_free(fn);
    sn_dict_free(names);
    remove(path);
}

/* A view of what the file holds is one of the same memory at each call, until the plan is freed and beyond. */
START_TEST(views_of_embedded_tensors_stay) {
    Host h = {.w = F32(90, 4, 6), .b = F32(91, 6)};
    sn_function *const fn = sn_compile(gives_view_of_closed_over, &h, REPLAY(0));
    for (int n = 4; n < 7; n++) call_views(fn, h.w, n, (uint64_t)n);
    saved(fn, EMBED);
    sn_function *const plan = loaded(NULL);
    const Called first = call_views(plan, h.w, 5, 1), second = call_views(plan, h.w, 6, 2);
    ck_assert_ptr_eq(first.at[1]->storage, second.at[1]->storage);
    ck_assert(first.at[1]->storage != h.w->storage);
    sn_zero_(first.at[1]);
    ck_assert(same_bits(second.at[1], sn_zeros(SN_INTS(6, 2), SN_F32)));
    same_result(call_views(plan, h.w, 5, 3).at[1], first.at[1]);
    sn_function_free(plan);
    ck_assert(same_bits(second.at[1], sn_zeros(SN_INTS(6, 2), SN_F32)));
    sn_function_free(fn);
    remove(path);
}
END_TEST

static void all_views(sn_path by) {
    for (int i = 0; i < COUNT_OF(view_cases); i++) {
        const sn_scope scope = sn_scope_begin();
        views_are_saved(&view_cases[i], by);
        sn_scope_end(scope);
    }
}

START_TEST(views_share_memory_and_history_as_the_body_s) { all_views(SN_PATH_COMPILED); }
END_TEST

START_TEST(views_by_the_interpreter) {
    setenv("SINTER_LLVM_MODULE", "/nowhere", 1);
    all_views(SN_PATH_INTERPRETED);
}
END_TEST

/* what cannot be saved ------------------------------------------------------------------------ */

static sn_status breaks(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    return sn_out(f, 0, sn_item(sn_sum(x)) > 1e9 ? x : sn_exp(x));
}

static sn_status goes_backward(sn_frame *f) {
    const Host *const h = sn_closure(f);
    sn_tensor *const loss = sn_sum(sn_mul(sn_in(f, 0), h->w));
    sn_backward(loss);
    return sn_out(f, 0, loss);
}

static sn_status reads_grad(sn_frame *f) {
    const Host *const h = sn_closure(f);
    return sn_out(f, 0, sn_mul(sn_in(f, 0), sn_grad(h->w)));
}

static sn_status asks_for_gradients(sn_frame *f) {
    const Host *const h = sn_closure(f);
    sn_tensor *const y = sn_mul(sn_in(f, 0), h->w);
    return sn_out(f, 0, sn_requires_grad(h->w) ? sn_exp(y) : y);
}

/* The second argument is a part of the first. */
static sn_status writes_both(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const part = sn_in(f, 1);
    sn_add_(x, sn_mul(part, part));
    return sn_out(f, 0, sn_exp(part));
}

/* Passed on as it is: a body cannot read a list or a string. */
static sn_status passes_on(sn_frame *f) {
    const sn_op *const op = sn_closure(f);
    const bool divides = op == sn_op_find("aten::div.Tensor_mode");
    sn_tensor *const x = sn_in(f, 0);
    const sn_value two[] = {sn_val(x), sn_in_value(f, 1)}, three[] = {sn_val(x), sn_val(x), sn_in_value(f, 1)};
    return sn_out(f, 0, sn_op_call1(op, divides ? three : two, divides ? 3 : 2));
}

static sn_function *called(sn_body body, void *closure, const sn_compile_options *options, int calls) {
    sn_function *const fn = sn_compile(body, closure, options);
    for (int i = 0; i < calls; i++) SN_CALL(fn, F32(i, 4, 4));
    ck_assert_msg(sn_check() == SN_OK, "%s", sn_error_take()->message);
    return fn;
}

START_TEST(what_cannot_be_saved_says_why) {
    Host h = {.w = LEAF(1, 4, 4)};
    refused(called(small_or_large, NULL, NULL, 2), "compile it with mode SN_COMPILE_REPLAY");
    refused(called(small_or_large, NULL, REPLAY(0), 0), "no call of it has been compiled");
    refused(called(small_or_large, NULL, REPLAY(0), 1), "argument 0 was the same tensor in every call of a case (f32[");
    refused(called(breaks, NULL, REPLAY(0), 2), "the graph breaks");
    refused(called(goes_backward, &h, REPLAY(0), 2), "sn_backward sets .grad");
    const sn_scope scope = sn_no_grad_begin();
    refused(called(reads_grad, &h, REPLAY(0), 2), "it reads a .grad");
    sn_scope_end(scope);
}
END_TEST

/* Tensors that are made where earlier ones were, which another function has been called with first, are others. */
START_TEST(a_reused_address_is_another_tensor) {
    keep_no_handles();
    sn_function *const other = sn_compile(small_or_large, NULL, REPLAY(0)), *const fn = sn_compile(small_or_large, NULL,
                                                                                                   REPLAY(0));
    int again = 0;
    const sn_tensor *first = NULL;
    for (int i = 0; i < 6; i++) {
        const sn_scope scope = sn_scope_begin();
        sn_tensor *const x = F32(i, 4, 4);
        again += first == x;
        if (!first) first = x;
        if (i) SN_CALL(other, x);
        SN_CALL(fn, x);
        sn_scope_end(scope);
    }
#ifndef __SANITIZE_ADDRESS__ /* it gives no address twice */
    ck_assert_int_gt(again, 0);
#endif
    ck_assert_msg(sn_plan_save(fn, file_name(), NULL) == SN_OK, "%s", sn_error_take()->message);
    sn_function_free(other);
    sn_function_free(fn);
}
END_TEST

static sn_status like(sn_frame *f) { return sn_out(f, 0, sn_empty_like(sn_in(f, 0))); }
static sn_status negates(sn_frame *f) { return sn_out(f, 0, sn_neg(sn_in(f, 0))); }
static sn_status calls_own_op(sn_frame *f) {
    return sn_out(f, 0, sn_exp(sn_op_call1(sn_closure(f), (sn_value[]){sn_val(sn_in(f, 0))}, 1)));
}

START_TEST(ops_of_the_program_are_not_saved) {
    const sn_op *const pure = sn_op_register(
        SN_OP_DESC(.schema = "saved::neg(Tensor x) -> Tensor", .flags = SN_OP_PURE, .meta = like, .cpu = negates));
    const sn_op *const parts =
        sn_op_register(SN_OP_DESC(.schema = "saved::parts(Tensor x) -> Tensor", .decomposition = negates));
    ck_assert_msg(pure && parts, "%s", sn_error_take()->message);
    refused(called(calls_own_op, (void *)pure, REPLAY(0), 2), "it calls an op of the program's own");
    sn_function *const fn = called(calls_own_op, (void *)parts, REPLAY(0), 2); /* its parts are ops of ours */
    saved(fn, NULL);
    sn_function *const plan = loaded(NULL);
    same_result(SN_CALL(plan, F32(3, 4, 4)), SN_CALL(fn, F32(3, 4, 4)));
    sn_function_free(plan);
    sn_function_free(fn);
    remove(path);
}
END_TEST

static void *allocate(void *context, size_t bytes) {
    return context ? NULL : aligned_alloc(64, (bytes + 63) / 64 * 64);
}
static void give_back(void *context, void *memory, size_t bytes) {
    (void)context, (void)bytes;
    free(memory);
}
static sn_status copy_bytes(void *context, void *to, const void *from, size_t bytes, sn_copy_way way) {
    (void)context, (void)way;
    memcpy(to, from, bytes);
    return SN_OK;
}

static sn_status exp_there(sn_frame *f) {
    const sn_device *const there = sn_closure(f);
    return sn_out(f, 0, sn_exp(sn_to_device(sn_to_device(sn_in(f, 0), *there), SN_CPU)));
}

START_TEST(devices_of_the_program_are_not_saved) {
    sn_device mine = sn_device_register(
        SN_DEVICE_DESC(.name = "saved_test", .allocate = allocate, .free = give_back, .copy = copy_bytes));
    ck_assert_msg(mine > 0, "%s", sn_error_take()->message);
    refused(called(exp_there, &mine, REPLAY(0), 2), "a tensor on saved_test, for which there is no code generator");
}
END_TEST

/* Three calls with these arguments behind a tensor of their own. */
static sn_function *called_with(sn_body body, const char *op, sn_value second) {
    sn_function *const fn = sn_compile(body, op ? (void *)sn_op_find(op) : NULL, REPLAY(0));
    for (int i = 0; i < 3; i++) {
        sn_tensor *const x = F32(i, 4, 4), *out;
        const sn_value shared = sn_val(sn_narrow(x, 0, 1, 1));
        sn_call_values(fn, (sn_value[]){sn_val(x), body == writes_both ? shared : second}, 2, &out, 1);
    }
    ck_assert_msg(sn_check() == SN_OK, "%s", sn_error_take()->message);
    return fn;
}

START_TEST(arguments_that_no_file_holds_are_named) {
    Host h = {.w = LEAF(1, 4, 4)};
    refused(called_with(writes_both, NULL, sn_none()), "written inputs share memory");
    refused(called_with(passes_on, "aten::permute", sn_ints_value(SN_INTS(1, 0))), "argument 1 is a list or a string");
    refused(called_with(passes_on, "aten::div.Tensor_mode", sn_str("floor")), "argument 1 is a list or a string");
    refused(called(asks_for_gradients, &h, REPLAY(0), 2), "its body asks whether a tensor requires gradients");
}
END_TEST

static sn_status one_or_two(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    if (sn_size(x, 0) > 10) sn_out(f, 1, sn_sum(x));
    return sn_out(f, 0, sn_exp(x));
}

static void call_for(sn_function *fn, int64_t n, int n_out) {
    sn_tensor *in[] = {F32(n, n, 4)}, *out[2];
    for (int i = 0; i < 2; i++) ck_assert_msg(!sn_call(fn, in, 1, out, n_out), "%s", sn_error_take()->message);
}

static void count_of_plan(sn_function *fn, int n) {
    ck_assert_int_eq(sn_function_result_count(fn), -1);
    saved(fn, SN_PLAN_OPTIONS(.as_called = true));
    sn_function *const plan = loaded(NULL);
    ck_assert_int_eq(sn_function_result_count(plan), n);
    sn_function_free(plan);
    remove(path);
}

START_TEST(a_plan_says_how_many_results_it_gives) {
    sn_function *const fn = sn_compile(one_or_two, NULL, REPLAY(0));
    call_for(fn, 20, 2), call_for(fn, 21, 2);
    count_of_plan(fn, 2);
    call_for(fn, 4, 1), call_for(fn, 5, 1);
    count_of_plan(fn, -1);
    call_for(fn, 22, 2);
    sn_function_free(fn);
    ck_assert_int_eq(sn_function_result_count(NULL), -1);
    expect_error(SN_ERR_ARGUMENT, "sn_function_result_count: the function is NULL");
}
END_TEST

static sn_status saves_inside(sn_frame *f) {
    sn_plan_save(sn_closure(f), "never", NULL);
    return sn_out(f, 0, sn_exp(sn_in(f, 0)));
}

START_TEST(wrong_calls_are_errors) {
    sn_function *const fn = called(small_or_large, NULL, REPLAY(0), 2);
    ck_assert_int_eq(sn_plan_save(NULL, "x", NULL), SN_ERR_ARGUMENT);
    expect_error(SN_ERR_ARGUMENT, "sn_plan_save: the function is NULL");
    sn_plan_save(fn, NULL, NULL);
    expect_error(SN_ERR_ARGUMENT, "sn_plan_save: the path is NULL");
    ck_assert_ptr_null(sn_plan_load(NULL, NULL));
    expect_error(SN_ERR_ARGUMENT, "sn_plan_load: the path is NULL");
    ck_assert_ptr_null(sn_plan_load("/nowhere/at/all", NULL));
    expect_error(SN_ERR_IO, "/nowhere/at/all");
    sn_plan_save(fn, "/nowhere/at/all", NULL);
    expect_error(SN_ERR_IO, "/nowhere/at/all");
    sn_function *const inside = sn_compile(saves_inside, fn, NULL);
    SN_CALL(inside, F32(1, 2));
    expect_error(SN_ERR_STATE, "sn_plan_save: not inside a compiled function");
    saved(fn, NULL);
    sn_function *const plan = loaded(NULL);
    ck_assert_int_eq(sn_plan_save(plan, path, NULL), SN_ERR_UNSUPPORTED);
    expect_error(SN_ERR_UNSUPPORTED, "it is of a file");
    sn_value x = sn_val(F32(1, 4, 4));
    ck_assert_ptr_null(sn_graph_capture(plan, &x, 1));
    expect_error(SN_ERR_UNSUPPORTED, "it is a plan of a file");
    sn_dump(plan, "capture");
    expect_error(SN_ERR_UNSUPPORTED, "a plan of a file has no graph");
    sn_function_free(inside);
    sn_function_free(plan);
    sn_function_free(fn);
    remove(path);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {several_cases_and_other_sizes_run,
                                  without_llvm_the_interpreter_runs_it,
                                  numbers_and_sizes_are_free,
                                  random_ops_take_the_loading_states_numbers,
                                  training_functions_save_their_forward,
                                  writes_to_what_is_closed_over_stay_in_the_function,
                                  a_compiled_function_may_call_it,
                                  closed_over_tensors_are_given_by_name,
                                  what_shares_memory_is_not_embedded,
                                  layouts_of_embedded_tensors_stay,
                                  strides_of_single_dims_are_guarded_as_they_are,
                                  tensors_at_one_address_are_told_apart,
                                  views_share_memory_and_history_as_the_body_s,
                                  views_by_the_interpreter,
                                  views_of_embedded_tensors_stay,
                                  a_call_that_fits_no_case_names_the_guard,
                                  what_the_body_saw_is_a_guard,
                                  a_failed_check_is_an_error,
                                  what_cannot_be_saved_says_why,
                                  a_reused_address_is_another_tensor,
                                  ops_of_the_program_are_not_saved,
                                  devices_of_the_program_are_not_saved,
                                  arguments_that_no_file_holds_are_named,
                                  a_plan_says_how_many_results_it_gives,
                                  wrong_calls_are_errors};
    return contract_main("test_saved", tests, sizeof tests / sizeof *tests);
}
