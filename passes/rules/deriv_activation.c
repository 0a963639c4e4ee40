/* deriv_activation.c: derivatives of activations, and of their backward ops, which keep eager
 * backward at one op per activation. The latter are written out in plain ops: they run only where
 * gradients of gradients are wanted. Those of many steps are evaluated in f32 for bf16 and f16, as
 * their backward ops are inside [semantics B5]. */
#include "passes/rules/deriv.h"

#include <math.h>

typedef struct BackwardPoint { /* of a backward op: g is the gradient of its result, go its grad_output, x
                         its point */
    Builder *b;
    Val *g, *go, *x;
} BackwardPoint;

static BackwardPoint pair(const Deriv *d, int at) {
    Builder *const b = d->b;
    return (BackwardPoint){b, compute_of(b, grad_of(d)), compute_of(b, saved(d, 0)), compute_of(b, saved(d, at))};
}

/* The backward op, which is linear in grad_output, with the gradient of its result in its place. */
static Status backward_again(Deriv *d, int n) {
    Arg args[MAX_ARGS];
    if (!wants(d, 0)) return ST_OK;
    for (int i = 0; i < n; i++) args[i] = d->args[i];
    args[0] = V(grad_of(d));
    return deriv_set(d, 0, emit1(d->b, d->row->id, args, n));
}
/* result = go * slope(x): the gradient of x from the slope's own. */
static Status set_bend(Deriv *d, BackwardPoint p, int at, Val *bend) {
    return wants(d, at) ? deriv_set(d, at, mul(p.b, mul(p.b, p.g, p.go), bend)) : ST_OK;
}

/* s (1 - s), s = sigmoid(x), whose 1 - s is sigmoid(-x): it keeps its digits where s is near 1. */
static Val *logistic_slope(Builder *b, Val *x) { return mul(b, E(b, sigmoid, V(x)), E(b, sigmoid, V(negate(b, x)))); }
/* x, where a product with what is 0 there has to be 0. */
static Val *clamped(Builder *b, Val *x, double limit) { return E(b, clamp, V(x), F(-limit), F(limit)); }

/* relu and friends ---------------------------------------------------------------------------- */

Status deriv_relu(Deriv *d) {
    return deriv_set(d, 0, E(d->b, threshold_backward, V(grad_of(d)), V(d->results[0]), I(0)));
}
/* Piecewise linear: its point has no gradient but zero. */
Status deriv_threshold_backward(Deriv *d) {
    if (wants(d, 0)) TRY(deriv_set(d, 0, E(d->b, threshold_backward, V(grad_of(d)), d->args[1], d->args[2])));
    return wants(d, 1) ? deriv_set(d, 1, zeros_of(d->b, d->arg_meta[1])) : ST_OK;
}

/* sigmoid, tanh: by the result ---------------------------------------------------------------- */

Status deriv_sigmoid(Deriv *d) { return deriv_set(d, 0, E(d->b, sigmoid_backward, V(grad_of(d)), V(d->results[0]))); }
Status deriv_sigmoid_backward(Deriv *d) { /* go y (1 - y) */
    const BackwardPoint p = pair(d, 1);
    TRY(backward_again(d, 2));
    return set_bend(d, p, 1, sub(p.b, n_minus(p.b, 1, p.x), p.x));
}
Status deriv_tanh(Deriv *d) { return deriv_set(d, 0, E(d->b, tanh_backward, V(grad_of(d)), V(d->results[0]))); }
Status deriv_tanh_backward(Deriv *d) { /* go (1 - y y) */
    const BackwardPoint p = pair(d, 1);
    TRY(backward_again(d, 2));
    return set_bend(d, p, 1, mul_n(p.b, p.x, -2));
}

/* gelu ---------------------------------------------------------------------------------------- */

Status deriv_gelu(Deriv *d) { return deriv_set(d, 0, E(d->b, gelu_backward, V(grad_of(d)), d->args[0], d->args[1])); }

