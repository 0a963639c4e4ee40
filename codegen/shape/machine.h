/* machine.h: a machine as decisions about code see it: a small named record (machine.def), no device that is asked. The
 * same nest and record give the same shape everywhere [shape.h]. */
#ifndef SINTER_CODEGEN_SHAPE_MACHINE_H
#define SINTER_CODEGEN_SHAPE_MACHINE_H
#include "ir/loop.h"
#include "runtime/base/text_reader.h"

typedef struct Machine {
    const char *name;
    int level, lanes; /* of a CPU */
    int64_t near_bytes, prefetch_bytes, keep_bytes, stream_bytes;
    bool fma;
    int capability; /* of a GPU; 0: it is a CPU */
    int threads, words;
    int64_t few_threads, ordered_blocks;
} Machine;

static inline bool machine_is_gpu(const Machine *machine) { return machine->capability != 0; }
/* CPUs; NULL past the last. */
const Machine *machine_at(int i);
/* GPUs, likewise. */
const Machine *machine_gpu_at(int i);
/* The row of a GPU of this capability. */
const Machine *machine_of_capability(int capability);
/* The GPU for which code is printed where none is named. */
const Machine *machine_gpu(void);
/* NULL: none has this name, of n letters; raises ST_ARGUMENT with the names there are. */
const Machine *machine_find(const char *name, size_t n);
/* Whether a primitive is a call of the bitcode library, where others are an instruction or two. */
bool machine_calls(const Machine *machine, int prim, SType type);

/* "machine v4: lanes 16, near 16384, ...", "machine sm_90: threads 128, ...": one line, which parses back to the same
 * record. */
void machine_print(const Machine *machine, Text *text);
Status machine_parse(TextReader *in, Machine *out);

#endif
