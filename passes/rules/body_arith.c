/* body_arith.c: arithmetic, comparisons, bits, rounding, selection: what moves or combines values
 * without approximation. Integer division by zero is a value error [semantics B3]. */
#include "passes/rules/body_math.h"

#define UNARY(name, result)                                                                                            \
    BodyFn body_##name;                                                                                                \
    int body_##name(BodyCall *c) {                                                                                     \
        const int x = X(0);                                                                                            \
        return result;                                                                                                 \
    }
#define BINARY(name, result)                                                                                           \
    BodyFn body_##name;                                                                                                \
    int body_##name(BodyCall *c) {                                                                                     \
        const int x = X(0), y = X(1);                                                                                  \
        return result;                                                                                                 \
    }

int body_operand(BodyCall *c, int arg) {
    const int inst = c->element(c, arg);
    const Arg *const a = &c->args[arg];
    if (a->kind != ARG_tensor) return loop_stored(c->lb, c->common, inst);
    const DType own = a->val ? a->val->meta->dtype : c->common, common = c->common;
    const bool rounds = dtype_is_int(own) && dtype_bytes(own) > 1 && dtype_is_float(common); /* f16 has no 2049 */
    const bool narrows = body_is_weak(c, arg) && dtype_promote(own, common) != common;
    return own != common && (rounds || narrows) ? loop_stored(c->lb, common, inst) : inst;
}

/* sums and products --------------------------------------------------------------------------- */

BodyFn body_add, body_sub, body_rsub, body_addcmul, body_addcdiv, body_lerp;

static int scaled(BodyCall *c, int value, int alpha) {
    return body_number_is(c, alpha, 1) ? value : P2(mul, value, N(alpha));
}

/* A value inside the op as a store and a load would leave it. */
static int in_out_dtype(BodyCall *c, int x) {
    if (c->out_dtype == DT_f16) return P1(round_f16, x);
    return c->out_dtype == DT_bf16 ? P1(round_bf16, x) : x;
}

/* alpha * arg as PyTorch's add and sub take it: the product is what mul would store. */
static int addend(BodyCall *c, int arg, int alpha) {
    const int value = X(arg);
    if (body_number_is(c, alpha, 1)) return value;
    return in_out_dtype(c, P2(mul, value, in_out_dtype(c, N(alpha))));
}

/* self + alpha * other; bools add as or. */
int body_add(BodyCall *c) {
    const int self = X(0);
    if (c->type == S_b) return P2(or, self, P2(and, X(1), N(2)));
    return P2(add, self, addend(c, 1, 2));
}

int body_sub(BodyCall *c) {
    const int self = X(0);
    return P2(sub, self, addend(c, 1, 2));
}

int body_rsub(BodyCall *c) {
    const int other = X(1);
    return P2(sub, other, addend(c, 0, 2));
}

int body_addcmul(BodyCall *c) {
    const int factor = scaled(c, X(1), 3), product = P2(mul, factor, X(2));
    return P2(add, X(0), product);
}

BodyFn body_fma;
/* Ints have no fma: their product and sum wrap around. */
int body_fma(BodyCall *c) { return body_is_float(c) ? P3(fma, X(0), X(1), X(2)) : P2(add, P2(mul, X(0), X(1)), X(2)); }

int body_addcdiv(BodyCall *c) {
    const int dividend = scaled(c, X(1), 3), quotient = P2(div, dividend, X(2));
    return P2(add, X(0), quotient);
}

/* PyTorch's two forms keep both ends exact. A weight that is a number stays one of f32 beside halves. */
int body_lerp(BodyCall *c) {
    const int self = X(0), end = X(1), weight = c->args[2].kind == ARG_tensor ? X(2) : W(2), way = P2(sub, end, self);
    const int low = P2(add, self, P2(mul, weight, way));
    const int high = P2(sub, end, P2(mul, way, P2(sub, K(1), weight)));
    return P3(select, P2(lt, P1(abs, weight), K(0.5)), low, high);
}

BodyFn body_mul;
int body_mul(BodyCall *c) {
    const int x = X(0), y = W(1);
    return c->type == S_b ? P2(and, x, y) : P2(mul, x, y);
}
UNARY(neg, P1(neg, x))
UNARY(abs, P1(abs, x))

/* division ------------------------------------------------------------------------------------ */

static int floor_int(BodyCall *c, int x, int y) {
    const int quotient = P2(idiv, x, y), rest = P2(imod, x, y);
    const int below = P2(and, P2(ne, rest, K(0)), P2(ne, P2(lt, rest, K(0)), P2(lt, y, K(0))));
    return P3(select, below, P2(sub, quotient, K(1)), quotient);
}

