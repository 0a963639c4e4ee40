/* cuda.c: kernels of a program's own on CUDA devices (sinter/cuda.h). */
#include <sinter/cuda.h>

#include "frontend/api/enter.h"
#include "frontend/lib/options.h"
#include "runtime/cuda/cuda_user.h"

sn_kernel *sn_cuda_kernel(const char *source, const char *name) {
    API_ENTER(sn_cuda_kernel);
    sn_kernel *kernel = NULL;
    if (error_pending() != ST_OK) return NULL;
    if (!source || !name || !*name) {
        error_raise(ST_ARGUMENT, "sn_cuda_kernel: the source or the kernel's name is NULL");
        return NULL;
    }
    return cuda_user_kernel(source, name, &kernel) == ST_OK ? kernel : NULL;
}

void sn_kernel_free(sn_kernel *kernel) {
    if (kernel) cuda_user_kernel_free(kernel);
}

sn_status sn_cuda_launch(sn_frame *f, sn_kernel *kernel, const sn_cuda_grid *grid, const sn_value *arguments, int n) {
    sn_cuda_grid known = {0};
    if (error_pending() != ST_OK) return sn_check();
    if (!kernel || !grid || n < 0 || (n && !arguments))
        return (sn_status)error_raise(ST_ARGUMENT, "sn_cuda_launch: the kernel, its grid or its arguments are NULL");
    if (options_copy_in(&known, sizeof known, grid, "sn_cuda_launch") != ST_OK) return sn_check();
    return (sn_status)cuda_user_launch(f, kernel, &known, (const Arg *)(const void *)arguments, n);
}

void *sn_cuda_stream(sn_frame *f) {
    void *stream = NULL;
    if (error_pending() == ST_OK) cuda_user_stream(f, &stream);
    return stream;
}
