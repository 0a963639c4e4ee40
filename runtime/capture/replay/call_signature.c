/* call_signature.c: see call_signature.h. */
#include "runtime/capture/replay/call_signature.h"

#include "runtime/autograd/tape.h"
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

/* They hash to different bits. Spares comparing all pairs. */
bool call_signature_distinct(const ReplayGuards *guards, sn_tensor *const *at) {
    uint64_t seen[16] = {0};
    for (int i = 0; i < guards->n_slots; i++) {
        if (!at[i]) continue;
        const uint64_t hash = (uint64_t)(uintptr_t)at[i]->storage * UINT64_C(0x9e3779b97f4a7c15) >> 54;
        if (seen[hash >> 6] >> (hash & 63) & 1) return false;
        seen[hash >> 6] |= UINT64_C(1) << (hash & 63);
    }
    return true;
}

static void find_shared(const CallSignatureSpec *spec, sn_tensor *const *at, int i, SlotSignature *key) {
    for (int k = 0; at[i] && k < i; k++) {
        if (!at[k] || at[k]->storage != at[i]->storage) continue;
        if (key->storage == i) {
            key->storage = k;
            key->word = spec->writes ? at[i]->offset - at[k]->offset : 0;
        }
        if (at[k] != at[i]) continue;
        key->alias = k;
        return;
    }
}

static bool any_overlap(sn_tensor *const *at, int n) {
    for (int i = 0; i < n; i++) {
        if (!at[i] || !at[i]->storage || !at[i]->storage->user_owned) continue;
        for (int k = 0; k < n; k++)
            if (at[k] && storages_overlap(at[i]->storage, at[k]->storage)) return true;
    }
    return false;
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
    if (!call_signature_distinct(spec->guards, at))
        for (int i = 0; i < n; i++) find_shared(spec, at, i, &key->slots[i]);
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
