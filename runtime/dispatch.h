/* dispatch.h: a table [op][key], a 64-bit key set, the highest key's kernel runs and may redispatch below itself.
 *
 * keys = (union of the tensor arguments' keys | thread include) & ~thread exclude. Priorities are the order of
 * keys.def, lowest first; a missing entry falls to the key's fallback, and where that is absent, to the next key. */
#ifndef SINTER_RUNTIME_DISPATCH_H
#define SINTER_RUNTIME_DISPATCH_H
#include "ir/builder.h"
#include "runtime/tensor.h"

typedef enum Key {
#define KEY(name, public_id, doc) KEY_##name,
#include "runtime/keys.def"
#undef KEY
    KEY_COUNT
} Key;
#define KEY_BIT(name) (UINT64_C(1) << KEY_##name)

typedef struct OpCall {
    const OpRow *row;    /* never an alias */
    OpForm form;
    const Arg *args;     /* row->n_params, normalised; in-place: args[0] is written */
    sn_tensor *const *out_args; /* out form: row->n_out tensors to write */
    sn_tensor **outs;    /* results, scope-owned; in-place and out forms: the written tensors; Tensor[]: room MAX_LIST */
    int n_outs;
    uint64_t keys;       /* this call's key set; redispatch clears from the running key up */
    Key key;             /* the running key */
} OpCall;
typedef Status OpKernel(OpCall *call);

/* The boxed entry that everything goes through; outs receives results (row->n_out). */
Status dispatch(const OpRow *row, OpForm form, const Arg *args, sn_tensor *const *out_args, sn_tensor **outs);
Status redispatch(OpCall *call);                      /* to the keys below call->key */
Status redispatch_excluding(OpCall *call, uint64_t keys);
OpKernel *dispatch_entry(const OpRow *row, Key key);  /* what would run, after fallbacks; NULL: fall through */
void dispatch_fallback(Key key, OpKernel *kernel);    /* registration at start-up */
extern _Atomic uint32_t dispatch_epoch;               /* bumped by overrides; a guard [C7] */

/* Eager as a builder: emit dispatches; results belong to the innermost scope. */
Builder *eager_builder(void);

/* Native kernels of rows of KIND_kernel: cpu_<body> in runtime/cpu_*.c. Outputs are made from op_meta by the caller
 * where call->outs[i] is set already; a kernel writes them through tensor_data and their strides. */
OpKernel *cpu_kernel(const OpRow *row);

#endif
