/* writer_floats.c: floats that a program computes of sizes (1.0 / n): tensors of no dims, in f64 as in Python.
 *
 *     %f = aten::full([], s0, dtype=f64)
 *     %truediv = aten::div.Tensor(%one, %f)
 *     %mul = aten::mul.Tensor(%x, %truediv)
 *
 * Beside a float tensor with dims such a one counts for its value alone, as a number does; beside one without, it is
 * cast to f32 for the op. So are ints that a body carries (writer_numbers.c), to a narrower integer. Ops that want a
 * number are called by their overload that takes a tensor. */
#include "frontend/import/writer.h"
#include "runtime/base/error.h"

typedef struct FloatOp {
    const char *target, *op; /* NULL: the operand itself */
    int n;
} FloatOp;
static const FloatOp float_ops[] = {
    {"torch.sym_float", NULL, 1},
    {"_operator.truediv", "aten::div.Tensor", 2},
    {"_operator.mul", "aten::mul.Tensor", 2},
    {"_operator.add", "aten::add.Tensor", 2},
    {"_operator.sub", "aten::sub.Tensor", 2},
    {"_operator.pow", "aten::pow.Tensor_Tensor", 2},
    {"_operator.neg", "aten::neg", 1},
    {"torch._sym_sqrt", "aten::sqrt", 1},
};

static void end_line(const NodeWriter *w) {
    writer_attributes(w, w->text);
    text_puts(w->text, "\n");
}

/* A number becomes a tensor. */
static Status float_operand(NodeWriter *w, const Json *arg, const char **out) {
    Text text = {0};
    const Status status = writer_arg(w, arg, &text);
    const bool is_value = status == ST_OK && text_str(&text)[0] == '%';
    const char *const own = status != ST_OK ? NULL
                            : is_value      ? arena_printf(w->m->arena, "%s", text_str(&text) + 1)
                                            : writer_new_name(w, "float");
    if (own && !is_value) {
        text_printf(w->text, "  %%%s = aten::full([], %s, dtype=f64)", own, text_str(&text));
        end_line(w);
    }
    *out = own;
    text_free(&text);
    return status == ST_OK && !own ? ST_MEMORY : status;
}

Status writer_float(NodeWriter *w, const Json *node, const char *name) {
    const char *const target = json_string(json_get(node, "target")), *operands[2];
    const Json *const inputs = json_get(node, "inputs");
    const FloatOp *op = NULL;
    for (int i = 0; target && i < COUNT_OF(float_ops) && !op; i++)
        if (!strcmp(float_ops[i].target, target) && float_ops[i].n == inputs->n) op = &float_ops[i];
    if (!op) return ST_OK; /* who uses it says so */
    for (int i = 0; i < op->n; i++) TRY(float_operand(w, json_get(&inputs->items[i], "arg"), &operands[i]));
    if (!op->op) return writer_set(w, name, arena_printf(w->m->arena, "%%%s", operands[0]));
    const char *const own = writer_new_name(w, name);
    if (!own) return ST_MEMORY;
    text_printf(w->text, "  %%%s = %s(%%%s", own, op->op, operands[0]);
    text_printf(w->text, op->n > 1 ? ", %%%s)" : ")", operands[op->n - 1]);
    end_line(w);
    return writer_set(w, name, arena_printf(w->m->arena, "%%%s", own));
}

typedef struct FloatPlace {
    bool ints, dims; /* beside a number: a tensor that is none of floats, one that has dims */
    DType dtype;     /* of the float tensors, or of the only ones */
    DType of_ints;   /* what floats beside integers are */
} FloatPlace;

/* The name of a float of sizes, or of an int that a body carries; NULL: the argument is none. */
static const char *named_float(const NodeWriter *w, const Json *arg, bool *is_int) {
    const Json *const member = writer_union(arg);
    const char *const name = json_string(json_get(member, "as_name"));
    *is_int = writer_union_is(member, "as_sym_int");
    const char *const bound = name && (*is_int || writer_union_is(member, "as_sym_float")) ? writer_get(w, name) : NULL;
    return bound && *bound == '%' ? name : NULL;
}

