/* query.h: what a body asks of tensors and modes, as one mechanism: a query tells the thread's tracer what it showed
 * [semantics C7].
 *
 *   if (sn_requires_grad(m->w)) y = a(x); else y = b(x);      asked: requires_grad of w: 0
 *
 * The answers of a call that replay learns are guards of the replayed call (replay_guards.h). Of a placeholder nothing
 * is recorded: what it is follows from what the body's ops were given, and that is guarded; where its sizes are
 * expressions, they are specialised to what was shown (runtime/capture/record/symbols_shown.c).
 *
 * The file stands here since this is the lowest layer that can answer every row. */
#ifndef SINTER_RUNTIME_QUERY_H
#define SINTER_RUNTIME_QUERY_H
#include "runtime/core/tensor.h"

typedef enum QueryId {
#define QUERY(name, kind, now) QUERY_##name,
#include "runtime/autograd/query.def"
#undef QUERY
    QUERY_COUNT
} QueryId;

/* What a call of a replay function was told, kept with its symbols. */
typedef struct Asked {
    QueryId query;
    sn_tensor *tensor; /* retained; NULL: of no tensor */
    int64_t at, answer;
} Asked;

/* The answer, recorded where the thread's body is one that replay may learn. `at`: see query.def; t: valid, or NULL for
 * a query of no tensor. */
int64_t query_ask(QueryId query, sn_tensor *t, int64_t at);
/* The same of an answer that took more than a look. */
void query_showed(QueryId query, sn_tensor *t, int64_t at, int64_t answer);
/* Asks requires_grad, of a pending value too (pending work that decides it runs). */
bool query_requires_grad(sn_tensor *t);

int64_t query_now(QueryId query, const sn_tensor *t, int64_t at);
bool query_of_layout(QueryId query);
/* "requires_grad", for texts. */
const char *query_name(QueryId query);

#endif
