/* lower.h: what the passes schedule, lower and memory share: values and their layouts, groups and clusters, positions,
 * nests being written.
 *
 *   schedule.c    which nodes share a nest (Cluster) and which nests share a kernel (Group)
 *   lower.c       where values live; the groups' steps
 *   values.c      what is known of each value
 *   plain.c       pointwise clusters that fit without a trial
 *   remat.c       values that a second nest computes for itself
 *   traffic.c     bytes that one nest in the place of two saves
 *   group_order.c the groups in an order that can run, while they grow
 *   order.c       write-backs in place; the order of the groups
 *   position.c    affine arithmetic: positions through broadcasts, views and strides
 *   nest.c        one cluster to one nest, by evaluating stored values backwards
 *   kernel.c      one group to one Kernel: buffers, parameters, the template
 *   alone.c       ops without a loop program: steps that eager runs
 *   memory.c      slots and the arena
 *
 * A *position* is the row-major number of an element in its value's logical sizes, as an affine
 * expression of the nest's index variables. Everything else follows by address(): a broadcast, a
 * view and a load are all "the same position read with other strides". Where a split of the
 * position along dims is not affine, the nest's variable is split and the nest is written again; so
 * nests start with as few dims as the reduction's structure allows. */
#ifndef SINTER_PASSES_LOWER_H
#define SINTER_PASSES_LOWER_H
#include "passes/passes.h"

typedef enum ValKind {
    VAL_input,
    VAL_view, /* of another value: no memory, no loop */
    VAL_pointwise,
    VAL_reduction,
    VAL_template, /* a template computes it: a product */
    VAL_pieces,   /* several nests that each store a part: cat, pad */
    VAL_native    /* a step of its own: a native kernel, or a copy between devices */
} ValKind;

/* What lowering knows of a value, by id. */
typedef struct ValInfo {
    GVal *val;
    ValKind kind;
    GVal *of;       /* views: the value viewed */
    GVal *base;     /* through all views; itself if not a view */
    int64_t offset; /* where it lies in its base's memory, elements */
    const int64_t *strides;
    /* views: strides in the row-major space of `of`, with relative_offset */
    const int64_t *relative;
    int64_t relative_offset;
    GVal *home;                /* bases: whose memory holds it: itself, or the input that it overwrites in place */
    int slot;                  /* homes: -1 until the memory plan */
    struct ValInfo *scattered; /* homes: a result of a scatter in place that lives there; more by next_scattered */
    struct ValInfo *next_scattered;
    bool visible;   /* bases: an output or a write needs it (or a view of it) in memory */
    VEC(int) users; /* bases: nodes that are no views and take it or a view of it, and readers */
    bool read;      /* bases: by one of them, not for its sizes alone */
} ValInfo;

typedef struct Group Group;
typedef VEC(Group *) Groups;
typedef struct GroupOrder GroupOrder;
typedef struct Plain Plain;

/* Nodes lowered into one nest. */
typedef struct Cluster {
    Group *group;
    ValKind kind;            /* pointwise, reduction (has one), template, pieces, native */
    VEC(Node *) nodes;       /* in program order */
    VEC(Node *) again;       /* nodes of another cluster that it computes for itself (remat.c) */
    int reader;              /* stands for it among the users of what these read; 0: there are none */
    const struct Copy *copy; /* the cluster is this copy; or NULL */
    int n_bufs;
    int64_t full, outer; /* elements of its nest, and of its rows where it reduces */
    const Plain *plain;  /* plain.c: what shows without a trial that others fit; NULL: nothing */
    bool tried;          /* a single node: `plain` is known */
} Cluster;

/* Clusters in one step. */
struct Group {
    VEC(Cluster *) clusters; /* in order */
    bool independent;
    bool checked;    /* may fail on values */
    bool write_back; /* writes memory visible outside */
    /* group_order.c: its place in the running order kept so far, the mark of the last search that came to it, and what
     * must come before and after it beside data and effects */
    Group *prev, *next;
    int64_t tag;
    int mark;
    Groups after, before;
};

/* A value copied into memory, cast where dtypes differ: write-backs that could not be done in
 * place, doubled outputs, the parts of cat and pad. */
typedef struct Copy {
    GVal *from; /* NULL: `fill` everywhere */
    Arg fill;
    GVal *to; /* base whose memory is written, or NULL: `slot` */
    int slot;
    DType dtype;          /* of the target */
    const int64_t *sizes; /* of what is copied; rank as `strides` */
    int rank;
    int64_t offset; /* where it goes, elements */
    const int64_t *strides;
    /* where in the row-major space of `from` it is read; NULL: all of it */
    const int64_t *from_strides;
    int64_t from_offset;
    bool write; /* memory visible outside */
} Copy;

/* Nests, and no template's. */
static inline bool cluster_loops(const Cluster *c) { return c->kind == VAL_pointwise || c->kind == VAL_reduction; }

