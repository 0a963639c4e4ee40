/* crash.c: see crash.h. */
#include "frontend/tool/crash.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/base.h"

static const int fatal[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
static struct sigaction before[COUNT_OF(fatal)];
static char line[320]; /* written before the signal: a handler formats nothing */
static bool watches;

static void put_back(void) {
    for (int i = 0; i < COUNT_OF(fatal); i++) sigaction(fatal[i], &before[i], NULL);
    watches = false;
}

/* A signal that was sent, by abort() or kill, does not come again by itself. */
static void report_signal(int signal) {
    (void)!write(STDERR_FILENO, line, strlen(line));
    put_back();
    raise(signal);
}

/* On a stack of its own: what came may be the end of the thread's. */
static void watch(void) {
    static char buffer[1 << 16];
    struct sigaction action = {.sa_handler = report_signal, .sa_flags = SA_ONSTACK};
    sigaltstack(&(stack_t){.ss_sp = buffer, .ss_size = sizeof buffer}, NULL);
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < COUNT_OF(fatal); i++) sigaction(fatal[i], &action, &before[i]);
    watches = true;
}

void crash_record(const char *command, const char *doing) {
    if (!doing && watches) put_back();
    if (!doing) return;
    snprintf(line, sizeof line, "sinter %.32s: ended by a signal %.255s\n", command, doing);
    if (!watches) watch();
}
