/* llvm_module.c: dlopen of the LLVM module, once. RTLD_LOCAL and a version check: the module has
 * its own copy of the base library, so errors come back as a message and are raised here, and
 * failpoints are handed over by pointer. */
#define _GNU_SOURCE /* dladdr */
#include "runtime/compile/llvm_module.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "runtime/base/bail.h"
#include "runtime/base/environment.h"
#include "runtime/base/error.h"
#include "runtime/core/background.h"
#include "runtime/core/profile.h"
#include "runtime/core/settings.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static const LlvmModuleTable *inner;
static LlvmModuleTable outer;
static char reason[512];

/* A private folder of this version, so that no other version's module is taken for its own. */
#define MODULE_FILE "libsinter-llvm.so"
#define MODULE      PRIVATE_FOLDER "/" MODULE_FILE

static Status compile_request(const CodegenRequest *request, CodegenResult *result) {
    CodegenRequest asked = *request;
    asked.failpoint = failpoint;
    const Status status = inner->compile(&asked, result);
    return status == ST_OK ? ST_OK : error_raise(status, "compiling with LLVM: %s", result->message);
}

/* The folder of the library or program that has this code inside, with a slash at its end; "": of none. */
static void own_folder(char *folder, size_t capacity) {
    Dl_info here;
    char self[2048] = {0};
    *folder = '\0';
    if (!dladdr((void *)&inner, &here) || !here.dli_fname) return;
    const char *file = here.dli_fname;
    if (!strchr(file, '/') && readlink("/proc/self/exe", self, sizeof self - 1) > 0)
        file = self; /* this program, named as its caller pleased */
    const char *const slash = strrchr(file, '/');
    if (slash) snprintf(folder, capacity, "%.*s", (int)(slash - file) + 1, file);
}

/* Beside the library (lib), or a program (bin) that has the library inside; as it is built, and as it is installed. */
static const char *const beside[] = {MODULE, "../lib/" MODULE, LIB_FROM_BIN "/" MODULE};

/* Where the module is: as SINTER_LLVM_MODULE says, or beside this code. NULL: at neither. */
static const char *find_beside(char *path, size_t capacity) {
    const char *const set = environment("SINTER_LLVM_MODULE");
    char folder[2048];
    if (set && *set) return set;
    own_folder(folder, sizeof folder);
    for (size_t i = 0; *folder && i < sizeof beside / sizeof *beside; i++) {
        snprintf(path, capacity, "%s%s", folder, beside[i]);
        if (access(path, R_OK) == 0) return path;
    }
    return NULL;
}

static void PRINTF_LIKE(1, 2) because(const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
}

/* Else where the linker of a program that is not installed said (a run path), or in the configured prefix. */
static void *open_found(const char **path, char *buffer, size_t capacity) {
    *path = find_beside(buffer, capacity);
    if (*path) return dlopen(*path, RTLD_NOW | RTLD_LOCAL);
    *path = MODULE_FILE;
    void *const handle = dlopen(*path, RTLD_NOW | RTLD_LOCAL);
    if (handle) return handle;
    *path = LIB_INSTALLED "/" MODULE;
    return dlopen(*path, RTLD_NOW | RTLD_LOCAL);
}

static void open_module(void) {
    char buffer[4096];
    const char *path;
    const int64_t start = clock_ns();
    void *handle = open_found(&path, buffer, sizeof buffer);
    profile_record_stage("open LLVM", start);
    if (!handle) {
        because("%s", dlerror());
        return;
    }
    const LlvmModuleTable *table = dlsym(handle, LLVM_MODULE_SYMBOL);
    if (!table || table->version != LLVM_MODULE_VERSION) {
        because("%s: version %u, this library wants %u", path, table ? table->version : 0, LLVM_MODULE_VERSION);
        dlclose(handle);
        return;
    }
    background_opened();
    inner = table;
    outer = *table;
    outer.compile = compile_request;
}

const LlvmModuleTable *llvm_module(void) {
    pthread_once(&once, open_module);
    return inner ? &outer : NULL;
}

void llvm_module_before_worker(void) {
#ifdef SINTER_SHARED_LLVM
    pthread_once(&once, open_module);
#endif
}

const char *llvm_module_reason(void) {
    pthread_once(&once, open_module);
    return reason;
}
