/* tool.h: what the subcommands of `sinter` share. Data goes to stdout, everything else to stderr.
 *
 * Exit codes: 0 done; 1 the input was read and found wrong (it does not parse, verify, run or
 * compare equal); 2 wrong usage; 3 a file or the environment failed. */
#ifndef SINTER_TOOL_TOOL_H
#define SINTER_TOOL_TOOL_H
#include <stdio.h>

#include "runtime/base/near.h"
#include "runtime/base/text.h"

enum { EXIT_done, EXIT_wrong, EXIT_usage, EXIT_environment };

typedef struct Command {
    const char *name, *group, *names, *doc, *example;
    int (*run)(const struct Command *self, int argc, char **argv); /* argv[0]: the first argument after the name */
} Command;

typedef struct OptionRow {
    const char *of, *name, *value, *doc;
} OptionRow;

typedef struct VariableRow {
    const char *name, *value, *doc;
} VariableRow;

typedef struct NoteRow {
    const char *of, *title, *text; /* text: lines, each with its end */
} NoteRow;

extern const Command commands[]; /* these end with a NULL name */
extern const OptionRow option_rows[];
const Command *command_find(const char *name); /* NULL: there is none */
/* The next option that the command takes behind `after` (NULL: the first one); NULL: there are no more. Its own come
 * before those that it shares. */
const OptionRow *command_option(const Command *command, const OptionRow *after);

/* The next note on a command behind `after` (NULL: the first one); NULL: there are no more. */
const NoteRow *command_note(const Command *command, const NoteRow *after);

/* What `sinter help` prints, and `sinter COMMAND --help`. */
void help_all(FILE *to);
void help_command(FILE *to, const Command *command);
int help_man(void); /* all of it as a manual page */
/* `sinter help breaks`, or one row by its code: why ops do not run compiled. False: there is no such code. */
bool help_breaks(const char *code);
/* `sinter help settings`, or of one setting or variable of the environment. False: there is none of that name. */
bool help_settings(const char *name);
void help_settings_json(Text *text); /* "settings": [...], "environment": [...] */
/* The same two as JSON. */
bool help_breaks_json(Text *text, const char *code);
bool help_setting_json(Text *text, const char *name);
/* The variable of setting i, in `out`; its value at first; NULL: there are fewer. */
const char *help_setting_variable(int i, char *out, size_t capacity, const char **doc);
extern const VariableRow variable_rows[]; /* ends with a NULL name */
/* put_json.c. {"command": ..., KEY: text}: of a command whose data is a text. */
void put_json_text(const char *command, const char *key, const char *data);
void put_json_pair(Text *text, const char *before, const char *key, const char *value); /* before"key": "value" */

/* report.c. All of these print to stderr; those that give an exit code are for `return`. */
int usage_error(const Command *command, const char *problem, const char *what);
int unknown_command(const char *name);
int unknown_stage(const Command *command, const char *name); /* of --stage: lists those that there are */
/* The same with "; did you mean 'best'?" behind it where one is near. dashes: what stands before best. */
int usage_error_near(const Command *command, const char *problem, const char *what, const char *dashes,
                     const NearName *near);
/* That guess alone, or nothing. */
const char *did_you_mean(char *buffer, size_t size, const char *dashes, const NearName *near);
/* Prints the pending error as "sinter: message (op, where)", clears it, returns `code`. One of a text that
 * source_remember knows begins with the place, and shows the line:
 *
 *     f.sn:2:8: error: aten::mm: mat2 [4, 8] does not match self [4, 8]: 8 != 4
 *         2 |   %0 = aten::mm(%x, %w)
 *           |        ^~~~~~~~ */
int report_error(int code);
/* Errors of texts are those of this one from now on; it is copied. */
void source_remember(const char *path, const char *text);
/* Lines of a piece of that text are counted from its own start: so many stand before it. */
void source_skip(int lines);

/* A whole file ("-": stdin), malloc'd and NUL-terminated; raises ST_IO. */
Status input_read(const char *path, char **text, size_t *n);

#define COMMAND(name, group, names, doc, example) int command_##name(const Command *self, int argc, char **argv);
#define OPTION(of, name, value, doc)
#include "frontend/tool/commands.def"
#undef COMMAND
#undef OPTION
#endif
