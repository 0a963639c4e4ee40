/* test_llvm_nests.c: random nests through LLVM and our loader give the bits of the exact reference,
 * on every instruction set of this machine, whole and in parts of the outer rectangle, in the shape that is decided for
 * them and in others.
 * NEST_SEED and NEST_COUNT choose other seeds. */
#include <stdlib.h>

#include "kernels/kernels.h"
#include "runtime/base/error.h"
#include "runtime/compile/llvm_module.h"
#include "runtime/compile/loader.h"
#include "tests/ref/random_nest.h"
#include "tests/ref/random_shape.h"
#include "tests/ref/ref_eval.h"
#include "tests/unit/one_nest.h"
#include "tests/unit/suite.h"

static const NestMapping *shape_used; /* of the nest at hand */

static void fail_with(const RandomNest *nest, const char *what) {
    Text text = {0};
    kernel_print(&nest->kernel, &text);
    if (shape_used) shape_print(shape_used, nest->kernel.nests, &text);
    for (int i = 0; i < nest->kernel.n_params; i++) text_printf(&text, "p%d = %lld\n", i, (long long)nest->params[i]);
    ck_abort_msg("seed %llu: %s\n%s", (unsigned long long)nest->seed, what, text_str(&text));
}

/* In the decided shape, or in another one that the verifier accepts. */
static LoadedCode *compile_nest(Arena *arena, const RandomNest *nest, int isa, bool other) {
    OneNest one = {nest->kernel.nests, nest->kernel.bufs, "kernel", arena};
    Machine machine = *machine_at(isa);
    machine.keep_bytes = nest->seed % 3 ? 65536 : 0;
    machine.stream_bytes = nest->seed % 2;
    const CodegenRequest request = one_nest_on(&one, machine);
    if (other) one.shape = random_shape(arena, one.nest, one.bufs, &one.machine, nest->seed);
    shape_used = one.shape;
    CodegenResult result;
    LoadedCode *code;
    if (llvm_module()->compile(&request, &result) != ST_OK) fail_with(nest, result.message);
    if (loader_load(result.object, result.bytes, &code, NULL) != ST_OK) fail_with(nest, error_slot()->message);
    llvm_module()->free_bytes(result.object);
    return code;
}

/* The rectangle cut in two along `cut`, or whole where that is -1. */
static void run_parts(const RandomNest *random, NestFn *run, void *const *memory, int cut, NestError *error) {
    const Nest *nest = random->kernel.nests;
    int64_t lo[MAX_LOOP_DIMS] = {0}, hi[MAX_LOOP_DIMS];
    for (int i = 0; i < nest->n_outer; i++)
        hi[i] = sym_is(nest->extent[i]) ? random->params[sym_id(nest->extent[i])] : nest->extent[i];
    if (cut >= 0) {
        const int64_t whole = hi[cut];
        hi[cut] = whole / 3;
        run(memory, random->params, lo, hi, error);
        lo[cut] = hi[cut];
        hi[cut] = whole;
        if (error->inst >= 0) return;
    }
    run(memory, random->params, lo, hi, error);
}

static void compare(const RandomNest *nest, NestFn *run, int cut) {
    Arena *const arena = arena_new();
    char *wanted[RANDOM_MAX_BUFS], *got[RANDOM_MAX_BUFS];
    void **const memory = random_memory(arena, nest, wanted), **const own = random_memory(arena, nest, got);
    NestError missed = {.inst = -1}, error = {.inst = -1};
    ref_exact(nest->kernel.nests, nest->kernel.bufs, memory, nest->params, NULL, NULL, &missed);
    run_parts(nest, run, own, cut, &error);
    if ((missed.inst >= 0) != (error.inst >= 0)) fail_with(nest, "one of both missed an index");
    if (error.inst >= 0 && error.index >= 0 && error.index < error.bound) fail_with(nest, "the miss is none");
    int buf;
    int64_t element;
    if (missed.inst < 0 && !random_same(nest, wanted, got, &buf, &element))
        fail_with(nest, arena_printf(arena, "cut %d: b%d differs at element %lld", cut, buf, (long long)element));
    arena_free(arena);
}

static void compare_seed(uint64_t seed, int isa, bool other) {
    Arena *const arena = arena_new();
    const RandomNest *const nest = random_nest(arena, seed);
    LoadedCode *const code = compile_nest(arena, nest, isa, other);
    NestFn *const run = (NestFn *)loader_symbol(code, "kernel");
    for (int cut = -1; cut < nest->kernel.nests->n_outer; cut++) compare(nest, run, cut);
    loader_free(code);
    arena_free(arena);
}

static int setting(const char *name, int otherwise) {
    const char *value = getenv(name);
    return value ? atoi(value) : otherwise;
}

START_TEST(random_nests_give_the_exact_bits) {
    ck_assert_msg(llvm_module() != NULL, "%s", llvm_module_reason());
    const int first = setting("NEST_SEED", 1 + 1000 * _i), n = setting("NEST_COUNT", 120);
    for (int seed = first; seed < first + n; seed++) compare_seed((uint64_t)seed, _i, false);
}
END_TEST

START_TEST(other_shapes_give_them_too) {
    ck_assert_msg(llvm_module() != NULL, "%s", llvm_module_reason());
    const int first = setting("NEST_SEED", 5001 + 1000 * _i), n = setting("NEST_COUNT", 120);
    for (int seed = first; seed < first + n; seed++) compare_seed((uint64_t)seed, _i, true);
}
END_TEST

int main(void) {
    TCase *nests = tcase_create("nests");
    tcase_set_timeout(nests, 600);
    tcase_add_loop_test(nests, random_nests_give_the_exact_bits, 0, isa_host() + 1);
    tcase_add_loop_test(nests, other_shapes_give_them_too, 0, isa_host() + 1);
    return suite_run("llvm_nests", nests);
}
