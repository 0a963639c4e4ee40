/* writer_floats.c: floats that a program computes of sizes (1.0 / n): tensors of no dims, in f64 as in Python.
 *
 *     %f = aten::full([], s0, dtype=f64)
 *     %truediv = aten::div.Tensor(%one, %f)
 *     %mul = aten::mul.Tensor(%x, %truediv)
 *
 * Beside a float tensor such a one counts for its value alone, as a number does. */
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

/* An integer tensor's result with a number is f32, with a tensor of f64 it would be f64. */
Status writer_check_floats(const NodeWriter *w, const Json *inputs) {
    const char *value = NULL;
    bool ints = false;
    for (int i = 0; i < inputs->n; i++) {
        const Json *const member = writer_union(json_get(&inputs->items[i], "arg"));
        const char *const name = json_string(json_get(member, "as_name"));
        const char *const bound = writer_union_is(member, "as_sym_float") && name ? writer_get(w, name) : NULL;
        const Json *const code = json_get(model_meta(w->graph, json_string(json_get(member, "name"))), "dtype");
        if (bound && *bound == '%') value = name;
        if (writer_union_is(member, "as_tensor") && code && code->is_int)
            ints = ints || !dtype_is_float(model_dtype(code->i));
    }
    if (!value || !ints) return ST_OK;
    return error_raise(ST_UNSUPPORTED, "the float '%.100s', which follows from sizes, beside a tensor of integers",
                       value);
}
