/* region_parts.h: a region whose body runs at once, between region.c (its forward, its second run) and region_ops.c
 * (its ops). */
#ifndef SINTER_RUNTIME_REGION_PARTS_H
#define SINTER_RUNTIME_REGION_PARTS_H
#include "runtime/autograd/region.h"
#include "runtime/autograd/saved_hooks.h"
#include "runtime/base/arena.h"
#include "runtime/base/hash.h"

typedef struct RegionOp {
    const OpRow *row;
    OpForm form;
    uint64_t shape; /* hash of the call but for values */
    const void *site;
    int kept;       /* where its results are in Region.kept; none: -1 */
    uint64_t drawn; /* of the generator's sequence, by what is kept: the ops behind it have the numbers that they had */
} RegionOp;

typedef struct Outside { /* a tensor that the region did not make */
    TapeSaved saved;
    const OpRow *reader; /* the first; NULL: an input that nobody has read */
    const void *site;
} Outside;

typedef struct KeptResult { /* a result that is not computed again */
    sn_tensor *tensor;
    uint32_t version;
} KeptResult;

typedef struct SlotValue {
    sn_tensor *tensor;     /* owned; NULL: empty */
    uint32_t version;      /* when a node saved it */
    const sn_tensor *kept; /* the region's, whose memory has it all the time; or NULL */
} SlotValue;

typedef struct RegionInput {
    Arg arg;       /* a tensor's is NULL: */
    int outside;   /* where it is in Region.outside; -1: no tensor */
    bool made;     /* by the region, before: a copy is there */
    TapeEdge edge; /* its history */
} RegionInput;

typedef struct Region {
    _Atomic int32_t refs; /* runs, slots */
    Arena *arena;
    RegionCall call; /* but for its lists, which are the caller's */
    RegionInput *in;
    Arg *again_in; /* of the run that goes on */
    sn_tensor **again_out;
    Context context;         /* of the forward */
    uint64_t seed, sequence; /* the generator then */
    VEC(RegionOp) ops;
    VEC(Outside) outside;
    VEC(KeptResult) kept;
    VEC(SlotValue) slots;
    bool finished; /* the forward has returned */
} Region;

typedef struct MadeCopy {
    const Storage *of;
    Storage *copy; /* a tensor has it */
} MadeCopy;

typedef struct RegionRun { /* the forward, or a run for the slots */
    struct SavedHooks saved_hooks;
    Region *region;
    bool again;
    bool enough;          /* all slots are full: the body is to end */
    Map known;            /* storages: made inside, or a place in `outside` */
    VEC(MadeCopy) copies; /* of inputs that the region made */
    int op, slot;         /* again: the next ones */
    const OpCall *call;   /* that runs: its node saves results which are not known yet */
} RegionRun;

typedef struct RegionSlot {
    TapePacked packed;
    Region *region;
    int slot;
} RegionSlot;

extern const SavedHooksClass region_run_class;
/* The innermost run that this thread is in; those of hooks lie between. */
static inline RegionRun *region_innermost(SavedHooks *hooks) {
    while (hooks && hooks->class != &region_run_class) hooks = hooks->outer;
    return (RegionRun *)hooks;
}
static inline RegionRun *region_outer_run(const RegionRun *run) { return region_innermost(run->saved_hooks.outer); }

/* Memory: the run made it, it is of a result that is kept (or NULL), it is new with a call whose result it is. */
bool region_has_made(const RegionRun *run, const Storage *storage);
const sn_tensor *region_kept_with(const Region *region, const Storage *storage);
bool region_is_fresh(const OpCall *call, const sn_tensor *out);

Status region_record_made(RegionRun *run, const sn_tensor *t);
Status region_record_read(RegionRun *run, const OpRow *reader, sn_tensor *t);
/* The last of `outside` is t, as what a node saves: packed by a region further out, where that made it. */
Status region_keep_outside(RegionRun *run, sn_tensor *t);
Status region_enter_outside(RegionRun *run, sn_tensor *t); /* and so t's memory is known */

#endif
