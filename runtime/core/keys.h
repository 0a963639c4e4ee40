/* keys.h: the dispatch keys of keys.def as numbers and bits, and sets of them that several modules mean. */
#ifndef SINTER_RUNTIME_KEYS_H
#define SINTER_RUNTIME_KEYS_H
#include "ir/device.h"

typedef enum Key {
#define KEY(name, public_id, doc) KEY_##name,
#include "runtime/core/keys.def"
#undef KEY
    KEY_COUNT
} Key;
#define KEY_BIT(name) (UINT64_C(1) << KEY_##name)
#define KEYS_SPARE    (((UINT64_C(1) << SPARE_DEVICES) - 1) << KEY_spare)
/* Devices beside the CPU that have memory: what moves between devices is served at their keys, and no segment has
 * ops of theirs. */
#define KEYS_BESIDE  (KEY_BIT(cuda) | KEYS_SPARE)
#define KEYS_BACKEND (KEY_BIT(cpu) | KEY_BIT(cuda) | KEY_BIT(meta) | KEYS_SPARE)
/* Keys of PyTorch's order that a program gives to tensors and has kernels at; no segment has ops of theirs. */
#define KEYS_SLOT                                                                                                      \
    (((KEY_BIT(nested) << 1) - KEY_BIT(hip)) | KEY_BIT(named) | KEY_BIT(conjugate) | KEY_BIT(negative) |               \
     KEY_BIT(zero_tensor))
/* Tensors of several others (frontend/api/sparse.h): above capture, which sees the ops on those. */
#define KEYS_SPARSE (KEY_BIT(sparse) | KEY_BIT(sparse_csr))
/* What a tensor or the thread may have and no segment's op: they run at once. */
#define KEYS_UNCAPTURED (KEYS_SLOT | KEYS_SPARSE | KEY_BIT(fake))
/* Where an op is computed. */
#define KEYS_KERNEL (KEYS_BACKEND | KEYS_SLOT | KEY_BIT(fake))

/* What only a call of the program meets: no part of an op, rule or recorded op. */
#define KEYS_OF_CALLS (KEY_BIT(autocast) | KEY_BIT(api))
/* What inference leaves out. */
#define KEYS_OF_GRADIENTS (KEY_BIT(autograd) | KEY_BIT(ad_inplace_or_view))
/* Levels of transforms: tensors that stand for others have one, and only it knows for what. */
#define KEYS_OF_LEVELS (KEY_BIT(vmap) | KEY_BIT(vmap_back))
/* A key and all above it. */
#define KEYS_FROM(name) (~(KEY_BIT(name) - 1))

#endif
