/* arguments.h: one command line, argument by argument. An option has a row of commands.def, its value is there and one
 * of the row's words; what is wrong is printed, and ends it. --help prints the command's and ends it, too.
 *
 *     CommandLine a = arguments_begin(self, argc, argv);
 *     while (arguments_next(&a))
 *         if (!(argument_flag(&a, "json", &json) || argument_int(&a, "limit", 0, 99, &most) ||
 *               argument_name(&a, &path)))
 *             arguments_refuse(&a, "unexpected");
 *     if (a.ended) return a.code; */
#ifndef SINTER_TOOL_ARGUMENTS_H
#define SINTER_TOOL_ARGUMENTS_H
#include "frontend/tool/tool.h"

typedef struct CommandLine {
    const Command *command;
    int argc;
    char **argv;
    int at;                  /* of the next one */
    const char *typed;       /* this one, as it was given */
    const OptionRow *option; /* of this one; NULL: a name */
    const char *value;       /* the option's, NULL where it has none; or the name */
    int word;                /* which of the option's words it is */
    bool only_names;         /* after "--" */
    bool ended;              /* before the last one; `code` says how */
    int code;
} CommandLine;

CommandLine arguments_begin(const Command *command, int argc, char **argv);
/* False: there are no more, or it has ended. */
bool arguments_next(CommandLine *a);
/* Wrong usage by this argument, or by its value, in whose quotes the sentence of `problem` ends: ends it; false. */
bool arguments_refuse(CommandLine *a, const char *problem);
bool arguments_refuse_value(CommandLine *a, const char *problem);

/* True: this argument is that option, and its value was stored or refused. */
bool argument_is(const CommandLine *a, const char *name);
bool argument_flag(const CommandLine *a, const char *name, bool *set);
bool argument_text(const CommandLine *a, const char *name, const char **text);
bool argument_word(const CommandLine *a, const char *name, int *word);
bool argument_int(CommandLine *a, const char *name, int least, int most, int *count);
/* 1e9 is a number; it lies in least..most. */
bool argument_float(CommandLine *a, const char *name, double least, double most, double *number);
/* The first name goes to *text, which is NULL before; a second is not taken. */
bool argument_name(const CommandLine *a, const char **text);

#endif
