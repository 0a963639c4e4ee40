/* func.c: a value through transforms of functions: a body under sn_vmap, its gradient, its vjp, its jvp, one in the
 * other. What comes of it has the sizes and dtype of the value, row-major. Run alike eagerly and compiled. */
#include <sinter/amp.h>
#include <sinter/transform.h>

#include "tests/fuzz/run.h"

typedef struct FuncStep {
    double by;
    bool flows;
    sn_tensor *other; /* that the bodies close over: of one element */
} FuncStep;

/* A product that a region of autocast casts the input for: there it is a leaf. */
static sn_tensor *projected(sn_tensor *x) {
    if (!sn_rank(x)) return x;
    return sn_linear(x, sn_full(SN_INTS(1, sn_size(x, -1)), sn_float(0.25), sn_dtype_of(x)), NULL);
}

/* Of x's sizes and dtype, whatever a region of autocast makes of its parts. */
static sn_tensor *curve_of(const FuncStep *step, sn_tensor *x) {
    sn_tensor *const y = sn_tanh(sn_mul(sn_mul_scalar(x, sn_float(step->by)), projected(x)));
    sn_tensor *const z = sn_mul(y, sn_sigmoid(sn_add(sn_sum(x), step->other)));
    if (step->by < 1) sn_add_(z, x); /* in place into what the body made */
    return sn_type_as(z, x);
}

/* The same, and another, as branches; rounds; a region of a checkpoint. */
static sn_status plain(sn_frame *f) { return sn_out(f, 0, curve_of(sn_closure(f), sn_in(f, 0))); }
static sn_status bent(sn_frame *f) {
    const FuncStep *const step = sn_closure(f);
    sn_tensor *const x = sn_in(f, 0);
    return sn_out(f, 0, sn_type_as(sn_mul(sn_sin(x), step->other), x));
}
static sn_status either(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *y = NULL;
    sn_cond(sn_gt_scalar(sn_sum(x), sn_float(0)), plain, bent, sn_closure(f), NULL, SN_TENSORS(x), &y, 1);
    return sn_out(f, 0, y);
}
static sn_status round_of(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 1), *const next = sn_type_as(sn_tanh(sn_add(sn_in(f, 0), sn_sum(x))), x);
    sn_out(f, 0, next);
    return sn_out(f, 1, sn_type_as(sn_mul(next, x), x));
}

static sn_tensor *flowing(FuncStep *step, sn_tensor *x) {
    sn_tensor *y = NULL, *out[2] = {NULL};
    if (sn_rank(x)) {
        sn_scan(round_of, step, NULL, SN_TENSORS(sn_zeros_like(sn_sum(x)), x), out, 2);
        return out[1];
    }
    sn_checkpoint(either, step, NULL, SN_TENSORS(x), &y, 1);
    return y;
}

static sn_tensor *value_of(FuncStep *step, sn_tensor *x) {
    if (!step->flows || sn_autocast_get(fz_device) != SN_F32) return curve_of(step, x); /* there no body is traced */
    sn_tensor *y = NULL;
    sn_cond(sn_gt_scalar(sn_sum(x), sn_float(0.25)), either, bent, step, NULL, SN_TENSORS(x), &y, 1);
    return y ? flowing(step, y) : NULL;
}

static sn_status curve(sn_frame *f) { return sn_out(f, 0, value_of(sn_closure(f), sn_in(f, 0))); }
static sn_status total(sn_frame *f) { return sn_out(f, 0, sn_sum(value_of(sn_closure(f), sn_in(f, 0)))); }

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

/* Of x's sizes and dtype, with random numbers. */
static sn_status noisy(sn_frame *f) {
    const FuncStep *const step = sn_closure(f);
    sn_tensor *const x = sn_in(f, 0), *const kept = sn_bernoulli_p(x, 0.5);
    return sn_out(f, 0, sn_type_as(sn_add(sn_mul_scalar(kept, sn_float(step->by)), sn_mul(x, sn_rand_like(x))), x));
}

static bool all_at_once;
void fz_func_at_once(bool value) { all_at_once = value; }

/* 2 or 3 examples at a time, which leaves some for the last; all, where nobody may tell. */
static void in_chunks(FuncStep *step, bool few, sn_tensors in, sn_tensor **out) {
    sn_vmap(noisy, step,
            SN_VMAP_OPTIONS(.chunk_size = all_at_once || !few ? 0
                                          : step->by < 1      ? 2
                                                              : 3,
                            .randomness = step->flows ? SN_VMAP_RANDOM_SAME : SN_VMAP_RANDOM_DIFFERENT),
            in, out, 1);
}

sn_tensor *fz_func(FzHow how, sn_tensor *t, double by) {
    const bool few = !sn_rank(t) || sn_size(t, 0) <= 16; /* control flow inside of sn_vmap runs example by example */
    FuncStep step = {.by = by,
                     .flows = few && (by == 0.75 || by == 1.5),
                     .other = sn_full(SN_INTS(), sn_float(0.75), sn_dtype_of(t))};
    sn_tensor *out = NULL, *const along = sn_detach(t);
    const sn_tensors in = SN_TENSORS(t);
    const bool nested = by < 1;
    if (how == FZ_in_vmap) sn_vmap(nested ? slope : curve, &step, NULL, in, &out, 1);
    if (how == FZ_in_chunks) in_chunks(&step, few, in, &out);
    if (how == FZ_in_grad) sn_func_grad(nested ? mapped_total : total, &step, NULL, in, &out, 1);
    if (how == FZ_in_vjp)
        sn_func_vjp(nested ? slope : curve, &step, SN_FUNC_VJP_OPTIONS(.cotangents = SN_TENSORS(along)), in, &out, 1);
    if (how == FZ_in_jvp)
        sn_func_jvp(nested ? slope : curve, &step, SN_FUNC_JVP_OPTIONS(.tangents = SN_TENSORS(along)), in, &out, 1);
    return out ? sn_contiguous(out) : NULL;
}
