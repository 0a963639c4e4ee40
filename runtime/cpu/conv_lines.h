/* conv_lines.h: the lines of a convolution's source as sums over taps read them: a block of lines is copied with zeros
 * for its padding, one plane for each rest of the position by the step (a phase), so that every tap reads the columns
 * of the block as one run that begins at its own place.
 *
 *     step 2, taps at -1 0 1          phase 0: s[-1] s[1] s[3] s[5] ..    taps -1 and 1 read from the first and second
 *                                     phase 1: s[0]  s[2] s[4] s[6] ..    tap 0 from the first
 *
 * The lines of a block lie behind each other, so all of it is one run: what lies between two lines' ends is computed
 * and not kept, and short lines fill vectors, too. With step 1 zeros before a line are those behind the line before it.
*/
#ifndef SINTER_RUNTIME_CPU_CONV_LINES_H
#define SINTER_RUNTIME_CPU_CONV_LINES_H
#include "runtime/cpu/conv_sums.h"

/* How taps of one dim lie: the lowest offset, and what is beyond it. */
typedef struct TapWindow {
    int64_t low, reach, phases; /* reach: columns that a phase has behind those of the block */
} TapWindow;

typedef struct ConvLines {
    const Patches *p;
    int64_t channels; /* of a group */
    TapWindow y, x;
    int64_t lines, columns;      /* of a block of the result */
    int64_t pitch, plane, whole; /* elements of a line, a phase, a channel of the source's block */
    int64_t shared;              /* zeros that two lines have in common */
} ConvLines;

/* A sum over one or two dims whose padding may count as zeros. */
bool conv_lines_serve(const ConvSum *s);
/* Blocks of at most so many columns whose source takes about so many bytes. */
ConvLines conv_lines_of(const Patches *p, int64_t channels, int64_t bytes, int64_t most_columns);
int64_t conv_lines_run(const ConvLines *b, int64_t lines, int64_t columns); /* elements, first to last */
int64_t conv_lines_elements(const ConvLines *b); /* of a block, with what vectors read behind it */
/* By channel and tap: where in a block its run begins. */
void conv_lines_offsets(const ConvLines *b, int64_t *offsets);
/* What lies under lines y .. y + lines and columns from x on of the result, of all channels from `source` on. */
void conv_lines_fill(const ConvLines *b, const char *source, int64_t y, int64_t lines, int64_t x, char *to);

#endif
