/* verify.c: `sinter verify`: one target in several ways side by side (ways.h), as a table of its results, gradients and
 * written arguments: the same bits as eager or the first element that differs, and how far from f64; and, where
 * something differs, the first op that does (locate.h); where all bits are eager's, the first op that is off f64 by
 * more than its row's bound (precise.h). Exit code 0: neither. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "frontend/tool/precise.h"
#include "frontend/tool/sample.h"
#include "runtime/base/alloc.h"
#include "runtime/base/text.h"

typedef struct VerifyJob {
    TargetOptions target;
    bool json, no_locate, no_bounds;
    WayRun runs[WAY_COUNT];
    Located first;
    Located imprecise;
    Way wrong; /* the first that differs; WAY_eager: none */
    int wrong_call;
    const char *verdict; /* same, inexact, differ, error (compiled calls fail), invalid (so do eager ones) */
} VerifyJob;

/* What differs -------------------------------------------------------------------------------- */

static bool value_differs(const VerifyJob *job, Way way, int call, int i) {
    int64_t element, n;
    const WayValues *const got = &job->runs[way].calls[call], *const eager = &job->runs[WAY_eager].calls[call];
    return !host_values_same(&got->at[i], &eager->at[i], &element, &n);
}

/* The first call in which the value differs, or -1. */
static int differing_call(const VerifyJob *job, Way way, int i) {
    const int n = job->runs[way].n_calls, most = job->runs[WAY_eager].n_calls;
    for (int call = 0; call < n && call < most; call++)
        if (value_differs(job, way, call, i)) return call;
    return -1;
}

static int count_values(const VerifyJob *job) {
    return job->runs[WAY_eager].n_calls ? way_values_count(&job->runs[WAY_eager].calls[0]) : 0;
}

static bool compares(Way way) { return way == WAY_unfused || way == WAY_fused; }

static bool same_error(const ErrorSlot *a, const ErrorSlot *b) {
    return a->status == b->status && !strcmp(a->message, b->message);
}

static void record_wrong(VerifyJob *job, Way way, int call, const char *verdict) {
    if (job->wrong && (job->wrong_call <= call || !strcmp(job->verdict, "differ"))) return;
    job->wrong = way, job->wrong_call = call;
    job->verdict = verdict;
}

static void judge(VerifyJob *job) {
    const ErrorSlot *const eager = &job->runs[WAY_eager].error;
    job->verdict = eager->status ? "invalid" : "same";
    for (Way way = WAY_unfused; way <= WAY_fused; way++) {
        if (!way_has(&job->target, way)) continue;
        const WayRun *const run = &job->runs[way];
        if (!same_error(&run->error, eager)) record_wrong(job, way, run->n_calls, "error");
        for (int i = 0; i < count_values(job); i++) {
            const int call = differing_call(job, way, i);
            if (call >= 0) record_wrong(job, way, call, "differ");
        }
    }
}

/* The table ----------------------------------------------------------------------------------- */

static bool is_written(const VerifyJob *job, int i) {
    const WayValues *const first = &job->runs[WAY_eager].calls[0];
    const int input = i - first->n_results - first->n_inputs;
    int64_t element, n;
    if (!host_values_same(&first->at[i], &first->before[input], &element, &n)) return true;
    return differing_call(job, WAY_unfused, i) >= 0 || differing_call(job, WAY_fused, i) >= 0;
}

/* Gradients that nobody asked for, and arguments that stay as they are, are no rows. */
static bool is_shown(const VerifyJob *job, int i) {
    const WayValues *const first = &job->runs[WAY_eager].calls[0];
    if (i < first->n_results) return true;
    if (i < first->n_results + first->n_inputs) return first->at[i].dtype != DT_default;
    return is_written(job, i);
}

