/* plugin_file.h: a plug-in's file (sinter/plugin.h), looked at before the system maps it and runs its constructors: is
 * it a shared library of this machine with tables inside of the file, for which version was it built, which libsinter
 * does it need, and is it as it was when it was sealed. Nothing in it is believed: every offset is checked. */
#ifndef SINTER_RUNTIME_PLUGIN_FILE_H
#define SINTER_RUNTIME_PLUGIN_FILE_H
#include "runtime/base/base.h"

/* Raises what is wrong with the file of these bytes; `what` calls it so. */
Status plugin_file_check(const char *what, const char *bytes, size_t n);
/* Puts its checksum into the bytes. */
Status plugin_file_seal(const char *what, char *bytes, size_t n);

#endif