static void look_at_tensor(const NodeWriter *w, const Json *member, FloatPlace *out) {
    const Json *const meta = model_meta(w->graph, json_string(json_get(member, "name")));
    const Json *const code = json_get(meta, "dtype"), *const sizes = json_get(meta, "sizes");
    if (!code || !code->is_int) return;
    const DType dtype = model_dtype(code->i);
    out->ints = out->ints || !dtype_is_float(dtype);
    out->dims = out->dims || (sizes && sizes->n > 0);
    out->dtype = out->dtype == DT_default || out->dtype == dtype ? dtype : DT_f64;
}

/* A mask says nothing of dtypes. */
static bool is_mask(const Json *input) {
    const char *const name = json_string(json_get(input, "name"));
    return name && (!strcmp(name, "mask") || !strcmp(name, "condition"));
}

static FloatPlace look_at(const NodeWriter *w, const Json *inputs) {
    FloatPlace out = {.dtype = DT_default};
    for (int i = 0; i < inputs->n; i++) {
        const Json *const member = writer_union(json_get(&inputs->items[i], "arg"));
        if (writer_union_is(member, "as_tensor") && !is_mask(&inputs->items[i])) look_at_tensor(w, member, &out);
    }
    return out;
}

/* The op computes in the dtype, to which the number goes first. */
static Status number_as(NodeWriter *w, const char *name, DType dtype, WriterCasts *out) {
    const char *const before = writer_get(w, name), *const own = writer_new_name(w, name);
    if (!own) return ST_MEMORY;
    text_printf(w->text, "  %%%s = aten::to.dtype(%s, %s)", own, before, dtype_name(dtype));
    end_line(w);
    VEC_PUSH(w->m->arena, &out->list, ((CastValue){name, before}));
    TRY(error_pending());
    return writer_set(w, name, arena_printf(w->m->arena, "%%%s", own));
}

static bool is_narrow_int(DType dtype) {
    return dtype == DT_u8 || dtype == DT_i8 || dtype == DT_i16 || dtype == DT_i32;
}

/* Beside integers alone an op computes in the default dtype, which is the result's where that is a float. */
static DType default_dtype(const NodeWriter *w, const Json *outputs) {
    const Json *const result = outputs->n ? json_get(&outputs->items[0], "as_tensor") : NULL;
    const Json *const code = json_get(model_meta(w->graph, json_string(json_get(result, "name"))), "dtype");
    return code && code->is_int && model_dtype(code->i) == DT_f64 ? DT_f64 : DT_f32;
}

/* A result with a number has the tensor's dtype; with a tensor of f64 and no dims only where the other one has dims. */
static Status place_float(NodeWriter *w, const FloatPlace *at, const char *name, WriterCasts *out) {
    const bool weaker = at->dims || at->dtype == DT_f64 || at->dtype == DT_default;
    if (!at->ints && weaker) return ST_OK;
    if (!at->ints && at->dtype == DT_f32) return number_as(w, name, DT_f32, out);
    if (at->ints && !dtype_is_float(at->dtype)) return number_as(w, name, at->of_ints, out);
    return error_raise(ST_UNSUPPORTED, "the float '%.100s', which follows from sizes, beside a tensor of %s", name,
                       at->ints ? "integers and one of floats" : "no dims that is narrower than f32");
}

Status writer_floats(NodeWriter *w, const OpRow *row, const Json *inputs, const Json *outputs, WriterCasts *out) {
    FloatPlace at = look_at(w, inputs);
    const bool same_dtype = row == op_row(OP_ID(lerp_Tensor));
    *out = (WriterCasts){.to_f32 = false};
    at.of_ints = default_dtype(w, outputs);
    for (int i = 0; i < inputs->n; i++) {
        bool is_int;
        const char *const name = named_float(w, json_get(&inputs->items[i], "arg"), &is_int);
        if (!name) continue;
        if (is_int && !at.dims && is_narrow_int(at.dtype)) TRY(number_as(w, name, at.dtype, out));
        if (!is_int)
            TRY(same_dtype && at.dtype == DT_f32 ? number_as(w, name, at.dtype, out) : place_float(w, &at, name, out));
    }
    return ST_OK;
}

/* Where numbers are none --------------------------------------------------------------------------- */

static bool takes_tensor(ParamType type) {
    return type == PT_tensor || type == PT_tensor_opt || type == PT_tensors || type == PT_tensors_opt;
}

