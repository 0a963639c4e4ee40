/* report_stages.c: see report_page.h. A line of a graph is an op of it; where it says "kernel=2" it leads to that
 * kernel's texts below, which are cut out of the stages loops, llvm and asm by the kernel's name. */
#define _GNU_SOURCE /* memmem */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/api/report_page.h"
#include "frontend/api/svg.h"
#include "ir/dtype.h"

typedef struct ReportedKernel {
    char name[128];
    int number;
    const char *loops;
    size_t n_loops;
} ReportedKernel;

/* The stages ------------------------------------------------------------------------------------ */

/* Its kernels as explain lists them, by number. */
static const Json *kernels_of(const ReportTexts *texts, const char *part) {
    for (int i = 0; texts->parts && i < texts->parts->n; i++)
        if (!strcmp(json_string(json_get(&texts->parts->items[i], "part")), part))
            return json_get(&texts->parts->items[i], "kernels");
    return NULL;
}

static const char *kernel_so(const ReportTexts *texts, const char *part, int number) {
    const Json *const kernels = kernels_of(texts, part);
    return kernels && number < kernels->n ? json_string(json_get(&kernels->items[number], "name")) : NULL;
}

/* Of "f32[64,128]"; 0: none, or its sizes are symbols. */
static int64_t type_bytes(const char *type, const char *end) {
    const char *at = memchr(type, '[', (size_t)(end - type));
    const DType dtype = at ? dtype_find(type, (size_t)(at - type)) : DT_default;
    if (dtype == DT_default) return 0;
    int64_t bytes = (int64_t)dtype_bytes(dtype);
    for (at++; at < end && *at != ']'; at += strspn(at, ", ")) {
        char *rest;
        if (!strchr("0123456789", *at)) return 0;
        bytes *= strtoll(at, &rest, 10);
        at = rest;
    }
    return bytes;
}

/* Behind "{1,6}!@cuda:0", which may follow a type's sizes. */
static const char *after_layout(const char *at, const char *end) {
    const char *const close = at < end && *at == '{' ? memchr(at, '}', (size_t)(end - at)) : NULL;
    if (close) at = close + 1;
    while (at < end && *at != ',' && *at != ';') at++;
    return at;
}

/* Of the results that "  # f32[64,1], f32[8]{2}; of aten::_softmax" names. */
static int64_t result_bytes(const char *line, size_t n) {
    const char *at = memmem(line, n, "# ", 2), *const end = line + n;
    int64_t bytes = 0;
    for (at = at ? at + 2 : end; at < end && *at != ';';) {
        const char *const close = memchr(at, ']', (size_t)(end - at));
        if (!close) break;
        bytes += type_bytes(at, close + 1);
        for (at = after_layout(close + 1, end); at < end && (*at == ',' || *at == ' ');) at++;
    }
    return bytes;
}

/* Behind an op: its results' bytes, and its kernel's time. */
static void print_cost(Text *page, const ReportTexts *texts, const char *kernel, int64_t bytes) {
    const double ns = kernel ? report_kernel_ns(texts, kernel) : 0;
    if (!bytes && !(ns > 0)) return;
    text_puts(page, "<span class=\"cost\">");
    if (bytes) text_printf(page, "  %lld bytes", (long long)bytes);
    if (ns > 0) {
        text_printf(page, "  %.3f us in ", ns / 1e3);
        svg_words(page, kernel);
    }
    text_puts(page, "</span>");
}

/* Where a line is: of which part are the kernels that it names. */
typedef struct LineAnchor {
    const ReportTexts *texts;
    const char *anchor, *part;
} LineAnchor;

static void print_line(Text *page, const char *line, size_t n, const LineAnchor *place) {
    const char *const kernel = memmem(line, n, " kernel=", 8);
    if (!kernel) {
        svg_escaped(page, line, n);
        print_cost(page, place->texts, NULL, result_bytes(line, n));
        text_puts(page, "\n");
        return;
    }
    const int number = atoi(kernel + 8);
    text_printf(page, "<a class=\"op\" href=\"#%s-k%d\">", place->anchor, number);
    svg_escaped(page, line, n);
    text_puts(page, "</a>");
    print_cost(page, place->texts, kernel_so(place->texts, place->part, number), result_bytes(line, n));
    text_puts(page, "\n");
}

static void print_column(Text *page, const char *stage, const char *text, size_t n, const LineAnchor *place) {
    text_printf(page, "<section class=\"stage\"><h4>%s</h4><pre>", stage);
    for (size_t at = 0; at < n;) {
        const char *const newline = memchr(text + at, '\n', n - at);
        const size_t length = newline ? (size_t)(newline - text) - at : n - at;
        print_line(page, text + at, length, place);
        at += length + 1;
    }
    text_puts(page, "</pre></section>\n");
}

static void print_stage(Text *page, ReportTexts *texts, int graph, const char *stage, const char *part) {
    char asked[64], anchor[64];
    size_t n;
    snprintf(asked, sizeof asked, "%s+types+lines", stage);
    snprintf(anchor, sizeof anchor, "g%d-%s", graph, part);
    const char *const text = report_graph_of(report_text(texts, asked), graph, &n);
    if (text && n) print_column(page, stage, text, n, &(LineAnchor){texts, anchor, part});
}

/* The kernels ----------------------------------------------------------------------------------- */

