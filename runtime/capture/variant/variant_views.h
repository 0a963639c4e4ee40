/* variant_views.h: views among a variant's results: what is elided, what the tape notes of them, versions. */
#ifndef SINTER_RUNTIME_VARIANT_VIEWS_H
#define SINTER_RUNTIME_VARIANT_VIEWS_H
#include "runtime/capture/variant/variant.h"

struct OutputView {
    int output;
    int input, base;          /* the graph input or output that it is a view of; -1: not this */
    bool stale;               /* written through its base since, by a recorded op */
    bool no_grad;             /* made while gradients were off */
    VEC(const TraceOp *) ops; /* from the last one back to the base; of a file none where there is no such base */
};
struct WriteCount {
    int input, output; /* a graph input, or an output of memory made here; -1: not this */
    int uncounted;
};

/* The variant gives the value that this one is a view of, but not this one, which may still be asked for. */
bool trace_lacks_view(const Trace *trace, const Variant *variant, int value);
/* Does this view stay a placeholder although the variant gives it? Yes, where nobody has asked for it and the variant
 * does not give the value that it views. That value, if it is asked for later, is computed into new memory; the view
 * must lie in the same memory, so it is made then, too. */
bool trace_elides(const Trace *trace, const Variant *variant, int value);
/* Which outputs of the variant are views, and of what. */
Status variant_plan_views(Variant *variant, const Trace *trace);
/* Gives the views among the results the history of views: after a launch for the trace, whose
 * values are bound; or for results alone (inputs by trace input, none of them a base of others). */
Status trace_record_views(const Trace *trace, const Variant *variant);
Status variant_record_views(const Variant *variant, const int64_t *numbers, sn_tensor *const *inputs,
                            sn_tensor *const *outs);
/* An output that is a view, written through its base since it was last looked at, has no history of its own: it is made
 * from that of the base, if that is an output too, when it is first asked for, as in eager. */
bool variant_view_is_stale(const Variant *variant, int output);
/* A launch counts a memory that it writes once; eager counts every write. */
Status variant_plan_writes(Variant *variant, const Trace *trace);
void variant_count_writes(const Variant *variant, sn_tensor *const *inputs, sn_tensor *const *outs);

#endif
