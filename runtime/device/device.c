/* device.c: the table of devices, by the key of their backend. Filled at start, before anything runs, so that reading
 * it takes no lock. */
#include "runtime/device/device.h"

static const DeviceRow *rows[KEY_COUNT];

void device_register(const DeviceRow *row) { rows[row->key] = row; }

const DeviceRow *device_of_key(Key backend) { return rows[backend]; }

const DeviceRow *device_row(Device device) { return rows[__builtin_ctzll(key_of_device(device))]; }

void *device_allocate(Device device, size_t bytes) {
    const DeviceRow *const row = device_row(device);
    if (LIKELY(row != NULL)) return row->allocate(bytes);
    error_raise(ST_DEVICE, "memory of a device that is not there");
    return NULL;
}

void device_free(Device device, void *block, size_t bytes) {
    if (block) device_row(device)->free(block, bytes);
}
