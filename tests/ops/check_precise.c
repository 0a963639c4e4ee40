/* check_precise.c: every body that rounds, in f64 and f32, against its formula in long double (64 bits of significand):
 * what a literal that is wrong in its seventh digit, or a formula that loses digits, would show. Bounds are those of
 * ir/ops/bounds.def; a body that rounds and has no formula in `bodies` fails by name, as does a row that computes and
 * states no bound. Reductions, losses and norms: unit/test_folds.c.
 *
 * Samples are drawn as in the other modes and, where the bound holds for all of them, over many orders of magnitude. */
#include "tests/ops/ops.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#define PI 3.14159265358979323846264338327950288L

typedef long double Real;
typedef struct Point {
    Real a[MAX_ARGS]; /* by argument: an element, or a number; NaN where there is none */
    bool tanh;        /* gelu's form */
    DType dtype;
} Point;
typedef Real Formula(const Point *p);

/* formulas ------------------------------------------------------------------------------------ */

#define FORMULA(name, result)                                                                                          \
    static Real name(const Point *p) {                                                                                 \
        const Real x = p->a[0], y = p->a[1], z = p->a[2], w = p->a[3];                                                 \
        (void)x, (void)y, (void)z, (void)w;                                                                            \
        return result;                                                                                                 \
    }

static Real sigmoid(Real x) { return 1 / (1 + expl(-x)); }
static Real phi(Real x) { return erfcl(-x / sqrtl(2)) / 2; }
static Real gelu_inner(Real x) { return sqrtl(2 / PI) * (x + 0.044715L * x * x * x); }
static Real gelu(const Point *p, Real x) { return x * (p->tanh ? sigmoid(2 * gelu_inner(x)) : phi(x)); }
static Real gelu_slope(const Point *p, Real x) {
    if (!p->tanh) return phi(x) + x * expl(-x * x / 2) / sqrtl(2 * PI);
    const Real s = sigmoid(2 * gelu_inner(x));
    return s + x * 2 * sqrtl(2 / PI) * (1 + 3 * 0.044715L * x * x) * s * sigmoid(-2 * gelu_inner(x));
}
static Real softplus(Real x) { return fmaxl(x, 0) + log1pl(expl(-fabsl(x))); }
static Real hard(Real x) { return fminl(fmaxl(x + 3, 0), 6) / 6; }
static Real floor_mod(Real x, Real y) {
    const Real rest = fmodl(x, y);
    return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}

