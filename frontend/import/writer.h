/* writer.h: nodes of a program as lines of a text graph (ir/graph_parse.c has its form): names, arguments, places.
 *
 *     %linear = aten::linear(%x, %p_l_weight, %p_l_bias) at='net.py:13'
 *
 * Names of values are the file's; those of an inlined body, whose names are its own, get a number where they are taken.
 * Ints of sizes are no values of a graph: what the file computes with them is an expression of the graph's symbols. */
#ifndef SINTER_IMPORT_WRITER_H
#define SINTER_IMPORT_WRITER_H
#include "frontend/import/model.h"
#include "ir/op.h"
#include "runtime/base/hash.h"
#include "runtime/base/text.h"

typedef struct NodeWriter {
    Model *m;
    const Json *graph; /* whose nodes are written: it has their types, sizes and bools */
    Text *text;
    Map values;        /* hash of scope and name -> "%add", "(s0+1)" */
    Map taken;         /* names of the text */
    Map carried;       /* by symbol + 1: "%i", the tensor that it is in a body that carries numbers */
    int scope, scopes; /* of the body that is written; so many there were */
    bool no_grad;
    bool is_body;      /* a graph of its own, with symbols of its own */
    int found;         /* the symbol of a size of the next op that only values say; -1: none */
    DType cast_to;     /* in a region of autocast; DT_default: in none */
    bool casts_as_cpu; /* by the CPU's list */
    const char *place; /* of the node, "net.py:13" */
} NodeWriter;

/* The only member of a union {"as_int": 3}; NULL: it is none. */
const Json *writer_union(const Json *u);
static inline bool writer_union_is(const Json *member, const char *kind) {
    return member && !strcmp(member->key, kind);
}

void writer_free(NodeWriter *w);
/* A name of the text that is free: `name` itself, or with a number behind. NULL: memory is out. */
const char *writer_new_name(NodeWriter *w, const char *name);
Status writer_set(NodeWriter *w, const char *name, const char *value);
const char *writer_get(const NodeWriter *w, const char *name); /* NULL: none */
/* The value that {"as_tensor": {"name": "x"}} names, or that {"name": "x"} does. */
Status writer_tensor(const NodeWriter *w, const Json *tensor, const char **out);
/* A size as the text has it; raises where only values say it. */
Status writer_size(NodeWriter *w, const Json *sym, const char **out);
/* One argument. */
Status writer_arg(NodeWriter *w, const Json *arg, Text *out);
/* `name=` of the results, in front of an op: "%a, %b = ". */
Status writer_results(NodeWriter *w, const Json *outputs, Text *out);
void writer_attributes(const NodeWriter *w, Text *out);
/* "f32[s0,4]{1,8}" */
Status writer_type(Model *m, const Json *meta, const char *what, Text *out);

/* In a region of autocast: casts of the node's tensors, by the op's policy, as lines before it; they stand in the place
 * of these until they are put back (writer_casts.c). */
typedef struct CastValue {
    const char *name, *before;
} CastValue;
typedef struct WriterCasts {
    VEC(CastValue) list;
    bool to_f32; /* the call gets dtype=f32 */
} WriterCasts;
Status writer_casts(NodeWriter *w, const OpRow *row, const Json *inputs, WriterCasts *out);
Status writer_casts_end(NodeWriter *w, const WriterCasts *casts);

/* A node, or a graph's nodes (writer_nodes.c). */
Status writer_nodes(NodeWriter *w, const Json *graph);
/* Raises where a program calls ops that there are none of: all of them, with the user's lines. */
Status writer_check_ops(Model *m);
/* A node whose result, `name`, is a float of sizes (writer_floats.c); one that there is none of stays unknown. */
Status writer_float(NodeWriter *w, const Json *node, const char *name);
/* Before an op that may be given such a float: a cast of it where its dtype would count, until writer_casts_end. */
Status writer_floats(NodeWriter *w, const OpRow *row, const Json *inputs, const Json *outputs, WriterCasts *out);
/* The row, or where it wants a number and is given such a float the one that takes a tensor (lerp.Tensor), if any. */
const OpRow *writer_row_of_tensors(const NodeWriter *w, const OpRow *row, const Json *inputs);
/* full, scalar_tensor and their like; *written: one is given such a float, and stands there. */
Status writer_filled(NodeWriter *w, const Json *inputs, const Json *outputs, bool *written);
/* The float is what the tensor has. */
Status writer_float_item(NodeWriter *w, const char *name, const char *tensor);
/* The int is what the tensor, "%i", has: a symbol of the graph; in no body. */
Status writer_item(NodeWriter *w, const char *name, const char *tensor);
/* Numbers that a body carries (writer_numbers.c). The int is this tensor of the body from here on. */
Status writer_carry(NodeWriter *w, const char *name, const char *tensor);
/* The name is what e has for carried numbers; without one of them nothing happens. */
Status writer_carried(NodeWriter *w, const SizeExpr *e, const char *name);
/* select.int by such a number; *written: it stands there. */
Status writer_carried_select(NodeWriter *w, const Json *inputs, const Json *outputs, bool *written);
/* A number as the text has it, "(s0+1)", as a tensor of no dims: a line before. */
Status writer_as_tensor(NodeWriter *w, const char *number, const char *dtype, const char **out);
/* A node of torch.ops.higher_order (writer_bodies.c). */
Status writer_higher_order(NodeWriter *w, const Json *node, const char *name);
/* "net.py:13": the innermost frame that is the user's; NULL: none is known (writer_place.c). */
const char *writer_place(Arena *arena, const Json *node);

#endif
