/* Backends [semantics T9]: the library's own by name, and what a program's gets, gives, and gets wrong. */
#include <stdio.h>

#include "tests/unit/contract.h"

static bool has(const char *text, const char *part) { return strstr(text, part) != NULL; }

static sn_status softened(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const w = sn_in(f, 1);
    return sn_out(f, 0, sn_softmax(sn_gelu(sn_add(sn_mm(x, w), sn_sum_dim(x, SN_INTS(1), true))), -1));
}

/* Writes an argument, returns views of one and of a result, and the same result twice over. */
static sn_status aliased(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const y = sn_in(f, 1);
    sn_mul_(x, sn_exp(y));
    sn_tensor *const z = sn_add(x, y);
    sn_out(f, 0, sn_t(z));
    sn_out(f, 1, z);
    sn_out(f, 2, sn_narrow(y, 0, 1, 2));
    return sn_out(f, 3, sn_sum(x));
}

/* What a program's backend is asked, and how often it runs. */
typedef struct Asked {
    int graphs, runs, n_in;
    char text[4096];
    enum { GIVES_graph, GIVES_wrapped, GIVES_null, GIVES_error, GIVES_compiled } gives;
    enum { OK, FAILS, WRONG_dtype, WRONG_size, WRONG_stride, TWICE_as_large, UNSET } does;
    sn_function *op_by_op; /* of the last graph */
} Asked;
static Asked asked;

static sn_status computes(sn_frame *f) {
    sn_tensor *in[16], *out[16];
    const int n_out = 1;
    asked.runs++;
    if (asked.does == FAILS) return sn_fail(SN_ERR_IO, "the accelerator is on fire");
    if (asked.does == UNSET) return SN_OK;
    for (int i = 0; i < sn_in_count(f); i++) in[i] = sn_in(f, i);
    if (sn_call(asked.op_by_op, in, sn_in_count(f), out, n_out) != SN_OK) return sn_check();
    if (asked.does == WRONG_dtype) out[0] = sn_to(out[0], SN_F64);
    if (asked.does == WRONG_size) out[0] = sn_cat(SN_TENSORS(out[0], out[0]), 0);
    if (asked.does == WRONG_stride) out[0] = sn_t(sn_contiguous(sn_t(out[0])));
    if (asked.does == TWICE_as_large) out[0] = sn_add(out[0], out[0]);
    return sn_out(f, 0, out[0]);
}

