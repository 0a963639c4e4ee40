/* trace_views.h: views among a segment's values, as memory and as the tape knows them. */
#ifndef SINTER_RUNTIME_TRACE_VIEWS_H
#define SINTER_RUNTIME_TRACE_VIEWS_H
#include "runtime/capture/record/trace.h"

/* Marks the values that needed ones are views of, where there is another way to see their memory. */
Status trace_mark_viewed(Trace *trace);
/* The value whose memory it is a view of, or -1: none, or nobody has marked them. */
int trace_viewed(const Trace *trace, int value);
/* Does eager's tape have it as a view? */
static inline bool trace_is_noted(const Trace *trace, Operand at) { return at >= 0 && trace->places.at[at].base != at; }
/* May a recorded op write into it, as far as the tape is concerned (tape_check_inplace)? */
Status trace_check_inplace(const Trace *trace, Operand operand);
/* Is it of inference mode? A view is what its base is. */
bool trace_is_inference(const Trace *trace, Operand operand);
#endif
