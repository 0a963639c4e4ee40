/* dynamic_mark.h: dims of a tensor whose sizes vary from call to call, as the program says (sn_mark_dynamic). They are
 * looked at where a segment is compiled, and nowhere on the way of a call. */
#ifndef SINTER_RUNTIME_DYNAMIC_MARK_H
#define SINTER_RUNTIME_DYNAMIC_MARK_H
#include "runtime/core/tensor.h"

typedef struct DynamicMark {
    int64_t least, most; /* sizes, both included; most 0: the dim is not marked */
} DynamicMark;

/* Of dim; an earlier one is replaced. */
Status dynamic_mark_set(sn_tensor *t, int dim, DynamicMark mark);
/* NULL: not marked. */
const DynamicMark *dynamic_mark_get(const sn_tensor *t, int dim);
bool dynamic_mark_any(const sn_tensor *t);

#endif
