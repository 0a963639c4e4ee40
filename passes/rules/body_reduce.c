/* body_reduce.c: operand and combination of every reduction; the order is the nest's [semantics
 * B2]. */
#include "passes/lower.h"
#include "passes/rules/body.h"

BodyFn body_sum, body_sum_of_squares, body_mean, body_prod, body_amax, body_amin, body_any, body_all, body_argmax,
    body_argmin, body_dot;

static int truth(BodyCall *c) { return as_type(c, c->element(c, 0), S_b); }

/* Into bools elements are cast first: their sum is any, their product all. */
int body_sum(BodyCall *c) {
    if (c->out_dtype == DT_bool) return loop_reduce(c->lb, RED_any, truth(c), -1);
    return loop_reduce(c->lb, RED_sum, X(0), -1);
}
int body_prod(BodyCall *c) {
    if (c->out_dtype == DT_bool) return loop_reduce(c->lb, RED_all, truth(c), -1);
    return loop_reduce(c->lb, RED_prod, X(0), -1);
}

/* Fused multiply-adds in the lanes of the order. */
int body_sum_of_squares(BodyCall *c) {
    const int x = X(0);
    return loop_reduce(c->lb, RED_dot, x, x);
}

/* sum / n */
int body_mean(BodyCall *c) {
    const int sum = body_sum(c);
    return P2(div, sum, body_count(c, c->type));
}

int body_amax(BodyCall *c) {
    return c->type == S_b ? loop_reduce(c->lb, RED_any, truth(c), -1) : loop_reduce(c->lb, RED_max, X(0), -1);
}
int body_amin(BodyCall *c) {
    return c->type == S_b ? loop_reduce(c->lb, RED_all, truth(c), -1) : loop_reduce(c->lb, RED_min, X(0), -1);
}

int body_any(BodyCall *c) { return loop_reduce(c->lb, RED_any, truth(c), -1); }
int body_all(BodyCall *c) { return loop_reduce(c->lb, RED_all, truth(c), -1); }

/* Compared in the operand's own type; bools as ints. */
static int arg_operand(BodyCall *c) {
    const int x = c->element(c, 0);
    return loop_type(c->lb, x) == S_b ? loop_cast(c->lb, S_i32, x) : x;
}
int body_argmax(BodyCall *c) { return loop_reduce(c->lb, RED_argmax, arg_operand(c), -1); }
int body_argmin(BodyCall *c) { return loop_reduce(c->lb, RED_argmin, arg_operand(c), -1); }

/* dot and mv: lanes of fused multiply-adds; the second operand broadcasts over rows. */
int body_dot(BodyCall *c) {
    const int x = X(0), y = X(1);
    if (!body_is_float(c)) return loop_reduce(c->lb, RED_sum, P2(mul, x, y), -1);
    return loop_reduce(c->lb, RED_dot, x, y);
}
