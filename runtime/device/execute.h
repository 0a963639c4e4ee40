/* execute.h: plans that run. An Executable is a plan whose kernels have code: interpreter programs
 * or loaded native functions; it is immutable and shared between threads once built. */
#ifndef SINTER_RUNTIME_EXECUTE_H
#define SINTER_RUNTIME_EXECUTE_H
#include "ir/plan.h"
#include "runtime/core/dispatch.h"

typedef struct Executable Executable;

/* Where generated code comes from: take gives a nest's function, which is kept until it is given back with the
 * executable, or NULL (interpreter). */
typedef struct NativeCode {
    NestFn *(*take)(void *context, const Nest *nest);
    void (*give)(NestFn *fn);
} NativeCode;
/* The plan's arena must outlive the executable; own_arena hands it over, to be freed with it. native NULL: every nest
 * on the interpreter. */
Status executable_new(Plan *plan, bool own_arena, const NativeCode *native, void *context, Executable **out);
/* Its calls are to be one launch where its device has that (repeat.h). Once, before its first call. */
Status executable_repeat(Executable *executable);
/* Whose it is, for who watches its steps (watch.h): a compiled function's. Once, before its first call. */
Status executable_name(Executable *executable, const char *function);
void executable_free(Executable *executable);
/* With its arena, where that is its own; without generated code. */
size_t executable_bytes(const Executable *executable);
int executable_outputs(const Executable *executable); /* how many results execute gives */

typedef struct ExecuteCounts { /* of this thread, for tests: launches, allocations, copies */
    int64_t launches, allocations, arena_allocations, copies;
} ExecuteCounts;
ExecuteCounts *execute_counts(void);

/* Runs it: inputs in graph order (any of matching meta, strides as guarded), symbols: values of the
 * free symbols, floats: runtime floats. outs: one new reference each (scope-owned), for OUT_none
 * NULL. Writes are committed only after all checks; a failed check raises ST_VALUE and has
 * committed nothing. */
Status execute(Executable *executable, sn_tensor *const *inputs, const int64_t *symbols, const double *floats,
               sn_tensor **outs);
/* The same, with new results in memory of the caller's where given[i] is: a storage with room for what
 * execute_result says, that no input shares. After an error what is in it is unspecified. A plan with a front takes
 * none of it. */
Status execute_into(Executable *executable, sn_tensor *const *inputs, const int64_t *symbols, const double *floats,
                    Storage *const *given, sn_tensor **outs);
/* How a result of such a call will relate to memory, and its layout (OUT_input: NULL; else borrowed, NULL raises). */
typedef struct ExecuteResult {
    OutKind kind;
    int base; /* OUT_input, OUT_view_of_input: of which input; OUT_view_of_output: of which output */
    int64_t offset;
    const Meta *meta;
} ExecuteResult;
ExecuteResult execute_result(const Executable *executable, int i, const int64_t *symbols);
/* Of a plan with a front, what it computes among the inputs: the steps alone. */
Status execute_steps(Executable *executable, sn_tensor *const *inputs, const int64_t *symbols, const double *floats,
                     sn_tensor **outs);
/* The same; ns: by step, how long each took on the host. */
Status execute_timed(Executable *executable, sn_tensor *const *inputs, const int64_t *symbols, const double *floats,
                     sn_tensor **outs, int64_t *ns);
bool executable_is_foreign(
    const Executable *executable); /* its plan has a front: an error may be the program's code's */
/* The same as execute, of the last call that needs some inputs: owned[i], if it is not NULL, is a reference of
 * inputs[i], which goes with the last step that reads that, and a result's memory comes with the first step that writes
 * it. Takes all of owned, also where it fails. The plan has no front. */
Status execute_last(Executable *executable, sn_tensor *const *inputs, sn_tensor **owned, const int64_t *symbols,
                    const double *floats, sn_tensor **outs);

#endif
