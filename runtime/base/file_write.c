/* file_write.c: how files are written (see file.h). The new file's name is random, it must not exist, and no link is
 * followed to it: who can write to the folder can neither foresee it nor have another file overwritten through it. */
#define _GNU_SOURCE /* O_PATH, getrandom */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/bail.h"
#include "runtime/base/clock.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/text.h"

enum { TRIES = 100, LINKS = 40, PATH_SHOWN = 300, HALF_KEPT = 200, HALF_ENDS = sizeof ".0123456789abcdef.tmp" - 1 };

typedef struct FileJob {
    int folder; /* an open folder, or AT_FDCWD */
    const char *path;
    const FileSpan *parts;
    int n;
    bool synced;      /* wait for the disk */
    mode_t mode;      /* of a file that is made; what umask says is taken off */
    const mode_t *as; /* the mode that it ends with, or NULL */
} FileJob;

/* parts --------------------------------------------------------------------------------------- */

/* Beyond the limit a signal would end the program. */
static bool is_allowed(const FileJob *job) {
    struct rlimit limit;
    size_t bytes = 0;
    for (int i = 0; i < job->n; i++) bytes += job->parts[i].bytes;
    return getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur;
}

static int write_part(int fd, const char *from, size_t bytes) {
    if (failpoint("disk_full")) return write(fd, from, bytes / 2) < 0 ? errno : ENOSPC;
    for (size_t done = 0; done < bytes;) {
        const ssize_t n = write(fd, from + done, bytes - done);
        if (n < 0 && errno != EINTR) return errno;
        if (n == 0) return EIO;
        if (n > 0) done += (size_t)n;
    }
    return 0;
}

static int write_parts(const FileJob *job, int fd) {
    int error = is_allowed(job) ? 0 : EFBIG;
    for (int i = 0; i < job->n && !error; i++) error = write_part(fd, job->parts[i].at, job->parts[i].bytes);
    return error;
}

static int fill_and_close(const FileJob *job, int fd) {
    int error = write_parts(job, fd);
    if (!error && job->as && fchmod(fd, *job->as)) error = errno;
    if (!error && job->synced && fsync(fd)) error = errno;
    if (close(fd) && !error) error = errno;
    return error;
}

/* beside -------------------------------------------------------------------------------------- */

static uint64_t random_bits(void) {
    uint64_t bits;
    if (getrandom(&bits, sizeof bits, GRND_NONBLOCK) == sizeof bits) return bits;
    return (uint64_t)clock_ns() * 0x9e3779b97f4a7c15u ^ (uint64_t)getpid() << 32 ^ (uintptr_t)&bits; /* early at boot */
}

/* A file that is not whole yet, beside the one that it will be. Both are reached by their folder, for a path may be as
 * long as paths get: the half's own would be longer. */
typedef struct FileHalf {
    int folder; /* of both: the job's or one of its own */
    const char *name;
    char half[NAME_MAX + 1];
} FileHalf;

