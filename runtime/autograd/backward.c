/* backward.c: the engine [semantics G1]. Nodes wait in a heap by sequence number; the newest runs
 * first, so when a node's turn comes, everything that uses its results has run and its gradients
 * are complete. Contributions are added left to right as they arrive. Leaves collect theirs in the
 * same way and get them in .grad at the end, in the order in which the traversal first reached them.
 *
 *   heap: [#9 Sum]  ->  #9 runs, gives #8 a gradient  ->  heap: [#8 Mul] -> ... -> leaves
 *
 * A run's entry of a node or leaf hangs on that for the time of the run. Where another one's does already, that of an
 * outer run (a hook calls backward) or of another thread that goes through the same leaf, the run keeps it in a map.
 *
 * A node runs on the streams that it was recorded under, after all that the run has begun before; in the end the
 * caller's streams wait for the last ones. */
#include "runtime/autograd/tape.h"

#include <stdlib.h>

#include "runtime/autograd/engine_workers.h"
#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"
#include "runtime/base/small_array.h"
#include "runtime/core/context_enter.h"
#include "runtime/core/frame.h"
#include "runtime/core/profile.h"
#include "runtime/device/stream.h"
#include "runtime/core/autocast.h"
#include "runtime/core/tracer.h"

enum { SMALL = 8, BLOCK_ENTRIES = 64 };

typedef struct Engine Engine;
struct TapeEntry {
    TapeNode *node; /* or a leaf: */
    sn_tensor *leaf;
    bool queued, needed;
    bool stop;         /* the run ends here: gradients are collected, nothing goes on */
    sn_tensor **grads; /* by result, owned; a leaf has one */
    sn_tensor *one;    /* grads of a node with one result */
    WorkerJob *worker; /* its rule, which a worker runs before its turn; or NULL */
};

typedef struct EntryBlock {
    struct EntryBlock *next;
    int n;
    TapeEntry entries[BLOCK_ENTRIES];
} EntryBlock;

struct Engine {
    InProgress in_progress; /* first */
    const TapeRun *run;
    sn_state *state;
    bool create, retain, selective; /* selective: only what leads to xs runs */
    EntryBlock *blocks, *last_block;
    Map elsewhere; /* by slot: entries whose slot is another run's */
    TapeEntry **heap;
    int n_heap, heap_capacity;
    sn_tensor **found; /* selective: by x, owned */
    int n_found;
    StreamUse *streams;     /* the caller's */
    bool switched;          /* some node's are others */
    bool looked;            /* whether workers can help is known: */
    EngineWorkers *workers; /* they can; or NULL */
};

/* entries ------------------------------------------------------------------------------------- */

static TapeEntry *entry_new(Engine *e) {
    if (!e->last_block || e->last_block->n == BLOCK_ENTRIES) {
        EntryBlock *const block = mem_alloc(sizeof *block);
        if (!block) return NULL;
        block->n = 0, block->next = NULL;
        if (e->last_block)
            e->last_block->next = block;
        else
            e->blocks = block;
        e->last_block = block;
    }
    TapeEntry *const entry = &e->last_block->entries[e->last_block->n];
    *entry = (TapeEntry){.grads = &entry->one};
    e->last_block->n++;
    return entry;
}

static uint64_t slot_key(const TapeSlot *slot) { return (uint64_t)(uintptr_t)slot; }

static TapeSlot *slot_of(const TapeEdge *edge) {
    return edge->leaf ? &((sn_tensor *)edge->target)->autograd->slot : &((TapeNode *)edge->target)->slot;
}

/* The run's own; NULL: none yet. Only the owner finds itself in a slot, so that needs no order. */
static TapeEntry *entry_find(const Engine *e, TapeSlot *slot) {
    if (LIKELY(atomic_load_explicit(&slot->owner, memory_order_relaxed) == e)) return slot->entry;
    return UNLIKELY(e->elsewhere.n) ? map_get(&e->elsewhere, slot_key(slot)) : NULL;
}

static bool entry_place(Engine *e, TapeSlot *slot, TapeEntry *entry) {
    void *none = NULL;
    if (!atomic_compare_exchange_strong(&slot->owner, &none, e)) return map_set(&e->elsewhere, slot_key(slot), entry);
    slot->entry = entry;
    return true;
}

static TapeEntry *entry_of_node(Engine *e, TapeNode *node) {
    TapeEntry *const found = entry_find(e, &node->slot), *const entry = found ? found : entry_new(e);
    if (found || !entry) return found;
    if (node->n_outs != 1 && !(entry->grads = mem_zero((size_t)node->n_outs * sizeof(sn_tensor *)))) {
        entry->grads = &entry->one;
        return NULL;
    }
    entry->node = node;
    tape_node_retain(node);
    return entry_place(e, &node->slot, entry) ? entry : NULL;
}

static TapeEntry *entry_of_leaf(Engine *e, sn_tensor *leaf) {
    TapeSlot *const slot = &leaf->autograd->slot;
    TapeEntry *const found = entry_find(e, slot), *const entry = found ? found : entry_new(e);
    if (found || !entry) return found;
    entry->leaf = leaf;
    tensor_retain(leaf);
    return entry_place(e, slot, entry) ? entry : NULL;
}

