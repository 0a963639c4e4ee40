/* meta_random.c: numbers by chance sized as a tensor (ops/random.def); those of given sizes are in meta_create.c. */
#include <math.h>

#include "ir/meta_rules.h"

/* A parameter's number, which is known. */
static double random_number(const MetaCall *call, const char *name) { return arg_double(arg_named(call, name)); }

static Status wanted(const MetaCall *call, bool fits, const char *name, const char *what) {
    return fits ? ST_OK : meta_fail(call, ST_VALUE, "%s must be %s, but is %g", name, what, random_number(call, name));
}

static Status floats_like_self(MetaCall *call) {
    const Meta *const self = tensor_meta(call, 0);
    if (!dtype_is_float(self->dtype))
        return meta_fail(call, ST_DTYPE, "self must be floating point, not %s", dtype_name(self->dtype));
    out_like(call, 0, self, self->dtype);
    return ST_OK;
}

/* (self, from, to) */
Status meta_uniform(MetaCall *call) {
    const double from = random_number(call, "from"), to = random_number(call, "to");
    TRY(floats_like_self(call));
    if (from <= to && isfinite(to - from)) return ST_OK;
    return meta_fail(call, ST_VALUE, "from %g must not be above to %g, nor infinitely below it", from, to);
}

/* (self, mean, std) */
Status meta_normal(MetaCall *call) {
    TRY(floats_like_self(call));
    return wanted(call, random_number(call, "std") >= 0, "std", "0 or more");
}
Status meta_log_normal(MetaCall *call) {
    TRY(floats_like_self(call));
    return wanted(call, random_number(call, "std") > 0, "std", "above 0");
}
/* (self, median, sigma) */
Status meta_cauchy(MetaCall *call) {
    TRY(floats_like_self(call));
    return wanted(call, random_number(call, "sigma") > 0, "sigma", "above 0");
}
/* (self, lambd) */
Status meta_exponential(MetaCall *call) {
    TRY(floats_like_self(call));
    return wanted(call, random_number(call, "lambd") > 0, "lambd", "above 0");
}

/* (self, p) */
Status meta_geometric(MetaCall *call) {
    const Meta *const self = tensor_meta(call, 0);
    const double p = random_number(call, "p");
    if (self->dtype == DT_bool) return meta_fail(call, ST_DTYPE, "self must not be bool");
    out_like(call, 0, self, self->dtype);
    return wanted(call, p > 0 && p < 1, "p", "between 0 and 1");
}

/* (mean, std), either of which may be a number: sized as what they broadcast to, in the first tensor's dtype. */
Status meta_normal_of(MetaCall *call) {
    Elementwise e = {0};
    for (int i = 0; i < 2; i++) {
        const Meta *const t = call->args[i].kind == ARG_tensor ? tensor_meta(call, i) : NULL;
        if (!t) continue;
        if (!dtype_is_float(t->dtype))
            return meta_fail(call, ST_DTYPE, "%s must be floating point, not %s", arg_name(call, i),
                             dtype_name(t->dtype));
        elementwise_add(call, &e, i);
    }
    if (e.n == 1 && e.arg[0] == 0) TRY(wanted(call, random_number(call, "std") >= 0, "std", "0 or more"));
    TRY(elementwise_out(call, &e, e.in[0]->dtype));
    out_contiguous(call, &call->out[0]);
    return ST_OK;
}

/* Given ends are checked by the part that draws. (self, from, to) */
Status meta_random(MetaCall *call) {
    out_like(call, 0, tensor_meta(call, 0), tensor_meta(call, 0)->dtype);
    return ST_OK;
}

/* (self, num_samples, replacement) */
Status meta_multinomial(MetaCall *call) {
    const Meta *const self = tensor_meta(call, 0);
    const int64_t n = call->args[1].i;
    if (self->rank != 1 && self->rank != 2)
        return meta_fail(call, ST_SHAPE, "self must have 1 or 2 dims, not sizes %s", SIZES(call, self));
    if (!dtype_is_float(self->dtype))
        return meta_fail(call, ST_DTYPE, "self must be floating point, not %s", dtype_name(self->dtype));
    const int64_t classes = self->sizes[self->rank - 1], most = INT64_C(1) << 24;
    if (sym_less(call->env, n, 1) || sym_less(call->env, classes, 1))
        return meta_fail(call, ST_ARGUMENT, "num_samples %s of self %s: at least 1 of 1", sizes_text(call, &n, 1).at,
                         SIZES(call, self));
    if (!call->args[2].i && sym_less(call->env, classes, n))
        return meta_fail(call, ST_ARGUMENT, "num_samples %s, each at most once, of self %s", sizes_text(call, &n, 1).at,
                         SIZES(call, self));
    if (sym_less(call->env, most, classes))
        return meta_fail(call, ST_ARGUMENT, "self %s: at most %lld in a row", SIZES(call, self), (long long)most);
    const int64_t sizes[2] = {self->rank == 2 ? self->sizes[0] : n, n};
    TRY(check_numel(call, sizes, self->rank));
    out_plain(call, 0, DT_i64, self->device, sizes, self->rank);
    return ST_OK;
}
