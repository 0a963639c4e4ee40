/* test_never_silent.c: what would have no effect, or an effect that nobody sees, is an error or a warning: options that
 * this library does not know, misspelt settings and variables, files that cannot be written; and writes to tensors of
 * inference mode, which have no version that could tell. */
#include <stdio.h>

#include "tests/unit/contract.h"

/* options of another size --------------------------------------------------------------------- */

static sn_status identity(sn_frame *f) { return sn_out(f, 0, sn_relu(sn_in(f, 0))); }

typedef struct Longer { /* a newer program's options */
    sn_compile_options known;
    uint64_t unknown[2];
} Longer;

START_TEST(options_without_a_size_are_an_error) {
    const sn_compile_options none = {.mode = SN_COMPILE_EAGER};
    ck_assert_ptr_null(sn_compile(identity, NULL, &none));
    expect_error(SN_ERR_ARGUMENT, "sn_compile: options of size 0");
    sn_graph *const g = sn_graph_parse("graph f(%x: f32[2]) {\n  return %x\n}\n", 37);
    ck_assert_ptr_null(sn_graph_compile(g, &none));
    expect_error(SN_ERR_ARGUMENT, "sn_graph_compile: options of size 0");
    sn_graph_free(g);
    ck_assert_int_eq(sn_init(&(sn_init_options){.threads = 1}), SN_ERR_ARGUMENT);
    expect_error(SN_ERR_ARGUMENT, "sn_init: options of size 0");
}
END_TEST

START_TEST(options_of_a_newer_program_are_an_error_where_they_are_set) {
    Longer longer = {.known = {.size = sizeof longer}};
    sn_function *const fn = sn_compile(identity, NULL, &longer.known);
    ck_assert_ptr_nonnull(fn);
    sn_function_free(fn);
    longer.unknown[1] = 1;
    ck_assert_ptr_null(sn_compile(identity, NULL, &longer.known));
    expect_error(SN_ERR_UNSUPPORTED, "this library knows");
}
END_TEST

START_TEST(results_without_a_size_are_an_error) {
    ck_assert_int_eq(sn_last_call(&(sn_call_report){0}), SN_ERR_ARGUMENT);
    expect_error(SN_ERR_ARGUMENT, "sn_last_call: its size is 0");
    ck_assert_int_eq(sn_memory_get(SN_CPU, &(sn_memory){0}), SN_ERR_ARGUMENT);
    expect_error(SN_ERR_ARGUMENT, "sn_memory_get");
    sn_function *const fn = sn_compile(identity, NULL, NULL);
    ck_assert_int_eq(sn_function_stats(fn, &(sn_stats){0}), SN_ERR_ARGUMENT);
    expect_error(SN_ERR_ARGUMENT, "sn_function_stats");
    sn_function_free(fn);
}
END_TEST

START_TEST(pinned_memory_is_refused) {
    sn_value on = {.kind = SN_KIND_BOOL, .i = 1};
    ck_assert_ptr_null(sn_zeros_ex(SN_INTS(2), SN_F32, (sn_value){0}, (sn_value){0}, on));
    expect_error(SN_ERR_UNSUPPORTED, "pin_memory");
    on.i = 0;
    ck_assert_ptr_nonnull(sn_zeros_ex(SN_INTS(2), SN_F32, (sn_value){0}, (sn_value){0}, on));
    ck_assert_ptr_null(sn_zeros_ex(SN_INTS(2), SN_F32, (sn_value){0}, (sn_value){0}, sn_int(1))); /* an int is a bool */
    expect_error(SN_ERR_UNSUPPORTED, "pin_memory");
}
END_TEST

/* names that nothing asks for ----------------------------------------------------------------- */

static char heard[4096];

static void hear(void *context, int level, const char *topic, const char *line) {
    (void)context, (void)level, (void)topic;
    strncat(heard, line, sizeof heard - strlen(heard) - 2);
    strcat(heard, "\n");
}

