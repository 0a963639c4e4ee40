/* trace_graph.c: a trace becomes the capture graph: inputs in order of first use, one node per
 * op.
 *
 * Inputs that share a storage which the segment may write become as_strided views of one 1-D base
 * input, so that functionalize sees the aliasing [semantics C7]. */
#include "runtime/capture/record/trace_graph.h"
#include "runtime/capture/record/capture.h"
#include "runtime/capture/record/trace_views.h"

typedef struct GraphMaking {
    const Trace *trace;
    Arena *arena;
    TraceSymbols *plan;
    Graph *graph;
    GVal **inputs, **values; /* by trace input and value */
    Node **nodes;            /* by op */
    InputName *names;        /* by trace input */
    bool *written;           /* by storage number */
    VEC(GraphInput) graph_inputs;
    int next_number;
} GraphMaking;

static void record_written(GraphMaking *m, const TraceOp *op) {
    const int first = op->form == FORM_inplace ? 0 : op->n_operands - op->row->n_out,
              last = op->form == FORM_inplace ? 1 : op->n_operands;
    for (int k = first; op->form != FORM_functional && k < last; k++) {
        const Operand root = trace_root(m->trace, op->operands[k]);
        if (operand_is_input(root)) m->written[m->trace->inputs.at[operand_input(root)].storage_number] = true;
    }
}

/* The storages of inputs that in-place and out forms write. */
static bool find_written(GraphMaking *m) {
    const Trace *const trace = m->trace;
    m->written = ARENA_ARRAY(m->arena, bool, trace->n_storages + 1);
    if (!m->written) return false;
    for (int i = 0; trace->writes && i < trace->ops.n; i++) record_written(m, trace->ops.at[i].op);
    return true;
}

static int group_size(const Trace *trace, int storage_number) {
    int n = 0;
    for (int i = 0; i < trace->inputs.n; i++) n += trace->inputs.at[i].storage_number == storage_number;
    return n;
}

/* [low, high) of the storage, in elements, that the tensors of one group reach. */
static void group_span(const Trace *trace, int storage_number, int64_t *low, int64_t *high) {
    *low = INT64_MAX;
    *high = 0;
    for (int i = 0; i < trace->inputs.n; i++) {
        const TraceInput *const input = &trace->inputs.at[i];
        if (input->storage_number != storage_number || input->meta->numel == 0) continue;
        int64_t last = input->offset;
        for (int d = 0; d < input->meta->rank; d++) last += (input->meta->sizes[d] - 1) * input->meta->strides[d];
        *low = min_i64(*low, input->offset);
        *high = max_i64(*high, last + 1);
    }
    if (*low > *high) *low = *high = 0;
}

static Status check_group(const GraphMaking *m, int first) {
    const Trace *const trace = m->trace;
    const int number = trace->inputs.at[first].storage_number;
    if (m->plan->dynamic) return error_raise(ST_UNSUPPORTED, "written inputs share memory under symbolic sizes");
    for (int i = first; i < trace->inputs.n; i++)
        if (trace->inputs.at[i].storage_number == number &&
            trace->inputs.at[i].meta->dtype != trace->inputs.at[first].meta->dtype)
            return error_raise(ST_UNSUPPORTED, "written inputs of different dtypes share memory");
    return ST_OK;
}

static Status add_group(GraphMaking *m, int first) {
    const Trace *const trace = m->trace;
    const TraceInput *const head = &trace->inputs.at[first];
    TRY(check_group(m, first));
    int64_t low, high;
    group_span(trace, head->storage_number, &low, &high);
    const int64_t size = high - low, stride = 1;
    const Meta *const meta = meta_intern(head->meta->dtype, head->meta->device, &size, &stride, 1, false);
    if (!meta) return ST_MEMORY;
    meta_stay(meta);
    GVal *const base = graph_input(m->graph, arena_printf(m->arena, "m%d", head->storage_number), meta);
    VEC_PUSH(m->arena, &m->graph_inputs,
             ((GraphInput){.captured = first, .base = true, .base_offset = low - head->offset, .meta = meta}));
    for (int i = first; i < trace->inputs.n; i++) {
        const TraceInput *const input = &trace->inputs.at[i];
        if (input->storage_number != head->storage_number) continue;
        const Meta *const view = input->meta;
        m->inputs[i] = gval(E(&m->graph->builder, view_of, V(&base->base), A_INTS(view->sizes, view->rank),
                              A_INTS(view->strides, view->rank), I(input->offset - low)));
        if (!m->inputs[i]) return error_pending();
    }
    return ST_OK;
}

