/* training_expand.c: a compiled node becomes eager's [semantics G3]: what eager's tape holds is made
 * from what the launch saved, every node that the gradients reach is recorded over it, and the engine
 * runs them. Double backward goes on from there.
 *
 *     input 0 and its history -- mul -- h -- exp -- y <-- gradient      handles, with data only
 *                                                                       where a node holds it
 *
 * The nodes take the sequence numbers that eager's would have had, and the run ends at the inputs.
 * Partial sums are roots too, so they come first. */
#include "runtime/training_parts.h"

typedef struct Expansion {
    const Launch *l;
    const BackwardCase *c;
    TapeBackward *call;
    GraphRun run;     /* of the functional graph; values: the handles */
    sn_tensor **held; /* by held value; NULL: not needed */
} Expansion;

static Status run_restore(const Expansion *e, const GraphRun *run) {
    const Launch *const l = e->l;
    const Graph *const graph = run->graph;
    sn_state *const state = state_get();
    const uint64_t seed = state->seed, sequence = state->sequence;
    const sn_grad_mode mode = state->grad_mode;
    for (int i = 0; i < graph->inputs.n; i++)
        run->values[graph->inputs.at[i]->id] = l->saved[i].tensor;
    for (int i = 0; i < l->variant->n_bindings; i++)
        if (l->variant->bindings[i].kind == BIND_seed) state->seed = (uint64_t)l->symbols[i];
    state->grad_mode = SN_GRAD_OFF;
    const Status status = graph_run_nodes(run);
    state->grad_mode = mode;
    state->seed = seed;
    state->sequence = sequence;
    for (int i = 0; i < graph->outputs.n && status == ST_OK; i++)
        e->held[i] = run->values[graph->outputs.at[i].value->id];
    return status;
}

/* Data for what the nodes hold, by the ops of the forward. */
static Status restore(Expansion *e) {
    const Launch *const l = e->l;
    const Training *const t = l->variant->training;
    bool any = false;
    for (int s = 0; s < t->tape.steps.n; s++) any |= e->c->ran[s] && t->tape.steps.at[s].n_holds;
    e->held = ARENA_ARRAY(e->run.arena, sn_tensor *, t->tape.held.n + 1);
    if (!e->held) return ST_MEMORY;
    if (!any) return ST_OK;
    GraphRun run = e->run;
    run.graph = t->partition->restore;
    run.values = ARENA_ARRAY(run.arena, sn_tensor *, run.graph->n_vals + 1);
    run.seeded = true;
    for (int i = 0; i < l->variant->n_bindings; i++)
        if (l->variant->bindings[i].kind == BIND_sequence) run.sequence = (uint64_t)l->symbols[i];
    return run.values ? run_restore(e, &run) : ST_MEMORY;
}

/* A handle of the value, without history. */
static sn_tensor *handle_of(const Expansion *e, const GVal *value) {
    sn_tensor **const slot = &e->run.values[value->id];
    if (*slot) return *slot;
    const int held = e->l->variant->training->tape.held_of[value->id];
    const sn_tensor *const data = held >= 0 ? e->held[held] : NULL;
    if (data) return *slot = tensor_from_storage(data->storage, data->base.meta, data->offset);
    const Meta *const meta = training_meta(e->l->variant, value->base.meta, e->l->symbols);
    return *slot = meta ? tensor_without_data(meta) : NULL;
}

/* The input with the history that it has outside: its leaf, or a handle of the result that it was. */
static Status enter_input(const Expansion *e, int i) {
    const TapeEdge *const edge = &e->call->edges[i];
    const GVal *const value = e->run.graph->inputs.at[i];
    if (edge->leaf) {
        e->run.values[value->id] = edge->target;
        return ST_OK;
    }
    sn_tensor *const t = handle_of(e, value);
    return t ? tape_attach(t, edge->target, edge->output) : error_pending();
}

static void touch(void *context, GVal **slot) {
    if (*slot) handle_of(context, *slot);
}

