/* fiber.c: the threads of one block, each a fiber: a stack of its own and a switch of six registers.
 *
 *   ready     in a ring: started in a random order; a fiber that waits goes straight to the next one
 *   barrier   opens when every thread of the block stands at the same call of it
 *   warp      a meeting of the lanes that a mask names: in the same call, with the same mask
 *   left      has returned
 *
 * Where nobody is ready and not all have left, the block is stuck, and stuck says who waits for whom. That is all of
 * the search for wrong barriers: a thread that left, or stands elsewhere, is one that never comes. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/emulator/gpu.h"

enum { STACK = FIBER_STACK, LANES = 32 };
enum { MEET_sync, MEET_shuffle, MEET_ballot }; /* as in words.h */

typedef enum FiberState { FIBER_ready, FIBER_barrier, FIBER_warp, FIBER_left } FiberState;

typedef struct Fiber {
    void *sp; /* NULL: not begun */
    FiberState state;
    Dim3 thread;
    uint64_t value; /* given, then got */
    unsigned mask;
    int site, kind, from; /* of the call that it waits in */
} Fiber;

EmulatedPlace emulated_place;
char emulated_dynamic_shared[LAUNCH_SHARED_OPT_IN] __attribute__((aligned(1024)));

uintptr_t fiber_stack;
static char *stacks;
static void *main_sp;
static Fiber fibers[LAUNCH_THREADS];
static int ring[LAUNCH_THREADS], ring_first, ring_n;
static unsigned arrived[LAUNCH_THREADS / LANES]; /* lanes of a warp that wait in a meeting */
static int n_fibers, n_left, n_barrier, n_true;
static Fiber *me;
static const GpuLaunch *launch;
static CuResult fault;

uint64_t fiber_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/* Saves what a call must keep on the running stack and goes on where `to` was saved so. */
__attribute__((naked, noinline)) static void switch_stack(void **save, void *to) {
    __asm__("push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
            "mov %rsp, (%rdi)\n mov %rsi, %rsp\n"
            "pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n ret");
}

static int index_of(const Fiber *fiber) { return (int)(fiber - fibers); }

static void make_ready(Fiber *fiber) {
    fiber->state = FIBER_ready;
    ring[(ring_first + ring_n++) % LAUNCH_THREADS] = index_of(fiber);
}

static Fiber *next_ready(void) {
    if (!ring_n) return NULL;
    Fiber *const next = &fibers[ring[ring_first]];
    ring_first = (ring_first + 1) % LAUNCH_THREADS, ring_n--;
    return next;
}

static void become(Fiber *fiber) {
    me = fiber;
    fiber_stack = (uintptr_t)stacks + (uintptr_t)index_of(fiber) * STACK;
    emulated_place.thread = fiber->thread;
}

/* The next fiber runs; where there is none, the block's loop. */
static void give_way(void) {
    Fiber *const self = me, *const next = next_ready();
    if (next == self) return;
    if (next) become(next);
    switch_stack(&self->sp, next ? next->sp : main_sp);
}

static void live(void) {
    for (;;) { /* a stack serves block after block */
        launch->kernel->entry->enter(launch->arguments);
        me->state = FIBER_left;
        n_left++;
        give_way();
    }
}

/* faults --------------------------------------------------------------------------------------- */

static int put_thread(char *text, size_t capacity, const Fiber *fiber) {
    const Dim3 t = fiber->thread;
    return snprintf(text, capacity, "thread (%u,%u,%u)", t.x, t.y, t.z);
}

static void tell(const Fiber *fiber, const char *format, va_list arguments) {
    char text[400], thread[60];
    vsnprintf(text, sizeof text, format, arguments);
    put_thread(thread, sizeof thread, fiber);
    const Dim3 b = emulated_place.block;
    emulator_tell("%s, block (%u,%u,%u), %s: %s", launch->kernel->entry->name, b.x, b.y, b.z, thread, text);
}

