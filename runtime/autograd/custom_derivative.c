/* custom_derivative.c: the derivative body of a user's op, as a derivative rule.
 *
 * Eager backward calls the body on tensors. When a joint graph is built, the body runs once on handles without data:
 *
 *     handle of grad_out, x, y   ->  body: sn_mul(g, x)  ->  dispatch: key capture  ->  graph builder: aten::mul(%g,
 *     %x)
 *                                                            a new handle with the node's metadata
 *
 * so what it emits is compiled like any other rule. What a graph cannot say (a value on the host, a tensor from
 * elsewhere, symbolic sizes, an op in place) is an error, and the segment then runs eagerly. */
#include "passes/passes.h"
#include "ir/saves.h"
#include "runtime/base/small_array.h"
#include "runtime/autograd/tape.h"
#include "runtime/compile/compile.h"
#include "runtime/core/context_enter.h"
#include "runtime/core/custom_op.h"
#include "runtime/core/tracer.h"

enum { MAX_HANDLES = 512 };

typedef struct DerivTracer {
    Tracer tracer; /* first */
    Builder *builder;
    bool eager_only; /* what the body asked for a graph cannot say */
    int n;
    struct {
        sn_tensor *tensor; /* retained */
        Val *val;
    } at[MAX_HANDLES];
} DerivTracer;

static Val *val_of(const DerivTracer *dt, const sn_tensor *t) {
    for (int i = 0; i < dt->n; i++)
        if (dt->at[i].tensor == t) return dt->at[i].val;
    return NULL;
}

static Status only_eager(DerivTracer *dt, const char *what) {
    dt->eager_only = true;
    return error_raise(ST_UNSUPPORTED, "%s", what);
}

static bool has_no_symbols(const Meta *meta) {
    bool symbols = false;
    for (int d = 0; d < meta->rank; d++) symbols |= sym_is(meta->sizes[d]) || sym_is(meta->strides[d]);
    return !symbols;
}

/* Sizes as the call has them. */
static const Meta *hinted_meta(const SymEnv *env, const Meta *meta) {
    int64_t sizes[MAX_RANK], strides[MAX_RANK];
    for (int d = 0; d < meta->rank; d++) {
        sizes[d] = sym_hint(env, meta->sizes[d]);
        strides[d] = sym_hint(env, meta->strides[d]);
    }
    return meta_intern(meta->dtype, meta->device, sizes, strides, meta->rank, meta->wrapped);
}

/* A handle for a value of the graph, owned by the innermost scope; NULL raises. What a trial decides of symbols binds
 * nobody: its body sees the sizes of the call. */
static sn_tensor *handle_of(DerivTracer *dt, Val *val) {
    const Meta *const meta = val->meta;
    if (dt->n == MAX_HANDLES) {
        dt->eager_only = true;
        error_raise(ST_UNSUPPORTED, "a derivative of more than %d values", MAX_HANDLES);
        return NULL;
    }
    if (!has_no_symbols(meta) && !((const Graph *)dt->builder)->trial) {
        only_eager(dt, "the derivative of a user's op under symbolic sizes");
        return NULL;
    }
    const Meta *const plain = hinted_meta(dt->builder->env, meta);
    sn_tensor *const t = plain ? tensor_without_data(plain) : NULL;
    if (!t) return NULL;
    dt->at[dt->n].tensor = tensor_retained(t);
    dt->at[dt->n++].val = val;
    return t;
}

static Status emitted_arg(DerivTracer *dt, Arg *arg) {
    if (arg->kind == ARG_tensors) return only_eager(dt, "a derivative with an op on a list of tensors");
    if (arg->kind != ARG_tensor || !arg->val) return ST_OK;
    arg->val = val_of(dt, tensor_of(arg->val));
    return arg->val ? ST_OK : only_eager(dt, "a derivative that reads a tensor which is not its own");
}

static Status derivative_op(Tracer *self, OpCall *call) {
    DerivTracer *const dt = (DerivTracer *)self;
    const OpRow *const row = call->row;
    TRY(error_pending());
    if (call->form != FORM_functional || row->flags & (OPF_host | OPF_random))
        return only_eager(dt, "a derivative that writes, draws or reads a value");
    if (row->returns_list) return only_eager(dt, "a derivative with an op that gives a list");
    /* A backward that is cut, pruned and made per key would not keep their number. */
    if (row->flags & OPF_ordered) return only_eager(dt, "a derivative with an op that has effects");
    Arg args[MAX_ARGS];
    for (int i = 0; i < row->n_params; i++) {
        args[i] = call->args[i];
        TRY(emitted_arg(dt, &args[i]));
    }
    Val *outs[MAX_OUTS] = {0};
    TRY(dt->builder->emit(dt->builder, row, args, outs));
    for (int i = 0; i < row->n_out; i++)
        if (!(call->outs[i] = handle_of(dt, outs[i]))) return error_pending();
    return ST_OK;
}

static const TracerClass derivative_class = {.follow = tracer_follows_none, .op = derivative_op, .symbolic = true};

/* The rule's own values as handles: arguments, results, gradients. */
typedef struct Handles {
    Arg args[MAX_ARGS];
    Val **results, **grad_out;      /* as many as the rule has */
    const Meta *arg_meta[MAX_ARGS]; /* what a gradient must be */
} Handles;

static Status as_handle(DerivTracer *dt, Val *val, Val **out) {
    sn_tensor *const t = val ? handle_of(dt, val) : NULL;
    *out = t ? &t->base : NULL;
    return val && !t ? error_pending() : ST_OK;
}

