/* body_trace.c: see body_trace.h. A handle is a tensor without data, known by its address; any other tensor that an op
 * names is one that the body closes over. */
#include "runtime/capture/flow/body_trace.h"

#include "ir/alias.h"
#include "runtime/base/log.h"
#include "runtime/capture/record/capture.h"
#include "runtime/capture/record/segment.h"
#include "runtime/capture/record/symbols.h"
#include "runtime/core/breaks.h"
#include "runtime/core/context_enter.h"
#include "runtime/core/custom_op.h"

typedef struct BodyTracer {
    Tracer tracer; /* first */
    FlowBody *body;
    Map values;               /* tensor -> GVal */
    VEC(sn_tensor *) handles; /* retained, so that no address comes twice */
} BodyTracer;

static GVal *traced_value(const BodyTracer *bt, const sn_tensor *t) {
    return map_get(&bt->values, (uint64_t)(uintptr_t)t);
}

static Status know_value(BodyTracer *bt, sn_tensor *t, GVal *value) {
    return map_set(&bt->values, (uint64_t)(uintptr_t)t, value) ? ST_OK : ST_MEMORY;
}

/* A handle for a value, owned by the innermost scope; NULL raises. */
static sn_tensor *traced_handle(BodyTracer *bt, GVal *value) {
    const Meta *const meta = value->base.meta;
    const Meta *const plain =
        meta_intern(meta->dtype, meta->device, meta->sizes, meta->strides, meta->rank, meta->wrapped);
    sn_tensor *const t = plain ? tensor_without_data(plain) : NULL;
    if (!t || !VEC_GROW(bt->body->arena, &bt->handles)) return NULL;
    bt->handles.at[bt->handles.n++] = tensor_retained(t);
    return know_value(bt, t, value) == ST_OK ? t : NULL;
}

/* The graph outlives layouts that nobody else holds. */
static GVal *traced_input(const FlowBody *body, const char *name, const Meta *meta) {
    Meta *const own = !name ? NULL
                            : meta_new(body->arena, body->graph->env, meta->dtype, meta->device, meta->sizes,
                                       meta->strides, meta->rank);
    if (!own) return NULL;
    own->wrapped = meta->wrapped;
    return graph_input(body->graph, name, own);
}

/* What the body closes over becomes an input at its first use. */
static Status value_for(BodyTracer *bt, sn_tensor *t, GVal **out) {
    FlowBody *const body = bt->body;
    if ((*out = traced_value(bt, t))) return ST_OK;
    TRY(tensor_valid(t, body->op));
    const char *const name = arena_printf(body->arena, "closed%d", body->closed.n);
    if (!VEC_GROW(body->arena, &body->closed) || !(*out = traced_input(body, name, t->base.meta))) return ST_MEMORY;
    body->closed.at[body->closed.n++] = tensor_retained(t);
    return know_value(bt, t, *out);
}

static Status traced_arg(BodyTracer *bt, Arg *arg) {
    GVal *value = NULL;
    if (arg->kind == ARG_tensor && arg->val) {
        TRY(value_for(bt, tensor_of(arg->val), &value));
        arg->val = &value->base;
    }
    if (arg->kind != ARG_tensors) return ST_OK;
    Val **const vals = ARENA_ARRAY(bt->body->arena, Val *, arg->n + 1);
    if (!vals) return ST_MEMORY;
    for (int i = 0; i < arg->n; i++) {
        if (!arg->vals[i]) continue;
        TRY(value_for(bt, tensor_of(arg->vals[i]), &value));
        vals[i] = &value->base;
    }
    arg->vals = vals;
    return ST_OK;
}

/* The value whose memory it is in the end. */
static const GVal *memory_root(const GVal *value) {
    for (const GVal *of; (of = value_memory(value));) value = of;
    return value;
}

