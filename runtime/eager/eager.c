/* eager.c: a backend of the dispatcher for any device: an op is a one-node program, found by its signature.
 *
 *   args -> signature (words, hash) and numbers -> entry -> outputs from interned metas
 *        -> one block kernel, or the interpreter
 *
 * Entries belong to the thread's state, so lookups take no lock. See eager.h for the files. */
#include "runtime/eager/eager.h"

#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/fpenv.h"
#include "runtime/base/hash.h"
#include "runtime/base/small_array.h"
#include "runtime/device/device.h"
#include "runtime/device/launch.h"
#include "runtime/device/watch.h"

/* signatures ---------------------------------------------------------------------------------- */

/* More room for a signature with long lists: *at moves to the heap. No room at all once memory was out. */
static COLD bool more_capacity(void **at, int *buffer, const void *usual, size_t item) {
    void *const wider = *buffer ? mem_alloc((size_t)*buffer * 2 * item) : NULL;
    if (!wider) return *buffer = 0, false;
    memcpy(wider, *at, (size_t)*buffer * item);
    if (*at != usual) mem_free(*at);
    *at = wider;
    *buffer *= 2;
    return true;
}

static COLD bool more_words(EagerCall *ec) {
    return more_capacity((void **)&ec->words, &ec->words_capacity, ec->usual_words, sizeof *ec->words);
}
static COLD bool more_tensors(EagerCall *ec) {
    return more_capacity((void **)&ec->tensors, &ec->tensors_capacity, ec->usual_tensors, sizeof *ec->tensors);
}

static inline void put_word(EagerCall *ec, uint64_t word) {
    if (LIKELY(ec->n_words < ec->words_capacity) || more_words(ec)) ec->words[ec->n_words] = word;
    ec->n_words++;
}

static inline bool same_tensor(const sn_tensor *a, const sn_tensor *b) {
    return a == b || (a->storage == b->storage && a->offset == b->offset && a->base.meta == b->base.meta);
}

/* The tensor's number among the distinct ones, -1: no memory. */
static inline int number_of(EagerCall *ec, sn_tensor *t) {
    for (int i = 0; i < ec->n_tensors; i++)
        if (same_tensor(ec->tensors[i], t)) return i;
    if (UNLIKELY(ec->n_tensors == ec->tensors_capacity) && !more_tensors(ec)) return -1;
    ec->tensors[ec->n_tensors] = t;
    return ec->n_tensors++;
}

static inline Status put_tensor(EagerCall *ec, sn_tensor *t) {
    if (!t) {
        put_word(ec, ARG_none);
        return ST_OK;
    }
    if (UNLIKELY(t->placeholder != NULL || !t->storage)) TRY(tensor_ready(t, ec->row->name));
    const int number = number_of(ec, t);
    if (UNLIKELY(number < 0)) return ST_MEMORY;
    put_word(ec, (uint64_t)(uintptr_t)t->base.meta << 8 ^ (uint64_t)number);
    return ST_OK;
}

static Status put_list(EagerCall *ec, const Arg *arg) {
    put_word(ec, (uint64_t)arg->kind << 32 | (uint32_t)arg->n);
    for (int i = 0; i < arg->n; i++) {
        if (arg->kind == ARG_tensors)
            TRY(put_tensor(ec, (sn_tensor *)arg->vals[i]));
        else
            put_word(ec, (uint64_t)arg->ints[i]); /* floats: their bits */
    }
    return ST_OK;
}

enum { WORD_VARIES = 1 << 8 }; /* beside a kind: the number is no part of the signature */

static inline void put_number(EagerCall *ec, int i) {
    const Arg *const arg = &ec->call->args[i];
    if (!eager_number_varies(ec, i)) {
        put_word(ec, (uint64_t)arg->kind);
        put_word(ec, (uint64_t)arg->i);
        return;
    }
    put_word(ec, (uint64_t)arg->kind | WORD_VARIES);
    if (arg->kind == ARG_float)
        ec->floats[ec->n_floats++] = arg->f;
    else
        ec->ints[ec->n_ints++] = arg->i;
}

