/* device_user.c: devices that a program registers. A row's functions call the program's, check what it answers and say
 * the device's name in errors. A device has a key of its own, so that tensors on two of them are told apart where those
 * of the CPU and of another backend are. */
#include <stdio.h>
#include <string.h>

#include "runtime/core/custom_op.h"
#include "runtime/device/device.h"

typedef struct UserDevice {
    DeviceRow row; /* first: a row is its device */
    sn_device_desc desc;
    char uncompiled[DEVICE_NAME_MAX + 64];
    int batch; /* of a plug-in; 0: of none */
} UserDevice;

static UserDevice devices[SPARE_DEVICES];

static const sn_device_desc *desc_of(const DeviceRow *row) { return &((const UserDevice *)row)->desc; }

static Status answer(const DeviceRow *row, const char *what, sn_status status) {
    if (LIKELY(status == SN_OK)) return ST_OK;
    return error_raise(ST_DEVICE, "%s: its %s failed with status %d", row->name, what, (int)status);
}

static void *user_allocate(const DeviceRow *row, size_t bytes) {
    const sn_device_desc *const desc = desc_of(row);
    void *const memory = desc->allocate(desc->context, bytes ? bytes : 1);
    if (!memory) error_raise(ST_MEMORY, "%s is out of memory: %zu bytes", row->name, bytes);
    return memory;
}

static void user_give_back(const DeviceRow *row, void *block, size_t bytes) {
    const sn_device_desc *const desc = desc_of(row);
    desc->free(desc->context, block, bytes ? bytes : 1);
}

static Status user_copy(const DeviceRow *row, void *to, const void *from, size_t bytes, sn_copy_way way) {
    const sn_device_desc *const desc = desc_of(row);
    return answer(row, "copy", desc->copy(desc->context, to, from, bytes, way));
}

/* Without a function of the device's: pieces of the host's. */
static Status fill_by_copies(const DeviceRow *row, char *block, int byte, size_t bytes) {
    char piece[4096];
    memset(piece, byte, sizeof piece);
    for (size_t at = 0; at < bytes; at += sizeof piece) {
        const size_t n = bytes - at < sizeof piece ? bytes - at : sizeof piece;
        TRY(user_copy(row, block + at, piece, n, SN_COPY_FROM_HOST));
    }
    return ST_OK;
}

static Status user_fill(const DeviceRow *row, void *block, int byte, size_t bytes) {
    const sn_device_desc *const desc = desc_of(row);
    if (!desc->fill) return fill_by_copies(row, block, byte, bytes);
    return answer(row, "fill", desc->fill(desc->context, block, byte, bytes));
}

static Status synchronize(const DeviceRow *row) {
    const sn_device_desc *const desc = desc_of(row);
    return desc->synchronize ? answer(row, "synchronize", desc->synchronize(desc->context)) : ST_OK;
}

static void withdraw_devices(int batch) {
    for (int i = SPARE_DEVICES - 1; i >= 0; i--) {
        if (devices[i].batch != batch) continue;
        devices[i].batch = 0;
        device_unregister(&devices[i].row);
        device_name_withdraw(devices[i].row.device);
    }
}

Device device_register_user(const sn_device_desc *desc) {
    if (!desc->name || !desc->allocate || !desc->free || !desc->copy) {
        error_raise(ST_ARGUMENT, "a device needs a name, allocate, free and copy");
        return -1;
    }
    const Device device = device_name_add(desc->name);
    if (device < 0) return -1;
    UserDevice *const user = &devices[device - DEV_spare];
    *user = (UserDevice){.desc = *desc,
                         .row = {.device = device,
                                 .key = KEY_spare + (Key)(device - DEV_spare),
                                 .allocate = user_allocate,
                                 .free = user_give_back,
                                 .copy = user_copy,
                                 .fill = user_fill,
                                 .synchronize = synchronize}};
    user->row.name = device_text(device, &(DeviceText){{0}}); /* a registered one's lives on */
    snprintf(user->uncompiled, sizeof user->uncompiled, "a tensor on %s, for which there is no code generator",
             user->row.name);
    user->row.uncompiled = user->uncompiled;
    user->batch = custom_op_batch(withdraw_devices);
    device_register(&user->row);
    return device;
}
