/* opt.c: `sinter opt`: parse a text graph, verify it, run passes with the verifier between them, print the result. The
 * golden tests are made of this. --stage says what the file is verified as (capture: anything goes), or that it holds
 * another of dump's texts: loops, memory, shapes, guards, which are parsed, checked and printed again. --machine says
 * on which machine shapes are decided: of a plan that the passes end in, which is then printed as that stage, or anew
 * for those of a text. --library opens a user's library first, whose constructors register the ops that the text has,
 * or a sample, whose work does.
 *
 * --times runs everything RUNS times, each from a fresh parse, and prints the median processor time of each pass
 * instead.
 *
 * A file is one text, or several under the head lines that `sinter dump` writes ("# graph 1",
 * "# backward"): each is taken by itself, and the head lines stay. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "codegen/cuda/plan_mappings.h"
#include "frontend/tool/arguments.h"
#include "frontend/tool/target.h"
#include "passes/passes.h"
#include "runtime/base/alloc.h"
#include "runtime/base/error.h"
#include "runtime/compile/compile.h"
#include "runtime/capture/variant/guards_text.h"

typedef struct OptRun {
    const char *path, *passes, *skip, *stage, *joint, *then, *library, *on;
    int most;               /* passes; 0: all */
    DumpId dump;            /* of the name `stage` */
    const Machine *machine; /* of the name `on`; NULL: none was given */
    bool trace, times, json;
    FILE *to; /* stdout, or what --json puts into its object */
} OptRun;

typedef Status Reprint(const OptRun *opt, const char *text, const char **end, Text *out);

static Status reprint_plan(const OptRun *opt, const char *text, const char **end, Text *out) {
    return plan_reprint(text, end, out);
}

static Status reprint_shapes(const OptRun *opt, const char *text, const char **end, Text *out) {
    return mappings_reprint(text, end, opt->machine, out);
}

static Status reprint_guards(const OptRun *opt, const char *text, const char **end, Text *out) {
    return guards_reprint(text, end, out);
}

/* By dump: how its text is read; NULL: as a graph, verified as that stage. */
static Reprint *const reprints[DUMP_COUNT] = {[DUMP_loops] = reprint_plan,
                                              [DUMP_memory] = reprint_plan,
                                              [DUMP_shapes] = reprint_shapes,
                                              [DUMP_guards] = reprint_guards};

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

