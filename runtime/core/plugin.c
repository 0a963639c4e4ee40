/* plugin.c: a plug-in is looked at (plugin_file.h), mapped with all its symbols, and started; where one of these fails,
 * the ops and overrides that it has registered by then are withdrawn. It is never unmapped: ops, and pointers into it
 * that somebody may have, live as long as the process. */
#define _GNU_SOURCE
#include "runtime/core/plugin.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <sinter/plugin.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/core/custom_op.h"
#include "runtime/core/frame.h"
#include "runtime/core/plugin_file.h"

typedef struct LoadedPlugin {
    struct LoadedPlugin *next;
    void *handle;
} LoadedPlugin;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the list; no code of a plug-in runs under it */
static LoadedPlugin *loaded;

static bool is_listed(const void *handle) {
    pthread_mutex_lock(&lock);
    const LoadedPlugin *plugin = loaded;
    while (plugin && plugin->handle != handle) plugin = plugin->next;
    pthread_mutex_unlock(&lock);
    return plugin != NULL;
}

static Status list_plugin(void *handle) {
    LoadedPlugin *const plugin = mem_alloc(sizeof *plugin);
    if (!plugin) return ST_MEMORY;
    pthread_mutex_lock(&lock);
    *plugin = (LoadedPlugin){loaded, handle};
    loaded = plugin;
    pthread_mutex_unlock(&lock);
    return ST_OK;
}

static Status check_file(const char *path) {
    char *bytes;
    size_t n;
    TRY(file_read(path, &bytes, &n));
    const Status status = plugin_file_check(path, bytes, n);
    mem_free(bytes);
    return status;
}

typedef struct PluginStart {
    union {
        void *symbol;
        sn_status (*function)(void);
    };
    sn_status returned;
} PluginStart;

static sn_status run_start(sn_frame *f) {
    PluginStart *const start = f->closure;
    start->returned = start->function();
    return SN_OK;
}

/* A callback like others: its modes and results end with it. */
static Status start_plugin(const char *path, void *handle) {
    PluginStart start = {{dlsym(handle, "sn_plugin_start")}, SN_OK};
    if (!start.symbol) return error_raise(ST_PARSE, "plug-in '%.300s' has no sn_plugin_start", path);
    sn_frame frame = {.what = "sn_plugin_start", .closure = &start};
    TRY(frame_run(&frame, run_start));
    if (start.returned == SN_OK) return list_plugin(handle);
    return error_raise(ST_CALLBACK, "plug-in '%.300s': its start returned '%s'", path,
                       status_name((Status)start.returned));
}

/* A plug-in finds the library's functions, though the program may have opened it for itself alone. */
static void show_library(void) {
    Dl_info info;
    if (dladdr((void *)(uintptr_t)plugin_load, &info) && info.dli_fname && strstr(info.dli_fname, "libsinter.so"))
        dlopen(info.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
}

static Status map_and_start(const char *path) {
    show_library();
    void *const handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) return error_raise(ST_IO, "plug-in '%.300s' cannot be loaded: %.600s", path, dlerror());
    if (is_listed(handle)) return ST_OK;
    TRY(error_pending()); /* its constructors' */
    return start_plugin(path, handle);
}

Status plugin_load(const char *path) {
    char whole[PATH_MAX];
    if (!realpath(path, whole)) return error_raise(ST_IO, "cannot open the plug-in '%.300s'", path);
    TRY(check_file(whole));
    const OpBatch batch = custom_op_begin();
    const Status status = map_and_start(whole);
    custom_op_end(batch, status != ST_OK);
    return status;
}

Status plugin_seal(const char *path) {
    char *bytes;
    size_t n;
    TRY(file_read(path, &bytes, &n));
    Status status = plugin_file_seal(path, bytes, n);
    if (status == ST_OK) status = file_replace(path, &(FileSpan){bytes, n}, 1);
    mem_free(bytes);
    return status;
}
