/* test_dispatch.c: the walk through key sets [acceptance 2.02], user's ops, overrides, fallbacks, modes, and callbacks'
 * scopes [semantics O1, O2]. The other rows of the acceptance list are in test_accept_dispatch.c. */
#include <sinter/amp.h>
#include <stdlib.h>

#include "runtime/core/override.h"
#include "runtime/core/dispatch.h"
#include "runtime/core/frame.h"
#include "tests/unit/suite.h"

static char trace[512];
static void note(const char *what) { strncat(trace, what, sizeof trace - strlen(trace) - 1); }
static void reset(void) { trace[0] = '\0'; }

static sn_tensor *pair(float a, float b) { return sn_from_data((float[]){a, b}, (sn_ints){(int64_t[]){2}, 1}, SN_F32); }

/* test::scale(Tensor x, float by=2.0) -> Tensor on the host. */
static sn_status scale_cpu(sn_frame *f) {
    note("cpu;");
    const float *const x = sn_data(sn_in(f, 0), SN_F32);
    const float by = (float)sn_in_float(f, 1);
    return x ? sn_out(f, 0, pair(x[0] * by, x[1] * by)) : sn_check();
}
static bool notes_meta; /* eager asks it too, of each new layout, to check what the kernel returns */
static sn_status scale_meta(sn_frame *f) {
    if (notes_meta) note("meta;");
    sn_tensor *const x = sn_in(f, 0);
    return sn_out(f, 0, tensor_without_data(x->base.meta));
}
static const sn_op *scale_op(void) {
    static const sn_op *op;
    if (!op)
        op = sn_op_register(SN_OP_DESC(.schema = "test::scale(Tensor x, float by=2.0) -> Tensor", .flags = SN_OP_PURE,
                                       .meta = scale_meta, .cpu = scale_cpu));
    return op;
}

static sn_tensor *scale(sn_tensor *x, double by) {
    const sn_value in[] = {sn_val(x), sn_float(by)};
    return sn_op_call1(scale_op(), in, 2);
}

START_TEST(a_users_op_runs_by_its_schema) {
    reset();
    sn_tensor *const x = pair(1, 2);
    ck_assert(((const float *)sn_data(scale(x, 3), SN_F32))[1] == 6);
    const sn_value in[] = {sn_val(x)}; /* the default of the rest */
    ck_assert(((const float *)sn_data(sn_op_call1(sn_op_find("test::scale"), in, 1), SN_F32))[1] == 4);
    ck_assert_str_eq(trace, "cpu;cpu;");
    ck_assert_str_eq(sn_op_schema(scale_op()), "test::scale(Tensor x, float by=2.0) -> Tensor");
}
END_TEST

START_TEST(a_second_definition_is_an_error) {
    scale_op();
    ck_assert_ptr_null(sn_op_register(SN_OP_DESC(.schema = "test::scale(Tensor x) -> Tensor", .cpu = scale_cpu)));
    ck_assert_ptr_nonnull(strstr(sn_error_take()->message, "exists already"));
    ck_assert_ptr_null(sn_op_register(SN_OP_DESC(.schema = "test::nothing(Tensor x) -> Tensor")));
    ck_assert_int_eq(sn_error_take()->status, SN_ERR_ARGUMENT);
    ck_assert_ptr_null(sn_op_register(SN_OP_DESC(.schema = "test::broken(Tensor", .cpu = scale_cpu)));
    ck_assert_int_eq(sn_error_take()->status, SN_ERR_PARSE);
}
END_TEST

static void refused_with(sn_status status, sn_op_desc desc, const char *says) {
    desc.size = sizeof desc;
    desc.cpu = scale_cpu;
    ck_assert_msg(!sn_op_register(&desc), "%s was taken", desc.schema);
    const sn_error *const error = sn_error_take();
    ck_assert_int_eq(error->status, status);
    ck_assert_msg(strstr(error->message, says) != NULL, "%s", error->message);
}
static void refused(sn_op_desc desc, const char *says) { refused_with(SN_ERR_ARGUMENT, desc, says); }

