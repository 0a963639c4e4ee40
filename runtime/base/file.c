/* file.c: see file.h. */
#include "runtime/base/file.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#include "runtime/base/alloc.h"
#include "runtime/base/error.h"

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

void file_make_parents(char *path, mode_t mode) {
    for (char *at = path + 1; *path && (at = strchr(at, '/')); at++) {
        *at = '\0';
        mkdir(path, mode);
        *at = '/';
    }
}

Status file_make_folder(const char *path) {
    struct stat at;
    char *const copy = mem_strdup(path);
    if (!copy) return ST_MEMORY;
    file_make_parents(copy, 0777);
    mem_free(copy);
    if (!mkdir(path, 0777)) return ST_OK;
    const int error = errno;
    if (error == EEXIST && !stat(path, &at) && S_ISDIR(at.st_mode)) return ST_OK;
    return error_raise(ST_IO, "cannot make the folder '%s': %s", path, strerror(error == EEXIST ? ENOTDIR : error));
}
