/* eager_cache.c: the entries of one thread's state, so that lookups take no lock (eager.c has them).
 *
 *   newest <-> ... <-> oldest      by age; what was found by its hash since gets a second chance
 *
 * Beyond EAGER_MOST_BYTES the oldest go. */
#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"
#include "runtime/eager/eager.h"

uint64_t eager_hash(const uint64_t *words, int n) {
    uint64_t hash = 0;
    for (int i = 0; i < n; i++) hash = hash_mix(hash, words[i]);
    return hash;
}

static EagerEntry **bucket_of(EagerCache *cache, const EagerEntry *entry) {
    return eager_bucket(cache, eager_hash(entry->words, entry->n_words));
}

static void link_newest(EagerCache *cache, EagerEntry *entry) {
    entry->newer = NULL;
    entry->older = cache->newest;
    *(cache->newest ? &cache->newest->newer : &cache->oldest) = entry;
    cache->newest = entry;
}

static void unlink_oldest(EagerCache *cache) {
    cache->oldest = cache->oldest->newer;
    *(cache->oldest ? &cache->oldest->older : &cache->newest) = NULL;
}

static void forget(EagerCache *cache, const EagerEntry *entry) {
    EagerEntry **at = bucket_of(cache, entry);
    while (*at != entry) at = &(*at)->next;
    *at = entry->next;
    for (int i = 0; i < EAGER_RECENT; i++)
        if (cache->recent[i] == entry) cache->recent[i] = NULL;
    cache->bytes -= entry->bytes;
    cache->n--;
}

/* Not `kept`, which is about to run. */
static void shrink_entries(EagerCache *cache, const EagerEntry *kept) {
    while (cache->bytes > EAGER_MOST_BYTES && cache->oldest != kept) {
        EagerEntry *const entry = cache->oldest;
        unlink_oldest(cache);
        if (entry->used) {
            entry->used = false;
            link_newest(cache, entry);
            continue;
        }
        forget(cache, entry);
        eager_entry_free(entry);
    }
}

bool eager_cache_insert(sn_state *state, EagerEntry *entry) {
    if (!state->eager && !(state->eager = mem_zero(sizeof *state->eager))) return false;
    EagerCache *const cache = state->eager;
    EagerEntry **const bucket = bucket_of(cache, entry);
    entry->next = *bucket;
    *bucket = entry;
    link_newest(cache, entry);
    cache->n++;
    cache->built += entry->has_program;
    cache->sized += entry->sized != NULL;
    cache->bytes += entry->bytes;
    shrink_entries(cache, entry);
    return true;
}

EagerCounts eager_counts(const sn_state *state) {
    const EagerCache *const cache = state->eager;
    return cache ? (EagerCounts){cache->built, cache->sized, cache->n, cache->bytes} : (EagerCounts){0};
}

void eager_cache_free(sn_state *state) {
    EagerCache *const cache = state->eager;
    for (EagerEntry *entry = cache ? cache->newest : NULL, *older; entry; entry = older) {
        older = entry->older;
        eager_entry_free(entry);
    }
    mem_free(cache);
    state->eager = NULL;
}
