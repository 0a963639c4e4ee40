/* line_diff.c: see line_diff.h. Common lines at both ends are set aside; between them runs Myers' greedy search (An
 * O(ND) Difference Algorithm, 1986): of d edits the furthest place on each diagonal is kept, and the way back is read
 * off. */
#include "frontend/tool/line_diff.h"

#include <string.h>

#include "runtime/base/alloc.h"

enum { MOST_EDITS = 1500 }; /* what is kept grows by their square */

typedef struct DiffLine {
    const char *at;
    size_t n;
} DiffLine;

typedef struct DiffSide {
    DiffLine *lines;
    int n;
    bool *changed; /* taken away or added */
} DiffSide;

static DiffSide split_lines(const char *text) {
    DiffSide side = {0};
    for (const char *c = text; *c; c++) side.n += *c == '\n' || !c[1];
    side.lines = mem_alloc((size_t)(side.n + 1) * sizeof *side.lines);
    side.changed = mem_zero((size_t)side.n + 1);
    for (int i = 0; side.lines && i < side.n; i++) {
        const size_t n = strcspn(text, "\n");
        side.lines[i] = (DiffLine){text, n};
        text += n + (text[n] == '\n');
    }
    return side;
}

static void free_side(DiffSide *side) {
    mem_free(side->lines);
    mem_free(side->changed);
}

static bool same_line(const DiffLine *a, const DiffLine *b) { return a->n == b->n && !memcmp(a->at, b->at, a->n); }

int first_difference(const char *a, const char *b, const char **in_a, const char **in_b) {
    for (int line = 1; *a || *b; line++) {
        const size_t n = strcspn(a, "\n"), m = strcspn(b, "\n");
        if (!*a || !*b || n != m || memcmp(a, b, n)) {
            *in_a = *a ? a : NULL, *in_b = *b ? b : NULL;
            return line;
        }
        a += n + (a[n] == '\n'), b += m + (b[m] == '\n');
    }
    return 0;
}

/* Myers ---------------------------------------------------------------------------------------- */

typedef struct DiffSearch {
    const DiffLine *a, *b; /* between the common ends */
    int n, m;
    int *furthest[MOST_EDITS + 1]; /* by d: x on the diagonals -d..d, at index k + d */
} DiffSearch;

static int furthest_at(const DiffSearch *s, int d, int k) { return s->furthest[d][k + d]; }

/* Whether diagonal k is reached by d edits from the one above (a line of b was added) or from the left one. */
static bool comes_by_adding(const DiffSearch *s, int d, int k) {
    return k == -d || (k != d && furthest_at(s, d - 1, k - 1) < furthest_at(s, d - 1, k + 1));
}

static int reach(const DiffSearch *s, int d, int k) {
    int x = !d ? 0 : comes_by_adding(s, d, k) ? furthest_at(s, d - 1, k + 1) : furthest_at(s, d - 1, k - 1) + 1;
    while (x < s->n && x - k < s->m && x - k >= 0 && same_line(&s->a[x], &s->b[x - k])) x++;
    return x;
}

/* How many edits it takes; -1: too many, or memory is out. */
static int count_edits(DiffSearch *s) {
    for (int d = 0; d <= MOST_EDITS; d++) {
        if (!(s->furthest[d] = mem_alloc((size_t)(2 * d + 1) * sizeof(int)))) return -1;
        for (int k = -d; k <= d; k += 2) {
            const int x = s->furthest[d][k + d] = reach(s, d, k);
            if (x >= s->n && x - k >= s->m) return d;
        }
    }
    return -1;
}

static void mark_edits(const DiffSearch *s, int d, bool *in_a, bool *in_b) {
    for (int k = s->n - s->m; d > 0; d--) {
        const bool added = comes_by_adding(s, d, k);
        k += added ? 1 : -1;
        const int x = furthest_at(s, d - 1, k);
        if (added)
            in_b[x - k] = true;
        else
            in_a[x] = true;
    }
}

