/* func_grad.c: a level with a tape of its own: what an op does there, and runs of bodies.
 *
 *   sn_func_grad(f, x)      level, x's handle is a leaf of its tape
 *     y = f(handle)         autograd's kernel records a node over handles, and passes the op on (key vmap_back)
 *     tape_run(y -> leaf)   rules call ops on handles, which are not recorded here: quiet
 *
 * A jacobian's backward runs at a level of examples inside: one for each element of the output. */
#include "runtime/transform/func_grad.h"

#include "runtime/autograd/tape.h"
#include "runtime/base/alloc.h"
#include "runtime/autograd/query.h"
#include "runtime/transform/level_flow.h"
#include "runtime/transform/vmap.h"

/* an op --------------------------------------------------------------------------------------- */

/* Below the tape: the op on what the handles stand for. */
static Status pass_below(OpCall *call) {
    sn_tensor *outs[MAX_LIST];
    const Level *const level = state_get()->level;
    int n;
    TRY(level_run_inner(call, level, outs, &n));
    return level_wrap_results(call, level, outs, n);
}

/* Tensors from outside are constants here, whatever history they have there. */
static Val *as_handle(const Level *level, Val *val) {
    sn_tensor *const t = level_inner(level, val) ? tensor_of(val) : level_input(level, tensor_of(val));
    return t ? &t->base : NULL;
}

static Status record(OpCall *call, const Level *level) {
    __attribute__((cleanup(level_args_end))) LevelArgs a = {0};
    TRY(level_args_map(&a, call, level, as_handle));
    OpCall own = *call;
    own.args = a.args;
    own.out_args = call->out_args ? a.out_args : NULL;
    own.keys = KEY_BIT(vmap_back);
    own.key = KEY_autograd;
    const bool flow = call->row->flags & OPF_flow;
    const Status status = flow ? grad_flow(&own) : dispatch_entry(call->row, KEY_autograd)(&own);
    call->n_outs = own.n_outs;
    return status;
}

Status grad_op(OpCall *call, const Level *level) {
    sn_state *const state = state_get();
    const uint32_t depth = state->n_scopes;
    if (call->form == FORM_inplace && call->row->kind == KIND_view)
        return error_raise(ST_UNSUPPORTED,
                           "%s: not inside of sn_func_grad and its like; the functional form gives a view",
                           op_form_name(call->row, call->form));
    TRY(level_check_targets(call, level));
    TRY(scope_push(state, false));
    const Status status = level->quiet ? pass_below(call) : record(call, level);
    scope_pop_passing(state, depth, call->outs, status == ST_OK ? call->n_outs : 0);
    return status;
}

void grad_level_start(void) { dispatch_fallback(KEY_vmap_back, pass_below); }

/* a run of a body ----------------------------------------------------------------------------- */

typedef struct FuncRun {
    const FuncSpec *spec;
    Level level;
    Arg *in;
    sn_tensor **xs, **ys, **found; /* handles: of arguments; of outputs; gradients by argument */
    void *memory;
} FuncRun;

static void run_end(FuncRun *r) { mem_free(r->memory); }

static Status run_begin(FuncRun *r) {
    const FuncSpec *const spec = r->spec;
    const size_t n = (size_t)(2 * spec->n_args + spec->n_outs);
    r->memory = mem_zero(sizeof *r->in * (size_t)(spec->n_in + 1) + sizeof *r->xs * (n + 1));
    if (!r->memory) return ST_MEMORY;
    r->in = r->memory;
    r->xs = (sn_tensor **)(r->in + spec->n_in + 1);
    r->found = r->xs + spec->n_args;
    r->ys = r->found + spec->n_args;
    return ST_OK;
}

Status func_check_argument(const FuncSpec *spec, int k) {
    const DType dtype = spec->in[spec->argnums[k]]->base.meta->dtype;
    if (dtype_is_float(dtype)) return ST_OK;
    return error_raise(ST_DTYPE, "%s: argument %lld is %s; gradients need a float dtype", spec->what,
                       (long long)spec->argnums[k], dtype_name(dtype));
}

