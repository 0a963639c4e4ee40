/* attention.h: what attention's parts are, for its decompositions and derivatives. */
#ifndef SINTER_PASSES_RULES_ATTENTION_H
#define SINTER_PASSES_RULES_ATTENTION_H
#include "passes/rules/decomp.h"

/* Key or value heads shared by groups of query heads, repeated; NULL stays NULL. */
Val *decomp_repeat_heads(Builder *b, Val *x, int64_t heads);
/* The scale where none is given: 1 / sqrt(width). */
Arg decomp_root_scale(const Builder *b, int64_t width);
/* query key^T scale, masked; key has query's heads. */
Val *decomp_scores(Builder *b, Val *query, Val *key, Arg scale, Val *mask, bool causal);

#endif
