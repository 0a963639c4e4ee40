/* graph_handle.h: graphs as objects: what the functions of <sinter/graph.h> share.
 *
 * sn_node is a handle: an input or an op node; handles are made once per graph and found again by
 * identity. */
#ifndef SINTER_FRONTEND_GRAPH_HANDLE_H
#define SINTER_FRONTEND_GRAPH_HANDLE_H
#include <sinter/graph.h>

#include "frontend/api/ops_call.h"
#include "passes/passes.h"
#include "runtime/base/alloc.h"
#include "runtime/core/frame.h"
#include "runtime/capture/function/function.h"
#include "runtime/autograd/graph_run.h"
#include "runtime/core/site.h"

struct sn_node {
    sn_graph *graph;
    Node *node;       /* NULL: an input, or an int */
    GVal *input;      /* NULL: an op, or an int */
    int64_t number;   /* an int: an expression of the graph's symbols */
    const char *name; /* of an int input; else NULL */
};

/* An input of which the graph has a tensor: what was closed over; what is bound comes from no call. */
typedef struct KnownInput {
    const GVal *input;
    sn_tensor *tensor; /* retained */
    bool bound;
} KnownInput;

struct sn_graph {
    Arena *arena;
    Graph *graph;
    VEC(sn_node *) handles;
    VEC(KnownInput) known;
    Stage stage;       /* of one that is lent */
    bool returns;      /* sn_graph_return was called */
    uint32_t autocast; /* of ops to come, as of a thread */
    bool lent;         /* to a pass of the program's: the graph is the compile's, its inputs stay as they are */
    /* compiled: */
    const void *const *sites; /* by node id */
    bool returns_none;        /* some output is None */
    GraphHeader header;
    bool any_strides; /* calls may give other strides than the header says; also before it is compiled */
};

/* The handle of an op, or of an input; NULL: memory is out. */
sn_node *graph_handle(sn_graph *g, Node *node, GVal *input);
/* A new one, of which the graph has none. */
sn_node *graph_handle_new(sn_graph *g, sn_node like);
/* Around an arena with a graph; NULL: memory is out. */
sn_graph *graph_wrap(Arena *arena, Graph *graph);
/* Whether g has the node, still; raises in the name of `what`. */
Status graph_check_node(sn_graph *g, const sn_node *n, const char *what);
/* The tensor that the input is bound to, borrowed; NULL: a call gives it. */
sn_tensor *graph_bound(const sn_graph *g, const GVal *input);
/* Notes a tensor of the input, in the place of what was known. */
Status graph_know(sn_graph *g, const GVal *input, sn_tensor *t, bool bound);
/* Binds all inputs whose tensors are known, or none. */
Status graph_bind_known(sn_graph *g);
/* Raises in the name of `what` where the graph is lent. */
Status graph_is_own(const sn_graph *g, const char *what);
/* As sn_graph_capture, of a training step, whose changes of .grad slots are left out. */
sn_graph *graph_capture_step(sn_function *fn, const sn_value *in, int n_in);
/* Takes back an op that was put in and that nothing uses; cannot fail. */
void graph_remove_node(sn_node *n);

#endif
