/* strides.c: `sinter strides`: where in its storage each element of a view lies. The tensor and its views are a graph's
 * text, so an argument is written as there:
 *
 *     sinter strides 'f32[3, 4]' 'transpose(0, 1)' 'select(0, 2)'
 *     graph view(%x: f32[3, 4]) { %0 = aten::transpose.int(%x, 0, 1)  %1 = aten::select.int(%0, 0, 2)  return %1 } */
#include <stdio.h>

#include "frontend/tool/arguments.h"
#include "frontend/tool/strides.h"
#include "ir/graph.h"
#include "runtime/base/error.h"

enum { MOST = 1 << 16 /* elements */, MOST_VIEWS = 256 };

static bool is_base(const OpRow *row, const char *name, size_t n) {
    return row && row->kind == KIND_view && strlen(row->base) == n && !memcmp(row->base, name, n);
}

/* "select" is select.int, the first view of that name; NULL raises. */
static const OpRow *find_view(const char *name, size_t n) {
    OpForm form = FORM_functional;
    char full[128];
    snprintf(full, sizeof full, "aten::%.*s", (int)n, name);
    const OpRow *row = op_find(full, strlen(full), &form);
    for (int id = 0; !row && id < op_row_count(); id++)
        if (is_base(op_row_at(id), name, n)) row = op_row_at(id);
    if (!row)
        error_raise(ST_ARGUMENT, "'%.*s' is no op", (int)n, name);
    else if (row->kind != KIND_view || row->returns_list || form != FORM_functional)
        error_raise(ST_ARGUMENT, "%s gives no view of a tensor", full);
    return error_pending() ? NULL : row;
}

/* "select(0, 2)": "  %1 = aten::select.int(%0, 0, 2)". */
static Status write_step(Text *text, const char *step, int i) {
    const size_t n = strcspn(step, "(");
    const OpRow *const row = step[n] ? find_view(step, n) : NULL;
    if (!step[n]) return error_raise(ST_ARGUMENT, "'%s': a view is written as transpose(0, 1)", step);
    if (!row) return error_pending();
    const char *const arguments = step + n + 1 + strspn(step + n + 1, " ");
    text_printf(text, "  %%%d = %s(%%", i, row->name);
    if (i)
        text_printf(text, "%d", i - 1);
    else
        text_puts(text, "x");
    text_printf(text, "%s%s\n", *arguments == ')' ? "" : ", ", arguments);
    return ST_OK;
}

static Status write_graph(Text *text, const char *type, char **steps, int n) {
    text_printf(text, "graph view(%%x: %s) {\n", type);
    for (int i = 0; i < n; i++) TRY(write_step(text, steps[i], i));
    if (n)
        text_printf(text, "  return %%%d\n}\n", n - 1);
    else
        text_puts(text, "  return %x\n}\n");
    return error_pending();
}

static int64_t offset_of(const GVal *value) {
    int64_t offset = 0;
    for (; value->alias >= 0; value = gval(value->def->args[value->alias].val)) offset += value->offset;
    return offset;
}

static void put_numbers(Text *text, const char *key, const int64_t *numbers, int n) {
    text_printf(text, ", \"%s\": [", key);
    for (int i = 0; i < n; i++) text_printf(text, "%s%lld", i ? ", " : "", (long long)numbers[i]);
    text_puts(text, "]");
}

static void print_layout_json(const char *what, const GVal *value, bool first) {
    const Meta *const meta = value->base.meta;
    Text text = {0};
    put_json_pair(&text, first ? "{\"views\": [{" : ",\n{", "view", what);
    put_numbers(&text, "sizes", meta->sizes, meta->rank);
    put_numbers(&text, "strides", meta->strides, meta->rank);
    printf("%s, \"offset\": %lld, \"contiguous\": %s}", text_str(&text), (long long)offset_of(value),
           meta->contiguous ? "true" : "false");
    text_free(&text);
}

/* "[4, 3] strides [1, 4] offset 0" */
static void print_layout(const char *what, const GVal *value) {
    const Meta *const meta = value->base.meta;
    Text text = {0};
    text_printf(&text, "%s: ", what);
    sizes_print(NULL, &text, meta->sizes, meta->rank);
    text_puts(&text, " strides ");
    sizes_print(NULL, &text, meta->strides, meta->rank);
    printf("%s offset %lld%s\n", text_str(&text), (long long)offset_of(value), meta->contiguous ? ", contiguous" : "");
    text_free(&text);
}

