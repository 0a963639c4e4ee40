/* decomp_view_copy.c: views as copies, row-major. */
#include "ir/schema.h"
#include "ir/op_ids.h"
#include "passes/rules/decomp.h"

#define COPY_OF(view)                                                                                                  \
    DecompFn decomp_##view##_copy;                                                                                     \
    Status decomp_##view##_copy(Builder *b, const OpRow *row, const Arg *args, Val **outs) {                           \
        Val *const seen = emit1(b, OP_##view, args, row->n_params);                                                    \
        return done1(outs, E(b, clone, V(seen), I(MF_contiguous)));                                                    \
    }

DecompFn decomp_view_copy;
Status decomp_view_copy(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    Val *const seen = reshaped(b, args[0].val, args[1].ints, args[1].n);
    return done1(outs, E(b, clone, V(seen), I(MF_contiguous)));
}
COPY_OF(expand)
COPY_OF(permute)
COPY_OF(transpose_int)
COPY_OF(t)
COPY_OF(slice_Tensor)
COPY_OF(select_int)
COPY_OF(squeeze)
COPY_OF(squeeze_dim)
COPY_OF(squeeze_dims)
COPY_OF(unsqueeze)
COPY_OF(alias)
COPY_OF(diagonal)
COPY_OF(unfold)
COPY_OF(detach)
COPY_OF(narrow)
