/* variant_ops.c: see variant_ops.h. The graph is that of the capture, in the order of the body's calls; which inputs
 * and symbols a launch gives it is the case's, as for its code. */
#include "runtime/capture/variant/variant_ops.h"

#include "runtime/autograd/graph_run.h"
#include "runtime/base/error.h"
#include "runtime/core/context_enter.h"

static uint64_t generator_symbol(const Variant *v, int kind, const int64_t *symbols, uint64_t otherwise) {
    for (int i = 0; i < v->symbols.n_bindings; i++)
        if ((int)v->symbols.bindings[i].kind == kind) return (uint64_t)symbols[i];
    return otherwise;
}

/* In the context of the library, with the launch's random numbers. */
static Status ops_run(const Variant *v, GraphRun *run) {
    sn_state *const state = state_get();
    const uint64_t seed = state->seed, sequence = state->sequence;
    run->sequence = generator_symbol(v, BIND_sequence, run->symbols, sequence);
    state->seed = generator_symbol(v, BIND_seed, run->symbols, seed);
    const ContextSaved saved = context_enter(state, CONTEXT_library);
    const Status status = graph_run_nodes(run);
    context_leave(&saved);
    state->seed = seed;
    state->sequence = sequence;
    return status;
}

/* Views by numbers stay in the memory that they name: the numbers are a file's. */
static Status check_views(GraphRun *run, sn_tensor *const *inputs) {
    Graph *const graph = (Graph *)(uintptr_t)run->graph;
    const Node *at = NULL;
    if (!graph_names_memory(graph)) return ST_OK;
    int64_t *const before = ARENA_ARRAY(run->arena, int64_t, graph->inputs.n + 1);
    int64_t *const behind = ARENA_ARRAY(run->arena, int64_t, graph->inputs.n + 1);
    if (!before || !behind) return ST_MEMORY;
    for (int i = 0; i < graph->inputs.n; i++) {
        const sn_tensor *const t = inputs[i];
        before[i] = t->offset;
        behind[i] = (int64_t)t->storage->bytes / dtype_bytes(t->base.meta->dtype) - t->offset;
    }
    return graph_check_reach(graph, &(GraphMemory){run->symbols, before, behind}, &at);
}

static Status ops_launch(Variant *v, GraphRun *run, sn_tensor *const *inputs, sn_tensor **outs) {
    const Graph *const graph = run->graph;
    run->values = ARENA_ARRAY(run->arena, sn_tensor *, graph->n_vals + 1);
    if (!run->values) return ST_MEMORY;
    TRY(check_views(run, inputs));
    for (int i = 0; i < graph->inputs.n; i++) run->values[graph->inputs.at[i]->id] = inputs[i];
    TRY(ops_run(v, run));
    for (int i = 0; i < v->n_outputs; i++) outs[i] = run->values[graph->outputs.at[i].value->id];
    return ST_OK;
}

static Status run_by_ops(Variant *v, sn_tensor *const *inputs, const int64_t *symbols, const double *floats,
                         Storage *const *given, sn_tensor **outs) {
    (void)given;
    sn_state *const state = state_get();
    const uint32_t depth = state->n_scopes;
    Arena *const arena = arena_new();
    GraphRun run = {.graph = v->ops, .arena = arena, .symbols = symbols, .floats = floats, .seeded = true};
    Status status = arena ? scope_push(state, false) : ST_MEMORY;
    if (status == ST_OK) {
        status = ops_launch(v, &run, inputs, outs);
        scope_pop_passing(state, depth, outs, status == ST_OK ? v->n_outputs : 0);
    }
    arena_free(arena);
    return status;
}

/* Its results are views of each other and of inputs as its ops make them, with the versions that writes count. */
static const VariantKind by_ops = {.run = run_by_ops};

static bool fits(const Variant *v, const Graph *graph) {
    bool all = graph->inputs.n == v->n_graph_inputs && graph->outputs.n == v->n_outputs && !graph->writes.n &&
               sym_free_count(graph->env) == v->symbols.n_bindings &&
               graph->runtime_floats.n <= v->attributes.n_runtime_floats;
    for (int i = 0; all && i < graph->outputs.n; i++) all = graph->outputs.at[i].value != NULL;
    return all;
}

Status variant_run_by_ops(Variant *v) {
    Graph *graph;
    if (!v->ops_text)
        return error_raise(ST_UNSUPPORTED,
                           "the plan has no graph of its case: save it again with this version of Sinter");
    TRY(graph_parse(v->arena, v->ops_text, strlen(v->ops_text), &graph));
    TRY(graph_verify(graph, STAGE_capture));
    if (!fits(v, graph)) return error_raise(ST_PARSE, "the plan's graph is none of its case");
    v->ops = graph;
    v->kind = &by_ops;
    return ST_OK;
}
