/* custom_op.h: ops registered at run time. They live as long as the process; their rows are KIND_kernel with ids from
 * OP_IDS up, and their rules are the user's bodies. */
#ifndef SINTER_RUNTIME_CUSTOM_OP_H
#define SINTER_RUNTIME_CUSTOM_OP_H
#include "ir/expression.h"
#include "passes/passes.h"
#include "runtime/core/frame.h"

typedef struct DynamicOp DynamicOp;
struct DynamicOp {
    OpRow row; /* first: op_dynamic is a cast */
    OpForm form;
    uint32_t flags; /* SN_OP_ bits */
    sn_body meta, cpu, cuda, decomposition, derivative;
    MetaFn *symbolic; /* the library's own (custom_op_own); NULL: none */
    DerivFn *rule;
    void *closure;
    /* Of the schema (custom_write.h): the arguments that it marks as written, Tensor(a!); by result which of them it
     * is, -1: it is new; and how many are new. */
    int n_written, n_fresh;
    int8_t written[MAX_ARGS], result_of[MAX_OUTS];
    /* Of the schema, too (custom_results.h): its results, which of them is a list (-1: none) and which are numbers
     * (bits). */
    int8_t n_results, list_at;
    uint8_t numbers;
    ParamType result_type[MAX_OUTS];
    const DynamicOp *functional;    /* what graphs hold of an op that writes; NULL: it runs at once */
    const DynamicOp *functional_of; /* the op whose `functional` this is, or NULL */
    /* Eager calls whose results were as the meta rule says: hashes of what that rule saw, by their low bits. */
    _Atomic uint64_t agreed[64];
    _Atomic uint64_t reached[16]; /* what its derivative gave gradients to (autograd/custom_reach.c) */
    int batch;                    /* in which it was registered (custom_op_begin); 0: in none */
    _Atomic bool withdrawn;       /* by the plug-in that registered it, which failed: no name finds it */
    char *text;                   /* the row's strings */
    Expression *expression;       /* the row's, or NULL */
    char *scalar;                 /* its text, or NULL */
    Param params[MAX_ARGS];
};

const DynamicOp *op_dynamic(const OpRow *row); /* NULL: built in */
/* What is registered for a backend's key: the op's kernel there, and what its results must be. */
Status custom_op_kernel(OpCall *call);
/* NULL on error: a schema that does not parse, a name that exists, no rule at all. */
const DynamicOp *custom_op_register(const sn_op_desc *desc);
/* What this thread registers between the two, ops, overrides and what else asks for the batch, is a plug-in's; failed:
 * it is withdrawn, and its names are free again. */
typedef struct OpBatch {
    int number, before;
} OpBatch;
OpBatch custom_op_begin(void);
void custom_op_end(OpBatch batch, bool failed);
/* The batch of what is registered now; 0: none. If it fails, withdraw is asked for what has that number. */
typedef void BatchWithdraw(int batch);
int custom_op_batch(BatchWithdraw *withdraw);
/* Rules of the library's own, which know symbolic sizes: a body asks for numbers, and what it is told holds for these
 * alone. symbolic: the meta rule where an argument has symbols; derivative: NULL, there is none. Before its first
 * call. */
void custom_op_own(const DynamicOp *op, MetaFn *symbolic, DerivFn *derivative);
const DynamicOp *custom_op_at(int i); /* in order of registration; NULL past the last */

/* Of what decides how the op's rules go: layouts of the tensors, and numbers. */
uint64_t custom_op_hash(const OpRow *row, const Arg *args);
/* Is a kernel's result what the meta rule said, which the ops after it were recorded with? Raises what both are. */
Status custom_op_check_result(const OpRow *row, int result, const Meta *made, const Meta *said);
/* The same of all: their count, too, which only a list's may be another. */
Status custom_op_check_results(const OpRow *row, sn_tensor *const *made, int n, sn_tensor *const *said, int n_said);
/* What the op's meta body says of its numbers: by result, ARG_none where it leaves one to the values. */
Status custom_op_ask_numbers(MetaCall *call, Arg *said);

void custom_op_start(void);

#endif
