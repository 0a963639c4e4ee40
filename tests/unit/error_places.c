/* error_places.c: an error says where the program called the library, whatever function raised it, also one that other
 * public functions call. A program beside the library, by public headers: in one with it inside nothing tells where it
 * ends (runtime/base/caller.h). */
#include <sinter/sinter.h>
#include <stdio.h>
#include <string.h>

static int failed;

static void expect_place(const char *call, const char *file, int line) {
    char place[256];
    const char *const name = strrchr(file, '/');
    snprintf(place, sizeof place, "%s:%d", name ? name + 1 : file, line);
    const sn_error *const error = sn_error_take();
    if (error->status != SN_OK && !strcmp(error->where, place)) return;
    printf("%s: '%s' at '%s', not '%s'\n", call, error->message, error->where, place);
    failed++;
}
#define AT(call) (call, expect_place(#call, __FILE__, __LINE__))

static sn_status doubles(sn_frame *f) { return sn_out(f, 0, sn_mul_scalar(sn_in(f, 0), sn_int(2))); }
static sn_status gives_nothing(sn_frame *f) { return f ? SN_OK : SN_ERR_CALLBACK; }

static void tensors(sn_tensor *a) {
    AT(sn_mm(a, a));
    AT(sn_item(a));
    AT(sn_data_mut(sn_t(a), SN_F32));
    AT(sn_read(a, NULL, 3));
    AT(sn_size(a, 7));
    AT(sn_requires_grad_(sn_to(a, SN_I64), true));
    AT(sn_backward(sn_sum(a)));
    AT(sn_wrap(NULL));
    AT(sn_from_data(NULL, SN_INTS(3), SN_F32));
    AT(sn_sparse_coo(a, a, SN_INTS(3)));
    AT(sn_is_fake(NULL));
}

static void dictionaries(sn_tensor *a) {
    sn_dict *const d = sn_dict_new();
    AT(sn_dict_load("/nowhere/at/all"));
    AT(sn_dict_save(d, "/nowhere/at/all"));
    AT(sn_dict_get(d, "absent"));
    AT(sn_dict_at(d, 3));
    AT(sn_dict_set(d, NULL, a));
    AT(sn_dict_copy(d, NULL));
    AT(sn_adamw(d, 1e-3, 0));
    AT(sn_sgd(NULL, 1, 0));
    AT(sn_optim_step(NULL));
    AT(sn_clip_grad_norm(NULL, 1));
    AT(sn_param_linear(d, "l", -1, 4, NULL, NULL));
    sn_dict_free(d);
}

/* What is pending runs for the value that it asks for, at the first call op by op. */
static sn_status asks_of_pending(sn_frame *f) {
    sn_tensor *const x = sn_exp(sn_in(f, 0));
    AT(sn_narrow_tensor(x, 0, x, 2));
    return sn_out(f, 0, x);
}

static void functions(sn_tensor *a) {
    sn_function *const fn = sn_compile(doubles, NULL, NULL), *const none = sn_compile(gives_nothing, NULL, NULL);
    sn_tensor *out[2];
    AT(SN_CALL(none, a));
    AT(sn_call(fn, NULL, 1, out, 1));
    AT(sn_dump(fn, "no stage"));
    AT(sn_tune(fn));
    AT(sn_graph_capture(fn, NULL, 1));
    AT(sn_plan_save(fn, "/nowhere/at/all", NULL));
    AT(sn_compile(NULL, NULL, NULL));
    AT(sn_vmap(doubles, NULL, NULL, (sn_tensors){0}, out, 1));
    AT(sn_func_grad(NULL, NULL, NULL, (sn_tensors){&a, 1}, out, 1));
    sn_function_free(fn);
    sn_function_free(none);
    sn_function *const asks = sn_compile(asks_of_pending, NULL, NULL);
    for (int i = 0; i < 3; i++) SN_CALL(asks, a);
    sn_function_free(asks);
}

/* A call that is passed on is where the program made it, whatever the handler has called before. */
static sn_status calls_and_passes_on(sn_frame *f) {
    sn_exp(sn_in(f, 0));
    return sn_redispatch(f);
}

static void handlers(sn_tensor *a) {
    sn_user_mode_push(calls_and_passes_on, NULL);
    AT(sn_mm(a, a));
    sn_user_mode_pop();
    sn_api_mode_push(calls_and_passes_on, NULL);
    AT(sn_mm(a, a));
    sn_api_mode_pop();
    sn_override *const o = sn_op_override(sn_op_find("aten::mm"), SN_KEY_AUTOGRAD, calls_and_passes_on, NULL);
    AT(sn_mm(a, a));
    sn_override_free(o);
}

static void settings(void) {
    AT(sn_setting_set("thread", "2"));
    AT(sn_setting_set("threads", "many"));
    AT(sn_op_find("aten::adam"));
    AT(sn_logging_set(NULL, NULL, "no topic"));
    AT(sn_op_register(NULL));
    AT(sn_plugin_load("/nowhere/at/all"));
    AT(sn_to_device(sn_zeros(SN_INTS(1), SN_F32), SN_CUDA(0)));
    AT(sn_scope_end(12345));
}

int main(void) {
    sn_tensor *const a = sn_randn(SN_INTS(3, 4), SN_F32);
    tensors(a);
    dictionaries(a);
    functions(a);
    handlers(a);
    settings();
    printf("%d errors without their place\n", failed);
    return failed != 0;
}
