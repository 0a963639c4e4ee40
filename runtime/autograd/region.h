/* region.h: a region is a part of a forward whose values a backward computes again: what sn_checkpoint makes of a body
 * [semantics T6].
 *
 *   region_call             the body is                  which runs again
 *   region.c                run at once                  as it is, when a backward needs what its nodes saved
 *   captured_region.c       recorded by its tracer       as nodes of the backward's graph (passes/recompute.c); where
 *                                                        the segment runs op by op its ops are the body of a region
 *                                                        that runs at once (region_program.c)
 *
 * What all of these share is here: the call, what its policy saves, what its ops may write. */
#ifndef SINTER_RUNTIME_REGION_H
#define SINTER_RUNTIME_REGION_H
#include "runtime/core/frame.h"

/* Whether the region keeps what ops of this name give; saves NULL: none is kept. */
typedef struct RegionPolicy {
    bool (*saves)(void *context, const char *op);
    void *context;
} RegionPolicy;

typedef struct RegionCall {
    sn_body body;
    void *closure;
    sn_free_fn closure_free; /* once: nobody computes it again */
    RegionPolicy policy;
    const Arg *in;
    int n_in;
    sn_tensor **out; /* as sn_call has it */
    int n_out;
    /* By input: the region made it, in a part of it that ran before. NULL: none. What the second run reads is a copy,
       for others may write that memory once the region is done. */
    const bool *made;
} RegionCall;

/* Runs the body at once. Without gradients that is all. */
Status region_call(const RegionCall *call);
/* Host code, or a step of control flow, has made this tensor, perhaps inside a region. */
void region_made(sn_tensor *t);
/* Raises where it is, for what a second run would do again. */
Status region_refuse(const char *what);
/* Is this thread in a region's second run, whose effects have happened? */
bool region_runs_again(void);
void region_start(void);

/* Of those who have regions: */
Status region_run_body(const RegionCall *call, const Arg *in, sn_tensor **out);
Status region_refusal(const char *what); /* raises the error of region_refuse */
/* How errors name the region that holds a value, by the op that read it first; NULL: its policy saved it. */
void region_print_name(Text *text, const OpRow *reader, const void *site);
/* Does it save the results of this call? What is written or a view stays what the ops make it. */
bool region_policy_saves(const RegionPolicy *policy, const OpCall *call);
/* What a call reads: each tensor among its arguments and in their lists. */
typedef Status RegionVisit(void *region, const OpCall *call, sn_tensor *t);
Status region_each_read(const OpCall *call, RegionVisit *visit, void *region);
/* Where memory comes from, as a region sees it; saved: made, and the policy says so. */
typedef enum RegionOrigin { ORIGIN_outside, ORIGIN_made, ORIGIN_saved } RegionOrigin;
typedef RegionOrigin RegionOriginOf(const void *region, const sn_tensor *t);
/* Raises where a form, or an op of the program's, writes what the region did not make, or what its policy saves. */
Status region_check_writes(const OpCall *call, RegionOriginOf *origin, const void *region);

#endif
