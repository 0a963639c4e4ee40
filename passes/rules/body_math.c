/* body_math.c: elementary functions. Formulas follow PyTorch's; divisions and square roots are
 * IEEE, fused multiply-adds only where named [semantics B]. Most are primitives of scalar.def, which
 * states their errors; what has none is built from those. */
#include "passes/rules/body_math.h"

/* A body of one operand x. */
#define UNARY(name, result)                                                                                            \
    BodyFn body_##name;                                                                                                \
    int body_##name(BodyCall *c) {                                                                                     \
        const int x = X(0);                                                                                            \
        return result;                                                                                                 \
    }

/* shared pieces ------------------------------------------------------------------------------- */

int math_signbit(BodyCall *c, int x) {
    if (!body_is_float(c)) return P2(lt, x, K(0));
    const int minus_zero = P2(and, P2(eq, x, K(0)), P2(lt, P2(div, K(1), x), K(0)));
    return P2(or, P2(lt, x, K(0)), minus_zero);
}

int math_copysign(BodyCall *c, int magnitude, int sign) {
    const int positive = P1(abs, magnitude);
    return P3(select, math_signbit(c, sign), P1(neg, positive), positive);
}

/* x, and 0 where a function of it has reached its limit, so that no product of 0 and infinity is a NaN. */
int math_zero_beyond(BodyCall *c, int x, double limit) { return P3(select, P2(lt, P1(abs, x), K(limit)), x, K(0)); }

/* log1p(e^(x beta)) / beta; x itself above the threshold, and where e^(x beta) hides the 1, before it overflows. */
int math_softplus(BodyCall *c, int x, int beta, int threshold) {
    const int scaled = P2(mul, x, beta);
    const int soft = P2(div, P1(log1p, P1(exp, scaled)), beta);
    const int plain = P2(or, P2(gt, scaled, threshold), P2(gt, scaled, K(c->type == S_f32 ? 80 : 700)));
    return P3(select, plain, x, soft);
}

/* 1 / sqrt(x), at most 0.51 ulp: of f32 in f64; of f64 y = 1 / s, s = sqrt(x), and what both roundings lost,
 * y (1 - s y - (x - s^2) y^2 / 2), of small x at 2^100 x, where the difference is no denormal. */
static int rsqrt(BodyCall *c, int x) {
    if (c->type == S_f32) {
        const int root = P1(sqrt, as_type(c, x, S_f64));
        return as_type(c, P2(div, body_const(c, S_f64, 1), root), S_f32);
    }
    const int small = P2(lt, x, K(0x1p-900)), scaled = P3(select, small, P2(mul, x, K(0x1p100)), x);
    const int s = P1(sqrt, scaled), y = P2(div, K(1), s), minus = P1(neg, s);
    const int difference = P2(mul, P2(mul, P3(fma, minus, s, scaled), y), y);
    const int rest = P3(fma, difference, K(-0.5), P3(fma, minus, y, K(1)));
    const int exact = P2(mul, P3(fma, y, rest, y), P3(select, small, K(0x1p50), K(1)));
    const int finite = P2(and, P2(gt, x, K(0)), P2(lt, x, K(INFINITY)));
    return P3(select, finite, exact, y);
}

/* x / (1 + e^-x), without an e^-x that overflows: x e^x / (1 + e^x) below 0. */
static int silu(BodyCall *c, int x) {
    const int z = P1(exp, P1(neg, P1(abs, x)));
    return P2(div, P3(select, P2(lt, x, K(0)), P2(mul, x, z), x), P2(add, K(1), z));
}

/* rows ---------------------------------------------------------------------------------------- */

UNARY(exp, P1(exp, x))
UNARY(exp2, P1(exp2, x))
UNARY(expm1, P1(expm1, x))
UNARY(log, P1(log, x))
UNARY(log2, P1(log2, x))
UNARY(log10, P1(log10, x))
UNARY(log1p, P1(log1p, x))
UNARY(sqrt, P1(sqrt, x))
UNARY(rsqrt, rsqrt(c, x))
UNARY(reciprocal, P2(div, K(1), x))
UNARY(sin, P1(sin, x))
UNARY(cos, P1(cos, x))
UNARY(tan, P1(tan, x))
UNARY(tanh, P1(tanh, x))
UNARY(erf, P1(erf, x))
UNARY(erfc, P1(erfc, x))
UNARY(sigmoid, P1(sigmoid, x))
UNARY(silu, silu(c, x))
UNARY(log_sigmoid, P2(sub, P2(min, x, K(0)), P1(log1p, P1(exp, P1(neg, P1(abs, x))))))
UNARY(mish, P2(mul, x, P1(tanh, math_softplus(c, x, K(1), K(INFINITY)))))
UNARY(atan, P1(atan, x))
UNARY(asin, P1(asin, x))
UNARY(acos, P1(acos, x))
UNARY(sinh, P1(sinh, x))
UNARY(cosh, P1(cosh, x))
UNARY(asinh, P1(asinh, x))
UNARY(acosh, P1(acosh, x))
UNARY(atanh, P1(atanh, x))

