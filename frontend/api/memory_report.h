/* memory_report.h: what `sinter memory` says of a snapshot (sn_memory_snapshot; its format: runtime/device/
 * caching_snapshot.c): totals, the largest blocks, and what keeps free memory from being given out: pieces, or
 * streams. */
#ifndef SINTER_FRONTEND_MEMORY_REPORT_H
#define SINTER_FRONTEND_MEMORY_REPORT_H
#include "runtime/base/text.h"

/* asked: bytes that there are to be room for; 0: not known. Raises ST_PARSE where the text is no snapshot, or its
 * blocks are not what its statistics say. */
Status memory_report(const char *json, size_t n, int64_t asked, Text *out);
/* As one object: `sinter help memory` says its keys. */
Status memory_report_json(const char *json, size_t n, int64_t asked, Text *out);

#endif
