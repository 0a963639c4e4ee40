/* graph.h: the tensor graph: SSA values, nodes in program order, text that parses back.
 *
 *   graph norm(%x: f32[s0,768], %w: f32[768]) {
 *     %0 = aten::gelu(%x)
 *     %1, %2, %3 = aten::native_layer_norm(%0, [768], %w, None, 1e-05) order=L
 *     write %x = %0
 *     return %1
 *   }
 *
 * Values that the text does not annotate get their metadata from the meta rules. A graph owns nothing but its arena's
 * memory. Nodes and values have dense ids in program order (graph_number); side tables are arrays by id. */
#ifndef SINTER_IR_GRAPH_H
#define SINTER_IR_GRAPH_H
#include "ir/builder.h"
#include "ir/regions.h"
#include "ir/stage.h"
#include "runtime/base/bail.h"

typedef struct Node Node;
typedef struct GVal {
    Val base;         /* first: a GVal is a Val */
    Node *def;        /* NULL: a graph input */
    int index;        /* which result of def, or which input */
    int alias;        /* the argument of def whose memory it has; -1: its own (ir/alias.h) */
    int64_t offset;   /* elements from that argument's first one */
    int id;           /* dense over inputs and results */
    const char *name; /* inputs: "x"; results: NULL, printed as %id */
} GVal;
static inline GVal *gval(Val *v) { return (GVal *)v; }

/* Attributes of each node: thread modes at the call [semantics C3], and what functionalize makes of written forms. */
enum {
    NODE_no_grad = 1,
    NODE_inference = 2,
    NODE_no_autocast = 4, /* of a written form, which decides its dtype itself [semantics G6] */
    NODE_puts = 8,        /* puts its operand into the memory that a form wrote (node_put) */
    NODE_saved = 16,      /* the policy of its region says so: it is not computed again */
    NODE_rest = 32        /* it reads what its region made before a break: in another graph */
};

struct Node {
    const OpRow *row;
    OpForm form;
    uint8_t modes;
    Order order;
    int random; /* OPF_random: its sequence number is graph->sequence + random */
    int region; /* the innermost one that it is in (Graph.regions); 0: none */
    int again;  /* computed for a backward, once more: which run of a region it is a part of; 0: it is not */
    int id;
    int kernel; /* its step of the call sequence, plus 1; 0: not scheduled, or a view */
    int n_args;
    Arg *args; /* row->n_params; out form: followed by the out tensors */
    int n_outs;
    GVal *outs;          /* array */
    int64_t unbacked;    /* the symbol of a size that only values give (nonzero, masks), or of item's; 0: none */
    const char *where;   /* user call site, or NULL */
    const void *site;    /* the same as an address of code, of what was captured; or NULL */
    const OpRow *origin; /* the op that this one is a part of by decomposition; NULL: of none */
    int line;            /* of the text that it was read from; 0: of none */
    bool merged;         /* by cse: it stands for a node of no_grad mode too, which may be a rule's */
    Node *prev, *next;
};

/* It has no result but the number `unbacked` (aten::item). */
static inline bool node_is_number(const Node *node) { return node->unbacked && !node->n_outs; }

/* What a node with NODE_puts puts where it lies in memory; NULL: the node has none, or only shows it (a view). */
static inline const GVal *node_put(const Node *node) {
    if (!(node->modes & NODE_puts) || node->row->kind == KIND_view) return NULL;
    return gval(node->args[node->row->role == ROLE_puts ? 1 : 0].val);
}

/* A number among a graph's arguments: the value of a free symbol. */
typedef struct IntInput {
    int64_t symbol;
    int before; /* how many tensors come before it */
} IntInput;

typedef struct Write { /* at the graph's end, input gets value */
    GVal *input, *value;
} Write;

