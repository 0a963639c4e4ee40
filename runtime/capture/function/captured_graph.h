/* captured_graph.h: the graph of a call, to be called as the function was [semantics C15].
 *
 * Its inputs are the arguments that are tensors, in their order, unused ones included (%x0, %x2: named by their place
 * in the call; numbers are constants of the graph), then what the function closed over, by first use (%closed0). Its
 * outputs are the function's. */
#ifndef SINTER_RUNTIME_CAPTURED_GRAPH_H
#define SINTER_RUNTIME_CAPTURED_GRAPH_H
#include "runtime/capture/record/capture.h"
#include "runtime/capture/variant/variant.h"

typedef struct CapturedCall {
    const Trace *trace; /* the one segment that it was */
    const Arg *in;
    sn_tensor *const *out; /* n_out: room; NULL: not set */
    int n_in, n_out;
} CapturedCall;

/* The text of a variant's capture graph: what it was called with in the order of the call, then the rest by first
 * touch. Inputs that share written memory stay the one that they are, behind the arguments. */
Status captured_text(const Variant *variant, const Dump *dump, Text *text);
/* The variant's graph so ordered. An error where written arguments share memory. *closed, in the arena: what is closed
 * over, by the graph's input, retained; NULL for the arguments. */
Status captured_graph(const CapturedCall *call, const Variant *variant, Arena *arena, Graph **out, sn_tensor ***closed);

#endif