static Status make_handles(DerivTracer *dt, const Deriv *d, Handles *h) {
    for (int i = 0; i < d->row->n_params; i++) {
        h->args[i] = d->args[i];
        if (h->args[i].kind == ARG_tensors) return only_eager(dt, "the derivative of a user's op on a list of tensors");
        if (h->args[i].kind == ARG_tensor) TRY(as_handle(dt, d->args[i].val, &h->args[i].val));
        if (d->arg_meta[i] && !(h->arg_meta[i] = hinted_meta(dt->builder->env, d->arg_meta[i]))) return ST_MEMORY;
    }
    for (int i = 0; i < d->n_results; i++) {
        TRY(as_handle(dt, d->results[i], &h->results[i]));
        TRY(as_handle(dt, d->grad_out[i], &h->grad_out[i]));
    }
    return ST_OK;
}

static bool is_saved(const OpRow *row, int arg) {
    SaveSpec plan = {.n = 0};
    saves_parse(row, &plan);
    for (int i = 0; i < plan.n; i++)
        if (plan.items[i].arg == arg) return true;
    return false;
}

/* What of a list is not saved is metadata, no tensors: the body finds none there. */
static Status body_args(const Deriv *d, Arg *args, Val **few, Val ***items) {
    int n = 0;
    for (int i = 0; i < d->row->n_params; i++) n += d->args[i].kind == ARG_tensors ? d->args[i].n : 0;
    if (!(*items = small_array_alloc(few, MAX_ARGS * sizeof *few, (size_t)n * sizeof *few))) return ST_MEMORY;
    Val **next = *items;
    for (int i = 0; i < d->row->n_params; i++) {
        args[i] = d->args[i];
        if (args[i].kind != ARG_tensors) continue;
        const bool saved = is_saved(d->row, i);
        for (int k = 0; k < args[i].n; k++) next[k] = saved ? args[i].vals[k] : NULL;
        args[i].vals = next;
        next += args[i].n;
    }
    return ST_OK;
}

/* Gradients were retained past the end of the body's frame. */
static Status run_body(Deriv *d) {
    const DynamicOp *const op = op_dynamic(d->row);
    Arg args[MAX_ARGS];
    Val *few[MAX_ARGS], **items;
    TRY(body_args(d, args, few, &items));
    SMALL_ARRAY_OWNER kept = {few, items};
    sn_frame frame = {.what = d->row->name, .closure = op->closure, .in = args, .n_in = d->row->n_params, .deriv = d};
    return frame_run(&frame, op->derivative);
}

/* The reference that the frame took passes to the scope. */
static void hand_to_scope(Val **grad) {
    sn_tensor *const t = (sn_tensor *)*grad;
    if (!t) return;
    if (tensor_in_scope(t))
        tensor_release(t);
    else if (!scope_adopt(state_get(), t))
        *grad = NULL;
}

static Status run_eagerly(Deriv *d) {
    const Status status = run_body(d);
    int items = 0;
    for (int i = 0; i < d->row->n_params; i++) {
        hand_to_scope(&d->grad_in[i]);
        for (int k = 0; d->args[i].kind == ARG_tensors && k < d->args[i].n; k++) hand_to_scope(&d->grad_list[items++]);
    }
    return status;
}

/* The body on handles; its gradients as values of the graph. */
static Status run_on_handles(DerivTracer *dt, Deriv *d) {
    Arena *const arena = ((const Graph *)d->b)->arena;
    Handles h = {.results = ARENA_ARRAY(arena, Val *, d->n_results + 1),
                 .grad_out = ARENA_ARRAY(arena, Val *, d->n_results + 1)};
    if (!h.results || !h.grad_out) return ST_MEMORY;
    TRY(make_handles(dt, d, &h));
    Val *grads[MAX_ARGS] = {0};
    Deriv own = *d;
    own.args = h.args;
    own.arg_meta = h.arg_meta;
    own.results = h.results;
    own.grad_out = h.grad_out;
    own.grad_in = grads;
    Status status = run_body(&own);
    for (int i = 0; i < d->row->n_params; i++) {
        if (!grads[i]) continue;
        d->grad_in[i] = val_of(dt, tensor_of(grads[i]));
        tensor_release(tensor_of(grads[i]));
        if (!d->grad_in[i] && status == ST_OK) status = only_eager(dt, "a gradient that is a tensor from elsewhere");
    }
    return status;
}

/* No bail may cross the user's frames: the exit is closed while the body runs. */
static Status run_emitting(Deriv *d) {
    sn_state *const state = state_get();
    DerivTracer *const dt = mem_zero(sizeof *dt);
    if (!dt) return ST_MEMORY;
    dt->tracer.is = &derivative_class;
    dt->builder = d->b;
    Graph *const graph = (Graph *)d->b;
    Bail *const exit = compile_disarm(graph);
    const ContextSaved saved = context_enter(state, CONTEXT_unrecorded);
    Status status = scope_push(state, false);
    if (status == ST_OK) {
        context_enter_scope(state, CONTEXT_parts);
        tracer_begin(state, &dt->tracer);
        status = run_on_handles(dt, d);
        scope_pop(state);
    }
    context_leave(&saved);
    compile_arm(graph, exit);
    for (int i = 0; i < dt->n; i++) tensor_release(dt->at[i].tensor);
    d->eager_only = dt->eager_only;
    mem_free(dt);
    return status;
}

static Status run_rule(Deriv *d) {
    DerivFn *const own = op_dynamic(d->row)->rule;
    return own ? own(d) : d->b == eager_builder() ? run_eagerly(d) : run_emitting(d);
}

void custom_derivative_start(void) { deriv_made = run_rule; }