int64_t strides_offset(const StridesView *view, int64_t i) {
    int64_t offset = view->offset;
    for (int d = view->meta->rank - 1; d >= 0; d--) {
        offset += i % view->meta->sizes[d] * view->meta->strides[d];
        i /= view->meta->sizes[d];
    }
    return offset;
}

/* One line for each place along all dims but the last. */
static void print_line(const StridesView *view, int64_t line, int64_t columns) {
    int64_t at[MAX_RANK] = {0}, rest = line;
    const int rank = view->meta->rank;
    for (int d = rank - 2; d >= 0; d--) {
        at[d] = rest % view->meta->sizes[d];
        rest /= view->meta->sizes[d];
    }
    putchar('[');
    for (int d = 0; d < rank - 1; d++) printf("%lld, ", (long long)at[d]);
    printf("%s]", rank ? ":" : "");
    for (int64_t i = 0; i < columns; i++) printf(" %lld", (long long)strides_offset(view, line * columns + i));
    putchar('\n');
}

/* Of all elements in row-major order. */
static void print_offsets_json(const StridesView *view) {
    fputs("],\n\"offsets\": [", stdout);
    for (int64_t i = 0; i < view->meta->numel; i++) printf("%s%lld", i ? ", " : "", (long long)strides_offset(view, i));
    puts("]}");
}

static Status print_map(const StridesView *view, bool json) {
    const Meta *const meta = view->meta;
    if (meta->numel > MOST)
        return error_raise(ST_ARGUMENT, "%lld elements, of which at most %d are printed", (long long)meta->numel, MOST);
    if (json) return print_offsets_json(view), ST_OK;
    const int64_t columns = meta->rank && meta->numel ? meta->sizes[meta->rank - 1] : 1;
    for (int64_t i = 0; i < meta->numel / columns; i++) print_line(view, i, columns);
    return ST_OK;
}

static Status check_plain(const Graph *graph) {
    if (!sym_free_count(graph->env)) return ST_OK;
    return error_raise(ST_ARGUMENT, "the tensor's sizes must be numbers");
}

typedef struct StridesJob {
    char *steps[1 + MOST_VIEWS]; /* the tensor's type, then n views */
    int n;
    const char *svg;
    bool json;
} StridesJob;

static void print_one(const StridesJob *job, int i, const GVal *value) {
    if (job->json)
        print_layout_json(job->steps[i], value, !i);
    else
        print_layout(job->steps[i], value);
}

static Status print_view(Arena *arena, const char *text, const StridesJob *job) {
    Graph *graph;
    source_remember("<view>", text);
    TRY(graph_parse(arena, text, strlen(text), &graph));
    TRY(check_plain(graph));
    print_one(job, 0, graph->inputs.at[0]);
    int i = 0;
    for (const Node *node = graph->first; node && i < job->n; node = node->next) print_one(job, ++i, &node->outs[0]);
    const GVal *const value = graph->outputs.at[0].value;
    const StridesView view = {.title = job->steps[job->n],
                              .meta = value->base.meta,
                              .offset = offset_of(value),
                              .storage = graph->inputs.at[0]->base.meta->numel};
    TRY(print_map(&view, job->json));
    return job->svg ? strides_svg(job->svg, &view) : ST_OK;
}

static int print_strides(StridesJob *job) {
    Text text = {0};
    Arena *const arena = arena_new();
    Status status = arena ? write_graph(&text, job->steps[0], job->steps + 1, job->n) : ST_MEMORY;
    if (status == ST_OK) status = print_view(arena, text_str(&text), job);
    text_free(&text);
    arena_free(arena);
    return status == ST_OK ? EXIT_done : report_error(status == ST_IO ? EXIT_environment : EXIT_wrong);
}

int command_strides(const Command *self, int argc, char **argv) {
    StridesJob job = {.n = -1}; /* counted without the tensor */
    CommandLine a = arguments_begin(self, argc, argv);
    while (arguments_next(&a)) {
        if (argument_text(&a, "svg", &job.svg) || argument_flag(&a, "json", &job.json)) continue;
        if (job.n == MOST_VIEWS)
            arguments_refuse_value(&a, "there are too many views from here on:");
        else
            job.steps[++job.n] = (char *)a.value;
    }
    if (a.ended) return a.code;
    if (job.n < 0) return usage_error(self, "a tensor is missing after", self->name);
    return print_strides(&job);
}
