/* profile_json.h: what tests ask of a profile's table and trace, which the strict reader has taken. */
#ifndef SINTER_TESTS_UNIT_PROFILE_JSON_H
#define SINTER_TESTS_UNIT_PROFILE_JSON_H
#include <check.h>
#include <math.h>
#include <sinter/sinter.h>
#include <string.h>

#include "runtime/base/json.h"

static inline const Json *strict_json(Arena *arena, const char *text, size_t n) {
    const Json *root;
    ck_assert_msg(json_parse(arena, text, n, &root) == 0, "%s: %s", sn_error_take()->message, text);
    return root;
}

static inline void expect_row(const Json *row, const char *name, int64_t calls, int64_t self, int64_t total) {
    ck_assert_str_eq(json_string(json_get(row, "name")), name);
    ck_assert_int_eq(json_get(row, "calls")->i, calls);
    ck_assert_int_eq(json_get(row, "self_ns")->i, self);
    ck_assert_int_eq(json_get(row, "total_ns")->i, total);
}

/* The row of a table; detail: what it begins with, or NULL. */
static inline const Json *row_named(const Json *table, const char *name, const char *detail) {
    const Json *const rows = json_get(table, "rows");
    for (int i = 0; i < rows->n; i++) {
        const char *const own = json_string(json_get(&rows->items[i], "detail"));
        if (strcmp(json_string(json_get(&rows->items[i], "name")), name)) continue;
        if (!detail || (own && !strncmp(own, detail, strlen(detail)))) return &rows->items[i];
    }
    ck_abort_msg("no row %s", name);
    return NULL;
}

static inline bool is_phase(const Json *event, const char *phase) {
    return !strcmp(json_string(json_get(event, "ph")), phase);
}

/* The first event of that phase and name; NULL: none. */
static inline const Json *trace_event(const Json *events, const char *phase, const char *name) {
    for (int i = 0; i < events->n; i++)
        if (is_phase(&events->items[i], phase) && !strcmp(json_string(json_get(&events->items[i], "name")), name))
            return &events->items[i];
    return NULL;
}

static inline int64_t trace_ns(const Json *event, const char *key) {
    return llround(json_get(event, key)->number * 1000);
}

static inline bool same_track(const Json *a, const Json *b) {
    return json_get(a, "pid")->i == json_get(b, "pid")->i && json_get(a, "tid")->i == json_get(b, "tid")->i;
}

/* Each span of a track, those of streams as well, lies in the one before it or behind it. */
static inline void spans_nest(const Json *events, int i) {
    const Json *const a = &events->items[i];
    const int64_t from = trace_ns(a, "ts"), to = from + trace_ns(a, "dur");
    for (int k = i + 1; k < events->n && k < i + 300; k++) {
        const Json *const b = &events->items[k];
        if (!is_phase(b, "X") || !same_track(a, b)) continue;
        const int64_t begin = trace_ns(b, "ts"), end = begin + trace_ns(b, "dur");
        ck_assert_msg(begin >= from && (begin >= to || end <= to), "%s and %s overlap",
                      json_string(json_get(a, "name")), json_string(json_get(b, "name")));
    }
}

/* The span of the track that holds the moment. */
static inline bool is_in_a_span(const Json *events, const Json *arrow) {
    for (int i = 0; i < events->n; i++) {
        const Json *const span = &events->items[i];
        if (!is_phase(span, "X") || !same_track(span, arrow)) continue;
        const int64_t from = trace_ns(span, "ts"), at = trace_ns(arrow, "ts");
        if (at >= from && at <= from + trace_ns(span, "dur")) return true;
    }
    return false;
}

static inline void arrow_arrives(const Json *events, const Json *from) {
    ck_assert(is_in_a_span(events, from));
    for (int i = 0; i < events->n; i++) {
        const Json *const to = &events->items[i];
        if (!is_phase(to, "f") || json_get(to, "id")->i != json_get(from, "id")->i) continue;
        ck_assert(is_in_a_span(events, to));
        ck_assert_str_eq(json_string(json_get(to, "bp")), "e");
        return;
    }
    ck_abort_msg("an arrow ends nowhere");
}

/* How many spans it has. arrows may be NULL. */
static inline int trace_check(const Json *events, int *arrows) {
    int n = 0, n_arrows = 0;
    for (int i = 0; i < events->n; i++) {
        const Json *const event = &events->items[i];
        ck_assert(json_get(event, "pid")->is_int && json_get(event, "tid")->is_int);
        if (is_phase(event, "X")) spans_nest(events, i), n++;
        if (is_phase(event, "s")) arrow_arrives(events, event), n_arrows++;
    }
    if (arrows) *arrows = n_arrows;
    return n;
}

#endif
