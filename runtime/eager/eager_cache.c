/* eager_cache.c: the entries of one thread's state, so that lookups take no lock (eager.c has them).
 *
 *   newest <-> ... <-> oldest      by age; what was found by its hash since gets a second chance
 *
 * Beyond EAGER_MOST_BYTES the oldest go. Entries of one size that an entry for any size could serve have a list and a
 * smaller bound of their own: they come with a size's second or 17th call, however late that is. */
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

static void link_newest(EagerAges *ages, EagerEntry *entry) {
    entry->newer = NULL;
    entry->older = ages->newest;
    *(ages->newest ? &ages->newest->newer : &ages->oldest) = entry;
    ages->newest = entry;
}

static void unlink_oldest(EagerAges *ages) {
    ages->oldest = ages->oldest->newer;
    *(ages->oldest ? &ages->oldest->older : &ages->newest) = NULL;
}

static void forget(EagerCache *cache, EagerAges *ages, EagerEntry *entry) {
    EagerEntry **at = bucket_of(cache, entry);
    while (*at != entry) at = &(*at)->next;
    *at = entry->next;
    for (int i = 0; i < EAGER_RECENT; i++)
        if (cache->recent[i] == entry) cache->recent[i] = NULL;
    ages->bytes -= entry->bytes;
    cache->n--;
    eager_entry_free(entry);
}

/* The oldest goes, or gets its second chance. */
static bool drop_oldest(EagerCache *cache, EagerAges *ages) {
    EagerEntry *const entry = ages->oldest;
    unlink_oldest(ages);
    if (entry->used) {
        entry->used = false;
        link_newest(ages, entry);
        return false;
    }
    forget(cache, ages, entry);
    return true;
}

/* Not `kept`, which is about to run. */
static void shrink_entries(EagerCache *cache, const EagerEntry *kept) {
    while (cache->needed.bytes > EAGER_MOST_BYTES - EAGER_MOST_CAN_GO && cache->needed.oldest != kept)
        drop_oldest(cache, &cache->needed);
}

/* Makes room for an entry of one size by dropping the oldest that is not in use. If all were used since they were last
 * looked at, there is no room: the call looks at one of them and makes no entry. */
bool eager_cache_has_capacity(sn_state *state, bool is_program) {
    EagerCache *const cache = state->eager;
    while (cache && cache->can_go.bytes >= EAGER_MOST_CAN_GO)
        if (!drop_oldest(cache, &cache->can_go) && !is_program) return false;
    return true;
}

static void free_entries(const EagerAges *ages) {
    for (EagerEntry *entry = ages->newest, *older; entry; entry = older) {
        older = entry->older;
        eager_entry_free(entry);
    }
}

static void end_cache(sn_state *state, StateExtension *part) {
    EagerCache *const cache = (EagerCache *)part;
    free_entries(&cache->needed);
    free_entries(&cache->can_go);
    mem_free(cache);
    state->eager = NULL;
}

static EagerCache *cache_of(sn_state *state) {
    if (LIKELY(state->eager != NULL) || !(state->eager = mem_zero(sizeof *state->eager))) return state->eager;
    state->eager->part.end = end_cache;
    state_extension_add(state, &state->eager->part);
    return state->eager;
}

bool eager_cache_insert(sn_state *state, EagerEntry *entry) {
    EagerCache *const cache = cache_of(state);
    if (!cache) return false;
    EagerEntry **const bucket = bucket_of(cache, entry);
    entry->next = *bucket;
    *bucket = entry;
    EagerAges *const ages = entry->can_go ? &cache->can_go : &cache->needed;
    link_newest(ages, entry);
    cache->n++;
    cache->built += entry->has_program;
    cache->sized += entry->sized != NULL;
    ages->bytes += entry->bytes;
    shrink_entries(cache, entry);
    return true;
}

EagerCounts eager_counts(const sn_state *state) {
    const EagerCache *const cache = state->eager;
    if (!cache) return (EagerCounts){0};
    const size_t can_go = cache->can_go.bytes;
    return (EagerCounts){cache->built, cache->sized, cache->n, cache->needed.bytes + can_go, can_go};
}

void eager_cache_free(sn_state *state) {
    if (state->eager) state_extension_end(state, &state->eager->part);
}
