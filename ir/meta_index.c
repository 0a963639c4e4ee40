/* meta_index.c: ops that read or write at positions given by tensors. Positions themselves are checked where they are
 * used (OPF_check); here only their dtype and shape. */
#include "ir/meta_rules.h"

Status meta_embedding(MetaCall *call) {
    const Meta *weight = tensor_meta(call, 0), *indices = tensor_meta(call, 1);
    if (weight->rank != 2) return meta_fail(call, ST_SHAPE, "weight must have 2 dims, not sizes %s", SIZES(call, weight));
    if (indices->dtype != DT_i64 && indices->dtype != DT_i32)
        return meta_fail(call, ST_DTYPE, "indices must be i64 or i32, not %s", dtype_name(indices->dtype));
    TRY(same_device(call, weight, indices));
    int64_t sizes[MAX_RANK];
    if (indices->rank + 1 > MAX_RANK) return meta_fail(call, ST_SHAPE, "more than %d dims", MAX_RANK);
    if (indices->rank) memcpy(sizes, indices->sizes, sizeof *sizes * (size_t)indices->rank);
    sizes[indices->rank] = weight->sizes[1];
    out_plain(call, 0, weight->dtype, weight->device, sizes, indices->rank + 1);
    return ST_OK;
}
