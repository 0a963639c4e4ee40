/* tape.h: the autograd tape [semantics G1]: what is recorded while ops run, and the engine that
 * walks it backward.
 *
 *   x (leaf) --+
 *              v
 *   MulBackward #7 {edges: x, w; saved: x v0, w v0} <-- y.autograd {node, output 0}
 *
 * A node points at the nodes that made its inputs, so a result keeps its whole history alive and
 * nothing else does. Leaves are edges without a node. Sequence numbers grow with every node of a
 * thread, and edges lead to older nodes (tape_node_link); the engine takes nodes in strictly
 * decreasing order from a heap, so every contribution to a node has arrived when its turn comes, and
 * sums have one order. Nodes and metadata come from the thread's free lists. */
#ifndef SINTER_RUNTIME_TAPE_H
#define SINTER_RUNTIME_TAPE_H
#include "ir/alias.h"
#include "passes/passes.h"
#include "runtime/core/dispatch.h"
#include "runtime/core/ends.h"
#include "runtime/core/tensor.h"

typedef struct TapeNode TapeNode;
typedef struct TapeEntry TapeEntry; /* a node or leaf within one run of the engine */
typedef struct TapeSlot {           /* where the first run that comes to a node or leaf keeps its entry (backward.c) */
    _Atomic(void *) owner;          /* the run; NULL: free */
    TapeEntry *entry;               /* the owner's to read */
} TapeSlot;
typedef struct TapeView TapeView; /* how a view was made from its base */

typedef struct TapeHook {
    struct TapeHook *next; /* in order of registration */
    int64_t id;
    int output; /* which result of the node */
    bool after; /* of a leaf: runs when its .grad has been added to */
    sn_body body;
    void *closure;
} TapeHook;

typedef struct AutogradMeta {
    HistoryHead head;    /* how it ends */
    TapeNode *node;      /* that made this tensor; NULL: a leaf */
    int output;          /* which of its results */
    bool requires_grad;  /* of a leaf */
    uint32_t generation; /* of a base: counts recorded in-place ops; of a view: the base's when node
                            was made */
    sn_tensor *grad;     /* of a leaf: accumulated, owned; NULL: none */
    TapeView *view;      /* not NULL: in-place ops go through to the base, */
    sn_tensor *base;     /* which is owned */
    TapeHook *hooks;     /* of a leaf; those of other tensors belong to their node */
    TapeSlot slot;
    struct DynamicMarks *marks; /* dynamic_mark.c; NULL: none */
} AutogradMeta;

bool tape_view_tracks(const sn_tensor *t); /* a view whose base was written by a recorded op */
/* Whether ops on t are recorded while grad mode is on. */
static inline bool tape_tracks(const sn_tensor *t) {
    const AutogradMeta *const meta = t->autograd;
    if (LIKELY(!meta)) return false;
    return meta->node || meta->requires_grad || (meta->view && tape_view_tracks(t));
}
static inline bool tape_is_leaf(const sn_tensor *t) {
    const AutogradMeta *const meta = t->autograd;
    return !meta || (!meta->node && !(meta->view && tape_view_tracks(t)));
}

/* A leaf that requires gradients. */
static inline bool tape_is_wanted_leaf(const sn_tensor *t) {
    return t->autograd && t->autograd->requires_grad && !t->autograd->node;
}

/* tensors ------------------------------------------------------------------------------------- */
AutogradMeta *tape_meta(sn_tensor *t);            /* made if absent; NULL: out of memory */
Status tape_requires_grad(sn_tensor *t, bool on); /* of a leaf of floating dtype */
sn_tensor *tape_grad(const sn_tensor *t);         /* borrowed; NULL: none */
/* Retains; NULL removes; checks dtype, sizes, device. */
Status tape_grad_set(sn_tensor *t, sn_tensor *grad);
void tape_grad_replace(sn_tensor *t, sn_tensor *grad); /* by one that it had; cannot fail */
/* after: of a leaf, when a backward has added to its .grad. id > 0; 0 raised. */
int64_t tape_hook_add(sn_tensor *t, bool after, sn_body body, void *closure);
void tape_hook_remove(sn_tensor *t, int64_t id);
int64_t tape_hooks_added(void); /* by this process so far */

