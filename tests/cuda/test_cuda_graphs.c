/* test_cuda_graphs.c: the preset reduce-overhead on a CUDA device: a call is one launch of a graph, with the bits of
 * the default preset, whatever changes between calls: where inputs and results lie, numbers, sizes, random streams. */
#include <check.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sinter/sinter.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/emulated_control.h"
#include "tests/unit/explained.h"
#include "tests/unit/public_check.h"
#include "tests/unit/suite.h"

enum { GPU = SN_CUDA(0), WARM = 2 /* calls until a graph is recorded: eager, step by step */ };

static sn_tensor *there(sn_tensor *x) { return sn_to_device(x, GPU); }
static sn_tensor *here(sn_tensor *x) { return sn_to_device(x, SN_CPU); }
static sn_tensor *numbers(sn_ints sizes) { return sn_randn(sizes, SN_F32); }

static void expect_same(sn_tensor *a, sn_tensor *b) {
    expect_ok();
    ck_assert_msg(sn_equal(here(a), here(b)), "%s is not %s", sn_repr(a), sn_repr(b));
}

static sn_function *compile(sn_body body, void *closure, sn_compile_mode mode, sn_preset preset) {
    sn_function *const fn = sn_compile(body, closure, SN_COMPILE_OPTIONS(.mode = mode, .preset = preset, .name = "fn"));
    ck_assert_ptr_nonnull(fn);
    return fn;
}

static sn_function *fast(sn_body body, void *closure) {
    return compile(body, closure, SN_COMPILE_VERIFY, SN_PRESET_REDUCE_OVERHEAD);
}

/* one launch ------------------------------------------------------------------------------------- */

/* Products with and without a nest behind them, a long reduction, a map over a transposed result. */
static sn_status mixed_body(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const w = sn_in(f, 1);
    sn_tensor *const h = sn_gelu(sn_mm(x, w)), *const scores = sn_softmax(sn_mm(h, sn_t(w)), 1);
    sn_out(f, 0, sn_mul(scores, x));
    return sn_out(f, 1, sn_sum_dim(sn_exp(sn_t(h)), SN_INTS(0), false));
}

static void call_both(sn_function *fn, sn_function *twin, sn_tensor *const *in, sn_tensor **out) {
    sn_tensor *want[2];
    ck_assert_int_eq(sn_call(fn, in, 2, out, 2), SN_OK);
    ck_assert_int_eq(sn_call(twin, in, 2, want, 2), SN_OK);
    for (int i = 0; i < 2; i++) expect_same(out[i], want[i]);
}

START_TEST(a5_18_a_call_is_one_launch) {
    static const sn_compile_mode modes[] = {SN_COMPILE_VERIFY, SN_COMPILE_REPLAY};
    for (int m = 0; m < 2; m++) {
        sn_function *const fn = compile(mixed_body, NULL, modes[m], SN_PRESET_REDUCE_OVERHEAD);
        sn_function *const twin = compile(mixed_body, NULL, modes[m], SN_PRESET_DEFAULT);
        const sn_scope scope = sn_scope_begin();
        sn_tensor *out[2], *const w = there(numbers(SN_INTS(20, 33)));
        for (int i = 0; i < 8; i++) {
            sn_tensor *const in[] = {there(numbers(SN_INTS(17, 20))), w};
            const int64_t graphs = only_emulated().graphs;
            call_both(fn, twin, in, out);
            ck_assert_int_eq(only_emulated().graphs - graphs, i >= WARM);
        }
        sn_scope_end(scope);
        expect_explained(fn, "one launch a call, of a recorded graph: 6 times");
        ck_assert_ptr_nonnull(strstr(sn_explain_json(fn), "\"graph_launches\": 6, \"not_one_launch\": \"\""));
        expect_explained(fn, "compiled share 1.0000");
        sn_function_free(fn);
        sn_function_free(twin);
    }
}
END_TEST

