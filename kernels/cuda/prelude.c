/* prelude.c: the texts that prelude.cmake makes of kernels/cuda and kernels/cpu. */
#include "kernels/cuda/prelude.h"

#define TEXT(name, file)                                                                                               \
    __asm__(".section .rodata\n.globl " #name "\n.hidden " #name "\n" #name ":\n.incbin \"" TEXTS_AT file              \
            "\"\n.byte 0\n.previous\n");
TEXT(cuda_prelude, "prelude.cu")
TEXT(cuda_gemm, "gemm.cu")
TEXT(cuda_text_windows, "windows.cu")
TEXT(cuda_text_convolution, "convolution.cu")
TEXT(cuda_text_bags, "bags.cu")
TEXT(cuda_text_products, "products.cu")
TEXT(cuda_text_moves, "moves.cu")
TEXT(cuda_text_sorts, "sorts.cu")
TEXT(cuda_text_scatter, "scatter.cu")
TEXT(cuda_text_scans, "scans.cu")
TEXT(cuda_text_positions, "positions.cu")
