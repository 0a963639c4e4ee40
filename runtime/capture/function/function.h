/* function.h: compiled functions and their calls; what one keeps between calls is in
 * runtime/capture/record/function_state.h. */
#ifndef SINTER_RUNTIME_FUNCTION_H
#define SINTER_RUNTIME_FUNCTION_H
#include "runtime/capture/record/function_state.h"
#include "runtime/capture/replay/call_results.h"
#include "runtime/capture/record/graph_header.h"
#include "runtime/capture/variant/variant.h"

/* NULL raises */
sn_function *function_new(sn_body body, void *closure, const sn_compile_options *options);
void function_free(sn_function *fn);
/* `in`: n_in values (tensors borrowed); out: scope-owned results, NULL on failure. */
Status function_call(sn_function *fn, const Arg *in, int n_in, sn_tensor **out, int n_out);
/* The same, with memory for results: a call that needs no body makes its new ones there (call_results.h). */
Status function_call_into(sn_function *fn, const Arg *in, int n_in, sn_tensor **out, int n_out, ResultSink *sink);
/* What the results of such a call would be, as far as that is known without its body: nothing runs. */
Status function_describe(sn_function *fn, const Arg *in, int n_in, CallResult *results, int n_out, bool *known);
/* Runs fn on these inputs and gives its graph, made in `arena`, and what it closes over (captured_graph.h); an error
 * where the call breaks or nothing was compiled. Results belong to the innermost scope. */
Status function_capture(sn_function *fn, const Arg *in, int n_in, Arena *arena, Graph **graph, sn_tensor ***closed);
/* Of a training step: that its body sets .grad slots is no part of the graph, and no error. */
Status function_capture_step(sn_function *fn, const Arg *in, int n_in, Arena *arena, Graph **graph,
                             sn_tensor ***closed);

/* SINTER_REPORT, when a function is freed, or at the program's end. */
void function_report_begin(sn_function *fn);
void function_report(sn_function *fn);

#endif
