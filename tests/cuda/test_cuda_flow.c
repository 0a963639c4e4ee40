/* test_cuda_flow.c: control flow on a CUDA device, eager and compiled [5.06, semantics T1-T3]: a compiled function with
 * it is one graph, whose step the host goes through; its gradients too. On the emulated device bits are the CPU's. */
#include <sinter/sinter.h>

#include "tests/cuda/emulated_control.h"
#include "tests/unit/contract.h"
#include "tests/unit/suite.h"

enum { GPU = SN_CUDA(0), WIDE = 4, LENGTH = 3 };

typedef struct Net {
    sn_tensor *w;
    sn_body body;
    bool trained;
} Net;

static sn_status grow(sn_frame *f) { return sn_out(f, 0, sn_exp(sn_in(f, 0))); }
static sn_status shrink(sn_frame *f) { return sn_out(f, 0, sn_mul(sn_in(f, 0), ((Net *)sn_closure(f))->w)); }

static sn_tensor *either(Net *net, sn_tensor *x) {
    sn_tensor *y = NULL;
    sn_cond(sn_gt_scalar(sn_sum(x), sn_float(0)), grow, shrink, net, NULL, SN_TENSORS(x), &y, 1);
    return y;
}

static sn_status cell(sn_frame *f) {
    sn_tensor *const a = sn_add(sn_mul(sn_in(f, 0), ((Net *)sn_closure(f))->w), sn_in(f, 1));
    sn_tensor *const next = sn_tanh(sn_add(a, either(sn_closure(f), sn_in(f, 1))));
    sn_out(f, 0, next);
    return sn_out(f, 1, sn_mul(next, sn_rand_like(next)));
}

/* A number and a predicate of the CPU's. */
static sn_status scaled(sn_frame *f) {
    sn_tensor *const by = sn_in(f, 1), *const y = sn_mul(sn_in(f, 0), ((Net *)sn_closure(f))->w);
    return sn_out(f, 0, sn_mul(y, by));
}

static sn_status mixed_body(sn_frame *f) {
    Net *const net = sn_closure(f);
    sn_tensor *y = NULL, *const by = sn_full(SN_INTS(), sn_float(1.5), SN_F32);
    sn_tensor *const taken = sn_gt_scalar(by, sn_float(1));
    sn_cond(taken, scaled, scaled, net, NULL, SN_TENSORS(sn_in(f, 0), by), &y, 1);
    return sn_out(f, 0, sn_sum(y));
}

static sn_status few(sn_frame *f) { return sn_out(f, 0, sn_lt_scalar(sn_sum(sn_in(f, 0)), sn_float(50))); }
static sn_status more(sn_frame *f) { return sn_out(f, 0, sn_add_scalar(sn_abs(sn_in(f, 0)), sn_float(1))); }

static sn_status scan_body(sn_frame *f) {
    sn_tensor *out[2] = {NULL}, *const x = sn_in(f, 0);
    sn_scan(cell, sn_closure(f), NULL, SN_TENSORS(sn_select(x, 0, 0), x), out, 2);
    return sn_out(f, 0, sn_add(sn_sum(out[0]), sn_sum(out[1])));
}

static sn_status while_body(sn_frame *f) {
    sn_tensor *y = NULL;
    sn_while_loop(few, more, NULL, SN_WHILE_OPTIONS(.max_iterations = 99), SN_TENSORS(sn_in(f, 0)), &y, 1);
    return sn_out(f, 0, sn_sum(y));
}

typedef struct Ran {
    sn_tensor *y, *of_x, *of_w;
} Ran;

/* The sign of x's sum says which branch is taken. */
static Ran run(sn_function *fn, Net *net, sn_device device, int call) {
    sn_tensor *const values = sn_abs(F32(7 + call, LENGTH, WIDE)), *x = call & 1 ? values : sn_neg(values);
    x = sn_requires_grad_(sn_to_device(x, device), net->trained);
    sn_grad_set(net->w, NULL);
    sn_seed(call);
    sn_tensor *const y = SN_CALL(fn, x);
    ck_assert_msg(y && (!net->trained || sn_backward(y) == SN_OK), "%s", sn_error_take()->message);
    const Ran ran = {sn_to_device(y, SN_CPU), sn_grad(x), sn_grad(net->w)};
    if (!net->trained) return ran;
    return (Ran){ran.y, sn_to_device(ran.of_x, SN_CPU), sn_to_device(ran.of_w, SN_CPU)};
}

static void same_runs(const Ran *a, const Ran *b) {
    ck_assert(same_bits(a->y, b->y) && same_bits(a->of_x, b->of_x) && same_bits(a->of_w, b->of_w));
}

/* On the CPU, on the device eagerly, compiled. */
static void compare(sn_body body, bool trained) {
    Net nets[3];
    sn_function *fns[3];
    for (int i = 0; i < 3; i++) {
        sn_tensor *const w = sn_to_device(F32(1, WIDE), i ? GPU : SN_CPU);
        nets[i] = (Net){sn_requires_grad_(w, trained), body, trained};
        fns[i] = sn_compile(body, &nets[i], SN_COMPILE_OPTIONS(.mode = i < 2 ? SN_COMPILE_EAGER : SN_COMPILE_VERIFY));
    }
    for (int call = 0; call < 4; call++) {
        const Ran cpu = run(fns[0], &nets[0], SN_CPU, call), eager = run(fns[1], &nets[1], GPU, call);
        const Ran fast = run(fns[2], &nets[2], GPU, call);
        same_runs(&eager, &fast);
        if (control("emulator_count")) same_runs(&cpu, &fast);
    }
    const sn_stats stats = stats_of(fns[2]);
    ck_assert_msg(!stats.breaks && stats.graphs == 1 && last_path() == SN_PATH_COMPILED, "%s", sn_explain(fns[2]));
    for (int i = 0; i < 3; i++) sn_function_free(fns[i]);
}

START_TEST(a5_06_control_flow_of_a_device_is_one_graph) { compare(scan_body, false); }
END_TEST
START_TEST(a5_06_a_loop_of_a_device_is_one_graph) { compare(while_body, false); }
END_TEST
START_TEST(a5_06_numbers_of_the_cpu_are_operands) { compare(mixed_body, _i); }
END_TEST
START_TEST(a5_06_gradients_of_control_flow_of_a_device) { compare(scan_body, true); }
END_TEST

int main(void) {
    TCase *const tests = tcase_create("control flow on a device");
    tcase_set_timeout(tests, 240);
    if (lacks_compiler()) {
        puts("skipped: no clang here, by which the emulated device runs kernels");
        return 77;
    }
    tcase_add_test(tests, a5_06_control_flow_of_a_device_is_one_graph);
    tcase_add_test(tests, a5_06_a_loop_of_a_device_is_one_graph);
    tcase_add_loop_test(tests, a5_06_numbers_of_the_cpu_are_operands, 0, 2);
    tcase_add_test(tests, a5_06_gradients_of_control_flow_of_a_device);
    return suite_run("control flow on a device", tests);
}
