/* report.c: SINTER_REPORT: what a function says of itself when it is freed, so that any program can
 * be explained from outside: "explain", "explain-json" or "dump:<stage>", appended to
 * SINTER_REPORT_FILE (absent: stderr). */
#include <errno.h>
#include <stdio.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "runtime/base/environment.h"
#include "runtime/base/log.h"
#include "runtime/capture/function/explain.h"
#include "runtime/capture/function/function.h"
#include "runtime/core/settings.h"

static void make_text(sn_function *fn, const char *report, Text *text) {
    if (!strcmp(report, "explain"))
        explain_text(fn, text);
    else if (!strcmp(report, "explain-json"))
        explain_json(fn, text);
    else if (!strncmp(report, "dump:", 5))
        explain_dump(fn, report + 5, text);
}

static bool is_report(const char *report) {
    if (!strcmp(report, "explain") || !strcmp(report, "explain-json")) return true;
    return !strncmp(report, "dump:", 5) && dump_find(report + 5, strcspn(report + 5, "@")) < DUMP_COUNT;
}

static void warn_once(const char *report) {
    static atomic_bool warned;
    if (!atomic_exchange(&warned, true))
        LOG(general, WARNING,
            "SINTER_REPORT: '%s' is none of explain, explain-json and dump:STAGE with a stage of "
            "`sinter dump`",
            report);
}

/* Functions of mode EAGER and those never called have none. */
static bool has_story(const sn_function *fn) { return fn->variants.n || fn->failures.n || fn->breaks.n; }

void function_report(sn_function *fn) {
    const char *const report = environment("SINTER_REPORT"), *const path = environment("SINTER_REPORT_FILE");
    if (LIKELY(!report || !*report)) return;
    if (!is_report(report)) warn_once(report);
    if (!has_story(fn) || !is_report(report)) return;
    Text text = {0};
    make_text(fn, report, &text);
    FILE *const file = path && *path ? fopen(path, "a") : stderr;
    if (!file) LOG(general, WARNING, "SINTER_REPORT_FILE: '%s' cannot be written: %s", path, strerror(errno));
    if (file) {
        fputs(text_str(&text), file);
        if (text.n && text.at[text.n - 1] != '\n') fputc('\n', file);
        if (file != stderr) fclose(file);
    }
    text_free(&text);
}
