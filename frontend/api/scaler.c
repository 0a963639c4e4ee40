/* scaler.c: gradient scaling (sinter/amp.h), made of ordinary ops with gradients off; formulas of
 * torch.amp.GradScaler. Scale and growth count are tensors. What the host knows is only in which round the scaler is
 * and in which round an optimizer was unscaled and stepped, so that a call out of turn is an error: bodies of
 * compiled functions that change it run on every call. */
#include <math.h>
#include <sinter/amp.h>
#include <sinter/ops.h>
#include <stdatomic.h>

#include "frontend/api/enter.h"
#include "frontend/api/optim.h"
#include "frontend/lib/options.h"
#include "runtime/base/alloc.h"
#include "runtime/core/tracer.h"
#include "runtime/core/autocast.h"
#include "runtime/core/breaks.h"

typedef union Round {
    struct {
        uint64_t round;    /* from 1 */
        uint64_t unscaled; /* 1: anything in this round */
    };
    uint64_t words[EFFECT_WORDS];
} Round;

struct sn_scaler {
    sn_scaler_options options;
    sn_dict *state;             /* scale and growth_tracker */
    sn_tensor *scale, *tracker; /* borrowed from state */
    sn_tensor *found_inf;       /* 0-dim bool, owned: of all optimizers of this round */
    uint64_t number;            /* from 1 */
    Round at;
};

/* making -------------------------------------------------------------------------------------- */

static Status read_scaler_options(const sn_scaler_options *given, sn_scaler_options *o) {
    TRY(options_copy_in(o, sizeof *o, given, "sn_scaler_new"));
    if (o->init_scale == 0) o->init_scale = 65536;
    if (o->growth_factor == 0) o->growth_factor = 2;
    if (o->backoff_factor == 0) o->backoff_factor = 0.5;
    if (o->growth_interval == 0) o->growth_interval = 2000;
    if (!((float)o->init_scale > 0) || !isfinite((float)o->init_scale))
        return error_raise(ST_ARGUMENT, "sn_scaler_new: init_scale %g: it must be above 0 and finite in f32",
                           o->init_scale);
    if (!(o->growth_factor > 1) || !isfinite(o->growth_factor))
        return error_raise(ST_ARGUMENT, "sn_scaler_new: growth_factor %g: it must be above 1", o->growth_factor);
    if (!(o->backoff_factor > 0 && o->backoff_factor < 1))
        return error_raise(ST_ARGUMENT, "sn_scaler_new: backoff_factor %g: it must be between 0 and 1",
                           o->backoff_factor);
    if (o->growth_interval < 1)
        return error_raise(ST_ARGUMENT, "sn_scaler_new: growth_interval %lld: it must be at least 1",
                           (long long)o->growth_interval);
    return ST_OK;
}

static const sn_ints no_dims = {(const int64_t[]){0}, 0};

static Status make_state(sn_scaler *s) {
    const float scale = (float)s->options.init_scale;
    if (!(s->state = sn_dict_new())) return ST_MEMORY;
    s->scale = sn_from_data(&scale, no_dims, SN_F32);
    s->tracker = sn_zeros(no_dims, SN_I64);
    s->found_inf = sn_zeros(no_dims, SN_BOOL);
    TRY(error_pending());
    tensor_retain(s->found_inf);
    TRY(dict_set(s->state, "scale", s->scale));
    return dict_set(s->state, "growth_tracker", s->tracker);
}

sn_scaler *sn_scaler_new(const sn_scaler_options *options) {
    API_ENTER(sn_scaler_new);
    static _Atomic uint64_t numbers;
    sn_scaler_options taken = {0};
    if (error_pending() != ST_OK || read_scaler_options(options, &taken) != ST_OK) return NULL;
    sn_scaler *const s = mem_zero(sizeof *s);
    if (!s) return NULL;
    *s = (sn_scaler){.options = taken, .number = atomic_fetch_add(&numbers, 1) + 1, .at = {.round = 1}};
    const sn_scope scope = scope_begin_library();
    const Status status = make_state(s);
    sn_scope_end(scope);
    if (status == ST_OK) return s;
    sn_scaler_free(s);
    return NULL;
}

