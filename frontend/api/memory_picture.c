/* memory_picture.c: see memory_picture.h. Three groups of rows, one below the other:
 *
 *   blocks by size    512 B  |#####====      |   in use, then the most so far; across: bytes
 *   segments          20 MiB |##  ##### ..   |   blocks where they lie; in use, waiting, free
 *   in use, by place  f.c:9  |#######        |   across: bytes */
#include "frontend/api/memory_picture.h"

#include <stdio.h>

#include "frontend/api/svg.h"

enum { LABEL = 220, BARS = 520, ROW = 18, MOST_ROWS = 40, LETTERS = 34 };

static const char used_colour[] = "#0969da", peak_colour[] = "#c8e1ff", free_colour[] = "#eaeef2";
static const char wait_colour[] = "#f4a261";

typedef struct MemoryPicture {
    Text *svg;
    int y;
} MemoryPicture;

static double count_in(const Json *object, const char *key) {
    const Json *const value = json_get(object, key);
    return value && value->kind == JSON_number && value->number > 0 ? value->number : 0;
}

static int rows_drawn(const Json *list) {
    return !list || list->kind != JSON_list ? 0 : list->n < MOST_ROWS ? list->n : MOST_ROWS;
}

static double most_of(const Json *list, const char *a, const char *b) {
    double most = 1;
    for (int i = 0; i < rows_drawn(list); i++) {
        const double bytes = count_in(&list->items[i], a) * (b ? count_in(&list->items[i], b) : 1);
        if (bytes > most) most = bytes;
    }
    return most;
}

static void print_head(MemoryPicture *p, const char *words, int n, const Json *list) {
    p->y += ROW;
    text_printf(p->svg, "<text x=\"4\" y=\"%d\" font-weight=\"bold\">%s</text>\n", p->y + 13, words);
    if (list && list->n > n)
        text_printf(p->svg, "<text x=\"%d\" y=\"%d\">%d more are not drawn</text>\n", LABEL, p->y + 13, list->n - n);
    p->y += ROW;
}

/* The end of a long one is cut off. */
static void print_label(MemoryPicture *p, const char *words) {
    size_t n = strlen(words), shown = n;
    if (n > LETTERS)
        for (shown = LETTERS; shown && ((unsigned char)words[shown] & 0xc0) == 0x80;) shown--; /* whole letters */
    text_printf(p->svg, "<text x=\"4\" y=\"%d\">", p->y + 13);
    svg_escaped(p->svg, words, shown);
    text_puts(p->svg, shown < n ? "...</text>\n" : "</text>\n");
}

static void print_bar(MemoryPicture *p, double from, double length, const char *colour, const char *title) {
    text_printf(p->svg,
                "<rect class=\"block\" x=\"%.1f\" y=\"%d\" width=\"%.2f\" height=\"%d\" fill=\"%s\" stroke=\"white\" "
                "stroke-width=\"0.5\"><title>",
                LABEL + from * BARS, p->y + 2, length * BARS, ROW - 4, colour);
    svg_words(p->svg, title);
    text_puts(p->svg, "</title></rect>\n");
}

static void print_classes(MemoryPicture *p, const Json *classes) {
    const int n = rows_drawn(classes);
    const double most = most_of(classes, "bytes", "peak");
    if (n) print_head(p, "Blocks by size: in use; most so far", n, classes);
    for (int i = 0; i < n; i++, p->y += ROW) {
        const Json *const class = &classes->items[i];
        const double bytes = count_in(class, "bytes"), now = count_in(class, "current"), peak = count_in(class, "peak");
        char words[128];
        snprintf(words, sizeof words, "%.0f bytes", bytes);
        print_label(p, words);
        snprintf(words, sizeof words, "at most %.0f blocks of %.0f bytes", peak, bytes);
        print_bar(p, 0, bytes * peak / most, peak_colour, words);
        snprintf(words, sizeof words, "%.0f blocks of %.0f bytes in use", now, bytes);
        if (now > 0) print_bar(p, 0, bytes * now / most, used_colour, words);
    }
}

