/* back_end.h: who makes code of a graph: the library (generated code, its interpreter), nobody (eager), or a callback
 * that gets the graph and returns what computes it. Rows are frontend's (api_back_end.c) and live as long as the
 * process; code lives as long as the CompileReport that it hangs on. */
#ifndef SINTER_RUNTIME_BACK_END_H
#define SINTER_RUNTIME_BACK_END_H
#include "ir/graph.h"
#include "runtime/device/front.h"

struct CompileReport;

typedef enum BackEndKind { BACK_generated, BACK_interpreter, BACK_eager, BACK_unfused, BACK_called } BackEndKind;
typedef struct BackEnd BackEnd;
struct BackEnd {
    const char *name, *version; /* version NULL: it has none, nothing that it took part in is stored */
    BackEndKind kind;
    /* BACK_called: fills code->run, drop and context of the graph, which the row may keep no longer than the call; or
     * raises. */
    Status (*make)(const BackEnd *row, Graph *graph, BackEndCode *code);
    void *made_by, *closure; /* make's */
    int batch;               /* of a plug-in that is being started (custom_op.h); 0: of none */
};

/* For PassOptions.computes; context: the CompileReport, whose back end is asked, and which keeps the code. Raises. */
const BackEndCode *back_end_code(void *info, Graph *graph);
/* Frees what a CompileReport keeps; nothing runs it any more. */
void back_end_drop(struct CompileReport *info);
/* What failed and how often, as lines; nothing where nothing did. */
void back_end_print_failures(const struct CompileReport *info, Text *text);

#endif
