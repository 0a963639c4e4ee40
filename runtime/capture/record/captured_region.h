/* captured_region.h: the regions (runtime/autograd/region.h) that a captured body is in: which ops are computed again
 * for a backward [semantics T6].
 *
 *   sn_checkpoint(body)     region 1 of the segment     TraceOp.region, then Node.region (passes/recompute.c)
 *     sn_exp, sn_checkpoint(inner)                      region 2, Trace.regions says that it lies in 1
 *
 * A region is numbered in each segment that has an op of it: where the body ends the segment, the rest of it is a
 * region of the next one. What that reads of the former part is noted (Trace.rest, NODE_rest): it is the region's own,
 * which others may write once the region is done. */
#ifndef SINTER_RUNTIME_CAPTURED_REGION_H
#define SINTER_RUNTIME_CAPTURED_REGION_H
#include "runtime/autograd/region.h"
#include "runtime/capture/record/capture.h"

typedef struct RegionBeside { /* what was made at once, beside the segments; it may be gone */
    const Storage *storage;
    bool saved; /* its policy says so */
} RegionBeside;
typedef struct CaptureRegion {
    struct CaptureRegion *outer;
    uint32_t n_scopes; /* open when its body began: with fewer, that was left */
    RegionPolicy policy;
    int first_trace;       /* where it began: the segment, */
    int first_op;          /* and so many ops of that */
    const Trace *numbered; /* the last segment that has an op of it, */
    int number;            /* and its number there */
    VEC(RegionBeside) beside;
} CaptureRegion;

/* What structure says of an op's place. */
typedef struct OpRegion {
    int region;    /* 0: none */
    uint8_t modes; /* NODE_saved, where a policy says so; NODE_rest */
} OpRegion;

/* The innermost one that the body is in, NULL: none. */
CaptureRegion *captured_region_current(Capture *capture);
/* Its ops are part of the segment, as a region that the partitioner computes again: nobody runs the body a second
 * time. */
Status captured_region_call(Capture *capture, const RegionCall *call);
/* Of the op that is recorded next. */
OpRegion captured_region_place(Capture *capture, const OpCall *call);
/* As region_check_writes does; raises also where an op reads a tensor of inference mode from outside, which has no
 * version to check. */
Status captured_region_check(Capture *capture, const OpCall *call);
/* A tensor was made in the region at once; call: by this op, or NULL. */
void captured_region_made(Capture *capture, const sn_tensor *t, const OpCall *call);

#endif