typedef struct Lower {
    Graph *graph;
    SymEnv *env;
    Arena *arena;
    Plan *plan;
    bool fuse, fast;           /* PassOptions */
    bool alone;                /* eager stands behind the plan: it runs what does not lower (alone.c) */
    bool some_alone;           /* some ops are taken for such */
    int most_bufs, most_nodes; /* of a nest */
    ValInfo *vals;             /* by value id */
    Cluster **cluster;         /* by node id; NULL: views. Behind the last one by Cluster.reader */
    int n_readers;
    const Node **next_effect; /* by node id, of an op with effects: the next such op, or NULL */
    Groups groups;
    GroupOrder *order;
    int n_arena_slots;
    Arena *scratch; /* of nests tried, reset after each */
    VEC(PlanMerge) merges;
    struct LowerWork {
        int64_t trials, visits; /* nests tried; groups looked at to see whether a cycle would close */
        int64_t places;         /* placed slots looked at and moved to place others in the arena */
    } work;
} Lower;

static inline ValInfo *val_info(const Lower *l, const GVal *v) { return &l->vals[v->id]; }

_Noreturn void lower_bail(const Lower *l, const Node *node, const char *why);
int new_slot(Lower *l, SlotKind kind, int index, const Meta *meta); /* arena: the next one, whatever the index */

/* values.c ------------------------------------------------------------------------------------ */
void look_at_graph(Lower *l);
Val *node_moves(const Node *node);                   /* what it copies from another device; NULL: nothing */
void look_at_view(Lower *l, ValInfo *info, GVal *v); /* where it lies, from its base's layout */
bool node_reads(const Lower *l, const Node *node, const GVal *base); /* elements of it: not its sizes alone */
bool keeps_layout(const Lower *l, const GVal *v);                    /* its memory is laid out as its metadata says */

/* position.c ---------------------------------------------------------------------------------- */

/* The nest's index space: outer vars, then S, then L. */
typedef struct Domain {
    SymEnv *env;
    int n_vars, n_outer, n_s; /* the rest is L */
    int64_t extent[MAX_LOOP_DIMS];
    Affine full;        /* position in the reduction's input, or in the result of a pointwise nest */
    Affine outer, s, l; /* positions among kept, S and L dims; pointwise: outer = full */
    int64_t full_numel, outer_numel, s_numel, l_numel;
    bool has_inner, fixed; /* fixed: a template's tile, vars may not be split */
} Domain;

/* A position, perhaps with one dim given by data. */
typedef struct Pos {
    Affine at;
    int gather;            /* i64 instruction whose value times `stride` is added, -1: none */
    int64_t stride, bound; /* row-major stride and size of the gathered dim */
    bool wrap;             /* negative values count from the end */
    int by;                /* id of the node that gathers, which errors name */
} Pos;

typedef struct VarSplit { /* asked for when a position is not affine: var into (extent / factor,
                          factor) */
    bool wanted;
    int var;
    int64_t factor;
} VarSplit;

void affine_add(SymEnv *env, Affine *to, const Affine *term, int64_t scale);
bool affine_equal(const Affine *a, const Affine *b);
bool affine_is_bijection(const Domain *domain, const Affine *at, int64_t numel);
void domain_pointwise(Domain *domain, SymEnv *env, int64_t numel);
/* false: too many dims */
bool domain_reduction(Domain *domain, SymEnv *env, const Meta *input, const bool *reduced);
void domain_dims(Domain *domain, SymEnv *env, const int64_t *sizes, int rank); /* pointwise, a var for each dim */
void domain_template(Domain *domain, SymEnv *env, const int64_t *sizes, int rank);
bool domain_split(Domain *domain, const VarSplit *split); /* false: no room for another var */
/* Sum of index * stride over the dims of the row-major position `at`; false: not affine, split says
 * what would help. */
bool address(const Domain *domain, const Affine *at, const int64_t *sizes, const int64_t *strides, int rank,
             Affine *out, VarSplit *split);
/* The same for a position with a gather: its part goes to *gather_stride (0: the dim is broadcast). */
bool address_gather(const Domain *domain, const Pos *pos, const int64_t *sizes, const int64_t *strides, int rank,
                    Affine *out, int64_t *gather_stride, VarSplit *split);
void row_major(SymEnv *env, const int64_t *sizes, int rank, int64_t *strides);
int64_t dim_product(SymEnv *env, const int64_t *sizes, int rank);

/* nest.c -------------------------------------------------------------------------------------- */

/* A kernel being written: its buffers are bases in memory. */
typedef struct Draft {
    Lower *l;
    Arena *arena;
    VEC(GVal *) homes; /* of the buffers; NULL: the tile, or a copy's target */
    VEC(int) slots;    /* of buffers without a home: the slot, -1 for the tile */
    VEC(Buf) bufs;
    VEC(int64_t) params; /* graph expressions, or indices of runtime floats */
    VEC(bool) is_float;
    int tile, tile_param; /* of a template: buffer and the parameter that is its row stride; -1 */
} Draft;

int64_t draft_int(Draft *draft, int64_t value); /* plain as it is, symbolic: its parameter */
int draft_param(Draft *draft, int64_t value, bool is_float);
int draft_buf(Draft *draft, const GVal *base, bool written);

