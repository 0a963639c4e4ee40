/* trace_views.h: views among a segment's values, as memory and as the tape knows them. */
#ifndef SINTER_RUNTIME_TRACE_VIEWS_H
#define SINTER_RUNTIME_TRACE_VIEWS_H
#include "runtime/capture/variant/variant.h"

/* Its first result may share its first operand's memory. */
bool trace_op_is_view(const TraceOp *op);
/* Marks the values that needed ones are views of, where there is another way to see their memory. */
Status trace_mark_viewed(Trace *trace);
/* The variant gives what the value views but not the value, which may still be asked for. */
bool trace_lacks_view(const Trace *trace, const Variant *variant, int value);
/* A view that the variant makes and nobody has asked for, of memory that it does not provide: what
 * else sees that memory would be made apart from it. */
bool trace_stays_unmade(const Trace *trace, const Variant *variant, int value);
/* May a recorded op write into it, as far as the tape is concerned (tape_check_inplace)? */
Status trace_check_inplace(const Trace *trace, Operand operand);
/* Is it of inference mode? A view is what its base is. */
bool trace_is_inference(const Trace *trace, Operand operand);
/* Which outputs of the variant are views, and of what. */
Status variant_plan_views(Variant *variant, const Trace *trace);
/* Gives the views among the results the history of views: after a launch for the trace, whose
 * values are bound; or for results alone (inputs by trace input, none of them a base of others). */
Status trace_note_views(const Trace *trace, const Variant *variant);
Status variant_note_views(const Variant *variant, const int64_t *numbers, sn_tensor *const *inputs,
                          sn_tensor *const *outs);
/* An output that is a view, written through its base since, has no history of its own: it is made from that of the
 * base, if that is an output too, when it is first asked for, as in eager. */
void variant_note_stale(Variant *variant, int output);
bool variant_view_is_stale(const Variant *variant, int output);
/* A launch counts a memory that it writes once; eager counts every write. */
Status variant_plan_writes(Variant *variant, const Trace *trace);
void variant_count_writes(const Variant *variant, sn_tensor *const *inputs, sn_tensor *const *outs);
/* The input, or the value, whose memory an operand is a view of, by views alone. */
Operand trace_root(const Trace *trace, Operand at);

#endif