/* Memory from outside is not written [semantics T2]. */
static Status check_written(const BodyTracer *bt, const OpCall *call, const Val *val) {
    const GVal *const root = memory_root(gval((Val *)(uintptr_t)val));
    if (root->def) return ST_OK;
    const FlowBody *const body = bt->body;
    const bool closed = root->index >= body->n_in;
    return error_raise(ST_ARGUMENT, "%s: %s writes into %s %d (by %s), which is not its own", body->op, body->what,
                       closed ? "closed over tensor" : "its input", closed ? root->index - body->n_in : root->index,
                       op_form_name(call->row, call->form));
}

static Reason body_refusal(const OpCall *call) {
    const OpRow *const row = call->row;
    if (!row->returns_list && capture_row_refusal(row)) return capture_row_refusal(row);
    if (row->flags & OPF_ordered) return BREAK_REASON(flow_ordered);
    if (call->keys & KEYS_UNCAPTURED) return BREAK_REASON(own_key);
    return op_dynamic(row) ? BREAK_REASON(flow_user_op) : NULL;
}

static uint8_t body_modes(void) {
    const sn_grad_mode mode = state_get()->grad_mode;
    return mode == SN_GRAD_OFF ? NODE_no_grad : mode == SN_INFERENCE ? NODE_inference : 0;
}

static Status set_results(BodyTracer *bt, OpCall *call, Node *node) {
    call->n_outs = call->form == FORM_functional ? node->n_outs : call->row->n_out;
    for (int i = 0; i < call->n_outs; i++) {
        if (call->form == FORM_functional)
            call->outs[i] = traced_handle(bt, &node->outs[i]);
        else
            call->outs[i] = call_written(call, i);
        if (!call->outs[i]) return ST_MEMORY;
    }
    return ST_OK;
}

static Status trace_op(Tracer *self, OpCall *call) {
    BodyTracer *const bt = (BodyTracer *)self;
    FlowBody *const body = bt->body;
    const OpRow *const row = call->row;
    TRY(error_pending());
    const Reason refusal = body_refusal(call);
    if (refusal) return error_raise(ST_UNSUPPORTED, "%s: %s", op_form_name(row, call->form), reason_text(refusal));
    Arg args[MAX_ARGS + MAX_OUTS];
    TRY(symbols_traced_args(call, args));
    for (int i = 0; i < row->n_params; i++) TRY(traced_arg(bt, &args[i]));
    const bool is_out = call->form == FORM_out;
    for (int i = 0; is_out && i < row->n_out; i++) {
        args[row->n_params + i] = A_VAL(&call->out_args[i]->base);
        TRY(traced_arg(bt, &args[row->n_params + i]));
        TRY(check_written(bt, call, args[row->n_params + i].val));
    }
    if (call->form == FORM_inplace) TRY(check_written(bt, call, args[0].val));
    body->graph->modes = body_modes();
    body->graph->random = body->graph->n_random;
    body->graph->n_random += (row->flags & OPF_random) != 0;
    Node *const node = graph_append(body->graph, row, call->form, args);
    if (!node || !VEC_GROW(body->arena, &body->sites)) return error_pending() ? error_pending() : ST_MEMORY;
    body->sites.at[body->sites.n++] = state_get()->site;
    return set_results(bt, call, node);
}

static const TracerClass body_class = {
    .follow = tracer_follows_none, .op = trace_op, .symbolic = true, .refuses = true};

/* Running the body once ------------------------------------------------------------------------- */

