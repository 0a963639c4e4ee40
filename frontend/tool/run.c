/* run.c: `sinter run`, `dump`, `explain`: one target called a few times, then its results, one
 * stage, or what happened. Samples are programs beside this one; dump and explain ask the library
 * for a report when their functions are freed. */
#include "frontend/tool/target.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/error.h"
#include "runtime/core/tensor.h"

enum { CALLS = 3 };

bool program_folder(char *out, size_t room) {
    const ssize_t n = readlink("/proc/self/exe", out, room - 1);
    if (n <= 0) return false;
    out[n] = '\0';
    *strrchr(out, '/') = '\0';
    return true;
}

/* Samples are in bin/samples beside bin/sinter. */
static bool sample_path(const char *name, char *out, size_t room) {
    char folder[900];
    if (!*name || *name == '.' || strchr(name, '/')) return false;
    if (!program_folder(folder, sizeof folder)) return false;
    snprintf(out, room, "%s/samples/%s", folder, name);
    return access(out, X_OK) == 0;
}

bool sample_exists(const char *name) {
    char path[1024];
    return sample_path(name, path, sizeof path);
}

int no_such_target(const char *name) {
    fprintf(stderr, "sinter: '%s' is no sample, no .sn file and no library.so:symbol\n", name);
    return EXIT_environment;
}

/* Samples that print their results as JSON; the other ones are text to read. */
static bool has_json(const char *name) {
    static const char *const names[] = {"digits", "newton"};
    for (int i = 0; i < COUNT_OF(names); i++)
        if (!strcmp(names[i], name)) return true;
    return false;
}

int run_sample(const char *name, char **argv) {
    char path[1024];
    if (!sample_path(name, path, sizeof path)) return no_such_target(name);
    for (int i = 1; argv[i] && !has_json(name); i++)
        if (!strcmp(argv[i], "--json")) {
            fprintf(stderr, "sinter: sample '%s' has no --json; `sinter explain %s --json` has\n",
                    name, name);
            return EXIT_usage;
        }
    argv[0] = path;
    execv(path, argv);
    fprintf(stderr, "sinter: cannot start '%s'\n", path);
    return EXIT_environment;
}

/* A sample with its own output dropped; what the library reports goes to stdout. */
static int report_sample(const char *name, const char *report) {
    char path[1024], file[] = "/tmp/sinter-report-XXXXXX";
    if (!sample_path(name, path, sizeof path)) return no_such_target(name);
    const int fd = mkstemp(file);
    if (fd < 0) return EXIT_environment;
    setenv("SINTER_REPORT", report, 1);
    setenv("SINTER_REPORT_FILE", file, 1);
    const pid_t child = fork();
    if (child == 0) {
        if (freopen("/dev/null", "w", stdout)) execl(path, path, (char *)NULL);
        _exit(EXIT_environment);
    }
    int status = 0;
    waitpid(child, &status, 0);
    char part[4096];
    for (ssize_t n; (n = read(fd, part, sizeof part)) > 0;) fwrite(part, 1, (size_t)n, stdout);
    close(fd);
    unlink(file);
    return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_wrong;
}

/* {"type": "f32[8,16]", "value": null}: the value of a single element, as text where it is not
 * finite. */
static void print_result_json(sn_tensor *t, const char *before) {
    Text text = {0};
    text_printf(&text, "%s{\"type\": \"", before);
    meta_print(NULL, &text, t->base.meta);
    text_puts(&text, "\", \"value\": ");
    const double value = sn_numel(t) == 1 ? sn_item(t) : 0;
    if (sn_numel(t) != 1)
        text_puts(&text, "null}");
    else
        text_printf(&text, isfinite(value) ? "%.17g}" : "\"%g\"}", value);
    fputs(text_str(&text), stdout);
    text_free(&text);
}

static void print_results(sn_tensor *const *out, int n, bool json) {
    for (int i = 0; i < n; i++)
        if (json)
            print_result_json(out[i], i ? ", " : "");
        else
            puts(sn_repr(out[i]));
}

typedef struct Job {
    TargetOptions target;
    const char *stage;
    bool json;
} Job;

