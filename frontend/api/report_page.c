/* report_page.c: see report_page.h. */
#define _GNU_SOURCE /* memmem */
#include "frontend/api/report_page.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/api/memory_picture.h"
#include "frontend/api/svg.h"
#include "ir/dtype.h"
#include "runtime/base/alloc.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"

static const char style[] =
    "body{font:15px/1.4 system-ui,sans-serif;margin:2em;color:#1b1f24}"
    "pre{font:12px/1.45 ui-monospace,monospace;margin:0;overflow-x:auto}"
    ".stages{display:flex;gap:1em;overflow-x:auto;align-items:flex-start}"
    ".stage{flex:0 0 34em;border:1px solid #d0d7de;border-radius:6px;padding:.5em;overflow-x:auto}"
    ".kernel{border-left:3px solid #d0d7de;padding:0 1em;margin:1em 0}"
    ".kernel:target{border-color:#0969da;background:#f0f6ff}"
    "h4{margin:.3em 0}a.op{color:inherit;text-decoration:none}a.op:hover{background:#fff1c2}"
    ".cost{color:#57606a}td,th{padding:.1em .8em .1em 0;text-align:left;vertical-align:top}"
    ".slot{fill:#9ecbff;stroke:#0969da}svg text{font:11px sans-serif}svg{max-width:60em}";

/* Cutting texts up -------------------------------------------------------------------------------- */

const char *report_graph_of(const char *dump, int graph, size_t *n) {
    char head[32];
    const int length = snprintf(head, sizeof head, "# graph %d\n", graph);
    for (const char *at = dump; at && (at = strstr(at, head)); at++) {
        if (at != dump && at[-1] != '\n') continue;
        const char *const end = strstr(at + length, "\n# graph ");
        *n = end ? (size_t)(end + 1 - at) - (size_t)length : strlen(at + length);
        return at + length;
    }
    *n = 0;
    return NULL;
}

const char *report_part_of(const char *text, size_t *n, const char *part) {
    char head[32];
    if (!strcmp(part, "graph")) return text;
    const int length = snprintf(head, sizeof head, "# %s\n", part);
    const char *const found = memmem(text, *n, head, (size_t)length);
    if (!found) return NULL;
    const char *const begin = found + length, *const end = memmem(begin, *n - (size_t)(begin - text), "\n# ", 3);
    *n = end ? (size_t)(end + 1 - begin) : *n - (size_t)(begin - text);
    return begin;
}

const char *report_text(ReportTexts *texts, const char *stage) {
    for (int i = 0; i < texts->n; i++)
        if (!strcmp(texts->stages[i], stage)) return texts->texts[i];
    char *const name = mem_strdup(stage), *const text = mem_strdup(sn_dump(texts->fn, stage));
    if (error_pending() == ST_UNSUPPORTED) error_clear(); /* a saved plan has no graphs: its columns are left out */
    if (!name || !text || texts->n == COUNT_OF(texts->texts)) {
        mem_free(name), mem_free(text);
        return "";
    }
    texts->stages[texts->n] = name;
    return texts->texts[texts->n++] = text;
}

static void texts_free(ReportTexts *texts) {
    for (int i = 0; i < texts->n; i++) mem_free(texts->stages[i]), mem_free(texts->texts[i]);
}

/* From the JSON of explain ---------------------------------------------------------------------- */

static void print_string(Text *page, const Json *object, const char *key) {
    const char *const string = json_string(json_get(object, key));
    if (string) svg_words(page, string);
}

static long long count_of(const Json *object, const char *key) {
    const Json *const value = json_get(object, key);
    return value ? (long long)double_to_i64(value->number) : 0;
}

static void print_item(Text *page, const Json *item) {
    text_puts(page, "<li>");
    if (json_string(item)) {
        svg_words(page, json_string(item));
    } else {
        const char *between = "";
        for (int i = 0; i < item->n; i++) {
            const Json *const member = &item->items[i];
            text_printf(page, "%s%s ", between, member->key);
            if (json_string(member))
                svg_words(page, json_string(member));
            else
                text_printf(page, "%g", member->number);
            between = ", ";
        }
    }
    text_puts(page, "</li>\n");
}

