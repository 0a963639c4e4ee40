/* newton: square roots by Newton's method: the loop and the branch depend on values, so the graph
 * breaks each round. Compares every bit with eager on 1,000 random inputs. Options: --json. */
#include <sinter/sinter.h>

#include <stdio.h>
#include <string.h>

#include "work.h"

enum { INPUTS = 1000, LENGTH = 256, WARM = 50 };

const char sample_arguments[] = "[--json]";

static sn_status newton(sn_frame *f) {
    sn_tensor *a = sn_in(f, 0);
    sn_tensor *x = sn_mul_scalar(sn_add_scalar(a, sn_float(1)), sn_float(0.5)); /* a first guess */
    for (int i = 0; i < 100; i++) {
        sn_tensor *r = sn_sub(sn_mul(x, x), a);
        double worst = sn_item(sn_amax(sn_abs(r))); /* a break: the value is needed now */
        if (!(worst > 1e-5)) break;                 /* NaN, from an error, ends the loop too */
        sn_tensor *step = sn_div(r, sn_mul_scalar(x, sn_float(2)));
        if (worst > 1e3) step = sn_clamp(step, sn_float(-100), sn_float(100));
        x = sn_sub(x, step);
    }
    return sn_out(f, 0, x);
}

/* Every tenth input is large, so that the branch is taken too. */
static sn_tensor *input(int i) {
    sn_tensor *a = sn_add_scalar(sn_abs(sn_randn(SN_INTS(LENGTH), SN_F32)), sn_float(0.1));
    return i % 10 ? a : sn_mul_scalar(a, sn_float(100));
}

void sample_work(SampleWork *work) { *work = (SampleWork){.body = newton, .in = {input(0)}, .n_in = 1, .n_out = 1}; }

static int64_t compare(sn_function *eager, sn_function *fast, int i) {
    float want[LENGTH] = {0}, got[LENGTH] = {0};
    sn_scope scope = sn_scope_begin();
    sn_tensor *a = input(i);
    sn_read(SN_CALL(eager, a), want, sizeof want);
    sn_read(SN_CALL(fast, a), got, sizeof got);
    sn_scope_end(scope);
    int64_t differing = 0;
    for (int k = 0; k < LENGTH; k++) differing += memcmp(&want[k], &got[k], sizeof want[k]) != 0;
    return differing;
}

int main(int argc, char **argv) {
    const bool json = argc > 1 && !strcmp(argv[1], "--json");
    if (argc > 1 + json) {
        fprintf(stderr, "newton: unexpected '%s'; arguments: %s\n", argv[1 + json], sample_arguments);
        return 2;
    }
    sn_function *eager = sn_compile(newton, NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
    sn_function *fast = sn_compile(newton, NULL, SN_COMPILE_OPTIONS(.name = "newton"));
    sn_stats warm = {.size = sizeof warm}, end = {.size = sizeof end};
    int64_t differing = 0;
    for (int i = 0; i < INPUTS && !sn_check(); i++) {
        differing += compare(eager, fast, i);
        if (i == WARM) sn_function_stats(fast, &warm);
    }
    sn_function_stats(fast, &end);
    const int64_t after = end.compiles - warm.compiles;
    const int64_t ops = end.ops_generated + end.ops_interpreted + end.ops_eager;
    const double share = ops ? (double)end.ops_generated / (double)ops : 0;
    if (json)
        printf("{\"inputs\": %d, \"differing_values\": %lld, \"graphs\": %lld, \"breaks\": %lld, "
               "\"compiles_after_warmup\": %lld, \"compiled_share\": %.4f}\n",
               INPUTS, (long long)differing, (long long)end.graphs, (long long)end.breaks, (long long)after, share);
    else
        printf("%d inputs of %d numbers: %lld values differ; %lld graphs, %lld breaks, %lld "
               "compiles after warm-up, compiled share %.4f\n",
               INPUTS, LENGTH, (long long)differing, (long long)end.graphs, (long long)end.breaks, (long long)after,
               share);
    if (differing && !sn_check()) sn_fail(SN_ERR_INTERNAL, "compiled and eager differ");
    sn_function_free(fast);
    sn_function_free(eager);
    return sn_finish();
}
