/* disk_folder.c: see disk_folder.h. Everything is relative to one descriptor of the folder that was checked, so that
 * nobody can put another one in its place between the check and the use. The time of a file's last change is that of
 * its last use; only the order of these times counts, so that a clock set back evicts the wrong entry and no more. */
#define _GNU_SOURCE /* O_NOFOLLOW, utimensat */
#include "runtime/core/disk_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/alloc.h"
#include "runtime/base/bail.h"
#include "runtime/base/clock.h"
#include "runtime/base/environment.h"
#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/core/settings.h"

enum { MOST_BYTES = 256 << 20, HALF_WRITTEN_SECONDS = 3600 };

static bool because(DiskFolder *folder, const char *format, ...) PRINTF_LIKE(2, 3);
static bool because(DiskFolder *folder, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(folder->why, sizeof folder->why, format, args);
    va_end(args);
    return false;
}

/* where --------------------------------------------------------------------------------------- */

static pthread_mutex_t choosing = PTHREAD_MUTEX_INITIALIZER;
static char chosen[DISK_PATH];
static bool is_chosen;
static _Atomic int64_t chosen_bytes = -1;

Status disk_folder_choose(const char *path) {
    if (strlen(path) >= sizeof chosen)
        return error_raise(ST_ARGUMENT, "setting cache_dir: a path of more than %d bytes", DISK_PATH - 1);
    pthread_mutex_lock(&choosing);
    memcpy(chosen, path, strlen(path) + 1);
    is_chosen = true;
    pthread_mutex_unlock(&choosing);
    return ST_OK;
}

/* What was chosen, else what the environment says. */
static bool copy_choice(char path[DISK_PATH]) {
    pthread_mutex_lock(&choosing);
    const int n = snprintf(path, DISK_PATH, "%s", is_chosen ? chosen : setting_initial_text(SET_cache_dir));
    pthread_mutex_unlock(&choosing);
    return n < DISK_PATH;
}

void disk_bytes_choose(int64_t most) { atomic_store(&chosen_bytes, most); }

int64_t disk_bytes_most(void) {
    const int64_t most = atomic_load(&chosen_bytes);
    return most >= 0 ? most : setting_initial(SET_cache_mib) << 20;
}

static bool is_absolute(const char *path) { return path && path[0] == '/'; }

/* That of another user, whose environment a program was given, gets no folder that they could not write to. */
static bool find_default(DiskFolder *folder) {
    const char *const xdg = environment("XDG_CACHE_HOME"), *const home = environment("HOME");
    struct stat at;
    if (is_absolute(xdg)) return snprintf(folder->path, sizeof folder->path, "%s/sinter", xdg) < DISK_PATH;
    if (!is_absolute(home) || stat(home, &at)) return because(folder, "there is no home folder");
    if (at.st_uid != geteuid()) return because(folder, "the home folder '%.200s' is another user's", home);
    return snprintf(folder->path, sizeof folder->path, "%s/.cache/sinter", home) < DISK_PATH;
}

static bool find_path(DiskFolder *folder) {
    if (!copy_choice(folder->path)) return because(folder, "its path is too long");
    folder->off = !folder->path[0] || !strcmp(folder->path, "off");
    folder->is_default = !strcmp(folder->path, "xdg");
    if (folder->off) return because(folder, "the setting cache_dir is off");
    if (!folder->is_default || find_default(folder)) return true;
    return folder->why[0] ? false : because(folder, "its path is too long");
}

/* A link would be followed where a '/' stands behind it. */
static void drop_last_slashes(char *path) {
    for (size_t n = strlen(path); n > 1 && path[n - 1] == '/'; n--) path[n - 1] = '\0';
}

static bool check_folder(DiskFolder *folder) {
    struct stat at;
    if (fstat(folder->fd, &at)) return because(folder, "'%.200s': %s", folder->path, strerror(errno));
    if (at.st_uid != geteuid())
        return because(folder, "'%.200s' belongs to user %u, and this is user %u", folder->path, at.st_uid, geteuid());
    if (at.st_mode & 022)
        return because(folder, "others may write to '%.200s' (mode %o)", folder->path, at.st_mode & 0777u);
    return true;
}

static bool open_path(DiskFolder *folder, bool create) {
    drop_last_slashes(folder->path);
    if (create) {
        file_make_parents(folder->path, 0700);
        mkdir(folder->path, 0700);
    }
    folder->fd = open(folder->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder->fd >= 0) return true;
    const int error = errno;
    struct stat at;
    folder->absent = error == ENOENT;
    if (!lstat(folder->path, &at) && S_ISLNK(at.st_mode))
        return because(folder, "'%.200s' is a symbolic link", folder->path);
    return because(folder, "'%.200s': %s", folder->path, strerror(error));
}

bool disk_folder_open(bool create, DiskFolder *folder) {
    folder->fd = -1;
    folder->absent = false;
    folder->path[0] = folder->why[0] = '\0';
    if (!find_path(folder) || !open_path(folder, create)) return false;
    if (check_folder(folder)) return true;
    disk_folder_close(folder);
    return false;
}

void disk_folder_close(DiskFolder *folder) {
    close(folder->fd);
    folder->fd = -1;
}

/* files --------------------------------------------------------------------------------------- */

void disk_file_name(uint64_t hash, char name[DISK_NAME]) { snprintf(name, DISK_NAME, "%016" PRIx64 ".code", hash); }

static bool is_entry(const char *name) {
    return strlen(name) == 21 && text_begins_hex(name, 16) && !strcmp(name + 16, ".code");
}

