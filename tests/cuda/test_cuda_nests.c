/* test_cuda_nests.c: nests as CUDA C: random ones of every kind give on the device the bits of the exact
 * reference (failed checks included), and NVRTC compiles them for both architectures without a warning or a spill.
 * NEST_SEED=n NEST_COUNT=1 runs one, and prints its text where it differs. */
#include "codegen/cuda/cuda.h"
#include "kernels/cuda/prelude.h"
#include "runtime/base/error.h"
#include "runtime/cuda/nvrtc.h"
#include "tests/cuda/device_code.h"
#include "tests/cuda/emulated_control.h"
#include "tests/ref/random_nest.h"
#include "tests/ref/ref_eval.h"
#include "tests/unit/suite.h"

enum { BATCH = 40, MOST_SEEDS = 4096 };

typedef struct Failed { /* as kernels/cuda/reduce.cuh has it */
    int32_t launch, inst;
    int64_t index, bound;
} Failed;

static int first_seed = 1, n_seeds = 400;

typedef struct Program {
    Arena *arena;
    int n;
    const RandomNest *random[BATCH];
    CudaKernel kernels[BATCH];
    CudaText code[BATCH];
    Text text;
    CuLibrary library;
} Program;

static void make_program(Program *program, int seed, int n, CudaSplit split) {
    *program = (Program){.arena = arena_new(), .n = n};
    text_puts(&program->text, cuda_prelude);
    for (int i = 0; i < n; i++) {
        const RandomNest *const random = program->random[i] = random_nest(program->arena, (uint64_t)(seed + i));
        program->kernels[i] = (CudaKernel){.kernel = &random->kernel, .hint = random->params, .split = split};
        ck_assert_ptr_null(cuda_refusal(&program->kernels[i]));
    }
    ck_assert(cuda_print(program->arena, program->kernels, n, program->code, &program->text) == ST_OK);
}

static void free_program(Program *program) {
    text_free(&program->text);
    arena_free(program->arena);
}

static size_t buffer_bytes(const RandomNest *nest, int b) {
    return (size_t)nest->elements[b] * (size_t)dtype_bytes(nest->kernel.bufs[b].dtype);
}

typedef struct CheckWord { /* of a stream */
    Failed failed;
    int32_t begun, done;
} CheckWord;

static void launch(const Program *program, int k, const CudaBound *bound, CuAddress word) {
    ck_assert_int_eq(program->code[k].n, 1);
    const CudaFunction *const f = &program->code[k].functions[0];
    CudaGiven words;
    int32_t number = 7;
    void *arguments[RANDOM_MAX_BUFS + RANDOM_MAX_PARAMS + 64];
    int n = 0;
    cuda_fill(&program->random[k]->kernel, f, bound, &words);
    CuAddress space = 0;
    if (words.space_bytes) space = device_copy(NULL, (size_t)words.space_bytes);
    cuda_fill_space(f, (int64_t)space, &words);
    const CuFunction function = kernel_of(program->library, f->name);
    for (; n < f->n_arguments; n++) arguments[n] = &words.at[f->arguments[n]];
    arguments[n++] = &number, arguments[n++] = &word;
    if (words.n_blocks)
        ck_assert_int_eq(
            cu.LaunchKernel(function, (unsigned)words.n_blocks, 1, 1, CUDA_THREADS, 1, 1, 0, stream, arguments, NULL),
            CU_success);
}

/* One nest on the device; blocks get what its buffers hold then. */
static Failed run_nest(const Program *program, int k, char **blocks) {
    const RandomNest *const nest = program->random[k];
    CuAddress block[RANDOM_MAX_BUFS];
    void *at[RANDOM_MAX_BUFS];
    CheckWord state = {.failed.launch = -1};
    const CuAddress word = device_copy(&state, sizeof state);
    for (int b = 0; b < nest->kernel.n_bufs; b++) {
        const size_t bytes = buffer_bytes(nest, b);
        block[b] = device_copy(bytes ? blocks[b] : NULL, bytes ? bytes : 1);
        at[b] = (void *)(uintptr_t)(block[b] + (CuAddress)(nest->origin[b] * dtype_bytes(nest->kernel.bufs[b].dtype)));
    }
    launch(program, k, &(CudaBound){at, nest->params}, word);
    ck_assert_msg(read_back(&state, word, sizeof state) == CU_success, "seed %d: %s", (int)nest->seed,
                  text_str(&program->text) + strlen(cuda_prelude));
    ck_assert_msg(!state.begun && !state.done, "seed %d: blocks are still counted", (int)nest->seed);
    for (int b = 0; b < nest->kernel.n_bufs; b++) {
        const size_t bytes = buffer_bytes(nest, b);
        if (bytes) ck_assert_int_eq(read_back(blocks[b], block[b], bytes), CU_success);
        cu.MemFree(block[b]);
    }
    cu.MemFree(word);
    return state.failed;
}

