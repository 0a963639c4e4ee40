/* precise.c: see precise.h. The graph, without composites, is run op by op, and each op whose floats are narrower once
 * more in f64 on the same values. How far an element may lie from that is
 *
 *   the row's bound (ir/ops/bounds.def), in units of the last place of what it says (PLAIN_ULPS of the exact element
 *   where it states none),
 *   + (GROWTH + n, or 4 sqrt(n) of sums by lanes) times what changes where each float that the op is given changes by
 *     one unit of its last place, up or down by chance, the most of DRAWS times,
 *
 * n: how many elements an element of the result is made of, as sizes tell. So a sum that cancels may be off by as much
 * as its terms' roundings, and a product of matrices by a chain of k of them; a formula that loses digits which its
 * arguments have may not. Random numbers, memory that is not set and what has no elements are not measured. */
#include "frontend/tool/precise.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "frontend/tool/inputs.h"
#include "frontend/tool/locator.h"
#include "runtime/base/alloc.h"
#include "runtime/base/text.h"
#include "runtime/autograd/graph_run.h"
#include "runtime/core/element.h"
#include "runtime/core/tensor.h"

enum { PLAIN_ULPS = 4, GROWTH = 32, DRAWS = 16 };

static bool is_narrow(DType dtype) { return dtype == DT_f32 || dtype == DT_f16 || dtype == DT_bf16; }

/* In f64 --------------------------------------------------------------------------------------- */

typedef struct Exactly {
    const Node *node;
    Arena *arena;
    Arg args[MAX_ARGS];
    bool shaken;
} Exactly;

/* Each element a unit of its last place larger or smaller; of the dtype that it comes from. */
static sn_tensor *shaken(sn_tensor *wide, DType from) {
    const double unit = from == DT_f32 ? 0x1p-23 : from == DT_f16 ? 0x1p-10 : 0x1p-7;
    sn_tensor *const side = sn_sub_scalar(sn_rand_like(wide), sn_float(0.5));
    return sn_mul(wide, sn_add_scalar(sn_mul_scalar(sn_sign(side), sn_float(unit)), sn_int(1)));
}

/* A number that is a tensor of no dims is rounded to the compute type, as a plain one is. */
static bool is_wide_number(const sn_tensor *t) { return t->base.meta->dtype == DT_f64 && t->base.meta->rank == 0; }

static Val *widened(const Exactly *e, Val *val) {
    sn_tensor *const t = (sn_tensor *)val;
    if (t && is_wide_number(t) && e->node->row->kind == KIND_pointwise) return (Val *)sn_to(sn_to(t, SN_F32), SN_F64);
    if (!t || !is_narrow(t->base.meta->dtype)) return val;
    sn_tensor *const wide = sn_to(t, SN_F64);
    return wide ? &(e->shaken ? shaken(wide, t->base.meta->dtype) : wide)->base : NULL;
}

static bool is_dtype(ParamType type) { return type == PT_dtype || type == PT_dtype_opt; }

static Arg exact_arg(const Exactly *e, int i, Arg arg) {
    if (arg.kind == ARG_tensor) arg.val = widened(e, arg.val);
    if (arg.kind == ARG_int && is_dtype(e->node->row->params[i].type) && is_narrow((DType)arg.i)) arg.i = DT_f64;
    if (arg.kind == ARG_float) arg.f = (double)(float)arg.f; /* as the compute type has it */
    if (arg.kind == ARG_float && e->shaken) arg.f *= 1 + 0x1p-23;
    if (arg.kind != ARG_tensors) return arg;
    Val **const vals = ARENA_ARRAY(e->arena, Val *, arg.n + 1);
    for (int k = 0; vals && k < arg.n; k++) vals[k] = widened(e, arg.vals[k]);
    arg.vals = vals;
    return arg;
}

/* Which argument is multiplied by alpha first; -1: none. */
static int scaled_param(const OpRow *row) {
    if (row->bound.unit == UNIT_scaled_other) return op_param_find(row, "other");
    return row->bound.unit == UNIT_scaled_self ? op_param_find(row, "self") : -1;
}

static DType result_dtype(const Exactly *e, const Arg *args) {
    const OpCall call = op_call(e->node->row, FORM_functional, args, NULL, NULL);
    MetaOut outs[MAX_OUTS];
    int n = MAX_OUTS;
    return call_metas(&call, 0, outs, &n) == ST_OK ? outs[0].dtype : DT_default;
}

