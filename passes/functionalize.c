/* functionalize.c: in-place and out forms, and writes through views, become pure ops.
 *
 * Every value of the capture graph aliases a storage: a graph input's, or that of the op that made
 * it. A storage has one current functional value, its base, and a version; an alias is a chain of
 * view ops on it:
 *
 *     %0 = slice(%x, 0, 0, 2)            alias 0 -> storage x, offset 0
 *     %1 = add_(%0, 1)                   %a = add(%0, 1);
 *                                        %x' = sn::view_scatter(%x, %a, sizes, strides, offset)
 *     %2 = mul(%x, %x)                   mul(%x', %x')
 *     %3 = relu(%0)                      %b = slice(%x', 0, 0, 2); relu(%b): the view is taken again
 *
 * A read at an old version replays the chain on the new base, so a gradient flows as in eager,
 * where a view of a written base is a view of the new value [semantics G5], also one that was taken
 * where gradients were off, if the write was recorded. At the end inputs whose
 * storage was written get a write, and outputs are classified: input, view of input, new, view of
 * another output. Two outputs that share a new storage whose whole is no output itself get that
 * whole as one more output behind the user's.
 *
 * Bases keep the layout of the value that they replace (sn::restride where an op chose another), so
 * metadata and results' strides are eager's. */
#include "passes/internal.h"
#include "runtime/base/error.h"

PassFn pass_functionalize;

typedef struct Alias { /* by id of the original value */
    int same;          /* in-place results: the alias that they are; else its own id */
    int storage, version;
    int made;       /* the storage's version when the view was taken */
    int parent;     /* the value viewed; -1: the whole storage */
    int64_t offset; /* elements from the base's first one */
    GVal *now;      /* its functional value, of `version` */
    GVal *plain;    /* of plain_version, for readers that the tape does not record; may be NULL */
    int plain_version;
    Node *view; /* replayed to bring `now` up to date; result `index` of it */
    int index;
    const Meta *meta;
} Alias;

typedef struct Store {
    GVal *root, *base; /* the original value; the current functional one */
    int version;
    int recorded;        /* the version of the last write where gradients were on */
    int input;           /* index of the graph input; -1: made in the graph */
    int output;          /* index of the output that is the whole of it; -1 */
    int n_outputs;       /* that lie in it */
    VEC(GVal *) earlier; /* bases before writes in no_grad mode: the same leaf [sn::gradients] */
} Store;

typedef struct Rewrite {
    Graph *graph;
    Alias *aliases;
    VEC(Store) stores;
    bool changed;
} Rewrite;

static Alias *alias_of(Rewrite *rewrite, const GVal *value) {
    Alias *alias = &rewrite->aliases[value->id];
    while (alias->same != (int)(alias - rewrite->aliases)) alias = &rewrite->aliases[alias->same];
    return alias;
}

static void add_store(Rewrite *rewrite, GVal *value, int input) {
    const Store store = {.root = value, .base = value, .input = input, .output = -1};
    rewrite->aliases[value->id] =
        (Alias){.same = value->id, .storage = rewrite->stores.n, .parent = -1, .now = value, .meta = value->base.meta};
    VEC_PUSH(rewrite->graph->arena, &rewrite->stores, store);
}

/* reading ------------------------------------------------------------------------------------- */

/* The view chain again, from the base on, as eager gives a view of a written base a history of its own: no two views
 * share the links of their chains, which would add their gradients in another order [semantics G1]. To the tape an
 * _unsafe_view is no view but a base. Depth: the chain's length. */
static GVal *replay(Rewrite *rewrite, const Alias *alias, Node *before) {
    Graph *const graph = rewrite->graph;
    const Store *const store = &rewrite->stores.at[alias->storage];
    if (alias->parent < 0) return store->base;
    if (alias->view->row->role == ROLE_new_base && alias->version == store->version) return alias->now;
    GVal *const parent = replay(rewrite, &rewrite->aliases[alias->parent], before);
    if (!parent) return NULL;
    Arg args[MAX_ARGS];
    memcpy(args, alias->view->args, sizeof(Arg) * (size_t)alias->view->row->n_params);
    args[0] = A_VAL(&parent->base);
    const NewNodes saved = nodes_like(graph, alias->view, before);
    if (store->recorded > alias->made) graph->modes &= ~NODE_no_grad;
    Node *const node = graph_append(graph, alias->view->row, FORM_functional, args);
    nodes_restore(graph, saved);
    return node ? &node->outs[alias->index] : NULL;
}

/* Eager's tape looks at a view when an op that it records takes it: what others read is replayed for them alone. */
static bool looks_at_histories(const Node *node) {
    return !node || node->row->role == ROLE_gradients || op_recorded(node->row, FORM_functional, node->modes, 1);
}

