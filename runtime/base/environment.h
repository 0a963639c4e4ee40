/* environment.h: variables of the environment, for all of the library and the tool. None is read in a program that was
 * started with more rights than who started it has (set-user-id, set-group-id, capabilities: AT_SECURE), nor after
 * environment_ignore. A test of the tree forbids getenv elsewhere. */
#ifndef SINTER_RUNTIME_BASE_ENVIRONMENT_H
#define SINTER_RUNTIME_BASE_ENVIRONMENT_H
#include "runtime/base/base.h"

bool environment_is_foreign(void);             /* the program has more rights than who gave it its environment */
const char *environment(const char *variable); /* NULL: unset, or nobody may ask; the environment's own */
bool environment_is_set(const char *variable); /* to more than "" */
/* "NAME=value" of each, NULL behind the last. */
char **environment_all(void);
void environment_ignore(void); /* from here on nothing is set, in the whole process */
/* Where temporary folders are made: TMPDIR, or /tmp. */
const char *environment_temporary(void);

#endif
