/* graph.c: building and editing tensor graphs. Nodes form a list in program order; every value's metadata comes from
 * its op's meta rule at append. Ids are dense only after graph_number: inputs first, then results. */
#include "ir/alias.h"

#include "runtime/base/error.h"
#include "runtime/base/hash.h"

/* arguments ----------------------------------------------------------------------------------- */

static bool list_equal(const void *a, const void *b, int n, size_t item) {
    return !n || !memcmp(a, b, item * (size_t)n);
}

bool arg_equal(const Arg *a, const Arg *b) {
    if (a->kind != b->kind) return false;
    switch (a->kind) {
    case ARG_default:
    case ARG_none:
        return true;
    case ARG_string:
        return !strcmp(a->string, b->string);
    case ARG_ints:
        return a->n == b->n && list_equal(a->ints, b->ints, a->n, sizeof *a->ints);
    case ARG_floats:
        return a->n == b->n && list_equal(a->floats, b->floats, a->n, sizeof *a->floats);
    case ARG_tensors:
        return a->n == b->n && list_equal(a->vals, b->vals, a->n, sizeof *a->vals);
    default:
        return a->i == b->i; /* floats by their bits */
    }
}

/* Lists and strings into the arena. */
static Arg arg_copy(Arena *arena, const Arg *arg) {
    Arg copy = *arg;
    switch (arg->kind) {
    case ARG_string:
        copy.string = arena_strdup(arena, arg->string);
        break;
    case ARG_ints:
        copy.ints = arena_copy(arena, arg->ints, sizeof *arg->ints * (size_t)arg->n);
        break;
    case ARG_floats:
        copy.floats = arena_copy(arena, arg->floats, sizeof *arg->floats * (size_t)arg->n);
        break;
    case ARG_tensors:
        copy.vals = arena_copy(arena, arg->vals, sizeof *arg->vals * (size_t)arg->n);
        break;
    default:
        break;
    }
    return copy;
}

Arg arg_map_vals(Arena *arena, Arg arg, Val *(*map)(void *context, Val *val), void *context) {
    if (arg.kind == ARG_tensor) arg.val = map(context, arg.val);
    if (arg.kind != ARG_tensors) return arg;
    Val **vals = ARENA_ARRAY(arena, Val *, arg.n);
    for (int i = 0; vals && i < arg.n; i++) vals[i] = arg.vals[i] ? map(context, arg.vals[i]) : NULL;
    arg.vals = vals;
    return arg;
}

void node_each_input(Node *node, ValVisit *visit, void *context) {
    for (int i = 0; i < node->n_args; i++) {
        Arg *arg = &node->args[i];
        if (arg->kind == ARG_tensor && arg->val) visit(context, (GVal **)(void *)&arg->val);
        if (arg->kind != ARG_tensors) continue;
        Val **vals = (Val **)(uintptr_t)arg->vals; /* the arena's copy: ours to write */
        for (int k = 0; k < arg->n; k++)
            if (vals[k]) visit(context, (GVal **)(void *)&vals[k]);
    }
}

/* building ------------------------------------------------------------------------------------ */

static Status graph_emit(Builder *self, const OpRow *row, const Arg *args, Val **outs) {
    Node *node = graph_append((Graph *)self, row, FORM_functional, args);
    if (!node) return error_pending();
    for (int i = 0; i < node->n_outs; i++) outs[i] = &node->outs[i].base;
    return ST_OK;
}

Graph *graph_new(Arena *arena, const char *name) {
    Graph *graph = ARENA_NEW(arena, Graph);
    if (!graph) return NULL;
    graph->builder.emit = graph_emit;
    graph->arena = arena;
    graph->env = graph->builder.env = sym_env_new(arena);
    graph->name = arena_strdup(arena, name);
    return graph->env && graph->name ? graph : NULL;
}

/* Where the name stands among those of the inputs, or would; NULL: there is no room for any. */
static const char **name_place(const Graph *graph, const char *name) {
    const size_t last = (size_t)graph->names.capacity - 1;
    if (!graph->names.capacity) return NULL;
    for (size_t i = hash_bytes(5, name, strlen(name));; i++) {
        const char **const place = &graph->names.at[i & last];
        if (!*place || !strcmp(*place, name)) return place;
    }
}