/* A tensor that a node needs in backward: a handle and the version it had. */
typedef struct TapeSaved {
    sn_tensor *tensor; /* owned; NULL: nothing; is_packed: metadata and history only */
    union {
        sn_tensor *memory;         /* whose version counts, where tensor is a copy of what is there; owned, or NULL */
        struct TapePacked *packed; /* who has the value (saved_hooks.h); owned */
    };
    uint32_t version;
    int16_t arg, item; /* argument (and list item), or -1 */
    int16_t result;    /* or result number, -1 */
    bool is_packed;
} TapeSaved;
void tape_saved_drop(TapeSaved *saved); /* what it owns */
/* What a node keeps of t, owned; NULL raises. A leaf is kept itself, as edges keep it. Else it is another handle of its
 * memory without history, which the edges have: t, or what it views, may take a result of the node in place, and the
 * node must not hold what holds it.
 *
 *     v = b[0]   u = v * w   b += u        b -> AddBackward -> MulBackward -> v's memory; v itself would hold b */
sn_tensor *tape_kept(sn_tensor *t);
Status tape_save_check(const sn_tensor *t);                         /* refuses inference tensors */
Status tape_save_error(void);                                       /* what it raises */
Status tape_save(TapeSaved *saved, sn_tensor *t);                   /* checks; the kept and its version */
static inline uint32_t tape_saved_version(const TapeSaved *saved) { /* now */
    if (LIKELY(!saved->memory)) return tensor_version(saved->tensor);
    return saved->is_packed ? ~saved->version : tensor_version(saved->memory); /* packed: it is to be unpacked */
}
Status tape_saved_check(const TapeSaved *saved, const char *node); /* the version counter error */
Status tape_saved_error(const Meta *meta, const char *node, uint32_t now, uint32_t expected);
Status tape_used_twice(const char *node); /* the error of a backward that finds nothing saved */

/* nodes --------------------------------------------------------------------------------------- */

typedef struct TapeEdge { /* where the gradient of one input goes */
    void *target;         /* a TapeNode, a leaf's sn_tensor, or NULL: nowhere; owned */
    int output;           /* of the node */
    bool leaf;
} TapeEdge;
const TapeHook *tape_hooks(const TapeEdge *edge); /* of a leaf, or of all results of a node; NULL: none */

/* One call of a node's backward. Results are references of the innermost scope, as ops give them. */
typedef struct TapeBackward {
    sn_tensor *const *grad_out; /* by result: NULL undefined; at least one is not */
    const bool *needs;          /* by edge */
    sn_tensor *const *partial;  /* by edge: the sum so far; NULL none yet. Only for nodes with continues */
    sn_tensor **grad_in;        /* by edge: contribution, NULL undefined; continues: the new sum instead */
    bool create_graph, retain;
    bool hidden;           /* from the tapes that may be below: not create_graph, and no run of a level */
    const TapeEdge *edges; /* of compiled nodes */
} TapeBackward;

typedef struct TapeClass {
    Status (*backward)(TapeNode *node, TapeBackward *call);
    void (*drop)(TapeNode *node); /* frees saved values and context; called once */
    void (*name)(const TapeNode *node, Text *text);
    const TapeSaved *(*saved)(const TapeNode *node, int *n); /* for listings; may be NULL */
    bool continues;                                          /* takes partial sums and returns new ones [G1] */
    /* Sets `instead`: nodes that do the same and can be differentiated; may be NULL. */
    Status (*expand)(TapeNode *node);
} TapeClass;

struct TapeNode {
    _Atomic int32_t refs; /* tensors, edges, engine runs */
    uint16_t block;       /* size class */
    bool dropped : 1;     /* saved values are gone */
    bool saves : 1;       /* it had some: using it again is an error */
    bool dies : 1;        /* nobody has it, and what frees it has begun */
    bool counts : 1;      /* among its metas are some that are counted, of which it holds references */
    int n_edges, n_outs;
    uint64_t sequence;
    const TapeClass *class;
    TapeEdge *edges;
    const Meta **out_meta; /* by result; retained, as those before them (tape_arg_metas) */
    void *extra;           /* behind them: what the class keeps */
    TapeHook *hooks;
    TapeSlot slot;
    TapeEdge *instead;         /* by result: where gradients go since it was expanded; owned, NULL: not */
    struct StreamUse *streams; /* that it was recorded under, and runs on; owned (../device/stream.h) */
    TapeNode *dead;            /* while a graph is freed: the next to free */
    TapeNode *newer, *older;   /* in the list of those alive (tape_live.c) */
    uint32_t state;            /* id of the state that made it: which list, and who may look */
};

