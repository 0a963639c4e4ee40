/* test_cuda_device.c: tensors on CUDA devices: made, moved, viewed, read [acceptance 1.10, 2.07, 2.22]. Runs on the
 * emulated driver, and unchanged on a GPU: there SINTER_CUDA_DRIVER is not set, and what makes the driver fail is left
 * out. */
#include <check.h>
#include <math.h>
#include <pthread.h>
#include <sinter/sinter.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/cuda/emulated_control.h"
#include "tests/unit/public_check.h"
#include "tests/unit/suite.h"

enum { GPU = SN_CUDA(0), NEXT = SN_CUDA(1) };

static size_t element_bytes(sn_dtype dtype) {
    static const size_t bytes[] = {[SN_F64] = 8, [SN_F32] = 4, [SN_F16] = 2, [SN_BF16] = 2, [SN_I64] = 8,
                                   [SN_I32] = 4, [SN_I16] = 2, [SN_I8] = 1,  [SN_U8] = 1,   [SN_BOOL] = 1};
    return bytes[dtype];
}

static bool same(sn_tensor *a, sn_tensor *b) {
    expect_ok();
    const size_t bytes = (size_t)sn_numel(a) * 8;
    char *const x = calloc(1, bytes + 1), *const y = calloc(1, bytes + 1);
    const size_t capacity = (size_t)sn_numel(a) * element_bytes(sn_dtype_of(a));
    const bool equal = sn_numel(a) == sn_numel(b) && sn_dtype_of(a) == sn_dtype_of(b) &&
                       sn_read(a, x, capacity) == SN_OK && sn_read(b, y, capacity) == SN_OK && !memcmp(x, y, bytes);
    free(x), free(y);
    expect_ok();
    return equal;
}

static sn_tensor *empty_there(sn_ints sizes, sn_device device) {
    const sn_value none = {.kind = SN_KIND_NONE};
    return sn_empty_ex(sizes, SN_F32, none, sn_int(device), none, none);
}

/* No tensor among the arguments: the device says who serves them. */
static sn_tensor *made_on(const char *op, sn_device device) {
    const sn_value in[] = {sn_ints_value(SN_INTS(2, 3)), sn_int(SN_F32), sn_none(), sn_int(device)};
    sn_seed(11);
    return sn_op_call1(sn_op_find(op), in, 4);
}

START_TEST(a2_07_factories_go_where_their_device_says) {
    static const char *const ops[] = {"aten::empty.memory_format", "aten::ones", "aten::zeros", "aten::rand",
                                      "aten::randn"};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        sn_tensor *const here = made_on(ops[i], SN_CPU), *const there = made_on(ops[i], GPU);
        expect_ok();
        ck_assert_int_eq(sn_device_of(here), SN_CPU);
        ck_assert_int_eq(sn_device_of(there), GPU);
        ck_assert(sn_size(there, 0) == 2 && sn_size(there, 1) == 3);
        if (i) ck_assert(same(sn_to_device(there, SN_CPU), here)); /* random numbers, too */
    }
}
END_TEST

START_TEST(a1_10_there_and_back) {
    static const sn_dtype dtypes[] = {SN_F64, SN_F32, SN_F16, SN_BF16, SN_I64, SN_I32, SN_I16, SN_I8, SN_U8, SN_BOOL};
    sn_tensor *const x = range(12);
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        sn_tensor *const here = sn_reshape(sn_to(x, dtypes[i]), SN_INTS(3, 4));
        sn_tensor *const layouts[] = {here,
                                      sn_t(here),
                                      sn_slice(here, 1, 1, 4, 2),
                                      sn_select(here, 0, 1),
                                      sn_expand(sn_select(here, 1, 0), SN_INTS(2, 3)),
                                      sn_select(x, 0, 3)};
        for (size_t k = 0; k < sizeof layouts / sizeof *layouts; k++) {
            sn_tensor *const there = sn_to_device(layouts[k], GPU);
            expect_ok();
            ck_assert_int_eq(sn_device_of(there), GPU);
            ck_assert_ptr_eq(sn_to_device(there, GPU), there);
            ck_assert(same(sn_to_device(there, SN_CPU), layouts[k]));
        }
    }
    ck_assert_str_eq(sn_keys(sn_to_device(x, GPU)), "autograd, cuda");
    ck_assert_int_eq(sn_strides(sn_to_device(sn_t(sn_reshape(x, SN_INTS(3, 4))), GPU)).data[0], 1);
    ck_assert_int_eq(sn_numel(sn_to_device(sn_zeros(SN_INTS(0, 3), SN_F32), GPU)), 0);
    ck_assert_int_eq(sn_device_synchronize(GPU), SN_OK);
    expect_ok();
}
END_TEST

