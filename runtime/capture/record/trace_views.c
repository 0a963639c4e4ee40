/* trace_views.c: views among the values of a segment, as memory and as the tape knows them.
 *
 * Memory: what a segment elides is materialized later in memory of its own. So a value that has a needed view is needed
 * itself, if it or another view of it may still be asked for:
 *
 *     h = x * x;  v = h[0];  sn_item(v);  v += 1;  h is asked for        v and h are one memory
 *
 * A view that may still be asked for is needed if its value is: made later, in memory of its own, it would not show
 * what was written to the value. */
#include "runtime/capture/record/trace_views.h"
#include "runtime/autograd/tape.h"
#include "runtime/capture/record/capture.h"
#include "runtime/capture/record/trace_graph.h"

static Operand operand_of_arg(const TraceOp *op, int arg) {
    int at = 0;
    for (int i = 0; i < arg; i++)
        at += op->args[i].kind == ARG_tensors ? op->args[i].n : op->args[i].kind == ARG_tensor;
    return op->operands[at];
}

static TraceHistory *history_of(Trace *trace, Operand at) { return (TraceHistory *)trace_history(trace, at); }

/* `view`, the newest of all, becomes one of the base that `of` has. */
static TraceHistory join_history(Trace *trace, Operand view, Operand of) {
    const Operand at = trace_history(trace, of)->base;
    TraceHistory *const base = history_of(trace, at);
    const TraceHistory joined = {at, base->next, NO_HISTORY, 0};
    base->next = view;
    return joined;
}

TraceMemory trace_place(Trace *trace, const TraceOp *op, const AliasFact *alias) {
    TraceMemory place;
    trace_own_place(trace, op, &place);
    const Operand memory = operand_of_arg(op, alias->arg);
    if (memory == OPERAND_ABSENT) return place;
    place.memory = memory;
    place.root = trace_root(trace, memory);
    place.offset = alias->offset + (memory < 0 ? 0 : trace->places.at[memory].offset);
    place.inference = trace_is_inference(trace, memory);
    if (tape_notes(op->row) && !(op->modes & NODE_inference) && !place.inference)
        place.history = join_history(trace, trace->places.n, memory);
    return place;
}

/* Memory -------------------------------------------------------------------------------------- */

typedef struct VisibleValue { /* of one value */
    int viewed;               /* the value that it views, through other views; -1: none */
    int base;                 /* what a view of it views; -1: an input */
    int n_seen;               /* values that view it and may be asked for */
    bool below;               /* a needed value views it */
} VisibleValue;

static VisibleValue visible_value_of(const Trace *trace, int value) {
    const Operand memory = trace->places.at[value].memory;
    if (memory == OPERAND_ABSENT) return (VisibleValue){.viewed = -1, .base = value};
    const int viewed = operand_is_input(memory) ? -1 : trace->visible_values[memory].base;
    return (VisibleValue){.viewed = viewed, .base = tape_notes(trace_maker(trace, value)->row) ? viewed : value};
}

static Status find_viewed(Trace *trace) {
    trace->visible_values = ARENA_ARRAY(trace->capture->arena, VisibleValue, trace->values.n);
    if (!trace->visible_values) return ST_MEMORY;
    for (int v = 0; v < trace->values.n; v++) trace->visible_values[v] = visible_value_of(trace, v);
    return ST_OK;
}

int trace_viewed(const Trace *trace, int value) {
    return trace->visible_values ? trace->visible_values[value].viewed : -1;
}

Status trace_mark_viewed(Trace *trace) {
    if (!trace->views || !trace->marks) return ST_OK;
    if (!trace->visible_values) TRY(find_viewed(trace));
    VisibleValue *const visible_values = trace->visible_values;
    for (int v = 0; v < trace->values.n; v++) visible_values[v].n_seen = visible_values[v].below = 0;
    for (int v = trace->values.n - 1; v >= 0; v--)
        if (visible_values[v].viewed >= 0 && (trace->marks[v] || visible_values[v].n_seen))
            visible_values[visible_values[v].viewed].n_seen++;
    for (int v = trace->values.n - 1; v >= 0; v--) {
        const int viewed = visible_values[v].viewed;
        if (viewed < 0 || !(trace->marks[v] & VALUE_output || visible_values[v].below)) continue;
        visible_values[viewed].below = true;
        if (trace->marks[viewed] & VALUE_alive || visible_values[viewed].n_seen > 1)
            trace->marks[viewed] |= VALUE_viewed;
    }
    for (int v = 0; v < trace->values.n; v++)
        if (visible_values[v].viewed >= 0 && trace->marks[v] & VALUE_waits &&
            trace->marks[visible_values[v].viewed] & VALUE_output)
            trace->marks[v] |= VALUE_viewed;
    return ST_OK;
}

