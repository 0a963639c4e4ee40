/* trace_views.c: views among the values of a segment, as memory and as the tape knows them.
 *
 * Memory: what a segment leaves unmade is made later in memory of its own. A value that a needed one
 * views is therefore needed too where it, or another view of it, may still be asked for:
 *
 *     h = x * x;  v = h[0];  sn_item(v);  v += 1;  h is asked for        v and h are one memory
 *
 * So is a view of a needed value that may still be asked for: had it memory of its own, a write to the value would not
 * be seen in it. */
#include "runtime/capture/record/trace_views.h"
#include "runtime/autograd/tape.h"
#include "runtime/capture/record/capture.h"
#include "runtime/capture/record/trace_graph.h"

Operand trace_root(const Trace *trace, Operand at) {
    while (!operand_is_input(at) && at != OPERAND_ABSENT) {
        const TraceOp *const op = trace_maker(trace, at);
        if (!op || op->row->kind != KIND_view) return at;
        at = op->operands[0];
    }
    return at;
}

bool trace_op_is_view(const TraceOp *op) {
    return op->n_outs > 0 && op->n_operands > 0 && op->operands[0] != OPERAND_ABSENT &&
           (op->row->kind == KIND_view || op->row->shares);
}

/* Memory -------------------------------------------------------------------------------------- */

typedef struct Sight { /* of one value */
    int viewed;        /* the value that it views, through other views; -1: none */
    int base;          /* what a view of it views; -1: an input */
    int n_seen;        /* values that view it and may be asked for */
    bool below;        /* a needed value views it */
} Sight;

static Sight sight_of(const Sight *sights, const TraceOp *op, int value) {
    if (op->row->kind != KIND_view) return (Sight){.viewed = -1, .base = value};
    const Operand self = op->operands[0];
    const int viewed = operand_is_input(self) ? -1 : sights[self].base;
    return (Sight){.viewed = viewed, .base = tape_notes(op->row) ? viewed : value};
}

static Status find_viewed(Trace *trace) {
    trace->sights = ARENA_ARRAY(trace->capture->arena, Sight, trace->values.n);
    if (!trace->sights) return ST_MEMORY;
    for (int i = 0; i < trace->ops.n; i++) {
        const TraceOp *const op = trace->ops.at[i].op;
        for (int v = op->first_value; v < op->first_value + op->n_outs; v++)
            trace->sights[v] = sight_of(trace->sights, op, v);
    }
    return ST_OK;
}

int trace_viewed(const Trace *trace, int value) { return trace->sights ? trace->sights[value].viewed : -1; }

Status trace_mark_viewed(Trace *trace) {
    if (!trace->views || !trace->marks) return ST_OK;
    if (!trace->sights) TRY(find_viewed(trace));
    Sight *const sights = trace->sights;
    for (int v = 0; v < trace->values.n; v++) sights[v].n_seen = sights[v].below = 0;
    for (int v = trace->values.n - 1; v >= 0; v--)
        if (sights[v].viewed >= 0 && (trace->marks[v] || sights[v].n_seen)) sights[sights[v].viewed].n_seen++;
    for (int v = trace->values.n - 1; v >= 0; v--) {
        const int viewed = sights[v].viewed;
        if (viewed < 0 || !(trace->marks[v] & VALUE_output || sights[v].below)) continue;
        sights[viewed].below = true;
        if (trace->marks[viewed] & VALUE_alive || sights[viewed].n_seen > 1) trace->marks[viewed] |= VALUE_viewed;
    }
    for (int v = 0; v < trace->values.n; v++)
        if (sights[v].viewed >= 0 && trace->marks[v] & VALUE_waits && trace->marks[sights[v].viewed] & VALUE_output)
            trace->marks[v] |= VALUE_viewed;
    return ST_OK;
}

/* The tape ------------------------------------------------------------------------------------ */

bool trace_is_inference(const Trace *trace, Operand o) {
    while (!operand_is_input(o)) {
        const TraceOp *const op = trace_maker(trace, o);
        if (!op) return false;
        if (!trace_op_is_view(op)) return op->modes & NODE_inference;
        o = op->operands[0];
    }
    return trace->inputs.at[operand_input(o)].inference;
}

bool trace_is_noted(const Trace *trace, const TraceOp *op) {
    return op && op->row->kind == KIND_view && tape_notes(op->row) && !(op->modes & NODE_inference) &&
           !trace_is_inference(trace, op->operands[0]);
}

Status trace_check_inplace(const Trace *trace, Operand o) {
    if (operand_is_input(o)) return tape_check_inplace(trace->inputs.at[operand_input(o)].tensor);
    if (!trace->views) return ST_OK;
    const TraceOp *op = trace_maker(trace, o);
    if (!trace_is_noted(trace, op)) return ST_OK;
    const bool no_grad = op->modes & NODE_no_grad;
    for (; trace_is_noted(trace, op); op = trace_maker(trace, o = op->operands[0])) {}
    return tape_check_view(operand_is_input(o) ? trace->inputs.at[operand_input(o)].tensor : NULL, no_grad);
}
