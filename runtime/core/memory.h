/* memory.h: a device's memory, in core's terms: the functions that a storage points at. Each device brings its own as
 * the head of its DeviceRow (device/device.h), so that core, which makes, fills, copies and frees storages, calls the
 * object that it has in hand and no layer above itself.
 *
 *   storage->memory->free(storage->memory, storage->data, storage->bytes)
 *   memory_of_device(device)->allocate(...)     where there is no storage yet */
#ifndef SINTER_RUNTIME_MEMORY_H
#define SINTER_RUNTIME_MEMORY_H
#include <sinter/device.h>

#include "runtime/core/dispatch.h"

struct Memory {
    Device device; /* the first of those that the key serves */
    /* Of a key with several devices, which is registered by the first: the others' (NULL: no device can have this
     * number). NULL: there is one. */
    const Memory *(*other)(Device device);
    /* Addresses of the device, to which offsets in bytes are added; the host dereferences only its own. bytes is never
     * 0 in copy and fill, and a block never NULL. */
    void *(*allocate)(const Memory *memory, size_t bytes); /* 64-byte aligned, uninitialised; NULL raises */
    void (*free)(const Memory *memory, void *block, size_t bytes);
    Status (*copy)(const Memory *memory, void *to, const void *from, size_t bytes, sn_copy_way way);
    Status (*fill)(const Memory *memory, void *block, int byte, size_t bytes);
    /* Waits for all that was begun and may still use memory; raises nothing. NULL: work is done when its call
     * returns. */
    void (*drain)(const Memory *memory);
    /* What is free and may be kept for later: what is above is given back. NULL: no setting says how much. */
    void (*keep_at_most)(const Memory *memory, size_t bytes);
    /* Around a kernel that the program has written for an op here, on its thread. writes: memory that others see. NULL:
     * nothing is to be done. */
    Status (*body_begin)(const Memory *memory, bool writes);
    void (*body_end)(const Memory *memory); /* where that was ST_OK */
};

extern _Atomic(const Memory *) memory_by_key[KEY_COUNT]; /* of a backend's first device */

void memory_register(Key backend, const Memory *memory); /* NULL withdraws it */
const Memory *memory_of_device(Device device);           /* NULL: nobody registered it */
const Memory *memory_needed(Device device);              /* the same, and NULL raises */
/* The host's, which is there before the first tensor is. */
static inline const Memory *memory_host(void) {
    return atomic_load_explicit(&memory_by_key[KEY_cpu], memory_order_relaxed);
}

/* Between any two; by way of the host where neither is the host's and they are not one. */
Status memory_copy(const Memory *to_memory, void *to, const Memory *from_memory, const void *from, size_t bytes);
Status memory_fill(const Memory *memory, void *block, int byte, size_t bytes);
void memory_drain(const Memory *memory);

#endif
