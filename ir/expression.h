/* expression.h: what a pointwise op of the program computes for one element, as data: a dag of primitives (scalar.def)
 * and of the table's own pointwise ops on the op's parameters and numbers.
 *
 *   my::gate(Tensor x, Tensor y, float by) -> Tensor    "max(x, 0) * y + by"
 *
 *   %0 = x   %1 = 0   %2 = max(%0, %1)   %3 = y   %4 = mul(%2, %3)   %5 = by   %6 = add(%4, %5)
 *
 * A node is a truth (what comparisons give) or a number of the one type that the op computes in: that to which its
 * tensors promote, a float where the expression needs one (a quotient, exp, 0.5, a float parameter), i64 for bools. A
 * truth among numbers is 0 or 1, a number where a truth is wanted one that is not 0. Built once, by a text (grammar:
 * expression_parse.c) or a callback of the program's; lowering writes it into each nest (passes/rules). */
#ifndef SINTER_IR_EXPRESSION_H
#define SINTER_IR_EXPRESSION_H
#include "ir/loop.h"
#include "ir/op.h"

enum { MAX_EXPR_NODES = 256, MAX_EXPR_ARGS = 4, MAX_EXPR_DEPTH = 100 };

typedef struct Expression Expression;
typedef enum ExprKind { EXPR_param, EXPR_number, EXPR_prim, EXPR_row } ExprKind;
typedef struct ExprNode {
    ExprKind kind;
    bool truth;
    int n, in[MAX_EXPR_ARGS]; /* earlier nodes */
    union {
        int param; /* of the op */
        Prim prim;
        const OpRow *row; /* of the table; its parameters behind the n-th have their defaults */
        Arg number;       /* ARG_int or ARG_float */
    };
} ExprNode;

struct Expression {
    const OpRow *row; /* the op's, with name and parameters */
    const char *text; /* NULL: built by calls */
    const char *at;   /* while it is parsed: where errors are */
    bool floats;      /* it needs a float type */
    bool ints;        /* it has a function of ints alone */
    int n, root;
    ExprNode nodes[MAX_EXPR_NODES];
};

/* A new node each; -1 raised. */
int expression_param(Expression *e, const char *name, size_t n);
int expression_number(Expression *e, Arg value); /* ARG_int or ARG_float */
/* "add", "max", "where", "gelu"... of nodes before it. */
int expression_call(Expression *e, const char *function, size_t n, const int *in, int n_in);
/* The arguments of a row's call on nodes: `element` for tensors, known numbers else. False: it takes others. */
bool expression_args(const Expression *e, const OpRow *row, const int *in, int n, Val *element, Arg *args);
/* Raises "my::gate: scalar expression: ...", in a text with its column; returns -1. */
int expression_fail(const Expression *e, Status status, const char *format, ...) PRINTF_LIKE(3, 4);

/* The whole text, root included. */
Status expression_parse(Expression *e, const char *text);
/* Whether it may be the op's: parameters, results, root. */
Status expression_check(const Expression *e);

/* The dtype that it computes in. */
DType expression_dtype(const Expression *e, DType common);
MetaFn expression_meta; /* the meta rule of a row with an expression */

#endif
