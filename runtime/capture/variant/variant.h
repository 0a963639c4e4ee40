/* variant.h: one segment compiled for one set of guards: when it fits is judged by guard.h; made, bound and launched
 * here. */
#ifndef SINTER_RUNTIME_VARIANT_H
#define SINTER_RUNTIME_VARIANT_H
#include <stdatomic.h>

#include "runtime/capture/record/function_state.h"
#include "runtime/capture/record/trace_graph.h"
#include "runtime/compile/compile.h"

/* What a captured input must be. Static variants compare the interned metadata; dynamic ones sizes
 * and strides. */
typedef struct InputGuard {
    const Meta *meta; /* static: interned; dynamic: symbolic, in the variant's arena */
    bool requires_grad, is_leaf, inference, wrapped;
    int storage;          /* number of its storage by first use: the alias guard */
    int64_t alias_offset; /* elements from the offset of the first input of the same storage */
    InputName name;       /* in the call that it was compiled for */
} InputGuard;

typedef struct OutputView OutputView; /* variant_views.c, as the next one */
typedef struct WriteCount WriteCount;

/* Free symbols: guards and expressions. */
typedef struct VariantSymbols {
    bool dynamic; /* there are some */
    SymEnv *env;
    int n_bindings;
    SymBinding *bindings; /* by free symbol */
} VariantSymbols;

/* Int and float attributes of the captured calls, in order. */
typedef struct VariantAttributes {
    int n;
    int64_t *at;    /* fixed: the value (floats by bits); expr: an expression of env */
    uint8_t *rules; /* NumberRule; NULL: all fixed */
    bool *guarded;  /* runtime: must not be a number that a rule has code of its own for */
    int n_runtime_floats;
} VariantAttributes;

/* What its segment is. */
typedef struct VariantSegment {
    int n_ops, n_random, n_values;
    uint8_t *provides; /* by trace value: is an output */
    bool writes;       /* memory that is visible outside */
} VariantSegment;

/* What a launch says of its results. */
typedef struct VariantAliasing {
    OutputView *views; /* the outputs that are views */
    int n_views;
    WriteCount *counts; /* versions that a launch adds to its own */
    int n_counts;
} VariantAliasing;

/* The call that it was compiled for. */
typedef struct VariantOrigin {
    const Meta **metas;     /* by input: what the next one is compared with */
    int64_t *numbers;       /* the same of attributes */
    const Meta **arguments; /* NULL: no tensor */
    int n_arguments;
    const void **sites;        /* by op: the call of the program; NULL: of a file */
    int *value_ids;            /* by trace value: its number in the capture graph's text */
    const char **number_names; /* "aten::mul.Tensor %3 other" */
    const char *stage_folder;  /* that has its stages as files (setting trace); NULL: none */
    int64_t trace_ns;
} VariantOrigin;

typedef struct VariantCode {
    /* It is being made in another thread, which stores false when all of it is there: until then run and info are not
     * to be looked at, but info under the function's lock. Loaded by variant_code and variant_waits. */
    _Atomic bool waits;
    uint64_t background; /* whose such code is (core/background.h); 0: code is made at once */
    Executable *run;     /* NULL: compiling failed; segments like this run eagerly */
} VariantCode;

/* What a variant is made of and how it is launched: plain, trained (capture/training), or plain with the history that
 * a captured backward left to its results. Each is called through its variant. */
typedef struct VariantKind {
    Status (*compile)(Variant *variant, Graph *graph, const Trace *trace); /* to plans; a fresh one's */
    Status (*prepare)(Variant *variant);                                   /* compile_prepare_plan for all of them */
    /* Code of the plans: *run is what a launch runs; adds to info. Once. */
    Status (*make_code)(Variant *variant, CompileReport *info, Executable **run);
    /* given: memory for the results, as of execute_into; a kind may leave it. */
    Status (*run)(Variant *variant, sn_tensor *const *inputs, const int64_t *symbols, const double *floats,
                  Storage *const *given, sn_tensor **outs);
    /* Puts the node of a second launch of the same ops, with more results, in the place of the first one's: edges to
     * the first one's results lead to it, and what was used up or written since the first launch is so for the second.
     * NULL: launches are no nodes of the tape. */
    Status (*take_place)(struct TapeNode *was, const Variant *before, struct TapeNode *node, const Variant *variant);
    void (*free)(Variant *variant); /* what it has beside the rest; or NULL */
} VariantKind;
extern const VariantKind variant_plain;

