/* op_args.c: given arguments to a row's parameters: defaults, number conversions, kind checks.
 * Accepted kinds per parameter type are a table; a NULL tensor for a required argument is an error that gives way to
 * a pending one [semantics O5]. */
#include "ir/schema.h"
#include "runtime/base/error.h"

#define K(kind) (1u << ARG_##kind)
enum {
    NUMBER = K(int) | K(float) | K(bool) | K(runtime),
};

static const uint32_t accepted[] = {
    [PT_tensor] = K(tensor),
    [PT_tensor_opt] = K(tensor) | K(none),
    [PT_tensors] = K(tensors),
    [PT_tensors_opt] = K(tensors),
    [PT_scalar] = NUMBER,
    [PT_scalar_opt] = NUMBER | K(none),
    [PT_int] = K(int) | K(bool),
    [PT_int_opt] = K(int) | K(bool) | K(none),
    [PT_ints] = K(ints),
    [PT_ints_opt] = K(ints) | K(none),
    [PT_int1] = K(ints) | K(int),
    [PT_int1_opt] = K(ints) | K(int) | K(none),
    [PT_float] = NUMBER,
    [PT_float_opt] = NUMBER | K(none),
    [PT_floats_opt] = K(floats) | K(none),
    [PT_scalars] = K(ints) | K(floats),
    [PT_bool] = K(bool) | K(int),
    [PT_bool_opt] = K(bool) | K(int) | K(none),
    [PT_string] = K(string),
    [PT_string_opt] = K(string) | K(none),
    [PT_dtype] = K(int),
    [PT_dtype_opt] = K(int) | K(none),
    [PT_device_opt] = K(int) | K(none),
    [PT_layout_opt] = K(int) | K(none),
    [PT_memory_format_opt] = K(int) | K(none),
    [PT_generator_opt] = K(none),
};

static const char *kind_name(int kind) {
    static const char *const names[] = {"default", "None",     "Tensor",     "int",         "float",        "bool",
                                        "str",     "int list", "float list", "Tensor list", "runtime float"};
    return names[kind];
}

/* Kinds come from callers: any number. */
static bool accepts(const Param *param, int kind) {
    return kind >= 0 && kind <= ARG_runtime && (accepted[param->type] & (1u << kind)) != 0;
}

static Status wrong_kind(const OpRow *row, const Param *param, const Arg *given) {
    if (given->kind < 0 || given->kind > ARG_runtime)
        return error_raise(ST_ARGUMENT, "%s: %s is a value of unknown kind %d", row->name, param->name, given->kind);
    return error_raise(ST_ARGUMENT, "%s: %s must be %s, not %s", row->name, param->name, param_type_name(param->type),
                       kind_name(given->kind));
}

static Status missing(const OpRow *row, const Param *param) {
    if (error_pending() != ST_OK) return error_pending();
    return error_raise(ST_ARGUMENT, "%s: %s is missing", row->name, param->name);
}

/* Dims, sizes and positions speak of a tensor's layout, which a number has none of. */
static bool has_positions(const OpRow *row) {
    for (int i = 0; i < row->n_params; i++)
        if (row->params[i].type == PT_int || row->params[i].type == PT_ints || row->params[i].type == PT_int1)
            return true;
    return false;
}

/* A number may stand for a tensor where the op works by elements (a wrapped number). */
static bool number_for_tensor(const OpRow *row, const Param *param, const Arg *given) {
    const bool tensor = param->type == PT_tensor || param->type == PT_tensor_opt;
    return tensor && arg_is_number(given) && row->kind == KIND_pointwise && !has_positions(row);
}

static bool is_null(const Arg *given) {
    return (given->kind == ARG_tensor && !given->val) || (given->kind == ARG_string && !given->string);
}

static bool is_list(const Arg *given) {
    return given->kind == ARG_ints || given->kind == ARG_floats || given->kind == ARG_tensors;
}

