/* rules.c: the tables of bodies and decompositions, pasted from the op table: a row whose rule
 * nobody wrote does not compile. */
#include "passes/passes.h"

#define DECLARE_pointwise(rule)     BodyFn body_##rule;
#define DECLARE_reduction(rule)     BodyFn body_##rule;
#define DECLARE_decomposition(rule) DecompFn decomp_##rule;
#define DECLARE_composite(rule)     DecompFn decomp_##rule;
#define DECLARE_view(rule)
#define DECLARE_kernel(rule)
#define OP(id, schema, inplace, out, c_name, c_short, kind, meta, body, ...) DECLARE_##kind(body)
#define ALIAS(...)
#include "ir/ops.def"
#undef OP

#define BODY_pointwise(rule)                                                 body_##rule
#define BODY_reduction(rule)                                                 body_##rule
#define BODY_decomposition(rule)                                             NULL
#define BODY_composite(rule)                                                 NULL
#define BODY_view(rule)                                                      NULL
#define BODY_kernel(rule)                                                    NULL
#define OP(id, schema, inplace, out, c_name, c_short, kind, meta, body, ...) [OP_##id] = BODY_##kind(body),
BodyFn *body_rule(const OpRow *row) {
    static BodyFn *const table[OP_COUNT] = {
#include "ir/ops.def"
    };
    return table[row->alias_of ? row->alias_of->id : row->id];
}
#undef OP

#define DECOMP_pointwise(rule)                                               NULL
#define DECOMP_reduction(rule)                                               NULL
#define DECOMP_decomposition(rule)                                           decomp_##rule
#define DECOMP_composite(rule)                                               decomp_##rule
#define DECOMP_view(rule)                                                    NULL
#define DECOMP_kernel(rule)                                                  NULL
#define OP(id, schema, inplace, out, c_name, c_short, kind, meta, body, ...) [OP_##id] = DECOMP_##kind(body),
DecompFn *decomp_rule(const OpRow *row) {
    static DecompFn *const table[OP_COUNT] = {
#include "ir/ops.def"
    };
    return table[row->alias_of ? row->alias_of->id : row->id];
}
#undef OP
