/* bench.c: `sinter bench`: which rows are timed, or which target, and how: eagerly and compiled in turn
 * (bench_time.c), beside the FMA and bandwidth probes of the same run. Cold compile times come from fresh processes of
 * the same program, started with --cold and one name. */
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "frontend/tool/bench_report.h"
#include "frontend/tool/bench_run.h"
#include "frontend/tool/bench_sizes.h"
#include "frontend/tool/sample.h"
#include "kernels/kernels.h"
#include "runtime/base/environment.h"
#include "runtime/base/error.h"
#include "runtime/core/pool.h"

enum { MOST_THREADS = 256, MOST_REPEATS = 1000 };

typedef struct Options {
    bool json, cold, digest, probes;
    const char *save; /* with digest */
    int height;       /* likewise; 0: all rows of its tensors */
    BenchFormat format;
    BenchHow how;
    double at_least; /* times as fast as eager; 0: no bound */
    const char *compare, *svg;
    int64_t sizes[MOST_SIZES];
    int n_sizes;
    int64_t bytes;               /* of the tensors of a row with streams */
    const char *against, *cache; /* cache: with cold: a folder that has code, or gets it */
    int rounds, threads;
    int n_names;
    char **names;
    const char *device_name; /* as it was given */
    TargetOptions target;    /* inputs and modes of a target; its name is names[0] */
    char **argv;             /* of the command, for the process that times it cold */
    int argc;
} Options;

static sn_device device_of(const Options *o) { return o->target.device_given ? (sn_device)o->target.device : SN_CPU; }

static void work_make(const BenchRow *row, const Options *o, Work *w) {
    int64_t sizes[BENCH_SIZES];
    const BenchDevice place = {device_of(o), row->dtype};
    *w = (Work){.kind = WORK_forward};
    memcpy(sizes, row->sizes, sizeof sizes);
    if (row->streams) sizes[0] = bench_rows_of(row, o->bytes);
    sn_scope scope = sn_scope_begin();
    row->make(w, sizes);
    if (place.device != SN_CPU || place.dtype) bench_place(w, row->name, &place);
    sn_scope_end(scope);
}

void bench_work_free(Work *w) {
    for (int i = 0; i < w->n_in; i++) sn_release(w->in[i]);
    if (w->closure_free) w->closure_free(w->closure);
}

static bool ended_well(pid_t child) {
    int status;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && !WEXITSTATUS(status);
}

bool bench_spawn(const char *program, char **argv, Text *out) {
    int pipes[2];
    if (pipe(pipes)) return false;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pipes[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, pipes[0]);
    pid_t child;
    const int failed = posix_spawn(&child, program, &actions, NULL, argv, environment_all());
    posix_spawn_file_actions_destroy(&actions);
    close(pipes[1]);
    char part[4096];
    for (ssize_t n; !failed && (n = read(pipes[0], part, sizeof part)) > 0;) text_put(out, part, (size_t)n);
    close(pipes[0]);
    return !failed && ended_well(child);
}

/* Runs `sinter bench --cold ...` and reads its one number. */
static double spawn_cold(char **argv) {
    Text text = {0};
    const double ms = bench_spawn("/proc/self/exe", argv, &text) ? atof(text_str(&text)) : 0;
    text_free(&text);
    return ms;
}

static void bench_row(const BenchRow *row, const Options *o, BenchReport *report) {
    Work w;
    if (row->warm) {
        report->warm = bench_warm(row->name, o->target.device_given ? o->device_name : NULL);
        return;
    }
    work_make(row, o, &w);
    if (row->nvrtc) {
        if (!sn_check()) bench_time_nvrtc(&w, report);
        bench_work_free(&w);
        return;
    }
    report->flops = row->flops;
    if (!sn_check()) bench_work(&w, &o->how, report);
    bench_work_free(&w);
    const bool has_pair = report->compiled.n && !report->is_call;
    if (has_pair && row->streams)
        report->copy_gbs = bench_copy_gbs(device_of(o), o->bytes);
    else if (has_pair && !o->target.device_given)
        report->cold_ms = spawn_cold((char *[]){"sinter", "bench", "--cold", (char *)row->name, NULL});
}