void sn_scaler_free(sn_scaler *s) {
    API_ENTER(sn_scaler_free);
    if (!s) return;
    tracer_words(EFFECT_words_gone, s->at.words);
    sn_dict_free(s->state);
    tensor_release(s->found_inf);
    mem_free(s);
}

/* whose turn it is ---------------------------------------------------------------------------- */

static Status check_scaling(const sn_scaler *s, const sn_optim *o, const char *what) {
    TRY(error_pending());
    if (!s) return error_raise(ST_ARGUMENT, "%s: the scaler is NULL", what);
    return o ? ST_OK : error_raise(ST_ARGUMENT, "%s: the optimizer is NULL", what);
}

static bool is_unscaled(const sn_scaler *s, const sn_optim *o) {
    return o->scaling.scaler == s->number && o->scaling.unscaled == s->at.round;
}

/* Where it had no gradients, those that come later are still to be. */
static bool is_due(const sn_scaler *s, const sn_optim *o) { return !is_unscaled(s, o) || o->scaling.empty; }

static bool is_stepped(const sn_scaler *s, const sn_optim *o) {
    return o->scaling.scaler == s->number && o->scaling.stepped == s->at.round;
}

/* unscaling ----------------------------------------------------------------------------------- */

typedef struct GradRange { /* of all gradients; NULL: there are none. A NaN is both of its ends */
    sn_tensor *most, *least;
} GradRange;

/* A gradient is looked at where it lies when it is unscaled: a largest and a smallest element need no temporary. */
static void range_add(GradRange *range, sn_tensor *g) {
    sn_tensor *const most = sn_amax(g), *const least = sn_amin(g);
    range->most = range->most ? sn_maximum(range->most, optim_on_device_of(most, range->most)) : most;
    range->least = range->least ? sn_minimum(range->least, optim_on_device_of(least, range->least)) : least;
}

static GradRange unscale_all(const sn_scaler *s, const sn_optim *o) {
    sn_tensor *const inverse = sn_to(sn_reciprocal(sn_to(s->scale, SN_F64)), SN_F32);
    GradRange range = {0};
    for (int i = 0; i < o->params->n; i++) {
        sn_tensor *const g = sn_grad(o->params->entries[i].tensor);
        if (!g || sn_numel(g) == 0) continue;
        if (sn_dtype_of(g) == SN_F16) {
            error_raise(ST_DTYPE, "sn_scaler_unscale: the gradient of '%s' is f16: parameters are f32, with autocast",
                        o->params->entries[i].name);
            break;
        }
        sn_mul_(g, optim_on_device_of(inverse, g));
        range_add(&range, g);
    }
    return range;
}

static sn_tensor *not_finite(GradRange range) {
    return sn_logical_not(sn_logical_and(sn_isfinite(range.most), sn_isfinite(range.least)));
}

static Status unscale(sn_scaler *s, sn_optim *o) {
    if (is_stepped(s, o))
        return error_raise(ST_STATE,
                           "sn_scaler_unscale: this optimizer of %s was stepped since the last "
                           "sn_scaler_update",
                           o->maker);
    if (!is_due(s, o))
        return error_raise(ST_STATE,
                           "sn_scaler_unscale: this optimizer of %s was unscaled since the last "
                           "sn_scaler_update",
                           o->maker);
    const sn_scope scope = scope_begin_library();
    const GradRange range = unscale_all(s, o);
    sn_tensor *const found = o->found_inf;
    if (range.most)
        sn_copy_(found, optim_on_device_of(not_finite(range), found));
    else
        sn_zero_(found);
    sn_logical_or_(s->found_inf, optim_on_device_of(found, s->found_inf));
    TRY((Status)sn_scope_end(scope));
    tracer_outside(BREAK_REASON(scaler_unscales));
    TRY(tracer_words(EFFECT_words, o->scaling.words));
    TRY(tracer_words(EFFECT_words, s->at.words));
    o->scaling = (Scaling){.scaler = s->number, .unscaled = s->at.round, .empty = !range.most};
    s->at.unscaled = 1;
    return ST_OK;
}

sn_status sn_scaler_unscale(sn_scaler *s, sn_optim *o) {
    API_ENTER(sn_scaler_unscale);
    const Status status = check_scaling(s, o, "sn_scaler_unscale");
    return (sn_status)(status == ST_OK && !s->options.disabled ? unscale(s, o) : status);
}