static inline Status put_arg(EagerCall *ec, int i) {
    const Arg *const arg = &ec->call->args[i];
    if (LIKELY(arg->kind == ARG_tensor)) return put_tensor(ec, (sn_tensor *)arg->val);
    if (arg->kind == ARG_int || arg->kind == ARG_float) return put_number(ec, i), ST_OK;
    put_word(ec, (uint64_t)arg->kind);
    if (arg->kind == ARG_bool)
        put_word(ec, (uint64_t)arg->i);
    else if (arg->kind == ARG_string)
        put_word(ec, hash_bytes(0, arg->string, strlen(arg->string)));
    else if (arg->kind == ARG_ints || arg->kind == ARG_floats || arg->kind == ARG_tensors)
        return put_list(ec, arg);
    return ST_OK;
}

static inline Status sign(EagerCall *ec) {
    const OpCall *const call = ec->call;
    ec->n_words = ec->n_tensors = ec->n_floats = ec->n_ints = 0;
    put_word(ec, (uint64_t)(uintptr_t)ec->row ^ (uint64_t)call->form);
    for (int i = 0; i < ec->row->n_params; i++) TRY(put_arg(ec, i));
    for (int i = 0; call->form == FORM_out && i < ec->row->n_out; i++) TRY(put_tensor(ec, call->out_args[i]));
    return LIKELY(ec->n_words <= ec->words_capacity) ? ST_OK : ST_MEMORY;
}

/* lookup -------------------------------------------------------------------------------------- */

static inline bool same_words(const EagerEntry *entry, const EagerCall *ec) {
    if (entry->n_words != ec->n_words) return false;
    for (int i = 0; i < ec->n_words; i++)
        if (entry->words[i] != ec->words[i]) return false;
    return true;
}

bool eager_guards_hold(const EagerEntry *entry, const EagerCall *ec) {
    const SymEnv *const env = entry->sized ? entry->sized->env : entry->program.run->plan->env;
    int64_t symbols[EAGER_SYMBOLS];
    eager_symbols(entry, ec, symbols);
    for (int i = 0; i < entry->n_guards; i++)
        if (!sym_guard_holds(env, sym_guard_at(env, i), symbols)) return false;
    return true;
}

static inline bool entry_fits(const EagerEntry *entry, const EagerCall *ec) {
    return same_words(entry, ec) && (LIKELY(!entry->n_guards) || eager_guards_hold(entry, ec));
}

static EagerEntry *search(EagerCache *cache, EagerCall *ec) {
    ec->hash = eager_hash(ec->words, ec->n_words);
    for (EagerEntry *entry = cache ? *eager_bucket(cache, ec->hash) : NULL; entry; entry = entry->next) {
        if (!entry_fits(entry, ec)) continue;
        entry->used = true;
        return cache->recent[ec->row->id & (EAGER_RECENT - 1)] = entry;
    }
    return NULL;
}

/* The op's most recent program is tried first: no hash, and its address is known early. */
static inline EagerEntry *find_entry(EagerCache *cache, EagerCall *ec) {
    EagerEntry *const recent = LIKELY(cache != NULL) ? cache->recent[ec->row->id & (EAGER_RECENT - 1)] : NULL;
    return LIKELY(recent && entry_fits(recent, ec)) ? recent : search(cache, ec);
}

/* running ------------------------------------------------------------------------------------- */

static inline const void *operand_at(const Direct *direct, const EagerCall *ec, int i) {
    const int operand = direct->operand[i];
    return operand == DIRECT_const ? direct->constant[i] : operand < 0 ? NULL : tensor_data(ec->tensors[operand]);
}

