/* frame.c: what a callback sees of its call (sinter/compile.h): inputs, scalars, closure,
 * outputs; counts checked. */
#include <sinter/compile.h>

#include "frontend/api/enter.h"
#include "runtime/core/tracer.h"
#include "runtime/core/custom_results.h"
#include "runtime/core/frame.h"
#include "runtime/core/override.h"
#include "runtime/autograd/query.h"
#include "runtime/core/user_guard.h"

void *sn_closure(sn_frame *f) { return f ? f->closure : NULL; }
int sn_in_count(sn_frame *f) { return f ? f->n_in : 0; }

static const Arg *input(sn_frame *f, int i) {
    if (!f) {
        error_raise(ST_ARGUMENT, "sn_in: the frame is NULL");
        return NULL;
    }
    if (i >= 0 && i < f->n_in) return &f->in[i];
    error_raise(ST_ARGUMENT, "%s: there is no argument %d; the call has %d", f->what, i, f->n_in);
    return NULL;
}

static const char *kind_name(int kind) {
    static const char *const names[] = {"the default", "None", "a tensor", "an int",  "a float",        "a bool",
                                        "a string",    "ints", "floats",   "tensors", "a runtime float"};
    return kind >= 0 && kind < COUNT_OF(names) ? names[kind] : "unknown";
}

static Status wrong_kind(const sn_frame *f, int i, const char *wanted, int kind) {
    return error_raise(ST_ARGUMENT, "%s: input %d is %s, not %s", f->what, i, kind_name(kind), wanted);
}

sn_tensor *sn_in_opt(sn_frame *f, int i) {
    const Arg *const arg = input(f, i);
    if (!arg || arg->kind == ARG_none) return NULL;
    if (arg->kind == ARG_tensor) return tensor_of(arg->val);
    wrong_kind(f, i, "a tensor", arg->kind);
    return NULL;
}

static sn_tensor *no_tensor(sn_frame *f, int i) {
    sn_tensor *const t = sn_in_opt(f, i);
    if (!t) error_raise(ST_ARGUMENT, "%s: input %d is absent", f ? f->what : "frame", i);
    return t;
}

sn_tensor *sn_in(sn_frame *f, int i) {
    const bool given = f && i >= 0 && i < f->n_in && f->in[i].kind == ARG_tensor && f->in[i].val;
    return LIKELY(given) ? tensor_of(f->in[i].val) : no_tensor(f, i);
}

/* One that the body wants as a number. */
static const Arg *number_arg(sn_frame *f, int i) {
    const Arg *const arg = input(f, i);
    if (arg) tracer_give_number(arg);
    return arg;
}

sn_value sn_in_value(sn_frame *f, int i) {
    sn_value value = {.kind = SN_KIND_NONE};
    const Arg *const arg = number_arg(f, i);
    if (arg) memcpy(&value, arg, sizeof value);
    return value;
}

int64_t sn_in_int(sn_frame *f, int i) {
    const Arg *const arg = number_arg(f, i);
    if (!arg) return 0;
    if (arg->kind != ARG_int && arg->kind != ARG_bool) {
        wrong_kind(f, i, "an int", arg->kind);
        return 0;
    }
    return arg->kind == ARG_int ? tracer_int(arg) : arg->i;
}

sn_sym sn_in_sym(sn_frame *f, int i) {
    const Arg *const arg = number_arg(f, i);
    if (arg && arg->kind == ARG_int) return (sn_sym){tracer_number(arg)};
    return (sn_sym){arg ? sn_in_int(f, i) : 0};
}

double sn_in_float(sn_frame *f, int i) {
    const Arg *const arg = number_arg(f, i);
    if (!arg) return 0;
    if (arg->kind == ARG_float) {
        tracer_show_float(arg);
        return arg->f;
    }
    if (arg->kind == ARG_int || arg->kind == ARG_bool) return (double)sn_in_int(f, i);
    wrong_kind(f, i, "a float", arg->kind);
    return 0;
}

