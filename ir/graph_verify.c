/* graph_verify.c: the verifier: structure (definitions before uses, argument kinds), metadata and orders as the meta
 * rules give them, and a table of what each stage allows. Every failed check names the node. */
#include <stdarg.h>
#include <stdio.h>

#include "ir/alias.h"
#include "ir/plan.h"
#include "runtime/base/error.h"

typedef struct StageSpec {
    bool forms;     /* in-place and out forms */
    bool gradients; /* sn::gradients, which the joint pass expands */
    uint32_t kinds; /* allowed OpKinds */
    /* every node that is no view has its kernel; every kernel its nests (ir/plan.h); every slot its place in memory */
    bool scheduled, lowered, packed;
    bool in_place; /* scatters may have written their base: nobody reads what stood there before */
} StageSpec;

#define KINDS_ALL     0xffffffffu
#define BIT(kind)     (1u << KIND_##kind)
#define KINDS_LOWERED (BIT(pointwise) | BIT(reduction) | BIT(view) | BIT(kernel))
static const StageSpec stages[STAGE_COUNT] = {
#define STAGE(name, ...) [STAGE_##name] = {__VA_ARGS__},
#include "ir/stages.def"
};

typedef struct Verify {
    Graph *graph;
    const StageSpec *stage;
    GVal **seen; /* by id: the value defined so far */
    const Node *node;
    Status status;
} Verify;

static Status verify_fail(Verify *v, const char *format, ...) PRINTF_LIKE(2, 3);
static Status verify_fail(Verify *v, const char *format, ...) {
    char message[512];
    va_list list;
    va_start(list, format);
    vsnprintf(message, sizeof message, format, list);
    va_end(list);
    const char *op = v->node ? op_form_name(v->node->row, v->node->form) : "graph";
    return v->status = error_raise(ST_ARGUMENT, "verify %s: node %d, %s: %s", stage_name(v->stage - stages),
                                   v->node ? v->node->id : -1, op, message);
}

static bool defined(const Verify *v, const GVal *value) {
    return value->id >= 0 && value->id < v->graph->n_vals && v->seen[value->id] == value;
}

static void check_use(void *context, GVal **slot) {
    Verify *v = context;
    if (v->status == ST_OK && !defined(v, *slot)) verify_fail(v, "uses a value that is not defined above it");
}

static Status check_stage(Verify *v) {
    const OpRow *row = v->node->row;
    if (v->node->form != FORM_functional && !v->stage->forms)
        return verify_fail(v, "only functional forms are allowed");
    if (row->role == ROLE_gradients && !v->stage->gradients)
        return verify_fail(v, "must be expanded before this stage");
    if (!(v->stage->kinds & (1u << row->kind))) return verify_fail(v, "must be decomposed at this stage");
    if (v->stage - stages != STAGE_capture && (v->node->unbacked || row->role == ROLE_bits))
        return verify_fail(v, "no compiled graph has it: it runs between two");
    if (row->role == ROLE_storage) return verify_fail(v, "counts from where a storage begins, which no graph knows");
    if (v->node->modes & NODE_puts && row->kind != KIND_view && !(row->flags & OPF_copy || row->role == ROLE_puts))
        return verify_fail(v, "puts no value into memory");
    if (row->flags & OPF_random && v->node->random >= v->graph->n_random)
        return verify_fail(v, "random=%d, but the graph takes %d sequence numbers", v->node->random,
                           v->graph->n_random);
    return ST_OK;
}

static Status check_args(Verify *v) {
    const Node *node = v->node;
    const OpRow *row = node->row;
    Arg normal[MAX_ARGS];
    const int expected = row->n_params + (node->form == FORM_out ? row->n_out : 0);
    if (node->n_args != expected) return verify_fail(v, "has %d arguments, not %d", node->n_args, expected);
    TRY(v->status = op_args_normalize(row, node->args, row->n_params, normal));
    for (int i = 0; i < row->n_params; i++)
        if (!arg_equal(&normal[i], &node->args[i]))
            return verify_fail(v, "argument %s is not normalised", row->params[i].name);
    return ST_OK;
}

static bool same_meta(const Meta *meta, const MetaOut *out) {
    if (meta->dtype != out->dtype || meta->device != out->device || meta->rank != out->rank) return false;
    const size_t bytes = sizeof *out->sizes * (size_t)out->rank;
    return !bytes || (!memcmp(meta->sizes, out->sizes, bytes) && !memcmp(meta->strides, out->strides, bytes));
}