static bool wanted(const Options *o, const BenchRow *row) {
    const char *const name = row->name;
    for (int i = 0; i < o->n_names; i++)
        if (!strncmp(name, o->names[i], strlen(o->names[i]))) return true;
    return o->n_names == 0 && !row->streams == (device_of(o) == SN_CPU);
}

/* Targets ------------------------------------------------------------------------------------- */

static bool is_row(const char *prefix) {
    if (!*prefix) return false;
    for (const BenchRow *row = bench_rows; row->name; row++)
        if (!strncmp(row->name, prefix, strlen(prefix))) return true;
    return false;
}

static bool is_file(const char *name) { return target_is_file(name); }

static bool is_sample(const char *name) { return !is_file(name) && !is_row(name) && sample_exists(name); }

static bool is_target(const Options *o) { return o->n_names == 1 && (is_file(o->names[0]) || is_sample(o->names[0])); }

static WorkKind kind_of(const Options *o, const Target *t) {
    if (t->step) return WORK_step;
    return o->target.grad || t->backward ? WORK_backward : WORK_forward;
}

static void target_work(const Options *o, const Target *t, Work *w) {
    *w = (Work){.kind = kind_of(o, t),
                .graph = t->graph,
                .program = t->program,
                .plan = t->plan,
                .body = t->body,
                .closure = t->closure,
                .dynamic = o->target.compile.dynamic,
                .n_in = t->n_in,
                .numbers = t->numbers,
                .n_out = t->n_out ? t->n_out : -1};
    if (t->n_in > WORK_INPUTS || t->n_out > WORK_OUTPUTS)
        error_raise(ST_UNSUPPORTED, "bench times at most %d inputs and %d outputs, not %d and %d", WORK_INPUTS,
                    WORK_OUTPUTS, t->n_in, t->n_out);
    else
        memcpy(w->in, t->in, sizeof *t->in * (size_t)t->n_in);
}

static double target_cold_ms(const Options *o) {
    char *argv[64] = {"sinter", "bench", "--cold"};
    if (o->argc > 60) return 0;
    memcpy(argv + 3, o->argv, sizeof *argv * (size_t)o->argc);
    if (!strcmp(o->names[0], "-")) rewind_stdin();
    return spawn_cold(argv);
}

static TargetOptions options_of(const Options *o) {
    TargetOptions options = o->target;
    options.name = o->names[0];
    return options;
}

static int with_target(const Options *o, int (*done)(const Options *o, Target *t)) {
    const TargetOptions options = options_of(o);
    Target target;
    if (!strcmp(options.name, "-") && keep_stdin() != ST_OK) return report_error(EXIT_environment);
    const bool found =
        is_file(options.name) ? target_open(&options, &target) : target_open_sample(options.name, &target);
    if (!found) return no_such_target(options.name);
    int code = sn_check() ? EXIT_done : done(o, &target);
    if (sn_check()) code = report_error(target.exit_code);
    target_close(&target);
    return code;
}

static int print_cold(const Options *o, Target *t) {
    Work w;
    target_work(o, t, &w);
    if (!sn_check()) printf("%.4f\n", bench_cold_ms(&w));
    return EXIT_done;
}

/* Rows and their probes ----------------------------------------------------------------------- */

static BenchProbes run_probes(const Options *o) {
    const BenchProbes p = {.fma = probe_fma_gflops(), .bandwidth = probe_bandwidth_gbs(), .threads = pool_threads()};
    bench_print_head(o->format, &p);
    return p;
}

/* By the upper end of the interval: chance alone fails it once in 40 times. */
static int check_bound(const Options *o, const char *name, const BenchReport *r) {
    if (!(o->at_least > 0) || !r->compiled.n || !r->eager.n || r->is_call || r->speedup.high >= o->at_least)
        return EXIT_done;
    fprintf(stderr, "sinter bench: %s: compiled is %.2f times as fast as eager (%.2f to %.2f), less than %g\n", name,
            r->speedup.median, r->speedup.low, r->speedup.high, o->at_least);
    return EXIT_wrong;
}

