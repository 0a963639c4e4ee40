/* test_nvrtc.c: CUDA C to code by the machine's NVRTC: for both architectures, what the log says, what is refused and
 * how. Where there is no NVRTC it is skipped, and says why. Where it is looked for is tested without one, on folders
 * made here. Every test is a process of its own, in which nothing was opened before. */
#define _GNU_SOURCE /* dladdr */
#include <check.h>
#include <dlfcn.h>
#include <fenv.h>
#include <sinter/sinter.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/alloc.h"
#include "runtime/cuda/library.h"
#include "runtime/cuda/nvrtc.h"
#include "tests/unit/suite.h"

static const char scale[] = "extern \"C\" __global__ void scale(float *a, float b) {\n"
                            "    const int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                            "    a[i] = a[i] * b + 1.0f;\n}\n";

static const char *says(const char *source, int arch) {
    CudaCode code;
    ck_assert(cuda_compile(source, "program", arch, &code) != ST_OK);
    return sn_error_take()->message;
}

START_TEST(compiles) {
    CudaCode code;
    ck_assert(cuda_compile(scale, "scale", _i, &code) == ST_OK);
    ck_assert(code.n > 1000 && !memcmp(code.bytes, "\177ELF", 4));
    ck_assert_str_eq(code.log, "");
    cuda_code_free(&code);
    ck_assert_ptr_null(code.bytes);
}
END_TEST

START_TEST(says_what_a_kernel_takes) {
    CudaCode code;
    char arch[32];
    snprintf(arch, sizeof arch, "'scale' for 'sm_%d'", _i);
    ck_assert(cuda_compile_verbose(scale, "scale", _i, &code) == ST_OK);
    ck_assert_msg(strstr(code.log, arch) && strstr(code.log, "0 bytes spill stores") && strstr(code.log, " registers"),
                  "%s", code.log);
    cuda_code_free(&code);
}
END_TEST

/* A warning is no failure; an unused function is no warning. */
START_TEST(warns) {
    CudaCode code;
    ck_assert(cuda_compile("static __device__ int unused(int a) { return a; }\n"
                           "extern \"C\" __global__ void k(unsigned *a) { if (a[0] < 0) a[1] = 1; }\n",
                           "k", 80, &code) == ST_OK);
    ck_assert_msg(strstr(code.log, "k(2): warning"), "%s", code.log);
    ck_assert_msg(!strstr(code.log, "unused"), "%s", code.log);
    cuda_code_free(&code);
}
END_TEST

START_TEST(refuses_a_program) {
    const char *const message = says("__global__ void k() { int x = y; }", 90);
    ck_assert_msg(strstr(message, "refuses 'program': NVRTC_ERROR_COMPILATION: program(1): error: identifier \"y\" is"),
                  "%s", message);
    ck_assert_msg(strstr(message, "SINTER_DUMP_DIR=folder keeps the source"), "%s", message);
}
END_TEST

START_TEST(refuses_an_architecture) {
    const char *const message = says(scale, 17);
    ck_assert_msg(strstr(message, "NVRTC_ERROR_INVALID_OPTION: nvrtc: error: invalid value for --gpu-arch"), "%s",
                  message);
}
END_TEST

START_TEST(keeps_what_is_refused) {
    char folder[] = "/tmp/sinter-XXXXXX", path[64], *text;
    size_t n;
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/program.cu", folder);
    ck_assert(sn_setting_set("dump_dir", folder) == SN_OK);
    const char *const message = says("int a = first;\nint b = second;\n", 80);
    ck_assert_msg(strstr(message, "; the source is ") && strstr(message, path), "%s", message);
    ck_assert(file_read(path, &text, &n) == ST_OK);
    ck_assert_msg(!strncmp(text, "int a = first;\nint b = second;\n\n// program(1): ", 45), "%s", text);
    ck_assert_ptr_nonnull(strstr(text, "\n// program(2): "));
    mem_free(text);
    unlink(path);
    rmdir(folder);
    /* a folder that is none: the compiler's words alone */
    ck_assert_ptr_null(strstr(says("#error third", 80), "the source is"));
}
END_TEST

/* The program's rounding is not the compiler's: 1/3 is folded to nearest. */
START_TEST(folds_by_its_own_rounding) {
    static const char third[] = "extern \"C\" __global__ void k(double *a) { *a = 1.0 / 3.0; }";
    CudaCode nearest, upward;
    ck_assert(cuda_compile(third, "k", 80, &nearest) == ST_OK);
    fesetround(FE_UPWARD);
    ck_assert(cuda_compile(third, "k", 80, &upward) == ST_OK);
    ck_assert_int_eq(fegetround(), FE_UPWARD);
    fesetround(FE_TONEAREST);
    ck_assert(nearest.n == upward.n && !memcmp(nearest.bytes, upward.bytes, nearest.n));
    cuda_code_free(&nearest);
    cuda_code_free(&upward);
}
END_TEST

/* Each allocation that fails is an error, and nothing is lost. */
START_TEST(memory_runs_out) {
    CudaCode code;
    cuda_compile(scale, "scale", 80, &code); /* what is made once is there */
    cuda_code_free(&code);
    for (int n = 0; n < 2; n++) {
        mem_fail_after(n);
        const Status status = cuda_compile(scale, "scale", 80, &code);
        mem_fail_after(-1);
        ck_assert_int_eq(status, ST_MEMORY);
        sn_error_take();
    }
}
END_TEST

