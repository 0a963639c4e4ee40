/* eager_sized.c: entries for calls of any size: their programs take the call's sizes as parameters, as compiled
 * functions do [semantics C5].
 *
 *   add f32[6,10], f32[10]    sizes 6 10    tensor 0: f32, row-major, [s0,s1]; tensor 1: f32, row-major, [s1]
 *   the same at [7,12], [12]  the same key with sizes 7 12: the same program
 *   at [7,1], [1] or [8,8]    another key: sizes of 0 and 1, and which ones are equal, are no parameters
 *
 *   sums on a CUDA device      and whether rows are long: few long rows take another program than many short ones
 *
 *   new size -> key -> entry whose guards hold -> layouts of results -> block kernel, plan or native kernel
 *   the first sizes of a key    run entries of their own: most programs have few
 *   a size that comes again     an entry of its own: at once where that is a copy, later where it is a program
 *
 * Both kinds are in the cache; the first word of a key tells them apart. */
#include "runtime/base/bail.h"
#include "runtime/base/hash.h"
#include "runtime/device/device.h"
#include "runtime/eager/eager.h"

enum {
    SIZED_MARK = 1 << 16, /* beside the form in the first word */
    PLAIN_MARK = 1 << 17, /* the same, of tensors' sizes alone */
    FIRST_SIZES = 2,      /* of a key that have entries of their own */
    MOST_GUARDED = 4,     /* entries of a key, by guards */
    OFTEN = 16,           /* calls of a size after which a program of its own pays */
    SEEN_BITS = 5         /* that count, beside a part of the hash */
};

/* keys ---------------------------------------------------------------------------------------- */

enum { TENSOR_seen = 1 << 8, TENSOR_same_meta = 1 << 9, TENSOR_row_major = 1 << 10, TENSOR_strided = 1 << 11 };
enum { LONG = 1024 }; /* rows of more are worth to be spread over the device, where there are few */
enum { NUMBER_size = 1 << 9, NUMBER_inferred = 0xff };

typedef struct SizedCall {
    const EagerCall *ec;
    SizedSignature *key;
    int at;        /* the next word of the call's signature */
    int n_tensors; /* distinct ones so far */
} SizedCall;

static bool put(SizedSignature *key, uint64_t word) {
    if (key->n == SIZED_WORDS) return false;
    key->words[key->n++] = word;
    return true;
}

/* 0, 1, or 2 + which of the call's sizes; -1: no parameter. */
static inline int code_of(SizedSignature *key, int64_t number) {
    if ((uint64_t)number < 2) return (int)number;
    for (int i = 0; i < key->n_sizes; i++)
        if (key->sizes[i] == number) return 2 + i;
    if (number < 0 || number > EAGER_SIZE_MOST || key->n_sizes == EAGER_SIZES) return -1;
    key->sizes[key->n_sizes] = number;
    return 2 + key->n_sizes++;
}

static bool put_codes(SizedSignature *key, const int64_t *numbers, int n, bool may_infer) {
    uint64_t word = 0;
    for (int i = 0; i < n; i++) {
        const int code = may_infer && numbers[i] == -1 ? NUMBER_inferred : code_of(key, numbers[i]);
        if (code < 0) return false;
        word |= (uint64_t)code << i % 8 * 8;
        if (i % 8 != 7 && i != n - 1) continue;
        if (!put(key, word)) return false;
        word = 0;
    }
    return true;
}

/* The first tensor of the call with this metadata, or itself. */
static int same_meta(const EagerCall *ec, int number) {
    int i = 0;
    while (ec->tensors[i]->base.meta != ec->tensors[number]->base.meta) i++;
    return i;
}

/* Programs are made in no time: of one size they are worth it. */
static bool builds_each(const EagerCall *ec) {
    const DeviceRow *const device = device_of_key(ec->call->key);
    return device && device->blocks;
}

/* How a reduction is spread over a device is in its program, which serves all sizes of a key: whether there are many
 * elements, and in each dim. */
static bool put_lengths(SizedCall *k, const Meta *meta) {
    const OpKind kind = k->ec->row->kind;
    if ((kind != KIND_reduction && kind != KIND_decomposition) || builds_each(k->ec)) return true;
    uint64_t word = meta->numel > LONG;
    for (int d = 0; d < meta->rank; d++) word |= (uint64_t)(meta->sizes[d] > LONG) << (1 + d % 63);
    return put(k->key, word);
}

static bool put_layout(SizedSignature *key, const Meta *meta, uint64_t number) {
    const bool row_major = meta_is_row_major(meta);
    const uint64_t head = number | (row_major ? TENSOR_row_major : TENSOR_strided) | (uint64_t)meta->wrapped << 12 |
                          (uint64_t)meta->dtype << 16 | (uint64_t)meta->rank << 24 |
                          (uint64_t)(uint32_t)meta->device << 32;
    if (meta->numel > INT64_C(1) << 30 || !put(key, head) || !put_codes(key, meta->sizes, meta->rank, false))
        return false;
    return row_major || put_codes(key, meta->strides, meta->rank, false);
}

