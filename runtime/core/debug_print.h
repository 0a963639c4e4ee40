/* debug_print.h: values that a program prints, once and in order, compiled or not [semantics T7]. */
#ifndef SINTER_RUNTIME_DEBUG_PRINT_H
#define SINTER_RUNTIME_DEBUG_PRINT_H
#include "runtime/core/dispatch.h"

/* Prints t now or, in a captured body, when its segment has run (EFFECT_print). label NULL: the value alone. */
Status debug_print(const char *label, sn_tensor *t);
/* The line itself; a thread's pending error stays. */
void debug_print_line(const char *label, sn_tensor *t);

#endif
