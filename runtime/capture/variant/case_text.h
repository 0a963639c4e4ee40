/* case_text.h: a variant as text that parses back to one that runs: its plan, its guards, what is its inputs and
 * outputs. Saved plans are made of these; the code cache's files will be.
 *
 *     case 5 ops, random 0
 *     graph inputs 0, 2          by graph input: the input of the trace
 *     outputs 3, 7 inference     by graph output: the value of the trace
 *     writes of input 0: 1       views_text.h: how often a memory was written beyond once, which outputs are views
 *     view 1 of output 0
 *       aten::select.int(0, 2), numbers 4
 *     symbols s0=8>=2...         the plan (ir/plan.h, the stage "loops")
 *     guards {...}               guards_text.h
 *     ops 312                    the capture graph, so many bytes: what the code is compared with (variant_ops.h)
 */
#ifndef SINTER_RUNTIME_CASE_TEXT_H
#define SINTER_RUNTIME_CASE_TEXT_H
#include "runtime/base/text_reader.h"
#include "runtime/capture/variant/variant.h"

enum { MAX_CASE_SYMBOLS = 65536, MAX_CASE_TENSORS = 65536 };

/* Why a variant has no such text; NULL: it has one. Static text. */
const char *case_refusal(const Variant *variant);
/* names: of its inputs. A trained one is printed as its forward alone, compiled anew from its graph. */
Status case_print(const Variant *variant, const InputName *names, Text *text);

typedef struct CaseShape { /* that the segment has, whose case it is */
    int n_inputs, n_numbers;
    const char *function; /* whose it becomes, and which of its graphs: for names only */
    int id;
} CaseShape;

/* The plan verifies, every number is in bounds, and the plan's inputs are what the guards check; where memory is
 * reached is asked at each call with other symbols (case_reaches). The caller owns the variant. Raises ST_PARSE. */
Status case_parse(TextReader *in, CaseShape shape, Variant **out);
/* Does a case of a text stay in the memory of what it is given? symbols: of the call. Raises ST_INTERNAL. */
Status case_reaches(const Variant *variant, const int64_t *symbols);

#endif
