/* flow.c: a product as control flow: in a branch of a cond, in rounds of a scan, a map or a while_loop. What comes of
 * it has the layout of the product. Run alike eagerly and compiled. */
#include "tests/fuzz/run.h"

typedef struct FlowStep {
    double by;
    sn_tensor *other; /* that the bodies close over: of one element */
} FlowStep;

static sn_tensor *scaled(const FlowStep *step, sn_tensor *t) { return sn_mul_scalar(t, sn_float(step->by)); }

static sn_status times(sn_frame *f) { return sn_out(f, 0, scaled(sn_closure(f), sn_in(f, 0))); }

static sn_status noisy(sn_frame *f) {
    const FlowStep *const step = sn_closure(f);
    sn_tensor *const noise = sn_rand_like(sn_in(f, 0));
    sn_tensor *const sum = sn_add(scaled(step, sn_in(f, 0)), noise);
    return sn_out(f, 0, sn_mul(sum, step->other));
}

/* A cond in it is a body in a body. */
static sn_status either(sn_frame *f) {
    FlowStep *const step = sn_closure(f);
    sn_tensor *const t = sn_in(f, 0), *y = NULL;
    sn_cond(sn_gt_scalar(sn_sum(t), sn_float(0)), times, noisy, step, NULL, SN_TENSORS(t), &y, 1);
    return sn_out(f, 0, y);
}

static sn_status carried(sn_frame *f) {
    const FlowStep *const step = sn_closure(f);
    sn_tensor *const half = sn_mul_scalar(sn_in(f, 0), sn_float(0.5));
    sn_tensor *const next = sn_add(half, sn_mul(scaled(step, sn_in(f, 1)), step->other));
    sn_out(f, 0, next);
    return sn_out(f, 1, sn_tanh(next));
}

static sn_status few(sn_frame *f) { return sn_out(f, 0, sn_lt_scalar(sn_in(f, 0), sn_int(3))); }
static sn_status one_more(sn_frame *f) {
    sn_out(f, 0, sn_add_scalar(sn_in(f, 0), sn_int(1)));
    return sn_out(f, 1, scaled(sn_closure(f), sn_in(f, 1)));
}

static sn_tensor *in_scan(FlowStep *step, sn_tensor *t, bool reverse) {
    sn_tensor *out[2] = {NULL};
    sn_tensor *const start = sn_zeros_like(sn_select(t, 0, 0));
    sn_scan(carried, step, SN_SCAN_OPTIONS(.reverse = reverse), SN_TENSORS(start, t), out, 2);
    return out[1];
}

/* On the CPU only. */
static sn_tensor *in_sparse(const FlowStep *step, sn_tensor *t) {
    if (fz_device != SN_CPU) return scaled(step, t);
    sn_tensor *const s = sn_to_sparse(t), *const twice = sn_add(s, s);
    const sn_dtype dtype = sn_dtype_of(t);
    if (sn_rank(t) != 2 || (dtype != SN_F32 && dtype != SN_F64)) return scaled(step, sn_to_dense(twice));
    const int64_t n = sn_size(t, 1);
    return sn_mm(twice, sn_full(SN_INTS(n, n), sn_float(step->by), dtype));
}

sn_tensor *fz_flow(FzHow how, sn_tensor *t, double by) {
    FlowStep step = {.by = by, .other = sn_full(SN_INTS(), sn_float(0.75), sn_dtype_of(t))};
    if (by < 1) step.other = sn_tanh(sn_sum(t)); /* with the history that t has */
    sn_tensor *out[2] = {NULL}, *const count = sn_full(SN_INTS(), sn_int(0), SN_I64);
    if (how == FZ_in_sparse) return in_sparse(&step, t);
    if (how == FZ_in_cond)
        sn_cond(sn_gt_scalar(sn_sum(t), sn_float(0)), times, noisy, &step, NULL, SN_TENSORS(t), out, 1);
    if (how == FZ_in_map) sn_map(either, &step, NULL, SN_TENSORS(t), out, 1);
    if (how == FZ_in_scan) return in_scan(&step, t, by < 1);
    if (how != FZ_in_while) return out[0];
    sn_while_loop(few, one_more, &step, SN_WHILE_OPTIONS(.max_iterations = 9), SN_TENSORS(count, t), out, 2);
    return out[1];
}