/* The functional value of an alias at its storage's version; NULL raised. */
static GVal *read_alias(Rewrite *rewrite, Alias *alias, Node *before) {
    const int version = rewrite->stores.at[alias->storage].version;
    if (alias->version == version) return alias->now;
    const bool recorded = looks_at_histories(before);
    if (!recorded && alias->plain && alias->plain_version == version) return alias->plain;
    GVal *const value = replay(rewrite, alias, before);
    if (!value) return NULL;
    if (recorded)
        alias->now = value, alias->version = version;
    else
        alias->plain = value, alias->plain_version = version;
    return value;
}

typedef struct FunctionalizeRead {
    Rewrite *rewrite;
    Node *before;
    bool failed;
} FunctionalizeRead;

static void read_slot(void *context, GVal **slot) {
    FunctionalizeRead *const read = context;
    if (!*slot || read->failed) return;
    GVal *const value = read_alias(read->rewrite, alias_of(read->rewrite, *slot), read->before);
    if (value)
        *slot = value;
    else
        read->failed = true;
}

/* views --------------------------------------------------------------------------------------- */

/* Records the results of a functional node whose arguments are still the original ones. */
static Status record_results(Rewrite *rewrite, Node *node) {
    SymEnv *const env = rewrite->graph->env;
    for (int i = 0; i < node->n_outs; i++) {
        GVal *const out = &node->outs[i];
        const GVal *const viewed = value_memory(out);
        if (!viewed) {
            add_store(rewrite, out, -1);
            continue;
        }
        if (out->alias != 0)
            return error_raise(ST_UNSUPPORTED, "%s: a view of argument %d", node->row->name, out->alias);
        const Alias *const parent = alias_of(rewrite, viewed);
        rewrite->aliases[out->id] = (Alias){.same = out->id,
                                            .storage = parent->storage,
                                            .version = rewrite->stores.at[parent->storage].version,
                                            .made = rewrite->stores.at[parent->storage].version,
                                            .parent = (int)(parent - rewrite->aliases),
                                            .offset = sym_add(env, parent->offset, out->offset),
                                            .now = out,
                                            .view = node,
                                            .index = i,
                                            .meta = out->base.meta};
    }
    return ST_OK;
}

/* writing ------------------------------------------------------------------------------------- */

/* Sizes that are equal by a guard become the same expressions: readers were recorded with those of the memory. */
static Val *resized(Graph *graph, Val *value, const Meta *layout) {
    if (!value || meta_same_sizes(value->meta, layout)) return value;
    return E(&graph->builder, expand, V(value), A_INTS(layout->sizes, layout->rank));
}

/* On the device of what is written: a result of 0-dim CPU tensors alone is on the CPU. */
static Val *on_device_of(Graph *graph, Val *value, const Meta *layout) {
    if (!value || value->meta->device == layout->device) return value;
    return E(&graph->builder, _to_copy, V(value), I(layout->dtype), A_NONE, I(layout->device));
}

/* `value` with device, dtype, sizes and, if `layout` is a whole storage's, strides of `layout`; a copy of what an
 * input's memory holds now (_unsafe_view.out), which a later write may change. */
static Val *coerced(Graph *graph, Val *given, const Meta *layout, bool strides_too) {
    Val *const value = on_device_of(graph, resized(graph, given, layout), layout);
    if (!value) return NULL;
    const bool same = strides_too ? meta_equal(value->meta, layout) : value->meta->dtype == layout->dtype;
    if (same && !(strides_too && is_seen_input(gval(value)))) return value;
    return E(&graph->builder, restride, V(value), A_INTS(layout->strides, layout->rank), A_INT(layout->dtype));
}

/* _unsafe_view of a whole temporary: no view to the tape, so what is written has the history of the write alone. */
static bool is_other_shape(const Rewrite *rewrite, const Alias *alias) {
    if (alias->parent < 0 || alias->view->row->role != ROLE_new_base) return false;
    const Store *const store = &rewrite->stores.at[alias->storage];
    return rewrite->aliases[alias->parent].parent < 0 && store->input < 0 && store->base->base.meta->contiguous &&
           alias->meta->contiguous;
}

