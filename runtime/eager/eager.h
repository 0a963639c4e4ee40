/* eager.h: ops that run one by one, on any device: entries of the cache of one-op programs.
 *
 *   eager.c        the kernel under a device's key: signature, lookup, run
 *   eager_cache.c  the entries of a thread, within a bound of bytes
 *   eager_build.c  what a new signature means: a view, a native kernel, or a one-node graph made
 *                  into a program
 *   eager_direct.c programs that are one block kernel over contiguous memory
 *   eager_sized.c  entries for operands of any size
 *   eager_write.c  in-place and out forms: checks, overlaps, resizing
 *   eager_move.c   copies between devices; what every device has
 *
 * A signature is everything that a program depends on: op, form, interned metas, which arguments
 * are one tensor, numbers that rules read, lists, strings. It never holds a data pointer, so minibatch
 * slices share programs. The numbers of elementwise ops are parameters: a signature has their kinds only, but
 * for those with code of their own (x + 1 * y, pow 2), so that x * lr has one program for every lr. A call of a size
 * that is new looks for an entry whose program takes the sizes as parameters too, by a signature that has none; where
 * the result is nothing but a layout, it asks the op's rule. */
#ifndef SINTER_RUNTIME_EAGER_H
#define SINTER_RUNTIME_EAGER_H
#include "ir/sym.h"
#include "kernels/kernels.h"
#include "runtime/base/alloc.h"
#include "runtime/core/ends.h"
#include "runtime/device/execute.h"
#include "runtime/eager/eager_code.h"

enum { USUAL_WORDS = 96, USUAL_TENSORS = 32, MAX_DIRECT = 3, EAGER_BUCKETS = 2048, EAGER_RECENT = 512 };
enum { EAGER_SEEN_MOST = 4096 };
enum { EAGER_SIZES = 24 };            /* different ones that a program takes as parameters */
enum { EAGER_DIRECT_MOST = 1 << 15 }; /* elements beyond which threads pay */
enum { EAGER_SIZE_MOST = 1 << 24 };   /* a size beyond it is no parameter: products of some fit */

typedef struct EagerCall {
    OpCall *call;
    const OpRow *row;
    sn_tensor **tensors; /* distinct tensors among args, then out_args */
    int n_tensors, tensors_capacity;
    uint64_t *words; /* the signature */
    int n_words, words_capacity;
    uint64_t hash; /* of the words, where no entry was at hand */
    bool exact;    /* all numbers are in the signature */
    int n_floats, n_ints;
    double floats[MAX_ARGS]; /* those that are not, in order */
    int64_t ints[MAX_ARGS];
    bool plain_numbers; /* of its sizes, those of tensors alone are parameters */
    int n_sizes;        /* 0: all sizes are in the signature */
    const int64_t *sizes;
    sn_tensor *usual_tensors[USUAL_TENSORS]; /* the room of all calls but those with long lists */
    uint64_t usual_words[USUAL_WORDS];
} EagerCall;

/* exact: no program takes the numbers of this signature as parameters; they are to be in it. */
typedef enum RunKind { RUN_direct, RUN_plan, RUN_view, RUN_native, RUN_exact } RunKind;

/* A parameter of one primitive, whose block is filled when another number comes. */
typedef struct DirectNumber {
    int from; /* 1 + its place among EagerCall.floats, or minus that among ints; 0: none */
    SType type;
    bool is_filled;
    uint64_t filled; /* bits of the number in the block */
} DirectNumber;

/* One primitive, or one reduction of short rows (order L, one chunk), over contiguous operands of its
 * compute type: called straight on their memory. */
typedef struct Direct {
    BlockFn *fn;
    ReduceFn *reduce; /* else NULL: of `row` elements for each of n outputs */
    int64_t row;
    int operand[MAX_DIRECT];       /* tensor number, DIRECT_const, or -1: none */
    void *constant[MAX_DIRECT];    /* up to BLOCK elements, or NULL */
    int constant_each[MAX_DIRECT]; /* bytes of an element of such a block */
    int64_t constant_n;            /* elements of each */
    size_t constant_bytes;
    DirectNumber number[MAX_DIRECT]; /* of such a block */
    bool has_numbers;
    int bytes[MAX_DIRECT], out_bytes; /* of an element */
    int target;                       /* tensor number that is written, or -1: a fresh output */
    int64_t n;
} Direct; /* n: outputs */
enum { DIRECT_const = 100 };

/* An entry for any size: its results, as expressions of the call's sizes. */
typedef struct EagerSized {
    SymEnv *env; /* the plan's */
    int n_sizes;
    int64_t row; /* RUN_direct: Direct.row */
    struct {
        const Meta *meta;
        int same_as; /* a tensor of the call that has these very sizes and strides; -1: none */
    } outs[MAX_OUTS];
} EagerSized;