START_TEST(descriptions_of_nothing_real) {
    const char *const schema = "test::odd(Tensor x, Tensor y) -> Tensor";
    refused((sn_op_desc){.schema = "odd(Tensor x) -> Tensor"}, "namespace, as in my::odd");
    refused((sn_op_desc){.schema = "test::odd(Tensor x, int x) -> Tensor"}, "test::odd: two parameters are called x");
    refused_with(SN_ERR_UNSUPPORTED, (sn_op_desc){.schema = "test::odd(Tensor x) -> (Tensor, str)"}, "result 1 is str");
    refused((sn_op_desc){.schema = schema, .flags = SN_OP_PURE | SN_OP_ORDERED}, "not 0x3");
    refused((sn_op_desc){.schema = schema, .flags = 64}, "not 0x40");
    refused((sn_op_desc){.schema = schema, .saves = "x, nothere"}, "'nothere' is no argument");
    refused((sn_op_desc){.schema = schema, .saves = "x,,"}, "'' is no argument");
    refused((sn_op_desc){.schema = schema, .saves = "result1"}, "'result1' is no argument");
    refused((sn_op_desc){.schema = schema, .saves = "x/y"}, "'x/y' is no argument");
    ck_assert_ptr_nonnull(
        sn_op_register(SN_OP_DESC(.schema = schema, .cpu = scale_cpu, .saves = " x result,result0 , y")));
}
END_TEST

START_TEST(null_arguments_name_op_and_argument) {
    ck_assert_ptr_null(scale(NULL, 2));
    const sn_error *const error = sn_error_take();
    ck_assert_int_eq(error->status, SN_ERR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(error->message, "x"));
    sn_fail(SN_ERR_VALUE, "the cause");
    ck_assert_ptr_null(scale(NULL, 2)); /* explained by the pending error */
    ck_assert_str_eq(sn_error_take()->message, "the cause");
}
END_TEST

START_TEST(an_error_tensor_counts_as_null) {
    sn_tensor *const x = pair(1, 2);
    x->flags |= TF_error;
    ck_assert(!sn_ok(x));
    ck_assert_ptr_null(scale(x, 2));
    const sn_error *const error = sn_error_take();
    ck_assert_str_eq(error->op, "test::scale");
    ck_assert_ptr_nonnull(strstr(error->message, "'x'"));
}
END_TEST

static sn_status twice_then_on(sn_frame *f) {
    note("override;");
    (void)sn_closure(f);
    return sn_redispatch(f);
}

START_TEST(an_override_runs_once_and_redispatches) {
    sn_override *const o = sn_op_override(scale_op(), SN_KEY_AUTOCAST, twice_then_on, NULL);
    sn_autocast_set(SN_CPU, SN_BF16);
    reset();
    ck_assert(((const float *)sn_data(scale(pair(1, 2), 2), SN_F32))[0] == 2);
    ck_assert_str_eq(trace, "override;cpu;");
    sn_override_free(o);
    reset();
    scale(pair(1, 2), 2);
    ck_assert_str_eq(trace, "cpu;");
    sn_autocast_set(SN_CPU, SN_F32);
}
END_TEST

START_TEST(below_the_last_key_is_nothing) {
    sn_override *const o = sn_op_override(scale_op(), SN_KEY_CPU, twice_then_on, NULL);
    ck_assert_ptr_null(scale(pair(1, 2), 2));
    const sn_error *const error = sn_error_take();
    ck_assert_int_eq(error->status, SN_ERR_UNSUPPORTED);
    ck_assert_str_eq(error->message, "test::scale: it has no key below cpu");
    sn_override_free(o);
}
END_TEST

static sn_status answer_seven(sn_frame *f) { return sn_out(f, 0, pair(7, 7)); }
static sn_status answer_eight(sn_frame *f) { return sn_out(f, 0, pair(8, 8)); }
static float first(sn_tensor *t) {
    const float *const data = sn_data(t, SN_F32);
    return data ? data[0] : -1;
}

START_TEST(overrides_stack_and_restore) {
    sn_tensor *const x = pair(1, 2);
    const uint32_t epoch = atomic_load(&dispatch_epoch);
    sn_override *const seven = sn_op_override(scale_op(), SN_KEY_CPU, answer_seven, NULL);
    ck_assert_uint_gt(atomic_load(&dispatch_epoch), epoch); /* a guard */
    ck_assert(first(scale(x, 2)) == 7);
    sn_override *const eight = sn_op_override(scale_op(), SN_KEY_CPU, answer_eight, NULL);
    ck_assert(first(scale(x, 2)) == 8);
    sn_override_free(seven); /* not the newest */
    ck_assert(first(scale(x, 2)) == 8);
    sn_override_free(eight);
    ck_assert(first(scale(x, 2)) == 2);
}
END_TEST