static void reduce_rows(const Direct *direct, char *out, const char *from) {
    for (int64_t i = 0; i < direct->n; i++)
        direct->reduce(out + i * direct->out_bytes, from + i * direct->row * direct->bytes[0], NULL, direct->row);
}

static inline void run_blocks(const Direct *direct, char *out, const char *const at[MAX_DIRECT]) {
    for (int64_t i = 0; i < direct->n; i += BLOCK) {
        const int64_t n = min_i64(BLOCK, direct->n - i);
        direct->fn(out + i * direct->out_bytes, at[0] + i * direct->bytes[0], at[1] + i * direct->bytes[1],
                   at[2] + i * direct->bytes[2], n);
    }
}

/* The caller's handles: an operand of the same memory may stand for one of them among ec->tensors. */
static void written_outs(OpCall *call) {
    for (int i = 0; i < call->row->n_out; i++) call->outs[i] = call_written(call, i);
}

static inline Status run_unwatched_blocks(EagerEntry *entry, EagerCall *ec, const Meta *const *metas) {
    const Direct *const direct = &entry->direct;
    if (UNLIKELY(direct->has_numbers)) eager_direct_fill(&entry->direct, ec);
    sn_tensor *const out = direct->target < 0 ? tensor_new(metas[0]) : ec->tensors[direct->target];
    if (UNLIKELY(!out)) return error_pending();
    const uint32_t fp = fp_enter();
    const char *const at[MAX_DIRECT] = {operand_at(direct, ec, 0), operand_at(direct, ec, 1),
                                        operand_at(direct, ec, 2)};
    if (direct->reduce)
        reduce_rows(direct, tensor_data(out), at[0]);
    else
        run_blocks(direct, tensor_data(out), at);
    fp_leave(fp);
    if (direct->target < 0) {
        ec->call->outs[0] = out;
        return ST_OK;
    }
    tensor_written(out);
    written_outs(ec->call);
    return ST_OK;
}

static COLD Status run_watched_blocks(EagerEntry *entry, EagerCall *ec, const Meta *const *metas) {
    __attribute__((cleanup(watch_step_end))) StepWatch watched =
        watch_step_begin(NULL, ec->row->name, device_of_key(ec->call->key));
    return run_unwatched_blocks(entry, ec, metas);
}

static inline Status run_direct(EagerEntry *entry, EagerCall *ec, const Meta *const *metas) {
    return watch_is_on() ? run_watched_blocks(entry, ec, metas) : run_unwatched_blocks(entry, ec, metas);
}

void eager_symbols(const EagerEntry *entry, const EagerCall *ec, int64_t symbols[EAGER_SYMBOLS]) {
    int n = 0;
    if (entry->seed >= 0) {
        const sn_state *const state = state_get();
        symbols[n++] = (int64_t)state->seed;
        symbols[n++] = (int64_t)state->sequence;
    }
    for (int i = 0; i < ec->n_sizes; i++) symbols[n++] = ec->sizes[i];
    for (int i = 0; i < ec->n_ints; i++) symbols[n++] = ec->ints[i];
}

static Status run_plan(EagerEntry *entry, EagerCall *ec) {
    sn_state *const state = state_get();
    EagerProgram *const program = &entry->program;
    Executable *const run = eager_program_ready(program, ec->row->name);
    const bool timed = eager_program_is_timed(program);
    const int64_t start = timed ? clock_ns() : 0;
    int64_t symbols[EAGER_SYMBOLS];
    eager_symbols(entry, ec, symbols);
    TRY(execute(run, ec->tensors, symbols, ec->floats, ec->call->outs));
    if (timed) eager_program_spent(program, ec->row->name, clock_ns() - start);
    if (ec->row->flags & OPF_random) state->sequence++;
    if (ec->call->form != FORM_functional) written_outs(ec->call);
    return ST_OK;
}

/* Only as_strided and what it becomes can name memory that their argument does not cover. The end is a double: no
 * offset overflows it, and it is exact for any that memory can have. */