sn_status sn_out(sn_frame *f, int i, sn_tensor *t) {
    if (!f) return (sn_status)error_raise(ST_ARGUMENT, "the frame is NULL");
    if (error_pending() != ST_OK) return (sn_status)error_pending();
    if (i < 0 || i >= f->n_out)
        return (sn_status)error_raise(ST_ARGUMENT, "%s: there is no output %d, only %d", f->what, i, f->n_out);
    if (f->out[i] && !f->passed_on) return (sn_status)error_raise(ST_STATE, "%s: output %d is set already", f->what, i);
    if (tensor_valid(t, "sn_out") != ST_OK) return (sn_status)error_pending();
    sn_tensor *const before = f->out[i];
    f->out[i] = tensor_retained(t); /* whatever held it may let go before the call has ended */
    sn_release(before);
    return SN_OK;
}

/* A number that a body gives becomes the tensor that stands for it. */
static Status number_out(sn_frame *f, int i, sn_value value) {
    const DynamicOp *const op = f->meta_of ? f->meta_of : f->call ? op_dynamic(f->call->row) : NULL;
    if (!op || !custom_gives_numbers(op))
        return error_raise(ST_UNSUPPORTED, "%s: output %d is no number: only a user's op whose schema says so has one",
                           f->what, i);
    Arg number;
    memcpy(&number, &value, sizeof number);
    if (number.kind == ARG_int) number = A_INT(tracer_int(&number));
    if (number.kind == ARG_float) tracer_show_float(&number);
    return (Status)sn_out(f, i, custom_number(&number));
}

sn_status sn_out_value(sn_frame *f, int i, sn_value value) {
    API_ENTER(sn_out_value);
    if (value.kind == SN_KIND_TENSOR) return sn_out(f, i, value.tensor);
    if (value.kind == SN_KIND_NONE) return sn_out_none(f, i);
    if (!f) return (sn_status)error_raise(ST_ARGUMENT, "the frame is NULL");
    if (error_pending() != ST_OK) return (sn_status)error_pending();
    if (value.kind != SN_KIND_INT && value.kind != SN_KIND_FLOAT && value.kind != SN_KIND_BOOL)
        return (sn_status)error_raise(ST_ARGUMENT, "%s: output %d is %s: it is a tensor, an int, a float or a bool",
                                      f->what, i, kind_name(value.kind));
    return (sn_status)number_out(f, i, value);
}

static Status refuse_absent(const sn_frame *f, int i) {
    if (f->meta_of && custom_gives_numbers(f->meta_of) && i >= 64)
        return error_raise(ST_UNSUPPORTED, "%s: output %d can't be left to the values: only one of the first 64 can",
                           f->what, i);
    return error_raise(ST_UNSUPPORTED,
                       "%s: output %d can't be absent: it is no compiled function's, nor a number in a meta rule",
                       f->what, i);
}

sn_status sn_out_none(sn_frame *f, int i) {
    if (!f) return (sn_status)error_raise(ST_ARGUMENT, "the frame is NULL");
    if (error_pending() != ST_OK) return (sn_status)error_pending();
    if (i < 0 || i >= f->n_out)
        return (sn_status)error_raise(ST_ARGUMENT, "%s: there is no output %d, only %d", f->what, i, f->n_out);
    const bool by_values = f->meta_of && custom_gives_numbers(f->meta_of) && i < 64;
    if (!f->takes_none && !by_values) return (sn_status)refuse_absent(f, i);
    if (f->out[i]) return (sn_status)error_raise(ST_STATE, "%s: output %d is set already", f->what, i);
    if (i < 64)
        f->none |= UINT64_C(1) << i;
    else
        f->outs_optional = true;
    return SN_OK;
}

sn_status sn_redispatch(sn_frame *f) {
    API_ENTER(sn_redispatch);
    if (!f) return (sn_status)error_raise(ST_ARGUMENT, "the frame is NULL");
    return (sn_status)frame_redispatch(f);
}

sn_status sn_guard_add(sn_frame *f, const char *name, int64_t (*read)(void *closure), void *closure) {
    API_ENTER(sn_guard_add);
    if (error_pending()) return (sn_status)error_pending();
    if (!f || !name || !read)
        return (sn_status)error_raise(ST_ARGUMENT, "sn_guard_add: the %s is NULL",
                                      !f      ? "frame"
                                      : !name ? "name"
                                              : "reader");
    const int64_t guard = user_guard_of(name, read, closure);
    if (guard) query_ask(QUERY_guard, NULL, guard);
    return sn_check();
}