/* A branch of the tree: open where there is something. The title's plural is with an s behind the noun. */
static void print_branch(Text *page, const char *noun, const char *rest, const Json *list) {
    const int n = list ? list->n : 0;
    text_printf(page, "<li><details%s><summary>%d %s%s%s</summary><ul>\n", n ? " open" : "", n, noun,
                n == 1 || !*noun ? "" : "s", rest);
    for (int i = 0; i < n; i++) print_item(page, &list->items[i]);
    text_puts(page, "</ul></details></li>\n");
}

static void print_guards(Text *page, const Json *graph) {
    text_printf(page, "<li><details><summary>graph %lld: checked at each call</summary><pre>", count_of(graph, "id"));
    print_string(page, graph, "guards");
    text_puts(page, "</pre></details></li>\n");
}

static void print_tree(Text *page, const Json *all) {
    text_puts(page, "<h2>Guards, breaks and recompiles</h2>\n<ul class=\"tree\">\n");
    print_branch(page, "break", "", json_get(all, "breaks"));
    print_branch(page, "recompile", "", json_get(all, "recompiles"));
    print_branch(page, "", "not compiled", json_get(all, "failures"));
    print_branch(page, "", "run eagerly", json_get(all, "fallbacks"));
    const Json *const graphs = json_get(all, "graphs");
    for (int i = 0; graphs && i < graphs->n; i++) print_guards(page, &graphs->items[i]);
    text_puts(page, "</ul>\n");
}

double report_kernel_ns(const ReportTexts *texts, const char *kernel) {
    for (int i = 0; texts->steps && i < texts->steps->n; i++) {
        const Json *const row = &texts->steps->items[i];
        const char *const kind = json_string(json_get(row, "kind")), *const name = json_string(json_get(row, "name"));
        const long long calls = count_of(row, "calls");
        if (!kind || !name || strcmp(kind, "step") || strcmp(name, kernel) || !calls) continue;
        return (double)count_of(row, "total_ns") / (double)calls;
    }
    return 0;
}

/* Time and what passes through memory in it. */
static void print_kernel_time(Text *page, const ReportTexts *texts, const Json *kernel) {
    const char *const name = json_string(json_get(kernel, "name"));
    const double ns = name ? report_kernel_ns(texts, name) : 0;
    if (ns > 0)
        text_printf(page, "<td class=\"time\">%.3f us</td><td>%.2f GB/s</td>", ns / 1e3,
                    (double)count_of(kernel, "bytes") / ns);
    else
        text_puts(page, "<td>not run</td><td></td>");
}

static void print_kernel_row(Text *page, const ReportTexts *texts, const Json *kernel) {
    const Json *const ops = json_get(kernel, "ops");
    text_puts(page, "<tr><td>");
    print_string(page, kernel, "name");
    text_puts(page, "</td><td>");
    print_string(page, kernel, "kind");
    text_printf(page, "</td><td>%lld</td>", count_of(kernel, "bytes"));
    print_kernel_time(page, texts, kernel);
    text_puts(page, "<td>");
    for (int i = 0; ops && i < ops->n; i++) text_printf(page, "%s%s", i ? ", " : "", json_string(&ops->items[i]));
    text_puts(page, "</td></tr>\n");
}

static void print_part(Text *page, const ReportTexts *texts, const Json *part) {
    const Json *const kernels = json_get(part, "kernels");
    text_puts(page, "<table class=\"kernels\"><caption>");
    print_string(page, part, "part");
    text_printf(page,
                ": %lld bytes moved, %lld saved by fusion</caption><tr><th>kernel</th><th>kind</th><th>bytes</th>"
                "<th>time of a run</th><th>moved</th><th>ops</th></tr>\n",
                count_of(part, "moved_bytes"), count_of(part, "saved_bytes"));
    for (int i = 0; kernels && i < kernels->n; i++) print_kernel_row(page, texts, &kernels->items[i]);
    text_puts(page, "</table>\n");
}

