/* report_arena.c: see report_page.h. From the text of stage memory: a box a slot, from its first step to its last one,
 * over the bytes that it has. */
#include <stdio.h>
#include <string.h>

#include "frontend/api/report_page.h"

enum { WIDTH = 720, HEIGHT = 240, MARGIN = 60 };

typedef struct ArenaSlot {
    int number, first, last;
    long long at, bytes;
    char type[96];
} ArenaSlot;

/* "  arena0  f32[64,128]  at 0, 32768 bytes, steps 0..1" */
static bool read_slot(const char *line, ArenaSlot *slot) {
    return sscanf(line, " arena%d %95s at %lld, %lld bytes, steps %d..%d", &slot->number, slot->type, &slot->at,
                  &slot->bytes, &slot->first, &slot->last) == 6;
}

typedef struct Extent {
    int slots, steps;
    long long bytes;
} Extent;

static const char *next_line(const char *line, const char *end) {
    const char *const newline = memchr(line, '\n', (size_t)(end - line));
    return newline ? newline + 1 : end;
}

static Extent extent_of(const char *text, const char *end) {
    Extent extent = {0};
    ArenaSlot slot;
    for (const char *line = text; line < end; line = next_line(line, end)) {
        if (!read_slot(line, &slot)) continue;
        extent.slots++;
        if (slot.last >= extent.steps) extent.steps = slot.last + 1;
        if (slot.at + slot.bytes > extent.bytes) extent.bytes = slot.at + slot.bytes;
    }
    return extent;
}

static void print_box(Text *page, const ArenaSlot *slot, const Extent *extent) {
    const double step = (double)WIDTH / extent->steps, scale = (double)HEIGHT / (double)extent->bytes;
    const double x = MARGIN + step * slot->first, y = scale * (double)slot->at;
    text_printf(page,
                "<rect class=\"slot\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"><title>arena%d: %s, %lld "
                "bytes at %lld, steps %d to %d</title></rect>\n",
                x, y, step * (slot->last - slot->first + 1), scale * (double)slot->bytes, slot->number, slot->type,
                slot->bytes, slot->at, slot->first, slot->last);
    text_printf(page, "<text x=\"%.1f\" y=\"%.1f\">arena%d</text>\n", x + 4, y + 14, slot->number);
}

void report_arena(Text *page, ReportTexts *texts, int graph, const char *part) {
    size_t n;
    const char *text = report_graph_of(report_text(texts, "memory"), graph, &n);
    if (text) text = report_part_of(text, &n, part);
    const Extent extent = text ? extent_of(text, text + n) : (Extent){0};
    if (!extent.slots) {
        text_puts(page, "<p>Nothing lies in the arena: each value is an input, an output or part of a kernel.</p>\n");
        return;
    }
    text_printf(page,
                "<figure class=\"arena\"><svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" role=\"img\" "
                "aria-label=\"the arena over the steps of a call\">\n",
                WIDTH + 2 * MARGIN, HEIGHT + 30);
    ArenaSlot slot;
    for (const char *line = text; line < text + n; line = next_line(line, text + n))
        if (read_slot(line, &slot)) print_box(page, &slot, &extent);
    for (int i = 0; i < extent.steps; i++)
        text_printf(page, "<text x=\"%.1f\" y=\"%d\">step %d</text>\n", MARGIN + (double)WIDTH / extent.steps * i + 4,
                    HEIGHT + 18, i);
    text_printf(page, "</svg><figcaption>%lld bytes; across: steps, down: bytes</figcaption></figure>\n", extent.bytes);
}
