/* archive.h: the entries of a zip file, in place: the file is mapped, privately and writable, so that tensors lie in it
 * and training leaves the file as it is. Only stored entries exist for us: torch.export.save compresses none, and
 * aligns each to 64 bytes. The central directory is what counts (APPNOTE 4.3.12): the headers before the entries need
 * not know the sizes. All names begin with one folder, which the first entry says. */
#ifndef SINTER_IMPORT_ARCHIVE_H
#define SINTER_IMPORT_ARCHIVE_H
#include "runtime/base/base.h"

typedef struct ArchiveEntry {
    const char *name; /* behind the folder */
    unsigned char *data;
    size_t bytes;
} ArchiveEntry;
typedef struct Archive Archive;

/* One reference, the caller's. Raises ST_IO where the file can't be read, ST_PARSE where it is no zip file or damaged,
 * ST_UNSUPPORTED for a compressed or encrypted one. */
Status archive_open(const char *path, Archive **out);
void archive_retain(Archive *a);
void archive_release(Archive *a); /* from any thread; the last one unmaps the file */
/* NULL: there is none. */
const ArchiveEntry *archive_find(const Archive *a, const char *name);
int archive_count(const Archive *a);
const ArchiveEntry *archive_at(const Archive *a, int i);

#endif
