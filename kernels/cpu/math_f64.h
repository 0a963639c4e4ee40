/* math_f64.h: transcendental functions of f64 vectors. */
#ifndef SINTER_KERNELS_CPU_MATH_F64_H
#define SINTER_KERNELS_CPU_MATH_F64_H
#include "kernels/cpu/fma.h"

#endif
