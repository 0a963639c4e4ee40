/* bitcode_wrap.c: a build tool. Writes LLVM IR for the by-value functions of kernels/bitcode.h around the pointer
 * functions of cpu/bitcode.c:    bitcode_wrap LANES > wrap.ll
 *
 *     define <16 x float> @sn_exp_f32(<16 x float> %a0) #0 {
 *       %o = alloca <16 x float>  ...  store, call @in_exp_f32, load, ret */
#include "kernels/cpu/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int lanes;

static const char *element_type(const char *type) {
    static const char *const names[][2] = {{"f32", "float"}, {"f64", "double"}, {"i32", "i32"},
                                           {"i64", "i64"},   {"b", "i8"},       {"u16", "i16"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (!strcmp(names[i][0], type)) return names[i][1];
    exit(1);
}

static void vector_type(const char *type) { printf("<%d x %s>", lanes, element_type(type)); }

/* define R @sn_name(...) calling in_name; the operand list names n types. */
static void print_wrapper(const char *name, const char *result, int n, const char *const *types) {
    printf("declare void @in_%s(ptr", name);
    for (int i = 0; i < n; i++) printf(", ptr");
    printf(")\ndefine "), vector_type(result), printf(" @sn_%s(", name);
    for (int i = 0; i < n; i++) printf(i ? ", " : ""), vector_type(types[i]), printf(" %%a%d", i);
    printf(") #0 {\n  %%o = alloca "), vector_type(result), printf("\n");
    for (int i = 0; i < n; i++) printf("  %%p%d = alloca ", i), vector_type(types[i]), printf("\n");
    for (int i = 0; i < n; i++) printf("  store "), vector_type(types[i]), printf(" %%a%d, ptr %%p%d\n", i, i);
    printf("  call void @in_%s(ptr %%o", name);
    for (int i = 0; i < n; i++) printf(", ptr %%p%d", i);
    printf(")\n  %%r = load "), vector_type(result), printf(", ptr %%o\n  ret ");
    vector_type(result), printf(" %%r\n}\n");
}

/* The tree takes its 64 lanes as vectors, in_tree_* as an array. */
static void wrap_tree(const char *red, const char *type) {
    const int vectors = 64 / lanes;
    const char *scalar = element_type(type);
    printf("declare void @in_tree_%s_%s(ptr, ptr)\n", red, type);
    printf("define %s @sn_tree_%s_%s(", scalar, red, type);
    for (int i = 0; i < vectors; i++) printf(i ? ", " : ""), vector_type(type), printf(" %%a%d", i);
    printf(") #0 {\n  %%o = alloca %s\n  %%p = alloca [%d x ", scalar, vectors);
    vector_type(type), printf("]\n");
    for (int i = 0; i < vectors; i++) {
        printf("  %%p%d = getelementptr ", i), vector_type(type), printf(", ptr %%p, i64 %d\n", i);
        printf("  store "), vector_type(type), printf(" %%a%d, ptr %%p%d\n", i, i);
    }
    printf("  call void @in_tree_%s_%s(ptr %%o, ptr %%p)\n", red, type);
    printf("  %%r = load %s, ptr %%o\n  ret %s %%r\n}\n", scalar, scalar);
}

static void wrap_prim(const char *name, const char *type, int arity, const char *result) {
    char full[64];
    snprintf(full, sizeof full, "%s_%s", name, type);
    const char *const first = strcmp(name, "select") ? type : "b";
    print_wrapper(full, strcmp(result, "B") ? type : "b", arity, (const char *const[]){first, type, type});
}

static void wrap_cast(const char *from, const char *to) {
    char full[64];
    snprintf(full, sizeof full, "cast_%s_%s", from, to);
    print_wrapper(full, to, 1, &from);
}

int main(int argc, char **argv) {
    lanes = argc == 2 ? atoi(argv[1]) : 0;
    if (lanes != 4 && lanes != 8 && lanes != 16) return 2;
    printf("attributes #0 = { alwaysinline nounwind willreturn }\n");
#define CALL                                          1
#define OP(f, i)                                      0
#define CMP(f, i)                                     0
#define WRAP(T, name, arity, result, c)               IF_PRESENT(name, T)(if (c) wrap_prim(#name, #T, arity, #result);)
#define SCALAR(name, arity, types, result, llvm, ...) EACH_##types(WRAP, name, arity, result, llvm)
#include "ir/scalar.def"
#undef SCALAR
#define CAST(from, to) wrap_cast(#from, #to);
    EACH_CAST(CAST)
    const char *const half = "u16", *const single = "f32";
    print_wrapper("load_f16", "f32", 1, &half), print_wrapper("load_bf16", "f32", 1, &half);
    print_wrapper("store_f16", "u16", 1, &single), print_wrapper("store_bf16", "u16", 1, &single);
#define TREE(red, T) wrap_tree(#red, #T);
    EACH_REDUCTION(TREE, TREE)
    return 0;
}
