/* training_expand.c: a compiled node becomes eager's [semantics G3]: what eager's tape holds is made
 * from what the launch saved, and the nodes are recorded over it. Under create_graph they take the
 * compiled node's place for good, and double backward goes on from there; where only code is missing
 * they serve one call.
 *
 *     input 0 and its history -- mul -- h -- exp -- y <-- gradient      handles, with data only
 *                                                                       where a node holds it
 *
 * The nodes take the sequence numbers that eager's would have had, and the run ends at the inputs.
 * Partial sums are roots too, so they come first. */
#include "runtime/capture/training/training_parts.h"
#include "runtime/base/alloc.h"
#include "runtime/core/autocast.h"
#include "runtime/core/context_enter.h"

typedef struct Expansion {
    const TrainingLaunch *l;
    const bool *ran, *needs; /* which steps to record, by which inputs */
    const bool *used;        /* steps that have given up what they held; NULL: none */
    const TapeEdge *edges;
    GraphRun run;           /* of the functional graph; values: the handles */
    sn_tensor **tape_saved; /* by tape-saved value; NULL: not needed */
} Expansion;

/* `value` as a view of t, which is `whole`; NULL: it is none, or an error is pending. */
static sn_tensor *view_from(const Expansion *e, const GVal *value, const GVal *whole, sn_tensor *t) {
    const Node *const node = value->def;
    if (value == whole) return tensor_from_storage(t->storage, t->base.meta, t->offset);
    if (!node || node->row->kind != KIND_view) return NULL;
    sn_tensor *const viewed = view_from(e, gval(node->args[0].val), whole, t);
    if (!viewed) return NULL;
    Arg args[MAX_ARGS] = {A_VAL(&viewed->base)};
    for (int i = 1; i < node->row->n_params; i++) args[i] = graph_run_arg(&e->run, node->args[i]);
    sn_tensor *outs[MAX_LIST];
    if (dispatch(node->row, FORM_functional, args, NULL, outs) != ST_OK) return NULL;
    return outs[value - node->outs];
}

/* A value that the caller has as a result, and has not written, is taken from there: what derivatives save of it is
 * then that memory, whose next write they notice. What a region makes again is none's. */
static Status reuse_results(Expansion *e) {
    const TapeTable *const p = &e->l->training->tape;
    for (int i = 0; i < p->tape_saved.n; i++) {
        const TapeSavedValue *const tape_saved = &p->tape_saved.at[i];
        if (!e->tape_saved[i] || tape_saved->again || tape_saved->check < 0 || !p->checks.at[tape_saved->check].output)
            continue;
        const TapeSaved *const checked_memory = &e->l->checked_memory[tape_saved->check];
        if (!checked_memory->tensor || tensor_version(checked_memory->tensor) != checked_memory->version) continue;
        const GVal *const whole = p->functional->outputs.at[p->checks.at[tape_saved->check].index].value;
        sn_tensor *const t = view_from(e, tape_saved->value, whole, checked_memory->tensor);
        TRY(error_pending());
        if (t) e->tape_saved[i] = t;
    }
    return ST_OK;
}

static Status run_restore(Expansion *e, const GraphRun *run) {
    const TrainingLaunch *const l = e->l;
    const Graph *const graph = run->graph;
    sn_state *const state = state_get();
    const uint64_t seed = state->seed, sequence = state->sequence;
    for (int i = 0; i < graph->inputs.n; i++) run->values[graph->inputs.at[i]->id] = l->saved[i].tensor;
    for (int i = 0; i < l->variant->symbols.n_bindings; i++)
        if (l->variant->symbols.bindings[i].kind == BIND_seed) state->seed = (uint64_t)l->symbols[i];
    const ContextSaved saved = context_enter(state, CONTEXT_library);
    Status status = graph_run_nodes(run);
    for (int i = 0; i < graph->outputs.n && status == ST_OK; i++)
        e->tape_saved[i] = run->values[graph->outputs.at[i].value->id];
    if (status == ST_OK) status = reuse_results(e);
    context_leave(&saved);
    state->seed = seed;
    state->sequence = sequence;
    return status;
}

