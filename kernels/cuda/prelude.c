/* prelude.c: the text that prelude.cmake makes of kernels/cuda and kernels/cpu. */
#include "kernels/cuda/prelude.h"

__asm__(".section .rodata\n.globl cuda_prelude\n.hidden cuda_prelude\ncuda_prelude:\n.incbin \"" PRELUDE_AT
        "\"\n.byte 0\n.previous\n");