/* As Python and PyTorch: from the remainder, so that no multiple is missed by rounding x / y. */
static int floor_float(BodyCall *c, int x, int y) {
    const int rest = P2(fmod, x, y);
    const int exact = P2(div, P2(sub, x, rest), y);
    const int below = P2(and, P2(ne, rest, K(0)), P2(ne, P2(lt, rest, K(0)), P2(lt, y, K(0))));
    const int quotient = P3(select, below, P2(sub, exact, K(1)), exact);
    const int down = P1(floor, quotient);
    const int near = P3(select, P2(gt, P2(sub, quotient, down), K(0.5)), P2(add, down, K(1)), down);
    const int zero = math_copysign(c, K(0), P2(div, x, y));
    const int result = P3(select, P2(eq, quotient, K(0)), zero, near);
    return P3(select, P2(eq, y, K(0)), P2(div, x, y), result);
}

static int divide_floor(BodyCall *c) {
    const int x = X(0), y = W(1);
    return body_is_float(c) ? floor_float(c, x, y) : floor_int(c, x, body_nonzero(c, y));
}

BodyFn body_div, body_div_mode, body_floor_divide, body_fmod, body_remainder;
int body_div(BodyCall *c) {
    const int x = X(0);
    return P2(div, x, W(1));
}

/* rounding_mode None, "trunc" or "floor"; a half quotient is stored before it is truncated, as in
 * PyTorch. */
int body_div_mode(BodyCall *c) {
    const Arg *const mode = &c->args[2];
    if (mode->kind != ARG_string) return body_div(c);
    if (!strcmp(mode->string, "floor")) return divide_floor(c);
    const int x = X(0), y = W(1);
    return body_is_float(c) ? P1(trunc, in_out_dtype(c, P2(div, x, y))) : P2(idiv, x, body_nonzero(c, y));
}

int body_floor_divide(BodyCall *c) { return divide_floor(c); }

int body_fmod(BodyCall *c) {
    const int x = X(0), y = X(1);
    return body_is_float(c) ? P2(fmod, x, y) : P2(imod, x, body_nonzero(c, y));
}

/* The sign of the divisor. */
int body_remainder(BodyCall *c) {
    const int x = X(0), y = body_is_float(c) ? X(1) : body_nonzero(c, X(1));
    const int rest = body_is_float(c) ? P2(fmod, x, y) : P2(imod, x, y);
    const int other = P2(and, P2(ne, rest, K(0)), P2(ne, P2(lt, rest, K(0)), P2(lt, y, K(0))));
    return P3(select, other, P2(add, rest, y), rest);
}

/* powers -------------------------------------------------------------------------------------- */

/* Exponents that PyTorch computes without pow, where the exponent is a number known now. */
static int power(BodyCall *c, int base, int exponent_arg) {
    if (c->type == S_b) return P2(or, base, P1(not, N(exponent_arg)));
    if (!body_is_float(c)) return P2(ipow, base, X(exponent_arg));
    if (body_number_is(c, exponent_arg, 2)) return P2(mul, base, base);
    if (body_number_is(c, exponent_arg, 3)) return P2(mul, P2(mul, base, base), base);
    if (body_number_is(c, exponent_arg, 0.5)) return P1(sqrt, base);
    if (body_number_is(c, exponent_arg, -0.5)) return P2(div, K(1), P1(sqrt, base));
    if (body_number_is(c, exponent_arg, -1)) return P2(div, K(1), base);
    if (body_number_is(c, exponent_arg, -2)) return P2(div, K(1), P2(mul, base, base));
    return P2(pow, base, X(exponent_arg));
}

BodyFn body_pow;
int body_pow(BodyCall *c) { return power(c, X(0), 1); }

/* comparisons, logic, bits -------------------------------------------------------------------- */

BINARY(eq, P2(eq, x, y))
BINARY(ne, P2(ne, x, y))
BINARY(lt, P2(lt, x, y))
BINARY(le, P2(le, x, y))
BINARY(gt, P2(gt, x, y))
BINARY(ge, P2(ge, x, y))

static int truth(BodyCall *c, int arg) { return as_type(c, body_operand(c, arg), S_b); }

BodyFn body_logical_and, body_logical_or, body_logical_xor, body_logical_not;
int body_logical_and(BodyCall *c) {
    const int x = truth(c, 0);
    return P2(and, x, truth(c, 1));
}
int body_logical_or(BodyCall *c) {
    const int x = truth(c, 0);
    return P2(or, x, truth(c, 1));
}
int body_logical_xor(BodyCall *c) {
    const int x = truth(c, 0);
    return P2(xor, x, truth(c, 1));
}
int body_logical_not(BodyCall *c) { return P1(not, truth(c, 0)); }

