/* anomaly.c: the key `anomaly`: the first op whose result has a NaN that no input of it has is an error [semantics
 * T7]. */
#include "runtime/transform/anomaly.h"

#include "runtime/core/context_enter.h"
#include "runtime/core/dispatch.h"

/* Looks for a nan with ops that no mode sees. */
static Status find_nan(sn_tensor *t, bool *found) {
    if (!t->storage || !dtype_is_float(t->base.meta->dtype) || !t->base.meta->numel) return ST_OK;
    Val *const each = E(eager_builder(), isnan, A_VAL(&t->base));
    Val *const any = each ? E(eager_builder(), any, A_VAL(each)) : NULL;
    sn_tensor *const item = any ? tensor_item(tensor_of(any), "sn_anomaly_set") : NULL;
    if (!item) return error_pending();
    *found |= *(const uint8_t *)tensor_data(item) != 0;
    tensor_release(item);
    return ST_OK;
}

static Status has_nan(sn_tensor *t, bool *found) {
    sn_state *const state = state_get();
    TRY(scope_push(state, false));
    context_enter_scope(state, CONTEXT_unwatched);
    const Status status = find_nan(t, found);
    scope_pop(state);
    return status;
}

static Status inputs_have_nan(const OpCall *call, bool *found) {
    for (int i = 0; i < call->row->n_params; i++) {
        const Arg *const a = &call->args[i];
        *found |= a->kind == ARG_float && a->f != a->f;
        if (a->kind == ARG_tensor && a->val) TRY(has_nan(tensor_of(a->val), found));
        for (int k = 0; a->kind == ARG_tensors && k < a->n; k++)
            if (a->vals[k]) TRY(has_nan(tensor_of(a->vals[k]), found));
    }
    return ST_OK;
}

static Status find_in_results(const OpCall *call) {
    for (int i = 0; i < call->n_outs; i++) {
        bool found = false;
        if (call->outs[i]) TRY(has_nan(call->outs[i], &found));
        if (found) return error_raise(ST_VALUE, "result %d has a NaN, and no input of the op has one", i);
    }
    return ST_OK;
}

/* The parts of an op are its own. */
static Status run_unseen(OpCall *call) {
    const ContextSaved saved = context_enter(state_get(), CONTEXT_below_anomaly);
    const Status status = redispatch(call);
    context_leave(&saved);
    return status;
}

/* What is in fresh memory is nobody's result. */
static bool is_unset(const OpRow *row) { return strstr(row->base, "empty") != NULL; }

static Status look_for_nan(OpCall *call) {
    if (call->row->kind == KIND_composite || call->row->kind == KIND_view || is_unset(call->row))
        return redispatch(call);
    bool before = false;
    TRY(inputs_have_nan(call, &before));
    TRY(run_unseen(call));
    return before ? ST_OK : find_in_results(call);
}

void anomaly_start(void) { dispatch_fallback(KEY_anomaly, look_for_nan); }