typedef enum OutKind {
    OUT_new,
    OUT_input,
    OUT_view_of_input,
    OUT_view_of_output,
    OUT_none,
    OUT_kept /* of a joint graph: no result, but the backward must be able to make it */
} OutKind;
typedef struct Output {
    GVal *value;
    OutKind kind;    /* how the caller's result relates to memory */
    int base;        /* number of the input or output for views; OUT_kept: the input whose memory it is, or -1 */
    int64_t offset;  /* views: elements from the base's offset; sizes and strides are value's meta */
    bool tape_saved; /* of a joint graph: eager's tape holds the caller's memory, and checks it for writes */
    /* OUT_kept: by forward input, then by forward output: is that memory checked for writes before this is read? */
    const bool *checked;
} Output;

/* Of a symbol that no input's size is by itself: (that size - rest) / times, which have symbols from before alone. */
typedef struct SizeSolution {
    int64_t symbol, rest, times;
    int input, dim;
} SizeSolution;

typedef struct Graph {
    /* first: a graph is a builder; emit appends before `insert_at` (NULL: at the end) */
    Builder builder;
    Arena *arena;
    SymEnv *env;
    Bail *bail; /* NULL outside a compile: errors are raised instead */
    const char *name;
    VEC(GVal *) inputs;
    struct {
        const char **at;
        int n, capacity;
    } names; /* of the inputs, by hash; room is a power of two, more than half of it free */
    VEC(IntInput) int_inputs;
    VEC(SizeSolution) solutions; /* in order; made by graph_check_symbols */
    VEC(SymGuard) assumed;       /* by the header: what must hold of a call's sizes and ints, else it is an error */
    VEC(Output) outputs;
    VEC(Write) writes;
    VEC(double) runtime_floats; /* hints of ARG_runtime values */
    Regions regions;            /* that its nodes are in */
    int n_again;                /* runs again so far */
    Unbacked unbacked;          /* of the next node, if it has such a number */
    Node *first, *last, *insert_at;
    int n_nodes, n_vals;    /* after graph_number */
    int64_t seed, sequence; /* free symbols bound to the generator's on every call; 0: no random op [semantics B6] */
    int n_random;           /* sequence numbers that a call takes, also for ops that were removed */
    int random;             /* given to new random nodes (a decomposition's parts share their op's) */
    int region, again;      /* given to new nodes */
    bool trial;             /* a copy that is thrown away: what is decided of its symbols binds nobody */
    uint8_t modes;          /* given to new nodes */
    const char *where;      /* given to new nodes */
    const void *site;       /* this, too */
    const OpRow *origin;    /* given to new nodes */
    int n_forward_outputs,
        n_forward_inputs;    /* joint graphs: those before gradients; before output gradients and sums. Of a backward,
                                which has no results of a forward: the saved values */
    struct Partition *parts; /* after `partition`: forward and backward; later passes run on both */
    struct Lower *lowering;  /* after `schedule`: what `lower` goes on from */
    struct PlanFront *front; /* after `backend`: who computes its last inputs; NULL: calls give all */
    struct Plan *plan;       /* after `lower` */
} Graph;

Graph *graph_new(Arena *arena, const char *name);
GVal *graph_input(Graph *graph, const char *name, const Meta *meta);
void graph_drop_inputs(Graph *graph);               /* their values stay; their names are free */
void graph_int_input(Graph *graph, int64_t symbol); /* behind the inputs so far */
/* The symbol of an int input "s<number>": any number, unless a size or a list of symbols before it says more. */
int64_t graph_int_symbol(Graph *graph, int number);
enum { MAX_INT_INPUT = 4096 };
/* Of its header; hints that it does not hold with are changed where that helps. */
void graph_assume(Graph *graph, SymGuard guard);
void graph_output(Graph *graph, GVal *value);
void graph_write(Graph *graph, GVal *input, GVal *value);
/* runs the meta rule; NULL on error */
Node *graph_append(Graph *graph, const OpRow *row, OpForm form, const Arg *args);
/* What the op would give, as a node with its results that is in no graph: also of ops that none holds. NULL raises. */
Node *graph_node_alone(Graph *graph, const OpRow *row, OpForm form, const Arg *args);
/* New nodes of a random op take number `random` of the graph's (-1: the next one), which has a seed from here on. */
void graph_take_random(Graph *graph, const OpRow *row, int random);
void graph_replace(Graph *graph, GVal *value, GVal *by);                     /* all uses, outputs and writes included */
void graph_replace_results(Graph *graph, const Node *node, GVal *const *by); /* the same for those not NULL */
void graph_remove(Graph *graph, Node *node);                                 /* unlinks; its results must be unused */
void graph_number(Graph *graph);                                             /* dense ids in program order */
/* Region `region` lies in `outer`; both count from 1, 0 is none. */
void graph_region(Graph *graph, int region, int outer);
/* The outermost region that a node (or NULL) is in; 0: none. */
static inline int graph_top_region(const Graph *graph, const Node *node) {
    return node ? regions_top(&graph->regions, node->region) : 0;
}
/* Its region does not compute it again: the policy says so, or it has an effect, which happens once. */
static inline bool node_kept_by_region(const Node *node) {
    return node->modes & NODE_saved || node->row->flags & OPF_ordered;
}
int *graph_use_counts(Graph *graph);                      /* by value id, in the arena; outputs and writes count */
bool graph_writes(const Graph *graph, const GVal *input); /* at its end */
uint64_t graph_hash(const Graph *graph);                  /* structural */

