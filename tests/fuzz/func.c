/* func.c: a value through transforms of functions: a body under sn_vmap, its gradient, its vjp, its jvp, one in the
 * other. What comes of it has the sizes and dtype of the value, row-major. Run alike eagerly and compiled. */
#include <sinter/transform.h>

#include "tests/fuzz/run.h"

typedef struct FuncStep {
    double by;
    sn_tensor *other; /* that the bodies close over: of one element */
} FuncStep;

/* Of x's sizes and dtype, whatever a region of autocast makes of its parts. */
static sn_tensor *curve_of(const FuncStep *step, sn_tensor *x) {
    sn_tensor *const y = sn_tanh(sn_mul_scalar(x, sn_float(step->by)));
    sn_tensor *const z = sn_mul(y, sn_sigmoid(sn_add(sn_sum(x), step->other)));
    if (step->by < 1) sn_add_(z, x); /* in place into what the body made */
    return sn_type_as(z, x);
}

static sn_status curve(sn_frame *f) { return sn_out(f, 0, curve_of(sn_closure(f), sn_in(f, 0))); }
static sn_status total(sn_frame *f) { return sn_out(f, 0, sn_sum(curve_of(sn_closure(f), sn_in(f, 0)))); }

static sn_status slope(sn_frame *f) { /* the gradient of the total */
    sn_tensor *out = NULL;
    sn_func_grad(total, sn_closure(f), NULL, SN_TENSORS(sn_in(f, 0)), &out, 1);
    return sn_out(f, 0, out);
}

static sn_status mapped_total(sn_frame *f) {
    sn_tensor *out = NULL;
    sn_vmap(total, sn_closure(f), NULL, SN_TENSORS(sn_in(f, 0)), &out, 1);
    return sn_out(f, 0, sn_sum(out));
}

sn_tensor *fz_func(FzHow how, sn_tensor *t, double by) {
    FuncStep step = {.by = by, .other = sn_full(SN_INTS(), sn_float(0.75), sn_dtype_of(t))};
    sn_tensor *out = NULL, *const along = sn_detach(t);
    const sn_tensors in = SN_TENSORS(t);
    const bool nested = by < 1;
    if (how == FZ_in_vmap) sn_vmap(nested ? slope : curve, &step, NULL, in, &out, 1);
    if (how == FZ_in_grad) sn_func_grad(nested ? mapped_total : total, &step, NULL, in, &out, 1);
    if (how == FZ_in_vjp)
        sn_func_vjp(nested ? slope : curve, &step, SN_FUNC_VJP_OPTIONS(.cotangents = SN_TENSORS(along)), in, &out, 1);
    if (how == FZ_in_jvp)
        sn_func_jvp(nested ? slope : curve, &step, SN_FUNC_JVP_OPTIONS(.tangents = SN_TENSORS(along)), in, &out, 1);
    return out ? sn_contiguous(out) : NULL;
}