static Status check_meta(Verify *v) {
    const Node *node = v->node;
    Graph *graph = v->graph;
    const int capacity = node->n_outs ? node->n_outs : 1;
    MetaOut *outs = ARENA_ARRAY(graph->arena, MetaOut, capacity);
    if (!outs) return v->status = ST_MEMORY;
    for (int i = 0; i < capacity; i++) outs[i].alias = -1;
    MetaCall call = {.row = node->row,
                     .form = node->form,
                     .args = node->args,
                     .env = graph->env,
                     .out = outs,
                     .n_out = node->n_outs};
    Unbacked unbacked = {.symbol = node->unbacked};
    /* A mask may stand for positions that are no size of a result: index_put. */
    if (node->unbacked || v->stage - stages == STAGE_capture) call.unbacked = &unbacked;
    TRY(v->status = op_meta(&call));
    if (call.n_out != node->n_outs) return verify_fail(v, "has %d results, the rule says %d", node->n_outs, call.n_out);
    if (call.order != node->order)
        return verify_fail(v, "order %s, the rule says %s", order_name(node->order), order_name(call.order));
    for (int i = 0; i < node->n_outs; i++) {
        meta_specialize_small(graph->env, &outs[i]);
        if (!same_meta(node->outs[i].base.meta, &outs[i]))
            return verify_fail(v, "result %d is not what the meta rule says", i);
    }
    for (int i = 0; i < node->n_outs; i++)
        if (node->outs[i].alias != outs[i].alias || node->outs[i].offset != outs[i].offset)
            return verify_fail(v, "result %d shows other memory than the meta rule says", i);
    return ST_OK;
}

static Status check_node(Verify *v) {
    Node *node = (Node *)(uintptr_t)v->node;
    TRY(check_stage(v));
    TRY(check_args(v));
    node_each_input(node, check_use, v);
    TRY(v->status);
    TRY(check_meta(v));
    for (int i = 0; i < node->n_outs; i++) {
        if (node->outs[i].def != node || node->outs[i].index != i)
            return verify_fail(v, "result %d does not know its node", i);
        v->seen[node->outs[i].id] = &node->outs[i];
    }
    return ST_OK;
}

/* Node.kernel of what makes a value, through views; 0: it comes from an input. */
static int kernel_of(const GVal *value) {
    const Node *const node = view_root(value)->def;
    return node ? node->kernel : 0;
}

static void check_kernel_use(void *context, GVal **slot) {
    Verify *v = context;
    if (v->status == ST_OK && *slot && kernel_of(*slot) > v->node->kernel)
        verify_fail(v, "kernel %d uses what kernel %d makes", v->node->kernel - 1, kernel_of(*slot) - 1);
}

static Status check_schedule(Verify *v) {
    for (Node *node = v->graph->first; node; node = node->next) {
        v->node = node;
        if (node->row->kind == KIND_view) continue;
        if (!node->kernel) return verify_fail(v, "has no kernel");
        node_each_input(node, check_kernel_use, v);
        TRY(v->status);
    }
    return ST_OK;
}

static Status check_ends(Verify *v) {
    const Graph *graph = v->graph;
    v->node = NULL;
    for (int i = 0; i < graph->outputs.n; i++) {
        const Output *output = &graph->outputs.at[i];
        if (output->kind == OUT_none) continue;
        if (!output->value || !defined(v, output->value)) return verify_fail(v, "output %d is not defined", i);
        const int bases = output->kind == OUT_view_of_output ? graph->outputs.n : graph->inputs.n;
        const int least = output->kind == OUT_kept ? -1 : 0;
        if (output->kind != OUT_new && (output->base < least || output->base >= bases))
            return verify_fail(v, "output %d refers to number %d of %d", i, output->base, bases);
    }
    for (int i = 0; i < graph->writes.n; i++) {
        const Write *write = &graph->writes.at[i];
        if (!defined(v, write->input) || write->input->def) return verify_fail(v, "write %d is not to an input", i);
        if (!defined(v, write->value)) return verify_fail(v, "write %d has no value", i);
        const Meta *to = write->input->base.meta, *from = write->value->base.meta;
        if (to->dtype != from->dtype || !meta_same_sizes(to, from))
            return verify_fail(v, "write %d changes dtype or sizes", i);
    }
    return ST_OK;
}

/* Scatters in place: a value is what its memory held after so many of them; who reads it later reads another one. */
typedef struct Scattered {
    Verify *verify;
    const GVal **root; /* by value id: whose memory it has */
    int *version;      /* by value id: of that memory, when the value was made */
    int *now;          /* by root id */
} Scattered;

static bool is_current(const Scattered *s, const GVal *value) {
    return s->version[value->id] == s->now[s->root[value->id]->id];
}

