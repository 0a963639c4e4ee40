/* device.c: the table of devices: their memories (core/memory.h) are the heads of their rows. */
#include "runtime/device/device.h"
#include "runtime/device/stream.h"
#include "runtime/device/watch.h"

_Atomic uint64_t device_plan_keys;

void device_register(const DeviceRow *row) {
    memory_register(row->key, &row->memory);
    if (!row->launch || !row->native) return;
    device_executor_set(row->memory.device);
    atomic_fetch_or(&device_plan_keys, UINT64_C(1) << row->key);
}

void device_unregister(const DeviceRow *row) { memory_register(row->key, NULL); }

const DeviceRow *device_of_key(Key backend) {
    return device_of_memory(atomic_load_explicit(&memory_by_key[backend], memory_order_acquire));
}

const DeviceRow *device_row(Device device) { return device_of_memory(memory_of_device(device)); }

int device_count(Key backend) {
    const DeviceRow *const row = device_of_key(backend);
    return row && row->count ? row->count() : row != NULL;
}

Status device_open(Device device) {
    const DeviceRow *const row = device_of_memory(memory_needed(device));
    if (!row) return error_pending();
    return row->streams && !row->streams->own(row) ? error_pending() : ST_OK;
}

Status device_synchronize(Device device) {
    if (!device_has_memory(device)) return ST_OK;
    const DeviceRow *const row = device_of_memory(memory_needed(device));
    if (!row) return error_pending();
    const Status status = row->synchronize ? row->synchronize(row) : ST_OK;
    if (watch_is_on()) watch_passed();
    return status;
}