static Status add_inputs(GraphMaking *m) {
    for (int i = 0; i < m->trace->inputs.n; i++) {
        if (m->inputs[i]) continue;
        const TraceInput *const input = &m->trace->inputs.at[i];
        if (m->written[input->storage_number] && group_size(m->trace, input->storage_number) > 1) {
            TRY(add_group(m, i));
            continue;
        }
        m->inputs[i] = graph_input(m->graph, input_name_word(m->arena, m->names[i]), m->plan->metas[i]);
        VEC_PUSH(m->arena, &m->graph_inputs, ((GraphInput){.captured = i}));
    }
    return ST_OK;
}

/* Arguments: tensors to graph values, numbers as the plan says -------------------------------- */

static Val *value_of(const GraphMaking *m, Operand operand) {
    if (operand == OPERAND_ABSENT) return NULL;
    GVal *const v = operand_is_input(operand) ? m->inputs[operand_input(operand)] : m->values[operand];
    return &v->base;
}

static int64_t next_int(GraphMaking *m) { return m->plan->numbers[m->next_number++]; }

static Arg next_float(GraphMaking *m, Arg a) {
    const int k = m->next_number++;
    if (m->plan->number_rules[k] != NUMBER_runtime_float) return a;
    while (m->graph->runtime_floats.n <= m->plan->numbers[k]) VEC_PUSH(m->arena, &m->graph->runtime_floats, 0.0);
    m->graph->runtime_floats.at[m->plan->numbers[k]] = a.f;
    return (Arg){.kind = ARG_runtime, .i = m->plan->numbers[k]};
}

const TraceOp *trace_maker(const Trace *trace, Operand value) {
    return value < 0 ? NULL : trace->ops.at[trace->places.at[value].op].op;
}

const char *trace_op_name(const TraceOp *op) {
    const bool strided = op->row->flags & OPF_places && op->row->flags & OPF_internal;
    const OpRow *const row = strided ? OP_ROW(as_strided) : op->row;
    return op_form_name(row, op->mutates_metadata ? FORM_inplace : op->form);
}

void trace_numbers(const TraceOp *op, const int64_t *numbers, Arg *args) {
    const int64_t *number = numbers + op->first_number;
    for (int i = 0; i < op->row->n_params; i++) {
        Arg *const a = &args[i];
        *a = op->args[i];
        if (a->kind == ARG_ints || a->kind == ARG_floats) {
            a->ints = number; /* floats: their bits */
            number += a->n;
        } else if (trace_arg_is_number(op->row, i, a)) {
            a->i = *number++;
        }
    }
}

void trace_tensors(const TraceOp *op, Val **operand, Arg *args, sn_tensor **out_args) {
    for (int i = 0; i < op->row->n_params; i++) {
        Arg *const a = &args[i];
        if (a->kind == ARG_tensor) a->val = *operand++;
        if (a->kind != ARG_tensors) continue;
        a->vals = operand;
        operand += a->n;
    }
    for (int i = 0; op->form == FORM_out && i < op->row->n_out; i++) out_args[i] = tensor_of(*operand++);
}

static bool takes_list(const TraceOp *op) {
    int i = 0;
    while (i < op->row->n_params && op->args[i].kind != ARG_tensors) i++;
    return i < op->row->n_params;
}

Status trace_args(const Trace *trace, const TraceOp *op, Arg *args, sn_tensor **out_args) {
    Val *few[MAX_ARGS + MAX_OUTS]; /* as many as there are where no list has more, which would stay there */
    Val **const operands = takes_list(op) ? ARENA_ARRAY(trace->capture->arena, Val *, op->n_operands + 1) : few;
    if (!operands) return ST_MEMORY;
    for (int k = 0; k < op->n_operands; k++) {
        sn_tensor *const t = trace_tensor(trace, op->operands[k]);
        operands[k] = t ? &t->base : NULL;
    }
    trace_numbers(op, trace->numbers.at, args);
    trace_tensors(op, operands, args, out_args);
    return ST_OK;
}

void trace_op_enter(const TraceOp *op, const void *site, uint64_t sequence) {
    sn_state *const state = state_get();
    state_grad_mode_set(state, op->modes & NODE_inference ? SN_INFERENCE
                               : op->modes & NODE_no_grad ? SN_GRAD_OFF
                                                          : SN_GRAD_ON);
    state->site = site;
    if (op->row->flags & OPF_random) state->sequence = sequence;
}

NumberParam trace_number_param(const TraceOp *op, int number) {
    int at = op->first_number;
    for (int i = 0; i < op->row->n_params; i++) {
        const Arg *const a = &op->args[i];
        const bool list = a->kind == ARG_ints || a->kind == ARG_floats;
        const int first = at;
        at += list ? a->n : trace_arg_is_number(op->row, i, a);
        if (number < at)
            return (NumberParam){.param = &op->row->params[i],
                                 .item = list ? number - first : -1,
                                 .is_float = a->kind == ARG_float || a->kind == ARG_floats};
    }
    return (NumberParam){.param = NULL};
}

