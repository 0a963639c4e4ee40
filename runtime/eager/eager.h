/* eager.h: ops that run one by one, on any device: entries of the cache of one-op programs.
 *
 *   eager.c        the kernel under a device's key: signature, lookup, run
 *   eager_build.c  what a new signature means: a view, a native kernel, or a one-node graph made
 *                  into a program
 *   eager_write.c  in-place and out forms: checks, overlaps, resizing
 *
 * A signature is everything that a program depends on: op, form, interned metas, which arguments
 * are one tensor, numbers, lists, strings. It never holds a data pointer, so minibatch slices share
 * programs. */
#ifndef SINTER_RUNTIME_EAGER_H
#define SINTER_RUNTIME_EAGER_H
#include "kernels/kernels.h"
#include "runtime/device/execute.h"

enum { USUAL_WORDS = 96, USUAL_TENSORS = 32, MAX_DIRECT = 3 };

typedef struct EagerCall {
    OpCall *call;
    const OpRow *row;
    sn_tensor **tensors; /* distinct tensors among args, then out_args */
    int n_tensors, tensors_room;
    uint64_t *words; /* the signature */
    int n_words, words_room;
    sn_tensor *usual_tensors[USUAL_TENSORS]; /* the room of all calls but those with long lists */
    uint64_t usual_words[USUAL_WORDS];
} EagerCall;

typedef enum RunKind { RUN_direct, RUN_plan, RUN_view, RUN_native } RunKind;

/* One primitive, or one reduction of short rows (order L, one chunk), over contiguous operands of its
 * compute type: called straight on their memory. */
typedef struct Direct {
    BlockFn *fn;
    ReduceFn *reduce; /* else NULL: of `row` elements for each of n outputs */
    int64_t row;
    int operand[MAX_DIRECT];          /* tensor number, DIRECT_const, or -1: none */
    void *constant[MAX_DIRECT];       /* BLOCK elements, or NULL */
    int bytes[MAX_DIRECT], out_bytes; /* of an element */
    int target;                       /* tensor number that is written, or -1: a fresh output */
    int64_t n;
} Direct; /* n: outputs */
enum { DIRECT_const = 100 };

typedef struct EagerEntry {
    struct EagerEntry *next; /* of one hash */
    RunKind kind;
    int n_words, n_outs;
    const Meta **metas; /* results' */
    int64_t *offsets;   /* views: by result, elements */
    int base;           /* views: number of the viewed tensor */
    Executable *run;    /* RUN_plan, RUN_direct for large operands */
    Direct direct;
    int seed, sequence; /* numbers of the free symbols of random ops, -1 */
    uint64_t words[];
} EagerEntry;

/* Makes the entry of a call that is seen first; not cached by the caller where *transient. */
Status eager_build(EagerCall *ec, EagerEntry **out, bool *transient);
void eager_entry_free(EagerEntry *entry);

/* Metas of the results by the op's meta rule, interned; args_room: MAX_ARGS + MAX_OUTS. */
typedef struct EagerMetas {
    int n;
    const Meta *metas[MAX_LIST];
    int64_t offsets[MAX_LIST];
    int alias[MAX_LIST]; /* argument index, or -1 */
} EagerMetas;
Status eager_metas(const OpCall *call, int64_t base_offset, EagerMetas *out);

/* Before an in-place or out form runs: dtypes checked, out tensors resized, overlaps inside what is
 * written refused. */
Status eager_prepare_write(OpCall *call);
/* The part of it that needs no data: overlaps, and read-only memory where a tensor has some. */
Status eager_check_written(const OpCall *call);
/* Operands that overlap what is written only in part: args gets the arguments with copies in their
 * place. */
Status eager_separate(const OpCall *call, Arg args[MAX_ARGS], bool *copied);

void eager_cache_free(sn_state *state); /* one-op programs of a thread's state */
Status eager_kernel(OpCall *call);      /* what a device registers for its key */
void eager_start(void);                 /* registers the Meta device's kernel, which has no row: it runs nothing */

#endif
