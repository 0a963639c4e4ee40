/* headers.h: fuzz --headers N: graphs from text whose header has symbols. */
#ifndef SINTER_TESTS_FUZZ_HEADERS_H
#define SINTER_TESTS_FUZZ_HEADERS_H
#include <stdbool.h>
#include <stdint.h>

/* Graphs of the seeds from `seed` on; told: each is printed before it is called. An exit code. */
int fz_headers(int64_t n, uint64_t seed, bool told);

#endif
