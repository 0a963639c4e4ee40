/* test_api_mode.c: API modes: what sees every op as the program calls it [acceptance 2.17, semantics T7]. */
#include <stdio.h>
#include <unistd.h>

#include "tests/unit/contract.h"

static char seen[2048];
static void note(const char *text) { strncat(seen, text, sizeof seen - strlen(seen) - 1); }

/* "aten::mm" and "aten::add_.Tensor": "mm", "add_" */
static void record_one_op(sn_frame *f) {
    const char *const name = sn_op_name(sn_frame_op(f));
    char base[64];
    snprintf(base, sizeof base, "%s", strstr(name, "::") + 2);
    base[strcspn(base, ".")] = '\0';
    note(base);
}

static void note_sizes(sn_tensor *t) {
    char number[32];
    note("(");
    for (int64_t i = 0; i < sn_rank(t); i++) {
        snprintf(number, sizeof number, i ? ",%lld" : "%lld", (long long)sn_size(t, i));
        note(number);
    }
    note(")");
}

static sn_status tracks_shapes(sn_frame *f) {
    if (sn_redispatch(f) != SN_OK) return sn_check();
    record_one_op(f);
    note(": [");
    for (int i = 0, n = 0; i < sn_in_count(f); i++)
        if (sn_in_value(f, i).kind == SN_KIND_TENSOR) {
            if (n++) note(",");
            note_sizes(sn_in(f, i));
        }
    note("] -> ");
    note_sizes(sn_result(f, 0));
    note(";");
    return SN_OK;
}

static sn_status names(sn_frame *f) {
    if (sn_closure(f)) note(sn_closure(f));
    record_one_op(f);
    note(" ");
    return sn_redispatch(f);
}

START_TEST(a2_17_a_linear_is_seen_as_linear) {
    sn_tensor *const x = F32(1, 2, 3), *const w = F32(2, 4, 3), *const b = F32(3, 4), *const want = sn_linear(x, w, b);
    ck_assert_int_eq(sn_api_mode_push(tracks_shapes, NULL), SN_OK);
    seen[0] = '\0';
    sn_mm(F32(1, 3, 4), F32(2, 4, 5));
    ck_assert_str_eq(seen, "mm: [(3,4),(4,5)] -> (3,5);");
    seen[0] = '\0';
    sn_tensor *const y = sn_linear(x, w, b);
    ck_assert_str_eq(seen, "linear: [(2,3),(4,3),(4)] -> (2,4);");
    ck_assert(same_bits(y, want));
    ck_assert_int_eq(sn_user_mode_push(names, "below "), SN_OK); /* the dispatch-level one sees its parts */
    seen[0] = '\0';
    sn_linear(x, w, b);
    ck_assert_str_eq(seen, "below t below addmm linear: [(2,3),(4,3),(4)] -> (2,4);");
    sn_user_mode_pop();
    ck_assert_int_eq(sn_api_mode_pop(), SN_OK);
    seen[0] = '\0';
    sn_linear(x, w, b);
    ck_assert_str_eq(seen, "");
    ck_assert_int_ne(sn_api_mode_pop(), SN_OK);
    expect_error(SN_ERR_STATE, "no API mode is active");
    ck_assert_int_ne(sn_api_mode_push(NULL, NULL), SN_OK);
    expect_error(SN_ERR_ARGUMENT, "the handler is NULL");
}
END_TEST

static sn_status doubles(sn_frame *f) { /* its own op is the outer mode's to see */
    if (sn_redispatch(f) != SN_OK) return sn_check();
    return sn_out(f, 0, sn_mul_scalar(sn_result(f, 0), sn_int(2)));
}

START_TEST(a2_17_modes_nest_and_end_with_their_scope) {
    sn_tensor *const x = F32(1, 3), *const want = sn_relu(x), *const twice = sn_add(want, want);
    const sn_scope scope = sn_scope_begin();
    sn_api_mode_push(names, "outer ");
    sn_api_mode_push(names, "inner ");
    seen[0] = '\0';
    ck_assert(same_bits(sn_relu(x), want));
    ck_assert_str_eq(seen, "inner relu outer relu ");
    sn_api_mode_push(doubles, NULL);
    seen[0] = '\0';
    ck_assert(same_bits(sn_relu(x), twice));
    ck_assert_str_eq(seen, "inner relu outer relu inner mul outer mul ");
    sn_scope_end(scope);
    seen[0] = '\0';
    ck_assert(same_bits(sn_relu(x), want));
    ck_assert_str_eq(seen, "");
}
END_TEST

