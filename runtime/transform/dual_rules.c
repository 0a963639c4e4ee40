/* dual_rules.c: tangents of an op's results, by the rules that its row has for gradients (dual.h). Runs a level further
 * out than the handles, in a scope that the caller opened. */
#include "ir/saves.h"
#include "runtime/autograd/tape.h"
#include "runtime/base/alloc.h"
#include "runtime/transform/dual.h"
#include "runtime/core/context_enter.h"

static bool saves_nothing(const OpRow *row) { return !row->saves || !*row->saves; }

bool dual_has_rule(const OpRow *row) {
    if (row->flags & OPF_flow) return false; /* its rule goes on from sums: the ops of its bodies have theirs */
    return row->flags & OPF_nodiff || row->kind == KIND_view || deriv_rule(row);
}

/* the op on the tangent ----------------------------------------------------------------------- */

static int count_tensors(const DualCall *call) {
    int n = 0;
    for (int i = 0; i < call->row->n_params; i++)
        n += call->args[i].kind == ARG_tensor || call->args[i].kind == ARG_tensors;
    return n;
}

/* As the tape has it, from self's first element: of a tangent, which lies elsewhere, that says something else. */
static bool names_memory(const OpRow *row) { return row->flags & OPF_places || row->role == ROLE_storage; }

static bool is_linear(const DualCall *call) {
    if (call->row->kind == KIND_view) return !names_memory(call->row);
    return call->row->kind == KIND_reduction && saves_nothing(call->row) && count_tensors(call) == 1 &&
           dtype_is_float(call->args[0].kind == ARG_tensor ? call->args[0].val->meta->dtype : DT_i64);
}

/* The call with t in the place of argument i. */
static Status run_with(const DualCall *call, int i, sn_tensor *t, sn_tensor **out, int *n) {
    Arg args[MAX_ARGS];
    memcpy(args, call->args, sizeof *args * (size_t)call->row->n_params);
    args[i] = A_VAL(&t->base);
    *n = call->row->n_out;
    if (call->row->returns_list) return dispatch_list(call->row, args, out, n);
    return dispatch(call->row, FORM_functional, args, NULL, out);
}

static Status along_linear(const DualCall *call, sn_tensor **out) {
    int n;
    return call->tangents[0] ? run_with(call, 0, call->tangents[0], out, &n) : ST_OK;
}

/* *sum += t; t NULL: nothing. */
static Status add_to(sn_tensor **sum, sn_tensor *t) {
    if (!*sum || !t) {
        if (t) *sum = t;
        return ST_OK;
    }
    *sum = tensor_of(E(eager_builder(), add_Tensor, V(&(*sum)->base), V(&t->base), A_INT(1)));
    return *sum ? ST_OK : error_pending();
}

static bool is_plain_product(const OpRow *row) {
    return row->kind == KIND_kernel && op_is_product(row) && row->product.self < 0 && row->n_out == 1;
}

static Status along_product(const DualCall *call, sn_tensor **out) {
    const int operands[] = {call->row->product.a, call->row->product.b};
    for (int k = 0; k < 2; k++) {
        sn_tensor *part = NULL, *const t = call->tangents[operands[k]];
        int n;
        if (t) TRY(run_with(call, operands[k], t, &part, &n));
        TRY(add_to(&out[0], part));
    }
    return ST_OK;
}

/* the derivative's rule ----------------------------------------------------------------------- */

typedef struct RuleCall { /* arrays of one call of a rule */
    Deriv d;
    Arg args[MAX_ARGS];
    bool needs[MAX_ARGS];
    const Meta *arg_meta[MAX_ARGS], **result_meta;
    Val **results, **grad_out; /* by result */
    Val *grad_in[MAX_ARGS], **grad_list;
    void *memory;
} RuleCall;

static void rule_end(RuleCall *r) { mem_free(r->memory); }

static int n_items(const DualCall *call) {
    int n = 0;
    for (int i = 0; i < call->row->n_params; i++)
        if (call->args[i].kind == ARG_tensors) n += call->args[i].n;
    return n;
}

static bool list_has_tangent(const DualCall *call, int i, int item) {
    for (int k = 0; k < call->args[i].n; k++)
        if (call->tangents[call->row->n_params + item + k]) return true;
    return false;
}

