/* replay_parts.h: what a specialized call is, for the files that run it (specialized_call.c) and that save it
 * (specialized_text.c). */
#ifndef SINTER_RUNTIME_REPLAY_PARTS_H
#define SINTER_RUNTIME_REPLAY_PARTS_H
#include "runtime/capture/record/symbols.h"
#include "runtime/capture/replay/specialized_call.h"

/* A result that is the tensor of a slot. */
static inline int slot_result(int slot) { return -2 - slot; }
static inline bool is_slot_result(int result) { return result < -1; }
static inline int result_slot(int result) { return -2 - result; }

typedef struct CallCacheEntry {
    struct CallCacheEntry *next; /* older */
    const CallSignature *key;    /* as long as the guards' slots */
    BoundLaunch launch;
} CallCacheEntry;

struct SpecializedCall {
    SpecializedCall *next;
    Arena *arena;         /* its own */
    ReplayGuards *guards; /* its source: by trace input */
    _Atomic(CallCacheEntry *) entries;
    const CallSignature *first; /* of the call that it was made of */
    Symbols *symbols;           /* expressions, guards, the inputs as they may vary; NULL: they may not */
    TrieNode *end;
    int n_out, n_ops, n_random;
    bool *read;                         /* by call input: the body has read the scalar */
    bool writes, free_scalars, ordered; /* ordered: has effects, which a second run would repeat */
    bool forward;                       /* results carry gradients: to be saved, not replayed */
    bool saved;                         /* of a file: there is no body */
    bool *written;                      /* by slot: a case of the file writes it; NULL: of no file */
    int n_numbers, n_sources, n_values; /* sources: as many as numbers where it is known where each comes from */
    struct NumberSource *numbers;
    int64_t *first_numbers; /* of the trace that it was made of */
    uint8_t *marks;         /* by trace value */
    /* By call output: trace value, or -1: absent, or a slot (result_slot), whose tensor it is itself; then those of the
     * prints. */
    int *result;
    const char **labels; /* of the prints, each a label or NULL */
    int n_prints;
    _Atomic int64_t hits[2];  /* as generated code, by the interpreter */
    _Atomic int64_t alone[2]; /* of the ops of these: those that eager ran */
};

#endif
