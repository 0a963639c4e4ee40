/* device_user.c: devices that a program registers. A row's functions call the program's, check what it answers and say
 * the device's name in errors. A device has a key of its own, so that tensors on two of them are told apart where those
 * of the CPU and of another backend are. */
#include <stdio.h>
#include <string.h>

#include "runtime/core/breaks.h"
#include "runtime/core/custom_op.h"
#include "runtime/device/device.h"

typedef struct UserDevice {
    DeviceRow row; /* first: a row is its device */
    sn_device_desc desc;
    char uncompiled[DEVICE_NAME_MAX + 64];
    int batch; /* of a plug-in; 0: of none */
} UserDevice;

static UserDevice devices[SPARE_DEVICES];

static const sn_device_desc *desc_of(const Memory *memory) { return &((const UserDevice *)memory)->desc; }

static Status answer(const Memory *memory, const char *what, sn_status status) {
    if (LIKELY(status == SN_OK)) return ST_OK;
    return error_raise(ST_DEVICE, "%s: its %s failed with status %d", device_of_memory(memory)->name, what,
                       (int)status);
}

static void *user_allocate(const Memory *memory, size_t bytes) {
    const sn_device_desc *const desc = desc_of(memory);
    void *const block = desc->allocate(desc->context, bytes ? bytes : 1);
    if (!block) error_raise(ST_MEMORY, "%s is out of memory: %zu bytes", device_of_memory(memory)->name, bytes);
    return block;
}

static void user_release(const Memory *memory, void *block, size_t bytes) {
    const sn_device_desc *const desc = desc_of(memory);
    desc->free(desc->context, block, bytes ? bytes : 1);
}

static Status user_copy(const Memory *memory, void *to, const void *from, size_t bytes, sn_copy_way way) {
    const sn_device_desc *const desc = desc_of(memory);
    return answer(memory, "copy", desc->copy(desc->context, to, from, bytes, way));
}

/* Without a function of the device's: pieces of the host's. */
static Status fill_by_copies(const Memory *memory, char *block, int byte, size_t bytes) {
    char piece[4096];
    memset(piece, byte, sizeof piece);
    for (size_t at = 0; at < bytes; at += sizeof piece) {
        const size_t n = bytes - at < sizeof piece ? bytes - at : sizeof piece;
        TRY(user_copy(memory, block + at, piece, n, SN_COPY_FROM_HOST));
    }
    return ST_OK;
}

static Status user_fill(const Memory *memory, void *block, int byte, size_t bytes) {
    const sn_device_desc *const desc = desc_of(memory);
    if (!desc->fill) return fill_by_copies(memory, block, byte, bytes);
    return answer(memory, "fill", desc->fill(desc->context, block, byte, bytes));
}

static Status synchronize(const DeviceRow *row) {
    const sn_device_desc *const desc = desc_of(&row->memory);
    return desc->synchronize ? answer(&row->memory, "synchronize", desc->synchronize(desc->context)) : ST_OK;
}

static void withdraw_devices(int batch) {
    for (int i = SPARE_DEVICES - 1; i >= 0; i--) {
        if (devices[i].batch != batch) continue;
        devices[i].batch = 0;
        device_unregister(&devices[i].row);
        device_name_withdraw(devices[i].row.memory.device);
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
                         .row = {.memory = {.device = device,
                                            .allocate = user_allocate,
                                            .free = user_release,
                                            .copy = user_copy,
                                            .fill = user_fill},
                                 .key = KEY_spare + (Key)(device - DEV_spare),
                                 .synchronize = synchronize}};
    user->row.name = device_text(device, &(DeviceText){{0}}); /* a registered one's lives on */
    snprintf(user->uncompiled, sizeof user->uncompiled, BREAK_TEXT(device_of_user), user->row.name);
    user->row.uncompiled = user->uncompiled;
    user->batch = custom_op_batch(withdraw_devices);
    device_register(&user->row);
    return device;
}