/* The graph, or the plan that it became; on a machine, the shapes of the plan. */
static void print_result(const OptRun *opt, Graph *graph) {
    if (!graph->plan) {
        print_graph(opt->to, graph);
        return;
    }
    Text text = {0};
    if (opt->machine)
        mappings_print(graph->plan, opt->machine, &text);
    else
        plan_print(graph->plan, &text);
    fputs(text_str(&text), opt->to);
    text_free(&text);
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

static bool is_input(const Graph *graph, const char *name, size_t n) {
    for (int i = 0; i < graph->inputs.n; i++) {
        const char *const input = graph->inputs.at[i]->name;
        if (strlen(input) == n && !memcmp(input, name, n)) return true;
    }
    error_raise(ST_ARGUMENT, "--joint: the graph has no input '%.*s'", (int)n, name);
    return false;
}

static Status add_gradients(Graph *graph, const char *wanted) {
    for (const char *p = wanted; *p;) {
        const size_t length = strcspn(p, ",");
        if (!is_input(graph, p, length)) return ST_ARGUMENT;
        p += length + (p[length] == ',');
    }
    bool *const want = ARENA_ARRAY(graph->arena, bool, graph->inputs.n + 1);
    bool *const defined = ARENA_ARRAY(graph->arena, bool, graph->outputs.n + 1);
    if (!want || !defined) return ST_MEMORY;
    for (int i = 0; i < graph->inputs.n; i++) want[i] = listed(wanted, graph->inputs.at[i]->name);
    for (int i = 0; i < graph->outputs.n; i++)
        defined[i] = graph->outputs.at[i].value && dtype_is_float(graph->outputs.at[i].value->base.meta->dtype);
    return joint_append(graph, &(JointSpec){.want = want, .grad_defined = defined});
}

static void print_parts(const OptRun *opt, const Graph *joint) {
    const Partition *const parts = joint->parts;
    print_result(opt, parts->forward);
    print_result(opt, parts->backward);
    int64_t bytes = 0;
    for (int i = 0; i < parts->n_saved; i++) {
        const Meta *const meta = parts->backward->inputs.at[i]->base.meta;
        bytes += sym_hint(joint->env, meta->numel) * dtype_bytes(meta->dtype);
    }
    fprintf(opt->to, "# saved: %d values, %lld bytes\n", parts->n_saved, (long long)bytes);
}

static Status reprint(const OptRun *opt, Reprint *read, const char *text) {
    Text out = {0};
    const char *end = text;
    Status status = read(opt, text, &end, &out);
    if (status == ST_OK && end[strspn(end, " \n")])
        status = error_raise(ST_PARSE, "text after the end: \"%.16s\"", end);
    if (status == ST_OK) fputs(text_str(&out), opt->to);
    text_free(&out);
    return status;
}

/* times --------------------------------------------------------------------------------------- */

enum { RUNS = 9, MOST_PASSES = 2 * MAX_LISTED }; /* of two lists */

typedef struct PassMedian {
    const PassRow *pass;
    int after;        /* nodes that it leaves, of all parts together */
    int64_t ns[RUNS]; /* a pass that runs on several parts: their sum */
} PassMedian;

typedef struct Times {
    PassMedian rows[MOST_PASSES];
    int n, run;
    int64_t last; /* when the last pass ended */
} Times;

/* This thread's, so that a busy machine shows less. */
static int64_t processor_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void record_time(void *context, const PassRow *pass, Graph *graph, int64_t ns) {
    Times *const times = context;
    const int64_t since = times->last;
    times->last = processor_ns();
    int i = 0;
    while (i < times->n && times->rows[i].pass != pass) i++;
    if (i == MOST_PASSES) return;
    if (i == times->n) times->rows[times->n++].pass = pass;
    times->rows[i].ns[times->run] += times->last - since;
    if (!times->run) times->rows[i].after += graph->n_nodes;
}

static int by_ns(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void print_times(FILE *to, Times *times) {
    double total = 0;
    fprintf(to, "%-16s %8s %12s\n", "pass", "nodes", "ms");
    for (int i = 0; i < times->n; i++) {
        PassMedian *const row = &times->rows[i];
        qsort(row->ns, RUNS, sizeof *row->ns, by_ns);
        const double ms = (double)row->ns[RUNS / 2] * 1e-6;
        fprintf(to, "%-16s %8d %12.3f\n", row->pass->name, row->after, ms);
        total += ms;
    }
    fprintf(to, "%-16s %8s %12.3f\n", "together", "", total);
}

typedef struct OptGraph {
    const OptRun *opt;
    Graph *graph;
    Times *times; /* NULL: the result is printed */
} OptGraph;

static Status run_lists(void *context) {
    const OptGraph *const run = context;
    const OptRun *const opt = run->opt;
    const PassOptions options = {.verify = !run->times,
                                 .skip = opt->skip,
                                 .limit = opt->most,
                                 .trace = run->times   ? record_time
                                          : opt->trace ? trace_pass
                                                       : NULL,
                                 .trace_context = run->times ? (void *)run->times : stderr};
    TRY(passes_run(run->graph, opt->passes, &options));
    if (!opt->joint) return ST_OK;
    TRY(add_gradients(run->graph, opt->joint));
    return passes_run(run->graph, opt->then, &options);
}

static Status run_graph(Arena *arena, const OptRun *opt, const char *text, size_t n, Times *times) {
    OptGraph run = {.opt = opt, .times = times};
    TRY(graph_parse(arena, text, n, &run.graph));
    TRY(graph_verify(run.graph, dump_row(opt->dump)->stage));
    Bail exit;
    if (times) times->last = processor_ns();
    const Status status = compile_exit(run.graph, run_lists, &run, &exit);
    if (exit.code != BAIL_none) return error_raise(ST_UNSUPPORTED, "%s: %s", bail_name(exit.code), exit.message);
    TRY(status);
    if (times) return ST_OK;
    if (run.graph->parts)
        print_parts(opt, run.graph);
    else
        print_result(opt, run.graph);
    return ST_OK;
}

static Status run_times(const OptRun *opt, const char *text, size_t n) {
    Times times = {0};
    for (; times.run < RUNS; times.run++) {
        Arena *const arena = arena_new();
        const Status status = arena ? run_graph(arena, opt, text, n, &times) : ST_MEMORY;
        arena_free(arena);
        TRY(status);
    }
    print_times(opt->to, &times);
    return ST_OK;
}

static bool is_head(const char *line) {
    return !strncmp(line, "# graph ", 8) || !strncmp(line, "# forward", 9) || !strncmp(line, "# backward", 10) ||
           !strncmp(line, "# no backward", 13);
}

static bool is_blank(const char *text) { /* comments count as nothing */
    while (*text) {
        text += strspn(text, " \t\r\n");
        if (*text && *text != '#') return false;
        text += strcspn(text, "\n");
    }
    return true;
}

static Status run_piece(const OptRun *opt, const char *text, size_t n, bool only) {
    Arena *const arena = arena_new();
    char *const piece = arena ? arena_printf(arena, "%.*s", (int)n, text) : NULL;
    Reprint *const read = reprints[opt->dump];
    const Status status = !piece                     ? ST_MEMORY
                          : is_blank(piece) && !only ? ST_OK
                          : read                     ? reprint(opt, read, piece)
                          : opt->times               ? run_times(opt, piece, strlen(piece))
                                                     : run_graph(arena, opt, piece, strlen(piece), NULL);
    arena_free(arena);
    return status;
}

static int count_lines(const char *text, const char *end) {
    int n = 0;
    while (text < end) n += *text++ == '\n';
    return n;
}

/* The text up to the next head line, then that line itself. */
static Status run_text(const OptRun *opt, const char *text) {
    bool heads = false;
    const char *const start = text;
    for (const char *end = text; *end || !heads; text = end) {
        source_skip(count_lines(start, text));
        while (*end && !is_head(end)) {
            end += strcspn(end, "\n");
            end += *end == '\n';
        }
        TRY(run_piece(opt, text, (size_t)(end - text), !heads && !*end));
        if (!*end) return ST_OK;
        heads = true;
        const size_t line = strcspn(end, "\n");
        fprintf(opt->to, "%.*s\n", (int)line, end);
        end += line + (end[line] == '\n');
    }
    return ST_OK;
}

static int run_file(const OptRun *opt) {
    char *text = NULL;
    size_t n = 0;
    if (input_read(opt->path, &text, &n) != ST_OK) return report_error(EXIT_environment);
    source_remember(opt->path, text);
    const Status status = run_text(opt, text);
    mem_free(text);
    return status == ST_OK ? EXIT_done : report_error(status == ST_MEMORY ? EXIT_environment : EXIT_wrong);
}

static int run_file_json(OptRun *opt) {
    char *text = NULL;
    size_t n;
    opt->to = open_memstream(&text, &n);
    if (!opt->to) {
        error_raise(ST_MEMORY, "out of memory");
        return report_error(EXIT_environment);
    }
    const int code = run_file(opt);
    fclose(opt->to);
    if (code == EXIT_done) put_json_text("opt", opt->times ? "times" : "text", text);
    free(text);
    return code;
}

static bool opt_argument(OptRun *opt, CommandLine *a) {
    const struct {
        const char *name, **value;
    } texts[] = {{"passes", &opt->passes}, {"skip", &opt->skip},       {"stage", &opt->stage}, {"joint", &opt->joint},
                 {"then", &opt->then},     {"library", &opt->library}, {"machine", &opt->on}};
    for (int i = 0; i < COUNT_OF(texts); i++)
        if (argument_text(a, texts[i].name, texts[i].value)) return true;
    return argument_flag(a, "trace", &opt->trace) || argument_flag(a, "times", &opt->times) ||
           argument_flag(a, "json", &opt->json) || argument_int(a, "limit", 0, INT_MAX, &opt->most) ||
           argument_name(a, &opt->path);
}

int command_opt(const Command *self, int argc, char **argv) {
    OptRun opt = {.passes = "", .skip = "", .then = "", .stage = "capture"};
    CommandLine a = arguments_begin(self, argc, argv);
    while (arguments_next(&a))
        if (!opt_argument(&opt, &a)) arguments_refuse(&a, "unexpected");
    if (a.ended) return a.code;
    if (!opt.path) return usage_error(self, "a file is missing after", self->name);
    if (*opt.then && !opt.joint) return usage_error(self, "--joint must be given with", "--then");
    opt.dump = dump_find(opt.stage, strlen(opt.stage));
    if (opt.dump == DUMP_COUNT) return unknown_stage(self, opt.stage);
    if (dump_row(opt.dump)->traits & DUMP_code)
        return usage_error(self, "opt reads graphs and plans, not code of stage", opt.stage);
    if (opt.on && !(opt.machine = machine_find(opt.on, strlen(opt.on)))) return report_error(EXIT_usage);
    PassList list;
    if (passes_list(opt.passes, &list) || passes_list(opt.skip, &list) || passes_list(opt.then, &list))
        return report_error(EXIT_usage);
    if (opt.library && target_extend(opt.library) != ST_OK) return report_error(EXIT_environment);
    opt.to = stdout;
    return opt.json ? run_file_json(&opt) : run_file(&opt);
}