static sn_compile_mode mode_of(const Options *o) {
    return o->target.compile.mode == SN_COMPILE_REPLAY ? SN_COMPILE_REPLAY : SN_COMPILE_VERIFY;
}

static int time_target(const Options *o, Target *t) {
    Work w;
    BenchReport report = {0};
    target_work(o, t, &w);
    if (sn_check()) return EXIT_done;
    const BenchProbes probes = run_probes(o);
    if (w.plan)
        bench_plan(&w, &o->how, &report);
    else
        bench_pair(&w, &o->how, SN_COMPILE_EAGER, mode_of(o), &report);
    if (sn_check()) return EXIT_done;
    if (!w.plan) report.cold_ms = target_cold_ms(o);
    bench_print_row(o->format, o->names[0], &report, &probes);
    return check_bound(o, o->names[0], &report);
}

static bool has_symbols(const TargetOptions *options, Target *t) {
    int64_t numel[TARGET_INPUTS];
    for (int i = 0; i < t->n_in; i++) numel[i] = sn_numel(t->in[i]);
    target_inputs(options, t, DEFAULT_SIZE + 1);
    for (int i = 0; i < t->n_in && !sn_check(); i++)
        if (sn_numel(t->in[i]) != numel[i]) return true;
    if (!sn_check()) error_raise(ST_ARGUMENT, "--sizes: no size of '%s' is a symbol", options->name);
    return false;
}

/* One report a size; then all of them as a picture. */
static int time_sizes(const Options *o, Target *t) {
    const TargetOptions options = options_of(o);
    SizePoint points[MOST_SIZES];
    int code = EXIT_done;
    if (!has_symbols(&options, t)) return EXIT_done;
    const BenchProbes probes = run_probes(o);
    for (int i = 0; i < o->n_sizes && !sn_check(); i++) {
        Work w;
        BenchReport report = {0};
        char name[300];
        snprintf(name, sizeof name, "%.200s %lld", options.name, (long long)o->sizes[i]);
        bench_progress(i + 1, o->n_sizes, name);
        target_inputs(&options, t, o->sizes[i]);
        if (!sn_check()) target_work(o, t, &w);
        if (!sn_check()) bench_pair(&w, &o->how, SN_COMPILE_EAGER, mode_of(o), &report);
        bench_progress(0, 0, NULL);
        if (sn_check()) break;
        bench_print_row(o->format, name, &report, &probes);
        points[i] = (SizePoint){o->sizes[i], report.speedup, report.compiled.median};
        if (check_bound(o, name, &report) != EXIT_done) code = EXIT_wrong;
    }
    if (sn_check()) return code;
    if (o->format == FORMAT_text) curve_print(options.name, points, o->n_sizes);
    if (o->svg && curve_svg(o->svg, options.name, points, o->n_sizes) != ST_OK) t->exit_code = EXIT_environment;
    return code;
}

/* What is near is a row, or a sample. */
static int unknown_row(const Command *self, const char *name) {
    NearName near = near_begin(name);
    for (const BenchRow *row = bench_rows; row->name; row++) near_offer(&near, row->name);
    samples_offer(&near);
    return usage_error_near(self, "no row, sample, .sn file or library.so:symbol is", name, "", &near);
}

static int run_cold(const Options *o) {
    if (is_target(o)) return with_target(o, print_cold);
    for (const BenchRow *row = bench_rows; row->name; row++) {
        if (!wanted(o, row)) continue;
        Work w;
        work_make(row, o, &w);
        if (o->cache)
            bench_print_code_ms(&w);
        else
            printf("%.4f\n", bench_cold_ms(&w));
        bench_work_free(&w);
        return sn_check() ? report_error(EXIT_wrong) : EXIT_done;
    }
    return EXIT_usage;
}

static void make_plain(const BenchRow *row, Work *w) {
    static const Options plain = {.bytes = 1000000};
    work_make(row, &plain, w);
}

