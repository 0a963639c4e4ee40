/* cuda_scatter.c: rows that write at positions given by data, on a CUDA device: kernels/cuda/scatter.cuh. All of them
 * are sources of a line (along one dim) that go to positions of that line: rows of index_add and of an embedding's
 * gradient have one line of positions for all columns. */
#include "runtime/cuda/cuda_sort.h"
#include "runtime/device/positions.h"

enum { FEW = 64 }; /* sources that each thread looks at; of more, lines are sorted */

_Static_assert((int)JOIN_add == (int)JOINING_add && (int)JOIN_mul == (int)JOINING_mul &&
                   (int)JOIN_max == (int)JOINING_max && (int)JOIN_min == (int)JOINING_min,
               "as they are told");

typedef struct ScatterCall {
    const OpCall *call;
    CudaScatter s;
    bool moves; /* the last source stands: nothing is joined */
    const Meta *index_meta;
    int dim;                                   /* of the result, which positions are along; */
    int64_t bound, allowed;                    /* what they may be; and this one, -1: none */
    void *to, *self, *source, *index, *places; /* NULL: zeros; `value` */
    CudaNumber value, by;
    CudaSort sort;
} ScatterCall;

static Status raise_failed(const OpRow *row, const CudaFailed *failed) {
    return raise_position(row, failed->index, failed->bound, failed->inst);
}

static CudaNumber number_for_kernels(const Arg *number, DType dtype) {
    const SType type = dtype_compute(dtype);
    return (CudaNumber){type == S_f32 ? (double)arg_single(number) : arg_double(number), arg_int(number, type)};
}

static const sn_tensor *tensor_at(const OpCall *call, int i) { return tensor_of(call->args[i].val); }
static int64_t stride_along(const Meta *meta, int dim) { return dim < meta->rank ? meta->strides[dim] : 0; }

/* what kernels are told ------------------------------------------------------------------------ */

/* One more dim of the result, joined with the one before where all of it goes on and every element has sources. */
static void add_dim(CudaScatter *s, int64_t size, int64_t limit, bool along, const int64_t stride[CUDA_OPERANDS]) {
    CudaDims *const dims = &s->dims;
    const int64_t last = dims->n - 1;
    bool joins = dims->n && !along && last != s->at && limit == size;
    for (int k = 0; k < CUDA_OPERANDS; k++) joins = joins && dims->stride[k][last] == stride[k] * size;
    const int64_t at = joins ? last : dims->n++;
    dims->size[at] = joins ? dims->size[at] * size : size;
    s->limit[at] = joins ? s->limit[at] * size : limit;
    if (along) s->at = at;
    for (int k = 0; k < CUDA_OPERANDS; k++) dims->stride[k][at] = stride[k];
}

/* index, or what lies in its place in order, is at `lines` by dim of the result; limits: its sizes. */
static void scatter_dims(ScatterCall *c, const Meta *source, const int64_t *lines, const int64_t *limits) {
    const Meta *const to = c->call->outs[0]->base.meta;
    const Meta *const self = c->self ? tensor_at(c->call, 0)->base.meta : NULL;
    c->s.dims.n = 0, c->s.at = -1;
    for (int d = 0; d < to->rank; d++) {
        const bool along = d == c->dim;
        const int64_t stride[CUDA_OPERANDS] = {to->strides[d], self ? self->strides[d] : 0,
                                               along || !source ? 0 : stride_along(source, d),
                                               along || !lines ? 0 : lines[d]};
        if (to->sizes[d] != 1) add_dim(&c->s, to->sizes[d], along || !limits ? to->sizes[d] : limits[d], along, stride);
    }
}

/* launches ------------------------------------------------------------------------------------- */

static Status check_positions(CudaDevice *device, ScatterCall *c) {
    CudaChecked *const checked = cuda_hand_check(c->call->row, raise_failed);
    CudaDims dims;
    int64_t n = c->index_meta->numel;
    if (!checked) return ST_MEMORY;
    cuda_dims(&dims, c->index_meta->sizes, c->index_meta->rank, 1, (const CudaStrides[]){c->index_meta->strides});
    return cuda_hand_launch(
        device, &(CudaHandLaunch){.kernel = HAND_check_positions,
                                  .dtype = c->call->outs[0]->base.meta->dtype,
                                  .threads = n,
                                  .checked = checked,
                                  HAND_VALUES(&c->index, &dims, &n, &c->bound, &c->allowed, &c->dim, &c->s.wide)});
}

static Status launch_scatter(CudaDevice *device, ScatterCall *c) {
    CudaHandLaunch launch = {
        .kernel = HAND_scatter_joins,
        .dtype = c->call->outs[0]->base.meta->dtype,
        .threads = c->s.all,
        HAND_VALUES(&c->to, &c->self, &c->source, &c->index, &c->places, &c->value, &c->by, &c->s)};
    if (c->moves) launch.kernel = HAND_scatter_moves, launch.n = 7, launch.values[6] = &c->s;
    return cuda_hand_launch(device, &launch);
}

