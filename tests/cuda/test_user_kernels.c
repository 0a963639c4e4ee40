/* test_user_kernels.c: ops of a program with kernels of its own on a CUDA device: which of an op's kernels runs, and in
 * what order with the work around it, eagerly, compiled, under autograd and from several threads. */
#include <check.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sinter/sinter.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/cuda/driver.h"
#include "tests/cuda/emulated_control.h"
#include "tests/unit/public_check.h"
#include "tests/unit/suite.h"

enum { GPU = SN_CUDA(0), N = 300 };

static const char *const source = "/* scale(x) is below */\n"
                                  "extern \"C\" __global__ void scale(const float *x, float *__restrict__ y,\n"
                                  "                                 long long n, float by) {\n"
                                  "    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n"
                                  "    if (i < n) y[i] = by * x[i];\n"
                                  "}\n"
                                  "extern \"C\" __global__ void __launch_bounds__(256)\n"
                                  "    turn(const void *x, unsigned *y, int rows, unsigned columns, bool add) {\n"
                                  "    const int i = blockIdx.x, k = threadIdx.x;\n"
                                  "    if (i < rows && k < (int)columns)\n"
                                  "        y[i * columns + k] = ((const unsigned *)x)[k * rows + i] + add;\n"
                                  "}\n";

static sn_kernel *scale_kernel, *turn_kernel;
static const sn_op *scale_op, *into_op;
static int ran_cpu, ran_cuda, ran_autograd;

static sn_tensor *there(sn_tensor *x) { return sn_to_device(x, GPU); }
static sn_tensor *here(sn_tensor *x) { return sn_to_device(x, SN_CPU); }

static void expect_same(sn_tensor *a, sn_tensor *b) {
    expect_ok();
    ck_assert_msg(sn_equal(a, b), "%s is not %s", sn_repr(a), sn_repr(b));
}

/* own::scale: by * x ----------------------------------------------------------------------------- */

static sn_status like(sn_frame *f) { return sn_out(f, 0, sn_empty_like(sn_contiguous(sn_in(f, 0)))); }

static sn_status scale_cpu(sn_frame *f) {
    sn_tensor *const x = sn_contiguous(sn_in(f, 0)), *const y = sn_empty_like(x);
    const float *const from = sn_data(x, SN_F32), by = (float)sn_in_float(f, 1);
    float *const to = sn_data_mut(y, SN_F32);
    for (int64_t i = 0; from && to && i < sn_numel(x); i++) to[i] = by * from[i];
    ran_cpu++;
    return sn_out(f, 0, y);
}

static sn_status launch_scale(sn_frame *f, sn_tensor *x, sn_tensor *y, sn_value by) {
    const int64_t n = sn_numel(y);
    const sn_value in[] = {sn_val(x), sn_val(y), sn_int(n), by};
    return sn_cuda_launch(f, scale_kernel, SN_CUDA_GRID(.blocks = {(uint32_t)(n + 63) / 64}, .threads = {64}), in, 4);
}

static sn_status scale_cuda(sn_frame *f) {
    sn_tensor *const x = sn_contiguous(sn_in(f, 0)), *const y = sn_empty_like(x);
    ran_cuda++;
    launch_scale(f, x, y, sn_in_value(f, 1));
    return sn_out(f, 0, y);
}

static sn_status scale_derivative(sn_frame *f) {
    return sn_set_grad_of(f, 0, sn_mul_scalar(sn_grad_of(f, 0), sn_in_value(f, 1)));
}

static sn_tensor *scale(sn_tensor *x, double by) {
    const sn_value in[] = {sn_val(x), sn_float(by)};
    return sn_op_call1(scale_op, in, 2);
}

/* own::into: by * x, written to y ---------------------------------------------------------------- */

static sn_status into_cpu(sn_frame *f) {
    const sn_value by = sn_in_value(f, 2);
    return sn_out(f, 0, sn_copy_(sn_in(f, 0), sn_mul_scalar(sn_in(f, 1), by)));
}

static sn_status into_cuda(sn_frame *f) {
    launch_scale(f, sn_in(f, 1), sn_in(f, 0), sn_in_value(f, 2));
    return sn_out(f, 0, sn_in(f, 0));
}

static sn_tensor *into(sn_tensor *y, sn_tensor *x, double by) {
    const sn_value in[] = {sn_val(y), sn_val(x), sn_float(by)};
    return sn_op_call1(into_op, in, 3);
}

