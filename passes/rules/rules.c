/* rules.c: the tables of bodies and decompositions, pasted from the op table: a row whose rule
 * nobody wrote does not link. */
#include "passes/passes.h"
#include "ir/op_ids.h"

#define ALIAS(...)
#define DECLARE_pointwise(meta, rule)     BodyFn body_##rule;
#define DECLARE_reduction(meta, rule)     BodyFn body_##rule;
#define DECLARE_decomposition(meta, rule) DecompFn decomp_##rule;
#define DECLARE_composite(meta, rule)     DecompFn decomp_##rule;
#define DECLARE_view(meta)
#define DECLARE_kernel(meta, rule)
#define DECLARE_number(meta, rule)
#define OP(id, schema, doc, kind, ...) DECLARE_##kind
#include "ir/ops.def"
#undef OP

#define BODY_pointwise(meta, rule)     body_##rule
#define BODY_reduction(meta, rule)     body_##rule
#define BODY_decomposition(meta, rule) NULL
#define BODY_composite(meta, rule)     NULL
#define BODY_view(meta)                NULL
#define BODY_kernel(meta, rule)        NULL
#define BODY_number(meta, rule)        NULL
#define OP(id, schema, doc, kind, ...) [OP_##id] = BODY_##kind,
BodyFn body_expression;
BodyFn *body_rule(const OpRow *row) {
    if (row->expression) return body_expression;
    static BodyFn *const table[OP_IDS] = {
#include "ir/ops.def"
    };
    return table[row->alias_of ? row->alias_of->id : row->id];
}
#undef OP

#define DECOMP_pointwise(meta, rule)     NULL
#define DECOMP_reduction(meta, rule)     NULL
#define DECOMP_decomposition(meta, rule) decomp_##rule
#define DECOMP_composite(meta, rule)     decomp_##rule
#define DECOMP_view(meta)                NULL
#define DECOMP_kernel(meta, rule)        NULL
#define DECOMP_number(meta, rule)        NULL
#define OP(id, schema, doc, kind, ...)   [OP_##id] = DECOMP_##kind,
DecompFn *decomp_rule(const OpRow *row) {
    static DecompFn *const table[OP_IDS] = {
#include "ir/ops.def"
    };
    return table[row->alias_of ? row->alias_of->id : row->id];
}
#undef OP