static Status wrap_args(FuncRun *r) {
    const FuncSpec *const spec = r->spec;
    for (int i = 0; i < spec->n_in; i++) r->in[i] = arg_tensor_opt(spec->in[i]);
    for (int k = 0; k < spec->n_args; k++) {
        sn_tensor *const x = spec->in[spec->argnums[k]];
        TRY(func_check_argument(spec, k));
        sn_tensor *const handle = r->xs[k] = level_input(&r->level, x);
        if (!handle) return error_pending() ? error_pending() : ST_MEMORY;
        TRY(tape_requires_grad(handle, true));
        r->in[spec->argnums[k]] = A_VAL(&handle->base);
    }
    return ST_OK;
}

static Status call_body(FuncRun *r) {
    const FuncSpec *const spec = r->spec;
    sn_frame frame = {.what = spec->what,
                      .closure = spec->closure,
                      .in = r->in,
                      .n_in = spec->n_in,
                      .out = r->ys,
                      .n_out = spec->n_outs};
    TRY(wrap_args(r));
    return level_run(state_get(), &r->level, &frame, spec->body);
}

/* Only what depends on an argument leads there. */
static bool leads_back(const FuncRun *r, sn_tensor *y) { return level_inner(&r->level, &y->base) && tape_tracks(y); }

static Status gradients_at(FuncRun *r, sn_tensor *const *roots, sn_tensor *const *grads, int n, uint32_t flags) {
    const FuncSpec *const spec = r->spec;
    for (int k = 0; k < spec->n_args; k++) r->found[k] = NULL;
    if (!n) return ST_OK;
    return tape_run(&(TapeRun){.roots = roots,
                               .grads = grads,
                               .n_roots = n,
                               .xs = r->xs,
                               .n_xs = spec->n_args,
                               .out = r->found,
                               .flags = TAPE_level | TAPE_allow_unused | flags});
}

/* A gradient that nothing leads to is zeros. */
static sn_tensor *grad_of(const FuncRun *r, int k) {
    sn_tensor *const x = level_outside(&r->level, r->xs[k]);
    if (r->found[k]) return level_outside(&r->level, r->found[k]);
    return tensor_of(E(eager_builder(), zeros_like, V(&x->base), A_NONE, A_NONE, A_NONE, A_NONE, A_NONE));
}

static Status check_float(const FuncSpec *spec, int i, const sn_tensor *y) {
    if (dtype_is_float(y->base.meta->dtype)) return ST_OK;
    return error_raise(ST_DTYPE, "%s: output %d is %s; only floats have gradients", spec->what, i,
                       dtype_name(y->base.meta->dtype));
}

/* vjp ----------------------------------------------------------------------------------------- */

static Status check_cotangent(const FuncSpec *spec, int i, const sn_tensor *y, const sn_tensor *cotangent) {
    const Meta *const a = y->base.meta, *const b = cotangent->base.meta;
    if (meta_same_sizes(a, b) && a->dtype == b->dtype) return ST_OK;
    Text text = {0};
    meta_print(NULL, &text, b);
    text_puts(&text, ", the output ");
    meta_print(NULL, &text, a);
    const Status status = error_raise(ST_SHAPE, "%s: the cotangent of output %d is %s", spec->what, i, text_str(&text));
    text_free(&text);
    return status;
}

static Status check_scalar(const FuncSpec *spec, sn_tensor *y) {
    const int64_t rank = query_ask(QUERY_rank, y, 0);
    if (!rank) return ST_OK;
    Text text = {0};
    meta_print(NULL, &text, y->base.meta);
    const Status status = error_raise(ST_SHAPE,
                                      "%s: the body's value, output 0, is %s; a gradient is that of one 0-dim "
                                      "number",
                                      spec->what, text_str(&text));
    text_free(&text);
    return status;
}

/* What output i's gradient starts from; NULL, without an error: zeros. */
static Status start_of(FuncRun *r, int i, sn_tensor **grad) {
    const FuncSpec *const spec = r->spec;
    sn_tensor *const y = r->ys[i];
    TRY(check_float(spec, i, y));
    if (!spec->cotangents) {
        TRY(check_scalar(spec, y));
        *grad = tensor_of(E(eager_builder(), ones_like, V(&y->base), A_NONE, A_NONE, A_NONE, A_NONE, A_NONE));
        return *grad ? ST_OK : error_pending();
    }
    *grad = spec->cotangents[i];
    return *grad ? check_cotangent(spec, i, y, *grad) : ST_OK;
}

