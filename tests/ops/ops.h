/* ops.h: what the modes of test_ops share: the walk over rows x samples x dtypes x layouts, failures, a row's one-node
 * graph, what a tensor shows. A mode is a function of one case; test_ops.c lists them. */
#ifndef SINTER_TESTS_OPS_OPS_H
#define SINTER_TESTS_OPS_OPS_H
#include <string.h>

#include "passes/passes.h"
#include "tests/ops/samples.h"

typedef struct Case {
    const OpRow *row;
    const char *line;
    int number; /* of the line among the row's */
    SampleStyle style;
} Case;
typedef void CaseFn(const Case *c);

enum { EACH_dtype = 1, EACH_layout = 2, EACH_batched = 4, EACH_host = 8, EACH_derivative = 16, EACH_native = 32 };
/* Calls fn for the samples of every row, in a scope of its own each: f32 and contiguous alone unless `what` says so;
 * EACH_batched: the lines of `batched` instead of `good`; EACH_host: rows that read values on the host, too;
 * EACH_derivative: rows that have one; EACH_native: such rows if they have kernels, and dtypes and layouts of rows with
 * a kernel written by hand for CUDA devices. A row none of whose cases counted (ops_count) fails. */
void ops_each(int what, CaseFn *fn);
void ops_count(void); /* the running case was checked, not refused for its dtype */
/* What the running case does now, for the report of a crash: a text that stays, or NULL. */
void ops_now(const char *what);
void ops_fail(const Case *c, const char *format, ...) PRINTF_LIKE(2, 3);

/* Makes the call and runs it. False: the dtype was refused, with the right kind of error; or the case failed. */
bool ops_run(const Case *c, SampleCall *call, sn_tensor **outs, int *n_outs);
bool ops_make(const Case *c, SampleCall *call); /* the same without running it */
/* The pending error if it is of another kind than "this dtype is not for that op"; takes it. */
bool ops_refused(const Case *c);

/* Whether result i is a value: gradients that output_mask leaves out are none. */
bool ops_wanted(const SampleCall *call, int i);
/* Rows that have no second derivative, as in PyTorch: it is refused, and so are tangents. */
bool ops_first_only(const OpRow *row);
/* The call as a graph of one node, whose outputs are the wanted results;
 * its inputs are call->tensors. NULL: the error is pending. */
Graph *ops_graph(const SampleCall *call, Arena *arena);
/* Runs passes and lowers; NULL: *why says why (a text of the arena, or the pending error's). */
Plan *ops_plan(Graph *graph, const char *passes, Bail *exit, const char **why);

/* Writes metadata and elements, NaNs of arithmetic made equal [B1]; equal texts are equal results. */
void ops_show(Text *text, sn_tensor *t);

CaseFn check_meta, check_reference, check_parts, check_gradients, check_compiled, check_native_code, check_forms,
    check_rows, check_text, check_wrong, check_precise, check_bools, check_saves, check_leaves, check_any_size,
    check_cuda, check_vmap, check_forward, check_stack, check_numbers, check_symbolic, check_resized, check_domain,
    check_reach, check_limits, check_takes, check_infer, check_header, check_eager_code;
void check_errors(void);

/* Its numbers have no slope, by definition: differences of numbers made of its arguments are none. */
static inline bool ops_is_drawn(const OpRow *row) { return row->derivative && !strcmp(row->derivative, "chance"); }

#endif
