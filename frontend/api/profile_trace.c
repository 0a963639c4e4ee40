/* profile_trace.c: a timeline in Chrome's trace format (chrome://tracing, Perfetto): one JSON object. The host is
 * process 1, its threads in the order in which they came; a device's streams are threads of process 2. A complete event
 * (ph X) is a span, in microseconds since the profile began; an arrow (ph s and f) goes from a launch to what ran. */
#include "frontend/api/profile.h"

#include <stdio.h>

enum { HOST = 1, DEVICES = 2 };

typedef struct TraceText {
    const Timeline *t;
    Text *out;
    bool any;
} TraceText;

static void begin_entry(TraceText *trace, const char *phase, int process, int thread) {
    text_printf(trace->out, "%s{\"ph\": \"%s\", \"pid\": %d, \"tid\": %d", trace->any ? ",\n" : "", phase, process,
                thread);
    trace->any = true;
}

static void print_name(Text *out, const char *name) {
    text_puts(out, ", \"name\": ");
    text_json_string(out, name);
}

static void print_time(const TraceText *trace, const char *key, int64_t ns) {
    text_printf(trace->out, ", \"%s\": %lld.%03lld", key, (long long)(ns / 1000), (long long)(ns % 1000));
}

static void name_track(TraceText *trace, const char *what, int process, int thread, const char *name) {
    begin_entry(trace, "M", process, thread);
    print_name(trace->out, what);
    text_puts(trace->out, ", \"args\": {\"name\": ");
    text_json_string(trace->out, name);
    text_puts(trace->out, "}}");
}

static void name_tracks(TraceText *trace) {
    char name[64];
    name_track(trace, "process_name", HOST, 0, "host");
    if (trace->t->n_streams) name_track(trace, "process_name", DEVICES, 0, "devices");
    for (int i = 0; i < trace->t->n_threads; i++) {
        snprintf(name, sizeof name, "thread %d", i);
        name_track(trace, "thread_name", HOST, i, name);
    }
    for (int stream = 0; stream < trace->t->n_streams; stream++) {
        int i = 0;
        while (trace->t->work[i].stream != stream) i++;
        snprintf(name, sizeof name, "%s, stream %d", DEVICE_TEXT(trace->t->work[i].device), stream);
        name_track(trace, "thread_name", DEVICES, stream, name);
    }
}

static void print_text(Text *out, const char *key, Text *value, bool *any) {
    if (value->n) {
        text_printf(out, "%s\"%s\": ", *any ? ", " : "", key);
        text_json_string(out, text_str(value));
        *any = true;
    }
    text_free(value);
}

static void print_amount(Text *out, const char *key, int64_t value, bool *any) {
    if (!value) return;
    text_printf(out, "%s\"%s\": %lld", *any ? ", " : "", key, (long long)value);
    *any = true;
}

static void print_args(const Timeline *t, Text *out, const char *owner, const ProfileMore *more) {
    Text of = {0}, shapes = {0}, stack = {0};
    bool any = false;
    if (owner) text_puts(&of, owner);
    profile_print_shapes(more, &shapes);
    profile_print_stack(t, more, &stack);
    text_puts(out, ", \"args\": {");
    print_text(out, "function", &of, &any);
    print_text(out, "shapes", &shapes, &any);
    print_text(out, "stack", &stack, &any);
    if (more) print_amount(out, "bytes", more->bytes, &any);
    if (more) print_amount(out, "flops", more->flops, &any);
    if (more) print_amount(out, "memory", more->memory, &any);
    text_puts(out, "}}");
}

static void print_span(TraceText *trace, const TimelineSpan *span) {
    begin_entry(trace, "X", HOST, span->thread);
    print_name(trace->out, span->name);
    text_printf(trace->out, ", \"cat\": \"%s\"", profile_kind_name(span->kind));
    print_time(trace, "ts", max_i64(span->from - trace->t->from, 0));
    print_time(trace, "dur", span->to - span->from);
    print_args(trace->t, trace->out, span->owner, span->more);
}

/* Arrows bind to the span that they lie in; two of the same thread must not begin at the same moment. */
static void print_arrow(TraceText *trace, const char *phase, int process, int thread, int number, int64_t at) {
    begin_entry(trace, phase, process, thread);
    text_printf(trace->out, ", \"cat\": \"launch\", \"name\": \"launch\", \"id\": %d", number);
    print_time(trace, "ts", max_i64(at - trace->t->from, 0));
    text_puts(trace->out, phase[0] == 'f' ? ", \"bp\": \"e\"}" : "}");
}

static void print_work(TraceText *trace, int i) {
    const TimelineWork *const work = &trace->t->work[i];
    begin_entry(trace, "X", DEVICES, work->stream);
    print_name(trace->out, work->name);
    text_puts(trace->out, ", \"cat\": \"device\"");
    print_time(trace, "ts", max_i64(work->from - trace->t->from, 0));
    print_time(trace, "dur", work->to - work->from);
    print_args(trace->t, trace->out, work->owner, NULL);
    if (work->launched < 0) return;
    const TimelineSpan *const span = &trace->t->spans[work->launched];
    print_arrow(trace, "s", HOST, span->thread, i + 1, span->from);
    print_arrow(trace, "f", DEVICES, work->stream, i + 1, work->from);
}

void profile_trace(const Timeline *t, Text *out) {
    TraceText trace = {t, out, false};
    text_puts(out, "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [\n");
    name_tracks(&trace);
    for (int i = 0; i < t->n_spans; i++) print_span(&trace, &t->spans[i]);
    for (int i = 0; i < t->n_work; i++) print_work(&trace, i);
    text_printf(out, "\n], \"otherData\": {\"dropped\": %lld}}\n", (long long)t->dropped);
}