static int with_target(const Job *job,
                       int (*done)(const Job *job, sn_function *fn, sn_tensor **out, int n_out)) {
    Target target;
    if (!target_open(&job->target, &target)) return no_such_target(job->target.name);
    sn_function *fn =
        sn_check() ? NULL : target_compile(&target, &job->target, job->target.compile.mode);
    sn_tensor *out[TARGET_OUTPUTS] = {NULL};
    for (int i = 0; i < CALLS && !sn_check(); i++) {
        if (i && job->target.vary) target_inputs(&job->target, &target, DEFAULT_SIZE * (i + 1));
        if (!sn_check()) target_call(&target, fn, out);
    }
    const int code = sn_check() ? report_error(target.exit_code) : done(job, fn, out, target.n_out);
    sn_function_free(fn);
    target_close(&target);
    return code;
}

static int show_results(const Job *job, sn_function *fn, sn_tensor **out, int n_out) {
    if (job->json) printf("{\"explain\": %s, \"results\": [", sn_explain_json(fn));
    print_results(out, n_out, job->json);
    if (job->json) puts("]}");
    return EXIT_done;
}

static int show_explain(const Job *job, sn_function *fn, sn_tensor **out, int n_out) {
    (void)out, (void)n_out;
    if (job->json)
        puts(sn_explain_json(fn));
    else
        fputs(sn_explain(fn), stdout);
    return EXIT_done;
}

static int show_stage(const Job *job, sn_function *fn, sn_tensor **out, int n_out) {
    (void)out, (void)n_out;
    fputs(sn_dump(fn, job->stage), stdout);
    return sn_check() ? report_error(EXIT_wrong) : EXIT_done;
}

static bool is_sample(const Job *job) {
    return !strstr(job->target.name, ".so:") && !strstr(job->target.name, ".sn") &&
           strcmp(job->target.name, "-");
}

static bool is_stage(const char *name) {
    for (int i = 0; sn_stage_name(i); i++)
        if (!strcmp(sn_stage_name(i), name)) return true;
    return false;
}

static int unknown_stage(const char *name) {
    fprintf(stderr, "sinter dump: unknown stage '%s'; stages:", name);
    for (int i = 0; sn_stage_name(i); i++) fprintf(stderr, "%s %s", i ? "," : "", sn_stage_name(i));
    fputc('\n', stderr);
    return EXIT_usage;
}

/* Arguments after a sample's name are the sample's own. */
static int parse(const Command *self, int argc, char **argv, Job *job) {
    for (int i = 0; i < argc; i++) {
        const char *value;
        if (job->target.name && is_sample(job) && !strcmp(self->name, "run")) return EXIT_done;
        const bool dumps = !strcmp(self->name, "dump");
        if (!dumps && !strcmp(argv[i], "--json"))
            job->json = true;
        else if (dumps && (value = option_value(argv[i], "--stage")))
            job->stage = value;
        else if (!target_option(&job->target, argc, argv, &i))
            return usage_error(self, "unexpected", argv[i]);
    }
    if (!job->target.name) return usage_error(self, "a target is missing after", self->name);
    if (is_sample(job) && job->target.given)
        return usage_error(self, "a sample has inputs and modes of its own:", job->target.given);
    return EXIT_done;
}

int command_run(const Command *self, int argc, char **argv) {
    Job job = {.stage = NULL};
    const int code = parse(self, argc, argv, &job);
    if (code != EXIT_done) return code;
    return is_sample(&job) ? run_sample(job.target.name, argv) : with_target(&job, show_results);
}

int command_explain(const Command *self, int argc, char **argv) {
    Job job = {.stage = NULL};
    const int code = parse(self, argc, argv, &job);
    if (code != EXIT_done) return code;
    if (is_sample(&job))
        return report_sample(job.target.name, job.json ? "explain-json" : "explain");
    return with_target(&job, show_explain);
}

int command_dump(const Command *self, int argc, char **argv) {
    Job job = {.stage = "capture"};
    const int code = parse(self, argc, argv, &job);
    if (code != EXIT_done) return code;
    if (!is_stage(job.stage)) return unknown_stage(job.stage);
    char report[64];
    snprintf(report, sizeof report, "dump:%s", job.stage);
    return is_sample(&job) ? report_sample(job.target.name, report) : with_target(&job, show_stage);
}