static void slot_leave(const Engine *e, TapeSlot *slot) {
    if (atomic_load_explicit(&slot->owner, memory_order_relaxed) == e) atomic_store(&slot->owner, NULL);
}

static void entry_close(Engine *e, TapeEntry *entry) {
    if (UNLIKELY(entry->worker != NULL)) worker_job_free(entry->worker);
    const int n = entry->node ? entry->node->n_outs : 1;
    for (int i = 0; i < n; i++) tensor_release(entry->grads[i]);
    if (entry->grads != &entry->one) mem_free(entry->grads);
    if (entry->node)
        slot_leave(e, &entry->node->slot);
    else if (entry->leaf)
        slot_leave(e, &entry->leaf->autograd->slot);
    tape_node_release(entry->node);
    tensor_release(entry->leaf);
}

/* the heap ------------------------------------------------------------------------------------ */

static bool newer(const TapeEntry *a, const TapeEntry *b) { return a->node->sequence > b->node->sequence; }

static Status heap_push(Engine *e, TapeEntry *entry) {
    if (e->n_heap == e->heap_capacity) {
        const int capacity = e->heap_capacity ? e->heap_capacity * 2 : 64;
        TapeEntry **const heap = mem_resize(e->heap, (size_t)capacity * sizeof *heap);
        if (!heap) return ST_MEMORY;
        e->heap = heap, e->heap_capacity = capacity;
    }
    int at = e->n_heap++;
    for (int up; at > 0 && newer(entry, e->heap[up = (at - 1) / 2]); at = up) e->heap[at] = e->heap[up];
    e->heap[at] = entry;
    entry->queued = true;
    return ST_OK;
}

static TapeEntry *heap_pop(Engine *e) {
    TapeEntry *const top = e->heap[0], *const last = e->heap[--e->n_heap];
    int at = 0;
    for (int down; (down = 2 * at + 1) < e->n_heap; at = down) {
        if (down + 1 < e->n_heap && newer(e->heap[down + 1], e->heap[down])) down++;
        if (!newer(e->heap[down], last)) break;
        e->heap[at] = e->heap[down];
    }
    e->heap[at] = last;
    return top;
}

/* sums ---------------------------------------------------------------------------------------- */

static bool sole(const sn_tensor *t) {
    return atomic_load(&t->refs) == 1 && t->storage && atomic_load(&t->storage->refs) == 1 && !tensor_is_batched(t);
}

/* Where streams change, a gradient is used on another one than its memory is of. */
static Status record_use(const Engine *e, sn_tensor *grad) {
    return LIKELY(!e->switched) || !grad ? ST_OK : stream_record_use(grad);
}

/* *sum += grad; *sum owns. In place only into memory that nobody else can see. */
static Status accumulate(Engine *e, sn_tensor **sum, sn_tensor *grad) {
    if (!*sum) {
        tape_own(e->state, grad);
        *sum = grad;
        return ST_OK;
    }
    const Arg args[] = {V(&(*sum)->base), V(&grad->base), A_INT(1)};
    sn_tensor *total;
    TRY(record_use(e, *sum));
    const bool in_place =
        !e->create && sole(*sum) && (*sum)->base.meta == grad->base.meta && !meta_overlaps(grad->base.meta);
    __attribute__((cleanup(context_leave), unused)) const ContextSaved saved = context_enter(e->state, CONTEXT_parts);
    TRY(dispatch(OP_ROW(add_Tensor), in_place ? FORM_inplace : FORM_functional, args, NULL, &total));
    if (in_place) return ST_OK;
    tape_own(e->state, total);
    tensor_release(*sum);
    *sum = total;
    return ST_OK;
}

static Status replace(Engine *e, sn_tensor **sum, sn_tensor *total) {
    if (*sum == total) return ST_OK;
    tape_own(e->state, total);
    tensor_release(*sum);
    *sum = total;
    return ST_OK;
}

/* Anomaly mode and a user's modes see each op. */
static inline bool is_watched(const sn_state *state) { return state->modes || state->include & KEY_BIT(anomaly); }

/* create_graph needs nodes that can be differentiated, and a hook the whole gradient of a result that others of
 * the segment may come from: a compiled node becomes eager's [G3]. */
static const TapeEdge *edge_of(const Engine *e, const TapeEdge *edge) {
    const TapeEdge *const now = tape_edge_now(edge);
    TapeNode *const node = now->leaf ? NULL : now->target;
    if (LIKELY(!node || !node->class->expand)) return now;
    const bool whole = node->hooks && node->n_outs > 1;
    if (!e->create && !whole && !is_watched(e->state)) return now;
    return node->class->expand(node) == ST_OK ? tape_edge_now(now) : NULL;
}

static TapeEntry *entry_of_edge(Engine *e, const TapeEdge *edge) {
    if (!(edge = edge_of(e, edge))) return NULL;
    return edge->leaf ? entry_of_leaf(e, edge->target) : entry_of_node(e, edge->target);
}