static Status run_on_handles(BodyTracer *bt, const Meta *const *params) {
    FlowBody *const body = bt->body;
    Arg *const in = ARENA_ARRAY(body->arena, Arg, body->n_in + 1);
    sn_tensor **const outs = ARENA_ARRAY(body->arena, sn_tensor *, body->n_out + 1);
    if (!in || !outs) return ST_MEMORY;
    for (int i = 0; i < body->n_in; i++) {
        const char *const name = arena_printf(body->arena, "x%d", i);
        GVal *const value = traced_input(body, name, params[i]);
        sn_tensor *const t = value ? traced_handle(bt, value) : NULL;
        if (!t) return ST_MEMORY;
        in[i] = A_VAL(&t->base);
    }
    sn_frame frame = {
        .what = body->what, .closure = body->closure, .in = in, .n_in = body->n_in, .out = outs, .n_out = body->n_out};
    TRY(frame_run(&frame, body->run));
    for (int i = 0; i < body->n_out; i++) {
        GVal *value = NULL;
        TRY(value_for(bt, outs[i], &value));
        graph_output(body->graph, value);
    }
    graph_number(body->graph);
    return ST_OK;
}

static void body_tracer_end(BodyTracer *bt) {
    for (int i = 0; i < bt->handles.n; i++) tensor_release(bt->handles.at[i]);
    map_free(&bt->values);
}

static Status run_traced(BodyTracer *bt, const Meta *const *params) {
    sn_state *const state = state_get();
    const uint64_t seed = state->seed, sequence = state->sequence;
    bt->tracer.around = tracer_of_call();
    /* a level's handle is a tensor like others: one example's, or what it stands for */
    const ContextSaved saved = context_enter(state, CONTEXT_segment);
    Status status = scope_push(state, false);
    if (status == ST_OK) {
        const uint32_t depth = state->n_scopes - 1;
        tracer_begin(state, &bt->tracer);
        status = run_on_handles(bt, params);
        if (status == ST_OK && bt->tracer.took) status = error_raise(ST_UNSUPPORTED, "it takes an error");
        scope_pop_to(state, depth); /* and the keys and modes as they were */
    }
    state->seed = seed, state->sequence = sequence;
    context_leave(&saved);
    return status;
}

/* What no graph can say is a reason, anything else the call's error. */
static Status error_to_reason(FlowBody *body, Status status) {
    if (status != ST_UNSUPPORTED) return status;
    const char *const message = error_slot()->message;
    body->reason = reason_from(arena_strdup(body->arena, message ? message : ""));
    error_clear();
    body->graph = NULL;
    LOG(graph_breaks, INFO, "%s: %s runs eagerly: %s", body->op, body->what,
        body->reason ? reason_text(body->reason) : "");
    return body->reason ? ST_OK : ST_MEMORY;
}

/* Whoever sees each op as it runs sees those of bodies, once. */
static Reason state_refusal(const sn_state *state) {
    if (state->autocast) return BREAK_REASON(flow_autocast);
    if (state->modes || state->api_modes) return BREAK_REASON(user_mode);
    return state->include & KEY_BIT(anomaly) ? BREAK_REASON(anomaly) : NULL;
}

Status body_trace(FlowBody *body, const Meta *const *params) {
    if (!(body->arena = arena_new())) return ST_MEMORY;
    if ((body->reason = state_refusal(state_get()))) return ST_OK;
    if (!(body->graph = graph_new(body->arena, "body"))) return ST_MEMORY;
    /* Not on the stack: where a jump leaves the body, the contexts of callbacks in it still name their tracer. */
    BodyTracer *const bt = ARENA_NEW(body->arena, BodyTracer);
    if (!bt) return ST_MEMORY;
    *bt = (BodyTracer){.tracer = {.is = &body_class}, .body = body};
    const Status status = run_traced(bt, params);
    body_tracer_end(bt);
    return status == ST_OK ? ST_OK : error_to_reason(body, status);
}

void body_trace_free(FlowBody *body) {
    flow_code_leave(body);
    for (int i = 0; i < body->closed.n; i++) tensor_release(body->closed.at[i]);
    arena_free(body->arena);
    memset(&body->closed, 0, sizeof body->closed);
    memset(&body->sites, 0, sizeof body->sites);
    body->arena = NULL;
    body->graph = NULL;
    body->reason = NULL;
}