static Status check_inside(OpCall *call) {
    const sn_tensor *const view = call->outs[0];
    const Meta *const meta = view->base.meta;
    const double end = (double)view->offset * dtype_bytes(meta->dtype) + (double)meta_bytes(meta);
    if (view->offset >= 0 && (!meta->numel || end <= (double)view->storage->bytes)) return ST_OK;
    call->outs[0] = NULL;
    return error_raise(ST_VALUE, "%s: the view ends %.0f bytes into a storage of %zu bytes", call->row->name, end,
                       view->storage->bytes);
}

/* Where base begins, in elements of a view's dtype. */
static int64_t offset_in(const sn_tensor *base, const Meta *view) {
    return base->offset * dtype_bytes(base->base.meta->dtype) / dtype_bytes(view->dtype);
}

/* view.dtype: the same first byte, which must be a place for such an element. */
static Status run_bits(const EagerCall *ec, sn_tensor *base, const Meta *meta) {
    const DType from = base->base.meta->dtype, to = meta->dtype;
    const int64_t offset = offset_in(base, meta);
    if (offset * dtype_bytes(to) != base->offset * dtype_bytes(from))
        return error_raise(ST_VALUE, "%s: the storage offset %lld of %s is no multiple of %s's size", ec->row->name,
                           (long long)base->offset, dtype_name(from), dtype_name(to));
    if ((uintptr_t)tensor_data(base) % (uintptr_t)dtype_bytes(to) && meta->numel)
        return error_raise(ST_VALUE, "%s: the memory is not aligned for %s", ec->row->name, dtype_name(to));
    ec->call->outs[0] = tensor_view(base, meta, offset);
    return ec->call->outs[0] ? ST_OK : error_pending();
}

static inline Status run_view(EagerCall *ec, sn_tensor *base, int n, const Meta *const *metas, const int64_t *offsets) {
    if (UNLIKELY(ec->row->role == ROLE_bits)) return run_bits(ec, base, metas[0]);
    for (int i = 0; i < n; i++)
        if (!(ec->call->outs[i] = tensor_view(base, metas[i], base->offset + offsets[i]))) return error_pending();
    if (UNLIKELY(ec->call->row->flags & OPF_places)) TRY(check_inside(ec->call));
    ec->call->n_outs = n;
    return ST_OK;
}

static Device device_beside(const OpCall *call);

/* The device where the call runs. A key may serve several devices. */
static const DeviceRow *row_of_call(const DeviceRow *first, const OpCall *call) {
    if (!first->memory.other) return first;
    return device_row(call->n_outs ? call->outs[0]->base.meta->device : device_beside(call));
}

static Status run_native(const EagerEntry *entry, EagerCall *ec, const Meta *const *metas) {
    OpCall *const call = ec->call;
    for (int i = 0; i < entry->n_outs; i++)
        if (!(call->outs[i] = tensor_new(metas[i]))) return error_pending();
    call->n_outs = entry->n_outs;
    if (UNLIKELY(call_is_empty(call))) return ST_OK;
    const DeviceRow *const row = device_of_key(call->key);
    __attribute__((cleanup(watch_step_end))) StepWatch watched =
        watch_is_on() ? watch_step_begin(NULL, ec->row->name, row_of_call(row, call)) : (StepWatch){0};
    const uint32_t fp = fp_enter();
    const Status status = row->native(ec->row)(call);
    fp_leave(fp);
    return status;
}