/* An API mode that a dispatch-level handler begins sees what follows there, and those outside still do not. */
static sn_status begins_a_mode(sn_frame *f) {
    sn_tensor *const t = F32(1, 3);
    sn_neg(t);
    sn_api_mode_push(names, "own ");
    sn_abs(t);
    sn_api_mode_pop();
    sn_exp(t);
    return sn_redispatch(f);
}

START_TEST(a2_17_a_handlers_own_mode_sees_what_it_calls) {
    sn_tensor *const x = F32(1, 3), *const want = sn_relu(x);
    sn_api_mode_push(names, "outer ");
    sn_user_mode_push(begins_a_mode, NULL);
    seen[0] = '\0';
    ck_assert(same_bits(sn_relu(x), want));
    ck_assert_str_eq(seen, "outer relu own abs ");
    sn_user_mode_pop();
    sn_api_mode_pop();
}
END_TEST

/* A level's handle keeps its key there: an error, where the level is not entered. */
static sn_status takes_a_handle(sn_frame *f) {
    if (sn_closure(f)) sn_neg(*(sn_tensor **)sn_closure(f));
    return sn_check() == SN_OK ? sn_redispatch(f) : sn_check();
}
static sn_status in_vmap(sn_frame *f) {
    sn_tensor *handle = sn_in(f, 0);
    sn_user_mode_push(takes_a_handle, &handle);
    return sn_out(f, 0, sn_exp(handle));
}

START_TEST(a2_17_a_handler_may_not_use_a_tensor_of_a_level) {
    sn_tensor *out = NULL;
    ck_assert_int_ne(sn_vmap(in_vmap, NULL, NULL, SN_TENSORS(F32(1, 2, 3)), &out, 1), SN_OK);
    expect_error(SN_ERR_STATE, "a tensor of an sn_vmap");
}
END_TEST

static sn_status sees_history(sn_frame *f) {
    if (sn_redispatch(f) != SN_OK) return sn_check();
    note(sn_requires_grad(sn_result(f, 0)) ? "recorded " : "plain ");
    return SN_OK;
}

START_TEST(a2_17_it_is_above_autograd) {
    sn_tensor *const w = LEAF(2, 4, 3), *const x = F32(1, 2, 3);
    ck_assert_int_eq(sn_backward(sn_sum(sn_linear(x, w, NULL))), SN_OK);
    sn_tensor *const want = sn_clone(sn_grad(w));
    sn_grad_set(w, NULL);
    sn_api_mode_push(sees_history, NULL);
    seen[0] = '\0';
    sn_tensor *const loss = sn_sum(sn_linear(x, w, NULL));
    ck_assert_str_eq(seen, "recorded recorded ");
    ck_assert_int_eq(sn_backward(loss), SN_OK);
    ck_assert_str_eq(seen, "recorded recorded "); /* a backward's ops are no calls */
    sn_api_mode_pop();
    ck_assert(same_bits(sn_grad(w), want));
}
END_TEST

static sn_status fails(sn_frame *f) { return sn_fail(SN_ERR_VALUE, "not this op"); }

/* A function that is no op makes what it gives by itself: no call of the program's. */
START_TEST(a2_17_what_the_library_makes_is_not_seen) {
    sn_dict *const d = sn_dict_new();
    sn_attention attention = {.size = sizeof attention};
    sn_api_mode_push(names, NULL);
    seen[0] = '\0';
    sn_param_linear(d, "l", 4, 3, NULL, NULL);
    sn_param_embedding(d, "e", 4, 3);
    sn_param_layer_norm(d, "n", 4, NULL, NULL);
    sn_param_attention(d, "s", 4, 2, true, &attention);
    sn_optim *const adam = sn_adam(d, 0.1, 0), *const sgd = sn_sgd(d, 0.1, 0.9);
    sn_scaler *const scaler = sn_scaler_new(NULL);
    ck_assert_str_eq(seen, "");
    sn_tensor *const loss = sn_sum(sn_dict_at(d, 0));
    ck_assert_str_eq(seen, "sum ");
    seen[0] = '\0';
    sn_backward(sn_scaler_scale(scaler, loss));
    ck_assert_str_eq(seen, "mul ");
    seen[0] = '\0';
    sn_scaler_unscale(scaler, adam);
    sn_clip_grad_norm(d, 1);
    sn_scaler_step(scaler, adam);
    sn_scaler_step(scaler, sgd);
    sn_scaler_update(scaler);
    sn_dict_copy(d, d);
    ck_assert_str_eq(seen, "");
    ck_assert_msg(sn_check() == SN_OK, "%s", sn_error_take()->message);
    sn_api_mode_pop();
    sn_scaler_free(scaler);
    sn_optim_free(sgd);
    sn_optim_free(adam);
    sn_dict_free(d);
}
END_TEST

