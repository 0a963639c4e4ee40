/* explain_summary.h: the ten lines that an explained function begins with. */
#ifndef SINTER_RUNTIME_EXPLAIN_SUMMARY_H
#define SINTER_RUNTIME_EXPLAIN_SUMMARY_H
#include "runtime/capture/function/explain.h"

/* Ten lines, each with its end; stats: of the function, with the calls of replay. */
void explain_summary(const sn_function *fn, const sn_stats *stats, Text *text);

#endif
