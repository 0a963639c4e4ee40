/* api_transform.c: functions of functions (sinter/transform.h), thin over runtime/transform. */
#include <sinter/transform.h>

#include "frontend/options.h"
#include "runtime/base/room.h"
#include "runtime/transform/checkpoint.h"

static Status check_lists(const char *what, sn_body body, sn_tensors in, sn_tensor *const *out, int n_out) {
    TRY(error_pending());
    if (!body) return error_raise(ST_ARGUMENT, "%s: body is NULL", what);
    if (in.n < 0 || in.n > INT32_MAX || n_out < 0)
        return error_raise(ST_ARGUMENT, "%s: %lld inputs and %d outputs", what, (long long)in.n, n_out);
    if ((in.n && !in.data) || (n_out && !out))
        return error_raise(ST_ARGUMENT, "%s: the list of %lld %s is NULL", what,
                           in.n && !in.data ? (long long)in.n : n_out, in.n && !in.data ? "inputs" : "outputs");
    for (int64_t i = 0; i < in.n; i++)
        if (in.data[i]) TRY(tensor_valid(in.data[i], what));
    return ST_OK;
}

/* Named, or so says the callback. */
static bool is_saved(void *context, const char *op) {
    const sn_checkpoint_options *const o = context;
    for (const char *const *at = o->save; at && *at; at++)
        if (!strcmp(*at, op)) return true;
    return o->policy && o->policy(o->context, op) == SN_CHECKPOINT_SAVE;
}

static Status checkpoint(sn_body body, void *closure, const sn_checkpoint_options *options, sn_tensors in,
                         sn_tensor **out, int n_out, const void *site) {
    for (int i = 0; out && i < n_out; i++) out[i] = NULL;
    TRY(check_lists("sn_checkpoint", body, in, out, n_out));
    sn_checkpoint_options known = {0};
    TRY(options_take(&known, sizeof known, options, "sn_checkpoint"));
    Arg few[16], *const args = ROOM(few, in.n);
    if (!args) return ST_MEMORY;
    ROOM_KEPT kept = {few, args};
    for (int64_t i = 0; i < in.n; i++) args[i] = arg_tensor_opt(in.data[i]);
    const CheckpointCall call = {.body = body,
                                 .closure = closure,
                                 .closure_free = known.closure_free,
                                 .keeps = known.save || known.policy ? is_saved : NULL,
                                 .context = &known,
                                 .site = site};
    return checkpoint_call(&call, args, (int)in.n, out, n_out);
}

sn_status sn_checkpoint(sn_body body, void *closure, const sn_checkpoint_options *options, sn_tensors in,
                        sn_tensor **out, int n_out) {
    state_get()->site = __builtin_return_address(0);
    return (sn_status)checkpoint(body, closure, options, in, out, n_out, __builtin_return_address(0));
}