static void make_ops(void) {
    scale_op =
        sn_op_register(SN_OP_DESC(.schema = "own::scale(Tensor x, float by=2.0) -> Tensor", .flags = SN_OP_PURE,
                                  .meta = like, .cpu = scale_cpu, .cuda = scale_cuda, .derivative = scale_derivative));
    into_op = sn_op_register(SN_OP_DESC(.schema = "own::into(Tensor(a!) y, Tensor x, float by) -> Tensor(a!)",
                                        .cpu = into_cpu, .cuda = into_cuda));
    scale_kernel = sn_cuda_kernel(source, "scale");
    turn_kernel = sn_cuda_kernel(source, "turn");
    expect_ok();
}

static void free_kernels(void) {
    sn_kernel_free(scale_kernel);
    sn_kernel_free(turn_kernel);
}

/* which kernel runs ------------------------------------------------------------------------------ */

static sn_status scale_autograd(sn_frame *f) {
    ran_autograd++;
    return sn_redispatch(f);
}

START_TEST(a2_05_the_right_kernel_runs) {
    sn_tensor *const x = range(20);
    ran_cpu = ran_cuda = ran_autograd = 0;
    sn_override *const own = sn_op_override(scale_op, SN_KEY_AUTOGRAD, scale_autograd, NULL);
    sn_tensor *const cpu = scale(x, 3), *const cuda = scale(there(x), 3);
    ck_assert_int_eq(sn_device_of(cuda), GPU);
    expect_same(here(cuda), cpu);
    ck_assert_int_eq(ran_cpu, 1);
    ck_assert_int_eq(ran_cuda, 1);
    ck_assert_int_eq(ran_autograd, 2);
    sn_override_free(own);
    scale(there(x), 3);
    ck_assert_int_eq(ran_cuda, 2);
    ck_assert_int_eq(ran_autograd, 2);
    const char *const keys = sn_dispatch_dump(scale_op);
    ck_assert_msg(strstr(keys, "cuda") && strstr(keys, "cpu"), "%s", keys);
}
END_TEST

START_TEST(a2_05_an_op_is_defined_once) {
    ck_assert_ptr_null(sn_op_register(SN_OP_DESC(.schema = "own::scale(Tensor x) -> Tensor", .cuda = scale_cuda)));
    expect_error(SN_ERR_ARGUMENT, "own::scale exists already");
}
END_TEST

static sn_status mixed_body(sn_frame *f) { return sn_out(f, 0, into(sn_in(f, 0), sn_in(f, 1), 2)); }

START_TEST(a2_05_mixed_devices_are_both_named) {
    sn_tensor *const x = range(5);
    ck_assert_ptr_null(into(there(x), x, 2));
    expect_error(SN_ERR_DEVICE, "own::into: all tensors must be on one device: 'y' is on cuda:0, 'x' on cpu");
    ck_assert_ptr_null(into(sn_to_device(x, SN_CUDA(1)), there(x), 2));
    expect_error(SN_ERR_DEVICE, "'y' is on cuda:1, 'x' on cuda:0");
    sn_function *const fn = sn_compile(mixed_body, NULL, NULL);
    for (int call = 0; call < 3; call++) {
        ck_assert_ptr_null(SN_CALL(fn, x, there(x)));
        expect_error(SN_ERR_DEVICE, "'y' is on cpu, 'x' on cuda:0");
    }
    sn_function_free(fn);
}
END_TEST

/* order ------------------------------------------------------------------------------------------ */

static sn_tensor *chain(sn_tensor *x, double by) {
    sn_tensor *y = sn_add(x, x);
    for (int i = 0; i < 4; i++) {
        y = scale(sn_sub(y, x), by);
        y = sn_mul(y, sn_sigmoid(y));
    }
    return sn_layer_norm(y, SN_INTS(N / 10), NULL, NULL);
}

/* What is freed between is written anew before long. */
START_TEST(a6_08_a_kernel_is_ordered_with_the_work_around_it) {
    for (int device = 0; device < 2; device++) {
        const sn_scope scope = sn_scope_begin();
        sn_tensor *const x = sn_randn(SN_INTS(10, N / 10), SN_F32);
        sn_tensor *const far = sn_to_device(x, SN_CUDA(device));
        for (int i = 0; i < 5; i++) {
            const sn_scope round = sn_scope_begin();
            expect_same(here(chain(far, 0.5 + i)), chain(x, 0.5 + i));
            sn_scope_end(round);
        }
        sn_scope_end(scope);
    }
}
END_TEST

