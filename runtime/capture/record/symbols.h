/* symbols.h: how the numbers of a call follow from its inputs, in replay functions [semantics C6], and in the first
 * call of others whose sizes are to be symbols: there only what composites compute of sizes is learnt, and host code
 * sees plain numbers.
 *
 * While the body of such a function is captured, every size >= 2 and every int among its inputs is a free symbol, and
 * each op's meta rule runs a second time on symbolic metadata. So a number that came through sn_sym_* or a meta rule is
 * recorded as an expression, and what a plain getter (sn_size, sn_in_int) showed to host code becomes a guard that it
 * is the same again:
 *
 *   sn_sym n = sn_sym_size(x, 0)       s0                       op(..., sn_sym_arg(n))   source s0, value 8
 *   sn_numel(x)                        guard s0 * 4 == 32
 *
 * Ops see plain values only: an int that stands for an expression (ir/sym.h) is replaced where the call enters
 * capture. */
#ifndef SINTER_RUNTIME_SYMBOLS_H
#define SINTER_RUNTIME_SYMBOLS_H
#include "runtime/autograd/query.h"
#include "runtime/base/hash.h"
#include "runtime/capture/record/capture.h"

/* Where a free symbol's value comes from: a size or stride of a call input, or an int input. */
typedef struct SymSource {
    enum {
        SOURCE_size,
        SOURCE_stride,
        SOURCE_scalar,
        SOURCE_outside /* of what an op beside the segments made: only the values say; input: the header's symbol, -1 */
    } kind;
    int input, dim;
} SymSource;

struct Symbols {
    Arena *arena; /* its own: a specialized call takes it over */
    SymEnv *env;
    int n_in;
    const Arg *in;                    /* the call's, as the body sees them: a number's n is 1 + its index here */
    const Meta **metas;               /* by call input: symbolic where it may vary; NULL: no tensor */
    const Meta **plain;               /* as it was when the call began */
    int64_t *ints;                    /* by call input: the symbol of an int, or the number itself */
    bool sizes_only;                  /* no replay function: numbers of the call and what is asked are as they are */
    bool *pinned;                     /* floats: host code has read the number */
    bool lost;                        /* some op's results have no symbolic metadata: nothing is known to be free */
    VEC(SymSource) frees;             /* by free symbol */
    bool *read;                       /* by call input: the body has asked for the number, in whatever way */
    VEC(Asked) asked;                 /* runtime/autograd/query.h */
    const struct GraphHeader *header; /* of the function; or NULL */
    Map made; /* with a header: the metadata of what the body has made, by its address: its scope holds all of it */
};

/* The value of one number of a trace: a constant, an expression, or the float input of this index. */
enum { SOURCE_value = -1, SOURCE_from_sizes = -2 }; /* the second: a float that a composite computed, here its bits */
struct NumberSource {
    int64_t value;
    int input;
};

/* With a header (or NULL) what it has as a number is one, and bounds are the header's. NULL raises. */
Symbols *symbols_new(const Arg *in, int n_in, bool sizes_only, const struct GraphHeader *header);
void symbols_free(Symbols *symbols);
void symbols_forget_asked(Symbols *symbols); /* lets go of the tensors */
/* The calling thread's, or NULL: it does not capture a replay function. */
Symbols *symbols_current(void);

/* Has the call numbers among its inputs? NULL: no. */
bool symbols_have_numbers(const Symbols *symbols);
/* By free symbol, what it is elsewhere, where t, an argument of the call or made of some, is as `here`. */
void symbols_bind(const Symbols *symbols, const sn_tensor *t, const Meta *here, int64_t *by);
/* Does the expression change with an int input of the call? */
bool symbols_of_scalar(const Symbols *symbols, int64_t value);
/* As the call knows t. */
const Meta *symbols_meta(const Symbols *symbols, const sn_tensor *t);
/* What a tracer is asked of numbers and layouts, and told of what host code was given (core/tracer.h). */
void symbols_answer(Capture *capture, TracerQuery *query);
void symbols_shown(Symbols *symbols, const Asked *shown);

/* The call with plain numbers; `args` has room for row->n_params. */
Status symbols_plain_call(Symbols *symbols, const OpCall *call, OpCall *plain, Arg *args);
/* The arguments of an op that a traced body calls: plain, numbers of the call around it specialised. */
Status symbols_traced_args(const OpCall *call, Arg *args);
/* After op, whose arguments `symbolic` were, was recorded: where its numbers come from, what its results are. */
Status symbols_record(Capture *capture, const OpCall *call, const Arg *symbolic, const TraceOp *op);
/* After an op has run beside the segments: sizes of its results that only values give are symbols from here on. */
Status symbols_record_outside(Symbols *symbols, const OpCall *call, const Arg *symbolic);
/* The capture key's kernel of composite rows: the rule runs so that sizes it computes stay expressions. */
Status symbols_composite(OpCall *call);

#endif