START_TEST(unknown_variables_are_named_once_they_are_read) {
    setenv("SINTER_TREADS", "1", 1);
    setenv("SINTER_FAILPOINTS", "backward,pass:cse,no_such_step", 1);
    sn_logging_set(hear, NULL, NULL);
    ck_assert_ptr_nonnull(strstr(heard, "SINTER_TREADS is no setting; settings: threads,"));
    ck_assert_ptr_nonnull(strstr(heard, "SINTER_FAILPOINTS: no step asks for 'no_such_step'"));
}
END_TEST

START_TEST(an_unknown_failpoint_is_an_error) {
    ck_assert_int_eq(sn_setting_set("failpoints", "capture,mismatch:2,mismatch"), SN_ERR_ARGUMENT);
    expect_error(SN_ERR_ARGUMENT, "no step asks for 'mismatch'");
    ck_assert_int_eq(sn_setting_set("failpoints", "capture,mismatch:2"), SN_OK);
    ck_assert_int_eq(sn_setting_set("failpoints", "pass:cse,pass:csee"), SN_ERR_ARGUMENT);
    expect_error(SN_ERR_ARGUMENT, "no step asks for 'pass:csee'");
    ck_assert_int_eq(sn_setting_set("failpoints", "mismatch:first"), SN_ERR_ARGUMENT);
    expect_error(SN_ERR_ARGUMENT, "no step asks for 'mismatch:first'");
    ck_assert_int_eq(sn_setting_set("failpoints", "pass:cse,mismatch:12"), SN_OK);
    char many[1024];
    memset(many, ',', sizeof many);
    memcpy(many + sizeof many - 5, "emit", 5);
    ck_assert_int_eq(sn_setting_set("failpoints", many), SN_ERR_VALUE);
    expect_error(SN_ERR_VALUE, "too long");
}
END_TEST

START_TEST(what_is_read_once_cannot_be_set) {
    ck_assert_int_eq(sn_setting_set("isa", "v3"), SN_ERR_UNSUPPORTED);
    expect_error(SN_ERR_UNSUPPORTED, "SINTER_ISA");
    ck_assert_int_eq(sn_setting_set("plain_malloc", "1"), SN_ERR_UNSUPPORTED);
    expect_error(SN_ERR_UNSUPPORTED, "SINTER_PLAIN_MALLOC");
}
END_TEST

START_TEST(a_report_that_cannot_be_written_is_said) {
    setenv("SINTER_REPORT", "explain", 1);
    setenv("SINTER_REPORT_FILE", "/no/such/folder/report", 1);
    sn_logging_set(hear, NULL, NULL);
    sn_function *const fn = sn_compile(identity, NULL, NULL);
    SN_CALL(fn, F32(1, 4));
    sn_function_free(fn);
    ck_assert_ptr_nonnull(strstr(heard, "'/no/such/folder/report' cannot be written: No such file"));
}
END_TEST

/* texts --------------------------------------------------------------------------------------- */

START_TEST(an_op_is_named_once) {
    const uint8_t bytes[4] = {1, 0, 1, 1};
    sn_tensor *const b = sn_from_data(bytes, SN_INTS(2, 2), SN_BOOL);
    ck_assert_ptr_null(sn_mm(b, b));
    const sn_error *const error = sn_error_take();
    ck_assert_str_eq(error->op, "aten::mm");
    ck_assert_str_eq(error->message, "aten::mm: not implemented for dtype bool");
}
END_TEST

START_TEST(a_count_of_steps_may_overflow) {
    ck_assert_ptr_null(sn_arange_step(sn_int(INT64_MIN), sn_int(INT64_MAX), sn_int(1), SN_I64));
    expect_error(SN_ERR_VALUE, "overflows");
}
END_TEST

/* tensors of inference mode ------------------------------------------------------------------- */

static sn_tensor *made_in_inference(void) {
    const sn_scope scope = sn_scope_begin();
    sn_grad_mode_set(SN_INFERENCE);
    sn_tensor *const t = sn_keep(F32(3, 4));
    sn_scope_end(scope);
    return t;
}

static sn_status add_one(sn_frame *f) { return sn_out(f, 0, sn_add_scalar_(sn_in(f, 0), sn_float(1))); }

