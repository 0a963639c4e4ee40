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
    if (row->flags & OPF_gradients && !v->stage->gradients) return verify_fail(v, "must be expanded before this stage");
    if (!(v->stage->kinds & (1u << row->kind))) return verify_fail(v, "must be decomposed at this stage");
    if (row->flags & OPF_storage) return verify_fail(v, "counts from where a storage begins, which no graph knows");
    if (v->node->modes & NODE_puts && row->kind != KIND_view && !(row->flags & (OPF_puts | OPF_copy)))
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
    const int room = node->n_outs ? node->n_outs : 1;
    MetaOut *outs = ARENA_ARRAY(graph->arena, MetaOut, room);
    if (!outs) return v->status = ST_MEMORY;
    for (int i = 0; i < room; i++) outs[i].alias = -1;
    MetaCall call = {.row = node->row,
                     .form = node->form,
                     .args = node->args,
                     .env = graph->env,
                     .out = outs,
                     .n_out = node->n_outs};
    TRY(v->status = op_meta(&call));
    if (call.n_out != node->n_outs) return verify_fail(v, "has %d results, the rule says %d", node->n_outs, call.n_out);
    if (call.order != node->order)
        return verify_fail(v, "order %s, the rule says %s", order_name(node->order), order_name(call.order));
    for (int i = 0; i < node->n_outs; i++) {
        meta_settle(graph->env, &outs[i]);
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
    if (v.stage->scheduled) TRY(check_schedule(&v));
    v.node = NULL;
    if (v.stage->lowered && !graph->plan) return verify_fail(&v, "has no plan");
    return v.stage->lowered ? plan_verify(graph->plan, v.stage->packed) : ST_OK;
}
