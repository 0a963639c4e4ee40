/* writer_higher.h: what nodes of torch.ops.higher_order are given: arguments without names, bodies among them. */
#ifndef SINTER_IMPORT_WRITER_HIGHER_H
#define SINTER_IMPORT_WRITER_HIGHER_H
#include "frontend/import/writer.h"

typedef struct HigherArgs {
    const Json *at; /* list of {arg} */
    int n;
} HigherArgs;

/* The only member of its union; NULL: there are fewer. */
const Json *writer_higher_arg(const HigherArgs *args, int i);
/* The graph that it is; NULL: it is none. */
const Json *writer_higher_body(const HigherArgs *args, int i);
/* Its "inputs" or "outputs"; n -1: it has none. */
const Json *writer_higher_list(const Json *graph, const char *key, int *n);
Status writer_higher_wrong(const char *name);

/* cond and its like (writer_flow.c); raises for others. */
Status writer_flow(NodeWriter *w, const Json *node, const HigherArgs *args, const char *name);

#endif
