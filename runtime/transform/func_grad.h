/* func_grad.h: gradients of functions (sn_func_grad, sn_func_vjp, sn_jacobian): one run of a body at a level with a
 * tape of its own [semantics T4]. Its backward's ops are ops of the level, too: further out they are ops like others,
 * which tapes record, examples go through and a captured graph holds. */
#ifndef SINTER_RUNTIME_FUNC_GRAD_H
#define SINTER_RUNTIME_FUNC_GRAD_H
#include "runtime/transform/level.h"

typedef struct FuncSpec {
    const char *what; /* the public function, for errors */
    sn_body body;
    void *closure;
    sn_tensor *const *in;
    int n_in;
    const int64_t *argnums; /* of inputs, each once */
    int n_args;
    int n_outs; /* that the body sets */
    sn_tensor *const
        *cotangents; /* of the first n_ys outputs; an entry NULL: zeros; NULL: it is 1, of one 0-dim output */
    int n_ys;
    sn_tensor **grads; /* by argument; FUNC_jacobian: by output and argument */
    sn_tensor **outs;  /* the body's */
} FuncSpec;
Status func_vjp(const FuncSpec *spec);
/* d out / d in of all n_outs outputs, [out's sizes, in's sizes], by backwards for all elements of an output at once. */
Status func_jacobian(const FuncSpec *spec);
/* The same by forward mode: one run of the body for all elements of an argument at once. */
Status func_forward_jacobian(const FuncSpec *spec);

/* parts of both */
Status func_check_argument(const FuncSpec *spec, int k); /* its dtype */
int64_t func_count(sn_tensor *t);                        /* elements, asked for as sizes */
/* [n, sizes of t]: one at each element in turn; NULL raises. */
sn_tensor *func_basis(const FuncSpec *spec, const sn_tensor *t, int64_t n);
sn_tensor *func_jacobian_shape(const FuncSpec *spec, sn_tensor *all, const Meta *y, const Meta *x);

#endif