BINARY(bitwise_and, P2(and, x, y))
BINARY(bitwise_or, P2(or, x, y))
BINARY(bitwise_xor, P2(xor, x, y))
BINARY(bitwise_left_shift, P2(shl, x, y))
BINARY(bitwise_right_shift, P2(shr, x, y))
UNARY(bitwise_not, P1(not, x))
UNARY(isnan, P2(ne, x, x))
UNARY(isinf, body_is_float(c) ? P2(eq, P1(abs, x), K(INFINITY)) : P2(ne, x, x))
UNARY(isfinite, body_is_float(c) ? P2(lt, P1(abs, x), K(INFINITY)) : P2(eq, x, x))
UNARY(signbit, c->type == S_b ? P2(xor, x, x) : math_signbit(c, x))

/* rounding, sign ------------------------------------------------------------------------------ */

UNARY(floor, body_is_float(c) ? P1(floor, x) : x)
UNARY(ceil, body_is_float(c) ? P1(ceil, x) : x)
UNARY(trunc, body_is_float(c) ? P1(trunc, x) : x)
UNARY(round, body_is_float(c) ? P1(rint, x) : x)
UNARY(frac, P2(sub, x, P1(trunc, x)))

/* As PyTorch: scaled, rounded, scaled back, each of them stored; the power is known now. */
BodyFn body_round_decimals;
int body_round_decimals(BodyCall *c) {
    const int64_t decimals = sym_concrete(body_env(c), c->args[1].i);
    double power = 1;
    const int64_t step = decimals < 0 ? -1 : 1; /* the least int has no positive twin */
    for (int64_t i = decimals; i && power < INFINITY; i -= step) power *= 10;
    const int x = X(0), ten = in_out_dtype(c, K(power));
    if (decimals < 0) return P2(mul, P1(rint, in_out_dtype(c, P2(div, x, ten))), ten);
    return P2(div, P1(rint, in_out_dtype(c, P2(mul, x, ten))), ten);
}

BodyFn body_sign;
int body_sign(BodyCall *c) {
    const int x = X(0);
    if (c->type == S_b) return x;
    return P3(select, P2(gt, x, K(0)), K(1), P3(select, P2(lt, x, K(0)), K(-1), K(0)));
}

/* selection ----------------------------------------------------------------------------------- */

static int larger(BodyCall *c, int x, int y) { return c->type == S_b ? P2(or, x, y) : P2(max, x, y); }
static int smaller(BodyCall *c, int x, int y) { return c->type == S_b ? P2(and, x, y) : P2(min, x, y); }
BINARY(maximum, larger(c, x, y))
BINARY(minimum, smaller(c, x, y))

/* value, or where one operand is NaN, the other */
static int unless_nan(BodyCall *c, int value) {
    const int x = X(0), y = X(1);
    return P3(select, P2(ne, x, x), y, P3(select, P2(ne, y, y), x, value));
}
BodyFn body_fmax, body_fmin;
int body_fmax(BodyCall *c) { return body_is_float(c) ? unless_nan(c, body_maximum(c)) : body_maximum(c); }
int body_fmin(BodyCall *c) { return body_is_float(c) ? unless_nan(c, body_minimum(c)) : body_minimum(c); }
UNARY(relu, P2(max, x, K(0)))
UNARY(relu6, P2(min, P2(max, x, K(0)), K(6)))

BodyFn body_clamp, body_clamp_min, body_clamp_max, body_hardtanh, body_where, body_masked_fill, body_threshold;
BodyFn body_threshold_backward, body_leaky_relu, body_nan_to_num;
BodyFn body_hardsigmoid, body_hardswish;
/* A number saturates: one below or above all of an int dtype's values must not wrap to one of them. */
static int bound(BodyCall *c, int arg) {
    const DType dtype = c->out_dtype;
    if (!arg_is_number(&c->args[arg]) || !dtype_is_int(dtype)) return X(arg);
    const int least = loop_const(c->lb, S_i64, 0, dtype_least(dtype));
    const int largest = loop_const(c->lb, S_i64, 0, dtype_largest(dtype));
    const int number = P2(max, c->number(c, arg, S_i64), least);
    return as_type(c, P2(min, number, largest), c->type);
}

