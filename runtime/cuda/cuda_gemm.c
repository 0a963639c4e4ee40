/* cuda_gemm.c: products on a CUDA device: a core for each dtype, compiled once for the process, with any sizes and
 * strides [kernels/cuda/gemm.cuh]. Where a nest runs over the result (the hole of the template), the core leaves it
 * whole in workspace, in the compute type. */
#include <stdio.h>

#include "kernels/cuda/prelude.h"
#include "runtime/base/alloc.h"
#include "runtime/cuda/cuda_code.h"
#include "runtime/device/template_run.h"

static Status make_core(CudaDevice *device, const Kernel *kernel, CudaProgram **program, CuFunction *function) {
    const DType dtype = kernel->template->dtype;
    char name[32];
    Text source = {0};
    snprintf(name, sizeof name, "product_%s", dtype_name(dtype));
    text_puts(&source, cuda_gemm);
    text_printf(
        &source,
        "GEMM(%s, %s)\n"
        "KERNEL %s(const memory_%s *a, const memory_%s *b, void *c, Gemm g, int wide, int visible, Failed *failed) "
        "{\n    if (visible && __syncthreads_or(failed->launch >= 0)) return;\n    gemm_%s(a, b, c, g, wide);\n}\n",
        dtype_name(dtype), stype_name(dtype_compute(dtype)), name, dtype_name(dtype), dtype_name(dtype),
        dtype_name(dtype));
    Status status = source.at ? cuda_program(device, name, &source, program) : ST_MEMORY;
    text_free(&source);
    return status == ST_OK ? cuda_program_function(device, *program, name, function) : status;
}

static CudaGemm sizes_of(const TemplateRun *run, bool whole) {
    const int64_t *const a = run->operand[0].stride, *const b = run->operand[1].stride,
                         *const c = run->operand[2].stride;
    const int64_t m = run->size[1], n = run->size[2];
    return (CudaGemm){.m = m,
                      .n = n,
                      .k = run->size[3],
                      .a_batch = a[0],
                      .a_row = a[1],
                      .a_col = a[2],
                      .b_batch = b[0],
                      .b_row = b[1],
                      .b_col = b[2],
                      .c_batch = whole ? m * n : c[0],
                      .c_row = whole ? n : c[1],
                      .c_col = whole ? 1 : c[2]};
}

static Status launch_core(CudaDevice *device, const CudaStep *code, const TemplateRun *run, CudaGemm sizes, void *c,
                          bool wide) {
    const int64_t blocks = run->size[0] * ceil_div(sizes.m, CUDA_GEMM_TILE) * ceil_div(sizes.n, CUDA_GEMM_TILE);
    CudaStream *const stream = cuda_stream(device);
    int is_wide = wide, visible = code->core_visible;
    void *values[] = {(void *)&run->operand[0].at, (void *)&run->operand[1].at, &c, &sizes, &is_wide, &visible,
                      &stream->checks.word};
    if (!blocks) return ST_OK;
    const CuResult result = device->driver->LaunchKernel(code->core, (unsigned)blocks, 1, 1, CUDA_GEMM_THREADS, 1, 1, 0,
                                                         stream->handle, values, NULL);
    return cuda_answer(device, "a launch", result);
}

/* Into workspace, over which the epilogue goes. */
static Status run_with_epilogue(CudaDevice *device, const Kernel *kernel, const CudaStep *code, const TemplateRun *run,
                                Bound *bound) {
    const CudaGemm sizes = sizes_of(run, true);
    const size_t bytes =
        (size_t)(run->size[0] * sizes.m * sizes.n) * (size_t)stype_bytes(dtype_compute(kernel->template->dtype));
    void *const workspace = bytes ? device->row.allocate(&device->row, bytes) : NULL;
    if (!bytes) return ST_OK;
    if (!workspace) return error_pending();
    bound->bufs[kernel->template->tile] = workspace;
    bound->params[kernel->n_params] = sizes.m * sizes.n;
    Status status = launch_core(device, code, run, sizes, workspace, true);
    if (status == ST_OK) status = cuda_launch_nest(device, &kernel->nests[0], &code->nests[0], bound);
    device->row.free(&device->row, workspace, bytes);
    return status;
}

static Status run_product(CudaDevice *device, const Kernel *kernel, const CudaStep *code, Bound *bound) {
    TemplateRun run = {0};
    template_bind(kernel->template, bound, &run);
    if (kernel->template->tile >= 0) return run_with_epilogue(device, kernel, code, &run, bound);
    const bool wide = kernel->bufs[kernel->template->operand[2].buf].dtype != kernel->template->dtype;
    return launch_core(device, code, &run, sizes_of(&run, false), run.operand[2].at, wide);
}

const CudaTemplate cuda_template_gemm = {make_core, run_product};