static void print_times(Text *page, const Json *graph) {
    static const char *const keys[] = {"trace_ms", "passes_ms", "lower_ms", "codegen_ms", "load_ms"};
    text_puts(page, "<p>Compiled in ms:");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const Json *const ms = json_get(graph, keys[i]);
        text_printf(page, "%s %.*s %.3f", i ? "," : "", (int)strlen(keys[i]) - 3, keys[i], ms ? ms->number : 0);
    }
    text_puts(page, "</p>\n");
}

enum { MOST_PARTS = 4 };

static void print_graph(Text *page, ReportTexts *texts, const Json *graph) {
    const Json *const parts = json_get(graph, "parts");
    const char *names[MOST_PARTS];
    int n = 0;
    texts->parts = parts;
    text_printf(page, "<h2 id=\"g%lld\">Graph %lld: %lld ops, %lld kernels, %lld hits</h2>\n", count_of(graph, "id"),
                count_of(graph, "id"), count_of(graph, "ops"), count_of(graph, "kernels"), count_of(graph, "hits"));
    print_times(page, graph);
    for (int i = 0; parts && i < parts->n && n < MOST_PARTS; i++) {
        print_part(page, texts, &parts->items[i]);
        names[n++] = json_string(json_get(&parts->items[i], "part"));
    }
    text_puts(page, "<ul class=\"tree\">\n");
    print_branch(page, "merge", " that fusion made", json_get(graph, "fused"));
    print_branch(page, "merge", " that it refused", json_get(graph, "not_fused"));
    text_puts(page, "</ul>\n");
    if (n) report_stages(page, texts, (int)count_of(graph, "id"), names, n);
}

static void print_memory(Text *page, const Json *memory) {
    if (!memory) return;
    text_puts(page, "<h2>Memory after the calls</h2>\n<figure class=\"memory\">");
    memory_picture(memory, page);
    text_puts(page,
              "<figcaption>blocks from 513 bytes on; smaller tensors lie in their handles</figcaption></figure>\n");
}

static void print_counted(Text *page, int64_t n, const char *what, const char *after) {
    text_printf(page, "%lld %s%s%s", (long long)n, what, n == 1 ? "" : "s", after);
}

static void print_page(Text *page, ReportTexts *texts, const Json *all, const Json *memory) {
    const Json *const graphs = json_get(all, "graphs");
    text_puts(page, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/><title>");
    print_string(page, all, "name");
    text_printf(page, "</title><style>%s</style></head>\n<body>\n<h1>", style);
    print_string(page, all, "name");
    text_puts(page, "</h1>\n<p>");
    print_counted(page, count_of(all, "calls"), "call", ", ");
    print_counted(page, count_of(all, "compiles"), "compile", ", ");
    print_counted(page, count_of(all, "recompiles_count"), "recompile", ", ");
    print_counted(page, graphs ? graphs->n : 0, "graph", "</p>\n");
    print_tree(page, all);
    for (int i = 0; graphs && i < graphs->n; i++) print_graph(page, texts, &graphs->items[i]);
    print_memory(page, memory);
    text_puts(page, "</body></html>\n");
}

static const Json *parsed(Arena *arena, const char *text, Status *status) {
    const Json *json = NULL;
    if (text && *status == ST_OK) *status = json_parse(arena, text, strlen(text), &json);
    return json;
}

Status report_page(sn_function *fn, const ReportSeen *seen, Text *page) {
    Arena *const arena = arena_new();
    Status status = arena ? ST_OK : ST_MEMORY;
    ReportTexts texts = {.fn = fn};
    texts.steps = json_get(parsed(arena, seen->profile, &status), "rows");
    const Json *const memory = parsed(arena, seen->memory, &status);
    const Json *const all = status == ST_OK ? parsed(arena, sn_explain_json(fn), &status) : NULL;
    if (all) print_page(page, &texts, all, memory);
    texts_free(&texts);
    arena_free(arena);
    return status == ST_OK ? error_pending() : status;
}

Status report_page_write(sn_function *fn, const ReportSeen *seen, const char *path) {
    Text page = {0};
    Status status = report_page(fn, seen, &page);
    if (status == ST_OK) status = file_write(path, text_str(&page), page.n);
    text_free(&page);
    return status;
}
