/* reinplace.c: a scatter copies its base and writes a part of the copy; where nothing reads the
 * base any more, it may write the base itself: the node becomes its in-place form. A cache of keys
 * and values, written at one position, is then never copied.
 *
 * A family is the values that share one memory: a root (an input or a computed value), views of it,
 * and results of in-place nodes on it. The proof: no value of the family is read after the node,
 * none is an output, and src is not of the family. Where the memory is a graph input's, also by
 * earlier in-place nodes, the input must be written at the end anyway, the result must not be read
 * at the end behind a later write, and every check of the graph must come before: a failed check
 * commits nothing [semantics C8]. */
#include "passes/internal.h"

PassFn pass_reinplace;

typedef struct Families {
    Graph *graph;
    int *root;      /* by value id: id of the family's root */
    int *last_read; /* by root id: the last node (id) that reads a value of the family */
    bool *leaves;   /* by root id: an output of the caller's */
    int *input;     /* by root id: id of the graph input whose memory it has; -1 */
} Families;

static bool families_init(Families *f, Graph *graph) {
    graph_number(graph);
    Arena *const arena = graph->arena;
    const int n = graph->n_vals + 1;
    *f = (Families){graph, ARENA_ARRAY(arena, int, n), ARENA_ARRAY(arena, int, n), ARENA_ARRAY(arena, bool, n),
                    ARENA_ARRAY(arena, int, n)};
    for (int i = 0; f->input && i < n; i++) f->input[i] = -1;
    return f->root && f->last_read && f->leaves && f->input;
}

typedef struct ReinplaceRead {
    Families *families;
    int at;
} ReinplaceRead;
static void record_read(void *context, GVal **slot) {
    const ReinplaceRead *const read = context;
    if (*slot) read->families->last_read[read->families->root[(*slot)->id]] = read->at;
}

static void find_families(Families *f) {
    Graph *const graph = f->graph;
    for (int i = 0; i < graph->inputs.n; i++) {
        const int id = graph->inputs.at[i]->id;
        f->root[id] = id;
        f->input[id] = id;
    }
    for (Node *node = graph->first; node; node = node->next) {
        for (int i = 0; i < node->n_outs; i++) {
            const GVal *const out = &node->outs[i], *const memory = value_memory(out);
            f->root[out->id] = memory ? f->root[memory->id] : out->id;
        }
        ReinplaceRead read = {f, node->id};
        node_each_input(node, record_read, &read);
    }
    for (int i = 0; i < graph->outputs.n; i++) {
        const Output *const output = &graph->outputs.at[i];
        if (output->value && (output->kind == OUT_new || output->kind == OUT_view_of_output))
            f->leaves[f->root[output->value->id]] = true;
    }
}

static bool is_written(const Graph *graph, int input_id) {
    for (int i = 0; i < graph->writes.n; i++)
        if (graph->writes.at[i].input->id == input_id) return true;
    return false;
}

/* Does a write read a value of the family at the end? */
static bool read_at_end(const Families *f, int root) {
    const Graph *const graph = f->graph;
    for (int i = 0; i < graph->writes.n; i++)
        if (f->root[graph->writes.at[i].value->id] == root) return true;
    return false;
}

/* Is the result read at the end, where the input's memory holds a later value? */
static bool is_outlived(const Families *f, int input, int result) {
    const Graph *const graph = f->graph;
    for (int i = 0; i < graph->writes.n; i++)
        if (graph->writes.at[i].input->id == input && f->root[graph->writes.at[i].value->id] == result) return false;
    return f->leaves[result] || read_at_end(f, result);
}

static bool checks_after(const Node *node) {
    for (node = node->next; node; node = node->next)
        if (node->row->flags & OPF_may_fail) return true;
    return false;
}

static bool can_write(const Families *f, const Node *node) {
    const GVal *const base = gval(node->args[0].val), *const src = gval(node->args[1].val), *const out = node->outs;
    const int root = f->root[base->id];
    if (!meta_equal(base->base.meta, out->base.meta)) return false;
    if (f->last_read[root] != node->id || f->root[src->id] == root || f->leaves[root]) return false;
    if (read_at_end(f, root)) return false;
    const int input = f->input[root];
    if (input < 0) return true;
    return base->id == root && is_written(f->graph, input) && !checks_after(node) &&
           !is_outlived(f, input, f->root[out->id]);
}

bool pass_reinplace(Graph *graph, const PassOptions *options) {
    Families families;
    if (!families_init(&families, graph)) return false;
    find_families(&families);
    bool changed = false;
    for (Node *node = graph->first; node; node = node->next) {
        if (node->row->role != ROLE_puts || node->form != FORM_functional || !can_write(&families, node)) continue;
        node->form = FORM_inplace;
        node->outs[0].alias = 0;
        families.input[families.root[node->outs[0].id]] = families.input[families.root[gval(node->args[0].val)->id]];
        changed = true;
    }
    return changed;
}
