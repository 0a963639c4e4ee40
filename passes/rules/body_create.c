/* body_create.c: fresh tensors: constants, ranges, random numbers. Random bits are Philox(seed,
 * sequence, element), with the row-major logical index of the element [semantics B6]: the same in
 * eager, compiled and recomputed code. */
#include "passes/lower.h"
#include "passes/rules/body.h"

BodyFn body_zeros, body_ones, body_full, body_arange, body_linspace, body_logspace, body_rand, body_randn, body_randint;

int body_zeros(BodyCall *c) { return K(0); }
int body_ones(BodyCall *c) { return K(1); }

int body_full(BodyCall *c) {
    const int value = op_param_find(c->row, "fill_value");
    return N(value >= 0 ? value : 0);
}

/* start + i step, in f64 for floats. */
int body_arange(BodyCall *c) {
    const int start = op_param_find(c->row, "start"), step = op_param_find(c->row, "step");
    const SType type = body_is_float(c) ? S_f64 : S_i64;
    int value = as_type(c, c->position(c), type);
    if (step >= 0) value = P2(mul, value, c->number(c, step, type));
    return start >= 0 ? P2(add, c->number(c, start, type), value) : value;
}

/* start + i step in the first half, end - (steps - 1 - i) step in the second, so that both ends are met; in f64. Ends
 * of an int dtype are ints. */
static int spaced(BodyCall *c) {
    const int64_t steps = c->args[2].i;
    const SType type = body_is_float(c) ? S_f64 : S_i64;
    const int start = as_type(c, c->number(c, 0, type), S_f64), end = as_type(c, c->number(c, 1, type), S_f64);
    const int i = as_type(c, c->position(c), S_f64);
    const int gaps = body_const(c, S_f64, (double)(steps > 1 ? steps - 1 : 1));
    const int step = P2(div, P2(sub, end, start), gaps);
    const int up = P2(add, start, P2(mul, i, step)), down = P2(sub, end, P2(mul, P2(sub, gaps, i), step));
    if (steps == 1) return start;
    return P3(select, P2(lt, i, body_const(c, S_f64, (double)(steps / 2))), up, down);
}
int body_linspace(BodyCall *c) { return spaced(c); }
int body_logspace(BodyCall *c) { return P2(pow, c->number(c, 3, S_f64), spaced(c)); }

static int random_bits(BodyCall *c) { return P3(philox, c->random(c, 0), c->random(c, 1), c->position(c)); }

static int long_const(BodyCall *c, int64_t value) { return loop_const(c->lb, S_i64, 0, value); }

/* The highest `n` of the 64 bits as a number below 2^n. */
static int high_bits(BodyCall *c, int bits, int n) {
    const int shifted = P2(shr, bits, long_const(c, 64 - n));
    return P2(and, shifted, long_const(c, (INT64_C(1) << n) - 1));
}

/* As many bits as the dtype's significand has, so that 1 is never reached by rounding. */
int body_rand(BodyCall *c) {
    const int n = c->out_dtype == DT_f64 ? 53 : c->out_dtype == DT_f16 ? 11 : c->out_dtype == DT_bf16 ? 8 : 24;
    const int bits = high_bits(c, random_bits(c), n);
    return P2(mul, as_type(c, bits, c->type), K(1.0 / (double)(INT64_C(1) << n)));
}

/* Box and Muller: sqrt(-2 ln u) cos(2 pi v), u in (0, 1] and v in [0, 1) of 32 bits each, in f64. */
int body_randn(BodyCall *c) {
    const int bits = random_bits(c);
    const int high = loop_cast(c->lb, S_f64, high_bits(c, bits, 32));
    const int low = loop_cast(c->lb, S_f64, P2(and, bits, long_const(c, 0xFFFFFFFF)));
    const int unit = body_const(c, S_f64, 1.0 / 4294967296.0);
    const int u = P2(mul, P2(add, high, body_const(c, S_f64, 1)), unit);
    const int angle = P2(mul, low, body_const(c, S_f64, 6.283185307179586476925 / 4294967296.0));
    const int radius = P1(sqrt, P2(mul, body_const(c, S_f64, -2), P1(log, u)));
    return P2(mul, radius, P1(cos, angle));
}

/* low + 63 bits modulo (high - low), as PyTorch has it. */
int body_randint(BodyCall *c) {
    const int low = op_param_find(c->row, "low"), high = op_param_find(c->row, "high");
    const int bits = P2(and, P2(shr, random_bits(c), long_const(c, 1)), long_const(c, INT64_MAX));
    const int end = c->number(c, high, S_i64);
    if (low < 0) return P2(imod, bits, end);
    const int begin = c->number(c, low, S_i64);
    return P2(add, begin, P2(imod, bits, P2(sub, end, begin)));
}
