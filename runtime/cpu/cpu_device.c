/* cpu_device.c: the CPU's row in the table of devices, and the kernels of its key: eager's, which knows no device, and
 * native ones of ops that have no plan. */
#include "runtime/cpu/cpu_device.h"

#include <unistd.h>

#include "runtime/cpu/cpu_code.h"
#include "runtime/cpu/cpu_launch.h"
#include "runtime/device/alloc_cpu.h"
#include "runtime/device/device.h"
#include "runtime/eager/eager.h"

static void *cpu_allocate(const Memory *memory, size_t bytes) {
    (void)memory;
    return cpu_alloc(bytes);
}

static void cpu_trim_back(const Memory *memory, void *block, size_t bytes) {
    (void)memory;
    cpu_free(block, bytes);
}

static Status cpu_copy_bytes(const Memory *memory, void *to, const void *from, size_t bytes, sn_copy_way way) {
    (void)memory, (void)way;
    memcpy(to, from, bytes);
    return ST_OK;
}

static Status cpu_fill(const Memory *memory, void *block, int byte, size_t bytes) {
    (void)memory;
    memset(block, byte, bytes);
    return ST_OK;
}

static void cpu_keep_at_most(const Memory *memory, size_t bytes) {
    (void)memory;
    cpu_alloc_bound(bytes);
}

static Caching *cpu_caching(const DeviceRow *row) {
    (void)row;
    return large_caching();
}

static Status cpu_properties(const DeviceRow *row, sn_device_properties *out) {
    (void)row;
    out->memory = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    out->processors = (int32_t)sysconf(_SC_NPROCESSORS_ONLN);
    return ST_OK;
}

static const DeviceRow cpu_row = {.memory = {.device = DEV_cpu,
                                             .allocate = cpu_allocate,
                                             .free = cpu_trim_back,
                                             .copy = cpu_copy_bytes,
                                             .fill = cpu_fill,
                                             .keep_at_most = cpu_keep_at_most},
                                  .name = "cpu",
                                  .key = KEY_cpu,
                                  .properties = cpu_properties,
                                  .caching = cpu_caching,
                                  .launch = cpu_launch,
                                  .repeat = cpu_repeat,
                                  .make_code = cpu_make_code,
                                  .drop_code = cpu_drop_code,
                                  .code_bytes = cpu_code_bytes,
                                  .native = cpu_kernel,
                                  .blocks = kernel_table};

void cpu_start(void) {
    device_register(&cpu_row);
    dispatch_fallback(KEY_cpu, eager_kernel);
    for (int op = 0; op < op_row_count();
         op++) { /* results of unknown sizes or in self's place: no program, the kernel */
        const OpRow *const row = op_row_at(op);
        if (row->flags & OPF_host && row->kind == KIND_kernel && !row->alias_of)
            dispatch_register(row, KEY_cpu, cpu_kernel(row));
    }
}