/* Data for what the nodes hold, by the ops of the forward; what only nodes hold that have run is gone. */
static Status restore_saved(Expansion *e) {
    const TrainingLaunch *const l = e->l;
    const Training *const t = l->training;
    bool any = false;
    for (int s = 0; s < t->tape.steps.n; s++)
        any |= e->ran[s] && t->tape.steps.at[s].n_saves && !(e->used && e->used[s]);
    e->tape_saved = ARENA_ARRAY(e->run.arena, sn_tensor *, t->tape.tape_saved.n + 1);
    if (!e->tape_saved) return ST_MEMORY;
    if (!any) return ST_OK;
    GraphRun run = e->run;
    run.graph = t->partition->restore;
    run.values = ARENA_ARRAY(run.arena, sn_tensor *, run.graph->n_vals + 1);
    run.seeded = true;
    for (int i = 0; i < l->variant->symbols.n_bindings; i++)
        if (l->variant->symbols.bindings[i].kind == BIND_sequence) run.sequence = (uint64_t)l->symbols[i];
    bool *const needed = run.values ? training_needed(t, e->ran, e->used) : NULL;
    run.needed = needed;
    const Status status = needed ? run_restore(e, &run) : ST_MEMORY;
    mem_free(needed);
    return status;
}

/* A handle of the value, without history. */
static sn_tensor *handle_of(const Expansion *e, const GVal *value) {
    sn_tensor **const slot = &e->run.values[value->id];
    if (*slot) return *slot;
    const int tape_saved = e->l->training->tape.tape_saved_of[value->id];
    const sn_tensor *const data = tape_saved >= 0 ? e->tape_saved[tape_saved] : NULL;
    if (data) return *slot = tensor_from_storage(data->storage, data->base.meta, data->offset);
    const Meta *const meta = training_meta(e->run.graph->env, value->base.meta, e->l->symbols);
    return *slot = meta ? tensor_without_data(meta) : NULL;
}

/* The input with the history that it had at the call: that of the result that it was, or a leaf's. What the caller's
 * own leaf is by now counts for nothing: it may be switched off, or be a result since. */
static Status enter_input(const Expansion *e, int i) {
    const TapeEdge *const edge = tape_edge_now(&e->edges[i]);
    sn_tensor *const t = handle_of(e, e->run.graph->inputs.at[i]);
    if (!t) return error_pending();
    return edge->leaf ? tape_requires_grad(t, true) : tape_attach(t, edge->target, edge->output);
}

static void touch(void *context, GVal **slot) {
    if (*slot) handle_of(context, *slot);
}

static const GVal *saved_value(const Node *node, const TapeSaved *saved) {
    if (saved->result >= 0) return &node->outs[saved->result];
    const Arg *const a = &node->args[saved->arg];
    return gval(saved->item < 0 ? a->val : a->vals[saved->item]);
}

/* Versions are those of the launch, and of the memory where the caller sees the value, whatever it was made again
 * from. */
static void restore_version(const Expansion *e, const TapeRecord *step, TapeSaved *saved) {
    const TapeTable *const p = &e->l->training->tape;
    const int tape_saved = p->tape_saved_of[saved_value(step->node, saved)->id];
    int check = -1;
    for (int i = step->first_save; i < step->first_save + step->n_saves; i++)
        if (p->step_saves.at[i] == tape_saved && !p->readers.at[i]) check = version_check_at(p, i);
    if (check < 0) return;
    const TapeSaved *const checked_memory = &e->l->checked_memory[check];
    saved->memory = tensor_retained(checked_memory->tensor);
    saved->version = checked_memory->version;
}

/* What a backward has used up is gone, and where it has used up all, what was checked too. */
static void restore_node(const Expansion *e, TapeNode *node, int s) {
    const TapeRecord *const step = &e->l->training->tape.steps.at[s];
    if (e->used && e->used[s] && step->n_saves) {
        tape_node_drop(node);
        return;
    }
    int n;
    TapeSaved *const saved = (TapeSaved *)node->class->saved(node, &n);
    for (int i = 0; i < n; i++) restore_version(e, step, &saved[i]);
}