typedef void ValVisit(void *context, GVal **slot);
/* tensors and tensor lists, in order */
void node_each_input(Node *node, ValVisit *visit, void *context);
/* same kind and value; floats by bits, tensors by identity */
bool arg_equal(const Arg *a, const Arg *b);
Arg arg_map_vals(Arena *arena, Arg arg, Val *(*map)(void *context, Val *val), void *context);

void graph_print(Graph *graph, Text *text);
/* The same with a comment behind each node, which is skipped where the text is read back. */
typedef struct GraphNotes {
    bool types;                                                  /* of its results, and which op it is a part of */
    void (*place)(const void *site, char *out, size_t capacity); /* names Node.site; NULL: no places */
} GraphNotes;
void graph_print_notes(Graph *graph, GraphNotes notes, Text *text);
/* A type of a header, "f32[s0,4]"; *end is past it. */
Status graph_type_parse(Graph *graph, const char *text, const char **end, Meta **out);
/* errors name line and column */
Status graph_parse(Arena *arena, const char *text, size_t n, Graph **out);
void arg_print(Text *text, const Graph *graph, const Arg *arg, ParamType type);

/* One argument that is no tensor, as arg_print prints it; symbols and runtime floats are the graph's. */
struct TextReader;
Status arg_parse(Graph *graph, ParamType type, struct TextReader *in, Arg *out);

/* The verifier [style: a table]: defs before uses, argument kinds, metadata = meta rule's, what the stage allows. */
Status graph_verify(Graph *graph, Stage stage);

/* What a call knows: the free symbols' values, and of each input how many elements of its storage lie before its first
 * one and from it on. */
typedef struct GraphMemory {
    const int64_t *symbols, *before, *behind;
} GraphMemory;
/* Views by numbers stay inside of the memory that they name, as far as it is known (memory NULL: before any call). The
 * ids are dense; *at is the node that an error speaks of. */
Status graph_check_reach(Graph *graph, const GraphMemory *memory, const Node **at);
/* How much memory its views by numbers name before and from each input's first element on, by input: raises what the
 * arrays have. The ids are dense. */
Status graph_find_reach(Graph *graph, const int64_t *symbols, int64_t *before, int64_t *behind);
/* Every symbol that the graph has is given by an input: by a size that is this symbol alone, as an int, or by a size
 * that is solved for it (s0*2, s0+s1 where another one gives s1), which becomes one of the graph's solutions. */
Status graph_check_symbols(Graph *graph);
/* Their values where the inputs are these, by free symbol; given: those that have one. */
void graph_symbol_values(const Graph *graph, const Meta *const *inputs, const int64_t *ints, int64_t *values,
                         bool *given);
/* Makes ints behind the inputs of symbols that none gives: those of a part of a function, whose numbers came from
 * before it. */
Status graph_assign_symbols(Graph *graph);
/* Whether there is anything to check. */
bool graph_names_memory(const Graph *graph);

#endif
