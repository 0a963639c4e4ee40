/* completion.c: what the rows of commands.def are to a shell and to man: `sinter completion bash`, `sinter help --man`.
 *
 *     source <(sinter completion bash)
 *
 * In bash a word ends at "=", so that an option's value is a word of its own, two behind the option's. */
#include <stdio.h>
#include <stdlib.h>

#include "frontend/tool/arguments.h"
#include "runtime/base/error.h"
#include <sinter/base.h>

/* bash ---------------------------------------------------------------------------------------- */

static void print_commands(FILE *to) {
    for (const Command *c = commands; c->name; c++) fprintf(to, "%s%s", c == commands ? "" : " ", c->name);
}

/* "a|b" as "a b" */
static void print_words(FILE *to, const char *value) {
    for (; *value; value++) fputc(*value == '|' ? ' ' : *value, to);
}

static void print_cases(FILE *to, const Command *c) {
    const OptionRow *row = NULL;
    while ((row = command_option(c, row)))
        if (strchr(row->value, '|')) {
            fprintf(to, "    '%s --%s') words='", c->name, row->name);
            print_words(to, row->value);
            fputs("' ;;\n", to);
        }
    fprintf(to, "    '%s ') words='--help", c->name);
    while ((row = command_option(c, row))) fprintf(to, " --%s%s", row->name, *row->value ? "=" : "");
    if (!strcmp(c->names, "[COMMAND]")) fputc(' ', to), print_commands(to);
    fputs("' ;;\n", to);
}

static void print_bash(FILE *to) {
    fputs("# Completion of sinter for bash: source <(sinter completion bash)\n"
          "_sinter() {\n"
          "    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} words= option=\n"
          "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
          "        COMPREPLY=($(compgen -W '",
          to);
    print_commands(to);
    fputs(" --help --version' -- \"$current\"))\n"
          "        return\n"
          "    fi\n"
          "    [ \"$before\" = '=' ] && option=${COMP_WORDS[COMP_CWORD - 2]}\n"
          "    [ \"$current\" = '=' ] && option=$before current=\n"
          "    case \"${COMP_WORDS[1]} $option\" in\n",
          to);
    for (const Command *c = commands; c->name; c++) print_cases(to, c);
    fputs("    esac\n"
          "    COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
          "    [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null\n"
          "    return 0\n"
          "}\n"
          "complete -o default -F _sinter sinter\n",
          to);
}

static int print_bash_json(void) {
    char *text = NULL;
    size_t n;
    FILE *const to = open_memstream(&text, &n);
    if (!to) {
        error_raise(ST_MEMORY, "out of memory");
        return report_error(EXIT_environment);
    }
    print_bash(to);
    fclose(to);
    put_json_text("completion", "bash", text);
    free(text);
    return EXIT_done;
}

int command_completion(const Command *self, int argc, char **argv) {
    const char *shell = NULL;
    bool json = false;
    CommandLine a = arguments_begin(self, argc, argv);
    while (arguments_next(&a))
        if (!(argument_flag(&a, "json", &json) || argument_name(&a, &shell))) arguments_refuse(&a, "unexpected");
    if (a.ended) return a.code;
    if (!shell) return usage_error(self, "a shell is missing after", self->name);
    if (strcmp(shell, "bash")) return usage_error(self, "the shell is bash, not", shell);
    if (json) return print_bash_json();
    print_bash(stdout);
    return EXIT_done;
}

/* man ----------------------------------------------------------------------------------------- */

/* In roff a backslash and a hyphen that is no dash are escaped, and what begins a line with a dot or a quote. */
static void print_roff(const char *text) {
    if (*text == '.' || *text == '\'') fputs("\\&", stdout);
    for (; *text; text++) {
        if (*text == '-' || *text == '\\') putchar('\\');
        putchar(*text == '\\' ? 'e' : *text);
    }
}

/* An option or a variable: dashes is what stands before its name. */
static void print_term(const char *dashes, const char *name, const char *value, const char *doc) {
    fputs(".TP\n\\fB", stdout);
    print_roff(dashes);
    print_roff(name);
    fputs("\\fR", stdout);
    if (*value) putchar('='), print_roff(value);
    putchar('\n');
    print_roff(doc);
    putchar('\n');
}

static void print_note(const NoteRow *note) {
    fputs(".PP\n\\fB", stdout);
    print_roff(note->title);
    fputs("\\fR\n", stdout);
    print_roff(note->text);
}

static void print_command(const Command *c) {
    printf(".SS sinter %s ", c->name);
    print_roff(c->names);
    putchar('\n');
    print_roff(c->doc);
    fputs(":\n.PP\n.RS\n.nf\n", stdout);
    print_roff(c->example);
    fputs("\n.fi\n.RE\n", stdout);
    const OptionRow *row = NULL;
    while ((row = command_option(c, row))) print_term("--", row->name, row->value, row->doc);
    for (const NoteRow *note = NULL; (note = command_note(c, note));) print_note(note);
}

static void print_environment(void) {
    char name[64];
    const char *value, *doc;
    puts(".SH ENVIRONMENT\nSettings, each with its value at first; sn_setting_set changes one for an sn_state.");
    for (int i = 0; (value = help_setting_variable(i, name, sizeof name, &doc)); i++) print_term("", name, value, doc);
    puts(".PP\nBeside them:");
    for (const VariableRow *row = variable_rows; row->name; row++) print_term("", row->name, row->value, row->doc);
}

int help_man(void) {
    printf(".TH SINTER 1 \"\" \"sinter %d.%d.%d\"\n.SH NAME\nsinter \\- a JIT graph compiler with eager fallback\n"
           ".SH SYNOPSIS\n\\fBsinter\\fR \\fICOMMAND\\fR [\\fIARGUMENT\\fR...]\n.SH COMMANDS\n",
           SN_VERSION >> 16, SN_VERSION >> 8 & 255, SN_VERSION & 255);
    for (const Command *c = commands; c->name; c++) print_command(c);
    print_environment();
    puts(".SH EXIT STATUS\n0: done. 1: wrong input or result. 2: wrong usage. 3: a file or the environment failed.");
    return EXIT_done;
}