START_TEST(a2_17_an_error_of_the_handler_is_the_ops) {
    sn_api_mode_push(fails, NULL);
    ck_assert_ptr_null(sn_relu(F32(1, 3)));
    expect_error(SN_ERR_VALUE, "not this op");
    sn_api_mode_pop();
    ck_assert_ptr_nonnull(sn_relu(F32(1, 3)));
}
END_TEST

static sn_status negates(sn_frame *f) {
    sn_redispatch(f);
    return sn_out(f, 0, sn_neg(sn_result(f, 0)));
}

/* What an in-place or an out form gives is what it writes. */
START_TEST(a2_17_only_a_new_result_is_replaced) {
    sn_tensor *const x = F32(1, 3), *const to = F32(2, 3), *const want = sn_neg(sn_relu(x));
    for (int api = 0; api < 2; api++) {
        (api ? sn_api_mode_push : sn_user_mode_push)(negates, NULL);
        sn_tensor *const y = sn_relu(x);
        ck_assert_ptr_null(sn_relu_(x));
        expect_error(SN_ERR_ARGUMENT, "aten::relu_: result 0 is the tensor that the op writes");
        ck_assert_ptr_null(sn_neg_out(to, x));
        expect_error(SN_ERR_ARGUMENT, "aten::neg.out: result 0 is the tensor that the op writes");
        (api ? sn_api_mode_pop : sn_user_mode_pop)();
        ck_assert(same_bits(y, want));
    }
}
END_TEST

/* Compiled ------------------------------------------------------------------------------------ */

typedef struct Net {
    sn_tensor *w, *b;
    int runs;
} Net;

static sn_status net(sn_frame *f) {
    Net *const n = sn_closure(f);
    n->runs++;
    sn_tensor *const h = sn_mul_scalar(sn_linear(sn_in(f, 0), n->w, n->b), sn_float(0.5));
    sn_tensor *const part = sn_narrow(h, 0, 0, 1);
    sn_add_(part, part); /* views and writes */
    return sn_out(f, 0, sn_sum(sn_mul(h, h)));
}

static const char net_ops[] = "linear mul narrow add_ mul sum ";

START_TEST(a2_17_around_a_compiled_function) {
    Net nets[2] = {{LEAF(2, 4, 3), LEAF(3, 4)}, {LEAF(2, 4, 3), LEAF(3, 4)}};
    const Twin twin = twin_new(net, &nets[0], &nets[1], NULL);
    for (int i = 0; i < 6; i++) {
        sn_tensor *const x = F32((uint64_t)i, 2, 3);
        if (i % 3 != 2) sn_api_mode_push(names, NULL); /* from the first call on, and without */
        seen[0] = '\0';
        sn_tensor *const got = SN_CALL(twin.fast, x);
        if (i % 3 != 2) {
            ck_assert_msg(!strcmp(seen, net_ops), "call %d: %s", i, seen);
            ck_assert_int_eq(sn_backward(got), SN_OK);
            ck_assert_msg(!strcmp(seen, net_ops), "call %d: %s", i, seen);
            sn_api_mode_pop();
        } else {
            ck_assert_str_eq(seen, "");
            ck_assert_int_eq(sn_backward(got), SN_OK);
        }
        if (i) ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
        sn_tensor *const want = SN_CALL(twin.eager, x);
        ck_assert(same_bits(got, want) && sn_backward(want) == SN_OK);
        ck_assert(same_bits(sn_grad(nets[0].w), sn_grad(nets[1].w)));
    }
    ck_assert_int_eq(stats_of(twin.fast).compiles, 1); /* the mode is no case of its own */
    twin_free(twin);
}
END_TEST

