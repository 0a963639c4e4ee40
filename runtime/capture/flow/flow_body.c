/* flow_body.c: a body of control flow runs: its graph op by op, through the dispatcher and with the tape, or as code;
 * or itself; and what becomes of its results [semantics T2]. */
#include "ir/alias.h"
#include "runtime/autograd/tape.h"
#include "runtime/base/alloc.h"
#include "runtime/capture/flow/body_trace.h"
#include "runtime/capture/flow/flow.h"
#include "runtime/autograd/graph_run.h"

/* Whether a value is no view and has memory that begins in the graph: what a form wrote is what it wrote into. */
static bool is_fresh(const GVal *value) {
    while (value->alias >= 0 && value->def->form != FORM_functional) value = value_memory(value);
    return value->def && value->alias < 0;
}

static bool comes_before(const Graph *graph, int i) {
    for (int k = 0; k < i; k++)
        if (graph->outputs.at[k].value == graph->outputs.at[i].value) return true;
    return false;
}

bool flow_output_is_cloned(const Graph *graph, int i) {
    const GVal *const value = graph->outputs.at[i].value;
    return !is_fresh(value) || comes_before(graph, i) || !flow_is_row_major(value->base.meta);
}

static Status own_results(const FlowBody *body, sn_tensor **out) {
    for (int i = 0; i < body->n_out; i++) {
        TRY(flow_ready(body->op, out[i]));
        if (body->graph && !body->itself && !flow_output_is_cloned(body->graph, i)) continue;
        sn_tensor *const copy = tape_clone(out[i], NULL);
        if (!copy) return error_pending() ? error_pending() : ST_MEMORY;
        out[i] = copy;
    }
    return ST_OK;
}

static bool steps_as(const Meta *a, const Meta *b) {
    for (int d = 0; d < a->rank; d++)
        if (a->numel && a->sizes[d] != 1 && a->strides[d] != b->strides[d]) return false;
    return true;
}

/* A graph is of the layouts that it was traced with. */
sn_tensor *flow_laid_out(const Meta *want, sn_tensor *t) {
    const Meta *const got = t->base.meta;
    if (want->rank != got->rank || !meta_same_sizes(want, got) || steps_as(want, got)) return t;
    return tape_clone(t, meta_intern(got->dtype, got->device, got->sizes, want->strides, got->rank, got->wrapped));
}

static Status run_graph(const FlowBody *body, sn_tensor *const *in, sn_tensor **out) {
    const int n = body->graph->inputs.n;
    sn_tensor **const tensors = mem_alloc((size_t)(n + 1) * sizeof *tensors);
    if (!tensors) return ST_MEMORY;
    Status status = ST_OK;
    for (int i = 0; i < n && status == ST_OK; i++) {
        sn_tensor *const t = i < body->n_in ? in[i] : body->closed.at[i - body->n_in];
        if (!(tensors[i] = flow_laid_out(body->graph->inputs.at[i]->base.meta, t))) status = error_pending();
    }
    const GraphInputs inputs = {.tensors = tensors, .sites = body->sites.at};
    const bool launch = body->code && flow_code_serves(body->code);
    if (status == ST_OK)
        status = launch ? flow_code_run(body->code, tensors, out) : graph_run(body->graph, &inputs, out);
    mem_free(tensors);
    return status;
}

static Status run_itself(const FlowBody *body, sn_tensor *const *in, sn_tensor **out) {
    Arg *const args = mem_alloc((size_t)(body->n_in + 1) * sizeof *args);
    uint32_t *const versions = args ? mem_alloc((size_t)(body->n_in + 1) * sizeof *versions) : NULL;
    Status status = versions ? ST_OK : ST_MEMORY;
    for (int i = 0; status == ST_OK && i < body->n_in; i++) {
        args[i] = A_VAL(&in[i]->base);
        versions[i] = tensor_version(in[i]);
    }
    sn_frame frame = {
        .what = body->what, .closure = body->closure, .in = args, .n_in = body->n_in, .out = out, .n_out = body->n_out};
    if (status == ST_OK) status = frame_run(&frame, body->run);
    for (int i = 0; status == ST_OK && i < body->n_in; i++)
        if (tensor_version(in[i]) != versions[i])
            status = error_raise(ST_ARGUMENT, "%s: %s writes into its input %d, which is not its own", body->op,
                                 body->what, i);
    mem_free(versions);
    mem_free(args);
    return status;
}

