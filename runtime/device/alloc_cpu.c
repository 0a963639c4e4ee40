/* alloc_cpu.c: the CPU's caching allocator. A freed block is cached and handed out again: a fresh 32 MiB block costs
 * 16 ms of page faults, 2 ms with huge pages, a cached one nothing.
 *
 *   below 2 MiB   lists of blocks of a class: 8 classes per power of two (at most 12.5 % waste), from 64 bytes
 *   from there    the policy of all devices (caching.h) over the system's memory, aligned to 2 MiB and advised to be
 *                 huge pages; a segment is as large as what it is taken for (alloc_cpu_large.c)
 *
 * The lists keep at most `bound` bytes, and the policy what they leave of it when a block comes back there; the rest
 * goes back to the system at once. Under sanitizers, and with SINTER_PLAIN_MALLOC=1, nothing is cached. */
#include "runtime/device/alloc_cpu.h"

#include <pthread.h>

#include "runtime/base/alloc.h"
#include "runtime/core/state.h"

enum { STEPS = 8, CLASSES = 16 * STEPS, ALIGNMENT = 64 }; /* classes: up to 4 MiB */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *cached[CLASSES];         /* linked through their first word */
static CpuClass known[CLASSES];       /* what is counted of them; `bytes` aside */
static const size_t UNSET = SIZE_MAX; /* a bound that nobody has asked for yet: the setting's initial value */
static size_t cached_bytes, bound = SIZE_MAX;
static _Atomic int64_t current, peak, reserved;

#ifdef SINTER_PLAIN_MALLOC
static bool caches(void) { return false; }
#else
static bool caches(void) { return !setting_initial(SET_plain_malloc); }
#endif

/* The class of a size and, rounded up, the bytes of its blocks. */
static int class_of(size_t bytes, size_t *rounded) {
    if (bytes < ALIGNMENT) bytes = ALIGNMENT;
    const int log = 63 - __builtin_clzll(bytes);
    const size_t step = ((size_t)1 << log) / STEPS;
    const size_t up = (bytes - ((size_t)1 << log) + step - 1) / step; /* 0 to STEPS: STEPS is the next power */
    *rounded = ((size_t)1 << log) + up * step;
    return (log - 6) * STEPS + (int)up;
}

static void count_bytes(int64_t bytes) {
    const int64_t now = atomic_fetch_add_explicit(&current, bytes, memory_order_relaxed) + bytes;
    int64_t seen = atomic_load_explicit(&peak, memory_order_relaxed);
    while (now > seen && !atomic_compare_exchange_weak(&peak, &seen, now)) {}
}

static void *fresh(size_t bytes) {
    void *const block = mem_aligned(ALIGNMENT, bytes);
    if (!block) return NULL;
    atomic_fetch_add_explicit(&reserved, (int64_t)bytes, memory_order_relaxed);
    return block;
}

static void block_free(void *block, size_t bytes) {
    atomic_fetch_sub_explicit(&reserved, (int64_t)bytes, memory_order_relaxed);
    mem_free(block);
}

/* Under the lock. */
static inline void count_block(CpuClass *class) {
    class->total++;
    if (++class->current > class->peak) class->peak = class->current;
}

static COLD void uncount_block(CpuClass *class) {
    pthread_mutex_lock(&lock);
    class->total--, class->current--;
    pthread_mutex_unlock(&lock);
}

static void *pop(int class, size_t rounded) {
    pthread_mutex_lock(&lock);
    void *const block = cached[class];
    if (block) {
        cached[class] = *(void **)block;
        cached_bytes -= rounded;
        known[class].cached--;
    }
    count_block(&known[class]);
    pthread_mutex_unlock(&lock);
    return block;
}

static void *allocate_small(size_t bytes, size_t *counted) {
    const int class = class_of(bytes, counted);
    void *block = pop(class, *counted);
    if (!block && !(block = fresh(*counted))) uncount_block(&known[class]);
    return block;
}

