/* dynamic_mark.c: see dynamic_mark.h. */
#include "runtime/autograd/dynamic_mark.h"

#include "runtime/autograd/tape.h"
#include "runtime/base/alloc.h"

struct DynamicMarks {
    DynamicMark dims[MAX_RANK];
};

Status dynamic_mark_set(sn_tensor *t, int dim, DynamicMark mark) {
    AutogradMeta *const meta = tape_meta(t);
    if (!meta) return ST_MEMORY;
    if (!meta->marks) meta->marks = mem_zero(sizeof *meta->marks);
    if (!meta->marks) return ST_MEMORY;
    meta->marks->dims[dim] = mark;
    return ST_OK;
}

const DynamicMark *dynamic_mark_get(const sn_tensor *t, int dim) {
    const DynamicMark *const mark = dynamic_mark_any(t) ? &t->autograd->marks->dims[dim] : NULL;
    return mark && mark->most ? mark : NULL;
}

bool dynamic_mark_any(const sn_tensor *t) { return t && t->autograd && t->autograd->marks; }
