/* Compile is capture, joint graph and fused code, reused under guards: the first call notes the ops, derives the
 * backward beside them and makes loops of both; a later one that passes the guards only runs these. */
#include <stdio.h>

#include "tour.h"

static sn_status loss_of(sn_frame *f) {
    sn_tensor *const y = sn_tanh(sn_mul(sn_in(f, 0), sn_in(f, 1)));
    return sn_out(f, 0, sn_sum(sn_mul(y, y)));
}

static sn_stats stats_of(sn_function *fn) {
    sn_stats stats = {.size = sizeof stats};
    sn_function_stats(fn, &stats);
    return stats;
}

static void call(sn_function *fn, int64_t rows, sn_tensor *w) {
    sn_tensor *const x = sn_ones(SN_INTS(rows, 8), SN_F32);
    sn_backward(SN_CALL(fn, x, w));
    const sn_stats stats = stats_of(fn);
    printf("  a call with %lld rows: %lld compile%s so far\n", (long long)rows, (long long)stats.compiles,
           stats.compiles == 1 ? "" : "s");
}

void tour_compile(void) {
    sn_tensor *const w = sn_requires_grad_(sn_full(SN_INTS(8), sn_float(0.25), SN_F32), true);
    sn_function *const fn = sn_compile(loss_of, NULL, SN_COMPILE_OPTIONS(.name = "loss"));
    call(fn, 4, w);
    call(fn, 4, w); /* passes the guards */
    call(fn, 6, w); /* does not: the sizes become symbols, once */
    call(fn, 7, w);
    printf("capture:\n%s", sn_dump(fn, "capture"));
    printf("joint graph:\n%s", sn_dump(fn, "joint"));
    printf("guards:\n%s", sn_dump(fn, "guards"));
    const sn_stats stats = stats_of(fn);
    printf("mul, tanh, mul, sum and the ops of their backward: %lld kernels a graph\n",
           (long long)(stats.kernels / stats.graphs));
    sn_function_free(fn);
}