/* Each handle that is alive keeps its value; memory of those that are not may come again. */
START_TEST(a5_18_results_are_never_overwritten) {
    enum { CALLS = 12 };
    sn_function *const fn = fast(mixed_body, NULL), *const twin = compile(mixed_body, NULL, SN_COMPILE_VERIFY, 0);
    sn_tensor *kept[CALLS][2], *want[CALLS][2];
    sn_tensor *const w = there(numbers(SN_INTS(20, 33)));
    for (int i = 0; i < CALLS; i++) {
        const sn_scope scope = sn_scope_begin();
        sn_tensor *const in[] = {there(numbers(SN_INTS(17, 20))), w};
        sn_call(fn, in, 2, kept[i], 2);
        sn_call(twin, in, 2, want[i], 2);
        for (int k = 0; k < 2; k++) {
            sn_keep(kept[i][k]), sn_keep(want[i][k]);
            if (i % 3 == 1) sn_release(kept[i - 1][k]);
        }
        sn_scope_end(scope);
    }
    for (int i = 0; i < CALLS; i++) {
        const bool is_kept = i % 3 || i == CALLS - 1;
        for (int k = 0; k < 2; k++) {
            if (is_kept) {
                expect_same(kept[i][k], want[i][k]);
                sn_release(kept[i][k]);
            }
            sn_release(want[i][k]);
        }
    }
    sn_function_free(fn);
    sn_function_free(twin);
}
END_TEST

/* Few long rows, few columns of many rows, and a sum of all: split over blocks that wait for each other. */
static sn_status long_rows_body(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const y = sn_in(f, 1);
    sn_tensor *const a = sn_softmax(x, 1), *const b = sn_sum_dim(sn_mul(y, y), SN_INTS(0), false);
    sn_out(f, 0, sn_add(a, sn_mean_dim(x, SN_INTS(1), true)));
    return sn_out(f, 1, sn_mul(b, sn_amax_ex(sn_sin(y), SN_INTS(0), false)));
}

/* Blocks count themselves for each stream: calls by a graph on one, step by step on another, which nobody waits for. */
START_TEST(a5_18_blocks_of_a_row_count_themselves) {
    enum { STEPS = 6 };
    sn_function *const fn = fast(long_rows_body, NULL);
    sn_function *const eager = compile(long_rows_body, NULL, SN_COMPILE_EAGER, 0);
    sn_function *const plain = compile(long_rows_body, NULL, SN_COMPILE_VERIFY, 0);
    sn_stream *const side = sn_stream_new(GPU);
    const sn_scope scope = sn_scope_begin();
    sn_tensor *got[STEPS][2][2], *want[STEPS][2];
    for (int i = 0; i < STEPS; i++) {
        sn_tensor *const in[] = {numbers(SN_INTS(3, 2500)), numbers(SN_INTS(700, 5))};
        sn_tensor *const gpu[] = {there(in[0]), there(in[1])};
        const int64_t graphs = only_emulated().graphs;
        ck_assert_int_eq(sn_device_synchronize(GPU), SN_OK);
        sn_call(fn, gpu, 2, got[i][0], 2);
        const sn_scope use = sn_scope_begin();
        sn_stream_use(side);
        sn_call(plain, gpu, 2, got[i][1], 2);
        sn_keep(got[i][1][0]), sn_keep(got[i][1][1]);
        sn_scope_end(use);
        sn_call(eager, in, 2, want[i], 2);
        expect_ok();
        ck_assert_int_eq(only_emulated().graphs - graphs, i >= WARM);
    }
    ck_assert_int_eq(sn_device_synchronize(GPU), SN_OK);
    for (int i = 0; i < STEPS; i++)
        for (int k = 0; k < 4; k++) {
            expect_same(got[i][k / 2][k % 2], want[i][k % 2]);
            if (k > 1) sn_release(got[i][1][k % 2]);
        }
    const char *const text = sn_dump(fn, "cuda");
    ck_assert_ptr_nonnull(strstr(text, "wait_for("));
    sn_scope_end(scope);
    sn_function_free(fn);
    sn_function_free(eager);
    sn_function_free(plain);
    sn_stream_free(side);
}
END_TEST

/* training --------------------------------------------------------------------------------------- */

typedef struct Net {
    sn_tensor *w, *v;
} Net;

