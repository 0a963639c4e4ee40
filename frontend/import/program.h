/* program.h: a .pt2 file as a graph: the text, and what a call has to satisfy beyond it. */
#ifndef SINTER_IMPORT_PROGRAM_H
#define SINTER_IMPORT_PROGRAM_H
#include <sinter/tensor.h>

#include "frontend/import/model.h"
#include "runtime/base/text.h"

/* The whole program as a text graph: weights are its first inputs, by their names in the file, then what a call gives.
 * Its header has ranges and guards. Adds to m->checks. */
Status program_text(Model *m, Text *out);

typedef struct ProgramGiven {
    bool is_int;
    int64_t number; /* of an int */
    DType dtype;
    int rank;
    const int64_t *sizes;
} ProgramGiven;
/* Sizes and ints of one call. */
typedef struct ProgramCall {
    const Model *m;
    const ProgramGiven *given; /* by its number */
    int64_t *symbols;          /* by place in m->symbols: what they are */
} ProgramCall;
/* Finds what the symbols are, and that all that the file asks of sizes holds; raises with the expression. */
Status program_check(const ProgramCall *call);
/* The type of an input as the file has it, "f32[s77,4]" with the file's symbols, "int", "3", "None". */
void program_input_type(const Model *m, const ModelInput *in, Text *out);
/* Of a result the same; of a text "'sum'". */
Status program_output_type(Model *m, const ModelOutput *o, Text *out);

#endif
