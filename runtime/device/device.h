/* device.h: the table of devices. A device is a row of functions under a backend's key: what is above (eager, the
 * executor) asks the row and knows no device by name. runtime/cpu/cpu_device.c has the first one.
 *
 *   plan -> execute (neutral) -> device_row(plan's device)->launch(kernel)
 *   eager op -> eager_kernel under the device's key -> a plan, or the row's native kernel */
#ifndef SINTER_RUNTIME_DEVICE_H
#define SINTER_RUNTIME_DEVICE_H
#include "kernels/kernels.h"
#include "runtime/core/dispatch.h"

struct Launch; /* runtime/device/launch.h */

typedef struct DeviceRow {
    const char *name;
    Key key;                         /* the backend's */
    void *(*allocate)(size_t bytes); /* 64-byte aligned, uninitialised; NULL raises */
    void (*free)(void *block, size_t bytes);
    Status (*launch)(struct Launch *launch, int step); /* a step that is a kernel */
    OpKernel *(*native)(const OpRow *row);             /* of a KIND_kernel row; NULL: none */
    /* Functions that compute a block of elements in this device's memory when the host calls them: short eager ops are
     * such a call and no plan. NULL: there are none. */
    const KernelTable *(*blocks)(void);
} DeviceRow;

void device_register(const DeviceRow *row);  /* once, at start; it stays */
const DeviceRow *device_of_key(Key backend); /* NULL: nobody registered it */
const DeviceRow *device_row(Device device);  /* the same */

/* For core's storages, through the table of hooks. */
void *device_allocate(Device device, size_t bytes);
void device_free(Device device, void *block, size_t bytes);

#endif
