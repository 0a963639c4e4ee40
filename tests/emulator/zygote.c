/* zygote.c: preloaded into a clang that compiles the beginning of CUDA programs and then an #include of a file that
 * does not exist. Where clang opens that file it has started and has read the beginning; there it stays, and forks for
 * each request: the child has the program's text for that file, goes on as any clang does and ends. The zygote ends
 * when its socket does, with the process that started it. Nothing else of clang is changed. */
#define _GNU_SOURCE
#include "tests/emulator/zygote.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TEXT, OBJECT, LOG, FILES };

/* Clang inherits whatever a test has open without a word about exec: a pipe's end would stay open as long as it. */
__attribute__((constructor)) static void begin(void) {
    unsetenv("LD_PRELOAD");
    close_range(ZYGOTE_SOCKET + 1, ~0u, 0);
}

static bool receive(int *files) {
    char buffer[CMSG_SPACE(FILES * sizeof *files)], byte;
    struct iovec one = {&byte, 1};
    struct msghdr message = {.msg_iov = &one, .msg_iovlen = 1, .msg_control = buffer, .msg_controllen = sizeof buffer};
    if (recvmsg(ZYGOTE_SOCKET, &message, MSG_CMSG_CLOEXEC) != 1) return false;
    const struct cmsghdr *const control = CMSG_FIRSTHDR(&message);
    if (!control || control->cmsg_len != CMSG_LEN(FILES * sizeof *files)) return false;
    memcpy(files, CMSG_DATA(control), FILES * sizeof *files);
    return true;
}

/* Without what clang would tidy up. */
static void leave(int status, void *unused) {
    (void)unused;
    _exit(status);
}

/* In the child: the file that clang reads on in. */
static int become_compiler(const int *files) {
    close(ZYGOTE_SOCKET);
    dup2(files[OBJECT], 1);
    dup2(files[LOG], 2);
    on_exit(leave, NULL);
    return files[TEXT];
}

static int serve(void) {
    int files[FILES];
    while (receive(files)) {
        int status = 1;
        const pid_t child = fork();
        if (!child) return become_compiler(files);
        for (int i = 0; i < FILES; i++) close(files[i]);
        if (child > 0) waitpid(child, &status, 0);
        send(ZYGOTE_SOCKET, &status, sizeof status, MSG_NOSIGNAL);
    }
    _exit(0);
}

/* clang opens files by one or the other. */
__attribute__((visibility("default"))) int open(const char *path, int how, ...) {
    va_list more;
    va_start(more, how);
    const mode_t mode = how & (O_CREAT | __O_TMPFILE) ? va_arg(more, mode_t) : 0;
    va_end(more);
    if (!strcmp(path, ZYGOTE_PROGRAM)) return serve();
    return (int)syscall(SYS_openat, AT_FDCWD, path, how, mode);
}
__attribute__((visibility("default"), alias("open"))) int open64(const char *path, int how, ...);
