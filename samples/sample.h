/* sample.h: what the samples share: where their data lies, one number for many. */
#ifndef SINTER_SAMPLES_SAMPLE_H
#define SINTER_SAMPLES_SAMPLE_H
#include <stdint.h>
#include <stdlib.h>

/* SINTER_SAMPLE_DATA from the environment, else the folder the samples were built from. */
static inline const char *sample_data_dir(void) {
    const char *dir = getenv("SINTER_SAMPLE_DATA");
    return dir && *dir ? dir : SAMPLE_DATA_DIR;
}

/* FNV-1a over bytes: one number that any other CPU must print too. */
static inline uint64_t sample_digest(const void *data, size_t n) {
    const unsigned char *const bytes = data;
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++) h = (h ^ bytes[i]) * 0x100000001b3u;
    return h;
}

#endif
