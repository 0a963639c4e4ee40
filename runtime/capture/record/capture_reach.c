/* capture_reach.c: what a backward reaches through the pending ops, exactly as eager's tape would: a leaf
 * that it does not reach gets no gradient, so its .grad stays as it is [semantics G4].
 *
 * From the roots back over the ops that the tape records (TracedOp.needs). What is marked are bases, since a view that
 * is read shows all that was written to its base before. Detaching, integers, comparisons and ops without gradients end
 * a history (TraceHistory):
 *
 *     d = detach(%w)         d is a base without one
 *     y = mul(d, %b)         reads a history from %b only
 *     backward(sum(y))       reaches %b */
#include "runtime/capture/record/capture_reach.h"
#include "runtime/autograd/tape.h"
#include "runtime/capture/record/capture.h"
#include "runtime/capture/record/trace_graph.h"
#include "runtime/capture/record/trace_views.h"

struct Reach {
    const Trace *trace;
    int n_ops;
    bool *values, *inputs; /* bases that are reached */
};

Reach *reach_new(const Trace *trace, int n_ops) {
    Arena *const arena = trace->capture->arena;
    Reach *const r = ARENA_NEW(arena, Reach);
    if (!r) return NULL;
    *r = (Reach){.trace = trace,
                 .n_ops = n_ops,
                 .values = ARENA_ARRAY(arena, bool, trace->values.n + 1),
                 .inputs = ARENA_ARRAY(arena, bool, trace->inputs.n + 1)};
    return r->values && r->inputs ? r : NULL;
}

static bool *reached_base(const Reach *r, Operand o) {
    const Operand base = trace_history(r->trace, o)->base;
    return operand_is_input(base) ? &r->inputs[operand_input(base)] : &r->values[base];
}

bool reach_root(Reach *r, Operand root) {
    if (!trace_tracked(r->trace, root, r->n_ops)) return false;
    *reached_base(r, root) = true;
    return true;
}

bool reach_has(const Reach *r, Operand o) { return trace_tracked(r->trace, o, r->n_ops) && *reached_base(r, o); }

/* In bits. Out forms never carry gradients; in-place ones do to whoever reads the memory later. */
static uint32_t reached_results(const Reach *r, const TraceOp *op) {
    uint32_t results = 0;
    if (op->form == FORM_inplace) return *reached_base(r, op->operands[0]);
    for (int i = 0; i < op->n_outs && i < 32; i++) results |= (uint32_t)*reached_base(r, op->first_value + i) << i;
    return results;
}

/* Arguments, in bits, that the rule gives gradients to. False: only a run of the tape can tell. */
static bool reached_args(const Reach *r, const TracedOp *step, uint32_t results, uint32_t *reached) {
    const OpRow *const row = step->op->row;
    Arg args[MAX_ARGS];
    *reached = 0;
    if (UNLIKELY(op_is_made(row) && step->op->form == FORM_functional)) {
        if (trace_args(r->trace, step->op, args, NULL) != ST_OK) return false;
        return custom_derivative_reaches(row, args, step->needs, results, reached);
    }
    trace_numbers(step->op, r->trace->numbers.at, args);
    for (int i = 0; i < row->n_params; i++) *reached |= (uint32_t)deriv_reaches(row, args, i, results) << i;
    return true;
}

/* Those that had a history when the op read them, after `before` ops. */
static void reach_operands(Reach *r, const TraceOp *op, int before, uint32_t args) {
    for (int i = 0, at = 0; i < op->row->n_params; i++) {
        const Arg *const a = &op->args[i];
        const int n = a->kind == ARG_tensors ? a->n : a->kind == ARG_tensor;
        for (int k = 0; k < n; k++, at++)
            if (args >> i & 1 && trace_tracked(r->trace, op->operands[at], before))
                *reached_base(r, op->operands[at]) = true;
    }
}

bool reach_back(Reach *r) {
    for (int o = r->n_ops - 1; o >= 0; o--) {
        const TracedOp *const step = &r->trace->ops.at[o];
        const uint32_t results = step->needs ? reached_results(r, step->op) : 0;
        uint32_t args;
        if (!results || step->op->row->flags & OPF_nodiff) continue;
        if (!reached_args(r, step, results, &args)) return false;
        reach_operands(r, step->op, o, args);
    }
    return true;
}
