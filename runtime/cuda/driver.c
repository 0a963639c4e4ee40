/* driver.c: opens the driver once. Functions come from cuGetProcAddress, each in the form that its row was written for,
 * whatever the driver's own version; dlsym would give the oldest form of some. */
#include "runtime/cuda/driver.h"

#include <pthread.h>
#include <stdio.h>

#include "runtime/base/error.h"
#include "runtime/cuda/library.h"

#define HOW_TO_GET "install NVIDIA's driver, 525 or newer (CUDA 12.0)"

typedef CuResult GetProcAddress(const char *name, void **function, int version, unsigned long long flags, int *status);

static pthread_once_t once = PTHREAD_ONCE_INIT;
static Driver driver;
static bool is_open;
static LibraryReason reason;

/* What a driver older than cuGetProcAddress says of itself, 0: nothing. */
static int version_of_old(void *library) {
    CuResult (*get)(int *);
    int version = 0;
    return library_function(library, "cuDriverGetVersion", &get) && get(&version) == CU_success ? version : 0;
}

static bool too_old(int version) {
    return library_because(&reason, "the NVIDIA driver is too old: it has CUDA %d.%d; " HOW_TO_GET, version / 1000,
                           version % 1000 / 10);
}

static bool find_functions(GetProcAddress *get) {
    const struct {
        const char *name;
        int since;
        void *at;
    } rows[] = {
#define DRIVER(name, since, parameters) {"cu" #name, since, &driver.name},
#include "runtime/cuda/driver.def"
    };
    for (int i = 0; i < COUNT_OF(rows); i++) {
        int status;
        void *function = NULL;
        if (get(rows[i].name, &function, rows[i].since, 0, &status) != CU_success || !function)
            return library_because(&reason, "the NVIDIA driver has no %s; " HOW_TO_GET, rows[i].name);
        *(void **)rows[i].at = function;
    }
    return true;
}

/* No GPU is no error: there are 0 devices. */
static bool start(void) {
    const CuResult result = driver.Init(0);
    if (result == CU_no_device) return true;
    if (result == CU_success && driver.DeviceGetCount(&driver.devices) == CU_success) return true;
    return library_because(&reason, "the NVIDIA driver does not start: %s", driver_text(result, &(DriverText){{0}}));
}

static bool open_library(void *library) {
    GetProcAddress *get;
    if (!library_function(library, "cuGetProcAddress_v2", &get)) return too_old(version_of_old(library));
    if (!find_functions(get)) return false;
    if (driver.DriverGetVersion(&driver.version) != CU_success || driver.version < DRIVER_OLDEST)
        return too_old(driver.version);
    return start();
}

static void open_once(void) {
    static const LibrarySearch places = {.variable = "SINTER_CUDA_DRIVER", .names = {"libcuda.so.1"}};
    LibraryReason absent;
    void *const library = library_open(&places, &absent);
    if (library)
        is_open = open_library(library);
    else
        library_because(&reason, "there is no NVIDIA driver (%.400s); " HOW_TO_GET, absent.buffer);
}

const Driver *driver_find(const char **why) {
    pthread_once(&once, open_once);
    *why = reason.buffer;
    return is_open ? &driver : NULL;
}

Status driver_open(const Driver **out) {
    const char *why;
    *out = driver_find(&why);
    return *out ? ST_OK : error_raise(ST_DEVICE, "%s", why);
}

const char *driver_text(CuResult result, DriverText *text) {
    const char *name = NULL, *says = NULL;
    driver.GetErrorName(result, &name);
    driver.GetErrorString(result, &says);
    if (name)
        snprintf(text->buffer, sizeof text->buffer, "%s (%s)", name, says ? says : "");
    else
        snprintf(text->buffer, sizeof text->buffer, "result %d", result);
    return text->buffer;
}

typedef enum Fate { FATE_stays, FATE_lost } Fate;

bool driver_lost(CuResult result) {
    static const struct {
        CuResult result;
        Fate fate;
    } rows[] = {
#define RESULT(name, theirs, value, fate) {CU_##name, FATE_##fate},
#include "runtime/cuda/driver.def"
    };
    for (int i = 0; i < COUNT_OF(rows); i++)
        if (rows[i].result == result) return rows[i].fate == FATE_lost;
    return false;
}