/* The tape ------------------------------------------------------------------------------------ */

bool trace_is_inference(const Trace *trace, Operand o) {
    if (operand_is_input(o)) return trace->inputs.at[operand_input(o)].inference;
    return o != OPERAND_ABSENT && trace->places.at[o].inference;
}

uint32_t trace_find_needs(const Trace *trace, const TraceOp *op) {
    uint32_t tracked = 0;
    const Operand *operand = op->operands;
    for (int i = 0; i < op->row->n_params; i++) {
        const Arg *const a = &op->args[i];
        for (int n = a->kind == ARG_tensors ? a->n : a->kind == ARG_tensor; n > 0; n--)
            tracked |= (uint32_t)trace_tracked(trace, *operand++, trace->ops.n) << i;
    }
    return op_recorded(op->row, op->form, op->modes, tracked);
}

void trace_record_write(Trace *trace, Operand at) {
    const Operand base = trace_history(trace, at)->base;
    history_of(trace, base)->written = trace->ops.n + 1;
    for (at = base; at != OPERAND_ABSENT;) {
        TraceHistory *const h = history_of(trace, at);
        if (h->since == NO_HISTORY) h->since = trace->ops.n + 1;
        at = h->next;
    }
}

static const sn_tensor *tape_base_of(const sn_tensor *t) {
    const sn_tensor *const base = tape_view_base(t);
    return base ? base : t;
}

/* An older input that is a view of the same base, or that base; -1: none. Only those of one storage may be. */
static int input_with_base(const Trace *trace, const TraceInput *in) {
    int k = in->same_storage;
    while (k >= 0 && tape_base_of(trace->inputs.at[k].tensor) != tape_base_of(in->tensor))
        k = trace->inputs.at[k].same_storage;
    return k;
}

void trace_join_input(Trace *trace, int input) {
    TraceInput *const in = &trace->inputs.at[input];
    const int other = input_with_base(trace, in);
    if (other < 0) return;
    in->history = join_history(trace, -1 - input, -1 - other);
    const int written = trace_history(trace, in->history.base)->written;
    in->history.since = in->requires_grad ? 0 : written ? written : NO_HISTORY;
}

void trace_forget_input(Trace *trace, int input) {
    const TraceHistory *const h = &trace->inputs.at[input].history;
    TraceHistory *const base = history_of(trace, h->base);
    if (base->next == -1 - input) base->next = h->next;
}

/* As tape_view_refresh: a view that an op's history begins at has one of its own from then on. */
static bool looks_at(const TracedOp *step, int value) {
    const TraceOp *const op = step->op;
    if (!step->needs && op->row->role != ROLE_gradients) return false;
    const Operand *operand = op->operands;
    for (int i = 0; i < op->row->n_params; i++) {
        const Arg *const a = &op->args[i];
        const bool linked = a->kind == ARG_tensors || step->needs >> i & 1 || op->row->role == ROLE_gradients;
        for (int n = a->kind == ARG_tensors ? a->n : a->kind == ARG_tensor; n > 0; n--)
            if (*operand++ == value && linked) return true;
    }
    return false;
}

bool trace_is_stale(const Trace *trace, int value) {
    const Operand base = trace->places.at[value].history.base;
    const int written = trace_history(trace, base)->written;
    if (base == value || written <= trace->places.at[value].op + 1) return false;
    for (int i = written; i < trace->ops.n; i++)
        if (looks_at(&trace->ops.at[i], value)) return false;
    return true;
}

Status trace_check_inplace(const Trace *trace, Operand o) {
    if (operand_is_input(o)) return tape_check_inplace(trace->inputs.at[operand_input(o)].tensor);
    if (!trace_is_noted(trace, o)) return ST_OK;
    const Operand base = trace->places.at[o].history.base;
    return tape_check_view(operand_is_input(base) ? trace->inputs.at[operand_input(base)].tensor : NULL,
                           trace_maker(trace, o)->modes & NODE_no_grad);
}
