/* check_layers.c: every #include "..." line of the tree against the table of layers (design section 2). A file's folder
 * has the layer of the longest prefix that matches; it may include the prefixes that its row lists. <sinter/...> counts
 * as frontend/sinter/. Usage: check_layers ROOT. Prints "file:line: why", exits 1 if there was one. */
#define _XOPEN_SOURCE 700
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "tests/tree_files.h"

typedef struct Layer {
    const char *folder, *may; /* `may`: prefixes separated by spaces; a folder may always include itself */
} Layer;

#define BELOW_CAPTURE                                                                                                  \
    "runtime/base/ runtime/core/ runtime/device/ runtime/compile/ runtime/eager/ runtime/autograd/ ir/ "               \
    "frontend/sinter/"

/* Whatever watches a call is its tracer to the frontend (runtime/core/tracer.h): no file of capture/record. */
#define BESIDE_RECORD                                                                                                  \
    "runtime/base/ runtime/core/ runtime/device/ runtime/compile/ runtime/eager/ runtime/cpu/ runtime/cuda/ "          \
    "runtime/autograd/ runtime/capture/flow/ runtime/capture/variant/ runtime/capture/training/ "                      \
    "runtime/capture/replay/ runtime/capture/function/ runtime/transform/ "

static const Layer layers[] = {
    {"runtime/base/", ""},
    {"ir/", "runtime/base/"},
    {"kernels/", "runtime/base/ ir/dtype.h ir/dtype.def ir/order.h ir/scalar.def"},
    {"passes/", "runtime/base/ ir/"},
    {"codegen/", "runtime/base/ ir/"},
    {"codegen/shape/", "runtime/base/ ir/"},
    {"codegen/cuda/", "runtime/base/ ir/ codegen/shape/ kernels/cuda/"},
    {"codegen/llvm/", "runtime/base/ ir/ codegen/codegen.h codegen/shape/ kernels/bitcode.h kernels/kernels.h "
                      "kernels/levels.h"},
    /* the public headers declare what the runtime implements */
    {"runtime/", "runtime/base/ ir/ kernels/ passes/passes.h passes/rules/ frontend/sinter/ "
                 "codegen/codegen.h codegen/shape/ codegen/block/"},
    {"runtime/core/", "runtime/base/ ir/ frontend/sinter/ kernels/kernels.h passes/passes.h"},
    /* what a lower one of these asks of a higher one is a row of core/hooks.h, which start.c fills */
    {"runtime/device/", "runtime/base/ runtime/core/ ir/ frontend/sinter/ kernels/kernels.h codegen/codegen.h"},
    {"runtime/compile/", "runtime/base/ runtime/core/ runtime/device/ ir/ kernels/kernels.h passes/passes.h "
                         "codegen/codegen.h codegen/shape/ codegen/cuda/"},
    {"runtime/eager/", "runtime/base/ runtime/core/ runtime/device/ runtime/compile/ ir/ frontend/sinter/ "
                       "kernels/kernels.h passes/passes.h"},
    {"runtime/cpu/", "runtime/base/ runtime/core/ runtime/device/ runtime/eager/ ir/ frontend/sinter/ "
                     "kernels/kernels.h codegen/codegen.h codegen/block/"},
    {"runtime/cuda/", "runtime/base/ runtime/core/ runtime/device/ runtime/eager/ ir/ frontend/sinter/ "
                      "kernels/kernels.h kernels/cuda/ codegen/codegen.h codegen/cuda/"},
    {"runtime/autograd/",
     "runtime/base/ runtime/core/ runtime/device/ runtime/compile/ ir/ frontend/sinter/ passes/passes.h passes/rules/"},
    /* record < flow, variant < training, replay < function; what goes up is called through the function in hand */
    {"runtime/capture/record/", BELOW_CAPTURE},
    {"runtime/capture/flow/", BELOW_CAPTURE " runtime/capture/record/ passes/passes.h"},
    {"runtime/capture/variant/", BELOW_CAPTURE " runtime/capture/record/"},
    {"runtime/capture/training/", BELOW_CAPTURE " runtime/capture/record/ runtime/capture/variant/"},
    {"runtime/capture/replay/", BELOW_CAPTURE " runtime/capture/record/ runtime/capture/variant/"},
    {"runtime/capture/function/", BELOW_CAPTURE " runtime/capture/"},
    {"runtime/transform/", BELOW_CAPTURE " runtime/capture/ passes/passes.h"},
    {"frontend/", BESIDE_RECORD "ir/ kernels/ passes/ codegen/codegen.h"},
    /* files of others as graphs: text, and tensors by the public functions */
    {"frontend/import/", "runtime/base/ ir/ frontend/sinter/"},
    {"frontend/api/", BESIDE_RECORD "ir/ kernels/ passes/ codegen/codegen.h frontend/sinter/ frontend/lib/ "
                                    "frontend/import/ frontend/api.def"},
    /* written as a user would: what it lacks becomes public, or the file is in api/ */
    {"frontend/lib/", "runtime/base/ frontend/sinter/"},
    {"frontend/tool/", BESIDE_RECORD "ir/ kernels/ passes/ codegen/codegen.h codegen/shape/ codegen/cuda/ frontend/ "
                                     "samples/work.h"},
    {"frontend/sinter/", ""},
    {"samples/", "frontend/sinter/"},
    {"tests/", "runtime/ ir/ kernels/ passes/ codegen/ frontend/ tests/"},
    {"tests/samples/", "frontend/sinter/ samples/work.h"},
};

