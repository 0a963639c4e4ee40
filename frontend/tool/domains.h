/* domains.h: which values of a graph's inputs its ops take: positions lie inside of what they are positions in, numbers
 * that ints are divided by are not 0, probabilities lie from 0 to 1, what gradients are asked for requires them. Read
 * from the rows (column .check), forms and flags, and followed from the op back to the input through ops that only move
 * elements; what has no gradient through all ops. */
#ifndef SINTER_TOOL_DOMAINS_H
#define SINTER_TOOL_DOMAINS_H
#include "ir/graph.h"

typedef struct ValueDomain {
    bool unit;           /* of floats: from 0 to 1 */
    bool counted;        /* of ints: least to past - 1 */
    int64_t least, past; /* past > least */
    bool bags;           /* of ints: where bags begin among past - 1 positions: at 0, then never before */
    bool closed;         /* of those: the last one is where the last bag ends */
    bool leaf;           /* gradients are asked for it */
    bool written;        /* its memory is written: as an input it is no leaf */
    bool untracked;      /* an op takes it, or what is computed of it, that refuses what requires gradients */
} ValueDomain;

/* By value id, in the arena, under these values of the free symbols. NULL: memory is out. */
ValueDomain *graph_domains(Graph *graph, Arena *arena, const int64_t *symbols);

#endif