BodyFn body_atan2, body_hypot, body_copysign, body_logaddexp, body_xlogy;
int body_atan2(BodyCall *c) {
    const int y = X(0), x = X(1);
    return P2(atan2, y, x);
}
int body_copysign(BodyCall *c) {
    const int x = X(0), sign = X(1);
    return math_copysign(c, x, sign);
}

BodyFn body_heaviside;
int body_heaviside(BodyCall *c) {
    const int x = X(0), at_zero = X(1);
    if (c->type == S_b) return P2(or, x, at_zero);
    return P3(select, P2(eq, x, K(0)), at_zero, P3(select, P2(gt, x, K(0)), K(1), K(0)));
}

int body_hypot(BodyCall *c) {
    const int x = X(0);
    return P2(hypot, x, X(1));
}

int body_logaddexp(BodyCall *c) {
    const int a = X(0), b = X(1), high = P2(max, a, b);
    const int sum = P2(add, high, P1(log1p, P1(exp, P1(neg, P1(abs, P2(sub, a, b))))));
    return P3(select, P2(and, P2(eq, a, b), P2(eq, P1(abs, a), K(INFINITY))), a, sum);
}

int body_xlogy(BodyCall *c) {
    const int x = X(0), y = X(1);
    return P3(select, P2(ne, y, y), y, P3(select, P2(eq, x, K(0)), K(0), P2(mul, x, P1(log, y))));
}

/* activations with their backward ------------------------------------------------------------- */

enum { GELU_erf, GELU_tanh };

static int gelu_form(const BodyCall *c, int arg) {
    const Arg *const form = &c->args[arg];
    return form->kind == ARG_string && !strcmp(form->string, "tanh") ? GELU_tanh : GELU_erf;
}

/* 1 + e^(-2 sqrt(2/pi) (x + 0.044715 x^3)), the exponent in base 2. */
static int gelu_tanh_divisor(BodyCall *c, int x) {
    const double c0 = -2.3022081981443248, c1 = -0.1029432395800235; /* -2 sqrt(2/pi) log2(e), 0.044715 of it */
    return P2(add, K(1), P1(exp2, P2(mul, x, P3(fma, P2(mul, x, x), K(c1), K(c0)))));
}

BodyFn body_gelu, body_gelu_backward, body_sigmoid_backward, body_tanh_backward, body_silu_backward;
/* x Phi(x); the tanh form is x / (1 + 2^(x (c0 + c1 x^2))). */
int body_gelu(BodyCall *c) {
    const int x = X(0);
    if (gelu_form(c, 1) == GELU_tanh) return P2(div, x, gelu_tanh_divisor(c, x));
    return P1(gelu_erf, x);
}

/* grad (Phi(x) + x phi(x)); tanh form: s = 1/(1 + e^-2u), grad (s + x 2 u' s (1 - s)). */
int body_gelu_backward(BodyCall *c) {
    const int grad = X(0), x = X(1);
    if (gelu_form(c, 2) == GELU_tanh) {
        const int s = P2(div, K(1), gelu_tanh_divisor(c, x));
        const int held = math_zero_beyond(c, x, 1e4), square = P2(mul, held, held);
        const int slope = P3(fma, square, K(0.21406444881780073), K(1.5957691216057308)); /* 2 u' */
        const int side = P2(mul, P2(mul, held, P2(mul, s, P2(sub, K(1), s))), slope);
        return P2(mul, grad, P2(add, s, side));
    }
    return P2(mul, grad, P1(gelu_erf_slope, x));
}

int body_sigmoid_backward(BodyCall *c) {
    const int grad = X(0), y = X(1);
    return P2(mul, grad, P2(mul, P2(sub, K(1), y), y));
}

int body_tanh_backward(BodyCall *c) {
    const int grad = X(0), y = X(1);
    return P2(mul, grad, P3(fma, P1(neg, y), y, K(1)));
}

/* grad s (1 + x (1 - s)); s and 1 - s are 1 / (1 + z) and z / (1 + z), z = e^-|x|: none is taken from 1, since x times
 * what that loses of s near 1 is many ulps. */
int body_silu_backward(BodyCall *c) {
    const int grad = X(0), x = X(1), z = P1(exp, P1(neg, P1(abs, x))), more = P2(div, K(1), P2(add, K(1), z));
    const int less = P2(mul, z, more), falls = P2(lt, x, K(0));
    const int s = P3(select, falls, less, more), rest = P3(select, falls, more, less);
    return P2(mul, P2(mul, grad, s), P2(add, K(1), P2(mul, math_zero_beyond(c, x, 1e4), rest)));
}

BodyFn body_softplus, body_elu;
int body_softplus(BodyCall *c) { return math_softplus(c, X(0), N(1), N(2)); }

/* x >= 0: scale x; else alpha scale (e^(x input_scale) - 1). */
int body_elu(BodyCall *c) {
    const int x = X(0), negative = P2(mul, N(1), N(2));
    const int below = P2(mul, P1(expm1, P2(mul, x, N(3))), negative);
    return P3(select, P2(lt, x, K(0)), below, P2(mul, x, N(2)));
}
