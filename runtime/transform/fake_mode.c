/* fake_mode.c: the key `fake`: an op is its meta rule. It stands below the user modes, which see what would be
 * computed, and above the backends, none of which runs:
 *
 *   sn_mm(a, b)     keys {fake, cuda, autograd}    autograd records; fake: a result of mm's layout on cuda:0, no memory
 *
 * The mode is the thread's including the key; a fake tensor has it for good, and so has what an op makes of one.
 * Tensors with values are taken for what they look like, and never written. */
#include "runtime/transform/fake_mode.h"

#include "runtime/core/breaks.h"
#include "runtime/core/custom_write.h"
#include "runtime/core/bare_version.h"
#include "runtime/eager/eager.h"

/* Refuses an op that needs the values of a tensor. */
static Status refuse(const OpCall *call, const char *why) {
    return error_raise(ST_UNSUPPORTED, "%s: %s, and a fake tensor has none", op_form_name(call->row, call->form), why);
}

static Status check_fake(const OpCall *call, const sn_tensor *written) {
    if (!written || tensor_is_fake(written)) return ST_OK;
    return error_raise(ST_STATE, "%s: a tensor with values would be written by what is fake and has none",
                       op_form_name(call->row, call->form));
}

static Status check_fake_targets(const OpCall *call) {
    const DynamicOp *const custom = op_dynamic(call->row);
    for (int i = 0; custom && i < custom->n_written; i++) {
        const Arg *const arg = &call->args[custom->written[i]];
        if (arg->kind == ARG_tensor) TRY(check_fake(call, (const sn_tensor *)arg->val));
        for (int k = 0; arg->kind == ARG_tensors && k < arg->n; k++)
            TRY(check_fake(call, (const sn_tensor *)arg->vals[k]));
    }
    for (int i = 0; call->form != FORM_functional && i < call->row->n_out; i++)
        TRY(check_fake(call, call_written(call, i)));
    return ST_OK;
}

/* What would be resized is laid out anew. */
static Status set_written(const OpCall *call, const EagerMetas *metas) {
    TRY(eager_check_written(call));
    for (int i = 0; i < call->row->n_out; i++) {
        sn_tensor *const t = call_written(call, i);
        if (call->form == FORM_out && !meta_same_sizes(t->base.meta, metas->at[i].meta))
            tensor_set_meta(t, metas->at[i].meta);
        tensor_written(t);
        call->outs[i] = t;
    }
    return ST_OK;
}

static Status fake_kernel(OpCall *call) {
    if (call->row->role == ROLE_resizes) return refuse(call, BREAK_TEXT(resized));
    if (call->row->flags & OPF_host) return refuse(call, "the sizes of its results follow from values");
    if (!call->row->meta) return refuse(call, "without a meta rule it has to compute values");
    TRY(check_fake_targets(call));
    METAS_OF_CALL metas;
    sn_tensor *base;
    TRY(eager_metas_alone(call, &metas));
    if (call->form != FORM_functional) return set_written(call, &metas);
    for (int i = 0; i < metas.n; i++) {
        if (!(call->outs[i] = tensor_fake(metas.at[i].meta))) return error_pending();
        call->outs[i]->offset = eager_place_of(call, &metas, i, &base);
        if (base) TRY(bare_version_share(call->outs[i], base));
    }
    if (op_dynamic(call->row)) {
        custom_write_set_results(call, op_dynamic(call->row), metas.n);
        custom_write_count(call, op_dynamic(call->row));
    }
    call->n_outs = metas.n;
    return ST_OK;
}

void fake_mode_start(void) { dispatch_fallback(KEY_fake, fake_kernel); }
