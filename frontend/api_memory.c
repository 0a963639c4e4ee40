/* api_memory.c: what is known of devices' memory (sinter/memory.h): the CPU's allocator, and those of rows that have a
 * caching one. */
#include <sinter/memory.h>

#include "runtime/core/state.h"
#include "runtime/device/alloc_cpu.h"
#include "runtime/device/device.h"

/* The device's, or NULL and an error. */
static Caching *caching_of(sn_device device, const char *what) {
    const DeviceRow *const row = device_has_memory(device) ? device_row(device) : NULL;
    if (row && row->caching) return row->caching(row);
    error_raise(ST_DEVICE, "%s: nothing is known of %s", what, DEVICE_TEXT(device));
    return NULL;
}

static void memory_of(Caching *caching, sn_memory *out) {
    CachingStats stats;
    caching_stats(caching, &stats);
    const CachingStat *const bytes = stats.bytes[CACHING_all];
    out->current = bytes[MEASURE_allocated].current;
    out->peak = bytes[MEASURE_allocated].peak;
    out->reserved = bytes[MEASURE_reserved].current;
}

sn_status sn_memory_get(sn_device device, sn_memory *out) {
    if (!out || out->size < sizeof *out)
        return (sn_status)error_raise(ST_ARGUMENT, "sn_memory_get: out is NULL or has no size");
    *out = (sn_memory){.size = sizeof *out};
    if (device == SN_CPU) {
        cpu_alloc_stats(&out->current, &out->peak, &out->reserved);
        return sn_check();
    }
    Caching *const caching = caching_of(device, "sn_memory_get");
    if (caching) memory_of(caching, out);
    return sn_check();
}

sn_status sn_memory_reset_peak(sn_device device) {
    Caching *const caching = device == SN_CPU ? NULL : caching_of(device, "sn_memory_reset_peak");
    if (device == SN_CPU) cpu_alloc_peak_begin();
    if (caching) caching_peak_begin(caching);
    return sn_check();
}

sn_status sn_memory_trim(sn_device device) {
    Caching *const caching = device == SN_CPU ? NULL : caching_of(device, "sn_memory_trim");
    if (device == SN_CPU) cpu_alloc_trim();
    if (caching) caching_trim(caching);
    return sn_check();
}