START_TEST(a3_14_an_inference_tensor_is_written_in_its_mode_only) {
    sn_tensor *const t = made_in_inference();
    const Twin twin = twin_new(add_one, NULL, NULL, NULL);
    ck_assert_ptr_null(sn_add_scalar_(t, sn_float(1)));
    expect_error(SN_ERR_STATE, "made in inference mode would be written outside of it");
    ck_assert_ptr_null(sn_relu_out(sn_view(t, SN_INTS(2, 2)), F32(1, 2, 2)));
    expect_error(SN_ERR_STATE, "aten::relu.out");
    ck_assert_ptr_null(sn_data_mut(t, SN_F32));
    expect_error(SN_ERR_STATE, "sn_data_mut: a tensor made in inference mode would be written outside of it");
    for (int i = 0; i < 3; i++) {
        ck_assert_ptr_null(SN_CALL(twin.fast, t));
        expect_error(SN_ERR_STATE, "aten::add_.Scalar");
        ck_assert_ptr_null(SN_CALL(twin.eager, t));
        expect_error(SN_ERR_STATE, "aten::add_.Scalar");
    }
    sn_grad_mode_set(SN_INFERENCE);
    ck_assert(sn_data_mut(t, SN_F32) != NULL);
    sn_tensor *const like = sn_clone(t);
    for (int i = 0; i < 3; i++) ck_assert(same_bits(SN_CALL(twin.fast, t), SN_CALL(twin.eager, like)));
    sn_grad_mode_set(SN_GRAD_ON);
    twin_free(twin);
    sn_release(t);
}
END_TEST

/* Of pending values: a result of the mode is of the mode, a view of an ordinary tensor is not. */
static sn_status written_after(sn_frame *f) {
    sn_grad_mode_set(SN_INFERENCE);
    sn_tensor *const made = sn_relu(sn_in(f, 0)), *const view = sn_detach(sn_in(f, 0));
    sn_grad_mode_set(SN_GRAD_OFF);
    return sn_out(f, 0, sn_add_scalar_(sn_in_int(f, 1) ? made : view, sn_float(1)));
}

START_TEST(a3_14_pending_values_are_of_the_mode_of_what_they_are) {
    const Twin twin = twin_new(written_after, NULL, NULL, NULL);
    for (int i = 0; i < 6; i++) {
        const sn_value fast[] = {sn_val(F32(1, 4)), sn_int(i & 1)}, slow[] = {sn_val(F32(1, 4)), sn_int(i & 1)};
        sn_tensor *got, *want;
        const sn_status status = sn_call_values(twin.eager, slow, 2, &want, 1);
        if (i & 1) expect_error(SN_ERR_STATE, "made in inference mode");
        ck_assert_int_eq(sn_call_values(twin.fast, fast, 2, &got, 1), status);
        if (i & 1) expect_error(SN_ERR_STATE, "made in inference mode");
        ck_assert(same_bits(got, want));
    }
    twin_free(twin);
}
END_TEST

START_TEST(a3_14_an_inference_tensor_is_not_saved) {
    sn_tensor *const t = made_in_inference();
    ck_assert_ptr_null(sn_mul(LEAF(1, 4), t));
    expect_error(SN_ERR_STATE, "Inference tensors cannot be saved for backward");
    sn_release(t);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        options_without_a_size_are_an_error,
        options_of_a_newer_program_are_an_error_where_they_are_set,
        results_without_a_size_are_an_error,
        pinned_memory_is_refused,
        unknown_variables_are_named_once_they_are_read,
        an_unknown_failpoint_is_an_error,
        what_is_read_once_cannot_be_set,
        a_report_that_cannot_be_written_is_said,
        an_op_is_named_once,
        a_count_of_steps_may_overflow,
        a3_14_an_inference_tensor_is_written_in_its_mode_only,
        a3_14_pending_values_are_of_the_mode_of_what_they_are,
        a3_14_an_inference_tensor_is_not_saved,
    };
    return contract_main("test_never_silent", tests, (int)(sizeof tests / sizeof *tests));
}