static Status record_step(Expansion *e, int s) {
    const Node *const node = e->l->variant->training->tape.steps.at[s].node;
    Arg args[MAX_ARGS];
    sn_tensor **const outs = ARENA_ARRAY(e->run.arena, sn_tensor *, node->n_outs + 1);
    if (!outs) return ST_MEMORY;
    node_each_input((Node *)node, touch, e);
    for (int i = 0; i < node->n_outs; i++) outs[i] = handle_of(e, &node->outs[i]);
    TRY(error_pending());
    for (int i = 0; i < node->row->n_params; i++) args[i] = graph_run_arg(&e->run, node->args[i]);
    return tape_record(node->row, args, outs, node->n_outs, e->l->sequence + 1 + (uint64_t)s);
}

static Status record_all(Expansion *e) {
    const Training *const t = e->l->variant->training;
    for (int i = 0; i < t->n_inputs; i++)
        if (e->c->needs[i]) TRY(enter_input(e, i));
    for (int s = 0; s < t->tape.steps.n; s++)
        if (e->c->ran[s]) TRY(record_step(e, s));
    return ST_OK;
}

typedef struct Roots {
    sn_tensor **roots, **grads, **xs, **got;
    int n, n_xs;
} Roots;

static void add_root(Roots *r, sn_tensor *root, sn_tensor *grad) {
    r->roots[r->n] = root;
    r->grads[r->n++] = grad;
}

static Status find_roots(const Expansion *e, Roots *r) {
    const Training *const t = e->l->variant->training;
    Arena *const arena = e->run.arena;
    const Graph *const g = e->run.graph;
    const int room = t->n_inputs + t->n_user + 1;
    *r = (Roots){.roots = ARENA_ARRAY(arena, sn_tensor *, room),
                 .grads = ARENA_ARRAY(arena, sn_tensor *, room),
                 .xs = ARENA_ARRAY(arena, sn_tensor *, room),
                 .got = ARENA_ARRAY(arena, sn_tensor *, room)};
    if (!r->roots || !r->grads || !r->xs || !r->got) return ST_MEMORY;
    for (int i = 0; i < t->n_inputs; i++) {
        if (!e->c->needs[i]) continue;
        sn_tensor *const x = r->xs[r->n_xs++] = handle_of(e, g->inputs.at[i]);
        if (e->c->partial[i]) add_root(r, x, e->call->partial[i]);
    }
    for (int i = 0; i < t->n_user; i++) {
        if (!e->c->defined[i]) continue;
        sn_tensor *const root = handle_of(e, g->outputs.at[i].value);
        if (!root) return ST_MEMORY;
        if (tape_tracks(root)) add_root(r, root, e->call->grad_out[i]);
    }
    return ST_OK;
}

static Status run_nodes(const Expansion *e) {
    Roots r;
    TRY(find_roots(e, &r));
    const bool create = e->call->create_graph;
    const TapeRun run = {.roots = r.roots,
                         .grads = r.grads,
                         .n_roots = r.n,
                         .xs = r.xs,
                         .n_xs = r.n_xs,
                         .out = r.got,
                         .flags = TAPE_allow_unused | TAPE_stop |
                                  (create ? TAPE_create | TAPE_retain : 0)};
    TRY(tape_run(&run));
    for (int i = 0, k = 0; i < e->l->variant->training->n_inputs; i++)
        if (e->c->needs[i]) e->call->grad_in[i] = r.got[k++];
    return ST_OK;
}

Status training_expand(const Launch *l, const BackwardCase *c, TapeBackward *call) {
    Arena *const arena = arena_new();
    if (!arena) return ST_MEMORY;
    Graph *const graph = l->variant->training->tape.functional;
    Expansion e = {.l = l,
                   .c = c,
                   .call = call,
                   .run = {.graph = graph,
                           .arena = arena,
                           .values = ARENA_ARRAY(arena, sn_tensor *, graph->n_vals + 1),
                           .symbols = l->symbols,
                           .floats = l->floats}};
    Status status = e.run.values ? restore(&e) : ST_MEMORY;
    if (status == ST_OK) status = record_all(&e);
    if (status == ST_OK) status = run_nodes(&e);
    arena_free(arena);
    return status;
}
