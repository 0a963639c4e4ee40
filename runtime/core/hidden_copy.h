/* hidden_copy.h: copies that ops made of their arguments because strides did not suit, counted by op and the
 * place of the call: what sn_hidden_copies tells. Who calls an op that is expanded into parts says so
 * (hidden_copy_begin); parts that copy are put down to the outermost one. */
#ifndef SINTER_RUNTIME_HIDDEN_COPY_H
#define SINTER_RUNTIME_HIDDEN_COPY_H
#include <sinter/base.h>

struct OpRow;
typedef struct HiddenCopy {
    const struct OpRow *row;
    const void *site; /* of the program's call; NULL: not known */
    int64_t copies, bytes;
} HiddenCopy;
typedef struct HiddenCopies {
    HiddenCopy *at;
    int n, capacity;
    const struct OpRow *outermost; /* that is being expanded; NULL: none */
    uint32_t depth;                /* of scopes when it began: one that was jumped out of counts no longer */
} HiddenCopies;

/* What to give hidden_copy_end. */
const struct OpRow *hidden_copy_begin(sn_state *state, const struct OpRow *row);
void hidden_copy_end(sn_state *state, const struct OpRow *before);
/* A part has copied `from` into `to`. Where memory is out it is not counted. */
void hidden_copy_record(const sn_tensor *from, const sn_tensor *to);
void hidden_copies_free(HiddenCopies *h);

#endif
