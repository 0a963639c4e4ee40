/* bench_compare.c: `sinter bench --compare OLD NEW`: two runs that were saved with --json, row by row. A figure has
 * changed where what most samples of one run took, between its 10th and 90th percentile, lies outside of the other's.
 */
#include <stdio.h>

#include "frontend/tool/bench_report.h"
#include "frontend/tool/tool.h"
#include "runtime/base/alloc.h"
#include "runtime/base/error.h"
#include "runtime/base/json.h"

static const char *const compared[] = {"eager_ns", "verify_ns", "call_ns", "eager_ms", "compiled_ms"};

static double number_of(const Json *line, const char *key, const char *suffix) {
    char whole[64];
    snprintf(whole, sizeof whole, "%s%s", key, suffix);
    const Json *const value = json_get(line, whole);
    return value && value->kind == JSON_number ? value->number : 0;
}

static const char *verdict_of(const Json *old, const Json *new, const char *key) {
    if (number_of(new, key, "_p10") > number_of(old, key, "_p90")) return "slower";
    return number_of(new, key, "_p90") < number_of(old, key, "_p10") ? "faster" : "same";
}

static int compare_lines(const char *row, const Json *old, const Json *new, bool json) {
    int n = 0;
    for (int i = 0; i < COUNT_OF(compared); i++) {
        const char *const key = compared[i];
        const double before = number_of(old, key, ""), after = number_of(new, key, "");
        if (!(before > 0 && after > 0)) continue;
        printf(json ? "{\"row\": \"%s\", \"figure\": \"%s\", \"ratio\": %.4f, \"old\": %.6g, \"new\": %.6g, \"is\": "
                      "\"%s\"}\n"
                    : "%-30s %-12s %.3f  (old %.6g, new %.6g)  %s\n",
               row, key, after / before, before, after, verdict_of(old, new, key));
        n++;
    }
    return n;
}

typedef struct SavedRun {
    char *text;
    Arena *arena;
    const Json *lines[1024];
    int n;
} SavedRun;

static Status read_lines(SavedRun *run) {
    for (const char *at = run->text; *at;) {
        const size_t n = strcspn(at, "\n");
        const Json *line = NULL;
        if (n) TRY(json_parse(run->arena, at, n, &line));
        if (line && !json_string(json_get(line, "row")))
            return error_raise(ST_PARSE, "a line of a saved run has no row");
        if (line && run->n < COUNT_OF(run->lines)) run->lines[run->n++] = line;
        at += n + (at[n] == '\n');
    }
    return run->n ? ST_OK : error_raise(ST_PARSE, "no row");
}

static Status read_run(const char *path, SavedRun *run) {
    size_t n;
    TRY(input_read(path, &run->text, &n));
    run->arena = arena_new();
    const Status status = run->arena ? read_lines(run) : ST_MEMORY;
    if (status == ST_PARSE) error_add_path(path);
    return status;
}

static void free_run(SavedRun *run) {
    mem_free(run->text);
    if (run->arena) arena_free(run->arena);
}

static const char *saved_row(const Json *line) { return json_string(json_get(line, "row")); }

static int compare_runs(const SavedRun *old, const SavedRun *new, bool json) {
    int n = 0;
    for (int i = 0; i < old->n; i++)
        for (int k = 0; k < new->n; k++)
            if (!strcmp(saved_row(old->lines[i]), saved_row(new->lines[k])))
                n += compare_lines(saved_row(old->lines[i]), old->lines[i], new->lines[k], json);
    return n;
}

int bench_compare(const char *old_path, const char *new_path, bool json) {
    static SavedRun old, new;
    Status status = read_run(old_path, &old);
    if (status == ST_OK) status = read_run(new_path, &new);
    if (status == ST_OK && !compare_runs(&old, &new, json))
        status = error_raise(ST_VALUE, "'%s' and '%s' have no row in common", old_path, new_path);
    free_run(&old);
    free_run(&new);
    return status == ST_OK ? EXIT_done : report_error(status == ST_IO ? EXIT_environment : EXIT_wrong);
}
