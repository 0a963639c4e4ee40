/* variant_views.c: which results of a variant are views, in three respects.
 *
 * Memory: what runtime/capture/record/trace_views.c marks as viewed is provided, or elided.
 *
 * The tape: code makes memory and metadata; which view ops lead from the base to a result is noted
 * after the launch, as eager's tape notes it, so that a later write through the result reaches the
 * base's history [semantics G5]. A base that is no result can be reached by nobody, so any handle
 * of the view's own memory and history does.
 *
 * Versions: eager counts every write of a memory, code writes it once; a launch counts the rest. */
#include "runtime/capture/variant/variant_views.h"

#include "runtime/autograd/tape.h"
#include "runtime/capture/record/trace_graph.h"
#include "runtime/capture/record/trace_views.h"
#include "runtime/core/context_enter.h"

/* Memory -------------------------------------------------------------------------------------- */

bool trace_lacks_view(const Trace *trace, const Variant *variant, int value) {
    const int viewed = trace_viewed(trace, value);
    return viewed >= 0 && trace->marks[value] & VALUE_waits && variant->segment.provides[viewed] &&
           !variant->segment.provides[value];
}

bool trace_elides(const Trace *trace, const Variant *variant, int value) {
    const int viewed = trace_viewed(trace, value);
    if (viewed < 0 || trace->marks[value] & VALUE_output || variant->segment.provides[viewed]) return false;
    for (int v = viewed; v < trace->values.n; v++)
        if (v != value && trace->marks[v] & VALUE_alive && (v == viewed || trace_viewed(trace, v) == viewed))
            return true;
    return false;
}

/* The tape ------------------------------------------------------------------------------------ */

static OutputView plan_view(const Variant *v, const Trace *trace, int output) {
    OutputView view = {.output = output, .input = -1, .base = -1};
    Operand at = v->outputs[output];
    for (; trace_is_noted(trace, at); at = trace->places.at[at].memory)
        VEC_PUSH(v->arena, &view.ops, trace_maker(trace, at));
    if (operand_is_input(at))
        view.input = operand_input(at);
    else
        view.base = variant_output_of(v, at);
    view.stale = view.base >= 0 && trace_is_stale(trace, v->outputs[output]);
    return view;
}

Status variant_plan_views(Variant *v, const Trace *trace) {
    if (!trace->views) return ST_OK;
    v->aliasing.views = ARENA_ARRAY(v->arena, OutputView, v->n_outputs);
    if (!v->aliasing.views) return ST_MEMORY;
    for (int i = 0; i < v->n_outputs; i++) {
        const OutputView view = plan_view(v, trace, i);
        if (!view.ops.n) continue;
        v->aliasing.views[v->aliasing.n_views] = view;
        v->aliasing.views[v->aliasing.n_views++].no_grad = view.ops.at[0]->modes & NODE_no_grad;
    }
    return error_pending();
}

bool variant_view_is_stale(const Variant *v, int output) {
    for (int i = 0; i < v->aliasing.n_views; i++)
        if (v->aliasing.views[i].output == output) return v->aliasing.views[i].stale;
    return false;
}

static Status apply_ops(const OutputView *view, const int64_t *numbers, sn_tensor *self, sn_tensor **out) {
    for (int i = view->ops.n - 1; i >= 0; i--) {
        Arg args[MAX_ARGS];
        trace_numbers(view->ops.at[i], numbers, args);
        args[0] = A_VAL(&self->base);
        TRY(tape_dispatch(view->ops.at[i]->row, FORM_functional, args, &self));
    }
    *out = self;
    return ST_OK;
}

/* A file may say anything: the memory that its code gave must be what the ops lead to, which a history is made of. */
static Status check_view(const OutputView *view, const int64_t *numbers, const sn_tensor *t, sn_tensor *self) {
    sn_state *const state = state_get();
    TRY(scope_push(state, false));
    context_enter_scope(state, CONTEXT_library);
    sn_tensor *made = NULL;
    Status status = apply_ops(view, numbers, self, &made);
    if (status == ST_OK && (t == self || made->storage != t->storage || made->offset != t->offset ||
                            !meta_same_layout(made->base.meta, t->base.meta)))
        status = error_raise(ST_INTERNAL, "plan, output %d: not the view that its ops make", view->output);
    scope_pop(state);
    return status;
}

static Status record_ops(const int64_t *numbers, const OutputView *view, sn_tensor *t, sn_tensor *self) {
    TapeView *made = tape_view_of(self);
    for (int i = view->ops.n - 1; i >= 0; i--) {
        const TraceOp *const op = view->ops.at[i];
        Arg args[MAX_ARGS];
        trace_numbers(op, numbers, args);
        const TapeViewOp step = {.row = op->row, .args = args, .no_grad = op->modes & NODE_no_grad};
        if (!(made = tape_view_step(made, &step))) return ST_MEMORY;
    }
    TRY(tape_view_set(t, self, made));
    if (view->stale) t->autograd->generation--; /* not that of the base */
    return ST_OK;
}

