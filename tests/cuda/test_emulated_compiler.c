/* test_emulated_compiler.c: how the emulated device compiles (tests/emulator/compiler.c): a fork of a clang that has
 * read what programs begin with makes the same object as a clang for that program alone; and whatever becomes of that
 * clang, or of the process that started it, programs compile and nothing stays behind. */
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/cuda/prelude.h"
#include "runtime/base/text.h"
#include "tests/cuda/emulated_code.h"
#include "tests/cuda/emulated_control.h"
#include "tests/unit/suite.h"

static char folder[64];

/* Another empty one, for objects. */
static void begin_folder(void) {
    snprintf(folder, sizeof folder, "/tmp/sinter-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    setenv("EMULATED_CUDA_CACHE", folder, 1);
}

static void end_folder(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    ck_assert_int_eq(system(command), 0);
}

static EmulatorCompilerState state(void) {
    EmulatorCompiler *ask;
    EmulatorCompilerState out;
    *(void **)&ask = dlsym(library_of("SINTER_CUDA_NVRTC"), "emulator_compiler");
    ask(&out);
    return out;
}

typedef struct TestObject {
    char *code, *log;
    size_t n;
    int result;
} TestObject;

static void object_free(TestObject *object) { free(object->code), free(object->log); }

/* One that begins as all do. */
static TestObject compile_with_prelude(const char *body, int number) {
    Text text = {0};
    TestObject out;
    text_puts(&text, cuda_prelude);
    text_printf(&text,
                "KERNEL k%d(float *o, int n) {\n    __shared__ float all[%d];\n    all[0] = o[n + %d];\n    %s\n}\n",
                number, 4 + number, number, body);
    out.result = compile_bytes(text_str(&text), &out.code, &out.n, &out.log);
    text_free(&text);
    return out;
}

static void expect_compiles(int number) {
    TestObject object = compile_with_prelude("__syncthreads();\n    o[1] = all[0] + vec_exp_f32(o[0]);", number);
    ck_assert_msg(!object.result && object.n > 100, "%s", object.log);
    object_free(&object);
}

/* The first program of a process is compiled plainly, the next by a fork. */
static EmulatorCompilerState begin_forks(void) {
    open_emulated();
    begin_folder();
    expect_compiles(0);
    ck_assert_int_eq(state().started, 0);
    expect_compiles(1);
    const EmulatorCompilerState is = state();
    ck_assert_int_eq(is.started, 1);
    ck_assert_int_eq(is.forked, 1);
    ck_assert_int_gt(is.process, 0);
    return is;
}

/* Where nobody waits for a process that has ended it is still there, as a zombie. */
static bool is_running(int process) {
    char path[64], line[256] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", process);
    FILE *const file = fopen(path, "r");
    if (!file) return false;
    if (!fgets(line, sizeof line, file)) line[0] = 0;
    fclose(file);
    const char *const end = strrchr(line, ')');
    return end && end[2] != 'Z' && end[2] != 'X';
}

static void wait_for_end_of(int process) {
    while (is_running(process)) usleep(1000);
}

START_TEST(both_ways_make_the_same_object) {
    static const char body[] = "o[1] = all[0] + vec_exp_f32(o[0]) + (float)(n * 2 % 7);";
    begin_forks();
    TestObject forked = compile_with_prelude(body, 2);
    ck_assert_int_eq(forked.result, 0);
    ck_assert_int_eq(state().forked, 2);
    end_folder();
    begin_folder();
    const pid_t child = fork();
    if (!child) /* the first of its process, which leaves it in the folder */
        _exit(compile_with_prelude(body, 2).result || state().forked || state().started);
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    TestObject plain = compile_with_prelude(body, 2);
    ck_assert_int_eq(state().forked, 2);
    ck_assert_uint_eq(plain.n, forked.n);
    ck_assert(!memcmp(plain.code, forked.code, plain.n));
    object_free(&plain), object_free(&forked);
    end_folder();
}
END_TEST

/* Lines are counted from the whole text's first one. */
START_TEST(wrong_programs_are_compiled_plainly) {
    char place[100];
    int line = 4;
    for (const char *at = cuda_prelude; (at = strchr(at, '\n')); at++) line++;
    snprintf(place, sizeof place, "test.cu:%d:12: error: use of undeclared identifier 'missing'", line);
    begin_forks();
    TestObject wrong = compile_with_prelude("o[1] = missing;", 2);
    ck_assert_int_eq(wrong.result, 6);
    ck_assert_msg(strstr(wrong.log, place) == wrong.log, "%s", wrong.log);
    ck_assert_int_eq(state().forked, 1);
    object_free(&wrong);
    expect_compiles(3);
    ck_assert_int_eq(state().forked, 2);
    end_folder();
}
END_TEST

START_TEST(programs_that_begin_otherwise_are_compiled_plainly) {
    char *code, *log;
    begin_forks();
    ck_assert_int_eq(compile_text("extern \"C\" __global__ void one(float *o) { *o = 1; }", &code, &log), 0);
    ck_assert_int_eq(state().forked, 1);
    free(code), free(log);
    expect_compiles(2);
    ck_assert_int_eq(state().forked, 2);
    end_folder();
}
END_TEST

static void *compile_three(void *first) {
    for (int i = 0; i < 3; i++) expect_compiles(*(int *)first + i);
    return NULL;
}

START_TEST(threads_compile_at_once) {
    pthread_t threads[3];
    int first[3];
    begin_forks();
    for (int i = 0; i < 3; i++) {
        first[i] = 10 * (i + 1);
        ck_assert_int_eq(pthread_create(&threads[i], NULL, compile_three, &first[i]), 0);
    }
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    ck_assert_int_eq(state().started, 1);
    expect_compiles(2);
    end_folder();
}
END_TEST

/* It begins its own, which ends with it however that goes; the parent's goes on. */
START_TEST(a_forked_process_has_its_own) {
    const EmulatorCompilerState before = begin_forks();
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    const pid_t child = fork();
    if (!child) {
        expect_compiles(2), expect_compiles(3);
        const EmulatorCompilerState is = state();
        const bool written = write(ends[1], &is, sizeof is) == sizeof is;
        while (written) pause();
        _exit(1);
    }
    EmulatorCompilerState its;
    ck_assert_int_eq(read(ends[0], &its, sizeof its), sizeof its);
    ck_assert_int_eq(its.started, 1);
    ck_assert_int_eq(its.forked, 1);
    ck_assert_int_ne(its.process, before.process);
    ck_assert(is_running(its.process));
    ck_assert_int_eq(kill(child, SIGKILL), 0);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
    wait_for_end_of(its.process);
    expect_compiles(4);
    ck_assert_int_eq(state().forked, 2);
    ck_assert_int_eq(state().process, before.process);
    end_folder();
}
END_TEST

START_TEST(one_that_is_killed_is_done_without) {
    const EmulatorCompilerState before = begin_forks();
    ck_assert_int_eq(kill(before.process, SIGKILL), 0);
    expect_compiles(2), expect_compiles(3);
    ck_assert_int_eq(state().started, 1);
    ck_assert_int_eq(state().forked, 1);
    ck_assert_int_eq(state().process, 0);
    end_folder();
}
END_TEST

/* Neither what this process preloads, as sanitizers do, nor what it has open. */
START_TEST(it_inherits_nothing) {
    int ends[2];
    char path[64], text[1 << 16] = "", byte;
    ck_assert_int_eq(pipe(ends), 0);
    setenv("LD_PRELOAD", "libm.so.6", 1);
    snprintf(path, sizeof path, "/proc/%d/environ", begin_forks().process);
    close(ends[1]);
    ck_assert_int_eq(read(ends[0], &byte, 1), 0);
    FILE *const file = fopen(path, "r");
    ck_assert_ptr_nonnull(file);
    const size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    int preloads = 0;
    for (const char *at = text; at < text + n; at += strlen(at) + 1) {
        preloads += !strncmp(at, "LD_PRELOAD=", 11);
        ck_assert(!strstr(at, "libm.so.6"));
    }
    ck_assert_int_eq(preloads, 1);
    end_folder();
}
END_TEST

int main(void) {
    if (!getenv("SINTER_CUDA_NVRTC") || lacks_compiler()) return skip_without_compiler();
    TCase *const tests = tcase_create("emulated_compiler");
    tcase_add_test(tests, both_ways_make_the_same_object);
    tcase_add_test(tests, wrong_programs_are_compiled_plainly);
    tcase_add_test(tests, programs_that_begin_otherwise_are_compiled_plainly);
    tcase_add_test(tests, threads_compile_at_once);
    tcase_add_test(tests, a_forked_process_has_its_own);
    tcase_add_test(tests, one_that_is_killed_is_done_without);
    tcase_add_test(tests, it_inherits_nothing);
    return suite_run("emulated_compiler", tests);
}
