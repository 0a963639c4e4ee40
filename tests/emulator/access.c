/* access.c: what a kernel's code calls before each access to memory that is not its own variable's alone: clang puts
 * the calls in, as it does for its sanitizer of threads, which has no part in this. An access must lie in one block of
 * the device's memory, to the byte, or in the block's shared memory, the thread's stack, or (reads) the program's
 * constants, and be aligned as its type is. What is not ends the kernel before it is made. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>

#include "tests/emulator/gpu.h"

typedef struct Range {
    uintptr_t at, bytes;
} Range;

static struct {
    Gpu *gpu;
    uintptr_t window, window_bytes;
    Range dynamic, shared, image;
} may;

void access_begin(Gpu *gpu, const GpuLaunch *launch) {
    const GpuLibrary *const library = launch->kernel->library;
    may.gpu = gpu;
    may.window = (uintptr_t)gpu->window, may.window_bytes = gpu_window_size();
    may.dynamic = (Range){(uintptr_t)emulated_dynamic_shared, launch->dynamic};
    may.shared = (Range){(uintptr_t)library->shared, library->shared_bytes};
    may.image = (Range){(uintptr_t)library->image, library->bytes};
}

static bool is_in(Range range, uintptr_t at, size_t n) {
    return at >= range.at && at - range.at <= range.bytes && n <= range.bytes - (at - range.at);
}

/* The block that is nearest before or around the address, for the text alone. */
static const GpuBlock *block_before(size_t place) {
    const GpuBlock *best = NULL;
    for (int i = 0; i < may.gpu->n_blocks; i++) {
        const GpuBlock *const b = &may.gpu->blocks[i];
        if (b->at <= place && (!best || b->at > best->at)) best = b;
    }
    return best;
}

__attribute__((noinline, noreturn)) static void refuse(uintptr_t at, size_t n, const char *what) {
    const uintptr_t place = at - may.window;
    const GpuBlock *const block = place < may.window_bytes ? block_before(place) : NULL;
    if (block)
        fiber_fault(CU_illegal_address, "%s %zu bytes at byte %zu of a block of %zu", what, n,
                    (size_t)place - block->at, block->bytes);
    fiber_fault(CU_illegal_address, "%s %zu bytes at %p, which is no memory of its", what, n, (void *)at);
}

static inline bool is_on_stack(uintptr_t at, size_t n) { return is_in((Range){fiber_stack, FIBER_STACK}, at, n); }

__attribute__((noinline)) static void check_elsewhere(uintptr_t at, size_t n, const char *what) {
    const bool is_over_grains = at - may.window < may.window_bytes && at % GPU_GRAIN + n > GPU_GRAIN;
    if (is_over_grains && gpu_may_access(may.gpu, at, n)) return;
    if (is_in(may.dynamic, at, n) || is_in(may.shared, at, n) || (*what == 'r' && is_in(may.image, at, n))) return;
    refuse(at, n, what);
}

/* Nearly all are of the thread's own variables or of one grain of a block. */
static inline void check(const void *address, size_t n, const char *what) {
    const uintptr_t at = (uintptr_t)address, place = at - may.window;
    if (is_on_stack(at, n)) return;
    if (place < may.window_bytes && place % GPU_GRAIN + n <= may.gpu->valid[place / GPU_GRAIN]) return;
    check_elsewhere(at, n, what);
}

/* Structs of two words that clang passes by value stand on the stack as words do. */
static bool is_passed(const void *address, size_t n) {
    return n == 16 && (uintptr_t)address % 8 == 0 && is_on_stack((uintptr_t)address, n);
}

static inline void check_aligned(const void *address, size_t n, const char *what) {
    if (UNLIKELY((uintptr_t)address % n) && !is_passed(address, n))
        fiber_fault(CU_misaligned_address, "%s %zu bytes at %p, which is not aligned for them", what, n, address);
    check(address, n, what);
}

#define ACCESS(n)                                                                                                      \
    static void read_##n(const void *at) { check_aligned(at, n, "reads"); }                                            \
    static void write_##n(void *at) { check_aligned(at, n, "writes"); }                                                \
    static void read_any_##n(const void *at) { check(at, n, "reads"); }                                                \
    static void write_any_##n(void *at) { check(at, n, "writes"); }
ACCESS(1)
ACCESS(2)
ACCESS(4)
ACCESS(8)
ACCESS(16)

static void nothing(void) {}
static void atomic_access(void *at, unsigned bytes) { check_aligned(at, bytes, "writes atomically"); }
static void *copy_bytes(void *to, const void *from, size_t n) {
    check(from, n, "reads");
    check(to, n, "writes");
    return memmove(to, from, n);
}
static void *set_bytes(void *to, int byte, size_t n) {
    check(to, n, "writes");
    return memset(to, byte, n);
}

__attribute__((noreturn)) static void trap(void) { fiber_fault(CU_illegal_instruction, "__trap"); }

/* of the compiler's own library, for __int128 */
__int128 __divti3(__int128, __int128);
__int128 __modti3(__int128, __int128);
unsigned __int128 __udivti3(unsigned __int128, unsigned __int128);
unsigned __int128 __umodti3(unsigned __int128, unsigned __int128);

#define ACCESS_ROWS(n)                                                                                                 \
    {"__tsan_read" #n, (void *)read_##n}, {"__tsan_write" #n, (void *)write_##n},                                      \
        {"__tsan_unaligned_read" #n, (void *)read_any_##n}, {                                                          \
        "__tsan_unaligned_write" #n, (void *)write_any_##n                                                             \
    }

void *access_import(const char *name) {
    static const struct {
        const char *name;
        void *at;
    } rows[] = {
        ACCESS_ROWS(1),
        ACCESS_ROWS(2),
        ACCESS_ROWS(4),
        ACCESS_ROWS(8),
        ACCESS_ROWS(16),
        {"__tsan_init", (void *)nothing},
        {"__tsan_memcpy", (void *)copy_bytes},
        {"__tsan_memmove", (void *)copy_bytes},
        {"__tsan_memset", (void *)set_bytes},
        {"emulated_atomic", (void *)atomic_access},
        {"emulated_trap", (void *)trap},
        {"emulated_place", &emulated_place},
        {"emulated_barrier", (void *)emulated_barrier},
        {"emulated_warp", (void *)emulated_warp},
        {"emulated_lane", (void *)emulated_lane},
        {"emulated_active", (void *)emulated_active},
        {"__divti3", (void *)__divti3},
        {"__modti3", (void *)__modti3},
        {"__udivti3", (void *)__udivti3},
        {"__umodti3", (void *)__umodti3},
    };
    for (int i = 0; i < COUNT_OF(rows); i++)
        if (!strcmp(rows[i].name, name)) return rows[i].at;
    if (strncmp(name, "__", 2)) return dlsym(RTLD_DEFAULT, name); /* fmodf and its like */
    return undefined_import(name);
}
