/* einsum.h: an equation of Einstein's notation as dims: "bij,bjk->bik" names 4 labels; those of the result come
 * first, in its order, then those that are summed over. An ellipsis stands for the dims that broadcast. */
#ifndef SINTER_IR_EINSUM_H
#define SINTER_IR_EINSUM_H
#include "ir/meta.h"

enum { EINSUM_OPERANDS = 16, EINSUM_DIMS = 64 };
typedef struct Einsum {
    int n_operands, n_dims, n_out; /* operands; dims of all, of the result */
    int rank[EINSUM_OPERANDS];
    uint8_t dim[EINSUM_OPERANDS][EINSUM_DIMS]; /* of an operand's dim which of all that is */
} Einsum;

/* What is wrong with the equation for operands of these ranks; NULL: nothing. */
const char *einsum_parse(const char *equation, const int *ranks, int n, Einsum *out);

/* One contraction, of what is there so far with the next operand, both with all dims (of size 1 where they lack one):
 * which dims of each are summed before, and which by the product. left[d]: how many operands still have dim d; of a dim
 * of the result one more. */
typedef struct EinsumStep {
    bool sum_a[EINSUM_DIMS], sum_b[EINSUM_DIMS], sum[EINSUM_DIMS];
    bool any_a, any_b, any;
} EinsumStep;
EinsumStep einsum_step(SymEnv *env, const Einsum *e, int *left, const int64_t *a, const int64_t *b);
/* The dims of a batched product of both, as what it gives has them: those of both, of a, summed, the rest. */
void einsum_product(SymEnv *env, const Einsum *e, const EinsumStep *step, const int64_t *a, const int64_t *b,
                    int order[EINSUM_DIMS], int counts[4]);

#endif
