/* call_signature.c: see call_signature.h. */
#include "runtime/capture/replay/call_signature.h"

#include "runtime/autograd/tape.h"
#include "runtime/base/small_array.h"
#include "runtime/capture/variant/guard.h"

static inline int flags_of(const sn_tensor *t) {
    const int history =
        t->autograd ? (tape_tracks(t) ? SLOT_requires_grad : 0) | (tape_is_leaf(t) ? SLOT_is_leaf : 0) : SLOT_is_leaf;
    return history | (t->flags & TF_inference ? SLOT_inference : 0);
}

static int64_t scalar_word(const CallSignatureSpec *spec, const Arg *in, int i) {
    const int kind = in[i].kind;
    if (kind == ARG_tensor || kind == ARG_none || kind == ARG_default) return 0;
    return spec->read[i] || (kind != ARG_int && kind != ARG_float) ? in[i].i : 0;
}

/* Slots by an address of theirs ------------------------------------------------------------- */

enum { FEW_PLACES = 512, FEW_DISTINCT = 24 };

static inline uint64_t address_hash(const void *address) {
    return (uint64_t)(uintptr_t)address * UINT64_C(0x9e3779b97f4a7c15);
}

typedef struct AddressTable { /* open addressing; 0: free, else a slot and 1 */
    int32_t *at;
    int bits;
    int32_t few[FEW_PLACES];
} AddressTable;

/* False: memory is out, which is raised. */
static bool table_begin(AddressTable *table, int n) {
    table->bits = 5;
    while (1 << table->bits < 2 * n) table->bits++;
    table->at = SMALL_ARRAY(table->few, (size_t)1 << table->bits);
    if (table->at) memset(table->at, 0, sizeof *table->at << table->bits);
    return table->at != NULL;
}

static void table_end(AddressTable *table) { small_array_free(table->few, table->at); }

static const void *address_of(const sn_tensor *t, bool storage) {
    return storage ? (const void *)t->storage : (const void *)t;
}

/* The first slot with this address; it is slot i where there was none. */
static int table_first(AddressTable *table, sn_tensor *const *at, int i, bool storage) {
    const void *const address = address_of(at[i], storage);
    uint64_t place = address_hash(address) >> (64 - table->bits);
    for (; table->at[place]; place = (place + 1) & ((UINT64_C(1) << table->bits) - 1))
        if (address_of(at[table->at[place] - 1], storage) == address) return table->at[place] - 1;
    table->at[place] = i + 1;
    return i;
}

static bool are_distinct(int n, sn_tensor *const *at) {
    AddressTable table;
    bool distinct = table_begin(&table, n);
    for (int i = 0; distinct && i < n; i++) distinct = !at[i] || table_first(&table, at, i, true) == i;
    table_end(&table);
    return distinct;
}

/* They hash to different bits. Spares comparing all pairs. */
bool call_signature_distinct(const ReplayGuards *guards, sn_tensor *const *at) {
    uint64_t seen[16] = {0};
    if (UNLIKELY(guards->n_slots > FEW_DISTINCT)) return are_distinct(guards->n_slots, at);
    for (int i = 0; i < guards->n_slots; i++) {
        if (!at[i]) continue;
        const uint64_t hash = address_hash(at[i]->storage) >> 54;
        if (seen[hash >> 6] >> (hash & 63) & 1) return false;
        seen[hash >> 6] |= UINT64_C(1) << (hash & 63);
    }
    return true;
}

static void find_shared(const CallSignatureSpec *spec, sn_tensor *const *at, CallSignature *key) {
    const int n = spec->guards->n_slots;
    AddressTable storages, tensors;
    const bool made[] = {table_begin(&storages, n), table_begin(&tensors, n)};
    for (int i = 0; made[0] && made[1] && i < n; i++) {
        if (!at[i]) continue;
        const int first = table_first(&storages, at, i, true);
        if (first != i && spec->writes) key->slots[i].word = at[i]->offset - at[first]->offset;
        key->slots[i].storage = first;
        key->slots[i].alias = table_first(&tensors, at, i, false);
    }
    table_end(&storages);
    table_end(&tensors);
}

enum { FEW_STORAGES = 64 };

/* True also where memory is out, which is raised. */
static bool any_overlap(sn_tensor *const *at, int n) {
    const Storage *few[FEW_STORAGES], **const list = SMALL_ARRAY(few, n);
    SMALL_ARRAY_OWNER kept = {few, list};
    int found = 0;
    for (int i = 0; list && i < n; i++)
        if (at[i] && at[i]->storage) list[found++] = at[i]->storage;
    return !list || storages_overlap(list, found);
}

/* A slot that shares nothing. The first of its storage has no alias, and a tensor no word. */
static inline bool slot_is(const CallSignatureSpec *spec, const Arg *in, const sn_tensor *t, int i,
                           const SlotSignature *want) {
    if (want->storage != i) return false;
    if (LIKELY(t)) return want->meta == t->base.meta && want->flags == flags_of(t);
    return !want->meta && want->kind == in[i].kind && want->word == scalar_word(spec, in, i);
}

bool call_signature_is(const CallSignatureSpec *spec, const Arg *in, sn_tensor *const *at, const CallSignature *want) {
    const int n = spec->guards->n_slots;
    for (int i = 0; i < n; i++)
        if (!slot_is(spec, in, at[i], i, &want->slots[i])) return false;
    return want->epoch == atomic_load_explicit(&dispatch_epoch, memory_order_relaxed) &&
           want->overlap == (spec->writes && any_overlap(at, n));
}

void call_signature_make(const CallSignatureSpec *spec, const Arg *in, sn_tensor *const *at, CallSignature *key) {
    const int n = spec->guards->n_slots;
    for (int i = 0; i < n; i++) {
        const sn_tensor *const t = at[i];
        key->slots[i] =
            t ? (SlotSignature){.meta = t->base.meta,
                                .kind = ARG_tensor,
                                .flags = flags_of(t),
                                .storage = i,
                                .alias = i}
              : (SlotSignature){.kind = in[i].kind, .word = scalar_word(spec, in, i), .storage = i, .alias = i};
    }
    if (!call_signature_distinct(spec->guards, at)) find_shared(spec, at, key);
    key->epoch = atomic_load_explicit(&dispatch_epoch, memory_order_relaxed);
    key->overlap = spec->writes && any_overlap(at, n);
}

void slot_signature_print(const SlotSignature *key, Text *text) {
    if (key->meta) {
        meta_print(NULL, text, key->meta);
        if (key->flags & SLOT_requires_grad) text_puts(text, " requires_grad");
        if (key->flags & SLOT_inference) text_puts(text, " inference");
    } else if (key->kind == ARG_float) {
        double value;
        memcpy(&value, &key->word, sizeof value);
        text_printf(text, "%g", value);
    } else if (key->kind == ARG_int || key->kind == ARG_bool) {
        text_printf(text, "%lld", (long long)key->word);
    } else {
        text_puts(text, "absent");
    }
}