Status flow_body_run(const FlowBody *body, sn_tensor *const *in, sn_tensor **out) {
    sn_state *const state = state_get();
    TRY(error_pending());
    for (int i = 0; i < body->n_out; i++) out[i] = NULL;
    TRY(scope_push(state, false));
    const uint32_t depth = state->n_scopes - 1;
    Status status = body->graph && !body->itself ? run_graph(body, in, out) : run_itself(body, in, out);
    if (status == ST_OK) status = own_results(body, out);
    scope_pop_passing(state, depth, out, status == ST_OK ? body->n_out : 0);
    for (int i = 0; status != ST_OK && i < body->n_out; i++) out[i] = NULL;
    return status;
}

/* Histories, told from the graph ---------------------------------------------------------------- */

static uint32_t tracked_args(const Node *node, const bool *tracked) {
    uint32_t bits = 0;
    for (int i = 0; i < node->n_args; i++) {
        const Arg *const a = &node->args[i];
        bool any = a->kind == ARG_tensor && a->val && tracked[gval(a->val)->id];
        for (int k = 0; a->kind == ARG_tensors && k < a->n; k++) any |= a->vals[k] && tracked[gval(a->vals[k])->id];
        bits |= any ? UINT32_C(1) << i : 0;
    }
    return bits;
}

/* What is written has the history of the write, and so has what it is a view of. */
static void track_written(const Node *node, bool *tracked) {
    if (node->form == FORM_functional) return;
    const GVal *value = gval(node->args[0].val);
    for (; value; value = value_memory(value)) tracked[value->id] = true;
}

/* needs: NULL, or gets the arguments (bits) for which a node is recorded. */
static void track_nodes(const Graph *graph, bool *tracked, uint32_t *needs) {
    for (const Node *node = graph->first; node; node = node->next) {
        const uint32_t args = tracked_args(node, tracked);
        if (!op_recorded(node->row, node->form, node->modes, args)) continue;
        if (needs) needs[node->id] = args;
        for (int k = 0; k < node->n_outs; k++)
            tracked[node->outs[k].id] = dtype_is_float(node->outs[k].base.meta->dtype);
        track_written(node, tracked);
    }
}

Status flow_graph_needs(const Graph *graph, const bool *want, uint32_t *needs) {
    bool *const tracked = mem_zero((size_t)(graph->n_vals + 1) * sizeof *tracked);
    if (!tracked) return ST_MEMORY;
    for (int k = 0; k < graph->inputs.n; k++) tracked[graph->inputs.at[k]->id] = want[k];
    track_nodes(graph, tracked, needs);
    mem_free(tracked);
    return ST_OK;
}

Status flow_body_marks(const FlowBody *body, const bool *in, bool *out) {
    const Graph *const graph = body->graph;
    bool *const tracked = mem_zero((size_t)(graph->n_vals + 1) * sizeof *tracked);
    if (!tracked) return ST_MEMORY;
    for (int k = 0; k < graph->inputs.n; k++) tracked[graph->inputs.at[k]->id] = in[k];
    track_nodes(graph, tracked, NULL);
    for (int k = 0; k < graph->outputs.n; k++) out[k] = tracked[graph->outputs.at[k].value->id];
    mem_free(tracked);
    return ST_OK;
}

bool flow_body_tracks(const FlowBody *body, sn_tensor *const *in, int i) {
    if (!body->graph || state_get()->grad_mode != SN_GRAD_ON) return false;
    const int n = body->graph->inputs.n;
    bool *const marks = mem_zero((size_t)(n + body->n_out + 1) * sizeof *marks);
    if (!marks) return false;
    for (int k = 0; k < n; k++) marks[k] = tape_tracks(k < body->n_in ? in[k] : body->closed.at[k - body->n_in]);
    const bool tracks = flow_body_marks(body, marks, marks + n) == ST_OK && marks[n + i];
    mem_free(marks);
    return tracks;
}
