/* op_check.c: see op_check.h: samples, and the rules of what a call does: memory that it writes, shares and returns,
 * the same twice, and what its meta rule says. */
#include "frontend/api/op_check.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/base/error.h"
#include "runtime/core/autocast.h"
#include "runtime/core/custom_results.h"

/* helpers ------------------------------------------------------------------------------------- */

Status op_check_fail(OpCheck *c, const char *format, ...) {
    char what[400], inner[400] = "";
    Status status = error_pending();
    if (status != ST_OK) snprintf(inner, sizeof inner, ": %.390s", sn_error_take()->message);
    va_list list;
    va_start(list, format);
    vsnprintf(what, sizeof what, format, list);
    va_end(list);
    if (status == ST_OK) status = ST_VALUE;
    error_raise(status, "%s: %s (sample %d): %s%s", c->row->name, c->rule, c->sample, what, inner);
    error_set_op(c->row->name);
    c->failed = true;
    return status;
}

bool op_check_writes_arg(const OpCheck *c, int arg) {
    return arg < c->row->n_params && param_is_written(&c->row->params[arg]);
}

bool op_check_writes_any(const OpCheck *c) {
    bool any = false;
    for (int i = 0; i < c->row->n_params; i++) any |= op_check_writes_arg(c, i);
    return any;
}

sn_tensor *op_check_tensor(const OpCheck *c, int i) { return c->in[i].kind == SN_KIND_TENSOR ? c->in[i].tensor : NULL; }

const char *op_check_name(const OpCheck *c, int i) { return c->row->params[i].name; }

bool op_check_is_float(sn_tensor *t) {
    const sn_dtype dtype = sn_dtype_of(t);
    return dtype == SN_F32 || dtype == SN_F64 || dtype == SN_F16 || dtype == SN_BF16;
}

bool op_check_differentiable(const OpCheck *c) {
    return c->row->derivative || (c->own && c->own->decomposition) || c->row->kind == KIND_decomposition ||
           c->row->kind == KIND_composite;
}

Status op_check_copies(const OpCheck *c, sn_dtype dtype, CheckedCall *call) {
    *call = (CheckedCall){.n_out = c->row->n_out};
    for (int i = 0; i < c->n; i++) {
        sn_tensor *const t = op_check_tensor(c, i);
        call->in[i] = c->in[i];
        if (!t) continue;
        const bool cast = dtype != SN_DTYPE_DEFAULT && op_check_is_float(t) && sn_dtype_of(t) != dtype;
        call->in[i] = sn_val(cast ? sn_to_copy(sn_detach(t), dtype) : sn_clone(sn_detach(t)));
    }
    return error_pending();
}

/* As a tensor, whose bits are compared as others' are. */
static sn_tensor *number_as_tensor(const sn_value *v) {
    if (v->kind != SN_KIND_INT && v->kind != SN_KIND_FLOAT && v->kind != SN_KIND_BOOL) return NULL;
    const sn_dtype dtype = v->kind == SN_KIND_FLOAT ? SN_F64 : v->kind == SN_KIND_BOOL ? SN_BOOL : SN_I64;
    return sn_full((sn_ints){0}, v->kind == SN_KIND_FLOAT ? sn_float(v->f) : sn_int(v->i), dtype);
}

Status op_check_call(const OpCheck *c, CheckedCall *call) {
    sn_value out[MAX_OUTS];
    int n = MAX_OUTS;
    sn_op_call(c->op, call->in, c->n, out, &n);
    call->n_out = n;
    for (int i = 0; i < n; i++)
        call->out[i] = out[i].kind == SN_KIND_TENSOR ? out[i].tensor : number_as_tensor(&out[i]);
    return error_pending();
}

bool op_check_is_number(const OpCheck *c, int result, int n) { return custom_result_is_number(c->row, result, n); }

static int64_t bytes_of(sn_tensor *t) { return (int64_t)dtype_bytes(t->base.meta->dtype) * sn_numel(t); }

