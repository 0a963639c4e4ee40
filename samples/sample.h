/* sample.h: what the samples share: where their data lies. */
#ifndef SINTER_SAMPLES_SAMPLE_H
#define SINTER_SAMPLES_SAMPLE_H
#include <stdlib.h>

/* SINTER_SAMPLE_DATA from the environment, else the folder the samples were built from. */
static inline const char *sample_data_dir(void) {
    const char *dir = getenv("SINTER_SAMPLE_DATA");
    return dir && *dir ? dir : SAMPLE_DATA_DIR;
}

#endif