void *cpu_alloc(size_t bytes) {
    size_t counted = bytes;
    if (bytes >= (size_t)1 << 52) {
        error_raise(ST_MEMORY, "out of memory: %zu bytes", bytes);
        return NULL;
    }
    void *const block = !caches()            ? fresh(bytes)
                        : bytes >= HUGE_PAGE ? large_alloc(bytes)
                                             : allocate_small(bytes, &counted);
    if (block) count_bytes((int64_t)counted);
    if (UNLIKELY(state_memory_site() != NULL) && block) cpu_held_record(block, counted);
    return block;
}

/* Under the lock. */
static size_t bound_now(void) {
    if (UNLIKELY(bound == UNSET)) bound = (size_t)setting_initial(SET_memory_retain_mib) << 20;
    return bound;
}

static bool push(void *block, int class, size_t rounded) {
    pthread_mutex_lock(&lock);
    const bool fits = cached_bytes + rounded <= bound_now();
    known[class].current--;
    if (fits) {
        *(void **)block = cached[class];
        cached[class] = block;
        cached_bytes += rounded;
        known[class].cached++;
    }
    pthread_mutex_unlock(&lock);
    return fits;
}

static void free_small(void *block, size_t bytes) {
    size_t rounded;
    const int class = class_of(bytes, &rounded);
    count_bytes(-(int64_t)rounded);
    if (!push(block, class, rounded)) block_free(block, rounded);
}

static void free_large(void *block, size_t bytes) {
    count_bytes(-(int64_t)bytes);
    pthread_mutex_lock(&lock);
    const size_t most = bound_now() > cached_bytes ? bound - cached_bytes : 0;
    pthread_mutex_unlock(&lock);
    large_free(block, most);
}

void cpu_free(void *block, size_t bytes) {
    if (!block) return;
    if (UNLIKELY(atomic_load_explicit(&cpu_held, memory_order_relaxed))) cpu_held_forget(block);
    if (!caches()) {
        count_bytes(-(int64_t)bytes);
        block_free(block, bytes);
    } else if (bytes >= HUGE_PAGE) {
        free_large(block, bytes);
    } else {
        free_small(block, bytes);
    }
}

static size_t bytes_of_class(int class) {
    const size_t power = (size_t)1 << (class / STEPS + 6);
    return power + (size_t)(class % STEPS) * (power / STEPS);
}

/* Frees cached blocks, largest classes first, until at most `most` bytes are cached. */
static void shrink_blocks(size_t most) {
    pthread_mutex_lock(&lock);
    for (int class = CLASSES - 1; class >= 0; class --) {
        while (cached[class] && cached_bytes > most) {
            void *const block = cached[class];
            cached[class] = *(void **)block;
            cached_bytes -= bytes_of_class(class);
            known[class].cached--;
            block_free(block, bytes_of_class(class));
        }
    }
    pthread_mutex_unlock(&lock);
}

void cpu_alloc_bound(size_t bytes) {
    pthread_mutex_lock(&lock);
    bound = bytes;
    pthread_mutex_unlock(&lock);
    shrink_blocks(bytes);
    large_trim(bytes);
}

void cpu_alloc_trim(void) {
    shrink_blocks(0);
    large_trim(0);
}

int cpu_alloc_classes(void) { return CLASSES; }

CpuClass cpu_alloc_class(int class) {
    pthread_mutex_lock(&lock);
    CpuClass found = known[class];
    pthread_mutex_unlock(&lock);
    found.bytes = (int64_t)bytes_of_class(class);
    return found;
}

void cpu_alloc_peak_begin(void) {
    atomic_store(&peak, atomic_load(&current));
    pthread_mutex_lock(&lock);
    for (int class = 0; class < CLASSES; class ++) known[class].peak = known[class].current;
    pthread_mutex_unlock(&lock);
    large_peak_begin();
}

void cpu_alloc_stats(int64_t *now, int64_t *most, int64_t *held) {
    *now = atomic_load(&current);
    *most = atomic_load(&peak);
    *held = atomic_load(&reserved) + large_reserved();
}
