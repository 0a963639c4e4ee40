/* replay_program.h: a captured call as a function of its inputs' sizes and scalars [semantics C6].
 *
 * Where an entry of replay.c is one call as it was, a program says how to do it again for other inputs: which sizes are
 * free, where every number of the trace comes from (runtime/capture/record/symbols.h), what must hold. Replaying one
 * is what the body would do, without the body: the trace is put together from the inputs and any variant whose guards
 * hold is launched. */
#ifndef SINTER_RUNTIME_REPLAY_PROGRAM_H
#define SINTER_RUNTIME_REPLAY_PROGRAM_H
#include "runtime/capture/replay/world.h"

typedef struct ReplayProgram ReplayProgram;

/* From a call that was this one segment, in a world that lives as long. Takes the capture's symbols over. NULL: it
 * cannot be one. */
ReplayProgram *program_new(Capture *capture, const Trace *trace, const World *world, const Arg *in,
                           sn_tensor *const *out, int n_out);
void program_free(ReplayProgram *program);
/* Runs the call if the program fits it: *ran tells. */
Status program_try(sn_function *fn, ReplayProgram *program, const Arg *in, int n_in, sn_tensor **out, int n_out,
                   bool *ran);
/* Would it run this call? */
bool program_fits(sn_function *fn, const ReplayProgram *program, const Arg *in, int n_in, int n_out);
ReplayProgram **program_next(ReplayProgram *program); /* the link of a list */
void program_count(const ReplayProgram *program, sn_stats *stats);

#endif
