/* cse.c: common subexpressions: a traversal in program order with a hash of each node; the first of
 * equal nodes stays.
 *
 * Equal means: same row, equal arguments (bits of numbers, same values after replacement), same
 * order of additions, for random ops the same sequence number, and the same run again of a
 * region: what it computes is there to be forgotten in between. Modes do not count: derivatives
 * were taken before. In-place and out forms are left alone. Where two results that leave the graph
 * become one, the second output is a copy (own_outputs). */
#include "passes/internal.h"
#include "runtime/base/hash.h"

PassFn pass_cse;

typedef struct Seen { /* nodes of equal hash, in program order */
    Node *node;
    struct Seen *next;
} Seen;

static uint64_t node_hash(const Node *node) {
    uint64_t h = hash_mix((uint64_t)node->row->id, (uint64_t)node->order << 32 | (uint32_t)node->again);
    if (node->row->flags & OPF_random) h = hash_mix(h, (uint64_t)node->random);
    for (int i = 0; i < node->n_args; i++) h = arg_hash(h, &node->args[i]);
    return h;
}

static bool nodes_equal(const Node *a, const Node *b) {
    if (a->row != b->row || a->order != b->order || a->again != b->again) return false;
    if (a->n_args != b->n_args || a->n_outs != b->n_outs) return false;
    if ((a->row->flags & OPF_random) && a->random != b->random) return false;
    for (int i = 0; i < a->n_args; i++)
        if (!arg_equal(&a->args[i], &b->args[i])) return false;
    return true;
}

static Node *find_equal(const Seen *seen, const Node *node) {
    for (; seen; seen = seen->next)
        if (nodes_equal(seen->node, node)) return seen->node;
    return NULL;
}

bool pass_cse(Graph *graph, const PassOptions *options) {
    graph_number(graph);
    GVal **const table = ARENA_ARRAY(graph->arena, GVal *, graph->n_vals);
    if (!table) return false;
    Map map = {0};
    bool changed = false;
    for (Node *node = graph->first, *next; node; node = next) {
        next = node->next;
        replace_uses(graph, node, table);
        if (node->form != FORM_functional || (node->row->flags & (OPF_host | OPF_ordered))) continue;
        const uint64_t hash = node_hash(node);
        Seen *const seen = map_get(&map, hash);
        Node *const kept = find_equal(seen, node);
        if (kept) {
            for (int i = 0; i < node->n_outs; i++) table[node->outs[i].id] = &kept->outs[i];
            kept->merged |= node->merged || node->modes & NODE_no_grad;
            changed = true;
            continue;
        }
        Seen *const entry = ARENA_NEW(graph->arena, Seen);
        if (!entry) break;
        *entry = (Seen){node, seen};
        if (!map_set(&map, hash, entry)) break;
    }
    map_free(&map);
    if (!changed) return false;
    replace_ends(graph, table);
    for (Node *node = graph->first, *next; node; node = next) {
        next = node->next;
        if (node->n_outs && table[node->outs[0].id]) graph_remove(graph, node);
    }
    own_outputs(graph);
    return true;
}
