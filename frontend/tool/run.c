/* run.c: `sinter run`, `dump`, `explain`: one target called a few times, then its results, one
 * stage, or what happened. Samples are programs (sample.c), but for `run --json` of one that has no
 * JSON of its own: what it compiles is called as any other target. */
#include "frontend/api/report_page.h"
#include "frontend/tool/named.h"
#include "frontend/tool/machine_code.h"
#include "frontend/tool/sample.h"
#include "frontend/tool/values.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/base/alloc.h"
#include "runtime/base/error.h"
#include "runtime/compile/compile.h"
#include "runtime/core/tensor.h"

enum { CALLS = 3, PROFILED_CALLS = 10 };

/* {"type": "f32[8,16]", "value": null, "digest": "..."}: the value of a single element, as text
 * where it is not finite; of a program with its name. What is no tensor has its type alone: None, or a text. */
static void print_result(Text *text, sn_program *p, int i, sn_tensor *t) {
    sn_program_output about = {.size = sizeof about, .type = "None"};
    text_puts(text, "{");
    if (p && sn_program_out(p, i, &about) == SN_OK) put_json_pair(text, "", "name", about.name), text_puts(text, ", ");
    if (!t) {
        put_json_pair(text, "", "type", about.type);
        text_puts(text, "}");
        return;
    }
    text_puts(text, "\"type\": \"");
    meta_print(NULL, text, t->base.meta);
    text_puts(text, "\", \"value\": ");
    const double value = sn_numel(t) == 1 ? sn_item(t) : 0;
    if (sn_numel(t) != 1)
        text_puts(text, "null");
    else
        text_printf(text, isfinite(value) ? "%.17g" : "\"%g\"", value);
    text_printf(text, ", \"digest\": \"%016llx\"}", (unsigned long long)values_digest(t));
}

typedef struct RunJob {
    TargetOptions target;
    const char *stage;
    const char *machine; /* NULL: the one that runs */
    bool types, lines;   /* dump: beside the ops of a graph */
    MachineCode code;    /* dump: what the stage's text is compiled to */
    const char *values;  /* dump: the file that gets those of the inputs */
    const char *out;     /* report */
    const char *save;    /* run: results, by name */
    bool json;
    Target *opened; /* while it is looked at */
    int own;        /* run: the first argument after a sample's name; 0: none */
} RunJob;

static bool is_sample(const RunJob *job) { return !target_is_file(job->target.name); }

static int with_target(const RunJob *job, int (*done)(const RunJob *job, sn_function *fn, sn_tensor **out, int n_out)) {
    Target target;
    const bool found =
        is_sample(job) ? target_open_sample(job->target.name, &target) : target_open(&job->target, &target);
    if (!found) return no_such_target(job->target.name);
    sn_function *fn = sn_check() ? NULL : target_compile(&target, &job->target, job->target.compile.mode);
    if (target.plan && sn_check() == SN_ERR_IO) target.exit_code = EXIT_environment;
    sn_tensor *out[TARGET_OUTPUTS] = {NULL};
    const int calls = job->target.inputs_file || job->save ? 1 : CALLS; /* what is written at a call stays written */
    for (int i = 0; i < calls && !sn_check(); i++) {
        if (i && (job->target.vary || target.values))
            target_inputs(&job->target, &target, job->target.vary ? DEFAULT_SIZE * (i + 1) : DEFAULT_SIZE);
        if (!sn_check()) target_call(&target, fn, out);
    }
    RunJob with = *job;
    with.opened = &target;
    const int code = sn_check() ? report_error(target.exit_code) : done(&with, fn, out, target.n_out);
    sn_function_free(fn);
    target_close(&target);
    return code;
}

/* A program's has a name, and may be a text. */
static void show_result(sn_program *p, int i, sn_tensor *t) {
    sn_program_output about = {.size = sizeof about, .type = "None"};
    if (p && sn_program_out(p, i, &about) == SN_OK) printf("%s = ", about.name);
    puts(t ? sn_repr(t) : about.type);
}

static int show_results(const RunJob *job, sn_function *fn, sn_tensor **out, int n_out) {
    (void)fn;
    for (int i = 0; i < n_out && !sn_check(); i++) show_result(job->opened->program, i, out[i]);
    return sn_check() ? report_error(EXIT_environment) : EXIT_done;
}

static int save_results(const RunJob *job, sn_function *fn, sn_tensor **out, int n_out) {
    (void)fn, (void)n_out;
    return named_save(job->save, job->opened, out) == ST_OK ? EXIT_done : report_error(EXIT_environment);
}

