/* backends.h: backends by name, and what extensions of the program's have in common: a name and a version text. */
#ifndef SINTER_FRONTEND_BACKENDS_H
#define SINTER_FRONTEND_BACKENDS_H
#include "runtime/compile/backend.h"

/* NULL: the default one. NULL, raised: there is none of this name. */
const Backend *backend_named(const char *name);
/* Raises where a name is NULL or empty, or a name or version (NULL: none) is no short printable line. */
Status extension_check(const char *what, const char *name, const char *version);

#endif
