/* graph_run.c: see graph_run.h. Values live in an array by value id; symbolic ints are evaluated
 * with the values that the inputs' sizes give to the free symbols. */
#include "runtime/autograd/graph_run.h"

#include "ir/flow_text.h"
#include "runtime/autograd/gradients.h"
#include "runtime/core/element.h"
#include "runtime/core/tracer.h"

typedef struct BoundRun {
    GraphRun run;
    const GraphInputs *inputs;
    int64_t *symbols;
    bool *bound;
} BoundRun;

static Status mismatch(const BoundRun *run, int input, const Meta *want, const Meta *got) {
    Text text = {0};
    meta_print(run->run.graph->env, &text, want);
    text_puts(&text, ", got ");
    meta_print(NULL, &text, got);
    const Status status =
        error_raise(ST_SHAPE, "graph %s: argument %d wants %s", run->run.graph->name, input, text_str(&text));
    text_free(&text);
    return status;
}

/* Equal numbers; of symbols of a captured function with a guard. */
static bool same(const BoundRun *run, int64_t want, int64_t got) {
    return sym_same(run->run.env, graph_run_int(&run->run, want), got);
}

/* What divides by 0 under the symbols' values has none [as sn_sym_op]. */
static Status check_divisors(const GraphRun *run, int64_t v) {
    if (!sym_is(v)) return ST_OK;
    const SymExpr *const e = sym_expr(run->graph->env, v);
    if (e->op == SYM_free) return ST_OK;
    TRY(check_divisors(run, e->a));
    TRY(check_divisors(run, e->b));
    if ((e->op != SYM_div && e->op != SYM_mod) || !sym_same(run->env, graph_run_int(run, e->b), 0)) return ST_OK;
    Text text = {0};
    sym_print(run->graph->env, &text, v);
    const Status status = error_raise(ST_VALUE, "graph %s: %s divides by 0", run->graph->name, text_str(&text));
    text_free(&text);
    return status;
}

static bool bind(BoundRun *run, int64_t symbol, int64_t got) {
    const SymExpr *const e = sym_is(symbol) ? sym_expr(run->run.graph->env, symbol) : NULL;
    if (!e || e->op != SYM_free) return true; /* compared when all are bound */
    const bool first = !run->bound[e->a];
    if (first) run->symbols[e->a] = got;
    run->bound[e->a] = true;
    return first || sym_same(run->run.env, run->symbols[e->a], got);
}

/* Sizes that are a symbol alone give it its value. */
static Status bind_input(BoundRun *run, int i) {
    sn_tensor *const t = run->inputs->tensors[i];
    const Meta *const want = run->run.graph->inputs.at[i]->base.meta, *const got = t->base.meta;
    const Meta *const known = tracer_meta(t);
    bool fits = want->dtype == got->dtype && want->device == got->device && want->rank == got->rank;
    for (int d = 0; fits && d < want->rank; d++) fits = bind(run, want->sizes[d], known->sizes[d]);
    if (!fits) return mismatch(run, i, want, got);
    run->run.values[run->run.graph->inputs.at[i]->id] = t;
    return ST_OK;
}

/* A dim of size 1 is never stepped along, and neither is one of what has no elements. */
static Status check_input(const BoundRun *run, int i) {
    sn_tensor *const t = run->inputs->tensors[i];
    const Meta *const want = run->run.graph->inputs.at[i]->base.meta, *const got = t->base.meta;
    const Meta *const known = tracer_meta(t);
    for (int d = 0; d < want->rank; d++) {
        const bool stepped = !run->inputs->any_strides && got->numel && got->sizes[d] != 1;
        TRY(check_divisors(&run->run, want->sizes[d]));
        TRY(check_divisors(&run->run, want->strides[d]));
        if (!same(run, want->sizes[d], known->sizes[d]) || (stepped && !same(run, want->strides[d], known->strides[d])))
            return mismatch(run, i, want, got);
    }
    return ST_OK;
}