static Status rule_begin(RuleCall *r, const DualCall *call) {
    const size_t n = (size_t)call->n;
    const int items = n_items(call);
    int item = 0;
    r->memory = mem_zero(sizeof(void *) * (3 * n + (size_t)items + 1));
    if (!r->memory) return ST_MEMORY;
    r->results = r->memory;
    r->grad_out = r->results + n;
    r->result_meta = (const Meta **)(r->grad_out + n);
    r->grad_list = (Val **)(r->result_meta + n);
    memset(r->grad_in, 0, sizeof r->grad_in);
    memcpy(r->args, call->args, sizeof *r->args * (size_t)call->row->n_params);
    if (call->row->role == ROLE_storage)
        r->args[3] = A_INT(tape_offset(&(OpCall){.row = call->row, .args = call->args}));
    for (int i = 0; i < call->row->n_params; i++) {
        const Arg *const arg = &call->args[i];
        r->needs[i] = call->tangents[i];
        r->arg_meta[i] = arg->kind == ARG_tensor && arg->val ? arg->val->meta : NULL;
        if (arg->kind != ARG_tensors) continue;
        r->needs[i] = list_has_tangent(call, i, item);
        item += arg->n;
    }
    for (int k = 0; k < call->n; k++) {
        if (!call->outs[k]) continue;
        r->results[k] = &call->outs[k]->base;
        r->result_meta[k] = call->outs[k]->base.meta;
    }
    r->d = (Deriv){.b = eager_builder(),
                   .row = call->row,
                   .args = r->args,
                   .results = r->results,
                   .grad_out = r->grad_out,
                   .needs = r->needs,
                   .arg_meta = r->arg_meta,
                   .result_meta = r->result_meta,
                   .grad_in = r->grad_in,
                   .grad_list = r->grad_list,
                   .n_results = call->n};
    return ST_OK;
}

static Status run_rule(RuleCall *r) {
    DerivFn *const rule = deriv_rule(r->d.row);
    if (!rule) return error_raise(ST_UNSUPPORTED, "%s has no derivative rule", r->d.row->name);
    TRY(rule(&r->d));
    return error_pending();
}

/* pointwise ----------------------------------------------------------------------------------- */

/* No parameter says which element of an argument makes which of the result. */
static bool is_elementwise(const DualCall *call) {
    const OpRow *const row = call->row;
    if (row->kind != KIND_pointwise || call->n != 1 || row->flags & (OPF_places | OPF_slices) || row->role == ROLE_puts)
        return false;
    const Meta *const result = call->outs[0]->base.meta;
    for (int i = 0; i < row->n_params; i++) {
        const Arg *const arg = &call->args[i];
        if (arg->kind == ARG_tensor && arg->val && !meta_same_sizes(arg->val->meta, result)) return false;
        if (call->tangents[i] && arg->val->meta->dtype != result->dtype) return false;
        if (arg->kind == ARG_tensors || arg->kind == ARG_ints) return false;
        if (arg->kind == ARG_int && row->params[i].type == PT_int) return false;
    }
    return true;
}

static Status along_pointwise(const DualCall *call, sn_tensor **out) {
    for (int i = 0; i < call->row->n_params; i++) {
        __attribute__((cleanup(rule_end))) RuleCall r = {0};
        if (!call->tangents[i]) continue;
        TRY(rule_begin(&r, call));
        for (int k = 0; k < call->row->n_params; k++) r.needs[k] = k == i;
        r.grad_out[0] = &call->tangents[i]->base;
        TRY(run_rule(&r));
        TRY(add_to(&out[0], r.grad_in[i] ? tensor_of(r.grad_in[i]) : NULL));
    }
    return ST_OK;
}

/* the vjp of the vjp -------------------------------------------------------------------------- */

typedef struct Twice {
    const DualCall *call;
    Level level;
    RuleCall rule;
    sn_tensor **us;             /* by result: the gradient that the rule gets; NULL: none */
    sn_tensor **roots, **grads; /* J'u by argument, and the tangents there */
    int n_roots;
    void *memory;
} Twice;

static void twice_end(Twice *t) {
    rule_end(&t->rule);
    mem_free(t->memory);
}

