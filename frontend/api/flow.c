/* flow.c: control flow as ops (sinter/transform.h), thin over runtime/capture/flow. */
#include <sinter/transform.h>

#include "frontend/api/enter.h"
#include "frontend/lib/options.h"
#include "runtime/capture/flow/flow.h"

static Status check_lists(const char *op, sn_tensors in, sn_tensor **out, int n_out) {
    if (in.n < 0 || in.n > INT32_MAX || n_out < 1)
        return error_raise(ST_ARGUMENT, "%s: there are %lld inputs and %d outputs; at least one output is needed", op,
                           (long long)in.n, n_out);
    if ((in.n && !in.data) || !out)
        return error_raise(ST_ARGUMENT, "%s: the list of %lld %s is NULL", op, out ? (long long)in.n : n_out,
                           out ? "inputs" : "outputs");
    return ST_OK;
}

static Status check_body(const char *op, const char *what, sn_body body) {
    return body ? ST_OK : error_raise(ST_ARGUMENT, "%s: %s is NULL", op, what);
}

/* Handles of a body that is traced have no key of their own. */
static Status check_keys(const char *op, sn_tensors in) {
    if (state_get()->include & KEY_BIT(fake)) return error_raise(ST_UNSUPPORTED, "%s: not in fake mode", op);
    for (int64_t i = 0; i < in.n; i++) {
        const uint64_t keys = in.data[i] ? in.data[i]->keys & KEYS_UNCAPTURED : 0;
        if (!keys) continue;
        Text text = {0};
        keys_print(&text, keys);
        const Status status = error_raise(ST_UNSUPPORTED, "%s: it is not implemented for key %s, which input %lld has",
                                          op, text_str(&text), (long long)i);
        text_free(&text);
        return status;
    }
    return ST_OK;
}

/* What all have; errors name the place of the call. */
static Status flow_call(const char *op, sn_tensors in, sn_tensor **out, int n_out, FlowCall *call) {
    for (int i = 0; out && i < n_out; i++) out[i] = NULL;
    TRY(error_pending());
    TRY(check_lists(op, in, out, n_out));
    TRY(check_keys(op, in));
    *call = (FlowCall){.op = op, .in = in.data, .n_in = (int)in.n, .out = out, .n_out = n_out};
    return ST_OK;
}

static sn_status flow_done(const void *site, Status status) {
    if (status != ST_OK) error_set_site(site);
    return (sn_status)status;
}

static void *or_else(void *closure, void *otherwise) { return closure ? closure : otherwise; }

sn_status sn_cond(sn_tensor *pred, sn_body if_true, sn_body if_false, void *closure, const sn_cond_options *options,
                  sn_tensors in, sn_tensor **out, int n_out) {
    API_ENTER(sn_cond);
    const void *const site = state_get()->site;
    sn_cond_options known = {0};
    FlowCall call;
    Status status = flow_call("sn_cond", in, out, n_out, &call);
    if (status == ST_OK) status = options_copy_in(&known, sizeof known, options, "sn_cond");
    if (status == ST_OK) status = check_body("sn_cond", "if_true", if_true);
    if (status == ST_OK) status = check_body("sn_cond", "if_false", if_false);
    const FlowBodies branches = {if_true, if_false, closure, or_else(known.false_closure, closure)};
    return flow_done(site, status == ST_OK ? flow_cond(&call, pred, &branches) : status);
}

sn_status sn_while_loop(sn_body condition, sn_body body, void *closure, const sn_while_options *options, sn_tensors in,
                        sn_tensor **out, int n_out) {
    API_ENTER(sn_while_loop);
    const void *const site = state_get()->site;
    sn_while_options known = {0};
    FlowCall call;
    Status status = flow_call("sn_while_loop", in, out, n_out, &call);
    if (status == ST_OK) status = options_copy_in(&known, sizeof known, options, "sn_while_loop");
    if (status == ST_OK) status = check_body("sn_while_loop", "condition", condition);
    if (status == ST_OK) status = check_body("sn_while_loop", "body", body);
    if (status == ST_OK && in.n != n_out)
        status =
            error_raise(ST_ARGUMENT, "sn_while_loop: there are %lld inputs and %d outputs: what is carried is both",
                        (long long)in.n, n_out);
    if (status == ST_OK && known.max_iterations < 0)
        status = error_raise(ST_ARGUMENT, "sn_while_loop: max_iterations is %lld: it is not negative",
                             (long long)known.max_iterations);
    const FlowBodies loop = {condition, body, or_else(known.condition_closure, closure), closure};
    return flow_done(site, status == ST_OK ? flow_while(&call, &loop, known.max_iterations) : status);
}

static Status check_scan(const FlowCall *call, const FlowScan *scan) {
    TRY(check_body(call->op, "body", scan->body));
    if (scan->n_carry < 0 || scan->n_carry > call->n_out || scan->n_carry >= call->n_in)
        return error_raise(ST_ARGUMENT, "%s: n_in is %d, n_out %d and n_carry %d: %s", call->op, call->n_in,
                           call->n_out, scan->n_carry,
                           scan->n_carry >= call->n_in ? "nothing is left to go along" : "each carry is an output");
    return ST_OK;
}

sn_status sn_scan(sn_body body, void *closure, const sn_scan_options *options, sn_tensors in, sn_tensor **out,
                  int n_out) {
    API_ENTER(sn_scan);
    const void *const site = state_get()->site;
    sn_scan_options known = {0};
    FlowCall call;
    Status status = flow_call("sn_scan", in, out, n_out, &call);
    if (status == ST_OK) status = options_copy_in(&known, sizeof known, options, "sn_scan");
    const FlowScan scan = {.body = body,
                           .closure = closure,
                           .n_carry = known.carries ? known.carries : 1,
                           .dim = known.dim,
                           .reverse = known.reverse,
                           .what = "the body"};
    if (status == ST_OK) status = check_scan(&call, &scan);
    return flow_done(site, status == ST_OK ? flow_scan(&call, &scan) : status);
}

sn_status sn_map(sn_body body, void *closure, const sn_map_options *options, sn_tensors in, sn_tensor **out,
                 int n_out) {
    API_ENTER(sn_map);
    const void *const site = state_get()->site;
    sn_map_options known = {0};
    FlowCall call;
    Status status = flow_call("sn_map", in, out, n_out, &call);
    if (status == ST_OK) status = options_copy_in(&known, sizeof known, options, "sn_map");
    const FlowScan scan = {.body = body, .closure = closure, .dim = known.dim, .what = "the body"};
    if (status == ST_OK) status = check_scan(&call, &scan);
    return flow_done(site, status == ST_OK ? flow_scan(&call, &scan) : status);
}
