/* optim.c: SGD, Adam and AdamW (sinter/nn.h), made of ordinary in-place ops with gradients off, so
 * that a compiled step holds the update too. lr and the step count are 0-dim f64 tensors: their
 * change never changes a graph. Formulas are those of torch.optim's single-tensor SGD, Adam and AdamW. */
#include <math.h>
#include <sinter/device.h>
#include <sinter/ops.h>

#include "frontend/api/enter.h"
#include "frontend/api/optim.h"
#include "ir/op_ids.h"
#include "runtime/base/alloc.h"
#include "runtime/base/text.h"
#include "runtime/autograd/tape.h"
#include "runtime/core/autocast.h"

static const double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;

/* One in-place op of the table with all of its arguments. */
static Status write_op(OpId op, const Arg *args, int n) {
    Arg full[MAX_ARGS];
    sn_tensor *outs[MAX_OUTS];
    TRY(error_pending());
    TRY(op_args_normalize(op_row(op), args, n, full));
    return dispatch(op_row(op), FORM_inplace, full, NULL, outs);
}
#define WRITE(op, ...) write_op(OP_##op, (const Arg[]){__VA_ARGS__}, COUNT_OF(((const Arg[]){__VA_ARGS__})))
#define T(t)           A_VAL((Val *)(t))

sn_tensor *optim_on_device_of(sn_tensor *t, sn_tensor *like) {
    return sn_device_of(t) == sn_device_of(like) ? t : sn_to_device(t, sn_device_of(like));
}

/* A step that may be kept from happening (sinter/amp.h) makes its new values beside the old ones, which it then
 * takes or not; values that are not taken may be of infinite gradients. All that it makes of whole tensors waits for
 * `keep`: else compiled code would make it with the gradient, and hold it until all gradients are known. */
static Status write_unless(sn_tensor *keep, sn_tensor *old, sn_tensor *made) {
    return sn_where_out(old, optim_on_device_of(keep, old), old, made) ? ST_OK : error_pending();
}

/* A copy, of the value where the step is kept from happening. */
static sn_tensor *waiting(const sn_optim *o, sn_tensor *t, double value) {
    return sn_masked_fill(t, optim_on_device_of(o->keep, t), sn_float(value));
}

/* A number, or 1 where the step is kept from happening; 0-dim. */
static sn_tensor *waiting_number(const sn_optim *o, double number) {
    return sn_add_scalar(sn_mul_scalar(sn_to(o->keep, SN_F64), sn_float(1 - number)), sn_float(number));
}

/* formulas ------------------------------------------------------------------------------------ */

/* b = momentum b + g;  p -= lr b.  Without momentum b is g. A step that is kept from happening subtracts zeros. */
static Status sgd_param(const sn_optim *o, int i, sn_tensor *p, sn_tensor *g) {
    sn_tensor *const buffer = o->first[i];
    if (buffer && o->keep) {
        const sn_scope scope = sn_scope_begin();
        write_unless(o->keep, buffer, sn_add_(sn_mul(buffer, waiting_number(o, o->momentum)), g));
        TRY((Status)sn_scope_end(scope));
    } else if (buffer) {
        TRY(WRITE(mul_Tensor, T(buffer), F(o->momentum)));
        TRY(WRITE(add_Tensor, T(buffer), T(g)));
    }
    sn_tensor *const way = buffer ? buffer : g;
    return WRITE(sub_Tensor, T(p), T(o->keep ? sn_mul_(waiting(o, way, 0), o->lr) : sn_mul(way, o->lr)));
}

static Status sgd_step(sn_optim *o) {
    for (int i = 0; i < o->params->n; i++) {
        sn_tensor *const p = o->params->entries[i].tensor, *const g = sn_grad(p);
        if (!g) continue;
        const sn_scope scope = sn_scope_begin();
        sgd_param(o, i, p, g);
        TRY((Status)sn_scope_end(scope));
    }
    return error_pending();
}

typedef struct AdamScale { /* the same for every parameter of a step; 0-dim */
    sn_tensor *decay;      /* 1 - lr weight_decay */
    sn_tensor *size;       /* -lr / (1 - beta1^step) */
    sn_tensor *root;       /* sqrt(1 - beta2^step) */
    sn_tensor *beta2;      /* of a step that may be kept from happening */
} AdamScale;

static sn_tensor *correction(const sn_optim *o, double beta) {
    sn_tensor *const power = (sn_tensor *)E(eager_builder(), pow_Tensor_Tensor, F(beta), T(o->count));
    return sn_rsub_scalar(power, sn_int(1));
}

/* g + wd p with one rounding, as PyTorch's fma has it: where it cancels, v's error would be of many ulp. wd is of p's
 * dtype, as PyTorch's number is. */
static sn_tensor *decayed(const sn_optim *o, sn_tensor *p, sn_tensor *g) {
    const bool wide = sn_dtype_of(p) == SN_F64;
    const sn_scope scope = sn_scope_begin();
    sn_tensor *const pull = sn_to_copy(p, SN_F64);
    sn_mul_scalar_(pull, sn_float(wide ? o->weight_decay : (float)o->weight_decay));
    return sn_scope_return(scope, sn_to(sn_add_(pull, g), sn_dtype_of(p)));
}

