/* levels.h: what each compiled level of kernels/cpu exports, for the files that choose between them. */
#ifndef SINTER_KERNELS_LEVELS_H
#define SINTER_KERNELS_LEVELS_H
#include "kernels/kernels.h"

extern const KernelTable kernel_table_v2, kernel_table_v3, kernel_table_v4;

#endif
