/* explain.h: what happened to a compiled function, as text and as JSON (stable keys). */
#ifndef SINTER_RUNTIME_EXPLAIN_H
#define SINTER_RUNTIME_EXPLAIN_H
#include "runtime/capture/variant/guards_text.h"
#include "runtime/device/repeat.h"

void explain_text(sn_function *fn, Text *text);
void explain_json(sn_function *fn, Text *text);
/* One stage of every variant; raises ST_ARGUMENT for an unknown one. */
Status explain_dump(sn_function *fn, const char *stage, Text *text);
Status explain_variant(const Variant *v, const Dump *dump, Text *text); /* of one */
/* Log topics graph, guards, fusion, output_code, aot_graphs: what was just compiled. */
extern const VariantWatcher explain_watcher;

/* What the two forms share. */
int64_t plan_step_bytes(const Plan *plan, const Step *step); /* read and written, by the hints */
int64_t plan_moved_bytes(const Plan *plan);
int64_t plan_arena_bytes(const Plan *plan); /* of all devices, by the hints */
/* What there is to say of how the step runs, which no step before it has said; malloc'd. NULL: nothing. */
char *plan_step_remark(const Plan *plan, int i);
const OpRow *plan_step_op(const Plan *plan, const Step *step, int i); /* i < step->n_ops */
const char *plan_part_name(const Variant *v, int i);                  /* graph, forward, backward */
int plan_fast_steps(const Plan *plan);                                /* how many may round otherwise than eager */
/* Whether it was to be one launch a call (preset reduce-overhead), and is. */
bool plan_part_repeats(const Variant *v, int part, RepeatReport *out);
const char *plan_part_stage(const Variant *v, int i); /* whose text has its values' numbers */
/* The next one, from *i on, of the merges that the scheduler made in a plan, or refused, each once; false: no more. */
bool plan_merge_next(const Plan *plan, bool refused, int *i, Text *line);
/* Break row i as texts list it: of rows with the same place and words only the first, with all their calls. False: not
 * that one. */
bool explain_break(const sn_function *fn, int i, char *where, size_t capacity, int64_t *count);
int explain_breaks(const sn_function *fn);     /* that are listed */
int64_t variant_arena_bytes(const Variant *v); /* the most that one launch takes, by the hints */

/* ops run from compiled call sequences over all ops, the first call left out [semantics C14]; 0
 * before. */
double explain_share(const sn_stats *stats);

#endif
