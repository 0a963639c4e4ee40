/* test_emulated_code.c: the emulated device runs CUDA C++ as a GPU does, and catches what a GPU may let pass: kernels
 * written by hand, right ones with their results and wrong ones with what is said of them. Without clang it is
 * skipped. */
#include "tests/cuda/emulated_code.h"
#include "tests/cuda/emulated_control.h"
#include "tests/unit/suite.h"

enum { N = 1000 };

static float *numbers(int n) {
    float *const x = malloc((size_t)n * sizeof *x);
    for (int i = 0; i < n; i++) x[i] = (float)(i * 37 % 101) - 50.0f;
    return x;
}

/* what runs ------------------------------------------------------------------------------------- */

START_TEST(adds_with_a_tail) {
    static const char source[] =
        "extern \"C\" __global__ void __launch_bounds__(128) add(float *__restrict__ o, const float *x, int n) {\n"
        "    for (int i = (blockIdx.x * blockDim.x + threadIdx.x) * 4; i < n; i += gridDim.x * blockDim.x * 4) {\n"
        "        if (i + 4 <= n) {\n"
        "            const float4 v = *(const float4 *)(x + i);\n"
        "            float4 w = {v.x + v.x, v.y + v.y, v.z + v.z, v.w + v.w};\n"
        "            *(float4 *)(o + i) = w;\n"
        "        } else\n"
        "            for (int k = i; k < n; k++) o[k] = __fmaf_rn(x[k], 2.0f, 0.0f);\n"
        "    }\n"
        "}\n";
    open_emulated();
    const CuFunction add = function_of(source, "add");
    for (int n = N - 3; n <= N; n++) {
        float *const x = numbers(n), out[N];
        CuAddress o = device_copy(NULL, (size_t)n * 4), from = device_copy(x, (size_t)n * 4);
        ck_assert_int_eq(LAUNCH(add, 2, 128, &o, &from, &n), CU_success);
        ck_assert_int_eq(read_back(out, o, (size_t)n * 4), CU_success);
        for (int i = 0; i < n; i++) ck_assert_float_eq(out[i], 2 * x[i]);
        free(x);
    }
}
END_TEST

/* 40 threads: the second warp is a part. The last block by ticket adds what the others left. */
static const char reduction[] =
    "#define KERNEL extern \"C\" __global__ void\n"
    "#define BARRIER __syncthreads()\n"
    "static __device__ __forceinline__ float tree(float s) {\n"
    "    for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(0xffffffffu, s, d);\n"
    "    return s;\n"
    "}\n"
    "/* __global__ void not_this(int) */\n"
    "KERNEL sum(float *o, float *part, unsigned *ticket, const float *x, int n) {\n"
    "    __shared__ float of_warp[4];\n"
    "    __shared__ unsigned mine;\n"
    "    extern __shared__ float all[];\n"
    "    const int t = threadIdx.x;\n"
    "    all[t] = 0;\n"
    "    for (int i = blockIdx.x * blockDim.x + t; i < n; i += gridDim.x * blockDim.x) all[t] += x[i];\n"
    "    const float s = tree(all[t]);\n"
    "    if (t % 32 == 0) of_warp[t / 32] = s;\n"
    "    BARRIER;\n"
    "    if (t == 0) {\n"
    "        part[blockIdx.x] = (of_warp[0] + of_warp[1]) + (of_warp[2] + of_warp[3]);\n"
    "        __threadfence();\n"
    "        mine = atomicAdd(ticket, 1u);\n"
    "    }\n"
    "    __syncthreads();\n"
    "    if (mine != gridDim.x - 1 || t) return;\n"
    "    float r = 0;\n"
    "    for (int b = 0; b < gridDim.x; b++) r += part[b];\n"
    "    *o = r, *ticket = 0;\n"
    "}\n";

static CuResult reduce(const char *source, float *out) {
    const CuFunction sum = function_of(source, "sum");
    float *const x = numbers(N);
    const unsigned zero = 0;
    int n = N;
    CuAddress o = device_copy(NULL, 4), part = device_copy(NULL, 7 * 4), ticket = device_copy(&zero, 4),
              from = device_copy(x, N * 4);
    void *arguments[] = {&o, &part, &ticket, &from, &n};
    for (int again = 0; again < 2; again++)
        ck_assert_int_eq(cu.LaunchKernel(sum, 7, 1, 1, 128, 1, 1, 128 * 4, stream, arguments, NULL), CU_success);
    const CuResult result = read_back(out, o, 4);
    free(x); /* the copy from it has waited in the stream till then */
    return result;
}