bool op_check_same_bits(sn_tensor *a, sn_tensor *b) {
    if (!a || !b) return a == b;
    const sn_ints x = sn_sizes(a), y = sn_sizes(b);
    if (sn_dtype_of(a) != sn_dtype_of(b) || x.n != y.n || (x.n && memcmp(x.data, y.data, (size_t)x.n * sizeof *x.data)))
        return false;
    const size_t n = (size_t)bytes_of(a);
    char *const at = mem_alloc(2 * n + 1);
    const bool same = at && sn_read(a, at, n) == SN_OK && sn_read(b, at + n, n) == SN_OK && !memcmp(at, at + n, n);
    mem_free(at);
    return same;
}

/* rules --------------------------------------------------------------------------------------- */

static Status check_runs(OpCheck *c) {
    CheckedCall call;
    if (op_check_copies(c, SN_DTYPE_DEFAULT, &call) == ST_OK && op_check_call(c, &call) == ST_OK) return ST_OK;
    return op_check_fail(c, "the call failed");
}

/* Of the arguments: bits that changed without a mark. */
static Status check_mutation(OpCheck *c) {
    CheckedCall call, before;
    TRY(op_check_copies(c, SN_DTYPE_DEFAULT, &call));
    TRY(op_check_copies(c, SN_DTYPE_DEFAULT, &before));
    TRY(op_check_call(c, &call));
    for (int i = 0; i < c->n; i++) {
        if (!op_check_tensor(c, i) || op_check_writes_arg(c, i) ||
            op_check_same_bits(call.in[i].tensor, before.in[i].tensor))
            continue;
        return op_check_fail(c, "argument '%s' was written, which the schema does not say: Tensor(a!) %s",
                             op_check_name(c, i), op_check_name(c, i));
    }
    return error_pending();
}

static bool shares(sn_tensor *a, sn_tensor *b) {
    return a && b && a->storage && a->storage == b->storage && sn_numel(a) && sn_numel(b);
}

/* Marked the same as the argument: Tensor(a) -> Tensor(a). */
static bool may_share(const OpCheck *c, int arg) { return c->row->shares && *c->row->params[arg].alias; }

static Status check_aliasing(OpCheck *c) {
    CheckedCall call;
    TRY(op_check_copies(c, SN_DTYPE_DEFAULT, &call));
    TRY(op_check_call(c, &call));
    for (int r = 0; r < call.n_out; r++) {
        for (int i = 0; i < c->n; i++) {
            const bool is_that = c->own && !c->row->returns_list && c->own->result_of[r] == i;
            if (is_that && call.out[r] != call.in[i].tensor)
                return op_check_fail(c, "result %d is not argument '%s', as the schema says", r, op_check_name(c, i));
            if (!is_that && op_check_tensor(c, i) && !may_share(c, i) && shares(call.out[r], call.in[i].tensor))
                return op_check_fail(c, "result %d shows the memory of argument '%s', which the schema does not say", r,
                                     op_check_name(c, i));
        }
        for (int k = 0; k < r; k++)
            if (shares(call.out[r], call.out[k]))
                return op_check_fail(c, "results %d and %d show the same memory", k, r);
    }
    return ST_OK;
}

Status op_check_compare(OpCheck *c, CheckedCall *plain, CheckedCall *again, const char *how) {
    if (!c->repeats) return ST_OK;
    TRY(op_check_call(c, plain));
    for (int r = 0; r < plain->n_out; r++)
        if (!op_check_same_bits(plain->out[r], again->out[r]))
            return op_check_fail(c, "result %d has other bits %s", r, how);
    for (int i = 0; i < c->n; i++)
        if (op_check_tensor(c, i) && op_check_writes_arg(c, i) &&
            !op_check_same_bits(plain->in[i].tensor, again->in[i].tensor))
            return op_check_fail(c, "argument '%s' is written with other bits %s", op_check_name(c, i), how);
    return error_pending();
}

