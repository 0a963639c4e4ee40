/* test_cuda_kernels.c: what a compiled function is on a CUDA device: the text of its kernels, and how often a call
 * launches something there: as often as the CPU's has kernels. */
#include <check.h>
#include <dlfcn.h>
#include <sinter/sinter.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/emulated_control.h"
#include "tests/unit/public_check.h"
#include "tests/unit/suite.h"

enum { GPU = SN_CUDA(0), CALLS = 4 };

static sn_tensor *numbers(sn_ints sizes) { return sn_randn(sizes, SN_F32); }

static int64_t launches(void) {
    ck_assert_int_eq(sn_device_synchronize(GPU), SN_OK);
    return only_emulated().launches;
}

/* A function and its twin, which runs eagerly on the CPU. */
typedef struct Net {
    sn_device device;
    sn_dict *params;
    sn_tensor *w, *b, *r, *v, *c;
    sn_optim *optim;
    sn_function *fn;
    bool no_result;
} Net;

/* The same numbers on any device. */
static sn_tensor *given(const Net *net, uint64_t seed, sn_ints sizes) {
    sn_seed(seed);
    return sn_to_device(numbers(sizes), net->device);
}

/* Inputs and gradients of call i; how many inputs. */
typedef int Prepare(Net *net, int i, sn_tensor **in);

static sn_tensor *call(Net *net, Prepare *prepare, int i, int64_t *launched) {
    sn_tensor *in[2], *out = NULL;
    const int n = prepare(net, i, in);
    const int64_t before = launches();
    sn_seed((uint64_t)i); /* of what the body draws */
    ck_assert_msg(sn_call(net->fn, in, n, &out, !net->no_result) == SN_OK, "%s", sn_error_take()->message);
    *launched = launches() - before;
    return net->no_result ? NULL : sn_to_device(out, SN_CPU);
}

/* Launches of a compiled call, whose results have the CPU's bits. nets[0] is the CPU's, nets[1] the GPU's. */
static int64_t launches_of(sn_body body, Net *nets, Prepare *prepare) {
    int64_t launched = 0;
    for (int k = 0; k < 2; k++)
        nets[k].fn = sn_compile(
            body, &nets[k],
            SN_COMPILE_OPTIONS(.full_graph = true, .name = "fn", .mode = k ? SN_COMPILE_VERIFY : SN_COMPILE_EAGER));
    for (int i = 0; i < CALLS; i++) {
        const sn_scope scope = sn_scope_begin();
        sn_tensor *const want = call(&nets[0], prepare, i, &launched);
        sn_tensor *const got = call(&nets[1], prepare, i, &launched);
        if (want) ck_assert_msg(sn_equal(got, want), "%s is not %s", sn_repr(got), sn_repr(want));
        sn_scope_end(scope);
    }
    ck_assert_ptr_nonnull(strstr(sn_explain(nets[1].fn), "compiled share 1.0000"));
    return launched;
}

static void nets_free(Net *nets) {
    for (int k = 0; k < 2; k++) {
        sn_function_free(nets[k].fn);
        sn_optim_free(nets[k].optim);
        sn_dict_free(nets[k].params);
    }
}

#define NETS                                                                                                           \
    {                                                                                                                  \
        {.device = SN_CPU}, { .device = GPU }                                                                          \
    }

static int count(const char *text, const char *word) {
    int n = 0;
    for (const char *at = strstr(text, word); at; at = strstr(at + 1, word)) n++;
    return n;
}

/* text ------------------------------------------------------------------------------------------ */

static sn_status multiply_add(sn_frame *f) {
    return sn_out(f, 0, sn_add(sn_mul_scalar(sn_in(f, 0), sn_float(2)), sn_in(f, 1)));
}

static int two_matrices(Net *net, int i, sn_tensor **in) {
    for (int k = 0; k < 2; k++) in[k] = given(net, (uint64_t)(10 * i + k), SN_INTS(64, 33));
    return 2;
}