static bool put_tensor(SizedCall *k, const sn_tensor *t) {
    const uint64_t word = k->ec->words[k->at++];
    if (!t) return put(k->key, word);
    const uint64_t number = word ^ (uint64_t)(uintptr_t)t->base.meta << 8;
    if (number > 0xff) return false;
    if ((int)number < k->n_tensors) return put(k->key, number | TENSOR_seen);
    k->n_tensors++;
    const int same = same_meta(k->ec, (int)number);
    if (same < (int)number) return put(k->key, number | TENSOR_same_meta | (uint64_t)same << 16);
    return put_layout(k->key, t->base.meta, number) && put_lengths(k, t->base.meta);
}

static bool put_word(SizedCall *k) { return put(k->key, k->ec->words[k->at++]); }

static bool put_tensors(SizedCall *k, const Arg *list) {
    bool fits = put_word(k) && put_word(k); /* kind, kind and length */
    for (int i = 0; fits && i < list->n; i++) fits = put_tensor(k, (const sn_tensor *)list->vals[i]);
    return fits;
}

/* Their product, with a tensor's elements, is to stay a number. */
static bool put_ints(SizedCall *k, const Param *param, const Arg *list) {
    bool fits = put_word(k) && put_word(k);
    if (!param->symbolic || k->ec->plain_numbers) {
        for (int i = 0; fits && i < list->n; i++) fits = put_word(k);
        return fits;
    }
    int64_t product = 1;
    k->key->has_numbers = true;
    for (int i = 0; fits && i < list->n; i++)
        fits = list->ints[i] <= EAGER_SIZE_MOST && (product *= max_i64(list->ints[i], 1)) <= INT64_C(1) << 30;
    k->at += list->n;
    return fits && put_codes(k->key, list->ints, list->n, true);
}

static bool put_number(SizedCall *k, int i) {
    const Arg *const a = &k->ec->call->args[i];
    if (eager_number_varies(k->ec, i)) return put_word(k);
    if (a->kind == ARG_int && !k->ec->plain_numbers && eager_is_size(&k->ec->row->params[i], a->i)) {
        k->key->has_numbers = true;
        k->at += 2;
        const int code = code_of(k->key, a->i);
        return code >= 0 && put(k->key, (uint64_t)code << 16 | NUMBER_size | ARG_int);
    }
    return put_word(k) && put_word(k);
}

static bool put_arg(SizedCall *k, int i) {
    const Arg *const a = &k->ec->call->args[i];
    switch ((ArgKind)a->kind) {
    case ARG_tensor:
        return put_tensor(k, (const sn_tensor *)a->val);
    case ARG_tensors:
        return put_tensors(k, a);
    case ARG_ints:
        return put_ints(k, &k->ec->row->params[i], a);
    case ARG_floats:
        return false;
    case ARG_int:
    case ARG_float:
        return put_number(k, i);
    case ARG_bool:
    case ARG_string:
        return put_word(k) && put_word(k);
    default:
        return put_word(k);
    }
}

/* Rules that speak of a count of results or in the program's own words take plain numbers. */
static bool takes_sizes(const OpRow *row) {
    return !(row->flags & OPF_user || row->role == ROLE_resizes) && !row->returns_list;
}

bool eager_sized_signature(const EagerCall *ec, SizedSignature *key) {
    SizedCall k = {.ec = ec, .key = key, .at = 1};
    if (!takes_sizes(ec->row)) return false;
    key->words[0] = ec->words[0] ^ (ec->plain_numbers ? PLAIN_MARK : SIZED_MARK);
    key->n = 1;
    key->n_sizes = 0;
    key->has_numbers = false;
    for (int i = 0; i < ec->row->n_params; i++)
        if (!put_arg(&k, i)) return false;
    for (int i = 0; ec->call->form == FORM_out && i < ec->row->n_out; i++)
        if (!put_tensor(&k, ec->call->out_args[i])) return false;
    return key->n_sizes > 0;
}

/* finding ------------------------------------------------------------------------------------- */

int eager_count_seen(sn_state *state, const EagerCall *ec) {
    const uint64_t hash = ec->hash;
    if (UNLIKELY(!state->eager)) return 1; /* its entry makes room for what is counted */
    uint32_t *const seen = &state->eager->seen[hash % EAGER_SEEN_MOST];
    const uint32_t most = (1u << SEEN_BITS) - 1, part = (uint32_t)(hash >> 32) & ~most;
    const uint32_t n = (*seen & ~most) == part ? *seen & most : 0;
    *seen = part | (n < most ? n + 1 : n);
    return (int)n;
}

/* How many calls with this key had none: or with others that count with it, which get theirs sooner. */
static int count_key(EagerCache *cache, uint64_t hash) {
    uint8_t *const n = &cache->missed[hash % EAGER_SEEN_MOST];
    return *n < FIRST_SIZES ? (*n)++ : FIRST_SIZES;
}

/* Tests ask for programs of one kind. */
static bool asked(const char *failpoint_name) { return UNLIKELY(failpoints_set()) && failpoint(failpoint_name); }

