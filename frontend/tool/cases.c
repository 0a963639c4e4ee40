/* cases.c: `sinter cases`: replays recorded op cases and reports per overload and in total. Failures go to stderr as
 * they come (data goes to stdout); with --json everything is one object. */
#include <stdio.h>
#include <stdlib.h>

#include "frontend/cases/cases.h"
#include "frontend/tool/arguments.h"
#include "frontend/tool/edges.h"
#include "runtime/base/error.h"

enum { MAX_OVERLOADS = 4096 };
typedef struct Overload {
    char op[96];
    CaseCounts counts;
} Overload;
typedef struct CasesReport {
    Overload *overloads;
    int n_overloads;
    bool json, quiet, subset;
    EdgeTable edges; /* where the cases are held to a table of differences */
    const char *edges_path;
    Text failures, off_references; /* JSON items */
    /* Names of ops: that sn_vmap calls once for each example, that it refuses, that refuse an example without it, that
     * are not compared. */
    Text loops, unmapped, alone, not_mapped;
} CasesReport;

/* Each once. */
static void record_one_op(Text *list, const char *op) {
    const size_t n = strlen(op);
    for (const char *at = text_str(list); (at = strstr(at, op)); at += n)
        if ((at == text_str(list) || at[-1] == ' ') && (!at[n] || at[n] == ' ')) return;
    text_printf(list, "%s%s", text_str(list)[0] ? " " : "", op);
}

/* "sn_vmap: aten::mv has no batching rule: it runs once for each example" */
static void on_log(void *context, int level, const char *topic, const char *line) {
    const char *const from = strstr(line, "aten::"), *const to = from ? strstr(from, " has no batching rule") : NULL;
    char op[96];
    if (!to || to - from >= (ptrdiff_t)sizeof op) return;
    snprintf(op, sizeof op, "%.*s", (int)(to - from), from);
    record_one_op(&((CasesReport *)context)->loops, op);
}

static void on_finding(void *context, const CaseFinding *f) {
    CasesReport *report = context;
    if (report->edges_path && f->part) edges_record(&report->edges, f);
    if (!report->json) {
        if (!report->quiet && f->part)
            fprintf(stderr, "%s %s %lld: %s: %s\n", f->op, f->part, (long long)f->count, f->note, f->why);
        else if (!report->quiet)
            fprintf(stderr, "%s: %s: %s%s\n", f->op, f->note, f->failed ? "" : "off reference: ", f->why);
        return;
    }
    const char *const fields[][2] = {{"file", f->file}, {"op", f->op}, {"note", f->note}, {"reason", f->why}};
    Text *list = f->failed ? &report->failures : &report->off_references;
    text_puts(list, text_str(list)[0] ? ",\n  {" : "\n  {");
    for (int i = 0; i < COUNT_OF(fields); i++) {
        text_printf(list, i ? ", \"%s\": " : "\"%s\": ", fields[i][0]);
        text_json_string(list, fields[i][1]);
    }
    text_puts(list, "}");
}

static Overload *overload_of(CasesReport *report, const char *op) {
    for (int i = 0; i < report->n_overloads; i++)
        if (!strcmp(report->overloads[i].op, op)) return &report->overloads[i];
    if (report->n_overloads == MAX_OVERLOADS) return NULL;
    Overload *added = &report->overloads[report->n_overloads++];
    snprintf(added->op, sizeof added->op, "%s", op);
    return added;
}

static void on_counted(void *context, const char *op, const CaseCounts *counts) {
    CasesReport *const report = context;
    Overload *overload = overload_of(report, op);
    if (overload) case_counts_add(&overload->counts, counts);
    if (counts->unmapped_ways) record_one_op(&report->unmapped, op);
    if (counts->alone_ways) record_one_op(&report->alone, op);
    if (counts->not_mapped) record_one_op(&report->not_mapped, op);
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const Overload *)a)->op, ((const Overload *)b)->op);
}

static double share_of(const CaseCounts *counts) {
    const int64_t all = counts->ops_generated + counts->ops_interpreted + counts->ops_eager;
    return all ? (double)counts->ops_generated / (double)all : 0;
}

static void counts_print(Text *text, const CaseCounts *counts) {
    const struct {
        const char *name;
        int64_t count;
    } fields[] = {{"passed", counts->passed},           {"off_reference", counts->off_reference},
                  {"failed", counts->failed},           {"unsupported", counts->unsupported},
                  {"compiled", counts->compiled},       {"compiled_differing", counts->compiled_differing},
                  {"mapped", counts->mapped},           {"mapped_differing", counts->mapped_differing},
                  {"mapped_ways", counts->mapped_ways}, {"unmapped_ways", counts->unmapped_ways},
                  {"alone_ways", counts->alone_ways},   {"not_mapped", counts->not_mapped}};
    for (int i = 0; i < COUNT_OF(fields); i++)
        text_printf(text, "%s\"%s\": %lld", i ? ", " : "", fields[i].name, (long long)fields[i].count);
}

static void print_cases_json(CasesReport *report, const CaseCounts *totals) {
    Text text = {0};
    text_puts(&text, "{");
    counts_print(&text, totals);
    text_printf(&text, ", \"compiled_share\": %.4f,\n \"overloads\": {", share_of(totals));
    for (int i = 0; i < report->n_overloads; i++) {
        text_puts(&text, i ? ",\n  " : "\n  ");
        text_json_string(&text, report->overloads[i].op);
        text_puts(&text, ": {");
        counts_print(&text, &report->overloads[i].counts);
        text_puts(&text, "}");
    }
    text_puts(&text, "},\n ");
    const struct {
        const char *name;
        const Text *ops;
    } lists[] = {{"example_by_example", &report->loops},
                 {"unmapped_ops", &report->unmapped},
                 {"alone_ops", &report->alone},
                 {"not_mapped_ops", &report->not_mapped}};
    for (int i = 0; i < COUNT_OF(lists); i++) {
        text_printf(&text, "%s\"%s\": ", i ? ",\n " : "", lists[i].name);
        text_json_string(&text, text_str(lists[i].ops));
    }
    text_printf(&text, ",\n \"failures\": [%s],\n \"off_references\": [%s]}\n", text_str(&report->failures),
                text_str(&report->off_references));
    fputs(text_str(&text), stdout);
    text_free(&text);
}