static sn_status spare_backend(sn_frame *f) {
    note(sn_op_schema(sn_frame_op(f)));
    return sn_out(f, 0, sn_in(f, 0));
}

START_TEST(a_device_without_kernels_runs_through_a_fallback) {
    const Meta *const meta = meta_intern_contiguous(DT_f32, DEV_spare, (int64_t[]){2}, 1);
    sn_tensor *const x = tensor_without_data(meta);
    ck_assert_ptr_null(scale(x, 2));
    const sn_error *error = sn_error_take();
    ck_assert_int_eq(error->status, SN_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error->message, "not implemented for key"));
    ck_assert_ptr_nonnull(strstr(error->message, "spare"));
    sn_override *const o = sn_fallback_set(SN_KEY_SPARE, spare_backend, NULL);
    reset();
    ck_assert_ptr_eq(scale(x, 2), x);
    ck_assert_ptr_nonnull(strstr(trace, "test::scale"));
    sn_override_free(o);
    ck_assert_ptr_null(scale(x, 2));
    sn_error_take();
}
END_TEST

START_TEST(the_meta_device_asks_the_meta_rule) {
    const Meta *const meta = meta_intern_contiguous(DT_f32, DEV_meta, (int64_t[]){2}, 1);
    reset();
    notes_meta = true;
    sn_tensor *const y = scale(tensor_without_data(meta), 2);
    ck_assert_str_eq(trace, "meta;");
    ck_assert_int_eq(sn_size(y, 0), 2);
    ck_assert_ptr_null(sn_data(y, SN_F32));
    ck_assert_int_eq(sn_error_take()->status, SN_ERR_DEVICE);
}
END_TEST

START_TEST(mixed_devices_name_both) {
    const Meta *const meta = meta_intern_contiguous(DT_f32, DEV_meta, (int64_t[]){2}, 1);
    static const sn_op *op;
    op = sn_op_register(SN_OP_DESC(.schema = "test::both(Tensor x, Tensor y) -> Tensor", .cpu = scale_cpu));
    const sn_value in[] = {sn_val(pair(1, 2)), sn_val(tensor_without_data(meta))};
    ck_assert_ptr_null(sn_op_call1(op, in, 2));
    const sn_error *const error = sn_error_take();
    ck_assert_int_eq(error->status, SN_ERR_DEVICE);
    ck_assert_ptr_nonnull(strstr(error->message, "'x' is on cpu"));
    ck_assert_ptr_nonnull(strstr(error->message, "'y' on meta"));
}
END_TEST

static sn_status logger(sn_frame *f) {
    note(sn_closure(f));
    note(sn_op_schema(sn_frame_op(f)));
    note(";");
    return sn_redispatch(f);
}

START_TEST(modes_see_every_op_inner_first) {
    sn_tensor *const x = pair(1, 2);
    const sn_scope scope = sn_scope_begin();
    ck_assert_int_eq(sn_user_mode_push(logger, "outer:"), SN_OK);
    ck_assert_int_eq(sn_user_mode_push(logger, "inner:"), SN_OK);
    reset();
    ck_assert(first(scale(x, 2)) == 2);
    const char *const inner = strstr(trace, "inner:test::scale"), *const outer = strstr(trace, "outer:test::scale");
    ck_assert(inner && outer && inner < outer);
    ck_assert_ptr_nonnull(strstr(outer, "cpu;"));
    sn_scope_end(scope); /* a scope pops the modes pushed in it */
    reset();
    scale(x, 2);
    ck_assert_str_eq(trace, "cpu;");
    ck_assert_int_eq(sn_user_mode_pop(), SN_ERR_STATE);
    sn_error_take();
}
END_TEST

/* Further out than the handler's own is the mode that it ends. */
static sn_status ends_a_mode(sn_frame *f) {
    sn_status (**const pop)(void) = sn_closure(f);
    note("ends;");
    if (*pop) ck_assert_int_eq((*pop)(), SN_OK);
    *pop = NULL;
    return sn_redispatch(f);
}

