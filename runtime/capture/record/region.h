/* region.h: the checkpoints that a captured body is in: which ops are computed again for a backward [semantics T6].
 *
 *   sn_checkpoint(body)     region 1 of the segment     TraceOp.region, then Node.region (passes/recompute.c)
 *     sn_exp, sn_checkpoint(inner)                      region 2, Trace.regions says that it lies in 1
 *
 * A region is numbered in each segment that has an op of it: where the body ends the segment, the rest of it is a
 * region of the next one. What that reads of the former part is noted (Trace.rest, NODE_rest): it is the region's own,
 * which others may write once the region is done. */
#ifndef SINTER_RUNTIME_REGION_H
#define SINTER_RUNTIME_REGION_H
#include "runtime/capture/record/capture.h"

typedef bool RegionKeeps(void *context, const char *op);
typedef struct RegionBeside { /* what was made at once, beside the segments; it may be gone */
    const Storage *storage;
    bool saved; /* its policy says so */
} RegionBeside;
typedef struct CaptureRegion {
    struct CaptureRegion *outer;
    uint32_t n_scopes;     /* open when its body began: with fewer, that was left */
    RegionKeeps *keeps;    /* its policy, or NULL */
    void *context;         /* of the policy */
    int first_trace;       /* where it began: the segment, */
    int first_op;          /* and so many ops of that */
    const Trace *numbered; /* the last segment that has an op of it, */
    int number;            /* and its number there */
    VEC(RegionBeside) beside;
} CaptureRegion;

/* What structure says of an op's place. */
typedef struct RegionPlace {
    int region;    /* 0: none */
    uint8_t modes; /* NODE_saved, where a policy says so; NODE_rest */
} RegionPlace;

/* The innermost one that the body is in, NULL: none. */
CaptureRegion *region_current(Capture *capture);
Status region_begin(Capture *capture, RegionKeeps *keeps, void *context);
void region_end(Capture *capture, CaptureRegion *outer);
/* Of the op that is recorded next. */
RegionPlace region_place(Capture *capture, const OpCall *call);
/* Raises where a form writes what the region did not make, or what its policy saves; and where an op reads a tensor of
 * inference mode from outside, which has no version to check. */
Status region_check(Capture *capture, const OpCall *call);
Status region_check_input(const sn_tensor *t); /* the latter, of what is handed to a body */
/* The tensors that a call writes, also a user's op; and what is wrong with them. */
typedef Status RegionWrite(void *context, const OpCall *call, sn_tensor *t);
Status region_each_written(const OpCall *call, RegionWrite *visit, void *context);
Status region_outside_error(const OpCall *call);
Status region_saved_error(const OpCall *call);
/* A tensor was made in the region at once; call: by this op, or NULL. */
void region_made(Capture *capture, const sn_tensor *t, const OpCall *call);

#endif
