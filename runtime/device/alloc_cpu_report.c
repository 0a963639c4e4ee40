/* alloc_cpu_report.c: what is known of the CPU's memory: the large blocks as those of any device, and the small ones,
 * which the policy of devices does not see, by size class. */
#include "runtime/device/alloc_cpu.h"

static void print_class(const CpuClass *class, Text *out) {
    text_printf(out, "| %12lld | %11lld | %11lld | %11lld | %11lld |\n", (long long)class->bytes,
                (long long)class->current, (long long)class->peak, (long long)class->total, (long long)class->cached);
}

void cpu_summary(Text *out) {
    Caching *const large = large_caching();
    int64_t now, most, reserved;
    if (!large) return;
    cpu_alloc_stats(&now, &most, &reserved);
    text_printf(out, "memory of cpu: %lld bytes in use, %lld at most, %lld held from the system\n", (long long)now,
                (long long)most, (long long)reserved);
    text_puts(out, "blocks below 2 MiB, by their bytes:\n");
    text_printf(out, "| %12s | %11s | %11s | %11s | %11s |\n", "", "current", "peak", "total", "kept");
    for (int i = 0; i < cpu_alloc_classes(); i++) {
        const CpuClass class = cpu_alloc_class(i);
        if (class.total) print_class(&class, out);
    }
    text_puts(out, "blocks from there on:\n");
    caching_summary(large, out);
}

static void print_more(CachingSiteName *site_name, Text *out) {
    const char *before = "";
    text_puts(out, ",\n \"classes\": [");
    for (int i = 0; i < cpu_alloc_classes(); i++) {
        const CpuClass class = cpu_alloc_class(i);
        if (!class.total) continue;
        text_printf(out, "%s\n  {\"bytes\": %lld, \"current\": %lld, \"peak\": %lld, \"total\": %lld, \"kept\": %lld}",
                    before, (long long)class.bytes, (long long)class.current, (long long)class.peak,
                    (long long)class.total, (long long)class.cached);
        before = ",";
    }
    text_puts(out, "],\n \"held\": ");
    cpu_held_print(site_name, out);
}

void cpu_snapshot(CachingSiteName *site_name, Text *out) {
    Caching *const large = large_caching();
    if (large) caching_snapshot(large, site_name, print_more, out);
}
