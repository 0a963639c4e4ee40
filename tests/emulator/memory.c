/* memory.c: a device's memory: see gpu.h. It is mapped twice: as the window, whose addresses are the device's and which
 * nobody may touch but while a kernel runs, and as bytes for the emulator's own copies. Blocks lie 512 bytes apart and
 * are full of poison, new ones (NaN in every float type) and freed ones alike. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/emulator/gpu.h"
#include "tests/emulator/planted.h"

enum { FRESH = 0xff, FREED = 0xdf };

size_t gpu_capacity(void) { return (size_t)gpu_option("mib=", 64) << 20; }
size_t gpu_blocks_size(void) { return 2 * gpu_capacity(); }
size_t gpu_window_size(void) { return gpu_blocks_size() + 14 * gpu_capacity(); }

void gpu_map(Gpu *gpu) {
    const size_t n = gpu_window_size();
    const int file = memfd_create("emulated GPU", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, (off_t)n)) abort();
    gpu->window = mmap(NULL, n, PROT_NONE, MAP_SHARED | MAP_NORESERVE, file, 0);
    gpu->bytes = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
    gpu->valid = calloc(n / GPU_GRAIN, sizeof *gpu->valid);
    if (gpu->window == MAP_FAILED || gpu->bytes == MAP_FAILED || !gpu->valid) abort();
    close(file);
}

/* Pages that were touched are let go, they come again from the same memory: or each later call would go over all that
 * ever were. */
void gpu_open_window(Gpu *gpu, bool open) {
    const size_t n = gpu_window_size();
    if (!open) madvise(gpu->window, n, MADV_DONTNEED);
    mprotect(gpu->window, n, open ? PROT_READ | PROT_WRITE : PROT_NONE);
}

size_t gpu_place(const Gpu *gpu, CuAddress address) { return (size_t)(address - (CuAddress)(uintptr_t)gpu->window); }

GpuBlock *gpu_block_at(Gpu *gpu, CuAddress address, size_t n) {
    const size_t at = gpu_place(gpu, address);
    for (int i = 0; i < gpu->n_blocks; i++) {
        GpuBlock *const b = &gpu->blocks[i];
        if (at >= b->at && at - b->at <= b->bytes && n <= b->bytes - (at - b->at)) return b;
    }
    return NULL;
}

static bool is_free(const Gpu *gpu, size_t at, size_t capacity) {
    if (at + capacity > gpu_blocks_size()) return false;
    for (int i = 0; i < gpu->n_blocks; i++) {
        const GpuBlock *const b = &gpu->blocks[i];
        if (at < b->at + b->bytes + GPU_GRAIN && b->at < at + capacity + GPU_GRAIN) return false;
    }
    return true;
}

static bool find_place(Gpu *gpu, size_t capacity, size_t *at) {
    for (int round = 0; round < 2; round++) {
        for (*at = round ? 0 : gpu->next; *at + capacity <= gpu_blocks_size(); *at += GPU_GRAIN)
            if (is_free(gpu, *at, capacity)) return true;
    }
    return false;
}

bool gpu_may_access(Gpu *gpu, CuAddress address, size_t n) {
    return gpu_block_at(gpu, address, n) || mapping_covers(gpu, gpu_place(gpu, address), n);
}

void gpu_set_valid(Gpu *gpu, size_t at, size_t bytes, bool valid) {
    uint16_t *const first = gpu->valid + at / GPU_GRAIN;
    for (size_t left = bytes, i = 0; left; i++) {
        const size_t n = left < GPU_GRAIN ? left : GPU_GRAIN;
        first[i] = valid ? (uint16_t)n : 0;
        left -= n;
    }
}

/* Of a block that is in use. */
static CuAddress address_of_block(const Gpu *gpu, size_t bytes) {
    for (int b = 0; b < gpu->n_blocks; b++)
        if (gpu->blocks[b].bytes >= bytes) return (CuAddress)(uintptr_t)gpu->window + gpu->blocks[b].at;
    return 0;
}

CuResult gpu_allocate(Gpu *gpu, CuAddress *address, size_t bytes) {
    size_t at;
    if (!bytes) return CU_invalid_value;
    if (planted(PLANTED_memory_twice) && (*address = address_of_block(gpu, bytes))) return CU_success;
    if (gpu->n_blocks == GPU_BLOCKS || bytes > gpu_capacity() - gpu->used || !find_place(gpu, bytes, &at))
        return CU_out_of_memory;
    GpuBlock *const block = &gpu->blocks[gpu->n_blocks++];
    *block = (GpuBlock){at, bytes};
    gpu->next = (at + bytes + 2 * GPU_GRAIN - 1) / GPU_GRAIN * GPU_GRAIN;
    gpu->used += bytes;
    gpu_set_valid(gpu, at, bytes, true);
    memset(gpu->bytes + at, FRESH, bytes);
    *address = (CuAddress)(uintptr_t)gpu->window + at;
    return CU_success;
}

CuResult gpu_free(Gpu *gpu, CuAddress address, size_t *bytes) {
    GpuBlock *const b = gpu_block_at(gpu, address, 0);
    if (!b || b->at != gpu_place(gpu, address)) return CU_invalid_value;
    memset(gpu->bytes + b->at, FREED, b->bytes);
    gpu_set_valid(gpu, b->at, b->bytes, false);
    *bytes = b->bytes;
    gpu->used -= b->bytes;
    *b = gpu->blocks[--gpu->n_blocks];
    return CU_success;
}