START_TEST(how_many_there_are) {
    ck_assert_int_ge(sn_device_count(SN_KEY_CUDA), 1);
    ck_assert_int_eq(sn_device_count(SN_KEY_CPU), 1);
    ck_assert_int_eq(sn_device_count(SN_KEY_SPARE), 0);
    ck_assert_int_eq(sn_device_count(SN_KEY_META), 0);
    ck_assert_int_eq(sn_device_count(SN_KEY_AUTOGRAD), 0);
    ck_assert_int_eq(sn_device_count((sn_key)12345), 0);
    expect_ok();
}
END_TEST

START_TEST(what_they_are) {
    sn_device_properties gpu = {.size = sizeof gpu}, cpu = {.size = sizeof cpu}, none = {0};
    ck_assert_int_eq(sn_device_properties_of(GPU, &gpu), SN_OK);
    ck_assert_int_eq(sn_device_properties_of(SN_CPU, &cpu), SN_OK);
    ck_assert(gpu.major >= 7 && gpu.processors > 0 && gpu.memory > 0);
    if (is_emulated()) {
        ck_assert_str_eq(gpu.name, "emulated GPU 0");
        ck_assert(gpu.major == 8 && gpu.minor == 0 && gpu.processors == 4);
    }
    ck_assert_str_eq(cpu.name, "cpu");
    ck_assert(cpu.processors > 0 && cpu.memory > 1 << 20 && !cpu.major);
    struct {
        size_t size;
        char name[128];
        int64_t memory;
        int64_t behind;
    } older = {.size = offsetof(sn_device_properties, processors), .behind = 77}; /* a program of a smaller struct */
    ck_assert_int_eq(sn_device_properties_of(SN_CPU, (sn_device_properties *)(void *)&older), SN_OK);
    ck_assert(older.memory == cpu.memory && older.behind == 77);
    ck_assert_int_eq(sn_device_properties_of(SN_CPU, &none), SN_ERR_ARGUMENT);
    expect_error(SN_ERR_ARGUMENT, "the size of *out is 0");
    ck_assert_int_eq(sn_device_properties_of(SN_CUDA(sn_device_count(SN_KEY_CUDA)), &gpu), SN_ERR_DEVICE);
    expect_error(SN_ERR_DEVICE, "there is no cuda:");
    ck_assert_int_eq(sn_device_properties_of(SN_CUDA(1000), &gpu), SN_ERR_DEVICE);
    expect_error(SN_ERR_DEVICE, "there is no cuda:1000");
}
END_TEST

/* Factories, by their functions and by name; what has a tensor goes by that, and the CPU stays within reach. */
START_TEST(a_default_device) {
    const sn_scope scope = sn_scope_begin();
    ck_assert_int_eq(sn_default_device_set(GPU), SN_CPU);
    ck_assert_int_eq(sn_default_device(), GPU);
    sn_tensor *const zeros = sn_zeros(SN_INTS(3), SN_F32), *const given = range(3);
    const int64_t sizes[] = {3};
    const sn_value in[] = {
        {.kind = SN_KIND_INTS, .n = 1, .ints = sizes}, sn_int(SN_F32), {.kind = SN_KIND_NONE}, sn_int(SN_CPU)};
    const sn_op *const ones = sn_op_find("aten::ones");
    ck_assert_int_eq(sn_device_of(zeros), GPU);
    ck_assert_int_eq(sn_device_of(given), GPU);
    ck_assert_int_eq(sn_device_of(sn_op_call1(ones, in, 2)), GPU);
    ck_assert_int_eq(sn_device_of(sn_op_call1(ones, in, 4)), SN_CPU);
    ck_assert_int_eq(sn_device_of(sn_randn(SN_INTS(4), SN_F32)), GPU);
    ck_assert_int_eq(sn_device_of(sn_zeros_like(sn_to_device(given, SN_CPU))), SN_CPU);
    sn_default_device_set(SN_CPU);
    ck_assert_int_eq(sn_device_of(sn_zeros(SN_INTS(3), SN_F32)), SN_CPU);
    sn_default_device_set(SN_CUDA(1));
    sn_scope_end(scope);
    ck_assert_int_eq(sn_default_device(), SN_CPU);
    ck_assert_int_eq(sn_device_of(sn_zeros(SN_INTS(3), SN_F32)), SN_CPU);
    expect_ok();
    sn_default_device_set((sn_device)-7);
    expect_error(SN_ERR_ARGUMENT, "sn_default_device_set: -7 is no device");
}
END_TEST