START_TEST(reduces_with_barriers_shuffles_and_tickets) {
    float out = 0, expected = 0;
    float *const x = numbers(N);
    open_emulated();
    for (int i = 0; i < N; i++) expected += x[i]; /* of whole numbers: in any order */
    ck_assert_int_eq(reduce(reduction, &out), CU_success);
    ck_assert_float_eq(out, expected);
    free(x);
}
END_TEST

START_TEST(a_missing_barrier_is_seen) {
    char source[sizeof reduction + 32];
    float out = 0;
    open_emulated();
    snprintf(source, sizeof source, "%s", reduction);
    memcpy(strstr(source, "__syncthreads()\n"), "               \n", 16);
    ck_assert_int_eq(reduce(source, &out), CU_success);
    ck_assert_msg(out != out, "%g: made of shared memory that nobody had written", (double)out);
}
END_TEST

START_TEST(warps_vote_and_shuffle) {
    static const char source[] = "extern \"C\" __global__ void vote(unsigned *o) {\n"
                                 "    const int t = threadIdx.x;\n"
                                 "    const unsigned mask = t < 32 ? ~0u : 0xffu;\n"
                                 "    const unsigned odd = __ballot_sync(mask, t & 1);\n"
                                 "    const int any = __any_sync(mask, t == 7), all = __all_sync(mask, t < 32);\n"
                                 "    const long long from = __shfl_sync(mask, (long long)t << 40, 3);\n"
                                 "    const int down = __shfl_down_sync(mask, t, 2, 8);\n"
                                 "    __syncwarp(mask);\n"
                                 "    o[4 * t] = odd, o[4 * t + 1] = any * 2 + all;\n"
                                 "    o[4 * t + 2] = from >> 40, o[4 * t + 3] = down + __syncthreads_count(t & 1);\n"
                                 "}\n";
    open_emulated();
    unsigned out[40 * 4];
    CuAddress o = device_copy(NULL, sizeof out);
    ck_assert_int_eq(LAUNCH(function_of(source, "vote"), 1, 40, &o), CU_success);
    ck_assert_int_eq(read_back(out, o, sizeof out), CU_success);
    for (unsigned t = 0; t < 40; t++) {
        const unsigned down = t % 8 < 6 ? t + 2 : t;
        ck_assert_uint_eq(out[4 * t], t < 32 ? 0xaaaaaaaa : 0xaa);
        ck_assert_uint_eq(out[4 * t + 1], t < 32 ? 3 : 0);
        ck_assert_uint_eq(out[4 * t + 2], t < 32 ? 3 : 35);
        ck_assert_uint_eq(out[4 * t + 3], down + 20);
    }
}
END_TEST

START_TEST(wide_integers_divide) {
    static const char source[] = "extern \"C\" __global__ void divide(long long *o, long long a, long long b) {\n"
                                 "    o[0] = (long long)((__int128)a * a / b);\n"
                                 "    o[1] = (long long)((unsigned __int128)a * (unsigned long long)b >> 64);\n"
                                 "}\n";
    open_emulated();
    long long a = 3037000499, b = 1 << 20, out[2];
    CuAddress o = device_copy(NULL, sizeof out);
    ck_assert_int_eq(LAUNCH(function_of(source, "divide"), 1, 1, &o, &a, &b), CU_success);
    ck_assert_int_eq(read_back(out, o, sizeof out), CU_success);
    ck_assert_int_eq(out[0], a * a / b);
    ck_assert_int_eq(out[1], 0);
}
END_TEST

/* what is caught -------------------------------------------------------------------------------- */

