/* reduce.c: `sinter reduce`: the smallest graph that shrink.h comes to and that still fails. Each candidate is a file
 * that a process of its own looks at, so that crashes and what never ends are failures like any other: `sinter verify`
 * with the target's options, whose verdict or signal must be that of the beginning; or a command of the user's (--by),
 * which exits with 0 where the file still shows what is looked for, as the tests of creduce and llvm-reduce do. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "frontend/tool/sample.h"
#include "frontend/tool/shrink.h"
#include "frontend/tool/ways.h"
#include "runtime/base/alloc.h"
#include "runtime/base/environment.h"
#include "runtime/base/file.h"

enum { MAX_PASSED = 64, PATH_BYTES = 1024 };

typedef struct ReduceJob {
    TargetOptions target;
    const char *out, *by;
    int seconds;
    bool json;
    char *passed[MAX_PASSED]; /* options of the target, "--backend=x"; mem_free */
    int n_passed;
    char folder[PATH_BYTES], file[PATH_BYTES],
        said[PATH_BYTES]; /* a scratch folder; the candidate, what was said of it */
    char program[PATH_BYTES];
    char failure[64]; /* of the beginning: "differ", "error", "signal 6"; "exit 0" of --by */
    int runs;
} ReduceJob;

/* A candidate ---------------------------------------------------------------------------------- */

/* The first Ctrl-C ends the candidate, and no other begins: what was found until then is the result. */
static volatile sig_atomic_t stopped;
static volatile pid_t running; /* 0: none */

static void stop_reducing(int signal) {
    stopped = signal;
    if (running > 0) kill(-running, SIGKILL);
}

/* In the child. */
static void run_test(const ReduceJob *job) {
    const char *arguments[MAX_PASSED + 8] = {job->program, "verify", job->file, "--json", "--no-locate"};
    setpgid(0, 0); /* with all that it starts */
    alarm((unsigned)job->seconds);
    if (!freopen("/dev/null", "r", stdin) || !freopen(job->said, "w", stdout) || !freopen("/dev/null", "w", stderr))
        _exit(EXIT_environment);
    if (job->by) {
        Text command = {0};
        text_printf(&command, "%s \"$1\"", job->by);
        if (command.at) execl("/bin/sh", "sh", "-c", command.at, "sinter reduce", job->file, (char *)NULL);
    } else {
        for (int i = 0; i < job->n_passed; i++) arguments[5 + i] = job->passed[i];
        execv(job->program, (char *const *)(uintptr_t)arguments);
    }
    _exit(EXIT_environment);
}

static void read_verdict(const ReduceJob *job, char *out, size_t capacity) {
    static const char key[] = "\"verdict\": \"";
    char *said;
    size_t n;
    snprintf(out, capacity, "invalid");
    if (file_read(job->said, &said, &n) != ST_OK) {
        error_clear();
        return;
    }
    const char *const found = strstr(said, key);
    if (found) snprintf(out, capacity, "%.*s", (int)strcspn(found + sizeof key - 1, "\""), found + sizeof key - 1);
    mem_free(said);
}

static void name_failure(const ReduceJob *job, int status, char *out, size_t capacity) {
    if (WIFSIGNALED(status))
        snprintf(out, capacity, WTERMSIG(status) == SIGALRM ? "more than %d s" : "signal %d",
                 WTERMSIG(status) == SIGALRM ? job->seconds : WTERMSIG(status));
    else if (job->by)
        snprintf(out, capacity, "exit code %d", WEXITSTATUS(status));
    else
        read_verdict(job, out, capacity);
}

/* How it fails: "same", "differ", "signal 6"... Raises where there is no process or file. */
static Status test_text(ReduceJob *job, const char *text, char *out, size_t capacity) {
    int status = 0;
    TRY(file_write(job->file, text, strlen(text)));
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) run_test(job);
    if (child < 0) return error_raise(ST_IO, "cannot start a process: %s", strerror(errno));
    setpgid(child, child); /* whoever of the two is first */
    running = child;
    if (stopped) kill(-child, SIGKILL);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    running = 0;
    kill(-child, SIGKILL); /* what it left behind */
    job->runs++;
    name_failure(job, status, out, capacity);
    return ST_OK;
}

