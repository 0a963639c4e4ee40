/* edges.c: reads the table of differences and holds a run against it. */
#include "frontend/tool/edges.h"

#include <stdlib.h>

#include "runtime/base/error.h"
#include "runtime/base/file.h"

/* Why a result may differ: a rule of the contract; PyTorch's value is further from the exact one; a function's error,
 * which is held to a bound elsewhere; or, not on purpose, what is known to be wrong and not mended. none: of a row that
 * is absent. */
static const char *const reasons[] = {"B1", "B2", "B3", "B5", "amendment", "further", "bound", "open", "none"};

static bool is_reason(const char *word) {
    for (int i = 0; i < COUNT_OF(reasons); i++)
        if (!strcmp(word, reasons[i])) return true;
    return false;
}

static EdgeLine *line_of(const EdgeTable *table, const char *op, const char *part) {
    for (int i = 0; i < table->n; i++)
        if (!strcmp(table->lines[i].op, op) && !strcmp(table->lines[i].part, part)) return &table->lines[i];
    return NULL;
}

static EdgeLine *line_add(EdgeTable *table) {
    if (table->n == table->capacity) {
        const int capacity = table->capacity ? 2 * table->capacity : 256;
        EdgeLine *const more = realloc(table->lines, (size_t)capacity * sizeof *more);
        if (!more) return NULL;
        table->lines = more, table->capacity = capacity;
    }
    table->lines[table->n] = (EdgeLine){0};
    return &table->lines[table->n++];
}

static Status read_line(EdgeTable *table, const char *path, int number, const char *text) {
    EdgeLine line = {0};
    int words = 0;
    long long whole, subset;
    if (!*text || *text == '#') return ST_OK;
    if (sscanf(text, "%95s %15s %lld %lld %15s %n", line.op, line.part, &whole, &subset, line.reason, &words) != 5 ||
        !text[words])
        return error_raise(ST_PARSE, "%s:%d: not OP PART COUNT SUBSET REASON words", path, number);
    if (!is_reason(line.reason)) return error_raise(ST_PARSE, "%s:%d: no reason '%s'", path, number, line.reason);
    if (line_of(table, line.op, line.part))
        return error_raise(ST_PARSE, "%s:%d: a second line of %s %s", path, number, line.op, line.part);
    line.counts[0] = whole, line.counts[1] = subset;
    EdgeLine *const added = line_add(table);
    if (!added) return ST_MEMORY;
    *added = line;
    return ST_OK;
}

Status edges_read(EdgeTable *table, const char *path) {
    FILE *const file = fopen(path, "re");
    char text[1024];
    Status status = file ? ST_OK : error_raise(ST_IO, "'%s' can't be read", path);
    for (int number = 1; status == ST_OK && fgets(text, sizeof text, file); number++) {
        text[strcspn(text, "\n")] = 0;
        status = read_line(table, path, number, text);
    }
    if (file) fclose(file);
    return status;
}

void edges_record(EdgeTable *table, const CaseFinding *finding) {
    EdgeLine *line = line_of(table, finding->op, finding->part);
    if (!line && (line = line_add(table))) {
        snprintf(line->op, sizeof line->op, "%s", finding->op);
        snprintf(line->part, sizeof line->part, "%s", finding->part);
    }
    if (line) line->found += finding->count;
}

/* Of inexact functions the line is what there may be at most: an element less is no news. */
static bool is_as_said(const EdgeLine *line, int64_t count) {
    return line->found == count || (!strcmp(line->reason, "bound") && line->found < count);
}

int edges_unlike(const EdgeTable *table, const char *op, bool subset, FILE *to) {
    int n = 0;
    for (int i = 0; i < table->n; i++) {
        const EdgeLine *const line = &table->lines[i];
        if (strcmp(line->op, op) || is_as_said(line, line->counts[subset])) continue;
        fprintf(to, "%-36s %-9s %6lld  # the table says %lld\n", line->op, line->part, (long long)line->found,
                (long long)line->counts[subset]);
        n++;
    }
    return n;
}

int edges_left_out(const EdgeTable *table, bool (*replayed)(const void *context, const char *op), const void *context,
                   FILE *to) {
    int n = 0;
    for (int id = 0; id < op_row_count(); id++) {
        const char *const op = op_row_at(id)->name;
        const bool absent = line_of(table, op, "absent") != NULL;
        if (absent != replayed(context, op)) continue;
        fprintf(to, "%s has %s\n", op, absent ? "recorded calls, and a line that it is absent" : "no recorded call");
        n++;
    }
    return n;
}

void edges_free(EdgeTable *table) { free(table->lines); }