static bool edge_wanted(const Engine *e, const TapeEdge *edge) {
    edge = tape_edge_now(edge);
    if (!edge->target) return false;
    if (!e->selective) return true;
    const TapeEntry *const entry = entry_find(e, slot_of(edge));
    return entry && entry->needed;
}

static inline Status deliver(Engine *e, const TapeEdge *edge, sn_tensor *grad, bool whole) {
    TapeEntry *const entry = entry_of_edge(e, edge);
    if (!entry) return ST_MEMORY;
    edge = tape_edge_now(edge);
    sn_tensor **const sum = &entry->grads[edge->leaf ? 0 : edge->output];
    TRY(whole ? replace(e, sum, grad) : accumulate(e, sum, grad));
    return edge->leaf || entry->queued || entry->stop ? ST_OK : heap_push(e, entry);
}

/* hooks --------------------------------------------------------------------------------------- */

static Status run_hook(Engine *e, const TapeHook *hook, sn_tensor **grad) {
    const Arg in = A_VAL(&(*grad)->base);
    sn_tensor *out = NULL;
    sn_frame frame = {.what = "gradient hook",
                      .closure = hook->closure,
                      .in = &in,
                      .n_in = 1,
                      .out = &out,
                      .n_out = 1,
                      .outs_optional = true};
    TRY(scope_push(e->state, false));
    Status status = frame_run(&frame, hook->body);
    if (status == ST_OK && out && out != *grad) {
        if (!meta_same_sizes(out->base.meta, (*grad)->base.meta) || out->base.meta->dtype != (*grad)->base.meta->dtype)
            status = error_raise(ST_CALLBACK, "a gradient hook must give a gradient of the same sizes and dtype");
        else
            status = replace(e, grad, out);
    }
    scope_pop(e->state);
    return status;
}

/* Its gradient is in .grad, which the hook may look at and change. */
static Status run_after(Engine *e, const TapeHook *hook, sn_tensor *leaf) {
    const Arg in = A_VAL(&leaf->base);
    sn_frame frame = {.what = "post-accumulate hook", .closure = hook->closure, .in = &in, .n_in = 1};
    TRY(scope_push(e->state, false));
    const Status status = frame_run(&frame, hook->body);
    scope_pop(e->state);
    return status;
}

enum { FEW_HOOKS = 8 };

static const TapeHook *find_hook(const TapeHook *hook, int64_t id) {
    while (hook && hook->id != id) hook = hook->next;
    return hook;
}

/* A hook may remove hooks and add some: each is looked up when its turn comes, and what is new waits for the next
 * run. */
static Status run_each(Engine *e, const TapeEdge *at, const int64_t *ids, int n, sn_tensor **grad) {
    for (int i = 0; i < n && (!grad || *grad); i++) {
        const TapeEdge *const now = tape_edge_now(at);
        const TapeHook *const hook = find_hook(tape_hooks(now), ids[i]);
        if (!hook || hook->after != !grad || (!now->leaf && hook->output != now->output)) continue;
        const TapeHook copy = *hook;
        TRY(grad ? run_hook(e, &copy, grad) : run_after(e, &copy, now->target));
    }
    return ST_OK;
}

/* Hooks of a node's result or of a leaf; grad NULL: those of a leaf that come after its .grad. */
static Status run_hooks(Engine *e, const TapeEdge *at, sn_tensor **grad) {
    int n = 0, k = 0;
    int64_t few[FEW_HOOKS];
    for (const TapeHook *hook = tape_hooks(at); hook; hook = hook->next) n++;
    int64_t *const ids = SMALL_ARRAY(few, n);
    if (!ids) return ST_MEMORY;
    SMALL_ARRAY_OWNER kept = {few, ids};
    for (const TapeHook *hook = tape_hooks(at); hook; hook = hook->next) ids[k++] = hook->id;
    return run_each(e, at, ids, n, grad);
}

/* nodes --------------------------------------------------------------------------------------- */

static Status used_twice(const TapeNode *node) {
    Text name = {0};
    node->class->name(node, &name);
    const Status status = tape_used_twice(text_str(&name));
    text_free(&name);
    return status;
}

/* The arrays of one backward call: on the stack for ordinary nodes. */
typedef struct CallArrays {
    bool small_needs[SMALL * 2];
    sn_tensor *small_in[SMALL * 2], *small_partial[SMALL * 2];
    bool *needs;
    sn_tensor **grad_in, **partial;
    void *block;
} CallArrays;

static void arrays_end(CallArrays *a) { mem_free(a->block); }

static Status arrays_begin(CallArrays *a, int n) {
    a->block = NULL;
    a->needs = a->small_needs, a->grad_in = a->small_in, a->partial = a->small_partial;
    if (n > SMALL * 2) {
        if (!(a->block = mem_alloc((size_t)n * (2 * sizeof(sn_tensor *) + sizeof(bool))))) return ST_MEMORY;
        a->grad_in = a->block, a->partial = a->grad_in + n, a->needs = (bool *)(a->partial + n);
    }
    memset(a->grad_in, 0, (size_t)n * sizeof *a->grad_in);
    memset(a->partial, 0, (size_t)n * sizeof *a->partial);
    return ST_OK;
}

