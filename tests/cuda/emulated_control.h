/* emulated_control.h: what tests of CUDA devices ask of the emulated driver, where that is the driver: the same
 * programs run on a GPU. */
#ifndef SINTER_TESTS_CUDA_EMULATED_CONTROL_H
#define SINTER_TESTS_CUDA_EMULATED_CONTROL_H
#include <check.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/emulator/emulator.h"

/* Of the emulator, or NULL where the driver is a real one. */
static inline void *control(const char *name) {
    const char *const path = getenv("SINTER_CUDA_DRIVER");
    void *const library = path ? dlopen(path, RTLD_NOW) : NULL;
    return library ? dlsym(library, name) : NULL;
}

static inline void fail_next(const char *function, int result, int after) {
    EmulatorFail *plan;
    *(void **)&plan = control("emulator_fail");
    plan(function, result, after);
}

static inline EmulatorCounts emulated(void) {
    EmulatorCount *count;
    EmulatorCounts counts = {0};
    *(void **)&count = control("emulator_count");
    if (count) count(&counts);
    return counts;
}

/* Of tests that run on nothing else. */
static inline EmulatorCounts only_emulated(void) {
    ck_assert_msg(control("emulator_count") != NULL, "SINTER_CUDA_DRIVER is no emulated driver");
    return emulated();
}

/* For tests that make the driver fail, or count what it holds or has not run yet. */
static inline bool is_emulated(void) {
    if (control("emulator_fail")) return true;
    fprintf(stderr, "left out: needs the emulated driver\n");
    return false;
}

/* There is no clang here, by which the emulated device runs kernels. */
static inline bool lacks_compiler(void) {
    const char *const compiler = getenv("SINTER_CUDA_NVRTC");
    return compiler && !strcmp(compiler, "none");
}

/* Of a main none of whose tests can run then: what ctest takes for skipped. */
static inline int skip_without_compiler(void) {
    puts("skipped: no clang here, by which the emulated device runs kernels");
    return 77;
}

/* From here on the machine's own NVRTC, or what REAL_NVRTC names: "none", where every push leaves it to --all, for it
 * takes 3 s for a program. */
static inline void use_real_nvrtc(void) {
    const char *const named = getenv("REAL_NVRTC");
    if (named)
        setenv("SINTER_CUDA_NVRTC", named, 1);
    else
        unsetenv("SINTER_CUDA_NVRTC");
}

#endif
