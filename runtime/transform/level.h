/* level.h: transforms of functions are a stack of levels [semantics T4], innermost first.
 *
 *   sn_vmap(f, x [3, 4])             level 1, of 3 examples: f sees a handle [4], which stands for x
 *     sn_func_grad(g, handle)        level 2: g sees another handle [4], which stands for the first one
 *       sn_mul(h, h)                 level 2: its tape has a node; a level out: a mul of the handles of level 1;
 *                                    a level out: a mul of the tensors
 *
 * The key (vmap) stands above autocast and capture, so below it, in a compiled body too, there are only ops on what
 * the handles stand for: the tape and graphs know nothing of levels. While a level is entered, the thread's set
 * includes the key, so that ops without a handle come by, too. Autocast casts the innermost call: a policy is that of
 * the whole op. Composites expand above all levels.
 *
 *   kind   handle                                     an op
 *   vmap   one example's dims; inner: all examples    a call on all examples (vmap.h)
 *   grad   wrapped, with a history of its own         a node of its tape, then the op on what they stand for
 *   dual   wrapped, with a tangent                    the op, and its tangent's ops (dual.h) */
#ifndef SINTER_RUNTIME_LEVEL_H
#define SINTER_RUNTIME_LEVEL_H
#include "runtime/core/frame.h"

typedef enum LevelKind { LEVEL_vmap, LEVEL_grad, LEVEL_dual } LevelKind;
typedef enum VmapRandom { VMAP_error, VMAP_same, VMAP_different } VmapRandom;

typedef struct Level {
    struct Level *outer;
    uint32_t id;
    LevelKind kind;
    /* vmap */
    int64_t size, start; /* of the examples that run now; which of all is the first (chunks) */
    VmapRandom random;
    Context around; /* what held where it was made */
    bool quiet;     /* grad: nothing is recorded, its backward runs */
} Level;

Level level_new(sn_state *state, LevelKind kind); /* inside of those that run; not entered */
/* Enters the level, runs the body, and leaves it. */
Status level_run(sn_state *state, Level *level, sn_frame *frame, sn_body body);
void level_enter(sn_state *state, Level *level); /* until the end of the scope */
/* From here to the end of the scope, ops are a level further out. */
void level_leave(sn_state *state, const Level *level);

/* What t stands for; NULL: t is no handle of this level. */
static inline sn_tensor *level_inner(const Level *level, const Val *val) {
    const sn_tensor *const t = (const sn_tensor *)val;
    return t && tensor_is_batched(t) && t->level == level->id ? t->inner : NULL;
}
bool level_has(const OpCall *call, const Level *level); /* among its tensors is a handle of the level */
Status level_pass(OpCall *call);                        /* dispatches the call as it is */
int level_n_written(const OpCall *call);                /* how many tensors it writes (call_written) */
/* What a call writes must be a handle of the level. */
Status level_check_targets(const OpCall *call, const Level *level);
/* To the innermost scope, as results are, where only a handle held t. */
Status level_adopt(sn_tensor *t);
/* t as a level's result is outside. */
static inline sn_tensor *level_outside(const Level *level, sn_tensor *t) {
    sn_tensor *const inner = level_inner(level, &t->base);
    return inner ? inner : t;
}

/* A handle of what the level's body got from outside, which it may not write. */
sn_tensor *level_input(const Level *level, sn_tensor *x);

/* A call's tensors, changed one by one; level_args_end frees. */
typedef struct LevelArgs {
    Arg args[MAX_ARGS];
    sn_tensor *out_args[MAX_OUTS];
    Val **lists; /* of list arguments; owned */
} LevelArgs;
typedef Val *LevelMap(const Level *level, Val *val); /* NULL raises */
Status level_args_map(LevelArgs *a, const OpCall *call, const Level *level, LevelMap *map);
void level_args_end(LevelArgs *a);
LevelMap level_unwrap; /* what val stands for, or val */
/* The call on what its handles stand for, a level further out, in a scope of its own; n results, of which there is room
 * for MAX_LIST; in place and out: what was written. */
Status level_run_inner(const OpCall *call, const Level *level, sn_tensor **outs, int *n);
/* The call's results from those of level_run_inner: new handles, or those that it wrote. */
Status level_wrap_results(OpCall *call, const Level *level, sn_tensor *const *outs, int n);

Status dual_op(OpCall *call, const Level *level);
Status grad_op(OpCall *call, const Level *level); /* the kind's kernel */

void grad_level_start(void);
void level_start(void);

#endif
