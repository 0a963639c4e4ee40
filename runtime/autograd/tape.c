/* tape.c: autograd metadata and tape nodes: making, linking, freeing.
 *
 * A node is one block:  | TapeNode | edges | metas of arguments | out_meta | extra |  from the thread's free lists, in
 * classes of 64 bytes. Graphs may be millions of nodes deep, so freeing goes through a list, never
 * through recursion. */
#include "runtime/autograd/tape.h"

#include "runtime/base/alloc.h"
#include "runtime/device/stream.h"

enum { CLASS_BYTES = 64, KEEP = 4096 };

static _Atomic int64_t hook_ids;

/* blocks -------------------------------------------------------------------------------------- */

enum { TAPE_CLASSES = 16 };
#ifdef SINTER_PLAIN_MALLOC
enum { KEEPS_FREE = false }; /* a tool that watches memory sees each block */
#else
enum { KEEPS_FREE = true };
#endif
typedef struct TapeBlocks {
    StateExtension part; /* of the thread's state, with which they end */
    struct {
        void *first; /* linked through their first word */
        int n;
    } of[TAPE_CLASSES];
} TapeBlocks;

static void end_blocks(sn_state *state, StateExtension *part) {
    TapeBlocks *const blocks = (TapeBlocks *)part;
    for (int class = 0; class < TAPE_CLASSES; class ++)
        for (void *block = blocks->of[class].first, *next; block; block = next) {
            next = *(void **)block;
            mem_free(block);
        }
    mem_free(blocks);
    state->tape.blocks = NULL;
}

static COLD void *fresh_block(size_t bytes, size_t wanted) {
    return mem_alloc(wanted < TAPE_CLASSES ? wanted * CLASS_BYTES : bytes);
}

void *tape_block_alloc(size_t bytes, uint16_t *class) {
    const size_t wanted = (bytes + CLASS_BYTES - 1) / CLASS_BYTES;
    *class = wanted < TAPE_CLASSES ? (uint16_t)wanted : TAPE_CLASSES;
    TapeBlocks *const blocks = LIKELY(state_current != NULL) ? state_current->tape.blocks : NULL;
    if (UNLIKELY(wanted >= TAPE_CLASSES || !blocks)) return fresh_block(bytes, wanted);
    void *const block = blocks->of[wanted].first;
    if (UNLIKELY(!block)) return fresh_block(bytes, wanted);
    blocks->of[wanted].first = *(void **)block;
    blocks->of[wanted].n--;
    return block;
}

static inline bool keep_block(TapeBlocks *blocks, void *block, uint16_t class) {
    if (UNLIKELY(blocks->of[class].n >= KEEP)) return false;
    *(void **)block = blocks->of[class].first;
    blocks->of[class].first = block;
    blocks->of[class].n++;
    return true;
}

/* The lists are made with the thread's first free block; where memory is out for that, it goes. */
static COLD void cache_first_block(void *block, uint16_t class) {
    sn_state *const state = state_current;
    if (KEEPS_FREE && class < TAPE_CLASSES && state && !state->tape.blocks &&
        (state->tape.blocks = mem_zero(sizeof(TapeBlocks)))) {
        state->tape.blocks->part.end = end_blocks;
        state_extension_add(state, &state->tape.blocks->part);
        keep_block(state->tape.blocks, block, class);
        return;
    }
    mem_free(block);
}

void tape_block_free(void *block, uint16_t class) {
    TapeBlocks *const blocks = LIKELY(state_current != NULL) ? state_current->tape.blocks : NULL;
    if (UNLIKELY(class >= TAPE_CLASSES || !blocks) || !keep_block(blocks, block, class))
        cache_first_block(block, class);
}

/* nodes --------------------------------------------------------------------------------------- */

