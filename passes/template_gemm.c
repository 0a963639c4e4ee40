/* template_gemm.c: which nodes are products, and what alpha, beta and self add to them. */
#include "passes/template.h"

static bool takes(const Node *node) {
    const ProductArgs *const p = &node->row->product;
    if (!op_is_product(node->row) || node->args[p->a].kind != ARG_tensor) return false;
    switch (node->args[p->a].val->meta->dtype) {
    case DT_f64:
    case DT_f32:
    case DT_f16:
    case DT_bf16:
    case DT_i64:
    case DT_i32:
        return true;
    default:
        return false;
    }
}

static bool is_number(const Arg *a, double value) {
    return (a->kind == ARG_int || a->kind == ARG_float) && arg_double(a) == value;
}

/* beta self + alpha product, each rounded in the compute type; beta 0 ignores self. */
static int body(BodyCall *call, int product) {
    const int alpha = op_param_find(call->row, "alpha"), beta = op_param_find(call->row, "beta");
    const SType type = loop_type(call->lb, product);
    if (alpha >= 0 && !is_number(&call->args[alpha], 1))
        product = loop_prim(call->lb, PRIM_mul, product, call->number(call, alpha, type), -1);
    if (beta < 0 || is_number(&call->args[beta], 0)) return product;
    int self = loop_cast(call->lb, type, call->element(call, 0));
    if (!is_number(&call->args[beta], 1))
        self = loop_prim(call->lb, PRIM_mul, self, call->number(call, beta, type), -1);
    return loop_prim(call->lb, PRIM_add, self, product, -1);
}

static GVal *operand_value(const Node *node, int operand) {
    const ProductArgs *const p = &node->row->product;
    return operand == 2 ? &node->outs[0] : gval(node->args[operand ? p->b : p->a].val);
}

static bool stores(const Node *node) { return node->row->product.self < 0; }

const TemplateRule lower_gemm = {takes, operand_value, stores, body};
