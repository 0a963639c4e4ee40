/* float_limit.h: what rules ask of runtime floats [semantics C4]: a guard on each, as SymGuard is on symbols. A rule
 * that would refuse a number says so once, by number_within (meta_rules.h): of a plain number it is an error, of one
 * that is bound at the call a limit, which calls outside of it do not meet. */
#ifndef SINTER_IR_FLOAT_LIMIT_H
#define SINTER_IR_FLOAT_LIMIT_H
#include "runtime/base/arena.h"

typedef struct FloatLimit {
    double least, most;
    bool infinite, nan; /* these are allowed, too */
} FloatLimit;

typedef struct FloatLimits {
    Arena *arena;
    VEC(FloatLimit) by; /* by index of the runtime float */
} FloatLimits;

bool float_limit_holds(const FloatLimit *limit, double value);
/* What is asked of float i so far and `limit`. */
void float_limits_add(FloatLimits *limits, int64_t i, FloatLimit limit);
const FloatLimit *float_limits_find(const FloatLimits *limits, int64_t i); /* NULL: any will do */

#endif
