/* dlpack.c: tensors from and to other libraries without a copy (sinter/tensor.h). */
#include <sinter/tensor.h>

#include "frontend/api/enter.h"
#include "frontend/api/dlpack.h"
#include "runtime/base/alloc.h"
#include "runtime/core/tensor.h"
#include "runtime/device/stream.h"

typedef struct DlpackType {
    uint8_t code, bits;
} DlpackType;
static const DlpackType types[DT_COUNT] = {
    [DT_f64] = {DLPACK_FLOAT, 64},  [DT_f32] = {DLPACK_FLOAT, 32}, [DT_f16] = {DLPACK_FLOAT, 16},
    [DT_i64] = {DLPACK_INT, 64},    [DT_i32] = {DLPACK_INT, 32},   [DT_i16] = {DLPACK_INT, 16},
    [DT_i8] = {DLPACK_INT, 8},      [DT_u8] = {DLPACK_UINT, 8},    [DT_bool] = {DLPACK_BOOL, 8},
    [DT_bf16] = {DLPACK_BFLOAT, 16}};

static DType dtype_of(DLDataType type) {
    for (int i = DT_default + 1; i < DT_COUNT; i++)
        if (type.lanes == 1 && types[i].code == type.code && types[i].bits == type.bits) return (DType)i;
    return DT_default;
}

static void release_managed(void *data, void *managed) {
    (void)data;
    DLManagedTensorVersioned *const m = managed;
    if (m->deleter) m->deleter(m);
}

/* Of the device types that there are for it; -1: for none. Host memory that a GPU reads is the host's. */
static Device dlpack_place(DLDevice device) {
    if (device.device_type == DLPACK_CPU || device.device_type == DLPACK_CUDA_HOST) return DEV_host;
    const bool is_cuda = device.device_type == DLPACK_CUDA || device.device_type == DLPACK_CUDA_MANAGED;
    return is_cuda && device.device_id >= 0 && device.device_id < 1 << 20 ? DEV_cuda + device.device_id : -1;
}

static Status check(const DLManagedTensorVersioned *m) {
    if (!m) return error_raise(ST_ARGUMENT, "sn_from_dlpack: the tensor is NULL");
    if (m->version.major != DLPACK_MAJOR)
        return error_raise(ST_UNSUPPORTED, "sn_from_dlpack: the tensor is of version %u.%u, not 1.x", m->version.major,
                           m->version.minor);
    const DLTensor *const t = &m->dl_tensor;
    if (dlpack_place(t->device) < 0)
        return error_raise(ST_DEVICE, "sn_from_dlpack: device type %d, number %d is neither the CPU nor a CUDA device",
                           (int)t->device.device_type, (int)t->device.device_id);
    if (!dtype_of(t->dtype))
        return error_raise(ST_DTYPE, "sn_from_dlpack: no dtype has code %d, %d bits and %d lanes", t->dtype.code,
                           t->dtype.bits, t->dtype.lanes);
    return t->ndim >= 0 && t->ndim <= MAX_RANK
               ? ST_OK
               : error_raise(ST_SHAPE, "sn_from_dlpack: a rank of %d is not possible", (int)t->ndim);
}

/* Bytes from the first to past the last element; the giver does not say. */
static size_t dlpack_bytes(const DLTensor *t, DType dtype) {
    int64_t span = 1;
    for (int d = 0; d < t->ndim; d++) {
        if (!t->shape[d]) return 0;
        if (t->strides)
            span += (t->shape[d] - 1) * t->strides[d];
        else
            span *= t->shape[d];
    }
    return (size_t)span * (size_t)dtype_bytes(dtype);
}

