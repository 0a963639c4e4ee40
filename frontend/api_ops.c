/* api_ops.c: the three ways in which generated op functions call the dispatcher. */
#include "frontend/api_ops.h"

enum { MAX_LIST_RESULTS = 256 };

sn_tensor *api_call(OpId op, OpForm form, const Arg *args, sn_tensor *const *out_args,
                    bool normalize, const void *site) {
    sn_tensor *outs[MAX_OUTS] = {NULL};
    const OpRow *const row = op_row(op);
    Arg whole[MAX_ARGS];
    if (UNLIKELY(normalize)) {
        if (error_pending() || op_args_normalize(row, args, row->n_params, whole) != ST_OK)
            return NULL;
        args = whole;
    }
    state_get()->site = site;
    return LIKELY(dispatch(row, form, args, out_args, outs) == ST_OK) ? outs[0] : NULL;
}

sn_tensor *api_call_more(OpId op, const Arg *args, sn_tensor **const *more, int n_more,
                         const void *site) {
    sn_tensor *outs[MAX_OUTS] = {NULL};
    Arg whole[MAX_ARGS];
    const OpRow *const row = op_row(op);
    state_get()->site = site;
    const bool ok = !error_pending() &&
                    op_args_normalize(row, args, row->n_params, whole) == ST_OK &&
                    dispatch(row, FORM_functional, whole, NULL, outs) == ST_OK;
    for (int i = 0; i < n_more; i++)
        if (more[i]) *more[i] = ok ? outs[i + 1] : NULL;
    return ok ? outs[0] : NULL;
}

int64_t api_call_list(OpId op, const Arg *args, sn_tensor **out, int64_t room, const void *site) {
    sn_tensor *outs[MAX_LIST_RESULTS] = {NULL};
    Arg whole[MAX_ARGS];
    const OpRow *const row = op_row(op);
    int n = 0;
    state_get()->site = site;
    if (error_pending() || op_args_normalize(row, args, row->n_params, whole) != ST_OK ||
        dispatch_list(row, whole, outs, &n) != ST_OK)
        return -1;
    if (n > room) {
        error_raise(ST_ARGUMENT, "%s: %d results, room for %lld", row->name, n, (long long)room);
        return -1;
    }
    for (int i = 0; i < n; i++) out[i] = outs[i];
    return n;
}
