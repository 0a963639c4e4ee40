/* capture_events.h: what a body does at once while ops are pending (.grad slots, hooks, seeds, rounds): noted, and
 * undone where an op before it fails. */
#ifndef SINTER_RUNTIME_CAPTURE_EVENTS_H
#define SINTER_RUNTIME_CAPTURE_EVENTS_H
#include "runtime/capture/record/capture.h"

/* This thread's call, if it is one, changes what belongs to the program: a break in any case. */
void capture_record_event(const char *what);
/* About to change leaf's .grad or the generator; hook `id` is now on t. Undone if an op before
 * fails. */
Status capture_record_grad(sn_tensor *leaf);
Status capture_record_hook(sn_tensor *t, int64_t id);
Status capture_record_seed(void);
/* About to change EVENT_WORDS words that an object of the library keeps on the host; forgotten when it is freed. */
Status capture_record_words(uint64_t *words);
void capture_forget_words(const uint64_t *words);
/* A scope whose end puts the generator back, which it does behind a failed op, too, if it had begun before. */
void capture_record_fork(void);
/* Printed when the segment has run (debug_print.h), for it is nothing that could be undone. */
Status capture_record_print(Capture *c, const char *label, sn_tensor *value);
/* About to do what only ops behind it may see, and what is not undone: the pending ones run first. */
Status capture_before_event(const char *what);
/* Behind its n_done ops; true: one of them had set the generator before the first random op, and is undone. */
bool capture_undo_events(const Trace *trace);
void capture_forget_events(Trace *trace);

#endif
