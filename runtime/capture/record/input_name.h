/* input_name.h: what a caller knows an input of a segment by [semantics C15]: the argument of the call (sn_in(f, 0)),
 * what the body closed over (numbered by first use in the segment), or a value of an earlier segment of the call. */
#ifndef SINTER_RUNTIME_INPUT_NAME_H
#define SINTER_RUNTIME_INPUT_NAME_H
#include "runtime/base/text_reader.h"
#include "runtime/capture/record/trace.h"

typedef struct InputName {
    enum { INPUT_argument, INPUT_closed_over, INPUT_earlier } kind;
    int index;
} InputName;

/* Of all inputs of the trace, or of one. */
void input_names(const Trace *trace, InputName *names);
InputName input_name(const Trace *trace, int input);
/* "argument 0", "closed over 0", "value 3 of an earlier graph"; as a graph's text calls it: x0, closed0, value3. */
void input_name_print(Text *text, InputName name);
bool input_name_read(TextReader *in, InputName *name); /* false: it is none; nothing was read then */
const char *input_name_word(Arena *arena, InputName name);

#endif