START_TEST(absent) {
    setenv("SINTER_CUDA_NVRTC", "/nonexistent/libnvrtc.so", 1);
    for (int again = 0; again < 2; again++) {
        const char *const message = says(scale, 80);
        ck_assert_msg(strstr(message, "CUDA: there is no NVRTC (/nonexistent/libnvrtc.so: cannot open"), "%s", message);
        ck_assert_msg(strstr(message, "install NVIDIA's CUDA toolkit 12.0 or newer, or PyPI's nvidia-cuda-nvrtc"), "%s",
                      message);
    }
}
END_TEST

START_TEST(another_library) {
    setenv("SINTER_CUDA_NVRTC", "libm.so.6", 1);
    ck_assert_ptr_nonnull(strstr(says(scale, 80), "CUDA: NVRTC has no nvrtcGetErrorString; install"));
}
END_TEST

/* where it is looked for ---------------------------------------------------------------------- */

static char root[] = "/tmp/sinter-XXXXXX";

/* A file of that name, which is the math library, in root/folder. */
static void put_library(const char *folder, const char *name) {
    char command[512];
    snprintf(command, sizeof command,
             "mkdir -p %s/%s && cp -L \"$(ldconfig -p | awk '/libm.so.6.*64/ {print $NF; exit}')\" %s/%s/%s", root,
             folder, root, folder, name);
    ck_assert_int_eq(system(command), 0);
}

/* The folder that a library of this test comes from, "": it was not found. */
static const char *found_in(bool toolkit) {
    static const LibrarySearch toolkits = {"SINTER_CUDA_NVRTC", {"libmade.so.2", "libmade.so.1"}, true, "libhelp*"};
    static const LibrarySearch linker = {"SINTER_CUDA_NVRTC", {"libmade.so.2", "libmade.so.1"}, false, NULL};
    LibraryReason why;
    static char folder[512];
    Dl_info from;
    void *address;
    void *const library = library_open(toolkit ? &toolkits : &linker, &why);
    if (!library) return "";
    ck_assert(library_function(library, "cos", &address) && dladdr(address, &from));
    snprintf(folder, sizeof folder, "%s", from.dli_fname + strlen(root) + 1);
    return folder;
}

static void set_root(const char *variable, const char *folder) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", root, folder);
    setenv(variable, path, 1);
}

START_TEST(looks_in_folders) {
    static const struct {
        const char *variable, *folder;
    } rows[] = {
        {"CUDA_HOME", "lib64"},
        {"CUDA_PATH", "lib64"},
        {"VIRTUAL_ENV", "lib/python3.11/site-packages/nvidia/cu13/lib"},
        {"CONDA_PREFIX", "lib"},
        {"HOME", ".local/lib/python3.9/site-packages/nvidia/cuda_nvrtc/lib"},
    };
    char folder[128], file[160];
    ck_assert_ptr_nonnull(mkdtemp(root));
    for (int i = COUNT_OF(rows); i--;) unsetenv(rows[i].variable);
    unsetenv("SINTER_CUDA_NVRTC");
    /* from the last to the first: each is preferred to all that are there by then */
    for (int i = COUNT_OF(rows); i--;) {
        snprintf(folder, sizeof folder, "p%d/%s", i, rows[i].folder);
        snprintf(file, sizeof file, "%s/libmade.so.1", folder);
        put_library(folder, "libmade.so.1");
        ck_assert_str_ne(found_in(true), file);
        snprintf(folder, sizeof folder, "p%d", i);
        set_root(rows[i].variable, folder);
        ck_assert_str_eq(found_in(true), file);
        ck_assert_str_eq(found_in(false), "");
    }
    /* the preferred name, and what it opens by its bare name */
    put_library("p0/lib64", "libmade.so.2");
    put_library("p0/lib64", "libhelp.so.7");
    ck_assert_str_eq(found_in(true), "p0/lib64/libmade.so.2");
    snprintf(file, sizeof file, "%s/p0/lib64/libhelp.so.7", root);
    ck_assert_ptr_nonnull(dlopen(file, RTLD_NOW | RTLD_NOLOAD));
    /* a path that is set is taken alone */
    setenv("SINTER_CUDA_NVRTC", "/nonexistent", 1);
    ck_assert_str_eq(found_in(true), "");
    snprintf(file, sizeof file, "rm -r %s", root);
    ck_assert_int_eq(system(file), 0);
}
END_TEST

/* Opens nothing in this process, from which the tests are forked. The reason is what the summary shows. */
static bool is_absent(void) {
    const char *why;
    const pid_t child = fork();
    if (!child) {
        const bool absent_here = !nvrtc_find(&why);
        if (absent_here) printf("compiling is skipped: %s\n", why);
        fflush(stdout);
        _exit(absent_here);
    }
    int status;
    waitpid(child, &status, 0);
    return status != 0;
}

int main(void) {
    static const int archs[] = {80, 90};
    TCase *const tests = tcase_create("nvrtc");
    const bool skipped = is_absent();
    tcase_add_test(tests, absent);
    tcase_add_test(tests, another_library);
    tcase_add_test(tests, looks_in_folders);
    for (int i = 0; !skipped && i < COUNT_OF(archs); i++) {
        tcase_add_loop_test(tests, compiles, archs[i], archs[i] + 1);
        tcase_add_loop_test(tests, says_what_a_kernel_takes, archs[i], archs[i] + 1);
    }
    if (!skipped) {
        tcase_add_test(tests, warns);
        tcase_add_test(tests, refuses_a_program);
        tcase_add_test(tests, refuses_an_architecture);
        tcase_add_test(tests, keeps_what_is_refused);
        tcase_add_test(tests, folds_by_its_own_rounding);
        tcase_add_test(tests, memory_runs_out);
    }
    const int failed = suite_run("nvrtc", tests);
    return failed ? failed : skipped ? 77 : 0;
}
