/* help_breaks.c: `sinter help breaks`: the rows of runtime/core/breaks.def, by kind, each with its code, which --json
 * gives beside a reason, its text, and what to do about it. */
#include <stdio.h>
#include <string.h>

#include "frontend/tool/colour.h"
#include "frontend/tool/tool.h"
#include "runtime/core/breaks.h"

static const struct {
    const char *kind, *title;
} titles[] = {{"graph_break", "A segment ends, or an op runs at once, between two of them"},
              {"eager", "A call, or a segment of it, runs op by op"},
              {"backward", "A segment with gradients leaves them to eager's nodes"},
              {"replay", "A call of SN_COMPILE_REPLAY runs its body"},
              {"flow", "A body of control flow is not in the graph (behind SB160)"}};

static const char *shown_text(BreakId id) {
    return id == BREAK_called       ? "(the name of a public function)"
           : id == BREAK_user_break ? "(the program's own text)"
                                    : break_reasons[id].text;
}

static void print_reason(BreakId id) {
    const BreakReason *const row = &break_reasons[id];
    const char *const text = shown_text(id);
    printf("%sSB%d%s  %s\n", colour_begin(stdout, COLOUR_heading), row->code, colour_end(stdout), text);
    for (const char *at = row->about, *end; (end = strchr(at, '\n')); at = end + 1)
        printf("       %.*s\n", (int)(end - at), at);
}

static void print_all(void) {
    for (size_t k = 0; k < sizeof titles / sizeof *titles; k++) {
        printf("%s%s.\n\n", k ? "\n" : "", titles[k].title);
        for (int id = 1; id < BREAK_COUNT; id++)
            if (!strcmp(break_reasons[id].kind, titles[k].kind)) print_reason((BreakId)id);
    }
}

bool help_breaks(const char *code) {
    if (!strcmp(code, "breaks")) return print_all(), true;
    for (int id = 1; id < BREAK_COUNT; id++)
        if (!strcmp(break_code((BreakId)id).text, code)) return print_reason((BreakId)id), true;
    return false;
}

static void put_reason(Text *text, const char *before, BreakId id) {
    put_json_pair(text, before, "code", break_code(id).text);
    put_json_pair(text, ", ", "kind", break_reasons[id].kind);
    put_json_pair(text, ", ", "text", shown_text(id));
    put_json_pair(text, ", ", "about", break_reasons[id].about);
    text_puts(text, "}");
}

bool help_breaks_json(Text *text, const char *code) {
    const bool all = !strcmp(code, "breaks");
    if (all) text_puts(text, "{\"breaks\": [");
    for (int id = 1; id < BREAK_COUNT; id++) {
        const bool asked = !strcmp(break_code((BreakId)id).text, code);
        if (all || asked) put_reason(text, all && id > 1 ? ",\n{" : "{", (BreakId)id);
        if (asked) return true;
    }
    if (all) text_puts(text, "]}");
    return all;
}
