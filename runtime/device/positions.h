/* positions.h: what native kernels that write at positions say and check on the host, whatever device runs them. */
#ifndef SINTER_RUNTIME_DEVICE_POSITIONS_H
#define SINTER_RUNTIME_DEVICE_POSITIONS_H
#include "runtime/core/dispatch.h"

/* sn::view_scatter: the view is inside of outs[0]'s memory. */
Status view_scatter_check(const OpCall *call);

/* An index that is none of `size` elements. */
Status raise_position(const OpRow *row, int64_t index, int64_t size, int dim);
/* sn::index_positions, which is a part of what the user called. */
Status raise_index_position(int64_t index, int64_t size, int64_t dim);

/* How elements meet that go to one position, by the word of a row's `reduce`. */
typedef enum JoinKind { JOINING_add, JOINING_mul, JOINING_max, JOINING_min } JoinKind;
JoinKind joining_of(const char *word);
bool joining_is_mean(const char *word); /* added, then divided by how many there are */

#endif