/* The node of a step; NULL: none of its arguments has a history. */
static TapeNode *recorded(const Expansion *e, const Node *node) {
    for (int i = 0; i < node->n_outs; i++) {
        const sn_tensor *const t = e->run.values[node->outs[i].id];
        if (t->autograd && t->autograd->node) return t->autograd->node;
    }
    return NULL;
}

/* The generator that the launch gave to control flow. */
static void set_flow_generator(const Expansion *e, const Node *node, Arg *args) {
    const Variant *const v = e->l->variant;
    if (!(node->row->flags & OPF_flow)) return;
    for (int i = 0; i < v->symbols.n_bindings; i++) {
        if (v->symbols.bindings[i].kind == BIND_seed) args[op_param_find(node->row, "seed")] = A_INT(e->l->symbols[i]);
        if (v->symbols.bindings[i].kind == BIND_sequence)
            args[op_param_find(node->row, "number")] = A_INT(e->l->symbols[i] + node->random);
    }
}

static Status run_tape_record(Expansion *e, int s) {
    const TapeRecord *const step = &e->l->training->tape.steps.at[s];
    const Node *const node = step->node;
    Arg args[MAX_ARGS];
    sn_tensor **const outs = ARENA_ARRAY(e->run.arena, sn_tensor *, node->n_outs + 1);
    if (!outs) return ST_MEMORY;
    node_each_input((Node *)node, touch, e);
    for (int i = 0; i < node->n_outs; i++) outs[i] = handle_of(e, &node->outs[i]);
    TRY(error_pending());
    for (int i = 0; i < node->row->n_params; i++) args[i] = graph_run_arg(&e->run, node->args[i]);
    set_flow_generator(e, node, args);
    TRY(tape_record(node->row, args, outs, node->n_outs, e->l->sequence + 1 + (uint64_t)step->number));
    TapeNode *const made = recorded(e, node);
    if (made) restore_node(e, made, s);
    return ST_OK;
}

