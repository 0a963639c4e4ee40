/* decomp_loss_each.c: losses that are a function per element, reduced, and their gradients. Each element is computed
 * in f32 for bf16 and f16, and rounded before it is reduced, as an op of its own would be. */
#include "ir/schema.h"
#include "passes/rules/decomp.h"

DecompFn decomp_l1_loss, decomp_huber_loss, decomp_smooth_l1_loss, decomp_soft_margin_loss, decomp_mse_loss_backward;
DecompFn decomp_huber_loss_backward, decomp_smooth_l1_loss_backward, decomp_binary_cross_entropy;
DecompFn decomp_binary_cross_entropy_backward, decomp_cross_entropy_logits;

typedef struct LossPair {
    Val *self, *target; /* widened */
    DType dtype;        /* of the result */
} LossPair;

static LossPair loss_pair(Builder *b, const Arg *self) {
    const DType a = self[0].val->meta->dtype, t = self[1].val->meta->dtype;
    const bool floats = dtype_is_float(a) && dtype_is_float(t),
               weak = !self[0].val->meta->rank != !self[1].val->meta->rank;
    const DType strong = self[0].val->meta->rank ? a : t; /* what has no dims does not widen what has some */
    const DType dtype = floats ? weak ? strong : dtype_promote(a, t) : dtype_is_float(a) ? a : t;
    Val *const x = dtype_is_float(a) ? self[0].val : in_dtype(b, self[0].val, dtype);
    Val *const y = dtype_is_float(t) ? self[1].val : in_dtype(b, self[1].val, dtype);
    return (LossPair){widened(b, x), widened(b, y), dtype};
}
static Val *pair_difference(Builder *b, const LossPair *p) { return E(b, sub_Tensor, V(p->self), V(p->target)); }

static Status reduced_each(Builder *b, Val *each, const LossPair *p, const Arg *how, Val **outs) {
    return done1(outs, reduced_loss(b, in_dtype(b, each, p->dtype), how->i));
}

/* grad_output, or its share where it is that of a mean over self; where self has no elements none has a share of it. */
static Val *grad_share(Builder *b, const Arg *grad, const Arg *self, const Arg *how) {
    Val *const g = widened(b, grad->val);
    const int64_t numel = self->val->meta->numel;
    return how->i == REDUCTION_mean && !sym_same(b->env, numel, 0) ? E(b, div_Tensor, V(g), I(numel)) : g;
}

Status decomp_l1_loss(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const LossPair p = loss_pair(b, args);
    return reduced_each(b, E(b, abs, V(pair_difference(b, &p))), &p, &args[2], outs);
}

/* z^2 / 2 while z is below the corner (or at it), else corner (z - corner / 2) */
Status decomp_huber_loss(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const LossPair p = loss_pair(b, args);
    const double delta = arg_double(&args[3]);
    Val *const z = E(b, abs, V(pair_difference(b, &p)));
    Val *const curve = E(b, mul_Tensor, V(E(b, mul_Tensor, V(z), F(0.5))), V(z));
    Val *const line = E(b, mul_Tensor, V(E(b, sub_Tensor, V(z), F(0.5 * delta))), F(delta));
    return reduced_each(b, E(b, where_self, V(E(b, le_Tensor, V(z), F(delta))), V(curve), V(line)), &p, &args[2], outs);
}
Status decomp_smooth_l1_loss(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const double beta = arg_double(&args[3]);
    if (beta == 0) return decomp_l1_loss(b, row, args, outs);
    const LossPair p = loss_pair(b, args);
    Val *const z = E(b, abs, V(pair_difference(b, &p)));
    Val *const square = E(b, mul_Tensor, V(E(b, mul_Tensor, V(z), F(0.5))), V(z));
    Val *const curve = E(b, div_Tensor, V(square), F(beta)), *const line = E(b, sub_Tensor, V(z), F(0.5 * beta));
    return reduced_each(b, E(b, where_self, V(E(b, lt_Tensor, V(z), F(beta))), V(curve), V(line)), &p, &args[2], outs);
}

/* log(1 + e^-(self target)); from 40 on that is the exponent, in f64, too. */
Status decomp_soft_margin_loss(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const LossPair p = loss_pair(b, args);
    Val *const power = E(b, neg, V(E(b, mul_Tensor, V(p.self), V(p.target))));
    return reduced_each(b, E(b, softplus, V(power), F(1), F(40)), &p, &args[2], outs);
}

