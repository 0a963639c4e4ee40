/* deriv_activation.c: derivatives of activations, and of their backward ops, which keep eager backward at one op per
 * activation. The latter are written out in plain ops: they run only where gradients of gradients are wanted. Those of
 * many steps are evaluated in f32 for bf16 and f16, as their backward ops are inside [semantics B5]. */
#include "passes/rules/deriv.h"

#include <math.h>

typedef struct Pair { /* of a backward op: g is the gradient of its result, go its grad_output, x its point */
    Builder *b;
    Val *g, *go, *x;
} Pair;

static Pair pair(const Deriv *d, int at) {
    Builder *const b = d->b;
    return (Pair){b, compute_of(b, grad_of(d)), compute_of(b, saved(d, 0)), compute_of(b, saved(d, at))};
}

/* result = go * slope(x): the two gradients from slope and its own slope. */
static Status set_pair(Deriv *d, Pair p, int at, Val *slope, Val *bend) {
    if (wants(d, 0)) TRY(deriv_set(d, 0, mul(p.b, p.g, slope)));
    if (wants(d, at)) TRY(deriv_set(d, at, mul(p.b, mul(p.b, p.g, p.go), bend)));
    return ST_OK;
}

/* relu and friends --------------------------------------------------------------------------------------------- */

Status deriv_relu(Deriv *d) {
    return deriv_set(d, 0, E(d->b, threshold_backward, V(grad_of(d)), V(d->results[0]), I(0)));
}
Status deriv_threshold(Deriv *d) {
    return deriv_set(d, 0, E(d->b, threshold_backward, V(grad_of(d)), d->args[0], d->args[1]));
}
/* Piecewise linear: its point has no gradient but zero. */
Status deriv_threshold_backward(Deriv *d) {
    if (wants(d, 0)) TRY(deriv_set(d, 0, E(d->b, threshold_backward, V(grad_of(d)), d->args[1], d->args[2])));
    return wants(d, 1) ? deriv_set(d, 1, zeros_of(d->b, d->arg_meta[1])) : ST_OK;
}

Status deriv_leaky_relu(Deriv *d) {
    return deriv_set(d, 0, E(d->b, leaky_relu_backward, V(grad_of(d)), d->args[0], d->args[1], A_BOOL(false)));
}
Status deriv_leaky_relu_backward(Deriv *d) {
    if (wants(d, 0))
        TRY(deriv_set(d, 0, E(d->b, leaky_relu_backward, V(grad_of(d)), d->args[1], d->args[2], d->args[3])));
    return wants(d, 1) ? deriv_set(d, 1, zeros_of(d->b, d->arg_meta[1])) : ST_OK;
}

Status deriv_hardtanh(Deriv *d) {
    return deriv_set(d, 0, E(d->b, hardtanh_backward, V(grad_of(d)), d->args[0], d->args[1], d->args[2]));
}
Status deriv_hardtanh_backward(Deriv *d) {
    if (wants(d, 0))
        TRY(deriv_set(d, 0, E(d->b, hardtanh_backward, V(grad_of(d)), d->args[1], d->args[2], d->args[3])));
    return wants(d, 1) ? deriv_set(d, 1, zeros_of(d->b, d->arg_meta[1])) : ST_OK;
}

static Val *between(Builder *b, Val *x, double low, double high) {
    return E(b, logical_and, V(E(b, gt_Tensor, V(x), F(low))), V(E(b, lt_Tensor, V(x), F(high))));
}

Status deriv_hardsigmoid(Deriv *d) {
    Val *const inside = between(d->b, saved(d, 0), -3, 3);
    return deriv_set(d, 0, keep_where(d->b, inside, div_n(d->b, grad_of(d), 6)));
}
Status deriv_hardswish(Deriv *d) {
    Builder *const b = d->b;
    Val *const g = grad_of(d), *const x = saved(d, 0);
    Val *const sloped = mul(b, g, add_n(b, div_n(b, x, 3), 0.5));
    Val *const high = E(b, where_self, V(E(b, ge_Tensor, V(x), F(3))), V(g), V(sloped));
    return deriv_set(d, 0, zero_where(b, E(b, le_Tensor, V(x), F(-3)), high));
}

/* sigmoid, tanh: by the result --------------------------------------------------------------------------------- */

