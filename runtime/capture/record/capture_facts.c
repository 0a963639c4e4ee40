/* capture_facts.c: whether a tensor requires gradients, and was made in inference mode: asked of its trace while it is
 * pending, else of the tensor. */
#include "runtime/capture/record/capture_facts.h"

#include "runtime/autograd/tape.h"
#include "runtime/core/state.h"
#include "runtime/capture/record/capture_thread.h"
#include "runtime/capture/record/segment.h"
#include "runtime/capture/record/trace_graph.h"
#include "runtime/capture/record/trace_views.h"

/* Of a pending value: would it require gradients, had it been computed? */
static bool placeholder_tracks(const struct Placeholder *p) {
    return trace_tracked(p->trace, p->value, p->trace->ops.n);
}

static bool placeholder_is_inference(const struct Placeholder *p) { return trace_is_inference(p->trace, p->value); }
static bool materialized_is_inference(const sn_tensor *t) { return t->flags & TF_inference; }

typedef struct TensorFact {
    bool (*of_pending)(const struct Placeholder *p);
    bool (*of_materialized)(const sn_tensor *t);
    bool may_be_written; /* a write that tracks may have changed it */
} TensorFact;

static bool ask_fact(sn_tensor *t, const TensorFact *fact) {
    Capture *const c = capture_of(state_get()->tracer);
    const struct Placeholder *const other = t->placeholder;
    if (other && other->tracer != state_get()->tracer)
        return tracer_flush_foreign(t) == ST_OK && fact->of_materialized(t);
    const bool entered = c && capture_enter(c);
    const bool written = fact->may_be_written && c && c->trace->tracked_writes;
    bool holds = !written || capture_flush_tensor(t) == ST_OK;
    const struct Placeholder *const p = t->placeholder;
    holds = holds && (p ? fact->of_pending(p) : fact->of_materialized(t));
    if (c) capture_leave(c, entered);
    return holds;
}

bool capture_requires_grad(sn_tensor *t) {
    while (UNLIKELY(tensor_is_batched(t)) && !tensor_is_wrapped(t)) t = t->inner;
    return ask_fact(t, &(TensorFact){placeholder_tracks, tape_tracks, .may_be_written = true});
}
bool capture_is_inference(sn_tensor *t) {
    return ask_fact(t, &(TensorFact){placeholder_is_inference, materialized_is_inference});
}

static bool tracks(const sn_tensor *t) {
    return t && (t->placeholder ? placeholder_tracks(t->placeholder) : tape_tracks(t));
}

bool capture_out_tracks(const Capture *c, const OpCall *call, const sn_state *state) {
    if (state->grad_mode != SN_GRAD_ON) return false;
    if (c->trace->tracked_writes) return true;
    for (int i = 0; i < call->row->n_out; i++)
        if (tracks(call->out_args[i])) return true;
    for (int i = 0; i < call->row->n_params && !(call->row->flags & OPF_nodiff); i++) {
        const Arg *const a = &call->args[i];
        if (a->kind == ARG_tensor && a->val && tracks(tensor_of(a->val))) return true;
        for (int k = 0; a->kind == ARG_tensors && k < a->n; k++)
            if (a->vals[k] && tracks(tensor_of(a->vals[k]))) return true;
    }
    return false;
}
