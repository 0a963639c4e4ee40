/* dispatch.h: a table [op][key], a 64-bit key set, the highest key's kernel runs and may redispatch
 * below itself.
 *
 * keys = (union of the tensor arguments' keys | thread include) & ~thread exclude; a device argument
 * takes the place of the tensors' backends. Priorities are
 * the order of keys.def, lowest first; a missing entry falls to the key's fallback, and where that
 * is absent, to the next key. */
#ifndef SINTER_RUNTIME_DISPATCH_H
#define SINTER_RUNTIME_DISPATCH_H
#include <sinter/dispatch.h>

#include "ir/builder.h"
#include "runtime/core/keys.h"
#include "runtime/core/tensor.h"

/* Of sn_fake_mode_set: no values, but a device that it claims. */
static inline bool tensor_is_fake(const sn_tensor *t) { return t->keys & KEY_BIT(fake); }

typedef struct OpCall {
    const OpRow *row; /* never an alias */
    OpForm form;
    const Arg *args;            /* row->n_params, normalised; in-place: args[0] is written */
    sn_tensor *const *out_args; /* out form: row->n_out tensors to write */
    sn_tensor **outs;           /* results, scope-owned; in-place and out forms: the written tensors;
                         Tensor[]: room MAX_LIST */
    int n_outs;                 /* results so far: row->n_out, or the length of a Tensor[] */
    uint64_t keys;              /* this call's key set; redispatch clears from the running key up */
    Key key;                    /* the running key */
    /* A native kernel's, where a plan has it (ir/plan_workspace.c); NULL: its own */
    void *workspace;
} OpCall;
typedef Status OpKernel(OpCall *call);

/* Tensors in its list arguments, absent ones too. */
static inline int call_list_items(const OpCall *call) {
    int n = 0;
    for (int i = 0; i < call->row->n_params; i++)
        if (call->args[i].kind == ARG_tensors) n += call->args[i].n;
    return n;
}
/* What a form that writes has for result i: it is written, and given back. */
static inline sn_tensor *call_written(const OpCall *call, int i) {
    return call->form == FORM_out ? call->out_args[i] : tensor_of(call->args[0].val);
}
/* No result has an element, and no value is looked at for an error: there is nothing for a kernel to do, which need not
 * know that sizes beside a 0 may be any. */
static inline bool call_is_empty(const OpCall *call) {
    if (call->row->flags & (OPF_may_fail | OPF_ordered | OPF_host)) return false;
    for (int i = 0; i < call->n_outs; i++)
        if (call->outs[i] && call->outs[i]->base.meta->numel) return false;
    return true;
}
/* The device of the running key that the call is for: of its first tensor there, or the one that it names;
 * DEV_cpu where there is none. */
Device call_device(const OpCall *call);
/* A call that is to be dispatched; aliases are resolved. */
static inline OpCall op_call(const OpRow *row, OpForm form, const Arg *args, sn_tensor *const *out_args,
                             sn_tensor **outs) {
    return (OpCall){.row = UNLIKELY(row->alias_of != NULL) ? row->alias_of : row,
                    .form = form,
                    .args = args,
                    .out_args = out_args,
                    .outs = outs,
                    .n_outs = row->n_out};
}
/* The boxed entry that everything goes through; outs receives results (row->n_out; Tensor[]: at
 * most MAX_LIST). Resolves aliases. Does nothing while an error is pending; on failure the error
 * names the op and outs are NULL. */
Status dispatch(const OpRow *row, OpForm form, const Arg *args, sn_tensor *const *out_args, sn_tensor **outs);
/* The same behind KEY_none, where prepare.c serves the forms of rows that `prepares` names: its call's row may be an
 * alias. */
Status dispatch_at_keys(const OpRow *row, OpForm form, const Arg *args, sn_tensor *const *out_args, sn_tensor **outs);
/* What the row's meta rule says of the results. *n: the room, then how many there are. base_offset: where the first
 * tensor begins in its storage, of which as_strided speaks. */
Status call_metas(const OpCall *call, int64_t base_offset, MetaOut *out, int *n);
const Meta *meta_intern_out(const MetaOut *out);
/* The same, and how many results there are. */
Status dispatch_list(const OpRow *row, const Arg *args, sn_tensor **outs, int *n_outs);
Status redispatch(OpCall *call); /* to the keys below call->key */
Status redispatch_excluding(OpCall *call, uint64_t keys);
/* What would run, after fallbacks; NULL: fall through. */
OpKernel *dispatch_entry(const OpRow *row, Key key);
void dispatch_fallback(Key key, OpKernel *kernel); /* registration at start-up */
/* One entry; NULL removes it. */
void dispatch_register(const OpRow *row, Key key, OpKernel *kernel);
OpKernel *dispatch_own(const OpRow *row, Key key); /* the entry itself, without fallbacks */
OpKernel *dispatch_fallback_of(Key key);
/* The entry of all composite rows at some keys. */
void dispatch_composites(uint64_t keys, OpKernel *kernel);
/* Such an entry's body: the row's rule expands the call into its parts, each dispatched from the top. plain: the
 * arguments with plain numbers, which the meta rule checks; parts, with its context: who runs the rule, NULL: the eager
 * builder. */
typedef Status CompositeParts(void *context, const OpCall *call, Val **outs);
Status composite_expand(OpCall *call, const Arg *plain, CompositeParts *parts, void *context);
extern _Atomic uint32_t dispatch_epoch; /* bumped by overrides; a guard [C7] */

const char *key_name(Key key);
/* "quantized, cpu": highest first, "" for none. */
void keys_print(Text *text, uint64_t keys);
int key_of_public(sn_key key); /* a Key, or -1 */
int key_public(Key key);       /* its sn_key */
bool key_is_reserved(Key key); /* no tensor and no mode has it yet */
/* The kernel of a slot that no program has one at: the error that says so. */
Status dispatch_nothing_there(OpCall *call);
uint64_t key_of_device(Device device); /* the backend key's bit */

void dispatch_start(void); /* by start.c, as every module's x_start */
void prepare_start(void);

/* Eager as a builder: emit dispatches; results belong to the innermost scope. */
Builder *eager_builder(void);

/* A tensor argument that may be absent. */
static inline Arg arg_tensor_opt(sn_tensor *t) { return t ? A_VAL(&t->base) : A_NONE; }

/* Refuses a write to a tensor of inference mode outside of that mode, where what is written was pending when the op was
 * called, and is made now. */
Status dispatch_check_inference(const OpCall *call);
/* Raises the error of an op that inference mode forbids. */
Status dispatch_inference_error(const OpRow *row, OpForm form);

#endif
