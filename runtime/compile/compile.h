/* compile.h: the compile driver: a captured graph to an Executable. The only place that knows
 * passes and codegen both, and the only setjmp: whatever fails on the way leaves by one exit with a
 * reason code. */
#ifndef SINTER_RUNTIME_COMPILE_H
#define SINTER_RUNTIME_COMPILE_H
#include "passes/passes.h"
#include "runtime/compile/back_end.h"
#include "runtime/device/execute.h"

typedef struct PassTime {
    const char *name; /* of the pass; "tape": what eager's tape would hold */
    int64_t ns;
} PassTime;

enum { MAX_PASS_TIMES = 24, MAX_PLANS = 2 };

typedef struct CompileInfo {
    BailCode failure; /* BAIL_none: compiled */
    char reason[512]; /* of the failure, or why code is interpreted */
    int64_t passes_ns, lower_ns, codegen_ns, load_ns;
    int64_t build_ns, optimise_ns, emit_ns; /* the parts of codegen_ns inside LLVM */
    PassTime pass_times[MAX_PASS_TIMES];
    int n_pass_times;
    Plan *plans[MAX_PLANS]; /* forward and backward where split; they live as long as the graph's arena */
    int n_plans;
    Graph *graph;                  /* that one plan is of, as the passes left it; NULL: none, or split */
    int kernels, nests;            /* entries of the call sequence; distinct loop nests in them */
    int generated, loaded, reused; /* nests compiled now; taken from the disk; whose code was there already */
    char function[48];             /* whose plans they are, for who watches their steps; "": nobody's */
    int variant;                   /* of that function */
    const char *part;              /* of it that the next plan is: forward, backward; NULL: it has one */
    bool repeat;                   /* asked for: calls are one launch where the device has that (device/repeat.h) */
    bool fast;                     /* asked for: templates may round otherwise than eager */
    bool interpreted;              /* no generated code: the interpreter runs the same kernels */
    const BackEnd *back_end;       /* asked for; NULL: the library's generated code */
    bool autotune;                 /* asked for: shapes of nests that were measured (tuning.h) */
    int tuned;                     /* nests that have one */
    const char *untuned;           /* why none is known; "" */
    char extensions[256];          /* of the program's that took part: "pass fuse 3\n"; "...": too many to name */
    bool unversioned;              /* one of them has no version, or is not named: nothing of these graphs is stored */
    BackEndCode *codes;            /* that it gave: back_end_drop, when nothing runs them any more */
} CompileInfo;

/* Sets info->function. Of a name that is too long its end is cut, and what differs there is told by a hash. */
void compile_name(CompileInfo *info, const char *function);
/* Runs the pass pipeline on `graph` (whose arena must outlive code of graph->plan) and lowers. ST_OK with graph->plan
 * and info->graph set, or a status with no error pending and info->failure set: the caller runs eagerly. */
Status compile_passes(Graph *graph, CompileInfo *info);
/* Code for a plan whose graph went through the passes; adds to info. *out, or fails as compile_passes does. */
Status compile_plan(Plan *plan, CompileInfo *info, Executable **out);
/* What compile_plan would add to a plan: from then on that only reads it, in whatever thread. */
Status compile_settle(Plan *plan, CompileInfo *info);
/* Options that note each pass' time in `info`; `base` may be NULL. */
PassOptions compile_pass_options(const PassOptions *base, CompileInfo *info);
/* For PassOptions.took_part; context: the CompileInfo. */
void compile_note_extension(void *info, const char *kind, const char *name, const char *version);
void compile_note_time(CompileInfo *info, const char *name, int64_t ns);

/* Runs `step(context)` under the exit. An error that it raises stays pending; a bail leaves none,
 * but its code and message in `exit`. What the step owns outside the arena would leak there. */
Status compile_exit(Graph *graph, Status (*step)(void *context), void *context, Bail *exit);
/* Around a user's callback: between them nothing bails, and failures come back as Status. */
Bail *compile_disarm(Graph *graph);
void compile_arm(Graph *graph, Bail *exit);
/* The same for compiling: bails and raised errors end up in info, and nothing stays pending. */
Status compile_guarded(Graph *graph, Status (*step)(void *context), void *context, CompileInfo *info);

/* Which text of stages.def, of which machine: "shapes" is of the one that runs, "shapes@v3" of a named one. What graphs
 * say beside: "joint+types+lines". */
typedef struct Dump {
    DumpId id;
    const struct Machine *machine;
    bool types, lines;
} Dump;
/* Names the place of a call (site.h is above). */
typedef void PlaceName(const void *site, char *out, size_t room);
GraphNotes dump_notes(const Dump *dump, PlaceName *place);
Dump dump_of(DumpId id);                          /* of the machine that runs */
Status dump_parse(const char *stage, Dump *dump); /* raises ST_ARGUMENT: no such text, or not of a machine */
/* The text of a captured graph, made anew on a copy of it; fast: as CompileInfo's; sites: of its nodes in turn, or
 * NULL. malloc'd; NULL raises. */
typedef struct DumpSource {
    const char *text;
    bool fast;
    const void *const *sites;
    PlaceName *place;
} DumpSource;
char *compile_dump(const DumpSource *source, const Dump *dump);
void dump_sites(Graph *graph, const void *const *sites);
/* A text of a plan (DUMP_plan). */
void compile_dump_plan(Plan *plan, const Dump *dump, Text *text);

#endif
