/* test_cuda_keys.c: tensors of a CUDA device that are more than memory: with keys of a program's, in sn_vmap, fake, of
 * functional mode, logged; and sparse ones, which are the CPU's (unit/test_keys.c, test_vmap.c, test_modes.c,
 * test_sparse.c). Lines of the acceptance list, by public headers. */
#include <stdio.h>

#include "tests/cuda/emulated_control.h"
#include "tests/unit/contract.h"

enum { GPU = SN_CUDA(0) };

static sn_tensor *there(sn_tensor *t) { return sn_to_device(t, GPU); }
static sn_tensor *here(sn_tensor *t) { return t ? sn_to_device(t, SN_CPU) : NULL; }
static const sn_compile_mode modes[] = {SN_COMPILE_VERIFY, SN_COMPILE_REPLAY};

/* 1.14 ---------------------------------------------------------------------------------------- */

static sn_tensor *sparse(void) { /* 2 x 3, three entries */
    static const int64_t at[] = {0, 1, 1, 0, 2, 1};
    return sn_sparse_coo(sn_from_data(at, SN_INTS(2, 3), SN_I64), F32(1, 3), SN_INTS(2, 3));
}

START_TEST(a1_14_a_sparse_tensor_is_the_cpus_and_says_so) {
    sn_tensor *const a = sparse(), *const x = there(F32(2, 3, 4)), *const v = there(F32(1, 3));
    ck_assert_ptr_null(sn_sparse_coo(sn_sparse_positions(sn_coalesce(a)), v, SN_INTS(2, 3)));
    expect_error(SN_ERR_UNSUPPORTED, "sn_sparse_coo: values must be a dense tensor on the CPU");
    ck_assert_ptr_null(sn_to_sparse(x));
    expect_error(SN_ERR_UNSUPPORTED, "sn_to_sparse: the tensor must be a dense tensor on the CPU");
    ck_assert_ptr_null(sn_to_sparse_csr(x));
    expect_error(SN_ERR_UNSUPPORTED, "sn_to_sparse_csr: the tensor must be a dense tensor on the CPU");
    ck_assert_ptr_null(there(a));
    expect_error(SN_ERR_UNSUPPORTED, "it is not implemented for key sparse");
    ck_assert_ptr_null(sn_mm(a, x));
    expect_error(SN_ERR_DEVICE, "aten::mm: all tensors must be on one device: 'self' is on cpu, 'mat2' on cuda:0");
    ck_assert_ptr_null(sn_add(there(F32(3, 2, 3)), a));
    expect_error(SN_ERR_DEVICE, "aten::add.Tensor: all tensors must be on one device");
}
END_TEST

static sn_status product_here(sn_frame *f) {
    sn_tensor *const x = sn_exp(sn_in(f, 1)), *const y = sn_mm(sn_in(f, 0), here(x));
    return sn_out(f, 0, sn_mul(there(y), there(y)));
}

START_TEST(a1_14_a_compiled_function_of_a_device_uses_one) {
    sn_tensor *const a = sn_coalesce(sparse());
    for (int m = 0; m < 2; m++) {
        const Twin twin = twin_new(product_here, NULL, NULL, SN_COMPILE_OPTIONS(.mode = modes[m]));
        for (uint64_t i = 0; i < 3; i++) {
            sn_tensor *const x = F32(i, 3, 4), *const y = sn_mm(a, sn_exp(x));
            sn_tensor *const got = TWIN_CALL(twin, a, there(x));
            ck_assert_int_eq(sn_device_of(got), GPU);
            ck_assert(same_bits(got, sn_mul(y, y)));
        }
        twin_free(twin);
    }
}
END_TEST

/* 1.15 ---------------------------------------------------------------------------------------- */

static sn_status twice(sn_frame *f) { return sn_out(f, 0, sn_exp(sn_mul(sn_in(f, 0), sn_in(f, 0)))); }
static sn_status pass_on(sn_frame *f) {
    ++*(int *)sn_closure(f);
    return sn_redispatch(f);
}

