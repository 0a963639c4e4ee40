/* compiler.c: see compiler.h. Text, object and log are files without names: clang's stdin, stdout and stderr.
 *
 *   plainly     a clang for one program: 150 ms, nearly all of them for its start and what programs begin with
 *   by a fork   the zygote is a clang that was given the beginning and an #include of a file that does not exist;
 *               zygote.c, preloaded, forks there for each request, and the child reads the program as that file
 *
 * Both make the same object, byte for byte (test_emulated_compiler). What the zygote cannot do, whatever the reason, is
 * done plainly: so are errors in a program, whose text then is as it should be. A process starts one with its second
 * program; it ends when nobody holds the other end of its socket, however this process ends. A child forked from here,
 * as tests do, starts one of its own. */
#define _GNU_SOURCE
#include "tests/emulator/compiler.h"

#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/emulator/emulator.h"
#include "tests/emulator/zygote.h"

static const char *const flags[] = {EMULATOR_CLANG,
                                    "-x",
                                    "c++",
                                    "-std=gnu++17",
                                    "-march=native",
                                    "-mcmodel=large",
                                    "-fno-pic",
                                    "-w",
                                    "-nostdinc",
                                    "-ffp-contract=off",
                                    "-fno-math-errno",
                                    "-fno-exceptions",
                                    "-fno-rtti",
                                    "-fno-asynchronous-unwind-tables",
                                    "-fno-stack-protector",
                                    "-fno-strict-aliasing",
                                    "-fsanitize=thread",
                                    "-mllvm",
                                    "-tsan-instrument-func-entry-exit=0",
                                    "-mllvm",
                                    "-tsan-instrument-atomics=0",
                                    "-fsanitize=signed-integer-overflow,shift,integer-divide-by-zero",
                                    "-fsanitize=float-cast-overflow,array-bounds",
                                    "-c",
                                    "-o",
                                    "-",
                                    "-"};
enum { FLAGS = (int)(sizeof flags / sizeof *flags) };

/* "-O0" halves the time of a fork: for tests that run many programs, each a few times on small tensors. */
static const char *level(void) {
    const char *const set = getenv("EMULATED_CUDA_LEVEL");
    return set && *set ? set : "-O1";
}

/* files ---------------------------------------------------------------------------------------- */

static int nameless(const char *what) { return memfd_create(what, MFD_CLOEXEC); }

static int file_of(const char *at, size_t n) {
    const int file = nameless("program");
    const bool whole = file >= 0 && write(file, at, n) == (ssize_t)n && lseek(file, 0, SEEK_SET) == 0;
    if (!whole && file >= 0) close(file);
    return whole ? file : -1;
}

static Bytes bytes_of(int file) {
    struct stat is;
    Bytes out = {NULL, 0};
    if (file < 0 || fstat(file, &is)) return out;
    out.at = calloc(1, (size_t)is.st_size + 1);
    const ssize_t got = pread(file, out.at, (size_t)is.st_size, 0);
    out.n = got > 0 ? (size_t)got : 0;
    return out;
}

Bytes bytes_of_file(const char *path) {
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    const Bytes out = bytes_of(file);
    if (file >= 0) close(file);
    return out;
}

/* Under a name of its own until it is whole: other processes compile the same. */
static void keep(const char *path, Bytes object) {
    static _Atomic int serial;
    char name[600];
    snprintf(name, sizeof name, "%s.%d.%d.new", path, (int)getpid(), serial++);
    FILE *const file = fopen(name, "wb");
    if (!file) return;
    const bool all = fwrite(object.at, 1, object.n, file) == object.n;
    if (fclose(file) || !all || rename(name, path)) unlink(name);
}

/* clang ---------------------------------------------------------------------------------------- */

typedef struct Request {
    int text, object, log;
} Request;