static Real stored(const Point *p, Real x) { return p->dtype == DT_f32 ? (Real)(float)x : (Real)(double)x; }
FORMULA(f_add, x + stored(p, z *y))
FORMULA(f_sub, x - stored(p, z *y))
FORMULA(f_rsub, y - stored(p, z *x))
FORMULA(f_mul, x *y)
FORMULA(f_div, x / y)
FORMULA(f_fmod, fmodl(x, y))
FORMULA(f_remainder, floor_mod(x, y))
FORMULA(f_floor_divide, floorl(x / y))
FORMULA(f_pow, powl(x, y))
FORMULA(f_lerp, x + z * (y - x))
FORMULA(f_addcmul, x + w * y * z)
FORMULA(f_addcdiv, x + w * y / z)
FORMULA(f_fma, x *y + z)
FORMULA(f_xlogy, x == 0 ? 0 : x * logl(y))
FORMULA(f_log, logl(x))
FORMULA(f_log2, log2l(x))
FORMULA(f_log10, log10l(x))
FORMULA(f_log1p, log1pl(x))
FORMULA(f_exp, expl(x))
FORMULA(f_exp2, exp2l(x))
FORMULA(f_expm1, expm1l(x))
FORMULA(f_sqrt, sqrtl(x))
FORMULA(f_rsqrt, 1 / sqrtl(x))
FORMULA(f_reciprocal, 1 / x)
FORMULA(f_sin, sinl(x))
FORMULA(f_cos, cosl(x))
FORMULA(f_tan, tanl(x))
FORMULA(f_asin, asinl(x))
FORMULA(f_acos, acosl(x))
FORMULA(f_atan, atanl(x))
FORMULA(f_atan2, atan2l(x, y))
FORMULA(f_sinh, sinhl(x))
FORMULA(f_cosh, coshl(x))
FORMULA(f_tanh, tanhl(x))
FORMULA(f_asinh, asinhl(x))
FORMULA(f_acosh, acoshl(x))
FORMULA(f_atanh, atanhl(x))
FORMULA(f_erf, erfl(x))
FORMULA(f_erfc, erfcl(x))
FORMULA(f_hypot, hypotl(x, y))
FORMULA(f_logaddexp, fmaxl(x, y) + log1pl(expl(-fabsl(x - y))))
FORMULA(f_frac, x - truncl(x))
FORMULA(f_round_decimals, rintl(x *powl(10, y)) / powl(10, y))
FORMULA(f_sigmoid, sigmoid(x))
FORMULA(f_log_sigmoid, -softplus(-x))
FORMULA(f_silu, x *sigmoid(x))
FORMULA(f_mish, x *tanhl(softplus(x)))
FORMULA(f_gelu, gelu(p, x))
FORMULA(f_hardsigmoid, hard(x))
FORMULA(f_hardswish, x *hard(x))
FORMULA(f_leaky_relu, x > 0 ? x : x * y)
FORMULA(f_elu, z *(x > 0 ? x : y * expm1l(x * w)))
FORMULA(f_softplus, x *y > z ? x : softplus(x * y) / y)
FORMULA(f_sigmoid_backward, x *y *(1 - y))
FORMULA(f_tanh_backward, x *(1 - y * y))
FORMULA(f_gelu_backward, x *gelu_slope(p, y))
FORMULA(f_silu_backward, x *sigmoid(y) * (1 + y * sigmoid(-y)))
FORMULA(f_native_dropout_backward, x *y *z)
static Real hardswish_slope(Real x) { return x <= -3 ? 0 : x >= 3 ? 1 : x / 3 + 0.5L; }
FORMULA(f_hardswish_backward, x *hardswish_slope(y))
FORMULA(f_hardsigmoid_backward, fabsl(y) < 3 ? x / 6 : 0)
FORMULA(f_softplus_backward, y *z > w ? x : x * sigmoid(y * z))
FORMULA(f_leaky_relu_backward, y > 0 ? x : x * z)
FORMULA(f_elu_backward, p->a[5] > 0 ? x * z : x * w * (p->a[4] ? p->a[5] + y * z : y * z * expl(p->a[5] * w)))
static Real mish_slope(Real x) {
    const Real t = tanhl(softplus(x));
    return t + x * sigmoid(x) * (1 - t * t);
}
FORMULA(f_mish_backward, x *mish_slope(y))
FORMULA(f_log_sigmoid_backward, x *sigmoid(-y))
FORMULA(f_celu, x > 0 ? x : y * expm1l(x / y))
FORMULA(f_softshrink, x > y ? x - y : x < -y ? x + y : 0)
static Real between(Real x, Real eps) { return isnan(eps) ? x : x < eps ? eps : x > 1 - eps ? 1 - eps : x; }
FORMULA(f_logit, logl(between(x, y) / (1 - between(x, y))))
FORMULA(f_logit_backward, !isnan(z) && between(y, z) != y ? 0 : x / (y * (1 - y)))
FORMULA(f_prelu_kernel, x > 0 ? x : x * y)

/* bounds -------------------------------------------------------------------------------------- */

typedef struct Body {
    const char *name;
    Formula *formula;
    bool wide; /* the bound holds for arguments of any size */
} Body;

