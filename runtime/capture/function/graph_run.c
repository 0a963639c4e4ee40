/* graph_run.c: see graph_run.h. Values live in an array by value id; symbolic ints are evaluated
 * with the values that the inputs' sizes give to the free symbols. */
#include "runtime/capture/function/graph_run.h"

#include "runtime/capture/record/capture.h"

enum { MAX_SYMBOLS = 256 };

typedef struct Run {
    GraphRun run;
    int64_t symbols[MAX_SYMBOLS];
    bool bound[MAX_SYMBOLS];
} Run;

static Status mismatch(const Run *run, int input, const Meta *want, const Meta *got) {
    Text text = {0};
    meta_print(run->run.graph->env, &text, want);
    text_puts(&text, ", got ");
    meta_print(NULL, &text, got);
    const Status status =
        error_raise(ST_SHAPE, "graph %s: input %d wants %s", run->run.graph->name, input, text_str(&text));
    text_free(&text);
    return status;
}

static bool bind_size(Run *run, int64_t want, int64_t got) {
    if (!sym_is(want)) return want == got;
    const SymExpr *const e = sym_expr(run->run.graph->env, want);
    if (e->op != SYM_free) return true; /* checked by the ops that made the expression */
    if (e->a >= MAX_SYMBOLS) return false;
    const bool first = !run->bound[e->a];
    if (first) run->symbols[e->a] = got;
    run->bound[e->a] = true;
    return run->symbols[e->a] == got;
}

static Status bind_input(Run *run, int i, sn_tensor *t) {
    const Meta *const want = run->run.graph->inputs.at[i]->base.meta, *const got = t->base.meta;
    bool fits = want->dtype == got->dtype && want->rank == got->rank;
    for (int d = 0; fits && d < want->rank; d++) fits = bind_size(run, want->sizes[d], got->sizes[d]);
    if (!fits) return mismatch(run, i, want, got);
    run->run.values[run->run.graph->inputs.at[i]->id] = t;
    return ST_OK;
}

int64_t graph_run_int(const GraphRun *run, int64_t v) {
    return sym_is(v) ? sym_eval(run->graph->env, v, run->symbols) : v;
}

static sn_tensor *tensor_for(const GraphRun *run, Val *v) { return v ? run->values[gval(v)->id] : NULL; }

Arg graph_run_arg(const GraphRun *run, Arg a) {
    if (a.kind == ARG_tensor) {
        sn_tensor *const t = tensor_for(run, a.val);
        return A_VAL(t ? &t->base : NULL);
    }
    if (a.kind == ARG_int) a.i = graph_run_int(run, a.i);
    if (a.kind == ARG_runtime) return A_FLOAT(run->floats[a.i]);
    if (a.kind == ARG_ints) {
        int64_t *const ints = ARENA_ARRAY(run->arena, int64_t, a.n);
        for (int i = 0; ints && i < a.n; i++) ints[i] = graph_run_int(run, a.ints[i]);
        a.ints = ints;
    }
    if (a.kind == ARG_tensors) {
        Val **const vals = ARENA_ARRAY(run->arena, Val *, a.n);
        for (int i = 0; vals && i < a.n; i++) {
            sn_tensor *const t = tensor_for(run, a.vals[i]);
            vals[i] = t ? &t->base : NULL;
        }
        a.vals = vals;
    }
    return a;
}

static Status run_node(const GraphRun *run, const Node *node) {
    const OpRow *const row = node->row;
    Arg args[MAX_ARGS];
    sn_tensor *out_args[MAX_OUTS], *outs[MAX_OUTS] = {NULL};
    for (int i = 0; i < row->n_params; i++) args[i] = graph_run_arg(run, node->args[i]);
    for (int i = 0; node->form == FORM_out && i < row->n_out; i++)
        out_args[i] = tensor_for(run, node->args[row->n_params + i].val);
    if (run->seeded && row->flags & OPF_random) state_get()->sequence = run->sequence + (uint64_t)node->random;
    if (row->id == OP_gradients)
        TRY(gradients_run(args, outs));
    else
        TRY(dispatch(row, node->form, args, node->form == FORM_out ? out_args : NULL, outs));
    for (int i = 0; i < node->n_outs; i++) run->values[node->outs[i].id] = outs[i];
    return ST_OK;
}

Status graph_run_nodes(const GraphRun *run) {
    for (const Node *node = run->graph->first; node; node = node->next) TRY(run_node(run, node));
    return ST_OK;
}

static Status run_all(Run *r, sn_tensor *const *inputs, sn_tensor **outs) {
    const GraphRun *const run = &r->run;
    const Graph *const graph = run->graph;
    for (int i = 0; i < graph->inputs.n; i++) TRY(bind_input(r, i, inputs[i]));
    TRY(graph_run_nodes(run));
    for (int i = 0; i < graph->outputs.n; i++)
        outs[i] = graph->outputs.at[i].value ? run->values[graph->outputs.at[i].value->id] : NULL;
    for (int i = 0; i < graph->writes.n; i++) {
        sn_tensor *const to = run->values[graph->writes.at[i].input->id];
        sn_tensor *const from = run->values[graph->writes.at[i].value->id], *written;
        const Arg args[] = {A_VAL(&to->base), A_VAL(&from->base), A_BOOL(false)};
        TRY(dispatch(op_row(OP_copy), FORM_inplace, args, NULL, &written));
    }
    return ST_OK;
}

Status graph_run(Graph *graph, sn_tensor *const *inputs, int n_inputs, sn_tensor **outs) {
    if (n_inputs != graph->inputs.n)
        return error_raise(ST_ARGUMENT, "graph %s: %d inputs wanted, %d given", graph->name, graph->inputs.n, n_inputs);
    Arena *const arena = arena_new();
    Run *const run = arena ? ARENA_NEW(arena, Run) : NULL;
    Status status = ST_MEMORY;
    if (run) {
        run->run = (GraphRun){.graph = graph,
                              .arena = arena,
                              .values = ARENA_ARRAY(arena, sn_tensor *, graph->n_vals),
                              .symbols = run->symbols,
                              .floats = graph->runtime_floats.at};
        status = run->run.values ? run_all(run, inputs, outs) : ST_MEMORY;
    }
    arena_free(arena);
    return status;
}
