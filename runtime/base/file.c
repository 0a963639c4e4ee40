/* file.c: see file.h. */
#include "runtime/base/file.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
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

static bool write_all(FILE *file, const FilePart *parts, int n) {
    bool ok = true;
    for (int i = 0; ok && i < n; i++)
        ok = !parts[i].bytes || fwrite(parts[i].at, 1, parts[i].bytes, file) == parts[i].bytes;
    return ok && !fflush(file) && !fsync(fileno(file));
}

static Status write_to(const char *path, const char *temporary, const FilePart *parts, int n) {
    FILE *const file = fopen(temporary, "wb");
    if (!file) return error_raise(ST_IO, "cannot write '%s'", path);
    const bool written = write_all(file, parts, n);
    if (fclose(file) || !written || rename(temporary, path)) {
        remove(temporary);
        return error_raise(ST_IO, "cannot write '%s'", path);
    }
    return ST_OK;
}

Status file_replace(const char *path, const FilePart *parts, int n) {
    Text temporary = {0};
    text_printf(&temporary, "%s.%ld.tmp", path, (long)getpid());
    const Status status = error_pending() ? error_pending() : write_to(path, text_str(&temporary), parts, n);
    text_free(&temporary);
    return status;
}