sn_tensor *sn_scaler_found_inf(sn_scaler *s, sn_optim *o) {
    API_ENTER(sn_scaler_found_inf);
    if (check_scaling(s, o, "sn_scaler_found_inf") != ST_OK) return NULL;
    if (s->options.disabled) return NULL;
    tracer_outside(BREAK_REASON(scaler_asked));
    if (is_unscaled(s, o)) return o->found_inf;
    error_raise(ST_STATE, "sn_scaler_found_inf: this optimizer of %s was not unscaled since the last sn_scaler_update",
                o->maker);
    return NULL;
}

/* scale, step, update ------------------------------------------------------------------------- */

sn_tensor *sn_scaler_scale(sn_scaler *s, sn_tensor *loss) {
    API_ENTER(sn_scaler_scale);
    if (error_pending() != ST_OK || tensor_valid(loss, "sn_scaler_scale") != ST_OK) return NULL;
    if (s && s->options.disabled) return loss;
    if (s) return sn_mul(loss, optim_on_device_of(s->scale, loss));
    error_raise(ST_ARGUMENT, "sn_scaler_scale: the scaler is NULL");
    return NULL;
}

static Status scaler_step(sn_scaler *s, sn_optim *o) {
    TRY(check_scaling(s, o, "sn_scaler_step"));
    if (s->options.disabled) return (Status)sn_optim_step(o);
    if (is_stepped(s, o))
        return error_raise(ST_STATE, "sn_scaler_step: this optimizer of %s was stepped since the last sn_scaler_update",
                           o->maker);
    if (is_due(s, o)) TRY(unscale(s, o));
    TRY((Status)optim_step(o, o->found_inf));
    tracer_outside(BREAK_REASON(scaler_steps));
    TRY(tracer_words(EFFECT_words, o->scaling.words));
    o->scaling.stepped = s->at.round;
    return ST_OK;
}

sn_status sn_scaler_step(sn_scaler *s, sn_optim *o) {
    API_ENTER(sn_scaler_step);
    return (sn_status)scaler_step(s, o);
}

static sn_tensor *times(sn_tensor *scale, double factor) {
    return sn_to(sn_mul_scalar(sn_to(scale, SN_F64), sn_float(factor)), SN_F32);
}

/* A growth beyond f32 does not happen, but counting begins anew. */
static void update(const sn_scaler *s) {
    sn_tensor *const bad = s->found_inf, *const good = sn_add_scalar(s->tracker, sn_int(1));
    sn_tensor *const due = sn_eq_scalar(good, sn_int(s->options.growth_interval));
    sn_tensor *const grown = times(s->scale, s->options.growth_factor);
    sn_tensor *const grows = sn_logical_and(due, sn_isfinite(grown));
    sn_tensor *const kept = sn_where(grows, grown, s->scale);
    sn_copy_(s->scale, sn_where(bad, times(s->scale, s->options.backoff_factor), kept));
    sn_copy_(s->tracker, sn_masked_fill(good, sn_logical_or(bad, due), sn_int(0)));
    sn_zero_(s->found_inf);
}

sn_status sn_scaler_update(sn_scaler *s) {
    API_ENTER(sn_scaler_update);
    if (error_pending() != ST_OK) return (sn_status)error_pending();
    if (!s) return (sn_status)error_raise(ST_ARGUMENT, "sn_scaler_update: the scaler is NULL");
    if (s->options.disabled) return SN_OK;
    if (!s->at.unscaled)
        return (sn_status)error_raise(
            ST_STATE, "sn_scaler_update: no optimizer was unscaled or stepped since the last sn_scaler_update");
    const sn_scope scope = scope_begin_library();
    update(s);
    const sn_status status = sn_scope_end(scope);
    if (status != SN_OK) return status;
    tracer_outside(BREAK_REASON(scaler_ends));
    const Status noted = tracer_words(EFFECT_words, s->at.words);
    if (noted != ST_OK) return (sn_status)noted;
    s->at = (Round){.round = s->at.round + 1};
    return SN_OK;
}

sn_dict *sn_scaler_dict(sn_scaler *s) { return s ? s->state : NULL; }
