/* disk_folder.h: the folder of the code cache (setting cache_dir): where it is, whether it may be trusted, its files.
 *
 * What lies there is mapped and run, so the folder is one that only this user can write to: another owner, a mode that
 * lets others write, a symbolic link in its place are refused with a reason, as are such files in it. Nothing that uses
 * it raises an error or waits for the disk: a file is written beside its name and renamed, and one that is torn all the
 * same is found by its digest (disk_cache.h). Many processes may use it at once: files come and go under each. */
#ifndef SINTER_RUNTIME_DISK_FOLDER_H
#define SINTER_RUNTIME_DISK_FOLDER_H
#include <time.h>

#include "runtime/base/file.h"

enum { DISK_PATH = 4096, DISK_REASON = 320, DISK_NAME = 32 };

/* What the settings say, for the process. */
Status disk_folder_choose(const char *path); /* raises ST_ARGUMENT: too long */
void disk_bytes_choose(int64_t most);
int64_t disk_bytes_most(void);

typedef struct DiskFolder {
    int fd;
    bool off; /* nobody wants one */
    bool is_default;
    bool absent; /* it is not there */
    char path[DISK_PATH];
    char why[DISK_REASON]; /* there is none */
} DiskFolder;

/* create: it and what leads to it. False: out->why; there is nothing to close then. */
bool disk_folder_open(bool create, DiskFolder *out);
void disk_folder_close(DiskFolder *folder);

typedef struct DiskFile {
    char name[DISK_NAME];
    int64_t bytes;
    struct timespec used; /* last */
} DiskFile;
/* "0123456789abcdef.code": other names are nobody's business here. */
void disk_file_name(uint64_t hash, char name[DISK_NAME]);

/* *content is mem_free'd, with a NUL behind it. False: *why is static, NULL: there is none. */
bool disk_file_read(const DiskFolder *folder, const char *name, char **content, size_t *bytes, const char **why);
/* False: *why is static. */
bool disk_file_write(const DiskFolder *folder, const char *name, const FileSpan *parts, int n, const char **why);
void disk_file_used(const DiskFolder *folder, const char *name); /* now */
void disk_file_remove(const DiskFolder *folder, const char *name);

/* All files of entries, the longest unused first; mem_free. What killed processes left half written goes. False: memory
 * or the folder refuses. */
bool disk_folder_list(const DiskFolder *folder, DiskFile **out, int *n);
/* Of more than `most` bytes the longest unused go until `left` or less are there; how many went. */
int disk_folder_shrink(const DiskFolder *folder, int64_t most, int64_t left);

#endif
