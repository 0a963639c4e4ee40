/* template.h: which nodes the templates of ir/templates.def compute: lower_<name>, in passes/template_<name>.c. */
#ifndef SINTER_PASSES_TEMPLATE_H
#define SINTER_PASSES_TEMPLATE_H
#include "passes/lower.h"

typedef struct TemplateRule {
    bool (*takes)(const Node *node);
    /* The tensor that an operand of the row is: its dims are the row's, but for leading ones (then of size 1). */
    GVal *(*operand)(const Node *node, int operand);
    bool (*stores)(const Node *node); /* the result is the node's: it has no epilogue of its own */
    /* The element of the node's result, from that of the tile. */
    int (*body)(BodyCall *call, int tile);
    /* A size that no operand has, a stride or a padding; NULL: there is none. Plain or an expression of the graph's. */
    int64_t (*size)(const Node *node, char letter);
} TemplateRule;

#define TEMPLATE(name, ...) extern const TemplateRule lower_##name;
#include "ir/templates.def"
#undef TEMPLATE

const Template *template_row(const Node *node); /* NULL: no template computes it */
const TemplateRule *template_rule(const Node *node);
/* The use of its template by `node`; with a hole, its tile becomes a buffer of the draft. */
void template_begin(Draft *draft, const Node *node, bool hole, TemplateUse *use);

#endif
