/* vmap.h: one example stands for many [semantics T5].
 *
 *   sn_vmap(body, x [3, 4])        a level: 3 examples
 *     body sees x [4]              a handle without storage: inner x [3, 4], the level's id
 *       sn_mul(x, w)               key vmap: mul of the inner tensors, a level further out, and another such handle */
#ifndef SINTER_RUNTIME_VMAP_H
#define SINTER_RUNTIME_VMAP_H
#include <sinter/compile.h>

#include "runtime/transform/level.h"

typedef struct VmapSpec {
    sn_body body;
    void *closure;
    const int64_t *in_dims, *out_dims; /* NULL: all 0; SN_NO_INT: unbatched */
    int64_t chunk;                     /* 0: all at once */
    VmapRandom random;
    sn_tensor *const *in;
    int n_in;
    sn_tensor **out;
    int n_out;
} VmapSpec;
/* in's dims are right. */
Status vmap_run(const VmapSpec *spec, int64_t size);

Status vmap_op(OpCall *call, const Level *level);

/* The level's kernel, below it: call's results for examples of this level, which some of its tensors are; in a scope of
 * its own, a level further out. */
Status vmap_rule(OpCall *call, const Level *level);
Status vmap_random(OpCall *call, const Level *level);
/* Example by example; sequence: each draws the same random numbers. */
Status vmap_loop(OpCall *call, const Level *level, bool same);
/* Results of the call on all examples become those of one. */
Status vmap_set_results(OpCall *call, const Level *level, sn_tensor *const *outs, int n);

/* Of rows with a rule of their own (vmap_own.c); one: one example's call. True: it ran, or failed, as *status says. */
bool vmap_own_rule(OpCall *call, const Level *level, const MetaCall *one, Status *status);

/* arguments (vmap_args.c) */
typedef struct VmapArgs {
    const Level *level;
    const OpCall *call;
    int64_t rows; /* examples in the tensors: the level's */
    Arg args[MAX_ARGS];
    Val **lists;                /* of list arguments; owned */
    int64_t ints[MAX_RANK * 2]; /* of int lists that are others now */
    int n_ints;
} VmapArgs;
/* Copies call's arguments with all examples in the place of one. rank: what has fewer dims gets some of size 1 behind
 * the batch dim; expand: what is no example is repeated. vmap_args_end frees. */
Status vmap_args_align(VmapArgs *a, const Level *level, const OpCall *call, int rank, bool expand);
void vmap_args_end(VmapArgs *a);
/* Dims that arguments name, one further; false: the op names none. all_too: an empty list stands for all. */
bool vmap_args_shift(VmapArgs *a);
bool vmap_names_dims(const OpRow *row);
/* The batch's size before sizes that an argument lists. */
bool vmap_args_enlarge(VmapArgs *a);
/* A list of all dims gets the batch's before them. */
bool vmap_args_keep_front(VmapArgs *a);
/* Whether the meta rule gives the arguments' results the dims of one example's behind the batch's, with the same order
 * of additions; of a view the same memory, too. */
bool vmap_args_fit(VmapArgs *a, const MetaCall *one);
int vmap_rank(const OpCall *call); /* the highest of one example's tensors */
/* One value as each example's: [examples, ...], without a copy; NULL on error. */
Val *vmap_repeat(const Level *level, Val *val);
/* Runs them. */
Status vmap_args_run(VmapArgs *a, OpCall *call);

#endif