static Status record_view(const int64_t *numbers, const OutputView *view, sn_tensor *t, sn_tensor *self) {
    if (!t || !t->storage || tape_view_base(t)) return ST_OK;
    if (self && self->storage) return record_ops(numbers, view, t, self);
    return view->no_grad || tape_tracks(t) ? tape_view_alone(t, view->no_grad) : ST_OK;
}

static bool is_of_file(const Variant *v) { return !v->text; }

Status variant_record_views(const Variant *v, const int64_t *numbers, sn_tensor *const *inputs,
                            sn_tensor *const *outs) {
    for (int i = 0; i < v->aliasing.n_views; i++) {
        const OutputView *const view = &v->aliasing.views[i];
        sn_tensor *const self = view->input >= 0 ? inputs[view->input] : view->base >= 0 ? outs[view->base] : NULL;
        sn_tensor *const t = outs[view->output];
        if (is_of_file(v) && t && self) TRY(check_view(view, numbers, t, self));
        TRY(record_view(numbers, view, t, self));
    }
    return ST_OK;
}

Status trace_record_views(const Trace *trace, const Variant *v) {
    for (int i = 0; i < v->aliasing.n_views; i++) {
        const OutputView *const view = &v->aliasing.views[i];
        sn_tensor *const self = view->input >= 0  ? trace->inputs.at[view->input].tensor
                                : view->base >= 0 ? trace->values.at[v->outputs[view->base]]
                                                  : NULL;
        TRY(record_view(trace->numbers.at, view, trace->values.at[v->outputs[view->output]], self));
    }
    return ST_OK;
}

/* Versions ------------------------------------------------------------------------------------ */

/* The value that has made the memory, or -1 - the number of an input's storage. */
static int memory_of(const Trace *trace, Operand o) {
    const Operand root = trace_root(trace, o);
    return operand_is_input(root) ? -1 - trace->inputs.at[operand_input(root)].storage_number : root;
}

/* Counts a handle that became a view as a write of the memory; a write of an input was counted at the call. */
static void count_mutation(const Trace *trace, const TraceOp *op, int *by_value) {
    const int memory = memory_of(trace, op->operands[0]);
    if (memory >= 0) by_value[memory]++;
}

static void count_op(const Trace *trace, const TraceOp *op, int *by_value, int *by_storage) {
    const int first = op->form == FORM_inplace ? 0 : op->n_operands - op->row->n_out,
              last = op->form == FORM_inplace ? 1 : op->n_operands;
    for (int i = first; op->form != FORM_functional && i < last; i++) {
        if (op->operands[i] == OPERAND_ABSENT) continue;
        const int memory = memory_of(trace, op->operands[i]);
        if (memory >= 0)
            by_value[memory]++;
        else
            by_storage[-1 - memory]++;
    }
}

static void add_count(Variant *v, int input, int output, int *uncounted) {
    const WriteCount count = {input, output, *uncounted};
    if (*uncounted > 0) v->aliasing.counts[v->aliasing.n_counts++] = count;
    *uncounted = 0;
}

Status variant_plan_writes(Variant *v, const Trace *trace) {
    if (!trace->writes && !trace->mutates_metadata) return ST_OK;
    int *const by_value = ARENA_ARRAY(v->arena, int, trace->values.n), *const by_storage = ARENA_ARRAY(
                                                                           v->arena, int, trace->n_storages);
    v->aliasing.counts = ARENA_ARRAY(v->arena, WriteCount, v->n_graph_inputs + v->n_outputs);
    if (!by_value || !by_storage || !v->aliasing.counts) return ST_MEMORY;
    for (int i = 0; i < trace->ops.n; i++) {
        const TraceOp *const op = trace->ops.at[i].op;
        if (op->mutates_metadata)
            count_mutation(trace, op, by_value);
        else
            count_op(trace, op, by_value, by_storage);
    }
    for (int s = 0; s < trace->n_storages; s++) by_storage[s]--; /* the launch's own */
    for (int i = 0; i < v->n_graph_inputs; i++)
        add_count(v, i, -1, &by_storage[trace->inputs.at[v->graph_inputs[i].captured].storage_number]);
    for (int i = 0; i < v->n_outputs; i++) {
        const int memory = memory_of(trace, v->outputs[i]);
        if (memory >= 0) add_count(v, -1, i, &by_value[memory]);
    }
    return ST_OK;
}

void variant_count_writes(const Variant *v, sn_tensor *const *inputs, sn_tensor *const *outs) {
    for (int i = 0; i < v->aliasing.n_counts; i++) {
        const WriteCount *const count = &v->aliasing.counts[i];
        sn_tensor *const t = count->input >= 0 ? inputs[count->input] : outs[count->output];
        for (int k = 0; t && k < count->uncounted; k++) tensor_written(t);
    }
}
