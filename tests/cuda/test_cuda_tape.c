/* test_cuda_tape.c: what the tape saves of tensors on a CUDA device (unit/test_accept_autograd.c, test_checkpoint.c,
 * test_accept_tape.c, test_accept_inspect.c). Lines of the acceptance list, by public headers. */
#include "tests/cuda/emulated_control.h"
#include "tests/unit/contract.h"

enum { GPU = SN_CUDA(0), ROWS = 8, WIDTH = 16, BYTES = ROWS * WIDTH * 4 };

static sn_tensor *there(sn_tensor *t) { return sn_to_device(t, GPU); }
static sn_tensor *leaf(sn_device device, uint64_t seed) {
    return sn_requires_grad_(sn_to_device(F32(seed, ROWS, WIDTH), device), true);
}

/* 3.09 ---------------------------------------------------------------------------------------- */

static int64_t saved_by(const char *name) { /* NULL: all nodes */
    sn_grad_info nodes[32] = {{.size = sizeof *nodes}};
    const int n = sn_live_nodes(nodes, 32);
    int64_t bytes = 0;
    for (int i = 0; i < n && i < 32; i++)
        if (!name || !strcmp(nodes[i].name, name)) bytes += nodes[i].saved_bytes;
    return bytes;
}

/* exp(x) sin(x), with exp(x) saved, and with x alone, from which the backward makes it again. */
static sn_status wave(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const e = sn_exp(x);
    sn_save(f, x);
    if (*(const bool *)sn_closure(f)) sn_save(f, e);
    return sn_out(f, 0, sn_mul(e, sn_sin(x)));
}
static sn_status wave_back(sn_frame *f) {
    sn_tensor *const x = sn_saved(f, 0), *const e = *(const bool *)sn_closure(f) ? sn_saved(f, 1) : sn_exp(x);
    return sn_set_grad_of(f, 0, sn_mul(sn_grad_of(f, 0), sn_mul(e, sn_add(sn_sin(x), sn_cos(x)))));
}
static sn_status wave_body(sn_frame *f) {
    static const sn_custom fn = {.size = sizeof fn, .name = "Wave", .forward = wave, .backward = wave_back};
    sn_tensor *const h = sn_tanh(sn_in(f, 0));
    sn_tensor *out = NULL;
    sn_custom_call(&fn, sn_closure(f), &h, 1, &out, 1);
    return sn_out(f, 0, sn_sum(sn_mul(out, out)));
}

static sn_tensor *gradient_of(sn_function *fn, sn_device device, int64_t *bytes) {
    const sn_scope scope = sn_scope_begin();
    sn_tensor *const x = leaf(device, 4), *const y = SN_CALL(fn, x);
    *bytes = saved_by("WaveBackward");
    ck_assert_msg(sn_backward(y) == SN_OK, "%s", sn_error_take()->message);
    return sn_scope_return(scope, sn_clone(sn_grad(x)));
}

START_TEST(a3_09_a_saving_and_a_recomputing_function_give_equal_gradients) {
    static bool saves[] = {true, false};
    const sn_compile_mode modes[] = {SN_COMPILE_EAGER, SN_COMPILE_VERIFY};
    for (int m = 0; m < 2; m++) {
        sn_tensor *want = NULL;
        for (int k = 0; k < 2; k++) {
            sn_function *const fn = sn_compile(wave_body, &saves[k], SN_COMPILE_OPTIONS(.mode = modes[m]));
            int64_t bytes;
            if (!want) want = gradient_of(fn, SN_CPU, &bytes);
            for (int calls = 0; calls < 3; calls++) {
                sn_tensor *const got = gradient_of(fn, GPU, &bytes);
                ck_assert_int_eq(sn_device_of(got), GPU);
                ck_assert(same_bits(got, want));
                ck_assert_int_eq(bytes, saves[k] ? 2 * BYTES : BYTES);
            }
            sn_function_free(fn);
        }
    }
}
END_TEST

static sn_status block(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const w = sn_in(f, 1);
    return sn_out(f, 0, sn_sum(sn_sigmoid(sn_mul(sn_tanh(sn_add(sn_exp(x), w)), sn_sin(x)))));
}

