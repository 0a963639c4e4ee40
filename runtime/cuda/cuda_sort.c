/* cuda_sort.c: sort.stable and topk on a CUDA device. */
#include "runtime/cuda/cuda_sort.h"

Status cuda_sort_plan(const OpRow *row, CudaSort *s) {
    if (s->n > INT32_MAX)
        return error_raise(ST_UNSUPPORTED, "%s: a dim of %lld elements is sorted on cuda; it may have %d", row->name,
                           (long long)s->n, INT32_MAX);
    for (s->slots = 2; s->slots < s->n && s->slots < CUDA_SORT_TILE;) s->slots *= 2;
    s->parts = ceil_div(s->n, s->slots);
    s->capacity = min_i64(s->n, s->parts * min_i64(s->slots, s->kept));
    return ST_OK;
}

static int64_t key_bytes(DType dtype) { return max_i64(stype_bytes(dtype_compute(dtype)), 4); }

size_t cuda_sort_bytes(const CudaSort *s, DType dtype) {
    return (size_t)(2 * s->lines * round_up(s->capacity, 2) * (key_bytes(dtype) + (int64_t)sizeof(int32_t)));
}

static Status launch_tiles(CudaDevice *device, DType dtype, CudaSort *s, void *from, void *const *to) {
    void *values = to[0], *indices = to[1], *keys = to[2], *places = to[3];
    return cuda_hand_launch(device,
                            &(CudaHandLaunch){.kernel = HAND_sort_tiles,
                                              .dtype = dtype,
                                              .blocks = ceil_div(s->lines * s->parts * s->slots, CUDA_SORT_TILE),
                                              HAND_VALUES(&from, &values, &indices, &keys, &places, s)});
}

Status cuda_sort_lines(CudaDevice *device, DType dtype, void *from, CudaSort *s, char *workspace, CudaSorted *out) {
    const int64_t n = s->lines * round_up(s->capacity, 2);
    char *const places_at = workspace + 2 * n * key_bytes(dtype);
    void *keys[2] = {workspace, workspace + n * key_bytes(dtype)};
    void *places[2] = {places_at, places_at + n * (int64_t)sizeof(int32_t)};
    int now = 0;
    TRY(launch_tiles(device, dtype, s, from, (void *const[]){NULL, NULL, keys[0], places[0]}));
    for (int64_t run = s->slots; run < s->n; run *= 2, now = !now) {
        const int64_t full = s->n / run;
        int64_t width = full * min_i64(run, s->kept) + min_i64(s->n - full * run, s->kept);
        TRY(cuda_hand_launch(device, &(CudaHandLaunch){.kernel = HAND_sort_merge,
                                                       .dtype = dtype,
                                                       .threads = s->lines * width,
                                                       HAND_VALUES(&keys[now], &places[now], &keys[!now], &places[!now],
                                                                   s, &run, &width)}));
    }
    *out = (CudaSorted){keys[now], places[now]};
    return ST_OK;
}

/* By way of workspace: that of a plan's step (ir/plan_workspace.c) is 32 bytes an element of one line. */
static Status sort_long(CudaDevice *device, DType dtype, CudaSort *s, void *from, void **to, char *given) {
    const size_t bytes = cuda_sort_bytes(s, dtype);
    const bool suffices = given && bytes <= 32 * (size_t)s->n;
    char *const workspace = suffices ? given : device->row.memory.allocate(&device->row.memory, bytes);
    CudaSorted sorted;
    if (!workspace) return error_pending();
    Status status = cuda_sort_lines(device, dtype, from, s, workspace, &sorted);
    if (status == ST_OK)
        status = cuda_hand_launch(device, &(CudaHandLaunch){.kernel = HAND_sort_store,
                                                            .dtype = dtype,
                                                            .threads = s->lines * s->kept,
                                                            HAND_VALUES(&from, &to[0], &to[1], &sorted.places, s)});
    if (!suffices) device->row.memory.free(&device->row.memory, workspace, bytes);
    return status;
}

static Status sort_along(OpCall *call, int64_t at, bool descending) {
    CudaDevice *const device = cuda_hand_device(call);
    const sn_tensor *const self = tensor_of(call->args[0].val), *const out = call->outs[0];
    const Meta *const meta = self->base.meta, *const metas[] = {meta, out->base.meta, call->outs[1]->base.meta};
    const int dim = meta->rank ? (int)dim_wrap(at, meta->rank) : 0;
    CudaSort s = {.n = 1, .kept = 1, .lines = 1, .descending = descending};
    if (!out->base.meta->numel) return ST_OK;
    if (meta->rank) {
        s.n = meta->sizes[dim], s.kept = out->base.meta->sizes[dim], s.lines = meta->numel / s.n;
        s.from = metas[0]->strides[dim], s.values = metas[1]->strides[dim], s.indices = metas[2]->strides[dim];
    }
    cuda_line_dims(&s.dims, meta, dim, 3, (CudaStrides[]){metas[0]->strides, metas[1]->strides, metas[2]->strides});
    TRY(cuda_sort_plan(call->row, &s));
    void *from = tensor_data(self), *to[] = {tensor_data(out), tensor_data(call->outs[1]), NULL, NULL};
    TRY(cuda_enter(device));
    const Status status = s.parts == 1 ? launch_tiles(device, meta->dtype, &s, from, to)
                                       : sort_long(device, meta->dtype, &s, from, to, call->workspace);
    cuda_leave(device);
    return status;
}

/* (self, stable, dim, descending) */
Status cuda_sort(OpCall *call) { return sort_along(call, call->args[2].i, call->args[3].i); }
/* (self, k, dim, largest, sorted) */
Status cuda_topk(OpCall *call) { return sort_along(call, call->args[2].i, call->args[3].i); }
