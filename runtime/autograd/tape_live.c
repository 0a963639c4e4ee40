/* tape_live.c: the tape's nodes, to look at: those that are alive, by the state that made them, and the traversal from
 * a tensor along their edges.
 *
 * Lists of nodes are by state, several states to a list: a thread takes the lock of its own, which others rarely want,
 * and none while there is one thread. */
#include "runtime/autograd/tape.h"
#include "runtime/base/lock.h"
#include "runtime/base/text.h"

enum { LISTS = 16 };
typedef struct LiveList {
    _Alignas(64) pthread_mutex_t lock;
    TapeNode *newest;
    int64_t n;
} LiveList;

#define LIST                                                                                                           \
    { PTHREAD_MUTEX_INITIALIZER, NULL, 0 }
#define LIST4 LIST, LIST, LIST, LIST
static LiveList lists[LISTS] = {LIST4, LIST4, LIST4, LIST4};

static LiveList *list_of(uint32_t state) { return &lists[state % LISTS]; }

void tape_live_add(TapeNode *node) {
    LiveList *const list = list_of(node->state);
    const bool locked = lock_shared(&list->lock);
    node->newer = NULL;
    node->older = list->newest;
    if (node->older) node->older->newer = node;
    list->newest = node;
    list->n++;
    unlock_shared(&list->lock, locked);
}

void tape_live_remove(TapeNode *node) {
    LiveList *const list = list_of(node->state);
    const bool locked = lock_shared(&list->lock);
    *(node->newer ? &node->newer->older : &list->newest) = node->older;
    if (node->older) node->older->newer = node->newer;
    list->n--;
    unlock_shared(&list->lock, locked);
}

int64_t tape_live_nodes(void) {
    int64_t n = 0;
    for (int i = 0; i < LISTS; i++) {
        const bool locked = lock_shared(&lists[i].lock);
        n += lists[i].n;
        unlock_shared(&lists[i].lock, locked);
    }
    return n;
}

void tape_live_each(void (*visit)(void *context, const TapeNode *node), void *context) {
    const uint32_t state = state_get()->id;
    LiveList *const list = list_of(state);
    const bool locked = lock_shared(&list->lock);
    for (const TapeNode *node = list->newest; node; node = node->older)
        if (node->state == state) visit(context, node);
    unlock_shared(&list->lock, locked);
}

/* traversal ------------------------------------------------------------------------------------ */

Status tape_edge_follow(const TapeEdge *edge, const TapeEdge **now) {
    *now = tape_edge_now(edge);
    TapeNode *const node = (*now)->leaf ? NULL : (*now)->target;
    if (!node || !node->class->expand) return ST_OK;
    TRY(node->class->expand(node));
    *now = tape_edge_now(*now);
    return ST_OK;
}

Status tape_node_of(sn_tensor *t, TapeNode **node) {
    *node = NULL;
    if (tape_view_is_due(t)) TRY(tape_view_refresh(t));
    if (!t->autograd || !t->autograd->node) return ST_OK;
    const TapeEdge made = {.target = t->autograd->node, .output = t->autograd->output};
    const TapeEdge *now;
    TRY(tape_edge_follow(&made, &now));
    if (now->leaf || !now->target) return ST_OK;
    tape_node_retain(now->target);
    *node = now->target;
    return ST_OK;
}

/* what is saved ------------------------------------------------------------------------------- */

void tape_saved_name(const TapeNode *node, int i, Text *text) {
    int n;
    const TapeSaved *const saved = tape_node_saved(node, &n);
    const OpRow *const row = tape_node_row(node);
    if (!row || i >= n)
        text_printf(text, "%d", i);
    else if (saved[i].result >= 0)
        text_printf(text, row->n_out > 1 ? "result%d" : "result", saved[i].result);
    else
        text_puts(text, row->params[saved[i].arg].name);
    if (row && i < n && saved[i].result < 0 && saved[i].item >= 0) text_printf(text, "[%d]", saved[i].item);
}
