/* file_map.c: see file_map.h. */
#define _GNU_SOURCE
#include "runtime/base/file_map.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/alloc.h"
#include "runtime/base/error.h"
#include "runtime/base/refs.h"

/* errno, or 0. */
static int map_open_file(int file, FileMap *map) {
    struct stat at;
    if (fstat(file, &at)) return errno;
    if (!S_ISREG(at.st_mode)) return S_ISDIR(at.st_mode) ? EISDIR : ESPIPE;
    map->bytes = (size_t)at.st_size;
    if (!map->bytes) return 0;
    void *const mapped = mmap(NULL, map->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file, 0);
    map->at = mapped == MAP_FAILED ? NULL : mapped;
    return map->at ? 0 : errno;
}

Status file_map(const char *path, FileMap **out) {
    FileMap *const map = mem_zero(sizeof *map);
    if (!map) return ST_MEMORY;
    atomic_init(&map->refs, 1);
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    const int error = file < 0 ? errno : map_open_file(file, map);
    if (file >= 0) close(file);
    if (!error) return *out = map, ST_OK;
    mem_free(map);
    return error_raise(ST_IO, "cannot open '%s': %s", path, strerror(error));
}

void file_map_retain(FileMap *map) { refs_add(&map->refs, 1); }

void file_map_release(FileMap *map) {
    if (!map || !refs_drop(&map->refs)) return;
    if (map->at) munmap(map->at, map->bytes);
    mem_free(map);
}
