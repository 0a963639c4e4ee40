/* packer.h: who keeps what tape nodes save in another way than as it is: checkpoints, which compute it again, and hooks
 * of the program (offload, compress).
 *
 *   exp(x) is recorded  ->  its node saves the result  ->  the innermost packer takes it: TapeSaved.packed
 *   backward of exp     ->  the packed value is unpacked for the rule, and let go of
 *
 * Packers are a stack of the thread's state, innermost first, which the ends of scopes restore. */
#ifndef SINTER_RUNTIME_PACKER_H
#define SINTER_RUNTIME_PACKER_H
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

void packer_push(TapePacker *packer); /* TapePacker, and its class: core/ends.h */
/* What a node has saved, just now. */
/* By `packer` and those further out; node: an op's, or NULL. */
Status packers_pack(struct TapePacker *packer, TapeSaved *saved, int n, const TapeNode *node);
Status packers_copied(const sn_tensor *t, const sn_tensor *copy);
Status packers_shared(const OpRow *row, sn_tensor *t, const sn_tensor *made);
bool packers_choose(void);
/* Of a packed value: the same as one that was kept, with a handle of the innermost scope. */
Status packed_unpack(const TapeSaved *packed, const char *node, TapeSaved *out);

#endif