static Status twice_begin(Twice *t) {
    const DualCall *const call = t->call;
    const size_t most = (size_t)(call->row->n_params + n_items(call)), n = (size_t)call->n;
    t->memory = mem_zero(sizeof(sn_tensor *) * (n + 2 * most + 1));
    if (!t->memory) return ST_MEMORY;
    t->us = t->memory;
    t->roots = t->us + n;
    t->grads = t->roots + most;
    return rule_begin(&t->rule, call);
}

/* The rule is linear in u: at which u its derivative is taken does not count. */
static Status make_us(Twice *t) {
    for (int k = 0; k < t->call->n; k++) {
        sn_tensor *const out = t->call->outs[k];
        if (!out || !result_has_gradient(out->base.meta)) continue;
        sn_tensor *const zeros =
            tensor_of(E(eager_builder(), zeros_like, V(&out->base), A_NONE, A_NONE, A_NONE, A_NONE, A_NONE));
        if (!zeros) return error_pending();
        if (!(t->us[k] = tensor_wrapped(zeros, t->level.id, NULL))) return ST_MEMORY;
        TRY(tape_requires_grad(t->us[k], true));
        t->rule.grad_out[k] = &t->us[k]->base;
    }
    return ST_OK;
}

static void add_root(Twice *t, Val *grad, sn_tensor *tangent) {
    if (!grad || !tangent || !level_inner(&t->level, grad) || !tape_tracks(tensor_of(grad))) return;
    t->roots[t->n_roots] = tensor_of(grad);
    t->grads[t->n_roots++] = tangent;
}

static void collect_roots(Twice *t) {
    const DualCall *const call = t->call;
    const int n_params = call->row->n_params, items = n_items(call);
    for (int i = 0; i < n_params; i++) add_root(t, t->rule.grad_in[i], call->tangents[i]);
    for (int k = 0; k < items; k++) add_root(t, t->rule.grad_list[k], call->tangents[n_params + k]);
}

static Status run_back(Twice *t, sn_tensor **out) {
    sn_tensor *xs[MAX_LIST], *found[MAX_LIST];
    int which[MAX_LIST], n = 0;
    for (int k = 0; k < t->call->n; k++)
        if (t->us[k]) which[n] = k, xs[n++] = t->us[k];
    if (!n || !t->n_roots) return ST_OK;
    t->level.quiet = true;
    TRY(tape_run(&(TapeRun){.roots = t->roots,
                            .grads = t->grads,
                            .n_roots = t->n_roots,
                            .xs = xs,
                            .n_xs = n,
                            .out = found,
                            .flags = TAPE_level | TAPE_allow_unused}));
    for (int k = 0; k < n; k++) out[which[k]] = found[k] ? level_outside(&t->level, found[k]) : NULL;
    return ST_OK;
}

static Status differentiate(Twice *t, sn_tensor **out) {
    TRY(run_rule(&t->rule));
    collect_roots(t);
    return run_back(t, out);
}

static Status by_two_vjps(const DualCall *call, sn_tensor **out) {
    sn_state *const state = state_get();
    __attribute__((cleanup(twice_end))) Twice t = {.call = call, .level = level_new(state, LEVEL_grad)};
    TRY(twice_begin(&t));
    TRY(make_us(&t));
    const uint32_t depth = state->n_scopes;
    TRY(scope_push(state, false));
    level_enter(state, &t.level);
    context_enter_scope(state, CONTEXT_parts);
    const Status status = differentiate(&t, out);
    for (int k = 0; k < call->n && status == ST_OK; k++)
        if (out[k]) TRY(level_adopt(out[k]));
    scope_pop_passing(state, depth, out, status == ST_OK ? call->n : 0);
    return status;
}

/* Ints and bools have no tangents: what a float was cast to, say. */
static bool has_float_result(const DualCall *call) {
    for (int k = 0; k < call->n; k++)
        if (call->outs[k] && dtype_is_float(call->outs[k]->base.meta->dtype)) return true;
    return false;
}

Status dual_tangents(const DualCall *call, sn_tensor **out) {
    if (call->row->flags & OPF_nodiff || !has_float_result(call)) return ST_OK;
    if (is_linear(call)) return along_linear(call, out);
    if (is_plain_product(call->row)) return along_product(call, out);
    if (is_elementwise(call)) return along_pointwise(call, out);
    return by_two_vjps(call, out);
}