/* How far the last call's value lies from f64; false: there is nothing to compare. */
static bool error_of(const VerifyJob *job, Way way, int i, HostError *error) {
    const int last = WAY_CALLS - 1;
    const WayValues *const exact = &job->runs[WAY_f64].calls[last];
    if (job->runs[way].n_calls != WAY_CALLS || job->runs[WAY_f64].n_calls != WAY_CALLS) return false;
    const HostValue *const value = &job->runs[way].calls[last].at[i];
    /* a graph has what was closed over among its inputs */
    if (i >= exact->n_results + exact->n_inputs || !host_value_measured(value, &exact->at[i])) return false;
    *error = host_value_error(value, &exact->at[i]);
    return true;
}

static void print_error(const VerifyJob *job, Way way, int i, Text *text) {
    HostError error;
    if (error_of(job, way, i, &error))
        text_printf(text, "  %10.3g  %8.3g", error.most, error.ulps);
    else
        text_printf(text, "  %10s  %8s", "-", "-");
}

static void print_way_row(const VerifyJob *job, Way way, int i, Text *text) {
    const int call = compares(way) ? differing_call(job, way, i) : -1;
    const bool ran = job->runs[way].n_calls > 0;
    text_printf(text, "%-12s %-9s", way_name(way, &job->target),
                way == WAY_eager ? "-"
                : !ran           ? "no call"
                : call >= 0      ? "differ"
                                 : "same");
    print_error(job, way, i, text);
    text_puts(text, "\n");
    if (call < 0) return;
    text_printf(text, "%41s call %d: ", "", call + 1);
    host_values_print(&job->runs[way].calls[call].at[i], &job->runs[WAY_eager].calls[call].at[i], text);
    text_puts(text, "\n");
}

static void print_value(const VerifyJob *job, int i, Text *text) {
    char name[64];
    Text type = {0};
    const WayValues *const values = &job->runs[WAY_eager].calls[0];
    way_value_name(values, i, name, sizeof name);
    host_value_type(&values->at[i], &type);
    for (Way way = WAY_eager; way <= WAY_fused; way++) {
        if (!way_has(&job->target, way)) continue;
        text_printf(text, "%-23s %-17s ", way ? "" : name, way ? "" : text_str(&type));
        print_way_row(job, way, i, text);
    }
    text_free(&type);
}

/* What the rows do not say of a way: its error, why its calls were not compiled, why there is no f64. */
static bool print_reason(const VerifyJob *job, Way way, Text *note) {
    const WayRun *const run = &job->runs[way];
    const char *const name = way_name(way, &job->target);
    if (way == WAY_f64) {
        if (run->error.status) text_printf(note, "f64: none: %s", run->error.message);
    } else if (way == WAY_eager) {
        if (run->error.status) text_printf(note, "eager: error in call %d: %s", run->n_calls + 1, run->error.message);
    } else if (run->error.status && !same_error(&run->error, &job->runs[WAY_eager].error)) {
        text_printf(note, "%s: error in call %d, where eager has none: %s", name, run->n_calls + 1, run->error.message);
    } else if (run->n_calls && run->path != SN_PATH_COMPILED) {
        text_printf(note, "%s: %s", name, *run->reason ? run->reason : "its calls were not compiled");
    }
    return note->n;
}

/* Why no first op was found; none was looked for: NULL. */
static const char *unfound(const VerifyJob *job) {
    return job->wrong && !job->no_locate && !job->first.found ? job->first.nothing : NULL;
}

static void print_notes(const VerifyJob *job, Text *text) {
    for (Way way = WAY_eager; way < WAY_COUNT; way++) {
        Text note = {0};
        if (print_reason(job, way, &note)) text_printf(text, "%s\n", text_str(&note));
        text_free(&note);
    }
    if (unfound(job)) text_printf(text, "%s: no first op: %s\n", way_name(job->wrong, &job->target), unfound(job));
    if (*job->imprecise.nothing) text_printf(text, "bounds: not looked at: %s\n", job->imprecise.nothing);
}

