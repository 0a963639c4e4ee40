/* trace.h: one segment of one call as it was recorded, and the placeholders that stand for its values. */
#ifndef SINTER_RUNTIME_TRACE_H
#define SINTER_RUNTIME_TRACE_H
#include <limits.h>

#include "ir/alias.h"
#include "ir/regions.h"
#include "runtime/base/arena.h"
#include "runtime/capture/record/trie.h"
#include "runtime/core/tracer.h"

typedef struct Variant Variant; /* runtime/capture/variant/variant.h */
typedef struct Trace Trace;
typedef struct Capture Capture; /* runtime/capture/record/capture.h */
/* Of a value at the end of its segment. */
enum {
    VALUE_needed = 1, /* held, asked for, or used by later segments */
    VALUE_viewed = 2, /* the memory of a needed view, seen in another way too */
    VALUE_output = VALUE_needed | VALUE_viewed,
    VALUE_alive = 4, /* somebody has a handle */
    VALUE_waits = 8  /* and may still ask: more of the call follows */
};
typedef struct Symbols Symbols; /* runtime/capture/record/symbols.h */

/* History of a value or input, as eager's tape has it once the ops recorded so far have run (ir/alias.h):
 *
 *     %0 = zeros()              a base of its own, without a history
 *     %1 = select(%0, 0, 0)     a view of %0
 *     %2 = exp(%0)              not recorded by the tape
 *     copy_(%1, %x)             recorded: %0 and %1 have a history from here on
 *
 * What was detached, and what inference mode made, is a base of its own to the tape. */
typedef struct TraceHistory {
    Operand base; /* what the tape has it as a view of; itself */
    Operand next; /* of a base: its newest view; of a view: the one before; OPERAND_ABSENT: none */
    int since;    /* so many ops were recorded when it got a history: its own, or by a write to its base */
    int written;  /* of a base: so many when the last write that the tape records was; 0: never */
} TraceHistory;
enum { NO_HISTORY = INT_MAX };

typedef struct TraceInput {
    sn_tensor *tensor; /* retained until the call ends */
    const Meta *meta;  /* as it was when captured, like all below */
    Storage *storage;
    int storage_number; /* by first use within the segment */
    int same_storage;   /* the input before this one of the same storage, or -1 */
    int64_t offset;
    bool requires_grad, is_leaf, inference;
    TraceHistory history;
    Trace *maker; /* the earlier segment of this call that made it, or NULL */
    int maker_value;
} TraceInput;

typedef struct StorageSlot {
    const Storage *storage;
    int32_t number, newest_input;
    uint32_t stamp; /* of the trace that captured it; another one: the slot is free */
} StorageSlot;

typedef enum TraceState { TRACE_pending, TRACE_compiled, TRACE_interpreted, TRACE_eager, TRACE_failed } TraceState;

typedef struct TracedOp {
    const TraceOp *op; /* of a trie node */
    const void *site;  /* return address of the user's call */
    uint32_t needs;    /* the arguments (bits) for which eager's tape records it; 0: it does not */
    int random;        /* where the generator stands before it, counted from Trace.sequence */
} TracedOp;

typedef struct Generator {
    uint64_t seed, sequence;
} Generator;

typedef struct TraceEvent { /* done at once, see runtime/capture/record/capture_events.c */
    enum { EVENT_grad, EVENT_hook, EVENT_seed, EVENT_fork, EVENT_print, EVENT_words } kind;
    int after;          /* so many ops of the segment */
    sn_tensor *tensor;  /* retained, or NULL */
    sn_tensor *before;  /* its gradient; retained unless `borrowed` */
    bool borrowed;      /* `before` is a value of the segment */
    int64_t id;         /* of the hook; of a fork and the seed that ends it the depth of its scope; else 0 */
    const char *label;  /* of the print of `tensor`, or NULL */
    Generator from, to; /* EVENT_seed: what it was; what the end of a scope sets it to */
    uint64_t *words;    /* EVENT_words: changed in an object of the library; NULL: it is gone */
    uint64_t was[EFFECT_WORDS];
} TraceEvent;

typedef struct TracePrint {
    int value;
    const char *label; /* or NULL */
} TracePrint;

/* Memory and history of a value (ir/alias.h): as its op's meta rule says when it is recorded, and what was recorded
 * since. */
