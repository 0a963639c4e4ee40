/* bench_warm.c: rows warm/...: what a process pays for code and plan where another one has compiled the same before: a
 * fresh process fills an empty folder of the code cache, others, each fresh again, find it. Each prints its own
 * milliseconds: passes, lowering, code, loading; and how many loop nests it compiled itself, which must be none. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "frontend/tool/bench.h"
#include "runtime/base/error.h"
#include "runtime/core/disk_folder.h"

enum { PROCESSES = 9 };

typedef struct Spent { /* by one process */
    double ms;
    int compiled;
} Spent;

static bool spend(const char *row, const char *device, const char *cache, Spent *out) {
    char *argv[] = {"sinter", "bench", "--cold", (char *)cache, (char *)row, (char *)device, NULL};
    Text text = {0};
    const bool fine =
        bench_spawn("/proc/self/exe", argv, &text) && sscanf(text_str(&text), "%lf %d", &out->ms, &out->compiled) == 2;
    text_free(&text);
    return fine;
}

static bool spend_all(const char *row, const char *device, const char *cache, BenchWarm *out) {
    double ms[PROCESSES];
    Spent spent;
    if (!spend(row, device, cache, &spent)) return false;
    out->cold_ms = spent.ms;
    for (int i = 0; i < PROCESSES; i++) {
        if (!spend(row, device, cache, &spent) || spent.compiled) return false;
        ms[i] = spent.ms;
    }
    qsort(ms, PROCESSES, sizeof *ms, bench_by_value);
    out->ms = ms[PROCESSES / 2], out->min_ms = ms[0];
    return true;
}

static void remove_folder(const char *path) {
    DiskFolder folder;
    if (sn_setting_set("cache_dir", path) == SN_OK && disk_folder_open(false, &folder)) {
        disk_folder_shrink(&folder, -1, -1);
        disk_folder_close(&folder);
    }
    rmdir(path);
    sn_setting_set("cache_dir", "off");
}

BenchWarm bench_warm(const char *row, const char *device) {
    BenchWarm warm = {0};
    char path[] = "/tmp/sinter-bench-XXXXXX", option[64], place[64];
    if (!mkdtemp(path)) return warm;
    snprintf(option, sizeof option, "--cache=%s", path);
    if (device) snprintf(place, sizeof place, "--device=%s", device);
    if (!spend_all(row, device ? place : NULL, option, &warm))
        error_raise(ST_INTERNAL, "%s: a process failed, or compiled what another one had", row);
    remove_folder(path);
    return warm;
}
