/* breaks.c: the rows of breaks.def, and which one a text is of. */
#include "runtime/core/breaks.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

const BreakReason break_reasons[BREAK_COUNT] = {
    {.kind = "", .name = "none", .text = "", .about = ""},
#define BREAK(code, kind, name, text, about) {code, #kind, #name, text, about},
#include "runtime/core/breaks.def"
#undef BREAK
};

static bool ends_with(const char *text, const char *end) {
    const size_t n = strlen(text), k = strlen(end);
    return n >= k && !strcmp(text + n - k, end);
}

/* With one %s, or two: what stands before the first and behind the last. */
static bool fits_format(const char *format, const char *text) {
    const char *const hole = strstr(format, "%s");
    if (!hole) return !strcmp(format, text);
    const char *last = hole;
    for (const char *more; (more = strstr(last + 2, "%s"));) last = more;
    const char *const between = last > hole ? hole + 2 : "";
    const size_t n = last > hole ? (size_t)(last - between) : 0;
    char middle[64];
    snprintf(middle, sizeof middle, "%.*s", (int)n, between);
    return !strncmp(format, text, (size_t)(hole - format)) && ends_with(text, last + 2) && strstr(text, middle);
}

static bool is_function(const char *text) {
    return !strncmp(text, "sn_", 3) && !text[strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_")];
}

static bool is_open(BreakId id) { return id == BREAK_called || id == BREAK_user_break; }

BreakId break_find(const char *text) {
    for (int id = 1; text && id < BREAK_COUNT; id++)
        if (!is_open((BreakId)id) && fits_format(break_reasons[id].text, text)) return (BreakId)id;
    return text && is_function(text) ? BREAK_called : BREAK_none;
}

BreakCode break_code(BreakId id) {
    BreakCode code = {""};
    if (id != BREAK_none) snprintf(code.text, sizeof code.text, "SB%d", break_reasons[id].code);
    return code;
}