static Status make_sized(sn_state *state, EagerCall *ec, const SizedSignature *key, EagerEntry **out) {
    METAS_OF_CALL metas;
    EagerEntry *made;
    TRY(eager_metas(ec->call, 0, &metas)); /* what is wrong with the arguments is told of their sizes */
    TRY(eager_build_sized(ec, key, &made));
    if (eager_cache_insert(state, made))
        *out = made;
    else
        eager_entry_free(made);
    return ST_OK;
}

Status eager_sized_find(sn_state *state, EagerCall *ec, const SizedSignature *key, EagerEntry **out) {
    EagerCache *const cache = state->eager;
    const uint64_t hash = eager_hash(key->words, key->n);
    int n = 0;
    *out = NULL;
    if (asked("any_size")) return ST_OK;
    for (EagerEntry *entry = cache ? *eager_bucket(cache, hash) : NULL; entry; entry = entry->next) {
        if (entry->n_words != key->n || memcmp(entry->words, key->words, (size_t)key->n * sizeof *key->words)) continue;
        n++;
        if (entry->n_guards && !eager_guards_hold(entry, ec)) continue;
        entry->used = true;
        *out = entry;
        return ST_OK;
    }
    const bool first = builds_each(ec) && (!cache || count_key(cache, hash) < FIRST_SIZES);
    return n == MOST_GUARDED || (first && !asked("one_size")) ? ST_OK : make_sized(state, ec, key, out);
}

/* results ------------------------------------------------------------------------------------- */

static int64_t value_of(const EagerSized *sized, int64_t number, const int64_t *symbols) {
    return sym_is(number) ? sym_eval(sized->env, number, symbols) : number;
}

static const Meta *meta_like(const Meta *meta, const Meta *same) {
    if (meta->dtype == same->dtype && meta->device == same->device && meta->wrapped == same->wrapped) return same;
    return meta_intern(meta->dtype, meta->device, same->sizes, same->strides, same->rank, meta->wrapped);
}

static const Meta *result_meta(const EagerSized *sized, const Meta *meta, const int64_t *symbols) {
    int64_t sizes[MAX_RANK], strides[MAX_RANK];
    for (int d = 0; d < meta->rank; d++) {
        sizes[d] = value_of(sized, meta->sizes[d], symbols);
        strides[d] = value_of(sized, meta->strides[d], symbols);
    }
    return meta_intern(meta->dtype, meta->device, sizes, strides, meta->rank, meta->wrapped);
}

Status eager_sized_results(EagerEntry *entry, const EagerCall *ec, const Meta **metas) {
    const EagerSized *const sized = entry->sized;
    int64_t symbols[EAGER_SYMBOLS];
    eager_symbols(entry, ec, symbols);
    for (int i = 0; i < entry->n_outs; i++) {
        const int same = sized->outs[i].same_as;
        const Meta *const meta = sized->outs[i].meta;
        metas[i] = same >= 0 ? meta_like(meta, ec->tensors[same]->base.meta) : result_meta(sized, meta, symbols);
        if (!metas[i]) return error_pending();
    }
    if (entry->kind != RUN_direct) return ST_OK;
    const int target = entry->direct.target;
    entry->direct.n = target < 0 ? metas[0]->numel : ec->tensors[target]->base.meta->numel;
    entry->direct.row = value_of(sized, sized->row, symbols);
    return ST_OK;
}

/* entries of one size ------------------------------------------------------------------------- */

static Status insert_copy(sn_state *state, const EagerCall *ec, const EagerEntry *from, const Meta *const *metas) {
    EagerEntry *const copy = eager_entry_new(ec, ec->words, ec->n_words, from->kind, from->n_outs);
    if (!copy) return ST_MEMORY;
    eager_entry_hold_operands(copy, ec);
    for (int i = 0; i < from->n_outs; i++) eager_entry_hold(copy, i, metas[i]);
    copy->rechecks = from->rechecks;
    copy->has_program = false;
    copy->can_go = true;
    const bool copied = from->kind != RUN_direct || eager_direct_copy(&copy->direct, &from->direct, from->direct.n);
    copy->bytes = eager_entry_bytes(copy);
    if (!copied || !eager_cache_insert(state, copy)) eager_entry_free(copy);
    return copied ? ST_OK : ST_MEMORY;
}

static Status insert_program(sn_state *state, EagerCall *ec) {
    EagerEntry *entry;
    bool transient = false;
    ec->n_sizes = 0;
    TRY(eager_build(ec, &entry, &transient));
    entry->can_go = true;
    if (!eager_cache_insert(state, entry)) eager_entry_free(entry);
    return ST_OK;
}

Status eager_sized_again(sn_state *state, EagerCall *ec, EagerEntry *sized, const Meta *const *metas) {
    const int n = eager_count_seen(state, ec);
    if (asked("one_size")) return ST_OK;
    if (!metas && !builds_each(ec)) return ST_OK;
    if (metas) return n && eager_cache_has_capacity(state, false) ? insert_copy(state, ec, sized, metas) : ST_OK;
    return n == OFTEN && !sized->n_ints && eager_cache_has_capacity(state, true) ? insert_program(state, ec) : ST_OK;
}
