/* op_check_grad.c: rules of sn_op_check: the gradient of a weighted sum of the results against central differences
 * along one direction, in f64 where the op takes it; and the same of the gradient. */
#include "frontend/api/op_check.h"

#include <math.h>

#include "runtime/base/error.h"

typedef struct GradCheck {
    OpCheck *c;
    sn_dtype dtype;
    double step, tolerance;
} GradCheck;

/* Different for each element and result, never 0. */
static sn_tensor *weights_like(sn_tensor *t, int seed) {
    sn_tensor *const positions = sn_to_device(sn_arange(sn_int(sn_numel(t)), sn_dtype_of(t)), sn_device_of(t));
    sn_tensor *const wave = sn_sin(sn_add_scalar(sn_mul_scalar(positions, sn_float(0.7)), sn_float(1 + seed)));
    return sn_reshape(sn_add_scalar(wave, sn_float(1.5)), sn_sizes(t));
}

static bool gives_back(const OpCheck *c, int arg) {
    bool any = false;
    for (int r = 0; c->own && !c->row->returns_list && r < c->row->n_out; r++) any |= c->own->result_of[r] == arg;
    return any;
}

/* What is written is differentiated where the schema gives it as a result. */
static bool varies(const OpCheck *c, int i) {
    return op_check_tensor(c, i) && op_check_is_float(op_check_tensor(c, i)) &&
           (!op_check_writes_arg(c, i) || gives_back(c, i));
}

typedef struct MovedCall {
    CheckedCall call;
    sn_tensor *xs[MAX_ARGS]; /* by argument: what gradients are taken of */
} MovedCall;

/* The sample's copies, moved by `by` along the direction of argument `arg` (-1: none); leaves where asked, or, where
 * the op writes it, a leaf's copy. */
static Status moved_copies(const GradCheck *g, int arg, double by, bool leaves, MovedCall *moved) {
    TRY(op_check_copies(g->c, g->dtype, &moved->call));
    for (int i = 0; i < g->c->n; i++) {
        if (!varies(g->c, i)) continue;
        sn_tensor *t = moved->call.in[i].tensor;
        if (i == arg) t = sn_add(t, sn_mul_scalar(weights_like(t, i), sn_float(by)));
        moved->xs[i] = leaves ? sn_requires_grad_(t, true) : t;
        moved->call.in[i] = sn_val(op_check_writes_arg(g->c, i) ? sn_clone(t) : t);
    }
    return error_pending();
}

/* The sum of all float results, weighted. */
static sn_tensor *loss_of(const GradCheck *g, MovedCall *moved) {
    CheckedCall *const call = &moved->call;
    sn_tensor *loss = NULL;
    if (op_check_call(g->c, call) != ST_OK) return NULL;
    for (int r = 0; r < call->n_out; r++) {
        sn_tensor *const y = call->out[r];
        if (op_check_is_number(g->c, r, call->n_out) || !op_check_is_float(y) || !sn_numel(y)) continue;
        sn_tensor *const part = sn_sum(sn_mul(y, weights_like(sn_detach(y), r)));
        loss = loss ? sn_add(loss, part) : part;
    }
    return loss;
}

/* By argument: NULL where it does not vary, or nothing depends on it. */
typedef struct Gradients {
    sn_tensor *of[MAX_ARGS];
} Gradients;

static Status compute_gradients(const GradCheck *g, const MovedCall *moved, sn_tensor *loss, uint32_t flags,
                                Gradients *out) {
    sn_tensor *xs[MAX_ARGS], *grads[MAX_ARGS] = {0};
    int n = 0, at[MAX_ARGS];
    *out = (Gradients){{0}};
    for (int i = 0; i < g->c->n; i++)
        if (varies(g->c, i)) at[n] = i, xs[n++] = moved->xs[i];
    if (!n || !loss || !sn_requires_grad(loss)) return error_pending();
    sn_gradients(SN_TENSORS(loss), (sn_tensors){xs, n}, (sn_tensors){0}, flags | SN_ALLOW_UNUSED, grads);
    for (int k = 0; k < n; k++) out->of[at[k]] = grads[k];
    return error_pending();
}

static double loss_value(sn_tensor *loss) { return loss ? sn_item(loss) : 0; }

/* Along the direction. */
static double slope_of(sn_tensor *gradient, int i) {
    return gradient ? sn_item(sn_sum(sn_mul(gradient, weights_like(sn_detach(gradient), i)))) : 0;
}

static bool is_near(const GradCheck *g, double a, double b) {
    return (isnan(a) && isnan(b)) || fabs(a - b) <= g->tolerance * (1 + fabs(a) + fabs(b));
}

