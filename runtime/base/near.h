/* near.h: what somebody may have meant by a name that does not exist.
 *
 *     NearName near = near_begin("explian");
 *     for (...) near_offer(&near, row->name);
 *     if (near.best[0]) ... "did you mean '%s'?" */
#ifndef SINTER_RUNTIME_BASE_NEAR_H
#define SINTER_RUNTIME_BASE_NEAR_H
#include "runtime/base/base.h"

enum { NEAR_NAME = 64 };

/* Levenshtein's distance: letters to insert, delete or replace to make the first `letters` of b, at most NEAR_NAME, of
 * a. */
int near_distance(const char *a, const char *b, size_t letters);
/* How far off a name may be and still be meant: 2 letters, fewer where it is short. */
int near_most(const char *name);

typedef struct NearName {
    const char *given;
    char best[NEAR_NAME + 1]; /* "": none is near */
    int far;
} NearName;
NearName near_begin(const char *given);
/* The first of those that are nearest stays. */
void near_offer(NearName *near, const char *name);

#endif
