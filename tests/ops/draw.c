/* draw.c: see draw.h. The cases are the diagonals of a cube: those where line + dtype + layout divide by the number of
 * layouts, or by that of lines where it is smaller. Whichever two are given, some third makes the sum right. */
#include "tests/ops/draw.h"

#include <stdio.h>

enum { MOST_LINES = 12 };

bool draw_has(int line, int n_lines, DType dtype, Layout layout) {
    const int apart = n_lines < LAYOUT_COUNT ? n_lines : LAYOUT_COUNT;
    return (line + (int)dtype + (int)layout) % apart == 0;
}

typedef struct Pairs {
    bool line_dtype[MOST_LINES][DT_COUNT], line_layout[MOST_LINES][LAYOUT_COUNT], both[DT_COUNT][LAYOUT_COUNT];
    int cases;
} Pairs;

static void draw(Pairs *pairs, int n_lines) {
    for (int line = 0; line < n_lines; line++)
        for (int dtype = 1; dtype < DT_COUNT; dtype++)
            for (int layout = 0; layout < LAYOUT_COUNT; layout++) {
                if (!draw_has(line, n_lines, (DType)dtype, (Layout)layout)) continue;
                pairs->line_dtype[line][dtype] = pairs->line_layout[line][layout] = true;
                pairs->both[dtype][layout] = true;
                pairs->cases++;
            }
}

static int missing(bool there, const char *what, int n_lines, int a, int b) {
    if (!there) printf("draw: of %d lines, %s %d and %d are in no case\n", n_lines, what, a, b);
    return !there;
}

static int check_lines(int n_lines) {
    Pairs pairs = {0};
    int failed = 0;
    draw(&pairs, n_lines);
    for (int line = 0; line < n_lines; line++) {
        for (int d = 1; d < DT_COUNT; d++)
            failed += missing(pairs.line_dtype[line][d], "line and dtype", n_lines, line, d);
        for (int l = 0; l < LAYOUT_COUNT; l++)
            failed += missing(pairs.line_layout[line][l], "line and layout", n_lines, line, l);
    }
    for (int d = 1; d < DT_COUNT; d++)
        for (int l = 0; l < LAYOUT_COUNT; l++) failed += missing(pairs.both[d][l], "dtype and layout", n_lines, d, l);
    printf("draw: %d lines: %d of %d cases\n", n_lines, pairs.cases, n_lines * (DT_COUNT - 1) * LAYOUT_COUNT);
    return failed;
}

int draw_check(void) {
    int failed = 0;
    for (int n_lines = 1; n_lines <= MOST_LINES; n_lines++) failed += check_lines(n_lines);
    return failed;
}
