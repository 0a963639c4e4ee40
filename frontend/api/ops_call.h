/* ops_call.h: what the generated ops_api.c is written with: public argument types to Args, and the
 * call itself. */
#ifndef SINTER_FRONTEND_OPS_CALL_H
#define SINTER_FRONTEND_OPS_CALL_H
#include <sinter/tensor.h>

#include "frontend/api/enter.h"
#include "runtime/core/dispatch.h"
#include "runtime/core/state.h"

#define OPTIONAL_TENSOR(t)  ((t) ? A_VAL((Val *)(t)) : A_NONE)
#define OPTIONAL_INT(i)     ((i) == SN_NO_INT ? A_NONE : A_INT(i))
#define LIST_COUNT(n)       ((n) == (int32_t)(n) ? (int32_t)(n) : LIST_TOO_LONG)
#define INTS(list)          A_INTS((list).data, LIST_COUNT((list).n))
#define OPTIONAL_INTS(list) ((list).data ? INTS(list) : A_NONE)
#define TENSORS(list)                                                                                                  \
    ((Arg){.kind = ARG_tensors, .n = LIST_COUNT((list).n), .vals = (Val *const *)(const void *)(list).data})
#define VALUE(value) (*(const Arg *)(const void *)&(value))
#define TEXT(string) ((string) ? A_STR(string) : A_NONE)

/* Every public op function says where it was called from: graph breaks and errors name the place. */
#define OPS_SITE() (void)api_enter((ApiEntry)API_here, NULL, NULL)

/* Kinds and numbers that only graphs have are no public values. */
Status ops_values(const OpRow *row, OpForm form, const Arg *in, int n);
/* args, or full: a copy that names the thread's default device where a factory's arguments name none. */
const Arg *ops_place_at(const OpRow *row, OpForm form, const Arg *args, Arg *full);
static inline const Arg *ops_place(const OpRow *row, OpForm form, const Arg *args, Arg *full) {
    return LIKELY(state_get()->device == DEV_cpu) ? args : ops_place_at(row, form, args, full);
}
/* One result. `plain`: args are normalised but for NULL tensors. written: the out form's tensors,
 * else NULL. */
sn_tensor *ops_call1(OpId op, OpForm form, const Arg *args, bool plain, sn_tensor *const *written);
/* Several: the first is returned, the others go to *more[i] where that is not NULL. */
sn_tensor *ops_call(OpId op, const Arg *args, sn_tensor **const *more);
/* Tensor[]: fills out and returns the count; -1 on error, or where room is too small. */
int64_t ops_list(OpId op, const Arg *args, sn_tensor **out, int64_t capacity);

#endif
