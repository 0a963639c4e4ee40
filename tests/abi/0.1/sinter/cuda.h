/* cuda.h: kernels of one's own on CUDA devices. An op (dispatch.h) has a body `cuda`, which computes on tensors that
   lie on a CUDA device. It may call ops, launch kernels that the program has as text, or use the CUDA driver and
   libraries by itself:

       static const char *const source =
           "extern \"C\" __global__ void scale(const float *x, float *y, long long n, float by) {\n"
           "    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n"
           "    if (i < n) y[i] = by * x[i];\n"
           "}\n";
       kernel = sn_cuda_kernel(source, "scale"); // once, where sn_device_count(SN_KEY_CUDA) is not 0

       static sn_status scale_cuda(sn_frame *f) {
           sn_tensor *x = sn_contiguous(sn_in(f, 0)), *y = sn_empty_like(x);
           const int64_t n = sn_numel(x);
           const sn_value in[] = {sn_val(x), sn_val(y), sn_int(n), sn_in_value(f, 1)};
           sn_cuda_launch(f, kernel, SN_CUDA_GRID(.blocks = {(n + 255) / 256}, .threads = {256}), in, 4);
           return sn_out(f, 0, y);
       }

   While the body runs, the device's context is the thread's, and what it begins on the stream of sn_cuda_stream comes
   after all ops before it and before all that follow, in eager and in compiled calls; so does what is freed. With a
   meta rule and SN_OP_PURE the op is a node of graphs like any other. An op that may write what others see (SN_OP_PURE
   is not set, or its schema marks an argument as written) waits until no check of an earlier kernel can fail any more
   (an index out of range), and does not run where one has: that error is the call's. */
#ifndef SINTER_CUDA_H
#define SINTER_CUDA_H
#include <sinter/dispatch.h>
SN_BEGIN
/* A kernel, for all devices; from any thread. */
typedef struct sn_kernel sn_kernel;
/* Compiles `name` of a whole CUDA C++ program, by NVRTC, for the first device; for another one at its first launch
   there. The program includes nothing (no header is there), the kernel is extern "C", and its parameters are numbers
   of C's types, or pointers to these or to void; products and sums are not contracted. SN_ERR_DEVICE where there is no
   GPU or no NVRTC; SN_ERR_INTERNAL with the compiler's words, and the file that keeps the source if the setting
   dump_dir names a folder; SN_ERR_ARGUMENT where the text has no such kernel. [neutral] */
sn_kernel *sn_cuda_kernel(const char *source, const char *name);
/* Waits for its launches; NULL: nothing. [neutral] */
void sn_kernel_free(sn_kernel *kernel);

/* A launch: at least one block (0 in y or z counts as 1; 0 in x: nothing is launched, as for an empty tensor) of at
   most 1,024 threads. */
typedef struct sn_cuda_grid {
    size_t size;
    uint32_t blocks[3], threads[3];
    /* Of `extern __shared__`. */
    uint32_t shared_bytes;
    /* Tensors need not be contiguous: the kernel is told their strides. */
    bool strided;
} sn_cuda_grid;
#define SN_CUDA_GRID(...) SN_STRUCT(sn_cuda_grid, __VA_ARGS__)
/* In a `cuda` body or one at SN_KEY_CUDA: launches the kernel on the frame's stream and does not wait. One argument
   for each parameter, checked by its declaration: for a pointer a tensor on the frame's device, contiguous unless
   `strided` is set, whose dtype is the one pointed to (void: any; unsigned short: any of two bytes) and which is given
   from its first element on; for a number an int, float or bool, which must fit. What a pointer that is not const
   names is written: an argument of the op must be marked so in the schema (Tensor(a!)). Errors name op, kernel and
   parameter. [neutral] */
sn_status sn_cuda_launch(sn_frame *f, sn_kernel *kernel, const sn_cuda_grid *grid, const sn_value *arguments, int n);
/* There: the frame's CUstream, for launches of one's own; sn_data_raw gives addresses. NULL on error. [neutral] */
void *sn_cuda_stream(sn_frame *f);
SN_END
#endif
