/* body_math.h: functions built from primitives that several bodies use. */
#ifndef SINTER_PASSES_RULES_BODY_MATH_H
#define SINTER_PASSES_RULES_BODY_MATH_H
#include <math.h>

#include "passes/lower.h"
#include "passes/rules/body.h"

int math_signbit(BodyCall *c, int x); /* bool */
int math_copysign(BodyCall *c, int magnitude, int sign);
int math_zero_beyond(BodyCall *c, int x, double limit);
int math_softplus(BodyCall *c, int x, int beta, int threshold);

#endif