/* As mul would store it in the result's dtype. */
static sn_tensor *stored_product(const Arg *arg, const Arg *alpha, DType dtype) {
    const bool tensor = arg->kind == ARG_tensor;
    sn_tensor *const factor = tensor ? sn_to((sn_tensor *)arg->val, (sn_dtype)dtype)
                                     : sn_full((sn_ints){0}, sn_float(arg_double(arg)), (sn_dtype)dtype);
    return sn_mul(factor, sn_full_like(factor, sn_float(arg_double(alpha))));
}

/* The row's unit says what is rounded first. */
static void scale_first(Exactly *e, const Arg *args) {
    const OpRow *const row = e->node->row;
    const int at = scaled_param(row), alpha = op_param_find(row, "alpha");
    if (at < 0 || alpha < 0 || arg_double(&args[alpha]) == 1) return;
    const DType dtype = result_dtype(e, args);
    if (!is_narrow(dtype)) return;
    sn_tensor *const product = sn_to(stored_product(&args[at], &args[alpha], dtype), SN_F64);
    e->args[at] = A_VAL(product ? &product->base : NULL);
    e->args[alpha] = A_INT(1);
}

static Status run_exactly(Exactly *e, const Arg *args, sn_tensor **outs) {
    for (int i = 0; i < e->node->row->n_params; i++) e->args[i] = exact_arg(e, i, args[i]);
    scale_first(e, args);
    TRY(error_pending());
    return dispatch(e->node->row, FORM_functional, e->args, NULL, outs);
}

/* What an element may be off ------------------------------------------------------------------- */

static double exact_at(const HostValue *value, int64_t i) {
    return element_double(DT_f64, value->bytes + (size_t)i * sizeof(double));
}

static double largest(const HostValue *exact) {
    double most = 0;
    for (int64_t i = 0; i < exact->n; i++) {
        const double size = fabs(exact_at(exact, i));
        if (isfinite(size)) most = fmax(most, size);
    }
    return most;
}

static double largest_of(sn_tensor *t) {
    HostValue value = host_value(sn_to(t, SN_F64));
    const double most = largest(&value);
    host_value_free(&value);
    return most;
}

static bool asks_tanh(const OpRow *row, const Arg *args) {
    const int at = op_param_find(row, "approximate");
    return at >= 0 && args[at].kind == ARG_string && !strcmp(args[at].string, "tanh");
}

/* What units are of the last place of, however small the exact element is (ir/ops/bounds.def). */
static double unit_scale(const OpRow *row, const Arg *args, DType dtype) {
    double most = 0;
    switch (row->bound.unit) {
    case UNIT_one:
        return 1;
    case UNIT_tail:
        return 128 * (dtype == DT_f16 ? 0x1p-14 : (double)FLT_MIN);
    case UNIT_form:
        if (!asks_tanh(row, args)) return 0;
        /* fall through */
    case UNIT_largest:
        for (int i = 0; i < row->n_params; i++)
            if (args[i].kind == ARG_tensor && args[i].val) most = fmax(most, largest_of((sn_tensor *)args[i].val));
        return most;
    default:
        return 0;
    }
}

static bool any_f64(const OpRow *row, const Arg *args) {
    bool any = false;
    for (int i = 0; i < row->n_params; i++) {
        any |= args[i].kind == ARG_tensor && args[i].val && args[i].val->meta->dtype == DT_f64;
        for (int k = 0; args[i].kind == ARG_tensors && k < args[i].n; k++)
            any |= args[i].vals[k] && args[i].vals[k]->meta->dtype == DT_f64;
    }
    return any;
}

/* A power that a body computes in two steps (rules/body_arith.c). */
static bool is_two_steps(const OpRow *row, const Arg *args) {
    const Arg *const exponent = row->bound.unit == UNIT_power ? &args[op_param_find(row, "exponent")] : NULL;
    if (!exponent || (exponent->kind != ARG_float && exponent->kind != ARG_int)) return false;
    const double number = arg_double(exponent);
    return number == 3 || number == -2 || number == -0.5;
}

/* In the dtype that is stored; what is computed in a wider one, as halves are, is rounded once more. */
static double row_ulps(const OpRow *row, const Arg *args, DType dtype) {
    const bool unstated = row->bound.unit == UNIT_unstated || row->bound.unit == UNIT_none;
    const double ulps = (unstated ? PLAIN_ULPS : row->bound.ulps) + (is_two_steps(row, args) ? 0.5 : 0);
    return ulps + (dtype != DT_f32 || any_f64(row, args) ? 0.5 : 0);
}

