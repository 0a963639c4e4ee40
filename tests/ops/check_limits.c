/* check_limits.c: numbers that a result's dtype has not (column .limit). The largest is taken, what lies above is a
 * value error that names the parameter: eagerly, and by a replay function that is given the number, after calls with
 * others. */
#include <math.h>

#include "runtime/base/error.h"
#include "tests/ops/ops.h"

/* The dtype that holds the number, as the kind of limit says; f64: every number is one of it. */
static DType holder(NumberLimit kind, DType result) {
    const bool half = result == DT_f16 || result == DT_bf16;
    if (half && kind == LIMIT_compute) return DT_f32;
    if (half && kind == LIMIT_wide) return DT_f64;
    return kind == LIMIT_narrow && result == DT_f32 ? DT_f64 : result;
}

static bool is_upper(const Param *param) { return !strncmp(param->name, "max", 3); }

/* The largest number, and one above it. False: there is none above. */
static bool limits_of(const OpRow *row, const Param *param, DType result, Arg *largest, Arg *above) {
    if (dtype_is_int(result)) {
        if (result == DT_i64 || (row->limit.kind == LIMIT_reach && is_upper(param))) return false;
        *largest = A_INT(dtype_largest(result));
        *above = A_INT(dtype_largest(result) + 1);
        return true;
    }
    const DType dtype = holder(row->limit.kind, result);
    if (dtype == DT_f64 || !dtype_is_float(dtype)) return false;
    *largest = A_FLOAT(dtype_largest_float(dtype));
    *above = A_FLOAT(nextafter(dtype_largest_float(dtype), INFINITY));
    return true;
}

/* Takes the error that names the parameter as one that is refused for its value. */
static bool is_refused(const Param *param) {
    const sn_error *const error = sn_check() == SN_OK ? NULL : sn_error_take();
    return error && error->status == SN_ERR_VALUE && strstr(error->message, param->name) &&
           (strstr(error->message, "can't be converted") || strstr(error->message, "outside the range"));
}

static void run_with(const Case *c, const Arg *number) {
    Case with = *c;
    SampleCall call;
    sn_tensor *outs[MAX_LIST];
    int n;
    with.style.number = number;
    if (sample_make(c->row, c->line, &with.style, &call) == ST_OK) sample_run(&call, outs, &n);
}

static void check_eager(const Case *c, const Param *param, const Arg *largest, const Arg *above) {
    const Arg infinite = A_FLOAT(INFINITY);
    run_with(c, largest);
    if (is_refused(param)) ops_fail(c, "%s %g, the largest number, is refused", param->name, arg_double(largest));
    sn_error_take();
    run_with(c, above);
    if (!is_refused(param)) ops_fail(c, "%s %.17g is taken", param->name, arg_double(above));
    sn_error_take();
    if (largest->kind != ARG_float) return;
    run_with(c, &infinite);
    if (is_refused(param)) ops_fail(c, "%s inf is refused", param->name);
    sn_error_take();
}

/* compiled ------------------------------------------------------------------------------------ */

typedef struct Given { /* the closure: the sample's call, whose parameter `at` is the last argument */
    const SampleCall *call;
    int at;
} Given;

static sn_status body(sn_frame *f) {
    const Given *const given = sn_closure(f);
    const OpRow *const row = given->call->row;
    sn_value in[MAX_ARGS], out[MAX_OUTS];
    int n_out = MAX_OUTS;
    memcpy(in, given->call->args, sizeof *in * (size_t)row->n_params);
    in[given->at] = sn_in_value(f, 0);
    if (sn_op_call(sn_op_find(row->name), in, row->n_params, out, &n_out) != SN_OK) return sn_check();
    return sn_out(f, 0, out[0].tensor);
}

static void call_with(sn_function *fn, sn_value number) {
    sn_tensor *out = NULL;
    sn_call_values(fn, &number, 1, &out, 1);
}

/* 4 calls, so that the number varies and the body is not run again. */
static void check_replayed(const Case *c, const Param *param, const Arg *above) {
    SampleCall call;
    if (sample_make(c->row, c->line, &c->style, &call) != ST_OK) return;
    Given given = {&call, c->style.number_at};
    sn_function *const fn = sn_compile(body, &given, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY));
    for (int i = 0; i < 4; i++) call_with(fn, above->kind == ARG_float ? sn_float(1.25 + i) : sn_int(5 + i));
    const bool usual = sn_check() == SN_OK;
    if (usual) {
        call_with(fn, above->kind == ARG_float ? sn_float(above->f) : sn_int(above->i));
        if (!is_refused(param)) ops_fail(c, "%s %.17g is taken in a replay", param->name, arg_double(above));
    }
    sn_error_take();
    sn_function_free(fn);
}

static void check_param(const Case *c, DType result) {
    const Param *const param = &c->row->params[c->style.number_at];
    Arg largest, above;
    if (!limits_of(c->row, param, result, &largest, &above)) return;
    check_eager(c, param, &largest, &above);
    if (c->row->kind == KIND_pointwise) check_replayed(c, param, &above);
}

static bool takes_number(const Param *param) {
    return param->type == PT_scalar || param->type == PT_scalar_opt || param->type == PT_float ||
           param->type == PT_float_opt;
}

void check_limits(const Case *c) {
    SampleCall call;
    sn_tensor *outs[MAX_LIST];
    int n;
    ops_count();
    if (!c->row->limit.kind || !ops_run(c, &call, outs, &n)) return;
    Case with = *c;
    for (int i = 0; i < c->row->n_params; i++)
        if (with.style.number_at = i, takes_number(&c->row->params[i]) && op_limits_number(c->row, i))
            check_param(&with, outs[0]->base.meta->dtype);
}
