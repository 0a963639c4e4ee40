/* report_page.h: the parts of the page of sn_report_save and `sinter report`: what one function was compiled to, as one
 * HTML file that needs nothing else.
 *
 *   report_page.c    guards, breaks and recompiles as a tree; fusion; kernels
 *   report_stages.c  the stages side by side: each op with its type, origin and line, a link to its kernel's text
 *   memory_picture.c the CPU's memory after the calls, as a picture
 *   report_arena.c   the arena over the steps of a call, as a picture */
#ifndef SINTER_FRONTEND_REPORT_PAGE_H
#define SINTER_FRONTEND_REPORT_PAGE_H
#include <sinter/compile.h>

#include "runtime/base/json.h"
#include "runtime/base/text.h"

/* What was seen while it ran, as JSON: the table of a profile (NULL: none), a snapshot of the CPU's memory. */
typedef struct ReportSeen {
    const char *profile, *memory;
} ReportSeen;
/* The whole page; what has failed is pending. */
Status report_page(sn_function *fn, const ReportSeen *seen, Text *page);
/* The same into a file. */
Status report_page_write(sn_function *fn, const ReportSeen *seen, const char *path);

/* Dumps of a function, each made once: a dump has all of its graphs. */
typedef struct ReportTexts {
    sn_function *fn;
    int n;
    char *stages[16], *texts[16];
    const Json *steps; /* rows of the profile */
    const Json *parts; /* of the graph at hand: their kernels */
} ReportTexts;
/* Nanoseconds that a run of the kernel took; 0: none was seen. All kernels of one name have one time. */
double report_kernel_ns(const ReportTexts *texts, const char *kernel);
/* As sn_dump's, but for the life of the page; "" where it failed. */
const char *report_text(ReportTexts *texts, const char *stage);

/* A stage's text of one graph: "# graph 2" and what follows, to the next; NULL: it has none. *n: how long. */
const char *report_graph_of(const char *dump, int graph, size_t *n);
/* Of the part "# forward" or "# backward" in it; part "graph": all. */
const char *report_part_of(const char *text, size_t *n, const char *part);
/* The columns, and below them the loops, LLVM and assembly of each kernel with the id that its ops lead to. */
void report_stages(Text *page, ReportTexts *texts, int graph, const char *const *parts, int n_parts);
void report_arena(Text *page, ReportTexts *texts, int graph, const char *part);

#endif