static double elements(const Arg *arg) {
    return arg->kind == ARG_tensor && arg->val ? (double)arg->val->meta->numel : 1;
}

/* Of the largest tensor. */
static double most_elements(const OpRow *row, const Arg *args) {
    double most = 1;
    for (int i = 0; i < row->n_params; i++) most = fmax(most, elements(&args[i]));
    return most;
}

/* How many elements one of n is made of: of sums n is smaller than what is summed, of products smaller than both
 * operands together. */
static double terms_of(const OpRow *row, const Arg *args, double n) {
    double both = 1;
    for (int i = 0; i < row->n_params; i++)
        if (!op_is_product(row) || i == row->product.a || i == row->product.b) both *= elements(&args[i]);
    return n > 0 ? fmax(1, fmax(most_elements(row, args) / n, sqrt(both / n))) : 1;
}

/* Chains add one by one, other orders by lanes and chunks. Additions at positions may all meet one element. */
static double growth_of(const Node *node, const Arg *args, double terms) {
    if (node->order == ORDER_index) return most_elements(node->row, args);
    return node->order == ORDER_chain ? terms : 4 * sqrt(terms);
}

/* By result: the most that an element changes in DRAWS draws. */
typedef struct Changes {
    double *at[MAX_OUTS];
} Changes;

static void record_changes(Changes *changes, const HostValue *exact, sn_tensor *const *outs, int n) {
    for (int k = 0; k < n; k++) {
        HostValue drawn = host_value(exact[k].dtype ? outs[k] : NULL);
        for (int64_t i = 0; drawn.dtype == DT_f64 && drawn.n == exact[k].n && i < drawn.n; i++) {
            const double change = fabs(exact_at(&drawn, i) - exact_at(&exact[k], i));
            if (!(change <= changes->at[k][i])) changes->at[k][i] = change;
        }
        host_value_free(&drawn);
    }
}

/* A draw that the op refuses (a number at the end of its domain) tells nothing. */
static Status find_changes(Exactly *e, const Arg *args, const HostValue *exact, Changes *changes) {
    const int n = e->node->row->n_out;
    for (int k = 0; k < n; k++) {
        changes->at[k] = ARENA_ARRAY(e->arena, double, exact[k].n + 1);
        if (!changes->at[k]) return ST_MEMORY;
    }
    e->shaken = true;
    for (int i = 0; i < DRAWS; i++) {
        sn_tensor *outs[MAX_OUTS] = {NULL};
        const sn_scope scope = sn_scope_begin();
        if (run_exactly(e, args, outs) == ST_OK) record_changes(changes, exact, outs, n);
        error_clear();
        sn_scope_end(scope);
    }
    return ST_OK;
}

/* One op -------------------------------------------------------------------------------------- */

typedef struct Measured {
    HostValue value[MAX_OUTS], exact[MAX_OUTS];
    int n;
} Measured;

/* A factory's elements lie on one scale. */
static bool has_tensors(const OpRow *row, const Arg *args) {
    bool any = false;
    for (int i = 0; i < row->n_params; i++) any |= args[i].kind == ARG_tensor || args[i].kind == ARG_tensors;
    return any;
}

static void describe_error(const Locator *l, const HostValue *value, const HostValue *exact, int64_t i,
                           double allowed) {
    const double got = element_double(value->dtype, value->bytes + (size_t)i * (size_t)dtype_bytes(value->dtype));
    const HostError off = host_element_error(value->dtype, got, exact_at(exact, i));
    snprintf(l->out->how, sizeof l->out->how, "element %lld: %.9g, f64 %.17g: off by %.3g, %.3g ulps, of %.3g allowed",
             (long long)i, got, exact_at(exact, i), off.most, off.ulps, allowed);
}

/* What places that are rounded may change: 8 units of the last place of the larger of both sizes, times the largest
 * element. */
static double off_by_place(const OpRow *row, const Arg *args, DType dtype) {
    double size = 1, most = 0;
    for (int i = 0; i < row->n_params && row->bound.unit == UNIT_places; i++) {
        const Meta *const meta = args[i].kind == ARG_tensor && args[i].val ? args[i].val->meta : NULL;
        for (int d = meta ? meta->rank - 2 : 0; meta && d >= 0 && d < meta->rank; d++)
            size = fmax(size, (double)meta->sizes[d]);
        for (int64_t d = max_i64(args[i].n - 2, 0); args[i].kind == ARG_ints && d < args[i].n; d++)
            size = fmax(size, (double)args[i].ints[d]);
        if (meta) most = fmax(most, largest_of((sn_tensor *)args[i].val));
    }
    return 8 * host_last_place(dtype == DT_f64 ? DT_f64 : DT_f32, size) * most;
}

