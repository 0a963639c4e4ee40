/* check_wrong.c: no argument crashes. Every row and form is called boxed, with every parameter of a good call replaced
 * by every kind of wrong argument, and with wrong counts: eagerly, and in the body of a compiled function. What the
 * parameter can't be is an error that names the op and the parameter; of the rest only an error with the op's name or a
 * result is asked. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/base/error.h"
#include "tests/ops/ops.h"

/* One call in the making, in the order of the form's schema. */
typedef struct Wrong {
    const Case *good;
    OpForm form;
    const sn_op *op;
    Arg in[MAX_ARGS + MAX_OUTS + 1];
    int n_in;
    int at; /* the parameter that is replaced, by place; -1: none */
    const char *what;
    sn_tensor *odd[12];
    int n_odd;
} Wrong;

/* values -------------------------------------------------------------------------------------- */

enum { UNKNOWN_KIND = 99 };
#define WIDE (INT64_C(1) << 62)
static const int64_t zeros[MAX_RANK + 8], far[4] = {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX},
                                          low[4] = {INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN},
                                          minus[4] = {-1, -1, -2, -3}, wide[4] = {WIDE, WIDE, 2, 2};
static const int64_t symbols[2] = {SYM_LOW + 1, SYM_HIGH - 1};
static const double floats[4] = {NAN, INFINITY, -1, 1e300};
static Val *const no_vals[4];

static const struct {
    const char *what;
    Arg arg;
} values[] = {
    {"nothing", {.kind = ARG_default}},
    {"None", {.kind = ARG_none}},
    {"NULL tensor", {.kind = ARG_tensor}},
    {"0", {.kind = ARG_int}},
    {"1", {.kind = ARG_int, .i = 1}},
    {"-1", {.kind = ARG_int, .i = -1}},
    {"40", {.kind = ARG_int, .i = 40}},
    {"INT64_MIN", {.kind = ARG_int, .i = INT64_MIN}},
    {"INT64_MIN + 1", {.kind = ARG_int, .i = INT64_MIN + 1}},
    {"INT64_MAX", {.kind = ARG_int, .i = INT64_MAX}},
    {"2^62", {.kind = ARG_int, .i = WIDE}},
    {"what stands for a symbol", {.kind = ARG_int, .i = SYM_LOW + 1}},
    {"the last that does", {.kind = ARG_int, .i = SYM_HIGH - 1}},
    {"nan", {.kind = ARG_float, .f = NAN}},
    {"-inf", {.kind = ARG_float, .f = -INFINITY}},
    {"1e300", {.kind = ARG_float, .f = 1e300}},
    {"2.5", {.kind = ARG_float, .f = 2.5}},
    {"false", {.kind = ARG_bool}},
    {"bool 7", {.kind = ARG_bool, .i = 7}},
    {"string", {.kind = ARG_string, .string = "sideways"}},
    {"empty string", {.kind = ARG_string, .string = ""}},
    {"NULL string", {.kind = ARG_string}},
    {"[]", {.kind = ARG_ints, .ints = zeros}},
    {"[0]", {.kind = ARG_ints, .n = 1, .ints = zeros}},
    {"[0, 0]", {.kind = ARG_ints, .n = 2, .ints = zeros}},
    {"zeros of too many dims", {.kind = ARG_ints, .n = MAX_RANK + 8, .ints = zeros}},
    {"[INT64_MAX]", {.kind = ARG_ints, .n = 1, .ints = far}},
    {"[INT64_MAX...]", {.kind = ARG_ints, .n = 4, .ints = far}},
    {"[INT64_MIN]", {.kind = ARG_ints, .n = 1, .ints = low}},
    {"[INT64_MIN, INT64_MIN]", {.kind = ARG_ints, .n = 2, .ints = low}},
    {"[-1, -1]", {.kind = ARG_ints, .n = 2, .ints = minus}},
    {"[-1, -1, -2, -3]", {.kind = ARG_ints, .n = 4, .ints = minus}},
    {"[2^62, 2^62]", {.kind = ARG_ints, .n = 2, .ints = wide}},
    {"[2^62, 2^62, 2, 2]", {.kind = ARG_ints, .n = 4, .ints = wide}},
    {"what stand for symbols", {.kind = ARG_ints, .n = 2, .ints = symbols}},
    {"NULL ints", {.kind = ARG_ints, .n = 2}},
    {"-1 ints", {.kind = ARG_ints, .n = -1, .ints = zeros}},
    {"-2^31 ints", {.kind = ARG_ints, .n = INT32_MIN, .ints = zeros}},
    {"no floats", {.kind = ARG_floats, .floats = floats}},
    {"floats", {.kind = ARG_floats, .n = 2, .floats = floats}},
    {"NULL floats", {.kind = ARG_floats, .n = 2}},
    {"no tensors", {.kind = ARG_tensors, .vals = no_vals}},
    {"NULL tensors", {.kind = ARG_tensors, .n = 2}},
    {"tensors that are NULL", {.kind = ARG_tensors, .n = 2, .vals = no_vals}},
    {"-1 tensors", {.kind = ARG_tensors, .n = -1, .vals = no_vals}},
    {"a runtime float", {.kind = ARG_runtime}},
    {"a value of an unknown kind", {.kind = UNKNOWN_KIND}},
    {"a value of kind -1", {.kind = -1}},
};

