/* opt.c: `sinter opt`: parse a text graph, verify it, run passes with the verifier between them,
 * print the result. The golden tests are made of this. --stage says what the file is verified as
 * (capture: anything goes). */
#include <stdio.h>
#include <stdlib.h>

#include "frontend/tool/tool.h"
#include "passes/passes.h"
#include "runtime/base/alloc.h"
#include "runtime/base/error.h"

typedef struct OptRun {
    const char *path, *passes, *skip, *stage;
    int limit;
    bool trace;
} OptRun;

static const char *const stages[] = {"capture", "functional", "joint", "decomposed"};

static int stage_find(const char *name) {
    for (int i = 0; i < COUNT_OF(stages); i++)
        if (!strcmp(stages[i], name)) return i;
    return -1;
}

static void print_graph(FILE *to, Graph *graph) {
    Text text = {0};
    graph_print(graph, &text);
    fputs(text_str(&text), to);
    text_free(&text);
}

static void trace_pass(void *context, const PassRow *pass, Graph *graph, int64_t ns) {
    fprintf(context, "; after %s (%.3f ms)\n", pass->name, (double)ns * 1e-6);
    print_graph(context, graph);
}

static Status run(Arena *arena, const OptRun *run, const char *text, size_t n) {
    Graph *graph;
    TRY(graph_parse(arena, text, n, &graph));
    TRY(graph_verify(graph, (Stage)stage_find(run->stage)));
    const PassOptions options = {.verify = true,
                                 .skip = run->skip,
                                 .limit = run->limit,
                                 .trace = run->trace ? trace_pass : NULL,
                                 .trace_context = stderr};
    TRY(passes_run(graph, run->passes, &options));
    print_graph(stdout, graph);
    return ST_OK;
}

static int run_file(const OptRun *opt) {
    char *text = NULL;
    size_t n = 0;
    if (file_read(opt->path, &text, &n) != ST_OK) return report_error(EXIT_environment);
    Arena *const arena = arena_new();
    const Status status = arena ? run(arena, opt, text, n) : ST_MEMORY;
    arena_free(arena);
    mem_free(text);
    return status == ST_OK ? EXIT_done
                           : report_error(status == ST_MEMORY ? EXIT_environment : EXIT_wrong);
}

/* One argument into the run; false: unknown. */
static bool take(OptRun *opt, const char *argument) {
    const char *value;
    if ((value = option_value(argument, "--passes")))
        opt->passes = value;
    else if ((value = option_value(argument, "--skip")))
        opt->skip = value;
    else if ((value = option_value(argument, "--stage")))
        opt->stage = value;
    else if ((value = option_value(argument, "--limit")))
        opt->limit = atoi(value);
    else if (!strcmp(argument, "--trace"))
        opt->trace = true;
    else if ((argument[0] != '-' || !argument[1]) && !opt->path)
        opt->path = argument;
    else
        return false;
    return true;
}

int command_opt(const Command *self, int argc, char **argv) {
    OptRun opt = {.passes = "", .stage = "capture"};
    for (int i = 0; i < argc; i++)
        if (!take(&opt, argv[i])) return usage_error(self, "unexpected argument", argv[i]);
    if (!opt.path) return usage_error(self, "no file given after", "opt");
    if (stage_find(opt.stage) < 0) return usage_error(self, "unknown stage", opt.stage);
    return run_file(&opt);
}
