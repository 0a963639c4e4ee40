/* file.h: whole files, read at once and replaced at once. */
#ifndef SINTER_RUNTIME_BASE_FILE_H
#define SINTER_RUNTIME_BASE_FILE_H
#include "runtime/base/base.h"

typedef struct FilePart {
    const void *at;
    size_t bytes;
} FilePart;

/* *content: mem_free; a NUL stands behind it, which `bytes` does not count. Raises ST_IO. */
Status file_read(const char *path, char **content, size_t *bytes);
/* The parts one after the other. Writes next to `path` and renames, so that a reader never sees half a file. */
Status file_replace(const char *path, const FilePart *parts, int n);
/* The same of one text that need not outlive a machine that stops: nothing waits for the disk. */
Status file_write(const char *path, const char *text, size_t bytes);
/* With the folders that lead to it; one that is there is fine. Raises ST_IO, as all of these do, with the system's
 * reason. */
Status file_make_folder(const char *path);

#endif
