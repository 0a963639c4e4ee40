/* emulated_code.h: for tests of the emulated device itself: a CUDA program's text to kernels, memory and launches, by
 * the driver's and NVRTC's own functions, without the library. Runs on the emulator alone: a mistake costs it one
 * context, which is the process's; each test has a process of its own. */
#ifndef SINTER_TESTS_CUDA_EMULATED_CODE_H
#define SINTER_TESTS_CUDA_EMULATED_CODE_H
#include <check.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/emulator/gpu.h"

typedef struct TestDriver {
#define DRIVER(name, since, parameters) CuResult(*name) parameters;
#include "tests/emulator/rows.def"
} TestDriver;

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

static TestDriver cu;
static TestNvrtc nvrtc;
static CuStream stream;
static EmulatorSaid *said;

static inline void *library_of(const char *variable) {
    const char *const path = getenv(variable);
    void *const library = path ? dlopen(path, RTLD_NOW) : NULL;
    ck_assert_msg(library != NULL, "%s: %s", variable, path ? dlerror() : "is not set");
    return library;
}

/* A context on device 0, and a stream. */
static inline void open_device(void) {
    void *const driver = library_of("SINTER_CUDA_DRIVER"), *const compiler = library_of("SINTER_CUDA_NVRTC");
    CuResult (*find)(const char *, void **, int, unsigned long long, int *);
    CuContext context;
    int status;
    *(void **)&find = dlsym(driver, "cuGetProcAddress_v2");
    *(void **)&said = dlsym(driver, "emulator_said");
#define DRIVER(name, since, parameters) ck_assert_int_eq(find("cu" #name, (void **)&cu.name, since, 0, &status), 0);
#include "tests/emulator/rows.def"
#define FIND(name) *(void **)&nvrtc.name = dlsym(compiler, "nvrtc" #name)
    FIND(CreateProgram), FIND(CompileProgram), FIND(GetCUBINSize), FIND(GetCUBIN);
    FIND(GetProgramLogSize), FIND(GetProgramLog), FIND(DestroyProgram);
    ck_assert_int_eq(cu.Init(0), CU_success);
    ck_assert_int_eq(cu.DevicePrimaryCtxRetain(&context, 0), CU_success);
    ck_assert_int_eq(cu.CtxPushCurrent(context), CU_success);
    ck_assert_int_eq(cu.StreamCreate(&stream, CU_stream_non_blocking), CU_success);
}

/* 0, or NVRTC's result, with *log. `code` and `log` are the caller's. */
static inline int compile_text(const char *source, char **code, char **log) {
    static const char *const options[] = {"--gpu-architecture=sm_80", "-fmad=false"};
    TestProgram program;
    size_t n;
    ck_assert_int_eq(nvrtc.CreateProgram(&program, source, "test.cu", 0, NULL, NULL), 0);
    const int result = nvrtc.CompileProgram(program, 2, options);
    *code = NULL;
    nvrtc.GetProgramLogSize(program, &n);
    nvrtc.GetProgramLog(program, *log = calloc(1, n));
    if (!result) {
        ck_assert_int_eq(nvrtc.GetCUBINSize(program, &n), 0);
        ck_assert_int_eq(nvrtc.GetCUBIN(program, *code = malloc(n)), 0);
    }
    nvrtc.DestroyProgram(&program);
    return result;
}

static inline CuFunction function_of(const char *source, const char *name) {
    char *code, *log;
    CuLibrary library;
    CuKernel kernel;
    CuFunction function;
    const int result = compile_text(source, &code, &log);
    ck_assert_msg(!result, "%d: %s", result, log);
    ck_assert_int_eq(cu.LibraryLoadData(&library, code, NULL, NULL, 0, NULL, NULL, 0), CU_success);
    ck_assert_int_eq(cu.LibraryGetKernel(&kernel, library, name), CU_success);
    ck_assert_int_eq(cu.KernelGetFunction(&function, kernel), CU_success);
    free(code), free(log);
    return function;
}

/* A block of the device's memory with a copy of these bytes, which stay till the stream is waited for; NULL: as it
 * comes. */
static inline CuAddress device_copy(const void *bytes, size_t n) {
    CuAddress address;
    ck_assert_int_eq(cu.MemAlloc(&address, n), CU_success);
    if (bytes) ck_assert_int_eq(cu.MemcpyHtoDAsync(address, bytes, n, stream), CU_success);
    return address;
}

/* The result of what the stream has done. */
static inline CuResult read_back(void *to, CuAddress from, size_t n) {
    const CuResult result = cu.MemcpyDtoHAsync(to, from, n, stream);
    return result == CU_success ? cu.StreamSynchronize(stream) : result;
}

/* LAUNCH(function, blocks, threads, &a, &b): of the stream, in one dimension */
#define LAUNCH(function, blocks, threads, ...)                                                                         \
    cu.LaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, stream, (void *[]){__VA_ARGS__}, NULL)

#endif
