/* check_context.c: who writes a mode of a thread. Fields of the context that context.def has as MODE, and who watches
 * (tracer, paused), are changed by the one mechanism (core/context_enter.h, by a reason; the end of a scope; what a
 * jump has left) and by the mode's own module, which the table below names: a mode is turned on there. Anyone else says
 * context_enter.
 *
 * A reason that changes the tracer is entered by context_enter, since the end of a scope does not put that back.
 *
 * Counted in the folders of the library, comments left out: an assignment to state->FIELD or state_get()->FIELD. A new
 * row of context.def is guarded as soon as it is there; with a module of its own it gets a line here.
 *
 * Usage: check_context ROOT. A line of the table that no assignment needs is an error. */
#define _XOPEN_SOURCE 700
#include <regex.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "tests/tree_files.h"

static const char *const modes[] = {
#define MODE(type, name, at_end, replay) #name,
#include "runtime/core/context.def"
    "tracer", "paused"};
enum { N_MODES = sizeof modes / sizeof *modes };

static const char *const mechanism[] = {"runtime/core/context_enter.h", "runtime/core/state.h", "runtime/core/scope.c"};

typedef struct Home {
    const char *mode, *file;
    int found;
} Home;

static Home homes[] = {
    {"include", "runtime/core/autocast.c"},
    {"include", "runtime/core/override.c"},
    {"include", "runtime/transform/level.c"},
    {"include", "runtime/core/tracer.c"}, /* the key of what watches */
    {"exclude", "runtime/core/autocast.c"},
    {"exclude", "runtime/core/override.c"}, /* of a mode that begins where calls are unseen */
    {"exclude", "runtime/transform/level.c"},
    {"saved_hooks", "runtime/autograd/saved_hooks.c"},
    {"saved_hooks", "runtime/core/ends.c"},
    {"level", "runtime/transform/level.c"},
    {"streams", "runtime/device/stream.c"},
    {"grad_mode", "runtime/transform/level.c"}, /* back to that of further out */
    {"stance", "frontend/api/compile.c"},
    {"autocast", "runtime/core/autocast.c"},
    {"device", "frontend/api/device.c"},
    {"tracer", "runtime/core/tracer.c"},
    {"paused", "runtime/core/tracer.c"},
};
enum { N_HOMES = sizeof homes / sizeof *homes };

typedef struct Reason {
    const char *name, *changes;
} Reason;
static const Reason reasons[] = {
#define REASON(name, keys, changes) {#name, #changes},
#include "runtime/core/context_reasons.def"
};

static regex_t written, entered;
static int problems;

static bool is_mode(const char *field, size_t n) {
    for (int i = 0; i < N_MODES; i++)
        if (strlen(modes[i]) == n && !strncmp(field, modes[i], n)) return true;
    return false;
}

static bool is_at_home(const char *path, const char *field, size_t n) {
    for (size_t i = 0; i < sizeof mechanism / sizeof *mechanism; i++)
        if (!strcmp(path, mechanism[i])) return true;
    for (int i = 0; i < N_HOMES; i++)
        if (!strcmp(path, homes[i].file) && strlen(homes[i].mode) == n && !strncmp(field, homes[i].mode, n))
            return ++homes[i].found;
    return false;
}

static void find(const char *path, int line, const char *text) {
    regmatch_t match[5];
    for (; !regexec(&written, text, 5, match, 0); text += match[0].rm_eo) {
        const char *const field = text + match[3].rm_so;
        const size_t n = (size_t)(match[3].rm_eo - match[3].rm_so);
        if (!is_mode(field, n) || is_at_home(path, field, n)) continue;
        printf("%s:%d: the mode %.*s is written: context_enter with a reason of runtime/core/context_reasons.def, or a "
               "home in tests/check_context.c\n",
               path, line, (int)n, field);
        problems++;
    }
}

static bool changes_tracer(const char *reason, size_t n) {
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (strlen(reasons[i].name) == n && !strncmp(reasons[i].name, reason, n))
            return strstr(reasons[i].changes, "_tracer") != NULL;
    return false;
}

static void find_scoped(const char *path, int line, const char *text) {
    regmatch_t match[2];
    if (regexec(&entered, text, 2, match, 0)) return;
    const char *const reason = text + match[1].rm_so;
    const size_t n = (size_t)(match[1].rm_eo - match[1].rm_so);
    if (!changes_tracer(reason, n)) return;
    printf("%s:%d: CONTEXT_%.*s changes the tracer, which the end of a scope does not put back: context_enter and "
           "context_leave\n",
           path, line, (int)n, reason);
    problems++;
}

static void check_file(const char *root, const char *path) {
    each_code_line(root, path, find);
    each_code_line(root, path, find_scoped);
}

int main(int argc, char **argv) {
    static const char *const folders[] = {"runtime/", "frontend/"};
    if (argc != 2) return fprintf(stderr, "usage: check_context ROOT\n"), 2;
    if (regcomp(&written, "state(_get\\(\\))?->(context\\.)?([a-z_]+) *([|&^]?=[^=]|\\+\\+|--)", REG_EXTENDED))
        return fprintf(stderr, "a bad pattern\n"), 2;
    if (regcomp(&entered, "context_enter_scope\\(.*CONTEXT_([a-z_]+)", REG_EXTENDED))
        return fprintf(stderr, "a bad pattern\n"), 2;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) each_file(argv[1], folders[i], " c h ", check_file);
    for (int i = 0; i < N_HOMES; i++) {
        if (homes[i].found) continue;
        printf("%s does not write %s\n", homes[i].file, homes[i].mode);
        problems++;
    }
    printf("%d modes, %d problems\n", N_MODES, problems);
    return problems != 0;
}