/* The symbols that sizes are solved for; what is no whole number is told by the comparison with the size. */
static Status bind_solutions(BoundRun *run) {
    const Graph *const graph = run->run.graph;
    for (int i = 0; i < graph->solutions.n; i++) {
        const SizeSolution *const s = &graph->solutions.at[i];
        const int64_t size = tracer_meta(run->inputs->tensors[s->input])->sizes[s->dim];
        const int64_t times = graph_run_int(&run->run, s->times), rest = graph_run_int(&run->run, s->rest);
        if (sym_same(run->run.env, times, 0))
            return mismatch(run, s->input, graph->inputs.at[s->input]->base.meta,
                            run->inputs->tensors[s->input]->base.meta);
        const int symbol = (int)sym_expr(graph->env, s->symbol)->a;
        run->symbols[symbol] = sym_div(run->run.env, sym_sub(run->run.env, size, rest), times);
        run->bound[symbol] = true;
    }
    return ST_OK;
}

/* Where a call has a symbol from: "size 100 of dim 0 of %x". */
static void print_origin(const BoundRun *run, int64_t symbol, Text *text) {
    const Graph *const graph = run->run.graph;
    for (int i = 0; i < graph->inputs.n; i++) {
        const Meta *const meta = graph->inputs.at[i]->base.meta;
        for (int d = 0; d < meta->rank; d++) {
            bool gives = meta->sizes[d] == symbol;
            for (int k = 0; k < graph->solutions.n && !gives; k++)
                gives = graph->solutions.at[k].symbol == symbol && graph->solutions.at[k].input == i &&
                        graph->solutions.at[k].dim == d;
            if (!gives) continue;
            text_printf(text, "size %lld of dim %d of %%%s", (long long)run->inputs->tensors[i]->base.meta->sizes[d], d,
                        graph->inputs.at[i]->name);
            return;
        }
    }
    for (const Node *node = graph->first; node; node = node->next)
        if (node->unbacked == symbol) {
            text_printf(text, "what %s finds", op_form_name(node->row, node->form));
            return;
        }
    text_puts(text, "an int input");
}

static Status refuse_range(const BoundRun *run, int i, int64_t value) {
    const SymExpr *const s = sym_expr(run->run.graph->env, sym_free_at(run->run.graph->env, i));
    Text text = {0};
    print_origin(run, sym_free_at(run->run.graph->env, i), &text);
    text_printf(&text, ": at least %lld", (long long)s->b);
    if (s->most != SYM_MOST) text_printf(&text, " and at most %lld", (long long)s->most);
    const Status status = error_raise(ST_SHAPE, "graph %s: s%d is %lld, from %s is wanted", run->run.graph->name, i,
                                      (long long)value, text_str(&text));
    text_free(&text);
    return status;
}

/* What the header says of symbols; of symbols of a captured function with guards. */
static Status check_range(const BoundRun *run, int i) {
    SymEnv *const env = run->run.env;
    const SymExpr *const s = sym_expr(run->run.graph->env, sym_free_at(run->run.graph->env, i));
    const int64_t value = run->symbols[i];
    if (!s->given || !run->bound[i]) return ST_OK;
    if (sym_at_most(env, s->b, value) && sym_at_most(env, value, s->most)) return ST_OK;
    return refuse_range(run, i, env ? sym_hint(env, value) : value);
}

static Status check_ranges(const BoundRun *run) {
    for (int i = 0; i < sym_free_count(run->run.graph->env); i++) TRY(check_range(run, i));
    return ST_OK;
}

static Status refuse_assumed(const BoundRun *run, const SymGuard *guard, int64_t a, int64_t b) {
    Text text = {0};
    sym_guard_print(run->run.graph->env, &text, guard);
    for (int i = 0; i < sym_free_count(run->run.graph->env); i++) {
        if (!run->bound[i]) continue;
        text_printf(&text, ", s%d = %lld from ", i, (long long)sym_hint(run->run.env, run->symbols[i]));
        print_origin(run, sym_free_at(run->run.graph->env, i), &text);
    }
    const Status status =
        error_raise(ST_SHAPE, "graph %s: the sizes are %lld and %lld where the header assumes %s", run->run.graph->name,
                    (long long)sym_hint(run->run.env, a), (long long)sym_hint(run->run.env, b), text_str(&text));
    text_free(&text);
    return status;
}