/* slope = cdf + x pdf, bend = pdf (2 - x x) */
static Val *gelu_erf_bend(Builder *b, Val *x) {
    Val *const square = square_of(b, clamped(b, x, 1e10)), *const e = E(b, exp, V(mul_n(b, square, -0.5)));
    return mul(b, mul_n(b, e, 0.5 * M_SQRT1_2 * M_2_SQRTPI), n_minus(b, 2, square));
}

/* t = tanh(u), u = beta (x + kappa x^3): slope = (1 + t + x t')/2 with t' = (1 - t t) u';
 * bend = t' + x t''/2 with t'' = (1 - t t) u'' - 2 t t' u'; 1 - t t = 4 s (1 - s) of s = sigmoid(2 u) */
static Val *gelu_tanh_bend(Builder *b, Val *given) {
    const double beta = M_SQRT2 * M_2_SQRTPI * 0.5, kappa = 0.044715;
    Val *const x = clamped(b, given, 1e4), *const square = square_of(b, x);
    Val *const inner = mul_n(b, mul(b, x, add_n(b, mul_n(b, square, kappa), 1)), beta);
    Val *const t = E(b, tanh, V(inner)), *const rest = mul_n(b, logistic_slope(b, mul_n(b, inner, 2)), 4);
    Val *const u1 = mul_n(b, add_n(b, mul_n(b, square, 3 * kappa), 1), beta);
    Val *const u2 = mul_n(b, x, 6 * kappa * beta);
    Val *const t1 = mul(b, rest, u1);
    Val *const t2 = sub(b, mul(b, rest, u2), mul_n(b, mul(b, mul(b, t, t1), u1), 2));
    return add(b, t1, mul_n(b, mul(b, x, t2), 0.5));
}

Status deriv_gelu_backward(Deriv *d) {
    const BackwardPoint p = pair(d, 1);
    const char *const how = d->args[2].string;
    TRY(backward_again(d, 3));
    if (!wants(d, 1)) return ST_OK;
    return set_bend(d, p, 1, how && !strcmp(how, "tanh") ? gelu_tanh_bend(p.b, p.x) : gelu_erf_bend(p.b, p.x));
}

/* silu ---------------------------------------------------------------------------------------- */

Status deriv_silu(Deriv *d) { return deriv_set(d, 0, E(d->b, silu_backward, V(grad_of(d)), d->args[0])); }
Status deriv_silu_backward(Deriv *d) { /* go s (1 + x (1 - s)), s = sigmoid(x) */
    const BackwardPoint p = pair(d, 1);
    TRY(backward_again(d, 2));
    if (!wants(d, 1)) return ST_OK;
    Val *const x = clamped(p.b, p.x, 1e4), *const s = E(p.b, sigmoid, V(x));
    Val *const twist = add_n(p.b, mul(p.b, x, sub(p.b, n_minus(p.b, 1, s), s)), 2);
    return set_bend(d, p, 1, mul(p.b, logistic_slope(p.b, x), twist));
}

/* corners, shrinks, elu and their kind: one call of the backward op, which is linear in grad_output and flat in self
 * where the activation is made of lines. --------------------------------------------------------- */

static Status flat_at(Deriv *d, int at) {
    return wants(d, at) ? deriv_set(d, at, zeros_of(d->b, d->arg_meta[at])) : ST_OK;
}

/* Made of lines. */
Status deriv_line_backward(Deriv *d) {
    TRY(backward_again(d, d->row->n_params));
    return flat_at(d, 1);
}

Status deriv_hardtanh(Deriv *d) {
    return deriv_set(d, 0, E(d->b, hardtanh_backward, V(grad_of(d)), d->args[0], d->args[1], d->args[2]));
}
Status deriv_hardsigmoid(Deriv *d) { return deriv_set(d, 0, E(d->b, hardsigmoid_backward, V(grad_of(d)), d->args[0])); }
Status deriv_leaky_relu(Deriv *d) {
    return deriv_set(d, 0, E(d->b, leaky_relu_backward, V(grad_of(d)), d->args[0], d->args[1], A_BOOL(false)));
}
Status deriv_hardshrink(Deriv *d) {
    return deriv_set(d, 0, E(d->b, hardshrink_backward, V(grad_of(d)), d->args[0], d->args[1]));
}
Status deriv_softshrink(Deriv *d) {
    return deriv_set(d, 0, E(d->b, softshrink_backward, V(grad_of(d)), d->args[0], d->args[1]));
}