static Status run_back(FuncRun *r) {
    const FuncSpec *const spec = r->spec;
    sn_tensor **const buffers = mem_zero(sizeof *buffers * (size_t)(2 * spec->n_ys + 1)),
                      **const grads = buffers + spec->n_ys;
    Status status = buffers ? ST_OK : ST_MEMORY;
    int n = 0;
    for (int i = 0; i < spec->n_ys && status == ST_OK; i++) {
        sn_tensor *grad = NULL;
        status = start_of(r, i, &grad);
        if (status != ST_OK || !grad || !leads_back(r, r->ys[i])) continue;
        buffers[n] = r->ys[i];
        grads[n++] = grad;
    }
    if (status == ST_OK) status = gradients_at(r, buffers, grads, n, 0);
    mem_free(buffers);
    return status;
}

/* Enters the level again, for its backward. */
static Status vjp_at(FuncRun *r) {
    sn_state *const state = state_get();
    const uint32_t depth = state->n_scopes;
    TRY(scope_push(state, false));
    level_enter(state, &r->level);
    r->level.quiet = true;
    const Status status = run_back(r);
    scope_pop_passing(state, depth, r->found, status == ST_OK ? r->spec->n_args : 0);
    return status;
}

static Status unwrap_outs(const FuncRun *r) {
    for (int i = 0; i < r->spec->n_outs; i++) {
        r->spec->outs[i] = level_outside(&r->level, r->ys[i]);
        TRY(level_adopt(r->spec->outs[i]));
    }
    return ST_OK;
}

static Status vjp(FuncRun *r) {
    TRY(call_body(r));
    TRY(vjp_at(r));
    for (int k = 0; k < r->spec->n_args; k++) {
        if (!(r->spec->grads[k] = grad_of(r, k))) return error_pending();
        TRY(level_adopt(r->spec->grads[k]));
    }
    return unwrap_outs(r);
}

/* Runs it in a scope of its own, from which results pass. */
static Status in_scope(const FuncSpec *spec, int n_grads, Status (*run)(FuncRun *)) {
    sn_state *const state = state_get();
    const uint32_t depth = state->n_scopes;
    __attribute__((cleanup(run_end))) FuncRun r = {.spec = spec, .level = level_new(state, LEVEL_grad)};
    const int n = n_grads + spec->n_outs;
    sn_tensor **const results = mem_zero(sizeof *results * (size_t)(n + 1));
    Status status = results ? run_begin(&r) : ST_MEMORY;
    if (status == ST_OK) status = scope_push(state, false);
    if (status == ST_OK) {
        status = run(&r);
        if (status == ST_OK) {
            memcpy(results, spec->grads, sizeof *results * (size_t)n_grads);
            memcpy(results + n_grads, spec->outs, sizeof *results * (size_t)spec->n_outs);
        }
        scope_pop_passing(state, depth, results, status == ST_OK ? n : 0);
    }
    mem_free(results);
    return status;
}

Status func_vjp(const FuncSpec *spec) { return in_scope(spec, spec->n_args, vjp); }

/* jacobians ----------------------------------------------------------------------------------- */

int64_t func_count(sn_tensor *t) {
    int64_t n = 1;
    for (int d = 0; d < t->base.meta->rank; d++) n *= query_ask(QUERY_size, t, d);
    return n;
}

static Status check_rank(const FuncSpec *spec, int rank) {
    return rank <= MAX_RANK ? ST_OK : error_raise(ST_SHAPE, "%s: %d dims, of at most %d", spec->what, rank, MAX_RANK);
}

sn_tensor *func_basis(const FuncSpec *spec, const sn_tensor *t, int64_t n) {
    int64_t sizes[MAX_RANK + 1] = {n};
    const Meta *const meta = t->base.meta;
    if (check_rank(spec, meta->rank + 1) != ST_OK) return NULL;
    memcpy(sizes + 1, meta->sizes, sizeof *sizes * (size_t)meta->rank);
    Val *const eye = E(eager_builder(), eye, I(n), A_INT(meta->dtype), A_NONE, A_INT(meta->device), A_NONE);
    return eye ? tensor_of(E(eager_builder(), reshape, V(eye), A_INTS(sizes, meta->rank + 1))) : NULL;
}