/* The slope of a pair's difference z, times a share of grad_output. */
static Status times_share(Builder *b, const OpRow *row, const Arg *args, Val *slope, Val *share, DType dtype,
                          Val **outs) {
    Val *const x = in_dtype(b, E(b, mul_Tensor, V(slope), V(share)), dtype);
    return done1(outs, in_layout_of(b, row, args, 0, x));
}
static Status by_slope(Builder *b, const OpRow *row, const Arg *args, const LossPair *p, Val *slope, Val **outs) {
    Val *const share = grad_share(b, &args[0], &args[1], &args[3]);
    return times_share(b, row, args, slope, share, args[1].val->meta->dtype, outs);
}
/* (grad_output, self, target, reduction) */
Status decomp_mse_loss_backward(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const LossPair p = loss_pair(b, &args[1]);
    Val *const g = grad_share(b, &args[0], &args[1], &args[3]); /* twice a large z may be infinite */
    Val *const share = E(b, mul_Tensor, V(g), F(2));
    return times_share(b, row, args, pair_difference(b, &p), share, args[1].val->meta->dtype, outs);
}
Status decomp_huber_loss_backward(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const LossPair p = loss_pair(b, &args[1]);
    const double delta = arg_double(&args[4]);
    Val *const z = pair_difference(b, &p);
    const bool reached = delta <= dtype_largest_float(z->meta->dtype); /* beyond it no slope is limited */
    return by_slope(b, row, args, &p, reached ? E(b, clamp, V(z), F(-delta), F(delta)) : z, outs);
}
/* z / beta between the corners, else 1 with its sign. A corner at 0 belongs to the side below; NaN stays. */
Status decomp_smooth_l1_loss_backward(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const LossPair p = loss_pair(b, &args[1]);
    const double beta = arg_double(&args[4]);
    Val *const z = pair_difference(b, &p), *const middle = beta != 0 ? E(b, div_Tensor, V(z), F(beta)) : z;
    Val *const above = E(b, where_self, V(E(b, ge_Tensor, V(z), F(beta))), F(1), V(middle));
    return by_slope(b, row, args, &p, E(b, where_self, V(E(b, le_Tensor, V(z), F(-beta))), F(-1), V(above)), outs);
}

static Val *log_limited(Builder *b, Val *log) { return E(b, clamp_min, V(log), F(-100)); }

/* (self, target, weight, reduction) */
Status decomp_binary_cross_entropy(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    LossPair p = loss_pair(b, args);
    p.self = E(b, in_unit, V(p.self));
    p.target = E(b, in_unit, V(p.target));
    Val *const yes = log_limited(b, E(b, log, V(p.self)));
    Val *const no = log_limited(b, E(b, log1p, V(E(b, neg, V(p.self)))));
    Val *const left = E(b, mul_Tensor, V(E(b, sub_Tensor, V(p.target), F(1))), V(no));
    Val *each = E(b, sub_Tensor, V(left), V(E(b, mul_Tensor, V(p.target), V(yes))));
    Val *const weight = optional(&args[2]);
    if (weight) each = E(b, mul_Tensor, V(in_dtype(b, each, p.dtype)), V(weight));
    return reduced_each(b, each, &p, &args[3], outs);
}
/* (grad_output, self, target, weight, reduction): (x - t) / (x (1 - x)), which is held above 0 */
Status decomp_binary_cross_entropy_backward(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const LossPair p = loss_pair(b, &args[1]);
    Val *const spread = E(b, mul_Tensor, V(E(b, add_Tensor, V(E(b, neg, V(p.self))), F(1))), V(p.self));
    Val *const slope = E(b, div_Tensor, V(pair_difference(b, &p)), V(E(b, clamp_min, V(spread), F(1e-12))));
    Val *const g = grad_share(b, &args[0], &args[1], &args[4]);
    Val *each = E(b, mul_Tensor, V(slope), V(g));
    Val *const weight = optional(&args[3]);
    if (weight) each = E(b, mul_Tensor, V(each), V(widened(b, weight)));
    return done1(outs, in_layout_of(b, row, args, 0, in_dtype(b, each, args[1].val->meta->dtype)));
}
/* (1 - t) x - log_sigmoid(x) (1 + (pos_weight - 1) t), by steps that round as PyTorch's do */
Status decomp_cross_entropy_logits(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const Arg self = args[0], target = args[1];
    Val *const weight = optional(&args[2]), *const positive = optional(&args[3]);
    const LossPair p = {self.val, target.val, loss_pair(b, args).dtype};
    Val *log = E(b, log_sigmoid, self);
    if (positive) {
        Val *const more = E(b, mul_Tensor, V(E(b, sub_Tensor, V(positive), I(1))), target);
        log = E(b, mul_Tensor, V(log), V(E(b, add_Tensor, V(more), I(1))));
    }
    Val *const rest = E(b, mul_Tensor, V(E(b, rsub_Tensor, target, I(1))), self);
    Val *each = E(b, sub_Tensor, V(rest), V(log));
    if (weight) each = E(b, mul_Tensor, V(each), V(weight));
    return reduced_each(b, each, &p, &args[4], outs);
}
