/* check_forward.c: forward mode [semantics T4]: of every row that has a derivative, and of composites, the tangents of
 * float results in f64 are central differences along the inputs' tangents, and <u, J t> = <J'u, t>. The seed is set
 * before every call; numbers are drawn from where the op is defined, as for gradients. */
#include <math.h>
#include <sinter/transform.h>
#include <stdlib.h>

#include "runtime/base/error.h"
#include "tests/ops/ops.h"

enum { MOST = 512 };

typedef struct Forward {
    const SampleCall *call;
    sn_tensor *in[SAMPLE_TENSORS], *ts[SAMPLE_TENSORS]; /* its tensors without history; tangents, NULL: a constant */
    int n_outs, slots[MAX_LIST], n_wanted;              /* results that have gradients */
} Forward;

static bool is_checked(const OpRow *row) {
    return !row->alias_of && (deriv_rule(row) || (row->kind == KIND_composite && !(row->flags & OPF_nodiff)));
}

static double number(int64_t i, int which) { return 0.5 + fmod((double)(i + 1) * 0.618034 + which * 0.37, 1.0); }

static sn_tensor *numbers_like(sn_tensor *t, int which) {
    const int64_t n = sn_numel(t);
    double *const values = malloc((size_t)(n + 1) * sizeof *values);
    for (int64_t i = 0; i < n; i++) values[i] = number(i, which) - 1;
    sn_tensor *const made = sn_from_data(values, sn_sizes(t), SN_F64);
    free(values);
    return made;
}

static sn_status body(sn_frame *f) {
    const Forward *const w = sn_closure(f);
    sn_tensor *tensors[SAMPLE_TENSORS], *outs[MAX_LIST];
    SampleCall call;
    int n = 0;
    for (int k = 0; k < w->call->n_tensors; k++) tensors[k] = sn_in(f, k);
    sample_with(w->call, tensors, &call);
    sn_seed(3);
    if (sample_run(&call, outs, &n) != ST_OK) return sn_check();
    for (int i = 0; i < w->n_wanted; i++) sn_out(f, i, outs[w->slots[i]]);
    return sn_check();
}

/* The wanted results at x + by t, as doubles one behind the other; false: the op refused. */
static bool values_at(Forward *w, double by, double *to, int64_t capacity) {
    const sn_scope scope = sn_scope_begin();
    sn_tensor *tensors[SAMPLE_TENSORS], *outs[MAX_LIST];
    SampleCall call;
    int n = 0;
    for (int k = 0; k < w->call->n_tensors; k++) {
        sn_tensor *const x = w->in[k];
        tensors[k] = w->ts[k] ? sn_add(x, sn_mul_scalar(w->ts[k], sn_float(by))) : x;
    }
    sample_with(w->call, tensors, &call);
    sn_seed(3);
    bool good = sample_run(&call, outs, &n) == ST_OK;
    for (int i = 0; i < w->n_wanted && good; i++) {
        const int64_t count = sn_numel(outs[w->slots[i]]);
        good = count <= capacity && sn_read(outs[w->slots[i]], to, (size_t)count * sizeof *to) == SN_OK;
        to += count, capacity -= count;
    }
    sn_scope_end(scope);
    return good;
}

/* Tangents for the floats, and which results are wanted; false: none, or too many. */
static bool make(const Case *c, SampleCall *call, Forward *w) {
    sn_tensor *outs[MAX_LIST];
    bool any = false;
    *w = (Forward){.call = call};
    if (!ops_make(c, call)) return false;
    for (int k = 0; k < call->n_tensors; k++) {
        if (sn_numel(call->tensors[k]) > MOST) return false;
        if (!sn_requires_grad(call->tensors[k]) || sn_dtype_of(call->tensors[k]) != SN_F64) continue;
        w->ts[k] = numbers_like(call->tensors[k], k);
        any |= sn_numel(call->tensors[k]) > 0;
    }
    sn_seed(3);
    if (!any || sample_run(call, outs, &w->n_outs) != ST_OK) return false;
    int64_t count = 0;
    for (int i = 0; i < w->n_outs; i++) {
        if (!outs[i] || sn_dtype_of(outs[i]) != SN_F64 || !ops_wanted(call, i) || !sn_requires_grad(outs[i])) continue;
        w->slots[w->n_wanted++] = i;
        count += sn_numel(outs[i]);
    }
    for (int k = 0; k < call->n_tensors; k++) w->in[k] = sn_detach(call->tensors[k]);
    return w->n_wanted && count <= MOST;
}