TapeNode *tape_node_new(const TapeClass *class, int n_edges, int n_args, int n_outs, size_t extra) {
    const size_t metas = (size_t)(n_args + n_outs) * sizeof(Meta *);
    const size_t head = sizeof(TapeNode) + (size_t)n_edges * sizeof(TapeEdge) + metas;
    uint16_t block;
    char *const memory = tape_block_alloc(head + extra, &block);
    if (!memory) return NULL;
    memset(memory, 0, head);
    TapeNode *const node = (TapeNode *)memory;
    atomic_init(&node->refs, 1);
    node->block = block;
    node->class = class;
    node->n_edges = n_edges;
    node->n_outs = n_outs;
    node->edges = (TapeEdge *)(memory + sizeof(TapeNode));
    node->out_meta = tape_arg_metas(node) + n_args;
    node->extra = node->out_meta + n_outs;
    sn_state *const state = state_get();
    node->sequence = ++state->tape.sequence;
    node->streams = stream_uses_retain(state->streams);
    node->state = state->id;
    tape_live_add(node);
    return node;
}

void tape_node_retain(TapeNode *node) { atomic_fetch_add_explicit(&node->refs, 1, memory_order_relaxed); }

void tape_node_drop(TapeNode *node) {
    if (node->dropped) return;
    node->dropped = true;
    if (node->class->drop) node->class->drop(node);
}

static bool last_reference(TapeNode *node) {
    if (atomic_load_explicit(&node->refs, memory_order_acquire) == 1) return true;
    return atomic_fetch_sub_explicit(&node->refs, 1, memory_order_acq_rel) == 1;
}

static void free_hooks(TapeHook *hook) {
    while (hook) {
        TapeHook *const next = hook->next;
        mem_free(hook);
        hook = next;
    }
}

void tape_edge_drop(const TapeEdge *edge) {
    if (edge->leaf)
        tensor_release(edge->target);
    else
        tape_node_release(edge->target);
}

static COLD void release_metas(const TapeNode *node) {
    for (const Meta **at = tape_arg_metas(node); at < node->out_meta + node->n_outs; at++)
        if (*at) meta_release(*at);
}

/* Runs closure_free of the program's. */
static void begin_end(TapeNode *node) {
    node->dies = true;
    tape_live_remove(node);
    tape_node_drop(node);
}

static void free_one(TapeNode *node) {
    for (int i = 0; i < node->n_edges; i++) tape_edge_drop(&node->edges[i]);
    if (UNLIKELY(node->counts)) release_metas(node);
    for (int i = 0; node->instead && i < node->n_outs; i++) tape_edge_drop(&node->instead[i]);
    mem_free(node->instead);
    free_hooks(node->hooks);
    stream_uses_release(node->streams);
    tape_block_free(node, node->block);
}

/* A release below one of this thread adds to its list instead of recursing. A closure_free that leaves by a jump leaves
 * the rest, its own node's too, to the next release. */
void tape_node_release(TapeNode *node) {
    if (!node || !last_reference(node)) return;
    sn_state *const state = state_get();
    node->dead = state->tape.dead;
    state->tape.dead = node;
    if (state->tape_freeing) return;
    state->tape_freeing = true;
    while (state->tape.dead) {
        TapeNode *const next = state->tape.dead;
        if (!next->dies) {
            begin_end(next);
            continue; /* others may be before it now */
        }
        state->tape.dead = next->dead;
        free_one(next);
    }
    state->tape_freeing = false;
}

Status tape_edge_set(TapeEdge *edge, sn_tensor *t) {
    *edge = (TapeEdge){0};
    if (!t || !tape_tracks(t)) return ST_OK;
    if (UNLIKELY(t->autograd->view != NULL)) TRY(tape_view_refresh(t));
    const AutogradMeta *const meta = t->autograd;
    if (meta->node) {
        tape_node_retain(meta->node);
        *edge = (TapeEdge){.target = meta->node, .output = meta->output};
    } else {
        tensor_retain(t);
        *edge = (TapeEdge){.target = t, .leaf = true};
    }
    return ST_OK;
}

Status tape_node_link(TapeNode *node, int i, sn_tensor *t) {
    TapeEdge *const edge = &node->edges[i];
    TRY(tape_edge_set(edge, t));
    const TapeNode *const target = edge->leaf ? NULL : edge->target;
    if (UNLIKELY(target && target->sequence > node->sequence)) node->sequence = ++state_get()->tape.sequence;
    return ST_OK;
}