/* Numbers that the op's rule has not seen yet, where it may refuse them. */
static Status recheck(EagerEntry *entry, const EagerCall *ec) {
    const size_t floats = sizeof *ec->floats * (size_t)ec->n_floats, ints = sizeof *ec->ints * (size_t)ec->n_ints;
    int64_t *const checked = entry->checked;
    if (entry->is_checked && !memcmp(checked, ec->floats, floats) && !memcmp(checked + ec->n_floats, ec->ints, ints))
        return ST_OK;
    MetaOut few[2], *const outs = SMALL_ARRAY(few, ec->row->n_out);
    int n = ec->row->n_out;
    const Status status = outs ? call_metas(ec->call, 0, outs, &n) : ST_MEMORY;
    small_array_free(few, outs);
    TRY(status);
    memcpy(checked, ec->floats, floats);
    memcpy(checked + ec->n_floats, ec->ints, ints);
    entry->is_checked = true;
    return ST_OK;
}

static inline Status run_entry(EagerEntry *entry, EagerCall *ec) {
    if (UNLIKELY(entry->rechecks)) TRY(recheck(entry, ec));
    if (LIKELY(entry->kind == RUN_direct))
        return LIKELY(entry->direct.n * entry->direct.row <= EAGER_DIRECT_MOST) ? run_direct(entry, ec, entry->metas)
                                                                                : run_plan(entry, ec);
    if (entry->kind == RUN_view)
        return run_view(ec, ec->tensors[entry->base], entry->n_outs, entry->metas, entry->offsets);
    return entry->kind == RUN_plan ? run_plan(entry, ec) : run_native(entry, ec, entry->metas);
}

/* Long rows have more than one chunk. */
static bool fits_blocks(const Direct *direct) {
    return direct->n * direct->row <= EAGER_DIRECT_MOST &&
           (!direct->reduce || (direct->row >= 1 && direct->row <= CHUNK_L));
}

/* An entry for any size, then what comes of this one. */
static Status run_sized(sn_state *state, EagerEntry *entry, EagerCall *ec) {
    const Meta *metas[MAX_OUTS];
    if (UNLIKELY(entry->rechecks)) TRY(recheck(entry, ec));
    if (entry->kind != RUN_plan) TRY(eager_sized_results(entry, ec, metas));
    if (entry->kind == RUN_plan || (entry->kind == RUN_direct && !fits_blocks(&entry->direct))) {
        TRY(run_plan(entry, ec));
        return eager_sized_again(state, ec, entry, NULL);
    }
    if (entry->kind == RUN_direct)
        TRY(run_direct(entry, ec, metas));
    else
        TRY(run_native(entry, ec, metas));
    return eager_sized_again(state, ec, entry, metas);
}

/* *stays: the cache has it. */
static Status build_entry(EagerCall *ec, bool can_go, EagerEntry **entry, bool *stays) {
    bool transient = false;
    TRY(eager_build(ec, entry, &transient));
    (*entry)->can_go = can_go;
    *stays = !transient && eager_cache_insert(state_get(), *entry);
    if (*stays) state_get()->eager->recent[ec->row->id & (EAGER_RECENT - 1)] = *entry;
    return ST_OK;
}

static Status run_signed(EagerCall *ec);

/* With its numbers in the signature. */
static COLD Status run_exact(EagerCall *ec) {
    ec->exact = true;
    TRY(sign(ec));
    return run_signed(ec);
}

enum { MOST_VARIANTS = 4 }; /* of a signature, by guards on its numbers */

static bool has_many_variants(const EagerCall *ec) {
    EagerCache *const cache = state_get()->eager;
    int n = 0;
    for (const EagerEntry *e = cache ? *eager_bucket(cache, ec->hash) : NULL; e; e = e->next) n += same_words(e, ec);
    return n >= MOST_VARIANTS;
}

static COLD Status build_and_run(EagerCall *ec, bool can_go) {
    EagerEntry *entry;
    bool stays = false;
    if (ec->n_ints && has_many_variants(ec)) return run_exact(ec);
    TRY(build_entry(ec, can_go, &entry, &stays));
    const bool exact = entry->kind == RUN_exact;
    const Status status = exact ? ST_OK : run_entry(entry, ec);
    if (!stays) eager_entry_free(entry);
    return exact ? run_exact(ec) : status;
}