static bool shows_failure(void *context, const char *text) {
    ReduceJob *const job = context;
    char failure[64];
    if (stopped) return false;
    if (test_text(job, text, failure, sizeof failure) != ST_OK) {
        error_clear();
        return false;
    }
    return !stopped && !strcmp(failure, job->failure);
}

static bool is_failure(const ReduceJob *job, const char *failure) {
    if (job->by) return !strcmp(failure, "exit code 0");
    return !strcmp(failure, "differ") || !strcmp(failure, "error") || !strncmp(failure, "signal", 6) ||
           !strncmp(failure, "more than", 9);
}

/* The beginning -------------------------------------------------------------------------------- */

static int not_failing(const ReduceJob *job, const char *failure) {
    const bool valid = strcmp(failure, "invalid") != 0;
    if (job->by)
        fprintf(stderr, "sinter: '%s' does not fail: '%s' ends with %s, and exit code 0 says that it does\n",
                job->target.name, job->by, failure);
    else if (valid)
        fprintf(stderr, "sinter: '%s' does not fail: compiled, it has eager's bits; nothing to reduce\n",
                job->target.name);
    else
        fprintf(stderr, "sinter: '%s' does not run eagerly: `sinter verify` says why; nothing to reduce\n",
                job->target.name);
    return EXIT_wrong;
}

/* Of a graph whose inputs are given: its symbols are those numbers. */
static sn_graph *sized_graph(const ReduceJob *job, const Target *t) {
    TargetOptions options = job->target;
    options.compile.dynamic = SN_DYNAMIC_NEVER;
    return way_captured(&options, t);
}

/* A graph's own text, or what a call of the target captures. *text: mem_free. */
static int read_target(const ReduceJob *job, char **text) {
    sn_tensor *in[TARGET_INPUTS];
    Target t;
    int n = 0;
    if (!way_open(&job->target, &t)) return no_such_target(job->target.name);
    const bool sized = t.graph && job->target.n_inputs;
    sn_graph *const graph = sn_check() ? NULL : sized ? sized_graph(job, &t) : way_graph(&job->target, &t, in, &n);
    *text = graph ? mem_strdup(sn_graph_text(graph)) : NULL;
    if (graph) way_graph_free(&t, graph);
    const int code = t.exit_code;
    way_close(&t);
    return sn_check() || !*text ? report_error(code ? code : EXIT_wrong) : EXIT_done;
}

static void print_shrunk_json(const ReduceJob *job, const ShrinkSize *before, const ShrinkSize *now) {
    Text text = {0};
    put_json_pair(&text, "{", "target", job->target.name);
    put_json_pair(&text, ", ", "out", job->out);
    put_json_pair(&text, ", ", "failure", job->failure);
    printf("%s, \"ops\": [%d, %d], \"inputs\": [%d, %d], \"outputs\": [%d, %d], \"runs\": %d}\n", text_str(&text),
           before->ops, now->ops, before->inputs, now->inputs, before->outputs, now->outputs, job->runs);
    text_free(&text);
}

static int write_result(const ReduceJob *job, const char *text, const ShrinkSize *before) {
    const ShrinkSize now = shrink_size(text);
    if (file_write(job->out, text, strlen(text)) != ST_OK) return report_error(EXIT_environment);
    if (stopped) fprintf(stderr, "sinter: stopped by signal %d: the smallest graph so far\n", (int)stopped);
    if (job->json) print_shrunk_json(job, before, &now);
    fprintf(stderr, "%s: %d op%s to %d, %d input%s to %d, %d output%s to %d; %d runs; fails as before: %s\n", job->out,
            before->ops, before->ops == 1 ? "" : "s", now.ops, before->inputs, before->inputs == 1 ? "" : "s",
            now.inputs, before->outputs, before->outputs == 1 ? "" : "s", now.outputs, job->runs, job->failure);
    return stopped ? 128 + stopped : EXIT_done;
}