/* Eager saves what the rules ask for; compiled code what the cut chose. */
START_TEST(a3_09_compiled_code_saves_less) {
    const Twin twin = twin_new(block, NULL, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        int64_t bytes[2];
        sn_tensor *grads[2][2];
        for (int k = 0; k < 2; k++) {
            sn_tensor *const x = leaf(GPU, 6), *const w = leaf(GPU, 7);
            sn_tensor *const y = SN_CALL(k ? twin.eager : twin.fast, x, w);
            bytes[k] = saved_by(NULL);
            ck_assert_int_eq(sn_backward(y), SN_OK);
            grads[k][0] = sn_grad(x), grads[k][1] = sn_grad(w);
        }
        for (int k = 0; k < 2; k++) ck_assert(same_bits(grads[0][k], grads[1][k]));
        if (i) ck_assert_msg(bytes[0] > 0 && bytes[0] < bytes[1], "%d of %d", (int)bytes[0], (int)bytes[1]);
    }
    twin_free(twin);
}
END_TEST

/* 3.14 ---------------------------------------------------------------------------------------- */

static sn_status product(sn_frame *f) { return sn_out(f, 0, sn_mul(sn_in(f, 0), sn_in(f, 1))); }

START_TEST(a3_14_inference_tensors_are_not_saved) {
    sn_tensor *const x = leaf(GPU, 1);
    const Twin twin = twin_new(product, NULL, NULL, NULL);
    sn_grad_mode_set(SN_INFERENCE);
    sn_tensor *const made = sn_mul(there(F32(2, ROWS, WIDTH)), there(F32(3, ROWS, WIDTH)));
    sn_grad_mode_set(SN_GRAD_ON);
    ck_assert_ptr_nonnull(sn_add(x, made)); /* saves nothing */
    for (int i = 0; i < 3; i++) {
        ck_assert_ptr_null(SN_CALL(twin.eager, x, made));
        expect_error(SN_ERR_STATE, "Inference tensors cannot be saved for backward");
        ck_assert_ptr_null(SN_CALL(twin.fast, x, made));
        expect_error(SN_ERR_STATE, "Inference tensors cannot be saved for backward");
        TWIN_CALL(twin, x, x);
    }
    ck_assert_ptr_null(sn_add_(made, made));
    expect_error(SN_ERR_STATE, "made in inference mode would be written outside of it");
    twin_free(twin);
}
END_TEST

/* 3.16 ---------------------------------------------------------------------------------------- */

static sn_status layer(sn_frame *f) {
    sn_tensor *const *const p = sn_closure(f);
    return sn_out(f, 0, sn_sum(sn_relu(sn_linear(sn_in(f, 0), p[0], p[1]))));
}

START_TEST(a3_16_live_nodes_and_their_bytes_are_listed) {
    sn_tensor *const p[] = {sn_requires_grad_(there(F32(1, 3, 4)), true), sn_requires_grad_(there(F32(2, 3)), true)};
    const Twin twin = twin_new(layer, (void *)p, (void *)p, NULL);
    const char *const names[] = {"SumBackward", "ReluBackward", "AddmmBackward", "TBackward"};
    sn_grad_info nodes[8] = {{.size = sizeof *nodes}};
    const sn_scope scope = sn_scope_begin();
    sn_tensor *const loss = sn_keep(SN_CALL(twin.eager, there(F32(3, 2, 4))));
    sn_scope_end(scope);
    ck_assert_int_eq(sn_live_nodes(nodes, 8), 4); /* a forgotten loss holds them */
    for (int i = 0; i < 4; i++) ck_assert_str_eq(nodes[i].name, names[i]);
    ck_assert_int_eq(nodes[1].saved_bytes, 24);
    ck_assert_int_ge(nodes[2].saved_bytes, 32);
    ck_assert_int_eq(sn_backward(loss), SN_OK);
    ck_assert_int_eq(sn_live_nodes(nodes, 8), 4);
    for (int i = 0; i < 4; i++) ck_assert_int_eq(nodes[i].saved_bytes, 0);
    sn_release(loss);
    for (int i = 0; i < 3; i++) { /* one node of the compiled function, with what it saved */
        const sn_scope each = sn_scope_begin();
        sn_tensor *const y = SN_CALL(twin.fast, there(F32(3, 2, 4)));
        ck_assert_int_ge(sn_live_nodes(nodes, 8), 1);
        ck_assert_int_gt(saved_by(NULL), 0);
        ck_assert_int_eq(sn_backward(y), SN_OK);
        ck_assert_int_eq(saved_by(NULL), 0);
        sn_scope_end(each);
        ck_assert_int_eq(sn_live_nodes(nodes, 8), 0);
    }
    twin_free(twin);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        a3_09_a_saving_and_a_recomputing_function_give_equal_gradients,
        a3_09_compiled_code_saves_less,
        a3_14_inference_tensors_are_not_saved,
        a3_16_live_nodes_and_their_bytes_are_listed,
    };
    if (lacks_compiler()) return skip_without_compiler();
    return contract_main("test_cuda_tape", tests, (int)(sizeof tests / sizeof *tests));
}
