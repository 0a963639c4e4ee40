/* main.c: `sinter`, the command line: finds the subcommand's row and runs it. Subcommands and their options are rows of
 * commands.def. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "frontend/tool/tool.h"
#include "runtime/base/alloc.h"
#include "runtime/base/environment.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/base/text.h"
#include "runtime/core/state.h"
#include <sinter/base.h>

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

/* Log topics are read here too, where a wrong one ends the program; it is not said a second time. The settings of the
 * environment are read when a state is made, which not every command does by itself. */
static Status environment_apply(void) {
    const char *const topics = environment("SINTER_LOGS");
    if (topics && log_topics_set(topics) != ST_OK) unsetenv("SINTER_LOGS");
    state_get();
    return error_pending();
}

static int print_version(void) {
    printf("sinter %d.%d.%d\n", SN_VERSION >> 16, SN_VERSION >> 8 & 255, SN_VERSION & 255);
    return EXIT_done;
}

/* A full disk shows at the end, or in an earlier flush. */
static int end_output(int code) {
    errno = 0;
    const bool failed = fflush(stdout) != 0 || ferror(stdout);
    if (!failed) return code;
    error_raise(ST_IO, "the output cannot be written%s%s", errno ? ": " : "", errno ? strerror(errno) : "");
    return report_error(code == EXIT_done ? EXIT_environment : code);
}

static int run_command(int argc, char **argv) {
    const char *const name = argv[1];
    if (!strcmp(name, "--version")) return print_version();
    const bool helps = !strcmp(name, "--help") || !strcmp(name, "-h");
    const Command *const command = command_find(helps ? "help" : name);
    return command ? command->run(command, argc - 2, argv + 2) : unknown_command(name);
}

int main(int argc, char **argv) {
    if (environment_apply() != ST_OK) return report_error(EXIT_environment);
    if (argc < 2) {
        help_all(stderr);
        return EXIT_usage;
    }
    return end_output(run_command(argc, argv));
}
