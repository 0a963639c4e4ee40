/* blaslt.h: what a test can ask of the look-alike of cuBLASLt (blaslt.c) beside what the library does; found by dlsym
 * in the file that SINTER_CUDA_BLASLT names. */
#ifndef SINTER_TESTS_EMULATOR_BLASLT_H
#define SINTER_TESTS_EMULATOR_BLASLT_H
#include <stdint.h>

/* The call after `after` further ones of cublasLt<name> gives this status and does nothing. */
typedef void EmulatedBlasltFail(const char *name, int status, int after); /* "emulated_blaslt_fail" */

typedef struct EmulatedBlasltCounts {
    int64_t products, heuristics;
    int64_t refused; /* checks of an algorithm that does not take the sizes */
    int last_id;     /* of the newest product: its algorithm, and how many columns (Sinter's rows) it had */
    int64_t last_columns;
} EmulatedBlasltCounts;
typedef void EmulatedBlasltCount(EmulatedBlasltCounts *out); /* "emulated_blaslt_count" */

#endif