/* A view, or memory whose elements are not set. */
static bool is_layout_only(const EagerCall *ec) {
    return ec->call->form == FORM_functional && (ec->row->kind == KIND_view || ec->row->flags & OPF_unset);
}

/* The rule costs less than looking for what serves any size. An entry comes with the second call. */
static COLD Status run_new_layout(EagerCall *ec) {
    sn_tensor *const self = ec->row->kind == KIND_view ? ec->tensors[0] : NULL;
    MetaOut out;
    int n = 1;
    TRY(call_metas(ec->call, self ? self->offset : 0, &out, &n));
    const Meta *const meta = meta_intern_out(&out);
    if (!meta) return error_pending();
    if (self) return run_view(ec, self, n, &meta, &out.offset);
    ec->call->n_outs = n;
    return (ec->call->outs[0] = tensor_new(meta)) ? ST_OK : error_pending();
}

/* Another size than before, it may be. */
static COLD Status run_unknown(EagerCall *ec) {
    sn_state *const state = state_get();
    SizedSignature key;
    EagerEntry *sized;
    if (is_layout_only(ec)) {
        const bool again = eager_count_seen(state, ec) && eager_cache_has_capacity(state, false);
        return again ? build_and_run(ec, true) : run_new_layout(ec);
    }
    do {
        if (!eager_sized_signature(ec, &key)) break;
        ec->sizes = key.sizes;
        ec->n_sizes = key.n_sizes;
        TRY(eager_sized_find(state, ec, &key, &sized));
        if (sized && sized->kind != RUN_exact) return run_sized(state, sized, ec);
        ec->plain_numbers = true; /* pads and counts of groups are sizes that few rules take as parameters */
    } while (sized && key.has_numbers);
    ec->n_sizes = 0;
    return build_and_run(ec, false);
}

static COLD Status run_missed(EagerCall *ec, const EagerEntry *entry) {
    return entry ? run_exact(ec) : run_unknown(ec);
}

static Status run_signed(EagerCall *ec) {
    EagerEntry *const entry = find_entry(state_get()->eager, ec);
    return LIKELY(entry && entry->kind != RUN_exact) ? run_entry(entry, ec) : run_missed(ec, entry);
}

/* Operands that overlap what is written only in part are replaced by copies; then the signature is
 * made anew. */
static Status run_written(OpCall *call, EagerCall *ec) {
    TRY(eager_prepare_write(call));
    TRY(sign(ec));
    return run_signed(ec);
}

static Status run_form(OpCall *call, EagerCall *ec) {
    Arg args[MAX_ARGS];
    OpCall separated = *call;
    bool copied = false;
    sn_state *const state = state_get();
    TRY(scope_push(state, false));
    Status status = eager_separate(call, args, &copied);
    if (copied) separated.args = args, ec->call = &separated;
    if (status == ST_OK) status = run_written(ec->call, ec);
    scope_pop(state); /* results are the caller's tensors: nothing of this scope leaves it */
    return status;
}

static inline Status run_functional(EagerCall *ec) {
    TRY(sign(ec));
    EagerEntry *const entry = find_entry(state_get()->eager, ec);
    return LIKELY(entry && entry->kind != RUN_exact) ? run_entry(entry, ec) : run_missed(ec, entry);
}

static Status run_call(OpCall *call) {
    EagerCall ec;
    ec.call = call;
    ec.row = call->row;
    ec.exact = false;
    ec.n_sizes = 0;
    ec.plain_numbers = false;
    ec.tensors = ec.usual_tensors, ec.tensors_capacity = USUAL_TENSORS;
    ec.words = ec.usual_words, ec.words_capacity = USUAL_WORDS;
    const Status status = LIKELY(call->form == FORM_functional) ? run_functional(&ec) : run_form(call, &ec);
    if (UNLIKELY(ec.tensors != ec.usual_tensors)) mem_free(ec.tensors);
    if (UNLIKELY(ec.words != ec.usual_words)) mem_free(ec.words);
    return status;
}