static int open_folder(const FileJob *job, FileHalf *at) {
    char folder[PATH_MAX];
    const char *const slash = strrchr(job->path, '/');
    at->folder = job->folder, at->name = slash ? slash + 1 : job->path;
    if (!slash) return 0;
    snprintf(folder, sizeof folder, "%.*s", (int)(at->name - job->path), job->path);
    at->folder = openat(job->folder, folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return at->folder < 0 ? errno : 0;
}

static void close_folder(const FileJob *job, const FileHalf *at) {
    if (at->folder != job->folder) close(at->folder);
}

/* A long name is cut, so that there is room. */
static void name_half(FileHalf *at) {
    snprintf(at->half, sizeof at->half, "%.*s.%016" PRIx64 ".tmp", HALF_KEPT, at->name, random_bits());
}

/* Into *fd; where that fails nothing stays open. */
static int open_half(const FileJob *job, FileHalf *at, int *fd) {
    int error = open_folder(job, at);
    if (error) return error;
    *fd = -1;
    for (int i = 0; i < TRIES && *fd < 0 && (!error || error == EEXIST); i++) {
        name_half(at);
        *fd = openat(at->folder, at->half, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, job->mode);
        error = *fd < 0 ? errno : 0;
    }
    if (error) close_folder(job, at);
    return error;
}

static int replace_file(const FileJob *job) {
    FileHalf at;
    int fd, error = open_half(job, &at, &fd);
    if (error) return error;
    error = fill_and_close(job, fd);
    if (!error && renameat(at.folder, at.half, at.folder, at.name)) error = errno;
    if (error) unlinkat(at.folder, at.half, 0);
    close_folder(job, &at);
    return error;
}

bool file_is_half_written(const char *name) {
    const size_t n = strlen(name);
    if (n <= HALF_ENDS) return false;
    const char *const ends = name + n - HALF_ENDS;
    return ends[0] == '.' && text_begins_hex(ends + 1, 16) && !strcmp(ends + 17, ".tmp");
}

/* in place ------------------------------------------------------------------------------------ */

/* A descriptor of /proc may be a regular file that its owner still writes to: what comes goes behind that. */
static int write_in_place(const FileJob *job) {
    const int fd = open(job->path, O_WRONLY | O_APPEND | O_NOCTTY | O_CLOEXEC);
    if (fd < 0) return errno;
    const int error = write_parts(job, fd);
    return close(fd) && !error ? errno : error;
}

/* The folder takes no other file, or another cannot have this one's name (a mount point). */
static bool is_of_folder(int error) {
    return error == EACCES || error == EPERM || error == EROFS || error == EBUSY || error == EXDEV;
}

/* What was there is lost also where this fails halfway. */
static int overwrite(const FileJob *job) {
    const int fd = openat(job->folder, job->path, O_WRONLY | O_TRUNC | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);
    if (fd < 0) return errno;
    return fill_and_close(job, fd);
}

/* links --------------------------------------------------------------------------------------- */

/* Where the link at `path` leads, which is relative to its folder, in its place. */
static int follow_link(char path[PATH_MAX]) {
    char to[PATH_MAX], joined[PATH_MAX];
    const ssize_t n = readlink(path, to, sizeof to - 1);
    if (n < 0) return errno;
    to[n] = '\0';
    const char *const slash = strrchr(path, '/');
    const int folder = slash && to[0] != '/' ? (int)(slash - path) + 1 : 0;
    if (snprintf(joined, sizeof joined, "%.*s%s", folder, path, to) >= PATH_MAX) return ENAMETOOLONG;
    memcpy(path, joined, strlen(joined) + 1);
    return 0;
}

typedef enum FileKind { FILE_absent, FILE_regular, FILE_folder, FILE_special } FileKind;

static FileKind kind_at(const char *path, struct stat *at) {
    if (stat(path, at)) return FILE_absent;
    return S_ISREG(at->st_mode) ? FILE_regular : S_ISDIR(at->st_mode) ? FILE_folder : FILE_special;
}

/* Follows links up to what is none. *open_file: one of them was another name of an open file (/dev/stdout). */
static int follow_all(char path[PATH_MAX], bool *open_file) {
    struct stat at;
    for (int i = 0; !lstat(path, &at) && S_ISLNK(at.st_mode); i++) {
        if (i == LINKS) return ELOOP;
        *open_file = !strncmp(path, "/proc/", 6) && strstr(path, "/fd/");
        const int error = *open_file ? 0 : follow_link(path);
        if (error || *open_file) return error;
    }
    return 0;
}

typedef struct FileTarget {
    char path[PATH_MAX];
    FileKind kind;
    bool open_file; /* or special: it is written in place */
    mode_t mode;    /* of what is replaced */
} FileTarget;

static int find_target(const char *path, FileTarget *target) {
    struct stat at;
    target->open_file = false;
    if (snprintf(target->path, sizeof target->path, "%s", path) >= PATH_MAX) return ENAMETOOLONG;
    const int error = follow_all(target->path, &target->open_file);
    if (error) return error;
    target->kind = kind_at(target->path, &at);
    target->mode = at.st_mode & 07777;
    return target->kind == FILE_folder ? EISDIR : 0;
}

static bool is_in_place(const FileTarget *target) { return target->kind == FILE_special || target->open_file; }

static int write_file(const char *path, const FileSpan *parts, int n, bool synced) {
    FileTarget target;
    const int error = find_target(path, &target);
    if (error) return error;
    FileJob job = {.folder = AT_FDCWD, .path = target.path, .parts = parts, .n = n, .synced = synced, .mode = 0666};
    if (is_in_place(&target)) return write_in_place(&job);
    if (target.kind == FILE_absent) return replace_file(&job);
    job.mode = 0600, job.as = &target.mode;
    const int refused = replace_file(&job);
    if (!is_of_folder(refused)) return refused;
    job.as = NULL;
    return overwrite(&job) ? refused : 0;
}

/* A file that is there may be written over where its folder takes no other one. */
static bool is_writable(const FileTarget *target) {
    return target->kind == FILE_regular && !faccessat(AT_FDCWD, target->path, W_OK, AT_EACCESS);
}

static int try_to_write(const char *path) {
    FileTarget target;
    FileHalf at;
    int fd, error = find_target(path, &target);
    if (error || is_in_place(&target)) return error; /* a pipe waits for its reader */
    const FileJob job = {.folder = AT_FDCWD, .path = target.path, .mode = 0600};
    error = open_half(&job, &at, &fd);
    if (error) return is_of_folder(error) && is_writable(&target) ? 0 : error;
    close(fd);
    unlinkat(at.folder, at.half, 0);
    close_folder(&job, &at);
    return 0;
}

/* Of a long path its end: the reason must fit behind it. */
static Status raise_write_error(const char *path, int error) {
    const size_t n = strlen(path);
    const bool is_long = n > PATH_SHOWN;
    return error ? error_raise(ST_IO, "cannot write '%s%s': %s", is_long ? "..." : "",
                               is_long ? path + n - PATH_SHOWN : path, strerror(error))
                 : ST_OK;
}

Status file_replace(const char *path, const FileSpan *parts, int n) {
    return raise_write_error(path, write_file(path, parts, n, true));
}

Status file_write(const char *path, const char *text, size_t bytes) {
    return raise_write_error(path, write_file(path, &(FileSpan){text, bytes}, 1, false));
}

Status file_can_write(const char *path) { return raise_write_error(path, try_to_write(path)); }

int file_replace_in(int folder, const char *name, const FileSpan *parts, int n) {
    return replace_file(&(FileJob){.folder = folder, .path = name, .parts = parts, .n = n, .mode = 0600});
}