static sn_function *gets_graph(sn_graph *g, void *closure) {
    ck_assert_ptr_eq(closure, &asked);
    asked.graphs++;
    snprintf(asked.text, sizeof asked.text, "%s", sn_graph_text(g));
    ck_assert_int_eq(sn_graph_check(g), SN_OK);
    if (asked.gives == GIVES_error) sn_fail(SN_ERR_UNSUPPORTED, "no such chip");
    if (asked.gives == GIVES_error || asked.gives == GIVES_null) return NULL;
    if (asked.gives == GIVES_compiled) return sn_graph_compile(g, NULL);
    sn_function *const fn = sn_graph_compile(g, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
    if (asked.gives == GIVES_graph) return fn;
    asked.op_by_op = fn;
    return sn_compile(computes, NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
}

static void use_mine(void) {
    asked = (Asked){0};
    sn_backend_register("mine", "3", gets_graph, &asked);
    if (sn_check()) expect_error(SN_ERR_ARGUMENT, "there is a backend 'mine' already");
}

static const char *const built_in[] = {"generated", "interpreter", "aot_eager", "eager", "unfused"};

START_TEST(t9_the_librarys_backends_give_eagers_bits) {
    for (int i = 0; i < 5; i++)
        for (int mode = SN_COMPILE_VERIFY; mode <= SN_COMPILE_REPLAY; mode++) {
            const Twin twin = twin_new(softened, NULL, NULL,
                                       SN_COMPILE_OPTIONS(.mode = (sn_compile_mode)mode, .backend = built_in[i]));
            for (int call = 0; call < 6; call++) /* one size, then any */
                TWIN_CALL(twin, F32(call, call < 3 ? 3 : 3 + call, 5), F32(9, 5, 6));
            const sn_path want = i == 1 ? SN_PATH_INTERPRETED : i == 3 ? SN_PATH_EAGER : SN_PATH_COMPILED;
            ck_assert_msg(last_path() == want, "%s: path %d: %s", built_in[i], last_path(), last_reason());
            ck_assert(i == 0 || has(sn_explain(twin.fast), built_in[i]));
            ck_assert_int_eq(stats_of(twin.fast).compiles, 2);
            twin_free(twin);
        }
}
END_TEST

START_TEST(t9_reasons_name_the_backend) {
    sn_function *const eager = sn_compile(softened, NULL, SN_COMPILE_OPTIONS(.backend = "eager"));
    sn_function *const slow = sn_compile(softened, NULL, SN_COMPILE_OPTIONS(.backend = "interpreter"));
    for (int i = 0; i < 3; i++) SN_CALL(slow, F32(1, 3, 5), F32(2, 5, 6));
    ck_assert_str_eq(last_reason(), "the backend is interpreter");
    for (int i = 0; i < 3; i++) SN_CALL(eager, F32(1, 3, 5), F32(2, 5, 6));
    ck_assert_str_eq(last_reason(), "the backend is eager");
    ck_assert(has(sn_explain(eager), "ops: the backend is eager"));
    ck_assert(has(sn_dump(eager, "capture"), "aten::mm"));
    ck_assert_ptr_null(sn_compile(softened, NULL, SN_COMPILE_OPTIONS(.backend = "inductor")));
    expect_error(SN_ERR_ARGUMENT,
                 "there is no backend 'inductor'; backends: generated, interpreter, eager, unfused, aot_eager");
    sn_function_free(eager);
    sn_function_free(slow);
}
END_TEST

static void expect_aliased(const char *backend, sn_compile_mode mode) {
    const Twin twin = twin_new(aliased, NULL, NULL, SN_COMPILE_OPTIONS(.mode = mode, .backend = backend));
    for (int call = 0; call < 4; call++) {
        sn_tensor *fast[] = {F32(call, 4, 4), F32(9, 4, 4)}, *slow[] = {F32(call, 4, 4), F32(9, 4, 4)}, *got[4],
                  *want[4];
        ck_assert_int_eq(sn_call(twin.fast, fast, 2, got, 4), SN_OK);
        ck_assert_int_eq(sn_call(twin.eager, slow, 2, want, 4), SN_OK);
        ck_assert(same_bits(fast[0], slow[0]));
        for (int i = 0; i < 4; i++) ck_assert_msg(same_bits(got[i], want[i]), "%s: result %d", backend, i);
        sn_fill_(got[2], sn_float(7)); /* views are views of what they were */
        ck_assert_double_eq(sn_item(sn_select(sn_select(fast[1], 0, 1), 0, 0)), 7);
        sn_fill_(got[1], sn_float(8));
        ck_assert_double_eq(sn_item(sn_select(sn_select(got[0], 0, 1), 0, 0)), 8);
    }
    ck_assert_int_eq(sn_check(), SN_OK);
    twin_free(twin);
}

START_TEST(t9_writes_and_views_stay_the_librarys) {
    use_mine();
    for (int mode = SN_COMPILE_VERIFY; mode <= SN_COMPILE_REPLAY; mode++) {
        for (int i = 0; i < 5; i++) expect_aliased(built_in[i], (sn_compile_mode)mode);
        expect_aliased("mine", (sn_compile_mode)mode);
    }
    ck_assert_int_eq(asked.graphs, 2);
    ck_assert_msg(!has(asked.text, "write ") && !has(asked.text, "mul_"), "%s", asked.text);
}
END_TEST

START_TEST(t9_it_gets_the_graph_and_its_function_runs) {
    use_mine();
    asked.gives = GIVES_wrapped;
    const Twin twin = twin_new(softened, NULL, NULL, SN_COMPILE_OPTIONS(.backend = "mine"));
    for (int i = 0; i < 3; i++) TWIN_CALL(twin, F32(i, 3, 5), F32(9, 5, 6));
    ck_assert_int_eq(asked.graphs, 1);
    ck_assert_int_eq(asked.runs, 2); /* all calls but the first */
    ck_assert_msg(has(asked.text, "aten::mm(") && has(asked.text, "f32[3,5]"), "%s", asked.text);
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    ck_assert(has(sn_explain(twin.fast), "backend mine, version 3: its bits are its own"));
    asked.does = TWICE_as_large; /* and nobody says that they are wrong */
    sn_tensor *const x = F32(1, 3, 5), *const w = F32(9, 5, 6), *const once = SN_CALL(twin.eager, x, w);
    ck_assert(same_bits(SN_CALL(twin.fast, x, w), sn_add(once, once)));
    sn_function_free(asked.op_by_op);
    twin_free(twin);
}
END_TEST

/* The function that it gives may itself be compiled, by the library. */
START_TEST(t9_what_it_gives_may_be_compiled) {
    use_mine();
    asked.gives = GIVES_compiled;
    for (int mode = SN_COMPILE_VERIFY; mode <= SN_COMPILE_REPLAY; mode++) {
        const Twin twin =
            twin_new(softened, NULL, NULL, SN_COMPILE_OPTIONS(.mode = (sn_compile_mode)mode, .backend = "mine"));
        for (int i = 0; i < 5; i++) TWIN_CALL(twin, F32(i, 3, 5), F32(9, 5, 6));
        ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
        twin_free(twin);
    }
}
END_TEST

START_TEST(t9_one_that_makes_nothing_is_the_reason) {
    use_mine();
    for (asked.gives = GIVES_null; asked.gives <= GIVES_error; asked.gives++) {
        const Twin twin = twin_new(softened, NULL, NULL, SN_COMPILE_OPTIONS(.backend = "mine"));
        for (int i = 0; i < 3; i++) TWIN_CALL(twin, F32(i, 3, 5), F32(9, 5, 6));
        const char *const why = asked.gives == GIVES_null ? "backend 'mine' made no code: it returned NULL"
                                                          : "backend 'mine' made no code: no such chip";
        ck_assert_int_eq(last_path(), SN_PATH_EAGER);
        ck_assert_msg(has(sn_explain(twin.fast), why), "%s", sn_explain(twin.fast));
        sn_tensor *out;
        sn_function *const strict =
            sn_compile(softened, NULL, SN_COMPILE_OPTIONS(.backend = "mine", .full_graph = true));
        ck_assert_int_eq(sn_call(strict, (sn_tensor *[]){F32(1, 3, 5), F32(9, 5, 6)}, 2, &out, 1), SN_ERR_STRICT);
        expect_error(SN_ERR_STRICT, why);
        sn_function_free(strict);
        twin_free(twin);
    }
}
END_TEST

static void expect_failure(const char *why, sn_compile_mode mode) {
    const int does = asked.does;
    const Twin twin = twin_new(softened, NULL, NULL, SN_COMPILE_OPTIONS(.mode = mode, .backend = "mine"));
    asked.does = OK;
    for (int i = 0; i < 3; i++) TWIN_CALL(twin, F32(i, 3, 5), F32(9, 5, 6));
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    asked.does = does;
    for (int i = 0; i < 2; i++) {
        TWIN_CALL(twin, F32(i, 3, 5), F32(9, 5, 6));
        ck_assert_int_eq(last_path(), SN_PATH_EAGER);
        ck_assert_msg(has(last_reason(), why), "'%s' is not in '%s'", why, last_reason());
    }
    ck_assert_msg(has(sn_explain(twin.fast), why), "%s", sn_explain(twin.fast));
    asked.does = OK;
    TWIN_CALL(twin, F32(1, 3, 5), F32(9, 5, 6));
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    sn_function_free(asked.op_by_op);
    twin_free(twin);
}

START_TEST(t9_results_are_checked_and_failures_run_eagerly) {
    static const struct {
        int does;
        const char *why;
    } rows[] = {
        {FAILS, "backend 'mine' failed: the accelerator is on fire"},
        {WRONG_dtype, "backend 'mine' failed: result 0 is f64[3,6], the graph says f32[3,6]"},
        {WRONG_size, "backend 'mine' failed: result 0 is f32[6,6], the graph says f32[3,6]"},
        {WRONG_stride, "backend 'mine' failed: result 0 is f32[3,6]{1,3}, the graph says f32[3,6]"},
        {UNSET, "backend 'mine' failed: "},
    };
    use_mine();
    asked.gives = GIVES_wrapped;
    for (int i = 0; i < (int)(sizeof rows / sizeof *rows); i++)
        for (int mode = SN_COMPILE_VERIFY; mode <= SN_COMPILE_REPLAY; mode++) {
            asked.does = rows[i].does;
            expect_failure(rows[i].why, (sn_compile_mode)mode);
        }
}
END_TEST

static sn_status loss(sn_frame *f) {
    return sn_out(f, 0, sn_sum(sn_mul(sn_tanh(sn_mm(sn_in(f, 0), sn_in(f, 1))), sn_in(f, 2))));
}

static void expect_gradients(const char *backend, int fails) {
    const Twin twin = twin_new(loss, NULL, NULL, SN_COMPILE_OPTIONS(.backend = backend));
    for (int call = 0; call < 4; call++) {
        sn_tensor *grads[2][2];
        for (int k = 0; k < 2; k++) {
            sn_tensor *const x = LEAF(call, 3, 4), *const w = LEAF(7, 4, 5);
            sn_tensor *const y = SN_CALL(k ? twin.eager : twin.fast, x, w, F32(8, 3, 5));
            if (fails) asked.does = FAILS;
            ck_assert_int_eq(sn_backward(y), SN_OK);
            asked.does = OK;
            grads[k][0] = sn_grad(x), grads[k][1] = sn_grad(w);
        }
        for (int k = 0; k < 2; k++) ck_assert_msg(same_bits(grads[0][k], grads[1][k]), "%s: gradient %d", backend, k);
    }
    ck_assert_int_eq(last_path(), !strcmp(backend, "eager") ? SN_PATH_EAGER : last_path());
    ck_assert(!fails || has(sn_explain(twin.fast), "backend 'mine' failed 3 times, and what it computes ran eagerly"));
    twin_free(twin);
}

START_TEST(t9_gradients_are_a_graph_of_their_own) {
    use_mine();
    for (int i = 0; i < 4; i++) expect_gradients(built_in[i], 0);
    expect_gradients("mine", 0);
    ck_assert_int_eq(asked.graphs, 2); /* forward and backward */
    ck_assert_msg(!has(asked.text, "sn::gradients"), "%s", asked.text);
}
END_TEST

/* Of a backward that fails eager's nodes run. */
static sn_function *fails_backward(sn_graph *g, void *closure) {
    asked.op_by_op = NULL;
    sn_function *const fn = gets_graph(g, closure);
    return fn;
}

static sn_function *first_whole(sn_graph *g, void *closure) {
    asked.gives = asked.graphs ? GIVES_wrapped : GIVES_graph; /* the forward computes; the backward may fail */
    return fails_backward(g, closure);
}

START_TEST(t9_a_backward_that_fails_runs_as_eagers) {
    use_mine();
    ck_assert_int_eq(sn_backend_register("backward fails", NULL, first_whole, &asked), SN_OK);
    const Twin twin = twin_new(loss, NULL, NULL, SN_COMPILE_OPTIONS(.backend = "backward fails"));
    for (int call = 0; call < 4; call++) {
        sn_tensor *grads[2];
        for (int k = 0; k < 2; k++) {
            sn_tensor *const x = LEAF(call, 3, 4), *const w = F32(7, 4, 5);
            sn_tensor *const y = SN_CALL(k ? twin.eager : twin.fast, x, w, F32(8, 3, 5));
            asked.does = FAILS;
            ck_assert_msg(sn_backward(y) == SN_OK, "%s", sn_error_take()->message);
            grads[k] = sn_grad(x);
        }
        ck_assert(same_bits(grads[0], grads[1]));
    }
    ck_assert_int_eq(asked.graphs, 2);
    ck_assert_int_eq(asked.runs, 3);
    ck_assert(has(sn_explain(twin.fast), "backend 'backward fails' failed 3 times"));
    ck_assert(has(sn_explain(twin.fast), "version none"));
    sn_function_free(asked.op_by_op);
    twin_free(twin);
}
END_TEST

static sn_status draws(sn_frame *f) { return sn_out(f, 0, sn_mul(sn_in(f, 0), sn_rand_like(sn_in(f, 0)))); }

START_TEST(t9_random_ops_run_eagerly) {
    use_mine();
    const Twin twin = twin_new(draws, NULL, NULL, SN_COMPILE_OPTIONS(.backend = "mine"));
    for (int i = 0; i < 3; i++) {
        sn_seed(5);
        sn_tensor *const want = SN_CALL(twin.eager, F32(1, 6));
        sn_seed(5);
        ck_assert(same_bits(SN_CALL(twin.fast, F32(1, 6)), want));
    }
    ck_assert_int_eq(asked.graphs, 0);
    ck_assert(has(sn_explain(twin.fast), "random ops, which a backend is not given"));
    twin_free(twin);
}
END_TEST

START_TEST(t9_what_it_computes_is_in_no_plan) {
    use_mine();
    sn_function *const fn =
        sn_compile(softened, NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY, .backend = "mine"));
    for (int i = 0; i < 3; i++) SN_CALL(fn, F32(i, 3, 5), F32(9 + i, 5, 6));
    ck_assert_int_eq(sn_plan_save(fn, "/nonexistent/plan", NULL), SN_ERR_UNSUPPORTED);
    expect_error(SN_ERR_UNSUPPORTED, "a backend of the program's computes it");
    sn_function_free(fn);
}
END_TEST

START_TEST(t9_bad_registrations_are_errors) {
    sn_backend_register(NULL, NULL, gets_graph, NULL);
    expect_error(SN_ERR_ARGUMENT, "sn_backend_register: the name is NULL");
    sn_backend_register("", NULL, gets_graph, NULL);
    expect_error(SN_ERR_ARGUMENT, "sn_backend_register: the name is empty");
    sn_backend_register("two\nlines", NULL, gets_graph, NULL);
    expect_error(SN_ERR_ARGUMENT, "is no line of at most 64 letters");
    sn_backend_register("other", "", gets_graph, NULL);
    expect_error(SN_ERR_ARGUMENT, "the version '' of 'other'");
    sn_backend_register("other", "1", NULL, NULL);
    expect_error(SN_ERR_ARGUMENT, "the callback is NULL");
    sn_backend_register("eager", "1", gets_graph, NULL);
    expect_error(SN_ERR_ARGUMENT, "there is a backend 'eager' already");
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        t9_the_librarys_backends_give_eagers_bits,
        t9_reasons_name_the_backend,
        t9_writes_and_views_stay_the_librarys,
        t9_it_gets_the_graph_and_its_function_runs,
        t9_what_it_gives_may_be_compiled,
        t9_one_that_makes_nothing_is_the_reason,
        t9_results_are_checked_and_failures_run_eagerly,
        t9_gradients_are_a_graph_of_their_own,
        t9_a_backward_that_fails_runs_as_eagers,
        t9_random_ops_run_eagerly,
        t9_what_it_computes_is_in_no_plan,
        t9_bad_registrations_are_errors,
    };
    return contract_main("backends", tests, sizeof tests / sizeof *tests);
}
