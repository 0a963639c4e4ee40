/* test_loader.c: the object loader: what a real object holds, what is refused, and that damaged
 * objects never crash. */
#include <elf.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernels/kernels.h"
#include "runtime/base/alloc.h"
#include "runtime/base/bail.h"
#include "runtime/base/error.h"
#include "runtime/compile/llvm_module.h"
#include "runtime/compile/loader.h"
#include "tests/unit/one_nest.h"
#include "tests/unit/suite.h"

static uint8_t *object;
static size_t object_bytes;

static void compile_object(int isa, RedKind red, Prim prim, SType type) {
    Arena *arena = arena_new();
    const int64_t extent[2] = {sym_make(0), sym_make(1)};
    LoopBuilder *b = loop_new(arena, 1, 1, 0, extent);
    const DType dtype = type == S_f64 ? DT_f64 : DT_f32;
    const Affine at = {.coef = {sym_make(1), 1}}, to = {.coef = {1}};
    const int x = loop_load(b, 0, dtype, &at);
    const int y = loop_prim(b, prim, x, prim_arity(prim) > 1 ? x : -1, prim_arity(prim) > 2 ? x : -1);
    loop_store(b, 1, dtype, &to, loop_reduce(b, red, y, red == RED_dot ? x : -1), true);
    Nest nest;
    loop_finish(b, &nest);
    const Buf bufs[2] = {{dtype, BUF_in}, {dtype, BUF_out}};
    OneNest one = {&nest, bufs, "kernel", arena};
    const CodegenRequest request = one_nest_request(&one, isa);
    CodegenResult result;
    ck_assert_msg(llvm_module() != NULL, "%s", llvm_module_reason());
    ck_assert_msg(llvm_module()->compile(&request, &result) == ST_OK, "%s", result.message);
    object = malloc(result.bytes);
    object_bytes = result.bytes;
    memcpy(object, result.object, object_bytes);
    llvm_module()->free_bytes(result.object);
    arena_free(arena);
}

static void setup(void) { compile_object(ISA_v3, RED_dot, PRIM_sin, S_f32); }
static void teardown(void) {
    free(object);
    error_clear();
    failpoint_set(NULL);
}

START_TEST(loads_and_finds) {
    LoadedCode *code = NULL;
    ck_assert_int_eq(loader_load(object, object_bytes, &code, NULL), ST_OK);
    ck_assert_ptr_nonnull(loader_symbol(code, "kernel"));
    ck_assert_ptr_null(loader_symbol(code, "fold_push_sum_f32")); /* internal */
    ck_assert_ptr_null(loader_symbol(code, "nothing"));
    ck_assert_uint_gt(loader_bytes(code), 0);
    loader_free(code);
    loader_free(NULL);
}
END_TEST

START_TEST(failpoints_leave_nothing) {
    static const char *const points[] = {"load", "exec_memory"};
    for (int i = 0; i < COUNT_OF(points); i++) {
        LoadedCode *code = NULL;
        failpoint_set(points[i]);
        ck_assert_int_ne(loader_load(object, object_bytes, &code, NULL), ST_OK);
        ck_assert_ptr_null(code);
        ck_assert_int_ne(error_pending(), ST_OK);
        error_clear();
        failpoint_set(NULL);
    }
}
END_TEST

/* In libc's place: a system that lets no memory become executable. */
static bool forbidden;
int mprotect(void *at, size_t bytes, int rights) {
    if (forbidden && rights & PROT_EXEC) return -1;
    return (int)syscall(SYS_mprotect, at, bytes, rights);
}

START_TEST(failures_are_coded) {
    LoadedCode *code = NULL;
    BailCode why;
    forbidden = true;
    ck_assert_int_eq(loader_load(object, object_bytes, &code, &why), ST_MEMORY);
    forbidden = false;
    ck_assert_int_eq(why, BAIL_exec_memory);
    error_clear();
    ck_assert_int_eq(loader_load(object, object_bytes / 2, &code, &why), ST_IO);
    ck_assert_int_eq(why, BAIL_load);
    error_clear();
    ck_assert_ptr_null(code);
}
END_TEST

START_TEST(allocation_failures) {
    for (int n = 0; n < 6; n++) {
        LoadedCode *code = NULL;
        mem_fail_after(n);
        const Status status = loader_load(object, object_bytes, &code, NULL);
        mem_fail_after(-1);
        if (status == ST_OK)
            loader_free(code);
        else
            ck_assert_int_eq(status, ST_MEMORY);
        ck_assert(status == ST_OK || error_pending() == ST_MEMORY);
        error_clear();
        if (n == 0) ck_assert_int_eq(status, ST_MEMORY);
    }
}
END_TEST

