/* main.c: `sinter`, the command line: finds the subcommand's row and runs it. Subcommands are rows
 * of commands.def. */
#include "frontend/tool/tool.h"

#include <stdio.h>
#include <stdlib.h>

#include "runtime/base/alloc.h"
#include "ir/stage.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/base/text.h"
#include "runtime/core/state.h"

static const Command commands[] = {
#define COMMAND(name, arguments, doc) {#name, arguments, doc, command_##name},
#include "frontend/tool/commands.def"
#undef COMMAND
};

static void print_usage(FILE *to) {
    fputs("usage: sinter COMMAND ...\n", to);
    for (int i = 0; i < COUNT_OF(commands); i++)
        fprintf(to, "  %-8s %s\n           %s\n", commands[i].name, commands[i].arguments, commands[i].doc);
    fputs("exit codes: 0 done, 1 wrong input or result, 2 wrong usage, 3 file or environment\n", to);
}

const char *option_value(const char *argument, const char *name) {
    const size_t n = strlen(name);
    return !strncmp(argument, name, n) && argument[n] == '=' ? argument + n + 1 : NULL;
}

bool count_read(const char *text, int most, int *value) {
    char *end;
    const long read = strtol(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || read > most) return false;
    *value = (int)read;
    return true;
}

int usage_error(const Command *command, const char *problem, const char *what) {
    fprintf(stderr, "sinter %s: %s '%s'\nusage: sinter %s %s\n", command->name, problem, what, command->name,
            command->arguments);
    return EXIT_usage;
}

int unknown_stage(const Command *command, const char *name) {
    fprintf(stderr, "sinter %s: unknown stage '%s'; stages:", command->name, name);
    for (int i = 0; i < DUMP_COUNT; i++) fprintf(stderr, "%s %s", i ? "," : "", dump_row(i)->name);
    fputc('\n', stderr);
    return EXIT_usage;
}

/* Of a graph from text or a library it is a place of the user's. */
static bool is_own_place(const char *site) {
    extern const char __executable_start[], etext[]; /* the linker's */
    return site >= __executable_start && site < etext;
}

int report_error(int code) {
    const bool own = is_own_place(error_slot()->site);
    const sn_error *const error = sn_error_take();
    const bool where = error->where[0] && !own;
    char op[128];
    fprintf(stderr, "sinter: %s error: %s%s%s%s\n", status_name((Status)error->status), error->message,
            error_op_suffix(error->message, error->op, op, sizeof op), where ? " at " : "", where ? error->where : "");
    return code;
}

Status input_read(const char *path, char **text, size_t *n) {
    FILE *const file = strcmp(path, "-") ? fopen(path, "rb") : stdin;
    if (!file) return error_raise(ST_IO, "cannot open '%s'", path);
    Text all = {0};
    char part[4096];
    for (size_t got; (got = fread(part, 1, sizeof part, file)) > 0;) text_put(&all, part, got);
    const bool failed = ferror(file) != 0;
    if (file != stdin) fclose(file);
    if (failed || error_pending() != ST_OK) {
        text_free(&all);
        return error_raise(ST_IO, "cannot read '%s'", path);
    }
    *n = all.n;
    *text = all.at ? all.at : mem_zero(1);
    return *text ? ST_OK : error_pending();
}

/* Log topics are read here too, where a wrong one ends the program. The settings of the environment are read when a
 * state is made, which not every command does by itself. */
static Status environment_apply(void) {
    const char *const topics = getenv("SINTER_LOGS");
    if (topics) TRY(log_topics_set(topics));
    state_get();
    return error_pending();
}

int main(int argc, char **argv) {
    if (environment_apply() != ST_OK) return report_error(EXIT_environment);
    if (argc < 2) {
        print_usage(stderr);
        return EXIT_usage;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "help")) {
        print_usage(stdout);
        return EXIT_done;
    }
    for (int i = 0; i < COUNT_OF(commands); i++)
        if (!strcmp(commands[i].name, argv[1])) return commands[i].run(&commands[i], argc - 2, argv + 2);
    fprintf(stderr, "sinter: '%s' is no command\n", argv[1]);
    print_usage(stderr);
    return EXIT_usage;
}
