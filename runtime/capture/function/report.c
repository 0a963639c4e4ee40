/* report.c: SINTER_REPORT: what a function says of itself when it is freed, or at the program's end, so that any
 * program can be explained from outside: "explain", "explain-json" or "dump:<stage>", appended to SINTER_REPORT_FILE
 * (absent: stderr); or "html:<file>", a page of each. Only where it is set are functions listed. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "runtime/base/alloc.h"
#include "runtime/base/environment.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/capture/function/explain.h"
#include "runtime/capture/function/function.h"
#include "runtime/compile/llvm_module.h"
#include "runtime/core/settings.h"

static const char html[] = "html:";

static bool is_page(const char *report) { return !strncmp(report, html, strlen(html)) && report[strlen(html)]; }

static void make_text(sn_function *fn, const char *report, Text *text) {
    if (!strcmp(report, "explain"))
        explain_text(fn, text);
    else if (!strcmp(report, "explain-json"))
        explain_json(fn, text);
    else if (!strncmp(report, "dump:", 5))
        explain_dump(fn, report + 5, text);
}

static bool is_report(const char *report) {
    if (!strcmp(report, "explain") || !strcmp(report, "explain-json") || is_page(report)) return true;
    return !strncmp(report, "dump:", 5) && dump_find(report + 5, strcspn(report + 5, "@")) < DUMP_COUNT;
}

static void warn_once(const char *report) {
    static atomic_bool warned;
    if (!atomic_exchange(&warned, true))
        LOG(general, WARNING,
            "SINTER_REPORT: '%s' is none of explain, explain-json, dump:STAGE with a stage of `sinter dump`, and "
            "html:FILE",
            report);
}

/* Functions of mode EAGER and those never called have none. */
static bool has_story(const sn_function *fn) { return fn->variants.n || fn->failures.n || fn->breaks.n; }

static void report_text(sn_function *fn, const char *report) {
    const char *const path = environment("SINTER_REPORT_FILE");
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

/* "a/f.html", and "a/f-2.html" of the second. */
static void numbered_path(const char *path, Text *out) {
    static atomic_int pages;
    const int n = atomic_fetch_add(&pages, 1) + 1;
    const char *const slash = strrchr(path, '/'), *const dot = strrchr(slash ? slash : path, '.');
    const char *const suffix = dot ? dot : path + strlen(path);
    text_put(out, path, (size_t)(suffix - path));
    if (n > 1) text_printf(out, "-%d", n);
    text_puts(out, suffix);
}

/* What is pending in the program is so behind it, too. */
static void report_page(sn_function *fn, const char *path) {
    Text numbered = {0};
    const ErrorSlot kept = *error_slot();
    error_clear();
    numbered_path(path, &numbered);
    if (fn->page && fn->page(fn, text_str(&numbered)) != SN_OK)
        LOG(general, WARNING, "SINTER_REPORT: the page of '%s': %s", fn->name, error_slot()->message);
    text_free(&numbered);
    *error_slot() = kept;
}

/* Who is alive ----------------------------------------------------------------------------------- */

typedef struct LiveFunction {
    struct LiveFunction *next;
    sn_function *fn;
} LiveFunction;

static pthread_mutex_t live_lock = PTHREAD_MUTEX_INITIALIZER;
static LiveFunction *live; /* newest first */
static pid_t reporter;     /* a child of it reports what it frees, but nothing at its end */

/* NULL: the oldest one. */
static sn_function *take_live(const sn_function *fn) {
    sn_function *taken = NULL;
    pthread_mutex_lock(&live_lock);
    LiveFunction **at = &live;
    while (*at && (fn ? (*at)->fn != fn : (*at)->next != NULL)) at = &(*at)->next;
    LiveFunction *const found = *at;
    if (found) taken = found->fn, *at = found->next;
    pthread_mutex_unlock(&live_lock);
    mem_free(found);
    return taken;
}

static const char *wanted_report(void) {
    const char *const report = environment("SINTER_REPORT");
    return report && *report ? report : NULL;
}

static void report(sn_function *fn) {
    const char *const wanted = wanted_report();
    if (!wanted) return;
    if (!is_report(wanted)) warn_once(wanted);
    if (!has_story(fn) || !is_report(wanted)) return;
    if (is_page(wanted))
        report_page(fn, wanted + strlen(html));
    else
        report_text(fn, wanted);
}

static void report_all(void) {
    if (getpid() != reporter) return;
    for (sn_function *fn; (fn = take_live(NULL));) report(fn);
}

/* What writes code is open before, so that it is there still at the end. */
static void open_reports(void) {
    reporter = getpid();
    llvm_module();
    atexit(report_all);
}

void function_report_begin(sn_function *fn) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (LIKELY(!wanted_report())) return;
    pthread_once(&once, open_reports);
    LiveFunction *const made = mem_alloc(sizeof *made);
    if (!made) return;
    pthread_mutex_lock(&live_lock);
    *made = (LiveFunction){live, fn};
    live = made;
    pthread_mutex_unlock(&live_lock);
}

void function_report(sn_function *fn) {
    if (LIKELY(!wanted_report())) return;
    take_live(fn);
    report(fn);
}
