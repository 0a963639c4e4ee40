/* graph_build.h: what the functions that build graphs share: values that a caller gives as arguments of a new node. */
#ifndef SINTER_FRONTEND_GRAPH_BUILD_H
#define SINTER_FRONTEND_GRAPH_BUILD_H
#include "frontend/api/graph_handle.h"

/* ST_OK where no error is pending and what is wanted is there. */
Status graph_wants(bool present, const char *function, const char *what);

/* "s3" -> 3; -1: it is no symbol. */
int graph_symbol_number(const char *name);
/* Of kind SN_KIND_NODE; n NULL: after an error. */
sn_value graph_node_value(sn_node *n, int i);

/* An argument in the making: where it stands, for errors. */
typedef struct GivenPlace {
    sn_graph *g;
    const char *function, *op; /* op NULL: param and index say it, "result 3" */
    const char *param;
    int index, item; /* item -1: no list */
} GivenPlace;

/* "sn_graph_op: aten::cat: tensors[1]" */
void graph_given_print(const GivenPlace *at, char *out, size_t capacity);
#define GIVEN_WRONG(at, status, format, ...)                                                                           \
    ({                                                                                                                 \
        char place_text[300];                                                                                          \
        graph_given_print(at, place_text, sizeof place_text);                                                          \
        error_raise(status, "%s " format, place_text, __VA_ARGS__);                                                    \
    })
/* One that is no list of values: as the graph has it, a tensor or an int of a node, or itself. */
Status graph_given_value(const GivenPlace *at, const sn_value *given, Arg *out);

/* One call in the making. */
typedef struct BuiltCall {
    const OpRow *row;
    OpForm form;
    Arg args[MAX_ARGS + MAX_OUTS];
} BuiltCall;
/* By name and values, in the name of a public function. */
Status graph_given_call(sn_graph *g, const char *function, const char *op, const sn_value *args, int n_args,
                        BuiltCall *call);
/* At the end, in no region and at no place; NULL raises, and the graph is as it was. */
sn_node *graph_append_call(sn_graph *g, const BuiltCall *call);
/* A number is a tensor without dims, of the dtype that PyTorch's scalars have. */
Status graph_make_number(sn_graph *g, Arg number, Arg *out);

/* What was put in behind `last`, which nothing uses. */
void graph_take_back(sn_graph *g, const Node *last);
/* In a region of autocast: the call's tensors become casts by its op's policy, which are put in. */
Status graph_cast_call(sn_graph *g, BuiltCall *call);

#endif