/* On a device beside the host: 0-dim tensors of the host are operands of any device. */
typedef struct BesideCall {
    Arg args[MAX_ARGS];
    Val **list; /* of all tensor lists */
    int n_list;
    Device device;
    bool moved;
} BesideCall;

static Device device_beside(const OpCall *call) {
    for (int i = 0; i < call->row->n_params; i++) {
        const Arg *const arg = &call->args[i];
        Val *const *const vals = arg->kind == ARG_tensors ? arg->vals : &arg->val;
        const int n = arg->kind == ARG_tensors ? arg->n : arg->kind == ARG_tensor;
        for (int k = 0; k < n; k++)
            if (vals[k] && !device_is_host(vals[k]->meta->device)) return vals[k]->meta->device;
    }
    return device_of_key(call->key)->memory.device;
}

static Status move_number(BesideCall *beside, Val **val) {
    sn_tensor *const t = *val ? tensor_of(*val) : NULL;
    if (!t || t->base.meta->rank || !device_is_host(t->base.meta->device)) return ST_OK;
    TRY(tensor_ready(t, "a copy"));
    const Meta *const meta = meta_intern(t->base.meta->dtype, beside->device, NULL, NULL, 0, t->base.meta->wrapped);
    sn_tensor *const there = meta ? tensor_new(meta) : NULL;
    if (!there) return error_pending();
    beside->moved = true;
    *val = &there->base;
    return memory_copy(there->storage->memory, tensor_data(there), memory_host(), tensor_data(t),
                       (size_t)meta_bytes(meta));
}

static Status move_numbers(BesideCall *beside, const OpCall *call) {
    for (int i = 0; i < call->row->n_params; i++) {
        Arg *const arg = &beside->args[i];
        *arg = call->args[i];
        if (arg->kind == ARG_tensor) TRY(move_number(beside, &arg->val));
        if (arg->kind != ARG_tensors) continue;
        Val **const list = beside->list + beside->n_list;
        beside->n_list += arg->n;
        for (int k = 0; k < arg->n; k++) {
            list[k] = arg->vals[k];
            TRY(move_number(beside, &list[k]));
        }
        arg->vals = list;
    }
    return ST_OK;
}

static Status run_moved(OpCall *call, BesideCall *beside) {
    OpCall there = *call;
    there.args = beside->args;
    TRY(run_call(&there));
    call->n_outs = there.n_outs;
    return ST_OK;
}

static Status run_beside(OpCall *call) {
    Val *few[32];
    int n = 0;
    for (int i = 0; i < call->row->n_params; i++) n += call->args[i].kind == ARG_tensors ? call->args[i].n : 0;
    BesideCall beside = {.list = SMALL_ARRAY(few, n), .device = device_beside(call)};
    if (!beside.list) return ST_MEMORY;
    SMALL_ARRAY_OWNER list = {few, beside.list};
    sn_state *const state = state_get();
    const uint32_t depth = state->n_scopes;
    TRY(scope_push(state, false));
    Status status = move_numbers(&beside, call);
    if (status == ST_OK) status = run_moved(call, &beside);
    scope_pop_passing(state, depth, call->outs, status == ST_OK && call->form == FORM_functional ? call->n_outs : 0);
    return status;
}

static inline Status run_here(OpCall *call) { return LIKELY(call->key == KEY_cpu) ? run_call(call) : run_beside(call); }

/* Rows that ask a tensor for its layout only, and give another tensor. */
static bool takes_layout(const OpRow *row) {
    return row->options && row->flags & OPF_nodiff && row->params[0].type == PT_tensor;
}

