/* device.c: see device.h. Names of registered devices are written once, and counted after, so that readers take no
 * lock. */
#include "ir/device.h"

#include <ctype.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/error.h"

static char names[SPARE_DEVICES][DEVICE_NAME_MAX + 1];
static _Atomic int n_names;

static int count_devices(void) { return atomic_load_explicit(&n_names, memory_order_acquire); }

bool device_exists(int64_t device) {
    return device == DEV_cpu || device == DEV_meta || (device >= DEV_cuda && device <= INT32_MAX) ||
           (device >= DEV_spare && device < DEV_spare + count_devices() && *names[device - DEV_spare]);
}

static _Atomic uint64_t executors; /* by kind of device: cuda, spare ones */

static uint64_t executor_bit(Device device) {
    return UINT64_C(1) << (device >= DEV_cuda ? 0 : device_is_spare(device) ? 1 + device - DEV_spare : 63);
}

bool device_has_executor(Device device) {
    return device_is_host(device) || (device_has_memory(device) && atomic_load(&executors) & executor_bit(device));
}

void device_executor_set(Device device) { atomic_fetch_or(&executors, executor_bit(device)); }

const char *device_text(Device device, DeviceText *text) {
    if (device == DEV_cpu) return "cpu";
    if (device == DEV_meta) return "meta";
    if (device >= DEV_cuda)
        snprintf(text->buffer, sizeof text->buffer, "cuda:%d", (int)(device - DEV_cuda));
    else if (device_exists(device))
        return names[device - DEV_spare];
    else
        snprintf(text->buffer, sizeof text->buffer, "device %d", (int)device);
    return text->buffer;
}

static size_t word_length(const char *text) {
    size_t n = 0;
    while (isalnum((unsigned char)text[n]) || text[n] == '_') n++;
    return n;
}

static bool is_word(const char *text, size_t n, const char *name) {
    return strlen(name) == n && !memcmp(text, name, n);
}

static bool parse_index(const char *text, const char **end, Device *device) {
    char *after;
    if (!isdigit((unsigned char)*text)) return false;
    const long index = strtol(text, &after, 10);
    if (index > INT32_MAX - DEV_cuda) return false;
    *device = DEV_cuda + (Device)index;
    *end = after;
    return true;
}

bool device_parse(const char *text, const char **end, Device *device) {
    const size_t n = word_length(text);
    if (is_word(text, n, "cuda") && text[n] == ':') return parse_index(text + n + 1, end, device);
    *end = text + n;
    *device = is_word(text, n, "cpu") ? DEV_cpu : is_word(text, n, "meta") ? DEV_meta : -1;
    for (int i = 0; i < count_devices() && *device < 0; i++)
        if (is_word(text, n, names[i])) *device = DEV_spare + i;
    return *device >= 0;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void device_name_withdraw(Device device) {
    pthread_mutex_lock(&lock);
    *names[device - DEV_spare] = '\0';
    if (device - DEV_spare == count_devices() - 1) atomic_fetch_sub(&n_names, 1);
    pthread_mutex_unlock(&lock);
}

Device device_name_add(const char *name) {
    const char *end;
    Device other = -1;
    const size_t n = word_length(name);
    if (!n || name[n] || n > DEVICE_NAME_MAX || is_word(name, n, "cuda") || isdigit((unsigned char)*name)) {
        error_raise(ST_ARGUMENT, "'%.40s' is no name for a device", name);
        return -1;
    }
    pthread_mutex_lock(&lock);
    const int i = count_devices();
    if (device_parse(name, &end, &other)) {
        error_raise(ST_ARGUMENT, "there is a device %s already", name);
        other = -1;
    } else if (i == SPARE_DEVICES) {
        error_raise(ST_UNSUPPORTED, "device %s: there are %d registered ones already", name, SPARE_DEVICES);
    } else {
        memcpy(names[i], name, n + 1);
        other = DEV_spare + i;
        atomic_store_explicit(&n_names, i + 1, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
    return other;
}