void fiber_fault(CuResult result, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    tell(me, format, arguments);
    va_end(arguments);
    fault = result;
    void *unused;
    switch_stack(&unused, main_sp);
    __builtin_unreachable();
}

static void PRINTF_LIKE(2, 3) tell_of(const Fiber *fiber, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    tell(fiber, format, arguments);
    va_end(arguments);
}

static const Fiber *find_state(FiberState state) {
    for (int i = 0; i < n_fibers; i++)
        if (fibers[i].state == state) return &fibers[i];
    return NULL;
}

/* The first lane that this one's mask names and that does not come. */
static const Fiber *missing_lane(const Fiber *fiber) {
    const int first = index_of(fiber) / LANES * LANES;
    for (int lane = 0; lane < LANES; lane++) {
        const Fiber *const other = &fibers[first + lane];
        if (fiber->mask >> lane & 1 && (other->state != FIBER_warp || other->mask != fiber->mask)) return other;
    }
    return fiber;
}

static const char *whereabouts(const Fiber *fiber) {
    return fiber->state == FIBER_left      ? "has left the kernel"
           : fiber->state == FIBER_barrier ? "waits at __syncthreads"
                                           : "waits in another call";
}

static CuResult stuck(void) {
    char other[60];
    const Fiber *const waits = find_state(FIBER_warp);
    if (waits) {
        const Fiber *const missing = missing_lane(waits);
        put_thread(other, sizeof other, missing);
        tell_of(waits, "waits for the lanes of mask 0x%08x, and %s %s", waits->mask, other, whereabouts(missing));
    } else {
        put_thread(other, sizeof other, find_state(FIBER_left));
        tell_of(find_state(FIBER_barrier), "waits at __syncthreads, which %s never reaches: it has left", other);
    }
    return CU_launch_failed;
}

/* what words.h calls ---------------------------------------------------------------------------- */

static void open_barrier(void) {
    const uint64_t count = (uint64_t)n_true;
    n_barrier = n_true = 0;
    for (int i = 0; i < n_fibers; i++) {
        fibers[i].value = count;
        make_ready(&fibers[i]);
    }
}

/* How many threads came with a true predicate. */
uint64_t emulated_barrier(int site, bool predicate) {
    static int first;
    Fiber *const self = me;
    if (!n_barrier) first = site;
    if (site != first) fiber_fault(CU_launch_failed, "is at another __syncthreads than the threads before it");
    self->state = FIBER_barrier;
    n_true += predicate;
    if (++n_barrier == n_fibers) open_barrier();
    give_way();
    return self->value;
}

unsigned emulated_lane(void) { return (unsigned)index_of(me) % LANES; }

static Fiber *warp_of(const Fiber *fiber) { return &fibers[index_of(fiber) / LANES * LANES]; }

static bool is_there(const Fiber *fiber) { return index_of(fiber) < n_fibers && fiber->state != FIBER_left; }

unsigned emulated_active(void) {
    unsigned active = 0;
    for (unsigned lane = 0; lane < LANES; lane++) active |= (unsigned)is_there(warp_of(me) + lane) << lane;
    return active;
}

static void check_mask(unsigned mask) {
    if (!(mask >> emulated_lane() & 1))
        fiber_fault(CU_launch_failed, "names the lanes of mask 0x%08x, of which it is none", mask);
    for (unsigned lane = 0; lane < LANES; lane++)
        if (mask >> lane & 1 && !is_there(warp_of(me) + lane))
            fiber_fault(CU_launch_failed, "names lane %u in mask 0x%08x, which has left or never was", lane, mask);
}

static bool is_same_call(const Fiber *a, const Fiber *b) {
    return a->kind == b->kind && a->mask == b->mask && a->site == b->site;
}

