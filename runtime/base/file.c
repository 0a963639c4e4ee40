/* file.c: see file.h. */
#include "runtime/base/file.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/alloc.h"
#include "runtime/base/error.h"
#include "runtime/base/text.h"

static Status read_content(FILE *file, const char *path, char **content, size_t *bytes) {
    if (fseek(file, 0, SEEK_END)) return error_raise(ST_IO, "cannot read '%s'", path);
    const long size = ftell(file);
    if (size < 0 || size == LONG_MAX || fseek(file, 0, SEEK_SET)) /* LONG_MAX: of a folder */
        return error_raise(ST_IO, "cannot read '%s'", path);
    char *const read = mem_alloc((size_t)size + 1);
    if (!read) return ST_MEMORY;
    if (fread(read, 1, (size_t)size, file) != (size_t)size) {
        mem_free(read);
        return error_raise(ST_IO, "cannot read '%s'", path);
    }
    read[size] = '\0';
    *content = read;
    *bytes = (size_t)size;
    return ST_OK;
}

Status file_read(const char *path, char **content, size_t *bytes) {
    FILE *const file = fopen(path, "rb");
    if (!file) return error_raise(ST_IO, "cannot open '%s': %s", path, strerror(errno));
    const Status status = read_content(file, path, content, bytes);
    fclose(file);
    return status;
}

/* Beyond the limit a signal would end the program. */
static bool is_allowed(const FilePart *parts, int n) {
    struct rlimit limit;
    size_t bytes = 0;
    for (int i = 0; i < n; i++) bytes += parts[i].bytes;
    if (getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur) return true;
    errno = EFBIG;
    return false;
}

static bool write_all(FILE *file, const FilePart *parts, int n, bool settle) {
    bool ok = is_allowed(parts, n);
    for (int i = 0; ok && i < n; i++)
        ok = !parts[i].bytes || fwrite(parts[i].at, 1, parts[i].bytes, file) == parts[i].bytes;
    return ok && !fflush(file) && (!settle || !fsync(fileno(file)));
}

static Status cannot(const char *what, const char *path, int error) {
    return error_raise(ST_IO, "cannot %s '%s': %s", what, path, strerror(error));
}

static Status write_to(const char *path, const char *temporary, const FilePart *parts, int n, bool settle) {
    FILE *const file = fopen(temporary, "wb");
    if (!file) return cannot("write", path, errno);
    int error = write_all(file, parts, n, settle) ? 0 : errno;
    if (fclose(file) && !error) error = errno;
    if (!error && rename(temporary, path)) error = errno;
    if (!error) return ST_OK;
    remove(temporary);
    return cannot("write", path, error);
}

static Status write_beside(const char *path, const FilePart *parts, int n, bool settle) {
    Text temporary = {0};
    text_printf(&temporary, "%s.%ld.tmp", path, (long)getpid());
    const Status status = error_pending() ? error_pending() : write_to(path, text_str(&temporary), parts, n, settle);
    text_free(&temporary);
    return status;
}

Status file_replace(const char *path, const FilePart *parts, int n) { return write_beside(path, parts, n, true); }

Status file_write(const char *path, const char *text, size_t bytes) {
    return write_beside(path, &(FilePart){text, bytes}, 1, false);
}

/* Where a parent cannot be made the last folder cannot either, and says why. */
static void make_parents(char *path) {
    for (char *at = path + 1; *path && (at = strchr(at, '/')); at++) {
        *at = '\0';
        mkdir(path, 0777);
        *at = '/';
    }
}

Status file_make_folder(const char *path) {
    struct stat at;
    char *const copy = mem_strdup(path);
    if (!copy) return ST_MEMORY;
    make_parents(copy);
    mem_free(copy);
    if (!mkdir(path, 0777)) return ST_OK;
    const int error = errno;
    const bool is_there = error == EEXIST && !stat(path, &at) && S_ISDIR(at.st_mode);
    return is_there ? ST_OK : cannot("make the folder", path, error == EEXIST ? ENOTDIR : error);
}
