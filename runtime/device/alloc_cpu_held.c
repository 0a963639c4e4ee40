/* alloc_cpu_held.c: who asked for the CPU's blocks that are in use: each has an entry with the program's stack, found
 * by its address, in one list. Where memory is out a block has none. */
#include <pthread.h>
#include <stdlib.h>

#include "runtime/base/alloc.h"
#include "runtime/base/arena.h"
#include "runtime/base/hash.h"
#include "runtime/core/user_stack.h"
#include "runtime/device/alloc_cpu.h"

typedef struct HeldBlock {
    struct HeldBlock *next, *before;
    size_t bytes;
    UserStack stack;
} HeldBlock;

_Atomic int64_t cpu_held;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Map by_address;
static HeldBlock *held; /* the newest first */

static void enter_held(void *block, HeldBlock *made) {
    if (!map_set(&by_address, (uint64_t)(uintptr_t)block, made)) return mem_free(made);
    made->next = held;
    if (held) held->before = made;
    held = made;
    atomic_fetch_add(&cpu_held, 1);
}

void cpu_held_record(void *block, size_t bytes) {
    ErrorSlot unsaid = {.status = ST_OK}; /* the block is there all the same */
    ErrorSlot *const said = error_slot_use(&unsaid);
    HeldBlock *const made = mem_alloc(sizeof *made);
    if (made) {
        *made = (HeldBlock){.bytes = bytes};
        user_stack_capture(state_get(), &made->stack);
        pthread_mutex_lock(&lock);
        enter_held(block, made);
        pthread_mutex_unlock(&lock);
    }
    error_slot_use(said);
}

void cpu_held_forget(void *block) {
    pthread_mutex_lock(&lock);
    HeldBlock *const found = map_get(&by_address, (uint64_t)(uintptr_t)block);
    if (found) {
        *(found->before ? &found->before->next : &held) = found->next;
        if (found->next) found->next->before = found->before;
        map_set(&by_address, (uint64_t)(uintptr_t)block, NULL);
        atomic_fetch_sub(&cpu_held, 1);
    }
    pthread_mutex_unlock(&lock);
    mem_free(found);
}

/* by stack ---------------------------------------------------------------------------------------- */

typedef struct HeldSum {
    const UserStack *stack;
    int64_t bytes, blocks;
    struct HeldSum *same_hash;
} HeldSum;

typedef struct HeldSums {
    Arena *arena;
    Map known;
    VEC(HeldSum *) sums;
} HeldSums;

static bool same_stack(const UserStack *a, const UserStack *b) {
    return a->n == b->n && !memcmp(a->frames, b->frames, (size_t)a->n * sizeof *a->frames);
}

static HeldSum *sum_of(HeldSums *all, const UserStack *stack) {
    const uint64_t hash = hash_bytes((uint64_t)stack->n, stack->frames, (size_t)stack->n * sizeof *stack->frames) | 1;
    HeldSum *const first = map_get(&all->known, hash);
    for (HeldSum *sum = first; sum; sum = sum->same_hash)
        if (same_stack(sum->stack, stack)) return sum;
    HeldSum *const made = ARENA_NEW(all->arena, HeldSum);
    if (!made || !map_set(&all->known, hash, made)) return NULL;
    *made = (HeldSum){.stack = stack, .same_hash = first};
    VEC_PUSH(all->arena, &all->sums, made);
    return made;
}

static int by_bytes(const void *a, const void *b) {
    const HeldSum *const x = *(HeldSum *const *)a, *const y = *(HeldSum *const *)b;
    return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

static void print_sum(const HeldSum *sum, CachingSiteName *site_name, Text *out) {
    text_printf(out, "{\"bytes\": %lld, \"blocks\": %lld, \"stack\": [", (long long)sum->bytes, (long long)sum->blocks);
    for (int i = 0; i < sum->stack->n; i++) {
        char name[256];
        site_name(sum->stack->frames[i], name, sizeof name);
        text_puts(out, i ? ", " : "");
        text_json_string(out, name);
    }
    text_puts(out, "]}");
}

/* The lock is held: entries stay. */
static void print_sums(HeldSums *all, CachingSiteName *site_name, Text *out) {
    for (const HeldBlock *block = held; block; block = block->next) {
        HeldSum *const sum = sum_of(all, &block->stack);
        if (sum) sum->bytes += (int64_t)block->bytes, sum->blocks++;
    }
    if (all->sums.n) qsort(all->sums.at, (size_t)all->sums.n, sizeof *all->sums.at, by_bytes);
    for (int i = 0; i < all->sums.n; i++) {
        text_puts(out, i ? ",\n  " : "\n  ");
        print_sum(all->sums.at[i], site_name, out);
    }
}

void cpu_held_print(CachingSiteName *site_name, Text *out) {
    HeldSums all = {.arena = arena_new()};
    text_puts(out, "[");
    pthread_mutex_lock(&lock);
    if (all.arena) print_sums(&all, site_name, out);
    pthread_mutex_unlock(&lock);
    text_puts(out, "]");
    map_free(&all.known);
    arena_free(all.arena);
}