START_TEST(a_handler_may_end_a_mode_further_out) {
    sn_tensor *const x = pair(1, 2);
    for (int api = 0; api < 2; api++) {
        sn_status (*const push)(sn_body, void *) = api ? sn_api_mode_push : sn_user_mode_push;
        sn_status (*pop)(void) = api ? sn_api_mode_pop : sn_user_mode_pop;
        const sn_scope scope = sn_scope_begin();
        push(logger, "first:");
        push(logger, "second:");
        push(ends_a_mode, &pop);
        for (int call = 0; call < 2; call++) {
            reset();
            ck_assert(first(scale(x, 2)) == 2);
            ck_assert(strstr(trace, "ends;") && strstr(trace, "first:test::scale") && !strstr(trace, "second:"));
        }
        sn_scope_end(scope);
        reset();
        scale(x, 2);
        ck_assert_str_eq(trace, "cpu;");
    }
}
END_TEST

/* Also where the mode that was the innermost one when the scope began has ended before it began. */
START_TEST(a_mode_ends_with_its_scope) {
    sn_tensor *const x = pair(1, 2);
    sn_user_mode_push(logger, "outer:");
    const sn_scope scope = sn_scope_begin();
    sn_user_mode_pop();
    sn_user_mode_push(logger, "inner:");
    sn_scope_end(scope);
    reset();
    scale(x, 2);
    ck_assert_str_eq(trace, "cpu;");
    ck_assert_int_ne(sn_user_mode_pop(), SN_OK);
    sn_error_take();
}
END_TEST

static sn_status forgets_its_output(sn_frame *f) {
    (void)f;
    return SN_OK;
}
static sn_status fails_silently(sn_frame *f) {
    (void)f;
    return SN_ERR_IO;
}
static sn_scope outside;
static sn_status ends_the_callers_scope(sn_frame *f) {
    sn_scope_end(outside);
    return sn_out(f, 0, sn_in(f, 0));
}
static sn_status reads_too_far(sn_frame *f) {
    sn_in(f, 2);
    return sn_out(f, 0, sn_in(f, 0));
}

static const sn_error *error_of(sn_body body) {
    sn_override *const o = sn_op_override(scale_op(), SN_KEY_CPU, body, NULL);
    sn_tensor *const y = scale(pair(1, 2), 2);
    sn_override_free(o);
    ck_assert_ptr_null(y);
    return sn_error_take();
}

START_TEST(callbacks_are_checked) {
    outside = sn_scope_begin();
    ck_assert_ptr_nonnull(strstr(error_of(forgets_its_output)->message, "set no output 0"));
    ck_assert_ptr_nonnull(strstr(error_of(fails_silently)->message, "returned 'io'"));
    ck_assert_ptr_nonnull(strstr(error_of(ends_the_callers_scope)->message, "outside the running callback"));
    ck_assert_ptr_nonnull(strstr(error_of(reads_too_far)->message, "no argument 2; the call has 2"));
    ck_assert_int_eq(sn_scope_end(outside), SN_OK);
}
END_TEST

static sn_status leaves_scopes_open(sn_frame *f) {
    sn_scope_begin();
    sn_tensor *const y = pair(5, 5);
    sn_scope_begin();
    pair(6, 6);
    return sn_out(f, 0, y);
}

START_TEST(results_pass_out_of_the_callbacks_scope) {
    sn_override *const o = sn_op_override(scale_op(), SN_KEY_CPU, leaves_scopes_open, NULL);
    const sn_scope scope = sn_scope_begin();
    sn_tensor *const y = sn_keep(scale(pair(1, 2), 2));
    ck_assert_int_eq(atomic_load(&y->refs), 1);
    sn_scope_end(scope);
    ck_assert(first(y) == 5);
    sn_release(y);
    sn_override_free(o);
}
END_TEST

/* The highest key of a set with a kernel runs: against the naive rule, on random sets. */
static int ran;
static Status record_run(OpCall *call) {
    ran = (int)call->key;
    call->outs[0] = tensor_of(call->args[0].val);
    return ST_OK;
}

