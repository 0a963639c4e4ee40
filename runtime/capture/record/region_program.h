/* region_program.h: the regions of a captured segment that runs op by op. */
#ifndef SINTER_RUNTIME_REGION_PROGRAM_H
#define SINTER_RUNTIME_REGION_PROGRAM_H
#include "runtime/capture/record/trace.h"

/* Runs the ops of the outermost region that op `first` is in, as region_call would have, and binds the values that are
 * used behind them (last: by value, the last op that takes it) or that somebody holds. *n: how many ops that were; 0:
 * none, they cannot be run so, or no gradient is wanted. On failure *n is how many had run. */
Status region_program_run(Trace *trace, int first, const int *last, int *n);

#endif
