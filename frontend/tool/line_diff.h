/* line_diff.h: two texts line by line: the fewest lines to take away and to add, as a unified diff. */
#ifndef SINTER_TOOL_LINE_DIFF_H
#define SINTER_TOOL_LINE_DIFF_H
#include "runtime/base/text.h"

enum { DIFF_CONTEXT = 3 };

/* The first line, from 1, in which they differ; 0: nowhere. *in_a, *in_b: where that line begins; NULL: there is
 * none. */
int first_difference(const char *a, const char *b, const char **in_a, const char **in_b);
/* "--- NAME", "+++ NAME" and the hunks, as `diff -u` has them; nothing where they are the same. Texts that differ in
 * very many lines are one hunk between their common ends. */
void line_diff(const char *a, const char *b, const char *name_a, const char *name_b, Text *out);

#endif
