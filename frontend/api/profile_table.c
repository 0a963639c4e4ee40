/* profile_table.c: a timeline's spans by name: sums, sorted, as text or JSON. A span inside of one of its own row is
 * part of that one's total already. */
#include "frontend/api/profile.h"

#include "runtime/base/hash.h"

enum { ROWS = 30 };

typedef struct ProfileRow {
    const char *name, *owner, *detail; /* detail: shapes and places that set it apart; "" */
    ProfileKind kind;
    int64_t calls, self, total, device_self, device_total, bytes, flops, memory;
    int64_t costed; /* of the time above, that of spans whose bytes or arithmetic are known */
    struct ProfileRow *same_hash;
    int order;
} ProfileRow;

typedef struct ProfileTable {
    const Timeline *t;
    sn_profile_table_options options;
    Arena *arena;
    Map known;
    int *row_of; /* by span */
    VEC(ProfileRow *) rows;
    int64_t self, device;
} ProfileTable;

/* rows ------------------------------------------------------------------------------------------ */

static const char *detail_of(const ProfileTable *table, const TimelineSpan *span) {
    Text text = {0};
    if (table->options.by_shapes) profile_print_shapes(span->more, &text);
    if (table->options.by_stack && text.n) text_puts(&text, "; ");
    if (table->options.by_stack) profile_print_stack(table->t, span->more, &text);
    const char *const kept = text.n ? arena_strdup(table->arena, text_str(&text)) : "";
    text_free(&text);
    return kept;
}

static bool same_text(const char *a, const char *b) { return a == b || (a && b && !strcmp(a, b)); }

static bool is_row(const ProfileRow *row, const TimelineSpan *span, const char *detail) {
    return row->kind == span->kind && same_text(row->name, span->name) && same_text(row->owner, span->owner) &&
           same_text(row->detail, detail);
}

static uint64_t row_hash(const TimelineSpan *span, const char *detail) {
    uint64_t hash = hash_bytes((uint64_t)span->kind, span->name, strlen(span->name));
    if (span->owner) hash = hash_bytes(hash, span->owner, strlen(span->owner));
    return hash_bytes(hash, detail, strlen(detail)) | 1;
}

static ProfileRow *row_for(ProfileTable *table, const TimelineSpan *span) {
    const char *const detail = detail_of(table, span);
    const uint64_t hash = detail ? row_hash(span, detail) : 0;
    ProfileRow *const first = hash ? map_get(&table->known, hash) : NULL;
    for (ProfileRow *row = first; row; row = row->same_hash)
        if (is_row(row, span, detail)) return row;
    ProfileRow *const row = hash ? ARENA_NEW(table->arena, ProfileRow) : NULL;
    if (!row || !map_set(&table->known, hash, row)) return NULL;
    *row = (ProfileRow){.name = span->name,
                        .owner = span->owner,
                        .detail = detail,
                        .kind = span->kind,
                        .same_hash = first,
                        .order = table->rows.n};
    VEC_PUSH(table->arena, &table->rows, row);
    return row;
}

static bool is_inside_same(const ProfileTable *table, const TimelineSpan *span, int row) {
    for (int i = span->parent; i >= 0; i = table->t->spans[i].parent)
        if (table->row_of[i] == row) return true;
    return false;
}

static void add_span(ProfileTable *table, ProfileRow *row, const TimelineSpan *span) {
    row->calls++;
    row->self += span->self;
    row->device_self += span->device_self;
    if (!is_inside_same(table, span, row->order)) {
        row->total += span->to - span->from;
        row->device_total += span->device_total;
    }
    table->self += span->self;
    table->device += span->device_self;
    if (!span->more) return;
    row->bytes += span->more->bytes;
    row->flops += span->more->flops;
    row->memory += span->more->memory;
    if (span->more->bytes) row->costed += span->device_total ? span->device_total : span->to - span->from;
}

