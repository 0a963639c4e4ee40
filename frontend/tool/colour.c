/* colour.c: see colour.h. */
#include "frontend/tool/colour.h"

#include <unistd.h>

#include "runtime/base/environment.h"

static bool is(const char *name, const char *value) {
    const char *const set = environment(name);
    return set && !strcmp(set, value);
}

bool colour_on(FILE *to) {
    if (environment_is_set("NO_COLOR")) return false;
    if (environment_is_set("CLICOLOR_FORCE") && !is("CLICOLOR_FORCE", "0")) return true;
    if (is("CLICOLOR", "0") || !environment_is_set("TERM") || is("TERM", "dumb")) return false;
    return isatty(fileno(to)) == 1;
}

const char *colour_begin(FILE *to, Colour colour) {
    static const char *const sequences[] = {
        [COLOUR_error] = "\033[1;31m", [COLOUR_caret] = "\033[1;32m", [COLOUR_heading] = "\033[1m"};
    return colour_on(to) ? sequences[colour] : "";
}

const char *colour_end(FILE *to) { return colour_on(to) ? "\033[0m" : ""; }