static Status find_partials(Engine *e, const TapeNode *node, CallArrays *a) {
    for (int i = 0; i < node->n_edges; i++) {
        if (!a->needs[i]) continue;
        const TapeEdge *const edge = &node->edges[i];
        const TapeEntry *const entry = entry_of_edge(e, edge);
        if (!entry) return ST_MEMORY;
        const TapeEdge *const now = tape_edge_now(edge);
        a->partial[i] = entry->grads[now->leaf ? 0 : now->output];
    }
    return ST_OK;
}

static Status call_backward(Engine *e, TapeEntry *entry, CallArrays *a) {
    TapeNode *const node = entry->node;
    bool any = false;
    for (int i = 0; i < node->n_edges; i++) any |= a->needs[i] = edge_wanted(e, &node->edges[i]);
    if (!any) return ST_OK;
    if (node->class->continues) TRY(find_partials(e, node, a));
    TapeBackward call = {.grad_out = entry->grads,
                         .needs = a->needs,
                         .partial = a->partial,
                         .grad_in = a->grad_in,
                         .create_graph = e->create,
                         .retain = e->retain,
                         .hidden = !e->create && !(e->run->flags & TAPE_level)};
    TRY(node->class->backward(node, &call));
    for (int i = 0; i < node->n_edges; i++)
        if (a->needs[i] && a->grad_in[i]) TRY(deliver(e, &node->edges[i], a->grad_in[i], node->class->continues));
    return ST_OK;
}

/* What the entry holds is of no more use once its node has run. */
static inline void release_grads(TapeEntry *entry) {
    for (int i = 0; i < entry->node->n_outs; i++) {
        tensor_release(entry->grads[i]);
        entry->grads[i] = NULL;
    }
}

static void collect_xs(Engine *e, const TapeEntry *entry) {
    for (int i = 0; i < e->run->n_xs; i++) {
        const AutogradMeta *const meta = e->run->xs[i]->autograd;
        const TapeEdge edge = {.target = meta ? meta->node : NULL, .output = meta ? meta->output : 0};
        const TapeEdge *const now = tape_edge_now(&edge);
        if (now->target != entry->node || !entry->grads[now->output]) continue;
        tensor_retain(entry->grads[now->output]);
        e->found[i] = entry->grads[now->output];
    }
}

static Status enter_streams(Engine *e, const TapeEntry *entry) {
    e->switched = true;
    if (entry->node->streams != e->state->streams) TRY(stream_uses_join(e->state, entry->node->streams));
    for (int i = 0; i < entry->node->n_outs; i++) TRY(record_use(e, entry->grads[i]));
    return ST_OK;
}

static COLD Status deliver_all(Engine *e, const TapeNode *node, WorkerJob *job) {
    TRY(worker_finish(job));
    for (int i = 0; i < node->n_edges; i++) {
        sn_tensor *const grad = worker_result(job, i);
        if (grad) TRY(deliver(e, &node->edges[i], grad, false));
    }
    return error_pending();
}

/* The turn of a node that a worker has run, or is running. */
static COLD Status finish_worker(Engine *e, TapeEntry *entry) {
    TapeNode *const node = entry->node;
    if (UNLIKELY(e->selective)) collect_xs(e, entry);
    TRY(scope_push(e->state, false));
    Status status = deliver_all(e, node, entry->worker);
    scope_pop(e->state);
    worker_job_free(entry->worker);
    entry->worker = NULL;
    release_grads(entry);
    if (!e->retain && status == ST_OK && node->saves) tape_node_drop(node);
    engine_workers_passed(e->workers, node);
    return status;
}

/* No worker has come to it: it runs like any other. */
static inline bool is_on_worker(TapeEntry *entry) {
    if (LIKELY(!entry->worker) || !worker_cancel(entry->worker)) return entry->worker != NULL;
    worker_job_free(entry->worker);
    entry->worker = NULL;
    return false;
}

/* In anomaly mode: the call of the forward whose node it was. */
static COLD void name_cause(const sn_state *state, const TapeNode *node) {
    const void *const site = tape_site_of(state, node);
    if (!site) return;
    Text name = {0};
    node->class->name(node, &name);
    error_add_cause(text_str(&name), site);
    text_free(&name);
}

static COLD Status call_profiled(Engine *e, TapeEntry *entry, CallArrays *arrays) {
    Text name = {0};
    entry->node->class->name(entry->node, &name);
    __attribute__((cleanup(profile_end))) ProfileSpan span = profile_begin_named(PROFILE_rule, text_str(&name), NULL);
    text_free(&name);
    return call_backward(e, entry, arrays);
}

