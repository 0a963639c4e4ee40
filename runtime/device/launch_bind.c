/* launch_bind.c: see launch_bind.h and template_run.h. */
#include "runtime/device/template_run.h"

#include "runtime/base/small_array.h"

bool bound_begin(Bound *bound, const Kernel *kernel) {
    bound->bufs = SMALL_ARRAY(bound->few_bufs, kernel->n_bufs);
    bound->params = SMALL_ARRAY(bound->few_params, kernel->n_params + 1);
    return bound->bufs && bound->params;
}

void bound_end(Bound *bound) {
    small_array_free(bound->few_bufs, bound->bufs);
    small_array_free(bound->few_params, bound->params);
}

void bound_fill(const Launch *launch, const Step *step, Bound *bound) {
    const Kernel *const kernel = step->kernel;
    for (int i = 0; i < kernel->n_bufs; i++) bound->bufs[i] = step->bufs[i] < 0 ? NULL : launch->slots[step->bufs[i]];
    for (int i = 0; i < kernel->n_params; i++) {
        if (kernel->param_is_float && kernel->param_is_float[i])
            memcpy(&bound->params[i], &launch->floats[kernel->params[i]], sizeof(int64_t));
        else
            bound->params[i] = launch_int(launch, kernel->params[i]);
    }
}

CheckedOp checked_op(const Plan *plan, const Nest *nest, int inst) {
    const PlanOp *const op = inst >= 0 && inst < nest->n_insts ? plan_op(plan, nest->insts[inst].source) : NULL;
    return op ? (CheckedOp){op->of ? op->of : op->row, op->says} : (CheckedOp){0};
}

Status raise_check(CheckedOp checked, const char *kernel, int64_t index, int64_t bound) {
    const OpRow *const row = checked.row;
    if (row && row->check.kind == CHECK_true)
        return error_raise(ST_VALUE, "%s", checked.says ? checked.says : "a value that must not be 0 is 0");
    const char *const op = row ? row->name : kernel;
    const char *const param = row && row->check.param ? row->check.param : "index";
    const CheckKind kind = row ? row->check.kind : CHECK_index;
    if (kind == CHECK_divisor) return error_raise(ST_VALUE, "%s: an integer is divided by zero in other", op);
    if (kind == CHECK_unit)
        return error_raise(ST_VALUE, "%s: probabilities must be from 0 to 1, but element %lld is not", op,
                           (long long)(-1 - index));
    if (kind == CHECK_deviation)
        return error_raise(ST_VALUE, "%s: %s must be 0 or more, but element %lld is not", op, param,
                           (long long)(-1 - index));
    if (kind == CHECK_weight)
        return error_raise(ST_VALUE,
                           "%s: %s must be finite and not negative, and not all 0 where one is drawn; "
                           "element %lld is not",
                           op, param, (long long)(-1 - index));
    if (kind == CHECK_enough) /* the place of a one among its like, or -1 where there is none at all */
        return error_raise(ST_VALUE, "%s: mask has %lld ones or more, and %s has fewer elements", op,
                           (long long)(index < 0 ? -index : index + 1), param);
    return error_raise(ST_VALUE, "%s: %s %lld is out of range for %lld %s", op, param, (long long)index,
                       (long long)bound, kind == CHECK_class ? "classes" : "elements");
}

void template_bind(const TemplateUse *use, const Bound *bound, TemplateRun *run) {
    run->dtype = use->dtype;
    for (int i = 0; use->row->sizes[i]; i++) run->size[i] = bound_int(bound, use->size[i]);
    for (int i = 0; i < TEMPLATE_OPERANDS && use->row->operands[i].name; i++) {
        const TemplateOperand *const operand = &use->operand[i];
        char *const base = operand->buf < 0 ? NULL : bound->bufs[operand->buf];
        run->operand[i].at = base ? base + bound_int(bound, operand->offset) * dtype_bytes(use->dtype) : NULL;
        for (int d = 0; use->row->operands[i].dims[d]; d++)
            run->operand[i].stride[d] = bound_int(bound, operand->stride[d]);
    }
}