static Status make_rows(ProfileTable *table) {
    table->row_of = ARENA_ARRAY(table->arena, int, table->t->n_spans + 1);
    if (!table->row_of) return ST_MEMORY;
    for (int i = 0; i < table->t->n_spans; i++) {
        const TimelineSpan *const span = &table->t->spans[i];
        ProfileRow *const row = row_for(table, span);
        if (!row) return ST_MEMORY;
        add_span(table, row, span);
        table->row_of[i] = row->order;
    }
    return ST_OK;
}

/* order ----------------------------------------------------------------------------------------- */

static int64_t weight(const ProfileRow *row, sn_profile_sort sort) {
    switch (sort) {
    case SN_PROFILE_BY_TOTAL:
        return row->total;
    case SN_PROFILE_BY_DEVICE:
        return row->device_total;
    case SN_PROFILE_BY_CALLS:
        return row->calls;
    case SN_PROFILE_BY_BYTES:
        return row->bytes;
    case SN_PROFILE_BY_MEMORY:
        return row->memory;
    default:
        return row->self + row->device_self;
    }
}

static bool comes_before(const ProfileRow *x, const ProfileRow *y, sn_profile_sort sort) {
    if (sort == SN_PROFILE_BY_NAME) return strcmp(x->name, y->name) <= 0;
    return weight(x, sort) >= weight(y, sort);
}

/* By merging: equal rows stay in the order in which they came. */
static void sort_rows(ProfileRow **rows, ProfileRow **spare, int n, sn_profile_sort sort) {
    const int half = n / 2;
    if (n < 2) return;
    sort_rows(rows, spare, half, sort);
    sort_rows(rows + half, spare, n - half, sort);
    memcpy(spare, rows, (size_t)n * sizeof *rows);
    for (int i = 0, k = half, at = 0; at < n; at++) {
        const bool first = k == n || (i < half && comes_before(spare[i], spare[k], sort));
        rows[at] = first ? spare[i++] : spare[k++];
    }
}

/* text ------------------------------------------------------------------------------------------ */

static double in_ms(int64_t ns) { return (double)ns * 1e-6; }
static double percent(int64_t part, int64_t whole) { return whole > 0 ? 100.0 * (double)part / (double)whole : 0; }
static double rate(int64_t amount, int64_t ns) { return ns > 0 ? (double)amount / (double)ns : 0; } /* 1e9 a second */

/* How near the row comes to what the machine can do, in percent: by its arithmetic or its bytes, the nearer one. What
 * devices can do nobody has said. */
static double roofline(const ProfileTable *table, const ProfileRow *row) {
    if (row->device_total) return 0;
    const double flops = table->options.peak_gflops, bytes = table->options.peak_gbs;
    const double by_flops = flops > 0 ? 100 * rate(row->flops, row->costed) / flops : 0;
    const double by_bytes = bytes > 0 ? 100 * rate(row->bytes, row->costed) / bytes : 0;
    return by_flops > by_bytes ? by_flops : by_bytes;
}

static bool has_peaks(const ProfileTable *table) {
    return table->t->has_shapes && (table->options.peak_gflops > 0 || table->options.peak_gbs > 0);
}

static void print_heading(const ProfileTable *table, Text *out) {
    const Timeline *const t = table->t;
    text_puts(out, "kind     calls    self ms  self %   total ms    mean us");
    if (t->n_work) text_puts(out, "  device ms  device %");
    if (t->has_shapes) text_puts(out, "       MB    GB/s  GFLOP/s");
    if (has_peaks(table)) text_puts(out, "  roof %");
    if (t->has_memory) text_puts(out, "  memory KiB");
    text_puts(out, "  name\n");
}

static void print_row(const ProfileTable *table, const ProfileRow *row, Text *out) {
    const Timeline *const t = table->t;
    text_printf(out, "%-5s %8lld %10.3f %7.1f %10.3f %10.2f", profile_kind_name(row->kind), (long long)row->calls,
                in_ms(row->self), percent(row->self, table->self), in_ms(row->total),
                in_ms(row->total) * 1e3 / (double)row->calls);
    if (t->n_work)
        text_printf(out, " %10.3f %9.1f", in_ms(row->device_total), percent(row->device_self, table->device));
    if (t->has_shapes)
        text_printf(out, " %8.2f %7.1f %8.1f", (double)row->bytes * 1e-6, rate(row->bytes, row->costed),
                    rate(row->flops, row->costed));
    if (has_peaks(table)) text_printf(out, " %7.1f", roofline(table, row));
    if (t->has_memory) text_printf(out, " %11.1f", (double)row->memory / 1024);
    text_printf(out, "  %s%s%s%s%s%s\n", row->name, row->owner ? " of " : "", row->owner ? row->owner : "",
                *row->detail ? " (" : "", row->detail, *row->detail ? ")" : "");
}