Status tape_attach(sn_tensor *t, TapeNode *node, int output) {
    AutogradMeta *const meta = tape_meta(t);
    if (UNLIKELY(!meta)) return ST_MEMORY;
    TapeNode *const before = meta->node;
    tape_node_retain(node);
    meta->node = node;
    meta->output = output;
    if (!node->out_meta[output]) /* a copy that stands for the result may be laid out otherwise */
        tape_record_meta(node, &node->out_meta[output], t->base.meta);
    tape_node_release(before);
    return ST_OK;
}

/* tensors ------------------------------------------------------------------------------------- */

static void free_meta(AutogradMeta *meta) {
    TapeNode *const node = meta->node;
    TapeView *const view = meta->view;
    sn_tensor *const base = meta->base;
    tensor_release(meta->grad);
    if (UNLIKELY(meta->hooks != NULL)) free_hooks(meta->hooks);
    if (UNLIKELY(meta->marks != NULL)) mem_free(meta->marks);
    tape_block_free(meta, (sizeof *meta + CLASS_BYTES - 1) / CLASS_BYTES);
    if (view) tape_view_release(view);
    tensor_release(base);
    tape_node_release(node);
}

static const HistoryClass history_of_tape = {.free = free_meta, .end_view = tape_view_end};

AutogradMeta *tape_meta(sn_tensor *t) {
    if (t->autograd) return t->autograd;
    uint16_t class;
    AutogradMeta *const meta = tape_block_alloc(sizeof *meta, &class);
    if (meta) *meta = (AutogradMeta){.head.class = &history_of_tape};
    return t->autograd = meta;
}

Status tape_requires_grad(sn_tensor *t, bool on) {
    if (on && !dtype_is_float(t->base.meta->dtype))
        return error_raise(ST_DTYPE, "sn_requires_grad_: gradients need a float dtype, the tensor is %s",
                           dtype_name(t->base.meta->dtype));
    if (!on && !tape_is_leaf(t))
        return error_raise(ST_STATE, "sn_requires_grad_: the result of an op can't be switched "
                                     "off; sn_detach gives a tensor without history");
    if (on && (t->flags & TF_inference) && state_get()->grad_mode != SN_INFERENCE)
        return error_raise(ST_STATE, "sn_requires_grad_: the tensor was made in inference mode and has no "
                                     "version to check; sn_clone it first");
    if (!on && !t->autograd) return ST_OK;
    AutogradMeta *const meta = tape_meta(t);
    if (!meta) return ST_MEMORY;
    if (!meta->node) meta->requires_grad = on;
    return ST_OK;
}

sn_tensor *tape_grad(const sn_tensor *t) { return t->autograd ? t->autograd->grad : NULL; }

Status tape_grad_set(sn_tensor *t, sn_tensor *grad) {
    if (!grad && !t->autograd) return ST_OK;
    if (grad) {
        const Meta *const a = t->base.meta, *const b = grad->base.meta;
        if (t == grad) return error_raise(ST_ARGUMENT, "sn_grad_set: a tensor can't be its own gradient");
        if (a->dtype != b->dtype || a->device != b->device)
            return error_raise(ST_DTYPE,
                               "sn_grad_set: the gradient of a tensor of %s must be %s on its device, "
                               "not %s",
                               dtype_name(a->dtype), dtype_name(a->dtype), dtype_name(b->dtype));
        if (!meta_same_sizes(a, b))
            return error_raise(ST_SHAPE, "sn_grad_set: the gradient must have the sizes of its tensor");
        tensor_retain(grad);
    }
    if (!tape_meta(t)) {
        tensor_release(grad);
        return ST_MEMORY;
    }
    sn_tensor *const before = t->autograd->grad;
    t->autograd->grad = grad;
    tensor_release(before);
    return ST_OK;
}

void tape_grad_replace(sn_tensor *t, sn_tensor *grad) {
    sn_tensor *const before = t->autograd->grad;
    if (grad) tensor_retain(grad);
    t->autograd->grad = grad;
    tensor_release(before);
}

static void append_hook(TapeHook **at, TapeHook *hook) {
    while (*at) at = &(*at)->next;
    *at = hook;
    hook->next = NULL;
}

/* Hooks of a tensor with history belong to its node (ops may outlive the handle). */
static TapeHook **hooks_at(const TapeEdge *edge) {
    return edge->leaf ? &((sn_tensor *)edge->target)->autograd->hooks : &((TapeNode *)edge->target)->hooks;
}