/* The same values as adam_param's, made beside the old ones. */
static Status adam_param_unless(const sn_optim *o, int i, const AdamScale *scale, sn_tensor *g) {
    sn_tensor *const p = o->params->entries[i].tensor, *const m = o->first[i], *const v = o->second[i];
    const sn_scope moments = sn_scope_begin();
    write_unless(o->keep, m, sn_lerp_scalar(m, g, sn_float(1 - beta1)));
    TRY((Status)sn_scope_end(moments));
    const sn_scope squares = sn_scope_begin();
    write_unless(o->keep, v, sn_addcmul_ex_(sn_mul(v, scale->beta2), g, g, sn_float(1 - beta2)));
    TRY((Status)sn_scope_end(squares));
    sn_tensor *const under = sn_add_scalar_(sn_div_(sn_sqrt(v), scale->root), sn_float(epsilon));
    sn_tensor *const way = sn_mul(m, scale->size);
    return write_unless(o->keep, p,
                        scale->decay ? sn_addcdiv_(sn_mul(p, scale->decay), way, under) : sn_addcdiv(p, way, under));
}

/* p *= 1 - lr wd;  m += (g - m)(1 - beta1);  v = beta2 v + (1 - beta2) g g;  p += size m / (sqrt(v)
 * / root + eps) */
static Status adam_param(const sn_optim *o, int i, const AdamScale *scale, sn_tensor *g) {
    sn_tensor *const p = o->params->entries[i].tensor, *const m = o->first[i], *const v = o->second[i];
    if (o->keep) g = waiting(o, g, 0);
    if (o->decays_gradient && o->weight_decay != 0) g = decayed(o, p, g);
    if (o->keep) return adam_param_unless(o, i, scale, g);
    if (scale->decay) TRY(WRITE(mul_Tensor, T(p), T(scale->decay)));
    TRY(WRITE(lerp_Tensor, T(m), T(g), F(1 - beta1)));
    TRY(WRITE(mul_Tensor, T(v), F(beta2)));
    TRY(WRITE(addcmul, T(v), T(g), T(g), F(1 - beta2)));
    sn_tensor *const under = sn_add_scalar(sn_div(sn_sqrt(v), scale->root), sn_float(epsilon));
    return WRITE(addcdiv, T(p), T(sn_mul(m, scale->size)), T(under));
}

static Status adam_step(sn_optim *o) {
    if (o->keep) { /* 1, or 0 */
        sn_tensor *const taken = sn_rsub_scalar(sn_to(optim_on_device_of(o->keep, o->count), SN_F64), sn_int(1));
        TRY(WRITE(add_Tensor, T(o->count), T(taken)));
    } else {
        TRY(WRITE(add_Tensor, T(o->count), I(1)));
    }
    AdamScale scale = {0};
    if (o->weight_decay != 0 && !o->decays_gradient)
        scale.decay = sn_rsub_scalar(sn_mul_scalar(o->lr, sn_float(o->weight_decay)), sn_int(1));
    scale.size = sn_neg(sn_div(o->lr, correction(o, beta1)));
    scale.root = sn_sqrt(correction(o, beta2));
    if (o->keep) scale.beta2 = waiting_number(o, beta2);
    if (o->keep && scale.decay) scale.decay = waiting(o, scale.decay, 1);
    for (int i = 0; i < o->params->n; i++) {
        sn_tensor *const g = sn_grad(o->params->entries[i].tensor);
        if (!g) continue;
        const sn_scope scope = sn_scope_begin();
        adam_param(o, i, &scale, g);
        TRY((Status)sn_scope_end(scope));
    }
    return error_pending();
}

/* making -------------------------------------------------------------------------------------- */

static sn_tensor *number_state(sn_dict *state, const char *name, double value) {
    sn_tensor *const t = sn_from_data(&value, (sn_ints){(const int64_t[]){0}, 0}, SN_F64);
    return t && dict_set(state, name, t) == ST_OK ? t : NULL;
}

/* Zeros like each parameter, named "kind.parameter". */
static Status add_slots(sn_optim *o, const char *kind, sn_tensor **slots) {
    for (int i = 0; i < o->params->n; i++) {
        const DictEntry *const entry = &o->params->entries[i];
        Text name = {0};
        text_printf(&name, "%s.%s", kind, entry->name);
        slots[i] = sn_zeros_like(entry->tensor);
        const Status status = slots[i] ? dict_set(o->state, text_str(&name), slots[i]) : error_pending();
        text_free(&name);
        TRY(status);
    }
    return ST_OK;
}

/* A tensor under two names (tied weights) steps once, under the first. */
static Status add_leaves(sn_optim *o, const sn_dict *d, Map *seen) {
    for (int i = 0; i < d->n; i++) {
        sn_tensor *const t = d->entries[i].tensor;
        bool first;
        TRY(dict_see(seen, t, &first));
        if (!first || !tape_tracks(t)) continue;
        if (!tape_is_leaf(t)) return error_raise(ST_ARGUMENT, "%s: '%s' is not a leaf", o->maker, d->entries[i].name);
        TRY(dict_set(o->params, d->entries[i].name, t));
    }
    return ST_OK;
}