static sn_status chain_body(sn_frame *f) { return sn_out(f, 0, chain(sn_in(f, 0), sn_in_float(f, 1))); }

static sn_tensor *call_chain(sn_function *fn, sn_tensor *x, double by) {
    const sn_value in[] = {sn_val(x), sn_float(by)};
    sn_tensor *y;
    sn_call_values(fn, in, 2, &y, 1);
    return y;
}

START_TEST(a6_08_it_is_a_node_of_graphs) {
    static const sn_compile_mode modes[] = {SN_COMPILE_VERIFY, SN_COMPILE_REPLAY};
    for (int m = 0; m < 2; m++) {
        sn_function *const fn = sn_compile(chain_body, NULL, SN_COMPILE_OPTIONS(.mode = modes[m]));
        for (int i = 0; i < 5; i++) {
            const sn_scope scope = sn_scope_begin();
            sn_tensor *const x = sn_randn(SN_INTS(10, N / 10), SN_F32);
            ran_cuda = 0;
            expect_same(here(call_chain(fn, there(x), 1.5)), chain(x, 1.5));
            ck_assert_int_eq(ran_cuda, 4);
            sn_scope_end(scope);
        }
        sn_stats stats = {.size = sizeof stats};
        sn_function_stats(fn, &stats);
        ck_assert_int_eq(stats.breaks, 0);
        ck_assert_int_eq(stats.ops_eager, 0);
        ck_assert_ptr_nonnull(strstr(sn_dump(fn, "capture"), "own::scale"));
        sn_function_free(fn);
    }
}
END_TEST

static sn_status nothing(sn_frame *f) { return f ? SN_OK : SN_ERR_INTERNAL; }

static sn_status written_body(sn_frame *f) {
    const sn_value in[] = {sn_in_value(f, 0), sn_val(sn_exp(sn_in(f, 1))), sn_float(3)};
    sn_tensor *const y = sn_op_call1(sn_closure(f), in, 3);
    return sn_out(f, 0, sn_add(y, sn_in(f, 1)));
}

