/* cuda_gemm.c: products of a plan on a CUDA device: who computes them, where their result goes. Where a nest runs over
 * it (the hole of the template), it is left whole in workspace.
 *
 * f16 and bf16 are the library's where it has an algorithm (cuda_gemm_library.h), and so is f32 in a plan of numerics
 * fast; all else is a core of our own. Eager and compiled plans ask alike: sizes, how operands lie and whether the op
 * rounds its result are the same in both. */
#include "runtime/base/alloc.h"
#include "runtime/cuda/blaslt.h"
#include "runtime/cuda/cuda_gemm_library.h"
#include "runtime/device/template_run.h"

static CudaProduct product_of(const Kernel *kernel, const CudaStep *code, const TemplateRun *run) {
    const TemplateUse *const use = kernel->template;
    const int64_t *const a = run->operand[0].stride, *const b = run->operand[1].stride,
                         *const c = run->operand[2].stride;
    return (CudaProduct){.dtype = use->dtype,
                         .fast = use->fast,
                         .wide = use->tile >= 0 ? !code->core_narrow
                                                : kernel->bufs[use->operand[2].buf].dtype != use->dtype,
                         .visible = code->core_visible,
                         .batches = run->size[0],
                         .a = run->operand[0].at,
                         .b = run->operand[1].at,
                         .c = run->operand[2].at,
                         .g = {.m = run->size[1],
                               .n = run->size[2],
                               .k = run->size[3],
                               .a_batch = a[0],
                               .a_row = a[1],
                               .a_col = a[2],
                               .b_batch = b[0],
                               .b_row = b[1],
                               .b_col = b[2],
                               .c_batch = c[0],
                               .c_row = c[1],
                               .c_col = c[2]}};
}

static Status launch_product(CudaDevice *device, const CudaProduct *product) {
    bool done = false;
    if (cuda_library_takes(product)) TRY(cuda_library_launch(device, product, &done));
    return done ? ST_OK : cuda_core_launch(device, product);
}

/* Into workspace, over which the epilogue goes. */
static Status run_with_epilogue(CudaDevice *device, const Kernel *kernel, const CudaStep *code, CudaProduct *product,
                                Bound *bound) {
    const int64_t per_batch = product->g.m * product->g.n;
    const size_t bytes =
        (size_t)(product->batches * per_batch) *
        (size_t)(product->wide ? stype_bytes(dtype_compute(product->dtype)) : dtype_bytes(product->dtype));
    void *const workspace = bytes ? device->row.memory.allocate(&device->row.memory, bytes) : NULL;
    if (!bytes) return ST_OK;
    if (!workspace) return error_pending();
    product->c = workspace;
    product->g.c_batch = per_batch, product->g.c_row = product->g.n, product->g.c_col = 1;
    bound->bufs[kernel->template->tile] = workspace;
    bound->params[kernel->n_params] = per_batch;
    Status status = launch_product(device, product);
    if (status == ST_OK) status = cuda_launch_nests(device, kernel, code, bound);
    device->row.memory.free(&device->row.memory, workspace, bytes);
    return status;
}

static Status run_product(CudaDevice *device, const Kernel *kernel, const CudaStep *code, Bound *bound) {
    TemplateRun run = {0};
    template_bind(kernel->template, bound, &run);
    CudaProduct product = product_of(kernel, code, &run);
    if (kernel->template->tile >= 0) return run_with_epilogue(device, kernel, code, &product, bound);
    return launch_product(device, &product);
}

/* Once a process has looked for the library, it stays so. */
static bool remark_product(const Kernel *kernel, Text *text) {
    const char *why;
    if (!cuda_library_serves(kernel->template->dtype, kernel->template->fast) || blaslt_find(&why)) return false;
    text_printf(text, "on no tensor cores: cuBLASLt is absent: %s", why);
    return true;
}

const CudaTemplate cuda_template_gemm = {NULL, run_product, remark_product};
