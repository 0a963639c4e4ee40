/* machine.h: a machine as decisions about code see it: a small named record (machine.def), no device that is asked. The
 * same nest and record give the same shape everywhere [shape.h]. */
#ifndef SINTER_CODEGEN_SHAPE_MACHINE_H
#define SINTER_CODEGEN_SHAPE_MACHINE_H
#include "ir/loop.h"
#include "runtime/base/text_reader.h"

typedef struct Machine {
    const char *name;
    int level, lanes;
    int64_t near_bytes, ahead_bytes, keep_bytes, stream_bytes;
    bool fma;
} Machine;

/* NULL past the last. */
const Machine *machine_at(int i);
/* NULL: none has this name, of n letters; raises ST_ARGUMENT with the names there are. */
const Machine *machine_find(const char *name, size_t n);
/* Whether a primitive is a call of the bitcode library, where others are an instruction or two. */
bool machine_calls(const Machine *machine, int prim, SType type);

/* "machine v4: lanes 16, near 16384, ...": one line, which parses back to the same record. */
void machine_print(const Machine *machine, Text *text);
Status machine_parse(TextReader *in, Machine *out);

#endif