struct Variant {
    const VariantKind *kind;
    _Atomic int32_t refs;                  /* the function's, and one per tape node */
    Variant *next;                         /* older variant of the same end */
    int id;                                /* its number within the function */
    const VariantWatcher *const *watchers; /* its function's */
    TrieNode *end;
    Arena *arena; /* of guards and texts; the executables have their own */
    VariantSymbols symbols;
    int n_inputs, n_storages;
    InputGuard *inputs;
    VariantAttributes attributes;
    uint32_t epoch; /* dispatch table's [C7] */
    int n_graph_inputs;
    GraphInput *graph_inputs;
    int n_outputs;
    int *outputs;    /* trace value of each graph output */
    bool *inference; /* by output: of inference mode; NULL: none */
    VariantSegment segment;
    VariantAliasing aliasing;
    char *text;           /* the capture graph, for dumps; its inputs by first use; NULL: of a file */
    const char *ops_text; /* of a file: the same, or NULL, */
    Graph *ops;           /* and what it runs by ops (variant_ops.h), or NULL */
    VariantOrigin origin;
    VariantCode code;
    struct Training *training; /* split forward and backward, NULL: none wanted */
    struct Training *history;  /* what a captured backward left to the results; NULL: nothing */
    CompileRequest request;
    CompileReport info; /* that answers it */
    _Atomic int64_t hits;
};

static inline bool variant_waits(const Variant *variant) {
    return atomic_load_explicit(&variant->code.waits, memory_order_acquire);
}
/* NULL: there is none, or not yet. */
static inline Executable *variant_code(const Variant *variant) {
    return variant_waits(variant) ? NULL : variant->code.run;
}

/* Free symbols' values for a launch; room for sym_free_count of the env. */
void variant_bind(const Variant *variant, const Trace *trace, int64_t *symbols);
/* Room for n_runtime_floats. */
void variant_bind_floats(const Variant *variant, const Trace *trace, double *floats);
/* A launch alone: results are what the modes of their ops make them, with the history that a captured backward left
 * them. given: memory for them, by output, as of execute_into; NULL: none. */
Status variant_execute(Variant *variant, sn_tensor *const *inputs, const int64_t *symbols, const double *floats,
                       Storage *const *given, sn_tensor **outs);
/* Launches it, binding the trace's needed values. ST_OK, or a pending error with nothing committed. */
Status variant_run(Variant *variant, Trace *trace);
int variant_output_of(const Variant *variant, int value); /* which output a trace value is, or -1 */
/* Where trace->variant has run: binds what `variant` gives beyond that, and takes its place on the tape. */
Status variant_run_again(Variant *variant, Trace *trace);
/* Of FunctionClass. Launches the newest variant that fits the trace: *status; trace->variant is set if it ran. False:
 * none fits. */
bool variant_run_segment(Trace *trace, Status *status);
/* For a trace whose variant has run: launches another one, which also gives `asked`, a value that the first elided
 * (NULL: all values that somebody holds). Returns as above. */
bool variant_run_late(Trace *trace, const sn_tensor *asked, Status *status);
/* Of FunctionClass, where no variant fits: raises ST_STRICT where the thread's stance refuses to compile one. */
Status variant_admit(const Trace *trace);
/* Compiles a variant for a trace that ran eagerly and publishes it; failures are noted on the
 * function. first: it had none before this call. */
void variant_compile(sn_function *fn, Trace *trace, bool first);
/* Parts of variant_plain, for kinds that differ from it in others. */
Status variant_plain_compile(Variant *variant, Graph *graph, const Trace *trace);
Status variant_plain_prepare(Variant *variant);
Status variant_plain_make_code(Variant *variant, CompileReport *info, Executable **run);
Status variant_plain_run(Variant *variant, sn_tensor *const *inputs, const int64_t *symbols, const double *floats,
                         Storage *const *given, sn_tensor **outs);
/* What differs from the variant that a new one generalises, else from the newest, or where the path leaves those that
 * are known: of a trace that nothing fits, for watchers that are told that one was made. */
void variant_print_news(const Trace *trace, Text *why);
void variant_report_ready(const sn_function *fn, const Variant *variant);
void variant_report_backward(const Variant *variant, int number, Graph *backward);
/* variant_background.c: of a variant that is published and waits: its code is made by the worker, or where there is
 * none now. */
void variant_finish(sn_function *fn, Variant *variant);
Variant *variant_new(void);          /* empty, with an arena of its own and one reference; NULL: memory is out */
void variant_free(Variant *variant); /* drops one reference */
void variant_retain(Variant *variant);

#endif
