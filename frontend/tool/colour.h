/* colour.h: escape sequences for a terminal, and nothing elsewhere. NO_COLOR, if it is not empty, switches them off;
 * else CLICOLOR_FORCE, if it is neither empty nor 0, on, also for files and pipes; else they are for a terminal whose
 * TERM is not "dumb", unless CLICOLOR is 0. (no-color.org, bixense.com/clicolors) */
#ifndef SINTER_TOOL_COLOUR_H
#define SINTER_TOOL_COLOUR_H
#include <stdio.h>

#include "runtime/base/base.h"

typedef enum Colour { COLOUR_error, COLOUR_caret, COLOUR_heading } Colour;

bool colour_on(FILE *to);
/* What begins it, and what ends it; "" where there is none. */
const char *colour_begin(FILE *to, Colour colour);
const char *colour_end(FILE *to);

#endif
