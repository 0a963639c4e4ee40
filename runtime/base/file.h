/* file.h: whole files, read at once and replaced at once (file_write.c), the one way to write them. */
#ifndef SINTER_RUNTIME_BASE_FILE_H
#define SINTER_RUNTIME_BASE_FILE_H
#include <sys/types.h>

#include "runtime/base/base.h"

typedef struct FileSpan {
    const void *at;
    size_t bytes;
} FileSpan;

/* *content: mem_free; a NUL stands behind it, which `bytes` does not count. Raises ST_IO. */
Status file_read(const char *path, char **content, size_t *bytes);
/* The parts one after the other, written to a new file beside `path` that is then renamed: a reader never sees half a
 * file, and of two writers of one path both succeed. A link stays, what it leads to is replaced; what is no regular
 * file (a device, a pipe, /dev/stdout) is written in place. A file that is replaced keeps its mode. Where its folder
 * takes no new file, or it is a mount point, a file that may be written is: then a reader may see half of it. */
Status file_replace(const char *path, const FileSpan *parts, int n);
/* The same of one text that need not outlive a machine that stops: nothing waits for the disk. */
Status file_write(const char *path, const char *text, size_t bytes);
/* Whether these could, as far as can be told before the work. */
Status file_can_write(const char *path);
/* The same in an open folder that only this user can write to: the new file is theirs alone, a link is replaced itself.
 * Gives errno, or 0. */
int file_replace_in(int folder, const char *name, const FileSpan *parts, int n);
/* A name that these give a file until it is renamed; one that is old was left by a process that was killed. */
bool file_is_half_written(const char *name);
/* With the folders that lead to it; one that is there is fine. Raises ST_IO, as all of these do, with the system's
 * reason. */
Status file_make_folder(const char *path);
/* Those that lead to it, as far as they can be made: where one cannot the last folder cannot either, and says why. The
 * text is changed meanwhile. */
void file_make_parents(char *path, mode_t mode);

#endif