static sn_status add_in_place(sn_frame *f) {
    return sn_add_(sn_in(f, 0), sn_in(f, 1)) ? sn_out(f, 0, sn_in(f, 0)) : sn_check();
}

/* By an op of the program's own. */
static sn_status adds(sn_frame *f) {
    const sn_value in[] = {sn_val(sn_clone(sn_in(f, 0))), sn_val(sn_in(f, 0))};
    return sn_out(f, 0, sn_relu(sn_op_call1(sn_closure(f), in, 2)));
}

/* What runs for them in compiled code is dispatched, but no call of the program's. */
START_TEST(a2_17_code_that_calls_ops_is_not_seen) {
    static const char *const backends[] = {"generated", "aot_eager", "interpreter", "eager"};
    const sn_op *const op = sn_op_register(SN_OP_DESC(.schema = "api::add_(Tensor(a!) x, Tensor y) -> Tensor(a!)",
                                                      .flags = SN_OP_PURE, .cpu = add_in_place));
    for (int i = 0; i < 4; i++) {
        sn_function *const fn = sn_compile(adds, (void *)(uintptr_t)op, SN_COMPILE_OPTIONS(.backend = backends[i]));
        SN_CALL(fn, F32(1, 2, 3));
        SN_CALL(fn, F32(2, 2, 3));
        sn_api_mode_push(names, NULL);
        seen[0] = '\0';
        sn_tensor *const got = SN_CALL(fn, F32(3, 2, 3));
        sn_api_mode_pop();
        ck_assert_msg(!strcmp(seen, "clone add_ relu "), "%s: %s", backends[i], seen);
        ck_assert(same_bits(got, sn_relu(sn_add(F32(3, 2, 3), F32(3, 2, 3)))));
        ck_assert_int_eq(last_path() == SN_PATH_EAGER, i == 3);
        sn_function_free(fn);
    }
}
END_TEST

static sn_status sum_of(sn_frame *f) { return sn_out(f, 0, sn_add(sn_in(f, 0), sn_in(f, 1))); }
static sn_status sum_meta(sn_frame *f) { return sn_out(f, 0, sn_empty_like(sn_add(sn_in(f, 0), sn_in(f, 1)))); }

/* Compiled and with another size compiled again: its meta body is asked for the graph. */
START_TEST(a2_17_a_meta_body_is_not_seen) {
    const sn_op *const op = sn_op_register(SN_OP_DESC(.schema = "api::sum(Tensor x, Tensor y) -> Tensor",
                                                      .flags = SN_OP_PURE, .cpu = sum_of, .meta = sum_meta));
    sn_function *const fn = sn_compile(adds, (void *)(uintptr_t)op, NULL);
    sn_api_mode_push(names, NULL);
    for (int i = 0; i < 4; i++) {
        seen[0] = '\0';
        SN_CALL(fn, F32((uint64_t)i, i < 2 ? 2 : 3 + i, 3));
        ck_assert_msg(!strcmp(seen, "clone sum relu "), "call %d: %s", i, seen);
    }
    sn_api_mode_pop();
    sn_function_free(fn);
}
END_TEST

static sn_status pushes_inside(sn_frame *f) {
    sn_tensor *const h = sn_sin(sn_in(f, 0));
    const sn_scope scope = sn_scope_begin();
    sn_api_mode_push(names, NULL);
    sn_tensor *const y = sn_linear(h, h, NULL);
    return sn_out(f, 0, sn_cos(sn_scope_return(scope, y)));
}

START_TEST(a2_17_inside_of_a_body) {
    const Twin twin = twin_new(pushes_inside, NULL, NULL, NULL);
    const Twin replay = twin_new(pushes_inside, NULL, NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY));
    for (int i = 0; i < 5; i++) {
        seen[0] = '\0';
        TWIN_CALL(i % 2 ? replay : twin, F32((uint64_t)i, 2, 3));
        ck_assert_str_eq(seen, "linear linear ");
    }
    twin_free(twin);
    twin_free(replay);
}
END_TEST

