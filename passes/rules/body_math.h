/* body_math.h: functions built from primitives that several bodies use. */
#ifndef SINTER_PASSES_RULES_BODY_MATH_H
#define SINTER_PASSES_RULES_BODY_MATH_H
#include <math.h>

#include "passes/lower.h"
#include "passes/rules/body.h"

int math_sigmoid(BodyCall *c, int x);
int math_log1p(BodyCall *c, int x);
int math_expm1(BodyCall *c, int x);
int math_signbit(BodyCall *c, int x); /* bool */
int math_copysign(BodyCall *c, int magnitude, int sign);
int math_atan(BodyCall *c, int x);
int math_atan2(BodyCall *c, int y, int x);
int math_softplus(BodyCall *c, int x, int beta, int threshold);
int math_fmod(BodyCall *c, int a, int b);

#endif
