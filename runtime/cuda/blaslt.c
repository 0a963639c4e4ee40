/* blaslt.c: see blaslt.h. */
#define _GNU_SOURCE /* dladdr */
#include "runtime/cuda/blaslt.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "runtime/cuda/library.h"

#define HOW_TO_GET                                                                                                     \
    "install NVIDIA's CUDA toolkit 12.0 or newer, or PyPI's nvidia-cublas (nvidia-cublas-cu12 for a driver that has "  \
    "CUDA 12) in the active virtual environment"

enum { OLDEST = 120000 };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static Blaslt table;
static bool is_open;
static LibraryReason reason;

static void find_path(void) {
    Dl_info from;
    void *address;
    memcpy(&address, &table.GetVersion, sizeof address);
    if (dladdr(address, &from) && from.dli_fname) snprintf(table.path, sizeof table.path, "%s", from.dli_fname);
}

static bool open_functions(void *library) {
    const struct {
        const char *name;
        void *at;
    } rows[] = {
#define BLASLT(type, name, parameters) {"cublasLt" #name, &table.name},
#include "runtime/cuda/blaslt.def"
    };
    for (int i = 0; i < COUNT_OF(rows); i++)
        if (!library_function(library, rows[i].name, rows[i].at))
            return library_because(&reason, "cuBLASLt has no %s; " HOW_TO_GET, rows[i].name);
    find_path();
    table.version = (int)table.GetVersion();
    if (table.version >= OLDEST) return true;
    return library_because(&reason, "cuBLASLt %d is too old; " HOW_TO_GET, table.version);
}

static void open_once(void) {
    static const LibrarySearch places = {
        .variable = "SINTER_CUDA_BLASLT", .names = {"libcublasLt.so.13", "libcublasLt.so.12"}, .toolkit = true};
    LibraryReason absent;
    void *const library = library_open(&places, &absent);
    if (library)
        is_open = open_functions(library);
    else
        library_because(&reason, "there is no cuBLASLt (%.200s); " HOW_TO_GET, absent.buffer);
}

const Blaslt *blaslt_find(const char **why) {
    pthread_once(&once, open_once);
    *why = reason.buffer;
    return is_open ? &table : NULL;
}
