/* file_map.h: a file's bytes as memory, which the system reads as they are looked at. Writes stay with the mapping. A
 * file that somebody shortens in place meanwhile takes its bytes away; one that is renamed over it does not. */
#ifndef SINTER_RUNTIME_BASE_FILE_MAP_H
#define SINTER_RUNTIME_BASE_FILE_MAP_H
#include "runtime/base/base.h"

typedef struct FileMap {
    _Atomic int32_t refs;
    char *at; /* NULL: the file is empty */
    size_t bytes;
} FileMap;

/* One reference. Raises ST_IO. */
Status file_map(const char *path, FileMap **out);
void file_map_retain(FileMap *map);
void file_map_release(FileMap *map);

#endif