const TapeHook *tape_hooks(const TapeEdge *edge) { return *hooks_at(edge); }

static TapeHook **hooks_of(const AutogradMeta *meta, int *output) {
    *output = 0;
    if (!meta->node) return &((AutogradMeta *)meta)->hooks;
    const TapeEdge edge = {.target = meta->node, .output = meta->output};
    const TapeEdge *const now = tape_edge_now(&edge);
    *output = now->output;
    return hooks_at(now);
}

Status tape_node_expand(TapeNode *node, const TapeEdge *now) {
    if (!(node->instead = mem_alloc((size_t)node->n_outs * sizeof *now))) return ST_MEMORY;
    memcpy(node->instead, now, (size_t)node->n_outs * sizeof *now);
    for (TapeHook *hook = node->hooks, *next; hook; hook = next) {
        next = hook->next;
        const TapeEdge *const to = &node->instead[hook->output];
        hook->output = to->output;
        if (to->target)
            append_hook(hooks_at(to), hook);
        else
            mem_free(hook);
    }
    node->hooks = NULL;
    return ST_OK;
}

int64_t tape_hooks_added(void) { return atomic_load_explicit(&hook_ids, memory_order_relaxed); }

int64_t tape_hook_add(sn_tensor *t, bool after, sn_body body, void *closure) {
    if (after ? !tape_is_wanted_leaf(t) : !tape_tracks(t)) {
        if (after)
            error_raise(ST_STATE, "sn_post_accumulate_hook_add: the tensor is no leaf that requires gradients");
        else
            error_raise(ST_STATE, "sn_hook_add: the tensor requires no gradients");
        return 0;
    }
    if (t->autograd->view && tape_view_refresh(t) != ST_OK) return 0;
    TapeHook *const hook = mem_alloc(sizeof *hook);
    if (!hook) return 0;
    int output;
    TapeHook **const hooks = hooks_of(t->autograd, &output);
    *hook = (TapeHook){
        .id = atomic_fetch_add(&hook_ids, 1) + 1, .output = output, .after = after, .body = body, .closure = closure};
    append_hook(hooks, hook);
    return hook->id;
}

void tape_hook_remove(sn_tensor *t, int64_t id) {
    if (!t->autograd) return;
    int output;
    for (TapeHook **at = hooks_of(t->autograd, &output); *at; at = &(*at)->next) {
        TapeHook *const hook = *at;
        if (hook->id != id) continue;
        *at = hook->next;
        mem_free(hook);
        return;
    }
}

/* saved tensors ------------------------------------------------------------------------------- */

Status tape_save_error(void) {
    return error_raise(ST_STATE, "Inference tensors cannot be saved for backward: they have no version; sn_clone it "
                                 "outside that mode first");
}

Status tape_save_check(const sn_tensor *t) { return LIKELY(!(t->flags & TF_inference)) ? ST_OK : tape_save_error(); }

sn_tensor *tape_kept(sn_tensor *t) {
    if (!tape_is_wanted_leaf(t)) return tensor_alias(t);
    tensor_retain(t);
    return t;
}

Status tape_save(TapeSaved *saved, sn_tensor *t) {
    TRY(tape_save_check(t));
    saved->tensor = tape_kept(t);
    saved->version = tensor_version(t);
    return LIKELY(saved->tensor != NULL) ? ST_OK : ST_MEMORY;
}

Status tape_saved_error(const Meta *meta, const char *node, uint32_t now, uint32_t expected) {
    Text text = {0};
    meta_print(NULL, &text, meta);
    const Status status = error_raise(ST_STATE,
                                      "%s needs the %s that it saved at version %u, but writes in "
                                      "place took it to version %u",
                                      node, text_str(&text), expected, now);
    text_free(&text);
    return status;
}

Status tape_saved_check(const TapeSaved *saved, const char *node) {
    const uint32_t now = tape_saved_version(saved);
    if (LIKELY(now == saved->version)) return ST_OK;
    return tape_saved_error(saved->tensor->base.meta, node, now, saved->version);
}

Status tape_used_twice(const char *node) {
    return error_raise(ST_STATE,
                       "%s: what it saved is gone since the first backward; pass "
                       "SN_RETAIN_GRAPH there to go twice",
                       node);
}