static Status run_node(Engine *e, TapeEntry *entry) {
    TapeNode *const node = entry->node;
    if (UNLIKELY(is_on_worker(entry))) return finish_worker(e, entry);
    if (UNLIKELY(e->workers != NULL)) engine_workers_log(node, "begins in its turn");
    if (UNLIKELY(e->switched || node->streams != e->state->streams)) TRY(enter_streams(e, entry));
    for (int i = 0; UNLIKELY(node->hooks != NULL) && i < node->n_outs; i++)
        TRY(run_hooks(e, &(TapeEdge){.target = node, .output = i}, &entry->grads[i]));
    if (UNLIKELY(e->selective)) collect_xs(e, entry);
    if (UNLIKELY(node->dropped && node->saves)) return used_twice(node);
    __attribute__((cleanup(arrays_end))) CallArrays arrays; /* also where a callback does not return */
    TRY(arrays_begin(&arrays, node->n_edges));
    Status status = scope_push(e->state, false);
    if (status == ST_OK) {
        status = profile_is_on() ? call_profiled(e, entry, &arrays) : call_backward(e, entry, &arrays);
        if (UNLIKELY(status != ST_OK)) name_cause(e->state, node);
        scope_pop(e->state);
    }
    release_grads(entry);
    if (!e->retain && status == ST_OK && node->saves) tape_node_drop(node);
    if (UNLIKELY(e->workers != NULL)) {
        engine_workers_log(node, "ends in its turn");
        engine_workers_passed(e->workers, node);
    }
    return status;
}

/* workers ------------------------------------------------------------------------------------- */

enum { LOOK_AT = 8 }; /* nodes that wait, the newest more or less */

static void count_run(Engine *e, const TapeEntry *current) {
    TapeNode **const waiting = e->create ? NULL : mem_alloc((size_t)(e->n_heap + 1) * sizeof *waiting);
    e->looked = true;
    if (e->create) return;
    if (!waiting) return error_clear();
    for (int i = 0; i < e->n_heap; i++) waiting[i] = e->heap[i]->node;
    waiting[e->n_heap] = current->node;
    e->workers = engine_workers_new(waiting, e->n_heap + 1);
    mem_free(waiting);
}

static void start_worker(Engine *e, TapeEntry *entry) {
    const TapeNode *const node = entry->node;
    CallArrays arrays;
    bool any = false;
    if (arrays_begin(&arrays, node->n_edges) != ST_OK) return error_clear();
    for (int i = 0; i < node->n_edges; i++) any |= arrays.needs[i] = edge_wanted(e, &node->edges[i]);
    if (any) entry->worker = worker_start(e->workers, entry->node, entry->grads, arrays.needs, e->retain);
    arrays_end(&arrays);
}

/* Beside the node whose turn it is: others that have all of their gradients. */
static COLD void look_for_work(Engine *e, const TapeEntry *current) {
    if (!e->looked) count_run(e, current);
    if (!e->workers || e->switched) return;
    for (int i = 0; i < e->n_heap && i < LOOK_AT && engine_workers_have_capacity(e->workers); i++)
        if (!e->heap[i]->worker && engine_workers_allow(e->workers, e->heap[i]->node, current->node))
            start_worker(e, e->heap[i]);
}

/* leaves -------------------------------------------------------------------------------------- */

/* The strides that .grad should have: the leaf's own where those are dense, else row-major. */
const Meta *tape_grad_meta(const sn_tensor *leaf) {
    const Meta *const meta = leaf->base.meta;
    if (meta->contiguous || meta_is_dense(NULL, meta->sizes, meta->strides, meta->rank))
        return meta_intern(meta->dtype, meta->device, meta->sizes, meta->strides, meta->rank, false);
    return meta_intern_contiguous(meta->dtype, meta->device, meta->sizes, meta->rank);
}

/* The first gradient of a leaf: taken over if nobody else sees it, else copied. */
static Status first_grad(Engine *e, sn_tensor *leaf, sn_tensor **sum) {
    const Meta *const meta = tape_grad_meta(leaf);
    if (!meta) return ST_MEMORY;
    if (sole(*sum) && (e->create || (*sum)->base.meta == meta)) {
        leaf->autograd->grad = *sum;
        *sum = NULL;
        return ST_OK;
    }
    sn_tensor *const grad = tape_clone(*sum, meta);
    if (!grad) return error_pending();
    tape_own(e->state, grad);
    leaf->autograd->grad = grad;
    return ST_OK;
}

static Status add_to_grad(Engine *e, sn_tensor *leaf, sn_tensor *sum) {
    sn_tensor **const grad = &leaf->autograd->grad;
    const Arg args[] = {V(&(*grad)->base), V(&sum->base), A_INT(1)};
    sn_tensor *total;
    __attribute__((cleanup(context_leave), unused)) const ContextSaved saved = context_enter(e->state, CONTEXT_parts);
    TRY(dispatch(OP_ROW(add_Tensor), e->create ? FORM_functional : FORM_inplace, args, NULL, &total));
    return e->create ? replace(e, grad, total) : ST_OK;
}

static Status finish_leaf(Engine *e, TapeEntry *entry) {
    sn_tensor *const leaf = entry->leaf;
    if (!entry->one) return ST_OK;
    TRY(record_use(e, entry->one));
    if (UNLIKELY(leaf->autograd->hooks != NULL))
        TRY(run_hooks(e, &(TapeEdge){.target = leaf, .leaf = true}, &entry->one));
    if (e->selective) {
        for (int i = 0; i < e->run->n_xs; i++) {
            if (e->run->xs[i] != leaf) continue;
            tensor_retain(entry->one);
            e->found[i] = entry->one;
        }
        return ST_OK;
    }
    TRY(scope_push(e->state, false));
    const Status status = leaf->autograd->grad ? add_to_grad(e, leaf, entry->one) : first_grad(e, leaf, &entry->one);
    scope_pop(e->state);
    if (LIKELY(!leaf->autograd->hooks) || status != ST_OK) return status;
    return run_hooks(e, &(TapeEdge){.target = leaf, .leaf = true}, NULL);
}

