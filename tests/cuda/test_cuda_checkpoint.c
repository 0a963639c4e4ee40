/* test_cuda_checkpoint.c: checkpoints on a CUDA device, eager and compiled [semantics T6]: gradients are those without
 * them, of the regions less is held, and a compiled function with them is one graph. On the emulated device bits are
 * the CPU's as well. */
#include <sinter/sinter.h>
#include <stdio.h>

#include "tests/cuda/emulated_control.h"
#include "tests/unit/contract.h"
#include "tests/unit/suite.h"

enum { GPU = SN_CUDA(0), ROWS = 64, WIDTH = 32, BLOCKS = 4 };

typedef struct Net {
    sn_tensor *up[BLOCKS], *down[BLOCKS];
    bool checkpoints;
} Net;

static sn_tensor *leaf_on(sn_device device, uint64_t seed, int64_t rows, int64_t columns) {
    return sn_requires_grad_(sn_to_device(F32(seed, rows, columns), device), true);
}

static void net_fill(Net *net, sn_device device, bool checkpoints) {
    net->checkpoints = checkpoints;
    for (int i = 0; i < BLOCKS; i++) {
        net->up[i] = leaf_on(device, 2 * (uint64_t)i, 4 * WIDTH, WIDTH);
        net->down[i] = leaf_on(device, 2 * (uint64_t)i + 1, WIDTH, 4 * WIDTH);
    }
}

static sn_status block(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const h = sn_linear(x, sn_in(f, 1), NULL);
    sn_tensor *const kept = sn_dropout(sn_gelu(sn_mul_scalar(h, sn_float(0.1))), 0.25, true);
    return sn_out(f, 0, sn_add(x, sn_linear(kept, sn_in(f, 2), NULL)));
}

static sn_status net_body(sn_frame *f) {
    const Net *const net = sn_closure(f);
    sn_tensor *x = sn_in(f, 0);
    for (int i = 0; i < BLOCKS; i++) {
        sn_function *const plain = net->checkpoints ? NULL : sn_compile(block, NULL, NULL);
        sn_tensor *y = NULL;
        if (net->checkpoints)
            sn_checkpoint(block, NULL, NULL, SN_TENSORS(x, net->up[i], net->down[i]), &y, 1);
        else
            y = SN_CALL(plain, x, net->up[i], net->down[i]);
        sn_function_free(plain);
        x = y;
    }
    return sn_out(f, 0, x);
}

typedef struct Ran {
    sn_tensor *y, *grads[2 * BLOCKS];
    int64_t held; /* bytes between forward and backward */
} Ran;

static int64_t bytes_on(sn_device device) {
    sn_memory memory = {.size = sizeof memory};
    sn_memory_get(device, &memory);
    return memory.current;
}

static Ran run(sn_function *fn, const Net *net, sn_device device, uint64_t seed) {
    Ran ran = {0};
    for (int i = 0; i < BLOCKS; i++) sn_grad_set(net->up[i], NULL), sn_grad_set(net->down[i], NULL);
    sn_seed(seed);
    sn_tensor *const x = sn_to_device(F32(99, ROWS, WIDTH), device);
    const int64_t before = bytes_on(device);
    sn_tensor *const y = SN_CALL(fn, x);
    ran.held = bytes_on(device) - before;
    ck_assert_msg(y && sn_backward(sn_sum(sn_mul(y, y))) == SN_OK, "%s", sn_error_take()->message);
    ran.y = sn_to_device(y, SN_CPU);
    for (int i = 0; i < BLOCKS; i++) {
        ran.grads[2 * i] = sn_to_device(sn_grad(net->up[i]), SN_CPU);
        ran.grads[2 * i + 1] = sn_to_device(sn_grad(net->down[i]), SN_CPU);
    }
    return ran;
}

static void same_runs(const Ran *a, const Ran *b) {
    ck_assert(same_bits(a->y, b->y));
    for (int i = 0; i < 2 * BLOCKS; i++) ck_assert_msg(same_bits(a->grads[i], b->grads[i]), "gradient %d", i);
}

START_TEST(a3_17_a_device_computes_regions_again) {
    Net plain, regions, here;
    net_fill(&plain, GPU, false), net_fill(&regions, GPU, true), net_fill(&here, SN_CPU, true);
    const sn_compile_options *const eager = SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER);
    sn_function *const fns[] = {sn_compile(net_body, &plain, NULL), sn_compile(net_body, &regions, NULL),
                                sn_compile(net_body, &regions, eager), sn_compile(net_body, &here, eager)};
    for (uint64_t i = 0; i < 3; i++) {
        const sn_scope scope = sn_scope_begin();
        const Ran a = run(fns[0], &plain, GPU, i), b = run(fns[1], &regions, GPU, i);
        if (i) ck_assert_msg(last_path() == SN_PATH_COMPILED && !stats_of(fns[1]).breaks, "%s", sn_explain(fns[1]));
        const Ran c = run(fns[2], &regions, GPU, i), d = run(fns[3], &here, SN_CPU, i);
        same_runs(&a, &b);
        same_runs(&b, &c);
        if (control("emulator_count")) same_runs(&c, &d);
        ck_assert_msg(!i || b.held < a.held, "%lld of %lld bytes", (long long)b.held, (long long)a.held);
        sn_scope_end(scope);
    }
    for (int i = 0; i < 4; i++) sn_function_free(fns[i]);
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("cuda_checkpoint");
    tcase_set_timeout(tests, 300);
    if (lacks_compiler()) {
        puts("skipped: no clang here, by which the emulated device runs kernels");
        return 77;
    }
    tcase_add_test(tests, a3_17_a_device_computes_regions_again);
    return suite_run("cuda_checkpoint", tests);
}
