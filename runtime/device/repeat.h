/* repeat.h: calls that a device repeats: what a plan's steps launch is recorded once and is one launch from then on (a
 * CUDA graph), for functions with the preset SN_PRESET_REDUCE_OVERHEAD.
 *
 *   executable_repeat(e)        asks for it; a plan that cannot be one launch runs step by step, and `why` says so
 *   a call: the host's steps, then row->repeat, which records the other steps or launches what is recorded
 *
 * What is recorded has addresses in it. Those of inputs and results are the call's own and are given to it anew, so a
 * result is never written twice; the arenas are kept, so one call runs at a time. On the CPU the arenas are all that is
 * kept, and a call that another one keeps from them runs step by step. */
#ifndef SINTER_RUNTIME_REPEAT_H
#define SINTER_RUNTIME_REPEAT_H
#include <pthread.h>

#include "runtime/device/device.h"
#include "runtime/device/launch.h"

struct Repeat {
    pthread_mutex_t lock; /* over a call */
    const DeviceRow *row; /* whose steps are one launch; NULL: none, because of: */
    bool of_host;         /* all steps are the host's */
    char why[200];
    Storage *arenas[PLAN_DEVICES]; /* as the plan's; NULL: none yet */
    void *recorded;                /* the row's; NULL: nothing yet */
    void (*drop)(void *recorded);
    _Atomic int64_t launches; /* calls that were one launch */
};

void repeat_free(Repeat *repeat); /* NULL: nothing */
/* From now on calls run step by step. */
PRINTF_LIKE(2, 3) void repeat_never(Repeat *repeat, const char *format, ...);
/* The arenas of a call: those that are kept, larger ones where they are too small. */
Status repeat_arenas(Repeat *repeat, Launch *launch);

/* What explain says: "one launch a call" and how many, or why not. NULL: not asked for. */
typedef struct RepeatReport {
    const char *why; /* "": calls are one launch */
    int64_t launches;
    bool of_host; /* nothing is recorded */
} RepeatReport;
bool executable_repeats(const Executable *executable, RepeatReport *out);

#endif
