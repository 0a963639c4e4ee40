/* saved_hooks.h: saved-tensor hooks: who keeps what tape nodes save in another way than as it is: regions, which
 * compute it again, and hooks of the program (offload, compress).
 *
 *   exp(x) is recorded  ->  its node saves the result  ->  the innermost hooks take it: TapeSaved.packed
 *   backward of exp     ->  the packed value is unpacked for the rule, and let go of
 *
 * These hooks are a stack of the thread's state, innermost first, which the ends of scopes restore. */
#ifndef SINTER_RUNTIME_SAVED_HOOKS_H
#define SINTER_RUNTIME_SAVED_HOOKS_H
#include "runtime/autograd/tape.h"

/* Stands for a saved value; owned by the TapeSaved that has it. */
typedef struct TapePacked {
    const struct TapePackedClass *class;
} TapePacked;
typedef struct TapePackedClass {
    const char *name; /* for listings */
    /* The value, a handle of the innermost scope without history; NULL raised. */
    sn_tensor *(*unpack)(TapePacked *packed, const Meta *meta, const char *node);
    void (*release)(TapePacked *packed);
    /* Whose memory keeps the value meanwhile, borrowed; NULL: nobody's. May be left out. */
    const sn_tensor *(*kept)(const TapePacked *packed);
} TapePackedClass;

void saved_hooks_push(SavedHooks *hooks); /* SavedHooks, and its class: core/ends.h */
/* What a node has saved, just now. */
/* By `packer` and those further out; node: an op's, or NULL. */
Status saved_hooks_pack(struct SavedHooks *hooks, TapeSaved *saved, int n, const TapeNode *node);
Status saved_hooks_copied(const sn_tensor *t, const sn_tensor *copy);
Status saved_hooks_shared(const OpRow *row, sn_tensor *t, const sn_tensor *made);
bool saved_hooks_choose(void);
/* Of a packed value: the same as one that was kept, with a handle of the innermost scope. */
Status saved_hooks_unpack(const TapeSaved *packed, const char *node, TapeSaved *out);

#endif