static const Body bodies[] = {
    {"add", f_add, true},
    {"sub", f_sub, true},
    {"rsub", f_rsub, true},
    {"mul", f_mul, true},
    {"div", f_div, true},
    {"fmod", f_fmod, true},
    {"remainder", f_remainder, true},
    {"floor_divide", f_floor_divide, false},
    {"pow", f_pow, true},
    {"lerp", f_lerp, true},
    {"addcmul", f_addcmul, false},
    {"fma", f_fma, false},
    {"addcdiv", f_addcdiv, false},
    {"xlogy", f_xlogy, true},
    {"log", f_log, true},
    {"log2", f_log2, true},
    {"log10", f_log10, true},
    {"log1p", f_log1p, true},
    {"exp", f_exp, true},
    {"exp2", f_exp2, true},
    {"expm1", f_expm1, true},
    {"sqrt", f_sqrt, true},
    {"rsqrt", f_rsqrt, true},
    {"reciprocal", f_reciprocal, true},
    {"sin", f_sin, true},
    {"cos", f_cos, true},
    {"tan", f_tan, true},
    {"asin", f_asin, true},
    {"acos", f_acos, true},
    {"atan", f_atan, true},
    {"atan2", f_atan2, true},
    {"sinh", f_sinh, true},
    {"cosh", f_cosh, true},
    {"tanh", f_tanh, true},
    {"asinh", f_asinh, true},
    {"acosh", f_acosh, true},
    {"atanh", f_atanh, true},
    {"erf", f_erf, true},
    {"erfc", f_erfc, true},
    {"hypot", f_hypot, true},
    {"logaddexp", f_logaddexp, true},
    {"frac", f_frac, true},
    {"round_decimals", f_round_decimals, false},
    {"sigmoid", f_sigmoid, true},
    {"log_sigmoid", f_log_sigmoid, true},
    {"silu", f_silu, true},
    {"mish", f_mish, true},
    {"gelu", f_gelu, true},
    {"hardsigmoid", f_hardsigmoid, true},
    {"hardswish", f_hardswish, true},
    {"leaky_relu", f_leaky_relu, true},
    {"elu", f_elu, true},
    {"softplus", f_softplus, true},
    {"sigmoid_backward", f_sigmoid_backward, true},
    {"tanh_backward", f_tanh_backward, true},
    {"gelu_backward", f_gelu_backward, true},
    {"silu_backward", f_silu_backward, true},
    {"native_dropout_backward", f_native_dropout_backward, true},
    {"hardswish_backward", f_hardswish_backward, true},
    {"hardsigmoid_backward", f_hardsigmoid_backward, true},
    {"softplus_backward", f_softplus_backward, true},
    {"leaky_relu_backward", f_leaky_relu_backward, true},
    {"elu_backward", f_elu_backward, true},
    {"mish_backward", f_mish_backward, true},
    {"log_sigmoid_backward", f_log_sigmoid_backward, true},
    {"celu", f_celu, false},
    {"softshrink", f_softshrink, true},
    {"logit", f_logit, true},
    {"logit_backward", f_logit_backward, true},
    {"prelu_kernel", f_prelu_kernel, true},
};

/* Rows without a formula compute nothing (exact), have no bound for a reason, or one of another kind: what is counted
 * (arange) and div by mode, which is div and floor_divide. */
static const char *const others[] = {"arange", "linspace", "logspace", "div_mode"};

static bool needs_formula(const Case *c) {
    for (int i = 0; i < COUNT_OF(others); i++)
        if (!strcmp(others[i], c->row->body)) return false;
    return c->row->bound.unit != UNIT_exact && c->row->bound.unit != UNIT_none;
}

static const Body *body_of(const Case *c) {
    for (int i = 0; i < COUNT_OF(bodies); i++)
        if (!strcmp(bodies[i].name, c->row->body)) return &bodies[i];
    if (needs_formula(c)) ops_fail(c, "body_%s has no formula in tests/ops/check_precise.c", c->row->body);
    return NULL;
}

/* comparing ----------------------------------------------------------------------------------- */

static double *elements(sn_tensor *t, const sn_tensor *like) {
    const Meta *const meta = like->base.meta;
    double *const data = calloc((size_t)meta->numel + 1, sizeof *data);
    sn_tensor *const wide = sn_to(sn_expand(t, (sn_ints){meta->sizes, meta->rank}), SN_F64);
    if (sn_read(wide, data, (size_t)meta->numel * sizeof *data) == SN_OK) return data;
    free(data);
    return NULL;
}

