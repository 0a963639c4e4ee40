/* watch.h: steps that somebody watches: which ran, in what order, and how long each took on its device.
 *
 *   static void seen(void *context, const StepSeen *step);
 *   TRY(watch_begin(seen, context));   one watcher at a time; without one a step pays a branch
 *   ...
 *   device_synchronize(device);        tells what has passed; watch_report waits for the rest
 *   watch_end();                       and tells it
 *
 * A step is one of a plan's (compiled, or eager's of one op), a graph of launches that runs as one, an eager op's
 * native kernel, or a launch of a kernel of the program's. An event of its device is recorded before and behind it
 * on the thread's stream; on the CPU that is the host's clock. Steps inside of a step (of an op of the program) are
 * told as well, one deeper, in the order in which they began. `seen` is called under a lock by whatever thread
 * waits: it must not call Sinter.
 *
 * A profile (core/profile.h) is such a watcher, of devices with streams alone (watch_profile): steps of compiled
 * functions, and all that are launched there, are spans of its own on the host; what a device does is told with the
 * span that launched it. Eager ops of the host are spans of the dispatcher already. */
#ifndef SINTER_RUNTIME_WATCH_H
#define SINTER_RUNTIME_WATCH_H
#include <stdatomic.h>

#include "runtime/core/profile.h"
#include "runtime/device/device.h"
#include "runtime/device/stream.h"

typedef struct StepSeen {
    const char *function; /* the compiled function's name; "": an eager op */
    const char *name;     /* of the kernel, the op, "copy", or "graph of 3 steps"; valid during the call */
    Device device;
    const sn_stream *stream; /* the current one when it began; NULL: the device has none any more */
    int depth;               /* 0: in no other step of its thread */
    int64_t ns;              /* on the device; -1: not measured, as the device is lost or out of memory */
    ProfileOrigin place;     /* of a profile; else of none */
    int64_t from;            /* when the device began, by clock_ns(); where ns is known */
} StepSeen;
typedef void StepWatcher(void *context, const StepSeen *step);

Status watch_begin(StepWatcher *watcher, void *context); /* ST_STATE: somebody watches */
Status watch_profile(void);                              /* the steps go to the profile that is on */
void watch_report(void); /* waits for all steps that are over for the host, and tells them */
void watch_passed(void); /* the same, without waiting: up to the first that its device still has */
void watch_end(void);    /* tells; a step that another thread is in goes untold */

extern _Atomic bool watch_on;
static inline bool watch_is_on(void) { return UNLIKELY(atomic_load_explicit(&watch_on, memory_order_relaxed)); }

/* What runs a step:
 *
 *   __attribute__((cleanup(watch_step_end))) StepWatch watched =
 *       watch_is_on() ? watch_step_begin(function, name, row) : (StepWatch){0};
 *
 * function NULL: eager's. Neither raises anything. */
typedef struct Watched Watched;
typedef struct StepWatch {
    Watched *watched; /* NULL: nobody is told of it */
    ProfileSpan span;
} StepWatch;
StepWatch watch_step_begin(const char *function, const char *name, const DeviceRow *row);
void watch_step_end(StepWatch *step);

#endif
