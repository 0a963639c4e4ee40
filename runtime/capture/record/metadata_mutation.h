/* metadata_mutation.h: in-place forms of views: the handle changes (metadata_mutation.c), and what a capture makes of
 * it (capture_metadata.c). */
#ifndef SINTER_RUNTIME_METADATA_MUTATION_H
#define SINTER_RUNTIME_METADATA_MUTATION_H
#include "runtime/capture/record/capture.h"

void metadata_mutation_start(void);
/* self's metadata is about to be mutated. *recorded: it is a result of the current segment and
 * the view that it becomes is to be recorded; else self is materialized, and the view is not to be captured. */
Status capture_mutation(const OpRow *row, sn_tensor *self, bool *recorded);
/* Around the recording of that view: whether it counts as a write (that of detach_ doesn't). */
void capture_mutates(bool on);
/* self and old have exchanged what they stand for. */
void capture_exchanged(sn_tensor *self, sn_tensor *old);
/* self is now such a view: the version of the input that it shows goes up at the call [semantics C3]. */
void capture_mutated(sn_tensor *self);

#endif
