/* library.c: the bitcode of the primitives (kernels/bitcode.h), one small module per function as
 * tool/bitcode_split.c wrote them: reading all of them took half a millisecond of every compile. */
#include <stdlib.h>
#include <string.h>

#include "kernels/bitcode.h"

typedef struct BitcodeModule {
    const char *name;
    size_t at, bytes;
} BitcodeModule;

#define PARTS(level)                                                                                                   \
    __asm__(".section .rodata\n.balign 16\nsn_parts_" #level ":\n.incbin \"" PARTS_AT #level ".bin\"\n.previous\n");   \
    extern const char sn_parts_##level[];
PARTS(v2)
PARTS(v3)
PARTS(v4)

static const BitcodeModule index_v2[] = {
#include "parts_v2.inc"
};
static const BitcodeModule index_v3[] = {
#include "parts_v3.inc"
};
static const BitcodeModule index_v4[] = {
#include "parts_v4.inc"
};

static int by_name(const void *name, const void *part) { return strcmp(name, ((const BitcodeModule *)part)->name); }

const void *kernels_bitcode(Isa isa, const char *name, size_t *bytes) {
    const char *const base[ISA_COUNT] = {sn_parts_v2, sn_parts_v3, sn_parts_v4};
    const BitcodeModule *const index[ISA_COUNT] = {index_v2, index_v3, index_v4};
    const size_t n[ISA_COUNT] = {COUNT_OF(index_v2), COUNT_OF(index_v3), COUNT_OF(index_v4)};
    const BitcodeModule *const part = bsearch(name, index[isa], n[isa], sizeof *part, by_name);
    if (!part) return NULL;
    *bytes = part->bytes;
    return base[isa] + part->at;
}
