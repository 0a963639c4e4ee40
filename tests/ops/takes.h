/* takes.h: rows whose backward refuses what its forward returned, as PyTorch's does. */
#ifndef SINTER_TESTS_OPS_TAKES_H
#define SINTER_TESTS_OPS_TAKES_H
#include "ir/op.h"

/* Is such an error of the row in the list? It was just met. */
bool takes_listed(const OpRow *row, const char *message);
/* How many lines of the list no case met, though their rows (or, NULL, all rows) were tried; prints them. */
int takes_stale(const char *only_row);

#endif
