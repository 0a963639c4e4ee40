/* draw.h: the part of lines x dtypes x layouts that `test_ops --pairs` takes: of a row's lines, dtypes and layouts each
 * two are met together in some case, but not each three. It depends on nothing else: all modes have the same cases. */
#ifndef SINTER_TESTS_OPS_DRAW_H
#define SINTER_TESTS_OPS_DRAW_H
#include "tests/ops/samples.h"

/* Whether the case of this line, of n_lines of its row, is among them. */
bool draw_has(int line, int n_lines, DType dtype, Layout layout);
/* Holds that against its claim for rows of any number of lines; prints pairs that are missing. How many. */
int draw_check(void);

#endif
