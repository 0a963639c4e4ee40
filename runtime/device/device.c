/* device.c: the table of devices, by the key of their backend. Rows are added at start and by the program and never
 * taken away, but for those of a plug-in whose start fails, so that reading takes no lock. */
#include "runtime/device/device.h"
#include "runtime/device/stream.h"
#include "runtime/device/watch.h"

#include "runtime/base/alloc.h"

static _Atomic(const DeviceRow *) rows[KEY_COUNT];

_Atomic uint64_t device_plan_keys;

void device_register(const DeviceRow *row) {
    atomic_store_explicit(&rows[row->key], row, memory_order_release);
    if (!row->launch || !row->native) return;
    device_executor_set(row->device);
    atomic_fetch_or(&device_plan_keys, UINT64_C(1) << row->key);
}

void device_unregister(const DeviceRow *row) { atomic_store_explicit(&rows[row->key], NULL, memory_order_release); }

const DeviceRow *device_of_key(Key backend) { return atomic_load_explicit(&rows[backend], memory_order_acquire); }

const DeviceRow *device_row(Device device) {
    const DeviceRow *const row = device_of_key((Key)__builtin_ctzll(key_of_device(device)));
    return LIKELY(!row || row->device == device || !row->other) ? row : row->other(device);
}

int device_count(Key backend) {
    const DeviceRow *const row = device_of_key(backend);
    return row && row->count ? row->count() : row != NULL;
}

static Status absent(Device device) {
    return error_raise(ST_DEVICE, "%s: this device has no memory here", DEVICE_TEXT(device));
}

void *device_allocate(Device device, size_t bytes) {
    const DeviceRow *const row = device_row(device);
    if (LIKELY(row != NULL)) return row->allocate(row, bytes);
    absent(device);
    return NULL;
}

void device_free(Device device, void *block, size_t bytes) {
    const DeviceRow *const row = device_row(device);
    if (block) row->free(row, block, bytes);
}

void device_drain(Device device) {
    const DeviceRow *const row = device_row(device);
    if (row && row->streams) row->streams->drain(row);
}

Status device_fill(Device device, void *block, int byte, size_t bytes) {
    const DeviceRow *const row = device_row(device);
    if (!row) return absent(device);
    return bytes ? row->fill(row, block, byte, bytes) : ST_OK;
}

Status device_open(Device device) {
    const DeviceRow *const row = device_row(device);
    if (!row) return absent(device);
    return row->streams && !row->streams->own(row) ? error_pending() : ST_OK;
}

Status device_body_begin(Device device, bool writes) {
    const DeviceRow *const row = device_row(device);
    return row && row->body_begin ? row->body_begin(row, writes) : ST_OK;
}

void device_body_end(Device device) {
    const DeviceRow *const row = device_row(device);
    if (row && row->body_end) row->body_end(row);
}

Status device_synchronize(Device device) {
    const DeviceRow *const row = device_row(device);
    if (!row) return device_has_memory(device) ? absent(device) : ST_OK;
    const Status status = row->synchronize ? row->synchronize(row) : ST_OK;
    if (watch_is_on()) watch_passed();
    return status;
}

/* Neither is the host's. */
static Status copy_by_host(const DeviceRow *to_row, void *to, const DeviceRow *from_row, const void *from,
                           size_t bytes) {
    void *const between = mem_alloc(bytes);
    if (!between) return error_raise(ST_MEMORY, "out of memory: %zu bytes", bytes);
    Status status = from_row->copy(from_row, between, from, bytes, SN_COPY_TO_HOST);
    if (status == ST_OK) status = to_row->copy(to_row, to, between, bytes, SN_COPY_FROM_HOST);
    mem_free(between);
    return status;
}

Status device_copy(Device to_device, void *to, Device from_device, const void *from, size_t bytes) {
    const DeviceRow *const to_row = device_row(to_device), *const from_row = device_row(from_device);
    if (!to_row || !from_row) return absent(to_row ? from_device : to_device);
    if (!bytes) return ST_OK;
    if (to_device == from_device) return to_row->copy(to_row, to, from, bytes, SN_COPY_WITHIN);
    if (device_is_host(from_device)) return to_row->copy(to_row, to, from, bytes, SN_COPY_FROM_HOST);
    if (device_is_host(to_device)) return from_row->copy(from_row, to, from, bytes, SN_COPY_TO_HOST);
    return copy_by_host(to_row, to, from_row, from, bytes);
}
