/* emulated_code.h: for tests of the emulated device itself: a CUDA program's text to kernels by NVRTC's own functions
 * and what it says of them, and what the device says. Runs on the emulator alone: a mistake costs it one context, which
 * is the process's; each test has a process of its own. */
#ifndef SINTER_TESTS_CUDA_EMULATED_CODE_H
#define SINTER_TESTS_CUDA_EMULATED_CODE_H
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/device_code.h"
#include "tests/emulator/gpu.h"

typedef struct NvrtcOpaque *TestProgram;
typedef struct TestNvrtc {
    int (*CreateProgram)(TestProgram *, const char *, const char *, int, const char *const *, const char *const *);
    int (*CompileProgram)(TestProgram, int, const char *const *);
    int (*GetCUBINSize)(TestProgram, size_t *);
    int (*GetCUBIN)(TestProgram, char *);
    int (*GetProgramLogSize)(TestProgram, size_t *);
    int (*GetProgramLog)(TestProgram, char *);
    int (*DestroyProgram)(TestProgram *);
} TestNvrtc;

static TestNvrtc nvrtc;
static EmulatorSaid *said;
/* Which the library does not ask for. */
static CuResult (*get_attribute)(int *value, CuFunctionAttribute attribute, CuFunction function);

static inline void *library_of(const char *variable) {
    const char *const path = getenv(variable);
    void *const library = path ? dlopen(path, RTLD_NOW) : NULL;
    ck_assert_msg(library != NULL, "%s: %s", variable, path ? dlerror() : "is not set");
    return library;
}

static inline void open_emulated(void) {
    void *const driver = library_of("SINTER_CUDA_DRIVER"), *const compiler = library_of("SINTER_CUDA_NVRTC");
    CuResult (*find)(const char *, void **, int, unsigned long long, int *);
    int status;
    *(void **)&find = dlsym(driver, "cuGetProcAddress_v2");
    *(void **)&said = dlsym(driver, "emulator_said");
    ck_assert_int_eq(find("cuFuncGetAttribute", (void **)&get_attribute, 2020, 0, &status), 0);
#define FIND(name) *(void **)&nvrtc.name = dlsym(compiler, "nvrtc" #name)
    FIND(CreateProgram), FIND(CompileProgram), FIND(GetCUBINSize), FIND(GetCUBIN);
    FIND(GetProgramLogSize), FIND(GetProgramLog), FIND(DestroyProgram);
    open_device();
}

/* 0, or NVRTC's result, with *log. `code` of *bytes and `log` are the caller's. */
static inline int compile_bytes(const char *source, char **code, size_t *bytes, char **log) {
    static const char *const options[] = {"--gpu-architecture=sm_80", "-fmad=false"};
    TestProgram program;
    size_t n;
    ck_assert_int_eq(nvrtc.CreateProgram(&program, source, "test.cu", 0, NULL, NULL), 0);
    const int result = nvrtc.CompileProgram(program, 2, options);
    *code = NULL;
    nvrtc.GetProgramLogSize(program, &n);
    nvrtc.GetProgramLog(program, *log = calloc(1, n));
    if (!result) {
        ck_assert_int_eq(nvrtc.GetCUBINSize(program, bytes), 0);
        ck_assert_int_eq(nvrtc.GetCUBIN(program, *code = malloc(*bytes)), 0);
    }
    nvrtc.DestroyProgram(&program);
    return result;
}

static inline int compile_text(const char *source, char **code, char **log) {
    size_t n;
    return compile_bytes(source, code, &n, log);
}

static inline CuFunction function_of(const char *source, const char *name) {
    char *code, *log;
    CuLibrary library;
    const int result = compile_text(source, &code, &log);
    ck_assert_msg(!result, "%d: %s", result, log);
    ck_assert_int_eq(cu.LibraryLoadData(&library, code, NULL, NULL, 0, NULL, NULL, 0), CU_success);
    free(code), free(log);
    return kernel_of(library, name);
}

#endif
