/* arguments.c: see arguments.h. */
#include "frontend/tool/arguments.h"

#include <stdio.h>
#include <stdlib.h>

CommandLine arguments_begin(const Command *command, int argc, char **argv) {
    return (CommandLine){.command = command, .argc = argc, .argv = argv};
}

static bool end_with(CommandLine *a, int code) {
    a->ended = true;
    a->code = code;
    return false;
}

bool arguments_refuse(CommandLine *a, const char *problem) {
    return end_with(a, usage_error(a->command, problem, a->typed));
}

bool arguments_refuse_value(CommandLine *a, const char *problem) {
    return end_with(a, usage_error(a->command, problem, a->value));
}

/* Finding the row -------------------------------------------------------------------------------- */

static bool is_whole(const char *word, const char *text, size_t n) { return !strncmp(text, word, n) && !word[n]; }

static const OptionRow *find_row(const Command *command, const char *name, size_t n) {
    const OptionRow *row = NULL;
    while ((row = command_option(command, row)))
        if (is_whole(row->name, name, n)) return row;
    return NULL;
}

static bool refuse_unknown(CommandLine *a, const char *name, size_t n) {
    char given[NEAR_NAME];
    snprintf(given, sizeof given, "%.*s", (int)n, name);
    NearName near = near_begin(given);
    for (const OptionRow *row = NULL; (row = command_option(a->command, row));) near_offer(&near, row->name);
    return end_with(a, usage_error_near(a->command, "unknown option", a->typed, "--", &near));
}

/* Values ----------------------------------------------------------------------------------------- */

/* "verify|replay|eager" */
static bool has_words(const OptionRow *row) { return strchr(row->value, '|') != NULL; }

static bool find_word(CommandLine *a) {
    char word[NEAR_NAME], problem[256];
    NearName near = near_begin(a->value);
    int i = 0;
    for (const char *p = a->option->value; *p; p += *p == '|', i++) {
        const size_t n = strcspn(p, "|");
        snprintf(word, sizeof word, "%.*s", (int)n, p);
        if (!strcmp(word, a->value)) return a->word = i, true;
        near_offer(&near, word);
        p += n;
    }
    snprintf(problem, sizeof problem, "--%s wants one of %s, not", a->option->name, a->option->value);
    return end_with(a, usage_error_near(a->command, problem, a->value, "", &near));
}

/* --name=value or --name value */
static bool option_value(CommandLine *a, const char *equals) {
    const bool wants = a->option->value[0] != '\0';
    if (!wants && equals) return arguments_refuse(a, "an option that takes no value has one:");
    if (!wants) return true;
    if (!equals && a->at == a->argc) return arguments_refuse(a, "a value is missing after");
    a->value = equals ? equals + 1 : a->argv[a->at++];
    return !has_words(a->option) || find_word(a);
}

static bool find_option(CommandLine *a) {
    const char *const name = a->typed + 2, *const equals = strchr(name, '=');
    const size_t n = equals ? (size_t)(equals - name) : strlen(name);
    if (!strcmp(a->typed, "--help") || !strcmp(a->typed, "-h")) {
        help_command(stdout, a->command);
        return end_with(a, EXIT_done);
    }
    if (a->typed[1] == '-') a->option = find_row(a->command, name, n);
    if (!strcmp(a->typed, "-o")) a->option = find_row(a->command, "out", 3);
    return a->option ? option_value(a, equals) : refuse_unknown(a, name, n);
}

bool arguments_next(CommandLine *a) {
    if (a->ended || a->at == a->argc) return false;
    a->value = a->typed = a->argv[a->at++];
    a->option = NULL;
    if (a->only_names || a->typed[0] != '-' || !a->typed[1]) return true;
    a->value = NULL;
    if (strcmp(a->typed, "--")) return find_option(a);
    a->only_names = true;
    return arguments_next(a);
}

/* Taking ----------------------------------------------------------------------------------------- */

bool argument_is(const CommandLine *a, const char *name) { return a->option && !strcmp(a->option->name, name); }

bool argument_flag(const CommandLine *a, const char *name, bool *set) { return argument_is(a, name) && (*set = true); }

bool argument_text(const CommandLine *a, const char *name, const char **text) {
    return argument_is(a, name) && (*text = a->value) != NULL;
}

bool argument_word(const CommandLine *a, const char *name, int *word) {
    if (!argument_is(a, name)) return false;
    *word = a->word;
    return true;
}

static void refuse_range(CommandLine *a, double least, double most) {
    char problem[96];
    snprintf(problem, sizeof problem, "--%s wants %.10g to %.10g, not", a->option->name, least, most);
    end_with(a, usage_error(a->command, problem, a->value));
}

bool argument_int(CommandLine *a, const char *name, int least, int most, int *count) {
    char *end;
    if (!argument_is(a, name)) return false;
    const long read = strtol(a->value, &end, 10);
    if (a->value[0] < '0' || a->value[0] > '9' || *end || read < least || read > most)
        refuse_range(a, least, most);
    else
        *count = (int)read;
    return true;
}

bool argument_float(CommandLine *a, const char *name, double least, double most, double *number) {
    char *end;
    if (!argument_is(a, name)) return false;
    const double read = strtod(a->value, &end);
    if (end == a->value || *end || !(read >= least && read <= most))
        refuse_range(a, least, most);
    else
        *number = read;
    return true;
}

bool argument_name(const CommandLine *a, const char **text) {
    if (a->option || *text) return false;
    *text = a->value;
    return true;
}