static void check_current(void *context, GVal **slot) {
    Scattered *const s = context;
    if (s->verify->status == ST_OK && *slot && !is_current(s, *slot))
        verify_fail(s->verify, "reads what a scatter in place has overwritten");
}

static void set_versions(const Scattered *s, const Node *node) {
    const GVal *const written = node->form == FORM_inplace ? s->root[gval(node->args[0].val)->id] : NULL;
    if (written) s->now[written->id]++;
    for (int i = 0; i < node->n_outs; i++) {
        const GVal *const out = &node->outs[i], *const memory = value_memory(out);
        s->root[out->id] = memory ? s->root[memory->id] : out;
        s->version[out->id] = memory && !written ? s->version[memory->id] : s->now[s->root[out->id]->id];
    }
}

static const Write *write_of(const Graph *graph, const GVal *input) {
    for (int i = 0; i < graph->writes.n; i++)
        if (graph->writes.at[i].input == input) return &graph->writes.at[i];
    return NULL;
}

/* Is what an input's memory held copied to another one at the end, when it may have been written itself? */
static bool is_outlived(const Scattered *s, const Graph *graph, const Write *write) {
    const GVal *const root = s->root[write->value->id];
    const Write *const own = root->def || root == write->input ? NULL : write_of(graph, root);
    return own && s->root[own->value->id] != root;
}

/* What the call gives and writes is read at the end; of an input that is written the memory is the result. */
static Status check_scattered_ends(Verify *v, const Scattered *s) {
    const Graph *const graph = v->graph;
    for (int i = 0; i < graph->outputs.n; i++) {
        const Output *const output = &graph->outputs.at[i];
        const bool read = output->kind == OUT_new || output->kind == OUT_view_of_output;
        if (read && !is_current(s, output->value))
            return verify_fail(v, "output %d is what a scatter in place has overwritten", i);
    }
    for (int i = 0; i < graph->writes.n; i++) {
        const Write *const write = &graph->writes.at[i];
        if (!is_current(s, write->value))
            return verify_fail(v, "write %d is of what a scatter in place has overwritten", i);
        if (is_outlived(s, graph, write)) return verify_fail(v, "write %d is of an input that is written, too", i);
    }
    for (int i = 0; i < graph->inputs.n; i++)
        if (s->now[graph->inputs.at[i]->id] && !write_of(graph, graph->inputs.at[i]))
            return verify_fail(v, "a scatter overwrites input %d, which is not written", i);
    return ST_OK;
}

static Status check_scattered(Verify *v) {
    const Graph *const graph = v->graph;
    const int n = graph->n_vals + 1;
    Scattered s = {.verify = v,
                   .root = ARENA_ARRAY(graph->arena, const GVal *, n),
                   .version = ARENA_ARRAY(graph->arena, int, n),
                   .now = ARENA_ARRAY(graph->arena, int, n)};
    if (!s.root || !s.version || !s.now) return v->status = ST_MEMORY;
    for (int i = 0; i < graph->inputs.n; i++) s.root[graph->inputs.at[i]->id] = graph->inputs.at[i];
    for (Node *node = graph->first; node; node = node->next) {
        v->node = node;
        node_each_input(node, check_current, &s);
        TRY(v->status);
        set_versions(&s, node);
    }
    v->node = NULL;
    return check_scattered_ends(v, &s);
}

/* A view by numbers that leaves its memory. */
static Status check_reach(Verify *v) {
    char said[400];
    if (graph_check_reach(v->graph, NULL, &v->node) == ST_OK) return ST_OK;
    if (error_pending() == ST_MEMORY) return ST_MEMORY;
    snprintf(said, sizeof said, "%.399s", error_slot()->message);
    error_clear();
    return verify_fail(v, "%s", said);
}

Status graph_verify(Graph *graph, Stage stage) {
    Verify v = {.graph = graph, .stage = &stages[stage]};
    graph_number(graph);
    v.seen = ARENA_ARRAY(graph->arena, GVal *, graph->n_vals + 1);
    if (!v.seen) return ST_MEMORY;
    for (int i = 0; i < graph->inputs.n; i++) v.seen[i] = graph->inputs.at[i];
    for (v.node = graph->first; v.node; v.node = v.node->next) TRY(check_node(&v));
    if (!v.stage->scheduled) TRY(check_reach(&v));
    TRY(check_ends(&v));
    if (v.stage->in_place) TRY(check_scattered(&v));
    if (v.stage->scheduled) TRY(check_schedule(&v));
    v.node = NULL;
    if (v.stage->lowered && !graph->plan) return verify_fail(&v, "has no plan");
    return v.stage->lowered ? plan_verify(graph->plan, v.stage->packed) : ST_OK;
}
