/* watched.h: what a watcher of steps was told (runtime/device/watch.h). */
#ifndef SINTER_TESTS_UNIT_WATCHED_H
#define SINTER_TESTS_UNIT_WATCHED_H
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "runtime/device/watch.h"

enum { WATCHED_MOST = 4096 };

typedef struct WatchedStep {
    char function[64], name[64];
    Device device;
    const sn_stream *stream;
    int depth;
    int64_t ns;
} WatchedStep;

static WatchedStep watched[WATCHED_MOST];
static int n_watched;

static inline void watched_seen(void *context, const StepSeen *step) {
    ck_assert_ptr_eq(context, watched);
    ck_assert_int_lt(n_watched, WATCHED_MOST);
    WatchedStep *const to = &watched[n_watched++];
    *to = (WatchedStep){.device = step->device, .stream = step->stream, .depth = step->depth, .ns = step->ns};
    snprintf(to->function, sizeof to->function, "%s", step->function);
    snprintf(to->name, sizeof to->name, "%s", step->name);
}

static inline void watched_begin(void) {
    n_watched = 0;
    ck_assert_int_eq(watch_begin(watched_seen, watched), ST_OK);
}

/* That step i was this one, and how long it took is known. */
static inline void watched_is(int i, const char *function, const char *name, int depth) {
    ck_assert_int_lt(i, n_watched);
    ck_assert_str_eq(watched[i].function, function);
    ck_assert_str_eq(watched[i].name, name);
    ck_assert_int_eq(watched[i].depth, depth);
    ck_assert_int_ge(watched[i].ns, 0);
}

static inline void watched_print(void) {
    for (int i = 0; i < n_watched; i++)
        printf("%*s%s: %s on %s, %lld ns\n", 2 * watched[i].depth, "", watched[i].function, watched[i].name,
               DEVICE_TEXT(watched[i].device), (long long)watched[i].ns);
}

#endif