/* Lines of index in order take its place. */
static Status sort_index(CudaDevice *device, ScatterCall *c, char *workspace) {
    CudaSorted sorted;
    TRY(cuda_sort_lines(device, c->index_meta->dtype, c->index, &c->sort, workspace, &sorted));
    c->index = sorted.keys, c->places = sorted.places;
    return ST_OK;
}

static Status launch_sorted(CudaDevice *device, ScatterCall *c) {
    const size_t bytes = cuda_sort_bytes(&c->sort, c->index_meta->dtype);
    char *const workspace = device->row.memory.allocate(&device->row.memory, bytes);
    if (!workspace) return error_pending();
    Status status = sort_index(device, c, workspace);
    if (status == ST_OK) status = launch_scatter(device, c);
    device->row.memory.free(&device->row.memory, workspace, bytes);
    return status;
}

static Status launch_all(CudaDevice *device, ScatterCall *c) {
    TRY(check_positions(device, c));
    return c->s.sorted ? launch_sorted(device, c) : launch_scatter(device, c);
}

static ScatterCall scatter_call(const OpCall *call, const sn_tensor *index) {
    const sn_tensor *const out = call->outs[0];
    ScatterCall c = {.call = call, .index_meta = index->base.meta, .allowed = -1};
    c.to = tensor_data(out), c.index = tensor_data(index);
    c.s.all = out->base.meta->numel, c.s.skip = -1, c.s.wide = index->base.meta->dtype == DT_i64;
    return c;
}

static Status run_scatter(ScatterCall *c) {
    CudaDevice *const device = cuda_hand_device(c->call);
    TRY(cuda_enter(device));
    const Status status = launch_all(device, c);
    cuda_leave(device);
    return status;
}

/* scatters: index as large as the tensor or smaller -------------------------------------------- */

/* Where lines of index begin when they lie one after another, by dim. */
static void packed_lines(const Meta *index, int dim, int64_t *lines) {
    int64_t at = index->rank ? index->sizes[dim] : 1;
    for (int d = index->rank - 1; d >= 0; d--) {
        if (d == dim) continue;
        lines[d] = at;
        at *= index->sizes[d];
    }
}

static Status plan_sort(ScatterCall *c) {
    const Meta *const index = c->index_meta;
    c->sort = (CudaSort){.n = c->s.n, .kept = c->s.n, .lines = index->numel / c->s.n, .from = c->s.index};
    cuda_line_dims(&c->sort.dims, index, c->dim, 1, (const CudaStrides[]){index->strides});
    c->s.sorted = true, c->s.index = 1;
    return cuda_sort_plan(c->call->row, &c->sort);
}

/* (self, dim, index, source: a tensor or a number, ...) */
static Status scatter(OpCall *call, ScatterCall *c) {
    const Meta *const out = call->outs[0]->base.meta, *const index = c->index_meta;
    const Meta *const source = call->args[3].kind == ARG_tensor ? tensor_at(call, 3)->base.meta : NULL;
    int64_t packed[MAX_RANK] = {0};
    c->dim = (int)dim_wrap(call->args[1].i, out->rank);
    c->bound = out->rank ? out->sizes[c->dim] : 1;
    c->self = tensor_data(tensor_at(call, 0));
    c->s.n = !index->numel ? 0 : index->rank ? index->sizes[c->dim] : 1;
    c->s.index = stride_along(index, c->dim);
    if (source) c->source = tensor_data(tensor_at(call, 3)), c->s.source = stride_along(source, c->dim);
    if (!source) c->value = number_for_kernels(&call->args[3], out->dtype);
    const bool sorts = c->s.n > FEW && c->s.n <= INT32_MAX;
    if (sorts) TRY(plan_sort(c));
    packed_lines(index, c->dim, packed);
    if (c->s.n) scatter_dims(c, source, sorts ? packed : index->strides, index->sizes);
    if (!c->s.n) scatter_dims(c, NULL, NULL, NULL);
    return run_scatter(c);
}

Status cuda_scatter(OpCall *call) {
    ScatterCall c = scatter_call(call, tensor_at(call, 2));
    c.moves = true;
    return scatter(call, &c);
}
Status cuda_scatter_value(OpCall *call) { return cuda_scatter(call); }

Status cuda_scatter_add(OpCall *call) {
    ScatterCall c = scatter_call(call, tensor_at(call, 2));
    c.s.how = JOIN_add;
    return scatter(call, &c);
}

Status cuda_scatter_reduce(OpCall *call) {
    ScatterCall c = scatter_call(call, tensor_at(call, 2));
    c.s.how = (int)joining_of(call->args[4].string);
    return scatter(call, &c);
}

Status cuda_scatter_reduce_two(OpCall *call) {
    ScatterCall c = scatter_call(call, tensor_at(call, 2));
    c.s.how = (int)joining_of(call->args[4].string);
    c.s.alone = !call->args[5].i, c.s.mean = joining_is_mean(call->args[4].string);
    return scatter(call, &c);
}

/* rows: one line of positions ------------------------------------------------------------------ */

