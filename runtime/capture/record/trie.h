/* trie.h: the op sequences that a compiled function has been seen to make, one trie per function
 * [semantics C1].
 *
 * An edge is one op call with its structure: row, form, thread modes, which earlier values or
 * inputs its operands are, the kinds of its arguments, and attributes that can never vary within
 * one compiled segment (bools, dtypes, strings, list lengths). Numbers are not structure: they
 * travel beside (Trace.numbers) and are judged by each variant at the segment's end, so that sizes
 * and positions may change from call to call [semantics C4].
 *
 *   root -- mm(in0, in1) -- relu(v0) -- sum(v1) *     * = a segment ended here: variants compiled
 *                      \--- tanh(v0) *                     for it
 *
 * Nodes are immutable once published; children are added under the function's lock and read without
 * it [C13]. */
#ifndef SINTER_RUNTIME_TRIE_H
#define SINTER_RUNTIME_TRIE_H
#include <stdatomic.h>

#include "runtime/base/arena.h"
#include "runtime/core/dispatch.h"

/* An operand as the segment sees it: value v of an earlier op, or the k-th captured input (-1 - k). */
typedef int32_t Operand;
enum { OPERAND_ABSENT = INT32_MIN };
static inline bool operand_is_input(Operand o) { return o < 0 && o != OPERAND_ABSENT; }
static inline int operand_input(Operand o) { return -1 - o; }

/* The structure of one op call: all of it but tensors and numbers, which a trace has by their places
 * (trace_args of runtime/capture/record/capture.h puts them together). */
typedef struct TraceOp {
    const OpRow *row;
    OpForm form;
    uint8_t modes;         /* NODE_ bits of ir/graph.h */
    bool mutates_metadata; /* a view that its argument's handle becomes (t_): counts as a write */
    int region;            /* the innermost one that it is in (Trace.regions); 0: none */
    int random;            /* of a random op: its sequence number, counted from the segment's first one */
    const Arg *args;       /* row->n_params: kinds, lengths, and what is structure */
    int n_operands;
    const Operand *operands; /* tensors in argument order (lists flattened), then out tensors */
    int n_fixed;
    /* structural attributes: kinds with lengths, bools, dtypes, hashes of strings */
    const int64_t *fixed;
    int n_numbers, first_number; /* in Trace.numbers: ints, and floats by their bits */
    int n_outs, first_value;     /* in Trace.values: fresh results; in-place and out forms have none */
} TraceOp;

typedef struct MetaEntry MetaEntry;
typedef struct TrieNode TrieNode;
struct TrieNode {
    uint64_t hash;
    TraceOp op; /* n_outs is set with the first metas, before there are children */
    TrieNode *parent;
    _Atomic(TrieNode *) first_child;
    TrieNode *next; /* sibling; set before publishing */
    _Atomic(MetaEntry *) metas;
    _Atomic(struct Variant *) variants; /* compiled for a segment that ended here */
    uint32_t manner; /* trie_manner of its op, which is in no region; in one: none that a call can have */
    int depth;
    int id;               /* number of the node within its function, for texts */
    int compiles;         /* of variants here; under the function's lock, as the next one */
    const char *failure;  /* why one could not be compiled; NULL */
    _Atomic int failures; /* of variants here */
};

/* An argument as a call has it: what the next call is compared with first. */
typedef struct ExpectedArg {
    int64_t head; /* kind and n */
    union {
        const Meta *meta; /* of a tensor */
        int64_t word;     /* an int, float or bool; a string's hash */
    };
    Operand operand; /* of a tensor */
    int32_t first;   /* of a list: where its items are among the step's operands or numbers */
} ExpectedArg;

/* Result metadata seen before for given operand metadata and numbers: spares the meta rule on every
 * later call. */
struct MetaEntry {
    MetaEntry *next;
    const Meta *const *in; /* n_operands */
    const int64_t *numbers;
    const Meta *const *out;  /* n_outs */
    const AliasFact *alias;  /* n_outs; NULL: each has memory of its own */
    const ExpectedArg *args; /* row->n_params, then out tensors; NULL: not to be compared so */
};

/* Form, modes and mutates_metadata in one word. */
#define MANNER_in_region (1u << 31)
static inline uint32_t trie_manner(OpForm form, uint8_t modes, bool mutates_metadata) {
    return (uint32_t)form << 16 | (uint32_t)mutates_metadata << 8 | modes;
}

TrieNode *trie_root(Arena *arena);
uint64_t trie_hash(const TraceOp *op);
static inline TrieNode *trie_newest(const TrieNode *node) { /* child, or NULL */
    return atomic_load_explicit(&node->first_child, memory_order_acquire);
}
static inline const MetaEntry *trie_newest_metas(const TrieNode *node) {
    return atomic_load_explicit(&node->metas, memory_order_acquire);
}
/* NULL when absent; no lock */
TrieNode *trie_find(const TrieNode *node, const TraceOp *op, uint64_t hash);
/* Under the function's lock; the arena is the function's. NULL when memory is out. */
TrieNode *trie_add(Arena *arena, TrieNode *node, const TraceOp *op, uint64_t hash, int id);
const MetaEntry *trie_metas(const TrieNode *node, const Meta *const *in, const int64_t *numbers);
bool trie_metas_fit(const TrieNode *node); /* else entries are no use: numbers that change with every call */
/* `args` are the arena's already. */
void trie_metas_add(Arena *arena, TrieNode *node, const MetaEntry *entry);

#endif