/* Can differences follow it? */
static bool is_tame(Forward *w) {
    double at[MOST] = {0}, near[MOST] = {0};
    if (!values_at(w, 0, at, MOST) || !values_at(w, 1e-5, near, MOST)) return true; /* its error is the test's */
    for (int i = 0; i < MOST; i++)
        if (!(fabs(at[i]) < 1e4) || !(fabs(near[i] - at[i]) < 0.1)) return false;
    return true;
}

static bool read_all(sn_tensor *const *ts, int n, double *to) {
    for (int i = 0; i < n; i++) {
        const int64_t count = sn_numel(ts[i]);
        if (sn_read(ts[i], to, (size_t)count * sizeof *to) != SN_OK) return false;
        to += count;
    }
    return true;
}

static void check_differences(const Case *c, Forward *w, sn_tensor *const *tangents) {
    double got[MOST], above[MOST], below[MOST], *at = got;
    const double step = 1e-5;
    if (!read_all(tangents, w->n_wanted, got) || !values_at(w, step, above, MOST) || !values_at(w, -step, below, MOST))
        return;
    for (int i = 0; i < w->n_wanted; i++)
        for (int64_t k = 0; k < sn_numel(tangents[i]); k++, at++) {
            const double want = (above[at - got] - below[at - got]) / (2 * step);
            if (fabs(*at - want) <= 2e-6 + 1e-5 * fabs(want)) continue;
            ops_fail(c, "tangent of result %d, element %lld: %g, difference %g", w->slots[i], (long long)k, *at, want);
            return;
        }
}

static double inner(sn_tensor *a, sn_tensor *b) { return sn_numel(a) ? sn_item(sn_sum(sn_mul(a, b))) : 0; }

static void check_transposed(const Case *c, Forward *w, sn_tensor *const *tangents) {
    sn_tensor *us[MAX_LIST], *grads[SAMPLE_TENSORS] = {NULL};
    int64_t argnums[SAMPLE_TENSORS], n = 0;
    double forward = 0, back = 0, size = 0;
    for (int i = 0; i < w->n_wanted; i++) us[i] = numbers_like(tangents[i], 5 + i);
    for (int k = 0; k < w->call->n_tensors; k++)
        if (w->ts[k]) argnums[n++] = k;
    const sn_status status =
        sn_func_vjp(body, w, SN_FUNC_VJP_OPTIONS(.cotangents = {us, w->n_wanted}, .argnums = {argnums, n}),
                    (sn_tensors){w->in, w->call->n_tensors}, grads, (int)n);
    if (status != SN_OK) return;
    for (int i = 0; i < w->n_wanted; i++) forward += inner(us[i], tangents[i]), size += fabs(inner(us[i], us[i]));
    for (int64_t k = 0; k < n; k++) back += inner(grads[k], w->ts[argnums[k]]);
    if (fabs(forward - back) > 1e-9 * (1 + size + fabs(back)))
        ops_fail(c, "<u, J t> is %.15g, <J'u, t> %.15g", forward, back);
}

void check_forward(const Case *c) {
    SampleCall call;
    static Forward w;
    sn_tensor *tangents[MAX_LIST] = {NULL};
    Case own = *c;
    if (ops_is_drawn(c->row)) ops_count();
    if (!is_checked(c->row) || ops_is_drawn(c->row)) return;
    own.style.dtype = DT_f64;
    own.style.leaves = true;
    do
        if (!make(&own, &call, &w)) return;
    while (!is_tame(&w) && ++own.style.range < RANGE_COUNT);
    if (own.style.range == RANGE_COUNT) {
        ops_fail(c, "no range of numbers has finite tangents");
        return;
    }
    const sn_status status = sn_func_jvp(body, &w, SN_FUNC_JVP_OPTIONS(.tangents = {w.ts, call.n_tensors}),
                                         (sn_tensors){w.in, call.n_tensors}, tangents, w.n_wanted);
    if (status == SN_OK) check_differences(&own, &w, tangents);
    if (status == SN_OK) check_transposed(&own, &w, tangents);
    if (status == SN_OK && ops_first_only(c->row)) ops_fail(c, "there are tangents: check them");
    if (sn_check() == SN_OK || ops_first_only(c->row)) ops_count();
    if (sn_check() == SN_ERR_UNSUPPORTED) /* a row's other samples have what is supported */
        sn_error_take();
}
