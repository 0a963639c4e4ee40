/* locator.h: a target's graph with its inputs, looked at op by op: whose compiled results differ from eager's
 * (locate.h), whose eager ones are too far from exact ones (precise.h). */
#ifndef SINTER_TOOL_LOCATOR_H
#define SINTER_TOOL_LOCATOR_H
#include "frontend/tool/locate.h"
#include "ir/graph.h"

typedef struct Locator {
    const TargetOptions *o;
    Way way;
    sn_tensor *in[TARGET_INPUTS]; /* kept */
    int n_in;
    CallNumbers numbers;
    bool gradients; /* those of the results are a part of it */
    Arena *arena;
    Graph *graph; /* whose nodes have their places */
    const char *text;
    const char *source; /* the file that places of the text are in; NULL: it is no text */
    Located *out;
} Locator;

/* Takes the graph of an open target and copies of what its call `call` is given. What was taken is locator_end's. */
Status locator_load(Locator *l, Target *t, int call);
void locator_end(Locator *l);
/* The graph without writes and composites, and with the ops of the gradients of its inputs that require some. */
Status locator_join(Locator *l);
/* One more input for each result that has a gradient: the results' own are asked for their sizes. No input requires
 * gradients behind it. */
Status locator_seed(Locator *l, sn_tensor *const *results);
/* What the graph of the text gives eagerly, for the sizes; room TARGET_OUTPUTS. */
Status locator_run(const Locator *l, sn_tensor **results);
/* Notes the node as what was found: its op, its place, its line. */
void locator_report(const Locator *l, const Node *node);

#endif
