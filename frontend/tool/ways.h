/* ways.h: one target run in several ways on equal inputs: op by op; compiled with each op a kernel of its own;
 * compiled; and op by op in f64, as what exact results would be near to. Each way opens the target anew (but a sample
 * without state of its own, which registers its ops once) and makes WAY_CALLS calls; their results, gradients and
 * inputs afterwards are kept. Eager calls are made with several bytes in memory that no op sets, where they have some:
 * what hangs on it is marked (unset.h). */
#ifndef SINTER_TOOL_WAYS_H
#define SINTER_TOOL_WAYS_H
#include "frontend/tool/host_value.h"
#include "frontend/tool/target.h"
#include "runtime/base/error.h"

enum { WAY_CALLS = 3 };
typedef enum Way { WAY_eager, WAY_unfused, WAY_fused, WAY_f64, WAY_COUNT } Way;
const char *way_name(Way way, const TargetOptions *o); /* fused: or the backend that the options name */

typedef enum ValueKind { VALUE_result, VALUE_gradient, VALUE_argument } ValueKind;
typedef struct WayValues {
    HostValue *at;     /* results, then gradients of the inputs, then the inputs; these last two by input */
    HostValue *before; /* by input: before the call */
    int n_results, n_inputs;
    bool gradients; /* there are some */
} WayValues;
static inline int way_values_count(const WayValues *v) { return v->n_results + 2 * v->n_inputs; }
/* "result 0", "gradient of argument 1", "argument 0 afterwards". */
void way_value_name(const WayValues *v, int i, char *out, size_t capacity);

typedef struct WayRun {
    WayValues calls[WAY_CALLS];
    int n_calls;      /* that ended well */
    ErrorSlot error;  /* of the one behind them, or of opening the target; status ST_OK: there is none */
    int exit_code;    /* for it */
    sn_path path;     /* of the last call */
    char reason[512]; /* why it was not compiled, or there is no f64 */
} WayRun;

/* Nothing is left pending. The run is way_free's. */
void way_run(const TargetOptions *o, Way way, WayRun *run);
void way_free(WayRun *run);
/* A saved plan has its code, and the ops that this was made of. */
bool way_has(const TargetOptions *o, Way way);
/* The options of sn_compile for that way. */
sn_compile_options way_options(const TargetOptions *o, Way way);

/* Opened as a way does it: with the generator and stdin at their start. way_close. False: no such target. */
bool way_open(const TargetOptions *o, Target *t);
void way_close(Target *t);
/* The target as a graph, and what it is called with, tensors that it closed over included (borrowed; room
 * TARGET_INPUTS): its own, or what a call captures. way_graph_free. NULL: an error is pending. */
sn_graph *way_graph(const TargetOptions *o, Target *t, sn_tensor **in, int *n_in);
/* What a call with the inputs captures: sizes are numbers. sn_graph_free; NULL: an error is pending. */
sn_graph *way_captured(const TargetOptions *o, const Target *t);
void way_graph_free(const Target *t, sn_graph *graph);

#endif