static sn_status makes(sn_frame *f) {
    sn_tensor *const ramp = sn_arange(sn_int(4), SN_F32);
    return sn_out(f, 0, sn_mul(sn_to_device(sn_in(f, 0), sn_device_of(ramp)), ramp));
}

/* Graphs have the device itself: each default is a case of its own, also where no body runs. */
START_TEST(a_default_device_around_compiled_functions) {
    sn_function *const fn = sn_compile(makes, NULL, SN_COMPILE_OPTIONS(.mode = _i ? SN_COMPILE_REPLAY : 0));
    sn_tensor *const x = range(4), *const want = sn_mul(x, sn_arange(sn_int(4), SN_F32));
    for (int call = 0; call < 8; call++) {
        const sn_scope scope = sn_scope_begin();
        const sn_device device = call / 2 % 2 ? GPU : SN_CPU;
        sn_default_device_set(device);
        sn_tensor *const out = sn_call1(fn, SN_TENSORS(x));
        expect_ok();
        ck_assert_int_eq(sn_device_of(out), device);
        ck_assert(same(out, want));
        sn_scope_end(scope);
    }
    sn_function_free(fn);
}
END_TEST

START_TEST(no_such_device) {
    char says[64];
    const int n = sn_device_count(SN_KEY_CUDA);
    snprintf(says, sizeof says, "there is no cuda:%d: this machine has %d CUDA device%s", n, n, n == 1 ? "" : "s");
    ck_assert_ptr_null(sn_to_device(range(2), SN_CUDA(n)));
    expect_error(SN_ERR_DEVICE, says);
    ck_assert_int_eq(sn_device_synchronize(SN_CUDA(n)), SN_ERR_DEVICE);
    expect_error(SN_ERR_DEVICE, says);
    ck_assert_ptr_null(sn_to_device(range(2), SN_CUDA(1000)));
    expect_error(SN_ERR_DEVICE, "cuda:1000: this device has no memory here");
    ck_assert_int_eq(sn_device_synchronize(SN_CUDA(1000)), SN_ERR_DEVICE);
    expect_error(SN_ERR_DEVICE, "cuda:1000");
}
END_TEST

START_TEST(what_the_host_sees) {
    sn_tensor *const there = sn_to_device(range(3), GPU);
    ck_assert_str_eq(sn_repr(there), "tensor([-2.5000, -1.5000, -0.5000], device='cuda:0')");
    ck_assert(sn_item(sn_select(there, 0, 1)) == -1.5);
    ck_assert_ptr_null(sn_data(there, SN_F32));
    expect_error(SN_ERR_DEVICE, "sn_data: the tensor is on cuda:0");
    ck_assert_ptr_nonnull(sn_data_raw(there));
}
END_TEST

START_TEST(views_and_writes) {
    sn_tensor *const x = range(6), *const there = sn_to_device(x, GPU);
    sn_tensor *const column = sn_select(sn_reshape(there, SN_INTS(2, 3)), 1, 2);
    ck_assert(sn_data_raw(column) == (char *)sn_data_raw(there) + 8);
    sn_copy_(column, range(2)); /* from the CPU into a view with gaps */
    sn_copy_(sn_select(sn_reshape(x, SN_INTS(2, 3)), 1, 2), range(2));
    ck_assert(same(there, x));
    sn_copy_(there, range(6));
    sn_tensor *const copy = sn_clone(there), *const part = sn_clone(sn_slice(there, 0, 1, 6, 2));
    sn_copy_(there, copy); /* within the device */
    sn_copy_(x, there);
    ck_assert(same(x, range(6)) && same(copy, x) && same(part, sn_slice(x, 0, 1, 6, 2)));
    sn_tensor *const doubles = sn_to(there, SN_F64); /* cast on the way, by the host */
    ck_assert_int_eq(sn_device_of(doubles), GPU);
    ck_assert(same(doubles, sn_to(x, SN_F64)));
    expect_ok();
}
END_TEST