static void net_make(Net *net, sn_device device) {
    sn_seed(7);
    net->w = sn_requires_grad_(sn_keep(sn_to_device(numbers(SN_INTS(12, 9)), device)), true);
    net->v = sn_requires_grad_(sn_keep(sn_to_device(numbers(SN_INTS(9)), device)), true);
}

static void nets_release(Net *nets) {
    for (int i = 0; i < 2; i++) sn_release(nets[i].w), sn_release(nets[i].v);
}

static sn_tensor *loss_of(const Net *net, sn_tensor *x) {
    sn_tensor *const h = sn_dropout(sn_tanh(sn_linear(x, net->w, NULL)), 0.25, true);
    return sn_mean(sn_mul(h, sn_sum_dim(h, SN_INTS(0), false)));
}

/* A whole step: forward with a random mask, backward, parameters in place. */
static sn_status step_body(sn_frame *f) {
    const Net *const net = sn_closure(f);
    sn_tensor *const loss = loss_of(net, sn_mul(sn_in(f, 0), net->v));
    sn_backward(loss);
    const sn_scope scope = sn_no_grad_begin();
    sn_sub_(net->w, sn_mul_scalar(sn_grad(net->w), sn_float(0.1)));
    sn_sub_(net->v, sn_mul_scalar(sn_grad(net->v), sn_float(0.1)));
    sn_scope_end(scope);
    sn_grad_set(net->w, NULL);
    sn_grad_set(net->v, NULL);
    return sn_out(f, 0, sn_detach(loss));
}

static void train(sn_function *fn, sn_device device, float *losses, int n) {
    sn_seed(11);
    for (int i = 0; i < n; i++) {
        const sn_scope scope = sn_scope_begin();
        sn_tensor *const x = numbers(SN_INTS(6, 9));
        const int64_t graphs = only_emulated().graphs;
        sn_read(SN_CALL(fn, sn_to_device(x, device)), &losses[i], sizeof *losses);
        expect_ok();
        if (device != SN_CPU) ck_assert_int_eq(only_emulated().graphs - graphs, i >= WARM);
        sn_scope_end(scope);
    }
}

START_TEST(a5_18_a_training_step_is_one_launch_with_the_cpus_bits) {
    enum { STEPS = 8 };
    float cpu[STEPS], gpu[STEPS];
    Net nets[2];
    net_make(&nets[0], SN_CPU), net_make(&nets[1], GPU);
    sn_function *const eager = compile(step_body, &nets[0], SN_COMPILE_EAGER, 0), *const fn = fast(step_body, &nets[1]);
    train(eager, SN_CPU, cpu, STEPS);
    train(fn, GPU, gpu, STEPS);
    ck_assert_mem_eq(cpu, gpu, sizeof cpu);
    expect_same(nets[1].w, nets[0].w);
    expect_same(nets[1].v, nets[0].v);
    sn_function_free(eager);
    sn_function_free(fn);
    nets_release(nets);
}
END_TEST

static sn_status forward_body(sn_frame *f) {
    return sn_out(f, 0, loss_of(sn_closure(f), sn_mul(sn_in(f, 0), ((const Net *)sn_closure(f))->v)));
}

START_TEST(a5_18_forward_and_backward_are_one_launch_each) {
    Net nets[2];
    net_make(&nets[0], SN_CPU), net_make(&nets[1], GPU);
    sn_function *const eager = compile(forward_body, &nets[0], SN_COMPILE_EAGER, 0);
    sn_function *const fn = fast(forward_body, &nets[1]);
    for (int i = 0; i < 6; i++) {
        const sn_scope scope = sn_scope_begin();
        sn_tensor *const x = numbers(SN_INTS(6, 9));
        sn_seed(100 + (uint64_t)i);
        sn_backward(SN_CALL(eager, x));
        sn_seed(100 + (uint64_t)i);
        const int64_t graphs = only_emulated().graphs;
        sn_backward(SN_CALL(fn, there(x)));
        expect_ok();
        ck_assert_int_eq(only_emulated().graphs - graphs, i >= WARM ? 2 : 0);
        for (int k = 0; k < 2; k++) {
            expect_same(sn_grad(k ? nets[1].v : nets[1].w), sn_grad(k ? nets[0].v : nets[0].w));
            sn_grad_set(k ? nets[1].v : nets[1].w, NULL);
            sn_grad_set(k ? nets[0].v : nets[0].w, NULL);
        }
        sn_scope_end(scope);
    }
    sn_function_free(eager);
    sn_function_free(fn);
    nets_release(nets);
}
END_TEST

