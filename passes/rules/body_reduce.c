/* body_reduce.c: operand and combination of every reduction; the order is the nest's [semantics B2]. */
#include "passes/rules/body.h"

BodyFn body_sum, body_amax;

int body_sum(BodyCall *c) { return loop_reduce(c->lb, RED_sum, X(0), -1); }
int body_amax(BodyCall *c) { return loop_reduce(c->lb, RED_max, X(0), -1); }
