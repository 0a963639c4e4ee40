/* jit_perf.c: the two files that perf reads: its map of names (perf's tools/perf/Documentation/jit-interface.txt) and
 * jitdump (jitdump-specification.txt there), whose times are of the monotonic clock: perf record -k mono.
 *
 *   jit-PID.dump:  header | load | load | ... | close
 *   load:          id 0, bytes, time | pid, thread, address twice, bytes of code, a number | name, NUL | code
 *
 * `perf inject` learns of a jitdump by a mapping of it that may be executed, which perf record notes. A record that
 * does not fit on the disk is taken back, so that the rest can be read. Both files are this user's alone; what lies
 * in their place and is another's, or a link, is refused. */
#define _GNU_SOURCE /* gettid, O_NOFOLLOW */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/environment.h"
#include "runtime/core/jit_registered.h"
#include "runtime/core/settings.h"

enum { JITDUMP_MAGIC = 0x4a695444, JITDUMP_VERSION = 1, JITDUMP_LOAD = 0, JITDUMP_CLOSE = 3 };

typedef struct JitDumpHeader {
    uint32_t magic, version, bytes, machine, padding, pid;
    uint64_t time, flags;
} JitDumpHeader;

typedef struct JitDumpRecord {
    uint32_t id, bytes;
    uint64_t time;
} JitDumpRecord;

typedef struct JitDumpLoad {
    JitDumpRecord head;
    uint32_t pid, thread;
    uint64_t mapped_at, at, bytes, number;
} JitDumpLoad;

typedef struct JitFile {
    int fd; /* 0: not tried yet; -1: shut */
    char path[JIT_PATH + 32];
    void *marker;
    uint64_t n; /* functions written */
} JitFile;

static JitFile map_file, dump_file;

/* Files ------------------------------------------------------------------------------------------ */

static bool shut(JitFile *file, const char *problem, char *why) {
    snprintf(why, JIT_COMPLAINT, "'%s': %s; no code is named there from now on", file->path, problem);
    if (file->fd > 0) close(file->fd);
    file->fd = -1;
    return false;
}

/* When this process began, in seconds since 1970; 0: the system does not say. */
static int64_t process_began(void) {
    char text[1024];
    struct timespec up, now;
    const int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0) close(fd);
    if (n <= 0 || clock_gettime(CLOCK_BOOTTIME, &up) || clock_gettime(CLOCK_REALTIME, &now)) return 0;
    text[n] = 0;
    const char *field = strrchr(text, ')'); /* the second; the program's name may have spaces */
    for (int i = 2; field && i < 22; i++) field = strchr(field + 1, ' ');
    if (!field) return 0;
    return (int64_t)now.tv_sec - ((int64_t)up.tv_sec - atoll(field) / sysconf(_SC_CLK_TCK));
}

/* Of this user, and no link. What a process of the same number left goes; lines that others of this process have
 * written stay. */
static bool open_own(JitFile *file, char *why) {
    struct stat is;
    const int fd = open(file->path, O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
    if (fd < 0) return shut(file, errno == ELOOP ? "it is a link" : strerror(errno), why);
    file->fd = fd;
    if (fstat(fd, &is)) return shut(file, strerror(errno), why);
    if (!S_ISREG(is.st_mode) || is.st_uid != geteuid()) return shut(file, "it is no file of this user", why);
    const bool left_over = file == &dump_file || is.st_mtime < process_began();
    return left_over && ftruncate(fd, 0) ? shut(file, strerror(errno), why) : true;
}

static size_t bytes_in(const struct iovec *parts, int n) {
    size_t bytes = 0;
    for (int i = 0; i < n; i++) bytes += parts[i].iov_len;
    return bytes;
}

/* Beyond the limit a signal would end the program. */
static bool has_capacity(off_t before, size_t bytes) {
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur == RLIM_INFINITY ||
           (uint64_t)before + bytes <= limit.rlim_cur;
}

/* All of it behind what is there, or nothing. */
static bool append_all(JitFile *file, struct iovec *parts, int n, char *why) {
    const off_t before = lseek(file->fd, 0, SEEK_END);
    size_t left = bytes_in(parts, n);
    if (!has_capacity(before, left)) return shut(file, strerror(EFBIG), why);
    while (left) {
        const ssize_t written = writev(file->fd, parts, n);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) {
            const char *const problem = written ? strerror(errno) : "it takes no more";
            if (ftruncate(file->fd, before)) return shut(file, "its last record is cut off", why);
            return shut(file, problem, why);
        }
        left -= (size_t)written;
        for (size_t taken = (size_t)written; taken && n; taken -= parts->iov_len, parts++, n--) {
            if (taken >= parts->iov_len) continue;
            parts->iov_base = (char *)parts->iov_base + taken, parts->iov_len -= taken;
            break;
        }
    }
    return true;
}

