/* capture_metadata.c: a handle changes its layout in place inside a call (runtime/capture/record/metadata_mutation.c).
 * A result of the current segment does so by name only: the view is recorded, the two placeholders exchange. What comes
 * from outside of the segment, or may have been saved by an op of it that has a history, breaks the graph: versions and
 * saved values are the tape's then. */
#include "runtime/capture/record/capture.h"
#include "runtime/capture/record/capture_thread.h"
#include "runtime/capture/record/metadata_mutation.h"
#include "runtime/capture/record/segment.h"
#include "runtime/capture/record/trace_views.h"

#include "runtime/autograd/tape.h"
#include "runtime/core/breaks.h"

static bool tracks_anything(const Trace *trace) {
    if (trace->tracked_writes || trace->gradients) return true;
    for (int v = 0; v < trace->values.n; v++)
        if (trace_tracked(trace, v, trace->ops.n)) return true;
    return false;
}

static Reason mutation_refusal(const Capture *c, const sn_tensor *self) {
    const struct Placeholder *const p = self->placeholder;
    if (!p || p->trace != c->trace) return BREAK_REASON(relayout_old);
    return tracks_anything(c->trace) ? BREAK_REASON(relayout_grad) : NULL;
}

static Status break_for(Capture *c, const char *op, sn_tensor *self, Reason reason) {
    capture_breaks(op);
    capture_record_break(c, reason);
    TRY(capture_materialize_all(reason));
    capture_breaks(NULL);
    return capture_flush_tensor(self);
}

Status capture_mutation(const OpRow *row, sn_tensor *self, bool *recorded) {
    Capture *const c = capture_current();
    const struct Placeholder *const p = self->placeholder;
    *recorded = false;
    if (p && capture_of(p->tracer) != c) return tracer_flush_foreign(self);
    if (!c) return ST_OK;
    const bool entered = capture_enter(c);
    const Reason reason = mutation_refusal(c, self);
    const Status status = reason ? break_for(c, op_form_name(row, FORM_inplace), self, reason) : ST_OK;
    *recorded = !reason;
    capture_leave(c, entered);
    return status;
}

void capture_mutates(bool on) {
    Capture *const c = capture_current();
    if (c) c->mutates_metadata = on;
}

static void replace(sn_tensor **at, sn_tensor *old, sn_tensor *now) {
    if (*at != old) return;
    tensor_retain(now);
    tensor_release(old);
    *at = now;
}

/* Records of this call's segments meant what the handle was; its value exists for what comes later. */
static void rename_in(Trace *trace, sn_tensor *self, sn_tensor *old) {
    trace_mark_asked(trace, self);
    for (int i = 0; i < trace->inputs.n; i++) replace(&trace->inputs.at[i].tensor, self, old);
    for (int v = 0; v < trace->values.n; v++) replace(&trace->values.at[v], self, old);
}

void capture_exchanged(sn_tensor *self, sn_tensor *old) {
    Capture *const c = capture_current();
    if (!c) return;
    const bool entered = capture_enter(c);
    const struct Placeholder *const now = self->placeholder, *const before = old->placeholder;
    if (now && before) { /* each entry keeps its one reference: the handles have changed places */
        now->trace->values.at[now->value] = self;
        before->trace->values.at[before->value] = old;
    } else {
        for (int t = 0; t < c->traces.n; t++) rename_in(c->traces.at[t], self, old);
    }
    capture_leave(c, entered);
}

void capture_mutated(sn_tensor *self) {
    Capture *const c = capture_current();
    if (!c) return;
    const bool entered = capture_enter(c);
    const struct Placeholder *const p = self->placeholder;
    const Operand root = p && p->trace == c->trace ? trace_root(c->trace, p->value) : OPERAND_ABSENT;
    if (root != OPERAND_ABSENT && operand_is_input(root))
        tensor_written(c->trace->inputs.at[operand_input(root)].tensor);
    capture_leave(c, entered);
}