START_TEST(a5_15_an_input_is_loaded_once_and_a_result_stored_once) {
    Net nets[2] = NETS;
    ck_assert_int_eq(launches_of(multiply_add, nets, two_matrices), 1);
    const char *const text = sn_dump(nets[1].fn, "cuda");
    expect_ok();
    ck_assert_msg(count(text, "KERNEL ") == 1, "%s", text);
    ck_assert_int_eq(count(text, "load_four(b0"), 1);
    ck_assert_int_eq(count(text, "load_four(b1"), 1);
    ck_assert_int_eq(count(text, "store_four(b2"), 1);
    ck_assert_int_eq(count(text, "load_") + count(text, "get_"), 2);
    ck_assert_int_eq(count(text, "store_") + count(text, "put_"), 1);
    nets_free(nets);
}
END_TEST

/* launches -------------------------------------------------------------------------------------- */

static sn_status norm_block(sn_frame *f) {
    const Net *const net = sn_closure(f);
    sn_tensor *const h = sn_add(sn_gelu(sn_add(sn_in(f, 0), net->b)), net->r);
    return sn_out(f, 0, sn_layer_norm(h, SN_INTS(48), net->w, net->b));
}

static int one_matrix(Net *net, int i, sn_tensor **in) {
    in[0] = given(net, (uint64_t)i, SN_INTS(20, 48));
    return 1;
}

START_TEST(a5_15_layer_norm_of_gelu_and_residual_is_1_launch) {
    Net nets[2] = NETS;
    for (int k = 0; k < 2; k++) {
        nets[k].w = given(&nets[k], 1, SN_INTS(48)), nets[k].b = given(&nets[k], 2, SN_INTS(48));
        nets[k].r = given(&nets[k], 3, SN_INTS(20, 48));
    }
    ck_assert_int_eq(launches_of(norm_block, nets, one_matrix), 1);
    nets_free(nets);
}
END_TEST

static sn_status softmax(sn_frame *f) { return sn_out(f, 0, sn_softmax(sn_in(f, 0), -1)); }

START_TEST(a5_15_softmax_is_1_launch) {
    Net nets[2] = NETS;
    ck_assert_int_eq(launches_of(softmax, nets, one_matrix), 1);
    nets_free(nets);
}
END_TEST

/* 20 tensors ----------------------------------------------------------------------------------------- */

enum { TENSORS = 20 };

static sn_status optimize(sn_frame *f) { return sn_optim_step(((const Net *)sn_closure(f))->optim); }

static const char *param_name(int i) {
    static char name[16];
    snprintf(name, sizeof name, "p%d", i);
    return name;
}

static sn_ints sizes_of(int i, int64_t *buffer) {
    buffer[0] = 3 + i % 5, buffer[1] = 8 + i;
    return (sn_ints){buffer, 2};
}

static int set_gradients(Net *net, int call, sn_tensor **in) {
    int64_t buffer[2];
    for (int i = 0; i < TENSORS; i++)
        sn_grad_set(sn_dict_get(net->params, param_name(i)),
                    given(net, (uint64_t)(100 * call + i), sizes_of(i, buffer)));
    (void)in;
    return 0;
}

START_TEST(a5_15_adamw_over_20_tensors_is_1_launch) {
    Net nets[2] = NETS;
    int64_t buffer[2];
    for (int k = 0; k < 2; k++) {
        nets[k].params = sn_dict_new();
        for (int i = 0; i < TENSORS; i++)
            sn_param(nets[k].params, param_name(i), given(&nets[k], (uint64_t)i, sizes_of(i, buffer)));
        nets[k].optim = sn_adamw(nets[k].params, 1e-2, 0.1), nets[k].no_result = true;
    }
    ck_assert_int_eq(launches_of(optimize, nets, set_gradients), 1);
    for (int i = 0; i < TENSORS; i++) {
        sn_tensor *const got = sn_to_device(sn_dict_get(nets[1].params, param_name(i)), SN_CPU);
        ck_assert_msg(sn_equal(got, sn_dict_get(nets[0].params, param_name(i))), "tensor %d", i);
    }
    const char *const text = sn_dump(nets[1].fn, "cuda");
    ck_assert_ptr_nonnull(
        strstr(text, "_n0, 20> n0,\n    int32_t launch")); /* one text for all, and one of the host's */
    ck_assert_int_eq(count(text, "KERNEL "), 2);
    ck_assert_int_eq(count(text, "struct "), 1);
    nets_free(nets);
}
END_TEST

