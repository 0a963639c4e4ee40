/* body_math.c: elementary functions. Formulas follow PyTorch's; divisions and square roots are
 * IEEE, fused multiply-adds only where named [semantics B]. What scalar.def has no primitive for is
 * built from those it has: log1p and expm1 by Kahan's correction, hyperbolic functions from them,
 * arcus functions from atan. Errors: 3 ulp where not said otherwise. */
#include "passes/rules/body_math.h"

/* A body of one operand x. */
#define UNARY(name, result)                                                                                            \
    BodyFn body_##name;                                                                                                \
    int body_##name(BodyCall *c) {                                                                                     \
        const int x = X(0);                                                                                            \
        return result;                                                                                                 \
    }

/* shared pieces ------------------------------------------------------------------------------- */

/* 1 / (1 + e^-x): e^-x overflows to infinity, which gives 0. */
int math_sigmoid(BodyCall *c, int x) { return P2(div, K(1), P2(add, K(1), P1(exp, P1(neg, x)))); }

/* log(u) x / (u - 1) with u = 1 + x corrects what rounding u lost. */
int math_log1p(BodyCall *c, int x) {
    const int u = P2(add, K(1), x);
    const int corrected = P2(div, P2(mul, P1(log, u), x), P2(sub, u, K(1)));
    const int large = P3(select, P2(eq, u, K(INFINITY)), x, corrected);
    return P3(select, P2(eq, u, K(1)), x, large);
}

/* (u - 1) x / log(u) with u = e^x, likewise; beyond 40 u alone is exact enough, and the product could overflow. */
int math_expm1(BodyCall *c, int x) {
    const int u = P1(exp, x), below = P2(sub, u, K(1));
    const int corrected = P2(div, P2(mul, below, x), P1(log, u));
    const int ends = P2(or, P2(gt, x, K(40)), P2(eq, below, K(-1)));
    return P3(select, P2(eq, u, K(1)), x, P3(select, ends, below, corrected));
}

int math_signbit(BodyCall *c, int x) {
    if (!body_is_float(c)) return P2(lt, x, K(0));
    const int minus_zero = P2(and, P2(eq, x, K(0)), P2(lt, P2(div, K(1), x), K(0)));
    return P2(or, P2(lt, x, K(0)), minus_zero);
}

int math_copysign(BodyCall *c, int magnitude, int sign) {
    const int positive = P1(abs, magnitude);
    return P3(select, math_signbit(c, sign), P1(neg, positive), positive);
}

static int polynomial(BodyCall *c, int z, const double *coefficients, int n) {
    int sum = K(coefficients[0]);
    for (int i = 1; i < n; i++) sum = P3(fma, sum, z, K(coefficients[i]));
    return sum;
}

/* atan of x >= 0, after Cephes' atan: reduced to |x| <= 0.66, then a rational function of x^2. */
static int atan_positive(BodyCall *c, int x) {
    static const double p[] = {-8.750608600031904122785E-1, -1.615753718733365076637E1, -7.500855792314704667340E1,
                               -1.228866684490136173410E2, -6.485021904942025371773E1};
    static const double q[] = {1.0,
                               2.485846490142306297962E1,
                               1.650270098316988542046E2,
                               4.328810604912902668951E2,
                               4.853903996359136964868E2,
                               1.945506571482613964425E2};
    const int large = P2(gt, x, K(2.41421356237309504880)), middle = P2(gt, x, K(0.66));
    const int turned = P2(div, P2(sub, x, K(1)), P2(add, x, K(1)));
    const int inverse = P2(div, K(-1), x);
    const int t = P3(select, large, inverse, P3(select, middle, turned, x));
    const int base = P3(select, large, K(1.57079632679489661923), P3(select, middle, K(0.78539816339744830962), K(0)));
    const int z = P2(mul, t, t);
    const int ratio = P2(div, P2(mul, z, polynomial(c, z, p, 5)), polynomial(c, z, q, 6));
    return P2(add, base, P3(fma, t, ratio, t));
}

int math_atan(BodyCall *c, int x) { return math_copysign(c, atan_positive(c, P1(abs, x)), x); }

int math_atan2(BodyCall *c, int y, int x) {
    const int ax = P1(abs, x), ay = P1(abs, y);
    const int high = P2(max, ax, ay), low = P2(min, ax, ay);
    const int equal = P3(select, P2(eq, high, K(0)), K(0), K(1)); /* 0/0 and inf/inf */
    const int ratio = P3(select, P2(eq, high, low), equal, P2(div, low, high));
    int angle = atan_positive(c, P2(add, ratio, P2(mul, K(0), P2(sub, ratio, ratio))));
    angle = P3(select, P2(gt, ay, ax), P2(sub, K(1.57079632679489661923), angle), angle);
    angle = P3(select, math_signbit(c, x), P2(sub, K(3.14159265358979323846), angle), angle);
    const int nan = P2(or, P2(ne, x, x), P2(ne, y, y));
    return P3(select, nan, P2(add, x, y), math_copysign(c, angle, y));
}