START_TEST(a1_15_ops_on_a_key_of_a_device_are_not_implemented_for_it) {
    sn_tensor *const x = there(F32(1, 4)), *const t = sn_with_key(x, SN_KEY_QUANTIZED);
    ck_assert_str_eq(sn_keys(t), "autograd, quantized, cuda");
    for (int m = 0; m < 2; m++) {
        sn_function *const fn = sn_compile(twice, NULL, SN_COMPILE_OPTIONS(.mode = modes[m]));
        sn_tensor *const want = SN_CALL(fn, x);
        for (int i = 0; i < 3; i++) ck_assert(same_bits(SN_CALL(fn, x), want));
        ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
        ck_assert_ptr_null(SN_CALL(fn, t));
        expect_error(SN_ERR_UNSUPPORTED, "it is not implemented for key quantized");
        int calls = 0;
        sn_override *const all = sn_fallback_set(SN_KEY_QUANTIZED, pass_on, &calls);
        for (int i = 0; i < 3; i++) ck_assert(same_bits(SN_CALL(fn, t), want));
        ck_assert_int_eq(calls, 3); /* the product of plain memory is plain */
        sn_override_free(all);
        sn_function_free(fn);
    }
}
END_TEST

/* 2.20 ---------------------------------------------------------------------------------------- */

static char keys[128];
static sn_status shows_keys(sn_frame *f) {
    snprintf(keys, sizeof keys, "%s", sn_keys(sn_in(f, 0)));
    sn_tensor *const y = sn_mul(sn_in(f, 0), sn_in(f, 0));
    snprintf(keys + strlen(keys), sizeof keys - strlen(keys), "; %s", sn_keys(y));
    return sn_out(f, 0, y);
}
static sn_status vmap_of(sn_frame *f) {
    sn_tensor *out = NULL;
    sn_vmap(shows_keys, NULL, NULL, SN_TENSORS(sn_in(f, 0)), &out, 1);
    return sn_out(f, 0, out);
}

START_TEST(a2_20_inside_vmap_the_batched_key_is_printed) {
    sn_tensor *const x = there(F32(1, 3, 4));
    const Twin twin = twin_new(vmap_of, NULL, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        keys[0] = '\0';
        sn_tensor *const y = TWIN_CALL(twin, x);
        ck_assert_str_eq(keys, "vmap, autograd, cuda; vmap, autograd, cuda");
        ck_assert_str_eq(sn_keys(y), "autograd, cuda");
        ck_assert(same_bits(y, sn_mul(x, x)));
    }
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    twin_free(twin);
}
END_TEST

static sn_status gradient(sn_frame *f) { return sn_out(f, 0, sn_sum(sn_sin(sn_in(f, 0)))); }
static sn_status per_sample(sn_frame *f) {
    sn_tensor *g = NULL, *x = sn_in(f, 0);
    sn_func_grad(gradient, NULL, NULL, (sn_tensors){&x, 1}, &g, 1);
    return sn_out(f, 0, g);
}
static sn_status vmap_of_gradients(sn_frame *f) {
    sn_tensor *out = NULL;
    sn_vmap(per_sample, NULL, NULL, SN_TENSORS(sn_in(f, 0)), &out, 1);
    return sn_out(f, 0, out);
}

START_TEST(a2_20_gradients_of_examples_have_the_cpus_bits) {
    const Twin twin = twin_new(vmap_of_gradients, NULL, NULL, NULL);
    for (uint64_t i = 0; i < 3; i++) {
        sn_tensor *const x = F32(i, 3, 4), *const want = SN_CALL(twin.eager, x);
        ck_assert(same_bits(TWIN_CALL(twin, there(x)), want));
    }
    twin_free(twin);
}
END_TEST

/* 5.09 ---------------------------------------------------------------------------------------- */

