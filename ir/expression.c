/* expression.c: see expression.h: building, types, and the meta rule of ops that have one. */
#include "ir/expression.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ir/meta_rules.h"

int expression_fail(const Expression *e, Status status, const char *format, ...) {
    char what[256], place[64] = "";
    va_list list;
    va_start(list, format);
    vsnprintf(what, sizeof what, format, list);
    va_end(list);
    if (e->at) snprintf(place, sizeof place, ", column %d", (int)(e->at - e->text) + 1);
    error_raise(status, e->text ? "%s: scalar expression \"%.300s\"%s: %s" : "%s: scalar expression%.0s%s: %s",
                e->row->name, e->text ? e->text : "", place, what);
    return -1;
}

static int add_part(Expression *e, const ExprNode *node) {
    if (e->n == MAX_EXPR_NODES) return expression_fail(e, ST_UNSUPPORTED, "more than %d parts", MAX_EXPR_NODES);
    e->nodes[e->n] = *node;
    return e->n++;
}

int expression_number(Expression *e, Arg value) {
    e->floats |= value.kind == ARG_float;
    return add_part(e, &(ExprNode){.kind = EXPR_number, .number = value});
}

static bool takes(ParamType type) {
    return type == PT_tensor || type == PT_float || type == PT_scalar || type == PT_int || type == PT_bool;
}

int expression_param(Expression *e, const char *name, size_t n) {
    int i = 0;
    while (i < e->row->n_params &&
           (strlen(e->row->params[i].name) != n || memcmp(e->row->params[i].name, name, n) != 0))
        i++;
    if (i == e->row->n_params)
        return expression_fail(e, ST_ARGUMENT, "the schema has no parameter '%.*s'", (int)n, name);
    const ParamType type = e->row->params[i].type;
    e->floats |= type == PT_float || type == PT_scalar;
    return add_part(e, &(ExprNode){.kind = EXPR_param, .param = i, .truth = type == PT_bool});
}

/* primitives ---------------------------------------------------------------------------------- */

/* Those that speak of memory's dtypes or of random numbers, or are made for one type, are not the program's. */
static int find_primitive(const char *name, size_t n) {
    const int prim = n == 5 && !memcmp(name, "where", n) ? PRIM_select : prim_find(name, n);
    if (prim < 0) return -1;
    const bool f = prim_has_type((Prim)prim, S_f32) && prim_has_type((Prim)prim, S_f64);
    const bool i = prim_has_type((Prim)prim, S_i32) && prim_has_type((Prim)prim, S_i64);
    return f || i ? prim : -1;
}

static bool all_truths(const Expression *e, const int *in, int from, int n) {
    bool all = true;
    for (int i = from; i < n; i++) all &= e->nodes[in[i]].truth;
    return all;
}

static int add_primitive(Expression *e, Prim prim, const int *in, int n) {
    if (n != prim_arity(prim))
        return expression_fail(e, ST_ARGUMENT, "%s takes %d arguments, not %d", prim_name(prim), prim_arity(prim), n);
    ExprNode node = {.kind = EXPR_prim, .prim = prim, .n = n};
    memcpy(node.in, in, sizeof *in * (size_t)n);
    const bool moves = prim_has_type(prim, S_b); /* of truths it gives one, if it gives what it takes */
    node.truth = prim_returns_bool(prim) || (moves && all_truths(e, in, prim == PRIM_select, n));
    if (!node.truth && !prim_has_type(prim, S_i32)) e->floats = true;
    if (!node.truth && !prim_has_type(prim, S_f32)) e->ints = true;
    return add_part(e, &node);
}

/* ops of the table ---------------------------------------------------------------------------- */

enum { PLAIN_FLAGS = OPF_core | OPF_nodiff | OPF_passes_numbers | OPF_branches | OPF_limits_numbers };

static bool is_function(const OpRow *row) {
    if (!row || row->kind != KIND_pointwise || row->alias_of || row->n_out != 1 || row->flags & ~(uint32_t)PLAIN_FLAGS)
        return false;
    for (int i = 0; i < row->n_params; i++) {
        const ParamType type = row->params[i].type;
        const bool number = type == PT_scalar || type == PT_scalar_opt || type == PT_float || type == PT_float_opt;
        const bool left_out = row->params[i].fallback.kind != ARG_default && (type == PT_string || type == PT_bool);
        if (type != PT_tensor && !number && !left_out) return false;
    }
    return true;
}

static const OpRow *find_row(const char *name, size_t n) {
    char whole[80];
    OpForm form;
    for (int i = 0; i < 2 && n < 60; i++) {
        const int length = snprintf(whole, sizeof whole, "aten::%.*s%s", (int)n, name, i ? ".Tensor" : "");
        const OpRow *const row = op_find(whole, (size_t)length, &form);
        if (is_function(row) && form == FORM_functional) return row;
    }
    return NULL;
}