Status deriv_sigmoid(Deriv *d) {
    return deriv_set(d, 0, E(d->b, sigmoid_backward, V(grad_of(d)), V(d->results[0])));
}
Status deriv_sigmoid_backward(Deriv *d) { /* go y (1 - y) */
    const Pair p = pair(d, 1);
    Val *const rest = n_minus(p.b, 1, p.x);
    return set_pair(d, p, 1, mul(p.b, rest, p.x), sub(p.b, rest, p.x));
}
Status deriv_tanh(Deriv *d) {
    return deriv_set(d, 0, E(d->b, tanh_backward, V(grad_of(d)), V(d->results[0])));
}
Status deriv_tanh_backward(Deriv *d) { /* go (1 - y y) */
    const Pair p = pair(d, 1);
    return set_pair(d, p, 1, n_minus(p.b, 1, square_of(p.b, p.x)), mul_n(p.b, p.x, -2));
}

/* gelu --------------------------------------------------------------------------------------------------------- */

Status deriv_gelu(Deriv *d) {
    return deriv_set(d, 0, E(d->b, gelu_backward, V(grad_of(d)), d->args[0], d->args[1]));
}

/* slope = cdf + x pdf, bend = pdf (2 - x x) */
static Status gelu_erf(Deriv *d, Pair p) {
    Builder *const b = p.b;
    Val *const cdf = mul_n(b, add_n(b, E(b, erf, V(mul_n(b, p.x, M_SQRT1_2))), 1), 0.5);
    Val *const e = E(b, exp, V(mul_n(b, square_of(b, p.x), -0.5)));
    Val *const pdf = mul_n(b, e, 0.5 * M_SQRT1_2 * M_2_SQRTPI);
    Val *const slope = add(b, cdf, mul(b, p.x, pdf));
    return set_pair(d, p, 1, slope, mul(b, pdf, n_minus(b, 2, square_of(b, p.x))));
}

/* t = tanh(u), u = beta (x + kappa x^3): slope = (1 + t + x t')/2 with t' = (1 - t t) u';
 * bend = t' + x t''/2 with t'' = (1 - t t) u'' - 2 t t' u' */
static Status gelu_tanh(Deriv *d, Pair p) {
    const double beta = M_SQRT2 * M_2_SQRTPI * 0.5, kappa = 0.044715;
    Builder *const b = p.b;
    Val *const square = square_of(b, p.x);
    Val *const inner = mul_n(b, mul(b, p.x, add_n(b, mul_n(b, square, kappa), 1)), beta);
    Val *const t = E(b, tanh, V(inner));
    Val *const rest = n_minus(b, 1, square_of(b, t));
    Val *const u1 = mul_n(b, add_n(b, mul_n(b, square, 3 * kappa), 1), beta);
    Val *const u2 = mul_n(b, p.x, 6 * kappa * beta);
    Val *const t1 = mul(b, rest, u1);
    Val *const t2 = sub(b, mul(b, rest, u2), mul_n(b, mul(b, mul(b, t, t1), u1), 2));
    Val *const slope = mul_n(b, add(b, add_n(b, t, 1), mul(b, p.x, t1)), 0.5);
    return set_pair(d, p, 1, slope, add(b, t1, mul_n(b, mul(b, p.x, t2), 0.5)));
}

Status deriv_gelu_backward(Deriv *d) {
    const char *const how = d->args[2].string;
    return how && !strcmp(how, "tanh") ? gelu_tanh(d, pair(d, 1)) : gelu_erf(d, pair(d, 1));
}

/* silu, softplus, elu, mish -------------------------------------------------------------------------------------- */

Status deriv_silu(Deriv *d) {
    return deriv_set(d, 0, E(d->b, silu_backward, V(grad_of(d)), d->args[0]));
}
Status deriv_silu_backward(Deriv *d) { /* go s (1 + x (1 - s)), s = sigmoid(x) */
    const Pair p = pair(d, 1);
    Val *const s = E(p.b, sigmoid, V(p.x)), *const rest = n_minus(p.b, 1, s);
    Val *const slope = mul(p.b, s, add_n(p.b, mul(p.b, p.x, rest), 1));
    Val *const twist = add_n(p.b, mul(p.b, p.x, sub(p.b, rest, s)), 2);
    return set_pair(d, p, 1, slope, mul(p.b, mul(p.b, s, rest), twist));
}

