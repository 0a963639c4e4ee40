/* array.h: one call on arrays, between array.c, which makes its arguments and runs it, and array_results.c, which puts
 * its results where they belong. */
#ifndef SINTER_FRONTEND_ARRAY_H
#define SINTER_FRONTEND_ARRAY_H
#include <sinter/sinter.h>

#include "runtime/base/spans.h"
#include "runtime/capture/function/function.h"

typedef struct ArrayCall {
    ResultSink sink;  /* first */
    const char *what; /* the public function */
    bool fake, runs;  /* asked beforehand: data is not looked at; by a run of the body */
    sn_function *fn;
    const sn_array *in;
    sn_array *out;
    int n_in, n_out, n_spans;
    sn_array_options options;
    Arg *args;                     /* of the call */
    Span *spans;                   /* sorted: the memory of results with data, or allocated so far */
    const Meta **rooms;            /* by result: the layout of its data; NULL: it has none */
    Storage **places;              /* by result: its data, where the call was told to use it */
    sn_tensor **results, **copies; /* by result */
} ArrayCall;

Status array_error(const ArrayCall *call, Status status, const char *list, int i, const char *why);
/* The layout of an array, checked, which is list[i]. */
Status array_meta(const ArrayCall *call, const char *list, int i, const sn_array *array, const Meta **out);
/* Has result i room for such a one? */
Status array_check_result(const ArrayCall *call, int i, const Meta *meta);
/* Memory of the program's for result i, which has none yet. */
Status array_allocate(ArrayCall *call, int i, const Meta *meta);

/* Its dtype, device, sizes, strides and bytes, which live until the thread's next call, of n_out results. */
void array_describe_layout(sn_array *out, const Meta *meta, int n_out);

/* Of a call that has run. */
Status array_results(ArrayCall *call);
void array_forget_owners(ArrayCall *call); /* after an error */
/* Of a call that was asked beforehand. */
Status array_describe(ArrayCall *call, const CallResult *results);

#endif
