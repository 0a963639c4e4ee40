/* body_expression.c: the scalar body of ops that have an expression (ir/expression.h): each node in order, in the one
 * type that the op computes in; an op of the table by its own body, on elements in that type, so that nothing inside is
 * rounded to f16 or bf16. */
#include "ir/expression.h"
#include "passes/rules/body.h"

typedef struct ExprBody {
    BodyCall *call; /* of the op */
    const Expression *e;
    SType type;
    int insts[MAX_EXPR_NODES];
} ExprBody;

/* A call of the table's op that a node is. */
typedef struct NodeBody {
    BodyCall call;
    const ExprBody *of;
    const ExprNode *node;
} NodeBody;

static int as_truth(const ExprBody *b, int node) { return as_type(b->call, b->insts[node], S_b); }
static int as_number(const ExprBody *b, int node) { return as_type(b->call, b->insts[node], b->type); }

static int write_param(const ExprBody *b, int param) {
    const Arg *const arg = &b->call->args[param];
    if (arg->kind == ARG_tensor) return as_type(b->call, b->call->element(b->call, param), b->type);
    const int number = b->call->number(b->call, param, b->type);
    return b->call->row->params[param].type == PT_bool ? as_type(b->call, number, S_b) : number;
}

static int write_primitive(const ExprBody *b, const ExprNode *node) {
    int in[3] = {-1, -1, -1};
    const bool truths = node->truth && !prim_returns_bool(node->prim);
    for (int i = 0; i < node->n; i++) {
        const bool truth = truths || (node->prim == PRIM_select && i == 0);
        in[i] = truth ? as_truth(b, node->in[i]) : as_number(b, node->in[i]);
    }
    return loop_prim(b->call->lb, node->prim, in[0], in[1], in[2]);
}

static int node_element(BodyCall *call, int arg) {
    const NodeBody *const body = call->context;
    return as_number(body->of, body->node->in[arg]);
}

static int node_number(BodyCall *call, int arg, SType type) { return loop_number(call->lb, type, &call->args[arg]); }

static DType dtype_in(SType type) {
    return type == S_f32 ? DT_f32 : type == S_f64 ? DT_f64 : type == S_i32 ? DT_i32 : DT_i64;
}

static int write_row(const ExprBody *b, const ExprNode *node) {
    const DType dtype = dtype_in(b->type);
    const Meta meta = {.dtype = dtype, .device = DEV_cpu, .contiguous = true, .numel = 1};
    Val element = {&meta};
    Arg args[MAX_ARGS];
    expression_args(b->e, node->row, node->in, node->n, &element, args); /* it took them when it was built */
    NodeBody body = {.of = b, .node = node};
    body.call = (BodyCall){.lb = b->call->lb,
                           .row = node->row,
                           .args = args,
                           .type = b->type,
                           .out_dtype = node->truth ? DT_bool : dtype,
                           .common = dtype,
                           .element = node_element,
                           .number = node_number,
                           .position = b->call->position,
                           .random = b->call->random,
                           .context = &body};
    return body_rule(node->row)(&body.call);
}

static int write_node(const ExprBody *b, const ExprNode *node) {
    switch (node->kind) {
    case EXPR_param:
        return write_param(b, node->param);
    case EXPR_number:
        return loop_number(b->call->lb, b->type, &node->number);
    case EXPR_prim:
        return write_primitive(b, node);
    default:
        return write_row(b, node);
    }
}

BodyFn body_expression;
int body_expression(BodyCall *c) {
    const Expression *const e = c->row->expression;
    const bool truth = e->nodes[e->root].truth;
    const DType dtype = truth ? expression_dtype(e, operands_promoted(c->row, c->args)) : c->out_dtype;
    ExprBody body = {.call = c, .e = e, .type = dtype_compute(dtype)};
    for (int i = 0; i <= e->root; i++) body.insts[i] = write_node(&body, &e->nodes[i]);
    return truth ? as_truth(&body, e->root) : as_number(&body, e->root);
}
