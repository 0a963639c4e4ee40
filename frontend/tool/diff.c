/* diff.c: `sinter diff A B`: two folders that the setting trace wrote, graph by graph and stage by stage: which differ,
 * the first line in which they do, and how. Graphs belong together by the name of their function and their order among
 * those of that name, so that numbers may differ. Two files, or two folders of one graph, are compared as they are.
 * Exit code 0: all is the same; 1: something differs. */
#define _GNU_SOURCE /* scandir */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "frontend/tool/arguments.h"
#include "frontend/tool/line_diff.h"
#include "ir/stage.h"
#include "runtime/base/alloc.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"

typedef struct DiffJob {
    const char *a, *b, *stage; /* stage NULL: all */
    bool brief, json;
    bool differ;
} DiffJob;

typedef struct NameList {
    struct dirent **at;
    int n;
} NameList;

static int is_no_dot(const struct dirent *entry) { return entry->d_name[0] != '.'; }

/* "9999-f" before "10000-f", "00-capture.sn" before "04-fused.sn". */
static int by_number(const struct dirent **a, const struct dirent **b) {
    const char *const name_a = (*a)->d_name, *const name_b = (*b)->d_name;
    if (isdigit((unsigned char)*name_a) && isdigit((unsigned char)*name_b)) {
        const unsigned long long in_a = strtoull(name_a, NULL, 10), in_b = strtoull(name_b, NULL, 10);
        if (in_a != in_b) return in_a < in_b ? -1 : 1;
    }
    return strcmp(name_a, name_b);
}

static Status list_names(const char *folder, NameList *out) {
    out->n = scandir(folder, &out->at, is_no_dot, by_number);
    if (out->n >= 0) return ST_OK;
    *out = (NameList){0};
    return error_raise(ST_IO, "cannot read the folder '%s': %s", folder, strerror(errno));
}

static void free_names(NameList *list) {
    for (int i = 0; i < list->n; i++) free(list->at[i]);
    free(list->at);
}

static Status ask_folder(const char *path, bool *folder) {
    struct stat at;
    if (stat(path, &at)) return error_raise(ST_IO, "cannot open '%s': %s", path, strerror(errno));
    *folder = S_ISDIR(at.st_mode);
    return ST_OK;
}

static char *path_in(const char *folder, const char *name) {
    Text path = {0};
    text_printf(&path, "%s/%s", folder, name);
    return path.at;
}

/* Files ---------------------------------------------------------------------------------------- */

static void put_shown(const char *line) {
    if (line)
        printf("%.*s", (int)strcspn(line, "\n"), line);
    else
        fputs("(its end)", stdout);
}

/* A string, or null where a file has ended. */
static void put_line_json(const char *key, const char *line) {
    Text text = {0}, cut = {0};
    if (line) text_put(&cut, line, strcspn(line, "\n")), text_json_string(&text, text_str(&cut));
    printf(", \"%s\": %s", key, line ? text_str(&text) : "null");
    text_free(&text);
    text_free(&cut);
}

static void begin_item_json(DiffJob *job, const char *key, const char *value) {
    Text text = {0};
    put_json_pair(&text, job->differ ? ",\n{" : "{\"differences\": [{", key, value);
    fputs(text_str(&text), stdout);
    text_free(&text);
    job->differ = true;
}

static void report_difference_json(DiffJob *job, const char *what, int line, const char *in_a, const char *in_b) {
    begin_item_json(job, "what", what);
    printf(", \"line\": %d", line);
    put_line_json("a", in_a);
    put_line_json("b", in_b);
    putchar('}');
}

static void report_difference(DiffJob *job, const char *what, const char *a, const char *b) {
    const char *in_a, *in_b;
    const int line = first_difference(a, b, &in_a, &in_b);
    if (!line) return;
    if (job->json) {
        report_difference_json(job, what, line, in_a, in_b);
        return;
    }
    job->differ = true;
    printf("%s: line %d\n  < ", what, line);
    put_shown(in_a);
    fputs("\n  > ", stdout);
    put_shown(in_b);
    putchar('\n');
}

/* what: "f, graph 1: 04-fused.sn". */
static Status diff_files(DiffJob *job, const char *what, const char *path_a, const char *path_b) {
    char *a = NULL, *b = NULL;
    size_t n;
    Text text = {0};
    Status status = file_read(path_a, &a, &n);
    if (status == ST_OK) status = file_read(path_b, &b, &n);
    if (status == ST_OK) report_difference(job, what, a, b);
    if (status == ST_OK && !job->brief && !job->json) line_diff(a, b, path_a, path_b, &text);
    fputs(text_str(&text), stdout);
    text_free(&text);
    mem_free(a);
    mem_free(b);
    return status == ST_OK ? error_pending() : status;
}

static void report_only(DiffJob *job, const char *folder, const char *name) {
    if (job->json) {
        begin_item_json(job, "only_in", folder);
        put_line_json("what", name);
        putchar('}');
        return;
    }
    printf("only in %s: %s\n", folder, name);
    job->differ = true;
}

/* Graphs --------------------------------------------------------------------------------------- */

/* "04-fused.sn" and "06-backward-1.sn" are of stages fused and backward. */
static bool is_wanted(const DiffJob *job, const char *file) {
    const size_t n = job->stage ? strlen(job->stage) : 0;
    if (!job->stage) return true;
    while (isdigit((unsigned char)*file)) file++;
    return *file == '-' && !strncmp(file + 1, job->stage, n) && (file[n + 1] == '.' || file[n + 1] == '-');
}

static int find_name(const NameList *list, const char *name) {
    for (int i = 0; i < list->n; i++)
        if (!strcmp(list->at[i]->d_name, name)) return i;
    return -1;
}

