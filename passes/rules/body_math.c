/* body_math.c: arithmetic and elementary functions. Formulas follow PyTorch's; divisions and square roots are IEEE, fused
 * multiply-adds only where named [semantics B]. */
#include "passes/rules/body.h"

BodyFn body_add, body_mul, body_relu, body_gelu, body_exp, body_copy;

/* self + alpha * other; bools add as or, multiply as and. */
int body_add(BodyCall *c) {
    const int self = X(0);
    int other = X(1);
    if (c->type == S_b) return P2(or, self, other);
    if (!body_number_is(c, 2, 1)) other = P2(mul, other, N(2));
    return P2(add, self, other);
}

int body_mul(BodyCall *c) {
    const int self = X(0), other = X(1);
    return c->type == S_b ? P2(and, self, other) : P2(mul, self, other);
}

int body_relu(BodyCall *c) { return P2(max, X(0), K(0)); }
int body_exp(BodyCall *c) { return P1(exp, X(0)); }

/* x Phi(x); the tanh form is x / (1 + e^(-2 sqrt(2/pi) (x + 0.044715 x^3))), its exponent in base 2. */
int body_gelu(BodyCall *c) {
    const int x = X(0);
    const Arg *const form = &c->args[1];
    if (form->kind == ARG_string && !strcmp(form->string, "tanh")) {
        const double c0 = -2.302208198144325, c1 = -0.1029432396800385; /* -2 sqrt(2/pi) log2(e); c0 0.044715 */
        const int z = P2(mul, x, P3(fma, P2(mul, x, x), K(c1), K(c0)));
        return P2(div, x, P2(add, K(1), P1(exp2, z)));
    }
    const int phi = P2(add, K(1), P1(erf, P2(mul, x, K(0.7071067811865476))));
    return P2(mul, P2(mul, x, K(0.5)), phi);
}

/* src in its own type: lowering casts to self's dtype. */
int body_copy(BodyCall *c) { return c->element(c, 1); }
