/* equate.c: sizes that guards make equal become one expression, so that lowering, which compares expressions, sees what
 * the hints have decided: after a guard s0 == s1-1 there is s0+1 in the place of s1, after s0 == 6 there is 6 in that
 * of s0 (ir/sym_equal.c). Numbers of arguments and the inputs' metadata are rewritten; results are what their meta
 * rules then say. */
#include "passes/internal.h"
#include "runtime/base/error.h"

PassFn pass_equate;

typedef struct Equal {
    Graph *graph;
    const int64_t *by; /* by free symbol: itself, or what it equals */
} Equal;

static int64_t equated(const Equal *e, int64_t a) { return sym_move(e->graph->env, e->graph->env, a, e->by); }

static const Meta *meta_equated(const Equal *e, const Meta *meta) {
    int64_t sizes[MAX_RANK], strides[MAX_RANK];
    for (int d = 0; d < meta->rank; d++) {
        sizes[d] = equated(e, meta->sizes[d]);
        strides[d] = equated(e, meta->strides[d]);
    }
    Meta *const made = meta_new(e->graph->arena, e->graph->env, meta->dtype, meta->device, sizes, strides, meta->rank);
    if (made) made->wrapped = meta->wrapped;
    return made ? made : meta;
}

static void rewrite_arg(const Equal *e, Arg *arg) {
    if (arg->kind == ARG_int) arg->i = equated(e, arg->i);
    if (arg->kind != ARG_ints || !arg->n) return;
    int64_t *const ints = ARENA_ARRAY(e->graph->arena, int64_t, arg->n);
    for (int i = 0; ints && i < arg->n; i++) ints[i] = equated(e, arg->ints[i]);
    if (ints) arg->ints = ints;
}

/* As its rule says of the new arguments. */
static Status rewrite_node(const Equal *e, Node *node) {
    MetaOut *const outs = ARENA_ARRAY(e->graph->arena, MetaOut, node->n_outs + 1);
    if (!outs) return ST_MEMORY;
    for (int i = 0; i < node->n_args; i++) rewrite_arg(e, &node->args[i]);
    for (int i = 0; i < node->n_outs; i++) outs[i].alias = -1;
    MetaCall call = {.row = node->row,
                     .form = node->form,
                     .args = node->args,
                     .env = e->graph->env,
                     .out = outs,
                     .n_out = node->n_outs};
    TRY(op_meta(&call));
    for (int i = 0; i < node->n_outs; i++) {
        GVal *const out = &node->outs[i];
        meta_specialize_small(e->graph->env, &outs[i]);
        out->offset = outs[i].offset;
        const Meta *const old = out->base.meta;
        Meta *const made = meta_new(e->graph->arena, e->graph->env, outs[i].dtype, outs[i].device, outs[i].sizes,
                                    outs[i].strides, outs[i].rank);
        if (!made) return ST_MEMORY;
        made->wrapped = old->wrapped;
        out->base.meta = made;
    }
    return ST_OK;
}

static void rewrite(const Equal *e) {
    Graph *const graph = e->graph;
    for (int i = 0; i < graph->inputs.n; i++)
        graph->inputs.at[i]->base.meta = meta_equated(e, graph->inputs.at[i]->base.meta);
    for (Node *node = graph->first; node; node = node->next)
        if (rewrite_node(e, node) != ST_OK) return; /* the runner sees the error */
    for (int i = 0; i < graph->outputs.n; i++) graph->outputs.at[i].offset = equated(e, graph->outputs.at[i].offset);
}

bool pass_equate(Graph *graph, const PassOptions *options) {
    (void)options;
    const int n = sym_free_count(graph->env);
    if (!sym_guard_count(graph->env) || !n) return false;
    int64_t *const by = ARENA_ARRAY(graph->arena, int64_t, 2 * n);
    if (!by || !sym_equalities(graph->env, by, by + n)) return false;
    rewrite(&(Equal){graph, by});
    return true;
}
