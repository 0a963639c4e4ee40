/* report.c: how the tool says what is wrong: with its usage, or with an input (tool.h). */
#include <stdio.h>
#include <stdlib.h>

#include "frontend/tool/colour.h"
#include "frontend/tool/tool.h"
#include "ir/stage.h"
#include "runtime/base/alloc.h"
#include "runtime/base/error.h"
#include "runtime/base/text_reader.h"
#include <sinter/base.h>

/* Usage ------------------------------------------------------------------------------------------ */

const char *did_you_mean(char *buffer, size_t size, const char *dashes, const NearName *near) {
    buffer[0] = '\0';
    if (near->best[0]) snprintf(buffer, size, "; did you mean '%s%s'?", dashes, near->best);
    return buffer;
}

/* "sinter opt:", as what begins an error. */
static void print_who(const char *command) {
    fprintf(stderr, "%ssinter%s%s:%s", colour_begin(stderr, COLOUR_error), command ? " " : "", command ? command : "",
            colour_end(stderr));
}

int usage_error_near(const Command *command, const char *problem, const char *what, const char *dashes,
                     const NearName *near) {
    char guess[128];
    print_who(command->name);
    fprintf(stderr, " %s '%s'%s\n", problem, what, did_you_mean(guess, sizeof guess, dashes, near));
    fprintf(stderr, "usage: sinter %s%s%s%s; sinter %s --help lists all\n", command->name, *command->names ? " " : "",
            command->names, command_option(command, NULL) ? " [OPTION...]" : "", command->name);
    return EXIT_usage;
}

int usage_error(const Command *command, const char *problem, const char *what) {
    return usage_error_near(command, problem, what, "", &(NearName){.given = what});
}

int unknown_command(const char *name) {
    char guess[128];
    NearName near = near_begin(name);
    for (const Command *c = commands; c->name; c++) near_offer(&near, c->name);
    print_who(NULL);
    fprintf(stderr, " '%s' is no command%s\nusage: sinter COMMAND ...; sinter --help lists all\n", name,
            did_you_mean(guess, sizeof guess, "", &near));
    return EXIT_usage;
}

int unknown_stage(const Command *command, const char *name) {
    char guess[128];
    NearName near = near_begin(name);
    for (int i = 0; i < DUMP_COUNT; i++) near_offer(&near, dump_row(i)->name);
    print_who(command->name);
    fprintf(stderr, " unknown stage '%s'%s; stages:", name, did_you_mean(guess, sizeof guess, "", &near));
    for (int i = 0; i < DUMP_COUNT; i++) fprintf(stderr, "%s %s", i ? "," : "", dump_row(i)->name);
    fputc('\n', stderr);
    return EXIT_usage;
}

/* Texts ------------------------------------------------------------------------------------------ */

static struct {
    const char *path;
    char *text;
    int skipped; /* lines before the piece that is read */
} source;

void source_remember(const char *path, const char *text) {
    mem_free(source.text);
    source.path = strcmp(path, "-") ? path : "<stdin>";
    source.text = mem_strdup(text);
    source.skipped = 0;
}

void source_skip(int lines) { source.skipped = lines; }

/* The start of a line, from 1, or NULL. */
static const char *line_at(int line) {
    const char *at = source.text;
    while (--line > 0 && at) at = (at = strchr(at, '\n')) ? at + 1 : NULL;
    return at;
}

/* "f:2" is line 2 of the text where it has a graph f. */
static bool is_line_of_source(const char *where, int *line) {
    char head[128];
    const char *const colon = strrchr(where, ':');
    if (!source.text || !colon || !colon[1] || colon[1 + strspn(colon + 1, "0123456789")]) return false;
    snprintf(head, sizeof head, "graph %.*s", (int)(colon - where), where);
    *line = atoi(colon + 1);
    const char *const found = strstr(source.text, head);
    return found && !is_word_char(found[strlen(head)]);
}

/* Of an error while the graph runs only the line is known: where its op begins. */
static int op_column(const char *line) {
    const size_t n = strcspn(line, "\n"), equals = strcspn(line, "=\n");
    const size_t start = equals < n && memchr(line, '(', n) > (const void *)(line + equals) ? equals + 1 : 0;
    return 1 + (int)(start + strspn(line + start, " \t"));
}

/* What a terminal would obey is shown as a question mark. */
static void print_shown(const char *text, size_t n) {
    for (size_t i = 0; i < n; i++) fputc((unsigned char)text[i] < ' ' && text[i] != '\t' ? '?' : text[i], stderr);
}

/* The line, and below it a caret under the place and its word. Tabs stay, so that both are as wide. */
static void print_line(int line, int column) {
    enum { MOST_SHOWN = 400 };
    const char *const text = line_at(line);
    const size_t n = text ? strcspn(text, "\r\n") : 0;
    if (!text || column > MOST_SHOWN) return;
    fprintf(stderr, "%5d | ", line);
    print_shown(text, n < MOST_SHOWN ? n : MOST_SHOWN);
    fputs("\n      | ", stderr);
    for (int i = 0; i < column - 1; i++) fputc(text[i] == '\t' ? '\t' : ' ', stderr);
    fprintf(stderr, "%s^", colour_begin(stderr, COLOUR_caret));
    for (const char *c = text + column - 1; *c && (is_word_char(c[1]) || c[1] == ':' || c[1] == '.'); c++)
        if (is_word_char(c[0]) || c[0] == ':' || c[0] == '.' || c[0] == '%') fputc('~', stderr);
    fprintf(stderr, "%s\n", colour_end(stderr));
}

static void print_at(TextPosition place, const char *message) {
    const int line = place.line + source.skipped;
    const char *const end = colour_end(stderr);
    fprintf(stderr, "%s%s:%d:%d:%s %serror:%s %s\n", colour_begin(stderr, COLOUR_heading), source.path, line,
            place.column, end, colour_begin(stderr, COLOUR_error), end, message);
    print_line(line, place.column);
}

/* Errors ----------------------------------------------------------------------------------------- */

/* Of a graph from text or a library it is a place of the user's. */
static bool is_own_place(const char *site) {
    extern const char __executable_start[], etext[]; /* the linker's */
    return site >= __executable_start && site < etext;
}

int report_error(int code) {
    const bool own = is_own_place(error_slot()->site);
    TextPosition place = error_slot()->place;
    const int lead = error_slot()->lead;
    const sn_error *const error = sn_error_take();
    const bool where = error->where[0] && !own;
    if (source.text && place.line) {
        print_at(place, error->message + lead);
        return code;
    }
    if (where && is_line_of_source(error->where, &place.line)) {
        const char *const text = line_at(place.line);
        place.column = text ? op_column(text) : 1;
        print_at(place, error->message);
        return code;
    }
    char op[128];
    print_who(NULL);
    fprintf(stderr, " %s error: %s%s%s%s\n", status_name((Status)error->status), error->message,
            error_op_suffix(error->message, error->op, op, sizeof op), where ? " at " : "", where ? error->where : "");
    return code;
}