START_TEST(a5_09_fake_tensors_of_a_device_need_no_memory) {
    sn_tensor *const real = there(F32(1, 3, 4));
    sn_function *const fn = sn_compile(twice, NULL, NULL);
    sn_tensor *const want = SN_CALL(fn, real);
    sn_memory before = {.size = sizeof before}, after = before;
    sn_memory_get(GPU, &before);
    const sn_scope scope = sn_scope_begin();
    sn_fake_mode_set(true);
    sn_default_device_set(GPU);
    sn_tensor *const w = sn_requires_grad_(sn_randn(SN_INTS(1 << 20, 1 << 20), SN_F32), true); /* 4 TiB */
    sn_tensor *const loss = sn_sum(sn_relu(sn_mm(w, w)));
    ck_assert(loss && sn_is_fake(loss) && sn_device_of(loss) == GPU);
    ck_assert_int_eq(sn_backward(loss), SN_OK);
    ck_assert(sn_device_of(sn_grad(w)) == GPU && sn_size(sn_grad(w), 1) == 1 << 20);
    ck_assert(sn_is_fake(SN_CALL(fn, real)) && strstr(last_reason(), "fake mode"));
    sn_memory_get(GPU, &after);
    ck_assert_int_eq(after.current, before.current);
    sn_scope_end(scope);
    ck_assert(same_bits(SN_CALL(fn, real), want));
    sn_function_free(fn);
}
END_TEST

typedef struct OpLog {
    int ops, writes, views;
} OpLog;
static sn_status log_op(sn_frame *f) {
    OpLog *const log = sn_closure(f);
    const char *const schema = sn_op_schema(sn_frame_op(f));
    log->ops++;
    log->writes += strstr(schema, "!)") != NULL;
    log->views += strstr(schema, "(a) self") != NULL;
    return sn_redispatch(f);
}

static sn_status writes_a_view(sn_frame *f) {
    sn_tensor *const y = sn_mul(sn_in(f, 0), sn_in(f, 0));
    sn_exp_(sn_select(y, 0, 1));
    return sn_out(f, 0, sn_add(y, sn_in(f, 0)));
}

/* Eagerly, so that the modes see ops. */
START_TEST(a5_09_functional_and_logging_modes_on_a_device) {
    sn_function *const fn = sn_compile(writes_a_view, NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
    sn_tensor *const x = F32(1, 3, 4), *const want = SN_CALL(fn, x);
    for (int functional = 0; functional < 2; functional++) {
        OpLog log = {0};
        const sn_scope scope = sn_scope_begin();
        sn_functional_mode_set(functional);
        sn_user_mode_push(log_op, &log);
        sn_tensor *const y = sn_scope_return(scope, SN_CALL(fn, there(x)));
        ck_assert(same_bits(y, want));
        ck_assert_int_ge(log.ops, 4);
        ck_assert((log.writes == 0) == functional && (log.views == 0) == functional);
    }
    sn_function_free(fn);
}
END_TEST

START_TEST(a5_09_compiled_functions_of_a_device_meet_the_modes) {
    const Twin twin = twin_new(writes_a_view, NULL, NULL, NULL);
    sn_tensor *const x = there(F32(1, 3, 4));
    for (int i = 0; i < 6; i++) {
        OpLog log = {0};
        const sn_scope scope = sn_scope_begin();
        if (i & 1) sn_functional_mode_set(true);
        if (i & 2) sn_user_mode_push(log_op, &log);
        TWIN_CALL(twin, x);
        sn_scope_end(scope);
        ck_assert((log.ops > 0) == ((i & 2) > 0));
    }
    TWIN_CALL(twin, x);
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    twin_free(twin);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        a1_14_a_sparse_tensor_is_the_cpus_and_says_so,
        a1_14_a_compiled_function_of_a_device_uses_one,
        a1_15_ops_on_a_key_of_a_device_are_not_implemented_for_it,
        a2_20_inside_vmap_the_batched_key_is_printed,
        a2_20_gradients_of_examples_have_the_cpus_bits,
        a5_09_fake_tensors_of_a_device_need_no_memory,
        a5_09_functional_and_logging_modes_on_a_device,
        a5_09_compiled_functions_of_a_device_meet_the_modes,
    };
    if (lacks_compiler()) return skip_without_compiler();
    return contract_main("test_cuda_keys", tests, (int)(sizeof tests / sizeof *tests));
}