static bool name_taken(const Graph *graph, const char *name) {
    const char **const place = name_place(graph, name);
    return place && *place;
}

static void add_name(Graph *graph, const char *name) {
    if (2 * (graph->names.n + 1) > graph->names.capacity) {
        const int capacity = graph->names.capacity ? 2 * graph->names.capacity : 16;
        const char **const at = ARENA_ARRAY(graph->arena, const char *, capacity);
        if (!at) return;
        graph->names.at = at;
        graph->names.capacity = capacity;
        for (int i = 0; i < graph->inputs.n; i++)
            *name_place(graph, graph->inputs.at[i]->name) = graph->inputs.at[i]->name;
    }
    *name_place(graph, name) = name;
    graph->names.n++;
}

/* Numeric names belong to results, and every input has its own name. */
static const char *free_name(Graph *graph, const char *name) {
    if (!name || !*name || (*name >= '0' && *name <= '9')) name = "in";
    if (strcmp(name, "in") && !name_taken(graph, name)) return arena_strdup(graph->arena, name);
    for (int i = graph->inputs.n;; i++) {
        const char *tried = arena_printf(graph->arena, "%s%d", name, i);
        if (!tried || !name_taken(graph, tried)) return tried;
    }
}

GVal *graph_input(Graph *graph, const char *name, const Meta *meta) {
    GVal *input = ARENA_NEW(graph->arena, GVal);
    const char *const own = input ? free_name(graph, name) : NULL;
    if (!own) return NULL;
    *input = (GVal){.base.meta = meta, .index = graph->inputs.n, .alias = -1, .name = own};
    add_name(graph, own);
    VEC_PUSH(graph->arena, &graph->inputs, input);
    return input;
}

void graph_drop_inputs(Graph *graph) {
    graph->inputs.n = 0;
    memset(&graph->names, 0, sizeof graph->names);
}

void graph_int_input(Graph *graph, int64_t symbol) {
    const IntInput input = {symbol, graph->inputs.n};
    VEC_PUSH(graph->arena, &graph->int_inputs, input);
}

int64_t graph_int_symbol(Graph *graph, int number) {
    const bool first = number >= sym_free_count(graph->env);
    while (number > sym_free_count(graph->env)) sym_free(graph->env, 2, 2); /* a later input's */
    if (first) sym_free(graph->env, 2, SYM_LEAST);
    return sym_free_at(graph->env, number);
}

void graph_output(Graph *graph, GVal *value) {
    const Output output = {.value = value, .kind = value ? OUT_new : OUT_none};
    VEC_PUSH(graph->arena, &graph->outputs, output);
}

void graph_write(Graph *graph, GVal *input, GVal *value) {
    const Write write = {input, value};
    VEC_PUSH(graph->arena, &graph->writes, write);
}

static const Meta *meta_of_out(Graph *graph, MetaOut *out) {
    meta_specialize_small(graph->env, out);
    Meta *meta = meta_new(graph->arena, graph->env, out->dtype, out->device, out->sizes, out->strides, out->rank);
    if (meta) meta->wrapped = out->wrapped;
    return meta;
}

enum { FEW_OUTS = 2 };
/* Runs the meta rule; `few` has room for FEW_OUTS results; that of a Tensor[] grows to what the rule asks for. */
static Status run_meta(Graph *graph, const OpRow *row, OpForm form, const Arg *args, MetaOut *few, MetaCall *call) {
    int capacity = row->returns_list ? 16 : row->n_out;
    for (;;) {
        MetaOut *const outs = capacity <= FEW_OUTS ? few : ARENA_ARRAY(graph->arena, MetaOut, capacity);
        if (!outs) return ST_MEMORY;
        for (int i = 0; i < capacity; i++) outs[i].alias = -1, outs[i].offset = 0;
        *call = (MetaCall){.row = row, .form = form, .args = args, .env = graph->env, .out = outs, .n_out = capacity};
        if (!graph->bail) call->unbacked = &graph->unbacked; /* no compiled graph has such a call */
        TRY(op_meta(call));
        if (call->n_out <= capacity) return ST_OK;
        capacity = call->n_out;
    }
}