static bool symbols_known(const BoundRun *run, int64_t v) {
    if (!sym_is(v)) return true;
    const SymExpr *const e = sym_expr(run->run.graph->env, v);
    return e->op == SYM_free ? run->bound[e->a] : symbols_known(run, e->a) && symbols_known(run, e->b);
}

/* When the last of its symbols is known, `newest`: 0: before the first node. */
static bool is_asked_now(const BoundRun *run, const SymGuard *guard, int64_t newest) {
    const SymEnv *const env = run->run.graph->env;
    if (!symbols_known(run, guard->a) || !symbols_known(run, guard->b)) return false;
    return !newest || sym_mentions(env, guard->a, newest) || sym_mentions(env, guard->b, newest);
}

static Status check_assumed(const BoundRun *run, int64_t newest) {
    const Graph *const graph = run->run.graph;
    for (int i = 0; i < graph->assumed.n; i++) {
        const SymGuard *const guard = &graph->assumed.at[i];
        if (!is_asked_now(run, guard, newest)) continue;
        TRY(check_divisors(&run->run, guard->a));
        TRY(check_divisors(&run->run, guard->b));
        const int64_t a = graph_run_int(&run->run, guard->a), b = graph_run_int(&run->run, guard->b);
        if (!sym_decide(run->run.env, guard->rel, a, b)) return refuse_assumed(run, guard, a, b);
    }
    return ST_OK;
}

static Status bind_inputs(BoundRun *run) {
    const Graph *const graph = run->run.graph;
    for (int i = 0; i < graph->inputs.n; i++) TRY(bind_input(run, i));
    for (int i = 0; i < graph->int_inputs.n; i++)
        if (!bind(run, graph->int_inputs.at[i].symbol, run->inputs->ints[i]))
            return error_raise(ST_SHAPE, "graph %s: the int s%lld is not the size of that name", graph->name,
                               (long long)sym_expr(graph->env, graph->int_inputs.at[i].symbol)->a);
    TRY(bind_solutions(run));
    for (int i = 0; i < graph->inputs.n; i++) TRY(check_input(run, i));
    TRY(check_ranges(run));
    return check_assumed(run, 0);
}

static void show_layout(const Meta *meta) {
    for (int d = 0; d < meta->rank; d++) tracer_concrete(meta->sizes[d]);
    for (int d = 0; d < meta->rank; d++) tracer_concrete(meta->strides[d]);
}

/* The memory that the inputs have, for views by numbers: these are plain from here on. */
static Status check_aliases(BoundRun *run, Graph *graph) {
    if (!graph_names_memory(graph)) return ST_OK;
    int64_t *const before = ARENA_ARRAY(run->run.arena, int64_t, graph->inputs.n + 1);
    int64_t *const behind = ARENA_ARRAY(run->run.arena, int64_t, graph->inputs.n + 1);
    const Node *at = NULL;
    if (!before || !behind) return ST_MEMORY;
    for (int i = 0; i < sym_free_count(graph->env); i++) run->symbols[i] = tracer_concrete(run->symbols[i]);
    for (int i = 0; i < graph->inputs.n; i++) {
        sn_tensor *const t = run->inputs->tensors[i];
        const Meta *const meta = t->base.meta;
        show_layout(tracer_meta(t));
        before[i] = 0;
        if (!meta_span(meta->sizes, meta->strides, meta->rank, &behind[i])) return ST_MEMORY;
        if (t->placeholder || !t->storage) continue; /* a value of the function that this is a part of */
        before[i] = t->offset;
        behind[i] = (int64_t)t->storage->bytes / dtype_bytes(meta->dtype) - t->offset;
    }
    const Status status = graph_check_reach(graph, &(GraphMemory){run->symbols, before, behind}, &at);
    if (status != ST_OK && at && run->run.sites) state_get()->site = run->run.sites[at->id];
    return status;
}