/* What the whole storage holds once `value` is written through the alias; NULL raised. */
static Val *written_base(Rewrite *rewrite, Alias *alias, const Store *store, Val *value) {
    Graph *const graph = rewrite->graph;
    Builder *const b = &graph->builder;
    const Meta *const meta = alias->meta, *const whole = store->base->base.meta;
    const bool other_shape = is_other_shape(rewrite, alias);
    Val *const own = coerced(graph, value, meta, alias->parent < 0 || other_shape);
    if (!own || alias->parent < 0) return own;
    if (!other_shape)
        return E(b, view_scatter, V(&store->base->base), V(own), A_INTS(meta->sizes, meta->rank),
                 A_INTS(meta->strides, meta->rank), I(alias->offset));
    alias->now = gval(own);
    alias->version = store->version + 1;
    return E(b, _unsafe_view, V(own), A_INTS(whole->sizes, whole->rank));
}

static Status write_alias(Rewrite *rewrite, Alias *alias, Val *value, bool no_grad) {
    Graph *const graph = rewrite->graph;
    Store *const store = &rewrite->stores.at[alias->storage];
    const Meta *const meta = alias->meta;
    graph->modes |= NODE_puts;
    Val *const base = written_base(rewrite, alias, store, value);
    graph->modes &= (uint8_t)~NODE_puts;
    if (!base) return error_raise(ST_INTERNAL, "a write of %s was not emitted", dtype_name(meta->dtype));
    if (no_grad)
        VEC_PUSH(graph->arena, &store->earlier, store->base);
    else
        store->earlier.n = 0;
    store->base = gval(base);
    store->version++;
    if (!no_grad) store->recorded = store->version;
    return ST_OK;
}

/* The tensors that a form writes: args[0], or the out arguments. */
static GVal *written(const Node *node, int i) {
    return gval(node->args[node->form == FORM_inplace ? 0 : node->row->n_params + i].val);
}

/* A comparison in place keeps the history of what it overwrites, which gets zeros, as on the tape; so do sums that are
 * asked for as integers. */
static bool ends_history(const Node *node, const Node *pure, int i) {
    const bool keeps = node->row->flags & OPF_nodiff || !dtype_is_float(pure->outs[i].base.meta->dtype);
    return keeps && node->form == FORM_inplace && op_recorded(node->row, node->form, node->modes, 1) &&
           dtype_is_float(node->args[0].val->meta->dtype);
}

static Val *result_of(Graph *graph, const Node *written, const Node *pure, int i) {
    Val *const result = &pure->outs[i].base;
    return ends_history(written, pure, i) ? E(&graph->builder, overwrite, V(pure->args[0].val), V(result)) : result;
}

static Status rewrite_form(Rewrite *rewrite, Node *node) {
    Graph *const graph = rewrite->graph;
    const int n_written = node->form == FORM_inplace ? 1 : node->row->n_out;
    Alias *targets[MAX_OUTS];
    for (int i = 0; i < n_written; i++) targets[i] = alias_of(rewrite, written(node, i));
    FunctionalizeRead read = {rewrite, node, false};
    node_each_input(node, read_slot, &read);
    if (read.failed) return error_pending();
    const NewNodes saved = nodes_like(graph, node, node);
    graph->modes |= NODE_no_autocast; /* a written form decides its dtype itself [G6] */
    Node *const pure = graph_append(graph, node->row, FORM_functional, node->args);
    Status status = pure ? ST_OK : error_pending();
    for (int i = 0; i < n_written && status == ST_OK; i++)
        status = write_alias(rewrite, targets[i], result_of(graph, node, pure, i),
                             (node->modes & (NODE_no_grad | NODE_inference)) != 0);
    nodes_restore(graph, saved);
    TRY(status);
    for (int i = 0; i < node->n_outs; i++)
        rewrite->aliases[node->outs[i].id].same = (int)(targets[i] - rewrite->aliases);
    rewrite->changed = true;
    return ST_OK;
}

/* gradients ----------------------------------------------------------------------------------- */

/* A leaf written in no_grad or inference mode is one leaf to the tape, in all its versions: earlier ones are
 * listed beside it. */
typedef struct Earlier {
    VEC(Val *) values;
    VEC(int64_t) of;
} Earlier;

static Earlier earlier_leaves(Rewrite *rewrite, const Node *node) {
    Arena *const arena = rewrite->graph->arena;
    Earlier earlier = {0};
    const Arg *const leaves = &node->args[2];
    for (int i = 0; i < leaves->n; i++) {
        const Alias *const alias = alias_of(rewrite, gval(leaves->vals[i]));
        const Store *const store = &rewrite->stores.at[alias->storage];
        for (int k = 0; alias->parent < 0 && k < store->earlier.n; k++) {
            VEC_PUSH(arena, &earlier.values, &store->earlier.at[k]->base);
            VEC_PUSH(arena, &earlier.of, i);
        }
    }
    return earlier;
}