/* A node with room for edges, metadata of arguments and results, and `extra` bytes behind them; one reference, the next
 * sequence number. */
TapeNode *tape_node_new(const TapeClass *class, int n_edges, int n_args, int n_outs, size_t extra);
/* By argument, of which there are n_args; NULL: none was noted. */
static inline const Meta **tape_arg_metas(const TapeNode *node) { return (const Meta **)(node->edges + node->n_edges); }
/* at: one of node's places for metas. */
static inline void tape_record_meta(TapeNode *node, const Meta **at, const Meta *meta) {
    InternedMeta *const in = meta_counted(meta);
    if (UNLIKELY(in != NULL)) {
        refs_add(&in->refs, 1);
        node->counts = true;
    }
    if (UNLIKELY(*at != NULL)) meta_release(*at);
    *at = meta;
}
static inline void *tape_node_extra(TapeNode *node) { return node->extra; }
void tape_node_retain(TapeNode *node);
void tape_node_release(TapeNode *node);
void tape_node_drop(TapeNode *node); /* frees what it saved; the edges stay */
/* Points an edge at t's history: nothing if t is not tracked. Brings a stale view up to date first. */
Status tape_edge_set(TapeEdge *edge, sn_tensor *t);
/* The same for edge i of node, whose sequence number then is above the target's: where a stale view got a newer
 * history, node counts as made after that. */
Status tape_node_link(TapeNode *node, int i, sn_tensor *t);
/* The edge itself, or what stands there since its node was expanded. */
static inline const TapeEdge *tape_edge_now(const TapeEdge *edge) {
    while (!edge->leaf && edge->target && ((TapeNode *)edge->target)->instead)
        edge = &((TapeNode *)edge->target)->instead[edge->output];
    return edge;
}
/* Expands node: result i's gradients go where now[i] says, hooks move along; takes the edges. */
Status tape_node_expand(TapeNode *node, const TapeEdge *now);
void tape_edge_drop(const TapeEdge *edge); /* releases its target */
/* Makes t result `output` of node. */
Status tape_attach(sn_tensor *t, TapeNode *node, int output);
/* A reference of one's own: the innermost scope's where it holds t, else a new one. */
static inline void tape_own(sn_state *state, sn_tensor *t) {
    const uint32_t first = state->n_scopes ? state->scopes[state->n_scopes - 1].first : 0;
    const bool innermost = tensor_in_scope(t) && tensor_scope_slot(t) >= first;
    if (!innermost || !scope_disown(state, t)) tensor_retain(t);
}
void *tape_block_alloc(size_t bytes, uint16_t *class); /* uninitialised; NULL raises */
void tape_block_free(void *block, uint16_t class);

/* The key's kernel and its row nodes (autograd.c). */
size_t tape_args_bytes(const OpRow *row, const Arg *args);
/* Of an as_strided call: where it begins, told from its argument's first element, as the tape and graphs have it. */
int64_t tape_offset(const OpCall *call);
/* Copies args with what their lists and strings point at into `memory` of that many bytes. */
void tape_args_copy(const OpRow *row, const Arg *args, Arg *to, void *memory);
/* A copy in memory of its own, row-major or as `meta` says, zeros between its elements; has a history where grad mode
 * is on and t has one. */
sn_tensor *tape_clone(sn_tensor *t, const Meta *meta);
Status tape_fill(sn_tensor *t, double value); /* in place, an op */
/* Does the row's node save argument `arg` (or, with arg -1, result `result`) where the arguments
 * `needs` (bits) want gradients? */
bool tape_row_saves(const OpRow *row, int arg, int result, uint32_t needs);
void tape_row_name(const OpRow *row, Text *text); /* add.Tensor: AddBackward */
/* Records the node of a call that does not run: outs are there, as handles without history; what
 * the node does not save needs no data. Its place in the order is `sequence`. */