/* What it gives of elements of one dtype; false: it does not take that. */
static bool result_of(const OpRow *row, const Arg *args, DType dtype, DType *out) {
    Meta meta = {.dtype = dtype, .device = DEV_cpu, .contiguous = true, .numel = 1};
    Val val = {&meta};
    Arg own[MAX_ARGS];
    MetaOut result;
    for (int i = 0; i < row->n_params; i++) own[i] = args[i].kind == ARG_tensor ? A_VAL(&val) : args[i];
    MetaCall call = {.row = row, .args = own, .out = &result, .n_out = 1};
    const bool fits = op_meta(&call) == ST_OK && !result.rank;
    if (!fits) error_clear();
    *out = fits ? result.dtype : DT_default;
    return fits;
}

/* A known number, as the parameter takes it; ints that would be read as symbols of sizes are none (ir/sym.h). */
static bool plain_number(const ExprNode *node, ParamType type, Arg *out) {
    const bool wants_float = type == PT_float || type == PT_float_opt, any = type == PT_scalar || type == PT_scalar_opt;
    if (node->kind != EXPR_number || (!wants_float && !any)) return false;
    *out = wants_float ? A_FLOAT(arg_double(&node->number)) : node->number;
    return out->kind != ARG_int || !sym_is(out->i);
}

bool expression_args(const Expression *e, const OpRow *row, const int *in, int n, Val *element, Arg *args) {
    for (int i = 0; i < row->n_params; i++) {
        const ParamType type = row->params[i].type;
        args[i] = row->params[i].fallback;
        if (i >= n && args[i].kind == ARG_default) return false;
        if (i < n && type == PT_tensor) args[i] = A_VAL(element);
        if (i < n && type != PT_tensor && !plain_number(&e->nodes[in[i]], type, &args[i])) return false;
    }
    return n <= row->n_params;
}

static int add_row(Expression *e, const OpRow *row, const int *in, int n) {
    static Val element;
    Arg args[MAX_ARGS];
    DType of_ints, of_floats;
    if (!expression_args(e, row, in, n, &element, args))
        return expression_fail(e, ST_ARGUMENT, "the arguments are not those of %s, whose numbers are plain ones",
                               row->schema);
    if (!result_of(row, args, DT_f32, &of_floats))
        return expression_fail(e, ST_UNSUPPORTED, "%s is not for single elements", row->name);
    ExprNode node = {.kind = EXPR_row, .row = row, .n = n, .truth = of_floats == DT_bool};
    memcpy(node.in, in, sizeof *in * (size_t)n);
    e->floats |= !result_of(row, args, DT_i64, &of_ints) || dtype_is_float(of_ints);
    return add_part(e, &node);
}

int expression_call(Expression *e, const char *function, size_t n, const int *in, int n_in) {
    for (int i = 0; i < n_in; i++)
        if (in[i] < 0 || in[i] >= e->n) return expression_fail(e, ST_ARGUMENT, "part %d is not one of %d", in[i], e->n);
    const int prim = find_primitive(function, n);
    const OpRow *const row = prim < 0 ? find_row(function, n) : NULL;
    if (prim < 0 && !row)
        return expression_fail(e, ST_ARGUMENT, "there is no function '%.*s'", (int)min_i64((int64_t)n, 60), function);
    if (n_in > MAX_EXPR_ARGS) return expression_fail(e, ST_ARGUMENT, "%d arguments", n_in);
    return row ? add_row(e, row, in, n_in) : add_primitive(e, (Prim)prim, in, n_in);
}

/* types --------------------------------------------------------------------------------------- */

Status expression_check(const Expression *e) {
    const OpRow *const row = e->row;
    int tensors = 0;
    for (int i = 0; i < row->n_params; i++) {
        if (!takes(row->params[i].type) || *row->params[i].alias)
            return expression_fail(e, ST_UNSUPPORTED, "parameter '%s' must be Tensor, float, int, bool or Scalar",
                                   row->params[i].name),
                   ST_UNSUPPORTED;
        tensors += row->params[i].type == PT_tensor;
    }
    if (row->n_out != 1 || !tensors || tensors > MAX_OPERANDS)
        return expression_fail(e, ST_ARGUMENT, "the op has %d results and %d tensors, not 1 and 1 to %d", row->n_out,
                               tensors, MAX_OPERANDS),
               ST_ARGUMENT;
    if (e->root < 0 || e->root >= e->n)
        return expression_fail(e, ST_ARGUMENT, "part %d, the result, is not one of %d", e->root, e->n), ST_ARGUMENT;
    if (e->floats && e->ints) return expression_fail(e, ST_DTYPE, "one part needs ints, another one floats"), ST_DTYPE;
    return ST_OK;
}

DType expression_dtype(const Expression *e, DType common) {
    return e->floats ? default_float(common) : common == DT_bool ? DT_i64 : common;
}

Status expression_meta(MetaCall *call) {
    const Expression *const e = call->row->expression;
    Elementwise elements = {0};
    TRY(elementwise(call, &elements));
    const DType dtype = expression_dtype(e, elements.common);
    if (e->ints && dtype_is_float(dtype))
        return meta_fail(call, ST_DTYPE, "its expression is of ints, not %s", dtype_name(dtype));
    return elementwise_out(call, &elements, e->nodes[e->root].truth ? DT_bool : dtype);
}
