/* ops.h: the parts of `sinter ops`. */
#ifndef SINTER_TOOL_OPS_H
#define SINTER_TOOL_OPS_H
#include "runtime/base/base.h"

void ops_print_core(bool json); /* the core ATen set: how many there are, which are missing */

#endif
