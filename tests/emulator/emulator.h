/* emulator.h: what a test can ask of the emulated CUDA driver (tests/emulator/driver.c) beside what a driver does.
 * The library under test knows nothing of it: it opens the emulator where SINTER_CUDA_DRIVER names it. A test finds
 * these functions by dlsym in the same file.
 *
 * It is stricter than a driver: addresses that nobody may follow, accesses inside of one block, poison, work that
 * runs only when it is waited for, or (EMULATED_CUDA="reorder=SEED") by chance in any order that streams and events
 * allow, pinned memory that is read when the copy runs. EMULATED_CUDA also says how many GPUs, how much memory and
 * which version there are. Beside it lies a look-alike of NVRTC (SINTER_CUDA_NVRTC), which compiles CUDA C++ by clang
 * for this machine (compiler.c; objects are kept in the build's folder `emulated`; where there is no clang, tests
 * that need it are skipped); EMULATED_CUDA_LEVEL=-O0 halves the time for many programs that run shortly. Threads of a
 * block are fibers, started in an order that a seed shuffles. Barriers, shuffles and votes are exact, and a thread
 * that never comes, or a lane named that has left, is an error; so is each access to a byte outside of a block, found
 * before it is made, and arithmetic that C leaves undefined, which NVRTC may fold to anything. Shared memory starts
 * as NaN. A captured stream takes what a driver's takes and nothing else; graphs run as their nodes were last set.
 * What was wrong stands on stderr with kernel, block and thread.
 *
 * There is no cuBLASLt for tests (SINTER_CUDA_BLASLT=none), so f16 and bf16 have the CPU's bits as well, but for
 * test_cuda_blaslt and `./dev emulated`, which take blaslt.c. A word of CUDA's that a program lacks goes to words.h.
 * `cuda.ops`, `cuda.fuzz` and `cuda.test_cuda_ops` run with SINTER_PLAIN_MALLOC=1, where each tensor is a block of
 * its own. */
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

/* What was wrong with the kernel or launch that failed last, in words (they go to stderr as well): which kernel,
 * block and thread did what. */
typedef const char *EmulatorSaid(void); /* "emulator_said" */

/* Of libemulated_nvrtc: how it compiles here. A zygote is a clang that has read what most programs begin with. */
typedef struct EmulatorCompilerState {
    int64_t started; /* zygotes of this process */
    int64_t forked;  /* programs that one compiled */
    int process;     /* of the one that there is, or 0 */
} EmulatorCompilerState;
typedef void EmulatorCompiler(EmulatorCompilerState *out); /* "emulator_compiler" */

#endif