typedef struct TraceMemory {
    Operand memory; /* the value or input that it shows; OPERAND_ABSENT: memory of its own */
    Operand root;   /* whose memory it is in the end; itself */
    TraceHistory history;
    int op;         /* that made it, in Trace.ops */
    int64_t offset; /* elements from the root's first one */
    bool inference; /* a tensor of inference mode; a view is what its root is */
} TraceMemory;

struct Trace { /* one segment of one call */
    Capture *capture;
    TraceState state;
    TrieNode *end;
    VEC(TracedOp) ops;
    VEC(TraceInput) inputs;
    VEC(int64_t) numbers;
    VEC(struct NumberSource) sources; /* in replay functions: where each number comes from */
    VEC(sn_tensor *) values;          /* fresh results in order, each retained */
    VEC(TraceMemory) places;          /* of the values; a replay's trace has none */
    Regions regions;                  /* that its ops are in */
    VEC(const sn_tensor *) rest;      /* inputs that the outermost region made before a break, retained by `inputs` */
    uint8_t *marks;                   /* by value: VALUE_; made at the segment's end */
    int n_storages;
    uint64_t seed, sequence; /* the generator's before the first random op */
    int n_random;            /* numbers from there on that its ops take, again where the generator was set back */
    int random;              /* of those, the next op's */
    int n_done;              /* ops that had run when a run op by op ended */
    VEC(TraceEvent) events;
    VEC(TracePrint) prints;              /* of its EVENT_print, for replays */
    struct VisibleValue *visible_values; /* by value, of trace_views.c; NULL: not asked for */
    bool views;                          /* a view is among the ops */
    bool tracked_inputs;                 /* an input has a history, or begins one: without, no value does */
    bool writes;                         /* an in-place or out form is among the ops */
    bool mutates_metadata;               /* the in-place form of a view is */
    bool tracked_writes;                 /* one whose operands require gradients: aliases may track now */
    bool gradients;                      /* sn::gradients is */
    /* What is said of an as_strided whose place depends on where its argument begins in the storage; NULL: none. */
    Reason from_storage;
    bool fallible;          /* an op that may fail for its values is, or a user's */
    Reason foreign;         /* the error of code that is not the library's; NULL: there was none */
    bool ordered;           /* one with an effect is; then none of the others but pure ones */
    bool as_it_is;          /* of a graph: what is compiled for sizes below 2 did not serve this call */
    uint64_t as_now;        /* the same of some symbols of its header alone, as bits; the last stands for all behind */
    bool plain;             /* likewise: it does not compile with symbols */
    bool compile;           /* ran eagerly; wants a variant after the return */
    bool waits;             /* ran eagerly; has a variant whose code is being made */
    Variant *variant;       /* that ran it */
    struct TapeNode *node;  /* of a trained launch; retained while a value is elided */
    uint64_t tape_sequence; /* before the launch: where eager's nodes would stand */
    int64_t started_ns, ended_ns; /* of recording; 0: no op was new */
    /* why it ran eagerly or interpreted; text that outlives the call, or NULL */
    Reason reason;
};

/* The value or input whose memory an operand is in the end. */
static inline Operand trace_root(const Trace *trace, Operand at) { return at < 0 ? at : trace->places.at[at].root; }
/* What a program has for an operand, pending or not; NULL: a value that is gone, or absent. */
static inline sn_tensor *trace_tensor(const Trace *trace, Operand at) {
    if (at == OPERAND_ABSENT) return NULL;
    return at < 0 ? trace->inputs.at[operand_input(at)].tensor : trace->values.at[at];
}
/* Of the next value, a result of the op that is recorded: it has memory of its own, or shows what `alias` says. Written
 * field by field: a whole one would be put together on the stack and read back at once, which waits for every store. */
static inline void trace_own_place(const Trace *trace, const TraceOp *op, TraceMemory *out) {
    const int value = trace->places.n, at = trace->ops.n;
    out->memory = OPERAND_ABSENT;
    out->root = value;
    out->history.base = value;
    out->history.next = OPERAND_ABSENT;
    out->history.since = NO_HISTORY;
    out->history.written = 0;
    out->op = at;
    out->offset = 0;
    out->inference = op->modes & NODE_inference;
}
TraceMemory trace_place(Trace *trace, const TraceOp *op, const AliasFact *alias); /* trace_views.c */

#endif
