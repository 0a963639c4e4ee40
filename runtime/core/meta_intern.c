/* meta_intern.c: one immutable Meta per (dtype, device, sizes, strides, wrapped), for the whole
 * process.
 *
 *   staying   found without a lock: a table whose slots are only ever filled, under a mutex. A full
 *             one is replaced by one of twice the size; old tables live until the process ends,
 *             because a reader may still be in them.
 *   counted   chains, read and changed under the mutex. A count falls to 0 under it too, so what a
 *             lookup finds there is held by somebody.
 *   lent      by thread, the newest that it interned: each is one reference, so that what nobody
 *             has retained yet is not freed between meta_intern and its use. */
#include "runtime/core/meta_intern.h"

#include <pthread.h>
#include <stdio.h>

#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"
#include "runtime/base/text.h"
#include "runtime/core/dispatch.h"
#include "runtime/core/tensor.h"

enum { FIRST_STAY = 4096, USUAL_RANK = 4, BLOCKS = 64 };

typedef struct Table {
    struct Table *older;
    size_t capacity, n;
    _Atomic(InternedMeta *) slots[];
} Table;

typedef struct Chains {
    size_t capacity, n;
    InternedMeta **at;
} Chains;

typedef struct WantedMeta {
    DType dtype;
    Device device;
    const int64_t *sizes, *strides;
    int rank;
    bool wrapped;
    uint64_t hash;
} WantedMeta;

typedef struct LentMetas {
    uint32_t next;
    InternedMeta *at[LENT_METAS];
} LentMetas;

static _Atomic(Table *) staying;
static Chains counted;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t hash_of(const WantedMeta *w) {
    uint64_t h = hash_mix((uint64_t)w->dtype << 1 | w->wrapped, (uint64_t)(uint32_t)w->device << 8 | (uint64_t)w->rank);
    for (int i = 0; i < w->rank; i++) h = hash_mix(hash_mix(h, (uint64_t)w->sizes[i]), (uint64_t)w->strides[i]);
    return h;
}

static bool equal(const InternedMeta *in, const WantedMeta *w) {
    const size_t bytes = (size_t)w->rank * sizeof(int64_t);
    return in->hash == w->hash && in->meta.dtype == w->dtype && in->meta.device == w->device &&
           in->meta.rank == w->rank && in->meta.wrapped == w->wrapped &&
           (!bytes || (!memcmp(in->meta.sizes, w->sizes, bytes) && !memcmp(in->meta.strides, w->strides, bytes)));
}

/* staying ------------------------------------------------------------------------------------- */

static InternedMeta *lookup(Table *table, const WantedMeta *w) {
    for (size_t i = table ? w->hash & (table->capacity - 1) : 0; table; i = (i + 1) & (table->capacity - 1)) {
        InternedMeta *const in = atomic_load_explicit(&table->slots[i], memory_order_acquire);
        if (!in) return NULL;
        if (equal(in, w)) return in;
    }
    return NULL;
}

static void print_meta(Table *table, InternedMeta *in) {
    size_t i = in->hash & (table->capacity - 1);
    while (atomic_load_explicit(&table->slots[i], memory_order_relaxed)) i = (i + 1) & (table->capacity - 1);
    atomic_store_explicit(&table->slots[i], in, memory_order_release);
    table->n++;
}

static Table *doubled_table(Table *old) {
    const size_t capacity = old ? old->capacity * 2 : 1024;
    Table *const table = mem_zero(sizeof *table + capacity * sizeof table->slots[0]);
    if (!table) return NULL;
    table->older = old;
    table->capacity = capacity;
    for (size_t i = 0; old && i < old->capacity; i++) {
        InternedMeta *const in = atomic_load_explicit(&old->slots[i], memory_order_relaxed);
        if (in) print_meta(table, in);
    }
    atomic_store_explicit(&staying, table, memory_order_release);
    return table;
}

/* The table with room for one more; NULL raises. */
static Table *table_that_fits(void) {
    Table *const table = atomic_load_explicit(&staying, memory_order_relaxed);
    return !table || table->n * 2 >= table->capacity ? doubled_table(table) : table;
}

/* blocks: those of usual ranks are of one size and come from chunks, under the lock -------------- */

static InternedMeta *spare_blocks;

static size_t bytes_of_rank(int rank) { return sizeof(InternedMeta) + 2 * (size_t)rank * sizeof(int64_t); }

static bool more_blocks(void) {
    const size_t bytes = bytes_of_rank(USUAL_RANK);
    char *const chunk = mem_alloc(BLOCKS * bytes);
    for (int i = 0; chunk && i < BLOCKS; i++) {
        InternedMeta *const block = (InternedMeta *)(void *)(chunk + (size_t)i * bytes);
        block->next = spare_blocks;
        spare_blocks = block;
    }
    return chunk != NULL;
}

static InternedMeta *alloc_block(int rank) {
    if (rank > USUAL_RANK) return mem_alloc(bytes_of_rank(rank));
    if (!spare_blocks && !more_blocks()) return NULL;
    InternedMeta *const block = spare_blocks;
    spare_blocks = block->next;
    return block;
}

