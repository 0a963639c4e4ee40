/* meta_intern.c: one immutable Meta per (dtype, device, sizes, strides, wrapped), for the whole
 * process.
 *
 * Lookups take no lock: they probe a table whose slots are only ever filled, under a mutex. A full
 * table is replaced by one of twice the size; old tables and metas live until the process ends,
 * because a reader may still be in them. */
#include <pthread.h>
#include <stdio.h>

#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"
#include "runtime/base/text.h"
#include "runtime/core/dispatch.h"
#include "runtime/core/tensor.h"

typedef struct Table {
    struct Table *older;
    size_t room, n;
    _Atomic(InternedMeta *) slots[];
} Table;

typedef struct WantedMeta {
    DType dtype;
    Device device;
    const int64_t *sizes, *strides;
    int rank;
    bool wrapped;
    uint64_t hash;
} WantedMeta;

static _Atomic(Table *) current;
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

static InternedMeta *lookup(Table *table, const WantedMeta *w) {
    for (size_t i = table ? w->hash & (table->room - 1) : 0; table; i = (i + 1) & (table->room - 1)) {
        InternedMeta *const in = atomic_load_explicit(&table->slots[i], memory_order_acquire);
        if (!in) return NULL;
        if (equal(in, w)) return in;
    }
    return NULL;
}

static void put_meta(Table *table, InternedMeta *in) {
    size_t i = in->hash & (table->room - 1);
    while (atomic_load_explicit(&table->slots[i], memory_order_relaxed)) i = (i + 1) & (table->room - 1);
    atomic_store_explicit(&table->slots[i], in, memory_order_release);
    table->n++;
}

static Table *roomier(Table *old) {
    const size_t room = old ? old->room * 2 : 1024;
    Table *const table = mem_zero(sizeof *table + room * sizeof table->slots[0]);
    if (!table) return NULL;
    table->older = old;
    table->room = room;
    for (size_t i = 0; old && i < old->room; i++) {
        InternedMeta *const in = atomic_load_explicit(&old->slots[i], memory_order_relaxed);
        if (in) put_meta(table, in);
    }
    atomic_store_explicit(&current, table, memory_order_release);
    return table;
}

/* Elements from the first to past the last; false: does not fit. Nor may the strides of an empty tensor overflow, which
 * count a size of 0 as 1. */
static bool span_of(const WantedMeta *w, int64_t *numel, int64_t *span) {
    int64_t bytes, step = 1;
    *numel = 1;
    for (int i = 0; i < w->rank; i++) {
        if (w->sizes[i] < 0 || !mul_ok(step, max_i64(w->sizes[i], 1), &step)) return false;
        *numel *= w->sizes[i];
    }
    return meta_span(w->sizes, w->strides, w->rank, span) && mul_ok(*span, dtype_bytes(w->dtype), &bytes) &&
           bytes < (INT64_C(1) << 60);
}

/* Whether two indices may share an element, of which there are some: dims by ascending stride must each reach past the
 * ones before. */
static bool overlaps(const WantedMeta *w) {
    int64_t reach = 0; /* the largest offset that the dims so far can give */
    bool used[MAX_RANK] = {false};
    for (int i = 0; i < w->rank; i++)
        if (w->sizes[i] == 0) return false;
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
    int64_t numel, span;
    if (!span_of(w, &numel, &span)) {
        Text sizes = {0};
        for (int i = 0; i < w->rank; i++) text_printf(&sizes, "%s%lld", i ? "," : "", (long long)w->sizes[i]);
        error_raise(ST_SHAPE, "a tensor of sizes [%s] does not fit in memory", text_str(&sizes));
        text_free(&sizes);
        return NULL;
    }
    const size_t list = (size_t)w->rank * sizeof(int64_t);
    InternedMeta *const in = mem_alloc(sizeof *in + 2 * list);
    if (!in) return NULL;
    if (list) memcpy(in->numbers, w->sizes, list);
    if (list) memcpy(in->numbers + w->rank, w->strides, list);
    in->meta = (Meta){.dtype = w->dtype,
                      .device = w->device,
                      .rank = w->rank,
                      .wrapped = w->wrapped,
                      .numel = numel,
                      .sizes = in->numbers,
                      .strides = in->numbers + w->rank,
                      .contiguous = meta_is_contiguous(NULL, w->sizes, w->strides, w->rank)};
    in->hash = w->hash;
    in->keys = key_of_device(w->device) | KEY_BIT(autograd);
    in->bytes = (size_t)span * (size_t)dtype_bytes(w->dtype);
    in->overlaps = numel && overlaps(w);
    return in;
}

static const Meta *insert(const WantedMeta *w) {
    pthread_mutex_lock(&lock);
    Table *table = atomic_load_explicit(&current, memory_order_relaxed);
    InternedMeta *in = lookup(table, w);
    if (!in && (!table || table->n * 2 >= table->room)) table = roomier(table);
    if (!in && table && (in = intern_new(w))) put_meta(table, in);
    pthread_mutex_unlock(&lock);
    return in ? &in->meta : NULL;
}

const Meta *meta_intern(DType dtype, Device device, const int64_t *sizes, const int64_t *strides, int rank,
                        bool wrapped) {
    WantedMeta w = {dtype, device, sizes, strides, rank, wrapped, 0};
    w.hash = hash_of(&w);
    const InternedMeta *const in = lookup(atomic_load_explicit(&current, memory_order_acquire), &w);
    return LIKELY(in) ? &in->meta : insert(&w);
}

const Meta *meta_intern_contiguous(DType dtype, Device device, const int64_t *sizes, int rank) {
    int64_t strides[MAX_RANK];
    meta_contiguous_strides(NULL, sizes, rank, strides);
    return meta_intern(dtype, device, sizes, strides, rank, false);
}
