/* backend.h: who makes code of a graph: the library (generated code, its interpreter), nobody (eager), or a
 * callback that gets the graph and returns what computes it. Rows are frontend's (frontend/api/backend.c) and live
 * as long as the process; code lives as long as the CompileReport that it hangs on. */
#ifndef SINTER_RUNTIME_BACKEND_H
#define SINTER_RUNTIME_BACKEND_H
#include "ir/graph.h"
#include "runtime/device/front.h"

struct CompileReport;

typedef enum BackendKind { BACK_generated, BACK_interpreter, BACK_eager, BACK_unfused, BACK_called } BackendKind;
typedef struct Backend Backend;
struct Backend {
    const char *name, *version; /* version NULL: it has none, nothing that it took part in is stored */
    BackendKind kind;
    /* BACK_called: fills code->run, drop and context of the graph, which the row may keep no longer than the call; or
     * raises. */
    Status (*make)(const Backend *row, Graph *graph, BackendCode *code);
    void *made_by, *closure; /* make's */
    int batch;               /* of a plug-in that is being started (custom_op.h); 0: of none */
};

/* For PassOptions.computes; context: the CompileReport, whose backend is asked, and which keeps the code. Raises. */
const BackendCode *backend_code(void *info, Graph *graph);
/* Frees what a CompileReport keeps; nothing runs it any more. */
void backend_drop(struct CompileReport *info);
/* What failed and how often, as lines; nothing where nothing did. */
void backend_print_failures(const struct CompileReport *info, Text *text);

#endif
