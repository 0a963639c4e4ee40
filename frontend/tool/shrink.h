/* shrink.h: ways to make a text graph smaller; who asks says which of them keep what is looked for. What a step leaves
 * may be no graph that runs: that shows when it is tried.
 *
 *   cut       the results of one op are all outputs; what comes after goes
 *   outputs   one output goes
 *   ops       a row of ops goes: their results become inputs
 *   bypass    one op goes: its result is one of its arguments, of the same type
 *   inputs    an input that nothing uses goes
 *   numbers   symbolic sizes become the size that they have in a run
 *   sizes     a size of the inputs, and the same number among the arguments of ops, gets smaller */
#ifndef SINTER_TOOL_SHRINK_H
#define SINTER_TOOL_SHRINK_H
#include "runtime/base/text.h"

/* Whether the text still shows it. */
typedef bool ShrinkTest(void *context, const char *text);

typedef struct ShrinkSize {
    int ops, inputs, outputs;
} ShrinkSize;
ShrinkSize shrink_size(const char *text);

/* *text, which shows it: replaced (mem_free) by smaller ones until no step makes it smaller. Raises what is wrong with
 * it as a graph. */
Status shrink_graph(char **text, ShrinkTest *shows, void *context);

#endif