/* Whether the op takes tensors where it is given such numbers; *any: it is given one. */
static bool row_fits(const NodeWriter *w, const OpRow *row, const Json *inputs, bool *any) {
    bool fits = true, is_int;
    for (int i = 0; i < inputs->n; i++) {
        const int at = op_param_find(row, json_string(json_get(&inputs->items[i], "name")));
        const bool number = named_float(w, json_get(&inputs->items[i], "arg"), &is_int) != NULL;
        *any = *any || number;
        fits = fits && at >= 0 && (!number || takes_tensor(row->params[at].type));
    }
    return fits;
}

const OpRow *writer_row_of_tensors(const NodeWriter *w, const OpRow *row, const Json *inputs) {
    static const struct {
        const char *scalar, *tensor;
    } overloads[] = {{".Scalar", ".Tensor"},
                     {".Tensor_Scalar", ".Tensor_Tensor"},
                     {".ScalarOther", ".self"},
                     {".ScalarSelf", ".self"},
                     {"", ".Tensor"}};
    bool any = false;
    if (row_fits(w, row, inputs, &any) || !any) return row;
    const char *const dot = strchr(row->name, '.'), *const suffix = dot ? dot : "";
    for (int i = 0; i < COUNT_OF(overloads); i++) {
        OpForm form;
        const char *const name = strcmp(suffix, overloads[i].scalar)
                                     ? NULL
                                     : arena_printf(w->m->arena, "%.*s%s", (int)(strlen(row->name) - strlen(suffix)),
                                                    row->name, overloads[i].tensor);
        const OpRow *const other = name ? op_find(name, strlen(name), &form) : NULL;
        if (other && form == FORM_functional && row_fits(w, other, inputs, &any)) return other;
    }
    return row;
}

static const Json *named_input(const Json *inputs, const char *name) {
    for (int i = 0; i < inputs->n; i++) {
        const char *const own = json_string(json_get(&inputs->items[i], "name"));
        if (own && !strcmp(own, name)) return json_get(&inputs->items[i], "arg");
    }
    return NULL;
}

static Status expand_number(NodeWriter *w, const char *number, const Json *size, const Json *outputs) {
    Text line = {0};
    Status status = writer_results(w, outputs, &line);
    text_printf(&line, "aten::expand_copy(%s, ", writer_get(w, number));
    if (!size) text_puts(&line, "[]");
    if (size && status == ST_OK) status = writer_arg(w, size, &line);
    text_printf(w->text, "  %s)", text_str(&line));
    end_line(w);
    text_free(&line);
    return status;
}

/* aten::full and scalar_tensor of such a float: it is cast, and expanded to the size. */
Status writer_filled(NodeWriter *w, const Json *inputs, const Json *outputs, bool *written) {
    const Json *const result = outputs->n == 1 ? json_get(&outputs->items[0], "as_tensor") : NULL;
    const Json *const meta = model_meta(w->graph, json_string(json_get(result, "name")));
    const Json *const code = json_get(meta, "dtype");
    const DType dtype = code && code->is_int ? model_dtype(code->i) : DT_default;
    const char *number = NULL;
    WriterCasts casts = {.to_f32 = false};
    Device device;
    bool is_int;
    for (int i = 0; i < inputs->n && !number; i++) number = named_float(w, json_get(&inputs->items[i], "arg"), &is_int);
    *written = number && dtype != DT_default;
    if (!*written) return ST_OK;
    TRY(model_device(json_get(meta, "device"), &device));
    *written = device == DEV_cpu; /* as the number is */
    if (!*written) return ST_OK;
    TRY(number_as(w, number, dtype, &casts));
    TRY(expand_number(w, number, named_input(inputs, "size"), outputs));
    return writer_casts_end(w, &casts);
}

Status writer_float_item(NodeWriter *w, const char *name, const char *tensor) {
    const char *const own = writer_new_name(w, name), *const value =
                                                          own ? arena_printf(w->m->arena, "%%%s", own) : NULL;
    if (!value) return ST_MEMORY;
    text_printf(w->text, "  %s = aten::to.dtype(%s, f64)", value, tensor);
    end_line(w);
    return writer_set(w, name, value);
}
