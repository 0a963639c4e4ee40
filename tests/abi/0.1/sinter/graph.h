/* graph.h: graphs as objects and text [neutral]. A graph is a list: its inputs, then its ops in order; nodes belong to
   their graph and live until it is freed. The text form is that of `sinter opt` and of sn_dump's "capture". */
#ifndef SINTER_GRAPH_H
#define SINTER_GRAPH_H
#include <sinter/compile.h>
SN_BEGIN
typedef struct sn_graph sn_graph;
typedef struct sn_node sn_node;
/* SN_ERR_PARSE names line and column. Inputs are tensors, "%x: f32[s0,3]", and ints, "s1: int". */
sn_graph *sn_graph_parse(const char *text, size_t length);
/* Runs fn once on these inputs and gives a copy of its graph, to be called so: its inputs are the tensors among `in`,
 * in their order, used or not (%x0, %x2: by their place in `in`; numbers are constants of the graph), then what fn
 * closes over, by first use (%closed0); its outputs are fn's. A tensor that is given twice, or given and closed over,
 * is one input: the first place it was given at; call the graph so too. A call that breaks, does more than its graph
 * (reads a value, adds a hook), or compiles nothing, or whose written inputs share memory, is an error. [op] */
sn_graph *sn_graph_capture(sn_function *fn, const sn_value *in, int n_in);
/* With its nodes; NULL: nothing. */
void sn_graph_free(sn_graph *g);
/* A function of the graph's inputs and outputs, compiled like any other; copies g, which sn_graph_check must accept. A
   call's tensors have the dtypes, sizes and strides that the header says (a dim of size 1 has any stride), ints are
   given by sn_call_values; a symbol is what the first size that is it alone says. Errors name the text's line ("f:5")
   where it does not say at='...'. What returns None gives NULL. options: closure_free is not used. */
sn_function *sn_graph_compile(sn_graph *g, const sn_compile_options *options);
/* Parses back to the same text; lives until the state makes another one. */
const char *sn_graph_text(sn_graph *g);
/* The verifier: structure, metadata, orders of additions; views by numbers stay in the memory of the results that they
   view (of inputs and of what symbols say: at the call, SN_ERR_VALUE); every symbol has a value. */
sn_status sn_graph_check(sn_graph *g);
/* Passes by name, in order: "functionalize,decompose,cse,dce", or pipelines that stand for several: "prepare"; an
   unknown name lists the valid ones. */
sn_status sn_graph_run(sn_graph *g, const char *passes);
/* Inputs and ops. */
int sn_graph_count(sn_graph *g);
/* From 0; the inputs first. */
sn_node *sn_graph_node(sn_graph *g, int i);
/* A new op before `before` (NULL: at the end) with nodes as its first arguments and `rest` behind them, in the order of
   its schema; what is missing defaults. Several results: the node stands for the first. An argument that does not come
   before `before`, or `before` an input, is an error; so are nodes of other graphs and erased ones, everywhere. */
sn_node *sn_graph_insert(sn_graph *g, sn_node *before, const char *op, sn_node *const *in, int n_in,
                         const sn_value *rest, int n_rest);
/* "aten::mm", or "input". */
const char *sn_node_op(sn_node *n);
/* Tensor arguments, those of lists one by one. */
int sn_node_in_count(sn_node *n);
/* The node that makes tensor argument i. */
sn_node *sn_node_in(sn_node *n, int i);
/* All uses of its first result; they must come after `by`. */
sn_status sn_node_replace(sn_node *n, sn_node *by);
/* An op or an input; one that is used: SN_ERR_STATE. */
sn_status sn_node_erase(sn_node *n);
/* Of an input "x0" or "closed0"; of an op "". */
const char *sn_node_name(sn_node *n);
/* Of its first result. */
sn_dtype sn_node_dtype(sn_node *n);
/* -1 on error. */
int sn_node_rank(sn_node *n);
/* -1: a symbol, which only a call knows, or an error. */
int64_t sn_node_size(sn_node *n, int dim);
int64_t sn_node_stride(sn_node *n, int dim);
/* An op's argument by its name in the schema, defaults included; lists live as long as the graph. A tensor is NULL:
   sn_node_in has its node. A number that only a call knows is SN_ERR_STATE. */
sn_status sn_node_arg(sn_node *n, const char *name, sn_value *out);
/* The tensor that an input is bound to, or that fn closed over when the graph was captured (borrowed; the graph keeps
   it); NULL of arguments, ops, and graphs from text. */
sn_tensor *sn_node_tensor(sn_node *n);
/* From now on an input is this tensor, which the graph and what is compiled of it retain: calls do not give it. Its
   dtype, device and rank are the input's. The text does not tell it. [flush] */
sn_status sn_node_bind(sn_node *n, sn_tensor *t);
/* A new input, behind the others, of t's sizes and strides and bound to it. A name that is taken gets a number.
   [flush] */
sn_node *sn_graph_bind(sn_graph *g, const char *name, sn_tensor *t);
SN_END
#endif
