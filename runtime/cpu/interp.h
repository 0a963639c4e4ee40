/* interp.h: the block interpreter: runs a BlockProgram (codegen/block) with the block kernels of
 * kernels/.
 *
 * lo and hi bound the outer dims (NULL: all of them); inner dims are always whole. A gather that
 * misses stops the run and fills *error, which must come in with inst -1; what was stored before
 * stays stored. When memory is out, ST_MEMORY is pending and error->inst is INTERP_NO_MEMORY.
 * Thread-safe: programs are immutable, scratch memory belongs to the thread. */
#ifndef SINTER_RUNTIME_INTERP_H
#define SINTER_RUNTIME_INTERP_H
#include "codegen/codegen.h"

enum { INTERP_NO_MEMORY = -2 };

void interp_run(const BlockProgram *program, void *const *bufs, const int64_t *params, const int64_t *lo,
                const int64_t *hi, NestError *error);

#endif