/* Tensors that go badly with most others. */
static void make_odd(Wrong *w) {
    const sn_ints none = {zeros, 0}, square = SN_INTS(2, 3), flat = SN_INTS(5), empty = SN_INTS(0, 3),
                  deep = SN_INTS(1, 1, 1, 1, 1, 1, 1, 2);
    sn_tensor *const odd[] = {sn_ones(none, SN_F32),
                              sn_ones(square, SN_I64),
                              sn_ones(square, SN_BOOL),
                              sn_ones(flat, SN_F64),
                              sn_zeros(empty, SN_F32),
                              sn_ones(deep, SN_F32),
                              sn_full(flat, sn_int(INT64_MIN), SN_I64),
                              sn_full(none, sn_int(-1), SN_I64),
                              sn_requires_grad_(sn_ones(square, SN_F32), true)};
    w->n_odd = COUNT_OF(odd);
    for (int i = 0; i < w->n_odd; i++) w->odd[i] = odd[i];
}

/* what is expected ---------------------------------------------------------------------------- */

static bool is_tensor_param(ParamType type) { return type == PT_tensor || type == PT_tensor_opt; }
static bool is_tensors_param(ParamType type) { return type == PT_tensors || type == PT_tensors_opt; }
static bool is_ints_param(ParamType type) {
    return type == PT_ints || type == PT_ints_opt || type == PT_int1 || type == PT_int1_opt;
}

/* Kinds that no rule turns into the parameter's. */
static bool can_never_be(ParamType type, const Arg *arg) {
    switch (arg->kind) {
    case ARG_default:
    case ARG_none:
    case ARG_int:
    case ARG_float:
    case ARG_bool:
        return is_tensors_param(type) || type == PT_scalars || (arg->kind == ARG_float && is_ints_param(type));
    case ARG_tensor:
        return arg->val && !is_tensor_param(type);
    case ARG_string:
        return arg->string && type != PT_string && type != PT_string_opt;
    case ARG_ints:
        return !(is_ints_param(type) || type == PT_scalars) || arg->n < 0 || (arg->n && !arg->ints);
    case ARG_floats:
        return !(type == PT_floats_opt || type == PT_scalars) || !arg->floats;
    case ARG_tensors:
        return !is_tensors_param(type) || arg->n < 0 || (arg->n && !arg->vals);
    default:
        return true;
    }
}

static const Param *param_of(const Wrong *w) {
    const OpRow *const row = w->good->row;
    if (w->at < 0 || w->at >= op_form_params(row, w->form)) return NULL;
    return &row->params[op_form_param(row, w->form, w->at)];
}

static bool must_fail(const Wrong *w) {
    const Param *const param = param_of(w);
    if (!param) return false;
    const Arg *const arg = &w->in[w->at];
    const bool defaults = arg->kind == ARG_default && param->fallback.kind != ARG_default;
    if (w->form == FORM_inplace && w->at == 0 && arg->kind != ARG_tensor) return true;
    return !defaults && can_never_be(param->type, arg);
}

static bool says_op(const Wrong *w, const char *text) {
    const OpRow *const row = w->good->row;
    return strstr(text, row->base + strspn(row->base, "_")) || (row->alias_of && strstr(text, row->alias_of->base)) ||
           (row->kind == KIND_composite && strstr(text, "::"));
}

static void judge(const Wrong *w, sn_status status) {
    const sn_error *const error = sn_error_take();
    const Param *const param = param_of(w);
    if (status != error->status)
        ops_fail(w->good, "%s with %s: status %d, pending %d", op_form_name(w->good->row, w->form), w->what, status,
                 error->status);
    else if (status == SN_OK && must_fail(w))
        ops_fail(w->good, "%s: %s takes %s", op_form_name(w->good->row, w->form), param->name, w->what);
    else if (status != SN_OK && !says_op(w, error->op) && !says_op(w, error->message))
        ops_fail(w->good, "%s with %s for %d names op '%s': %s", op_form_name(w->good->row, w->form), w->what, w->at,
                 error->op, error->message);
    else if (status != SN_OK && must_fail(w) && !strstr(error->message, param->name))
        ops_fail(w->good, "%s with %s does not name %s: %s", op_form_name(w->good->row, w->form), w->what, param->name,
                 error->message);
}

