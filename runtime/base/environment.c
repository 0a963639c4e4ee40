/* environment.c: see environment.h. */
#define _GNU_SOURCE /* secure_getenv, environ */
#include "runtime/base/environment.h"

#include <stdlib.h>
#include <sys/auxv.h>
#include <unistd.h>

static bool ignored; /* set before threads start */

void environment_ignore(void) { ignored = true; }

const char *environment(const char *variable) { return ignored ? NULL : secure_getenv(variable); }

bool environment_is_foreign(void) { return getauxval(AT_SECURE) != 0; }

bool environment_is_set(const char *variable) {
    const char *const value = environment(variable);
    return value && *value;
}

char **environment_all(void) {
    static char *none[] = {NULL};
    return ignored || environment_is_foreign() || !environ ? none : environ;
}

const char *environment_temporary(void) { return environment_is_set("TMPDIR") ? environment("TMPDIR") : "/tmp"; }