/* The sizes of y, then of x. */
static Status both_sizes(const FuncSpec *spec, const Meta *y, const Meta *x, int64_t *sizes) {
    TRY(check_rank(spec, y->rank + x->rank));
    memcpy(sizes, y->sizes, sizeof *sizes * (size_t)y->rank);
    memcpy(sizes + y->rank, x->sizes, sizeof *sizes * (size_t)x->rank);
    return ST_OK;
}

sn_tensor *func_jacobian_shape(const FuncSpec *spec, sn_tensor *all, const Meta *y, const Meta *x) {
    int64_t sizes[MAX_RANK];
    if (both_sizes(spec, y, x, sizes) != ST_OK) return NULL;
    return tensor_of(E(eager_builder(), reshape, V(&all->base), A_INTS(sizes, y->rank + x->rank)));
}

/* The gradients for all elements of y, each one an example, a row each. */
static Status all_rows(FuncRun *r, sn_tensor *y, int64_t n) {
    sn_state *const state = state_get();
    Level examples = level_new(state, LEVEL_vmap);
    examples.size = n;
    sn_tensor *const basis = func_basis(r->spec, y, n), *const grad = basis ? tensor_batched(basis, examples.id) : NULL;
    if (!grad) return error_pending();
    level_enter(state, &examples);
    Status status = gradients_at(r, &y, &grad, 1, TAPE_retain);
    level_leave(state, &examples);
    for (int k = 0; k < r->spec->n_args && status == ST_OK; k++) {
        sn_tensor *const found = r->found[k];
        if (!found) continue;
        sn_tensor *const inner = level_inner(&examples, &found->base);
        r->found[k] = inner ? inner : tensor_of(vmap_repeat(&examples, &found->base));
        if (!r->found[k]) status = error_pending();
    }
    return status;
}

static sn_tensor *zeros_for(const FuncSpec *spec, const Meta *y, const Meta *x) {
    int64_t sizes[MAX_RANK];
    if (both_sizes(spec, y, x, sizes) != ST_OK) return NULL;
    return tensor_of(
        E(eager_builder(), zeros, A_INTS(sizes, y->rank + x->rank), A_INT(x->dtype), A_NONE, A_INT(x->device), A_NONE));
}

static Status rows_of(FuncRun *r, int i) {
    const FuncSpec *const spec = r->spec;
    sn_tensor *const y = r->ys[i];
    TRY(check_float(spec, i, y));
    for (int k = 0; k < spec->n_args; k++) r->found[k] = NULL;
    if (leads_back(r, y)) TRY(all_rows(r, y, func_count(y)));
    for (int k = 0; k < spec->n_args; k++) {
        sn_tensor **const out = &spec->grads[i * spec->n_args + k];
        const Meta *const x = r->xs[k]->base.meta;
        *out = r->found[k] ? func_jacobian_shape(spec, r->found[k], y->base.meta, x) : zeros_for(spec, y->base.meta, x);
        if (!*out) return error_pending();
        *out = level_outside(&r->level, *out);
        TRY(level_adopt(*out));
    }
    return ST_OK;
}

static Status jacobian(FuncRun *r) {
    sn_state *const state = state_get();
    TRY(call_body(r));
    const uint32_t depth = state->n_scopes;
    const int n = r->spec->n_outs * r->spec->n_args;
    TRY(scope_push(state, false));
    level_enter(state, &r->level);
    r->level.quiet = true;
    Status status = ST_OK;
    for (int i = 0; i < r->spec->n_outs && status == ST_OK; i++) status = rows_of(r, i);
    scope_pop_passing(state, depth, r->spec->grads, status == ST_OK ? n : 0);
    return status == ST_OK ? unwrap_outs(r) : status;
}

Status func_jacobian(const FuncSpec *spec) { return in_scope(spec, spec->n_outs * spec->n_args, jacobian); }
