/* profile.c: `sinter profile`: calls of a target under a profile (sinter/profile.h): its table and hints, and a trace
 * for Perfetto. Without --warm=0 the function is compiled before. */
#include <stdio.h>
#include <string.h>

#include "frontend/tool/arguments.h"
#include "frontend/tool/sample.h"
#include "kernels/kernels.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/core/pool.h"

enum { CALLS = 10, WARM = 3, MOST_CALLS = 1000000 };

typedef struct ProfileJob {
    TargetOptions target;
    sn_profile_options options;
    sn_profile_table_options table;
    const char *trace, *snapshot; /* files; NULL: none */
    int calls, warm;
    bool eager;
} ProfileJob;

static bool flags_argument(CommandLine *a, ProfileJob *job) {
    return argument_flag(a, "shapes", &job->options.shapes) || argument_flag(a, "stacks", &job->options.stacks) ||
           argument_flag(a, "memory", &job->options.memory) || argument_flag(a, "json", &job->table.json) ||
           argument_flag(a, "eager", &job->eager);
}

static bool values_argument(CommandLine *a, ProfileJob *job, int *sort) {
    return argument_text(a, "trace", &job->trace) || argument_text(a, "snapshot", &job->snapshot) ||
           argument_word(a, "sort", sort) || argument_int(a, "rows", 1, MOST_CALLS, &job->table.rows) ||
           argument_int(a, "calls", 1, MOST_CALLS, &job->calls) || argument_int(a, "warm", 0, MOST_CALLS, &job->warm);
}

/* False: it ends with *code. */
static bool parse_profile(const Command *self, int argc, char **argv, ProfileJob *job, int *code) {
    int sort = SN_PROFILE_BY_SELF;
    CommandLine a = arguments_begin(self, argc, argv);
    while (arguments_next(&a))
        if (!(flags_argument(&a, job) || values_argument(&a, job, &sort) || target_argument(&a, &job->target)))
            arguments_refuse(&a, "unexpected");
    job->table.sort = (sn_profile_sort)sort;
    job->table.by_shapes = job->options.shapes, job->table.by_stack = job->options.stacks;
    *code = a.code;
    if (a.ended) return false;
    if (!job->target.name)
        *code = usage_error(self, "a target is missing after", self->name);
    else if (!target_is_file(job->target.name) && job->target.given)
        *code = usage_error(self, "a sample has inputs and modes of its own, and takes no", job->target.given);
    return *code == EXIT_done;
}

static void call_often(const ProfileJob *job, Target *target, sn_function *fn, int calls) {
    sn_tensor *out[TARGET_OUTPUTS] = {NULL};
    for (int i = 0; i < calls && !sn_check(); i++) {
        const sn_scope scope = sn_scope_begin();
        if (i && job->target.vary) target_inputs(&job->target, target, DEFAULT_SIZE * (i % CALLS + 1));
        target_call(target, fn, out);
        sn_scope_end(scope);
    }
}

/* As `sinter bench` does; for all threads of the pool. */
static void measure_peaks(ProfileJob *job) {
    if (!job->options.shapes) return;
    job->table.peak_gflops = probe_fma_gflops() * pool_threads();
    job->table.peak_gbs = probe_bandwidth_gbs();
}

/* What the calls have left. */
static Status save_snapshot(const char *path) {
    const char *const text = sn_memory_snapshot(SN_CPU);
    return text ? file_replace(path, &(FileSpan){text, strlen(text)}, 1) : error_pending();
}

static int show_profile(ProfileJob *job, sn_profile *p) {
    sn_profile_stop(p);
    measure_peaks(job);
    if (job->trace && sn_profile_trace_save(p, job->trace) != SN_OK) return report_error(EXIT_environment);
    if (job->snapshot && save_snapshot(job->snapshot) != ST_OK) return report_error(EXIT_environment);
    fputs(sn_profile_table(p, &job->table), stdout);
    if (!job->table.json) printf("\n%s", sn_profile_hints(p));
    return sn_check() ? report_error(EXIT_environment) : EXIT_done;
}

static int profile_target(ProfileJob *job, Target *target) {
    const sn_compile_mode mode = job->eager ? SN_COMPILE_EAGER : job->target.compile.mode;
    sn_function *const fn = sn_check() ? NULL : target_compile(target, &job->target, mode);
    if (target->plan && sn_check() == SN_ERR_IO) target->exit_code = EXIT_environment;
    call_often(job, target, fn, job->warm);
    sn_profile *const p = sn_check() ? NULL : sn_profile_start(&job->options);
    call_often(job, target, fn, job->calls);
    const int code = sn_check() ? report_error(target->exit_code) : show_profile(job, p);
    sn_profile_free(p);
    sn_function_free(fn);
    return code;
}

int command_profile(const Command *self, int argc, char **argv) {
    ProfileJob job = {
        .options = {.size = sizeof job.options}, .table = {.size = sizeof job.table}, .calls = CALLS, .warm = WARM};
    int code;
    if (!parse_profile(self, argc, argv, &job, &code)) return code;
    Target target;
    if (job.snapshot) sn_setting_set("memory_sites", "1"); /* before the inputs are made */
    const bool found = target_is_file(job.target.name) ? target_open(&job.target, &target)
                                                       : target_open_sample(job.target.name, &target);
    if (!found) return no_such_target(job.target.name);
    const int done = profile_target(&job, &target);
    target_close(&target);
    return done;
}
