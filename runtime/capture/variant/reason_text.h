/* reason_text.h: how the reasons of recompiles call things: by what the program's author knows them by, never by a
 * number of the compiler's.
 *
 *   argument 1                                           of the call
 *   closed over: fc1.weight                              as a dictionary calls it, else
 *   closed over by aten::mm at model.c:12                the first op that it is used by
 *   the result of aten::sin at model.c:9                 of an earlier graph of the call */
#ifndef SINTER_RUNTIME_REASON_TEXT_H
#define SINTER_RUNTIME_REASON_TEXT_H
#include "runtime/capture/variant/variant.h"

/* The trace's i-th input. */
void reason_input(Text *why, const Variant *variant, const Trace *trace, int i);
/* Which input before it has the same memory, in the variant and now:
 * "argument 1: memory of its own, now the memory of argument 0" */
void reason_aliasing(Text *why, const Variant *variant, const Trace *trace, int i);
/* What it is of the variant that number k is: "other of aten::mul at model.c:12". */
void reason_number(Text *why, const Variant *variant, const Trace *trace, int k);
void reason_value(Text *why, const Trace *trace, int value); /* "the result of aten::sin at model.c:9" */
/* Where the variant has free symbol i from: "size 0 of argument 1". */
void reason_symbol(Text *why, const Variant *variant, const Trace *trace, int i);
/* "s0 <= 64 (s0: size 0 of argument 1)" */
void reason_relation(Text *why, const Variant *variant, const Trace *trace, const SymGuard *relation);

#endif