static void free_block(InternedMeta *in) {
    if (in->meta.rank > USUAL_RANK) {
        mem_free(in);
        return;
    }
    in->next = spare_blocks;
    spare_blocks = in;
}

/* counted ------------------------------------------------------------------------------------- */

static InternedMeta **place_of(uint64_t hash) { return &counted.at[hash & (counted.capacity - 1)]; }

static InternedMeta *lookup_counted(const WantedMeta *w) {
    InternedMeta *in = counted.capacity ? *place_of(w->hash) : NULL;
    while (in && !equal(in, w)) in = in->next;
    return in;
}

static bool more_chains(void) {
    const Chains old = counted;
    const size_t capacity = old.capacity ? old.capacity * 2 : 1024;
    InternedMeta **const at = mem_zero(capacity * sizeof *at);
    if (!at) return false;
    counted = (Chains){capacity, old.n, at};
    for (size_t i = 0; i < old.capacity; i++)
        for (InternedMeta *in = old.at[i], *next; in; in = next) {
            next = in->next;
            in->next = *place_of(in->hash);
            *place_of(in->hash) = in;
        }
    mem_free(old.at);
    return true;
}

static bool link_counted(InternedMeta *in) {
    if (counted.n >= counted.capacity && !more_chains()) return false;
    in->next = *place_of(in->hash);
    *place_of(in->hash) = in;
    counted.n++;
    return true;
}

static void unlink_counted(const InternedMeta *in) {
    InternedMeta **at = place_of(in->hash);
    while (*at != in) at = &(*at)->next;
    *at = in->next;
    counted.n--;
}

static bool does_stay(InternedMeta *in) { return atomic_load_explicit(&in->stays, memory_order_relaxed); }

/* A reference that is not the last; false: it may be. */
static bool drop_one_of_many(InternedMeta *in) {
    int32_t n = atomic_load_explicit(&in->refs, memory_order_relaxed);
    if (__libc_single_threaded) {
        if (n > 1) atomic_store_explicit(&in->refs, n - 1, memory_order_relaxed);
        return n > 1;
    }
    while (n > 1)
        if (atomic_compare_exchange_weak(&in->refs, &n, n - 1)) return true;
    return false;
}

void meta_drop(InternedMeta *in) {
    if (LIKELY(drop_one_of_many(in))) return;
    const bool locked = lock_shared(&lock);
    const bool dies = !does_stay(in) && refs_add(&in->refs, -1) == 1;
    if (dies) {
        unlink_counted(in);
        free_block(in);
    }
    unlock_shared(&lock, locked);
}

void meta_stay(const Meta *meta) {
    InternedMeta *const in = meta ? meta_counted(meta) : NULL;
    if (!in) return;
    const bool locked = lock_shared(&lock);
    Table *const table = does_stay(in) ? NULL : table_that_fits();
    if (table) {
        unlink_counted(in);
        print_meta(table, in);
        atomic_store_explicit(&in->stays, true, memory_order_relaxed);
    } else if (!does_stay(in)) {
        refs_add(&in->refs, 1); /* no memory for the table: held for ever */
    }
    unlock_shared(&lock, locked);
}

MetaCounts meta_counts(void) {
    const bool locked = lock_shared(&lock);
    const Table *const table = atomic_load_explicit(&staying, memory_order_relaxed);
    const MetaCounts counts = {table ? (int64_t)table->n : 0, (int64_t)counted.n};
    unlock_shared(&lock, locked);
    return counts;
}

/* lent ---------------------------------------------------------------------------------------- */

/* Takes one reference over; NULL raises. */
static InternedMeta *lend(InternedMeta *in) {
    sn_state *const state = state_get();
    if (!state->lent) state->lent = mem_zero(sizeof *state->lent);
    LentMetas *const lent = state->lent;
    if (!lent) return meta_drop(in), NULL;
    InternedMeta **const at = &lent->at[lent->next++ % LENT_METAS];
    InternedMeta *const before = *at;
    *at = in;
    if (before) meta_release(&before->meta);
    return in;
}

void meta_linger(const Meta *meta) {
    InternedMeta *const in = meta_counted(meta);
    if (!in) return;
    refs_add(&in->refs, 1);
    lend(in);
}

void meta_lent_free(sn_state *state) {
    for (int i = 0; state->lent && i < LENT_METAS; i++)
        if (state->lent->at[i]) meta_release(&state->lent->at[i]->meta);
    mem_free(state->lent);
    state->lent = NULL;
}

/* making -------------------------------------------------------------------------------------- */

typedef struct MetaExtent {
    int64_t numel, bytes; /* bytes: from the first element to past the last */
    bool contiguous;
} MetaExtent;