/* The only folders that may include LLVM's headers or NVIDIA's: those that a test compares our declarations with. */
static const Layer foreign[] = {{"llvm-c/", "codegen/llvm/"}, {"cuda", "tests/cuda/"}, {"nvrtc", "tests/cuda/"}};

static int problems;

static bool starts(const char *text, const char *prefix) { return !strncmp(text, prefix, strlen(prefix)); }

static const Layer *layer_of(const char *path) {
    const Layer *best = NULL;
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
        if (starts(path, layers[i].folder) && (!best || strlen(layers[i].folder) > strlen(best->folder)))
            best = &layers[i];
    return best;
}

static bool allowed(const Layer *layer, const char *included) {
    if (starts(included, layer->folder)) return true;
    for (const char *p = layer->may; *p;) {
        const size_t n = strcspn(p, " ");
        if (!strncmp(included, p, n)) return true;
        p += n + (p[n] == ' ');
    }
    return false;
}

static void complain(const char *path, int line, const char *included, const char *why) {
    printf("%s:%d: includes %s: %s\n", path, line, included, why);
    problems++;
}

static void check_include(const char *path, int line, const char *included) {
    char target[512];
    snprintf(target, sizeof target, "%s%s", starts(included, "sinter/") ? "frontend/" : "", included);
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        if (starts(included, foreign[i].folder) && !starts(path, foreign[i].may))
            complain(path, line, included, "not here");
    const Layer *const layer = layer_of(path);
    if (!layer || !strchr(target, '/') || !layer_of(target)) return; /* system headers, generated files */
    if (!allowed(layer, target)) complain(path, line, included, "not in the table of layers");
}

static void check_file(const char *root, const char *path) {
    char full[4096], text[2048];
    snprintf(full, sizeof full, "%s/%s", root, path);
    FILE *const file = fopen(full, "r");
    if (!file) return;
    for (int line = 1; fgets(text, sizeof text, file); line++) {
        char included[512];
        if (sscanf(text, " # include \"%511[^\"]\"", included) == 1)
            check_include(path, line, included);
        else if (sscanf(text, " # include <%511[^>]>", included) == 1)
            check_include(path, line, included);
    }
    fclose(file);
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    static const char *const folders[] = {"runtime/", "ir/",       "kernels/", "passes/",
                                          "codegen/", "frontend/", "samples/", "tests/"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        each_file(argv[1], folders[i], " c h def ", check_file);
    printf("%d problems\n", problems);
    return problems != 0;
}
