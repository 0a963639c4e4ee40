/* custom_results.c: see custom_results.h. */
#include "runtime/core/custom_results.h"

#include "runtime/base/error.h"
#include "runtime/core/element.h"
#include "runtime/core/tracer.h"

/* the schema ---------------------------------------------------------------------------------- */

static bool is_number_type(ParamType type) {
    return type == PT_int || type == PT_float || type == PT_bool || type == PT_scalar;
}

static Status refuse_result(const char *name, int i, const Param *result) {
    return error_raise(ST_UNSUPPORTED,
                       "%s: result %d is %s%s; a user's op returns Tensor, Tensor[], int, SymInt, float, bool, Scalar",
                       name, i, result->word, result->suffix);
}

Status custom_results_find(DynamicOp *op, const Schema *schema, const char *name) {
    op->n_results = schema->n_out;
    op->list_at = -1;
    op->numbers = 0;
    for (int i = 0; i < schema->n_out; i++) {
        const Param *const result = &schema->results[i];
        op->result_type[i] = result->type;
        if (is_number_type(result->type)) op->numbers |= (uint8_t)(1u << i);
        if (result->type == PT_tensor || is_number_type(result->type)) continue;
        if (result->type != PT_tensors) return refuse_result(name, i, result);
        if (param_is_written(result))
            return error_raise(ST_UNSUPPORTED, "%s: result %d is a list of arguments: leave it out (-> ())", name, i);
        if (op->list_at >= 0)
            return error_raise(ST_UNSUPPORTED, "%s: results %d and %d are lists, and nothing says where one ends", name,
                               op->list_at, i);
        op->list_at = (int8_t)i;
    }
    return ST_OK;
}

ParamType custom_result_type(const DynamicOp *op, int i, int n) {
    if (op->list_at < 0 || i < op->list_at) return i < op->n_results ? op->result_type[i] : PT_tensor;
    const int list = n - (op->n_results - 1);
    return i < op->list_at + list ? PT_tensor : op->result_type[i - list + 1];
}

bool custom_result_is_number(const OpRow *row, int i, int n) {
    const DynamicOp *const op = op_dynamic(row);
    return op && op->numbers && is_number_type(custom_result_type(op, i, n));
}

/* numbers ------------------------------------------------------------------------------------- */

sn_tensor *custom_number(const Arg *number) { return tensor_scalar(number, DT_default); }

/* Of a Scalar nothing but its value says what it is. */
static DType dtype_of_type(ParamType type) {
    return type == PT_int ? DT_i64 : type == PT_float ? DT_f64 : type == PT_bool ? DT_bool : DT_default;
}

/* Of a meta rule: only the values give it. */
static sn_tensor *number_unknown(const DynamicOp *op, int i, ParamType type) {
    const DType dtype = dtype_of_type(type);
    if (dtype == DT_default) {
        error_raise(ST_UNSUPPORTED, "%s: output %d is %s: it can't be left to the values", op->row.name, i,
                    type == PT_scalar ? "a Scalar, whose kind only its value says" : "a tensor");
        return NULL;
    }
    const Meta *const meta = meta_intern(dtype, DEV_cpu, NULL, NULL, 0, true);
    return meta ? tensor_without_data(meta) : NULL;
}

static bool stands_for_number(const sn_tensor *t) { return t->base.meta->wrapped && !t->base.meta->rank; }

bool custom_number_read(const sn_tensor *t, Arg *out) {
    if (!stands_for_number(t) || t->placeholder || !t->storage || t->base.meta->device != DEV_cpu || tensor_is_fake(t))
        return false;
    const DType dtype = t->base.meta->dtype;
    const void *const at = tensor_data(t);
    *out = dtype_is_float(dtype) ? A_FLOAT(element_double(dtype, at))
           : dtype == DT_bool    ? A_BOOL(element_int(dtype, at) != 0)
                                 : A_INT(element_int(dtype, at));
    return true;
}

/* what a body has set ------------------------------------------------------------------------- */

static const char *number_kind(const sn_tensor *t) {
    const DType dtype = t->base.meta->dtype;
    return dtype_is_float(dtype) ? "a float" : dtype == DT_bool ? "a bool" : "an int";
}

static Status wrong_result(const DynamicOp *op, int i, const sn_tensor *t, ParamType type) {
    Text text = {0};
    meta_print(NULL, &text, t->base.meta);
    const char *const is = stands_for_number(t) ? number_kind(t) : text_str(&text);
    const Status status =
        error_raise(ST_CALLBACK, "%s: output %d is %s, where its schema has %s%s", op->row.name, i, is,
                    param_type_name(type), type == PT_tensor || stands_for_number(t) ? "" : " (sn_out_value)");
    text_free(&text);
    return status;
}

