/* autocast.c: see autocast.h. Cached casts are a table by the leaf's address, which grows at half full and is emptied
 * whole. */
#include "runtime/core/autocast.h"

#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"

enum { MODE_off, MODE_bf16, MODE_f16 };
static const DType mode_dtypes[] = {[MODE_off] = DT_default, [MODE_bf16] = DT_bf16, [MODE_f16] = DT_f16};

/* Backend keys are the lowest ones, without `none`. */
static int shift_of(Key backend) { return 2 * ((int)backend - 1); }
_Static_assert(2 * (KEY_spare7 - 1) + 2 <= 32, "two bits for each backend");

DType autocast_dtype(uint32_t word, Key backend) { return mode_dtypes[word >> shift_of(backend) & 3]; }

bool autocast_to(DType dtype) { return dtype == DT_bf16 || dtype == DT_f16; }

uint32_t autocast_word(uint32_t word, Key backend, DType dtype) {
    const uint32_t mode = dtype == DT_bf16 ? MODE_bf16 : dtype == DT_f16 ? MODE_f16 : MODE_off;
    return (word & ~(UINT32_C(3) << shift_of(backend))) | mode << shift_of(backend);
}

void autocast_use(sn_state *state, uint32_t word) {
    state->autocast = word;
    state->exclude &= ~KEY_BIT(autocast);
    if (word)
        state->include |= KEY_BIT(autocast);
    else
        state->include &= ~KEY_BIT(autocast);
}

void autocast_set(sn_state *state, uint32_t word) {
    autocast_use(state, word);
    if (word && !state->casts.region) state->casts.region = state->n_scopes + 1;
    scope_region_record(state);
    if (!word && state->casts.region == state->n_scopes + 1) autocast_region_end(state);
}

void autocast_print(uint32_t word, Text *text) {
    if (!word) text_puts(text, "off");
    for (int key = 1, n = 0; key < KEY_COUNT && KEYS_BACKEND >> key & 1; key++) {
        const DType dtype = autocast_dtype(word, (Key)key);
        if (dtype != DT_default) text_printf(text, "%s%s %s", n++ ? ", " : "", key_name((Key)key), dtype_name(dtype));
    }
}

static void drop_cached(CachedCast *cached) {
    tensor_release(cached->leaf);
    tensor_release(cached->value);
    meta_release(cached->meta);
}

void autocast_region_end(sn_state *state) {
    state->casts.region = 0;
    scope_region_record(state);
    for (int i = 0; state->casts.n; i++) {
        if (!state->casts.cached[i].leaf) continue;
        drop_cached(&state->casts.cached[i]);
        state->casts.cached[i].leaf = NULL;
        state->casts.n--;
    }
}

/* The leaf's slot, or the empty one where it would be. */
static CachedCast *cast_slot(const sn_state *state, const sn_tensor *leaf, DType dtype) {
    const int mask = state->casts.capacity - 1;
    int i = (int)(hash_mix((uint64_t)dtype, (uint64_t)(uintptr_t)leaf) & (uint64_t)mask);
    while (state->casts.cached[i].leaf &&
           (state->casts.cached[i].leaf != leaf || state->casts.cached[i].value->base.meta->dtype != dtype))
        i = (i + 1) & mask;
    return &state->casts.cached[i];
}

/* Neither was written since, nor laid out anew. */
static bool still_right(const CachedCast *cached) {
    const sn_tensor *const leaf = cached->leaf;
    return cached->version == tensor_version(leaf) && cached->meta == leaf->base.meta &&
           cached->storage == leaf->storage && cached->offset == leaf->offset &&
           cached->value_version == tensor_version(cached->value);
}

sn_tensor *autocast_cached(const sn_state *state, const sn_tensor *leaf, DType dtype) {
    const CachedCast *const cached = state->casts.n ? cast_slot(state, leaf, dtype) : NULL;
    return cached && cached->leaf && still_right(cached) ? cached->value : NULL;
}

static bool grow_casts(sn_state *state) {
    const int before = state->casts.capacity, capacity = before ? 2 * before : 32;
    CachedCast *const old = state->casts.cached, *const fresh = mem_zero((size_t)capacity * sizeof *fresh);
    if (!fresh) return false;
    state->casts.cached = fresh, state->casts.capacity = capacity;
    for (int i = 0; i < before; i++)
        if (old[i].leaf) *cast_slot(state, old[i].leaf, old[i].value->base.meta->dtype) = old[i];
    mem_free(old);
    return true;
}

void autocast_cache(sn_state *state, sn_tensor *leaf, sn_tensor *value) {
    if (!state->casts.region) return;
    if (2 * state->casts.n >= state->casts.capacity && !grow_casts(state)) return error_clear();
    CachedCast *const cached = cast_slot(state, leaf, value->base.meta->dtype);
    if (cached->leaf)
        drop_cached(cached);
    else
        state->casts.n++;
    tensor_retain(leaf), tensor_retain(value), meta_retain(leaf->base.meta);
    *cached = (CachedCast){.leaf = leaf,
                           .value = value,
                           .meta = leaf->base.meta,
                           .storage = leaf->storage,
                           .offset = leaf->offset,
                           .version = tensor_version(leaf),
                           .value_version = tensor_version(value)};
}

int64_t autocast_cached_bytes(const sn_state *state) {
    int64_t bytes = 0;
    for (int i = 0; i < state->casts.capacity; i++)
        if (state->casts.cached[i].leaf) bytes += (int64_t)meta_bytes(state->casts.cached[i].value->base.meta);
    return bytes;
}