/* What this process preloads is nothing for clang. The caller frees the list. */
static const char **environment(const char *preload) {
    extern char **environ;
    size_t n = 0, kept = 0;
    while (environ[n]) n++;
    const char **const out = calloc(n + 2, sizeof *out);
    for (size_t i = 0; i < n; i++)
        if (strncmp(environ[i], "LD_PRELOAD=", 11)) out[kept++] = environ[i];
    out[kept] = preload;
    return out;
}

/* extra: what it has as file ZYGOTE_SOCKET, or -1. 0: it cannot be run. */
static pid_t spawn(Request files, int extra, const char *preload) {
    const char *words[FLAGS + 2] = {NULL}, **const variables = environment(preload);
    posix_spawn_file_actions_t actions;
    pid_t process = 0;
    memcpy(words, flags, sizeof flags);
    words[FLAGS] = level();
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, files.text, 0);
    posix_spawn_file_actions_adddup2(&actions, files.object, 1);
    posix_spawn_file_actions_adddup2(&actions, files.log, 2);
    if (extra >= 0) posix_spawn_file_actions_adddup2(&actions, extra, ZYGOTE_SOCKET);
    if (posix_spawnp(&process, words[0], &actions, NULL, (char **)(uintptr_t)words, (char **)(uintptr_t)variables))
        process = 0;
    posix_spawn_file_actions_destroy(&actions);
    free(variables);
    return process;
}

typedef struct Outcome {
    Bytes object, log; /* no object: it was refused */
} Outcome;

static Outcome outcome_of(Request files, int status) {
    const Outcome out = {status ? (Bytes){NULL, 0} : bytes_of(files.object), bytes_of(files.log)};
    if (files.text >= 0) close(files.text);
    close(files.object), close(files.log);
    return out;
}

static Outcome compile_plainly(Bytes text) {
    const Request files = {file_of(text.at, text.n), nameless("object"), nameless("log")};
    int status = 1;
    const pid_t process = files.text < 0 ? 0 : spawn(files, -1, NULL);
    if (process) waitpid(process, &status, 0);
    return outcome_of(files, status);
}

/* the zygote ------------------------------------------------------------------------------------- */

static struct {
    pthread_mutex_t lock;
    Bytes head;    /* what it has read */
    pid_t owner;   /* the process that its socket is of */
    pid_t process; /* 0: there is none */
    int socket;
    int programs; /* of this process that begin with a known head */
    bool failed;  /* it ended, and is not tried again */
    int64_t started, forked;
} zygote = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* In a child forked from the owner: that one's is not for us. */
static void begin_process(void) {
    if (zygote.owner == getpid()) return;
    if (zygote.process) close(zygote.socket);
    free(zygote.head.at);
    zygote.head = (Bytes){NULL, 0};
    zygote.owner = getpid(), zygote.process = 0, zygote.programs = 0, zygote.failed = false;
    zygote.started = zygote.forked = 0;
}

__attribute__((destructor)) static void end_zygote(void) {
    if (!zygote.process || zygote.owner != getpid()) return;
    close(zygote.socket);
    waitpid(zygote.process, NULL, 0);
    zygote.process = 0;
}

static int file_of_head(Bytes head) {
    static const char rest[] = "\n#include \"" ZYGOTE_PROGRAM "\"\n";
    Bytes whole;
    FILE *const file = open_memstream(&whole.at, &whole.n);
    fwrite(head.at, 1, head.n, file);
    fputs(rest, file);
    fclose(file);
    const int out = file_of(whole.at, whole.n);
    free(whole.at);
    return out;
}

static void start_zygote(Bytes head) {
    int ends[2];
    const int text = file_of_head(head), nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (text >= 0 && nowhere >= 0 && !socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends)) {
        zygote.process = spawn((Request){text, nowhere, nowhere}, ends[1], "LD_PRELOAD=" EMULATOR_ZYGOTE);
        zygote.socket = ends[0];
        close(ends[1]);
        if (!zygote.process) close(ends[0]);
    }
    if (text >= 0) close(text);
    if (nowhere >= 0) close(nowhere);
    zygote.started += zygote.process != 0;
    zygote.failed = !zygote.process;
    zygote.head = (Bytes){strndup(head.at, head.n), head.n};
}

