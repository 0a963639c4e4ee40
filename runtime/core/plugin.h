/* plugin.h: plug-ins: loaded (plugin.c), and built by the system's compiler (plugin_build.c). sinter/plugin.h says what
 * both do. */
#ifndef SINTER_RUNTIME_PLUGIN_H
#define SINTER_RUNTIME_PLUGIN_H
#include "runtime/base/base.h"

Status plugin_load(const char *path);
Status plugin_seal(const char *path);
/* sources: n paths, none of them NULL. */
Status plugin_build(const char *const *sources, int n);
/* From the texts of name.c and of name.cu, which may be NULL. */
Status plugin_build_text(const char *name, const char *c, const char *cuda);

#endif