static int show_results_json(const RunJob *job, sn_function *fn, sn_tensor **out, int n_out) {
    Text text = {0};
    text_puts(&text, "{\"target\": ");
    text_json_string(&text, job->target.name);
    text_printf(&text, ", \"mode\": \"%s\", \"explain\": %s, \"results\": [",
                target_is_plan(job->target.name) ? "plan" : target_mode_name(job->target.compile.mode),
                sn_explain_json(fn));
    for (int i = 0; i < n_out; i++) {
        text_puts(&text, i ? ", " : "");
        print_result(&text, job->opened->program, i, out[i]);
    }
    text_puts(&text, "]}");
    if (!sn_check()) puts(text_str(&text));
    text_free(&text);
    return sn_check() ? report_error(EXIT_environment) : EXIT_done;
}

static int show_explain(const RunJob *job, sn_function *fn, sn_tensor **out, int n_out) {
    (void)out, (void)n_out;
    if (job->json)
        puts(sn_explain_json(fn));
    else
        fputs(sn_explain(fn), stdout);
    return EXIT_done;
}

static void show_text(const RunJob *job, const char *dump) {
    if (!job->json) {
        fputs(dump, stdout);
        return;
    }
    Text text = {0};
    put_json_pair(&text, "{", "target", job->target.name);
    put_json_pair(&text, ", ", "stage", job->code == CODE_ptx ? "ptx" : job->code == CODE_sass ? "sass" : job->stage);
    put_json_pair(&text, ", ", "text", dump);
    printf("%s}\n", text_str(&text));
    text_free(&text);
}

/* The number of "sm_90". */
static int arch_of(const char *machine) { return atoi(machine + strcspn(machine, "0123456789")); }

static int show_dump(const RunJob *job, const char *dump) {
    Text code = {0};
    if (job->code == CODE_none) return show_text(job, dump), EXIT_done;
    if (machine_code_print(dump, job->code, arch_of(job->machine), &code) == ST_OK) show_text(job, text_str(&code));
    text_free(&code);
    return sn_check() ? report_error(EXIT_environment) : EXIT_done;
}

static int show_stage(const RunJob *job, sn_function *fn, sn_tensor **out, int n_out) {
    (void)out, (void)n_out;
    const char *const dump = sn_dump(fn, job->stage);
    return sn_check() ? report_error(EXIT_wrong) : show_dump(job, dump);
}

/* False: it ends with *code. CommandLine after the name of a sample that runs are the sample's own. */
static bool parse(const Command *self, int argc, char **argv, RunJob *job, int *code) {
    const bool runs = !strcmp(self->name, "run");
    CommandLine a = arguments_begin(self, argc, argv);
    while (!job->own && arguments_next(&a)) {
        if (!(argument_flag(&a, "json", &job->json) || argument_text(&a, "stage", &job->stage) ||
              argument_text(&a, "machine", &job->machine) || argument_flag(&a, "types", &job->types) ||
              argument_flag(&a, "lines", &job->lines) || argument_text(&a, "values", &job->values) ||
              argument_text(&a, "save", &job->save) || argument_text(&a, "out", &job->out) ||
              target_argument(&a, &job->target)))
            arguments_refuse(&a, "unexpected");
        else if (runs && job->target.name && is_sample(job))
            job->own = a.at;
    }
    *code = a.code;
    if (a.ended) return false;
    if (!job->target.name)
        *code = usage_error(self, "a target is missing after", self->name);
    else if (is_sample(job) && job->target.given)
        *code = usage_error(self, "a sample has inputs and modes of its own, and takes no", job->target.given);
    return *code == EXIT_done;
}

/* The sample's program, with arguments that it takes; with --json, if that is none of them, its work. */
static int run_sample_job(const Command *self, RunJob *job, int argc, char **argv) {
    if (!sample_exists(job->target.name)) return no_such_target(job->target.name);
    const char *const takes = sample_takes(job->target.name);
    const bool own_json = strstr(takes, "--json") != NULL;
    if (job->own < argc && (!strcmp(argv[job->own], "--help") || !strcmp(argv[job->own], "-h"))) {
        printf("usage: sinter run %s%s%s\n", job->target.name, *takes ? " " : "", takes);
        return EXIT_done;
    }
    char **const passed = argv + job->own - 1 - (own_json && job->json); /* from the name on */
    if (own_json && job->json) passed[1] = "--json";
    for (int i = job->own; i < argc && !own_json; i++) job->json |= !strcmp(argv[i], "--json");
    for (int i = job->own; i < argc && !own_json; i++) {
        if (!strcmp(argv[i], "--json")) continue;
        if (!*takes) return usage_error(self, "the sample does not take", argv[i]);
        if (job->json) return usage_error(self, "with --json the sample does not take", argv[i]);
    }
    return job->json && !own_json ? with_target(job, show_results_json) : run_sample(job->target.name, passed);
}