START_TEST(t7_an_active_api_mode_makes_replay_run_the_body) {
    Net nets[2] = {{F32(2, 4, 3), F32(3, 4)}, {F32(2, 4, 3), F32(3, 4)}};
    const Twin twin = twin_new(net, &nets[0], &nets[1], SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY));
    for (int i = 0; i < 4; i++) TWIN_CALL(twin, F32((uint64_t)i, 2, 3));
    const int learnt = nets[0].runs;
    TWIN_CALL(twin, F32(9, 2, 3));
    ck_assert_int_eq(nets[0].runs, learnt); /* replayed */
    for (int i = 0; i < 3; i++) {
        sn_api_mode_push(names, NULL);
        seen[0] = '\0';
        sn_tensor *const got = SN_CALL(twin.fast, F32((uint64_t)i, 2, 3));
        sn_api_mode_pop();
        ck_assert_str_eq(seen, net_ops);
        ck_assert(same_bits(got, SN_CALL(twin.eager, F32((uint64_t)i, 2, 3))));
    }
    ck_assert_int_eq(nets[0].runs, learnt + 3);
    TWIN_CALL(twin, F32(9, 2, 3));
    ck_assert_int_eq(nets[0].runs, learnt + 3); /* and again */
    twin_free(twin);
}
END_TEST

static sn_status symbolic(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    return sn_out(f, 0, sn_reshape(sn_exp(x), SN_INTS(sn_sym_arg(sn_sym_numel(x)))));
}

static sn_status doubles_reshapes(sn_frame *f) { /* reads the numbers that a call was given */
    if (strstr(sn_op_name(sn_frame_op(f)), "reshape")) {
        char number[32];
        snprintf(number, sizeof number, "%lld ", (long long)sn_in_value(f, 1).ints[0]);
        note(number);
    }
    return sn_redispatch(f);
}

START_TEST(t7_an_api_mode_sees_plain_numbers) {
    const Twin twin = twin_new(symbolic, NULL, NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY));
    for (int i = 0; i < 6; i++) {
        if (i % 2) sn_api_mode_push(doubles_reshapes, NULL);
        seen[0] = '\0';
        TWIN_CALL(twin, F32(1, 2 + i, 3));
        char want[64];
        snprintf(want, sizeof want, "%d %d ", 6 + 3 * i, 6 + 3 * i);
        ck_assert_str_eq(seen, i % 2 ? want : "");
        if (i % 2) sn_api_mode_pop();
    }
    twin_free(twin);
}
END_TEST

static sn_status plain(sn_frame *f) { return sn_out(f, 0, sn_sin(sn_mul(sn_in(f, 0), sn_in(f, 0)))); }

START_TEST(t7_a_saved_plan_has_no_body_to_run) {
    char path[64];
    snprintf(path, sizeof path, "/tmp/sinter_api_mode_%ld.plan", (long)getpid());
    sn_function *const fn = sn_compile(plain, NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY));
    sn_tensor *const x = F32(1, 5);
    for (int i = 0; i < 3; i++) SN_CALL(fn, F32((uint64_t)i, 5));
    ck_assert_msg(sn_plan_save(fn, path, NULL) == SN_OK, "%s", sn_error_take()->message);
    sn_function *const plan = sn_plan_load(path, NULL);
    remove(path);
    ck_assert_msg(plan != NULL, "%s", sn_error_take()->message);
    sn_api_mode_push(names, NULL);
    seen[0] = '\0';
    sn_tensor *const y = SN_CALL(plan, x);
    sn_api_mode_pop();
    ck_assert_str_eq(seen, "");
    ck_assert(same_bits(y, sn_sin(sn_mul(x, x))));
    sn_function_free(plan);
    sn_function_free(fn);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        a2_17_a_linear_is_seen_as_linear,
        a2_17_modes_nest_and_end_with_their_scope,
        a2_17_a_handlers_own_mode_sees_what_it_calls,
        a2_17_a_handler_may_not_use_a_tensor_of_a_level,
        a2_17_it_is_above_autograd,
        a2_17_what_the_library_makes_is_not_seen,
        a2_17_an_error_of_the_handler_is_the_ops,
        a2_17_only_a_new_result_is_replaced,
        a2_17_around_a_compiled_function,
        a2_17_code_that_calls_ops_is_not_seen,
        a2_17_a_meta_body_is_not_seen,
        a2_17_inside_of_a_body,
        t7_an_active_api_mode_makes_replay_run_the_body,
        t7_an_api_mode_sees_plain_numbers,
        t7_a_saved_plan_has_no_body_to_run,
    };
    return contract_main("test_api_mode", tests, (int)(sizeof tests / sizeof *tests));
}