/* Loads a damaged copy in memory of its exact size; only that it does not crash, and says why if it
 * refuses. */
static bool try_load(const uint8_t *bytes, size_t n) {
    uint8_t *exact = malloc(n ? n : 1);
    memcpy(exact, bytes, n);
    LoadedCode *code = NULL;
    const Status status = loader_load(exact, n, &code, NULL);
    free(exact);
    if (status == ST_OK)
        loader_free(code);
    else
        ck_assert_int_ne(error_pending(), ST_OK);
    error_clear();
    return status == ST_OK;
}

/* Everything that is loaded lies before the section table at the end, so any cut is noticed. */
START_TEST(truncated_objects) {
    for (size_t n = 0; n < object_bytes; n++) ck_assert_msg(!try_load(object, n), "cut at %zu of %zu", n, object_bytes);
}
END_TEST

START_TEST(flipped_bytes) {
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)object;
    const size_t tables = header->e_shoff;
    for (size_t at = 0; at < object_bytes; at++) {
        const bool table = at < sizeof *header || at >= tables;
        if (!table && at % 3) continue; /* every byte of the tables, a third of the rest */
        const uint8_t kept = object[at];
        for (int bit = 0; bit < 8; bit++) {
            object[at] = (uint8_t)(kept ^ 1 << bit);
            try_load(object, object_bytes);
        }
        object[at] = kept;
    }
    object[0] ^= 1;
    ck_assert(!try_load(object, object_bytes));
    object[0] ^= 1;
    ck_assert(try_load(object, object_bytes));
}
END_TEST

static Elf64_Shdr *section_of_type(uint32_t type) {
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)object;
    Elf64_Shdr *sections = (Elf64_Shdr *)(object + header->e_shoff);
    for (int i = 0; i < header->e_shnum; i++)
        if (sections[i].sh_type == type) return &sections[i];
    ck_abort_msg("no section of type %u", type);
}

START_TEST(unknown_relocations_are_refused) {
    Elf64_Rela *rela = (Elf64_Rela *)(object + section_of_type(SHT_RELA)->sh_offset);
    const uint64_t kept = rela->r_info;
    rela->r_info = ELF64_R_INFO(ELF64_R_SYM(kept), R_X86_64_GOTTPOFF);
    LoadedCode *code;
    ck_assert_int_eq(loader_load(object, object_bytes, &code, NULL), ST_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error_slot()->message, "relocation type 22"));
    rela->r_info = kept;
}
END_TEST

/* Generated code imports nothing: no libm, no compiler runtime [semantics B4]. */
static const char *imported(void) {
    const Elf64_Shdr *symtab = section_of_type(SHT_SYMTAB);
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)object;
    const Elf64_Shdr *sections = (const Elf64_Shdr *)(object + header->e_shoff);
    const char *strings = (const char *)object + sections[symtab->sh_link].sh_offset;
    const Elf64_Sym *symbols = (const Elf64_Sym *)(object + symtab->sh_offset);
    for (size_t i = 1; i < symtab->sh_size / sizeof *symbols; i++)
        if (symbols[i].st_shndx == SHN_UNDEF) return strings + symbols[i].st_name;
    return NULL;
}

START_TEST(objects_import_nothing) {
    for (int prim = 0; prim < PRIM_COUNT; prim++) {
        if (!prim_has_type((Prim)prim, S_f32) || prim == PRIM_select || prim_returns_bool((Prim)prim)) continue;
        if (prim == PRIM_round_f16 || prim == PRIM_round_bf16) continue;
        for (int type = S_f32; type <= S_f64; type++) {
            free(object);
            compile_object(_i, prim % 2 ? RED_sum : RED_max, (Prim)prim, (SType)type);
            ck_assert_msg(!imported(), "%s imports %s", prim_name((Prim)prim), imported());
        }
    }
}
END_TEST

int main(void) {
    TCase *tests = tcase_create("loader");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, loads_and_finds);
    tcase_add_test(tests, failpoints_leave_nothing);
    tcase_add_test(tests, failures_are_coded);
    tcase_add_test(tests, allocation_failures);
    tcase_add_test(tests, truncated_objects);
    tcase_add_test(tests, flipped_bytes);
    tcase_add_test(tests, unknown_relocations_are_refused);
    tcase_add_loop_test(tests, objects_import_nothing, 0, ISA_COUNT);
    return suite_run("loader", tests);
}
