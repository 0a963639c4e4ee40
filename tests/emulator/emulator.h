/* emulator.h: what a test can ask of the emulated CUDA driver (tests/emulator/driver.c) beside what a driver does. The
 * library under test knows nothing of it: it opens the emulator where SINTER_CUDA_DRIVER names it. A test finds these
 * functions by dlsym in the same file. */
#ifndef SINTER_TESTS_EMULATOR_H
#define SINTER_TESTS_EMULATOR_H
#include <stdint.h>

/* The call after `after` further ones of cu<name> gives `result` and does nothing. A result that loses the context
 * (CUDA_ERROR_ILLEGAL_ADDRESS...) is what all calls on that device give from then on. */
typedef void EmulatorFail(const char *name, int result, int after); /* "emulator_fail" */

typedef struct EmulatorCounts {
    int64_t blocks, bytes; /* allocated now, on all devices */
    int64_t calls;         /* of any driver function */
    int64_t copies, fills; /* that have run */
    int64_t launches;      /* of kernels, that have run */
    int64_t graphs;        /* launches of graphs */
    int64_t held_graphs;   /* there are now, instances too */
    int64_t queued;        /* work that has not run */
    int64_t pinned;        /* bytes of host memory */
    int64_t events;        /* there are now */
    int64_t said;          /* times that something was wrong, in words (emulator_said) */
} EmulatorCounts;
typedef void EmulatorCount(EmulatorCounts *out); /* "emulator_count" */

/* What was wrong with the kernel or launch that failed last, in words (they go to stderr as well): which kernel, block
 * and thread did what. */
typedef const char *EmulatorSaid(void); /* "emulator_said" */

/* Of libemulated_nvrtc: how it compiles here. A zygote is a clang that has read what most programs begin with. */
typedef struct EmulatorCompilerState {
    int64_t started; /* zygotes of this process */
    int64_t forked;  /* programs that one compiled */
    int process;     /* of the one that there is, or 0 */
} EmulatorCompilerState;
typedef void EmulatorCompiler(EmulatorCompilerState *out); /* "emulator_compiler" */

#endif