/* A tensor of two sizes and its row vectors: what it gives for few rows is as telling as for many. */
static BenchRow lower(BenchRow row, int height) {
    const bool has_rows = row.sizes[1] && !row.sizes[2] && !(row.flops > 0);
    if (height && has_rows && row.sizes[0] > height) row.sizes[0] = height;
    return row;
}

static int run_digests(const Options *o) {
    for (const BenchRow *row = bench_rows; row->name; row++) {
        const BenchRow chosen = lower(*row, o->height);
        if (wanted(o, row) && !row->warm && !row->nvrtc && bench_print_digest(&chosen, make_plain, o->save) != ST_OK)
            return report_error(EXIT_wrong);
    }
    return EXIT_done;
}

static int run_rows(const Options *o) {
    const BenchProbes probes = run_probes(o);
    int n = 0, at = 0, code = EXIT_done;
    for (const BenchRow *row = bench_rows; row->name; row++) n += wanted(o, row);
    for (const BenchRow *row = bench_rows; row->name; row++) {
        if (!wanted(o, row)) continue;
        BenchReport report = {0};
        bench_progress(++at, n, row->name);
        bench_row(row, o, &report);
        bench_progress(0, 0, NULL);
        if (sn_check()) return report_error(EXIT_wrong);
        bench_print_row(o->format, row->name, &report, &probes);
        if (check_bound(o, row->name, &report) != EXIT_done) code = EXIT_wrong;
    }
    return code;
}

/* Rows go to a device, too: it is no option of targets alone. */
static bool bench_target_argument(CommandLine *a, Options *o) {
    const char *const given = o->target.given;
    if (!a->option || !target_argument(a, &o->target)) return false;
    if (argument_is(a, "device")) o->target.given = given, o->device_name = a->value;
    return true;
}

static bool choose_folder(CommandLine *a, Options *o) {
    if (!argument_text(a, "cache", &o->cache)) return false;
    if (sn_setting_set("cache_dir", o->cache) != SN_OK) arguments_refuse_value(a, "code cannot be cached in");
    return true;
}

static bool sizes_argument(CommandLine *a, Options *o) {
    if (!argument_is(a, "sizes")) return false;
    if (!(o->n_sizes = curve_sizes(a->value, o->sizes))) arguments_refuse_value(a, "sizes are written as 8,4k,1M, not");
    return true;
}

static bool how_argument(CommandLine *a, BenchHow *how) {
    return argument_float(a, "seconds", 1e-6, 1e6, &how->seconds) ||
           argument_int(a, "warmup", 0, MOST_REPEATS, &how->warmup) ||
           argument_int(a, "repeats", 1, MOST_REPEATS, &how->repeats);
}

static bool output_argument(CommandLine *a, Options *o) {
    int format;
    if (argument_word(a, "format", &format)) return o->format = (BenchFormat)format, true;
    return argument_flag(a, "json", &o->json) || argument_text(a, "svg", &o->svg) ||
           argument_flag(a, "cold", &o->cold) || argument_flag(a, "probes", &o->probes) ||
           argument_flag(a, "digest", &o->digest) || argument_text(a, "save", &o->save) ||
           argument_int(a, "height", 1, 1 << 20, &o->height) || argument_float(a, "at-least", 1e-9, 1e9, &o->at_least);
}

static bool builds_argument(CommandLine *a, Options *o) {
    return argument_int(a, "rounds", 1, 99, &o->rounds) || argument_text(a, "against", &o->against) ||
           argument_text(a, "compare", &o->compare);
}

static void bench_argument(CommandLine *a, Options *o) {
    double bytes = (double)o->bytes;
    if (!a->option)
        o->names[o->n_names++] = (char *)a->value;
    else if (!(how_argument(a, &o->how) || output_argument(a, o) || builds_argument(a, o) || sizes_argument(a, o) ||
               argument_float(a, "bytes", 1, 1e12, &bytes) ||
               argument_int(a, "threads", 1, MOST_THREADS, &o->threads) || choose_folder(a, o) ||
               bench_target_argument(a, o)))
        arguments_refuse(a, "unexpected");
    o->bytes = (int64_t)bytes;
    if (o->json) o->format = FORMAT_json;
}