Status tape_record(const OpRow *row, const Arg *args, sn_tensor **outs, int n_outs, uint64_t sequence);
bool tape_row_differentiable(const OpRow *row); /* it has a derivative rule */
/* The layout that a leaf's .grad has: the leaf's own where that is dense, else row-major. */
const Meta *tape_grad_meta(const sn_tensor *leaf);
OpKernel tape_kernel; /* of the key: records a node where the call needs one, and passes it on */
/* Runs an op under Autograd and the backend only, whatever this thread includes. */
Status tape_dispatch(const OpRow *row, OpForm form, const Arg *args, sn_tensor **outs);

/* views (autograd_view.c) --------------------------------------------------------------------- */
Status tape_view_record(OpCall *call); /* results of a view op that share their argument's storage */
typedef struct TapeViewOp {
    const OpRow *row;
    const Arg *args; /* [0], the tensor, is not read */
    int result;      /* of a Tensor[] op */
    bool no_grad;    /* made while grad mode was off */
} TapeViewOp;
/* A view made elsewhere than on the tape: how self is viewed, a step from there (which takes over
 * the reference; NULL: out of memory), and t as what the last step made of self. */
TapeView *tape_view_of(const sn_tensor *self); /* NULL: not at all; a reference */
TapeView *tape_view_step(TapeView *from, const TapeViewOp *op);
Status tape_view_set(sn_tensor *t, sn_tensor *self, TapeView *view); /* takes over the reference */
/* t is a view of what nobody can reach: all of t stands for it. */
Status tape_view_alone(sn_tensor *t, bool no_grad);
/* A view whose base was written: its history is made anew. */
Status tape_view_refresh(sn_tensor *t);
/* t's values in memory of their own, by the forms of its ops that copy (slice_copy), or by a clone; scope-owned. */
Status tape_view_copy(sn_tensor *t, sn_tensor **out);
/* *t, which begins its storage and lies in memory as meta says, with meta's strides of dims of size 1 as well: they say
   whether results are channels_last. Nothing where it has them; no key sees it. */
Status tape_lay_out(sn_tensor **t, const Meta *meta);
/* Has t, or an argument of call, to be brought up to date before a node leads there? */
static inline bool tape_view_is_due(const sn_tensor *t) {
    return t->autograd && t->autograd->view && tape_view_tracks(t);
}
bool tape_views_are_due(const OpCall *call);
Status tape_views_refresh(const OpCall *call);
Status tape_check_inplace(const sn_tensor *t); /* may a recorded op write into it? */
/* Into a view of `of` (or of a view's base; NULL: of what is no leaf), made while gradients were off? */
Status tape_check_view(const sn_tensor *of, bool no_grad);
/* t was written in place by node: base and t get new histories */
Status tape_view_rebase(sn_tensor *t, TapeNode *node);
void tape_view_release(TapeView *view);
/* self and old have exchanged what they stand for: where self is now a view of itself, it is one of old. */
void tape_view_of_old(sn_tensor *self, sn_tensor *old);
void tape_view_end(sn_tensor *t);              /* t is no view any more */
sn_tensor *tape_view_base(const sn_tensor *t); /* NULL: not a view */

/* engine (backward.c) ------------------------------------------------------------------------- */
enum { TAPE_retain = 1, TAPE_create = 2, TAPE_allow_unused = 4, TAPE_stop = 8, TAPE_level = 16 };
/* TAPE_stop: the run ends at xs: what made them does not run, nor do their hooks. TAPE_level: it is a transform
 * level's own: its ops are no concern of capture, and tapes further out record them. roots get grads[i] (NULL: 1, for
 * one element). xs NULL: accumulate into leaves. Else the gradients of xs go to out (scope-owned, NULL where unused is
 * allowed) and no leaf is touched. */
typedef struct TapeRun {
    sn_tensor *const *roots, *const *grads;
    int n_roots;
    sn_tensor *const *xs;
    int n_xs;
    sn_tensor **out;
    uint32_t flags;
} TapeRun;
Status tape_run(const TapeRun *run);

/* For capture of a backward: leaves that the roots reach, in the order that a traversal first touches
 * them; borrowed. Returns how many there are, filling at most `capacity`. */