static void link_node(Graph *graph, Node *node) {
    Node *next = graph->insert_at, *prev = next ? next->prev : graph->last;
    node->next = next, node->prev = prev;
    if (prev)
        prev->next = node;
    else
        graph->first = node;
    if (next)
        next->prev = node;
    else
        graph->last = node;
}

static Status fill_node(Graph *graph, Node *node, const Arg *args) {
    const OpRow *row = node->row;
    node->n_args = row->n_params + (node->form == FORM_out ? row->n_out : 0);
    node->args = ARENA_ARRAY(graph->arena, Arg, node->n_args ? node->n_args : 1);
    if (!node->args) return ST_MEMORY;
    for (int i = 0; i < node->n_args; i++) node->args[i] = arg_copy(graph->arena, &args[i]);
    if (node->form == FORM_out && row->options && args[row->n_params].kind == ARG_tensor)
        op_args_fill_options(row, args[row->n_params].val->meta, node->args);
    MetaCall call;
    MetaOut few[FEW_OUTS];
    memset(few, 0, sizeof few);
    const Status status = run_meta(graph, row, node->form, node->args, few, &call);
    node->unbacked = graph->unbacked.used ? graph->unbacked.symbol : 0;
    if (node->unbacked) sym_free_open(graph->env, node->unbacked);
    graph->unbacked = (Unbacked){0};
    TRY(status);
    node->order = call.order;
    node->n_outs = call.n_out;
    node->outs = ARENA_ARRAY(graph->arena, GVal, call.n_out ? call.n_out : 1);
    if (!node->outs) return ST_MEMORY;
    for (int i = 0; i < call.n_out; i++) {
        node->outs[i] = (GVal){.base.meta = meta_of_out(graph, &call.out[i]),
                               .def = node,
                               .index = i,
                               .alias = call.out[i].alias,
                               .offset = call.out[i].offset};
        if (!node->outs[i].base.meta) return ST_MEMORY;
    }
    return ST_OK;
}

/* Inside a compile a failure leaves by the bail-out with the error's text. */
static Node *failed(Graph *graph) {
    if (!graph->bail) return NULL;
    char message[sizeof error_slot()->message];
    memcpy(message, error_slot()->message, sizeof message);
    const bool memory = error_pending() == ST_MEMORY;
    error_clear();
    bail(graph->bail, memory ? BAIL_memory : BAIL_unsupported, "%s", message);
}

/* as_strided counts from where the storage begins, in a graph with the first element of the root. It becomes
 * sn::view_of the value that the tape has as the base, told from there: args gets its arguments. */
static Status enter_strided(Graph *graph, const Arg *given, Arg *args) {
    MetaOut out;
    MetaCall call = {.row = OP_ROW(as_strided), .args = given, .env = graph->env, .out = &out, .n_out = 1};
    TRY(op_meta(&call)); /* what is wrong is said of as_strided */
    const GVal *base = gval(given[0].val);
    int64_t self_from_base = 0, base_from_root = 0;
    for (const GVal *memory; (memory = value_memory(base)); base = memory) {
        const Node *const node = base->def;
        if (node->form == FORM_functional && !tape_keeps(node->row, node->modes)) break;
        self_from_base = sym_add(graph->env, self_from_base, base->offset);
    }
    for (const GVal *value = base, *memory; (memory = value_memory(value)); value = memory)
        base_from_root = sym_add(graph->env, base_from_root, value->offset);
    args[0] = A_VAL((Val *)&base->base);
    args[1] = given[1];
    args[2] = given[2];
    args[3] = A_INT(given[3].kind == ARG_int ? sym_sub(graph->env, given[3].i, base_from_root) : self_from_base);
    return ST_OK;
}

static bool counts_from_storage(const OpRow *row, OpForm form, const Arg *args) {
    return row->role == ROLE_storage && form == FORM_functional && args[0].kind == ARG_tensor;
}

