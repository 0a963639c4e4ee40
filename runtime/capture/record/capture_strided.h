/* capture_strided.h: as_strided in a body, and where what is pending begins in its storage. */
#ifndef SINTER_RUNTIME_CAPTURE_STRIDED_H
#define SINTER_RUNTIME_CAPTURE_STRIDED_H
#include "runtime/capture/record/trace.h"

typedef struct StridedView { /* the same view, by numbers that a graph can hold */
    OpCall call;             /* of sn::view_of */
    Arg args[4], symbolic[4];
    bool from_storage; /* its offset depends on where something begins that the call doesn't show */
} StridedView;

/* Why an as_strided call can't be recorded; NULL: it can, as `view`. symbolic: its arguments before their numbers were
 * made plain. */
Reason strided_view(const Capture *capture, const OpCall *call, const Arg *symbolic, StridedView *view);

/* Where a pending tensor will begin: `distance` elements behind the first one of `root`, an argument; root is NULL
 * where it has memory of its own. whole: it is no view. */
typedef struct PendingPlace {
    sn_tensor *root;
    int64_t distance;
    bool whole;
} PendingPlace;
/* False: that is not known before t is computed. */
bool capture_place(sn_tensor *t, PendingPlace *out);
/* Returns where t begins in its storage, and guards it; 0 where t can't be computed, which raises. */
int64_t capture_storage_offset(sn_tensor *t, const char *what);

#endif