static void print_first(const VerifyJob *job, Text *text) {
    const Located *const first = &job->first;
    if (!first->found) return;
    text_printf(text, "first op that differs, %s%s: %s%s%s\n    %s\n    %s\n", way_name(job->wrong, &job->target),
                first->backward ? ", among those of the gradients" : "", first->op, *first->place ? " at " : "",
                first->place, first->text, first->how);
}

static void print_imprecise(const VerifyJob *job, Text *text) {
    const Located *const at = &job->imprecise;
    if (!at->found) return;
    text_printf(text, "first op beyond its bound: %s%s%s\n    %s\n    %s\n", at->op, *at->place ? " at " : "",
                at->place, at->text, at->how);
}

static void print_table(const VerifyJob *job, Text *text) {
    text_printf(text, "%-23s %-17s %-12s %-9s  %10s  %8s\n", "value", "type", "way", "bits", "off f64 by", "ulps");
    for (int i = 0; i < count_values(job); i++)
        if (is_shown(job, i)) print_value(job, i, text);
    print_notes(job, text);
    print_first(job, text);
    print_imprecise(job, text);
}

/* JSON ---------------------------------------------------------------------------------------- */

static void print_key(Text *text, const char *key, const char *value) {
    text_printf(text, "\"%s\": ", key);
    text_json_string(text, value);
}

static void print_measure(Text *text, const char *key, double value) {
    text_printf(text, isfinite(value) ? ", \"%s\": %.9g" : ", \"%s\": \"%g\"", key, value);
}

/* Keys that are only there where the table has a number. */
static void print_json_error(const VerifyJob *job, Way way, int i, Text *text) {
    HostError error;
    if (!error_of(job, way, i, &error)) return;
    print_measure(text, "off_f64", error.most);
    print_measure(text, "ulps", error.ulps);
}

static void print_json_way(const VerifyJob *job, Way way, int i, Text *text) {
    const int call = differing_call(job, way, i);
    Text how = {0};
    if (call >= 0) host_values_print(&job->runs[way].calls[call].at[i], &job->runs[WAY_eager].calls[call].at[i], &how);
    text_printf(text, ", \"%s\": {\"same\": %s, \"call\": %d, ", way == WAY_fused ? "fused" : "unfused",
                !job->runs[way].n_calls ? "null"
                : call < 0              ? "true"
                                        : "false",
                call + 1);
    print_key(text, "how", text_str(&how));
    print_json_error(job, way, i, text);
    text_puts(text, "}");
    text_free(&how);
}

static void print_json_value(const VerifyJob *job, int i, Text *text) {
    char name[64];
    Text type = {0};
    const WayValues *const values = &job->runs[WAY_eager].calls[0];
    way_value_name(values, i, name, sizeof name);
    host_value_type(&values->at[i], &type);
    text_puts(text, "{");
    print_key(text, "name", name);
    text_puts(text, ", ");
    print_key(text, "type", text_str(&type));
    text_free(&type);
    print_json_error(job, WAY_eager, i, text);
    for (Way way = WAY_unfused; way <= WAY_fused; way++) print_json_way(job, way, i, text);
    text_puts(text, "}");
}

static void print_json_notes(const VerifyJob *job, Text *text) {
    const char *between = "";
    text_puts(text, "\"notes\": [");
    for (Way way = WAY_eager; way < WAY_COUNT; way++) {
        Text note = {0};
        if (print_reason(job, way, &note)) {
            text_puts(text, between);
            text_json_string(text, text_str(&note));
            between = ", ";
        }
        text_free(&note);
    }
    if (unfound(job)) {
        Text note = {0};
        text_printf(&note, "%s: no first op: %s", way_name(job->wrong, &job->target), unfound(job));
        text_puts(text, between);
        text_json_string(text, text_str(&note));
        text_free(&note);
        between = ", ";
    }
    if (*job->imprecise.nothing) {
        Text note = {0};
        text_printf(&note, "bounds: not looked at: %s", job->imprecise.nothing);
        text_puts(text, between);
        text_json_string(text, text_str(&note));
        text_free(&note);
    }
    text_puts(text, "], ");
}