static struct iovec slice(const void *at, size_t bytes) { return (struct iovec){(void *)(uintptr_t)at, bytes}; }

/* The map ---------------------------------------------------------------------------------------- */

static bool open_map(char *why) {
    snprintf(map_file.path, sizeof map_file.path, "/tmp/perf-%d.map", (int)getpid());
    return open_own(&map_file, why);
}

bool jit_map_add(const JitCode *code, char *why) {
    if (map_file.fd < 0 || (!map_file.fd && !open_map(why))) return false;
    for (int i = 0; i < code->n; i++) {
        const JitSymbol *const symbol = &code->symbols[i];
        char where[64];
        const int n = snprintf(where, sizeof where, "%" PRIxPTR " %zx ", (uintptr_t)symbol->at, symbol->bytes);
        struct iovec parts[] = {slice(where, (size_t)n), slice(symbol->name, strlen(symbol->name)), slice("\n", 1)};
        if (!append_all(&map_file, parts, COUNT_OF(parts), why)) return false;
    }
    return true;
}

void jit_map_end(void) {
    if (map_file.fd > 0) close(map_file.fd);
    map_file = (JitFile){0};
}

/* The dump --------------------------------------------------------------------------------------- */

static bool open_dump(const char *chosen, char *why) {
    const char *const folder = chosen[0] ? chosen : environment("JITDUMPDIR");
    const int n =
        snprintf(dump_file.path, sizeof dump_file.path, "%s/jit-%d.dump", folder ? folder : "/tmp", (int)getpid());
    if (n >= (int)sizeof dump_file.path) return shut(&dump_file, "too long a name", why);
    if (!open_own(&dump_file, why)) return false;
    const JitDumpHeader header = {.magic = JITDUMP_MAGIC,
                                  .version = JITDUMP_VERSION,
                                  .bytes = sizeof header,
                                  .machine = EM_X86_64,
                                  .pid = (uint32_t)getpid(),
                                  .time = (uint64_t)clock_ns()};
    struct iovec parts[] = {slice(&header, sizeof header)};
    if (!append_all(&dump_file, parts, COUNT_OF(parts), why)) return false;
    void *const marker = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_EXEC, MAP_PRIVATE, dump_file.fd, 0);
    if (marker == MAP_FAILED) return shut(&dump_file, "perf inject cannot find it: no mapping that is executed", why);
    dump_file.marker = marker;
    return true;
}

static JitDumpRecord record_head(uint32_t id, size_t bytes) {
    return (JitDumpRecord){.id = id, .bytes = (uint32_t)bytes, .time = (uint64_t)clock_ns()};
}

bool jit_dump_add(const JitCode *code, const char *folder, char *why) {
    if (dump_file.fd < 0 || (!dump_file.fd && !open_dump(folder, why))) return false;
    for (int i = 0; i < code->n; i++) {
        const JitSymbol *const symbol = &code->symbols[i];
        const size_t letters = strlen(symbol->name) + 1;
        JitDumpLoad load = {.pid = (uint32_t)getpid(), .thread = (uint32_t)gettid(), .bytes = symbol->bytes};
        load.head = record_head(JITDUMP_LOAD, sizeof load + letters + symbol->bytes);
        load.mapped_at = load.at = (uintptr_t)symbol->at;
        load.number = dump_file.n++;
        struct iovec parts[] = {slice(&load, sizeof load), slice(symbol->name, letters),
                                slice(symbol->at, symbol->bytes)};
        if (!append_all(&dump_file, parts, COUNT_OF(parts), why)) return false;
    }
    return true;
}

void jit_dump_end(bool finished) {
    char why[JIT_COMPLAINT];
    const JitDumpRecord close_record = record_head(JITDUMP_CLOSE, sizeof close_record);
    struct iovec parts[] = {slice(&close_record, sizeof close_record)};
    if (finished && dump_file.fd > 0) append_all(&dump_file, parts, COUNT_OF(parts), why); /* there is nobody to tell */
    if (dump_file.fd > 0) close(dump_file.fd);
    if (dump_file.marker) munmap(dump_file.marker, (size_t)sysconf(_SC_PAGESIZE));
    dump_file = (JitFile){0};
}