static void print_lines(const CasesReport *report, const CaseCounts *totals) {
    for (int i = 0; i < report->n_overloads; i++) {
        const CaseCounts *c = &report->overloads[i].counts;
        if (c->unsupported) continue;
        printf("%-44s %6lld passed %5lld failed %5lld compiled differing\n", report->overloads[i].op,
               (long long)c->passed, (long long)c->failed, (long long)c->compiled_differing);
    }
    printf("%lld passed, %lld off reference, %lld failed, %lld unsupported, %lld of %lld compiled "
           "differing, compiled share %.4f\n",
           (long long)totals->passed, (long long)totals->off_reference, (long long)totals->failed,
           (long long)totals->unsupported, (long long)totals->compiled_differing, (long long)totals->compiled,
           share_of(totals));
    if (!totals->mapped) return;
    printf("under sn_vmap: %lld of %lld differing, in %lld ways to batch\nonce for each example: %s\n"
           "refused by sn_vmap, in %lld ways: %s\nan example is refused without sn_vmap, in %lld ways: %s\n"
           "not compared, %lld calls: %s\n",
           (long long)totals->mapped_differing, (long long)totals->mapped, (long long)totals->mapped_ways,
           text_str(&report->loops), (long long)totals->unmapped_ways, text_str(&report->unmapped),
           (long long)totals->alone_ways, text_str(&report->alone), (long long)totals->not_mapped,
           text_str(&report->not_mapped));
}

static bool was_replayed(const void *context, const char *op) {
    const CasesReport *const report = context;
    for (int i = 0; i < report->n_overloads; i++)
        if (!strcmp(report->overloads[i].op, op)) return true;
    return false;
}

/* What differs otherwise than the table of differences says, of the ops that were replayed; the kept part of the sweep
 * has cases of each row. */
static int print_unlike(const CasesReport *report) {
    FILE *const to = report->json ? stderr : stdout;
    int n = 0;
    for (int i = 0; i < report->n_overloads; i++)
        n += edges_unlike(&report->edges, report->overloads[i].op, report->subset, to);
    if (report->subset) n += edges_left_out(&report->edges, was_replayed, report, to);
    fprintf(to, "%d lines that the table of differences has otherwise\n", n);
    return n;
}

/* Fills options and moves the file names to the front; their count, or -1 where it ends with *code. */
static int read_options(CommandLine *a, CaseOptions *options, CasesReport *report, int *code) {
    int n_files = 0;
    bool eager = false;
    while (arguments_next(a)) {
        if (!a->option)
            a->argv[n_files++] = (char *)a->value;
        else if (!(argument_flag(a, "json", &report->json) || argument_flag(a, "quiet", &report->quiet) ||
                   argument_flag(a, "eager-only", &eager) || argument_flag(a, "subset", &report->subset) ||
                   argument_text(a, "edges", &report->edges_path) || argument_flag(a, "vmap", &options->mapped) ||
                   argument_text(a, "op", &options->op)))
            arguments_refuse(a, "unexpected");
    }
    options->compiled = !eager;
    options->edges = report->edges_path != NULL;
    *code = a->ended  ? a->code
            : n_files ? EXIT_done
                      : usage_error(a->command, "a file is missing after", a->command->name);
    return *code == EXIT_done && !a->ended ? n_files : -1;
}

int command_cases(const Command *self, int argc, char **argv) {
    CasesReport report = {0};
    CaseOptions options = {.found = on_finding, .counted = on_counted, .context = &report};
    CaseCounts totals = {0};
    int code = EXIT_done;
    CommandLine a = arguments_begin(self, argc, argv);
    const int n_files = read_options(&a, &options, &report, &code);
    if (n_files < 0) return code;
    if (sn_setting_set("eager_compile", "never") != SN_OK) return report_error(EXIT_wrong);
    report.overloads = calloc(MAX_OVERLOADS, sizeof *report.overloads);
    if (!report.overloads) return EXIT_environment;
    if (report.edges_path && edges_read(&report.edges, report.edges_path) != ST_OK) return report_error(EXIT_wrong);
    if (options.mapped) sn_logging_set(on_log, &report, "vmap");
    for (int i = 0; i < n_files; i++)
        if (cases_replay(argv[i], &options, &totals) != ST_OK)
            code = report_error(error_pending() == ST_PARSE ? EXIT_wrong : EXIT_environment);
    qsort(report.overloads, (size_t)report.n_overloads, sizeof *report.overloads, by_name);
    if (report.json)
        print_cases_json(&report, &totals);
    else
        print_lines(&report, &totals);
    const int unlike = report.edges_path ? print_unlike(&report) : 0;
    edges_free(&report.edges);
    text_free(&report.failures);
    text_free(&report.off_references);
    text_free(&report.loops);
    text_free(&report.unmapped);
    text_free(&report.alone);
    text_free(&report.not_mapped);
    free(report.overloads);
    const bool failed = report.edges_path ? unlike > 0 : totals.failed > 0;
    return code != EXIT_done                                                ? code
           : failed || totals.compiled_differing || totals.mapped_differing ? EXIT_wrong
                                                                            : EXIT_done;
}
