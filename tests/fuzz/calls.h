/* calls.h: fuzz --calls N: wild calls of single ops. */
#ifndef SINTER_TESTS_FUZZ_CALLS_H
#define SINTER_TESTS_FUZZ_CALLS_H
#include <sinter/sinter.h>

#include "ir/op.h"
#include "runtime/base/arena.h"
#include "runtime/base/text.h"

enum { CALL_TENSORS = 24, CALL_LIST = 1100 };

/* One boxed call, in the order of the form's schema. */
typedef struct WildCall {
    const OpRow *row;
    OpForm form;
    const sn_op *op;
    sn_value in[MAX_ARGS + MAX_OUTS + 1];
    int n_in;
    sn_tensor *tensors[CALL_TENSORS]; /* what its arguments are made of; they belong to the innermost scope */
    int n_tensors;
    Arena *arena; /* of lists and strings */
} WildCall;

/* call_make.c: the same call for the same seed, with fresh tensors. row: "aten::add.Tensor"; NULL: any. */
void fz_call_make(WildCall *call, uint64_t seed, const char *row, Arena *arena);
void fz_call_print(const WildCall *call, Text *text);

/* calls.c: n calls of the seeds from `seed` on, of all rows or of one; told: each is printed before it is made. Returns
 * the exit code. */
int fz_calls(int64_t n, uint64_t seed, const char *row, bool json, bool told);

#endif
