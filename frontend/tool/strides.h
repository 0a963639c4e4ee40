/* strides.h: a view whose elements' places are shown, as text (strides.c) or as a picture (strides_svg.c). */
#ifndef SINTER_TOOL_STRIDES_H
#define SINTER_TOOL_STRIDES_H
#include "ir/meta.h"

typedef struct StridesView {
    const char *title;
    const Meta *meta; /* sizes are numbers */
    int64_t offset;   /* of its first element */
    int64_t storage;  /* elements of what it is a view of */
} StridesView;

/* Where element i in row-major order lies. */
int64_t strides_offset(const StridesView *view, int64_t i);
/* Raises ST_IO, or ST_ARGUMENT where there are too many elements. */
Status strides_svg(const char *path, const StridesView *view);

#endif