static void print_table(const ProfileTable *table, int n, Text *out) {
    print_heading(table, out);
    for (int i = 0; i < n; i++) print_row(table, table->rows.at[i], out);
    if (n < table->rows.n) text_printf(out, "and %d rows more\n", table->rows.n - n);
    text_printf(out, "%d spans of %d thread%s in %.3f ms, %.3f ms of them in spans", table->t->n_spans,
                table->t->n_threads, table->t->n_threads == 1 ? "" : "s", in_ms(table->t->to - table->t->from),
                in_ms(table->self));
    if (table->t->n_work) text_printf(out, "; devices worked %.3f ms", in_ms(table->device));
    if (table->t->dropped) text_printf(out, "; %lld more were not kept", (long long)table->t->dropped);
    text_puts(out, "\n");
}

/* JSON ------------------------------------------------------------------------------------------ */

static void print_string(Text *out, const char *key, const char *value) {
    text_printf(out, "\"%s\": ", key);
    text_json_string(out, value);
    text_puts(out, ", ");
}

static void print_json_row(const ProfileTable *table, const ProfileRow *row, Text *out) {
    text_puts(out, "{");
    print_string(out, "kind", profile_kind_name(row->kind));
    print_string(out, "name", row->name);
    if (row->owner) print_string(out, "function", row->owner);
    if (*row->detail) print_string(out, "detail", row->detail);
    text_printf(out,
                "\"calls\": %lld, \"self_ns\": %lld, \"total_ns\": %lld, \"device_self_ns\": %lld, "
                "\"device_total_ns\": %lld",
                (long long)row->calls, (long long)row->self, (long long)row->total, (long long)row->device_self,
                (long long)row->device_total);
    if (table->t->has_shapes)
        text_printf(out, ", \"bytes\": %lld, \"flops\": %lld", (long long)row->bytes, (long long)row->flops);
    if (has_peaks(table)) text_printf(out, ", \"roofline\": %.4f", roofline(table, row) / 100);
    if (table->t->has_memory) text_printf(out, ", \"memory\": %lld", (long long)row->memory);
    text_puts(out, "}");
}

static void print_json(const ProfileTable *table, int n, Text *out) {
    text_puts(out, "{\"rows\": [");
    for (int i = 0; i < n; i++) {
        text_puts(out, i ? ",\n" : "\n");
        print_json_row(table, table->rows.at[i], out);
    }
    text_printf(out, "\n], \"span_ns\": %lld, \"dropped\": %lld}\n", (long long)(table->t->to - table->t->from),
                (long long)table->t->dropped);
}

static Status fill_table(ProfileTable *table, Text *out) {
    TRY(make_rows(table));
    ProfileRow **const spare = ARENA_ARRAY(table->arena, ProfileRow *, table->rows.n + 1);
    if (!spare) return ST_MEMORY;
    sort_rows(table->rows.at, spare, table->rows.n, table->options.sort);
    const int most = table->options.rows < 0 ? table->rows.n : table->options.rows ? table->options.rows : ROWS;
    const int n = most < table->rows.n ? most : table->rows.n;
    if (table->options.json)
        print_json(table, n, out);
    else
        print_table(table, n, out);
    return error_pending();
}

Status profile_table(const Timeline *t, const sn_profile_table_options *options, Text *out) {
    ProfileTable table = {.t = t, .options = *options, .arena = arena_new()};
    const Status status = table.arena ? fill_table(&table, out) : ST_MEMORY;
    map_free(&table.known);
    arena_free(table.arena);
    return status;
}