/* What each lane of the mask gets, now that all are there. */
static void meet(Fiber *warp, unsigned mask) {
    uint64_t given[LANES], ballot = 0;
    for (unsigned lane = 0; lane < LANES; lane++) {
        if (!(mask >> lane & 1)) continue;
        if (!is_same_call(&warp[lane], me))
            fiber_fault(CU_launch_failed, "meets lane %u in another call or with another mask", lane);
        given[lane] = warp[lane].value;
        ballot |= (given[lane] & 1) << lane;
    }
    for (unsigned lane = 0; lane < LANES; lane++) {
        Fiber *const fiber = &warp[lane];
        if (!(mask >> lane & 1)) continue;
        if (fiber->kind == MEET_ballot) fiber->value = ballot;
        if (fiber->kind == MEET_shuffle) {
            if (!(mask >> (fiber->from & 31) & 1))
                fiber_fault(CU_launch_failed, "lane %u reads lane %d, which is not in mask 0x%08x", lane, fiber->from,
                            mask);
            fiber->value = given[fiber->from & 31];
        }
        make_ready(fiber);
    }
}

uint64_t emulated_warp(int site, int kind, unsigned mask, uint64_t value, int from) {
    Fiber *const self = me, *const warp = warp_of(self);
    unsigned *const here = &arrived[index_of(self) / LANES];
    check_mask(mask);
    self->state = FIBER_warp, self->site = site;
    self->kind = kind, self->mask = mask, self->value = value, self->from = from;
    *here |= 1u << emulated_lane();
    if ((*here & mask) == mask) {
        *here &= ~mask;
        meet(warp, mask);
    }
    give_way();
    return self->value;
}

/* a block --------------------------------------------------------------------------------------- */

static void poison_shared(void) {
    memset(launch->kernel->library->shared, 0xff, launch->kernel->library->shared_bytes);
    memset(emulated_dynamic_shared, 0xff, launch->dynamic);
}

static void begin_fiber(int i) {
    Fiber *const fiber = &fibers[i];
    const Dim3 d = launch->block;
    const unsigned n = (unsigned)i;
    fiber->thread = (Dim3){n % d.x, n / d.x % d.y, n / d.x / d.y};
    if (!fiber->sp) { /* as if switch_stack had been called by nobody, from the start of live */
        void **const top = (void **)(stacks + (size_t)(i + 1) * STACK) - 2;
        memset(top - 6, 0, 8 * sizeof *top);
        top[0] = (void *)live;
        fiber->sp = top - 6;
    }
}

static void begin_all(uint64_t seed) {
    ring_first = ring_n = n_left = n_barrier = n_true = 0;
    n_fibers = (int)(launch->block.x * launch->block.y * launch->block.z);
    memset(arrived, 0, sizeof arrived);
    for (int i = 0; i < n_fibers; i++) {
        begin_fiber(i);
        make_ready(&fibers[i]);
    }
    for (int i = n_fibers - 1; i > 0; i--) { /* in any order */
        const int j = (int)(fiber_random(&seed) % (unsigned)(i + 1)), kept = ring[i];
        ring[i] = ring[j], ring[j] = kept;
    }
}

/* What a fault leaves behind: stacks that stand in the middle of things. */
static void abandon(void) {
    for (int i = 0; i < LAUNCH_THREADS; i++) fibers[i].sp = NULL;
}

CuResult fiber_block(const GpuLaunch *running, Dim3 block, uint64_t seed) {
    if (!stacks) {
        const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
        stacks = mmap(NULL, (size_t)STACK * LAUNCH_THREADS, PROT_READ | PROT_WRITE, flags, -1, 0);
        if (stacks == MAP_FAILED) return CU_out_of_memory;
    }
    launch = running;
    fault = CU_success;
    emulated_place.block = block, emulated_place.block_dim = launch->block, emulated_place.grid_dim = launch->grid;
    poison_shared();
    begin_all(seed);
    Fiber *const first = next_ready();
    become(first);
    switch_stack(&main_sp, first->sp);
    if (fault == CU_success && n_left < n_fibers) fault = stuck();
    if (fault != CU_success) abandon();
    return fault;
}
