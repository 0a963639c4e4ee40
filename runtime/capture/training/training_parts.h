/* training_parts.h: what the files of a trained segment share.
 *
 *   training.c          the two kinds, and how compiled     training_launch.c  a launch and its tape node
 *   training_saved.c    what eager's tape would hold        training_expand.c  eager's nodes instead
 *   training_specialize.c    the backward of one signature             training_history.c what a captured backward left
 *   training_checked.c  what may be read where it lies */
#ifndef SINTER_RUNTIME_TRAINING_PARTS_H
#define SINTER_RUNTIME_TRAINING_PARTS_H
#include <pthread.h>

#include "runtime/autograd/graph_run.h"
#include "runtime/autograd/tape.h"
#include "runtime/capture/training/training.h"

/* Eager's tape, as a table: the functional graph's ops that it records, in order, and which values
 * their nodes hold. */
typedef struct TapeRecord {
    const Node *node;
    uint32_t needs; /* bits of arguments */
    int number;     /* among all ops that eager records, also those that no result comes from, which are no steps: the
                       same for every set of results that the segment may have */
    int first_save, n_saves;
} TapeRecord;

typedef struct TapeSavedValue { /* a value that some node holds */
    const GVal *value;
    const Meta *meta; /* of eager's tensor: what was written through a view is held as that view */
    int check;        /* whose memory it is, if a caller can write it; -1: the segment's own, or nobody looks */
    bool again;       /* some node's region computes it again */
} TapeSavedValue;

typedef struct VersionCheck { /* memory of the caller */
    bool output;
    int index; /* of the graph input, or of the forward's output */
} VersionCheck;

typedef struct TapeTable {
    Graph *functional; /* composites expanded; its values have ids */
    const bool *marks; /* by value id: carries a gradient */
    VEC(TapeRecord) steps;
    int n_recorded;      /* ops with a number */
    VEC(int) step_saves; /* numbers in `tape_saved`, by step */
    /* By number: NULL, or the node of its region that read it: it is checked like what the step holds, since all that
       the step holds of the region's is computed again from it. */
    VEC(const Node *) readers;
    VEC(bool) again; /* by number: the step's region computes it again, whatever was written to it since */
    VEC(TapeSavedValue) tape_saved; /* in the order of the joint graph's kept outputs */
    VEC(VersionCheck) checks;
    int *tape_saved_of; /* by value id: number in `tape_saved`, or -1 */
} TapeTable;

/* A signature and the backward for it. Immutable once published. */
typedef struct BackwardSpecialization BackwardSpecialization;
struct BackwardSpecialization {
    _Atomic(BackwardSpecialization *) next;
    Arena *arena;  /* of a later specialization; NULL: the variant's */
    bool *defined; /* by user output: has a gradient */
    bool *needs;   /* by graph input: its gradient is wanted */
    bool *partial; /* by graph input: a sum is continued */
    /* by user output: layout of its gradient, of symbols where the variant has some */
    const Meta **metas;
    const Meta **sums;   /* by graph input: layout of its partial sum, where one is continued */
    const SymEnv *env;   /* of those; a later specialization has a copy of the variant's */
    int first_guard;     /* the guards of env from here on are the specialization's own */
    bool *ran;           /* by step: eager's node runs */
    _Atomic bool waits;  /* its code is being made in another thread: until then it has none */
    Executable *run;     /* NULL: expands; specialization_code loads it */
    Graph *graph;        /* of a later specialization, as its passes left it, with its plan: for dumps; NULL: it was not
                  planned */
    _Atomic bool called; /* a backward has run its code */
    bool held_back;      /* has no code since a stance wanted none: serves calls in that stance only */
    int n_saved;
    const int *saved; /* which saved values it reads, in order; NULL: all */
    CompileReport info;
};

struct Training {
    const Partition *partition;
    Graph *joint;
    Plan *forward_plan, *backward_plan; /* in the variant's arena, for dumps */
    int n_user, n_saved;
    int n_forward;        /* user outputs, then wholes that some of them view */
    bool *out_tracked;    /* by user output: carries a gradient */
    bool *want, *written; /* by graph input */
    int n_inputs, n_symbols, n_floats;
    TapeTable tape;
    _Atomic(BackwardSpecialization *)
        specializations;                 /* the default one first: every gradient defined and wanted, no sums */
    BackwardSpecialization *default_one; /* also before it is there, with its code */
    int n_specializations;               /* beside it */
    pthread_mutex_t lock;                /* of making specializations */
};

/* The version check of what a step saves; -1: none. */
static inline int version_check_at(const TapeTable *p, int save) {
    return p->again.at[save] ? -1 : p->tape_saved.at[p->step_saves.at[save]].check;
}

