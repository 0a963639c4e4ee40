/* unset.h: which elements of values hang on memory that no op has set. While it is filled, what ops leave unset
 * (OPF_unset, aten::empty) is full of one byte; elements that eager code computes otherwise where that is another one
 * (unset_bytes) have no values that two ways could have in common (HostValue.unset). */
#ifndef SINTER_TOOL_UNSET_H
#define SINTER_TOOL_UNSET_H
#include "runtime/core/dispatch.h"

enum { UNSET_KERNELS = 32, UNSET_FILLS = 4 };
/* 0, some positive number, some negative one, NaN: in floats; in bools false and true. */
extern const unsigned char unset_bytes[UNSET_FILLS];

typedef struct UnsetKernel { /* the row's own, put back at the end */
    const OpRow *row;
    Key key;
    OpKernel *before;
} UnsetKernel;

typedef struct UnsetFill {
    unsigned char byte;
    int made; /* results that were filled */
    UnsetKernel kernels[UNSET_KERNELS];
    int n;
} UnsetFill;

/* One at a time; it stays where it is until its end. */
void unset_fill_begin(UnsetFill *fill, unsigned char byte);
void unset_fill_end(UnsetFill *fill);

#endif