/* Options that would have no effect; NULL: none. */
static const char *useless(const Options *o) {
    const TargetOptions *const t = &o->target;
    if (o->against && t->given) return "--against times rows and samples as they are, and takes no";
    if (!is_target(o)) return t->given ? "rows have inputs and modes of their own, and take no" : NULL;
    if (t->vary) return "bench times calls of the same sizes, and takes no";
    if (t->compile.mode == SN_COMPILE_EAGER) return "compiled calls are timed against eager ones, so bench takes no";
    return is_sample(o->names[0]) && (t->device_given || t->n_inputs || t->grad || t->outs_given)
               ? "a sample has inputs, outputs, gradients and devices of its own, and takes no"
               : NULL;
}

/* Wrong usage of names and options together; EXIT_done: none. */
static int check_options(const Command *self, const Options *o) {
    for (int i = 0; i < o->n_names && !is_target(o); i++) {
        if (is_row(o->names[i]) || (o->against && is_sample(o->names[i]))) continue;
        if (!i && sample_exists(o->names[0]))
            return usage_error(self, "a sample is timed alone, not with", o->names[1]);
        return unknown_row(self, o->names[i]);
    }
    if (useless(o)) return usage_error(self, useless(o), o->target.given);
    if (o->n_sizes && !(is_target(o) && !is_sample(o->names[0])))
        return usage_error(self, "--sizes is for a text graph, not for", o->n_names ? o->names[0] : "rows");
    if (o->save && !(o->digest && o->n_names == 1))
        return usage_error(self, "--digest and one row must be given with", "--save");
    if (o->svg && !o->n_sizes) return usage_error(self, "--sizes must be given with", "--svg");
    if (o->against && (!o->n_names || is_file(o->names[0])))
        return o->n_names ? usage_error(self, "--against wants rows or samples, not", o->names[0])
                          : usage_error(self, "rows or samples must be given with", "--against");
    return EXIT_done;
}

/* Eager as it is after a while: its programs have their code. Where compiling is timed, and bits are looked at, it
 * makes none. */
static void choose_eager(const Options *o) {
    if (o->cold || o->digest)
        sn_setting_set("eager_compile", "never");
    else if (!strcmp(sn_setting_get("eager_compile"), "auto"))
        sn_setting_set("eager_compile", "always");
}

int command_bench(const Command *self, int argc, char **argv) {
    char *given[64], *names[64], threads[16];
    if (argc > COUNT_OF(given)) return usage_error(self, "too many arguments after", argv[63]);
    memcpy(given, argv, sizeof *argv * (size_t)argc);
    Options o = {.how = {.seconds = 0.5, .warmup = 3},
                 .bytes = 1000000000,
                 .rounds = 7,
                 .threads = 1,
                 .names = names,
                 .argv = given,
                 .argc = argc};
    sn_setting_set("cache_dir", "off"); /* what is timed cold compiles */
    CommandLine a = arguments_begin(self, argc, argv);
    while (arguments_next(&a)) bench_argument(&a, &o);
    if (a.ended) return a.code;
    snprintf(threads, sizeof threads, "%d", o.threads);
    if (sn_setting_set("threads", threads) != SN_OK) return report_error(EXIT_usage);
    if (o.compare && o.n_names != 1) return usage_error(self, "one other file must be given with", "--compare");
    if (o.compare) return bench_compare(o.compare, o.names[0], o.format == FORMAT_json);
    if (o.probes) return bench_print_probes(o.format == FORMAT_json) ? report_error(EXIT_environment) : EXIT_done;
    const int code = check_options(self, &o);
    if (code != EXIT_done) return code;
    if (o.against)
        return bench_against(&(Against){o.against, o.how.seconds, o.rounds, o.format == FORMAT_json}, o.names,
                             o.n_names);
    choose_eager(&o);
    if (o.cold) return run_cold(&o);
    if (o.digest) return run_digests(&o);
    return !is_target(&o) ? run_rows(&o) : with_target(&o, o.n_sizes ? time_sizes : time_target);
}