/* a step ------------------------------------------------------------------------------------------- */

enum { BATCH = 64, CLASSES = 10 };

/* That of samples/digits.c. */
static sn_status train_step(sn_frame *f) {
    const Net *const net = sn_closure(f);
    sn_tensor *const h = sn_relu(sn_linear(sn_in(f, 0), net->w, net->b));
    sn_tensor *const logits = sn_linear(sn_dropout(h, 0.2, true), net->v, net->c);
    sn_tensor *const loss = sn_cross_entropy(logits, sn_in(f, 1));
    sn_optim_zero_grad(net->optim);
    sn_backward(loss);
    sn_optim_step(net->optim);
    return sn_out(f, 0, loss);
}

static int digits(Net *net, int call, sn_tensor **in) {
    int64_t labels[BATCH];
    for (int i = 0; i < BATCH; i++) labels[i] = (7 * i + call) % CLASSES;
    in[0] = given(net, (uint64_t)call, SN_INTS(BATCH, 64));
    in[1] = sn_to_device(sn_from_data(labels, SN_INTS(BATCH), SN_I64), net->device);
    return 2;
}

/* As many kernels as on the CPU, of which one is the host's (AdamW's numbers), and five are a product with a nest over
 * it, the weights' steps among them: two launches, as a product's code is shared. */
START_TEST(a5_15_a_training_step_of_digits_is_10_kernels) {
    Net nets[2] = NETS;
    for (int k = 0; k < 2; k++) {
        Net *const net = &nets[k];
        net->params = sn_dict_new();
        net->w = sn_param(net->params, "w", given(net, 1, SN_INTS(128, 64)));
        net->b = sn_param(net->params, "b", given(net, 2, SN_INTS(128)));
        net->v = sn_param(net->params, "v", given(net, 3, SN_INTS(CLASSES, 128)));
        net->c = sn_param(net->params, "c", given(net, 4, SN_INTS(CLASSES)));
        net->optim = sn_adamw(net->params, 1e-3, 0.01);
    }
    ck_assert_int_eq(launches_of(train_step, nets, digits), 9 + 5);
    ck_assert_int_eq(count(sn_dump(nets[1].fn, "loops"), "\nkernel "), 10);
    nets_free(nets);
}
END_TEST

/* Words that do not fit one launch. */
static sn_status join_many(sn_frame *f) {
    sn_tensor *parts[600];
    for (int i = 0; i < 600; i++) parts[i] = sn_narrow(sn_in(f, 0), 0, (7 * i) % 100, 1 + i % 3);
    return sn_out(f, 0, sn_cat((sn_tensors){parts, 600}, 0));
}

static int long_vector(Net *net, int i, sn_tensor **in) {
    in[0] = given(net, (uint64_t)i, SN_INTS(110));
    return 1;
}

START_TEST(a_kernel_of_many_nests_is_as_few_launches_as_its_words_allow) {
    Net nets[2] = NETS;
    const int64_t n = launches_of(join_many, nets, long_vector);
    ck_assert_int_eq(n, 5);
    nets_free(nets);
}
END_TEST

int main(void) {
    if (lacks_compiler()) return skip_without_compiler();
    TCase *const tests = tcase_create("cuda_kernels");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, a5_15_an_input_is_loaded_once_and_a_result_stored_once);
    tcase_add_test(tests, a5_15_layer_norm_of_gelu_and_residual_is_1_launch);
    tcase_add_test(tests, a5_15_softmax_is_1_launch);
    tcase_add_test(tests, a5_15_adamw_over_20_tensors_is_1_launch);
    tcase_add_test(tests, a5_15_a_training_step_of_digits_is_10_kernels);
    tcase_add_test(tests, a_kernel_of_many_nests_is_as_few_launches_as_its_words_allow);
    return suite_run("cuda_kernels", tests);
}
