/* clock.h: the time that passes, for what is measured. */
#ifndef SINTER_RUNTIME_BASE_CLOCK_H
#define SINTER_RUNTIME_BASE_CLOCK_H
#include <stdint.h>
#include <time.h>

/* Nanoseconds of a clock that only goes forward. */
static inline int64_t clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

#endif
