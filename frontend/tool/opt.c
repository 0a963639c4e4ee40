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
    const char *path, *passes, *skip, *stage, *limit, *joint, *then;
    bool trace, partition;
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

/* Whether `name` is an item of a comma list. */
static bool listed(const char *list, const char *name) {
    const size_t n = strlen(name);
    for (const char *p = list; *p;) {
        const size_t length = strcspn(p, ",");
        if (length == n && !memcmp(p, name, n)) return true;
        p += length + (p[length] == ',');
    }
    return false;
}

static Graph *add_gradients(Graph *graph, const char *wanted) {
    bool *const want = ARENA_ARRAY(graph->arena, bool, graph->inputs.n + 1);
    bool *const defined = ARENA_ARRAY(graph->arena, bool, graph->outputs.n + 1);
    if (!want || !defined) return NULL;
    for (int i = 0; i < graph->inputs.n; i++) want[i] = listed(wanted, graph->inputs.at[i]->name);
    for (int i = 0; i < graph->outputs.n; i++)
        defined[i] = graph->outputs.at[i].value &&
                     dtype_is_float(graph->outputs.at[i].value->base.meta->dtype);
    const JointSpec spec = {.want = want, .grad_defined = defined};
    return joint_build(graph, &spec);
}

static Status print_parts(Graph *joint) {
    const Partition *const parts = partition_build(joint, joint->n_forward_outputs);
    if (!parts) return error_pending();
    TRY(graph_verify(parts->forward, STAGE_joint));
    TRY(graph_verify(parts->backward, STAGE_joint));
    print_graph(stdout, parts->forward);
    print_graph(stdout, parts->backward);
    int64_t bytes = 0;
    for (int i = 0; i < parts->n_saved; i++) {
        const Meta *const meta = parts->backward->inputs.at[i]->base.meta;
        bytes += sym_hint(joint->env, meta->numel) * dtype_bytes(meta->dtype);
    }
    printf("# saved: %d values, %lld bytes\n", parts->n_saved, (long long)bytes);
    return ST_OK;
}

static Status run(Arena *arena, const OptRun *opt, const char *text, size_t n) {
    Graph *graph;
    TRY(graph_parse(arena, text, n, &graph));
    TRY(graph_verify(graph, (Stage)stage_find(opt->stage)));
    const PassOptions options = {.verify = true,
                                 .skip = opt->skip,
                                 .limit = atoi(opt->limit),
                                 .trace = opt->trace ? trace_pass : NULL,
                                 .trace_context = stderr};
    TRY(passes_run(graph, opt->passes, &options));
    if (opt->joint && !(graph = add_gradients(graph, opt->joint))) return error_pending();
    TRY(passes_run(graph, opt->then, &options));
    if (opt->partition) return print_parts(graph);
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
    const struct {
        const char *name, **value;
    } texts[] = {{"--passes", &opt->passes}, {"--skip", &opt->skip},   {"--stage", &opt->stage},
                 {"--limit", &opt->limit},   {"--joint", &opt->joint}, {"--then", &opt->then}};
    for (int i = 0; i < COUNT_OF(texts); i++) {
        const char *const value = option_value(argument, texts[i].name);
        if (value) *texts[i].value = value;
        if (value) return true;
    }
    const bool is_path = (argument[0] != '-' || !argument[1]) && !opt->path;
    if (is_path) opt->path = argument;
    opt->trace |= !strcmp(argument, "--trace");
    opt->partition |= !strcmp(argument, "--partition");
    return is_path || !strcmp(argument, "--trace") || !strcmp(argument, "--partition");
}

int command_opt(const Command *self, int argc, char **argv) {
    OptRun opt = {.passes = "", .then = "", .limit = "0", .stage = "capture"};
    for (int i = 0; i < argc; i++)
        if (!take(&opt, argv[i])) return usage_error(self, "unexpected argument", argv[i]);
    if (!opt.path) return usage_error(self, "no file given after", "opt");
    if (opt.partition && !opt.joint)
        return usage_error(self, "only a joint graph has parts", "--partition");
    if (stage_find(opt.stage) < 0) return usage_error(self, "unknown stage", opt.stage);
    return run_file(&opt);
}