typedef struct EagerEntry {
    struct EagerEntry *next;          /* of one hash */
    struct EagerEntry *newer, *older; /* of its list */
    size_t bytes;
    bool can_go;               /* without it another entry, or the op's rule, serves its size */
    bool has_program;          /* of its own: not that of another entry */
    bool used;                 /* since it was last looked at for removal */
    bool rechecks, is_checked; /* the meta rule may refuse other numbers */
    RunKind kind;
    int n_words, n_outs;
    int n_guards, n_floats, n_ints; /* numbers are checked by the guards of the program's symbols */
    int64_t *checked;               /* the numbers that the rule accepted last: floats' bits, then ints */
    int n_metas;
    const Meta **metas;   /* results', then operands', whose addresses may be in the words; retained */
    int64_t *offsets;     /* views: by result, elements */
    int base;             /* views: number of the viewed tensor */
    EagerProgram program; /* RUN_plan, RUN_direct for large operands, what runs at any size */
    EagerSized *sized;    /* NULL: it has the metas */
    Direct direct;
    int seed, sequence; /* numbers of the free symbols of random ops, -1 */
    uint64_t words[];
} EagerEntry;

typedef struct EagerAges {
    EagerEntry *newest, *oldest;
    size_t bytes;
} EagerAges;

typedef struct EagerCache {
    StateExtension part; /* of the thread's state, with which it ends */
    EagerEntry *buckets[EAGER_BUCKETS];
    EagerEntry *recent[EAGER_RECENT]; /* by op */
    EagerAges needed, can_go;
    int n;
    int64_t built;                   /* programs, ever */
    int64_t sized;                   /* entries for any size, ever */
    uint32_t seen[EAGER_SEEN_MOST];  /* how often signatures came lately that have no entry, by parts of their hashes */
    uint8_t missed[EAGER_SEEN_MOST]; /* keys of any size that had no entry, by their hashes */
} EagerCache;

uint64_t eager_hash(const uint64_t *words, int n);
/* Takes the entry; false: no memory for the cache, the entry stays the caller's. What exceeds the bound goes, the
 * entries first that were not used for longest. */
bool eager_cache_insert(sn_state *state, EagerEntry *entry);
static inline EagerEntry **eager_bucket(EagerCache *cache, uint64_t hash) {
    return &cache->buckets[hash % EAGER_BUCKETS];
}
typedef struct EagerCounts { /* of a state, for tests */
    int64_t built, sized;
    int entries;
    size_t bytes, can_go; /* that is, of those bytes */
} EagerCounts;
EagerCounts eager_counts(const sn_state *state);
enum { EAGER_MOST_BYTES = 16 << 20, EAGER_MOST_CAN_GO = 1 << 20 }; /* of all entries, and of those that can go */
/* Before an entry that can go is made. False: it is not to be, all that there is room for was used since it was last
 * looked at. A program is made at most once in many calls: the oldest gives way. */
bool eager_cache_has_capacity(sn_state *state, bool is_program);

/* eager_build.c: the whole question, for numbers that are not among the most frequent. */
bool eager_number_may_vary(const EagerCall *ec, int i);
/* Argument i is a number that a program takes as a parameter. Small ints are special (number_is_special): the alpha of
 * every add is told here. */
static inline bool eager_number_varies(const EagerCall *ec, int i) {
    const Arg *const a = &ec->call->args[i];
    return !(a->kind == ARG_int && (uint64_t)a->i + 2 <= 5) && eager_number_may_vary(ec, i);
}

/* Makes the entry of a call that is seen first; not cached by the caller where *transient. */
Status eager_build(EagerCall *ec, EagerEntry **out, bool *transient);
EagerEntry *eager_entry_new(const EagerCall *ec, const uint64_t *words, int n_words, RunKind kind, int n_outs);
void eager_entry_hold(EagerEntry *entry, int i, const Meta *meta); /* as the i-th of its metas */
void eager_entry_hold_operands(EagerEntry *entry, const EagerCall *ec);
size_t eager_entry_bytes(const EagerEntry *entry); /* about */
void eager_entry_free(EagerEntry *entry);
/* Values of the free symbols of an entry's program: the generator's two, sizes, ints. */
enum { EAGER_SYMBOLS = 2 + EAGER_SIZES + MAX_ARGS };
void eager_symbols(const EagerEntry *entry, const EagerCall *ec, int64_t symbols[EAGER_SYMBOLS]);
bool eager_guards_hold(const EagerEntry *entry, const EagerCall *ec);
/* eager_direct.c: whether the entry's plan is one block kernel; then the entry is made such. */
bool eager_direct_find(EagerEntry *entry);
/* Blocks with the numbers of this call. */
void eager_direct_fill(Direct *direct, const EagerCall *ec);
/* The same for n outputs, with blocks of its own. */
bool eager_direct_copy(Direct *to, const Direct *from, int64_t n);