static Status diff_one(DiffJob *job, const char *graph, const char *a, const char *b, const char *file) {
    Text what = {0};
    char *const path_a = path_in(a, file), *const path_b = path_in(b, file);
    text_printf(&what, "%s%s%s", graph, *graph ? ": " : "", file);
    const Status status = path_a && path_b ? diff_files(job, text_str(&what), path_a, path_b) : ST_MEMORY;
    text_free(&what);
    mem_free(path_a);
    mem_free(path_b);
    return status;
}

static Status diff_graphs(DiffJob *job, const char *graph, const char *a, const char *b) {
    NameList in_a = {0}, in_b = {0};
    Status status = list_names(a, &in_a);
    if (status == ST_OK) status = list_names(b, &in_b);
    for (int i = 0; i < in_a.n && status == ST_OK; i++) {
        const char *const file = in_a.at[i]->d_name;
        if (!is_wanted(job, file)) continue;
        if (find_name(&in_b, file) < 0)
            report_only(job, a, file);
        else
            status = diff_one(job, graph, a, b, file);
    }
    for (int i = 0; i < in_b.n && status == ST_OK; i++)
        if (is_wanted(job, in_b.at[i]->d_name) && find_name(&in_a, in_b.at[i]->d_name) < 0)
            report_only(job, b, in_b.at[i]->d_name);
    free_names(&in_a);
    free_names(&in_b);
    return status;
}

/* Folders of many graphs ----------------------------------------------------------------------- */

/* "f" of "0012-f"; NULL: it is no folder of a graph. */
static const char *function_of(const char *name) {
    const size_t n = strspn(name, "0123456789");
    return n && name[n] == '-' ? name + n + 1 : NULL;
}

/* How many before it are of the same function. */
static int order_of(const NameList *list, int i) {
    int n = 0;
    for (int k = 0; k < i; k++) {
        const char *const other = function_of(list->at[k]->d_name);
        n += other && !strcmp(other, function_of(list->at[i]->d_name));
    }
    return n;
}

static int find_graph(const NameList *list, const char *function, int order) {
    for (int i = 0; i < list->n; i++) {
        const char *const other = function_of(list->at[i]->d_name);
        if (other && !strcmp(other, function) && order-- == 0) return i;
    }
    return -1;
}

static Status diff_graph(DiffJob *job, const NameList *in_a, int i, const NameList *in_b) {
    const char *const name = in_a->at[i]->d_name, *const function = function_of(name);
    const int order = order_of(in_a, i), k = find_graph(in_b, function, order);
    if (k < 0) return report_only(job, job->a, name), ST_OK;
    Text graph = {0};
    char *const a = path_in(job->a, name), *const b = path_in(job->b, in_b->at[k]->d_name);
    text_printf(&graph, "%s, graph %d", function, order);
    const Status status = a && b ? diff_graphs(job, text_str(&graph), a, b) : ST_MEMORY;
    text_free(&graph);
    mem_free(a);
    mem_free(b);
    return status;
}

static bool has_graphs(const NameList *list) {
    bool any = false;
    for (int i = 0; i < list->n; i++) any |= list->at[i]->d_type != DT_REG && function_of(list->at[i]->d_name) != NULL;
    return any;
}

static Status diff_folders(DiffJob *job, const NameList *in_a, const NameList *in_b) {
    if (!has_graphs(in_a) && !has_graphs(in_b)) return diff_graphs(job, "", job->a, job->b);
    for (int i = 0; i < in_a->n; i++)
        if (function_of(in_a->at[i]->d_name)) TRY(diff_graph(job, in_a, i, in_b));
    for (int i = 0; i < in_b->n; i++) {
        const char *const function = function_of(in_b->at[i]->d_name);
        if (function && find_graph(in_a, function, order_of(in_b, i)) < 0)
            report_only(job, job->b, in_b->at[i]->d_name);
    }
    return ST_OK;
}

static Status diff_all(DiffJob *job) {
    NameList in_a = {0}, in_b = {0};
    bool folder, other;
    TRY(ask_folder(job->a, &folder));
    TRY(ask_folder(job->b, &other));
    if (folder != other)
        return error_raise(ST_IO, "'%s' is a folder, and '%s' is not", folder ? job->a : job->b,
                           folder ? job->b : job->a);
    if (!folder) return diff_files(job, job->b, job->a, job->b);
    Status status = list_names(job->a, &in_a);
    if (status == ST_OK) status = list_names(job->b, &in_b);
    if (status == ST_OK) status = diff_folders(job, &in_a, &in_b);
    free_names(&in_a);
    free_names(&in_b);
    return status;
}

int command_diff(const Command *self, int argc, char **argv) {
    DiffJob job = {0};
    CommandLine a = arguments_begin(self, argc, argv);
    while (arguments_next(&a))
        if (!(argument_flag(&a, "brief", &job.brief) || argument_flag(&a, "json", &job.json) ||
              argument_text(&a, "stage", &job.stage) || argument_name(&a, &job.a) || argument_name(&a, &job.b)))
            arguments_refuse(&a, "unexpected");
    if (a.ended) return a.code;
    if (!job.b) return usage_error(self, "two folders or files are wanted after", self->name);
    if (job.stage && dump_find(job.stage, strlen(job.stage)) == DUMP_COUNT) return unknown_stage(self, job.stage);
    if (diff_all(&job) != ST_OK) return report_error(EXIT_environment);
    if (job.json) puts(job.differ ? "]}" : "{\"differences\": []}");
    return job.differ ? EXIT_wrong : EXIT_done;
}
