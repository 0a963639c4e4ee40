/* cpu_device.c: the CPU's row in the table of devices, and the kernels of its key: eager's, which knows no device, and
 * native ones of ops that have no plan. */
#include "runtime/cpu/cpu_device.h"

#include "runtime/cpu/cpu_launch.h"
#include "runtime/device/alloc_cpu.h"
#include "runtime/device/device.h"
#include "runtime/eager/eager.h"

static const DeviceRow cpu_row = {.name = "cpu",
                                  .key = KEY_cpu,
                                  .allocate = cpu_alloc,
                                  .free = cpu_free,
                                  .launch = cpu_launch,
                                  .native = cpu_kernel,
                                  .blocks = kernel_table};

void cpu_start(void) {
    device_register(&cpu_row);
    dispatch_fallback(KEY_cpu, eager_kernel);
    for (int op = 0; op < OP_COUNT; op++) { /* results of unknown sizes: no program, the kernel */
        const OpRow *const row = op_row((OpId)op);
        if (row->flags & OPF_host && !row->alias_of) dispatch_register(row, KEY_cpu, cpu_kernel(row));
    }
}
