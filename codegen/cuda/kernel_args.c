/* kernel_args.c: what a launch of a function is given for one call. */
#include "codegen/cuda/cuda.h"

static int64_t int_of(int64_t value, const int64_t *params) { return sym_is(value) ? params[sym_id(value)] : value; }

static void count_blocks(const Kernel *kernel, const CudaFunction *f, const int64_t *params, KernelArgs *out) {
    int64_t extent[MAX_LOOP_DIMS], end = 0;
    for (int p = 0; p < f->n_parts; p++) {
        const Nest *const nest = &kernel->nests[f->parts[p].nest];
        out->counts[p] = 1;
        for (int d = 0; d < nest->n_outer + nest->n_inner; d++) extent[d] = int_of(nest->extent[d], params);
        for (int d = 0; d < nest->n_outer; d++) out->counts[p] *= extent[d];
        out->ends[p] = (int32_t)(end += cuda_blocks(&f->parts[p], nest, extent));
    }
    out->n_blocks = end;
}

static const CudaNestMapping *mapping_of(const CudaFunction *f, int nest) {
    int p = 0;
    while (f->parts[p].nest != nest) p++;
    return &f->parts[p].mapping;
}

static void count_workspaces(const Kernel *kernel, const CudaFunction *f, const int64_t *params, KernelArgs *out) {
    enum { ALIGNED = 64 };
    int64_t extent[MAX_LOOP_DIMS];
    out->workspace_bytes = 0;
    for (int i = 0; i < f->n_workspaces; i++) {
        const CudaWorkspace *const workspace = &f->workspaces[i];
        const Nest *const nest = &kernel->nests[workspace->nest];
        for (int d = 0; d < nest->n_outer + nest->n_inner; d++) extent[d] = int_of(nest->extent[d], params);
        out->workspaces[i] = out->workspace_bytes;
        const int64_t n = cuda_workspace_count(mapping_of(f, workspace->nest), nest, extent, workspace->stage);
        out->workspace_bytes += round_up(n * workspace->bytes, ALIGNED);
    }
}

static int64_t kernel_arg_of(const CudaFunction *f, const KernelArg *arg, const CudaBound *bound,
                             const KernelArgs *args) {
    const int p = arg->part;
    switch (arg->kind) {
    case CUDA_buf:
        return (int64_t)(intptr_t)bound->bufs[arg->at];
    case CUDA_param:
        return bound->params[arg->at];
    case CUDA_count:
        return args->counts[p];
    case CUDA_check:
        return f->parts[p].check;
    case CUDA_workspace:
        return args->workspaces[arg->at];
    case CUDA_range:
        break;
    }
    return (p ? args->ends[p - 1] : 0) | (int64_t)args->ends[p] << 32;
}

void cuda_fill(const Kernel *kernel, const CudaFunction *f, const CudaBound *bound, KernelArgs *out) {
    count_blocks(kernel, f, bound->params, out);
    count_workspaces(kernel, f, bound->params, out);
    for (int i = 0; i < f->n_args; i++) out->at[i] = kernel_arg_of(f, &f->args[i], bound, out);
}

void cuda_fill_workspace(const CudaFunction *f, int64_t address, KernelArgs *out) {
    for (int i = 0; i < f->n_args; i++)
        if (f->args[i].kind == CUDA_workspace) out->at[i] += address;
}
