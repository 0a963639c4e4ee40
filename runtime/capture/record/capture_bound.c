/* capture_bound.c: a segment ends where too much is pending, or an op with effects may not stand beside the others. */
#include "runtime/capture/record/capture_bound.h"

#include "runtime/capture/record/segment.h"
#include "runtime/core/breaks.h"

/* Bytes of inputs that nobody holds any more but this pending work. */
static int64_t pending_bytes(const Trace *trace) {
    int64_t bytes = 0;
    for (int i = 0; i < trace->inputs.n; i++) {
        const sn_tensor *const t = trace->inputs.at[i].tensor;
        if (atomic_load_explicit(&t->refs, memory_order_relaxed) == 1) bytes += (int64_t)meta_bytes(t->base.meta);
    }
    return bytes;
}

/* A segment that fails runs again from its start, where an op with effects may not: what may fail, or writes, is not
 * beside one [semantics C12]. */
static bool repeats_effects(const Trace *trace, const OpCall *call) {
    if (call->row->flags & OPF_ordered) return trace->fallible || trace->writes;
    return trace->ordered && (call->row->flags & OPF_may_fail || call->form != FORM_functional);
}

Reason capture_bound_reached(const Trace *trace, const OpCall *call, const sn_state *state) {
    if (UNLIKELY(repeats_effects(trace, call))) return BREAK_REASON(effects_beside);
    if (UNLIKELY(call->row->flags & OPF_ordered && trace->prints.n)) return BREAK_REASON(effects_print);
    if (LIKELY(!capture_bound_is_near(trace, state))) return NULL;
    if (trace->ops.n >= state->settings[SET_pending_ops].number) return BREAK_REASON(many_ops);
    return pending_bytes(trace) > state->settings[SET_pending_mib].number << 20 ? BREAK_REASON(many_bytes) : NULL;
}

Status capture_end_at_bound(Capture *c, const OpCall *call, Reason bound) {
    if (repeats_effects(c->trace, call)) capture_breaks_at(call);
    const Status status = capture_flush(c, bound, state_get()->site);
    capture_breaks(NULL);
    return status;
}
