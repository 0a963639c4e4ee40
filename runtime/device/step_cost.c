/* step_cost.c: see step_cost.h. */
#include "runtime/device/step_cost.h"

#include "runtime/device/launch_bind.h"

static int64_t bytes_now(const Launch *launch, const Meta *meta) {
    int64_t n = dtype_bytes(meta->dtype);
    for (int i = 0; i < meta->rank; i++) n *= launch_int(launch, meta->sizes[i]);
    return n;
}

static int64_t kernel_bytes(const Launch *launch, const Step *step) {
    int64_t bytes = 0;
    for (int i = 0; i < step->kernel->n_bufs; i++) {
        const int times = step->kernel->bufs[i].role == BUF_inout ? 2 : 1;
        if (step->bufs[i] >= 0) bytes += times * bytes_now(launch, launch->e->plan->slots.at[step->bufs[i]].meta);
    }
    return bytes;
}

static int64_t native_bytes(const Launch *launch, const Step *step) {
    int64_t bytes = 0;
    for (int i = 0; i < step_args(step); i++) {
        const Arg *const arg = &step->args[i];
        if (arg->kind == ARG_tensor && arg->val) bytes += bytes_now(launch, arg->val->meta);
        for (int k = 0; arg->kind == ARG_tensors && k < arg->n; k++)
            if (arg->vals[k]) bytes += bytes_now(launch, arg->vals[k]->meta);
    }
    for (int i = 0; i < step_outs(step); i++) bytes += bytes_now(launch, step->outs[i]->base.meta);
    return bytes;
}

/* A template's ints name parameters of its kernel, which are expressions of the plan. */
static int64_t size_now(const Launch *launch, const Kernel *kernel, int64_t value) {
    return launch_int(launch, sym_is(value) ? kernel->params[sym_id(value)] : value);
}

/* A template multiplies and adds once for each place in all of its sizes. */
static int64_t template_flops(const Launch *launch, const Kernel *kernel) {
    const TemplateUse *const use = kernel->template;
    int64_t flops = 2;
    if (!dtype_is_float(use->dtype)) return 0;
    for (int i = 0; use->row->sizes[i]; i++) flops *= size_now(launch, kernel, use->size[i]);
    return flops;
}

static int64_t native_flops(const Launch *launch, const Step *step) {
    if (!step->row || !op_is_product(step->row) || !dtype_is_float(step->outs[0]->base.meta->dtype)) return 0;
    const Meta *const out = step->outs[0]->base.meta, *const a = step->args[step->row->product.a].val->meta;
    if (!a->rank) return 0;
    return 2 * bytes_now(launch, out) / dtype_bytes(out->dtype) * launch_int(launch, a->sizes[a->rank - 1]);
}

StepCost step_cost(const Launch *launch, const Step *step) {
    if (step->kind != STEP_kernel) return (StepCost){native_bytes(launch, step), native_flops(launch, step)};
    return (StepCost){kernel_bytes(launch, step), step->kernel->template ? template_flops(launch, step->kernel) : 0};
}
