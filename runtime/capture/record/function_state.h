/* function_state.h: what a compiled function keeps between its calls: the trie of its op sequences, the variants
 * compiled for segments, and what happened. Calls are in runtime/capture/function/function.h.
 *
 * A segment is the run of ops between two breaks; a Variant is one segment compiled for one set of
 * guards. Both live as long as their function. */
#ifndef SINTER_RUNTIME_FUNCTION_STATE_H
#define SINTER_RUNTIME_FUNCTION_STATE_H
#include <pthread.h>
#include <stdatomic.h>
#include <sinter/compile.h>

#include "runtime/base/bail.h"
#include "runtime/core/breaks.h"
#include "runtime/capture/record/trace.h"

typedef struct BreakRow { /* one kind of graph break seen */
    char *reason;         /* "aten::item: a value is needed on the host" */
    BreakId id;
    const void *site;
    int64_t count;
} BreakRow;

typedef struct RecompileRow {
    char *text; /* the guard that failed with both values, or where a new path leaves the known ones */
} RecompileRow;

typedef struct FailureRow {
    BailCode code;
    const char *text;
} FailureRow;
/* Of an error that has this reason: memory that is out is never anything else. */
static inline Status failure_status(const FailureRow *failure, Status usual) {
    return failure->code == BAIL_memory ? ST_MEMORY : usual;
}

typedef struct FallbackRow { /* ops that no compiled call sequence ran, by reason [semantics C14] */
    char *reason;
    int64_t ops;
    int64_t calls; /* that ran their body as it is: nobody counted its ops */
} FallbackRow;

/* What record and variant ask of the layers above them is asked of the function, which has it from who made it. */
typedef struct VariantWatcher {
    /* One was made, or could not be (failure: why), and nobody else sees it yet. again: the function has others. */
    void (*made)(const sn_function *fn, Variant *variant, const Trace *trace, bool again, const char *failure);
    void (*ready)(const sn_function *fn, const Variant *variant); /* its code is there; or NULL */
    /* Another backward of its graph was planned; or NULL. */
    void (*backward)(const Variant *variant, int number, Graph *backward);
} VariantWatcher;
struct TraceGraph;
typedef struct FunctionClass {
    bool (*run_segment)(Trace *trace, Status *status); /* the compiled run of a segment; these three: variant.h */
    bool (*run_late)(Trace *trace, const sn_tensor *asked, Status *status);
    Status (*admit)(const Trace *trace);
    void (*compile)(Trace *trace); /* of a graph: before the segment runs for the first time */
    Status (*choose_kind)(Variant *variant, const struct TraceGraph *made, const Trace *trace); /* of a new variant */
    void (*abandon)(Capture *capture);     /* ends a call whose body will not return */
    const void *frame_of;                  /* the function whose frame such a call has */
    const VariantWatcher *const *watchers; /* NULL ends them */
} FunctionClass;

struct sn_function {
    const FunctionClass *class;
    sn_body body;
    void *closure;
    const struct GraphHeader *header; /* of a body that runs a graph (graph_header.h); NULL: any other */
    int n_results;                    /* of a graph or a plan; -1: the body knows */
    sn_compile_options options;
    const struct Backend *backend;                        /* runtime/compile/backend.h; NULL: of a file */
    sn_status (*page)(sn_function *fn, const char *path); /* writes what SINTER_REPORT=html asks for; NULL: nobody */
    char *name;
    pthread_mutex_t lock;
    pthread_mutex_t compiling; /* one case is compiled once, also when threads meet it together;
                                  recursive: a compile may run a user's derivative */
    Arena *arena;              /* trie and tables; grows only */
    TrieNode *root;
    int n_nodes;
    VEC(Variant *) variants;
    VEC(BreakRow) breaks;
    VEC(RecompileRow) recompiles;
    VEC(FailureRow) failures; /* segments that could not be compiled */
    VEC(FallbackRow) fallbacks;
    _Atomic int n_compiled;    /* segments, or cases of one, that were compiled or could not be */
    VEC(const char *) foreign; /* errors of backends, each once */
    int64_t limit_hits;
    Arena *call_arena; /* of the last call, kept for the next one */
    sn_stats stats;    /* under the lock */
    bool limit_said, mode_said;
    uint64_t background; /* whose code is made by a worker, core/background.h; 0: at the end of the call */
    _Atomic(struct SpecializedCall *)
        specialized; /* of mode replay, newest first: runtime/capture/replay/specialized_call.h */
    _Atomic int64_t replays;
    struct UserGuard *guards; /* runtime/core/user_guard.h; in the arena, under the lock */
    const char *not_saved;    /* why a call of mode replay is not specialized: it cannot be saved; or NULL */
    bool saved;               /* of a file: there is no body, only specialized calls */
    _Atomic int running;      /* bodies, and what follows them in captured calls; 0: it may be freed */
    int n_replay;             /* calls that these have learnt */
};

/* fn->compiling, which is given back where a pass or a derivative of the program's leaves by a jump. */
typedef struct CompileLock CompileLock;
CompileLock *compile_lock(sn_function *fn);
void compile_unlock(sn_function *fn, CompileLock *lock);

/* Memory of one call, kept for the next. NULL raises. */
Arena *function_arena_acquire(sn_function *fn);
void function_arena_release(sn_function *fn, Arena *arena);

/* Takes the state's breaker. The reason in words, which lives as long as fn; NULL: memory is out. */
const char *function_record_break(sn_function *fn, Reason reason, const void *site);
/* An error of code that is not the library's, as text that lives as long as fn. */
Reason function_record_foreign(sn_function *fn, const char *text);
void function_record_recompile(sn_function *fn, const char *text);
void function_record_failure(sn_function *fn, TrieNode *end, BailCode code, const char *text);
/* A case runs eagerly because of a limit, or since its segment failed to compile: counted; a limit is said once,
 * loudly. The reason, as static text. */
Reason function_record_limit(sn_function *fn, bool failed);
int function_recompile_limit(const sn_function *fn);
/* So many segments were compiled that new paths run eagerly: a program that never takes the same path
 * twice neither compiles for ever nor fills memory [semantics C1]. */
bool function_is_full(const sn_function *fn);
/* The function's guard that is like this one; made where it is new. NULL: memory is out. */
const struct UserGuard *function_guard(sn_function *fn, const struct UserGuard *like);

#endif
