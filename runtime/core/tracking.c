/* tracking.c: see tracking.h. A list in the order of making, for what is printed, and a map from blocks into it. */
#include "runtime/core/tracking.h"

#include <pthread.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"

_Atomic bool tracking_on;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Map tracked_at;
static TrackedTensor *oldest, *newest;

static TrackedTensor *find(const void *block) { return map_get(&tracked_at, (uint64_t)(uintptr_t)block); }

static void append(TrackedTensor *tracked) {
    tracked->before = newest;
    *(newest ? &newest->next : &oldest) = tracked;
    newest = tracked;
}

static void take_out(TrackedTensor *tracked) {
    *(tracked->before ? &tracked->before->next : &oldest) = tracked->next;
    *(tracked->next ? &tracked->next->before : &newest) = tracked->before;
    mem_free(tracked);
}

void tracking_made(void *block) {
    memset(block, 0, sizeof(sn_tensor)); /* its count says that it is nobody's yet */
    pthread_mutex_lock(&lock);
    TrackedTensor *const tracked = mem_zero(sizeof *tracked);
    if (tracked && map_set(&tracked_at, (uint64_t)(uintptr_t)block, tracked)) {
        tracked->tensor = block;
        tracked->made = state_get()->site;
        append(tracked);
    } else {
        mem_free(tracked);
    }
    pthread_mutex_unlock(&lock);
}

void tracking_gone(void *block) {
    pthread_mutex_lock(&lock);
    TrackedTensor *const tracked = find(block);
    if (tracked) {
        map_set(&tracked_at, (uint64_t)(uintptr_t)block, NULL);
        take_out(tracked);
    }
    pthread_mutex_unlock(&lock);
}

static void forget_all(void) {
    pthread_mutex_lock(&lock);
    while (oldest) take_out(oldest);
    map_free(&tracked_at);
    tracked_at = (Map){0};
    pthread_mutex_unlock(&lock);
}

void tracking_set(sn_state *state, bool on) {
    atomic_store(&tracking_on, on);
    tensor_blocks_track(state, on);
    if (!on) forget_all();
}

void tracking_kept(const sn_tensor *t, const void *site) {
    if (!tracking_is_on()) return;
    pthread_mutex_lock(&lock);
    TrackedTensor *const tracked = find(t);
    if (tracked) tracked->kept = site;
    pthread_mutex_unlock(&lock);
}

void tracking_each(void (*visit)(void *context, const TrackedTensor *tracked), void *context) {
    pthread_mutex_lock(&lock);
    for (const TrackedTensor *tracked = oldest; tracked; tracked = tracked->next)
        if (atomic_load_explicit(&tracked->tensor->refs, memory_order_acquire) > 0) visit(context, tracked);
    pthread_mutex_unlock(&lock);
}
