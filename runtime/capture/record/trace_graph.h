/* trace_graph.h: the capture graph of a trace. */
#ifndef SINTER_RUNTIME_TRACE_GRAPH_H
#define SINTER_RUNTIME_TRACE_GRAPH_H
#include "ir/graph.h"
#include "runtime/capture/record/input_name.h"
#include "runtime/capture/record/trace.h"

const TraceOp *trace_maker(const Trace *trace, Operand value); /* NULL: an input */
/* The op as the body called it: what is recorded of as_strided is sn::view_of, of a view's in-place form the view. */
const char *trace_op_name(const TraceOp *op);
/* The call that op was in this trace; args has room for MAX_ARGS, out_args (out forms) for MAX_OUTS; lists live
 * in the call's arena. */
void trace_numbers(const TraceOp *op, const int64_t *numbers, Arg *args); /* all but tensors, */
void trace_tensors(const TraceOp *op, Val **operands, Arg *args,
                   sn_tensor **out_args); /* and these: lists stay there */
Status trace_args(const Trace *trace, const TraceOp *op, Arg *args, sn_tensor **out_args);
/* The thread is as it was at the call that op was: the grad mode, the place, and where it is random the generator. */
void trace_op_enter(const TraceOp *op, const void *site, uint64_t sequence);
/* Where a graph input comes from when a variant is launched. */
typedef struct GraphInput {
    int captured;        /* the trace's input of this number */
    bool base;           /* the whole storage of that input as a 1-D tensor: its aliases are views of it */
    int64_t base_offset; /* base: first element, relative to the storage */
    const Meta *meta;    /* base: of the 1-D tensor */
} GraphInput;

typedef enum NumberRule { NUMBER_fixed, NUMBER_expr, NUMBER_runtime_int, NUMBER_runtime_float } NumberRule;

/* A free symbol's source: a size or stride of a captured input, or a number of the trace. */
typedef struct SymBinding {
    enum { BIND_size, BIND_stride, BIND_number, BIND_seed, BIND_sequence, BIND_unused } kind;
    int input, dim; /* number: its index in `input` */
    /* Of a size or number that is no symbol by itself: (it - rest) / times, whose symbols have lower rounds; times 0:
     * it is one. */
    int64_t times, rest;
    int round;
    int header; /* which symbol of a graph's header this is, from 1; 0: of none */
} SymBinding;

typedef struct TraceSymbols { /* how the trace's metadata and numbers enter the graph; static: as they
                            are */
    SymEnv *env;
    const Meta **metas;    /* by trace input; sizes and strides may be symbolic */
    int64_t *numbers;      /* by number: plain, symbolic, or a runtime float's index */
    uint8_t *number_rules; /* NumberRule */
    bool *number_guarded;  /* a rule branches on it: a runtime value must not be a special one */
    bool dynamic;
    int n_runtime_floats;
    VEC(SymBinding) bindings; /* by free symbol */
} TraceSymbols;
typedef struct TraceGraph {
    Graph *graph;
    GraphInput *inputs; /* by graph input */
    int *outputs;       /* trace value of each graph output */
    int n_inputs, n_outputs;
    GVal **values;    /* by trace value */
    Node **nodes;     /* by op of the trace */
    InputName *names; /* by trace input */
} TraceGraph;
/* Is argument i one of the numbers (not a dtype, device, bool...)? Lists count by their own length. */
static inline bool trace_arg_is_number(const OpRow *row, int i, const Arg *a) {
    const uint32_t structural = 1u << PT_bool | 1u << PT_bool_opt | 1u << PT_dtype | 1u << PT_dtype_opt |
                                1u << PT_device_opt | 1u << PT_layout_opt | 1u << PT_memory_format_opt;
    return (a->kind == ARG_int || a->kind == ARG_float) && !(structural >> row->params[i].type & 1);
}
/* What number `number` of the trace is in this op, which has it. */
typedef struct NumberParam {
    const Param *param;
    int item; /* of a list; -1: of none */
    bool is_float;
} NumberParam;
NumberParam trace_number_param(const TraceOp *op, int number);
/* Raises where the trace has no graph (aliases of different dtypes that are written...). */
Status trace_graph(const Trace *trace, Arena *arena, TraceSymbols *plan, TraceGraph *out);

#endif