START_TEST(a6_01_what_it_writes_is_a_result_of_its_node) {
    const sn_op *const op =
        sn_op_register(SN_OP_DESC(.schema = "own::pure_into(Tensor(a!) y, Tensor x, float by) -> Tensor(a!)",
                                  .flags = SN_OP_PURE, .meta = nothing, .cpu = into_cpu, .cuda = into_cuda));
    sn_function *const fn = sn_compile(written_body, (void *)(uintptr_t)op, NULL);
    sn_function *const cpu =
        sn_compile(written_body, (void *)(uintptr_t)op, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
    for (int i = 0; i < 4; i++) {
        sn_tensor *const y = sn_zeros(SN_INTS(N), SN_F32), *const x = sn_randn(SN_INTS(N), SN_F32),
                         *const far = there(y);
        sn_tensor *const near = SN_CALL(cpu, y, x);
        expect_same(here(SN_CALL(fn, far, there(x))), near);
        expect_same(here(far), y);
    }
    sn_stats stats = {.size = sizeof stats};
    sn_function_stats(fn, &stats);
    ck_assert_int_eq(stats.breaks, 0);
    ck_assert_int_eq(stats.ops_eager, 0);
    sn_function_free(fn);
    sn_function_free(cpu);
}
END_TEST

static sn_status scalar_body(sn_frame *f) {
    const sn_value in[] = {sn_val(sn_exp(sn_in(f, 0))), sn_val(sn_in(f, 1)), sn_float(0.3)};
    return sn_out(f, 0, sn_relu(sn_op_call1(sn_closure(f), in, 3)));
}

START_TEST(a6_01_a_scalar_op_has_the_cpus_bits) {
    const sn_op *const op = sn_op_register(SN_OP_DESC(.schema = "own::gate(Tensor x, Tensor y, float by) -> Tensor",
                                                      .scalar = "where(x < y, gelu(x), by / y) + max(x, 0) * y"));
    sn_function *const fn = sn_compile(scalar_body, (void *)(uintptr_t)op, NULL);
    for (int i = 0; i < 3; i++) {
        sn_tensor *const x = sn_randn(SN_INTS(10, N / 10), SN_F32), *const y = sn_randn(SN_INTS(N / 10), SN_F32);
        const sn_value near[] = {sn_val(x), sn_val(y), sn_float(0.5)};
        const sn_value far[] = {sn_val(there(x)), sn_val(there(y)), sn_float(0.5)};
        expect_same(here(sn_op_call1(op, far, 3)), sn_op_call1(op, near, 3));
        expect_same(here(SN_CALL(fn, there(x), there(y))), SN_CALL(fn, x, y));
    }
    ck_assert_ptr_nonnull(strstr(sn_explain(fn), "aten::exp, own::gate, aten::relu"));
    sn_function_free(fn);
}
END_TEST

static sn_status gradient_body(sn_frame *f) { return sn_out(f, 0, sn_sum(sn_mul(chain(sn_in(f, 0), 2), sn_in(f, 1)))); }

static sn_tensor *gradient(sn_function *fn, sn_tensor *given, sn_tensor *weight, sn_device device) {
    sn_tensor *const x = sn_requires_grad_(sn_detach(sn_to_device(given, device)), true);
    ck_assert_int_eq(sn_backward(SN_CALL(fn, x, sn_to_device(weight, device))), SN_OK);
    return sn_to_device(sn_grad(x), SN_CPU);
}

/* 0-dim operands of the CPU go with any device; the results are on that of the others. */
static sn_status shifted_cuda(sn_frame *f) { return sn_out(f, 0, sn_add(sn_in(f, 0), sn_in(f, 1))); }
static sn_status shifted_body(sn_frame *f) {
    const sn_value in[] = {sn_val(sn_in(f, 0)), sn_val(sn_in(f, 1))};
    return sn_out(f, 0, sn_op_call1(sn_closure(f), in, 2));
}

START_TEST(a6_08_numbers_of_the_cpu_are_operands) {
    const sn_op *const op = sn_op_register(SN_OP_DESC(.schema = "own::shifted(Tensor x, Tensor by) -> Tensor",
                                                      .flags = SN_OP_PURE, .meta = like, .cuda = shifted_cuda));
    sn_function *const fn = sn_compile(shifted_body, (void *)(uintptr_t)op, NULL);
    sn_tensor *const x = range(8);
    for (int i = 0; i < 3; i++) {
        sn_tensor *const by = sn_full(SN_INTS(), sn_float(i), SN_F32), *const y = SN_CALL(fn, there(x), by);
        ck_assert_int_eq(sn_device_of(y), GPU);
        expect_same(here(y), sn_add(x, by));
    }
    sn_function_free(fn);
}
END_TEST

START_TEST(a6_08_its_derivative_is_one_of_ops) {
    sn_function *const eager = sn_compile(gradient_body, NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
    sn_function *const fast = sn_compile(gradient_body, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        const sn_scope scope = sn_scope_begin();
        sn_tensor *const x = sn_randn(SN_INTS(10, N / 10), SN_F32);
        sn_tensor *const w = sn_randn(SN_INTS(10, N / 10), SN_F32);
        sn_tensor *const want = gradient(eager, x, w, SN_CPU);
        expect_same(gradient(eager, x, w, GPU), want);
        expect_same(gradient(fast, x, w, GPU), want);
        sn_scope_end(scope);
    }
    sn_function_free(eager), sn_function_free(fast);
}
END_TEST

static void *chains(void *fn) {
    for (int i = 0; i < 6; i++) {
        const sn_scope scope = sn_scope_begin();
        sn_tensor *const x = sn_randn(SN_INTS(10, N / 10), SN_F32);
        expect_same(here(call_chain(fn, there(x), 1.25)), chain(x, 1.25));
        expect_same(here(chain(there(x), 1.25)), chain(x, 1.25));
        sn_scope_end(scope);
    }
    return NULL;
}

START_TEST(a6_08_threads_launch_it_at_once) {
    sn_function *const fn = sn_compile(chain_body, NULL, NULL);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, chains, fn);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    sn_function_free(fn);
}
END_TEST

/* Launches that the program makes by itself. */
static sn_status ones_cuda(sn_frame *f) {
    sn_tensor *const y = sn_empty_like(sn_in(f, 0));
    const Driver *driver;
    const CuStream stream = sn_cuda_stream(f);
    ck_assert_int_eq(driver_open(&driver), 0);
    const CuAddress at = (CuAddress)(uintptr_t)sn_data_raw(y);
    ck_assert_int_eq(driver->MemsetD8Async(at, 1, (size_t)sn_numel(y), stream), CU_success);
    return sn_out(f, 0, y);
}

static sn_status ones_body(sn_frame *f) {
    const sn_value x = sn_val(sn_add(sn_in(f, 0), sn_in(f, 0)));
    sn_tensor *const ones = sn_op_call1(sn_closure(f), &x, 1);
    return sn_out(f, 0, sn_add(ones, sn_in(f, 0)));
}

START_TEST(a6_08_it_may_use_the_stream_by_itself) {
    const sn_op *const op = sn_op_register(
        SN_OP_DESC(.schema = "own::ones(Tensor x) -> Tensor", .flags = SN_OP_PURE, .meta = like, .cuda = ones_cuda));
    sn_function *const fn = sn_compile(ones_body, (void *)(uintptr_t)op, NULL);
    sn_tensor *const x = sn_full(SN_INTS(9), sn_int(5), SN_U8), *const six = sn_full(SN_INTS(9), sn_int(6), SN_U8);
    for (int i = 0; i < 3; i++) expect_same(here(SN_CALL(fn, there(x))), six);
    ck_assert_ptr_null(sn_cuda_stream(NULL));
    expect_error(SN_ERR_STATE, "no kernel of an op on a CUDA device");
    sn_function_free(fn);
}
END_TEST

/* checks ----------------------------------------------------------------------------------------- */

static sn_tensor *wrong_row(sn_tensor *x) {
    return sn_index_select(x, 0, there(sn_full(SN_INTS(1), sn_int(9), SN_I64)));
}

/* Its kernel knows of no check: it waits for them instead. */
START_TEST(a6_08_what_others_see_is_not_written_after_a_failed_check) {
    sn_tensor *const x = there(sn_ones(SN_INTS(4, 3), SN_F32)), *const y = there(sn_zeros(SN_INTS(1, 3), SN_F32));
    sn_tensor *const row = wrong_row(x);
    expect_ok();
    ck_assert_ptr_null(into(y, row, 2));
    expect_error(SN_ERR_VALUE, "aten::index_select: index 9 is out of range for 4 elements");
    expect_same(here(y), sn_zeros(SN_INTS(1, 3), SN_F32));
    sn_tensor *const scaled = scale(wrong_row(x), 3); /* what nobody sees is computed */
    expect_ok();
    ck_assert_ptr_nonnull(scaled);
    ck_assert_int_eq(sn_device_synchronize(GPU), SN_ERR_VALUE);
    expect_error(SN_ERR_VALUE, "index 9 is out of range");
    into(y, sn_narrow(x, 0, 1, 1), 2);
    expect_same(here(y), sn_full(SN_INTS(1, 3), sn_float(2), SN_F32));
}
END_TEST

/* arguments -------------------------------------------------------------------------------------- */

typedef struct GivenLaunch {
    sn_cuda_grid grid;
    sn_value in[6];
    int n;
    sn_kernel **kernel;
} GivenLaunch;
static const sn_op *any_op;
static const GivenLaunch *given;

static sn_status any_cuda(sn_frame *f) {
    GivenLaunch mine = *given;
    sn_tensor *const y = sn_empty_like(sn_contiguous(sn_in(f, 0)));
    for (int i = 0; i < mine.n; i++) { /* a bare tensor: 0 the argument, 1 the result */
        if (mine.in[i].kind != SN_KIND_TENSOR || mine.in[i].tensor) continue;
        mine.in[i].tensor = mine.in[i].n ? y : sn_in(f, 0);
        mine.in[i].n = 0;
    }
    sn_cuda_launch(f, *mine.kernel, &mine.grid, mine.in, mine.n);
    return sn_out(f, 0, y);
}

static const sn_value ARGUMENT = {.kind = SN_KIND_TENSOR}, RESULT = {.kind = SN_KIND_TENSOR, .n = 1};

static sn_tensor *launch(GivenLaunch what, sn_tensor *x) {
    const sn_value in = sn_val(x);
    what.grid.size = sizeof what.grid;
    if (!what.grid.threads[0]) what.grid.threads[0] = 64;
    given = &what;
    return sn_op_call1(any_op, &in, 1);
}

static void make_any(void) {
    any_op = sn_op_register(
        SN_OP_DESC(.schema = "own::any(Tensor x) -> Tensor", .flags = SN_OP_PURE, .meta = like, .cuda = any_cuda));
}

START_TEST(a6_08_inputs_that_are_not_contiguous_are_refused_by_name) {
    make_any();
    sn_tensor *const x = range(12), *const turned = sn_transpose(there(sn_view(x, SN_INTS(3, 4))), 0, 1);
    ck_assert_ptr_null(launch(
        (GivenLaunch){
            .grid.blocks = {1}, .kernel = &scale_kernel, .in = {ARGUMENT, RESULT, sn_int(12), sn_float(1)}, .n = 4},
        turned));
    expect_error(SN_ERR_ARGUMENT, "own::any: kernel 'scale', parameter 'x' is given f32[4,3]{1,4}@cuda:0, which is not "
                                  "contiguous");
    expect_same(here(scale(turned, 2)), scale(sn_transpose(sn_view(x, SN_INTS(3, 4)), 0, 1), 2));
}
END_TEST

/* One that is told the strides takes them as they are. */
START_TEST(a6_08_a_kernel_may_take_strides) {
    make_any();
    int32_t numbers[12];
    for (int i = 0; i < 12; i++) numbers[i] = 7 * i;
    sn_tensor *const x = sn_from_data(numbers, SN_INTS(3, 4), SN_I32), *const turned = sn_transpose(there(x), 0, 1);
    sn_tensor *const got = launch((GivenLaunch){.grid = {.blocks = {4}, .threads = {3}, .strided = true},
                                                .kernel = &turn_kernel,
                                                .in = {ARGUMENT, RESULT, sn_int(4), sn_int(3), sn_bool(true)},
                                                .n = 5},
                                  turned);
    expect_same(here(got), sn_add_scalar(sn_contiguous(sn_transpose(x, 0, 1)), sn_int(1)));
}
END_TEST

START_TEST(a6_08_arguments_are_checked_by_the_kernels_text) {
    make_any();
    const sn_value three = sn_int(3), one = sn_float(1);
    sn_tensor *const cpu = range(3), *const f64 = there(sn_to(range(3), SN_F64));
    const struct {
        GivenLaunch launch;
        sn_status status;
        const char *says;
    } rows[] = {
        {{.in = {ARGUMENT, RESULT, three}, .n = 3}, SN_ERR_ARGUMENT, "'scale' has 4 parameters and is given 3"},
        {{.in = {sn_val(f64), RESULT, three, one}, .n = 4},
         SN_ERR_DTYPE,
         "'x' is 'const float *' and is given a tensor of f64"},
        {{.in = {sn_val(cpu), RESULT, three, one}, .n = 4},
         SN_ERR_DEVICE,
         "'x' is given a tensor on cpu, and the op runs on cuda:0"},
        {{.in = {ARGUMENT, ARGUMENT, three, one}, .n = 4},
         SN_ERR_ARGUMENT,
         "'y' is a pointer that is not const, to argument 'x' of the op"},
        {{.in = {three, RESULT, three, one}, .n = 4}, SN_ERR_ARGUMENT, "'x' is 'const float *' and is given no tensor"},
        {{.in = {ARGUMENT, RESULT, RESULT, one}, .n = 4}, SN_ERR_ARGUMENT, "'n' is 'long long' and is given no number"},
        {{.in = {ARGUMENT, RESULT, one, one}, .n = 4}, SN_ERR_ARGUMENT, "'n' is 'long long' and is given the float 1"},
        {{.grid.threads = {2048}, .in = {ARGUMENT, RESULT, three, one}, .n = 4},
         SN_ERR_ARGUMENT,
         "1 x 1 x 1 blocks of 2048 x 1 x 1 threads"},
        {{.grid.shared_bytes = 1 << 20, .in = {ARGUMENT, RESULT, three, one}, .n = 4},
         SN_ERR_ARGUMENT,
         "1048576 bytes of shared memory"},
        {{.kernel = &turn_kernel, .in = {ARGUMENT, RESULT, sn_int(INT64_C(1) << 31), three, sn_bool(false)}, .n = 5},
         SN_ERR_ARGUMENT,
         "'rows' is 'int', which cannot hold 2147483648"},
        {{.kernel = &turn_kernel, .in = {ARGUMENT, RESULT, three, sn_int(-1), sn_bool(false)}, .n = 5},
         SN_ERR_ARGUMENT,
         "'columns' is 'unsigned', which cannot hold -1"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        GivenLaunch what = rows[i].launch;
        what.grid.blocks[0] = 1;
        if (!what.kernel) what.kernel = &scale_kernel;
        ck_assert_ptr_null(launch(what, there(range(3))));
        expect_error(rows[i].status, rows[i].says);
    }
    sn_tensor *const none = launch((GivenLaunch){.kernel = &scale_kernel, .in = {ARGUMENT, RESULT, three, one}, .n = 4},
                                   there(sn_zeros(SN_INTS(0), SN_F32)));
    expect_same(here(none), sn_zeros(SN_INTS(0), SN_F32)); /* no block */
}
END_TEST

/* kernels ---------------------------------------------------------------------------------------- */

START_TEST(a6_08_what_is_no_kernel_is_told) {
    const struct {
        const char *source, *name, *says;
        sn_status status;
    } rows[] = {
        {"extern \"C\" __global__ void k(float *x) { x[0] = 1; }", "other", "the program has no kernel 'other'",
         SN_ERR_ARGUMENT},
        {"__device__ void k(float *x) { x[0] = 1; }\nextern \"C\" __global__ void l(float *x) { k(x); }", "k",
         "'k' is no extern \"C\" __global__ function", SN_ERR_ARGUMENT},
        {"struct Pair { int a, b; };\nextern \"C\" __global__ void k(Pair p) {}", "k", "parameter 0 of 'k' is 'Pair p'",
         SN_ERR_ARGUMENT},
        {"extern \"C\" __global__ void k(int n, float **x) {}", "k", "parameter 1 of 'k' is 'float **x'",
         SN_ERR_ARGUMENT},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ck_assert_ptr_null(sn_cuda_kernel(rows[i].source, rows[i].name));
        expect_error(rows[i].status, rows[i].says);
    }
    ck_assert_ptr_null(sn_cuda_kernel(NULL, "k"));
    expect_error(SN_ERR_ARGUMENT, "NULL");
    sn_kernel_free(NULL);
}
END_TEST

START_TEST(a6_08_what_does_not_compile_says_why_and_is_kept) {
    char folder[] = "/tmp/sinter-test-XXXXXX", path[64];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    sn_setting_set("dump_dir", folder);
    ck_assert_ptr_null(sn_cuda_kernel("extern \"C\" __global__ void broken(float *x) { x[0] = nothing; }", "broken"));
    snprintf(path, sizeof path, "%s/broken.cu", folder);
    const sn_error *const error = sn_error_take();
    ck_assert_int_eq(error->status, SN_ERR_INTERNAL);
    ck_assert_msg(strstr(error->message, "nothing") && strstr(error->message, path), "%s", error->message);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(rmdir(folder), 0);
    sn_setting_set("dump_dir", "");
    expect_ok();
}
END_TEST

int main(void) {
    if (lacks_compiler()) return skip_without_compiler();
    TCase *const tests = tcase_create("user_kernels");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, make_ops, free_kernels);
    tcase_add_test(tests, a2_05_the_right_kernel_runs);
    tcase_add_test(tests, a2_05_an_op_is_defined_once);
    tcase_add_test(tests, a2_05_mixed_devices_are_both_named);
    tcase_add_test(tests, a6_08_a_kernel_is_ordered_with_the_work_around_it);
    tcase_add_test(tests, a6_08_it_is_a_node_of_graphs);
    tcase_add_test(tests, a6_01_what_it_writes_is_a_result_of_its_node);
    tcase_add_test(tests, a6_01_a_scalar_op_has_the_cpus_bits);
    tcase_add_test(tests, a6_08_numbers_of_the_cpu_are_operands);
    tcase_add_test(tests, a6_08_its_derivative_is_one_of_ops);
    tcase_add_test(tests, a6_08_threads_launch_it_at_once);
    tcase_add_test(tests, a6_08_it_may_use_the_stream_by_itself);
    tcase_add_test(tests, a6_08_what_others_see_is_not_written_after_a_failed_check);
    tcase_add_test(tests, a6_08_inputs_that_are_not_contiguous_are_refused_by_name);
    tcase_add_test(tests, a6_08_a_kernel_may_take_strides);
    tcase_add_test(tests, a6_08_arguments_are_checked_by_the_kernels_text);
    tcase_add_test(tests, a6_08_what_is_no_kernel_is_told);
    tcase_add_test(tests, a6_08_what_does_not_compile_says_why_and_is_kept);
    return suite_run("user_kernels", tests);
}