static Status finish_leaves(Engine *e) {
    for (EntryBlock *block = e->blocks; block; block = block->next)
        for (int i = 0; i < block->n; i++)
            if (block->entries[i].leaf) TRY(finish_leaf(e, &block->entries[i]));
    return ST_OK;
}

/* what leads to xs ---------------------------------------------------------------------------- */

/* Entries for all that the roots reach, breadth first; blocks are the queue. */
static Status reach_all(Engine *e) {
    for (EntryBlock *block = e->blocks; block; block = block->next)
        for (int i = 0; i < block->n; i++) {
            const TapeNode *const node = block->entries[i].stop ? NULL : block->entries[i].node;
            for (int k = 0; node && k < node->n_edges; k++)
                if (node->edges[k].target && !entry_of_edge(e, &node->edges[k])) return ST_MEMORY;
        }
    return ST_OK;
}

static int by_sequence(const void *a, const void *b) {
    const TapeNode *const x = (*(TapeEntry *const *)a)->node, *const y = (*(TapeEntry *const *)b)->node;
    return x->sequence < y->sequence ? -1 : x->sequence > y->sequence;
}

/* The entry of x's gradient, and the gradient's place there; NULL: none. */
static TapeEntry *entry_of_x(const Engine *e, const sn_tensor *x, int *output) {
    AutogradMeta *const meta = x->autograd;
    *output = 0;
    if (!meta || !meta->node) return meta ? entry_find(e, &meta->slot) : NULL;
    const TapeEdge edge = {.target = meta->node, .output = meta->output};
    const TapeEdge *const now = tape_edge_now(&edge);
    if (!now->leaf) *output = now->output;
    return entry_find(e, slot_of(now));
}

static void mark_x(Engine *e, sn_tensor *x) {
    int output;
    TapeEntry *const entry = entry_of_x(e, x, &output);
    if (entry) entry->needed = true;
}

/* Oldest first, a node is needed if one of its edges leads to something needed. */
static Status mark_needed(Engine *e) {
    TRY(reach_all(e));
    for (int i = 0; i < e->run->n_xs; i++) mark_x(e, e->run->xs[i]);
    int n = 0;
    for (EntryBlock *block = e->blocks; block; block = block->next) n += block->n;
    TapeEntry **const nodes = mem_alloc((size_t)n * sizeof *nodes);
    if (!nodes) return ST_MEMORY;
    n = 0;
    for (EntryBlock *block = e->blocks; block; block = block->next)
        for (int i = 0; i < block->n; i++)
            if (block->entries[i].node && !block->entries[i].stop) nodes[n++] = &block->entries[i];
    qsort(nodes, (size_t)n, sizeof *nodes, by_sequence);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < nodes[i]->node->n_edges; k++) nodes[i]->needed |= edge_wanted(e, &nodes[i]->node->edges[k]);
    mem_free(nodes);
    return ST_OK;
}

/* roots --------------------------------------------------------------------------------------- */

static sn_tensor *one_like(const sn_tensor *root) {
    const Meta *meta = root->base.meta;
    if (!(meta = meta_intern_contiguous(meta->dtype, meta->device, meta->sizes, meta->rank))) return NULL;
    sn_tensor *const one = tensor_is_fake(root) ? tensor_fake(meta) : tensor_new(meta);
    return one && tape_fill(one, 1) == ST_OK ? one : NULL;
}

static Status check_root(sn_tensor *root, sn_tensor *grad, int i) {
    TRY(tensor_valid(root, "backward"));
    if (!tape_tracks(root))
        return error_raise(ST_STATE, "root %d requires no gradients: no op recorded how it was made", i);
    const Meta *const meta = root->base.meta;
    if (!grad)
        return meta->numel == 1 ? ST_OK
                                : error_raise(ST_ARGUMENT,
                                              "a root of %lld elements needs a gradient to start from; "
                                              "only one of one element starts from 1",
                                              (long long)meta->numel);
    if (!meta_same_sizes(meta, grad->base.meta)) {
        Text text = {0};
        meta_print(NULL, &text, grad->base.meta);
        text_puts(&text, " for ");
        meta_print(NULL, &text, meta);
        error_raise(ST_SHAPE, "gradient %d does not have the sizes of its tensor: %s", i, text_str(&text));
        text_free(&text);
        return ST_SHAPE;
    }
    if (meta->dtype != grad->base.meta->dtype)
        return error_raise(ST_DTYPE, "gradient %d is %s, its tensor %s", i, dtype_name(grad->base.meta->dtype),
                           dtype_name(meta->dtype));
    return ST_OK;
}

