/* partition.h: what the files of the partitioner share.
 *
 *   partition.c         the cut, and the two graphs
 *   partition_places.c  which of the caller's memory the backward may read where it lies */
#ifndef SINTER_PASSES_PARTITION_H
#define SINTER_PASSES_PARTITION_H
#include "passes/copy.h"

typedef struct JointSplit {
    Graph *joint;
    int n_user;
    bool *backward; /* by value id: depends on an output gradient or a partial sum */
    bool *read;     /* by value id: the backward reads it */
    bool *saved;    /* by value id */
    bool *eager;    /* by id of an input: eager's tape holds its memory; NULL: not known */
    bool *fixed;    /* by node id: reads memory that is not checked by then, so it is not recomputed */
} JointSplit;

/* Every value that a node takes. */
typedef void UseVisit(void *context, GVal *value);
void each_use(Node *node, UseVisit *visit, void *context);
bool can_recompute(const Node *node);

/* Fills eager and fixed; false raised. */
bool partition_places(JointSplit *split);
/* An input that the backward may read where it is: eager's tape checks it for writes. Of any other a copy is
 * saved. */
bool stays_in_place(const JointSplit *split, const GVal *value);
/* A result of the caller's, in memory that eager's tape checks for writes: the backward may read it there. Its number,
 * or -1. */
int tape_saved_output(const JointSplit *split, const GVal *value);

#endif
