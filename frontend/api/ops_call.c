/* ops_call.c: from the typed functions of sinter/ops.h to the dispatcher. */
#include "frontend/api/ops_call.h"

#include "runtime/base/alloc.h"
#include "runtime/base/error.h"
#include "runtime/core/tracer.h"

/* A number that the IR keeps for symbolic ints, and that is none of this call's; the result tells which. */
static inline const int64_t *strange_int(const Arg *arg) {
    if (arg->kind == ARG_int) return sym_is(arg->i) && !tracer_knows(arg->i) ? &arg->i : NULL;
    for (int i = 0; arg->kind == ARG_ints && arg->ints && i < arg->n; i++)
        if (sym_is(arg->ints[i]) && !tracer_knows(arg->ints[i])) return &arg->ints[i];
    return NULL;
}

static COLD bool is_odd_list(const Arg *arg) { return arg->n < 0 || (arg->n && !arg->ints) || strange_int(arg); }

static inline bool is_odd(const Arg *arg) { /* a NULL, a list that is not one, a strange number */
    if (arg->kind == ARG_tensor) return !arg->val;
    if (arg->kind == ARG_int) return strange_int(arg);
    return arg->kind == ARG_string ? !arg->string : arg->kind == ARG_ints && is_odd_list(arg);
}

static bool has_odd(const OpRow *row, const Arg *args) {
    for (const Arg *arg = args, *const end = args + row->n_params; arg < end; arg++)
        if (is_odd(arg)) return true;
    return false;
}

Status ops_values(const OpRow *row, OpForm form, const Arg *in, int n) {
    for (int i = 0; i < n && i < op_form_params(row, form); i++) {
        const int64_t *const strange = strange_int(&in[i]);
        if (in[i].kind <= SN_KIND_TENSORS && !strange) continue;
        const char *const name = op_form_name(row, form), *const param = row->params[op_form_param(row, form, i)].name;
        if (strange)
            error_raise(ST_ARGUMENT, "%s: %s has %lld, which stands for no symbolic int of this call", name, param,
                        (long long)*strange);
        else
            error_raise(ST_ARGUMENT, "%s: %s is a value of unknown kind %d", name, param, in[i].kind);
        error_set_op(name);
        return error_pending();
    }
    return ST_OK;
}

/* A call's own arguments to the row's. */
static Status normalize(const OpRow *row, const Arg *args, Arg *full) {
    Status status = error_pending();
    if (status == ST_OK) status = ops_values(row, FORM_functional, args, row->n_params);
    return status == ST_OK ? op_args_normalize(row, args, row->n_params, full) : status;
}

/* What is on a device by a tensor argument is there; an out form's tensor says it itself. */
static bool names_device(const OpRow *row, OpForm form, const Arg *args) {
    if (row->device < 0 || form != FORM_functional || args[row->device].kind != ARG_none) return true;
    for (int i = 0; i < row->n_params; i++)
        if (args[i].kind == ARG_tensor || args[i].kind == ARG_tensors) return true;
    return false;
}

const Arg *ops_place_at(const OpRow *row, OpForm form, const Arg *args, Arg *full) {
    if (names_device(row, form, args)) return args;
    memmove(full, args, sizeof *full * (size_t)row->n_params);
    full[row->device] = A_INT(state_get()->device);
    return full;
}

static sn_tensor *failed(void) {
    error_set_site(state_get()->site);
    return NULL;
}

/* Any call but the expected one of a body. */
static sn_tensor *call_checked(const OpRow *row, const OpCall *call, bool plain) {
    const Arg *args = call->args;
    Arg full[MAX_ARGS];
    memset(call->outs, 0, sizeof *call->outs * MAX_OUTS);
    if (error_pending() != ST_OK) return NULL;
    if (!plain || has_odd(row, args)) {
        if (normalize(row, args, full) != ST_OK) return failed();
        args = full;
    }
    args = ops_place(row, call->form, args, full);
    const Status status = dispatch(row, call->form, args, call->out_args, call->outs);
    return status == ST_OK ? call->outs[0] : NULL;
}

sn_tensor *ops_call1(OpId op, OpForm form, const Arg *args, bool plain, sn_tensor *const *written) {
    const OpRow *const row = op_row(op);
    sn_tensor *outs[MAX_OUTS];
    OpCall call = op_call(row, form, args, written, outs);
    sn_state *const state = state_get();
    Status status;
    if (plain && state->device == DEV_cpu && tracer_follow(state, &call, &status) && status == ST_OK) return outs[0];
    return call_checked(row, &call, plain);
}

sn_tensor *ops_call(OpId op, const Arg *args, sn_tensor **const *more) {
    const OpRow *const row = op_row(op);
    sn_tensor *outs[MAX_OUTS] = {0};
    Arg full[MAX_ARGS];
    Status status = normalize(row, args, full);
    if (status == ST_OK)
        status = dispatch(row, FORM_functional, ops_place(row, FORM_functional, full, full), NULL, outs);
    for (int i = 1; i < row->n_out; i++)
        if (more[i - 1]) *more[i - 1] = status == ST_OK ? outs[i] : NULL;
    return status == ST_OK ? outs[0] : failed();
}

static void free_list(sn_tensor **const *list) { mem_free(*list); }

int64_t ops_list(OpId op, const Arg *args, sn_tensor **out, int64_t capacity) {
    const OpRow *const row = op_row(op);
    Arg full[MAX_ARGS];
    int n = 0;
    Status status = normalize(row, args, full);
    __attribute__((cleanup(free_list))) sn_tensor **const outs = mem_alloc(MAX_LIST * sizeof *outs);
    if (!outs) status = ST_MEMORY;
    if (status == ST_OK) status = dispatch_list(row, full, outs, &n);
    if (status == ST_OK && n > capacity)
        status =
            error_raise(ST_ARGUMENT, "%s has %d results, and out has room for %lld", row->name, n, (long long)capacity);
    for (int64_t i = 0; i < capacity; i++) out[i] = status == ST_OK && i < n ? outs[i] : NULL;
    if (status == ST_OK) return n;
    failed();
    return -1;
}