static Status plan_rows(ScatterCall *c) {
    if (c->s.n <= FEW || c->s.n > INT32_MAX) return ST_OK;
    c->sort = (CudaSort){.n = c->s.n, .kept = c->s.n, .lines = 1, .from = c->s.index};
    c->s.sorted = true, c->s.index = 1;
    return cuda_sort_plan(c->call->row, &c->sort);
}

/* (self, dim, index, source, alpha) */
Status cuda_index_add(OpCall *call) {
    const Meta *const out = call->outs[0]->base.meta, *const source = tensor_at(call, 3)->base.meta;
    ScatterCall c = scatter_call(call, tensor_at(call, 2));
    c.dim = (int)dim_wrap(call->args[1].i, out->rank);
    c.bound = out->rank ? out->sizes[c.dim] : 1;
    c.self = tensor_data(tensor_at(call, 0)), c.source = tensor_data(tensor_at(call, 3));
    c.s.n = c.index_meta->numel, c.s.index = stride_along(c.index_meta, 0);
    c.s.source = stride_along(source, c.dim);
    c.by = number_for_kernels(&call->args[4], out->dtype), c.s.scaled = arg_double(&call->args[4]) != 1;
    TRY(plan_rows(&c));
    scatter_dims(&c, source, NULL, NULL);
    return run_scatter(&c);
}

/* A gradient whose rows and positions do not lie at one stride each is copied, row-major. */
typedef struct GradRows {
    void *grad, *index;
    int64_t row, column, position;  /* strides */
    size_t grad_bytes, index_bytes; /* of copies; 0: they are the call's own */
} GradRows;

static Status packed_copy(CudaDevice *device, const sn_tensor *t, void **copy, size_t *bytes) {
    const Meta *const meta = t->base.meta;
    int64_t strides[MAX_RANK];
    const size_t wanted = (size_t)(max_i64(meta->numel, 1) * dtype_bytes(meta->dtype));
    void *const to = device->row.memory.allocate(&device->row.memory, wanted);
    if (!to) return error_pending();
    *copy = to, *bytes = wanted;
    meta_contiguous_strides(NULL, meta->sizes, meta->rank, strides);
    return cuda_move(device, &(CudaStridedMove){.dtype = meta->dtype,
                                                .sizes = meta->sizes,
                                                .rank = meta->rank,
                                                .to = to,
                                                .from = tensor_data(t),
                                                .to_strides = strides,
                                                .from_strides = meta->strides});
}

static Status pack_rows(CudaDevice *device, const OpCall *call, GradRows *rows) {
    const sn_tensor *const grad = tensor_at(call, 0), *const index = tensor_at(call, 1);
    const Meta *const of_grad = grad->base.meta, *const of_index = index->base.meta;
    CudaDims dims;
    cuda_dims(&dims, of_index->sizes, of_index->rank, 2, (const CudaStrides[]){of_grad->strides, of_index->strides});
    *rows = (GradRows){.grad = tensor_data(grad), .index = tensor_data(index)};
    rows->column = of_grad->strides[of_grad->rank - 1];
    if (dims.n) rows->row = dims.stride[0][dims.n - 1], rows->position = dims.stride[1][dims.n - 1];
    if (dims.n < 2 || !of_index->numel) return ST_OK;
    rows->row = of_grad->sizes[of_grad->rank - 1], rows->column = rows->position = 1;
    TRY(packed_copy(device, grad, &rows->grad, &rows->grad_bytes));
    return packed_copy(device, index, &rows->index, &rows->index_bytes);
}

static void drop_rows(CudaDevice *device, const GradRows *rows) {
    if (rows->grad_bytes) device->row.memory.free(&device->row.memory, rows->grad, rows->grad_bytes);
    if (rows->index_bytes) device->row.memory.free(&device->row.memory, rows->index, rows->index_bytes);
}

static Status launch_rows(CudaDevice *device, ScatterCall *c, const GradRows *rows) {
    const Meta *const out = c->call->outs[0]->base.meta;
    const int64_t strides[] = {0, rows->column};
    const Meta source = {.rank = 2, .strides = strides};
    TRY(check_positions(device, c));
    c->source = rows->grad, c->index = rows->index;
    c->s.source = rows->row, c->s.index = rows->position;
    TRY(plan_rows(c));
    scatter_dims(c, &source, NULL, NULL);
    return !out->numel ? ST_OK : c->s.sorted ? launch_sorted(device, c) : launch_scatter(device, c);
}

/* (grad_output, indices, num_weights, padding_idx, scale_grad_by_freq) */
Status cuda_embedding_dense_backward(OpCall *call) {
    CudaDevice *const device = cuda_hand_device(call);
    ScatterCall c = scatter_call(call, tensor_at(call, 1));
    GradRows rows;
    c.bound = call->args[2].i, c.allowed = c.s.skip = max_i64(call->args[3].i, -1);
    c.s.n = c.index_meta->numel, c.s.by_count = call->args[4].i != 0;
    TRY(cuda_enter(device));
    Status status = pack_rows(device, call, &rows);
    if (status == ST_OK) status = launch_rows(device, &c, &rows);
    drop_rows(device, &rows);
    cuda_leave(device);
    return status;
}