static Status check_list(const OpRow *row, const Param *param, const Arg *given) {
    if (given->n == LIST_TOO_LONG)
        return error_raise(ST_ARGUMENT, "%s: %s is a list whose count does not fit 32 bits", row->name, param->name);
    if (given->n < 0 || (given->n && !given->vals))
        return error_raise(ST_ARGUMENT, "%s: %s is %s list of %d", row->name, param->name,
                           given->n < 0 ? "a" : "a NULL", given->n);
    for (int i = 0; given->kind == ARG_tensors && i < given->n; i++) {
        if (given->vals[i] || param->type == PT_tensors_opt) continue;
        if (error_pending() != ST_OK) return error_pending();
        return error_raise(ST_ARGUMENT, "%s: %s[%d] is NULL", row->name, param->name, i);
    }
    return ST_OK;
}

/* Ints that stand for names. */
static Status check_enum(const OpRow *row, const Param *param, const Arg *given) {
    static const struct {
        const char *what;
        int count;
    } enums[] = {[PT_dtype] = {"dtype", DT_COUNT},
                 [PT_dtype_opt] = {"dtype", DT_COUNT},
                 [PT_layout_opt] = {"layout", 1},
                 [PT_memory_format_opt] = {"memory format", MF_channels_last_3d + 1}};
    const int first = param->type == PT_dtype; /* DT_default is none where one must be given */
    if (given->kind != ARG_int || param->type >= COUNT_OF(enums) || !enums[param->type].count ||
        (given->i >= first && given->i < enums[param->type].count))
        return ST_OK;
    return error_raise(ST_ARGUMENT, "%s: %s is no %s: %lld", row->name, param->name, enums[param->type].what,
                       (long long)given->i);
}

/* No device here has memory that the system must not move; the request is no hint. */
static Status check_pin_memory(const OpRow *row, const Param *param, const Arg *converted) {
    if (!row->options || param != &row->params[row->options + N_OPTIONS - 1]) return ST_OK;
    if (converted->kind != ARG_bool || !converted->i) return ST_OK;
    return error_raise(ST_UNSUPPORTED, "%s: %s: no device here has pinned memory", row->name, param->name);
}

static Status check_device(const OpRow *row, const Param *param, const Arg *given) {
    const int64_t device = given->i;
    if (param->type != PT_device_opt || given->kind != ARG_int || device_exists(device)) return ST_OK;
    return error_raise(ST_ARGUMENT, "%s: %s is no device: %lld", row->name, param->name, (long long)device);
}

static void convert(const Param *param, const Arg *given, Arg *out) {
    switch (param->type) {
    case PT_float:
    case PT_float_opt:
        if (given->kind == ARG_int || given->kind == ARG_bool) *out = A_FLOAT((double)out->i);
        break;
    case PT_int:
    case PT_int_opt:
        if (given->kind == ARG_bool) out->kind = ARG_int;
        break;
    case PT_bool:
    case PT_bool_opt:
        if (given->kind == ARG_int) *out = A_BOOL(given->i != 0);
        break;
    case PT_int1:
    case PT_int1_opt:
        if (given->kind == ARG_int) *out = A_INTS(&given->i, 1);
        break;
    case PT_dtype_opt:
        if (given->kind == ARG_int && given->i == DT_default) *out = A_NONE;
        break;
    default:
        break;
    }
}

static bool takes_symbol(ParamType type) {
    return type == PT_int || type == PT_int_opt || type == PT_int1 || type == PT_int1_opt || type == PT_scalar ||
           type == PT_scalar_opt;
}

static Status normalize_one(const OpRow *row, const Param *param, const Arg *given, Arg *out) {
    const bool optional = (accepted[param->type] & K(none)) != 0;
    if (!given || given->kind == ARG_default) {
        if (param->fallback.kind == ARG_default) {
            if (!optional) return missing(row, param);
            *out = A_NONE;
            return ST_OK;
        }
        *out = param->fallback;
        return convert(param, &param->fallback, out), ST_OK;
    }
    *out = *given;
    if (given->kind == ARG_bool) *out = A_BOOL(given->i != 0);
    if (is_null(given)) {
        if (!optional) return missing(row, param);
        *out = A_NONE;
        return ST_OK;
    }
    if (number_for_tensor(row, param, given)) return ST_OK;
    if (!accepts(param, given->kind)) return wrong_kind(row, param, given);
    if (given->kind == ARG_int && sym_is(given->i) && !takes_symbol(param->type))
        return error_raise(ST_ARGUMENT, "%s: %s must be a plain number, not a symbolic int", row->name, param->name);
    if (is_list(given)) TRY(check_list(row, param, given));
    TRY(check_enum(row, param, given));
    TRY(check_device(row, param, given));
    convert(param, given, out);
    return check_pin_memory(row, param, out);
}

