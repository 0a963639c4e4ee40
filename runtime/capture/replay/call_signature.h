/* call_signature.h: what guards look at, of one call of a replay function: by it a specialized call is known again.
 *
 *     slot 0   f32[8,6]                         storage 0     an argument
 *     slot 1   0.5                                            a scalar that the body has read
 *     slot 2   f32[6,4] requires_grad, leaf     storage 2     closed over
 *
 * A call with the key of one that has passed the guards passes them too [semantics C7]. Nothing is judged here: two
 * keys are the same bytes, or not. */
#ifndef SINTER_RUNTIME_CALL_SIGNATURE_H
#define SINTER_RUNTIME_CALL_SIGNATURE_H
#include <stddef.h>

#include "runtime/capture/replay/replay_guards.h"

enum { SLOT_requires_grad = 1, SLOT_is_leaf = 2, SLOT_inference = 4 };

typedef struct SlotSignature { /* without padding */
    const Meta *meta;          /* interned; NULL: a scalar, or absent */
    /* A scalar's bits, 0 of one that the body has not read. Where memory is written: how many elements behind the first
     * tensor of the same storage it lies. */
    int64_t word;
    int32_t kind, flags;    /* ArgKind, SLOT_ */
    int32_t storage, alias; /* the first slot of the same storage; with the same tensor */
} SlotSignature;

typedef struct CallSignature {
    uint32_t epoch;        /* of the dispatch table */
    uint32_t overlap;      /* memory is written, and two storages name the same bytes */
    SlotSignature slots[]; /* as many as the guards have */
} CallSignature;

static inline size_t call_signature_bytes(int n_slots) {
    return offsetof(CallSignature, slots) + (size_t)n_slots * sizeof(SlotSignature);
}

typedef struct CallSignatureSpec { /* of a specialized call */
    const ReplayGuards *guards;
    const bool *read; /* by call input: the body has read the scalar */
    bool writes;      /* memory that is visible outside */
} CallSignatureSpec;

/* Whether no two tensors lie in one storage: then every slot is the first of its storage, and has no alias. Of few
 * tensors it may say no where they are; false also where memory is out. */
bool call_signature_distinct(const ReplayGuards *guards, sn_tensor *const *at);
/* Whether a call of distinct tensors has this key. Like making it and comparing, but nothing is stored: bytes that are
 * written one by one and read back as vectors at once wait for every store. */
bool call_signature_is(const CallSignatureSpec *spec, const Arg *in, sn_tensor *const *at, const CallSignature *want);
/* at: see replay_guards_hold. */
void call_signature_make(const CallSignatureSpec *spec, const Arg *in, sn_tensor *const *at, CallSignature *key);
/* Without what they share: the same tensor or scalar, as far as guards go. */
static inline bool slot_signature_same(const SlotSignature *a, const SlotSignature *b) {
    return a->meta == b->meta && a->kind == b->kind && a->flags == b->flags && (a->meta || a->word == b->word);
}
/* "f32[8,6] requires_grad", "0.5", "absent". */
void slot_signature_print(const SlotSignature *key, Text *text);

#endif