Status deriv_softplus(Deriv *d) {
    return deriv_set(d, 0, E(d->b, softplus_backward, V(grad_of(d)), d->args[0], d->args[1], d->args[2]));
}
Status deriv_softplus_backward(Deriv *d) { /* go sigmoid(beta x), go itself where beta x > threshold */
    const Pair p = pair(d, 1);
    double beta, threshold;
    TRY(deriv_number(d, 2, &beta));
    TRY(deriv_number(d, 3, &threshold));
    Val *const z = mul_n(p.b, p.x, beta), *const s = E(p.b, sigmoid, V(z));
    Val *const bend = mul_n(p.b, mul(p.b, s, n_minus(p.b, 1, s)), beta);
    Val *const linear = E(p.b, gt_Tensor, V(z), F(threshold));
    Val *const slope = E(p.b, where_self, V(linear), F(1), V(s));
    return set_pair(d, p, 1, slope, zero_where(p.b, linear, bend));
}

Status deriv_elu(Deriv *d) {
    return deriv_set(d, 0, E(d->b, elu_backward, V(grad_of(d)), d->args[1], d->args[2], d->args[3], A_BOOL(false), d->args[0]));
}
Status deriv_elu_backward(Deriv *d) { /* x: go n alpha c exp(n x) below 0, else go c; result: go n (y + alpha c) below 0 */
    const Pair p = pair(d, 5);
    double alpha, scale, inner;
    TRY(deriv_number(d, 1, &alpha));
    TRY(deriv_number(d, 2, &scale));
    TRY(deriv_number(d, 3, &inner));
    const bool is_result = d->args[4].i;
    Builder *const b = p.b;
    Val *const below = E(b, le_Tensor, V(p.x), F(0));
    Val *const curve = is_result ? mul_n(b, add_n(b, p.x, alpha * scale), inner)
                                 : mul_n(b, E(b, exp, V(mul_n(b, p.x, inner))), inner * alpha * scale);
    Val *const bend = is_result ? E(b, where_self, V(below), F(inner), F(0)) : keep_where(b, below, mul_n(b, curve, inner));
    return set_pair(d, p, 5, E(b, where_self, V(below), V(curve), F(scale)), bend);
}

Status deriv_mish(Deriv *d) { /* y = x t, t = tanh(softplus(x)): t + x (1 - t t) sigmoid(x) */
    Builder *const b = d->b;
    Val *const x = compute_of(b, saved(d, 0));
    Val *const t = E(b, tanh, V(E(b, softplus, V(x))));
    Val *const bent = mul(b, mul(b, x, E(b, sigmoid, V(x))), n_minus(b, 1, square_of(b, t)));
    return deriv_set(d, 0, mul(b, compute_of(b, grad_of(d)), add(b, t, bent)));
}

/* log(sigmoid(x)): g sigmoid(-x) */
Status deriv_log_sigmoid_forward(Deriv *d) {
    if (!grad_of(d)) return ST_OK;
    Builder *const b = d->b;
    Val *const s = E(b, sigmoid, V(negate(b, compute_of(b, saved(d, 0)))));
    return deriv_set(d, 0, mul(b, compute_of(b, grad_of(d)), s));
}

/* |x| <= lambda gives 0 (softshrink: and is moved toward it). */
Status deriv_shrink(Deriv *d) {
    Builder *const b = d->b;
    Val *const small = E(b, le_Tensor, V(E(b, abs, d->args[0])), d->args[1]);
    return deriv_set(d, 0, zero_where(b, small, grad_of(d)));
}

Status deriv_logit(Deriv *d) {
    Builder *const b = d->b;
    Val *const x = saved(d, 0);
    Val *const slope = quotient(b, grad_of(d), mul(b, x, n_minus(b, 1, x)));
    if (d->args[1].kind == ARG_none) return deriv_set(d, 0, slope);
    double eps;
    TRY(deriv_number(d, 1, &eps));
    Val *const out = E(b, logical_or, V(E(b, lt_Tensor, V(x), F(eps))), V(E(b, gt_Tensor, V(x), F(1 - eps))));
    return deriv_set(d, 0, zero_where(b, out, slope));
}

/* dropout ------------------------------------------------------------------------------------------------------ */

Status deriv_native_dropout(Deriv *d) { /* (input, p, train) -> (output, mask) */
    if (!grad_of(d)) return ST_OK;
    double p;
    TRY(deriv_number(d, 1, &p));
    const bool train = d->args[2].kind == ARG_none || d->args[2].i;
    const double scale = !train ? 1 : p == 1 ? 0 : 1 / (1 - p);
    return deriv_set(d, 0, E(d->b, native_dropout_backward, V(grad_of(d)), V(d->results[1]), F(scale)));
}
Status deriv_native_dropout_backward(Deriv *d) {
    return wants(d, 0) ? deriv_set(d, 0, E(d->b, native_dropout_backward, V(grad_of(d)), d->args[1], d->args[2])) : ST_OK;
}
