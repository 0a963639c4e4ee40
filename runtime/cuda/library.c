/* library.c: see library.h. A library that is opened by its path finds the ones beside it only where its makers said
 * so, which NVIDIA's toolkit does not: its helper is opened before it, and is then known by its name. */
#include "runtime/cuda/library.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdarg.h>
#include <stdio.h>

#include "runtime/base/environment.h"
#include "runtime/core/background.h"
#include "runtime/core/settings.h"

static const struct {
    const char *variable; /* that names where the pattern begins; NULL: the pattern is whole */
    const char *pattern;
} folders[] = {
    {"CUDA_HOME", "/lib64"},
    {"CUDA_HOME", "/lib"},
    {"CUDA_PATH", "/lib64"},
    {NULL, "/usr/local/cuda/lib64"},
    {NULL, "/usr/local/cuda-*/lib64"},
    {NULL, "/usr/local/cuda/lib"},
    {"VIRTUAL_ENV", "/lib/python3*/site-packages/nvidia/*/lib"},
    {"CONDA_PREFIX", "/lib"},
    {"CONDA_PREFIX", "/lib/python3*/site-packages/nvidia/*/lib"},
    {"HOME", "/.local/lib/python3*/site-packages/nvidia/*/lib"},
    {NULL, "/usr/local/lib/python3*/*-packages/nvidia/*/lib"},
    {NULL, "/usr/lib/python3*/*-packages/nvidia/*/lib"},
};

bool library_because(LibraryReason *why, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(why->buffer, sizeof why->buffer, format, args);
    va_end(args);
    return false;
}

bool library_function(void *library, const char *name, void *at) {
    return (*(void **)at = dlsym(library, name)) != NULL;
}

static void *open_file(const char *file, LibraryReason *why) {
    void *const library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (library)
        background_opened();
    else
        library_because(why, "%s", dlerror());
    return library;
}

/* Of several versions of a toolkit the last name is the newest. */
static void *open_last(const char *pattern, LibraryReason *why) {
    glob_t found;
    void *library = NULL;
    if (glob(pattern, 0, NULL, &found)) return NULL;
    for (size_t i = found.gl_pathc; i-- && !library;) library = open_file(found.gl_pathv[i], why);
    globfree(&found);
    return library;
}

static void *open_in(const LibrarySearch *places, const char *folder, LibraryReason *why) {
    char pattern[4096];
    void *library = NULL;
    if (places->helper) {
        snprintf(pattern, sizeof pattern, "%s/%s", folder, places->helper);
        open_last(pattern, &(LibraryReason){{0}});
    }
    for (int i = 0; places->names[i] && !library; i++) {
        snprintf(pattern, sizeof pattern, "%s/%s", folder, places->names[i]);
        library = open_last(pattern, why);
    }
    return library;
}

/* The folders that are there, the newest first: a helper must come from where its library does. */
static void *open_beneath(const LibrarySearch *places, int row, LibraryReason *why) {
    char pattern[4096];
    glob_t found;
    void *library = NULL;
    const char *const variable = folders[row].variable, *const start = variable ? environment(variable) : "";
    if (!start || (variable && !*start)) return NULL;
    snprintf(pattern, sizeof pattern, "%s%s", start, folders[row].pattern);
    if (glob(pattern, 0, NULL, &found)) return NULL;
    for (size_t i = found.gl_pathc; i-- && !library;) library = open_in(places, found.gl_pathv[i], why);
    globfree(&found);
    return library;
}

void *library_open(const LibrarySearch *places, LibraryReason *why) {
    const char *const set = environment(places->variable);
    if (set && *set) return open_file(set, why);
    void *library = NULL;
    for (int i = 0; places->names[i] && !library; i++)
        library = open_file(places->names[i], i ? &(LibraryReason){{0}} : why);
    for (int i = 0; places->toolkit && !library && i < COUNT_OF(folders); i++) library = open_beneath(places, i, why);
    return library;
}
