/* crash.c: see crash.h. */
#include "frontend/tool/crash.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "frontend/tool/tool.h"
#include "runtime/base/base.h"

static const int fatal[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
static struct sigaction before[COUNT_OF(fatal)];
static char line[320];        /* written before the signal: a handler formats nothing */
static char no_closure[1024]; /* likewise; "": nothing is refused */
static bool watches;

enum { NULL_REACH = 1 << 16 }; /* what lies in the first pages is a member of nothing */

static void put_back(void) {
    for (int i = 0; i < COUNT_OF(fatal); i++) sigaction(fatal[i], &before[i], NULL);
    watches = false;
}

/* A signal that was sent, by abort() or kill, does not come again by itself. */
static bool is_of_null(int signal, const siginfo_t *info) {
    return signal == SIGSEGV && info->si_code > 0 && (uintptr_t)info->si_addr < NULL_REACH;
}

static void report_signal(int signal, siginfo_t *info, void *context) {
    (void)context;
    if (no_closure[0] && is_of_null(signal, info)) {
        (void)!write(STDERR_FILENO, no_closure, strlen(no_closure));
        _exit(EXIT_wrong);
    }
    (void)!write(STDERR_FILENO, line, strlen(line));
    put_back();
    raise(signal);
}

/* On a stack of its own: what came may be the end of the thread's. */
static void watch(void) {
    static char buffer[1 << 16];
    struct sigaction action = {.sa_sigaction = report_signal, .sa_flags = SA_ONSTACK | SA_SIGINFO};
    sigaltstack(&(stack_t){.ss_sp = buffer, .ss_size = sizeof buffer}, NULL);
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < COUNT_OF(fatal); i++) sigaction(fatal[i], &action, &before[i]);
    watches = true;
}

void crash_record(const char *command, const char *doing) {
    line[0] = '\0';
    if (!doing && watches && !no_closure[0]) put_back();
    if (!doing) return;
    snprintf(line, sizeof line, "sinter %.32s: ended by a signal %.255s\n", command, doing);
    if (!watches) watch();
}

void crash_no_closure(const char *target, const char *function) {
    snprintf(no_closure, sizeof no_closure,
             "sinter: '%.400s' wants its closure, and is called without one: SN_TARGET(%.200s, target) in the library "
             "(sinter/target.h) gives it one, and real inputs\n",
             target, function);
    if (!watches) watch();
}
