/* views_text.h: what a launch notes of its results (variant_views.h) as text: a part of case_text.h. A plan records no
 * gradients, so no view of it is stale.
 *
 *     writes of input 0: 2                          versions that the launch adds to its own
 *     view 1 of output 0                            as the tape has it: the ops from there; what is no number of the
 *       aten::select.int(0, 2), numbers 4           trace, and the first one that is; those in the text are of the
 *       aten::expand([8, -1], False), numbers 6, no_grad         call that was compiled
 *     view 2, no_grad                               of what nobody can reach
 */
#ifndef SINTER_RUNTIME_VIEWS_TEXT_H
#define SINTER_RUNTIME_VIEWS_TEXT_H
#include "runtime/base/text_reader.h"
#include "runtime/capture/variant/variant.h"

/* False: an op that made a view is the program's own. */
bool views_have_text(const Variant *variant);
void views_print(const Variant *variant, Text *text);
/* Into a variant whose graph inputs, outputs and ops are known; every number is in bounds. Raises ST_PARSE. */
Status views_read(TextReader *in, int n_numbers, Variant *variant);

#endif