/* log1p(e^x beta) / beta; x itself above the threshold. */
int math_softplus(BodyCall *c, int x, int beta, int threshold) {
    const int scaled = P2(mul, x, beta);
    const int soft = P2(div, math_log1p(c, P1(exp, scaled)), beta);
    return P3(select, P2(gt, scaled, threshold), x, soft);
}

/* a - b trunc(a / b), twice so that quotients up to 2^48 (f32) leave an exact remainder; sign of a. */
int math_fmod(BodyCall *c, int a, int b) {
    int rest = a;
    for (int round = 0; round < 2; round++) {
        const int quotient = P1(trunc, P2(div, rest, b));
        const int next = P3(fma, P1(neg, quotient), b, rest);
        rest = P3(select, P2(lt, P1(abs, rest), P1(abs, b)), rest, next);
    }
    const int wrong =
        P2(and, P2(ne, rest, K(0)), P2(ne, P2(lt, rest, K(0)), P2(lt, a, K(0)))); /* quotient rounded up */
    const int step = P3(select, P2(lt, a, K(0)), P1(neg, P1(abs, b)), P1(abs, b));
    const int exact = math_copysign(c, P3(select, wrong, P2(add, rest, step), rest), a);
    const int invalid = P2(or, P2(eq, b, K(0)), P2(eq, P1(abs, a), K(INFINITY)));
    const int nan = P2(or, P2(ne, a, a), P2(ne, b, b));
    return P3(select, P2(or, invalid, nan), P2(div, P2(sub, a, a), P2(mul, b, K(0))), exact);
}

/* rows ---------------------------------------------------------------------------------------- */

UNARY(exp, P1(exp, x))
UNARY(exp2, P1(exp2, x))
UNARY(expm1, math_expm1(c, x))
UNARY(log, P1(log, x))
UNARY(log2, P2(mul, P1(log, x), K(1.4426950408889634074)))
UNARY(log10, P2(mul, P1(log, x), K(0.43429448190325182765)))
UNARY(log1p, math_log1p(c, x))
UNARY(sqrt, P1(sqrt, x))
UNARY(rsqrt, P2(div, K(1), P1(sqrt, x)))
UNARY(reciprocal, P2(div, K(1), x))
UNARY(sin, P1(sin, x))
UNARY(cos, P1(cos, x))
UNARY(tan, P2(div, P1(sin, x), P1(cos, x)))
UNARY(tanh, P1(tanh, x))
UNARY(erf, P1(erf, x))
UNARY(erfc, P2(sub, K(1), P1(erf, x))) /* absolute error 1 ulp of 1 */
UNARY(sigmoid, math_sigmoid(c, x))
UNARY(silu, P2(div, x, P2(add, K(1), P1(exp, P1(neg, x)))))
UNARY(log_sigmoid, P2(sub, P2(min, x, K(0)), math_log1p(c, P1(exp, P1(neg, P1(abs, x))))))
UNARY(mish, P2(mul, x, P1(tanh, math_softplus(c, x, K(1), K(INFINITY)))))
UNARY(atan, math_atan(c, x))
UNARY(asin, math_atan(c, P2(div, x, P1(sqrt, P2(mul, P2(sub, K(1), x), P2(add, K(1), x))))))
UNARY(acos, P2(mul, K(2), math_atan(c, P1(sqrt, P2(div, P2(sub, K(1), x), P2(add, K(1), x))))))

/* e^|x| / 2, whose half powers do not overflow before the result does. */
static int half_exp(BodyCall *c, int a) {
    const int root = P1(exp, P2(mul, a, K(0.5)));
    return P2(mul, P2(mul, root, K(0.5)), root);
}

BodyFn body_sinh, body_cosh, body_asinh, body_acosh, body_atanh;
int body_sinh(BodyCall *c) {
    const int x = X(0), a = P1(abs, x), e = math_expm1(c, a);
    const int small = P2(mul, K(0.5), P2(add, e, P2(div, e, P2(add, e, K(1)))));
    return math_copysign(c, P3(select, P2(gt, a, K(20)), half_exp(c, a), small), x);
}

int body_cosh(BodyCall *c) {
    const int a = P1(abs, X(0)), e = P1(exp, a);
    const int small = P2(add, P2(mul, e, K(0.5)), P2(div, K(0.5), e));
    return P3(select, P2(gt, a, K(20)), half_exp(c, a), small);
}

