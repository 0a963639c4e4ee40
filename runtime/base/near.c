/* near.c: see near.h. */
#include "runtime/base/near.h"

#include <limits.h>
#include <stdio.h>

/* By rows of the table of distances between beginnings. */
int near_distance(const char *a, const char *b, size_t letters) {
    int row[NEAR_NAME + 1];
    const int n = (int)letters;
    if (letters > NEAR_NAME) return INT_MAX;
    for (int k = 0; k <= n; k++) row[k] = k;
    for (int i = 1; *a; i++, a++) {
        int before = row[0];
        row[0] = i;
        for (int k = 1; k <= n; k++) {
            const int other = *a == b[k - 1] ? before : 1 + (before < row[k] ? before : row[k]);
            before = row[k];
            row[k] = other < row[k - 1] + 1 ? other : row[k - 1] + 1;
        }
    }
    return row[n];
}

int near_most(const char *name) {
    const size_t n = strlen(name);
    return n > 4 ? 2 : n > 2 ? 1 : 0;
}

NearName near_begin(const char *given) { return (NearName){.given = given, .far = near_most(given) + 1}; }

void near_offer(NearName *near, const char *name) {
    const int far = near_distance(near->given, name, strlen(name));
    if (far >= near->far) return;
    near->far = far;
    snprintf(near->best, sizeof near->best, "%s", name);
}
