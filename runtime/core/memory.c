/* memory.c: the memories of devices, by the key of their backend. Rows are added at start and by the program and never
 * taken away, but for those of a plug-in whose start fails, so that reading takes no lock. */
#include "runtime/core/memory.h"

#include "runtime/base/alloc.h"

_Atomic(const Memory *) memory_by_key[KEY_COUNT];

void memory_register(Key backend, const Memory *memory) {
    atomic_store_explicit(&memory_by_key[backend], memory, memory_order_release);
}

const Memory *memory_of_device(Device device) {
    const int key = __builtin_ctzll(key_of_device(device));
    const Memory *const memory = atomic_load_explicit(&memory_by_key[key], memory_order_acquire);
    return LIKELY(!memory || memory->device == device || !memory->other) ? memory : memory->other(device);
}

const Memory *memory_needed(Device device) {
    const Memory *const memory = memory_of_device(device);
    if (UNLIKELY(!memory)) error_raise(ST_DEVICE, "%s: this device has no memory here", DEVICE_TEXT(device));
    return memory;
}

/* Neither is the host's. */
static Status copy_by_host(const Memory *to_memory, void *to, const Memory *from_memory, const void *from,
                           size_t bytes) {
    void *const between = mem_alloc(bytes);
    if (!between) return error_raise(ST_MEMORY, "out of memory: %zu bytes", bytes);
    Status status = from_memory->copy(from_memory, between, from, bytes, SN_COPY_TO_HOST);
    if (status == ST_OK) status = to_memory->copy(to_memory, to, between, bytes, SN_COPY_FROM_HOST);
    mem_free(between);
    return status;
}

Status memory_copy(const Memory *to_memory, void *to, const Memory *from_memory, const void *from, size_t bytes) {
    if (!bytes) return ST_OK;
    if (to_memory == from_memory) return to_memory->copy(to_memory, to, from, bytes, SN_COPY_WITHIN);
    if (device_is_host(from_memory->device)) return to_memory->copy(to_memory, to, from, bytes, SN_COPY_FROM_HOST);
    if (device_is_host(to_memory->device)) return from_memory->copy(from_memory, to, from, bytes, SN_COPY_TO_HOST);
    return copy_by_host(to_memory, to, from_memory, from, bytes);
}

Status memory_fill(const Memory *memory, void *block, int byte, size_t bytes) {
    return bytes ? memory->fill(memory, block, byte, bytes) : ST_OK;
}

void memory_drain(const Memory *memory) {
    if (memory && memory->drain) memory->drain(memory);
}
