/* check_trace.c: a trace of `sinter profile --trace` on stdin, read strictly: JSON; each event has its name and place,
 * spans of one thread lie beside or within each other, arrows begin and end. Prints what it has:
 *
 *     31 spans */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/error.h"
#include "runtime/base/json.h"

typedef struct TraceSpan {
    int64_t process, thread;
    double from, to;
    const char *name;
} TraceSpan;

static _Noreturn void wrong(const char *what, const char *name) {
    printf("%s: %s\n", what, name);
    exit(1);
}

static double number_of(const Json *event, const char *key) {
    const Json *const value = json_get(event, key);
    if (!value || value->kind != JSON_number) wrong("an event has no number", key);
    return value->number;
}

static const char *word_of(const Json *event, const char *key) {
    const char *const word = json_string(json_get(event, key));
    if (!word || !*word) wrong("an event has no word", key);
    return word;
}

/* By thread, then as they begin; of two that begin together the longer one first. */
static int by_begin(const void *left, const void *right) {
    const TraceSpan *const a = left, *const b = right;
    if (a->process != b->process) return a->process < b->process ? -1 : 1;
    if (a->thread != b->thread) return a->thread < b->thread ? -1 : 1;
    if (a->from != b->from) return a->from < b->from ? -1 : 1;
    return a->to > b->to ? -1 : a->to < b->to;
}

/* Times are printed with three digits behind the point. */
static void check_nesting(TraceSpan *spans, int n) {
    enum { MOST_OPEN = 4096 };
    static TraceSpan open[MOST_OPEN];
    const double rounded = 0.0021;
    int depth = 0;
    qsort(spans, (size_t)n, sizeof *spans, by_begin);
    for (int i = 0; i < n; i++) {
        const TraceSpan *const span = &spans[i];
        if (i && (spans[i - 1].process != span->process || spans[i - 1].thread != span->thread)) depth = 0;
        while (depth && open[depth - 1].to <= span->from + rounded) depth--;
        if (depth && span->to > open[depth - 1].to + rounded) wrong("it ends behind what it is in", span->name);
        if (depth == MOST_OPEN) wrong("too deep", span->name);
        open[depth++] = *span;
    }
}

static char *read_input(size_t *n) {
    size_t capacity = 1 << 20;
    char *text = malloc(capacity);
    *n = 0;
    for (size_t got; text && (got = fread(text + *n, 1, capacity - *n, stdin)) > 0;)
        if ((*n += got) == capacity) text = realloc(text, capacity *= 2);
    return text;
}

int main(void) {
    size_t n;
    char *const text = read_input(&n);
    Arena *const arena = arena_new();
    const Json *root;
    if (!text || json_parse(arena, text, n, &root) != ST_OK) wrong("no JSON", error_slot()->message);
    const Json *const events = root->kind == JSON_list ? root : json_get(root, "traceEvents");
    if (!events || events->kind != JSON_list) wrong("no list of events", "traceEvents");
    TraceSpan *const spans = calloc((size_t)events->n + 1, sizeof *spans);
    int n_spans = 0, arrows = 0;
    for (int i = 0; i < events->n; i++) {
        const Json *const event = &events->items[i];
        const char *const phase = word_of(event, "ph"), *const name = word_of(event, "name");
        const int64_t process = (int64_t)number_of(event, "pid");
        if (!strcmp(phase, "s") || !strcmp(phase, "f")) arrows += *phase == 's' ? 1 : -1, number_of(event, "id");
        if (strcmp(phase, "X")) continue;
        const double from = number_of(event, "ts"), dur = number_of(event, "dur");
        if (dur < 0) wrong("it ends before it begins", name);
        spans[n_spans++] = (TraceSpan){process, (int64_t)number_of(event, "tid"), from, from + dur, name};
    }
    if (arrows) wrong("an arrow has one end", "s, f");
    check_nesting(spans, n_spans);
    printf("%d spans\n", n_spans);
    free(spans);
    arena_free(arena);
    free(text);
    return 0;
}
