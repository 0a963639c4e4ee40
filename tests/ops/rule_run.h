/* rule_run.h: a derivative's rule, run on a row's graph of one node, as the joint pass and the tape run it. */
#ifndef SINTER_TESTS_OPS_RULE_RUN_H
#define SINTER_TESTS_OPS_RULE_RUN_H
#include "tests/ops/ops.h"

typedef struct RuleRun {
    Graph *graph; /* of ops_graph, without its outputs; gets the gradients as its own */
    Node *node;
    uint32_t needs;   /* bits of arguments */
    uint32_t results; /* bits of those that have a gradient, among the floats */
    bool listed;      /* only what `saves` lists is given */
    uint32_t set;     /* gets the arguments that the rule gave a gradient to */
} RuleRun;
Status rule_run(RuleRun *r);
/* A float tensor, or a list of them, that the row's rule may give a gradient to. */
bool rule_can_need(const OpRow *row, const Arg *args, int arg);

#endif