static Arg map_list(GraphMaking *m, Arg a, const Operand **operand) {
    if (a.kind == ARG_tensors) {
        Val **const vals = ARENA_ARRAY(m->arena, Val *, a.n);
        for (int k = 0; k < a.n; k++) vals[k] = value_of(m, *(*operand)++);
        a.vals = vals;
    } else if (a.kind == ARG_ints) {
        int64_t *const ints = ARENA_ARRAY(m->arena, int64_t, a.n);
        for (int k = 0; k < a.n; k++) ints[k] = next_int(m);
        a.ints = ints;
    } else if (a.kind == ARG_floats) {
        m->next_number += a.n;
    }
    return a;
}

static Arg map_arg(GraphMaking *m, const OpRow *row, int i, Arg a, const Operand **operand) {
    if (a.kind == ARG_tensor) {
        a.val = value_of(m, *(*operand)++);
        return a;
    }
    if (!trace_arg_is_number(row, i, &a)) return map_list(m, a, operand);
    if (a.kind == ARG_float) return next_float(m, a);
    a.i = next_int(m);
    return a;
}

static Status add_op(GraphMaking *m, int at) {
    const TraceOp *const op = m->trace->ops.at[at].op;
    const int n = op->row->n_params, n_out_args = op->form == FORM_out ? op->row->n_out : 0;
    Arg *const args = ARENA_ARRAY(m->arena, Arg, n + n_out_args), given[MAX_ARGS];
    sn_tensor *given_outs[MAX_OUTS];
    const Operand *operand = op->operands;
    TRY(trace_args(m->trace, op, given, given_outs));
    for (int i = 0; i < n; i++) args[i] = map_arg(m, op->row, i, given[i], &operand);
    for (int i = 0; i < n_out_args; i++) args[n + i] = A_VAL(value_of(m, *operand++));
    m->graph->modes = op->modes;
    m->graph->random = op->random;
    m->graph->region = op->region;
    m->graph->site = m->trace->ops.at[at].site;
    Node *const node = graph_append(m->graph, op->row, op->form, args);
    if (!node) return error_pending();
    m->nodes[at] = node;
    for (int i = 0; i < op->n_outs; i++) m->values[op->first_value + i] = &node->outs[i];
    return ST_OK;
}

static void add_generator(GraphMaking *m) {
    Graph *const g = m->graph;
    g->n_random = m->trace->n_random;
    if (!g->n_random) return;
    g->seed = sym_free(g->env, (int64_t)m->trace->seed, 0);
    VEC_PUSH(m->arena, &m->plan->bindings, ((SymBinding){.kind = BIND_seed}));
    g->sequence = sym_free(g->env, (int64_t)m->trace->sequence, 0);
    VEC_PUSH(m->arena, &m->plan->bindings, ((SymBinding){.kind = BIND_sequence}));
}

static void add_outputs(GraphMaking *m, TraceGraph *out) {
    out->outputs = ARENA_ARRAY(m->arena, int, m->trace->values.n);
    for (int v = 0; v < m->trace->values.n; v++) {
        if (!(m->trace->marks[v] & VALUE_output)) continue;
        graph_output(m->graph, m->values[v]);
        out->outputs[out->n_outputs++] = v;
    }
}

/* A function's name as a word of graph text. */
static const char *word_of(Arena *arena, const char *name) {
    char *const word = arena_strdup(arena, name);
    for (char *p = word; p && *p; p++) {
        const bool fine =
            (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || *p == '_' || (p > word && *p >= '0' && *p <= '9');
        if (!fine) *p = '_';
    }
    return word;
}

Status trace_graph(const Trace *trace, Arena *arena, TraceSymbols *plan, TraceGraph *out) {
    *out = (TraceGraph){.graph = graph_new(arena, word_of(arena, trace->capture->fn->name))};
    GraphMaking m = {.trace = trace,
                     .arena = arena,
                     .plan = plan,
                     .graph = out->graph,
                     .inputs = ARENA_ARRAY(arena, GVal *, trace->inputs.n),
                     .values = ARENA_ARRAY(arena, GVal *, trace->values.n),
                     .nodes = ARENA_ARRAY(arena, Node *, trace->ops.n),
                     .names = ARENA_ARRAY(arena, InputName, trace->inputs.n)};
    if (!out->graph || !m.inputs || !m.values || !m.nodes || !m.names) return ST_MEMORY;
    input_names(trace, m.names);
    out->graph->env = out->graph->builder.env = plan->env;
    if (!find_written(&m)) return ST_MEMORY;
    TRY(add_inputs(&m));
    add_generator(&m);
    regions_copy(arena, &out->graph->regions, &trace->regions);
    for (int i = 0; i < trace->ops.n; i++) TRY(add_op(&m, i));
    add_outputs(&m, out);
    out->inputs = m.graph_inputs.at;
    out->n_inputs = m.graph_inputs.n;
    out->values = m.values;
    out->nodes = m.nodes;
    out->names = m.names;
    return error_pending();
}