/* "kernel k0_mm_relu(" */
static bool is_kernel_line(const char *line, ReportedKernel *kernel) {
    if (strncmp(line, "kernel k", 8)) return false;
    kernel->number = atoi(line + 8);
    snprintf(kernel->name, sizeof kernel->name, "%.*s", (int)strcspn(line + 7, "(\n"), line + 7);
    return true;
}

/* The next one from *text on, which moves behind it: up to its "}". */
static bool next_kernel(const char **text, const char *end, ReportedKernel *kernel) {
    for (const char *line = *text; line < end;) {
        const char *const newline = memchr(line, '\n', (size_t)(end - line));
        if (is_kernel_line(line, kernel)) {
            const char *const closed = memmem(line, (size_t)(end - line), "\n}\n", 3);
            kernel->loops = line;
            kernel->n_loops = closed ? (size_t)(closed + 3 - line) : (size_t)(end - line);
            *text = line + kernel->n_loops;
            return true;
        }
        line = newline ? newline + 1 : end;
    }
    return false;
}

/* From the line that begins with `head` to one that is `last`, both with it; NULL: there is none. */
static const char *cut(const char *text, size_t n, const char *head, const char *last, size_t *length) {
    const char *const found = memmem(text, n, head, strlen(head));
    if (!found) return NULL;
    const size_t rest = n - (size_t)(found - text);
    const char *const end = memmem(found, rest, last, strlen(last));
    *length = end ? (size_t)(end - found) + strlen(last) : rest;
    return found + 1;
}

static void print_text(Text *page, const char *title, const char *text, size_t n) {
    if (!text) return;
    text_printf(page, "<details><summary>%s</summary><pre>", title);
    svg_escaped(page, text, n);
    text_puts(page, "</pre></details>\n");
}

typedef struct Code { /* of a part */
    const char *llvm, *assembly;
    size_t n_llvm, n_assembly;
} Code;

static void print_kernel(Text *page, const ReportedKernel *kernel, const Code *code, const char *anchor) {
    char head[160];
    size_t n = 0;
    text_printf(page, "<article class=\"kernel\" id=\"%s-k%d\"><h4>", anchor, kernel->number);
    svg_words(page, kernel->name);
    text_puts(page, "</h4><pre>");
    svg_escaped(page, kernel->loops, kernel->n_loops);
    text_puts(page, "</pre>\n");
    snprintf(head, sizeof head, "\ndefine void @%s", kernel->name);
    const char *const llvm = code->llvm ? cut(code->llvm, code->n_llvm, head, "\n}\n", &n) : NULL;
    print_text(page, "LLVM", llvm, llvm ? n - 1 : 0);
    snprintf(head, sizeof head, "\n%s:", kernel->name);
    const char *const assembly = code->assembly ? cut(code->assembly, code->n_assembly, head, ".Lfunc_end", &n) : NULL;
    print_text(page, "assembly", assembly, assembly ? n - strlen("\n.Lfunc_end") : 0);
    text_puts(page, "</article>\n");
}

/* What runs native code has no texts; ops lead to it all the same. */
static void print_native(Text *page, const Json *kernels, const char *anchor) {
    for (int i = 0; kernels && i < kernels->n; i++) {
        const char *const kind = json_string(json_get(&kernels->items[i], "kind"));
        if (!kind || strcmp(kind, "native")) continue;
        text_printf(page, "<article class=\"kernel\" id=\"%s-k%d\"><h4>", anchor, i);
        svg_words(page, json_string(json_get(&kernels->items[i], "name")));
        text_puts(page, "</h4><p>native code of the library</p></article>\n");
    }
}

static const char *part_text(ReportTexts *texts, const char *stage, int graph, const char *part, size_t *n) {
    const char *const text = report_graph_of(report_text(texts, stage), graph, n);
    return text ? report_part_of(text, n, part) : NULL;
}

static void print_kernels(Text *page, ReportTexts *texts, int graph, const char *part) {
    size_t n;
    char anchor[64];
    Code code = {0};
    ReportedKernel kernel;
    snprintf(anchor, sizeof anchor, "g%d-%s", graph, part);
    code.llvm = part_text(texts, "llvm", graph, part, &code.n_llvm);
    code.assembly = part_text(texts, "asm", graph, part, &code.n_assembly);
    const char *at = part_text(texts, "loops", graph, part, &n), *const end = at ? at + n : NULL;
    while (at && next_kernel(&at, end, &kernel)) print_kernel(page, &kernel, &code, anchor);
    print_native(page, kernels_of(texts, part), anchor);
}

void report_stages(Text *page, ReportTexts *texts, int graph, const char *const *parts, int n_parts) {
    static const char *const stages[] = {"capture", "functional", "joint", "decomposed"};
    const bool split = n_parts > 1;
    text_puts(page, "<div class=\"stages\">\n");
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) print_stage(page, texts, graph, stages[i], parts[0]);
    for (int i = 0; i < n_parts; i++) print_stage(page, texts, graph, split ? parts[i] : "fused", parts[i]);
    text_puts(page, "</div>\n");
    for (int i = 0; i < n_parts; i++) {
        text_printf(page, "<h3>Kernels of %s</h3>\n", split ? parts[i] : "the graph");
        print_kernels(page, texts, graph, parts[i]);
        text_puts(page, "<h3>Arena</h3>\n");
        report_arena(page, texts, graph, parts[i]);
    }
}
