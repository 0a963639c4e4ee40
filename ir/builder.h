/* builder.h: emit(), the one way to apply an op. Derivatives and decompositions are written against it once; the
 * dispatcher is the builder in eager, a graph in compile, so their results agree by construction.
 *
 * Values flow as Val *: NULL in, NULL out (an error is pending). A builder never frees what it returned: eager results
 * belong to the scope, graph values to the arena. */
#ifndef SINTER_IR_BUILDER_H
#define SINTER_IR_BUILDER_H
#include "ir/op.h"

typedef struct Builder Builder;
struct Builder {
    Status (*emit)(Builder *self, const OpRow *row, const Arg *args, Val **outs);
    /* to's elements become from's, as copy_ does it; NULL: the builder holds functional rows only (a graph) */
    Status (*write)(Builder *self, Val *to, Val *from);
    SymEnv *env; /* NULL in eager */
    /* A capture learns which numbers are computed of sizes: symbols stand for plain ones, whose ops it records. */
    bool learns;
    /* The ops are recorded by a capture, whose symbols are those sizes that may be others. */
    bool captures;
};

/* Sizes or strides that are the same without a guard. Of a capture that learns: the plain ones. */
static inline bool builder_identical(const Builder *b, int64_t x, int64_t y) {
    return sym_identical(x, y) || (b->learns && sym_hint(b->env, x) == sym_hint(b->env, y));
}

/* Applies op to n args (missing ones default); outs gets row->n_out values. NULL tensors for required arguments raise
 * nothing new while an error is pending. */
Status emit(Builder *builder, OpId op, const Arg *args, int n_args, Val **outs);
/* The same for ops of one result; NULL on error. */
Val *emit1(Builder *builder, OpId op, const Arg *args, int n_args);

/* What a composite does to an argument that its schema marks as written. */
Status emit_write(Builder *builder, Val *to, Val *from);

/* E(b, mul_Tensor, V(x), V(y)): the short way, used by all rules. */
#define E(builder, op, ...)                                                                                            \
    emit1((builder), OP_ID(op), (const Arg[]){__VA_ARGS__}, COUNT_OF(((const Arg[]){__VA_ARGS__})))
#define V A_VAL
#define I A_INT
#define F A_FLOAT
/* Computed of `size`, another number at other ones: a capture that learns, or knows by a header which sizes may be
 * others, keeps no constant of it. */
#define SIZED_FLOAT(builder, size, x)                                                                                  \
    ((Arg){.kind = ARG_float,                                                                                          \
           .n = (builder)->learns || ((builder)->captures && sym_is(size)) ? FLOAT_FROM_SIZES : 0,                     \
           .f = (x)})

#endif