typedef struct TrainingLaunch { /* context of one tape node */
    Variant *variant;           /* retained */
    Training *training;         /* of the variant: what it compiled, or its history alone */
    TapeSaved *saved;           /* what backward reads; gone (tensor NULL) once no step needs it */
    TapeSaved *checked_memory;  /* by version check */
    int n_saved, n_checked_memory;
    bool *used;        /* by step: a backward without retain has run eager's node */
    bool *kept;        /* by saved value, then by version check: room for what is to stay (find_kept) */
    uint64_t sequence; /* before the segment's interval on the tape: one for each op with a number, its own */
    int64_t *symbols;
    double *floats;
} TrainingLaunch;

/* training_specialize.c. No backward has run the default specialization, but some have run others. */
bool training_default_idle(const Training *t);
/* Prints the backwards of the other signatures as they are at the dump's stage, each below a line that says its
 * signature. */
void training_dump_signatures(const Training *t, const Dump *dump, GraphNotes notes, Text *text);

/* training_saved.c: fills t->tape; adds what the tape holds as kept outputs of the joint graph, whose
 * forward values are those of `forward` (the functional graph was copied from it). */
Status tape_table_make(Training *t, Graph *forward);
Status tape_table_keep(const Training *t, Graph *joint, GVal *const *values);
/* The value that stands for the memory of a value of the functional graph. */
const GVal *tape_table_memory(const GVal *value);
/* training_checked.c: fills Output.checked of the kept outputs. */
Status tape_table_check(const Training *t, Graph *joint);
/* Marks the values and steps that a backward from what is reached may come to, but for steps that save the checked
 * memory and what lies behind them. reached: by value id. */
enum { NO_VERSION_CHECK = -2 };
void tape_table_reach(const TapeTable *p, int check, bool *reached, bool *ran);
/* A table by node id of the functional graph, by step; NULL where that is. */
bool *tape_table_by_step(const TapeTable *p, Arena *arena, const bool *by_node);
/* By step: which of eager's nodes run for the gradients of a specialization; symbols: of the call, or NULL: as at
 * capture. */
bool *tape_table_ran(const Training *t, Arena *arena, const BackwardSpecialization *c, const int64_t *symbols);
/* By value id of the restoring graph: what the values that some steps hold are made of; with mem_free. Steps that are
 * in `ran` (NULL: all) and not in `used` (NULL: none are). NULL raises. */
bool *training_needed(const Training *t, const bool *ran, const bool *used);
/* A table by step: does a backward inside of the segment run eager's node of it? */
bool *tape_table_used(const TapeTable *p, Arena *arena);

/* Notes that a backward has run the specialization. A published specialization is constant but for this. */
static inline void training_record_call(const BackwardSpecialization *c) {
    _Atomic bool *const called = &((BackwardSpecialization *)c)->called;
    if (UNLIKELY(!atomic_load_explicit(called, memory_order_relaxed)))
        atomic_store_explicit(called, true, memory_order_relaxed);
}

static inline Executable *specialization_code(const BackwardSpecialization *c) {
    return atomic_load_explicit(&c->waits, memory_order_acquire) ? NULL : c->run;
}

/* training_specialize.c: the specialization of a call, made on first need; NULL raises. */
const BackwardSpecialization *training_specialization(Variant *v, Training *t, const int64_t *symbols,
                                                      const TapeBackward *call);
void training_specializations_free(Training *t);
/* A specialization is made in these steps, the default one with the forward, others under the lock. The signature that
 * a call shows; call NULL: the default one. NULL: no memory. */
BackwardSpecialization *training_specialization_new(const Training *t, Arena *arena, const TapeBackward *call);
/* Fills spec with what the specialization's backward is to compute. */
Status training_specialization_spec(const Training *t, const BackwardSpecialization *c, Arena *arena, JointSpec *spec);
/* Takes from the specialization's planned backward which saved values it reads, in order (NULL: all), and the layouts
 * of the inputs after them: first the partial sums, then the gradients. */
Status training_specialization_planned(const Training *t, BackwardSpecialization *c, const Graph *backward,
                                       const int *saved, int n_saved);
/* Makes the specialization's code. One without code expands a launch's node into eager's nodes. */
void training_specialization_compile(BackwardSpecialization *c, Plan *plan, CompileReport *info);
void training_specialization_add(Training *t, BackwardSpecialization *c);
/* The metadata with the sizes of this launch in place of symbols. */
const Meta *training_meta(const SymEnv *env, const Meta *meta, const int64_t *symbols);

/* training_expand.c: a TapeCompiled's expand: eager's nodes take the launch's place for good. */
Status training_become(void *launch, const TapeEdge *edges, TapeEdge *now);
/* Eager's nodes for one call, and the engine on them. */
Status training_expand(const TrainingLaunch *l, const BackwardSpecialization *c, TapeBackward *call);

#endif
