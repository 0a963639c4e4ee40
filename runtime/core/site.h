/* site.h: the place of a call in the user's source. */
#ifndef SINTER_RUNTIME_SITE_H
#define SINTER_RUNTIME_SITE_H
#include "runtime/base/base.h"

/* "model.c:57" where debug information tells, else "symbol+0x12" or "module+0x345"; scope-free
 * static buffer per call: the caller gives it. */
void site_name(const void *site, char *out, size_t capacity);
/* A call site that is no code: it is named by this text ("f:3"). As long as the process, the same for equal texts;
 * NULL when there are too many. */
const void *site_of_text(const char *text);

#endif
