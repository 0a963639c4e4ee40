/* observer.c: observers (sinter/quant.h). Values are read to the host: calibrating is no hot path. Ranges and
 * scales are computed in f32, as PyTorch does. */
#include <float.h>
#include <math.h>
#include <sinter/ops.h>

#include "frontend/api/enter.h"
#include "frontend/lib/observer.h"
#include "frontend/lib/options.h"
#include "runtime/base/alloc.h"
#include "runtime/core/tracer.h"
#include "runtime/core/breaks.h"
#include "runtime/core/state.h"

struct sn_observer {
    sn_observer_options options;
    bool seen;
    float min, max;
    Histogram histogram;
};

static Status read_observer_options(const sn_observer_options *given, sn_observer_options *o) {
    TRY(options_copy_in(o, sizeof *o, given, "sn_observer_new"));
    if (!o->dtype) o->dtype = SN_U8;
    if (o->averaging == 0) o->averaging = 0.01;
    if (o->bins == 0) o->bins = 2048;
    if (o->kind < SN_OBSERVE_MIN_MAX || o->kind > SN_OBSERVE_HISTOGRAM)
        return error_raise(ST_ARGUMENT, "sn_observer_new: kind %d is unknown", (int)o->kind);
    if (o->dtype != SN_U8 && o->dtype != SN_I8)
        return error_raise(ST_DTYPE, "sn_observer_new: dtype must be u8 or i8, not %s", dtype_name((DType)o->dtype));
    if (!(o->averaging > 0 && o->averaging <= 1))
        return error_raise(ST_ARGUMENT, "sn_observer_new: averaging %g: it must be above 0 and at most 1",
                           o->averaging);
    if (o->bins < 1)
        return error_raise(ST_ARGUMENT, "sn_observer_new: bins is %d: it must be at least 1", (int)o->bins);
    return ST_OK;
}

sn_observer *sn_observer_new(const sn_observer_options *options) {
    sn_observer_options o = {0};
    if (error_pending() || read_observer_options(options, &o) != ST_OK) return NULL;
    sn_observer *const made = mem_alloc(sizeof *made);
    if (made) *made = (sn_observer){.options = o, .histogram = {.bins = o.bins}};
    return made;
}

void sn_observer_free(sn_observer *o) {
    if (!o) return;
    mem_free(o->histogram.counts);
    mem_free(o);
}

/* what was seen ------------------------------------------------------------------------------- */

static Status record_values(sn_observer *o, const float *values, int64_t n) {
    float min = INFINITY, max = -INFINITY;
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(values[i])) continue;
        min = fminf(min, values[i]), max = fmaxf(max, values[i]);
    }
    if (min > max) return ST_OK;
    if (o->options.kind == SN_OBSERVE_HISTOGRAM) TRY(histogram_add(&o->histogram, values, n, min, max));
    if (o->seen && o->options.kind == SN_OBSERVE_MOVING_AVERAGE) {
        const float share = (float)o->options.averaging;
        min = o->min + share * (min - o->min), max = o->max + share * (max - o->max);
    } else if (o->seen) {
        min = fminf(min, o->min), max = fmaxf(max, o->max);
    }
    o->min = min, o->max = max, o->seen = true;
    return ST_OK;
}

static Status add_floats(sn_observer *o, sn_tensor *t) {
    const int64_t n = sn_numel(t);
    const size_t bytes = (size_t)n * sizeof(float);
    float *const values = mem_alloc(bytes);
    if (!values) return ST_MEMORY;
    Status status = (Status)sn_read(sn_to(sn_detach(t), SN_F32), values, bytes);
    if (status == ST_OK) status = record_values(o, values, n);
    mem_free(values);
    return status;
}

Status observer_add(sn_observer *o, sn_tensor *t) {
    if (!o || !t)
        return error_pending() ? error_pending() : error_raise(ST_ARGUMENT, "sn_observer_observe: NULL argument");
    const DType dtype = (DType)sn_dtype_of(t);
    if (!dtype_is_float(dtype))
        return error_raise(ST_DTYPE, "sn_observer_observe: the tensor must have floats, not %s", dtype_name(dtype));
    const sn_scope scope = scope_begin_own();
    const Status status = add_floats(o, t);
    sn_scope_end(scope);
    return status;
}

sn_status sn_observer_observe(sn_observer *o, sn_tensor *t) {
    API_ENTER(sn_observer_observe);
    return (sn_status)(entered.refused ? error_pending() : observer_add(o, t));
}

/* what follows -------------------------------------------------------------------------------- */

static Status check_seen(const sn_observer *o, const char *what) {
    if (error_pending()) return error_pending();
    if (!o) return error_raise(ST_ARGUMENT, "%s: the observer is NULL", what);
    tracer_outside(BREAK_REASON(observer_asked));
    return o->seen ? ST_OK : error_raise(ST_STATE, "%s: the observer has seen no value yet", what);
}

static sn_qparams qparams_of(const sn_observer_options *o, float min, float max) {
    const bool is_signed = o->dtype == SN_I8;
    sn_qparams q = {.quant_min = is_signed ? -128 : 0, .quant_max = is_signed ? 127 : 255, .dtype = o->dtype};
    const float low = fminf(min, 0), high = fmaxf(max, 0), levels = 255;
    float scale = o->symmetric ? fmaxf(-low, high) / (levels / 2) : (high - low) / levels;
    scale = fmaxf(scale, FLT_EPSILON);
    q.scale = scale;
    q.zero_point = is_signed ? 0 : 128;
    if (!o->symmetric) {
        const int64_t zero = q.quant_min - double_to_i64(rintf(low / scale));
        q.zero_point = zero < q.quant_min ? q.quant_min : zero > q.quant_max ? q.quant_max : zero;
    }
    return q;
}

sn_status sn_observer_qparams(sn_observer *o, sn_qparams *out) {
    API_ENTER(sn_observer_qparams);
    if (out) *out = (sn_qparams){0};
    const Status status = check_seen(o, "sn_observer_qparams");
    if (status != ST_OK) return (sn_status)status;
    if (!out) return (sn_status)error_raise(ST_ARGUMENT, "sn_observer_qparams: out is NULL");
    double min = o->min, max = o->max;
    if (o->options.kind == SN_OBSERVE_HISTOGRAM && histogram_search(&o->histogram, 256, &min, &max) != ST_OK)
        return SN_ERR_MEMORY;
    *out = qparams_of(&o->options, (float)min, (float)max);
    return SN_OK;
}

sn_status sn_observer_range(sn_observer *o, double *min, double *max) {
    API_ENTER(sn_observer_range);
    if (min) *min = NAN;
    if (max) *max = NAN;
    const Status status = check_seen(o, "sn_observer_range");
    if (status != ST_OK) return (sn_status)status;
    if (min) *min = o->min;
    if (max) *max = o->max;
    return SN_OK;
}
