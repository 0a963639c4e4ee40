/* explain.h: what happened to a compiled function, as text and as JSON (stable keys). */
#ifndef SINTER_RUNTIME_EXPLAIN_H
#define SINTER_RUNTIME_EXPLAIN_H
#include "runtime/function.h"

void explain_text(sn_function *fn, Text *text);
void explain_json(sn_function *fn, Text *text);
/* One stage of every variant, or "guards"; raises ST_ARGUMENT for an unknown stage. */
Status explain_dump(sn_function *fn, const char *stage, Text *text);
const char *explain_stage_name(int i); /* NULL past the last */
/* ops run from compiled call sequences over all ops, the first call left out [semantics C14]; 0
 * before. */
double explain_share(const sn_stats *stats);

#endif