static int reduce_text(ReduceJob *job, char **text) {
    const ShrinkSize before = shrink_size(*text);
    if (test_text(job, *text, job->failure, sizeof job->failure) != ST_OK) return report_error(EXIT_environment);
    if (stopped) return 128 + stopped;
    if (!is_failure(job, job->failure)) return not_failing(job, job->failure);
    if (shrink_graph(text, shows_failure, job) != ST_OK) return report_error(EXIT_wrong);
    return write_result(job, *text, &before);
}

static int reduce(ReduceJob *job) {
    char *text = NULL;
    snprintf(job->folder, sizeof job->folder - 32, "%.900s/sinter-reduce-XXXXXX", environment_temporary());
    if (!mkdtemp(job->folder) || !program_folder(job->program, sizeof job->program - sizeof "/sinter")) {
        fprintf(stderr, "sinter: cannot make the folder '%s': %s\n", job->folder, strerror(errno));
        return EXIT_environment;
    }
    strcat(job->program, "/sinter");
    snprintf(job->file, sizeof job->file, "%.980s/small.sn", job->folder);
    snprintf(job->said, sizeof job->said, "%.980s/said", job->folder);
    signal(SIGINT, stop_reducing);
    signal(SIGTERM, stop_reducing);
    int code = read_target(job, &text);
    if (code == EXIT_done) code = reduce_text(job, &text);
    mem_free(text);
    unlink(job->file);
    unlink(job->said);
    rmdir(job->folder);
    return code;
}

/* The command ---------------------------------------------------------------------------------- */

/* What candidates are verified with, too: their inputs are those of their text. */
static void pass_on(ReduceJob *job, CommandLine *a) {
    if (!a->option || argument_is(a, "input") || argument_is(a, "outputs")) return;
    if (job->n_passed == MAX_PASSED) {
        arguments_refuse(a, "there are too many options from here on:");
        return;
    }
    Text text = {0};
    text_printf(&text, "--%s%s%s", a->option->name, a->value ? "=" : "", a->value ? a->value : "");
    job->passed[job->n_passed++] = text.at;
}

/* A candidate's ops are those that the target's library, or the sample, registers. */
static void pass_library(ReduceJob *job) {
    const char *const name = job->target.name, *const colon = strstr(name, ".so:");
    const bool sample = !target_is_file(name);
    if (job->target.library || !(colon || sample) || job->n_passed == MAX_PASSED) return;
    Text text = {0};
    text_printf(&text, "--library=%.*s", colon ? (int)(colon + 3 - name) : (int)strlen(name), name);
    job->passed[job->n_passed++] = text.at;
}

static bool reduce_argument(ReduceJob *job, CommandLine *a) {
    if (argument_text(a, "out", &job->out) || argument_text(a, "by", &job->by) ||
        argument_flag(a, "json", &job->json) || argument_int(a, "seconds", 1, 86400, &job->seconds))
        return true;
    if (!target_argument(a, &job->target)) return false;
    pass_on(job, a);
    return true;
}

static int check_arguments(const Command *self, const ReduceJob *job) {
    const char *const name = job->target.name;
    if (!name) return usage_error(self, "a target is missing after", self->name);
    if (!job->out) return usage_error(self, "-o FILE is missing after", name);
    if (target_is_plan(name)) return usage_error(self, "reduce wants a graph, not the saved plan", name);
    if (target_is_file(name)) return EXIT_done;
    return sample_exists(name) ? EXIT_done : no_such_target(name);
}

int command_reduce(const Command *self, int argc, char **argv) {
    ReduceJob job = {.target.n_out = 1, .seconds = 60};
    CommandLine a = arguments_begin(self, argc, argv);
    while (arguments_next(&a))
        if (!reduce_argument(&job, &a)) arguments_refuse(&a, "unexpected");
    int code = a.ended ? a.code : check_arguments(self, &job);
    if (!a.ended && code == EXIT_done) {
        if (!strcmp(job.target.name, "-") && keep_stdin() != ST_OK) code = report_error(EXIT_environment);
        pass_library(&job);
        if (code == EXIT_done && file_can_write(job.out) != ST_OK) code = report_error(EXIT_environment);
        if (code == EXIT_done) code = reduce(&job);
    }
    for (int i = 0; i < job.n_passed; i++) mem_free(job.passed[i]);
    return code;
}
