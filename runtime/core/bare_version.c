/* bare_version.c: see bare_version.h. One table for the process, by the handle's address: such tensors are rare, and a
 * field for them would make every tensor larger. */
#include "runtime/core/bare_version.h"

#include <pthread.h>

#include "runtime/base/alloc.h"
#include "runtime/core/keys.h"

typedef struct BareCounter {
    int refs; /* handles; under the lock */
    uint32_t version;
} BareCounter;

typedef struct BareEntry {
    const sn_tensor *of;
    BareCounter *counter;
    struct BareEntry *next;
} BareEntry;

enum { BARE_BUCKETS = 4096 };
static BareEntry *buckets[BARE_BUCKETS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static BareEntry **bucket_of(const sn_tensor *t) {
    return &buckets[((uintptr_t)t >> 6) * 0x9E3779B97F4A7C15u >> 52 & (BARE_BUCKETS - 1)];
}

static BareCounter *counter_of(const sn_tensor *t) {
    for (const BareEntry *at = *bucket_of(t); at; at = at->next)
        if (at->of == t) return at->counter;
    return NULL;
}

bool bare_version_counts(const sn_tensor *t) {
    return !t->storage && !t->placeholder && !tensor_is_batched(t) &&
           (t->keys & KEY_BIT(fake) || t->base.meta->device == DEV_meta);
}

/* The handle has it from here on; NULL: memory is out, which is raised. */
static BareCounter *give_counter(const sn_tensor *t, BareCounter *counter) {
    BareEntry *const entry = mem_zero(sizeof *entry);
    if (!entry || (!counter && !(counter = mem_zero(sizeof *counter)))) {
        mem_free(entry);
        return NULL;
    }
    BareEntry **const bucket = bucket_of(t);
    *entry = (BareEntry){t, counter, *bucket};
    *bucket = entry;
    counter->refs++;
    ((sn_tensor *)(uintptr_t)t)->flags |= TF_versioned;
    return counter;
}

static BareCounter *needed_counter(const sn_tensor *t) {
    BareCounter *const known = t->flags & TF_versioned ? counter_of(t) : NULL;
    return known ? known : give_counter(t, NULL);
}

Status bare_version_share(sn_tensor *view, const sn_tensor *base) {
    if (view == base || view->flags & TF_versioned || !bare_version_counts(base) || !bare_version_counts(view))
        return ST_OK;
    pthread_mutex_lock(&lock);
    BareCounter *const counter = needed_counter(base);
    const bool given = counter && give_counter(view, counter);
    pthread_mutex_unlock(&lock);
    return given ? ST_OK : ST_MEMORY;
}

void bare_version_bump(sn_tensor *t) {
    if (!bare_version_counts(t)) return;
    pthread_mutex_lock(&lock);
    BareCounter *const counter = needed_counter(t);
    if (counter) counter->version++;
    pthread_mutex_unlock(&lock);
}

uint32_t bare_version_now(const sn_tensor *t) {
    pthread_mutex_lock(&lock);
    const BareCounter *const counter = counter_of(t);
    const uint32_t version = counter ? counter->version : 0;
    pthread_mutex_unlock(&lock);
    return version;
}

void bare_version_drop(const sn_tensor *t) {
    pthread_mutex_lock(&lock);
    for (BareEntry **link = bucket_of(t); *link; link = &(*link)->next) {
        BareEntry *const entry = *link;
        if (entry->of != t) continue;
        *link = entry->next;
        if (!--entry->counter->refs) mem_free(entry->counter);
        mem_free(entry);
        break;
    }
    pthread_mutex_unlock(&lock);
}
