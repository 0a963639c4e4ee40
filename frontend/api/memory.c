/* memory.c: what is known of devices' memory (sinter/memory.h): the CPU's allocator, and those of rows that have a
 * caching one. */
#include <sinter/memory.h>

#include "frontend/api/enter.h"
#include "frontend/lib/options.h"
#include "runtime/core/site.h"
#include "runtime/core/state.h"
#include "runtime/device/alloc_cpu.h"
#include "runtime/device/device.h"

#define SAME(a, b) _Static_assert((int)(a) == (int)(b), "the public enum mirrors the internal one")
SAME(SN_MEMORY_ALLOCATED, MEASURE_allocated);
SAME(SN_MEMORY_ACTIVE, MEASURE_active);
SAME(SN_MEMORY_REQUESTED, MEASURE_requested);
SAME(SN_MEMORY_RESERVED, MEASURE_reserved);
SAME(SN_MEMORY_NON_RELEASABLE, MEASURE_stuck);
SAME(SN_MEMORY_MEASURES, MEASURE_COUNT);

/* The device's, or NULL and an error. */
static Caching *caching_of(sn_device device, const char *what) {
    if (!device_exists(device)) {
        error_raise(ST_ARGUMENT, "%s: %d is no device", what, (int)device);
        return NULL;
    }
    state_get(); /* devices are registered with a program's first state */
    const DeviceRow *const row = device_has_memory(device) ? device_row(device) : NULL;
    if (row && row->caching) return row->caching(row);
    error_raise(ST_DEVICE, "%s: nothing is known of %s", what, DEVICE_TEXT(device));
    return NULL;
}

static sn_memory_stat public_stat(const CachingStat *stat) {
    return (sn_memory_stat){stat->current, stat->peak, stat->gained, stat->lost};
}

static void memory_of(Caching *caching, sn_memory *out) {
    CachingStats stats;
    size_t left, total;
    caching_stats(caching, &stats);
    caching_left(caching, &left, &total);
    for (int measure = 0; measure < MEASURE_COUNT; measure++) {
        out->bytes[measure] = public_stat(&stats.bytes[CACHING_all][measure]);
        out->blocks[measure] = public_stat(&stats.counts[CACHING_all][measure]);
    }
    out->current = out->bytes[SN_MEMORY_ALLOCATED].current;
    out->peak = out->bytes[SN_MEMORY_ALLOCATED].peak;
    out->reserved = out->bytes[SN_MEMORY_RESERVED].current;
    out->retries = stats.retries, out->failures = stats.failures;
    out->device_free = (int64_t)left, out->device_total = (int64_t)total;
}

sn_status sn_memory_get(sn_device device, sn_memory *out) {
    sn_memory known = {0};
    if (!out) return (sn_status)error_raise(ST_ARGUMENT, "sn_memory_get: NULL argument");
    if (!out->size) return (sn_status)error_raise(ST_ARGUMENT, "sn_memory_get: its size is 0");
    Caching *const caching = caching_of(device, "sn_memory_get");
    if (!caching) return sn_check();
    memory_of(caching, &known);
    if (device == SN_CPU) cpu_alloc_stats(&known.current, &known.peak, &known.reserved); /* small blocks as well */
    options_copy_out(&known, sizeof known, out);
    return sn_check();
}

const char *sn_memory_summary(sn_device device) {
    API_ENTER(sn_memory_summary);
    Caching *const caching = caching_of(device, "sn_memory_summary");
    Text text = {0};
    if (caching && device == SN_CPU)
        cpu_summary(&text);
    else if (caching)
        caching_summary(caching, &text);
    return state_text(state_get(), text.at);
}

const char *sn_memory_snapshot(sn_device device) {
    API_ENTER(sn_memory_snapshot);
    Caching *const caching = caching_of(device, "sn_memory_snapshot");
    Text text = {0};
    if (caching && device == SN_CPU)
        cpu_snapshot(site_name, &text);
    else if (caching)
        caching_snapshot(caching, site_name, NULL, &text);
    return state_text(state_get(), text.at);
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
    if (caching) caching_trim(caching, 0);
    return sn_check();
}
