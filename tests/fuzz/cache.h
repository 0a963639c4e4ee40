/* cache.h: changed entries of the code cache on disk, met by fresh processes. */
#ifndef SINTER_TESTS_FUZZ_CACHE_H
#define SINTER_TESTS_FUZZ_CACHE_H
#include <stdbool.h>
#include <stdint.h>

/* An exit code: 0 where nothing crashed, no result was wrong and no changed entry was taken. What failed is kept. */
int fz_cache(int64_t n, uint64_t seed, bool json);

#endif