/* changes NULL: only the row's bound counts. -1: no element is beyond it. */
static int64_t first_beyond(const Locator *l, const Node *node, const Arg *args, const Measured *m, int k,
                            const Changes *changes) {
    const HostValue *const value = &m->value[k], *const exact = &m->exact[k];
    const double growth = GROWTH + growth_of(node, args, terms_of(node->row, args, (double)value->n));
    /* Each rounds a sum so far, which may be as large as the last, by half a unit, and always the same way. */
    const double rounded = changes && node->order == ORDER_index ? most_elements(node->row, args) / 2 : 0;
    const double place = off_by_place(node->row, args, value->dtype);
    const double scale =
        fmax(unit_scale(node->row, args, value->dtype), has_tensors(node->row, args) ? 0 : largest(exact));
    for (int64_t i = 0; i < value->n; i++) {
        const double got = element_double(value->dtype, value->bytes + (size_t)i * (size_t)dtype_bytes(value->dtype));
        const HostError off = host_element_error(value->dtype, got, exact_at(exact, i));
        const double unit = host_last_place(value->dtype, fmax(scale, fabs(exact_at(exact, i))));
        const double allowed = (row_ulps(node->row, args, value->dtype) + rounded) * unit + place +
                               (changes ? growth * changes->at[k][i] : 0);
        if (off.most <= allowed || isnan(allowed)) continue;
        describe_error(l, value, exact, i, allowed);
        return i;
    }
    return -1;
}

/* A number that f32 has only as infinity or 0 asks for another result in f64. What pointwise ops compute with is
 * rounded alike in both. */
static bool has_lost_number(const Node *node, const Arg *args) {
    bool any = false;
    for (int i = 0; i < node->row->n_params && node->row->kind != KIND_pointwise; i++) {
        if (args[i].kind != ARG_float || !isfinite(args[i].f) || args[i].f == 0) continue;
        const float single = (float)args[i].f;
        any |= isinf(single) || single == 0;
    }
    return any;
}

static bool measures(const Node *node) {
    const uint32_t apart = OPF_random | OPF_unset | OPF_host | OPF_flow | OPF_ordered;
    if (node->row->role == ROLE_gradients || node->row->role == ROLE_bits) return false;
    return !(node->row->flags & apart) && !node->row->returns_list && node->n_outs <= MAX_OUTS;
}

/* Results that are narrow floats, beside those in f64. */
static bool beside(Measured *m, const Node *node, sn_tensor *const *outs, sn_tensor *const *exact) {
    bool any = false;
    m->n = node->row->n_out;
    for (int k = 0; k < m->n; k++) {
        if (!outs[k] || !exact[k] || !is_narrow((DType)sn_dtype_of(outs[k]))) continue;
        m->value[k] = host_value(outs[k]), m->exact[k] = host_value(exact[k]);
        any |= host_value_measured(&m->value[k], &m->exact[k]);
        if (host_value_measured(&m->value[k], &m->exact[k])) continue;
        host_value_free(&m->value[k]);
        host_value_free(&m->exact[k]);
    }
    return any && !sn_check();
}

static bool any_beyond(const Locator *l, const Node *node, const Arg *args, const Measured *m, const Changes *changes) {
    for (int k = 0; k < m->n; k++)
        if (m->value[k].dtype && first_beyond(l, node, args, m, k, changes) >= 0) return true;
    return false;
}

static bool is_beyond(const Locator *l, Exactly *e, const Arg *args, sn_tensor *const *outs, sn_tensor *const *exact) {
    Measured m = {.n = 0};
    Changes changes;
    bool beyond = beside(&m, e->node, outs, exact) && any_beyond(l, e->node, args, &m, NULL);
    const bool exactly = e->node->row->kind == KIND_pointwise; /* the bound alone counts */
    if (beyond && !exactly && find_changes(e, args, m.exact, &changes) == ST_OK)
        beyond = any_beyond(l, e->node, args, &m, &changes);
    for (int k = 0; k < m.n; k++) host_value_free(&m.value[k]), host_value_free(&m.exact[k]);
    return beyond;
}

/* The graph ----------------------------------------------------------------------------------- */