int command_run(const Command *self, int argc, char **argv) {
    RunJob job = {.stage = NULL};
    int code;
    if (!parse(self, argc, argv, &job, &code)) return code;
    if (is_sample(&job)) return run_sample_job(self, &job, argc, argv);
    return with_target(&job, job.save ? save_results : job.json ? show_results_json : show_results);
}

int command_explain(const Command *self, int argc, char **argv) {
    RunJob job = {.stage = NULL};
    int code;
    if (!parse(self, argc, argv, &job, &code)) return code;
    if (!is_sample(&job)) return with_target(&job, show_explain);
    if (job.json) return explain_sample_json(job.target.name);
    char *text = NULL;
    code = sample_report(job.target.name, "explain", &text);
    if (text) fputs(text, stdout);
    mem_free(text);
    return code;
}

/* The capture with the values of its inputs; of a sample what its work gives. */
static int dump_values(const Command *self, const RunJob *job) {
    Target target;
    Text text = {0};
    if (dump_find(job->stage, strlen(job->stage)) != DUMP_capture)
        return usage_error(self, "--values is about the stage capture, not", job->stage);
    const bool found =
        is_sample(job) ? target_open_sample(job->target.name, &target) : target_open(&job->target, &target);
    if (!found) return no_such_target(job->target.name);
    if (!sn_check()) target.exit_code = EXIT_wrong;
    const Status status = sn_check() ? error_pending() : values_dump(&job->target, &target, job->values, &text);
    if (status == ST_OK) show_text(job, text_str(&text));
    text_free(&text);
    const int code = status == ST_OK ? EXIT_done : report_error(status == ST_IO ? EXIT_environment : target.exit_code);
    target_close(&target);
    return code;
}

int command_dump(const Command *self, int argc, char **argv) {
    RunJob job = {.stage = "capture"};
    int code;
    if (!parse(self, argc, argv, &job, &code)) return code;
    job.code = machine_code_stage(job.stage);
    if (job.code != CODE_none) job.stage = "cuda", job.machine = job.machine ? job.machine : "sm_90";
    if (dump_find(job.stage, strlen(job.stage)) == DUMP_COUNT) return unknown_stage(self, job.stage);
    char report[64];
    snprintf(report, sizeof report, "dump:%s%s%s%s%s", job.stage, job.machine ? "@" : "",
             job.machine ? job.machine : "", job.types ? "+types" : "", job.lines ? "+lines" : "");
    job.stage = report + strlen("dump:");
    Dump dump;
    if (dump_parse(job.stage, &dump) != ST_OK) return report_error(EXIT_usage);
    if (job.values) return dump_values(self, &job);
    if (!is_sample(&job)) return with_target(&job, show_stage);
    char *text = NULL;
    code = sample_report(job.target.name, report, &text);
    if (text && code == EXIT_done) code = show_dump(&job, text);
    mem_free(text);
    return code;
}

/* The table of a few calls more, as JSON. */
static char *profile_calls(const RunJob *job, sn_function *fn) {
    sn_tensor *out[TARGET_OUTPUTS] = {NULL};
    sn_profile *const p = sn_profile_start(SN_PROFILE_OPTIONS(.shapes = true));
    for (int i = 0; i < PROFILED_CALLS && !sn_check(); i++) {
        const sn_scope scope = sn_scope_begin();
        target_call(job->opened, fn, out);
        sn_scope_end(scope);
    }
    const char *const table =
        sn_check() ? NULL : sn_profile_table(p, SN_PROFILE_TABLE_OPTIONS(.rows = -1, .json = true));
    char *const kept = table ? mem_strdup(table) : NULL;
    sn_profile_free(p);
    return kept;
}

static int write_page(const RunJob *job, sn_function *fn, sn_tensor **out, int n_out) {
    (void)out, (void)n_out;
    char *const memory = mem_strdup(sn_memory_snapshot(SN_CPU)), *const profile = profile_calls(job, fn);
    if (!sn_check()) report_page_write(fn, &(ReportSeen){profile, memory}, job->out);
    mem_free(memory), mem_free(profile);
    if (!sn_check() && job->json) put_json_text("report", "page", job->out);
    return sn_check() ? report_error(EXIT_environment) : EXIT_done;
}

int command_report(const Command *self, int argc, char **argv) {
    RunJob job = {.stage = NULL};
    int code;
    if (!parse(self, argc, argv, &job, &code)) return code;
    if (!job.out) return usage_error(self, "-o FILE is missing after", job.target.name);
    sn_setting_set("memory_sites", "1"); /* before the inputs are made */
    return with_target(&job, write_page);
}