Node *graph_append(Graph *graph, const OpRow *row, OpForm form, const Arg *args) {
    Node *node = ARENA_NEW(graph->arena, Node);
    if (!node) return failed(graph);
    Arg places[4];
    if (counts_from_storage(row, form, args)) {
        if (enter_strided(graph, args, places) != ST_OK) return failed(graph);
        row = OP_ROW(view_of);
        args = places;
    }
    node->row = row;
    node->form = form;
    node->modes = graph->modes;
    node->where = graph->where;
    node->site = graph->site;
    node->origin = graph->origin;
    node->random = row->flags & OPF_random ? graph->random : 0;
    node->region = graph->region;
    node->again = graph->again;
    if (fill_node(graph, node, args) != ST_OK) return failed(graph);
    link_node(graph, node);
    return node;
}

Node *graph_node_alone(Graph *graph, const OpRow *row, OpForm form, const Arg *args) {
    Node *const node = ARENA_NEW(graph->arena, Node);
    if (!node) return NULL;
    node->row = row;
    node->form = form;
    return fill_node(graph, node, args) == ST_OK ? node : NULL;
}

void graph_take_random(Graph *graph, const OpRow *row, int random) {
    if (!(row->flags & OPF_random)) return;
    if (!graph->seed) {
        graph->seed = sym_free(graph->env, 2, 0);
        graph->sequence = sym_free(graph->env, 2, 0);
    }
    graph->random = random >= 0 ? random : graph->n_random;
    if (graph->random >= graph->n_random) graph->n_random = graph->random + 1;
}

void graph_region(Graph *graph, int region, int outer) {
    while (graph->regions.n < region) VEC_PUSH(graph->arena, &graph->regions, 0);
    if (region && graph->regions.n >= region) graph->regions.at[region - 1] = outer;
}

/* editing ------------------------------------------------------------------------------------- */

typedef struct Replacement {
    const GVal *only; /* NULL: the results of `def` */
    const Node *def;
    GVal *const *by; /* by index, or the one; NULL: stays */
} Replacement;

static void replace_slot(void *context, GVal **slot) {
    const Replacement *r = context;
    if (!*slot || (r->only ? *slot != r->only : (*slot)->def != r->def)) return;
    GVal *const by = r->only ? *r->by : r->by[(*slot)->index];
    if (by) *slot = by;
}

static void replace_all(Graph *graph, Replacement r) {
    for (Node *node = graph->first; node; node = node->next) node_each_input(node, replace_slot, &r);
    for (int i = 0; i < graph->outputs.n; i++) replace_slot(&r, &graph->outputs.at[i].value);
    for (int i = 0; i < graph->writes.n; i++) replace_slot(&r, &graph->writes.at[i].value);
}

void graph_replace(Graph *graph, GVal *value, GVal *by) { replace_all(graph, (Replacement){.only = value, .by = &by}); }
void graph_replace_results(Graph *graph, const Node *node, GVal *const *by) {
    replace_all(graph, (Replacement){.def = node, .by = by});
}

void graph_remove(Graph *graph, Node *node) {
    if (node->prev)
        node->prev->next = node->next;
    else
        graph->first = node->next;
    if (node->next)
        node->next->prev = node->prev;
    else
        graph->last = node->prev;
    if (graph->insert_at == node) graph->insert_at = node->next;
    node->prev = node->next = NULL;
}

void graph_number(Graph *graph) {
    int n_vals = 0, n_nodes = 0;
    for (int i = 0; i < graph->inputs.n; i++) graph->inputs.at[i]->id = n_vals++;
    for (Node *node = graph->first; node; node = node->next) {
        node->id = n_nodes++;
        for (int i = 0; i < node->n_outs; i++) node->outs[i].id = n_vals++;
    }
    graph->n_nodes = n_nodes;
    graph->n_vals = n_vals;
}

static void count_slot(void *context, GVal **slot) { ((int *)context)[(*slot)->id]++; }