static Status seed_root(Engine *e, int i) {
    sn_tensor *const root = e->run->roots[i];
    sn_tensor *grad = e->run->grads ? e->run->grads[i] : NULL;
    TRY(check_root(root, grad, i));
    TapeEdge edge;
    TRY(tape_edge_set(&edge, root));
    Status status = ST_OK;
    if (!e->selective || edge_wanted(e, &edge)) {
        status = grad || (grad = one_like(root)) ? deliver(e, &edge, grad, false) : error_pending();
    }
    tape_edge_drop(&edge);
    return status;
}

static Status enter_root(Engine *e, int i) {
    sn_tensor *const root = e->run->roots[i];
    TRY(check_root(root, e->run->grads ? e->run->grads[i] : NULL, i));
    if (root->autograd->view) TRY(tape_view_refresh(root));
    const AutogradMeta *const meta = root->autograd;
    const TapeEdge edge = {.target = meta->node, .output = meta->output};
    return (meta->node ? entry_of_edge(e, &edge) : entry_of_leaf(e, root)) ? ST_OK : ST_MEMORY;
}

/* TAPE_stop: xs are where the run ends. */
static Status stop_at(Engine *e, sn_tensor *x) {
    TapeEdge edge;
    TRY(tape_edge_set(&edge, x));
    TapeEntry *const entry = entry_of_edge(e, &edge);
    if (entry) entry->stop = entry->needed = true;
    tape_edge_drop(&edge);
    return entry ? ST_OK : ST_MEMORY;
}

static void collect_stops(Engine *e) {
    for (int i = 0; i < e->run->n_xs; i++) {
        int output;
        const TapeEntry *const entry = entry_of_x(e, e->run->xs[i], &output);
        e->found[i] = entry->grads[output];
        if (e->found[i]) tensor_retain(e->found[i]);
    }
}

/* An x among several results of a compiled segment: what leads to it inside shows on eager's nodes only. */
static Status open_segment(const sn_tensor *x) {
    TapeNode *const node = x->autograd->node;
    if (!node || node->instead || !node->class->expand || node->n_outs == 1) return ST_OK;
    return node->class->expand(node);
}

static Status seed(Engine *e) {
    for (int i = 0; e->selective && i < e->run->n_xs; i++) {
        sn_tensor *const x = e->run->xs[i];
        TRY(tensor_valid(x, "gradients"));
        if (!tape_tracks(x)) return error_raise(ST_STATE, "tensor %d of xs does not require gradients", i);
        if (x->autograd->view) TRY(tape_view_refresh(x));
        TRY(e->run->flags & TAPE_stop ? stop_at(e, x) : open_segment(x));
    }
    for (int i = 0; e->selective && i < e->run->n_roots; i++) TRY(enter_root(e, i));
    if (e->selective) TRY(mark_needed(e));
    TRY(scope_push(e->state, false));
    Status status = ST_OK;
    for (int i = 0; i < e->run->n_roots && status == ST_OK; i++) status = seed_root(e, i);
    scope_pop(e->state);
    return status;
}

/* a run --------------------------------------------------------------------------------------- */

static Status run_nodes(Engine *e) {
    TRY(seed(e));
    while (e->n_heap) {
        TapeEntry *const entry = heap_pop(e);
        if (UNLIKELY(e->n_heap && worker_is_worth(e->heap[0]->node))) look_for_work(e, entry);
        TRY(run_node(e, entry));
    }
    if (UNLIKELY(e->switched)) TRY(stream_uses_join(e->state, e->streams));
    if (!(e->run->flags & TAPE_stop)) return finish_leaves(e);
    collect_stops(e);
    return ST_OK;
}

static void engine_close(Engine *e) {
    for (EntryBlock *block = e->blocks; block;) {
        EntryBlock *const next = block->next;
        for (int i = 0; i < block->n; i++) entry_close(e, &block->entries[i]);
        mem_free(block);
        block = next;
    }
    if (UNLIKELY(e->workers != NULL)) engine_workers_free(e->workers);
    map_free(&e->elsewhere);
    mem_free(e->heap);
    stream_uses_release(e->streams);
}

/* Gives an owned gradient to the scope. One that a scope holds already (the caller's own, or one
 * asked for twice) gets another handle. */
static sn_tensor *adopt_gradient(Engine *e, sn_tensor *t) {
    if (!tensor_in_scope(t)) return scope_adopt(e->state, t) ? t : NULL;
    sn_tensor *alias = tensor_alias(t);
    if (alias && !scope_adopt(e->state, alias)) alias = NULL;
    const AutogradMeta *const meta = t->autograd;
    if (alias && meta && meta->node && tape_attach(alias, meta->node, meta->output) != ST_OK) alias = NULL;
    tensor_release(t);
    return alias;
}

/* What nothing leads to is an error unless that is allowed. */
static Status hand_out_gradients(Engine *e, Status status) {
    for (int i = 0; status == ST_OK && i < e->run->n_xs; i++)
        if (!e->found[i] && !(e->run->flags & TAPE_allow_unused))
            status = error_raise(
                ST_ARGUMENT, "nothing leads from the roots to tensor %d of xs; pass SN_ALLOW_UNUSED to get NULL", i);
    for (int i = 0; i < e->run->n_xs; i++) {
        e->run->out[i] = NULL;
        if (status == ST_OK) status = record_use(e, e->found[i]);
        if (status == ST_OK && e->found[i])
            e->run->out[i] = adopt_gradient(e, e->found[i]);
        else
            tensor_release(e->found[i]);
    }
    return status == ST_OK ? error_pending() : status;
}

