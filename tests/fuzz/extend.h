/* extend.h: what a program adds to compiled functions, all of which keeps eager's bits: passes, backends, stances. */
#ifndef SINTER_TESTS_FUZZ_EXTEND_H
#define SINTER_TESTS_FUZZ_EXTEND_H
#include <sinter/sinter.h>
#include <stdint.h>

/* Its name, by seed: the library's, and two of the program's: one that runs op by op, and one that now and then fails
 * or gives what it should not. NULL: the default one. */
const char *fz_backend(uint64_t seed);
/* Passes that put ops in the place of others of the same bits, and at times one that does nothing but look. */
void fz_passes_begin(uint64_t seed);
void fz_passes_end(void);
/* Of call i. */
sn_stance fz_stance(uint64_t seed, int i);

#endif
