/* capture_strided.h: as_strided in a body. */
#ifndef SINTER_RUNTIME_CAPTURE_STRIDED_H
#define SINTER_RUNTIME_CAPTURE_STRIDED_H
#include "runtime/capture/record/trace.h"

/* Why an as_strided call can't be recorded, NULL: it can; the storage offset that its operand's root starts at; whether
 * a trace has one whose offset depends on where inputs start. */
const char *strided_refusal(const Trace *trace, const OpCall *call);
int64_t strided_origin(const Trace *trace, Operand self);
bool strided_counts_from_an_input(const Trace *trace);

#endif