int64_t graph_run_int(const GraphRun *run, int64_t v) {
    if (!sym_is(v)) return v;
    return run->env ? sym_move(run->env, run->graph->env, v, run->symbols) : sym_eval(run->graph->env, v, run->symbols);
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

/* A Tensor[] has as many results as the call's values say, which may be others than the graph's. */
static Status run_list(const Node *node, const Arg *args, sn_tensor **outs) {
    int n = 0;
    TRY(dispatch_list(node->row, args, outs, &n));
    if (n == node->n_outs) return ST_OK;
    return error_raise(ST_VALUE, "%s: gives %d tensors here, the graph has %d", node->row->name, n, node->n_outs);
}

static Status run_row_now(const Node *node, const Arg *args, sn_tensor *const *out_args, sn_tensor **outs) {
    if (node->row->role == ROLE_gradients) return gradients_run(args, outs);
    if (node->row->returns_list) return run_list(node, args, outs);
    return dispatch(node->row, node->form, args, node->form == FORM_out ? out_args : NULL, outs);
}

/* In the mode that the node has. */
static Status run_row(const Node *node, const Arg *args, sn_tensor *const *out_args, sn_tensor **outs) {
    sn_state *const state = state_get();
    const sn_grad_mode before = state->grad_mode;
    const sn_grad_mode own = node->modes & NODE_inference ? SN_INFERENCE
                             : node->modes & NODE_no_grad ? SN_GRAD_OFF
                                                          : before;
    if (LIKELY(own == before || before == SN_INFERENCE)) return run_row_now(node, args, out_args, outs);
    state_grad_mode_set(state, own);
    const Status status = run_row_now(node, args, out_args, outs);
    state_grad_mode_set(state, before);
    return status;
}

static Status check_arg(const GraphRun *run, const Arg *a) {
    if (a->kind == ARG_int) return check_divisors(run, a->i);
    for (int i = 0; a->kind == ARG_ints && i < a->n; i++) TRY(check_divisors(run, a->ints[i]));
    return ST_OK;
}

/* Bodies run with numbers. Where they are recorded with symbols (env) they keep theirs. */
static Status make_flow_plain(const GraphRun *run, const OpRow *row, Arg *args) {
    if (run->env || flow_args_are_plain(row, args)) return ST_OK;
    for (int i = 0; i < row->n_params; i++) {
        Arg *const a = &args[i];
        for (int k = 0; a->kind == ARG_tensors && k < a->n; k++)
            if (a->vals[k]) show_layout(tracer_meta(tensor_of(a->vals[k])));
        int64_t *const ints = a->kind == ARG_ints ? ARENA_ARRAY(run->arena, int64_t, a->n + 1) : NULL;
        if (a->kind == ARG_ints && !ints) return ST_MEMORY;
        for (int k = 0; ints && k < a->n; k++) ints[k] = tracer_concrete(a->ints[k]);
        if (ints) a->ints = ints;
    }
    return flow_args_plain(run->arena, row, args, NULL);
}

static Status run_node(const GraphRun *run, const Node *node) {
    const OpRow *const row = node->row;
    const bool many = row->returns_list || node->n_outs > MAX_OUTS; /* sn::gradients has many as well */
    Arg args[MAX_ARGS];
    sn_tensor *out_args[MAX_OUTS], *few[MAX_OUTS] = {NULL};
    sn_tensor **const outs = many ? ARENA_ARRAY(run->arena, sn_tensor *, MAX_LIST) : few;
    if (!outs) return ST_MEMORY;
    if (run->sites) state_get()->site = run->sites[node->id];
    for (int i = 0; i < row->n_params; i++) {
        TRY(check_arg(run, &node->args[i]));
        args[i] = graph_run_arg(run, node->args[i]);
    }
    for (int i = 0; node->form == FORM_out && i < row->n_out; i++)
        out_args[i] = tensor_for(run, node->args[row->n_params + i].val);
    if (UNLIKELY(row->flags & OPF_flow)) TRY(make_flow_plain(run, row, args));
    if (run->seeded && row->flags & OPF_random) state_get()->sequence = run->sequence + (uint64_t)node->random;
    TRY(run_row(node, args, out_args, outs));
    for (int i = 0; i < node->n_outs; i++) run->values[node->outs[i].id] = outs[i];
    return ST_OK;
}

static bool is_needed(const GraphRun *run, const Node *node) {
    bool any = !run->needed;
    for (int i = 0; !any && i < node->n_outs; i++) any = run->needed[node->outs[i].id];
    return any;
}

Status graph_run_nodes(const GraphRun *run) {
    for (const Node *node = run->graph->first; node; node = node->next)
        if (is_needed(run, node)) TRY(run_node(run, node));
    return ST_OK;
}

/* What is alive ------------------------------------------------------------------------------ */

/* In a body that is recorded a segment gives what somebody holds when it ends (capture/record/segment.c): of a graph
 * that is what nodes behind it use. */
typedef struct LiveValues {
    const Node **last; /* by value id: the last node that uses it; NULL: none */
    sn_tensor **held;  /* by value id: retained until then */
    const Node *node;
} LiveValues;

static void note_use(void *context, GVal **slot) {
    LiveValues *const live = context;
    if (*slot) live->last[(*slot)->id] = live->node;
}

static const Node the_end; /* stands for a use behind all nodes */
static void hold_to_end(const LiveValues *live, const GVal *value) {
    if (value) live->last[value->id] = &the_end;
}

static Status live_begin(LiveValues *live, Arena *arena, const Graph *graph) {
    if (!tracer_recording(state_get())) return ST_OK;
    live->last = ARENA_ARRAY(arena, const Node *, graph->n_vals + 1);
    live->held = ARENA_ARRAY(arena, sn_tensor *, graph->n_vals + 1);
    if (!live->last || !live->held) return ST_MEMORY;
    for (Node *node = graph->first; node; node = node->next) {
        live->node = node;
        node_each_input(node, note_use, live);
    }
    for (int i = 0; i < graph->outputs.n; i++) hold_to_end(live, graph->outputs.at[i].value);
    for (int i = 0; i < graph->writes.n; i++) hold_to_end(live, graph->writes.at[i].value);
    return ST_OK;
}

static void release_used(void *context, GVal **slot) {
    LiveValues *const live = context;
    if (!*slot || live->last[(*slot)->id] != live->node) return;
    tensor_release(live->held[(*slot)->id]);
    live->held[(*slot)->id] = NULL;
}

static void live_advance(LiveValues *live, const GraphRun *run, Node *node) {
    if (!live->held) return;
    live->node = node;
    node_each_input(node, release_used, live);
    for (int i = 0; i < node->n_outs; i++) {
        const int id = node->outs[i].id;
        if (live->last[id] && run->values[id]) tensor_retain(live->held[id] = run->values[id]);
    }
}

static void live_end(const LiveValues *live, const Graph *graph) {
    for (int i = 0; live->held && i < graph->n_vals; i++) tensor_release(live->held[i]);
}

/* Numbers that values give -------------------------------------------------------------------- */

/* What only values give is known from here on. */
static Status bind_number(BoundRun *r, const Node *node, int64_t value) {
    const int symbol = (int)sym_expr(r->run.graph->env, node->unbacked)->a;
    const SymExpr *const s = sym_expr(r->run.graph->env, node->unbacked);
    const int64_t least = s->given ? s->b : node_is_number(node) ? SYM_LEAST : 0;
    if (r->run.env) value = tracer_unbacked(&(UnbackedNumber){r->run.graph, symbol, least}, value);
    r->symbols[symbol] = value;
    r->bound[symbol] = true;
    TRY(check_range(r, symbol));
    return check_assumed(r, node->unbacked);
}

static Status bind_size(BoundRun *r, const Node *node) {
    const Meta *const meta = node->outs[0].base.meta;
    sn_tensor *const t = r->run.values[node->outs[0].id];
    for (int d = 0; d < meta->rank; d++)
        if (meta->sizes[d] == node->unbacked) return bind_number(r, node, tracer_meta(t)->sizes[d]);
    return ST_OK;
}

/* aten::item: the value is made, and is a number of the graph. */
static Status run_number(BoundRun *r, const Node *node) {
    if (r->run.sites) state_get()->site = r->run.sites[node->id];
    sn_tensor *const item = tensor_item(r->run.values[gval(node->args[0].val)->id], node->row->name);
    if (!item) return error_pending();
    const int64_t value = element_int(item->base.meta->dtype, tensor_data(item));
    tensor_release(item);
    if (value >= SYM_LEAST && value <= SYM_MOST) return bind_number(r, node, value);
    return error_raise(ST_VALUE, "graph %s: %s gives %lld, which is no number of sizes", r->run.graph->name,
                       node->row->name, (long long)value);
}

static Status run_live_node(BoundRun *r, const Node *node) {
    if (node_is_number(node)) return run_number(r, node);
    TRY(run_node(&r->run, node));
    return node->unbacked ? bind_size(r, node) : ST_OK;
}

static Status run_live_nodes(BoundRun *r, LiveValues *live, const Graph *graph) {
    TRY(live_begin(live, r->run.arena, graph));
    for (Node *node = graph->first; node; node = node->next) {
        TRY(run_live_node(r, node));
        live_advance(live, &r->run, node);
    }
    return ST_OK;
}

static Status run_all(BoundRun *r, Graph *graph, sn_tensor **outs) {
    const GraphRun *const run = &r->run;
    LiveValues live = {0};
    TRY(bind_inputs(r));
    TRY(check_aliases(r, graph));
    const Status status = run_live_nodes(r, &live, graph);
    live_end(&live, graph);
    TRY(status);
    for (int i = 0; i < graph->outputs.n; i++)
        outs[i] = graph->outputs.at[i].value ? run->values[graph->outputs.at[i].value->id] : NULL;
    for (int i = 0; i < graph->writes.n; i++) {
        sn_tensor *const to = run->values[graph->writes.at[i].input->id];
        sn_tensor *const from = run->values[graph->writes.at[i].value->id], *written;
        const Arg args[] = {A_VAL(&to->base), A_VAL(&from->base), A_BOOL(false)};
        TRY(dispatch(OP_ROW(copy), FORM_inplace, args, NULL, &written));
    }
    return ST_OK;
}

Status graph_run(Graph *graph, const GraphInputs *inputs, sn_tensor **outs) {
    const void *const site = state_get()->site;
    const int n_symbols = sym_free_count(graph->env);
    Arena *const arena = arena_new();
    BoundRun *const run = arena ? ARENA_NEW(arena, BoundRun) : NULL;
    Status status = ST_MEMORY;
    if (run) {
        run->inputs = inputs;
        run->symbols = ARENA_ARRAY(arena, int64_t, n_symbols + 1);
        run->bound = ARENA_ARRAY(arena, bool, n_symbols + 1);
        run->run = (GraphRun){.graph = graph,
                              .arena = arena,
                              .values = ARENA_ARRAY(arena, sn_tensor *, graph->n_vals),
                              .symbols = run->symbols,
                              .env = tracer_symbols(),
                              .floats = graph->runtime_floats.at,
                              .sites = inputs->sites};
        if (run->run.values && run->symbols && run->bound) status = run_all(run, graph, outs);
    }
    if (status != ST_OK) error_set_site(state_get()->site);
    state_get()->site = site;
    arena_free(arena);
    return status;
}
