/* writer_floats.c: floats that a program computes of sizes (1.0 / n): tensors of no dims, in f64 as in Python.
 *
 *     %f = aten::full([], s0, dtype=f64)
 *     %truediv = aten::div.Tensor(%one, %f)
 *     %mul = aten::mul.Tensor(%x, %truediv)
 *
 * Beside a float tensor with dims such a one counts for its value alone, as a number does; beside one without, it is
 * cast to f32 for the op. So are ints that a body carries (writer_numbers.c), to a narrower integer. */
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
    const Json *member; /* the node's float, or the int that a body carries; NULL: it is given none */
    bool ints, dims;    /* beside it: a tensor that is none of floats, one that has dims */
    DType dtype;        /* of the float tensors */
} FloatPlace;

static void look_at_tensor(const NodeWriter *w, const Json *member, FloatPlace *out) {
    const Json *const meta = model_meta(w->graph, json_string(json_get(member, "name")));
    const Json *const code = json_get(meta, "dtype"), *const sizes = json_get(meta, "sizes");
    if (!code || !code->is_int) return;
    const DType dtype = model_dtype(code->i);
    out->ints = out->ints || !dtype_is_float(dtype);
    out->dims = out->dims || (sizes && sizes->n > 0);
    out->dtype = out->dtype == DT_default || out->dtype == dtype ? dtype : DT_f64;
}

static FloatPlace look_at(const NodeWriter *w, const Json *inputs) {
    FloatPlace out = {.dtype = DT_default};
    for (int i = 0; i < inputs->n; i++) {
        const Json *const member = writer_union(json_get(&inputs->items[i], "arg"));
        const char *const name = json_string(json_get(member, "as_name"));
        const bool number = writer_union_is(member, "as_sym_float") || writer_union_is(member, "as_sym_int");
        const char *const bound = number && name ? writer_get(w, name) : NULL;
        if (bound && *bound == '%') out.member = member;
        if (writer_union_is(member, "as_tensor")) look_at_tensor(w, member, &out);
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

/* A result with a number has the tensor's dtype; with a tensor of f64 and no dims only where the other one has dims. */
Status writer_floats(NodeWriter *w, const Json *inputs, WriterCasts *out) {
    const FloatPlace at = look_at(w, inputs);
    const char *const name = json_string(json_get(at.member, "as_name"));
    const bool weaker = at.dims || at.dtype == DT_f64 || at.dtype == DT_default;
    *out = (WriterCasts){.to_f32 = false};
    if (!name || (!at.ints && weaker)) return ST_OK;
    if (writer_union_is(at.member, "as_sym_int"))
        return at.dims || !is_narrow_int(at.dtype) ? ST_OK : number_as(w, name, at.dtype, out);
    if (!at.ints && at.dtype == DT_f32) return number_as(w, name, DT_f32, out);
    return error_raise(ST_UNSUPPORTED, "the float '%.100s', which follows from sizes, beside a tensor of %s", name,
                       at.ints ? "integers" : "no dims that is narrower than f32");
}