static Status add_params(sn_optim *o, const sn_dict *d) {
    Map seen = {0};
    const Status taken = add_leaves(o, d, &seen);
    map_free(&seen);
    TRY(taken);
    if (o->params->n == 0)
        return error_raise(ST_ARGUMENT, "%s: no tensor of the dictionary requires gradients", o->maker);
    o->first = mem_zero((size_t)o->params->n * sizeof *o->first);
    o->second = mem_zero((size_t)o->params->n * sizeof *o->second);
    if (!o->first || !o->second) return ST_MEMORY;
    sn_tensor *const never = sn_zeros((sn_ints){(const int64_t[]){0}, 0}, SN_BOOL);
    o->found_inf = never ? optim_on_device_of(never, o->params->entries[0].tensor) : NULL;
    if (!o->found_inf) return error_pending();
    tensor_retain(o->found_inf);
    return ST_OK;
}

static Status check_rate(const sn_optim *o, const char *name, double value) {
    if (value >= 0 && isfinite(value)) return ST_OK;
    return error_raise(ST_ARGUMENT, "%s: %s is %g: it must be finite and at least 0", o->maker, name, value);
}

static Status make_optim(sn_optim *o, const sn_dict *d, double lr) {
    if (!d) return error_raise(ST_ARGUMENT, "%s: the dictionary is NULL", o->maker);
    TRY(check_rate(o, "lr", lr));
    TRY(check_rate(o, "momentum", o->momentum));
    TRY(check_rate(o, "weight_decay", o->weight_decay));
    if (!(o->params = sn_dict_new()) || !(o->state = sn_dict_new())) return ST_MEMORY;
    TRY(add_params(o, d));
    if (!(o->lr = number_state(o->state, "lr", lr))) return error_pending();
    if (o->step == sgd_step) return o->momentum != 0 ? add_slots(o, "momentum", o->first) : ST_OK;
    if (!(o->count = number_state(o->state, "step", 0))) return error_pending();
    TRY(add_slots(o, "exp_avg", o->first));
    return add_slots(o, "exp_avg_sq", o->second);
}

static sn_optim *optim_new(const sn_dict *d, double lr, const sn_optim *kind) {
    sn_optim *o = error_pending() == ST_OK ? mem_alloc(sizeof *o) : NULL;
    if (!o) return NULL;
    *o = *kind;
    const sn_scope scope = scope_begin_library();
    const Status status = make_optim(o, d, lr);
    sn_scope_end(scope);
    if (status == ST_OK) return o;
    sn_optim_free(o);
    return NULL;
}

sn_optim *sn_sgd(sn_dict *d, double lr, double momentum) {
    API_ENTER(sn_sgd);
    return optim_new(d, lr, &(sn_optim){.step = sgd_step, .maker = "sn_sgd", .momentum = momentum});
}

sn_optim *sn_adamw(sn_dict *d, double lr, double weight_decay) {
    API_ENTER(sn_adamw);
    return optim_new(d, lr, &(sn_optim){.step = adam_step, .maker = "sn_adamw", .weight_decay = weight_decay});
}

sn_optim *sn_adam(sn_dict *d, double lr, double weight_decay) {
    API_ENTER(sn_adam);
    return optim_new(
        d, lr,
        &(sn_optim){.step = adam_step, .maker = "sn_adam", .weight_decay = weight_decay, .decays_gradient = true});
}

void sn_optim_free(sn_optim *o) {
    API_ENTER(sn_optim_free);
    if (!o) return;
    sn_dict_free(o->params);
    sn_dict_free(o->state);
    mem_free(o->first);
    mem_free(o->second);
    tracer_words(EFFECT_words_gone, o->scaling.words);
    tensor_release(o->found_inf);
    mem_free(o);
}

/* use ----------------------------------------------------------------------------------------- */

sn_status sn_optim_zero_grad(sn_optim *o) {
    API_ENTER(sn_optim_zero_grad);
    if (!o) return (sn_status)error_raise(ST_ARGUMENT, "sn_optim_zero_grad: the optimizer is NULL");
    for (int i = 0; i < o->params->n; i++) sn_grad_set(o->params->entries[i].tensor, NULL);
    return sn_check();
}

sn_status optim_step(sn_optim *o, sn_tensor *keep) {
    const sn_scope scope = scope_begin_library();
    o->keep = keep;
    o->step(o);
    o->keep = NULL;
    return sn_scope_end(scope);
}

sn_status sn_optim_step(sn_optim *o) {
    API_ENTER(sn_optim_step);
    if (error_pending() != ST_OK) return (sn_status)error_pending();
    if (!o) return (sn_status)error_raise(ST_ARGUMENT, "sn_optim_step: the optimizer is NULL");
    return optim_step(o, NULL);
}

sn_tensor *sn_optim_lr(sn_optim *o) { return o ? o->lr : NULL; }
sn_dict *sn_optim_dict(sn_optim *o) { return o ? o->state : NULL; }