static Status rewrite_gradients(Rewrite *rewrite, Node *node) {
    const Earlier earlier = earlier_leaves(rewrite, node);
    FunctionalizeRead read = {rewrite, node, false};
    node_each_input(node, read_slot, &read);
    if (read.failed) return error_pending();
    for (int i = 0; i < node->n_outs; i++) add_store(rewrite, &node->outs[i], -1);
    if (!earlier.values.n) return ST_OK;
    node->args[3] = A_VALS(earlier.values.at, earlier.values.n);
    node->args[4] = A_INTS(earlier.of.at, earlier.of.n);
    rewrite->changed = true;
    return ST_OK;
}

/* outputs ------------------------------------------------------------------------------------- */

/* The output that is the whole of a storage made in the graph: an existing one, or one more. */
static int whole_output(Rewrite *rewrite, Store *store) {
    Graph *const graph = rewrite->graph;
    if (store->output < 0) {
        store->output = graph->outputs.n;
        graph_output(graph, store->base);
        rewrite->changed = true;
    }
    return store->output;
}

/* First the outputs that are whole storages, so that views find them. */
static void find_whole_outputs(Rewrite *rewrite, GVal *const *originals, int n) {
    for (int i = 0; i < n; i++) {
        if (!originals[i]) continue;
        const Alias *const alias = alias_of(rewrite, originals[i]);
        Store *const store = &rewrite->stores.at[alias->storage];
        if (alias->parent < 0 && store->input < 0 && store->output < 0) store->output = i;
        store->n_outputs++;
    }
}

static void classify(Rewrite *rewrite, int i, const GVal *original) {
    const Alias *const alias = alias_of(rewrite, original);
    Store *const store = &rewrite->stores.at[alias->storage];
    Output kind = {.value = alias->now, .kind = OUT_new};
    if (store->input >= 0) {
        kind.kind = alias->parent < 0 ? OUT_input : OUT_view_of_input;
        kind.base = store->input;
        kind.offset = alias->offset;
    } else if (store->output != i && store->n_outputs > 1) {
        kind.kind = OUT_view_of_output;
        kind.base = whole_output(rewrite, store);
        kind.offset = alias->offset;
    }
    rewrite->graph->outputs.at[i] = kind;
}

static Status finish_outputs(Rewrite *rewrite) {
    Graph *const graph = rewrite->graph;
    const int n = graph->outputs.n;
    GVal **const originals = ARENA_ARRAY(graph->arena, GVal *, n + 1);
    if (!originals) return error_pending();
    for (int i = 0; i < n; i++) {
        originals[i] = graph->outputs.at[i].value;
        if (originals[i] && !read_alias(rewrite, alias_of(rewrite, originals[i]), NULL)) return error_pending();
    }
    find_whole_outputs(rewrite, originals, n);
    for (int i = 0; i < n; i++)
        if (originals[i]) classify(rewrite, i, originals[i]);
    return ST_OK;
}

static void finish_writes(Rewrite *rewrite) {
    Graph *const graph = rewrite->graph;
    for (int i = 0; i < rewrite->stores.n; i++) {
        const Store *const store = &rewrite->stores.at[i];
        if (store->input >= 0 && store->version) graph_write(graph, graph->inputs.at[store->input], store->base);
    }
}

/* traversal ------------------------------------------------------------------------------------ */

static Status rewrite_node(Rewrite *rewrite, Node *node) {
    if (node->form != FORM_functional) return rewrite_form(rewrite, node);
    if (node->row->role == ROLE_gradients) return rewrite_gradients(rewrite, node);
    TRY(record_results(rewrite, node));
    FunctionalizeRead read = {rewrite, node, false};
    node_each_input(node, read_slot, &read);
    return read.failed ? error_pending() : ST_OK;
}

static Status rewrite_graph(Rewrite *rewrite) {
    Graph *const graph = rewrite->graph;
    for (int i = 0; i < graph->inputs.n; i++) add_store(rewrite, graph->inputs.at[i], i);
    for (Node *node = graph->first; node; node = node->next) TRY(rewrite_node(rewrite, node));
    TRY(finish_outputs(rewrite));
    finish_writes(rewrite);
    for (Node *node = graph->first, *next; node; node = next) {
        next = node->next;
        if (node->form != FORM_functional) graph_remove(graph, node);
    }
    return ST_OK;
}

bool pass_functionalize(Graph *graph, const PassOptions *options) {
    const bool expanded = decompose_writers(graph);
    if (error_pending() != ST_OK) return expanded;
    graph_number(graph);
    Rewrite rewrite = {.graph = graph, .aliases = ARENA_ARRAY(graph->arena, Alias, graph->n_vals + 1)};
    if (!rewrite.aliases) return false;
    rewrite_graph(&rewrite);
    return expanded || rewrite.changed || graph->writes.n;
}
