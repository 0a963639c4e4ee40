/* mapping.c: the emulated device's addresses apart from its memory, as cuMemAddressReserve, cuMemCreate and cuMemMap
 * have them. Reserved addresses lie behind those of blocks; memory is mapped there whole, by pages of 2 MiB, and
 * unmapped as it was mapped; it may be accessed when cuMemSetAccess has said so. An access may go over mappings that
 * lie side by side. Mapped memory is full of poison; unmapped memory is given back to the host. */
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>

#include "tests/emulator/gpu.h"

enum { FRESH = 0xff };

static bool is_in(size_t at, size_t n, size_t from, size_t bytes) {
    return at >= from && at - from <= bytes && n <= bytes - (at - from);
}

static bool is_paged(size_t bytes) { return bytes && bytes % GPU_PAGE == 0; }

/* addresses -------------------------------------------------------------------------------------- */

static bool is_unreserved(const Gpu *gpu, size_t at, size_t bytes) {
    for (int i = 0; i < gpu->n_reserved; i++)
        if (at < gpu->reserved[i].at + gpu->reserved[i].bytes && gpu->reserved[i].at < at + bytes) return false;
    return true;
}

CuResult mapping_reserve(Gpu *gpu, CuAddress *address, size_t bytes) {
    if (!is_paged(bytes)) return CU_invalid_value;
    size_t at = (gpu_blocks_size() + GPU_PAGE - 1) / GPU_PAGE * GPU_PAGE;
    while (at + bytes <= gpu_window_size() && !is_unreserved(gpu, at, bytes)) at += GPU_PAGE;
    if (at + bytes > gpu_window_size() || gpu->n_reserved == GPU_RESERVED) return CU_out_of_memory;
    gpu->reserved[gpu->n_reserved++] = (GpuReserved){at, bytes};
    *address = (CuAddress)(uintptr_t)gpu->window + at;
    return CU_success;
}

CuResult mapping_unreserve(Gpu *gpu, CuAddress address, size_t bytes) {
    const size_t at = gpu_place(gpu, address);
    for (int i = 0; i < gpu->n_mappings; i++)
        if (is_in(gpu->mappings[i].at, 0, at, bytes)) return CU_invalid_value;
    for (int i = 0; i < gpu->n_reserved; i++) {
        if (gpu->reserved[i].at != at || gpu->reserved[i].bytes != bytes) continue;
        gpu->reserved[i] = gpu->reserved[--gpu->n_reserved];
        return CU_success;
    }
    return CU_invalid_value;
}

/* memory ----------------------------------------------------------------------------------------- */

static GpuHandle *handle_of(Gpu *gpu, CuMemHandle handle) {
    GpuHandle *const known = handle && handle <= GPU_MAPPINGS ? &gpu->handles[handle - 1] : NULL;
    return known && known->bytes && !known->released ? known : NULL;
}

static void end_unused(Gpu *gpu, GpuHandle *handle) {
    if (!handle->released || handle->mapped) return;
    gpu->used -= handle->bytes;
    emulator_counts.blocks--, emulator_counts.bytes -= (int64_t)handle->bytes;
    *handle = (GpuHandle){0};
}

CuResult mapping_create(Gpu *gpu, CuMemHandle *handle, size_t bytes) {
    int i = 0;
    if (!is_paged(bytes)) return CU_invalid_value;
    while (i < GPU_MAPPINGS && gpu->handles[i].bytes) i++;
    if (i == GPU_MAPPINGS || bytes > gpu_capacity() - gpu->used) return CU_out_of_memory;
    gpu->handles[i] = (GpuHandle){.bytes = bytes};
    gpu->used += bytes;
    emulator_counts.blocks++, emulator_counts.bytes += (int64_t)bytes;
    *handle = (CuMemHandle)i + 1;
    return CU_success;
}

CuResult mapping_release(Gpu *gpu, CuMemHandle handle) {
    GpuHandle *const known = handle_of(gpu, handle);
    if (!known) return CU_invalid_value;
    known->released = true;
    end_unused(gpu, known);
    return CU_success;
}

/* both ------------------------------------------------------------------------------------------- */

static GpuMapping *mapping_at(Gpu *gpu, size_t at, size_t bytes) {
    for (int i = 0; i < gpu->n_mappings; i++)
        if (gpu->mappings[i].at == at && gpu->mappings[i].bytes == bytes) return &gpu->mappings[i];
    return NULL;
}

static bool can_map(const Gpu *gpu, size_t at, size_t bytes) {
    bool reserved = false;
    for (int i = 0; i < gpu->n_reserved; i++) reserved |= is_in(at, bytes, gpu->reserved[i].at, gpu->reserved[i].bytes);
    for (int i = 0; i < gpu->n_mappings; i++)
        if (at < gpu->mappings[i].at + gpu->mappings[i].bytes && gpu->mappings[i].at < at + bytes) return false;
    return reserved && at % GPU_PAGE == 0 && gpu->n_mappings < GPU_MAPPINGS;
}

CuResult mapping_map(Gpu *gpu, CuAddress address, size_t bytes, CuMemHandle handle) {
    GpuHandle *const known = handle_of(gpu, handle);
    const size_t at = gpu_place(gpu, address);
    if (!known || known->bytes != bytes || !can_map(gpu, at, bytes)) return CU_invalid_value;
    gpu->mappings[gpu->n_mappings++] = (GpuMapping){.at = at, .bytes = bytes, .handle = (int)handle - 1};
    known->mapped++;
    memset(gpu->bytes + at, FRESH, bytes);
    return CU_success;
}

CuResult mapping_allow(Gpu *gpu, CuAddress address, size_t bytes) {
    GpuMapping *const mapping = mapping_at(gpu, gpu_place(gpu, address), bytes);
    if (!mapping) return CU_invalid_value;
    mapping->may = true;
    gpu_set_valid(gpu, mapping->at, bytes, true);
    return CU_success;
}

CuResult mapping_unmap(Gpu *gpu, CuAddress address, size_t bytes) {
    GpuMapping *const mapping = mapping_at(gpu, gpu_place(gpu, address), bytes);
    if (!mapping) return CU_invalid_value;
    gpu_set_valid(gpu, mapping->at, bytes, false);
    madvise(gpu->bytes + mapping->at, bytes, MADV_REMOVE);
    gpu->handles[mapping->handle].mapped--;
    end_unused(gpu, &gpu->handles[mapping->handle]);
    *mapping = gpu->mappings[--gpu->n_mappings];
    return CU_success;
}

bool mapping_covers(const Gpu *gpu, size_t at, size_t n) {
    if (at < gpu_blocks_size() || at >= gpu_window_size() || n > gpu_window_size() - at) return false;
    for (size_t grain = at / GPU_GRAIN; grain * GPU_GRAIN < at + n; grain++)
        if (!gpu->valid[grain]) return false;
    return n > 0;
}
