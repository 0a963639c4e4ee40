/* eager_flat.c: entries for any size: where an exact entry is one block kernel over contiguous operands of one shape, a
 * copy of it that takes its number of elements and its result's metadata from the call.
 *
 *   new size -> flat entry -> the op's rule -> the block kernel; no program
 *   a size that comes again -> an exact entry, copied from the flat one
 *
 * Both are in the cache; a word of a flat signature has a tensor's dtype where an exact one has its metadata. */
#include "runtime/base/hash.h"
#include "runtime/eager/eager.h"

enum { FLAT_MARK = 1 << 16 }; /* beside the form in the first word, and in a tensor's */

static bool same_shape(const Meta *a, const Meta *b) {
    return a->rank == b->rank && !memcmp(a->sizes, b->sizes, (size_t)a->rank * sizeof *a->sizes);
}

/* All are the same elements in the same order, few enough for one thread. */
static bool is_flat(const EagerCall *ec) {
    if (ec->row->kind != KIND_pointwise || ec->row->n_out != 1 || !ec->n_tensors) return false;
    const Meta *const first = ec->tensors[0]->base.meta;
    if (!first->rank || !first->numel || first->numel > EAGER_DIRECT_MOST) return false;
    for (int i = 0; i < ec->n_tensors; i++) {
        const Meta *const meta = ec->tensors[i]->base.meta;
        if (!meta->contiguous || (meta != first && !same_shape(meta, first))) return false;
    }
    return true;
}

static void put_tensor(FlatKey *key, const sn_tensor *t, uint64_t word) {
    const Meta *const meta = t ? t->base.meta : NULL;
    const uint64_t number = word & 0xff; /* the rest is the metadata's address */
    if (meta) word = (uint64_t)(uint32_t)meta->device << 32 | FLAT_MARK | (uint64_t)meta->dtype << 8 | number;
    key->words[key->n++] = word;
}

static int words_of(const EagerCall *ec, int i) {
    const int kind = ec->call->args[i].kind;
    if (kind == ARG_int || kind == ARG_float) return eager_number_varies(ec, i) ? 1 : 2;
    return kind == ARG_bool || kind == ARG_string ? 2 : 1;
}

bool eager_flat_key(const EagerCall *ec, FlatKey *key) {
    if (!is_flat(ec)) return false;
    const OpCall *const call = ec->call;
    int at = 1;
    key->words[0] = ec->words[0] ^ FLAT_MARK;
    key->n = 1;
    for (int i = 0; i < ec->row->n_params; i++) {
        const Arg *const arg = &call->args[i];
        if (arg->kind == ARG_ints || arg->kind == ARG_floats || arg->kind == ARG_tensors) return false;
        if (arg->kind == ARG_tensor)
            put_tensor(key, (const sn_tensor *)arg->val, ec->words[at++]);
        else
            for (int n = words_of(ec, i); n; n--) key->words[key->n++] = ec->words[at++];
    }
    for (int i = 0; call->form == FORM_out && i < ec->row->n_out; i++)
        put_tensor(key, call->out_args[i], ec->words[at++]);
    return true;
}

EagerEntry *eager_flat_find(EagerCache *cache, const FlatKey *key) {
    for (EagerEntry *entry = *eager_bucket(cache, key->words, key->n); entry; entry = entry->next) {
        if (entry->n_words != key->n || memcmp(entry->words, key->words, (size_t)key->n * sizeof *key->words)) continue;
        entry->used = true;
        return entry;
    }
    return NULL;
}

/* An entry with these words that runs as `from` does, for n elements. */
static void insert_copy(sn_state *state, const EagerCall *ec, const EagerEntry *from, const uint64_t *words,
                        int n_words, int64_t n) {
    EagerEntry *const copy = eager_entry_new(ec, words, n_words, RUN_direct, 1);
    if (!copy) return; /* the call has its result: next time */
    const bool copied = eager_direct_copy(&copy->direct, &from->direct, n);
    eager_entry_hold(copy, 0, from->metas[0]);
    copy->rechecks = from->rechecks;
    copy->is_copy = true;
    copy->bytes = eager_entry_bytes(copy);
    if (!copied || !eager_cache_insert(state, copy)) eager_entry_free(copy);
}

void eager_flat_make(sn_state *state, const EagerCall *ec, const EagerEntry *exact, const FlatKey *key) {
    if (exact->kind != RUN_direct || exact->direct.reduce || exact->n_guards || exact->n_outs != 1) return;
    if (!exact->metas[0]->contiguous || exact->direct.n != ec->tensors[0]->base.meta->numel) return;
    insert_copy(state, ec, exact, key->words, key->n, BLOCK); /* its blocks are for any n */
}

Status eager_flat_fit(EagerEntry *flat, const EagerCall *ec, bool *fits) {
    const Meta *const operand = ec->tensors[0]->base.meta, *const before = flat->metas[0];
    MetaOut out;
    int n = 1;
    const Meta *meta = flat->direct.target < 0 ? NULL : ec->tensors[flat->direct.target]->base.meta;
    if (!meta) { /* else the rule was asked before the write */
        TRY(call_metas(ec->call, 0, &out, &n));
        if (!(meta = meta_intern_out(&out))) return error_pending();
        if (out.alias >= 0) return ST_OK;
    }
    *fits = meta->contiguous && meta->numel == operand->numel && meta->dtype == before->dtype &&
            meta->device == before->device;
    if (!*fits) return ST_OK;
    eager_entry_hold(flat, 0, meta);
    flat->direct.n = operand->numel;
    return ST_OK;
}

void eager_flat_count(sn_state *state, const EagerCall *ec, const EagerEntry *flat) {
    const uint64_t hash = eager_hash(ec);
    uint32_t *const seen = &state->eager->seen[hash % EAGER_SEEN_MOST];
    const bool again = *seen == (uint32_t)(hash >> 32);
    *seen = (uint32_t)(hash >> 32);
    if (again) insert_copy(state, ec, flat, ec->words, ec->n_words, flat->direct.n);
}
