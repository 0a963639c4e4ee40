/* trie.c: lookup and insertion, see trie.h. Children and metadata entries are singly linked lists
 * with the newest first, published by a release store: a reader sees a whole node or none. */
#include "runtime/capture/record/trie.h"

#include "runtime/base/hash.h"

enum { MAX_META_ENTRIES = 16 };

TrieNode *trie_root(Arena *arena) { return ARENA_NEW(arena, TrieNode); }

uint64_t trie_hash(const TraceOp *op) {
    uint64_t h = hash_mix((uint64_t)(uintptr_t)op->row,
                          (uint64_t)op->form << 9 | (uint64_t)op->mutates_metadata << 8 | op->modes);
    for (int i = 0; i < op->n_operands; i++) h = hash_mix(h, (uint64_t)(uint32_t)op->operands[i]);
    for (int i = 0; i < op->n_fixed; i++) h = hash_mix(h, (uint64_t)op->fixed[i]);
    if (op->region) h = hash_mix(h, (uint64_t)op->region);
    return hash_mix(h, (uint64_t)op->random << 32 | (uint32_t)op->n_numbers);
}

/* Lists here have a handful of items: loops, for memcmp costs more than they do. */
static inline bool same_words(const int64_t *a, const int64_t *b, int n) {
    for (int i = 0; i < n; i++)
        if (a[i] != b[i]) return false;
    return true;
}

static inline bool same_operands(const TraceOp *a, const TraceOp *b) {
    for (int i = 0; i < a->n_operands; i++)
        if (a->operands[i] != b->operands[i]) return false;
    return true;
}

static inline bool same_op(const TraceOp *a, const TraceOp *b) {
    return a->row == b->row && a->form == b->form && a->modes == b->modes &&
           a->mutates_metadata == b->mutates_metadata && a->region == b->region && a->random == b->random &&
           a->n_operands == b->n_operands && a->n_fixed == b->n_fixed && a->n_numbers == b->n_numbers &&
           same_operands(a, b) && same_words(a->fixed, b->fixed, a->n_fixed);
}

TrieNode *trie_find(const TrieNode *node, const TraceOp *op, uint64_t hash) {
    TrieNode *child = trie_newest(node);
    while (child && !(child->hash == hash && same_op(&child->op, op))) child = child->next;
    return child;
}

static const Arg *copy_args(Arena *arena, const TraceOp *op) {
    Arg *const args = arena_copy(arena, op->args, sizeof *args * (size_t)op->row->n_params);
    for (int i = 0; args && i < op->row->n_params; i++)
        if (args[i].kind == ARG_string && !(args[i].string = arena_strdup(arena, args[i].string))) return NULL;
    return args;
}

TrieNode *trie_add(Arena *arena, TrieNode *node, const TraceOp *op, uint64_t hash, int id) {
    TrieNode *const child = ARENA_NEW(arena, TrieNode);
    if (!child) return NULL;
    child->hash = hash;
    child->op = *op;
    child->manner = trie_manner(op->form, op->modes, op->mutates_metadata) | (op->region ? MANNER_in_region : 0);
    child->op.operands = arena_copy(arena, op->operands, sizeof *op->operands * (size_t)op->n_operands);
    child->op.fixed = arena_copy(arena, op->fixed, sizeof *op->fixed * (size_t)op->n_fixed);
    if (!child->op.operands || !child->op.fixed) return NULL;
    if (!(child->op.args = copy_args(arena, op))) return NULL;
    child->op.first_number = node->op.first_number + node->op.n_numbers;
    child->op.first_value = node->op.first_value + node->op.n_outs;
    child->parent = node;
    child->depth = node->depth + 1;
    child->id = id;
    child->next = atomic_load_explicit(&node->first_child, memory_order_relaxed);
    atomic_store_explicit(&node->first_child, child, memory_order_release);
    return child;
}

static inline bool same_metas(const Meta *const *a, const Meta *const *b, int n) {
    for (int i = 0; i < n; i++)
        if (a[i] != b[i]) return false;
    return true;
}

const MetaEntry *trie_metas(const TrieNode *node, const Meta *const *in, const int64_t *numbers) {
    const TraceOp *const op = &node->op;
    for (const MetaEntry *entry = trie_newest_metas(node); entry; entry = entry->next)
        if (same_metas(entry->in, in, op->n_operands) && same_words(entry->numbers, numbers, op->n_numbers))
            return entry;
    return NULL;
}

static int count_entries(const TrieNode *node) {
    int n = 0;
    for (const MetaEntry *e = atomic_load_explicit(&node->metas, memory_order_relaxed); e; e = e->next) n++;
    return n;
}

bool trie_metas_fit(const TrieNode *node) { return count_entries(node) < MAX_META_ENTRIES; }

void trie_metas_add(Arena *arena, TrieNode *node, const MetaEntry *entry) {
    const TraceOp *const op = &node->op;
    MetaEntry *const made = ARENA_NEW(arena, MetaEntry);
    if (!made) return;
    made->in = arena_copy(arena, entry->in, sizeof *entry->in * (size_t)op->n_operands);
    made->numbers = arena_copy(arena, entry->numbers, sizeof *entry->numbers * (size_t)op->n_numbers);
    made->out = arena_copy(arena, entry->out, sizeof *entry->out * (size_t)op->n_outs);
    made->args = entry->args;
    if (!made->in || !made->numbers || !made->out) return;
    if (entry->alias && !(made->alias = arena_copy(arena, entry->alias, sizeof *entry->alias * (size_t)op->n_outs)))
        return;
    made->next = atomic_load_explicit(&node->metas, memory_order_relaxed);
    atomic_store_explicit(&node->metas, made, memory_order_release);
}