/* what changes ----------------------------------------------------------------------------------- */

static sn_status numbers_body(sn_frame *f) {
    const sn_value by = sn_in_value(f, 2);
    return sn_out(f, 0, sn_mul(sn_mul_scalar(sn_in(f, 0), by), sn_add(sn_in(f, 1), sn_in(f, 1))));
}

/* A number of the call, and a 0-dim tensor of the CPU. */
START_TEST(a5_18_numbers_are_given_to_the_graph) {
    sn_function *const fn = fast(numbers_body, NULL);
    int64_t before = 0;
    for (int i = 0; i < 9; i++) {
        const sn_scope scope = sn_scope_begin();
        sn_tensor *const x = numbers(SN_INTS(40)), *const scale = sn_full(SN_INTS(), sn_float(3.5 * i), SN_F32);
        const sn_value in[] = {sn_val(there(x)), sn_val(scale), sn_float(0.5 + i)};
        sn_tensor *y;
        before = only_emulated().graphs;
        ck_assert_int_eq(sn_call_values(fn, in, 3, &y, 1), SN_OK);
        expect_same(y, sn_mul(sn_mul_scalar(x, in[2]), sn_add(scale, scale)));
        before = only_emulated().graphs - before;
        sn_scope_end(scope);
    }
    ck_assert_int_eq(before, 1);
    sn_function_free(fn);
}
END_TEST

static sn_status rows_body(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const n = sn_layer_norm(x, SN_INTS(24), NULL, NULL);
    return sn_out(f, 0, sn_add(sn_mm(n, sn_in(f, 1)), sn_in(f, 2)));
}

START_TEST(a5_18_sizes_may_change) {
    static const int rows[] = {5, 9, 9, 9, 130, 9, 70, 70, 1, 70, 300};
    sn_function *const fn = fast(rows_body, NULL);
    sn_tensor *const w = numbers(SN_INTS(24, 16)), *const b = numbers(SN_INTS(16));
    sn_tensor *const far_w = there(w), *const far_b = there(b);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const sn_scope scope = sn_scope_begin();
        sn_tensor *const x = numbers(SN_INTS(rows[i], 24));
        sn_tensor *const want = sn_add(sn_mm(sn_layer_norm(x, SN_INTS(24), NULL, NULL), w), b);
        expect_same(SN_CALL(fn, there(x), far_w, far_b), want);
        sn_scope_end(scope);
    }
    expect_explained(fn, "one launch a call");
    sn_function_free(fn);
}
END_TEST

/* checks ----------------------------------------------------------------------------------------- */

static sn_status gather_body(sn_frame *f) {
    sn_add_(sn_in(f, 0), sn_index_select(sn_in(f, 1), 0, sn_in(f, 2)));
    return sn_out(f, 0, sn_exp(sn_in(f, 0)));
}

static sn_tensor *places(int64_t a, int64_t b) {
    const int64_t at[] = {a, b};
    return there(sn_from_data(at, SN_INTS(2), SN_I64));
}