static void fail_with(const Program *program, int k, const char *what) {
    const char *const at = strstr(text_str(&program->text), program->code[k].functions[0].name);
    ck_abort_msg("seed %llu: %s\n%.2800s", (unsigned long long)program->random[k]->seed, what, at);
}

static void compare(const Program *program, int k) {
    Arena *const arena = arena_new();
    const RandomNest *const nest = program->random[k];
    char *wanted[RANDOM_MAX_BUFS], *got[RANDOM_MAX_BUFS];
    void **const memory = random_memory(arena, nest, wanted);
    random_memory(arena, nest, got);
    NestError missed = {.inst = -1};
    ref_exact(nest->kernel.nests, nest->kernel.bufs, memory, nest->params, NULL, NULL, &missed);
    const Failed failed = run_nest(program, k, got);
    int buf;
    int64_t element;
    if ((missed.inst >= 0) != (failed.launch >= 0)) fail_with(program, k, "one of both missed an index");
    if (failed.launch >= 0 && (failed.launch != 7 || nest->kernel.nests->insts[failed.inst].op != LI_gather))
        fail_with(program, k, "the failed check is not told");
    if (missed.inst < 0 && !random_same(nest, wanted, got, &buf, &element)) {
        char what[96];
        snprintf(what, sizeof what, "buffer b%d differs at element %lld", buf, (long long)element);
        fail_with(program, k, what);
    }
    arena_free(arena);
}

static void run_all(int first, int n_nests, CudaSplit split) {
    Program program;
    open_device();
    for (int seed = first; seed < first + n_nests; seed += BATCH) {
        make_program(&program, seed, (int)min_i64(BATCH, first + n_nests - seed), split);
        program.library = load_text(text_str(&program.text), "nests");
        for (int k = 0; k < program.n; k++) compare(&program, k);
        ck_assert_int_eq(cu.LibraryUnload(program.library), CU_success);
        free_program(&program);
    }
}

START_TEST(random_nests_give_the_exact_bits) { run_all(first_seed, n_seeds, CUDA_split_none); }
END_TEST

/* Each with reductions as chunks and parts that join them. */
START_TEST(split_nests_give_the_exact_bits) { run_all(first_seed, (n_seeds + 3) / 4, CUDA_split_all); }
END_TEST

/* NVIDIA's own compiler ------------------------------------------------------------------------- */

START_TEST(compiles_without_spills) {
    const char *why;
    CudaCode code;
    Program program;
    use_real_nvrtc();
    if (!nvrtc_find(&why)) {
        printf("skipped: %s\n", why);
        return;
    }
    make_program(&program, 1, BATCH, (CudaSplit)(_i % 2 ? CUDA_split_all : CUDA_split_none));
    ck_assert_msg(cuda_compile_verbose(text_str(&program.text), "nests", _i / 2, &code) == ST_OK, "%s",
                  error_slot()->message);
    for (const char *at = strstr(code.log, " bytes spill"); at; at = strstr(at + 1, " bytes spill"))
        ck_assert_msg(at[-1] == '0' && at[-2] == ' ', "%.80s", at - 12);
    ck_assert_msg(!strstr(code.log, "warning"), "%.2000s", strstr(code.log, "warning"));
    cuda_code_free(&code);
    free_program(&program);
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("cuda_nests");
    tcase_set_timeout(tests, 600);
    if (!control("emulator_fail")) n_seeds = 120; /* NVRTC takes 3 s for a program of 40 */
    if (getenv("NEST_SEED")) first_seed = atoi(getenv("NEST_SEED"));
    if (getenv("NEST_COUNT")) n_seeds = atoi(getenv("NEST_COUNT"));
    if (!lacks_compiler())
        tcase_add_test(tests, random_nests_give_the_exact_bits), tcase_add_test(tests, split_nests_give_the_exact_bits);
    else
        puts("skipped: running them: no clang here, by which the emulated device runs kernels");
    tcase_add_loop_test(tests, compiles_without_spills, 2 * 80, 2 * 80 + 2); /* whole and split */
    tcase_add_loop_test(tests, compiles_without_spills, 2 * 90, 2 * 90 + 2);
    return suite_run("cuda_nests", tests);
}