static const struct {
    const char *body; /* of a kernel (float *o, int n) with one block of 64 threads, o of 64 floats */
    CuResult result;
    const char *says;
} wrong[] = {
    {"if (t < 32) __syncthreads(); o[t] = 1;", CU_launch_failed, "waits at __syncthreads, which thread ("},
    {"if (t < 32) __syncthreads(); else { o[t] = 2; __syncthreads(); }", CU_launch_failed, "another __syncthreads"},
    {"if (t == 5) return; o[t] = __shfl_xor_sync(~0u, 1.0f, 1);", CU_launch_failed, "names lane 5 in"},
    {"if (t == 5 || t > 31) __syncthreads(); o[t] = __shfl_xor_sync(~0u, 1.0f, 1);", CU_launch_failed,
     "and thread (5,0,0) waits at __syncthreads"},
    {"o[t] = t & 1 ? __shfl_xor_sync(~0u, 1.0f, 1) : __shfl_xor_sync(~0u, 2.0f, 1);", CU_launch_failed,
     "in another call"},
    {"o[t] = __shfl_sync(t % 32 < 16 ? 0xffffu : 0xffff0000u, 1.0f, 3);", CU_launch_failed, "reads lane 3"},
    {"o[t] = __shfl_sync(0xffu, 1.0f, 3);", CU_launch_failed, "of which it is none"},
    {"o[t + 1] = 1;", CU_illegal_address, "thread (63,0,0): writes 4 bytes at byte 256 of a block of 256"},
    {"o[0] = o[64 * t];", CU_illegal_address, "reads 4 bytes at byte "},
    {"*(int *)(long long)n = t;", CU_illegal_address, "which is no memory of its"},
    {"*(int *)((char *)o + 2) = t;", CU_misaligned_address, "not aligned"},
    {"atomicAdd(o + 64, 1.0f);", CU_illegal_address, "writes atomically 4 bytes at byte 256"},
    {"extern __shared__ float s[]; s[t] = 1; o[t] = s[t];", CU_illegal_address, "which is no memory of its"},
    {"o[t] = n + 0x7fffffff;", CU_illegal_instruction, "): an int overflows at test.cu:3:14"},
    {"o[t] = n * (t + 4096);", CU_illegal_instruction, "an int overflows"},
    {"o[t] = t << n;", CU_illegal_instruction, "shifts an int by too much"},
    {"o[t] = (t - 1) << 3;", CU_illegal_instruction, "or bits out of it"},
    {"o[t] = (int)(n * 1e6f);", CU_illegal_instruction, "an int that cannot hold it"},
    {"o[t] = n / t;", CU_illegal_instruction, "divides an int by 0"},
    {"float s[2] = {1, 2}; o[t] = s[t];", CU_illegal_instruction, "indexes outside of an array"},
    {"if (t == 9) __trap();", CU_illegal_instruction, "wrong, block (0,0,0), thread (9,0,0): __trap"},
};

START_TEST(wrong_kernels_are_caught) {
    char source[400];
    open_emulated();
    snprintf(source, sizeof source,
             "extern \"C\" __global__ void wrong(float *o, int n) {\n"
             "    const int t = threadIdx.x;\n    %s\n}\n",
             wrong[_i].body);
    int n = 1 << 20;
    float out;
    CuAddress o = device_copy(NULL, 256);
    ck_assert_int_eq(cu.MemsetD8Async(o, 0, 256, stream), CU_success);
    ck_assert_int_eq(LAUNCH(function_of(source, "wrong"), 1, 64, &o, &n), CU_success);
    ck_assert_int_eq(read_back(&out, o, 4), wrong[_i].result);
    ck_assert_msg(strstr(said(), wrong[_i].says) != NULL, "%s", said());
    ck_assert_int_eq(cu.MemsetD8Async(o, 0, 4, stream), wrong[_i].result); /* the context is gone */
}
END_TEST

START_TEST(freed_memory_is_caught) {
    open_emulated();
    CuAddress o = device_copy(NULL, 256), kept = device_copy(NULL, 256);
    const CuFunction f = function_of("extern \"C\" __global__ void copy(float *o, float *x) { *o = *x; }", "copy");
    ck_assert_int_eq(cu.MemFree(o), CU_success);
    ck_assert_int_eq(LAUNCH(f, 1, 1, &kept, &o), CU_success);
    ck_assert_int_eq(cu.StreamSynchronize(stream), CU_illegal_address);
    ck_assert_msg(strstr(said(), "reads 4 bytes") != NULL, "%s", said());
}
END_TEST