START_TEST(a5_18_a_failed_check_is_told_and_writes_nothing) {
    sn_function *const fn = fast(gather_body, NULL);
    sn_tensor *const x = numbers(SN_INTS(4, 3)), *const far = there(x),
                     *const sum = there(sn_zeros(SN_INTS(2, 3), SN_F32));
    sn_tensor *const want = sn_zeros(SN_INTS(2, 3), SN_F32);
    for (int i = 0; i < 6; i++) {
        ck_assert_ptr_nonnull(SN_CALL(fn, sum, far, places(i % 4, 3)));
        sn_add_(want, here(sn_index_select(far, 0, places(i % 4, 3))));
        expect_same(sum, want);
    }
    for (int i = 0; i < 3; i++) {
        sn_tensor *const wrong = places(1, 7), *const right = places(1, 2);
        SN_CALL(fn, sum, far, wrong);
        SN_CALL(fn, sum, far, right); /* what comes behind it commits nothing either */
        expect_ok();
        ck_assert_int_eq(sn_device_synchronize(GPU), SN_ERR_VALUE);
        expect_error(SN_ERR_VALUE, "aten::index_select: index 7 is out of range for 4 elements");
        expect_same(sum, want);
    }
    SN_CALL(fn, sum, far, places(0, 0));
    sn_add_(want, here(sn_index_select(far, 0, places(0, 0))));
    expect_same(sum, want);
    sn_function_free(fn);
    expect_ok();
}
END_TEST

/* falling back ----------------------------------------------------------------------------------- */

static sn_status own_cuda(sn_frame *f) { return sn_out(f, 0, sn_exp(sn_in(f, 0))); }
static sn_status own_like(sn_frame *f) { return sn_out(f, 0, sn_empty_like(sn_in(f, 0))); }
static sn_status own_body(sn_frame *f) {
    const sn_value x = sn_val(sn_add(sn_in(f, 0), sn_in(f, 0)));
    return sn_out(f, 0, sn_mul(sn_op_call1(sn_closure(f), &x, 1), sn_in(f, 0)));
}
static sn_status away_body(sn_frame *f) { return sn_out(f, 0, sn_exp(sn_to_device(sn_exp(sn_in(f, 0)), SN_CUDA(1)))); }
static sn_status home_body(sn_frame *f) { return sn_out(f, 0, sn_exp(sn_to_device(sn_exp(sn_in(f, 0)), SN_CPU))); }
static sn_status plain_body(sn_frame *f) { return sn_out(f, 0, sn_exp(sn_exp(sn_in(f, 0)))); }

static void falls_back(sn_body body, void *closure, sn_device device, const char *why) {
    sn_function *const fn = fast(body, closure), *const twin = compile(body, closure, SN_COMPILE_EAGER, 0);
    for (int i = 0; i < 4; i++) {
        sn_tensor *const x = sn_to_device(range(5), device);
        expect_same(SN_CALL(fn, x), SN_CALL(twin, x));
    }
    expect_explained(fn, why);
    ck_assert_int_eq(only_emulated().graphs, 0);
    sn_function_free(fn);
    sn_function_free(twin);
}

START_TEST(a5_18_what_cannot_be_one_launch_says_why) {
    const sn_op *const op = sn_op_register(
        SN_OP_DESC(.schema = "own::exp(Tensor x) -> Tensor", .flags = SN_OP_PURE, .meta = own_like, .cuda = own_cuda));
    falls_back(own_body, (void *)(uintptr_t)op, GPU,
               "preset reduce-overhead changes nothing: own::exp is an op of the program, whose body runs on the host");
    falls_back(away_body, NULL, GPU, "changes nothing: a tensor is copied from cuda:0 to cuda:1");
    falls_back(home_body, NULL, GPU, "changes nothing: a value is copied to the host");
    falls_back(plain_body, NULL, SN_CPU, "one launch a call, in memory that stays");
}
END_TEST

/* A driver that does not capture. */
START_TEST(a5_18_what_cannot_be_recorded_runs_step_by_step) {
    EmulatorFail *refuse;
    *(void **)&refuse = dlsym(dlopen(getenv("SINTER_CUDA_DRIVER"), RTLD_NOW), "emulator_fail");
    static const char *const functions[] = {"StreamBeginCapture", "LaunchKernel", "StreamGetCaptureInfo",
                                            "GraphGetNodes", "GraphInstantiateWithFlags"};
    for (int k = 0; k < (int)(sizeof functions / sizeof *functions); k++) {
        sn_function *const fn = fast(plain_body, NULL);
        for (int i = 0; i < 5; i++) {
            sn_tensor *const x = range(5), *const far = there(x);
            if (i == WARM || i == WARM + 1) refuse(functions[k], 1 /* CUDA_ERROR_INVALID_VALUE */, 0);
            expect_same(SN_CALL(fn, far), sn_exp(sn_exp(x)));
        }
        expect_explained(fn, "changes nothing: recording it failed: cuda:0: ");
        refuse(functions[k], 0, 0);
        sn_function_free(fn);
        ck_assert_msg(!emulated().held_graphs, "%s: a graph is left", functions[k]);
    }
}
END_TEST

