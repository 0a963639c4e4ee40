/* newton: square roots by Newton's method: the loop and the branch depend on values, so the graph
 * breaks each round; written with sn_while_loop and sn_cond it is one graph. Compares every bit with eager on 1,000
 * random inputs. Options: --json. */
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

/* The same as one graph: the loop and the branch are ops. Bodies close over what the call gave. */
typedef struct Roots {
    sn_tensor *a;
} Roots;

static sn_tensor *residual(const Roots *roots, sn_tensor *x) { return sn_sub(sn_mul(x, x), roots->a); }

static sn_status goes_on(sn_frame *f) {
    sn_tensor *worst = sn_amax(sn_abs(residual(sn_closure(f), sn_in(f, 1))));
    sn_tensor *early = sn_lt_scalar(sn_in(f, 0), sn_int(100));
    return sn_out(f, 0, sn_logical_and(sn_gt_scalar(worst, sn_float(1e-5)), early));
}

static sn_status clamped(sn_frame *f) { return sn_out(f, 0, sn_clamp(sn_in(f, 0), sn_float(-100), sn_float(100))); }
static sn_status as_it_is(sn_frame *f) { return sn_out(f, 0, sn_in(f, 0)); }

static sn_status one_round(sn_frame *f) {
    sn_tensor *x = sn_in(f, 1), *r = residual(sn_closure(f), x);
    sn_tensor *step = sn_div(r, sn_mul_scalar(x, sn_float(2)));
    sn_tensor *large = sn_gt_scalar(sn_amax(sn_abs(r)), sn_float(1e3));
    sn_cond(large, clamped, as_it_is, NULL, NULL, SN_TENSORS(step), &step, 1);
    sn_out(f, 0, sn_add_scalar(sn_in(f, 0), sn_int(1)));
    return sn_out(f, 1, sn_sub(x, step));
}

static sn_status newton_loop(sn_frame *f) {
    Roots roots = {sn_in(f, 0)};
    sn_tensor *x = sn_mul_scalar(sn_add_scalar(roots.a, sn_float(1)), sn_float(0.5));
    sn_tensor *out[2], *rounds = sn_full(SN_INTS(), sn_int(0), SN_I64);
    sn_while_loop(goes_on, one_round, &roots, NULL, SN_TENSORS(rounds, x), out, 2);
    return sn_out(f, 0, out[1]);
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

typedef struct Outcome {
    int64_t differing, after_warmup;
    sn_stats end;
    double share;
} Outcome;

/* INPUTS calls, each beside an eager one. */
static Outcome run_form(sn_body body, const char *name) {
    sn_function *eager = sn_compile(body, NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
    sn_function *fast = sn_compile(body, NULL, SN_COMPILE_OPTIONS(.name = name));
    Outcome out = {.end = {.size = sizeof out.end}};
    sn_stats warm = {.size = sizeof warm};
    for (int i = 0; i < INPUTS && !sn_check(); i++) {
        out.differing += compare(eager, fast, i);
        if (i == WARM) sn_function_stats(fast, &warm);
    }
    sn_function_stats(fast, &out.end);
    out.after_warmup = out.end.compiles - warm.compiles;
    const int64_t ops = out.end.ops_generated + out.end.ops_interpreted + out.end.ops_eager;
    out.share = ops ? (double)out.end.ops_generated / (double)ops : 0;
    if (out.differing && !sn_check()) sn_fail(SN_ERR_INTERNAL, "compiled and eager differ");
    sn_function_free(fast);
    sn_function_free(eager);
    return out;
}

static void print_json(const char *prefix, const Outcome *o) {
    printf("\"%sdiffering_values\": %lld, \"%sgraphs\": %lld, \"%sbreaks\": %lld, \"%scompiles_after_warmup\": %lld, "
           "\"%scompiled_share\": %.4f",
           prefix, (long long)o->differing, prefix, (long long)o->end.graphs, prefix, (long long)o->end.breaks, prefix,
           (long long)o->after_warmup, prefix, o->share);
}

static void print_text(const char *form, const Outcome *o) {
    printf("%s: %d inputs of %d numbers: %lld values differ; %lld graphs, %lld breaks, %lld compiles after warm-up, "
           "compiled share %.4f\n",
           form, INPUTS, LENGTH, (long long)o->differing, (long long)o->end.graphs, (long long)o->end.breaks,
           (long long)o->after_warmup, o->share);
}

int main(int argc, char **argv) {
    const bool json = argc > 1 && !strcmp(argv[1], "--json");
    if (argc > 1 + json) {
        fprintf(stderr, "newton: unexpected '%s'; arguments: %s\n", argv[1 + json], sample_arguments);
        return 2;
    }
    const Outcome breaking = run_form(newton, "newton"), whole = run_form(newton_loop, "newton_loop");
    if (json) {
        printf("{\"inputs\": %d, ", INPUTS);
        print_json("", &breaking);
        printf(", ");
        print_json("loop_", &whole);
        printf("}\n");
    } else {
        print_text("a loop in C", &breaking);
        print_text("as one graph", &whole);
    }
    return sn_finish();
}
