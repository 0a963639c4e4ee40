/* cuda_positions.c: positions on a CUDA device: kernels/cuda/positions.cuh. nonzero and where read how many there are:
 * the host waits for that, and what had failed before is raised there. Rows of fresh memory stand here, too. */
#include "runtime/cuda/cuda_lines.h"
#include "runtime/device/positions.h"
#include "runtime/eager/eager.h"

enum { PART = 64 }; /* of a thread */

/* what is not 0 -------------------------------------------------------------------------------- */

typedef struct TrueCount {
    CudaDevice *device;
    DType dtype;
    void *from, *counts; /* workspace */
    int64_t parts;
    CudaPositions p;
} TrueCount;

static Status launch_true(TrueCount *t, CudaHandKernel kernel) {
    return cuda_hand_launch(t->device, &(CudaHandLaunch){.kernel = kernel,
                                                         .dtype = t->dtype,
                                                         .threads = t->parts,
                                                         HAND_VALUES(&t->from, &t->counts, &t->p)});
}

static Status launch_counts(TrueCount *t) {
    TRY(cuda_enter(t->device));
    Status status = launch_true(t, HAND_count_true);
    if (status == ST_OK)
        status = cuda_hand_launch(t->device, &(CudaHandLaunch){.kernel = HAND_sum_counts,
                                                               .dtype = t->dtype,
                                                               .blocks = 1,
                                                               HAND_VALUES(&t->counts, &t->parts)});
    cuda_leave(t->device);
    return status;
}

static Status count_true(TrueCount *t, int64_t *n) {
    TRY(launch_counts(t));
    const int64_t *const counts = t->counts;
    return t->device->row.memory.copy(&t->device->row.memory, n, counts + t->parts, sizeof *n, SN_COPY_TO_HOST);
}

/* Makes the results for n positions and says where those of each dim go. */
typedef Status MakeTrue(OpCall *call, CudaPositions *p, int64_t n);

static Status list_counted(OpCall *call, TrueCount *t, MakeTrue *make) {
    int64_t n = 0;
    if (t->p.n) TRY(count_true(t, &n));
    TRY(make(call, &t->p, n));
    if (!n) return ST_OK;
    TRY(cuda_enter(t->device));
    const Status status = launch_true(t, HAND_list_true);
    cuda_leave(t->device);
    return status;
}

static Status list_true(OpCall *call, MakeTrue *make) {
    sn_tensor *const self = tensor_of(call->args[0].val);
    const Meta *const meta = self->base.meta;
    TRY(tensor_ready(self, call->row->name));
    TrueCount t = {.device = cuda_device_of(device_row(meta->device)), .dtype = meta->dtype};
    t.from = tensor_data(self), t.parts = ceil_div(meta->numel, PART);
    t.p.n = meta->numel, t.p.rank = meta->rank;
    for (int d = 0; d < meta->rank; d++) t.p.size[d] = meta->sizes[d];
    cuda_dims(&t.p.dims, meta->sizes, meta->rank, 1, (const CudaStrides[]){meta->strides});
    const Memory *const memory = &t.device->row.memory;
    const size_t bytes = (size_t)(t.parts + 1) * sizeof(int64_t);
    if (!(t.counts = memory->allocate(memory, bytes))) return error_pending();
    const Status status = list_counted(call, &t, make);
    memory->free(memory, t.counts, bytes);
    return status;
}

/* A row for each position; those of one dim lie side by side, as on the CPU. */
static Status make_rows(OpCall *call, CudaPositions *p, int64_t n) {
    const int64_t sizes[2] = {n, p->rank}, strides[2] = {1, max_i64(n, 1)};
    const Meta *const meta =
        meta_intern(DT_i64, tensor_of(call->args[0].val)->base.meta->device, sizes, strides, 2, false);
    call->outs[0] = meta ? tensor_new(meta) : NULL;
    if (!call->outs[0]) return error_pending();
    for (int d = 0; d < p->rank; d++) p->to[d] = (int64_t *)tensor_data(call->outs[0]) + d * n;
    return ST_OK;
}
Status cuda_nonzero(OpCall *call) { return list_true(call, make_rows); }

/* A tensor for each dim; one without dims counts as one of a single element. */
static Status make_lists(OpCall *call, CudaPositions *p, int64_t n) {
    const Meta *const meta = meta_intern_contiguous(DT_i64, tensor_of(call->args[0].val)->base.meta->device, &n, 1);
    if (!p->rank) p->rank = p->size[0] = 1;
    for (int d = 0; d < p->rank; d++) {
        call->outs[d] = meta ? tensor_new(meta) : NULL;
        if (!call->outs[d]) return error_pending();
        p->to[d] = tensor_data(call->outs[d]);
    }
    call->n_outs = (int)p->rank;
    return ST_OK;
}
Status cuda_where_positions(OpCall *call) { return list_true(call, make_lists); }

/* indices -------------------------------------------------------------------------------------- */

static Status raise_failed(const OpRow *row, const CudaFailed *failed) {
    (void)row;
    return raise_index_position(failed->index, failed->bound, failed->inst);
}

static Status launch_positions(CudaDevice *device, const OpCall *call, CudaChecked *checked) {
    const sn_tensor *const index = tensor_of(call->args[0].val);
    const Meta *const meta = index->base.meta;
    CudaDims dims;
    cuda_dims(&dims, meta->sizes, meta->rank, 2, (CudaStrides[]){meta->strides, call->outs[0]->base.meta->strides});
    void *from = tensor_data(index), *to = tensor_data(call->outs[0]);
    int64_t n = meta->numel, size = call->args[1].i;
    int dim = (int)call->args[2].i, wide = meta->dtype == DT_i64;
    TRY(cuda_hand_launch(device, &(CudaHandLaunch){.kernel = HAND_check_wrapped,
                                                   .dtype = DT_i64,
                                                   .threads = n,
                                                   .checked = checked,
                                                   HAND_VALUES(&from, &dims, &n, &size, &dim, &wide)}));
    return cuda_hand_launch(device, &(CudaHandLaunch){.kernel = HAND_wrap_positions,
                                                      .dtype = DT_i64,
                                                      .threads = n,
                                                      HAND_VALUES(&from, &to, &dims, &n, &size, &wide)});
}

/* (index, size, dim) */
Status cuda_index_positions(OpCall *call) {
    CudaDevice *const device = cuda_hand_device(call);
    CudaChecked *const checked = cuda_hand_check(call->row, raise_failed);
    if (!checked) return ST_MEMORY;
    Status status = cuda_enter(device);
    if (status != ST_OK) return cuda_checked_drop(checked), status;
    status = launch_positions(device, call, checked);
    cuda_leave(device);
    return status;
}

/* memory --------------------------------------------------------------------------------------- */

Status cuda_resize(OpCall *call) { return eager_resized(call); }

/* Elements are not set. */
Status cuda_empty(OpCall *call) {
    (void)call;
    return ST_OK;
}