/* eager_sized.c. A signature without sizes: a tensor has its dtype, its rank and which of its sizes are 0, 1 or equal
 * to others in the call; those are the program's parameters. */
enum { SIZED_WORDS = 80 };
typedef struct SizedSignature {
    int n, n_sizes;
    bool has_numbers; /* some argument's are sizes too */
    uint64_t words[SIZED_WORDS];
    int64_t sizes[EAGER_SIZES]; /* different ones, in the order of the arguments */
} SizedSignature;
bool eager_sized_signature(const EagerCall *ec, SizedSignature *key); /* false: another call */
/* eager_build.c: an entry of a key, for a call whose arguments the op's rule has accepted; of kind RUN_exact where the
 * op can't be made so. */
Status eager_build_sized(EagerCall *ec, const SizedSignature *key, EagerEntry **out);
/* The number of a parameter is one of the call's sizes; 0, 1 and what counts from the end are cases of their own. */
static inline bool eager_is_size(const Param *param, int64_t number) {
    return param->symbolic && number >= 2 && number <= EAGER_SIZE_MOST;
}
/* The entry that runs the call, whose ec->sizes are the key's, or one of kind RUN_exact: the op can't be made so. *out
 * NULL: there is none, and one of this size is to be made. */
Status eager_sized_find(sn_state *state, EagerCall *ec, const SizedSignature *key, EagerEntry **out);
/* The layouts of results. */
Status eager_sized_results(EagerEntry *entry, const EagerCall *ec, const Meta **metas);
/* After a run: a size that comes again gets an entry of its own. metas NULL: its plan ran. */
Status eager_sized_again(sn_state *state, EagerCall *ec, EagerEntry *sized, const Meta *const *metas);
/* How often a call of this signature came before without an entry, as far as is known. */
int eager_count_seen(sn_state *state, const EagerCall *ec);

/* The results by the op's meta rule: METAS_OF_CALL metas; what eager_metas fills goes at the end of the scope. Small on
 * the stack, which may be that of a thread of 64 KiB: lists of results are on the heap. */
typedef struct EagerResult {
    const Meta *meta; /* interned */
    int64_t offset;
    int alias; /* argument index, or -1 */
} EagerResult;
typedef struct EagerMetas {
    int n;
    EagerResult *at;
    EagerResult few[MAX_OUTS];
} EagerMetas;
static inline void eager_metas_free(const EagerMetas *metas) {
    if (UNLIKELY(metas->at && metas->at != metas->few)) mem_free(metas->at);
}
#define METAS_OF_CALL __attribute__((cleanup(eager_metas_free))) EagerMetas
Status eager_metas(const OpCall *call, int64_t base_offset, EagerMetas *out);
/* Of a call that nothing runs (on the meta device, of fake tensors): as if its views were made of their bases. */
Status eager_metas_alone(const OpCall *call, EagerMetas *out);
/* Where result i would begin in its storage, and the tensor that it would be a view of, or NULL. */
int64_t eager_place_of(const OpCall *call, const EagerMetas *metas, int i, sn_tensor **base);

/* Before an in-place or out form runs: dtypes checked, out tensors resized, overlaps inside what is
 * written refused. */
Status eager_prepare_write(OpCall *call);
/* The part of it that needs no data: overlaps, and read-only memory where a tensor has some. */
Status eager_check_written(const OpCall *call);
/* Operands that overlap what is written only in part: args gets the arguments with copies in their
 * place. */
Status eager_separate(const OpCall *call, Arg args[MAX_ARGS], bool *copied);

/* Lays an out tensor anew for other sizes. */
Status eager_resize(sn_tensor *out, const Meta *meta);
/* The row `resize`, on any device with memory. */
Status eager_resized(OpCall *call);

/* Rows of OPF_across at a device's key: copies between two devices, or two layouts of one. */
Status eager_move(OpCall *call);
/* Registers at a device's key what needs no kernel of the device: copies, views, empty tensors. */
void eager_serve(Key key);
/* The call at a device's key, on the host: outs are there, the scope's. */
Status eager_on_host(const OpCall *call, sn_tensor **outs, int *n_outs);

void eager_cache_free(sn_state *state); /* one-op programs of a thread's state; for tests */
Status eager_kernel(OpCall *call);      /* what a device registers for its key */
void eager_start(void);                 /* registers the Meta device's kernel, which has no row: it runs nothing */

#endif
