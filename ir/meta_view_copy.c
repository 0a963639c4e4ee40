/* meta_view_copy.c: views as copies: the sizes of the view's rule, row-major strides, memory of their own. */
#include "ir/meta_rules.h"

static Status as_copy(MetaCall *call) {
    call->out[0].alias = -1, call->out[0].offset = 0;
    out_contiguous(call, &call->out[0]);
    return ST_OK;
}

#define COPY_OF(view)                                                                                                  \
    MetaFn meta_##view, meta_##view##_copy;                                                                            \
    Status meta_##view##_copy(MetaCall *call) {                                                                        \
        TRY(meta_##view(call));                                                                                        \
        return as_copy(call);                                                                                          \
    }

/* Of any layout: what is no view is a reshape. */
MetaFn meta_reshape, meta_view_copy;
Status meta_view_copy(MetaCall *call) {
    TRY(meta_reshape(call));
    return as_copy(call);
}
COPY_OF(expand)
COPY_OF(permute)
COPY_OF(transpose)
COPY_OF(t)
COPY_OF(slice)
COPY_OF(select)
COPY_OF(squeeze)
COPY_OF(unsqueeze)
COPY_OF(alias)
COPY_OF(diagonal)
COPY_OF(unfold)
COPY_OF(narrow)
