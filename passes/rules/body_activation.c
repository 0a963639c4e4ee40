/* body_activation.c: activations of ir/ops/activation.def and gradients of activations. Formulas and what happens at
 * their corners are PyTorch's: a point at a corner belongs to the side that its comparison names. */
#include "passes/rules/body_math.h"

/* 1 from -limit to limit, ends included. */
static int is_small(BodyCall *c, int x, int limit) { return P2(and, P2(ge, x, P1(neg, limit)), P2(le, x, limit)); }

BodyFn body_hardshrink, body_softshrink, body_shrink_backward;
int body_hardshrink(BodyCall *c) {
    const int x = X(0);
    return P3(select, is_small(c, x, R(1)), K(0), x);
}
/* NaN stays. */
int body_softshrink(BodyCall *c) {
    const int x = X(0), limit = R(1);
    const int middle = P3(select, P2(ne, x, x), x, K(0));
    const int low = P3(select, P2(lt, x, P1(neg, limit)), P2(add, x, limit), middle);
    return P3(select, P2(gt, x, limit), P2(sub, x, limit), low);
}
int body_shrink_backward(BodyCall *c) {
    const int grad = X(0), x = X(1), limit = R(2); /* a NaN has none, as in PyTorch's vectors */
    return P3(select, P2(or, P2(lt, x, P1(neg, limit)), P2(gt, x, limit)), grad, K(0));
}

BodyFn body_hardswish_backward, body_hardsigmoid_backward, body_hardtanh_backward, body_leaky_relu_backward;
int body_hardswish_backward(BodyCall *c) {
    const int grad = X(0), x = X(1);
    const int bent = P2(mul, grad, P2(add, P2(div, x, K(3)), K(0.5)));
    const int upper = P3(select, P2(ge, x, K(3)), grad, bent);
    return P3(select, P2(le, x, K(-3)), K(0), upper);
}
int body_hardsigmoid_backward(BodyCall *c) {
    const int grad = X(0), x = X(1);
    return P3(select, P2(and, P2(gt, x, K(-3)), P2(lt, x, K(3))), P2(div, grad, K(6)), K(0));
}
int body_hardtanh_backward(BodyCall *c) {
    const int grad = X(0), x = X(1);
    return P3(select, P2(and, P2(gt, x, N(2)), P2(lt, x, N(3))), grad, K(0));
}
int body_leaky_relu_backward(BodyCall *c) {
    const int grad = X(0), x = X(1);
    return P3(select, P2(gt, x, K(0)), grad, P2(mul, grad, N(2)));
}

BodyFn body_softplus_backward, body_elu_backward, body_mish_backward, body_log_sigmoid_backward, body_celu;
/* grad sigmoid(beta x); grad itself above the threshold */
int body_softplus_backward(BodyCall *c) {
    const int grad = X(0), scaled = P2(mul, X(1), N(2));
    return P3(select, P2(gt, scaled, N(3)), grad, P2(mul, grad, P1(sigmoid, scaled)));
}
/* (grad, alpha, scale, input_scale, is_result, x): below 0 the slope is input_scale (result + alpha scale) */
int body_elu_backward(BodyCall *c) {
    const int grad = X(0), x = X(5), inner = N(3), negative = P2(mul, N(1), N(2));
    const int curve = c->args[4].i ? P2(add, x, negative) : P2(mul, negative, P1(exp, P2(mul, x, inner)));
    const int below = P2(mul, P2(mul, grad, inner), curve); /* NaN stays */
    return P3(select, P2(gt, x, K(0)), P2(mul, grad, N(2)), below);
}
/* t + x s (1 - t t), t = tanh(softplus(x)), s = sigmoid(x) */
int body_mish_backward(BodyCall *c) {
    const int grad = X(0), x = X(1), t = P1(tanh, math_softplus(c, x, K(1), K(INFINITY)));
    const int held = math_zero_beyond(c, x, 1e4), rest = P3(fma, P1(neg, t), t, K(1));
    const int bend = P2(mul, P2(mul, held, P1(sigmoid, x)), rest);
    return P2(mul, grad, P2(add, t, bend));
}
/* z = exp(-|x|), which the buffer holds rounded: the slope is z / (1 + z) above 0, the rest of 1 below. */
int body_log_sigmoid_backward(BodyCall *c) {
    const int grad = X(0), x = X(1), z = P1(exp, P1(neg, P1(abs, x))), part = P2(div, z, P2(add, K(1), z));
    return P2(mul, grad, P3(select, P2(lt, x, K(0)), P2(sub, K(1), part), part));
}
int body_celu(BodyCall *c) {
    const int x = X(0), alpha = N(1);
    return P3(select, P2(lt, x, K(0)), P2(mul, alpha, P1(expm1, P2(div, x, alpha))), x);
}

BodyFn body_logit, body_logit_backward, body_prelu_kernel;
/* log(x / (1 - x)); beside 1/2, where that quotient is near 1, log1p of what it has above 1. Limits are given by eps,
 * which may be negative: then there is none. The lower one is first asked for: it wins where they cross. */
int body_logit(BodyCall *c) {
    int x = X(0);
    if (body_has(c, 1)) {
        const int eps = N(1), most = P2(sub, K(1), eps);
        const int held = P3(select, P2(lt, x, eps), eps, P3(select, P2(gt, x, most), most, x));
        x = P3(select, P2(lt, eps, K(0)), x, held);
    }
    const int rest = P2(sub, K(1), x), above = P2(sub, P2(add, x, x), K(1));
    const int middle = P2(and, P2(gt, x, K(0.3)), P2(lt, x, K(0.7)));
    return P3(select, middle, P1(log1p, P2(div, above, rest)), P1(log, P2(div, x, rest)));
}
int body_logit_backward(BodyCall *c) {
    const int grad = X(0), x = X(1), eps = body_has(c, 2) ? N(2) : K(-1), limited = P2(ge, eps, K(0));
    const int low = P3(select, limited, eps, K(0)), outside = P3(select, limited, K(0), K(NAN));
    const int slope = P2(div, grad, P2(mul, x, P2(sub, K(1), x)));
    return P3(select, P2(or, P2(lt, x, low), P2(gt, x, P2(sub, K(1), low))), outside, slope);
}
int body_prelu_kernel(BodyCall *c) {
    const int x = X(0);
    return P3(select, P2(gt, x, K(0)), x, P2(mul, x, X(1)));
}