static sn_tensor *take(DLManagedTensorVersioned *m) {
    const DLTensor *const t = &m->dl_tensor;
    const DType dtype = dtype_of(t->dtype);
    return sn_wrap(SN_BLOB(.data = t->data ? (char *)t->data + t->byte_offset : NULL, .bytes = dlpack_bytes(t, dtype),
                           .sizes = {t->shape, t->ndim}, .strides = {t->strides, t->strides ? t->ndim : 0},
                           .dtype = (sn_dtype)dtype, .device = dlpack_place(t->device),
                           .read_only = (m->flags & DLPACK_READ_ONLY) != 0, .free = release_managed, .context = m));
}

sn_tensor *sn_from_dlpack(struct DLManagedTensorVersioned *m) {
    API_ENTER(sn_from_dlpack);
    return error_pending() != ST_OK || check(m) != ST_OK ? NULL : take(m);
}

/* The thread's stream of the device; *mine NULL: what is begun there is done. */
static Status find_stream(Device device, sn_stream **mine) {
    const DeviceRow *const row = device_row(device);
    *mine = row && row->streams ? stream_current(row) : NULL;
    return error_pending();
}

static Status borrow(Device device, void *stream) {
    sn_stream *mine;
    TRY(find_stream(device, &mine));
    return mine ? mine->row->streams->borrow(mine, stream) : ST_OK;
}

sn_tensor *sn_from_dlpack_on(struct DLManagedTensorVersioned *m, void *stream) {
    API_ENTER(sn_from_dlpack_on);
    if (error_pending() != ST_OK || check(m) != ST_OK) return NULL;
    return borrow(dlpack_place(m->dl_tensor.device), stream) == ST_OK ? take(m) : NULL;
}

static void release_export(DLManagedTensorVersioned *self) {
    tensor_release(self->manager_ctx);
    mem_free(self);
}

static DLDevice dlpack_device(Device device) {
    return device_is_host(device) ? (DLDevice){DLPACK_CPU, 0} : (DLDevice){DLPACK_CUDA, device - DEV_cuda};
}

static DLManagedTensorVersioned *lend(sn_tensor *t) {
    DLManagedTensorVersioned *const m = mem_zero(sizeof *m);
    if (!m) return NULL;
    const Meta *const meta = t->base.meta; /* lives as long as the process, so its lists can be lent */
    const DlpackType type = types[meta->dtype];
    tensor_retain(t);
    t->storage->pointer_given = true;
    m->version.major = DLPACK_MAJOR, m->version.minor = DLPACK_MINOR;
    m->manager_ctx = t;
    m->deleter = release_export;
    m->flags = t->storage->read_only ? DLPACK_READ_ONLY : 0;
    m->dl_tensor = (DLTensor){.data = tensor_data(t),
                              .device = dlpack_device(meta->device),
                              .ndim = meta->rank,
                              .dtype = {type.code, type.bits, 1},
                              .shape = (int64_t *)(uintptr_t)meta->sizes,
                              .strides = (int64_t *)(uintptr_t)meta->strides};
    return m;
}

static Status ready(sn_tensor *t, sn_stream **mine) {
    TRY(tensor_ready(t, "sn_to_dlpack"));
    const Device device = t->base.meta->device;
    if (device_is_host(device) || device >= DEV_cuda) return find_stream(device, mine);
    return error_raise(ST_DEVICE, "sn_to_dlpack: the tensor is on %s; take sn_to_device", DEVICE_TEXT(device));
}

struct DLManagedTensorVersioned *sn_to_dlpack(sn_tensor *t) {
    API_ENTER(sn_to_dlpack);
    sn_stream *mine;
    if (ready(t, &mine) != ST_OK || (mine && mine->row->streams->synchronize(mine) != ST_OK)) return NULL;
    return lend(t);
}

struct DLManagedTensorVersioned *sn_to_dlpack_on(sn_tensor *t, void *stream) {
    API_ENTER(sn_to_dlpack_on);
    sn_stream *mine;
    if (ready(t, &mine) != ST_OK || (mine && mine->row->streams->lend(mine, stream) != ST_OK)) return NULL;
    return lend(t);
}
