/* help.c: `sinter help`, and --help of every command: the rows of commands.def as text. */
#include <stdio.h>

#include "frontend/tool/arguments.h"
#include "frontend/tool/colour.h"

const Command commands[] = {
#define COMMAND(name, group, names, doc, example) {#name, group, names, doc, example, command_##name},
#define OPTION(of, name, value, doc)
#include "frontend/tool/commands.def"
#undef COMMAND
#undef OPTION
    {.name = NULL}};

const OptionRow option_rows[] = {
#define COMMAND(name, group, names, doc, example)
#define OPTION(of, name, value, doc) {#of, name, value, doc},
#include "frontend/tool/commands.def"
#undef COMMAND
#undef OPTION
    {.name = NULL}};

static const NoteRow record_rows[] = {
#define NOTE(of, title, text) {#of, title, text},
#include "frontend/tool/notes.def"
#undef NOTE
    {.of = NULL}};

const Command *command_find(const char *name) {
    const Command *c = commands;
    while (c->name && strcmp(c->name, name)) c++;
    return c->name ? c : NULL;
}

/* Those of `of` behind `after`, which may be of another one. */
static const OptionRow *next_of(const char *of, const OptionRow *after) {
    const OptionRow *row = after && !strcmp(after->of, of) ? after + 1 : option_rows;
    while (row->name && strcmp(row->of, of)) row++;
    return row->name ? row : NULL;
}

const OptionRow *command_option(const Command *command, const OptionRow *after) {
    const bool shared = after && strcmp(after->of, command->name);
    const OptionRow *const own = shared ? NULL : next_of(command->name, after);
    return own || !*command->group ? own : next_of(command->group, shared ? after : NULL);
}

const NoteRow *command_note(const Command *command, const NoteRow *after) {
    const NoteRow *row = after ? after + 1 : record_rows;
    while (row->of && strcmp(row->of, command->name)) row++;
    return row->of ? row : NULL;
}

static void print_heading(FILE *to, const char *word) {
    fprintf(to, "%s%s:%s", colour_begin(to, COLOUR_heading), word, colour_end(to));
}

void help_all(FILE *to) {
    print_heading(to, "usage");
    fputs(" sinter COMMAND ...\n\n", to);
    print_heading(to, "commands");
    fputc('\n', to);
    for (const Command *c = commands; c->name; c++) fprintf(to, "  %-8s %s\n", c->name, c->doc);
    fputs("\n`sinter help COMMAND` or `sinter COMMAND --help`: its options and an example; `sinter --version`.\n"
          "`sinter help breaks`: why ops do not run compiled, and what to do; `sinter help SB101`: one reason.\n"
          "`sinter help settings`: what the library is set by; `sinter help cache_dir`: one of them.\n"
          "A TARGET is a sample's name, a text graph (f.sn, or - for stdin), library.so:symbol or a saved plan.\n"
          "exit codes: 0 done, 1 wrong input or result, 2 wrong usage, 3 file or environment\n",
          to);
}

/* Each line of a text, indented as the rows of options are. */
static void print_lines(FILE *to, const char *text) {
    for (const char *end; (end = strchr(text, '\n')); text = end + 1) fprintf(to, "  %.*s\n", (int)(end - text), text);
}

static void print_row(FILE *to, const char *name, const char *value, const char *doc) {
    enum { COLUMN = 24 };
    char left[96];
    snprintf(left, sizeof left, "  --%s%s%s", name, *value ? "=" : "", value);
    fprintf(to, "%-*s", COLUMN, left);
    if (strlen(left) >= COLUMN) fprintf(to, "\n%*s", COLUMN, "");
    fprintf(to, " %s\n", doc);
}

void help_command(FILE *to, const Command *command) {
    print_heading(to, "usage");
    fprintf(to, " sinter %s%s%s%s\n\n%s\n\n", command->name, *command->names ? " " : "", command->names,
            command_option(command, NULL) ? " [OPTION...]" : "", command->doc);
    print_heading(to, "options");
    fputc('\n', to);
    const OptionRow *row = NULL;
    while ((row = command_option(command, row))) print_row(to, row->name, row->value, row->doc);
    print_row(to, "help", "", "print this");
    fputc('\n', to);
    for (const NoteRow *note = NULL; (note = command_note(command, note)); fputc('\n', to)) {
        print_heading(to, note->title);
        fputc('\n', to);
        print_lines(to, note->text);
    }
    print_heading(to, "example");
    fprintf(to, "\n  %s\n", command->example);
}

/* As JSON --------------------------------------------------------------------------------------- */

static void put_command(Text *text, const Command *command) {
    put_json_pair(text, "{", "name", command->name);
    put_json_pair(text, ", ", "takes", command->names);
    put_json_pair(text, ", ", "doc", command->doc);
    put_json_pair(text, ", ", "example", command->example);
    text_puts(text, ", \"options\": [");
    const char *before = "{";
    for (const OptionRow *row = NULL; (row = command_option(command, row)); before = ",\n{") {
        put_json_pair(text, before, "name", row->name);
        put_json_pair(text, ", ", "value", row->value);
        put_json_pair(text, ", ", "doc", row->doc);
        text_puts(text, "}");
    }
    text_puts(text, "]}");
}

/* command NULL: all, with settings and variables. */
static int help_json(const Command *command) {
    Text text = {0};
    if (command) {
        put_command(&text, command);
    } else {
        text_puts(&text, "{\"commands\": [");
        for (const Command *c = commands; c->name; c++)
            text_puts(&text, c == commands ? "" : ",\n"), put_command(&text, c);
        text_puts(&text, "],\n");
        help_settings_json(&text);
        text_puts(&text, "}");
    }
    puts(text_str(&text));
    text_free(&text);
    return EXIT_done;
}

/* What is no command: settings, breaks, one of them. */
static int topic_json(const char *name) {
    Text text = {0};
    const bool known = help_breaks_json(&text, name) || help_setting_json(&text, name);
    if (known) puts(text_str(&text));
    text_free(&text);
    return known ? EXIT_done : unknown_command(name);
}

int command_help(const Command *self, int argc, char **argv) {
    const char *name = NULL;
    bool man = false, json = false;
    CommandLine a = arguments_begin(self, argc, argv);
    while (arguments_next(&a))
        if (!(argument_flag(&a, "man", &man) || argument_flag(&a, "json", &json) || argument_name(&a, &name)))
            arguments_refuse(&a, "unexpected");
    if (a.ended) return a.code;
    if (man) return name ? usage_error(self, "the page is of all commands, not of", name) : help_man();
    const Command *const command = name ? command_find(name) : NULL;
    if (json && (!name || command)) return help_json(command);
    if (json) return topic_json(name);
    if (name && !command && (help_breaks(name) || help_settings(name))) return EXIT_done;
    if (name && !command) return unknown_command(name);
    if (command)
        help_command(stdout, command);
    else
        help_all(stdout);
    return EXIT_done;
}
