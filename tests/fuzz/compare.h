/* compare.h: eager against compiled. */
#ifndef SINTER_TESTS_FUZZ_COMPARE_H
#define SINTER_TESTS_FUZZ_COMPARE_H
#include "tests/fuzz/program.h"

typedef struct FzResult {
    bool differs, errors; /* errors: the eager run ended in one */
    bool refused;         /* the verifier did, a graph that a pass had made */
    bool untold;          /* what is shown of a function is not what runs */
    bool saved;           /* a plan was saved, and ran */
    bool replayed;        /* some calls of mode REPLAY ran no body */
    int64_t ops_generated, ops;
    FzBuilt built;
    FzWatch watch;            /* of eager's first calls */
    bool trained;             /* peak.c: a backward ran */
    bool above, waits;        /* it takes more than eager; and more than what epilogues may */
    int64_t peak, eager_peak; /* bytes */
    char error[160];          /* the first one */
} FzResult;

extern bool fz_only_eager; /* programs run eagerly, and are compared with nothing */

/* variant NULL: none. story NULL: not wanted; else the first difference, for people. */
void fz_compare(const FzProgram *p, const FzProgram *variant, uint64_t seed, FzResult *result, Text *story);

/* peak.c: instead, whether it takes more memory than eager. */
void fz_peak(const FzProgram *p, uint64_t seed, bool symbolic, FzResult *result, Text *story);

#endif