/* By the states of a snapshot; what is unmapped is reserved addresses alone. */
static const char *state_colour(const char *state) {
    if (!strcmp(state, "used")) return used_colour;
    if (!strcmp(state, "waiting")) return wait_colour;
    return !strcmp(state, "free") ? free_colour : "#ffffff";
}

static void print_block(MemoryPicture *p, const Json *block, double *at, double most) {
    const char *const name = json_string(json_get(block, "state")), *const state = name ? name : "";
    const char *const site = json_string(json_get(block, "site"));
    const double bytes = count_in(block, "bytes");
    char title[512];
    snprintf(title, sizeof title, "%.0f bytes, %s%s%.300s", bytes, state, site ? ", " : "", site ? site : "");
    print_bar(p, *at / most, bytes / most, state_colour(state), title);
    *at += bytes;
}

static double segment_bytes(const Json *segment) {
    const Json *const blocks = json_get(segment, "blocks");
    double bytes = 0;
    for (int i = 0; blocks && blocks->kind == JSON_list && i < blocks->n; i++)
        bytes += count_in(&blocks->items[i], "bytes");
    return bytes;
}

static void print_segments(MemoryPicture *p, const Json *segments) {
    const int n = rows_drawn(segments);
    double most = 1;
    for (int i = 0; i < n; i++) {
        const double bytes = segment_bytes(&segments->items[i]);
        if (bytes > most) most = bytes;
    }
    if (n) print_head(p, "Segments: blocks in use, waiting, free", n, segments);
    for (int i = 0; i < n; i++, p->y += ROW) {
        const Json *const blocks = json_get(&segments->items[i], "blocks");
        char words[64];
        double at = 0;
        snprintf(words, sizeof words, "%.0f bytes", segment_bytes(&segments->items[i]));
        print_label(p, words);
        for (int k = 0; blocks && blocks->kind == JSON_list && k < blocks->n; k++)
            print_block(p, &blocks->items[k], &at, most);
    }
}

static void print_holders(MemoryPicture *p, const Json *holders) {
    const int n = rows_drawn(holders);
    const double most = most_of(holders, "bytes", NULL);
    if (n) print_head(p, "In use, by who asked for it", n, holders);
    for (int i = 0; i < n; i++, p->y += ROW) {
        const Json *const holder = &holders->items[i], *const stack = json_get(holder, "stack");
        Text title = {0};
        text_printf(&title, "%.0f bytes in %.0f blocks", count_in(holder, "bytes"), count_in(holder, "blocks"));
        for (int k = 0; stack && stack->kind == JSON_list && k < stack->n; k++)
            text_printf(&title, "%s%s", k ? " called by " : ": ", json_string(&stack->items[k]));
        const char *const first = stack && stack->n ? json_string(&stack->items[0]) : NULL;
        print_label(p, first ? first : "elsewhere");
        print_bar(p, 0, count_in(holder, "bytes") / most, used_colour, text_str(&title));
        text_free(&title);
    }
}

void memory_picture(const Json *snapshot, Text *svg) {
    Text rows = {0};
    MemoryPicture p = {&rows, ROW};
    const char *const device = json_string(json_get(snapshot, "device"));
    print_segments(&p, json_get(snapshot, "segments"));
    print_classes(&p, json_get(snapshot, "classes"));
    print_holders(&p, json_get(snapshot, "held"));
    text_printf(svg,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" role=\"img\" "
                "font-family=\"sans-serif\" font-size=\"11\" aria-label=\"memory\">\n<text x=\"4\" y=\"14\">Memory of ",
                LABEL + BARS + 4, p.y + 8);
    svg_words(svg, device ? device : "a device");
    text_puts(svg, p.y == ROW ? ": nothing is allocated</text>\n" : "</text>\n");
    text_puts(svg, text_str(&rows));
    text_puts(svg, "</svg>\n");
    text_free(&rows);
}
