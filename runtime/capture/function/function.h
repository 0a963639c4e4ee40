/* function.h: a compiled function: its trie, the variants compiled for segments, and what happened.
 *
 * A segment is the run of ops between two breaks; a Variant is one segment compiled for one set of
 * guards. Both live as long as their function. */
#ifndef SINTER_RUNTIME_FUNCTION_H
#define SINTER_RUNTIME_FUNCTION_H
#include <pthread.h>
#include <stdatomic.h>
#include <sinter/compile.h>

#include "runtime/compile/compile.h"
#include "runtime/capture/record/trie.h"

/* Where a graph input comes from when a variant is launched. */
typedef struct GraphInput {
    int touched;         /* the trace's input of this number */
    bool base;           /* the whole storage of that input as a 1-D tensor: its aliases are views of it */
    int64_t base_offset; /* base: first element, relative to the storage */
    const Meta *meta;    /* base: of the 1-D tensor */
} GraphInput;

typedef enum NumberRule { NUMBER_fixed, NUMBER_expr, NUMBER_runtime_int, NUMBER_runtime_float } NumberRule;

/* What a touched tensor must be. Static variants compare the interned metadata; dynamic ones sizes
 * and strides. */
typedef struct InputGuard {
    const Meta *meta; /* static: interned; dynamic: symbolic, in the variant's arena */
    bool requires_grad, is_leaf, inference, wrapped;
    int storage;          /* number of its storage by first touch: the alias guard */
    int64_t alias_offset; /* elements from the offset of the first input of the same storage */
} InputGuard;

/* A free symbol's source: a size or stride of a touched tensor, or a number of the trace. */
typedef struct SymBinding {
    enum { BIND_size, BIND_stride, BIND_number, BIND_seed, BIND_sequence } kind;
    int input, dim; /* number: its index in `input` */
} SymBinding;

typedef struct Variant Variant;
typedef struct OutputView OutputView; /* runtime/capture/record/trace_views.c, as the next one */
typedef struct WriteCount WriteCount;
struct Variant {
    _Atomic int32_t refs; /* the function's, and one per tape node */
    Variant *next;        /* older variant of the same end */
    int id;               /* its number within the function */
    TrieNode *end;
    Arena *arena; /* of guards and texts; the executables have their own */
    bool dynamic;
    SymEnv *env; /* dynamic: guards and expressions */
    int n_bindings;
    SymBinding *bindings; /* by free symbol */
    int n_inputs, n_storages;
    InputGuard *inputs;
    const Meta **example_metas; /* by input: of the trace it was compiled for; what the next one is
                                   compared with */
    int64_t *example_numbers;
    int n_numbers;
    int64_t *numbers;          /* fixed: the value (floats by bits); expr: an expression of env */
    uint8_t *number_rules;     /* NumberRule; NULL: all fixed */
    const char **number_names; /* "aten::mul.Tensor %3 other" */
    bool *number_guarded;      /* runtime: must not be a number that a rule has code of its own for */
    int n_runtime_floats;
    uint32_t epoch; /* dispatch table's [C7] */
    int n_graph_inputs;
    GraphInput *graph_inputs;
    int n_outputs;
    int *outputs;      /* trace value of each graph output */
    uint8_t *provides; /* by trace value: is an output */
    int *value_ids;    /* by trace value: its number in the capture graph's text */
    int n_values;
    bool writes; /* memory that is visible outside */
    int n_ops, n_random;
    char *text; /* the capture graph, for dumps */
    char *guards_text;
    Executable *run;   /* NULL: compiling failed; segments like this run eagerly */
    bool *inference;   /* by output: of inference mode; NULL: none */
    OutputView *views; /* the outputs that are views */
    int n_views;
    WriteCount *counts; /* versions that a launch adds to its own */
    int n_counts;
    struct Training *training; /* split forward and backward, NULL: none wanted */
    struct Training *history;  /* what a captured backward left to the results; NULL: nothing */
    CompileInfo info;
    int64_t trace_ns;
    _Atomic int64_t hits;
};

typedef struct BreakRow { /* one kind of graph break seen */
    char *reason;
    const void *site;
    int64_t count;
} BreakRow;

typedef struct RecompileRow {
    char *text; /* the guard that failed with both values */
} RecompileRow;

typedef struct FailureRow {
    BailCode code;
    const char *text;
} FailureRow;

typedef struct FallbackRow { /* ops that no compiled call sequence ran, by reason [semantics C14] */
    char *reason;
    int64_t ops;
} FallbackRow;

struct sn_function {
    sn_body body;
    void *closure;
    sn_compile_options options;
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
    _Atomic int n_compiled; /* segments, or cases of one, that were compiled or could not be */
    int64_t limit_hits;
    Arena *call_arena; /* of the last call, kept for the next one */
    sn_stats stats;    /* under the lock */
    bool limit_said, mode_said;
    _Atomic(struct ReplayEntry *) replay;
    _Atomic(struct ReplayProgram *) programs; /* replays for any sizes, see runtime/capture/replay/replay_program.h */
    _Atomic int64_t replays;
    _Atomic int running; /* bodies, and what follows them in captured calls; 0: it may be freed */
    int n_replay, n_programs;
};

/* NULL raises */
sn_function *function_new(sn_body body, void *closure, const sn_compile_options *options);
void function_free(sn_function *fn);
/* `in`: n_in values (tensors borrowed); out: scope-owned results, NULL on failure. */
Status function_call(sn_function *fn, const Arg *in, int n_in, sn_tensor **out, int n_out);

/* Memory of one call, kept for the next. NULL raises. */
Arena *function_arena_take(sn_function *fn);
void function_arena_give(sn_function *fn, Arena *arena);

void function_note_break(sn_function *fn, const char *reason, const void *site);
/* Runs fn on these inputs and gives its graph, made in `arena` (captured_graph.h); an error where the call breaks or
 * nothing was compiled. Results belong to the innermost scope. */
Status function_capture(sn_function *fn, const Arg *in, int n_in, Arena *arena, Graph **graph);
void function_note_recompile(sn_function *fn, const char *text);
void function_note_failure(sn_function *fn, TrieNode *end, BailCode code, const char *text);
/* A case runs eagerly because of a limit, or since its segment failed to compile: counted; a limit is said once,
 * loudly. The reason, as static text. */
const char *function_note_limit(sn_function *fn, bool failed);
int function_recompile_limit(const sn_function *fn);
/* So many segments were compiled that new paths run eagerly: a program that never takes the same path
 * twice neither compiles for ever nor fills memory [semantics C1]. */
bool function_is_full(const sn_function *fn);

/* "model.c:57" where debug information tells, else "symbol+0x12" or "module+0x345"; scope-free
 * static buffer per call: the caller gives it. */
void function_report(sn_function *fn); /* SINTER_REPORT, when it is freed */
void site_name(const void *site, char *out, size_t room);
/* A call site that is no code: it is named by this text ("f:3"). As long as the process, the same for equal texts;
 * NULL when there are too many. */
const void *site_of_text(const char *text);

#endif
