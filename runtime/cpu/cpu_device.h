/* cpu_device.h: the CPU as a device. */
#ifndef SINTER_RUNTIME_CPU_DEVICE_H
#define SINTER_RUNTIME_CPU_DEVICE_H
#include "runtime/core/dispatch.h"

void cpu_start(void); /* registers its row, and the kernels of its key */
/* cpu_kernels.c: cpu_<body> of a KIND_kernel row; NULL: another kind. */
OpKernel *cpu_kernel(const OpRow *row);

#endif