START_TEST(launches_over_the_limits_are_refused) {
    static const char source[] = "extern \"C\" __global__ void __launch_bounds__(256, 2) k(float *o) {\n"
                                 "    __shared__ float s[1024];\n"
                                 "    extern __shared__ __align__(16) float more[];\n"
                                 "    s[threadIdx.x] = 1;\n"
                                 "    __syncthreads();\n"
                                 "    more[10000] = s[threadIdx.x ^ 1];\n"
                                 "    *o = more[10000];\n"
                                 "}\n";
    static const struct {
        unsigned grid[3], block[3], shared;
        CuResult result;
    } rows[] = {
        {{0, 1, 1}, {32, 1, 1}, 0, CU_invalid_value},      {{1, 65536, 1}, {32, 1, 1}, 0, CU_invalid_value},
        {{1, 1, 1}, {1, 1, 65}, 0, CU_invalid_value},      {{1, 1, 1}, {64, 32, 1}, 0, CU_invalid_value},
        {{1, 1, 1}, {257, 1, 1}, 0, GPU_out_of_resources}, {{1, 1, 1}, {32, 1, 1}, 44 * 1024 + 1, CU_invalid_value},
    };
    open_emulated();
    const CuFunction k = function_of(source, "k");
    CuAddress o = device_copy(NULL, 4);
    void *arguments[] = {&o};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const unsigned *const g = rows[i].grid, *const b = rows[i].block;
        ck_assert_int_eq(
            cu.LaunchKernel(k, g[0], g[1], g[2], b[0], b[1], b[2], rows[i].shared, stream, arguments, NULL),
            rows[i].result);
    }
    enum { STATIC_BYTES = 1, MOST_DYNAMIC = 8 };
    int bytes;
    float out;
    ck_assert_int_eq(get_attribute(&bytes, STATIC_BYTES, k), CU_success);
    ck_assert_int_eq(bytes, 4096);
    ck_assert_int_eq(cu.FuncSetAttribute(k, MOST_DYNAMIC, 160 << 10), CU_invalid_value);
    ck_assert_int_eq(cu.FuncSetAttribute(k, MOST_DYNAMIC, 159 << 10), CU_success);
    ck_assert_int_eq(cu.LaunchKernel(k, 1, 1, 1, 256, 1, 1, 159 << 10, stream, arguments, NULL), CU_success);
    ck_assert_int_eq(read_back(&out, o, 4), CU_success);
    ck_assert_float_eq(out, 1);
}
END_TEST

START_TEST(programs_that_do_not_compile) {
    char *code, *log;
    open_emulated();
    ck_assert_int_eq(compile_text("extern \"C\" __global__ void k(float *o) {\n    *o = missing;\n}\n", &code, &log),
                     6);
    ck_assert_msg(strstr(log, "test.cu:2:10: error: use of undeclared identifier 'missing'") != NULL, "%s", log);
    free(log);
    CuLibrary library;
    ck_assert_int_eq(cu.LibraryLoadData(&library, "no object", NULL, NULL, 0, NULL, NULL, 0), GPU_invalid_image);
}
END_TEST

START_TEST(libraries_come_and_go) {
    open_emulated();
    char *code, *log;
    CuLibrary library;
    CuKernel kernel;
    CuFunction function;
    CuAddress o = device_copy(NULL, 4);
    ck_assert_int_eq(compile_text("extern \"C\" __global__ void one(float *o) { *o = 1; }", &code, &log), 0);
    ck_assert_int_eq(cu.LibraryLoadData(&library, code, NULL, NULL, 0, NULL, NULL, 0), CU_success);
    ck_assert_int_eq(cu.LibraryGetKernel(&kernel, library, "two"), CU_not_found);
    ck_assert_int_eq(cu.LibraryGetKernel(&kernel, library, "one"), CU_success);
    ck_assert_int_eq(cu.KernelGetFunction(&function, kernel), CU_success);
    ck_assert_int_eq(LAUNCH(function, 1, 1, &o), CU_success);
    ck_assert_int_eq(cu.LibraryUnload(library), CU_invalid_value); /* its launch waits in the stream */
    ck_assert_int_eq(cu.StreamSynchronize(stream), CU_success);
    ck_assert_int_eq(cu.LibraryUnload(library), CU_success);
    ck_assert_int_eq(LAUNCH(function, 1, 1, &o), CU_invalid_handle);
    ck_assert_int_eq(cu.LibraryUnload(library), CU_invalid_handle);
    free(code), free(log);
}
END_TEST

int main(void) {
    if (!getenv("SINTER_CUDA_NVRTC") || lacks_compiler()) return skip_without_compiler();
    TCase *const tests = tcase_create("emulated_code");
    tcase_add_test(tests, adds_with_a_tail);
    tcase_add_test(tests, reduces_with_barriers_shuffles_and_tickets);
    tcase_add_test(tests, warps_vote_and_shuffle);
    tcase_add_test(tests, wide_integers_divide);
    tcase_add_test(tests, libraries_come_and_go);
    tcase_add_test(tests, a_missing_barrier_is_seen);
    tcase_add_loop_test(tests, wrong_kernels_are_caught, 0, sizeof wrong / sizeof *wrong);
    tcase_add_test(tests, freed_memory_is_caught);
    tcase_add_test(tests, launches_over_the_limits_are_refused);
    tcase_add_test(tests, programs_that_do_not_compile);
    return suite_run("emulated_code", tests);
}