static Status normalize_all(const OpRow *row, const Arg *given, int n_given, Arg *args) {
    if (n_given > row->n_params)
        return error_raise(ST_ARGUMENT, "%s: %d arguments at most, not %d", row->name, row->n_params, n_given);
    for (int i = 0; i < row->n_params; i++)
        TRY(normalize_one(row, &row->params[i], i < n_given ? &given[i] : NULL, &args[i]));
    return ST_OK;
}

Status op_args_normalize(const OpRow *row, const Arg *given, int n_given, Arg *args) {
    const Status status = normalize_all(row, given, n_given, args);
    if (status != ST_OK) error_set_op(row->name);
    return status;
}

static Status too_many(const OpRow *row, OpForm form, int n_given) {
    const Status status = error_raise(ST_ARGUMENT, "%s: %d arguments at most, not %d", op_form_name(row, form),
                                      op_form_params(row, form), n_given);
    error_set_op(op_form_name(row, form));
    return status;
}

/* A number may stand for a tensor, but not for one that is written. */
static Status check_written(const OpRow *row, const Arg *self) {
    if (self->kind == ARG_tensor) return ST_OK;
    const Status status = error_raise(ST_ARGUMENT, "%s: %s must be a Tensor, which is written, not %s",
                                      op_form_name(row, FORM_inplace), row->params[0].name, kind_name(self->kind));
    error_set_op(op_form_name(row, FORM_inplace));
    return status;
}

static Status place_args(const OpRow *row, OpForm form, const Arg *given, int n_given, Arg *args) {
    if (op_form_params(row, form) == row->n_params) return op_args_normalize(row, given, n_given, args);
    if (n_given > op_form_params(row, form)) return too_many(row, form, n_given);
    Arg placed[MAX_ARGS];
    for (int i = 0; i < row->n_params; i++) placed[i] = A_DEFAULT;
    for (int i = 0; i < n_given; i++) placed[op_form_param(row, form, i)] = given[i];
    return op_args_normalize(row, placed, row->n_params, args);
}

Status op_args_of_form(const OpRow *row, OpForm form, const Arg *given, int n_given, Arg *args) {
    TRY(place_args(row, form, given, n_given, args));
    return form == FORM_inplace ? check_written(row, &args[0]) : ST_OK;
}

void op_args_fill_options(const OpRow *row, const Meta *out, Arg *args) {
    const int dtype = row->options, device = row->options + 2;
    args[dtype] = A_INT(out->dtype);
    args[device] = A_INT(out->device);
}

bool op_number_may_vary(const OpRow *row, const Param *param) {
    const uint32_t computed = 1u << PT_scalar | 1u << PT_scalar_opt | 1u << PT_float | 1u << PT_float_opt |
                              1u << PT_tensor | 1u << PT_tensor_opt;
    const bool by_element = row->kind == KIND_pointwise || row->flags & OPF_passes_numbers;
    return param->symbolic || (by_element && computed >> param->type & 1);
}

static bool is_open(const Arg *arg) {
    bool open = arg->kind == ARG_runtime || (arg->kind == ARG_int && sym_is(arg->i));
    for (int i = 0; arg->kind == ARG_ints && i < arg->n; i++) open |= sym_is(arg->ints[i]);
    return open;
}

Status op_numbers_check(const OpRow *row, const Arg *args) {
    for (int i = 0; i < row->n_params; i++) {
        const Param *const param = &row->params[i];
        if (!is_open(&args[i]) || op_number_may_vary(row, param)) continue;
        return error_raise(ST_UNSUPPORTED, "%s: %s is %s%s in the schema, which does not vary: it cannot be a symbol",
                           row->name, param->name, param->word, param->suffix);
    }
    return ST_OK;
}

bool number_is_special(bool is_float, int64_t bits) {
    static const double special[] = {-2, -1, -0.5, 0, 0.5, 1, 2, 3};
    double value = (double)bits;
    if (is_float) memcpy(&value, &bits, sizeof value);
    for (int i = 0; i < COUNT_OF(special); i++)
        if (value == special[i]) return true;
    return false;
}
