/* compile.h: the compile driver: a captured graph to an Executable. The only place that knows
 * passes and codegen both, and the only setjmp: whatever fails on the way leaves by one exit with a
 * reason code. */
#ifndef SINTER_RUNTIME_COMPILE_H
#define SINTER_RUNTIME_COMPILE_H
#include "passes/passes.h"
#include "runtime/compile/backend.h"
#include "runtime/device/execute.h"

typedef struct PassTime {
    const char *name; /* of the pass; "tape": what eager's tape would hold */
    int64_t ns;
} PassTime;

enum { MAX_PASS_TIMES = 24, MAX_PLANS = 2 };

/* What a caller asks for. A variant keeps its own, which every compile for it answers. */
typedef struct CompileRequest {
    char function[48];      /* whose plans they are, for who watches their steps; "": nobody's */
    int variant;            /* of that function */
    bool repeat;            /* calls are one launch where the device has that (device/repeat.h) */
    bool fast;              /* templates may round otherwise than eager */
    bool optional;          /* nobody is told where LLVM is absent */
    bool autotune;          /* shapes of nests that were measured (tuning.h) */
    const Backend *backend; /* NULL: the library's generated code */
} CompileRequest;

/* What came out. */
typedef struct CompileReport {
    const CompileRequest *request; /* that it answers; NULL: one that asks for nothing (compile_request) */
    BailCode failure;              /* BAIL_none: compiled */
    char reason[512];              /* of the failure, or why code is interpreted */
    int64_t passes_ns, lower_ns, codegen_ns, load_ns;
    int64_t build_ns, optimise_ns, emit_ns; /* the parts of codegen_ns inside LLVM */
    PassTime pass_times[MAX_PASS_TIMES];
    int n_pass_times;
    Plan *plans[MAX_PLANS]; /* forward and backward where split; they live as long as the graph's arena */
    int n_plans;
    Graph *graph;      /* that one plan is of, as the passes left it; NULL: none, or split */
    bool keeps_stages; /* the graph is to be seen later as it was at each stage that has a text */
    /* As its pass left it, in the graph's arena: copies, and of `scheduled` the graph itself, whose nodes stay. NULL:
     * not reached, or memory was out. */
    Graph *stages[STAGE_scheduled + 1];
    int kernels, nests;            /* entries of the call sequence; distinct loop nests in them */
    int generated, loaded, reused; /* nests compiled now; taken from the disk; whose code was there already */
    int alone;                     /* steps of the first plan that eager runs, as their ops do not lower */
    char alone_why[160];           /* the first of them and why; "" */
    const char *part;              /* of it that the next plan is: forward, backward; NULL: it has one */
    bool interpreted;              /* no generated code: the interpreter runs the same kernels */
    int tuned;                     /* nests that have one */
    const char *untuned;           /* why none is known; "" */
    char extensions[256];          /* of the program's that took part: "pass fuse 3\n"; "...": too many to name */
    bool unversioned;              /* one of them has no version, or is not named: nothing of these graphs is stored */
    BackendCode *codes;            /* that it gave: backend_drop, when nothing runs them any more */
} CompileReport;

static inline const CompileRequest *compile_request(const CompileReport *report) {
    static const CompileRequest nothing = {.function = ""};
    return report->request ? report->request : &nothing;
}
/* Sets request->function. Of a name that is too long its end is cut, and what differs there is told by a hash. */
void compile_name(CompileRequest *request, const char *function);
/* Runs the pass pipeline on `graph` (whose arena must outlive code of graph->plan) and lowers. ST_OK with graph->plan
 * and info->graph set, or a status with no error pending and info->failure set: the caller runs eagerly. */
Status compile_passes(Graph *graph, CompileReport *info);
/* Code for a plan whose graph went through the passes; adds to info. *out, or fails as compile_passes does. */
Status compile_plan(Plan *plan, CompileReport *info, Executable **out);
/* What compile_plan would add to a plan: from then on that only reads it, in whatever thread. */
Status compile_prepare_plan(Plan *plan, CompileReport *info);
/* Options that note each pass' time in `info`; `base` may be NULL. */
PassOptions compile_pass_options(const PassOptions *base, CompileReport *info);
/* For PassOptions.took_part; context: the CompileReport. */
void compile_record_extension(void *info, const char *kind, const char *name, const char *version);
void compile_record_time(CompileReport *info, const char *name, int64_t ns);

/* Runs `step(context)` under the exit. An error that it raises stays pending; a bail leaves none,
 * but its code and message in `exit`. What the step owns outside the arena would leak there. */
Status compile_exit(Graph *graph, Status (*step)(void *context), void *context, Bail *exit);
/* Around a user's callback: between them nothing bails, and failures come back as Status. */
Bail *compile_disarm(Graph *graph);
void compile_arm(Graph *graph, Bail *exit);
/* The same for compiling: bails and raised errors end up in info, and nothing stays pending. */
Status compile_guarded(Graph *graph, Status (*step)(void *context), void *context, CompileReport *info);

/* Which text of stages.def, of which machine: "shapes" is of the CPU that runs, "shapes@v3" and
 * "shapes@sm_90" of a named one. What graphs
 * say beside: "joint+types+lines". */
typedef struct Dump {
    DumpId id;
    const struct Machine *machine;
    bool types, lines;
} Dump;
/* Names the place of a call (site.h is above). */
typedef void PlaceName(const void *site, char *out, size_t capacity);
GraphNotes dump_notes(const Dump *dump, PlaceName *place);
/* What begins a remark in such a text. */
static inline const char *dump_mark(const Dump *dump) {
    return dump->id == DUMP_cuda ? "//" : dump->id == DUMP_llvm || dump->id == DUMP_asm ? ";" : "#";
}
Dump dump_of(DumpId id);                          /* of the machine that runs */
Status dump_parse(const char *stage, Dump *dump); /* raises ST_ARGUMENT: no such text, or not of a machine */
void dump_sites(Graph *graph, const void *const *sites);
/* A text of a plan (DUMP_plan). */
void compile_dump_plan(Plan *plan, const Dump *dump, Text *text);

#endif
