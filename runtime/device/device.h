/* device.h: the table of devices. A device is a row of functions under a backend's key: what is above (eager, the
 * executor) asks the row and knows no device by name. runtime/cpu/cpu_device.c has the first one; a program adds its
 * own (device_user.c).
 *
 *   plan -> execute (neutral) -> device_row(plan's device)->launch(kernel)
 *   eager op -> eager_kernel under the device's key -> a plan, or the row's native kernel
 *   a tensor's memory -> device_allocate, device_copy, device_fill -> the row of its storage's device */
#ifndef SINTER_RUNTIME_DEVICE_H
#define SINTER_RUNTIME_DEVICE_H
#include <sinter/device.h>
#include <stdatomic.h>

#include "kernels/kernels.h"
#include "runtime/core/dispatch.h"
#include "runtime/device/caching.h"
#include "runtime/device/execute.h"

struct Launch; /* runtime/device/launch.h */
struct Repeat; /* runtime/device/repeat.h */

typedef struct DeviceRow DeviceRow;
struct DeviceRow {
    const char *name;
    Device device; /* the first of those that the row serves */
    Key key;       /* the backend's */
    /* Of a key with several devices, which is registered by the first: their rows (NULL: no device can have this
     * number), and how many devices there are now. NULL: there is one. */
    const DeviceRow *(*other)(Device device);
    int (*count)(void);
    Status (*properties)(const DeviceRow *row, sn_device_properties *out); /* NULL: its name is all */
    /* Memory: addresses of the device, to which offsets in bytes are added; the host dereferences only its own. bytes
     * is never 0 in copy and fill. */
    void *(*allocate)(const DeviceRow *row, size_t bytes); /* 64-byte aligned, uninitialised; NULL raises */
    void (*free)(const DeviceRow *row, void *block, size_t bytes);
    Status (*copy)(const DeviceRow *row, void *to, const void *from, size_t bytes, sn_copy_way way);
    Status (*fill)(const DeviceRow *row, void *block, int byte, size_t bytes);
    /* What allocates it, and opens the device; NULL raises. NULL: it keeps nothing that could be asked for. */
    Caching *(*caching)(const DeviceRow *row);
    Status (*synchronize)(const DeviceRow *row); /* NULL: what a function was asked is done when it returns */
    const struct StreamRow *streams;             /* stream.h; NULL: the same */
    /* Around a kernel that the program has written for an op here, on its thread. writes: memory that others see. NULL:
     * nothing is to be done. */
    Status (*body_begin)(const DeviceRow *row, bool writes);
    void (*body_end)(const DeviceRow *row);
    const char *uncompiled; /* why a compiled function runs its ops eagerly; NULL: it has compiled code */
    /* Code. NULL: the device has no generated code, no native kernels; its ops are what is registered at its key. */
    Status (*launch)(struct Launch *launch, int step); /* a step that is a kernel */
    /* Fills e->codes of all steps that are kernels of the row's. native, context: as executable_new's. What is filled
     * is dropped with e, also where another step fails. */
    Status (*make_code)(const DeviceRow *row, Executable *e, const NativeCode *native, void *context);
    void (*drop_code)(void *code);
    /* Runs the row's steps of a call, those of the host are done: step by step, while it records them, or as one launch
     * of what it has recorded (repeat.h). NULL: it launches nothing as one. */
    Status (*repeat)(struct Launch *launch, struct Repeat *repeat);
    /* What explain adds to a step that is a kernel: how it runs here, and why not better. False: nothing. NULL: never
     * anything. */
    bool (*remark)(const Kernel *kernel, Text *text);
    size_t (*code_bytes)(const void *code); /* for the bounds of caches: what is not shared */
    OpKernel *(*native)(const OpRow *row);  /* of a KIND_kernel row; NULL: none */
    /* Functions that compute a block of elements in this device's memory when the host calls them: short eager ops are
     * such a call and no plan. NULL: there are none. */
    const KernelTable *(*blocks)(void);
};

void device_register(const DeviceRow *row);   /* once; it stays */
void device_unregister(const DeviceRow *row); /* of a plug-in whose start has failed */
const DeviceRow *device_of_key(Key backend);  /* of its first device; NULL: nobody registered it */
const DeviceRow *device_row(Device device);   /* NULL: the same */
extern _Atomic uint64_t device_plan_keys;
/* Keys whose rows run plans. */
static inline uint64_t device_compiled(void) { return atomic_load_explicit(&device_plan_keys, memory_order_relaxed); }

int device_count(Key backend); /* asks the machine; 0 where nobody registered it */

/* For core's storages, through the table of hooks. */
void *device_allocate(Device device, size_t bytes);
void device_free(Device device, void *block, size_t bytes);
/* Waits for what may still use memory that somebody else gives back; raises nothing. */
void device_drain(Device device);
/* Between any two; by way of the host where neither is the host's and they are not one. */
Status device_copy(Device to_device, void *to, Device from_device, const void *from, size_t bytes);
Status device_fill(Device device, void *block, int byte, size_t bytes);
Status device_body_begin(Device device, bool writes);
void device_body_end(Device device);      /* where that was ST_OK */
Status device_open(Device device);        /* it has memory, and can be used */
Status device_synchronize(Device device); /* meta has nothing to wait for */

/* A device of the program's (device_user.c). Its number, or -1 and an error. */
Device device_register_user(const sn_device_desc *desc);

#endif
