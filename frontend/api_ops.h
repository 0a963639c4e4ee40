/* api_ops.h: how the generated op functions make arguments and dispatch. */
#ifndef SINTER_FRONTEND_API_OPS_H
#define SINTER_FRONTEND_API_OPS_H
#include <sinter/tensor.h>

#include "runtime/dispatch.h"

static inline Arg api_tensor_opt(sn_tensor *t) { return t ? A_VAL((Val *)t) : A_NONE; }
static inline Arg api_int_opt(int64_t i) { return i == NO_INT ? A_NONE : A_INT(i); }
static inline Arg api_dtype_opt(sn_dtype d) { return d == SN_DTYPE_DEFAULT ? A_NONE : A_INT(d); }
static inline Arg api_format_opt(int32_t format) { return format ? A_INT(format) : A_NONE; }
static inline Arg api_ints(sn_ints v) { return v.data || v.n ? A_INTS(v.data, v.n) : A_NONE; }
static inline Arg api_tensors(sn_tensors v) { return A_VALS((Val *const *)v.data, v.n); }
static inline Arg api_scalar(sn_scalar s) {
    Arg a;
    memcpy(&a, &s, sizeof a);
    if (a.kind == ARG_default) a.kind = ARG_none;
    return a;
}

/* args: every parameter of the row, defaults filled in, unless `normalize`. Result 0, NULL on
 * error. */
sn_tensor *api_call(OpId op, OpForm form, const Arg *args, sn_tensor *const *out_args,
                    bool normalize, const void *site);
/* Results 1... go to *more[i] where that is not NULL. */
sn_tensor *api_call_more(OpId op, const Arg *args, sn_tensor **const *more, int n_more,
                         const void *site);
/* Fills out with at most `room` results and returns how many there are; -1 on error, too little
 * room included. */
int64_t api_call_list(OpId op, const Arg *args, sn_tensor **out, int64_t room, const void *site);

#endif