/* False: it is gone. */
static bool ask_zygote(Request files, int *status) {
    char buffer[CMSG_SPACE(sizeof files)] = {0}, byte = 0;
    struct iovec one = {&byte, 1};
    struct msghdr message = {.msg_iov = &one, .msg_iovlen = 1, .msg_control = buffer, .msg_controllen = sizeof buffer};
    struct cmsghdr *const control = CMSG_FIRSTHDR(&message);
    *control = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    control->cmsg_len = CMSG_LEN(sizeof files);
    memcpy(CMSG_DATA(control), &files, sizeof files);
    return sendmsg(zygote.socket, &message, MSG_NOSIGNAL) == 1 &&
           recv(zygote.socket, status, sizeof *status, 0) == (ssize_t)sizeof *status;
}

static bool is_ready(Bytes head) {
    begin_process();
    if (zygote.failed || !zygote.programs++) return false;
    if (!zygote.process) start_zygote(head);
    return zygote.process && zygote.head.n == head.n && !memcmp(zygote.head.at, head.at, head.n);
}

static Outcome compile_in_turn(Bytes text, size_t head) {
    const bool ready = is_ready((Bytes){text.at, head});
    const Request files = {ready ? file_of(text.at + head, text.n - head) : -1, nameless("object"), nameless("log")};
    int status = 1;
    if (files.text >= 0 && !ask_zygote(files, &status)) {
        end_zygote();
        zygote.failed = true;
    }
    zygote.forked += status == 0;
    return outcome_of(files, status);
}

static Outcome compile_by_fork(Bytes text, size_t head) {
    Outcome out = {0};
    if (!head || pthread_mutex_trylock(&zygote.lock)) return out; /* it serves another thread */
    out = compile_in_turn(text, head);
    pthread_mutex_unlock(&zygote.lock);
    return out;
}

EmulatorCompiler emulator_compiler;
__attribute__((visibility("default"))) void emulator_compiler(EmulatorCompilerState *out) {
    pthread_mutex_lock(&zygote.lock);
    *out = (EmulatorCompilerState){zygote.started, zygote.forked, zygote.process};
    pthread_mutex_unlock(&zygote.lock);
}

/* objects ---------------------------------------------------------------------------------------- */

static uint64_t hash(uint64_t h, const char *at, size_t n) {
    for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)at[i]) * 1099511628211u;
    return h;
}

static void object_path(char *path, size_t capacity, Bytes text) {
    const char *const set = getenv("EMULATED_CUDA_CACHE"), *const folder = set && *set ? set : EMULATOR_CACHE;
    const Bytes words = bytes_of_file(EMULATOR_WORDS);
    const size_t first = strcspn(text.at, "\n");
    uint64_t h = hash(14695981039346656037u, text.at + first, text.n - first);
    h = hash(h, words.at ? words.at : "", words.n);
    for (int i = 0; i < FLAGS; i++) h = hash(h, flags[i], strlen(flags[i]) + 1);
    h = hash(h, level(), strlen(level()));
    free(words.at);
    mkdir(folder, 0777);
    snprintf(path, capacity, "%s/%016llx.o", folder, (unsigned long long)h);
}

static Outcome compile(Bytes text, size_t head) {
    Outcome out = compile_by_fork(text, head);
    if (out.object.at) return out;
    free(out.log.at);
    return compile_plainly(text);
}

Bytes compiler_object(Bytes text, size_t head, Bytes *log) {
    static const char nobody[] = "emulated NVRTC: there is no " EMULATOR_CLANG " to run";
    char path[512];
    object_path(path, sizeof path, text);
    const Bytes out = bytes_of_file(path);
    *log = (Bytes){NULL, 0};
    if (out.at) return out;
    const Outcome made = compile(text, head);
    *log = made.log;
    if (made.object.at) keep(path, made.object);
    if (made.object.at || made.log.n) return made.object;
    free(log->at);
    *log = (Bytes){strdup(nobody), sizeof nobody - 1};
    return out;
}