/* the calls ----------------------------------------------------------------------------------- */

static void attempt(Wrong *w, int n_in) {
    static sn_value outs[MAX_LIST];
    static char place[160];
    int n_out = MAX_LIST;
    snprintf(place, sizeof place, "%s: %s for argument %d of %d", op_form_name(w->good->row, w->form), w->what, w->at,
             n_in);
    ops_now(place);
    const sn_scope scope = sn_scope_begin();
    judge(w, sn_op_call(w->op, (const sn_value *)(const void *)w->in, n_in, outs, &n_out));
    sn_scope_end(scope);
}

static void replace(Wrong *w, int at, const char *what, Arg by) {
    const Arg kept = w->in[at];
    w->at = at;
    w->what = what;
    w->in[at] = by;
    attempt(w, w->n_in);
    w->in[at] = kept;
}

static void replace_ints(Wrong *w, int at) {
    int64_t list[64];
    const Arg good = w->in[at];
    for (int i = 0; good.kind == ARG_ints && good.n < COUNT_OF(list) && i < good.n; i++)
        for (int k = 0; k < 3; k++) {
            memcpy(list, good.ints, sizeof *list * (size_t)good.n);
            list[i] = k == 0 ? INT64_MIN : k == 1 ? INT64_MAX : -3;
            replace(w, at, "one wild int in the list", A_INTS(list, good.n));
        }
}

static void try_all(Wrong *w) {
    for (int at = 0; at < w->n_in; at++) {
        for (int i = 0; i < COUNT_OF(values); i++) replace(w, at, values[i].what, values[i].arg);
        for (int i = 0; i < w->n_odd; i++) {
            Val *const list[] = {&w->odd[i]->base, &w->odd[(i + 1) % w->n_odd]->base};
            replace(w, at, "an odd tensor", A_VAL(list[0]));
            replace(w, at, "odd tensors", A_VALS(list, 2));
        }
        replace_ints(w, at);
    }
    w->at = -1;
    w->what = "a wrong count";
    for (int n = 0; n < w->n_in; n++) attempt(w, n);
    w->in[w->n_in] = A_INT(1);
    attempt(w, w->n_in + 1);
    attempt(w, -1);
    attempt(w, INT32_MIN);
}

static sn_status body_of_all(sn_frame *f) {
    try_all(sn_closure(f));
    return SN_OK;
}

/* The good call in the form's order; false: the row's sample is not for this form. */
static bool arguments(Wrong *w, const SampleCall *call) {
    const OpRow *const row = call->row;
    w->n_in = op_form_params(row, w->form);
    for (int i = 0; i < w->n_in; i++) w->in[i] = call->args[op_form_param(row, w->form, i)];
    if (w->form != FORM_out) return true;
    sn_tensor *outs[MAX_LIST];
    int n = 0;
    if (sample_run(call, outs, &n) != ST_OK) return sn_error_take(), false;
    for (int i = 0; i < row->n_out; i++) w->in[w->n_in++] = A_VAL(&sn_clone(outs[i])->base);
    return sn_check() == SN_OK;
}

static void check_form(const Case *c, OpForm form, bool compiled) {
    SampleCall call;
    Wrong w = {.good = c, .form = form, .at = -1};
    if (sample_make(c->row, c->line, &c->style, &call) != ST_OK || !arguments(&w, &call)) {
        sn_error_take();
        return;
    }
    make_odd(&w);
    w.op = sn_op_find(op_form_name(c->row, form));
    if (!compiled) {
        try_all(&w);
        return;
    }
    sn_function *const fn = sn_compile(body_of_all, &w, NULL);
    sn_call(fn, NULL, 0, NULL, 0);
    sn_error_take(); /* of a value, in what ran late */
    sn_function_free(fn);
}

/* Rows that only graphs use have no handle. */
static void check_internal(const Case *c) {
    if (sn_op_find(c->row->name)) ops_fail(c, "an internal op is found by name");
    const sn_error *const error = sn_error_take();
    if (!strstr(error->message, c->row->name)) ops_fail(c, "the refusal does not name the op: %s", error->message);
}

static bool has_form(const OpRow *row, OpForm form) {
    return form == FORM_functional || (form == FORM_inplace ? row->inplace : row->out != NULL);
}

void check_wrong(const Case *c) {
    ops_count();
    if (c->number) return;
    if (c->row->flags & OPF_internal) {
        check_internal(c);
        return;
    }
    for (int form = 0; form < FORM_COUNT; form++)
        for (int compiled = 0; compiled < 2 && has_form(c->row, (OpForm)form); compiled++)
            check_form(c, (OpForm)form, compiled);
}
