/* name_index.h: from a name to its place in a list that only grows: the n-th name that is added has place n. Borrows
 * the names, which must stay as long as it does. Zero-initialised means empty. */
#ifndef SINTER_RUNTIME_BASE_NAME_INDEX_H
#define SINTER_RUNTIME_BASE_NAME_INDEX_H
#include "runtime/base/hash.h"

typedef struct IndexedName {
    const char *name;
    int next; /* place of another name of the same hash, or -1 */
} IndexedName;

typedef struct NameIndex {
    Map first; /* from a hash to the newest place + 1 */
    IndexedName *at;
    int n, capacity;
} NameIndex;

int name_index_find(const NameIndex *index, const char *name); /* -1: absent; the newest of equal ones */
Status name_index_add(NameIndex *index, const char *name);     /* at place index->n; fails for memory alone */
void name_index_free(NameIndex *index);

#endif
