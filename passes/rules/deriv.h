/* deriv.h: what the derivative rules (deriv_*.c) share. A rule is the vector-Jacobian product of
 * one op call, written with E(), so that it serves eager backward, the joint graph and double
 * backward alike. Formulas are those of PyTorch's derivatives.yaml. A rule is called only when some
 * output gradient is defined; it sets the gradients that are needed through deriv_set, which sums
 * over broadcast dims and casts to the argument's dtype.
 *
 *     Status deriv_sin(Deriv *d) { return deriv_set(d, 0, mul(d->b, grad_of(d), cosine)); }
 *
 * Helpers pass NULL on: NULL in, NULL out, with the error pending. */
#ifndef SINTER_PASSES_RULES_DERIV_H
#define SINTER_PASSES_RULES_DERIV_H
#include "passes/passes.h"
#include "runtime/base/error.h"

#define DERIV(id, rule, saves) DerivFn deriv_##rule;
#include "ir/ops/derivatives.def"
#undef DERIV

/* The gradient of argument `arg` is `grad`: summed to its sizes, cast to its dtype. NULL is the
 * pending error. */
Status deriv_set(Deriv *d, int arg, Val *grad);
/* As deriv_set where the argument wants one, nothing (and nothing emitted) otherwise. */
static inline bool wants(const Deriv *d, int arg) { return d->needs[arg]; }
static inline Val *grad_of(const Deriv *d) { return d->grad_out[0]; }
static inline Val *saved(const Deriv *d, int arg) { return d->args[arg].kind == ARG_tensor ? d->args[arg].val : NULL; }
/* The value of a number argument; raises where it is only known at the call [semantics C4]. */
Status deriv_number(const Deriv *d, int arg, double *out);

/* Dims named by an int or a list, negative ones wrapped; None or empty: all. */
typedef struct Dims {
    int n;
    int64_t at[MAX_RANK];
    bool has[MAX_RANK];
} Dims;

Val *cast_to(Builder *b, Val *x, DType dtype);           /* x itself where it has the dtype */
Val *compute_of(Builder *b, Val *x);                     /* bf16, f16: cast to f32 [semantics B5] */
Val *to_device_of(Builder *b, Val *x, const Meta *like); /* in its dtype; x itself where it is there */
Val *zeros_of(Builder *b, const Meta *like);             /* of its sizes, dtype and device */
Val *reshape_to(Builder *b, Val *x, const int64_t *sizes, int rank);
Val *expand_to(Builder *b, Val *x, const int64_t *sizes, int rank);
Val *sum_dims(Builder *b, Val *x, const int64_t *dims, int n, bool keepdim);
Val *swap_dims(Builder *b, Val *x, int dim0, int dim1); /* a permute */
Val *mean_of(Builder *b, Val *x, const Dims *dims);     /* keeps the dims */
Val *slice_of(Builder *b, Val *x, int64_t dim, int64_t start, int64_t length);
Val *scaled(Builder *b, Val *x, const Arg *number); /* x where the number is the constant 1 */

Dims dims_of(const Arg *arg, int rank);
int64_t dims_count(Builder *b, const Dims *dims, const Meta *meta); /* elements under one result */
/* A reduction's result (or its gradient) with its reduced dims back as size 1, then ready to
 * broadcast. */
Val *restore_dims(Builder *b, Val *x, const Dims *dims, const Meta *full, bool keepdim);

static inline Val *add(Builder *b, Val *x, Val *y) { return E(b, add_Tensor, V(x), V(y)); }
static inline Val *sub(Builder *b, Val *x, Val *y) { return E(b, sub_Tensor, V(x), V(y)); }
static inline Val *mul(Builder *b, Val *x, Val *y) { return E(b, mul_Tensor, V(x), V(y)); }
static inline Val *quotient(Builder *b, Val *x, Val *y) { return E(b, div_Tensor, V(x), V(y)); }
static inline Val *negate(Builder *b, Val *x) { return E(b, neg, V(x)); }
static inline Val *add_n(Builder *b, Val *x, double n) { return E(b, add_Tensor, V(x), F(n)); }
static inline Val *mul_n(Builder *b, Val *x, double n) { return E(b, mul_Tensor, V(x), F(n)); }
static inline Val *div_n(Builder *b, Val *x, double n) { return E(b, div_Tensor, V(x), F(n)); }
static inline Val *n_minus(Builder *b, double n, Val *x) { return add_n(b, negate(b, x), n); }
static inline Val *square_of(Builder *b, Val *x) { return mul(b, x, x); }
/* condition ? x : 0 and the other way round */
static inline Val *keep_where(Builder *b, Val *condition, Val *x) { return E(b, where_self, V(condition), V(x), F(0)); }
static inline Val *zero_where(Builder *b, Val *condition, Val *x) { return E(b, where_self, V(condition), F(0), V(x)); }
/* mask ? 0 : x, row-major whatever x is. The mask may be a number. */
static inline Val *filled_where(Builder *b, Arg mask, Val *x) { return E(b, masked_fill_Tensor, V(x), mask, F(0)); }

#endif
