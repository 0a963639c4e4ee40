/* cuda_embedding_bag.c: bags on a CUDA device: kernels/cuda/bags.cuh. A first launch looks at indices and offsets,
 * a second one joins rows if nothing was wrong. */
#include "ir/schema.h"
#include "kernels/cuda/planes.h"
#include "runtime/base/error.h"
#include "runtime/cuda/cuda_native.h"

/* What of offsets the kernel found wrong (bags.cuh). */
static Status raise_failed(const OpRow *row, const CudaFailed *failed) {
    static const char *const wrong[] = {NULL, "the first must be 0", "they must not descend",
                                        "there are fewer indices"};
    if (!failed->inst)
        return error_raise(ST_VALUE, "%s: %s %lld is out of range for %lld elements of dim 0", row->name,
                           row->check.param, (long long)failed->index, (long long)failed->bound);
    return error_raise(ST_VALUE, "%s: offsets[%lld] is %lld: %s", row->name, (long long)failed->index,
                       (long long)failed->bound, wrong[failed->inst]);
}

static int64_t stride_of(const sn_tensor *t, int dim) {
    const Meta *const meta = t->base.meta;
    return dim < meta->rank ? meta->strides[dim] : 0;
}

static bool is_wide(const sn_tensor *t) { return t->base.meta->dtype == DT_i64; }

/* (weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset, padding_idx) */
static CudaBags bags_of(const OpCall *call, const sn_tensor *by) {
    const sn_tensor *const weight = tensor_of(call->args[0].val), *const indices = tensor_of(call->args[1].val),
                           *const offsets = tensor_of(call->args[2].val), *const *const outs = (void *)call->outs;
    return (CudaBags){.rows = weight->base.meta->sizes[0],
                      .length = weight->base.meta->sizes[1],
                      .n = indices->base.meta->numel,
                      .count = outs[0]->base.meta->sizes[0],
                      .n_offsets = offsets->base.meta->numel,
                      .padding = call->args[8].i,
                      .mode = call->args[4].i,
                      .n_bag_of = outs[1]->base.meta->numel,
                      .n_sizes = outs[2]->base.meta->numel,
                      .weight_row = stride_of(weight, 0),
                      .weight_column = stride_of(weight, 1),
                      .index = stride_of(indices, 0),
                      .offset = stride_of(offsets, 0),
                      .by = by ? stride_of(by, 0) : 0,
                      .out_row = stride_of(outs[0], 0),
                      .out_column = stride_of(outs[0], 1),
                      .bag_of = stride_of(outs[1], 0),
                      .sizes = stride_of(outs[2], 0),
                      .from_row = stride_of(outs[3], 0),
                      .from_column = stride_of(outs[3], 1),
                      .wide_indices = is_wide(indices),
                      .wide_offsets = is_wide(offsets),
                      .wide_results = is_wide(outs[2])};
}

static Status launch_both(CudaDevice *device, const OpCall *call, const sn_tensor *by, CudaBags *b) {
    const DType dtype = call->outs[0]->base.meta->dtype;
    void *weight = tensor_data(tensor_of(call->args[0].val)), *indices = tensor_data(tensor_of(call->args[1].val)),
         *offsets = tensor_data(tensor_of(call->args[2].val)), *factors = by ? tensor_data(by) : NULL, *outs[4];
    for (int i = 0; i < 4; i++) outs[i] = tensor_data(call->outs[i]);
    CudaChecked *const checked = cuda_hand_check(call->row, raise_failed);
    if (!checked) return ST_MEMORY;
    TRY(cuda_hand_launch(device, &(CudaHandLaunch){.kernel = HAND_check_bags,
                                                   .dtype = dtype,
                                                   .threads = max_i64(b->n, b->n_offsets),
                                                   .checked = checked,
                                                   HAND_VALUES(&indices, &offsets, b)}));
    const int64_t each = max_i64(b->length, 1), none = max_i64(b->n, b->n_offsets);
    return cuda_hand_launch(
        device, &(CudaHandLaunch){
                    .kernel = HAND_join_bags,
                    .dtype = dtype,
                    .threads = max_i64(b->count * each, b->count < b->n_offsets || !b->count ? none : 0),
                    HAND_VALUES(&weight, &indices, &offsets, &factors, &outs[0], &outs[1], &outs[2], &outs[3], b)});
}

Status cuda_embedding_bag(OpCall *call) {
    CudaDevice *const device = cuda_hand_device(call);
    const sn_tensor *const by = call->args[6].kind == ARG_tensor ? tensor_of(call->args[6].val) : NULL;
    CudaBags b = bags_of(call, by);
    TRY(cuda_enter(device));
    const Status status = launch_both(device, call, by, &b);
    cuda_leave(device);
    return status;
}
