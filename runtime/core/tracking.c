/* tracking.c: see tracking.h. A list in the order of making, for what is printed, and a map from blocks into it. */
#include "runtime/core/tracking.h"

#include <pthread.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/error.h"
#include "runtime/base/hash.h"

enum { ENDED_BYTES = 64 << 20 };

_Atomic bool tracking_on;
static _Atomic bool is_tracking, is_checking; /* which of the settings is on */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Map tracked_at;
static TrackedTensor *oldest, *newest;
static uint64_t numbers;
static TrackedTensor *first_out, *last_out; /* blocks of ended handles, in order */
static size_t bytes_out;
static const Meta *ended_meta; /* what handles show that have ended */

static TrackedTensor *find(const void *block) { return map_get(&tracked_at, (uint64_t)(uintptr_t)block); }

static void append(TrackedTensor *tracked) {
    tracked->before = newest;
    *(newest ? &newest->next : &oldest) = tracked;
    newest = tracked;
}

static void unlink_tracked(TrackedTensor *tracked) {
    *(tracked->before ? &tracked->before->next : &oldest) = tracked->next;
    *(tracked->next ? &tracked->next->before : &newest) = tracked->before;
    mem_free(tracked->cuts);
    mem_free(tracked);
}

bool tracking_made(void *block, size_t bytes) {
    memset(block, 0, sizeof(sn_tensor)); /* its count says that it is nobody's yet */
    pthread_mutex_lock(&lock);
    TrackedTensor *const tracked = mem_zero(sizeof *tracked);
    const bool is_tracked = tracked && map_set(&tracked_at, (uint64_t)(uintptr_t)block, tracked);
    if (is_tracked) {
        tracked->tensor = block;
        tracked->bytes = bytes;
        tracked->number = ++numbers;
        tracked->made = state_get()->site;
        append(tracked);
    } else {
        mem_free(tracked);
    }
    pthread_mutex_unlock(&lock);
    return is_tracked;
}

static void forget(TrackedTensor *tracked) {
    map_set(&tracked_at, (uint64_t)(uintptr_t)tracked->tensor, NULL);
    unlink_tracked(tracked);
}

/* Under the lock. Whoever uses the handle from now on finds an error tensor. */
static void end_handle(TrackedTensor *tracked) {
    sn_tensor *const t = (sn_tensor *)(uintptr_t)tracked->tensor;
    if (tracked->has_ended) return;
    tracked->has_ended = true;
    tracked->ended = state_current ? state_current->site : NULL;
    *t = (sn_tensor){.base = {ended_meta}, .block = t->block, .flags = TF_error};
}

static void free_oldest_out(void) {
    TrackedTensor *const tracked = first_out;
    void *const block = (void *)(uintptr_t)tracked->tensor;
    first_out = tracked->next_out;
    if (!first_out) last_out = NULL;
    bytes_out -= tracked->bytes;
    forget(tracked);
    mem_free(block);
}

static void put_out(TrackedTensor *tracked) {
    tracked->is_out = true;
    *(last_out ? &last_out->next_out : &first_out) = tracked;
    last_out = tracked;
    bytes_out += tracked->bytes;
    while (bytes_out > ENDED_BYTES) free_oldest_out();
}

bool tracking_gone(void *block) {
    pthread_mutex_lock(&lock);
    TrackedTensor *const tracked = find(block);
    const bool stays = tracked && atomic_load(&is_checking);
    if (stays) {
        end_handle(tracked);
        put_out(tracked);
    } else if (tracked) {
        forget(tracked);
    }
    pthread_mutex_unlock(&lock);
    return stays;
}

void tracking_ended(void *block) {
    pthread_mutex_lock(&lock);
    TrackedTensor *const tracked = atomic_load(&is_checking) ? find(block) : NULL;
    if (tracked && !atomic_load(&tracked->tensor->refs)) end_handle(tracked);
    pthread_mutex_unlock(&lock);
}

Status tracking_error(const sn_tensor *t, const char *what) {
    pthread_mutex_lock(&lock);
    const TrackedTensor *const found = find(t);
    const TrackedTensor tracked = found ? *found : (TrackedTensor){0};
    pthread_mutex_unlock(&lock);
    if (!tracked.has_ended) return ST_OK;
    TRY(error_pending());
    const Status status = error_raise(ST_STATE, "%s: the tensor's handle has ended", what);
    error_set_life(tracked.made, tracked.ended);
    return status;
}

static void forget_all(void) {
    pthread_mutex_lock(&lock);
    while (first_out) free_oldest_out();
    while (oldest) unlink_tracked(oldest);
    map_free(&tracked_at);
    tracked_at = (Map){0};
    pthread_mutex_unlock(&lock);
}

static void apply(sn_state *state) {
    const bool on = atomic_load(&is_tracking) || atomic_load(&is_checking);
    atomic_store(&tracking_on, on);
    tensor_blocks_track(state, on);
    if (!on) forget_all();
}

void tracking_set(sn_state *state, bool on) {
    atomic_store(&is_tracking, on);
    apply(state);
}

void tracking_check(sn_state *state, bool on) {
    if (on && !ended_meta && !(ended_meta = meta_intern_contiguous(DT_f32, DEV_cpu, NULL, 0))) return;
    if (on) meta_stay(ended_meta);
    atomic_store(&is_checking, on);
    apply(state);
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

uint64_t tracking_number(const sn_tensor *t) {
    pthread_mutex_lock(&lock);
    const TrackedTensor *const tracked = find(t);
    const uint64_t number = tracked ? tracked->number : 0;
    pthread_mutex_unlock(&lock);
    return number;
}

void tracking_set_cuts(const sn_tensor *t, const GradientCuts *cuts) {
    pthread_mutex_lock(&lock);
    TrackedTensor *const tracked = find(t);
    if (tracked && !tracked->cuts) tracked->cuts = mem_alloc(sizeof *tracked->cuts);
    if (tracked && tracked->cuts) *tracked->cuts = *cuts;
    pthread_mutex_unlock(&lock);
}

bool tracking_cuts(const sn_tensor *t, GradientCuts *out) {
    pthread_mutex_lock(&lock);
    const TrackedTensor *const tracked = find(t);
    *out = tracked && tracked->cuts ? *tracked->cuts : (GradientCuts){0};
    pthread_mutex_unlock(&lock);
    return tracked != NULL;
}
