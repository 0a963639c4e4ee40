/* test_cuda_nests.c: nests as CUDA C: random ones of every kind give on the device the bits of the exact
 * reference (failed checks included), alone and several in a kernel, in the mapping that is decided and in others that
 * the verifier accepts; and NVRTC compiles them for both architectures without a warning or a spill.
 * NEST_SEED=n NEST_COUNT=1 runs one, and prints its text where it differs. */
#include "codegen/cuda/cuda.h"
#include "kernels/cuda/prelude.h"
#include "runtime/base/error.h"
#include "runtime/cuda/nvrtc.h"
#include "tests/cuda/device_code.h"
#include "tests/cuda/emulated_control.h"
#include "tests/ref/random_kernel.h"
#include "tests/ref/random_mapping.h"
#include "tests/ref/ref_eval.h"
#include "tests/unit/suite.h"

enum { BATCH = 40, MOST_SEEDS = 4096, MOST_BUFS = RANDOM_KERNEL_NESTS * RANDOM_MAX_BUFS };

typedef struct Failed { /* as kernels/cuda/reduce.cuh has it */
    int32_t launch, inst;
    int64_t index, bound;
} Failed;

static int first_seed = 1, n_seeds = 400;

typedef struct Program {
    Arena *arena;
    int n;
    const RandomKernel *random[BATCH];
    CudaKernel kernels[BATCH];
    CudaText code[BATCH];
    Text text;
    CuLibrary library;
} Program;

typedef struct Wanted { /* of random kernels */
    int n_nests;        /* each */
    CudaSplit split;    /* of the mapping that is decided */
    bool mapped;        /* another one */
} Wanted;