/* One unit of the last place of a number, denormals included. */
static double ulp(DType dtype, double x) {
    const double size = fabs(x);
    if (dtype == DT_f32) {
        const float single = (float)size;
        return isfinite(single) ? fmax((double)(nextafterf(single, HUGE_VALF) - single), 0x1p-149) : 0;
    }
    return isfinite(size) ? fmax(nextafter(size, 0) == 0 ? 0 : size - nextafter(size, 0), DBL_TRUE_MIN) : 0;
}

static bool is_near(DType dtype, const OpRow *row, const Point *p, double got, Real exactly) {
    const double want = dtype == DT_f32 ? (double)(float)exactly : (double)exactly;
    if (isnan(got) || isnan(want)) return isnan(got) && isnan(want);
    if (got == want) return true;
    double size = fabs(want);
    const BoundUnit unit = row->bound.unit;
    if (unit == UNIT_one) size = fmax(size, 1);
    if (unit == UNIT_tail) size = fmax(size, 128 * (dtype == DT_f32 ? (double)FLT_MIN : DBL_MIN));
    for (int i = 0; i < row->n_params && (unit == UNIT_largest || (unit == UNIT_form && p->tanh)); i++)
        if (isfinite(p->a[i])) size = fmax(size, (double)fabsl(p->a[i]));
    return fabsl((Real)got - exactly) <= (Real)((row->bound.ulps + 1e-3) * ulp(dtype, size));
}

static bool is_precise(const Case *c, const Body *body, const SampleCall *call, sn_tensor *out) {
    Point p = {0};
    double *of[MAX_ARGS] = {NULL}, *const got = elements(out, out);
    const int n = c->row->n_params;
    const DType dtype = p.dtype = out->base.meta->dtype;
    for (int i = 0; i < n; i++) {
        const Arg *const a = &call->args[i];
        if (a->kind == ARG_tensor && a->val) of[i] = elements(tensor_of(a->val), out);
        const double number = arg_is_number(a) ? arg_double(a) : NAN; /* in the compute type */
        p.a[i] = dtype == DT_f32 ? (Real)(float)number : (Real)number;
        p.tanh |= a->kind == ARG_string && !strcmp(a->string, "tanh");
    }
    bool good = true;
    for (int64_t k = 0; good && k < out->base.meta->numel; k++) {
        for (int i = 0; i < n; i++)
            if (of[i]) p.a[i] = of[i][k];
        const Real want = body->formula(&p);
        good = is_near(dtype, c->row, &p, got[k], want);
        if (good) continue;
        ops_fail(c, "element %lld: %.17g, exactly %.20Lg (%.2f ulp) of %.17g, %.17g", (long long)k, got[k], want,
                 (double)(fabsl((Real)got[k] - want) / (Real)ulp(dtype, (double)want)), (double)p.a[0], (double)p.a[1]);
    }
    for (int i = 0; i < n; i++) free(of[i]);
    free(got);
    return good;
}

enum { SEEDS = 24 };

static void check_in(const Case *c, const Body *body, DType dtype) {
    Case own = *c;
    own.style.dtype = dtype;
    for (int i = 0; i < (body->wide ? 2 * SEEDS : SEEDS); i++) {
        SampleCall call;
        sn_tensor *outs[MAX_LIST];
        int n;
        own.style.seed = (uint64_t)i;
        own.style.wide = i >= SEEDS;
        if (!ops_run(&own, &call, outs, &n) || !outs[0] || outs[0]->base.meta->dtype != dtype) return;
        if (!is_precise(&own, body, &call, outs[0])) return;
    }
}

static bool computes(const OpRow *row) {
    return row->kind == KIND_pointwise || row->kind == KIND_reduction || row->kind == KIND_decomposition ||
           row->kind == KIND_kernel;
}

void check_precise(const Case *c) {
    if (computes(c->row) && c->row->bound.unit == UNIT_unstated) ops_fail(c, "no bound in ir/ops/bounds.def");
    if (c->row->kind != KIND_pointwise || c->row->alias_of) return;
    const Body *const body = body_of(c);
    if (body) check_in(c, body, DT_f64), check_in(c, body, DT_f32);
}
