/* colour.c: see colour.h. */
#include "frontend/tool/colour.h"

#include <stdlib.h>
#include <unistd.h>

static bool is_set(const char *name) {
    const char *const value = getenv(name);
    return value && *value;
}

static bool is_zero(const char *name) { return is_set(name) && !strcmp(getenv(name), "0"); }

bool colour_on(FILE *to) {
    if (is_set("NO_COLOR")) return false;
    if (is_set("CLICOLOR_FORCE") && !is_zero("CLICOLOR_FORCE")) return true;
    if (is_zero("CLICOLOR") || !is_set("TERM") || !strcmp(getenv("TERM"), "dumb")) return false;
    return isatty(fileno(to)) == 1;
}

const char *colour_begin(FILE *to, Colour colour) {
    static const char *const sequences[] = {
        [COLOUR_error] = "\033[1;31m", [COLOUR_caret] = "\033[1;32m", [COLOUR_heading] = "\033[1m"};
    return colour_on(to) ? sequences[colour] : "";
}

const char *colour_end(FILE *to) { return colour_on(to) ? "\033[0m" : ""; }