static Status compare_calls(OpCheck *c, CheckedCall *again, const char *how) {
    CheckedCall plain;
    TRY(op_check_copies(c, SN_DTYPE_DEFAULT, &plain));
    return op_check_compare(c, &plain, again, how);
}

/* Another op may have a state, or random numbers. */
static Status check_pure(OpCheck *c) {
    CheckedCall again;
    c->repeats = true;
    TRY(op_check_copies(c, SN_DTYPE_DEFAULT, &again));
    TRY(op_check_call(c, &again));
    const Status status = compare_calls(c, &again, "in a second call, but the op is SN_OP_PURE");
    if (status == ST_OK || (c->own && c->own->flags == SN_OP_PURE)) return status;
    error_clear();
    c->failed = c->repeats = false;
    return ST_OK;
}

/* In inference mode the kernel runs, else its parts do. */
static Status check_parts(OpCheck *c) {
    CheckedCall kernel;
    if (!c->own || !c->own->decomposition || !c->own->cpu || op_check_writes_any(c)) return ST_OK;
    const sn_grad_mode before = sn_grad_mode_set(SN_INFERENCE);
    Status status = op_check_copies(c, SN_DTYPE_DEFAULT, &kernel);
    if (status == ST_OK) status = op_check_call(c, &kernel);
    sn_grad_mode_set(before);
    TRY(status);
    return compare_calls(c, &kernel, "by the kernel than by the decomposition");
}

static bool has_meta(const OpCheck *c) {
    return !c->own || c->own->meta || c->own->decomposition || c->row->expression;
}

/* The call, whose numbers are not read: only values may give them. */
static Status call_without_values(const OpCheck *c, CheckedCall *call) {
    sn_tensor *outs[MAX_LIST] = {0};
    Arg args[MAX_ARGS];
    int n = c->row->n_out;
    TRY(op_args_of_form(c->row, FORM_functional, (const Arg *)(const void *)call->in, c->n, args));
    TRY(c->row->returns_list ? dispatch_list(c->row, args, outs, &n)
                             : dispatch(c->row, FORM_functional, args, NULL, outs));
    call->n_out = n;
    for (int r = 0; r < n && r < MAX_OUTS; r++) call->out[r] = outs[r];
    return ST_OK;
}

static Status check_meta(OpCheck *c) {
    CheckedCall call, meta;
    if (!has_meta(c) || op_check_writes_any(c)) return ST_OK;
    TRY(op_check_copies(c, SN_DTYPE_DEFAULT, &call));
    TRY(op_check_call(c, &call));
    meta = call;
    for (int i = 0; i < c->n; i++)
        if (op_check_tensor(c, i)) meta.in[i] = sn_val(sn_to_device(call.in[i].tensor, SN_META));
    TRY(error_pending());
    if (call_without_values(c, &meta) != ST_OK) return op_check_fail(c, "the meta rule failed");
    if (custom_op_check_results(c->row, call.out, call.n_out, meta.out, meta.n_out) != ST_OK)
        return op_check_fail(c, "the meta rule says something else");
    return ST_OK;
}

/* samples ------------------------------------------------------------------------------------- */

/* f32 values between -2 and 2, none of them near 0 or an integer. */
static sn_tensor *sample_tensor(const sn_ints sizes, int seed) {
    float values[64];
    int64_t n = 1;
    for (int i = 0; i < sizes.n; i++) n *= sizes.data[i];
    for (int k = 0; k < n && k < 64; k++) {
        const int step = (k * 7 + seed * 5) % 16 - 8; /* -8..7, quarters, moved off the grid */
        values[k] = 0.25f * (float)step + 0.0703f + 0.001f * (float)k;
    }
    return sn_from_data(values, sizes, SN_F32);
}

enum { OWN_SAMPLES = 5, MUST_RUN = 3 }; /* an op may refuse a number, and four dims */