START_TEST(a2_22_mixed_devices_name_both_and_nothing_is_written) {
    sn_tensor *const x = range(6), *const there = sn_to_device(x, GPU);
    ck_assert_ptr_null(sn_add_(there, x));
    expect_error(SN_ERR_DEVICE, "'self' is on cuda:0, 'other' on cpu");
    ck_assert_ptr_null(sn_add(there, x));
    expect_error(SN_ERR_DEVICE, "'self' is on cuda:0, 'other' on cpu");
    ck_assert(same(there, x)); /* nothing was written */
    ck_assert(same(sn_mul(sn_to_device(there, SN_CPU), x), sn_mul(x, x)));
}
END_TEST

START_TEST(a_program_may_serve_ops_on_the_cpu) {
    ck_assert_ptr_nonnull(sn_fallback_set(SN_KEY_CUDA, sn_run_on_cpu, NULL));
    sn_tensor *const x = range(6), *const there = sn_to_device(x, GPU);
    ck_assert(same(sn_tanh(sn_add(there, there)), sn_tanh(sn_add(x, x))));
    ck_assert_int_eq(sn_device_of(sn_exp(there)), GPU);
    if (sn_device_count(SN_KEY_CUDA) > 1) {
        sn_tensor *const next = sn_to_device(x, NEXT);
        ck_assert_int_eq(sn_device_of(sn_exp(next)), NEXT);
        ck_assert_int_eq(sn_device_of(sn_cat(SN_TENSORS(next, next), 0)), NEXT);
        ck_assert_ptr_null(sn_add(there, next));
        expect_error(SN_ERR_DEVICE, "'self' is on cuda:0, 'other' on cuda:1");
    }
    expect_ok();
}
END_TEST

START_TEST(gradients_come_back) {
    sn_tensor *const x = sn_requires_grad_(range(4), true);
    sn_tensor *const back = sn_to_device(sn_to_device(sn_mul(x, x), GPU), SN_CPU);
    ck_assert_int_eq(sn_backward(sn_sum(back)), SN_OK);
    ck_assert_int_eq(sn_device_of(sn_grad(x)), SN_CPU);
    ck_assert(same(sn_grad(x), sn_mul_scalar(range(4), sn_int(2))));
}
END_TEST

static sn_status moving_body(sn_frame *f) {
    sn_tensor *const there = sn_to_device(sn_exp(sn_in(f, 0)), GPU);
    return sn_out(f, 0, sn_neg(sn_to_device(sn_t(there), SN_CPU)));
}

START_TEST(compiled_functions_span_devices) {
    for (int mode = 0; mode < 2; mode++) {
        sn_function *const fn =
            sn_compile(moving_body, NULL, SN_COMPILE_OPTIONS(.mode = mode ? SN_COMPILE_REPLAY : SN_COMPILE_VERIFY));
        for (int call = 0; call < 3; call++) {
            sn_tensor *const x = sn_reshape(sn_mul_scalar(range(6), sn_float(call + 0.5)), SN_INTS(2, 3));
            ck_assert(same(sn_call1(fn, SN_TENSORS(x)), sn_neg(sn_t(sn_exp(x)))));
        }
        ck_assert_msg(strstr(sn_explain(fn), "compiled share 1.0000") != NULL, "%s", sn_explain(fn));
        sn_function_free(fn);
    }
    expect_ok();
}
END_TEST

static sn_status doubled_body(sn_frame *f) { return sn_out(f, 0, sn_exp(sn_add(sn_in(f, 0), sn_in(f, 0)))); }

/* The same tensors elsewhere are another case, for the reason that it says. */
START_TEST(a9_04_the_device) {
    sn_function *const fn = sn_compile(doubled_body, NULL, NULL);
    for (int call = 0; call < 6; call++) {
        sn_tensor *const x = sn_to_device(sn_mul_scalar(range(6), sn_float(call * 0.125)), call % 2 ? GPU : SN_CPU);
        sn_tensor *const y = sn_call1(fn, SN_TENSORS(x));
        ck_assert_int_eq(sn_device_of(y), sn_device_of(x));
        ck_assert(same(y, sn_exp(sn_add(x, x))));
    }
    ck_assert_msg(strstr(sn_explain(fn), "recompile: argument 0: f32[6], now f32[6]@cuda:0") != NULL, "%s",
                  sn_explain(fn));
    sn_function_free(fn);
    expect_ok();
}
END_TEST

START_TEST(between_two_devices) {
    if (sn_device_count(SN_KEY_CUDA) < 2) {
        fprintf(stderr, "left out: needs two CUDA devices\n");
        return;
    }
    sn_tensor *const there = sn_to_device(range(6), GPU), *const next = sn_to_device(there, NEXT);
    ck_assert_int_eq(sn_device_of(next), NEXT);
    ck_assert_str_eq(sn_device_name(NEXT), "cuda:1");
    ck_assert(same(next, range(6)) && same(sn_to_device(next, GPU), there));
    sn_copy_(next, sn_to_device(range(6), GPU));
    expect_ok();
}
END_TEST

