/* bitcode.c: the modules made by bitcode_build.cmake, as bytes of the library. */
#include "kernels/bitcode.h"

#define MODULE(level)                                                                              \
    __asm__(".section .rodata\n.balign 16\nsn_bitcode_" #level ":\n.incbin \"" BITCODE_AT #level   \
            ".bc\"\nsn_bitcode_end_" #level ":\n.byte 0\n.previous\n");                            \
    extern const char sn_bitcode_##level[], sn_bitcode_end_##level[];
MODULE(v2)
MODULE(v3)
MODULE(v4)

const void *kernels_bitcode(Isa isa, size_t *bytes) {
    const char *const begin[ISA_COUNT] = {sn_bitcode_v2, sn_bitcode_v3, sn_bitcode_v4};
    const char *const end[ISA_COUNT] = {sn_bitcode_end_v2, sn_bitcode_end_v3, sn_bitcode_end_v4};
    *bytes = (size_t)(end[isa] - begin[isa]);
    return begin[isa];
}
