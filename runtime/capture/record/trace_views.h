/* trace_views.h: views among a segment's values, as memory and as the tape knows them. */
#ifndef SINTER_RUNTIME_TRACE_VIEWS_H
#define SINTER_RUNTIME_TRACE_VIEWS_H
#include "runtime/capture/record/trace.h"

/* Marks the values that needed ones are views of, where there is another way to see their memory. */
Status trace_mark_viewed(Trace *trace);
/* The value whose memory it is a view of, or -1: none, or nobody has marked them. */
int trace_viewed(const Trace *trace, int value);
/* Of a value or input. */
static inline const TraceHistory *trace_history(const Trace *trace, Operand at) {
    return operand_is_input(at) ? &trace->inputs.at[operand_input(at)].history : &trace->places.at[at].history;
}
/* Had it a history when n ops were recorded? */
static inline bool trace_tracked(const Trace *trace, Operand at, int n) {
    return at != OPERAND_ABSENT && trace_history(trace, at)->since <= n;
}
/* The arguments (bits) for which the tape records the op that comes next; 0: it does not. */
uint32_t trace_find_needs(const Trace *trace, const TraceOp *op);
static inline uint32_t trace_needs(const Trace *trace, const TraceOp *op) {
    return trace->tracked_inputs ? trace_find_needs(trace, op) : 0;
}
/* The op that comes next is recorded by the tape, and writes `at`: that has a history, and what shares it. */
void trace_record_write(Trace *trace, Operand at);
/* The history of an input that is being captured, the newest; and that is taken back. */
void trace_join_input(Trace *trace, int input);
void trace_forget_input(Trace *trace, int input);
static inline void trace_record_input(Trace *trace, TraceInput *in, int input) {
    in->history.base = -1 - input;
    in->history.next = OPERAND_ABSENT;
    in->history.since = in->requires_grad ? 0 : NO_HISTORY;
    in->history.written = 0;
    trace->tracked_inputs |= in->requires_grad;
    if (UNLIKELY(in->same_storage >= 0)) trace_join_input(trace, input);
}
/* Does eager's tape have it as a view? */
static inline bool trace_is_noted(const Trace *trace, Operand at) {
    return at >= 0 && trace->places.at[at].history.base != at;
}
/* Is the value a stale view: was its base written after it was made, and has no op read the view since? */
bool trace_is_stale(const Trace *trace, int value);
/* Does the tape allow a recorded op to write into the operand (tape_check_inplace)? */
Status trace_check_inplace(const Trace *trace, Operand operand);
/* Was the operand made in inference mode? A view counts as its base does. */
bool trace_is_inference(const Trace *trace, Operand operand);
#endif