START_TEST(a5_18_presets_are_checked) {
    ck_assert_ptr_null(sn_compile(plain_body, NULL, SN_COMPILE_OPTIONS(.preset = (sn_preset)9)));
    expect_error(SN_ERR_ARGUMENT, "preset has no value 9");
}
END_TEST

/* threads ---------------------------------------------------------------------------------------- */

static void *calls(void *fn) {
    for (int i = 0; i < 10; i++) {
        const sn_scope scope = sn_scope_begin();
        sn_tensor *const x = numbers(SN_INTS(17, 20)), *const w = numbers(SN_INTS(20, 33));
        sn_tensor *const in[] = {there(x), there(w)};
        sn_tensor *out[2] = {0};
        ck_assert_int_eq(sn_call(fn, in, 2, out, 2), SN_OK);
        sn_tensor *const h = sn_gelu(sn_mm(x, w));
        expect_same(out[0], sn_mul(sn_softmax(sn_mm(h, sn_t(w)), 1), x));
        expect_same(out[1], sn_sum_dim(sn_exp(sn_t(h)), SN_INTS(0), false));
        sn_scope_end(scope);
    }
    return NULL;
}

START_TEST(a5_18_threads_share_a_graph) {
    sn_function *const fn = fast(mixed_body, NULL);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, calls, fn);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    sn_function_free(fn);
}
END_TEST

/* Its launches are ordered whatever stream they are in, and each stream has a word of its own for failed checks. */
START_TEST(a5_18_a_graph_runs_in_any_stream) {
    sn_function *const fn = fast(gather_body, NULL);
    sn_stream *const streams[] = {sn_stream_new(GPU), sn_stream_new(GPU)};
    sn_tensor *const x = numbers(SN_INTS(4, 3));
    for (int i = 0; i < 12; i++) {
        const sn_scope scope = sn_scope_begin();
        sn_stream_use(streams[i / 2 % 2]);
        const int64_t graphs = only_emulated().graphs;
        sn_tensor *const sum = there(sn_zeros(SN_INTS(2, 3), SN_F32)), *const far = there(x);
        sn_tensor *const at = places(i % 4, i % 5 == 4 ? 9 : 3), *const y = SN_CALL(fn, sum, far, at);
        ck_assert_int_eq(only_emulated().graphs - graphs, i >= WARM);
        if (i % 5 == 4) {
            ck_assert_ptr_null(here(y));
            expect_error(SN_ERR_VALUE, "index 9 is out of range");
            expect_same(sum, sn_zeros(SN_INTS(2, 3), SN_F32));
        } else
            expect_same(y, sn_exp(here(sn_index_select(far, 0, at))));
        sn_scope_end(scope);
    }
    expect_explained(fn, "one launch a call, of a recorded graph: 10 times");
    sn_function_free(fn);
}
END_TEST

/* What a graph holds goes with its function. */
START_TEST(a5_18_a_graph_keeps_its_memory_while_it_lives) {
    const int64_t before = only_emulated().bytes;
    sn_function *const fn = fast(mixed_body, NULL);
    int64_t warm = 0;
    for (int i = 0; i < 6; i++) {
        const sn_scope scope = sn_scope_begin();
        sn_tensor *const in[] = {there(numbers(SN_INTS(17, 20))), there(numbers(SN_INTS(20, 33)))};
        sn_tensor *out[2];
        ck_assert_int_eq(sn_call(fn, in, 2, out, 2), SN_OK);
        ck_assert_int_eq(sn_device_synchronize(GPU), SN_OK);
        sn_scope_end(scope);
        if (i == WARM) warm = only_emulated().bytes;
        if (i > WARM) ck_assert_int_eq(only_emulated().bytes, warm);
    }
    sn_function_free(fn);
    sn_memory_trim(GPU);
    sn_error_take();                                        /* where nothing is kept there is nothing to trim */
    ck_assert_int_le(only_emulated().bytes, before + 4096); /* words of streams */
}
END_TEST