/* min(max(self, low), high), either absent. */
int body_clamp(BodyCall *c) {
    int x = X(0);
    if (body_has(c, 1)) x = P2(max, x, bound(c, 1));
    return body_has(c, 2) ? P2(min, x, bound(c, 2)) : x;
}
int body_clamp_min(BodyCall *c) {
    const int x = X(0);
    return larger(c, x, bound(c, 1));
}
int body_clamp_max(BodyCall *c) {
    const int x = X(0);
    return smaller(c, x, bound(c, 1));
}
static int scalar_bound(BodyCall *c, int arg) { return dtype_is_int(c->out_dtype) ? bound(c, arg) : N(arg); }
int body_hardtanh(BodyCall *c) {
    const int x = X(0);
    return P2(min, P2(max, x, scalar_bound(c, 1)), scalar_bound(c, 2));
}
int body_hardsigmoid(BodyCall *c) {
    const int x = X(0), shifted = P2(min, P2(max, P2(add, x, K(3)), K(0)), K(6));
    return P2(div, shifted, K(6));
}
/* x max(x + 3, 0) / 6 below 3; above it x itself, whose product with 6 might overflow. */
int body_hardswish(BodyCall *c) {
    const int x = X(0), curve = P2(div, P2(mul, x, P2(max, P2(add, x, K(3)), K(0))), K(6));
    return P3(select, P2(ge, x, K(3)), x, curve);
}
/* where(condition, self, other) */
int body_where(BodyCall *c) {
    const int condition = truth(c, 0), self = X(1);
    return P3(select, condition, self, X(2));
}
int body_masked_fill(BodyCall *c) {
    const int self = X(0), mask = truth(c, 1);
    return P3(select, mask, X(2), self);
}
/* Of ints the number wraps to the dtype; beside halves it stays one of f32. */
static int threshold_of(BodyCall *c, int arg) { return dtype_is_int(c->common) ? R(arg) : N(arg); }
/* self > threshold ? self : value; NaN passes */
int body_threshold(BodyCall *c) {
    const int x = X(0);
    return P3(select, P2(le, x, threshold_of(c, 1)), N(2), x);
}
int body_threshold_backward(BodyCall *c) {
    const int grad = X(0), x = X(1);
    return P3(select, P2(le, x, threshold_of(c, 2)), K(0), grad);
}
int body_leaky_relu(BodyCall *c) {
    const int x = X(0);
    return P3(select, P2(gt, x, K(0)), x, P2(mul, x, N(1)));
}

/* The largest finite value of the result's dtype. */
static double largest(DType dtype) {
    switch (dtype) {
    case DT_f64:
        return 1.7976931348623157e308;
    case DT_f16:
        return 65504.0;
    case DT_bf16:
        return 3.3895313892515355e38;
    default:
        return 3.4028234663852886e38;
    }
}

int body_nan_to_num(BodyCall *c) {
    const int x = X(0);
    if (!body_is_float(c)) return x;
    const double most = largest(c->out_dtype);
    const int nan = body_has(c, 1) ? N(1) : K(0);
    const int high = body_has(c, 2) ? N(2) : K(most), low = body_has(c, 3) ? N(3) : K(-most);
    const int ends = P3(select, P2(eq, x, K(INFINITY)), high, P3(select, P2(eq, x, K(-INFINITY)), low, x));
    return P3(select, P2(ne, x, x), nan, ends);
}

/* self, which must be from 0 to 1: no NaN is. The error tells the element, -1 - its position. */
BodyFn body_in_unit;
int body_in_unit(BodyCall *c) {
    const int x = X(0), good = P2(and, P2(ge, x, K(0)), P2(le, x, K(1)));
    const int place = P2(sub, loop_const(c->lb, S_i64, 0, -1), c->position(c));
    return body_checked(c, x, P1(not, good), place);
}

BodyFn body_weights;
int body_weights(BodyCall *c) {
    const int x = X(0), good = P2(and, P2(ge, x, K(0)), P2(lt, x, K(INFINITY)));
    const int place = P2(sub, loop_const(c->lb, S_i64, 0, -1), c->position(c));
    return body_checked(c, x, P1(not, good), place);
}

BodyFn body_holds;
/* bools, each of which must be true */
int body_holds(BodyCall *c) {
    const int x = X(0), place = P2(sub, loop_const(c->lb, S_i64, 0, -1), c->position(c));
    return body_checked(c, x, P1(not, x), place);
}

/* copies -------------------------------------------------------------------------------------- */

BodyFn body_copy, body_clone, body_cast, body_fill;
/* Elements in their own type: lowering casts to the result's dtype. */
int body_copy(BodyCall *c) { return c->element(c, 1); }
int body_clone(BodyCall *c) { return c->element(c, 0); }
int body_cast(BodyCall *c) { return c->element(c, 0); }
int body_fill(BodyCall *c) { return X(1); }

BodyFn body_native_dropout_backward;
/* grad * mask * scale */
int body_native_dropout_backward(BodyCall *c) {
    const int grad = X(0);
    return P2(mul, P2(mul, grad, X(1)), N(2));
}