/* An int may stand for a float, as it may among the arguments. */
static sn_tensor *as_float(const sn_tensor *t) {
    Arg number = A_INT(0);
    custom_number_read(t, &number);
    const Arg wide = A_FLOAT((double)number.i);
    return custom_number(&wide);
}

static Status check_one(const DynamicOp *op, int i, ParamType type, sn_tensor **out) {
    const sn_tensor *const t = *out;
    const DType dtype = t->base.meta->dtype;
    if (type == PT_tensor) return stands_for_number(t) && op->numbers ? wrong_result(op, i, t, type) : ST_OK;
    if (!stands_for_number(t)) return wrong_result(op, i, t, type);
    if (type == PT_scalar || dtype == dtype_of_type(type)) return ST_OK;
    if (type != PT_float || dtype != DT_i64 || t->placeholder || !t->storage) return wrong_result(op, i, t, type);
    return (*out = as_float(t)) ? ST_OK : error_pending();
}

static bool is_left(uint64_t none, int i) { return i < 64 && none >> i & 1; }

static Status count_set(const DynamicOp *op, sn_tensor *const *outs, uint64_t none, int capacity, int *n) {
    const int least = op->n_results - (op->list_at >= 0);
    int set = 0, end = 0;
    while (set < capacity && (outs[set] || is_left(none, set))) set++;
    for (int i = 0; i < capacity; i++)
        if (outs[i] || is_left(none, i)) end = i + 1;
    *n = set;
    if (end > set)
        return error_raise(ST_CALLBACK, "%s: the callback set output %d, but not output %d", op->row.name, end - 1,
                           set);
    if (set >= least) return ST_OK;
    return error_raise(ST_CALLBACK, "%s: the callback set %d outputs; beside its list the op has %d", op->row.name, set,
                       least);
}

Status custom_results_check(const DynamicOp *op, sn_tensor **outs, uint64_t none, int capacity, int *n) {
    TRY(count_set(op, outs, none, capacity, n));
    for (int i = 0; i < *n; i++) {
        const ParamType type = custom_result_type(op, i, *n);
        if (!outs[i] && !(outs[i] = number_unknown(op, i, type))) return error_pending();
        TRY(check_one(op, i, type, &outs[i]));
    }
    return ST_OK;
}

static void number_print(Text *text, const Arg *number) {
    if (number->kind == ARG_float)
        text_printf(text, "%.17g", number->f);
    else if (number->kind == ARG_bool)
        text_puts(text, number->i ? "True" : "False");
    else
        text_printf(text, "%lld", (long long)number->i);
}

Status custom_numbers_agree(const OpRow *row, int i, const sn_tensor *made, const Arg *said) {
    Arg number;
    if (said->kind == ARG_none || !custom_number_read(made, &number)) return ST_OK;
    if (number.kind == said->kind && number.i == said->i) return ST_OK; /* a float's bits */
    Text texts[2] = {0};
    number_print(&texts[0], &number);
    number_print(&texts[1], said);
    const Status status = error_raise(ST_VALUE, "%s: its kernel returned %s as result %d, where its meta rule said %s",
                                      row->name, text_str(&texts[0]), i, text_str(&texts[1]));
    error_set_op(row->name);
    text_free(&texts[0]);
    text_free(&texts[1]);
    return status;
}

/* what the meta rule says --------------------------------------------------------------------- */

/* Its layout as the call has it, in expressions where these are known: what the rule is told of them is guarded. */
static Val *as_asked(Val *room, Val *val) {
    if (!val) return NULL;
    room->meta = tracer_meta(tensor_of(val));
    return room;
}

Status custom_numbers_said(const DynamicOp *op, const Arg *args, Arg *said, int n) {
    Val room[MAX_ARGS];
    Arg own[MAX_ARGS];
    for (int i = 0; i < n; i++) said[i] = A_NONE;
    if (!op->meta || !op->numbers) return ST_OK;
    for (int i = 0; i < op->row.n_params; i++) {
        own[i] = args[i];
        if (own[i].kind == ARG_tensor) own[i].val = as_asked(&room[i], own[i].val);
        if (own[i].kind == ARG_int) own[i] = A_INT(tracer_int(&args[i]));
        if (own[i].kind == ARG_float) tracer_show_float(&args[i]);
    }
    MetaCall call = {.row = &op->row, .args = own, .env = tracer_symbols(), .n_out = n};
    return custom_op_ask_numbers(&call, said);
}