/* False: does not fit. Nor may the strides of an empty tensor overflow, which count a size of 0 as 1. */
static bool extent_of(const WantedMeta *w, MetaExtent *e) {
    int64_t step = 1, span;
    *e = (MetaExtent){.numel = 1, .contiguous = true};
    for (int i = w->rank - 1; i >= 0; i--) {
        if (w->sizes[i] != 1 && w->strides[i] != step) e->contiguous = false;
        if (w->sizes[i] < 0 || !mul_ok(step, max_i64(w->sizes[i], 1), &step)) return false;
        e->numel *= w->sizes[i];
    }
    if (!e->numel) e->contiguous = true;
    span = e->numel;
    return (e->contiguous || meta_span(w->sizes, w->strides, w->rank, &span)) &&
           mul_ok(span, dtype_bytes(w->dtype), &e->bytes) && e->bytes < (INT64_C(1) << 60);
}

/* Each dim steps past all that the later ones reach, as in slices of what is row-major. */
static bool is_nested(const WantedMeta *w) {
    int64_t reach = 0; /* the largest offset that the dims so far can give */
    for (int i = w->rank - 1; i >= 0; i--) {
        if (w->sizes[i] == 1) continue;
        if (w->strides[i] <= reach) return false;
        reach += (w->sizes[i] - 1) * w->strides[i];
    }
    return true;
}

/* Whether two indices may share an element, of which there are some: dims by ascending stride must each reach past the
 * ones before. */
static bool overlaps(const WantedMeta *w) {
    int64_t reach = 0;
    bool used[MAX_RANK] = {false};
    for (int n = 0; n < w->rank; n++) {
        int least = -1;
        for (int i = 0; i < w->rank; i++)
            if (!used[i] && w->sizes[i] > 1 && (least < 0 || w->strides[i] < w->strides[least])) least = i;
        if (least < 0) return false;
        used[least] = true;
        if (w->strides[least] <= reach) return true;
        reach += (w->sizes[least] - 1) * w->strides[least];
    }
    return false;
}

static InternedMeta *intern_new(const WantedMeta *w) {
    MetaExtent extent;
    if (!extent_of(w, &extent)) {
        Text sizes = {0};
        for (int i = 0; i < w->rank; i++) text_printf(&sizes, "%s%lld", i ? "," : "", (long long)w->sizes[i]);
        error_raise(ST_SHAPE, "a tensor of sizes [%s] does not fit in memory", text_str(&sizes));
        text_free(&sizes);
        return NULL;
    }
    const size_t list = (size_t)w->rank * sizeof(int64_t);
    InternedMeta *const in = alloc_block(w->rank);
    if (!in) return NULL;
    if (list) memcpy(in->numbers, w->sizes, list);
    if (list) memcpy(in->numbers + w->rank, w->strides, list);
    in->meta = (Meta){.dtype = w->dtype,
                      .device = w->device,
                      .rank = w->rank,
                      .wrapped = w->wrapped,
                      .numel = extent.numel,
                      .sizes = in->numbers,
                      .strides = in->numbers + w->rank,
                      .contiguous = extent.contiguous};
    in->hash = w->hash;
    in->keys = key_of_device(w->device) | KEY_BIT(autograd);
    in->bytes = (size_t)extent.bytes;
    in->overlaps = !extent.contiguous && !is_nested(w) && overlaps(w);
    atomic_init(&in->stays, false);
    atomic_init(&in->refs, 1);
    in->next = NULL;
    return in;
}

/* With one reference of the caller's, unless it stays. */
static InternedMeta *insert(const WantedMeta *w) {
    InternedMeta *const in = intern_new(w);
    Table *const table = in ? table_that_fits() : NULL;
    const bool stays = table && table->n < FIRST_STAY;
    if (stays) {
        atomic_init(&in->stays, true);
        print_meta(table, in);
    } else if (in && (!table || !link_counted(in))) {
        free_block(in);
        return NULL;
    }
    return in;
}

static InternedMeta *find_or_insert(const WantedMeta *w) {
    const bool locked = lock_shared(&lock);
    InternedMeta *in = NULL; /* another thread may have put it there meanwhile */
    if (locked) in = lookup(atomic_load_explicit(&staying, memory_order_relaxed), w);
    if (!in && (in = lookup_counted(w))) refs_add(&in->refs, 1);
    if (!in) in = insert(w);
    unlock_shared(&lock, locked);
    return !in || does_stay(in) ? in : lend(in);
}

const Meta *meta_intern(DType dtype, Device device, const int64_t *sizes, const int64_t *strides, int rank,
                        bool wrapped) {
    WantedMeta w = {dtype, device, sizes, strides, rank, wrapped, 0};
    w.hash = hash_of(&w);
    const InternedMeta *in = lookup(atomic_load_explicit(&staying, memory_order_acquire), &w);
    if (UNLIKELY(!in)) in = find_or_insert(&w);
    return LIKELY(in != NULL) ? &in->meta : NULL;
}

const Meta *meta_intern_contiguous(DType dtype, Device device, const int64_t *sizes, int rank) {
    int64_t strides[MAX_RANK];
    meta_contiguous_strides(NULL, sizes, rank, strides);
    return meta_intern(dtype, device, sizes, strides, rank, false);
}