Status deriv_hardswish(Deriv *d) { return deriv_set(d, 0, E(d->b, hardswish_backward, V(grad_of(d)), d->args[0])); }
/* Between the corners the slope grows by 1 / 3. */
Status deriv_hardswish_backward(Deriv *d) {
    Builder *const b = d->b;
    TRY(backward_again(d, 2));
    if (!wants(d, 1)) return ST_OK;
    Val *const above = E(b, gt_Tensor, d->args[1], F(-3)), *const below = E(b, lt_Tensor, d->args[1], F(3));
    Val *const bend = div_n(b, mul(b, compute_of(b, grad_of(d)), compute_of(b, saved(d, 0))), 3);
    return deriv_set(d, 1, keep_where(b, E(b, logical_and, V(above), V(below)), bend));
}

Status deriv_softplus(Deriv *d) {
    return deriv_set(d, 0, E(d->b, softplus_backward, V(grad_of(d)), d->args[0], d->args[1], d->args[2]));
}
/* (grad_output, self, beta, threshold): beta s (1 - s) up to the threshold, s = sigmoid(beta x) */
Status deriv_softplus_backward(Deriv *d) {
    Builder *const b = d->b;
    TRY(backward_again(d, 4));
    if (!wants(d, 1)) return ST_OK;
    Val *const z = scaled(b, compute_of(b, saved(d, 1)), &d->args[2]);
    Val *const both = mul(b, compute_of(b, grad_of(d)), compute_of(b, saved(d, 0)));
    Val *const bend = scaled(b, mul(b, both, logistic_slope(b, z)), &d->args[2]);
    return deriv_set(d, 1, zero_where(b, E(b, gt_Tensor, V(z), d->args[3]), bend));
}

/* (self, alpha, scale, input_scale) */
Status deriv_elu(Deriv *d) {
    return deriv_set(
        d, 0, E(d->b, elu_backward, V(grad_of(d)), d->args[1], d->args[2], d->args[3], A_BOOL(false), d->args[0]));
}
Status deriv_celu(Deriv *d) {
    double alpha;
    TRY(deriv_number(d, 1, &alpha));
    return deriv_set(d, 0,
                     E(d->b, elu_backward, V(grad_of(d)), F(alpha), I(1), F(1 / alpha), A_BOOL(false), d->args[0]));
}
/* (grad_output, alpha, scale, input_scale, is_result, x): of the result a line, else the curve's slope again */
Status deriv_elu_backward(Deriv *d) {
    double alpha, scale, inner;
    TRY(deriv_number(d, 1, &alpha));
    TRY(deriv_number(d, 2, &scale));
    TRY(deriv_number(d, 3, &inner));
    Builder *const b = d->b;
    TRY(backward_again(d, 6));
    if (!wants(d, 5)) return ST_OK;
    Val *const x = compute_of(b, saved(d, 5));
    Val *const both = mul_n(b, mul(b, compute_of(b, grad_of(d)), compute_of(b, saved(d, 0))), inner);
    Val *bend = both;
    if (!d->args[4].i) bend = mul_n(b, mul(b, both, E(b, exp, V(mul_n(b, x, inner)))), inner * alpha * scale);
    return deriv_set(d, 5, keep_where(b, E(b, lt_Tensor, V(x), F(0)), bend));
}

Status deriv_mish(Deriv *d) { return deriv_set(d, 0, E(d->b, mish_backward, V(grad_of(d)), d->args[0])); }
/* t = tanh(w), w = softplus(x), s = sigmoid(x), u = 1 - t t = 4 r (1 - r) of r = sigmoid(2 w):
 * slope t + x s u, bend s u (2 + x (1 - s) - 2 x s t) */