/* f64, unless the op refuses it. */
static Status begin(OpCheck *c, GradCheck *g) {
    MovedCall call;
    *g = (GradCheck){.c = c, .dtype = SN_F64, .step = 1e-5, .tolerance = 1e-5};
    if (moved_copies(g, -1, 0, false, &call) == ST_OK && op_check_call(c, &call.call) == ST_OK) return ST_OK;
    error_clear();
    *g = (GradCheck){.c = c, .dtype = SN_F32, .step = 1e-2, .tolerance = 1e-2};
    return ST_OK;
}

typedef double Differentiated(const GradCheck *g, int arg, double by);

static double loss_at(const GradCheck *g, int arg, double by) {
    MovedCall call;
    return moved_copies(g, arg, by, false, &call) == ST_OK ? loss_value(loss_of(g, &call)) : 0;
}

static double central_difference(const GradCheck *g, Differentiated *function, int arg) {
    return (function(g, arg, g->step) - function(g, arg, -g->step)) / (2 * g->step);
}

/* The gradients of `value`, which `function` gives at moved arguments; what, along: as the failure calls them. */
static Status compare_slopes(const GradCheck *g, const MovedCall *call, sn_tensor *value, Differentiated *function,
                             const char *what, const char *along) {
    Gradients gradients;
    TRY(compute_gradients(g, call, value, 0, &gradients));
    for (int i = 0; i < g->c->n; i++) {
        if (!varies(g->c, i)) continue;
        const double got = slope_of(gradients.of[i], i), want = central_difference(g, function, i);
        TRY(error_pending());
        if (!is_near(g, got, want))
            return op_check_fail(g->c, "%s of '%s' is %.7g%s, by central differences %.7g", what,
                                 op_check_name(g->c, i), got, along, want);
    }
    return ST_OK;
}

Status op_check_derivative(OpCheck *c) {
    GradCheck g;
    MovedCall call;
    if (!op_check_differentiable(c) || !c->repeats) return ST_OK;
    TRY(begin(c, &g));
    TRY(moved_copies(&g, -1, 0, true, &call));
    return compare_slopes(&g, &call, loss_of(&g, &call), loss_at, "the gradient", " along a direction");
}

/* The own weighted sum of the gradients of scale times the loss, with a history that leads to the arguments and to
 * scale, NULL: 1; NULL: none does. */
static sn_tensor *gradient_sum(const GradCheck *g, MovedCall *call, sn_tensor *scale) {
    Gradients gradients;
    sn_tensor *sum = NULL, *loss = loss_of(g, call);
    if (loss && scale) loss = sn_mul(loss, scale);
    if (compute_gradients(g, call, loss, SN_CREATE_GRAPH, &gradients) != ST_OK) return NULL;
    for (int i = 0; i < g->c->n; i++) {
        sn_tensor *const gradient = gradients.of[i];
        if (!gradient) continue;
        sn_tensor *const part = sn_sum(sn_mul(gradient, weights_like(sn_detach(gradient), i + 3)));
        sum = sum ? sn_add(sum, part) : part;
    }
    return sum;
}

static double gradient_sum_at(const GradCheck *g, int arg, double by) {
    MovedCall call;
    return moved_copies(g, arg, by, true, &call) == ST_OK ? loss_value(gradient_sum(g, &call, NULL)) : 0;
}

/* A derivative is linear in the gradients that come in: along them its slope is itself. */
static Status check_incoming(const GradCheck *g) {
    MovedCall call;
    sn_tensor *const scale = sn_requires_grad_(sn_ones((sn_ints){0}, g->dtype), true), *slope = NULL;
    TRY(moved_copies(g, -1, 0, true, &call));
    sn_tensor *const sum = gradient_sum(g, &call, scale);
    if (sum && sn_requires_grad(sum))
        sn_gradients(SN_TENSORS(sum), SN_TENSORS(scale), (sn_tensors){0}, SN_ALLOW_UNUSED, &slope);
    TRY(error_pending());
    const double want = loss_value(sum), got = loss_value(slope);
    if (is_near(g, got, want)) return ST_OK;
    return op_check_fail(g->c,
                         "the derivative's own gradient along the gradients that come in is %.7g, and not the "
                         "derivative, which is linear in them: %.7g",
                         got, want);
}

Status op_check_second_derivative(OpCheck *c) {
    GradCheck g;
    MovedCall call;
    if (!op_check_differentiable(c) || !c->repeats) return ST_OK;
    TRY(begin(c, &g));
    TRY(moved_copies(&g, -1, 0, true, &call));
    sn_tensor *const sum = gradient_sum(&g, &call, NULL);
    TRY(error_pending());
    TRY(compare_slopes(&g, &call, sum, gradient_sum_at, "the derivative's own gradient", ""));
    return check_incoming(&g);
}