int *graph_use_counts(Graph *graph) {
    graph_number(graph);
    int *counts = ARENA_ARRAY(graph->arena, int, graph->n_vals + 1);
    if (!counts) return NULL;
    for (Node *node = graph->first; node; node = node->next) node_each_input(node, count_slot, counts);
    for (int i = 0; i < graph->outputs.n; i++)
        if (graph->outputs.at[i].value) counts[graph->outputs.at[i].value->id]++;
    for (int i = 0; i < graph->writes.n; i++) counts[graph->writes.at[i].value->id]++;
    return counts;
}

/* hash ---------------------------------------------------------------------------------------- */

static uint64_t hash_meta(uint64_t h, const Meta *meta) {
    h = hash_mix(h, (uint64_t)meta->dtype << 40 ^ (uint64_t)(uint32_t)meta->device << 8 ^ (uint64_t)meta->rank);
    h = hash_bytes(h, meta->sizes, sizeof *meta->sizes * (size_t)meta->rank);
    return hash_bytes(h, meta->strides, sizeof *meta->strides * (size_t)meta->rank);
}

static uint64_t hash_val(uint64_t h, const Val *val) {
    return hash_mix(h, val ? (uint64_t)((const GVal *)val)->id + 1 : 0);
}

static uint64_t hash_arg(uint64_t h, const Arg *arg) {
    h = hash_mix(h, (uint64_t)(uint32_t)arg->kind << 32 ^ (uint32_t)arg->n);
    switch (arg->kind) {
    case ARG_default:
    case ARG_none:
        return h;
    case ARG_tensor:
        return hash_val(h, arg->val);
    case ARG_string:
        return hash_bytes(h, arg->string, strlen(arg->string));
    case ARG_ints:
        return hash_bytes(h, arg->ints, sizeof *arg->ints * (size_t)arg->n);
    case ARG_floats:
        return hash_bytes(h, arg->floats, sizeof *arg->floats * (size_t)arg->n);
    case ARG_tensors:
        for (int i = 0; i < arg->n; i++) h = hash_val(h, arg->vals[i]);
        return h;
    default:
        return hash_mix(h, (uint64_t)arg->i);
    }
}

static uint64_t hash_node(uint64_t h, const Node *node) {
    h = hash_bytes(h, node->row->name, strlen(node->row->name));
    h = hash_mix(h, (uint64_t)node->form << 32 ^ (uint64_t)node->modes << 16 ^ (uint64_t)node->order);
    h = hash_mix(h, (uint64_t)(uint32_t)node->random);
    if (node->region || node->again) h = hash_mix(h, (uint64_t)node->region << 32 | (uint32_t)node->again);
    for (int i = 0; i < node->n_args; i++) h = hash_arg(h, &node->args[i]);
    for (int i = 0; i < node->n_outs; i++) h = hash_meta(h, node->outs[i].base.meta);
    return h;
}

bool graph_writes(const Graph *graph, const GVal *input) {
    for (int i = 0; i < graph->writes.n; i++)
        if (graph->writes.at[i].input == input) return true;
    return false;
}

uint64_t graph_hash(const Graph *graph) {
    uint64_t h = hash_mix(11, (uint64_t)graph->inputs.n);
    graph_number((Graph *)(uintptr_t)graph); /* ids are no part of a graph's meaning */
    for (int i = 0; i < graph->inputs.n; i++) h = hash_meta(h, graph->inputs.at[i]->base.meta);
    for (const Node *node = graph->first; node; node = node->next) h = hash_node(h, node);
    for (int i = 0; i < graph->outputs.n; i++) {
        const Output *output = &graph->outputs.at[i];
        h = hash_val(h, output->value ? &output->value->base : NULL);
        h = hash_mix(h, (uint64_t)output->kind << 32 ^ (uint64_t)(uint32_t)output->base);
        h = hash_mix(h, (uint64_t)output->offset);
    }
    for (int i = 0; i < graph->writes.n; i++) {
        h = hash_val(h, &graph->writes.at[i].input->base);
        h = hash_val(h, &graph->writes.at[i].value->base);
    }
    return hash_mix(h, (uint64_t)graph->n_forward_outputs << 32 ^ (uint64_t)graph->n_forward_inputs);
}