static void make_program(Program *program, int seed, int n, const Wanted *wanted) {
    *program = (Program){.arena = arena_new(), .n = n};
    text_puts(&program->text, cuda_prelude);
    for (int i = 0; i < n; i++) {
        CudaKernel *const of = &program->kernels[i];
        const RandomKernel *const random = program->random[i] =
            random_kernel(program->arena, (uint64_t)(seed + i), wanted->n_nests, wanted->mapped && i % 2);
        *of = (CudaKernel){.kernel = &random->kernel, .hint = random->params, .split = wanted->split};
        ck_assert_ptr_null(cuda_refusal(of));
        of->mapping = wanted->mapped ? random_mapping(program->arena, of, machine_gpu(), (uint64_t)(seed + i))
                                     : cuda_mapping_decide(program->arena, of, machine_gpu());
        ck_assert_msg(cuda_mapping_verify(of->mapping, of->kernel, machine_gpu()) == ST_OK, "seed %d: %s", seed + i,
                      error_slot()->message);
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

static void launch_one(const Program *program, int k, const CudaFunction *f, const CudaBound *bound, CuAddress word) {
    KernelArgs words;
    int32_t number = 7;
    void *arguments[KERNEL_MOST_ARGS + 2];
    int n = 0;
    cuda_fill(&program->random[k]->kernel, f, bound, &words);
    CuAddress space = 0;
    if (words.workspace_bytes) space = device_copy(NULL, (size_t)words.workspace_bytes);
    cuda_fill_workspace(f, (int64_t)space, &words);
    const CuFunction function = kernel_of(program->library, f->name);
    for (; n < f->n_arguments; n++) arguments[n] = &words.at[f->arguments[n]];
    arguments[n++] = &number, arguments[n++] = &word;
    if (words.n_blocks)
        ck_assert_int_eq(cu.LaunchKernel(function, (unsigned)words.n_blocks, 1, 1, (unsigned)f->threads, 1, 1, 0,
                                         stream, arguments, NULL),
                         CU_success);
}

/* Each nest's memory as the host has it, before and after. */
typedef struct Memory {
    char *block[RANDOM_KERNEL_NESTS][RANDOM_MAX_BUFS];
} Memory;

/* One kernel on the device; blocks get what its buffers hold then. */
static Failed run_kernel(const Program *program, int k, Memory *memory) {
    const RandomKernel *const kernel = program->random[k];
    CuAddress block[MOST_BUFS];
    void *at[MOST_BUFS];
    CheckWord state = {.failed.launch = -1};
    const CuAddress word = device_copy(&state, sizeof state);
    for (int i = 0, at_buf = 0; i < kernel->n; i++)
        for (int b = 0; b < kernel->nest[i]->kernel.n_bufs; b++, at_buf++) {
            const RandomNest *const nest = kernel->nest[i];
            const size_t bytes = buffer_bytes(nest, b);
            block[at_buf] = device_copy(bytes ? memory->block[i][b] : NULL, bytes ? bytes : 1);
            at[at_buf] = (void *)(uintptr_t)(block[at_buf] +
                                             (CuAddress)(nest->origin[b] * dtype_bytes(nest->kernel.bufs[b].dtype)));
        }
    for (int f = 0; f < program->code[k].n; f++)
        launch_one(program, k, &program->code[k].functions[f], &(CudaBound){at, kernel->params}, word);
    ck_assert_msg(read_back(&state, word, sizeof state) == CU_success, "%s: %s", kernel->kernel.name,
                  text_str(&program->text) + strlen(cuda_prelude));
    ck_assert_msg(!state.begun && !state.done, "%s: blocks are still counted", kernel->kernel.name);
    for (int i = 0, at_buf = 0; i < kernel->n; i++)
        for (int b = 0; b < kernel->nest[i]->kernel.n_bufs; b++, at_buf++) {
            const size_t bytes = buffer_bytes(kernel->nest[i], b);
            if (bytes) ck_assert_int_eq(read_back(memory->block[i][b], block[at_buf], bytes), CU_success);
            cu.MemFree(block[at_buf]);
        }
    cu.MemFree(word);
    return state.failed;
}

static void fail_with(const Program *program, int k, const char *what) {
    const CudaKernel *const of = &program->kernels[k];
    Text mapping = {0};
    cuda_mapping_print(of->mapping, of->kernel, &mapping);
    const char *const at = strstr(text_str(&program->text), program->code[k].functions[0].name);
    ck_abort_msg("%s: %s\n%.1200s%.1600s", of->kernel->name, what, text_str(&mapping), at);
}

static void compare_nest(const Program *program, int k, int i, Memory *wanted, Memory *got) {
    const RandomNest *const nest = program->random[k]->nest[i];
    int buf;
    int64_t element;
    if (random_same(nest, wanted->block[i], got->block[i], &buf, &element)) return;
    char what[96];
    snprintf(what, sizeof what, "nest %d: buffer b%d differs at element %lld", i, buf, (long long)element);
    fail_with(program, k, what);
}

/* An instruction's number counts those of the nests before its own, but where its launch has no other nest. */
static bool is_gather(const Program *program, int k, int inst) {
    const Kernel *const kernel = &program->random[k]->kernel;
    bool found = false;
    for (int f = 0; f < program->code[k].n; f++) {
        const CudaFunction *const text = &program->code[k].functions[f];
        for (int p = 0; p < text->n_parts; p++) {
            const Nest *const nest = &kernel->nests[text->parts[p].nest];
            const int at = inst - text->parts[p].check;
            found |= at >= 0 && at < nest->n_insts && nest->insts[at].op == LI_gather;
        }
    }
    return found;
}

static void compare(const Program *program, int k) {
    Arena *const arena = arena_new();
    const RandomKernel *const kernel = program->random[k];
    Memory wanted, got;
    bool missed[RANDOM_KERNEL_NESTS], some = false;
    for (int i = 0; i < kernel->n; i++) {
        const RandomNest *const nest = kernel->nest[i];
        NestError error = {.inst = -1};
        void **const memory = random_memory(arena, nest, wanted.block[i]);
        random_memory(arena, nest, got.block[i]);
        ref_exact(nest->kernel.nests, nest->kernel.bufs, memory, nest->params, NULL, NULL, &error);
        missed[i] = error.inst >= 0, some |= missed[i];
    }
    const Failed failed = run_kernel(program, k, &got);
    if (some != (failed.launch >= 0)) fail_with(program, k, "one of both missed an index");
    if (some && (failed.launch != 7 || !is_gather(program, k, failed.inst)))
        fail_with(program, k, "the failed check is not told");
    for (int i = 0; i < kernel->n; i++)
        if (!missed[i]) compare_nest(program, k, i, &wanted, &got);
    arena_free(arena);
}

static void run_all(int first, int n_kernels, const Wanted *wanted) {
    Program program;
    open_device();
    for (int seed = first; seed < first + n_kernels; seed += BATCH) {
        make_program(&program, seed, (int)min_i64(BATCH, first + n_kernels - seed), wanted);
        program.library = load_text(text_str(&program.text), "nests");
        for (int k = 0; k < program.n; k++) compare(&program, k);
        ck_assert_int_eq(cu.LibraryUnload(program.library), CU_success);
        free_program(&program);
    }
}

START_TEST(random_nests_give_the_exact_bits) { run_all(first_seed, n_seeds, &(Wanted){1, CUDA_split_none, false}); }
END_TEST

/* Each with reductions as chunks and parts that join them. */
START_TEST(split_nests_give_the_exact_bits) {
    run_all(first_seed, (n_seeds + 3) / 4, &(Wanted){1, CUDA_split_all, false});
}
END_TEST

/* Several in a kernel, of which every other one says that they may run at once. */
START_TEST(other_mappings_give_them_too) {
    run_all(first_seed, (n_seeds + 3) / 4, &(Wanted){1 + _i, CUDA_split_few, true});
}
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
    make_program(&program, 1, BATCH, &(Wanted){1, _i % 2 ? CUDA_split_all : CUDA_split_none, false});
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
    if (!lacks_compiler()) {
        tcase_add_test(tests, random_nests_give_the_exact_bits);
        tcase_add_test(tests, split_nests_give_the_exact_bits);
        tcase_add_loop_test(tests, other_mappings_give_them_too, 0, RANDOM_KERNEL_NESTS);
    } else {
        puts("skipped: running them: no clang here, by which the emulated device runs kernels");
    }
    tcase_add_loop_test(tests, compiles_without_spills, 2 * 80, 2 * 80 + 2); /* whole and split */
    tcase_add_loop_test(tests, compiles_without_spills, 2 * 90, 2 * 90 + 2);
    return suite_run("cuda_nests", tests);
}
