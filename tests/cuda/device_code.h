/* device_code.h: for tests that launch kernels of a text of their own: a program to kernels, memory and launches, by
 * the driver's functions, on the emulated device or a GPU. Each test has a process of its own. */
#ifndef SINTER_TESTS_CUDA_DEVICE_CODE_H
#define SINTER_TESTS_CUDA_DEVICE_CODE_H
#include <check.h>
#include <stdint.h>

#include "runtime/base/error.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/driver.h"
#include "runtime/cuda/nvrtc.h"

static Driver cu;
static CuStream stream;

/* A context on device 0, and a stream. */
static inline void open_device(void) {
    const Driver *driver;
    CuContext context;
    ck_assert_msg(driver_open(&driver) == ST_OK, "%s", error_slot()->message);
    cu = *driver;
    ck_assert_int_eq(cu.DevicePrimaryCtxRetain(&context, 0), CU_success);
    ck_assert_int_eq(cu.CtxPushCurrent(context), CU_success);
    ck_assert_int_eq(cu.StreamCreate(&stream, CU_stream_non_blocking), CU_success);
}

/* A program's kernels, compiled for device 0. */
static inline CuLibrary load_text(const char *source, const char *name) {
    CudaFacts facts;
    CudaCode code;
    CuLibrary library;
    ck_assert_msg(cuda_facts(0, &facts) == ST_OK, "%s", error_slot()->message);
    ck_assert_msg(cuda_compile(source, name, facts.capability, &code) == ST_OK, "%s", error_slot()->message);
    ck_assert_int_eq(cu.LibraryLoadData(&library, code.bytes, NULL, NULL, 0, NULL, NULL, 0), CU_success);
    cuda_code_free(&code);
    return library;
}

static inline CuFunction kernel_of(CuLibrary library, const char *name) {
    CuKernel kernel;
    CuFunction function;
    ck_assert_msg(cu.LibraryGetKernel(&kernel, library, name) == CU_success, "%s", name);
    ck_assert_int_eq(cu.KernelGetFunction(&function, kernel), CU_success);
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