/* For who keeps something from one leaf's hook to the next (data_parallel.c): it is out of date if the run failed. */
static void count_end(sn_state *state, bool failed) {
    if (--state->tape.n_backwards == 0) state->tape.failed_backwards += failed;
}

static void engine_free(Engine *e) {
    mem_free(e->found);
    mem_free(e);
}

/* A hook or a user's backward did not return: what the run has goes, and its places in nodes. */
static void engine_left(InProgress *run) {
    Engine *const e = (Engine *)run;
    if (!e->selective) count_end(e->state, true);
    engine_close(e);
    for (int i = 0; e->found && i < e->n_found; i++) tensor_release(e->found[i]);
    engine_free(e);
}

/* On the heap, so that it outlives a jump through its run. */
static Engine *engine_new(const TapeRun *run, sn_state *state) {
    Engine *const e = mem_zero(sizeof *e);
    if (!e) return NULL;
    e->run = run;
    e->state = state;
    e->create = run->flags & TAPE_create;
    e->retain = e->create || run->flags & TAPE_retain;
    e->selective = run->xs != NULL;
    e->n_found = run->n_xs;
    if (e->selective && !(e->found = mem_zero((size_t)(run->n_xs + 1) * sizeof *e->found))) {
        mem_free(e);
        return NULL;
    }
    e->streams = stream_uses_retain(state->streams);
    return e;
}

static Status run_engine(Engine *e) {
    TRY(scope_push(e->state, false));
    if (!(e->run->flags & TAPE_level)) state_grad_mode_set(e->state, e->create ? SN_GRAD_ON : SN_GRAD_OFF);
    const Status status = run_nodes(e);
    scope_pop(e->state);
    return status;
}

static Status make_foreign(const Tracer *own, sn_tensor *const *ts, int n) {
    for (int i = 0; ts && i < n; i++) {
        const struct Placeholder *const p = ts[i] ? ts[i]->placeholder : NULL;
        if (p && p->tracer != own) TRY(tracer_flush_foreign(ts[i]));
    }
    return ST_OK;
}

/* By what records it, once what others have to give is there; or it failed. */
static bool taken_over(const sn_state *state, const TapeRun *run, Status *status) {
    Tracer *const recording = tracer_recording(state);
    *status = make_foreign(recording, run->roots, run->n_roots);
    if (*status == ST_OK) *status = make_foreign(recording, run->xs, run->n_xs);
    if (*status == ST_OK) *status = make_foreign(recording, run->grads, run->n_roots);
    if (*status != ST_OK) return true;
    return recording && recording->is->backward(recording, run, status);
}

Status tape_run(const TapeRun *run) {
    TRY(error_pending());
    Status status = ST_OK;
    sn_state *const state = state_get();
    if (!(run->flags & TAPE_level) && taken_over(state, run, &status)) return status;
    Engine *const e = engine_new(run, state);
    if (!e) return ST_MEMORY;
    in_progress_begin(state, &e->in_progress, engine_left);
    if (!e->selective) state->tape.n_backwards++;
    __attribute__((cleanup(profile_end))) ProfileSpan span =
        profile_is_on() ? profile_begin(PROFILE_rule, "backward", NULL) : (ProfileSpan){0};
    status = run_engine(e);
    in_progress_end(state, &e->in_progress);
    if (!e->selective) count_end(state, status != ST_OK);
    engine_close(e);
    if (e->selective) status = hand_out_gradients(e, status);
    engine_free(e);
    return status;
}

/* Entries for all that the tensors reach. */
static Status reach_from(Engine *e, sn_tensor *const *roots, int n) {
    for (int i = 0; i < n; i++) {
        TapeEdge edge;
        if (!roots[i]) continue;
        TRY(tape_edge_set(&edge, roots[i]));
        if (!edge.target) continue;
        const bool entered = entry_of_edge(e, &edge) != NULL;
        tape_edge_drop(&edge);
        if (!entered) return ST_MEMORY;
    }
    return reach_all(e);
}

int tape_leaves(sn_tensor *const *roots, int n_roots, sn_tensor **leaves, int capacity) {
    Engine e = {.state = state_get()};
    int n = 0;
    const Status status = reach_from(&e, roots, n_roots);
    for (EntryBlock *block = e.blocks; status == ST_OK && block; block = block->next)
        for (int i = 0; i < block->n; i++)
            if (block->entries[i].leaf && n++ < capacity) leaves[n - 1] = block->entries[i].leaf;
    engine_close(&e);
    return status == ST_OK ? n : -1;
}

Status tape_use_up(sn_tensor *const *roots, int n) {
    Engine e = {.state = state_get()};
    const Status status = reach_from(&e, roots, n);
    for (EntryBlock *block = e.blocks; status == ST_OK && block; block = block->next)
        for (int i = 0; i < block->n; i++)
            if (block->entries[i].node && block->entries[i].node->saves) tape_node_drop(block->entries[i].node);
    engine_close(&e);
    return status;
}
