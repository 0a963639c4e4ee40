/* bench_eager.c: what one eager call costs, printed against its goal [design 4]. Not a test: it asserts nothing.
 *   build/bin/bench_eager [ROUNDS] */
#include <sinter/sinter.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double best_ns(sn_tensor *x, sn_tensor *y, int rounds) {
    double best = 1e30;
    for (int repeat = 0; repeat < 20; repeat++) {
        const double start = now_ns();
        for (int i = 0; i < rounds; i++) {
            const sn_scope scope = sn_scope_begin();
            sn_add(x, y);
            sn_scope_end(scope);
        }
        const double each = (now_ns() - start) / rounds;
        if (each < best) best = each;
    }
    return best;
}

static double chain_ns(sn_tensor *x, sn_tensor *y, int rounds) {
    double best = 1e30;
    for (int repeat = 0; repeat < 20; repeat++) {
        const double start = now_ns();
        for (int i = 0; i < rounds / 100; i++) {
            const sn_scope scope = sn_scope_begin();
            sn_tensor *t = x;
            for (int k = 0; k < 100; k++) t = sn_add(t, y);
            sn_scope_end(scope);
        }
        const double each = (now_ns() - start) / (rounds / 100 * 100);
        if (each < best) best = each;
    }
    return best;
}

static sn_tensor *numbers(int64_t n) {
    float *const values = calloc((size_t)n, sizeof *values);
    sn_tensor *const t = sn_from_data(values, (sn_ints){&n, 1}, SN_F32);
    free(values);
    return t;
}

int main(int argc, char **argv) {
    const int rounds = argc > 1 ? atoi(argv[1]) : 100000;
    sn_tensor *const x = numbers(16), *const y = numbers(16), *const big = numbers(4096);
    printf("eager/add16          %7.1f ns   goal 40\n", best_ns(x, y, rounds));
    printf("eager/chain100       %7.1f ns/op\n", chain_ns(x, y, rounds));
    printf("eager/add4096        %7.1f ns\n", best_ns(big, big, rounds / 10));
    sn_grad_mode_set(SN_INFERENCE);
    sn_tensor *const u = numbers(16);
    printf("eager/add16_inference%7.1f ns\n", best_ns(u, u, rounds));
    return sn_finish();
}