int tape_leaves(sn_tensor *const *roots, int n_roots, sn_tensor **leaves, int capacity);
/* What the tensors reach has given up what it saved, as after a backward without retain. */
Status tape_use_up(sn_tensor *const *tensors, int n);

/* compiled functions -------------------------------------------------------------------------- */
typedef struct TapeCompiled {
    const char *name;
    Status (*backward)(void *context, TapeBackward *call); /* edges are the inputs */
    void (*release)(void *context);                        /* once: after a backward without retain, or with the node */
    const TapeSaved *(*saved)(void *context, int *n);      /* for listings; may be NULL */
    /* Fills now, by result, with edges to the nodes that stand for it under create_graph; or NULL. */
    Status (*expand)(void *context, const TapeEdge *edges, TapeEdge *now);
    bool frees; /* backward itself frees what it has used; release comes with the node */
} TapeCompiled;
/* Makes outs (those of floating dtype, NULL skipped) the results of one node over inputs (NULL or
 * untracked ones allowed). Nothing is recorded, and context released, where no input is tracked or
 * grad mode is off. */
Status tape_add_compiled(sn_tensor **outs, int n_outs, sn_tensor *const *inputs, int n_inputs, const TapeCompiled *ops,
                         void *context);

void *tape_compiled_context(const TapeNode *node);

/* derivatives of users' ops (custom_derivative.c) ------------------------------------------------ */
void custom_derivative_start(void);
/* The arguments (bits, of those that are wanted) to which the row's derivative gives gradients where these results have
 * one. False: only a run of it can tell. */
bool custom_derivative_reaches(const OpRow *row, const Arg *args, uint32_t needs, uint32_t results, uint32_t *reached);

/* listings ------------------------------------------------------------------------------------ */
/* Every node reachable from t, newest first: "#7 MulBackward -> #5 AddBackward, AccumulateGrad;
 * saved self f32[2] v0 (8 bytes)". Then a line of totals. Storages count once. */
void tape_print(Text *text, sn_tensor *t);
/* t's node, a reference; *node NULL: it has none. Compiled nodes on the way are expanded, so that what is seen is
 * eager's. */
Status tape_node_of(sn_tensor *t, TapeNode **node);
/* Where an edge leads now, its compiled node expanded: an edge that lives as long as the first. */
Status tape_edge_follow(const TapeEdge *edge, const TapeEdge **now);
/* As tape_print, with all compiled nodes expanded. */
Status tape_print_expanded(Text *text, sn_tensor *t);
/* What is kept, by op (tape_saved.c): of t's history, or, t NULL, of all nodes of this state. */
Status tape_print_saved(Text *text, sn_tensor *t);
/* Calls visit for each node reachable from t, newest first; compiled ones are not expanded. */
void tape_each(sn_tensor *t, void (*visit)(void *context, const TapeNode *node), void *context);
/* tape_sites.c: where the program called what nodes record, in anomaly mode. NULL: not known. */
void tape_site_record(sn_state *state, const TapeNode *node);
const void *tape_site_of(const sn_state *state, const TapeNode *node);
/* What it has saved; none once it is dropped. */
static inline const TapeSaved *tape_node_saved(const TapeNode *node, int *n) {
    *n = 0;
    return node->class->saved && !node->dropped ? node->class->saved(node, n) : NULL;
}
const sn_tensor *tape_saved_kept(const TapeSaved *saved); /* the tensor whose memory has it; NULL: none */
int64_t tape_saved_bytes(const TapeSaved *saved);         /* of its elements, where they are kept */
/* What an op's node saved is called as: "self", "tensors[2]", "result"; of other nodes "0", "1"... */
void tape_saved_name(const TapeNode *node, int i, Text *text);
const OpRow *tape_node_row(const TapeNode *node); /* NULL: not an op's */
typedef struct TapeTotals {
    int64_t nodes, saved_bytes; /* reachable from a tensor; storages count once */
} TapeTotals;
TapeTotals tape_totals(sn_tensor *t);
int64_t tape_live_nodes(void); /* of the process */
void tape_live_add(TapeNode *node);
void tape_live_remove(TapeNode *node);
/* Calls visit for each node of this state, newest first, which may not free any. */
void tape_live_each(void (*visit)(void *context, const TapeNode *node), void *context);

void tape_start(void); /* registers the key's kernel */

#endif