Status deriv_mish_backward(Deriv *d) {
    const BackwardPoint p = pair(d, 1);
    Builder *const b = d->b;
    TRY(backward_again(d, 2));
    if (!wants(d, 1)) return ST_OK;
    Val *const x = clamped(b, p.x, 1e4), *const s = E(b, sigmoid, V(x)), *const w = E(b, softplus, V(x));
    Val *const u = mul_n(b, logistic_slope(b, mul_n(b, w, 2)), 4);
    Val *const turn = sub(b, n_minus(b, 1, s), mul_n(b, mul(b, s, E(b, tanh, V(w))), 2));
    return set_bend(d, p, 1, mul(b, mul(b, s, u), add_n(b, mul(b, x, turn), 2)));
}

/* (grad_output, self, buffer, whose values nobody reads): -s (1 - s) with s = sigmoid(x) */
Status deriv_log_sigmoid_backward(Deriv *d) {
    Builder *const b = d->b;
    const Arg self = d->args[1];
    if (wants(d, 0)) TRY(deriv_set(d, 0, E(b, log_sigmoid_backward, V(grad_of(d)), self, self)));
    if (!wants(d, 1)) return ST_OK;
    Val *const both = mul(b, compute_of(b, grad_of(d)), compute_of(b, saved(d, 0)));
    return deriv_set(d, 1, negate(b, mul(b, both, logistic_slope(b, compute_of(b, saved(d, 1))))));
}

Status deriv_logit(Deriv *d) { return deriv_set(d, 0, E(d->b, logit_backward, V(grad_of(d)), d->args[0], d->args[1])); }
/* (grad_output, self, eps): (2 x - 1) / (x (1 - x))^2 where the slope is not cut */
Status deriv_logit_backward(Deriv *d) {
    Builder *const b = d->b;
    TRY(backward_again(d, 3));
    if (!wants(d, 1)) return ST_OK;
    Val *const x = compute_of(b, saved(d, 1)), *const under = square_of(b, mul(b, x, n_minus(b, 1, x)));
    Val *const bend = quotient(b, add_n(b, mul_n(b, x, 2), -1), under);
    const bool limited = d->args[2].kind == ARG_float && d->args[2].f >= 0;
    const double low = limited ? d->args[2].f : 0;
    Val *const out = E(b, logical_or, V(E(b, lt_Tensor, V(x), F(low))), V(E(b, gt_Tensor, V(x), F(1 - low))));
    Val *const both = mul(b, compute_of(b, grad_of(d)), compute_of(b, saved(d, 0)));
    return deriv_set(d, 1, zero_where(b, out, mul(b, both, bend)));
}

/* Ones that are below or at 0 take the weight, which takes them. */
Status deriv_prelu_kernel(Deriv *d) {
    Builder *const b = d->b;
    Val *const g = grad_of(d), *const above = E(b, gt_Tensor, d->args[0], F(0));
    if (wants(d, 0)) TRY(deriv_set(d, 0, E(b, where_self, V(above), V(g), V(mul(b, g, saved(d, 1))))));
    return wants(d, 1) ? deriv_set(d, 1, zero_where(b, above, mul(b, g, saved(d, 0)))) : ST_OK;
}

/* dropout ------------------------------------------------------------------------------------- */

Status deriv_native_dropout(Deriv *d) { /* (input, p, train) -> (output, mask) */
    if (!grad_of(d)) return ST_OK;
    double p;
    TRY(deriv_number(d, 1, &p));
    const bool train = d->args[2].kind == ARG_none || d->args[2].i;
    const double scale = !train ? 1 : p == 1 ? 0 : 1 / (1 - p);
    return deriv_set(d, 0, E(d->b, native_dropout_backward, V(grad_of(d)), V(d->results[1]), F(scale)));
}
/* (self, ...) -> (output, mask): straight through; rounding counts as no change, a limit that was reached as a
 * constant. */
Status deriv_fake_quantize(Deriv *d) {
    return grad_of(d) ? deriv_set(d, 0, mul(d->b, grad_of(d), d->results[1])) : ST_OK;
}
Status deriv_native_dropout_backward(Deriv *d) {
    return wants(d, 0) ? deriv_set(d, 0, E(d->b, native_dropout_backward, V(grad_of(d)), d->args[1], d->args[2]))
                       : ST_OK;
}