START_TEST(out_of_memory) {
    sn_tensor *const x = range(4);
    ck_assert_ptr_null(empty_there(SN_INTS(INT64_C(1) << 40), GPU)); /* 4 TiB */
    expect_error(SN_ERR_MEMORY, "cuda:0 is out of memory: 4398046511104 bytes asked for, ");
    ck_assert(same(sn_to_device(x, GPU), x)); /* and it goes on */
    if (!is_emulated()) return;
    fail_next("MemAlloc", 2, 0); /* asked once more, it has some */
    sn_tensor *const large = empty_there(SN_INTS(1 << 20), GPU);
    expect_ok();
    ck_assert_ptr_null(empty_there(SN_INTS(60 << 18), GPU)); /* 60 of 64 MiB */
    expect_error(SN_ERR_MEMORY, "cuda:0 is out of memory: 62914560 bytes asked for, ");
    ck_assert_ptr_nonnull(large);
}
END_TEST

START_TEST(a_lost_device) {
    if (!is_emulated()) return;
    static const char *const calls[] = {"MemAlloc", "MemcpyHtoDAsync", "MemcpyDtoHAsync", "StreamSynchronize"};
    const int call = _i;
    const sn_scope scope = sn_scope_begin();
    sn_tensor *const x = range(4), *const there = sn_to_device(x, GPU), *const next = sn_to_device(x, NEXT);
    fail_next(calls[call], 700, 0);
    sn_tensor *const more = sn_to_device(sn_expand(x, SN_INTS(1 << 20, 4)), GPU); /* more than is kept */
    if (more) sn_to_device(more, SN_CPU);
    expect_error(SN_ERR_DEVICE,
                 "cuda:0 is lost since CUDA_ERROR_ILLEGAL_ADDRESS (as emulated): what was on it is gone");
    for (int again = 0; again < 2; again++) {
        ck_assert_ptr_null(sn_to_device(there, SN_CPU));
        expect_error(SN_ERR_DEVICE, "cuda:0 is lost");
        ck_assert_ptr_null(empty_there(SN_INTS(2), GPU));
        expect_error(SN_ERR_DEVICE, "cuda:0 is lost");
        ck_assert_int_eq(sn_device_synchronize(GPU), SN_ERR_DEVICE);
        expect_error(SN_ERR_DEVICE, "cuda:0 is lost");
    }
    ck_assert(same(sn_exp(x), sn_exp(range(4)))); /* the CPU and other devices go on */
    ck_assert(same(next, x));
    sn_scope_end(scope); /* and what was on it can be given up */
    expect_ok();
}
END_TEST

START_TEST(calls_that_fail) {
    if (!is_emulated()) return;
    sn_tensor *const x = range(4);
    fail_next("DevicePrimaryCtxRetain", 101, 0);
    ck_assert_ptr_null(sn_to_device(x, GPU));
    expect_error(SN_ERR_DEVICE, "cuda:0: its context failed: CUDA_ERROR_INVALID_DEVICE (as emulated)");
    fail_next("StreamCreate", 1, 0);
    ck_assert_ptr_null(sn_to_device(x, GPU));
    expect_error(SN_ERR_DEVICE, "cuda:0: a stream failed: CUDA_ERROR_INVALID_VALUE");
    sn_tensor *const there = sn_to_device(x, GPU); /* opened at the third try */
    fail_next("MemcpyDtoHAsync", 1, 0);
    ck_assert(isnan(sn_item(sn_select(there, 0, 1))));
    expect_error(SN_ERR_DEVICE, "cuda:0: a copy to the host failed: CUDA_ERROR_INVALID_VALUE");
    sn_clone(there);
    fail_next("LaunchKernel", 1, 0);
    ck_assert_ptr_null(sn_clone(there));
    expect_error(SN_ERR_DEVICE, "cuda:0: a launch failed: CUDA_ERROR_INVALID_VALUE");
    fail_next("MemAlloc", 201, 0);
    ck_assert_ptr_null(empty_there(SN_INTS(1 << 20), GPU));
    expect_error(SN_ERR_DEVICE, "cuda:0: an allocation failed: CUDA_ERROR_INVALID_CONTEXT");
    ck_assert(same(there, x));
}
END_TEST