typedef struct NestCost {
    int64_t full, outer;
    const char *recomputed; /* why its work would be done several times over, or NULL */
    bool elsewhere;         /* a body reads elements at another position than its own */
    int n_vars;             /* of the domain that all positions are affine in */
    int64_t extent[MAX_LOOP_DIMS];
} NestCost;

/* Writes the cluster's nest; NULL and *why if it has none. `cost` may be NULL. */
Nest *nest_build(Draft *draft, const Cluster *cluster, const char **why, NestCost *cost);
/* by input dim; false: the node is no reduction of its input */
bool reduced_dims(const Node *node, bool *reduced);
/* plain.c ------------------------------------------------------------------------------------- */

/* What a trial of one pointwise node shows; NULL: nothing that helps. */
const Plain *plain_of(Lower *l, const Cluster *cluster, const Draft *draft, const NestCost *cost);
/* What both clusters, relabelled as `both`, are together; NULL: only a trial can say whether they fit. */
const Plain *plain_both(Lower *l, const Cluster *both, const Plain *a, const Plain *b);
/* The same after a trial did. */
const Plain *plain_tried(Lower *l, const Cluster *both, const Plain *a, const Plain *b, const NestCost *cost);
int plain_bufs(const Plain *plain);

/* nest.c: the last value that needs memory; NULL: none does */
const GVal *cluster_last_stored(const Lower *l, const Cluster *cluster);
/* schedule.c: writes the nest that the cluster would be and looks at it; NULL: it is fine */
const char *try_nest(Lower *l, Cluster *cluster, const Plain *a, const Plain *b);
/* order.c: how many of the graph's writes its nest could store where they go: it reads no other element there */
int writes_in_place(Lower *l, const Cluster *cluster);
/* schedule.c: for explain: `from` and `to` became one nest, or (why) did not, and what that saves */
void record_merge(Lower *l, const Node *from, const Node *to, int64_t bytes, const char *why);
/* remat.c: where clusters are final, and groups have one each */
void rematerialize(Lower *l);

/* The node's place among those that the cluster computes again; -1: it does not. */
int again_at(const Cluster *cluster, const Node *node);
/* computes it */
bool cluster_has(const Lower *l, const Cluster *cluster, const GVal *base);
/* used outside of the cluster */
bool needs_memory(const Lower *l, const Cluster *cluster, const GVal *base);
Node *template_node(const Lower *l, const Cluster *cluster); /* whose loops a template has; NULL: none */

/* For bodies with an index of their own (gather, flip): the element of `arg` at a position of its
 * row-major space. */
int body_element_at(BodyCall *call, int arg, const Pos *pos);
/* The element of `arg` at `rest` plus index (i64, checked) along `dim`; rest leaves that dim out. */
int body_gathered(BodyCall *call, int arg, Pos rest, int index, int dim);
int body_stop(BodyCall *call, const char *why); /* no nest can be written */
/* The index of the element along each dim of the result, times the strides given: position of
 * another space. */
bool body_address(BodyCall *call, const int64_t *strides, Pos *out);
int body_index_inst(BodyCall *call, const Pos *pos); /* i64: the position as a number */
int body_count(BodyCall *call, SType type);          /* reductions: how many elements each result sums */
/* `value`, after raising a value error on every element where `bad`; `index`, below 0: what the error tells of it. */
int body_checked(BodyCall *call, int value, int bad, int index);
/* `divisor`, which must not be 0. */
int body_nonzero(BodyCall *call, int divisor);

/* kernel.c, order.c, pieces.c ----------------------------------------------------------------- */
/* Whether a nest may write a result to the memory of the home that it now has, which it reads as well. */
bool nest_allows(Lower *l, const Cluster *cluster, const GVal *value);
/* take_over.c: of groups in running order (Group.mark is it then) */
void results_take_over(Lower *l);
/* write-backs in place where that is safe; then the groups in running order */
void order_groups(Lower *l);

/* traffic.c: bytes that a nest of both moves less than the two; negative: more. b reads a's results, or what a does. */
int64_t traffic_saved(const Lower *l, const Cluster *a, const Cluster *b);

/* far.c: why two groups are not joined although they could be; NULL: nothing against it. */
const char *far_refuses(const Lower *l, const Group *a, const Group *b);
int group_last_node(const Group *group); /* where it runs, as a place in the program */
/* why storing to what it also reads would be wrong, or NULL */
const char *nest_overwrites(const Nest *nest, int buf);
/* why not, or NULL */
const char *draft_cluster(Draft *draft, const Cluster *cluster, Kernel *kernel, NestCost *cost);
/* why not, or NULL */
const char *lower_group(Lower *l, const Group *group, Step *step);
/* lower.c: adds the group's step, or several where it has to be taken apart. */
void lower_to_step(Lower *l, const Group *group);
/* The step that calls the op on values in slots. */
void call_step(Lower *l, Node *node, StepKind kind, Step *step);
/* alone.c: of a group that has no kernel. */
void lower_alone(Lower *l, const Group *group, const char *why);
bool pieces_known(const Node *node);
bool pieces_independent(const Node *node);
int pieces_of(Lower *l, Node *node, Copy *copies, int capacity); /* their number */

#endif
