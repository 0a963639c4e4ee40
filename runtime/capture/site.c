/* site.c: names of call sites. With libdw (elfutils) present at run time the file and line; else
 * what the dynamic linker knows. libdw is opened on first use: neither needed to build nor to run.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "runtime/capture/function.h"

typedef struct Dwfl Dwfl;
typedef struct DwflModule DwflModule;
typedef struct DwflLine DwflLine;
typedef struct DwflCallbacks { /* layout of libdwfl.h's Dwfl_Callbacks */
    int (*find_elf)(void);
    int (*find_debuginfo)(void);
    int (*section_address)(void);
    char **debuginfo_path;
} DwflCallbacks;

static struct {
    Dwfl *(*begin)(const DwflCallbacks *);
    int (*report)(Dwfl *, pid_t);
    int (*report_end)(Dwfl *, void *, void *);
    DwflModule *(*module)(Dwfl *, uint64_t);
    DwflLine *(*line)(DwflModule *, uint64_t);
    const char *(*line_info)(DwflLine *, uint64_t *, int *, int *, uint64_t *, uint64_t *);
    DwflCallbacks callbacks;
    Dwfl *session;
} dw;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool find(void *library, const char *name, void *slot) {
    void *const symbol = dlsym(library, name);
    memcpy(slot, &symbol, sizeof symbol);
    return symbol != NULL;
}

static void open_libdw(void) {
    void *const library = dlopen("libdw.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) return;
    const bool whole = find(library, "dwfl_begin", &dw.begin) &&
                       find(library, "dwfl_linux_proc_report", &dw.report) &&
                       find(library, "dwfl_report_end", &dw.report_end) &&
                       find(library, "dwfl_addrmodule", &dw.module) &&
                       find(library, "dwfl_module_getsrc", &dw.line) &&
                       find(library, "dwfl_lineinfo", &dw.line_info) &&
                       find(library, "dwfl_linux_proc_find_elf", &dw.callbacks.find_elf) &&
                       find(library, "dwfl_standard_find_debuginfo", &dw.callbacks.find_debuginfo);
    if (!whole) return;
    dw.session = dw.begin(&dw.callbacks);
    if (dw.session && (dw.report(dw.session, getpid()) || dw.report_end(dw.session, NULL, NULL)))
        dw.session = NULL;
}

static bool by_line(uint64_t address, char *out, size_t room) {
    pthread_once(&once, open_libdw);
    if (!dw.session) return false;
    DwflModule *const module = dw.module(dw.session, address);
    DwflLine *const line = module ? dw.line(module, address) : NULL;
    int number = 0;
    const char *const file = line ? dw.line_info(line, NULL, &number, NULL, NULL, NULL) : NULL;
    if (!file) return false;
    const char *const base = strrchr(file, '/');
    snprintf(out, room, "%s:%d", base ? base + 1 : file, number);
    return true;
}

static void by_symbol(const void *site, char *out, size_t room) {
    Dl_info info;
    if (!dladdr(site, &info)) {
        snprintf(out, room, "%p", site);
        return;
    }
    const char *const slash = info.dli_fname ? strrchr(info.dli_fname, '/') : NULL;
    const char *const module = slash ? slash + 1 : info.dli_fname ? info.dli_fname : "?";
    const void *const base = info.dli_sname ? info.dli_saddr : info.dli_fbase;
    snprintf(out, room, "%s%s%s+0x%zx", module, info.dli_sname ? ":" : "",
             info.dli_sname ? info.dli_sname : "",
             (size_t)((const char *)site - (const char *)base));
}

void site_name(const void *site, char *out, size_t room) {
    out[0] = '\0';
    if (!site) {
        snprintf(out, room, "an unknown place");
        return;
    }
    const char *const call = (const char *)site - 1; /* a return address is just past its call */
    pthread_mutex_lock(&lock);
    const bool found = by_line((uint64_t)(uintptr_t)call, out, room);
    pthread_mutex_unlock(&lock);
    if (!found) by_symbol(call, out, room);
}