static sn_memory memory_of(sn_device device) {
    sn_memory memory = {.size = sizeof memory};
    ck_assert_int_eq(sn_memory_get(device, &memory), SN_OK);
    return memory;
}

START_TEST(nothing_is_left) {
    if (!is_emulated()) return;
    sn_to_device(range(3), GPU);
    ck_assert_int_eq(sn_shutdown(), SN_OK);
    ck_assert_int_eq(sn_memory_trim(GPU), SN_OK);
    const EmulatorCounts before = emulated();
    const sn_scope scope = sn_scope_begin();
    sn_tensor *const there = sn_to_device(range(5), GPU);
    for (int i = 0; i < 100; i++) sn_clone(sn_clone(there)); /* copies that wait in the stream when memory is freed */
    ck_assert_int_gt(emulated().blocks, before.blocks);
    ck_assert_int_eq(memory_of(GPU).current, 201 * 512);
    sn_scope_end(scope);
    ck_assert_int_eq(memory_of(GPU).current, 0);
    ck_assert_int_eq(memory_of(GPU).peak, 201 * 512);
    ck_assert_int_gt(emulated().blocks, before.blocks); /* kept */
    ck_assert_int_eq(sn_memory_trim(GPU), SN_OK);
    ck_assert_int_eq(emulated().blocks, before.blocks);
    ck_assert_int_eq(emulated().bytes, before.bytes);
    ck_assert_int_eq(sn_device_synchronize(GPU), SN_OK);
    ck_assert_int_eq(sn_memory_reset_peak(GPU), SN_OK);
    ck_assert_int_eq(memory_of(GPU).peak, 0);
    expect_ok();
}
END_TEST

static void *copies(void *unused) {
    (void)unused;
    for (int i = 0; i < 200; i++) {
        const sn_scope scope = sn_scope_begin();
        sn_tensor *const x = sn_mul_scalar(range(64), sn_int(i)), *const there = sn_clone(sn_to_device(x, GPU));
        ck_assert(same(sn_to_device(there, SN_CPU), x));
        sn_scope_end(scope);
    }
    return NULL;
}

START_TEST(threads_at_once) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) ck_assert_int_eq(pthread_create(&threads[i], NULL, copies, NULL), 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    expect_ok();
}
END_TEST

/* CUDA cannot be used in a forked process, and says so; the CPU can. */
static void in_the_child(sn_tensor *there) {
    const bool refused =
        !sn_to_device(there, SN_CPU) && strstr(sn_error_take()->message, "forked after CUDA's first use");
    const bool again =
        !sn_to_device(range(2), GPU) && strstr(sn_error_take()->message, "forked after CUDA's first use");
    const bool computes = same(sn_add(range(3), range(3)), sn_mul_scalar(range(3), sn_int(2)));
    sn_shutdown();
    _exit(refused && again && computes ? 0 : 1 + refused + 2 * again + 4 * computes);
}

START_TEST(a_forked_process) {
    sn_tensor *const there = sn_to_device(range(4), GPU);
    const pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (!child) in_the_child(there);
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", (unsigned)status);
    ck_assert(same(there, range(4)));
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("cuda_device");
    tcase_set_timeout(tests, 60); /* a GPU's first context takes its time */
    tcase_add_test(tests, a1_10_there_and_back);
    tcase_add_test(tests, a2_07_factories_go_where_their_device_says);
    tcase_add_test(tests, how_many_there_are);
    tcase_add_test(tests, what_they_are);
    tcase_add_test(tests, a_default_device);
    tcase_add_loop_test(tests, a_default_device_around_compiled_functions, 0, 2);
    tcase_add_test(tests, no_such_device);
    tcase_add_test(tests, what_the_host_sees);
    tcase_add_test(tests, views_and_writes);
    tcase_add_test(tests, a2_22_mixed_devices_name_both_and_nothing_is_written);
    tcase_add_test(tests, a_program_may_serve_ops_on_the_cpu);
    tcase_add_test(tests, gradients_come_back);
    tcase_add_test(tests, compiled_functions_span_devices);
    tcase_add_test(tests, a9_04_the_device);
    tcase_add_test(tests, between_two_devices);
    tcase_add_test(tests, out_of_memory);
    tcase_add_loop_test(tests, a_lost_device, 0, 4);
    tcase_add_test(tests, calls_that_fail);
    tcase_add_test(tests, nothing_is_left);
    tcase_add_test(tests, threads_at_once);
    tcase_add_test(tests, a_forked_process);
    return suite_run("cuda_device", tests);
}
