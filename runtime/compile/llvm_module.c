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

static Status compile_request(const CodegenRequest *request, CodegenResult *result) {
    CodegenRequest asked = *request;
    asked.failpoint = failpoint;
    const Status status = inner->compile(&asked, result);
    return status == ST_OK ? ST_OK : error_raise(status, "compiling with LLVM: %s", result->message);
}

static void find_path(char *path, size_t capacity) {
    const char *set = environment("SINTER_LLVM_MODULE");
    if (set && *set) {
        snprintf(path, capacity, "%s", set);
        return;
    }
    Dl_info here;
    snprintf(path, capacity, "libsinter-llvm.so");
    if (!dladdr((void *)&inner, &here) || !here.dli_fname) return;
    char self[2048] = {0};
    const char *file = here.dli_fname;
    if (!strchr(file, '/') && readlink("/proc/self/exe", self, sizeof self - 1) > 0)
        file = self; /* this program, named as its caller pleased */
    const char *const slash = strrchr(file, '/');
    const int folder = slash ? (int)(slash - file) + 1 : 0;
    snprintf(path, capacity, "%.*slibsinter-llvm.so", folder, file);
    if (access(path, R_OK) != 0) /* a program that has the library inside: bin/ beside lib/ */
        snprintf(path, capacity, "%.*s../lib/libsinter-llvm.so", folder, file);
}

static void PRINTF_LIKE(1, 2) because(const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
}

static void open_module(void) {
    char path[4096];
    const int64_t start = clock_ns();
    find_path(path, sizeof path);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
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
