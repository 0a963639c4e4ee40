/* symbolic.h: rows of which some sample has a part without a loop program where all sizes are symbols: eager runs that
 * part. */
#ifndef SINTER_TESTS_OPS_SYMBOLIC_H
#define SINTER_TESTS_OPS_SYMBOLIC_H
#include "ir/op.h"

typedef enum SymbolicMode { SYMBOLIC_forward, SYMBOLIC_backward, SYMBOLIC_resized } SymbolicMode;

/* Is the row in the list? A case of it was just met. */
bool symbolic_listed(const OpRow *row, SymbolicMode mode);
/* How many rows of the list had no such case, though they (or, NULL, all rows) were tried; prints them. */
int symbolic_stale(const char *only_row, SymbolicMode mode);

#endif
