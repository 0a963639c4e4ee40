/* bitcode_split.c: a build tool. Cuts a module of primitives into one module per function, so that a compile
 * reads only what it uses:
 *
 *     bitcode_split bitcode_v4.bc parts_v4.bin parts_v4.inc
 *
 * The .bin file holds the modules one after the other, the .inc file a row of each, {"sn_exp_f32", offset, bytes},
 * sorted by name. Helpers go into every part that needs them, linkonce: linked twice they are there once. */
#include <llvm-c/BitReader.h>
#include <llvm-c/BitWriter.h>
#include <llvm-c/Core.h>
#include <llvm-c/Error.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FUNCTIONS = 1024 };

static void die(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fputs("bitcode_split: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

static LLVMModuleRef read_module(LLVMContextRef context, const char *path) {
    LLVMMemoryBufferRef buffer;
    LLVMModuleRef module;
    char *text = NULL;
    if (LLVMCreateMemoryBufferWithContentsOfFile(path, &buffer, &text)) die("%s", text);
    if (LLVMParseBitcodeInContext2(context, buffer, &module)) die("%s does not parse", path);
    LLVMDisposeMemoryBuffer(buffer);
    return module;
}

static bool is_primitive(LLVMValueRef f) { return !LLVMIsDeclaration(f) && LLVMGetLinkage(f) == LLVMExternalLinkage; }

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* Of all primitives, sorted; never freed. */
static int read_names(const char *path, char **names) {
    const LLVMContextRef context = LLVMContextCreate();
    const LLVMModuleRef module = read_module(context, path);
    int n = 0;
    for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f)) {
        size_t length;
        if (!is_primitive(f)) continue;
        if (n == MAX_FUNCTIONS) die("more than %d functions", MAX_FUNCTIONS);
        names[n++] = strdup(LLVMGetValueName2(f, &length));
    }
    LLVMDisposeModule(module);
    LLVMContextDispose(context);
    qsort(names, (size_t)n, sizeof *names, by_name);
    return n;
}

static void run_passes(LLVMModuleRef module, const char *pipeline) {
    const LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
    const LLVMErrorRef error = LLVMRunPasses(module, pipeline, NULL, options);
    LLVMDisposePassBuilderOptions(options);
    if (error) die("%s", LLVMGetErrorMessage(error));
}

/* What `name` does not need goes. */
static void keep_only(LLVMModuleRef module, const char *name) {
    for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f)) {
        size_t length;
        if (is_primitive(f) && strcmp(LLVMGetValueName2(f, &length), name) != 0) LLVMSetLinkage(f, LLVMInternalLinkage);
    }
    run_passes(module, "globaldce,strip-dead-prototypes");
    for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f))
        if (!LLVMIsDeclaration(f)) LLVMSetLinkage(f, LLVMLinkOnceODRLinkage);
    for (LLVMValueRef g = LLVMGetFirstGlobal(module); g; g = LLVMGetNextGlobal(g))
        LLVMSetLinkage(g, LLVMLinkOnceODRLinkage);
}

static size_t write_part(const char *path, const char *name, FILE *bin) {
    const LLVMContextRef context = LLVMContextCreate();
    const LLVMModuleRef module = read_module(context, path);
    keep_only(module, name);
    const LLVMMemoryBufferRef part = LLVMWriteBitcodeToMemoryBuffer(module);
    const size_t bytes = LLVMGetBufferSize(part);
    if (fwrite(LLVMGetBufferStart(part), 1, bytes, bin) != bytes) die("writing failed");
    LLVMDisposeMemoryBuffer(part);
    LLVMDisposeModule(module);
    LLVMContextDispose(context);
    return bytes;
}

static FILE *create(const char *path) {
    FILE *const file = fopen(path, "wb");
    if (!file) die("%s cannot be written", path);
    return file;
}

int main(int argc, char **argv) {
    static char *names[MAX_FUNCTIONS];
    if (argc != 4) die("usage: bitcode_split IN.bc OUT.bin OUT.inc");
    const int n = read_names(argv[1], names);
    FILE *const bin = create(argv[2]), *const index = create(argv[3]);
    size_t at = 0;
    for (int i = 0; i < n; i++) {
        const size_t bytes = write_part(argv[1], names[i], bin);
        fprintf(index, "{\"%s\", %zu, %zu},\n", names[i], at, bytes);
        at += bytes;
    }
    if (fclose(bin) || fclose(index)) die("writing failed");
    return 0;
}