/* Each Tensor of the same sizes, numbers by their default or 0.5, 1, false. */
static Status make_sample(const OpRow *row, int which, sn_value *in) {
    static const int64_t sizes_of[OWN_SAMPLES][4] = {{3, 4}, {5}, {2, 1, 3}, {0}, {2, 3, 2, 2}};
    static const int ranks[OWN_SAMPLES] = {2, 1, 3, 0, 4};
    const sn_ints sizes = {sizes_of[which], ranks[which]};
    for (int i = 0; i < row->n_params; i++) {
        const Param *const p = &row->params[i];
        if (p->type == PT_tensor)
            in[i] = sn_val(sample_tensor(sizes, which * 10 + i));
        else if (p->fallback.kind != ARG_default)
            memcpy(&in[i], &p->fallback, sizeof in[i]);
        else if (p->type == PT_float || p->type == PT_scalar)
            in[i] = sn_float(0.5);
        else if (p->type == PT_int)
            in[i] = sn_int(1);
        else if (p->type == PT_bool)
            in[i] = sn_bool(false);
        else
            return error_raise(ST_ARGUMENT, "sn_op_check: %s: give samples: there is none for '%s'", row->name,
                               p->name);
    }
    return error_pending();
}

/* the check ----------------------------------------------------------------------------------- */

typedef struct CheckRule {
    const char *name;
    Status (*run)(OpCheck *c);
} CheckRule;
static const CheckRule rules[] = {{"call", check_runs},
                                  {"mutation", check_mutation},
                                  {"aliasing", check_aliasing},
                                  {"pure", check_pure},
                                  {"strides", op_check_layouts},
                                  {"meta", check_meta},
                                  {"parts", check_parts},
                                  {"derivative", op_check_derivative},
                                  {"second derivative", op_check_second_derivative},
                                  {"compiled", op_check_compiled},
                                  {"batched", op_check_batched},
                                  {"autocast", op_check_autocast}};

/* What a rule's own calls raise is the rule's. */
static Status apply_check(OpCheck *c, const CheckRule *rule) {
    c->rule = rule->name;
    const sn_scope scope = sn_scope_begin();
    Status status = rule->run(c);
    if (status != ST_OK && !c->failed) status = op_check_fail(c, "a call failed");
    sn_scope_end(scope);
    return status;
}

static bool is_refused(const OpCheck *c) {
    CheckedCall call;
    const sn_scope scope = sn_scope_begin();
    const bool runs = op_check_copies(c, SN_DTYPE_DEFAULT, &call) == ST_OK && op_check_call(c, &call) == ST_OK;
    error_clear();
    sn_scope_end(scope);
    return !runs;
}

static Status check_sample(OpCheck *c, const sn_op_sample *sample) {
    sn_value in[MAX_ARGS];
    c->in = sample ? sample->in : in;
    c->n = sample ? sample->n : c->row->n_params;
    if (c->n < 0 || c->n > c->row->n_params || (c->n && !c->in))
        return error_raise(ST_ARGUMENT, "sn_op_check: %s: sample %d has %d values for %d parameters", c->row->name,
                           c->sample, c->n, c->row->n_params);
    if (!sample) TRY(make_sample(c->row, c->sample, in));
    if (!sample && c->sample >= MUST_RUN && is_refused(c)) return ST_OK;
    for (int i = 0; i < COUNT_OF(rules); i++) TRY(apply_check(c, &rules[i]));
    return ST_OK;
}

/* What is on where the op is checked, whatever is at the caller's: to the end of the scope. */
static void set_own_modes(void) {
    sn_state *const state = state_get();
    sn_grad_mode_set(SN_GRAD_ON);
    sn_stance_set(SN_STANCE_DEFAULT);
    autocast_set(state, 0);
}

Status op_check(OpCheck *c, const sn_op_sample *samples, int n) {
    for (c->sample = 0; c->sample < (n ? n : OWN_SAMPLES); c->sample++) {
        const sn_scope scope = sn_scope_begin();
        set_own_modes();
        const Status status = check_sample(c, n ? &samples[c->sample] : NULL);
        sn_scope_end(scope);
        TRY(status);
    }
    return ST_OK;
}