/* The layout of a tensor that has no data on this device, with none. */
static sn_tensor *layout_of(const Meta *from, Device device) {
    const Meta *const meta = meta_intern(from->dtype, device, from->sizes, from->strides, from->rank, false);
    Storage *const nothing = meta ? storage_wrap(device, NULL, 0, NULL, NULL) : NULL;
    sn_tensor *const t = nothing ? tensor_from_storage(nothing, meta, 0) : NULL;
    if (nothing) storage_release(nothing);
    return t;
}

static Status run_with_layout(OpCall *call, const Meta *from) {
    OpCall here = *call;
    Arg args[MAX_ARGS];
    sn_tensor *const layout = layout_of(from, device_of_key(call->key)->memory.device);
    if (!layout) return error_pending();
    memcpy(args, call->args, sizeof *args * (size_t)call->row->n_params);
    args[0] = A_VAL(&layout->base);
    here.args = args;
    return run_here(&here);
}

/* A row with a device argument: zeros_like of a tensor on another device. */
static Status run_at_device(OpCall *call) {
    const Arg *const self = &call->args[0];
    if (self->kind != ARG_tensor || key_of_device(self->val->meta->device) == UINT64_C(1) << call->key)
        return run_here(call);
    if (!takes_layout(call->row)) return call->row->flags & OPF_across ? eager_move(call) : run_here(call);
    sn_state *const state = state_get();
    const uint32_t depth = state->n_scopes;
    TRY(scope_push(state, false));
    const Status status = run_with_layout(call, self->val->meta);
    scope_pop_passing(state, depth, call->outs, status == ST_OK ? call->n_outs : 0);
    return status;
}

Status eager_kernel(OpCall *call) { return LIKELY(call->row->device < 0) ? run_here(call) : run_at_device(call); }

/* the Meta device ----------------------------------------------------------------------------- */

static sn_tensor *first_tensor(const OpCall *call, int arg) {
    const Arg *const a = &call->args[arg];
    return tensor_of(a->kind == ARG_tensors ? a->vals[0] : a->val);
}

/* A result elsewhere would be made of values, as copy's into a 0-dim tensor. */
static Status check_without_data(const OpCall *call, const EagerMetas *metas) {
    for (int i = 0; i < metas->n; i++)
        if (metas->at[i].meta->device != DEV_meta)
            return error_raise(ST_DEVICE, "%s: a tensor on the meta device has no data",
                               op_form_name(call->row, call->form));
    return ST_OK;
}

/* Rules that speak of memory (as_strided) give offsets that depend on the base's. */
Status eager_metas_alone(const OpCall *call, EagerMetas *out) {
    const sn_tensor *const self = call->row->kind == KIND_view ? first_tensor(call, 0) : NULL;
    return eager_metas(call, self ? self->offset : 0, out);
}

int64_t eager_place_of(const OpCall *call, const EagerMetas *metas, int i, sn_tensor **base) {
    *base = metas->at[i].alias < 0 ? NULL : first_tensor(call, metas->at[i].alias);
    return *base ? offset_in(*base, metas->at[i].meta) + metas->at[i].offset : 0;
}

static Status meta_kernel(OpCall *call) {
    METAS_OF_CALL metas;
    sn_tensor *base;
    TRY(eager_metas_alone(call, &metas));
    TRY(check_without_data(call, &metas));
    if (call->form != FORM_functional) {
        written_outs(call);
        for (int i = 0; i < call->row->n_out; i++) tensor_written(call->outs[i]);
        return ST_OK;
    }
    for (int i = 0; i < metas.n; i++) {
        const int64_t offset = eager_place_of(call, &metas, i, &base);
        const Meta *const meta = metas.at[i].meta;
        call->outs[i] = base ? tensor_view(base, meta, offset) : tensor_without_data(meta);
        if (!call->outs[i]) return error_pending();
    }
    call->n_outs = metas.n;
    return ST_OK;
}

void eager_start(void) {
    dispatch_fallback(KEY_meta, meta_kernel);
    eager_code_start();
}
