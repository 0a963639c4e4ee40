/* edges.h: the table of what differs from PyTorch on purpose, which `sinter cases --edges=TABLE` holds replayed cases
 * against (tests/oracle/edges.txt). Its lines:
 *
 *   OP  PART  COUNT  SUBSET  REASON  words, to the end of the line
 *
 * PART is CaseFinding's; COUNT and SUBSET say how many elements differ in the whole sweep and in the recorded part of
 * it that is kept. An op that was replayed must differ in just what its lines say; where the reason is `bound` (a
 * function's error, which ulps are held to elsewhere) in no more. A row of the op table that has no recorded call has a
 * line with the part `absent` and the reason `none`, which says why; one that has is replayed. */
#ifndef SINTER_FRONTEND_TOOL_EDGES_H
#define SINTER_FRONTEND_TOOL_EDGES_H
#include <stdio.h>

#include "frontend/cases/cases.h"

typedef struct EdgeLine {
    char op[96], part[16], reason[16];
    int64_t counts[2], found; /* of the whole sweep, of the subset; in this run */
} EdgeLine;
typedef struct EdgeTable {
    EdgeLine *lines;
    int n, capacity;
} EdgeTable;

Status edges_read(EdgeTable *table, const char *path); /* raises what is wrong with it, with the line */
void edges_record(EdgeTable *table, const CaseFinding *finding);
/* Prints what is not as the table says of op, as lines that it would need; how many such lines there are. */
int edges_unlike(const EdgeTable *table, const char *op, bool subset, FILE *to);
/* Prints rows of the op table that were not replayed and have no line for it, or were and have one; how many. */
int edges_left_out(const EdgeTable *table, bool (*replayed)(const void *context, const char *op), const void *context,
                   FILE *to);
void edges_free(EdgeTable *table);

#endif