static Status record_all(Expansion *e) {
    const Training *const t = e->l->training;
    for (int i = 0; i < t->n_inputs; i++)
        if (e->needs[i]) TRY(enter_input(e, i));
    for (int s = 0; s < t->tape.steps.n; s++)
        if (e->ran[s]) TRY(run_tape_record(e, s));
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

static Status find_roots(const Expansion *e, const BackwardSpecialization *c, const TapeBackward *call, Roots *r) {
    const Training *const t = e->l->training;
    Arena *const arena = e->run.arena;
    const Graph *const g = e->run.graph;
    const int capacity = t->n_inputs + t->n_user + 1;
    *r = (Roots){.roots = ARENA_ARRAY(arena, sn_tensor *, capacity),
                 .grads = ARENA_ARRAY(arena, sn_tensor *, capacity),
                 .xs = ARENA_ARRAY(arena, sn_tensor *, capacity),
                 .got = ARENA_ARRAY(arena, sn_tensor *, capacity)};
    if (!r->roots || !r->grads || !r->xs || !r->got) return ST_MEMORY;
    for (int i = 0; i < t->n_inputs; i++) {
        if (!c->needs[i]) continue;
        sn_tensor *const x = r->xs[r->n_xs++] = handle_of(e, g->inputs.at[i]);
        if (c->partial[i]) add_root(r, x, call->partial[i]);
    }
    for (int i = 0; i < t->n_user; i++) {
        if (!c->defined[i]) continue;
        sn_tensor *const root = handle_of(e, g->outputs.at[i].value);
        if (!root) return ST_MEMORY;
        if (tape_tracks(root)) add_root(r, root, call->grad_out[i]);
    }
    return ST_OK;
}

static Status run_nodes(const Expansion *e, const BackwardSpecialization *c, TapeBackward *call) {
    Roots r;
    TRY(find_roots(e, c, call, &r));
    const TapeRun run = {.roots = r.roots,
                         .grads = r.grads,
                         .n_roots = r.n,
                         .xs = r.xs,
                         .n_xs = r.n_xs,
                         .out = r.got,
                         .flags = TAPE_allow_unused | TAPE_stop};
    TRY(tape_run(&run));
    for (int i = 0, k = 0; i < e->l->training->n_inputs; i++)
        if (c->needs[i]) call->grad_in[i] = r.got[k++];
    return ST_OK;
}

static bool expansion_begin(Expansion *e, const TrainingLaunch *l, const TapeEdge *edges) {
    Arena *const arena = arena_new();
    Graph *const graph = l->training->tape.functional;
    *e = (Expansion){.l = l,
                     .edges = edges,
                     .run = {.graph = graph,
                             .arena = arena,
                             .values = ARENA_ARRAY(arena, sn_tensor *, graph->n_vals + 1),
                             .symbols = l->symbols,
                             .floats = l->floats}};
    return e->run.values != NULL;
}

Status training_expand(const TrainingLaunch *l, const BackwardSpecialization *c, TapeBackward *call) {
    Expansion e;
    Status status = expansion_begin(&e, l, call->edges) ? ST_OK : ST_MEMORY;
    e.ran = c->ran, e.needs = c->needs;
    if (status == ST_OK) status = restore_saved(&e);
    if (status == ST_OK) status = record_all(&e);
    if (status == ST_OK) status = run_nodes(&e, c, call);
    arena_free(e.run.arena);
    return status;
}

/* Nodes that stay lead to the leaves themselves, and hold them, as eager's do: only while they are recorded, and in a
 * run that ends there, handles stand for leaves. */

static void put_leaf(const Expansion *e, const GVal *value, void **place) {
    const bool wanted = value && !value->def && e->needs[value->index];
    const TapeEdge *const edge = wanted ? tape_edge_now(&e->edges[value->index]) : NULL;
    if (!edge || !edge->leaf || *place != e->run.values[value->id]) return;
    tensor_retain(edge->target);
    tensor_release(*place);
    *place = edge->target;
}

static void put_leaves(const Expansion *e, const Node *node, TapeNode *made) {
    int n, item = node->row->n_params;
    for (int i = 0; i < node->row->n_params; i++) {
        const Arg *const a = &node->args[i];
        if (a->kind == ARG_tensor) put_leaf(e, gval(a->val), &made->edges[i].target);
        for (int k = 0; a->kind == ARG_tensors && k < a->n; k++)
            put_leaf(e, gval(a->vals[k]), &made->edges[item++].target);
    }
    TapeSaved *const saved = (TapeSaved *)made->class->saved(made, &n);
    for (int i = 0; i < n; i++) {
        void *tape_saved = saved[i].tensor;
        put_leaf(e, saved_value(node, &saved[i]), &tape_saved);
        saved[i].tensor = tape_saved;
    }
}

static Status find_edges(const Expansion *e, TapeEdge *now) {
    const Training *const t = e->l->training;
    for (int i = 0; i < t->n_user; i++) {
        if (!t->out_tracked[i]) continue;
        sn_tensor *const root = handle_of(e, e->run.graph->outputs.at[i].value);
        TRY(root ? tape_edge_set(&now[i], root) : error_pending());
        put_leaf(e, e->run.graph->outputs.at[i].value, &now[i].target);
    }
    return ST_OK;
}

static Status become(Expansion *e, TapeEdge *now) {
    const Training *const t = e->l->training;
    bool *const ran = ARENA_ARRAY(e->run.arena, bool, t->tape.steps.n + 1);
    if (!ran) return ST_MEMORY;
    memset(ran, true, (size_t)t->tape.steps.n);
    e->ran = ran, e->needs = t->want, e->used = e->l->used;
    TRY(restore_saved(e));
    TRY(record_all(e));
    for (int s = 0; s < t->tape.steps.n; s++) {
        const Node *const node = t->tape.steps.at[s].node;
        TapeNode *const made = recorded(e, node);
        if (made) put_leaves(e, node, made);
    }
    return find_edges(e, now);
}

Status training_become(void *launch, const TapeEdge *edges, TapeEdge *now) {
    sn_state *const state = state_get();
    TRY(scope_push(state, false));
    Expansion e;
    const Status status = expansion_begin(&e, launch, edges) ? become(&e, now) : ST_MEMORY;
    arena_free(e.run.arena);
    scope_pop(state);
    return status;
}
