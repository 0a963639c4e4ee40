/* precise.h: whether what ops give eagerly is as near to exact results as their rows promise. Each op is judged by
 * itself, on the values that eager gives it, so that nothing is counted that it was given. */
#ifndef SINTER_TOOL_PRECISE_H
#define SINTER_TOOL_PRECISE_H
#include "frontend/tool/locate.h"

/* The first op with an element that lies further off f64 than it may; `nothing`: why none could be looked for, or "".
 * Nothing is left pending. */
void locate_imprecision(const TargetOptions *o, Located *out);

#endif
