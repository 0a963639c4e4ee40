/* tool.h: what the subcommands of `sinter` share. Data goes to stdout, everything else to stderr.
 *
 * Exit codes: 0 done; 1 the input was read and found wrong (it does not parse, verify, run or
 * compare equal); 2 wrong usage; 3 a file or the environment failed. */
#ifndef SINTER_TOOL_TOOL_H
#define SINTER_TOOL_TOOL_H
#include "runtime/base/base.h"

enum { EXIT_done, EXIT_wrong, EXIT_usage, EXIT_environment };

typedef struct Command {
    const char *name, *arguments, *doc;
    int (*run)(const struct Command *self, int argc, char **argv); /* argv[0]: the first argument after the name */
} Command;

/* "--passes=a,b" gives "a,b"; NULL where `argument` is another option. */
const char *option_value(const char *argument, const char *name);
/* A whole number in 0..most and nothing else. */
bool count_read(const char *text, int most, int *value);
int usage_error(const Command *command, const char *problem, const char *what);
int unknown_stage(const Command *command, const char *name); /* of --stage: lists those that there are */
/* Prints the pending error as "sinter: message (op, where)", clears it, returns `code`. */
int report_error(int code);
/* A whole file ("-": stdin), malloc'd and NUL-terminated; raises ST_IO. */
Status input_read(const char *path, char **text, size_t *n);

#define COMMAND(name, arguments, doc) int command_##name(const Command *self, int argc, char **argv);
#include "frontend/tool/commands.def"
#undef COMMAND
#endif
