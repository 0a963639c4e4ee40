/* capture_arguments.c: an op beside the segments ends what is pending, and is counted by its reason. */
#include "runtime/capture/record/capture_arguments.h"

#include "runtime/core/custom_op.h"
#include "runtime/core/override.h"
#include "runtime/core/state.h"
#include "runtime/eager/eager.h"
#include "runtime/capture/record/segment.h"

typedef Status TensorVisit(Capture *c, sn_tensor *t);

/* Arguments, list elements and out tensors. */
static Status each_tensor(Capture *c, const OpCall *call, TensorVisit *visit) {
    for (int i = 0; i < call->row->n_params; i++) {
        const Arg *const a = &call->args[i];
        if (a->kind == ARG_tensor && a->val) TRY(visit(c, tensor_of(a->val)));
        for (int k = 0; a->kind == ARG_tensors && k < a->n; k++)
            if (a->vals[k]) TRY(visit(c, tensor_of(a->vals[k])));
    }
    for (int i = 0; call->form == FORM_out && i < call->row->n_out; i++) TRY(visit(c, call->out_args[i]));
    return ST_OK;
}

static Status make_pending(Capture *c, sn_tensor *t) {
    (void)c;
    return capture_flush_tensor(t);
}

Status capture_make_earlier(Capture *c, sn_tensor *t) {
    const struct Placeholder *const p = t->placeholder;
    return p && p->trace != c->trace ? capture_flush_tensor(t) : ST_OK;
}

Status capture_make_earlier_arguments(Capture *c, const OpCall *call) {
    const Trace *before;
    do {
        before = c->trace;
        TRY(each_tensor(c, call, capture_make_earlier));
    } while (c->trace != before);
    return ST_OK;
}

/* Of memory that is older than its results; a user's code may, whatever it says. */
static bool may_write(const OpCall *call) {
    return call->form != FORM_functional || op_dynamic(call->row) || state_get()->modes || override_covers(call->row) ||
           call->keys & KEYS_BESIDE;
}

/* A read of a value computes nothing. */
static void count_outside(Capture *c, const OpCall *call, Reason reason) {
    if (call->row->flags & OPF_host) return;
    for (int i = 0; i < c->outside_ops.n; i++)
        if (c->outside_ops.at[i].reason == reason) {
            c->outside_ops.at[i].n++;
            return;
        }
    VEC_PUSH(c->arena, &c->outside_ops, ((OutsideOps){reason, 1}));
}

Status capture_make_arguments(Capture *c, const OpCall *call, Reason reason) {
    capture_breaks_at(call);
    capture_record_break(c, reason);
    count_outside(c, call, reason);
    TRY(may_write(call) ? capture_materialize_all(reason) : capture_flush(c, reason, state_get()->site));
    const Status status = each_tensor(c, call, make_pending);
    capture_breaks(NULL);
    return status == ST_OK ? dispatch_check_inference(call) : status;
}
