/* sample.h: samples as programs of their own, in bin/samples beside this one, each with a module of the same file in
 * lib/samples (samples/work.h); where they are installed, both lie in a private folder of the library's. */
#ifndef SINTER_TOOL_SAMPLE_H
#define SINTER_TOOL_SAMPLE_H
#include "frontend/tool/target.h"

/* Of this program, without a slash at its end. */
bool program_folder(char *out, size_t capacity);
bool sample_exists(const char *name);
/* A symbol of its module, which stays open; NULL: dlerror says why. */
void *sample_symbol(const char *name, const char *symbol);
/* What its program takes: "[--json] [--steps N]"; "": nothing. */
const char *sample_takes(const char *name);
/* Replaces this process; argv[0] becomes the program's path. */
int run_sample(const char *name, char **argv);
/* Runs it with its own output dropped; *text: what its functions report (SINTER_REPORT), mem_free. */
int sample_report(const char *name, const char *report, char **text);
/* As one JSON object: that of its function, or {"functions": [...]} where it has several or none. */
int explain_sample_json(const char *name);
/* What is near to the name of one. */
void samples_offer(NearName *near);
int no_such_target(const char *name);

#endif