int body_asinh(BodyCall *c) {
    const int x = X(0), a = P1(abs, x), square = P2(mul, a, a);
    const int root = P1(sqrt, P2(add, square, K(1)));
    const int small = math_log1p(c, P2(add, a, P2(div, square, P2(add, K(1), root))));
    const int large = P2(add, P1(log, a), K(0.69314718055994530942));
    return math_copysign(c, P3(select, P2(gt, a, K(1e8)), large, small), x);
}

int body_acosh(BodyCall *c) {
    const int x = X(0), t = P2(sub, x, K(1));
    const int small = math_log1p(c, P2(add, t, P1(sqrt, P2(add, P2(mul, K(2), t), P2(mul, t, t)))));
    const int large = P2(add, P1(log, x), K(0.69314718055994530942));
    return P3(select, P2(gt, x, K(1e8)), large, small);
}

int body_atanh(BodyCall *c) {
    const int x = X(0), a = P1(abs, x);
    const int twice = P2(mul, K(2), a);
    return math_copysign(c, P2(mul, K(0.5), math_log1p(c, P2(div, twice, P2(sub, K(1), a)))), x);
}

BodyFn body_atan2, body_hypot, body_copysign, body_logaddexp, body_xlogy;
int body_atan2(BodyCall *c) {
    const int y = X(0), x = X(1);
    return math_atan2(c, y, x);
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
    const int a = P1(abs, X(0)), b = P1(abs, X(1)), high = P2(max, a, b), low = P2(min, a, b);
    const int ratio = P2(div, low, high);
    const int length = P2(mul, high, P1(sqrt, P3(fma, ratio, ratio, K(1))));
    const int infinite = P2(or, P2(eq, a, K(INFINITY)), P2(eq, b, K(INFINITY)));
    return P3(select, infinite, K(INFINITY), P3(select, P2(eq, high, K(0)), K(0), length));
}

int body_logaddexp(BodyCall *c) {
    const int a = X(0), b = X(1), high = P2(max, a, b);
    const int sum = P2(add, high, math_log1p(c, P1(exp, P1(neg, P1(abs, P2(sub, a, b))))));
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
    const int phi = P2(add, K(1), P1(erf, P2(mul, x, K(0.7071067811865476))));
    return P2(mul, P2(mul, x, K(0.5)), phi);
}

/* grad (Phi(x) + x phi(x)); tanh form: s = 1/(1 + e^-2u), grad (s + x 2 u' s (1 - s)). */
int body_gelu_backward(BodyCall *c) {
    const int grad = X(0), x = X(1);
    if (gelu_form(c, 2) == GELU_tanh) {
        const int s = P2(div, K(1), gelu_tanh_divisor(c, x));
        const int slope = P3(fma, P2(mul, x, x), K(0.21406444881780073), K(1.5957691216057308)); /* 2 u' */
        const int side = P2(mul, P2(mul, x, slope), P2(mul, s, P2(sub, K(1), s)));
        return P2(mul, grad, P2(add, s, side));
    }
    const int cdf = P2(mul, K(0.5), P2(add, K(1), P1(erf, P2(mul, x, K(0.7071067811865476)))));
    const int pdf = P2(mul, K(0.3989422804014327), P1(exp, P2(mul, K(-0.5), P2(mul, x, x))));
    return P2(mul, grad, P2(add, cdf, P2(mul, x, pdf)));
}

int body_sigmoid_backward(BodyCall *c) {
    const int grad = X(0), y = X(1);
    return P2(mul, grad, P2(mul, P2(sub, K(1), y), y));
}

int body_tanh_backward(BodyCall *c) {
    const int grad = X(0), y = X(1);
    return P2(mul, grad, P2(sub, K(1), P2(mul, y, y)));
}

int body_silu_backward(BodyCall *c) {
    const int grad = X(0), x = X(1), s = math_sigmoid(c, x);
    return P2(mul, P2(mul, grad, s), P2(add, K(1), P2(mul, x, P2(sub, K(1), s))));
}

BodyFn body_softplus, body_elu;
int body_softplus(BodyCall *c) { return math_softplus(c, X(0), N(1), N(2)); }

/* x >= 0: scale x; else alpha scale (e^(x input_scale) - 1). */
int body_elu(BodyCall *c) {
    const int x = X(0), negative = P2(mul, N(1), N(2));
    const int below = P2(mul, math_expm1(c, P2(mul, x, N(3))), negative);
    return P3(select, P2(lt, x, K(0)), below, P2(mul, x, N(2)));
}