static void mark_changes(DiffSide *a, DiffSide *b) {
    int head = 0, tail = 0;
    while (head < a->n && head < b->n && same_line(&a->lines[head], &b->lines[head])) head++;
    while (tail < a->n - head && tail < b->n - head &&
           same_line(&a->lines[a->n - 1 - tail], &b->lines[b->n - 1 - tail]))
        tail++;
    DiffSearch s = {
        .a = a->lines + head, .b = b->lines + head, .n = a->n - head - tail, .m = b->n - head - tail, .furthest = {0}};
    const int d = count_edits(&s);
    if (d >= 0) {
        mark_edits(&s, d, a->changed + head, b->changed + head);
    } else {
        memset(a->changed + head, true, (size_t)s.n);
        memset(b->changed + head, true, (size_t)s.m);
    }
    for (int i = 0; i <= MOST_EDITS; i++) mem_free(s.furthest[i]);
}

/* Hunks ---------------------------------------------------------------------------------------- */

typedef struct DiffHunk { /* lines from..to of both */
    int from_a, to_a, from_b, to_b;
} DiffHunk;

/* From a place where both are alike up to the next change, and on to where enough lines are alike. */
static bool next_hunk(const DiffSide *a, const DiffSide *b, int x, int y, DiffHunk *out) {
    while (x < a->n && y < b->n && !a->changed[x] && !b->changed[y]) x++, y++;
    if (x == a->n && y == b->n) return false;
    const int before = x < y ? x : y, lead = before < DIFF_CONTEXT ? before : DIFF_CONTEXT;
    *out = (DiffHunk){x - lead, x, y - lead, y};
    for (int alike = 0; alike <= 2 * DIFF_CONTEXT && (x < a->n || y < b->n);) {
        if (x < a->n && a->changed[x])
            x++, alike = 0;
        else if (y < b->n && b->changed[y])
            y++, alike = 0;
        else
            x++, y++, alike++;
        if (!alike) out->to_a = x, out->to_b = y;
    }
    for (int i = 0; i < DIFF_CONTEXT && out->to_a < a->n && out->to_b < b->n; i++) out->to_a++, out->to_b++;
    return true;
}

static void print_diff_line(Text *out, char sign, const DiffLine *line) {
    text_put(out, &sign, 1);
    text_put(out, line->at, line->n);
    text_puts(out, "\n");
}

/* "7,3"; of no lines the one before them, as diff has it. */
static void print_range(Text *out, char sign, int from, int to) {
    text_printf(out, "%c%d", sign, to > from ? from + 1 : from);
    if (to - from != 1) text_printf(out, ",%d", to - from);
}

static void print_hunk(Text *out, const DiffSide *a, const DiffSide *b, const DiffHunk *h) {
    text_puts(out, "@@ ");
    print_range(out, '-', h->from_a, h->to_a);
    text_puts(out, " ");
    print_range(out, '+', h->from_b, h->to_b);
    text_puts(out, " @@\n");
    for (int x = h->from_a, y = h->from_b; x < h->to_a || y < h->to_b;) {
        if (x < h->to_a && a->changed[x])
            print_diff_line(out, '-', &a->lines[x++]);
        else if (y < h->to_b && b->changed[y])
            print_diff_line(out, '+', &b->lines[y++]);
        else
            print_diff_line(out, ' ', &a->lines[x++]), y++;
    }
}

void line_diff(const char *a, const char *b, const char *name_a, const char *name_b, Text *out) {
    DiffSide from = split_lines(a), to = split_lines(b);
    DiffHunk hunk = {0};
    if (from.lines && from.changed && to.lines && to.changed) {
        mark_changes(&from, &to);
        for (bool any = false; next_hunk(&from, &to, hunk.to_a, hunk.to_b, &hunk); any = true) {
            if (!any) text_printf(out, "--- %s\n+++ %s\n", name_a, name_b);
            print_hunk(out, &from, &to, &hunk);
        }
    }
    free_side(&from);
    free_side(&to);
}
