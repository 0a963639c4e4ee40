/* number_limits.c: which numbers an op takes: values of a dtype, or within limits of its own. A plain number outside is
 * an error; of a symbolic int and of a runtime float the limit is a guard [semantics C4], so that a call outside of it
 * runs the op, whose error it is. */
#include <math.h>

#include "ir/meta_rules.h"

static Status no_number_of(const MetaCall *call, int arg, DType dtype) {
    const Arg *const a = &call->args[arg];
    if (a->kind == ARG_float)
        return meta_fail(call, ST_VALUE, "%s %g can't be converted to %s", arg_name(call, arg), a->f,
                         dtype_name(dtype));
    return meta_fail(call, ST_VALUE, "%s %lld can't be converted to %s", arg_name(call, arg),
                     (long long)sym_hint(call->env, a->i), dtype_name(dtype));
}

static FloatLimit limit_of(DType dtype) {
    if (dtype_is_float(dtype)) {
        const double most = dtype_largest_float(dtype);
        return (FloatLimit){-most, most, .infinite = true, .nan = true};
    }
    return (FloatLimit){(double)dtype_least(dtype), nextafter((double)dtype_largest(dtype) + 1, 0)};
}

/* A number that nobody knows yet: the limit is a guard. False: it is outside. */
static bool float_holds(const MetaCall *call, const Arg *number, FloatLimit limit) {
    if (number->kind == ARG_float) return float_limit_holds(&limit, number->f);
    if (call->env) float_limits_add(sym_floats(call->env), number->i, limit);
    return true;
}

/* Every int64_t is a number of the wider floats. */
static bool int_holds(const MetaCall *call, int64_t value, DType dtype) {
    if (dtype_is_float(dtype)) {
        const int64_t most = dtype == DT_f16 ? 65504 : INT64_MAX;
        return most == INT64_MAX || (sym_at_most(call->env, -most, value) && sym_at_most(call->env, value, most));
    }
    const int64_t most = dtype_largest(dtype), least = dtype == DT_u8 ? -most : dtype_least(dtype);
    if (dtype == DT_i64) return true;
    return sym_at_most(call->env, least, value) && sym_at_most(call->env, value, most);
}

Status number_fits(const MetaCall *call, int arg, DType dtype) {
    const Arg *const a = &call->args[arg];
    const bool is_float = a->kind == ARG_float || a->kind == ARG_runtime;
    if ((!is_float && a->kind != ARG_int) || dtype == DT_bool) return ST_OK;
    if (is_float ? float_holds(call, a, limit_of(dtype)) : int_holds(call, a->i, dtype)) return ST_OK;
    return no_number_of(call, arg, dtype);
}

Status number_within(const MetaCall *call, int arg, FloatLimit limit, const char *what) {
    const Arg *const a = &call->args[arg];
    const bool plain = a->kind == ARG_bool || (a->kind == ARG_int && !sym_is(a->i));
    const Arg number = plain ? A_FLOAT((double)a->i) : *a;
    bool holds = true;
    if (number.kind == ARG_float || number.kind == ARG_runtime)
        holds = float_holds(call, &number, limit);
    else if (number.kind == ARG_int)
        holds = sym_at_most(call->env, double_to_i64(ceil(limit.least)), number.i) &&
                sym_at_most(call->env, number.i, double_to_i64(floor(limit.most)));
    if (holds) return ST_OK;
    return meta_fail(call, ST_VALUE, "%s must be %s, but is %g", arg_name(call, arg), what,
                     number.kind == ARG_float ? number.f : (double)sym_hint(call->env, number.i));
}

/* the column .limit --------------------------------------------------------------------------- */

/* Whose values a number must be one of; f64: of none. */
static DType limiting_dtype(NumberLimit kind, DType result) {
    const bool half = result == DT_f16 || result == DT_bf16;
    if (half && kind == LIMIT_compute) return DT_f32;
    if (half && kind == LIMIT_wide) return DT_f64;
    return result == DT_f32 && kind == LIMIT_narrow ? DT_f64 : result;
}

/* A number beyond all values of an int dtype is no bound of any; the other way round it has no effect (body_clamp). */
static Status leaves_values(const MetaCall *call, int arg, DType dtype) {
    const Arg *const a = &call->args[arg];
    const bool is_min = !strncmp(arg_name(call, arg), "min", 3);
    const int64_t least = dtype_least(dtype), most = dtype_largest(dtype);
    FloatLimit limit = limit_of(DT_i64); /* cut towards 0 */
    bool holds = true;
    if (is_min)
        limit.most = nextafter((double)most + 1, 0);
    else
        limit.least = nextafter((double)least - 1, 0);
    if (a->kind == ARG_float || a->kind == ARG_runtime)
        holds = float_holds(call, a, limit);
    else if (a->kind == ARG_int)
        holds = is_min ? sym_at_most(call->env, a->i, most) : sym_at_most(call->env, least, a->i);
    if (holds) return ST_OK;
    return meta_fail(call, ST_VALUE, "%s %g is outside the range of %s", arg_name(call, arg),
                     a->kind == ARG_float ? a->f : (double)sym_hint(call->env, a->i), dtype_name(dtype));
}

static Status number_limited(const MetaCall *call, int arg, DType result) {
    if (call->row->limit.kind == LIMIT_reach && dtype_is_int(result)) return leaves_values(call, arg, result);
    return number_fits(call, arg, limiting_dtype(call->row->limit.kind, result));
}

Status numbers_limited(const MetaCall *call, DType result) {
    for (int i = 0; i < call->row->n_params; i++)
        if (arg_is_number(&call->args[i]) && op_limits_number(call->row, i)) TRY(number_limited(call, i, result));
    return ST_OK;
}
