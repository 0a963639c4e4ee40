/* capture_reach.c: what a backward reaches through the pending ops, exactly as eager's tape would: a leaf
 * that it does not reach gets no gradient, so its .grad stays as it is [semantics G4].
 *
 * Forward over the ops: which operands have a history when an op reads them. A recorded write gives one to
 * its base, and with it to every view made before. Backward from the roots: bases, since a view that is
 * read shows all that was written to its base before. Detaching, integers, comparisons and ops without
 * gradients end a history:
 *
 *     d = detach(%w)         d is a base without one
 *     y = mul(d, %b)         reads a history from %b only
 *     backward(sum(y))       reaches %b */
#include "runtime/capture/record/capture_reach.h"
#include "runtime/autograd/tape.h"
#include "runtime/capture/record/capture.h"
#include "runtime/capture/record/trace_graph.h"
#include "runtime/capture/record/trace_views.h"

/* Places are the values of the trace, then its inputs. */
struct Reach {
    const Trace *trace;
    int *base;      /* by place: what the tape has it as a view of; itself: a base */
    bool *tracked;  /* by place: it had a history when it was made */
    int *made;      /* by place: ops before it, its own included; 0: inputs */
    int *written;   /* by base: ops before its last recorded write ended; 0: none */
    bool *recorded; /* by op: the tape records it */
    bool **flows;   /* by op, by operand: it has a history when the op reads it */
    bool *reached;  /* by base */
};

static int place_of(const Reach *r, Operand o) {
    return operand_is_input(o) ? r->trace->values.n + operand_input(o) : o;
}

static bool has_history(const Reach *r, Operand o) {
    const int place = place_of(r, o);
    return r->tracked[place] || r->written[r->base[place]] > r->made[place];
}

/* Forward ------------------------------------------------------------------------------------- */

static bool is_recorded(const TraceOp *op, const bool *flows) {
    uint32_t tracked = op->n_operands && flows[0];
    for (int i = 1; i < op->n_operands; i++) tracked |= flows[i] ? 2 : 0;
    return op_recorded(op->row, op->form, op->modes, tracked);
}

static bool is_float(const sn_tensor *t) { return t && dtype_is_float(t->base.meta->dtype); }

static void visit_results(Reach *r, const TraceOp *op, int at) {
    for (int i = 0; i < op->n_outs; i++) {
        const int value = op->first_value + i;
        const Operand base = r->trace->places.at[value].base;
        r->base[value] = base == value ? value : r->base[place_of(r, base)];
        r->tracked[value] = r->recorded[at] && is_float(r->trace->values.at[value]);
        r->made[value] = at + 1;
    }
}

static bool visit_place(Reach *r, int at) {
    const TraceOp *const op = r->trace->ops.at[at].op;
    bool *const flows = r->flows[at] = ARENA_ARRAY(r->trace->capture->arena, bool, op->n_operands + 1);
    if (!flows) return false;
    for (int i = 0; i < op->n_operands; i++)
        flows[i] = op->operands[i] != OPERAND_ABSENT && has_history(r, op->operands[i]);
    r->recorded[at] = is_recorded(op, flows);
    visit_results(r, op, at);
    if (op->form == FORM_inplace && r->recorded[at]) r->written[r->base[place_of(r, op->operands[0])]] = at + 1;
    return true;
}

static sn_tensor *tape_base_of(sn_tensor *t) {
    sn_tensor *const base = tape_view_base(t);
    return base ? base : t;
}

static void visit_inputs(Reach *r) {
    const Trace *const trace = r->trace;
    for (int i = 0; i < trace->inputs.n; i++) {
        const TraceInput *const in = &trace->inputs.at[i];
        const int place = trace->values.n + i;
        r->base[place] = place;
        r->tracked[place] = in->requires_grad;
        for (int k = in->same_storage; k >= 0; k = trace->inputs.at[k].same_storage)
            if (tape_base_of(trace->inputs.at[k].tensor) == tape_base_of(in->tensor))
                r->base[place] = r->base[trace->values.n + k];
    }
}

Reach *reach_new(const Trace *trace, int n_ops) {
    Arena *const arena = trace->capture->arena;
    const int n = trace->values.n + trace->inputs.n + 1;
    Reach *const r = ARENA_NEW(arena, Reach);
    if (!r) return NULL;
    *r = (Reach){.trace = trace,
                 .base = ARENA_ARRAY(arena, int, n),
                 .tracked = ARENA_ARRAY(arena, bool, n),
                 .made = ARENA_ARRAY(arena, int, n),
                 .written = ARENA_ARRAY(arena, int, n),
                 .recorded = ARENA_ARRAY(arena, bool, n_ops + 1),
                 .flows = ARENA_ARRAY(arena, bool *, n_ops + 1),
                 .reached = ARENA_ARRAY(arena, bool, n)};
    if (!r->base || !r->tracked || !r->made || !r->written || !r->recorded || !r->flows || !r->reached) return NULL;
    visit_inputs(r);
    for (int o = 0; o < n_ops; o++)
        if (!visit_place(r, o)) return NULL;
    return r;
}

/* Backward ------------------------------------------------------------------------------------ */

bool reach_root(Reach *r, Operand root) {
    if (!has_history(r, root)) return false;
    r->reached[r->base[place_of(r, root)]] = true;
    return true;
}

bool reach_has(const Reach *r, Operand o) { return has_history(r, o) && r->reached[r->base[place_of(r, o)]]; }

static bool result_reached(const Reach *r, const TraceOp *op, int i) {
    return r->reached[r->base[op->first_value + i]];
}

/* A rule may have nothing to say of an argument when only a later result has a gradient
 * (nll_loss_forward's total weight): only a run of the tape can tell. */
static bool lacks_first(const Reach *r, const TraceOp *op) {
    return op->n_outs > 1 && !op->row->returns_list && !result_reached(r, op, 0);
}

/* Out forms never carry gradients; in-place ones do to whoever reads the memory later. */
static bool is_reached(const Reach *r, const TraceOp *op) {
    if (op->form == FORM_inplace) return r->reached[r->base[place_of(r, op->operands[0])]];
    for (int i = 0; i < op->n_outs; i++)
        if (result_reached(r, op, i)) return true;
    return false;
}

static uint32_t reached_results(const Reach *r, const TraceOp *op) {
    uint32_t results = 0;
    if (op->form == FORM_inplace) return 1;
    for (int i = 0; i < op->n_outs && i < 32; i++) results |= (uint32_t)result_reached(r, op, i) << i;
    return results;
}

static void reach_operands(Reach *r, const TraceOp *op, const bool *flows) {
    const uint32_t results = reached_results(r, op);
    for (int i = 0, at = 0; i < op->row->n_params; i++) {
        const Arg *const a = &op->args[i];
        const int n = a->kind == ARG_tensors ? a->n : a->kind == ARG_tensor;
        for (int k = 0; k < n; k++, at++)
            if (flows[at] && deriv_reaches(op->row, i, results))
                r->reached[r->base[place_of(r, op->operands[at])]] = true;
    }
}

bool reach_back(Reach *r, int n_ops) {
    for (int o = n_ops - 1; o >= 0; o--) {
        const TraceOp *const op = r->trace->ops.at[o].op;
        if (!r->recorded[o] || op->row->flags & OPF_nodiff || !is_reached(r, op)) continue;
        if (lacks_first(r, op)) return false;
        reach_operands(r, op, r->flows[o]);
    }
    return true;
}