/* the MLP ---------------------------------------------------------------------------------------- */

static sn_status mlp_body(sn_frame *f) {
    sn_tensor *const *const w = sn_closure(f);
    return sn_out(f, 0, sn_linear(sn_gelu(sn_linear(sn_in(f, 0), w[0], w[1])), w[2], w[3]));
}

static sn_tensor *weights(sn_ints sizes) {
    return sn_keep(there(sn_to(sn_mul_scalar(numbers(sizes), sn_float(0.1)), SN_BF16)));
}

static void run_mlp(int64_t outer, int64_t inner, int times) {
    sn_tensor *const w[4] = {weights(SN_INTS(inner, outer)), weights(SN_INTS(inner)), weights(SN_INTS(outer, inner)),
                             weights(SN_INTS(outer))};
    sn_function *const fn = compile(mlp_body, (void *)(uintptr_t)w, SN_COMPILE_REPLAY, SN_PRESET_REDUCE_OVERHEAD);
    sn_function *const eager = compile(mlp_body, (void *)(uintptr_t)w, SN_COMPILE_EAGER, 0);
    sn_tensor *x = weights(SN_INTS(1, outer));
    for (int i = 0; i < times; i++) {
        const sn_scope scope = sn_scope_begin();
        const EmulatorCounts before = only_emulated();
        sn_tensor *const y = sn_keep(SN_CALL(fn, x));
        const EmulatorCounts after = only_emulated();
        if (i >= WARM) ck_assert_int_eq(after.graphs - before.graphs, 1);
        if (i >= WARM && i % 100 == 2) expect_same(y, SN_CALL(eager, x));
        sn_release(x);
        x = y; /* the next input lies where this result does */
        if (i % 50 == 49) sn_device_synchronize(GPU);
        sn_scope_end(scope);
    }
    expect_same(SN_CALL(fn, x), SN_CALL(eager, x));
    sn_function_free(fn);
    sn_function_free(eager);
    sn_release(x);
    for (int i = 0; i < 4; i++) sn_release(w[i]);
}

START_TEST(a5_19_a_small_mlp_runs_a_thousand_times) { run_mlp(32, 64, 1000); }
END_TEST

START_TEST(a5_19_the_mlp_of_the_line_runs) { run_mlp(1024, 4096, WARM + 2); }
END_TEST

int main(void) {
    if (lacks_compiler()) return skip_without_compiler();
    TCase *const tests = tcase_create("cuda_graphs");
    tcase_set_timeout(tests, 300);
    tcase_add_test(tests, a5_18_a_call_is_one_launch);
    tcase_add_test(tests, a5_18_results_are_never_overwritten);
    tcase_add_test(tests, a5_18_blocks_of_a_row_count_themselves);
    tcase_add_test(tests, a5_18_a_training_step_is_one_launch_with_the_cpus_bits);
    tcase_add_test(tests, a5_18_forward_and_backward_are_one_launch_each);
    tcase_add_test(tests, a5_18_numbers_are_given_to_the_graph);
    tcase_add_test(tests, a5_18_sizes_may_change);
    tcase_add_test(tests, a5_18_a_failed_check_is_told_and_writes_nothing);
    tcase_add_test(tests, a5_18_what_cannot_be_one_launch_says_why);
    tcase_add_test(tests, a5_18_what_cannot_be_recorded_runs_step_by_step);
    tcase_add_test(tests, a5_18_presets_are_checked);
    tcase_add_test(tests, a5_18_threads_share_a_graph);
    tcase_add_test(tests, a5_18_a_graph_runs_in_any_stream);
    tcase_add_test(tests, a5_18_a_graph_keeps_its_memory_while_it_lives);
    tcase_add_test(tests, a5_19_a_small_mlp_runs_a_thousand_times);
    tcase_add_test(tests, a5_19_the_mlp_of_the_line_runs);
    return suite_run("cuda_graphs", tests);
}