static bool read_whole(int fd, char *content, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
        const ssize_t n = read(fd, content + done, bytes - done);
        if (n <= 0 && !(n < 0 && errno == EINTR)) return false;
        if (n > 0) done += (size_t)n;
    }
    content[bytes] = '\0';
    return true;
}

/* NULL: it may be read. */
static const char *suspicion(const struct stat *at) {
    if (!S_ISREG(at->st_mode)) return "it is no file";
    if (at->st_uid != geteuid()) return "it belongs to another user";
    if (at->st_mode & 022) return "others may write to it";
    return at->st_size > MOST_BYTES ? "it is too large" : NULL;
}

static const char *read_open(int fd, char **content, size_t *bytes) {
    struct stat at;
    if (fstat(fd, &at)) return "it cannot be read";
    const char *const why = suspicion(&at);
    if (why) return why;
    char *const buffer = mem_alloc((size_t)at.st_size + 1);
    if (!buffer) return "out of memory";
    if (!read_whole(fd, buffer, (size_t)at.st_size)) {
        mem_free(buffer);
        return "it cannot be read";
    }
    *content = buffer;
    *bytes = (size_t)at.st_size;
    return NULL;
}

bool disk_file_read(const DiskFolder *folder, const char *name, char **content, size_t *bytes, const char **why) {
    const int fd = openat(folder->fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) {
        *why = errno == ENOENT ? NULL : errno == ELOOP ? "it is a symbolic link" : "it cannot be opened";
        return false;
    }
    *why = read_open(fd, content, bytes);
    close(fd);
    return !*why;
}

static const char *why_not(int error) {
    switch (error) {
    case EROFS:
    case EACCES:
        return "the folder is read-only";
    case ENOSPC:
        return "the disk is full";
    case EFBIG:
        return "the limit of a file's size";
    default:
        return "a write failed";
    }
}

bool disk_file_write(const DiskFolder *folder, const char *name, const FileSpan *parts, int n, const char **why) {
    size_t bytes = 0;
    for (int i = 0; i < n; i++) bytes += parts[i].bytes;
    const int error = bytes > MOST_BYTES ? 0 : file_replace_in(folder->fd, name, parts, n);
    *why = bytes > MOST_BYTES ? "it is too large" : error ? why_not(error) : NULL;
    return !*why;
}

/* A disk that takes no writes keeps the order that it has. */
void disk_file_used(const DiskFolder *folder, const char *name) {
    utimensat(folder->fd, name, NULL, AT_SYMLINK_NOFOLLOW);
}

void disk_file_remove(const DiskFolder *folder, const char *name) { unlinkat(folder->fd, name, 0); }

/* all of them --------------------------------------------------------------------------------- */

static int by_use(const void *a, const void *b) {
    const DiskFile *const x = a, *const y = b;
    if (x->used.tv_sec != y->used.tv_sec) return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
    if (x->used.tv_nsec != y->used.tv_nsec) return x->used.tv_nsec < y->used.tv_nsec ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Its process was killed, unless the disk is very slow; also one of a time to come. */
static void remove_if_old(const DiskFolder *folder, const char *name, const struct stat *at) {
    const int64_t seconds = (int64_t)(time(NULL) - at->st_mtime);
    if (seconds > HALF_WRITTEN_SECONDS || seconds < -HALF_WRITTEN_SECONDS) disk_file_remove(folder, name);
}

typedef struct DiskList {
    DiskFile *at;
    int n, capacity;
} DiskList;

static bool list_file(DiskList *list, const char *name, const struct stat *at) {
    if (list->n == list->capacity) {
        const int capacity = list->capacity ? list->capacity * 2 : 64;
        DiskFile *const more = mem_resize(list->at, (size_t)capacity * sizeof *more);
        if (!more) return false;
        list->at = more, list->capacity = capacity;
    }
    DiskFile *const file = &list->at[list->n++];
    *file = (DiskFile){.bytes = at->st_size, .used = at->st_mtim};
    snprintf(file->name, sizeof file->name, "%.*s", DISK_NAME - 1, name);
    return true;
}

static bool list_all(const DiskFolder *folder, DIR *dir, DiskList *list) {
    for (const struct dirent *entry; (entry = readdir(dir));) {
        struct stat at;
        const char *const name = entry->d_name;
        if (!is_entry(name) && !file_is_half_written(name)) continue;
        if (fstatat(folder->fd, name, &at, AT_SYMLINK_NOFOLLOW)) continue; /* gone meanwhile */
        if (!is_entry(name))
            remove_if_old(folder, name, &at);
        else if (!list_file(list, name, &at))
            return false;
    }
    return true;
}

bool disk_folder_list(const DiskFolder *folder, DiskFile **out, int *n) {
    DiskList list = {0};
    const int fd = openat(folder->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* a place of its own in it */
    DIR *const dir = fd >= 0 ? fdopendir(fd) : NULL;
    const bool listed = dir && list_all(folder, dir, &list);
    if (dir)
        closedir(dir);
    else if (fd >= 0)
        close(fd);
    if (!listed) {
        mem_free(list.at);
        return false;
    }
    if (list.n) qsort(list.at, (size_t)list.n, sizeof *list.at, by_use);
    *out = list.at, *n = list.n;
    return true;
}

int disk_folder_shrink(const DiskFolder *folder, int64_t most, int64_t left) {
    DiskFile *files;
    int n, gone = 0;
    if (!disk_folder_list(folder, &files, &n)) return 0;
    int64_t all = 0;
    for (int i = 0; i < n; i++) all += files[i].bytes;
    if (all <= most) n = 0;
    for (; gone < n && all > left; all -= files[gone++].bytes) disk_file_remove(folder, files[gone].name);
    mem_free(files);
    return gone;
}
