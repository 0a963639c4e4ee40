/* header_rows.h: rows that a graph whose header has symbols does not run as compiled code, once for all sizes, and why;
 * and rows of which no sample has a size or number that may differ. */
#ifndef SINTER_TESTS_OPS_HEADER_ROWS_H
#define SINTER_TESTS_OPS_HEADER_ROWS_H
#include "ir/op.h"

typedef enum HeaderFault {
    HEADER_eager,    /* the op runs eagerly */
    HEADER_compiles, /* more than one compile */
    HEADER_refused,  /* no graph holds it */
    HEADER_fixed     /* no sample has a size or number that may differ */
} HeaderFault;

/* Is the row in the list, for that? A case of it was just met. */
bool header_listed(const OpRow *row, HeaderFault fault);
void header_met(const OpRow *row); /* a sample of it had symbols */
/* Rows without a case that are not listed so, and listed ones without such a case: how many; prints them. */
int header_stale(const char *only_row);

#endif
