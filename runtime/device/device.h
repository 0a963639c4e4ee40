/* device.h: the table of devices. A device is a row of functions under a backend's key: what is above (eager, the
 * executor) asks the row and knows no device by name. runtime/cpu/cpu_device.c has the first one; a program adds its
 * own (device_user.c).
 *
 *   plan -> execute (neutral) -> device_row(plan's device)->launch(kernel)
 *   eager op -> eager_kernel under the device's key -> a plan, or the row's native kernel
 *   a storage -> its memory, which is the head of its device's row */
#ifndef SINTER_RUNTIME_DEVICE_H
#define SINTER_RUNTIME_DEVICE_H
#include <sinter/device.h>
#include <stdatomic.h>

#include "kernels/kernels.h"
#include "runtime/core/memory.h"
#include "runtime/device/caching.h"
#include "runtime/device/execute.h"

struct Launch; /* runtime/device/launch.h */
struct Repeat; /* runtime/device/repeat.h */

typedef struct DeviceRow DeviceRow;
struct DeviceRow {
    Memory memory; /* first: a memory is its device's row */
    const char *name;
    Key key;                                                               /* the backend's */
    int (*count)(void);                                                    /* its devices now; NULL: one */
    Status (*properties)(const DeviceRow *row, sn_device_properties *out); /* NULL: its name is all */
    /* What allocates it, and opens the device; NULL raises. NULL: it keeps nothing that could be asked for. */
    Caching *(*caching)(const DeviceRow *row);
    Status (*synchronize)(const DeviceRow *row); /* NULL: what a function was asked is done when it returns */
    const struct StreamRow *streams;             /* stream.h; NULL: the same */
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

static inline const DeviceRow *device_of_memory(const Memory *memory) { return (const DeviceRow *)memory; }

void device_register(const DeviceRow *row);   /* once; it stays */
void device_unregister(const DeviceRow *row); /* of a plug-in whose start has failed */
const DeviceRow *device_of_key(Key backend);  /* of its first device; NULL: nobody registered it */
const DeviceRow *device_row(Device device);   /* NULL: the same */
extern _Atomic uint64_t device_plan_keys;
/* Keys whose rows run plans. */
static inline uint64_t device_compiled(void) { return atomic_load_explicit(&device_plan_keys, memory_order_relaxed); }

int device_count(Key backend); /* asks the machine; 0 where nobody registered it */

Status device_open(Device device);        /* it has memory, and can be used */
Status device_synchronize(Device device); /* meta has nothing to wait for */

/* A device of the program's (device_user.c). Its number, or -1 and an error. */
Device device_register_user(const sn_device_desc *desc);

#endif