START_TEST(a2_02_the_highest_key_runs) {
    const sn_op *const op = sn_op_register(SN_OP_DESC(.schema = "test::walk(Tensor x) -> Tensor", .cpu = scale_cpu));
    ck_assert_ptr_nonnull(op);
    OpForm form;
    const OpRow *const row = op_find("test::walk", 10, &form);
    sn_tensor *const x = pair(1, 2);
    const uint64_t keys = x->keys, include = state_get()->include, exclude = state_get()->exclude;
    srand(7);
    for (int round = 0; round < 2000; round++) {
        uint64_t have = 0, sets[3];
        for (int i = 0; i < 3; i++) sets[i] = (uint64_t)rand() % (UINT64_C(1) << KEY_COUNT) & ~(KEYS_BACKEND | 1);
        for (int key = 1; key < KEY_COUNT; key++) {
            const bool has = key == KEY_cpu || rand() % 2;
            if (has) have |= UINT64_C(1) << key;
            dispatch_register(row, (Key)key, has ? record_run : NULL);
        }
        int expected = 0;
        for (int key = 1; key < KEY_COUNT; key++) {
            const uint64_t bit = UINT64_C(1) << key;
            const bool in_set = ((sets[0] | KEY_BIT(cpu) | sets[1]) & ~sets[2] & bit) != 0;
            if (in_set && ((have & bit) || dispatch_fallback_of((Key)key))) expected = key;
        }
        if (expected != KEY_cpu && !(have >> expected & 1)) continue; /* a fallback of the library would run */
        x->keys = sets[0] | KEY_BIT(cpu);
        state_get()->include = sets[1];
        state_get()->exclude = sets[2];
        ran = -1;
        sn_op_call1(op, (const sn_value[]){sn_val(x)}, 1);
        state_get()->include = include;
        state_get()->exclude = exclude;
        ck_assert_int_eq(ran, expected);
    }
    x->keys = keys;
}
END_TEST

START_TEST(schemas_and_names_are_found) {
    ck_assert_ptr_nonnull(sn_op_find("aten::add.Tensor"));
    ck_assert_ptr_eq(sn_op_find("add.Tensor"), sn_op_find("aten::add.Tensor"));
    ck_assert_ptr_ne(sn_op_find("aten::add_.Tensor"), sn_op_find("aten::add.Tensor"));
    ck_assert_ptr_nonnull(strstr(sn_op_schema(sn_op_find("aten::add_.Tensor")), "(a!)"));
    ck_assert_ptr_null(sn_op_find("aten::nonsense"));
    ck_assert_int_eq(sn_error_take()->status, SN_ERR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(sn_op_list(), "\"aten::mm\""));
}
END_TEST

START_TEST(keys_and_kernels_of_a_users_op_print) {
    ck_assert_str_eq(sn_keys(pair(1, 2)), "autograd, cpu");
    const sn_scope scope = sn_scope_begin();
    state_grad_mode_set(state_get(), SN_INFERENCE);
    ck_assert_str_eq(sn_keys(pair(1, 2)), "cpu");
    sn_scope_end(scope);
    const char *const dump = sn_dispatch_dump(scale_op());
    ck_assert_ptr_nonnull(strstr(dump, "name: test::scale"));
    ck_assert_ptr_nonnull(strstr(dump, "cpu: kernel of the op"));
    ck_assert_ptr_nonnull(strstr(dump, "spare: not implemented"));
}
END_TEST

int main(void) {
    TCase *const tc = tcase_create("dispatch");
    tcase_add_test(tc, a_users_op_runs_by_its_schema);
    tcase_add_test(tc, a_second_definition_is_an_error);
    tcase_add_test(tc, descriptions_of_nothing_real);
    tcase_add_test(tc, null_arguments_name_op_and_argument);
    tcase_add_test(tc, an_error_tensor_counts_as_null);
    tcase_add_test(tc, an_override_runs_once_and_redispatches);
    tcase_add_test(tc, below_the_last_key_is_nothing);
    tcase_add_test(tc, overrides_stack_and_restore);
    tcase_add_test(tc, a_device_without_kernels_runs_through_a_fallback);
    tcase_add_test(tc, the_meta_device_asks_the_meta_rule);
    tcase_add_test(tc, mixed_devices_name_both);
    tcase_add_test(tc, modes_see_every_op_inner_first);
    tcase_add_test(tc, a_handler_may_end_a_mode_further_out);
    tcase_add_test(tc, a_mode_ends_with_its_scope);
    tcase_add_test(tc, callbacks_are_checked);
    tcase_add_test(tc, results_pass_out_of_the_callbacks_scope);
    tcase_add_test(tc, a2_02_the_highest_key_runs);
    tcase_add_test(tc, schemas_and_names_are_found);
    tcase_add_test(tc, keys_and_kernels_of_a_users_op_print);
    return suite_run("dispatch", tc);
}