/* A symbol is the size that it is alone, or an int. */
static int64_t *bind_symbols(const Locator *l) {
    const Graph *const graph = l->graph;
    const int n = sym_free_count(graph->env);
    int64_t *const values = ARENA_ARRAY(l->arena, int64_t, n + 1);
    for (int i = 0; values && i < n; i++) values[i] = sym_hint(graph->env, sym_free_at(graph->env, i));
    for (int i = 0; values && i < graph->inputs.n; i++) {
        const Meta *const meta = graph->inputs.at[i]->base.meta;
        for (int d = 0; d < meta->rank; d++)
            if (sym_is(meta->sizes[d]) && sym_expr(graph->env, meta->sizes[d])->op == SYM_free)
                values[sym_expr(graph->env, meta->sizes[d])->a] = sn_size(l->in[i], d);
    }
    for (int i = 0; values && i < graph->int_inputs.n && i < l->numbers.n; i++)
        values[sym_expr(graph->env, graph->int_inputs.at[i].symbol)->a] = l->numbers.at[i].value.i;
    return values;
}

/* Exact results come first: the op may write what it reads. */
static Status run_node(const Locator *l, const GraphRun *run, const Node *node, bool *beyond) {
    const sn_scope scope = sn_scope_begin();
    sn_tensor *few[MAX_OUTS] = {NULL}, *exact[MAX_OUTS] = {NULL};
    Exactly e = {.node = node, .arena = arena_new()};
    Arg args[MAX_ARGS];
    for (int i = 0; i < node->row->n_params; i++) args[i] = graph_run_arg(run, node->args[i]);
    const bool measured =
        e.arena && measures(node) && !has_lost_number(node, args) && run_exactly(&e, args, exact) == ST_OK;
    error_clear();
    Status status = dispatch(node->row, node->form, args, NULL, few);
    *beyond = status == ST_OK && measured && is_beyond(l, &e, args, few, exact);
    for (int i = 0; status == ST_OK && i < node->n_outs; i++)
        run->values[node->outs[i].id] = few[i] ? sn_keep(few[i]) : NULL;
    arena_free(e.arena);
    sn_scope_end(scope);
    return status == ST_OK ? error_pending() : status;
}

static Status unrunnable(const Node *node) {
    return error_raise(ST_UNSUPPORTED, "%s is not run by itself", op_form_name(node->row, node->form));
}

static bool runs_alone(const Node *node) {
    return !(node->row->flags & OPF_flow || node->row->role == ROLE_gradients) && !node->row->returns_list &&
           node->form != FORM_out;
}

static Status run_nodes(const Locator *l, const GraphRun *run) {
    bool beyond = false;
    for (const Node *node = l->graph->first; node && !beyond; node = node->next) {
        if (!runs_alone(node)) return unrunnable(node);
        TRY(run_node(l, run, node, &beyond));
        if (beyond) locator_report(l, node);
    }
    return ST_OK;
}

static Status run_each(const Locator *l) {
    Graph *const graph = l->graph;
    sn_tensor **const values = mem_zero((size_t)(graph->n_vals + 1) * sizeof(sn_tensor *));
    const GraphRun run = {.graph = graph,
                          .arena = l->arena,
                          .values = values,
                          .symbols = bind_symbols(l),
                          .floats = graph->runtime_floats.at};
    if (!values || !run.symbols) return ST_MEMORY;
    for (int i = 0; i < graph->inputs.n; i++) values[graph->inputs.at[i]->id] = sn_retain(l->in[i]);
    const sn_grad_mode before = sn_grad_mode_set(SN_GRAD_OFF);
    const Status status = run_nodes(l, &run);
    sn_grad_mode_set(before);
    for (int i = 0; i < graph->n_vals; i++) sn_release(values[i]);
    mem_free(values);
    return status;
}

static Status look_in(Locator *l, Target *t) {
    sn_tensor *results[TARGET_OUTPUTS] = {NULL};
    TRY(locator_load(l, t, 0));
    if (l->gradients) TRY(locator_run(l, results));
    TRY(locator_join(l));
    if (l->gradients) TRY(locator_seed(l, results));
    return run_each(l);
}

void locate_imprecision(const TargetOptions *o, Located *out) {
    Target t;
    *out = (Located){0};
    Locator l = {.o = o, .arena = arena_new(), .out = out};
    if (way_open(o, &t) && l.arena) {
        const sn_scope scope = sn_scope_begin();
        if (look_in(&l, &t) != ST_OK) snprintf(out->nothing, sizeof out->nothing, "%s", error_slot()->message);
        error_clear();
        sn_scope_end(scope);
        way_close(&t);
    }
    locator_end(&l);
}
