/* tape_print.c: what a tensor's history holds: its nodes, newest first, and the bytes they save. */
#include <stdlib.h>

#include "runtime/base/alloc.h"
#include "runtime/base/text.h"
#include "runtime/autograd/saved_hooks.h"

typedef struct TapeTraversal {
    TapeNode **nodes;
    int n, capacity;
    Storage **storages;
    int n_storages, storages_capacity;
    int64_t bytes;
    bool expands; /* compiled nodes on the way; status: of that */
    Status status;
} TapeTraversal;

static bool grow(void **at, int n, int *capacity, size_t item) {
    if (n < *capacity) return true;
    const int wanted = *capacity ? *capacity * 2 : 64;
    void *const bigger = mem_resize(*at, (size_t)wanted * item);
    if (!bigger) return false;
    *at = bigger, *capacity = wanted;
    return true;
}

static int by_address(const void *a, const void *b) {
    const char *const x = *(char *const *)a, *const y = *(char *const *)b;
    return x < y ? -1 : x > y;
}

static int unique(void *at, int n) {
    void **const items = at;
    if (n > 1) qsort(items, (size_t)n, sizeof *items, by_address);
    int kept = 0;
    for (int i = 0; i < n; i++)
        if (!kept || items[kept - 1] != items[i]) items[kept++] = items[i];
    return kept;
}

/* Sequence numbers fall along edges, so a list kept sorted by them, walked from the front, meets
 * every node once. */
static bool add_node(TapeTraversal *traversal, int after, TapeNode *node) {
    int low = after, high = traversal->n;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (traversal->nodes[middle]->sequence > node->sequence)
            low = middle + 1;
        else
            high = middle;
    }
    for (int i = low; i < traversal->n && traversal->nodes[i]->sequence == node->sequence; i++)
        if (traversal->nodes[i] == node) return true;
    if (!grow((void **)&traversal->nodes, traversal->n, &traversal->capacity, sizeof *traversal->nodes)) return false;
    memmove(traversal->nodes + low + 1, traversal->nodes + low,
            (size_t)(traversal->n - low) * sizeof *traversal->nodes);
    traversal->nodes[low] = node;
    traversal->n++;
    return true;
}

const sn_tensor *tape_saved_kept(const TapeSaved *saved) {
    if (!saved->tensor || !saved->is_packed) return saved->tensor;
    const TapePackedClass *const class = saved->packed->class;
    return class->kept ? class->kept(saved->packed) : NULL;
}

int64_t tape_saved_bytes(const TapeSaved *saved) {
    const sn_tensor *const kept = tape_saved_kept(saved); /* what a hook gave may be smaller */
    const Meta *const meta = kept ? kept->base.meta : NULL;
    return meta ? meta->numel * dtype_bytes(meta->dtype) : 0;
}

static void add_storages(TapeTraversal *traversal, const TapeNode *node) {
    int n;
    const TapeSaved *const saved = tape_node_saved(node, &n);
    for (int i = 0; i < n; i++) {
        const sn_tensor *const kept = tape_saved_kept(&saved[i]);
        if (!kept || !kept->storage) continue;
        if (!grow((void **)&traversal->storages, traversal->n_storages, &traversal->storages_capacity,
                  sizeof *traversal->storages))
            return;
        traversal->storages[traversal->n_storages++] = kept->storage;
    }
}

/* An edge to what now stands for its target is followed to there. */
static bool add_target(TapeTraversal *traversal, int after, const TapeEdge *edge) {
    const TapeEdge *now = tape_edge_now(edge);
    if (traversal->expands && (traversal->status = tape_edge_follow(edge, &now)) != ST_OK) return false;
    return !now->target || now->leaf || add_node(traversal, after, now->target);
}

static void traverse_from(TapeTraversal *traversal, sn_tensor *t) {
    if (!t || !tape_tracks(t) || !t->autograd->node) return;
    if (!add_target(traversal, 0, &(TapeEdge){.target = t->autograd->node, .output = t->autograd->output})) return;
    for (int i = 0; i < traversal->n; i++) {
        const TapeNode *const node = traversal->nodes[i];
        for (int k = 0; k < node->n_edges; k++)
            if (!add_target(traversal, i + 1, &node->edges[k])) return;
        add_storages(traversal, node);
    }
    traversal->n_storages = unique(traversal->storages, traversal->n_storages);
    for (int i = 0; i < traversal->n_storages; i++) traversal->bytes += (int64_t)traversal->storages[i]->bytes;
}

static void traversal_end(TapeTraversal *traversal) {
    mem_free(traversal->nodes);
    mem_free(traversal->storages);
}

static void print_edges(Text *text, const TapeNode *node) {
    const char *separator = " -> ";
    for (int i = 0; i < node->n_edges; i++) {
        const TapeEdge *const edge = tape_edge_now(&node->edges[i]);
        if (!edge->target) continue;
        text_puts(text, separator);
        separator = ", ";
        if (edge->leaf) {
            text_puts(text, "AccumulateGrad");
            continue;
        }
        const TapeNode *const target = edge->target;
        text_printf(text, "#%llu ", (unsigned long long)target->sequence);
        target->class->name(target, text);
    }
}

static void print_saved(Text *text, const TapeNode *node) {
    int n;
    const TapeSaved *const saved = tape_node_saved(node, &n);
    const char *separator = "; saved ";
    for (int i = 0; i < n; i++) {
        const sn_tensor *const t = saved[i].tensor;
        if (!t) continue; /* of a compiled node's, what steps that have run held */
        text_puts(text, separator);
        separator = ", ";
        meta_print(NULL, text, t->base.meta);
        if (saved[i].is_packed) {
            text_printf(text, " (%s)", saved[i].packed->class->name);
            if (tape_saved_kept(&saved[i])) text_printf(text, " (%lld bytes)", (long long)tape_saved_bytes(&saved[i]));
            continue;
        }
        text_printf(text, " v%u (%lld bytes)", saved[i].version, (long long)tape_saved_bytes(&saved[i]));
    }
    if (node->dropped && node->saves) text_puts(text, "; freed");
}

static Status print_history(Text *text, sn_tensor *t, bool expands) {
    TapeTraversal traversal = {.expands = expands};
    traverse_from(&traversal, t);
    for (int i = 0; i < traversal.n; i++) {
        text_printf(text, "#%llu ", (unsigned long long)traversal.nodes[i]->sequence);
        traversal.nodes[i]->class->name(traversal.nodes[i], text);
        print_edges(text, traversal.nodes[i]);
        print_saved(text, traversal.nodes[i]);
        text_puts(text, "\n");
    }
    text_printf(text, "%d nodes, %lld bytes saved\n", traversal.n, (long long)traversal.bytes);
    traversal_end(&traversal);
    return traversal.status;
}

void tape_print(Text *text, sn_tensor *t) { print_history(text, t, false); }
Status tape_print_expanded(Text *text, sn_tensor *t) { return print_history(text, t, true); }

void tape_each(sn_tensor *t, void (*visit)(void *context, const TapeNode *node), void *context) {
    TapeTraversal traversal = {0};
    traverse_from(&traversal, t);
    for (int i = 0; i < traversal.n; i++) visit(context, traversal.nodes[i]);
    traversal_end(&traversal);
}

TapeTotals tape_totals(sn_tensor *t) {
    TapeTraversal traversal = {0};
    traverse_from(&traversal, t);
    const TapeTotals totals = {.nodes = traversal.n, .saved_bytes = traversal.bytes};
    traversal_end(&traversal);
    return totals;
}
