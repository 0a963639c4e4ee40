/* internal.h: what the passes share: where new nodes go, replacement tables, comparisons of
 * arguments. */
#ifndef SINTER_PASSES_INTERNAL_H
#define SINTER_PASSES_INTERNAL_H
#include "ir/alias.h"
#include "passes/passes.h"

/* From now on new nodes go before `before`, with the modes, call site, origin and random index of `node`. Returns the
 * settings until now, for nodes_restore. */
typedef struct NewNodes {
    Node *insert_at;
    int random, region, again;
    uint8_t modes;
    const char *where;
    const void *site;
    const OpRow *origin;
} NewNodes;
NewNodes nodes_like(Graph *graph, const Node *node, Node *before);
void nodes_restore(Graph *graph, NewNodes saved);

/* Replaces values by others in one traversal of the graph, following chains; tables are indexed by
 * dense value id. */
GVal *replaced(GVal *const *table, GVal *value);
void replace_uses(Graph *graph, Node *node, GVal *const *table); /* the node's tensor arguments */
void replace_ends(Graph *graph, GVal *const *table);             /* outputs and writes */

uint64_t arg_hash(uint64_t seed, const Arg *arg);
bool meta_equal(const Meta *a, const Meta *b); /* dtype, device, sizes, strides; no guards */
bool is_seen_input(const GVal *value);         /* an input, or a view of one */
/* Every output of kind OUT_new has memory of its own, and no write reads an input that another
 * write changes: where one value would serve twice, a copy is inserted. Raises on failure. */
void own_outputs(Graph *graph);
void own_outputs_and_views(
    Graph *graph); /* the same where inputs are results of somebody else, views of which are none */

/* Expands rows of KIND_composite to a fixpoint. */
bool decompose_composites(Graph *graph);
/* What a rule writes is a copy in place, as eager's is (Builder.write of a graph that is not functional yet). */
Status internal_write(Builder *self, Val *to, Val *from);
/* Before the graph is functional: composites that write arguments, have no results or share memory of a list. */
bool decompose_writers(Graph *graph);
/* No effect, no check: it may go where its results are unused. */
static inline bool node_is_pure(const Node *node) {
    return node->form == FORM_functional && !(node->row->flags & (OPF_check | OPF_host | OPF_ordered));
}
int node_count(const Graph *graph);

#endif
