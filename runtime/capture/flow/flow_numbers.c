/* flow_numbers.c: the texts of a call with numbers in the place of their symbols (ir/flow_text.h), remembered: a loop
 * calls one op with one batch after another, and reading and printing a text takes longer than looking at it.
 *
 *   key of a call: its texts, its ints, the sizes of its operands   ->   texts with numbers, and the numbers
 *
 * Entries are found by the key's hash, a newer one takes the place of an older one. */
#include <pthread.h>

#include "ir/flow_text.h"
#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"
#include "runtime/capture/flow/flow.h"

enum { ENTRIES = 256, MOST_KEY = 4096 };

typedef struct NumbersEntry {
    Arena *arena;
    uint64_t hash;
    const unsigned char *key;
    size_t n_key;
    const char *texts[MAX_ARGS]; /* by parameter that is one; else NULL */
    FlowNumbers numbers;         /* but for `general`, which is the call's */
} NumbersEntry;

static pthread_mutex_t entries_lock = PTHREAD_MUTEX_INITIALIZER;
static NumbersEntry *entries[ENTRIES];

typedef struct NumbersKey {
    size_t n;
    bool fits;
    unsigned char at[MOST_KEY];
} NumbersKey;

static void key_add(NumbersKey *key, const void *from, size_t n) {
    key->fits = key->fits && n <= MOST_KEY - key->n;
    if (!key->fits) return;
    memcpy(key->at + key->n, from, n);
    key->n += n;
}

/* dtypes and devices, which the texts name, have been checked. */
static void key_add_meta(NumbersKey *key, const Meta *meta) {
    key_add(key, &meta->rank, sizeof meta->rank);
    key_add(key, meta->sizes, sizeof *meta->sizes * (size_t)meta->rank);
}

static void key_make(NumbersKey *key, const OpRow *row, const Arg *args) {
    key->n = 0, key->fits = true;
    key_add(key, &row->id, sizeof row->id);
    for (int i = 0; i < row->n_params; i++) {
        const Arg *const a = &args[i];
        if (a->kind == ARG_string) key_add(key, a->string, strlen(a->string) + 1);
        if (a->kind == ARG_tensor) key_add_meta(key, a->val->meta);
        if (a->kind == ARG_ints || a->kind == ARG_tensors) key_add(key, &a->n, sizeof a->n);
        if (a->kind == ARG_ints && a->n) key_add(key, a->ints, sizeof *a->ints * (size_t)a->n);
        for (int k = 0; a->kind == ARG_tensors && k < a->n; k++) key_add_meta(key, a->vals[k]->meta);
        const bool number = row->params[i].symbolic; /* the generator's: no text has it */
        if ((a->kind == ARG_int || a->kind == ARG_bool) && !number) key_add(key, &a->i, sizeof a->i);
    }
}

static bool is_of(const NumbersEntry *entry, const NumbersKey *key, uint64_t hash) {
    return entry && entry->hash == hash && entry->n_key == key->n && !memcmp(entry->key, key->at, key->n);
}

/* Texts and values into the caller's arena. */
static bool take(const NumbersEntry *entry, Arena *arena, const OpRow *row, Arg *args, FlowNumbers *numbers) {
    *numbers = entry->numbers;
    for (int i = 0; i < numbers->count; i++) {
        const int n = numbers->texts[i].n;
        int64_t *const values = ARENA_ARRAY(arena, int64_t, n + 1);
        if (!values) return false;
        memcpy(values, numbers->texts[i].values, sizeof *values * (size_t)n);
        numbers->texts[i].values = values;
        numbers->texts[i].general = args[numbers->texts[i].param].string;
    }
    for (int i = 0; i < row->n_params; i++) {
        if (!entry->texts[i]) continue;
        args[i].string = arena_strdup(arena, entry->texts[i]);
        if (!args[i].string) return false;
    }
    return true;
}

static NumbersEntry *entry_make(const NumbersKey *key, uint64_t hash, const OpRow *row, const Arg *args,
                                const FlowNumbers *numbers) {
    Arena *const arena = arena_new();
    NumbersEntry *const entry = arena ? ARENA_NEW(arena, NumbersEntry) : NULL;
    unsigned char *const bytes = entry ? ARENA_ARRAY(arena, unsigned char, key->n + 1) : NULL;
    bool fine = bytes != NULL;
    if (fine) {
        memcpy(bytes, key->at, key->n);
        *entry = (NumbersEntry){.arena = arena, .hash = hash, .key = bytes, .n_key = key->n, .numbers = *numbers};
    }
    for (int i = 0; fine && i < row->n_params; i++)
        if (args[i].kind == ARG_string) fine = (entry->texts[i] = arena_strdup(arena, args[i].string));
    for (int i = 0; fine && i < numbers->count; i++) {
        const size_t bytes_of = sizeof(int64_t) * (size_t)numbers->texts[i].n;
        int64_t *const values = ARENA_ARRAY(arena, int64_t, numbers->texts[i].n + 1);
        if (!(fine = values != NULL)) break;
        memcpy(values, numbers->texts[i].values, bytes_of);
        entry->numbers.texts[i].values = values;
    }
    if (!fine) arena_free(arena);
    return fine ? entry : NULL;
}

static void remember(NumbersEntry *entry) {
    if (!entry) return;
    pthread_mutex_lock(&entries_lock);
    NumbersEntry **const at = &entries[entry->hash % ENTRIES], *const old = *at;
    *at = entry;
    pthread_mutex_unlock(&entries_lock);
    if (old) arena_free(old->arena);
}

Status flow_numbers_put(Arena *arena, const OpRow *row, Arg *args, FlowNumbers *numbers) {
    NumbersKey key;
    key_make(&key, row, args);
    const uint64_t hash = key.fits ? hash_bytes(13, key.at, key.n) : 0;
    pthread_mutex_lock(&entries_lock);
    const NumbersEntry *const entry = key.fits ? entries[hash % ENTRIES] : NULL;
    const bool found = is_of(entry, &key, hash);
    const bool taken = found && take(entry, arena, row, args, numbers);
    pthread_mutex_unlock(&entries_lock);
    if (found && !taken) return ST_MEMORY;
    if (!found) {
        TRY(flow_args_plain(arena, row, args, numbers));
        if (key.fits) remember(entry_make(&key, hash, row, args, numbers));
    }
    const int ints = op_param_find(row, "ints");
    if (ints >= 0) args[ints] = A_INTS(NULL, 0);
    return ST_OK;
}
