/* cuda_user.h: kernels that a program brings as text, and what surrounds a body of the program that computes on a
 * device (sinter/cuda.h). */
#ifndef SINTER_RUNTIME_CUDA_USER_H
#define SINTER_RUNTIME_CUDA_USER_H
#include <sinter/cuda.h>

#include "runtime/core/frame.h"
#include "runtime/cuda/cuda_internal.h"

/* sn_cuda_kernel, sn_kernel_free, sn_cuda_launch, sn_cuda_stream; arguments are not checked yet */
Status cuda_user_kernel(const char *source, const char *name, sn_kernel **out);
void cuda_user_kernel_free(sn_kernel *kernel);
Status cuda_user_launch(const sn_frame *f, sn_kernel *kernel, const sn_cuda_grid *grid, const Arg *arguments, int n);
Status cuda_user_stream(const sn_frame *f, void **stream);

/* The row's. Between them the device's context is the thread's. */
Status cuda_body_begin(const Memory *memory, bool writes);
void cuda_body_end(const Memory *memory);

#endif