static void print_json_located(Text *text, const char *key, const Located *located) {
    const char *const keys[] = {"op", "place", "text", "how"};
    const char *const values[] = {located->op, located->place, located->text, located->how};
    if (!located->found) return;
    text_printf(text, ", \"%s\": {", key);
    for (int i = 0; i < 4; i++) {
        text_puts(text, i ? ", " : "");
        print_key(text, keys[i], values[i]);
    }
    text_puts(text, "}");
}

static void print_json(const VerifyJob *job, Text *text) {
    int n = 0;
    text_puts(text, "{");
    print_key(text, "target", job->target.name);
    text_puts(text, ", ");
    print_key(text, "verdict", job->verdict);
    text_puts(text, ", \"values\": [");
    for (int i = 0; i < count_values(job); i++) {
        if (!is_shown(job, i)) continue;
        text_puts(text, n++ ? ", " : "");
        print_json_value(job, i, text);
    }
    text_puts(text, "], ");
    print_json_notes(job, text);
    print_key(text, "error", job->wrong ? job->runs[job->wrong].error.message : job->runs[WAY_eager].error.message);
    print_json_located(text, "first", &job->first);
    print_json_located(text, "beyond_bound", &job->imprecise);
    text_puts(text, "}\n");
}

/* The command --------------------------------------------------------------------------------- */

/* The error of a way, as report_error prints the pending one. */
static int report_run(const WayRun *run) {
    *error_slot() = run->error;
    return report_error(run->exit_code);
}

static int finish(const VerifyJob *job) {
    Text text = {0};
    const WayRun *const eager = &job->runs[WAY_eager];
    const bool invalid = eager->error.status && !eager->n_calls && !job->wrong;
    if (job->json)
        print_json(job, &text);
    else if (!invalid)
        print_table(job, &text);
    fputs(text_str(&text), stdout);
    text_free(&text);
    if (invalid) return job->json ? eager->exit_code : report_run(eager);
    return strcmp(job->verdict, "same") ? EXIT_wrong : EXIT_done;
}

static int verify(VerifyJob *job) {
    for (Way way = WAY_eager; way < WAY_COUNT; way++) way_run(&job->target, way, &job->runs[way]);
    judge(job);
    if (job->wrong && !job->no_locate) locate_difference(&job->target, job->wrong, job->wrong_call, &job->first);
    if (!strcmp(job->verdict, "same") && !job->no_bounds) {
        locate_imprecision(&job->target, &job->imprecise);
        if (job->imprecise.found) job->verdict = "inexact";
    }
    const int code = finish(job);
    for (Way way = WAY_eager; way < WAY_COUNT; way++) way_free(&job->runs[way]);
    return code;
}

static int check_target(const Command *self, const TargetOptions *o) {
    if (!o->name) return usage_error(self, "a target is missing after", self->name);
    if (target_is_file(o->name)) return EXIT_done;
    if (!sample_exists(o->name)) return no_such_target(o->name);
    return o->given ? usage_error(self, "a sample has inputs and modes of its own, and takes no", o->given) : EXIT_done;
}

int command_verify(const Command *self, int argc, char **argv) {
    VerifyJob job = {.target.n_out = 1};
    CommandLine a = arguments_begin(self, argc, argv);
    while (arguments_next(&a))
        if (!(argument_flag(&a, "json", &job.json) || argument_flag(&a, "no-locate", &job.no_locate) ||
              argument_flag(&a, "no-bounds", &job.no_bounds) || target_argument(&a, &job.target)))
            arguments_refuse(&a, "unexpected");
    if (a.ended) return a.code;
    const int code = check_target(self, &job.target);
    if (code != EXIT_done) return code;
    if (target_is_plan(job.target.name)) job.no_locate = job.no_bounds = true; /* its code is of its cases as a whole */
    if (!strcmp(job.target.name, "-") && keep_stdin() != ST_OK) return report_error(EXIT_environment);
    return verify(&job);
}
