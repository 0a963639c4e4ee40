/* training.c: see training.h. */
#include "runtime/training.h"

#include "runtime/base/alloc.h"
#include "runtime/graph_run.h"
#include "runtime/tape.h"

struct Training {
    Executable *backward;
    const Partition *partition;
    Graph *joint;
    Plan *forward_plan, *backward_plan; /* in the variant's arena, for dumps */
    int n_user, n_saved, n_grads;
    int n_forward;           /* user outputs, then wholes that some of them view */
    bool *out_tracked;       /* by user output: carries a gradient */
    const Meta **grad_metas; /* by output gradient: layout that the backward was compiled for */
    bool *want, *written;    /* by graph input */
    int n_inputs, n_symbols, n_floats;
    Arena *text_arena;
    Graph *eager; /* the captured graph, to run again */
};

/* Which values carry gradients
 * --------------------------------------------------------------------------------- */

typedef struct Tracking {
    bool *tracked; /* by value id */
    bool any;
} Tracking;

static void look(void *context, GVal **slot) {
    Tracking *const t = context;
    t->any |= t->tracked[(*slot)->id];
}

static bool *track(Graph *graph, const bool *want) {
    graph_number(graph);
    Tracking t = {.tracked = ARENA_ARRAY(graph->arena, bool, graph->n_vals)};
    if (!t.tracked) return NULL;
    for (int i = 0; i < graph->inputs.n; i++) t.tracked[graph->inputs.at[i]->id] = want[i];
    for (Node *node = graph->first; node; node = node->next) {
        t.any = false;
        node_each_input(node, look, &t);
        const bool stops = node->modes & (NODE_no_grad | NODE_inference) ||
                           node->row->flags & OPF_nodiff || node->row->id == OP_detach ||
                           node->row->id == OP_gradients;
        bool *const self = node->form == FORM_inplace && node->args[0].val
                               ? &t.tracked[gval(node->args[0].val)->id]
                               : NULL;
        const bool carries = (t.any && !stops) || (self && *self);
        for (int i = 0; i < node->n_outs; i++)
            t.tracked[node->outs[i].id] = carries && dtype_is_float(node->outs[i].base.meta->dtype);
        if (self && carries) *self = true;
    }
    return t.tracked;
}

static bool *wants(const Graph *graph, const GraphInput *inputs, const Trace *trace) {
    bool *const want = ARENA_ARRAY(graph->arena, bool, graph->inputs.n);
    for (int i = 0; want && i < graph->inputs.n; i++)
        want[i] = trace->inputs.at[inputs[i].touched].requires_grad;
    return want;
}

Status training_wanted(Variant *v, Graph *graph, const Trace *trace, bool *wanted) {
    *wanted = false;
    bool any = false;
    for (int i = 0; i < trace->inputs.n; i++) any |= trace->inputs.at[i].requires_grad;
    if (!any) return ST_OK;
    const bool *const tracked = track(graph, wants(graph, v->graph_inputs, trace));
    v->used_up = ARENA_ARRAY(v->arena, const OpRow *, graph->outputs.n);
    if (!tracked || !v->used_up) return ST_MEMORY;
    const char *const why = training_refusal(graph, tracked, trace, v->graph_inputs, v->used_up);
    if (why) return error_raise(ST_UNSUPPORTED, "%s", why);
    for (int i = 0; i < graph->outputs.n; i++)
        *wanted |= tracked[graph->outputs.at[i].value->id] && !trace->gradients;
    return ST_OK;
}

/* Compiling
 * ----------------------------------------------------------------------------------------------------
 */

typedef struct Split {
    Variant *variant;
    Graph *graph;
    Training *training;
    Graph *joint;
} Split;

/* Writes of memory that carries no gradient are fine: expanding then needs what was there before. */
static Status note_writes(Training *t, const Graph *graph) {
    t->written = ARENA_ARRAY(graph->arena, bool, graph->inputs.n);
    if (!t->written) return ST_MEMORY;
    for (int i = 0; i < graph->writes.n; i++) {
        const int input = graph->writes.at[i].input->index;
        t->written[input] = true;
        if (t->want[input])
            return error_raise(ST_UNSUPPORTED, "a write to an input that wants a gradient");
    }
    return ST_OK;
}

static Status split_graphs(void *context) {
    Split *const s = context;
    Training *const t = s->training;
    const bool *const tracked = track(s->graph, t->want);
    t->n_user = s->graph->outputs.n;
    t->out_tracked = ARENA_ARRAY(s->graph->arena, bool, t->n_user);
    for (int i = 0; i < t->n_user; i++)
        t->out_tracked[i] = tracked[s->graph->outputs.at[i].value->id];
    const PassOptions options = compile_pass_options(NULL, &s->variant->info);
    TRY(passes_run(s->graph, "functionalize", &options));
    TRY(note_writes(t, s->graph));
    t->n_forward = s->graph->outputs.n;
    bool *const defined = ARENA_ARRAY(s->graph->arena, bool, t->n_forward + 1);
    if (!defined) return ST_MEMORY;
    memcpy(defined, t->out_tracked, (size_t)t->n_user * sizeof *defined);
    const JointSpec spec = {.want = t->want, .grad_defined = defined};
    const int64_t start = clock_ns();
    Graph *const joint = joint_build(s->graph, &spec);
    compile_note_time(&s->variant->info, "joint graph", clock_ns() - start);
    s->variant->info.passes_ns += clock_ns() - start;
    if (!joint) return error_pending() ? error_pending() : ST_UNSUPPORTED;
    joint->bail = s->graph->bail;
    s->joint = joint;
    return passes_run(joint, "decompose,fold,cse,dce,partition," PLAN_PASSES, &options);
}

static Status keep_layouts(Training *t, const Graph *backward) {
    t->n_saved = t->partition->n_saved;
    t->n_grads = 0;
    t->grad_metas = ARENA_ARRAY(backward->arena, const Meta *, t->n_user);
    for (int i = 0; i < t->n_user; i++)
        if (t->out_tracked[i])
            t->grad_metas[i] = backward->inputs.at[t->n_saved + t->n_grads++]->base.meta;
    if (backward->inputs.n != t->n_saved + t->n_grads)
        return error_raise(ST_INTERNAL,
                           "a backward graph of %d inputs for %d saved values and %d gradients",
                           backward->inputs.n, t->n_saved, t->n_grads);
    return ST_OK;
}

static Status parse_again(Training *t, const char *text) {
    t->text_arena = arena_new();
    if (!t->text_arena) return ST_MEMORY;
    const Status status = graph_parse(t->text_arena, text, strlen(text), &t->eager);
    if (status == ST_OK) {
        graph_number(t->eager);
        return ST_OK;
    }
    arena_free(t->text_arena); /* the variant does not own t yet */
    t->text_arena = NULL;
    return status;
}

static Status settle(Variant *v, Status status) {
    if (status == ST_OK || v->info.failure != BAIL_none) return status;
    v->info.failure = BAIL_unsupported;
    memcpy(v->info.reason, error_slot()->message, sizeof v->info.reason - 1);
    return status;
}

Status training_compile(Variant *v, Graph *graph, const Trace *trace) {
    Training *const t = ARENA_NEW(v->arena, Training);
    if (!t) return ST_MEMORY;
    t->want = wants(graph, v->graph_inputs, trace);
    t->n_inputs = graph->inputs.n;
    t->n_floats = v->n_runtime_floats;
    Split split = {.variant = v, .graph = graph, .training = t};
    TRY(settle(v, parse_again(t, v->text)));
    v->training = t;
    TRY(compile_guarded(graph, split_graphs, &split, &v->info));
    t->joint = split.joint;
    t->partition = t->joint->parts;
    t->forward_plan = t->partition->forward->plan;
    t->backward_plan = t->partition->backward->plan;
    t->n_symbols = sym_free_count(graph->env);
    TRY(settle(v, keep_layouts(t, t->partition->backward)));
    TRY(settle(v, compile_plan(t->forward_plan, &v->info, &v->run)));
    return settle(v, compile_plan(t->backward_plan, &v->info, &t->backward));
}

bool training_stage(const Variant *v, const char *stage, Text *text) {
    const Training *const t = v->training;
    if (!strcmp(stage, "joint"))
        graph_print(t->joint, text);
    else if (!strcmp(stage, "forward"))
        graph_print(t->partition->forward, text);
    else if (!strcmp(stage, "backward"))
        graph_print(t->partition->backward, text);
    else {
        Text plan = {0};
        const bool known = compile_plan_text(t->forward_plan, stage, &plan);
        if (known) {
            text_printf(text, "# forward\n%s# backward\n", text_str(&plan));
            compile_plan_text(t->backward_plan, stage, text);
        }
        text_free(&plan);
        return known;
    }
    return true;
}

int training_saved(const Training *t) { return t ? t->n_saved : 0; }

bool training_saved_at(const Variant *v, int i, SavedValue *out) {
    const Training *const t = v->training;
    if (!t || !t->backward || i >= t->n_saved) return false;
    const int from = t->partition->saved_inputs[i];
    int output = t->n_forward;
    for (int k = 0; k < i; k++) output += t->partition->saved_inputs[k] < 0;
    const Graph *const forward = t->partition->forward;
    const GVal *const value =
        from >= 0 ? forward->inputs.at[from] : forward->outputs.at[output].value;
    *out = (SavedValue){.name = value->def ? NULL : value->name,
                        .op = value->def ? value->def->row : NULL,
                        .meta = value->base.meta,
                        .env = forward->env};
    return true;
}

void training_free(Training *t) {
    if (!t) return;
    executable_free(t->backward);
    arena_free(t->text_arena);
}

/* A launch's node
 * ---------------------------------------------------------------------------------------------- */

typedef struct Launch { /* context of one tape node */
    Variant *variant;   /* retained */
    TapeSaved *inputs;  /* all graph inputs, for expanding */
    TapeSaved *saved;   /* what backward reads */
    int n_inputs, n_saved;
    int64_t *symbols;
    double *floats;
} Launch;

static void launch_release(void *context) {
    Launch *const l = context;
    for (int i = 0; i < l->n_inputs; i++) sn_release(l->inputs[i].tensor);
    for (int i = 0; i < l->n_saved; i++) sn_release(l->saved[i].tensor);
    variant_free(l->variant);
    mem_free(l);
}

static const TapeSaved *launch_saved(void *context, int *n) {
    const Launch *const l = context;
    *n = l->n_saved;
    return l->saved;
}

static Status check_saved(const TapeSaved *saved, int n) {
    for (int i = 0; i < n; i++) TRY(tape_saved_check(&saved[i], "CompiledBackward"));
    return ST_OK;
}

/* The gradient in the layout that the backward was compiled for; bits do not change. */
static sn_tensor *laid_out(sn_tensor *grad, const Meta *want) {
    const Meta *const meta = grad->base.meta;
    if (meta_same_sizes(meta, want) &&
        !memcmp(meta->strides, want->strides, sizeof(int64_t) * (size_t)want->rank))
        return grad;
    const Meta *const plain =
        meta_intern(meta->dtype, meta->device, meta->sizes, want->strides, meta->rank, false);
    sn_tensor *const copy = plain ? tensor_new(plain) : NULL;
    if (!copy) return NULL;
    const Arg args[] = {A_VAL(&copy->base), A_VAL(&grad->base), A_BOOL(false)};
    sn_tensor *out;
    return dispatch(op_row(OP_copy), FORM_inplace, args, NULL, &out) == ST_OK ? out : NULL;
}

static bool is_usual(const Training *t, const TapeBackward *call) {
    if (call->create_graph) return false;
    for (int i = 0; i < t->n_user; i++)
        if (t->out_tracked[i] && !call->grad_out[i]) return false;
    for (int i = 0; i < t->n_inputs; i++)
        if (call->partial && call->partial[i]) return false;
    for (int i = 0; i < t->n_user; i++) /* symbolic layouts: only what is contiguous fits */
        for (int d = 0; t->out_tracked[i] && d < t->grad_metas[i]->rank; d++)
            if (sym_is(t->grad_metas[i]->strides[d]) && !call->grad_out[i]->base.meta->contiguous)
                return false;
    return true;
}

static Status run_compiled(const Launch *l, TapeBackward *call) {
    const Training *const t = l->variant->training;
    sn_tensor *inputs[512], *outs[512];
    if (t->n_saved + t->n_grads > COUNT_OF(inputs) || t->n_inputs > COUNT_OF(outs))
        return error_raise(ST_UNSUPPORTED, "a compiled backward of more than 512 tensors");
    TRY(check_saved(l->saved, l->n_saved));
    int n = 0;
    for (int i = 0; i < l->n_saved; i++) inputs[n++] = l->saved[i].tensor;
    for (int i = 0; i < t->n_user; i++) {
        if (!t->out_tracked[i]) continue;
        const Meta *const want = t->grad_metas[i];
        const bool symbolic = want->rank && sym_is(want->strides[0]);
        inputs[n] = symbolic || call->grad_out[i]->base.meta == want
                        ? call->grad_out[i]
                        : laid_out(call->grad_out[i], want);
        if (!inputs[n++]) return error_pending();
    }
    TRY(execute(t->backward, inputs, l->symbols, l->floats, outs));
    for (int i = 0, k = 0; i < t->n_inputs; i++) {
        sn_tensor *const grad = t->want[i] ? outs[k++] : NULL;
        call->grad_in[i] = call->needs[i] ? grad : NULL;
    }
    return ST_OK;
}

/* Gradients stop at the segment's inputs, also where one of them was made from another: each gets a
 * node of its own. */
static Status own_handle(sn_tensor *input, bool tracked, sn_tensor **out) {
    *out = input;
    if (!tracked) return ST_OK;
    const Arg args[] = {A_VAL(&input->base)};
    return dispatch(op_row(OP_alias), FORM_functional, args, NULL, out);
}

/* The captured ops again, on the tape, from the inputs; partial sums are roots of their own, so
 * they come first. */
static Status copy_of(sn_tensor *t, sn_tensor **out) {
    *out = tensor_of(E(eager_builder(), clone, V(&t->base)));
    return *out ? ST_OK : error_pending();
}

/* With the random numbers of the launch. */
static Status run_again(const Launch *l, sn_tensor **inputs, sn_tensor **outs) {
    sn_state *const state = state_get();
    const uint64_t seed = state->seed, sequence = state->sequence;
    for (int i = 0; i < l->variant->n_bindings; i++) {
        if (l->variant->bindings[i].kind == BIND_seed) state->seed = (uint64_t)l->symbols[i];
        if (l->variant->bindings[i].kind == BIND_sequence)
            state->sequence = (uint64_t)l->symbols[i];
    }
    const Training *const t = l->variant->training;
    const Status status = graph_run(t->eager, inputs, t->n_inputs, outs);
    state->seed = seed;
    state->sequence = sequence;
    return status;
}

static Status run_expanded(const Launch *l, TapeBackward *call) {
    const Training *const t = l->variant->training;
    TRY(check_saved(l->inputs, l->n_inputs));
    sn_tensor *inputs[256], *outs[256], *roots[512], *grads[512], *xs[256], *got[256];
    int n_roots = 0, n_xs = 0;
    if (t->n_inputs > 256 || t->n_user > 256)
        return error_raise(ST_UNSUPPORTED, "a compiled backward of more than 256 tensors");
    sn_state *const state = state_get();
    const sn_grad_mode mode = state->grad_mode;
    state->grad_mode = SN_GRAD_ON;
    Status ran = ST_OK;
    for (int i = 0; i < t->n_inputs && ran == ST_OK; i++)
        ran = t->written[i] ? copy_of(l->inputs[i].tensor, &inputs[i])
                            : own_handle(l->inputs[i].tensor, t->want[i], &inputs[i]);
    if (ran == ST_OK) ran = run_again(l, inputs, outs);
    state->grad_mode = mode;
    TRY(ran);
    for (int i = 0; i < t->n_inputs; i++) {
        if (!t->want[i] || !call->needs[i]) continue;
        xs[n_xs++] = inputs[i];
        if (!call->partial || !call->partial[i]) continue;
        roots[n_roots] = inputs[i];
        grads[n_roots++] = call->partial[i];
    }
    for (int i = 0; i < t->n_user; i++) {
        if (!call->grad_out[i]) continue;
        roots[n_roots] = outs[i];
        grads[n_roots++] = call->grad_out[i];
    }
    const TapeRun run = {.roots = roots,
                         .grads = grads,
                         .n_roots = n_roots,
                         .xs = xs,
                         .n_xs = n_xs,
                         .out = got,
                         .flags = TAPE_allow_unused |
                                  (call->create_graph ? TAPE_create | TAPE_retain : 0)};
    TRY(tape_run(&run));
    for (int i = 0, k = 0; i < t->n_inputs; i++)
        if (t->want[i] && call->needs[i]) call->grad_in[i] = got[k++];
    return ST_OK;
}

static Status launch_backward(void *context, TapeBackward *call) {
    const Launch *const l = context;
    return is_usual(l->variant->training, call) ? run_compiled(l, call) : run_expanded(l, call);
}

static const TapeCompiled compiled_class = {.name = "CompiledBackward",
                                            .backward = launch_backward,
                                            .release = launch_release,
                                            .saved = launch_saved};

static Launch *launch_new(Variant *v, sn_tensor *const *inputs, const int64_t *symbols,
                          const double *floats) { /* inputs: as they were before the launch */
    const Training *const t = v->training;
    const size_t n_saved = (size_t)(t->n_inputs + t->n_saved),
                 n_ints = (size_t)(v->n_bindings + t->n_floats);
    Launch *const l = mem_zero(sizeof *l + n_saved * sizeof(TapeSaved) + n_ints * sizeof(int64_t));
    if (!l) return NULL;
    l->inputs = (TapeSaved *)(l + 1);
    l->saved = l->inputs + t->n_inputs;
    l->symbols = (int64_t *)(l->saved + t->n_saved);
    l->floats = (double *)(l->symbols + v->n_bindings);
    memcpy(l->symbols, symbols, sizeof *symbols * (size_t)v->n_bindings);
    if (t->n_floats) memcpy(l->floats, floats, sizeof *floats * (size_t)t->n_floats);
    variant_retain(v);
    l->variant = v;
    for (; l->n_inputs < t->n_inputs; l->n_inputs++)
        if (tape_save(&l->inputs[l->n_inputs], inputs[l->n_inputs]) != ST_OK) goto fail;
    return l;
fail:
    launch_release(l);
    return NULL;
}

static Status save_values(Launch *l, sn_tensor *const *inputs, sn_tensor *const *outs) {
    const Training *const t = l->variant->training;
    for (int i = 0, extra = t->n_forward; i < t->n_saved; i++, l->n_saved++) {
        const int from = t->partition->saved_inputs[i];
        TRY(tape_save(&l->saved[i], from >= 0 ? inputs[from] : outs[extra++]));
    }
    return ST_OK;
}

Status training_run(Variant *v, const Trace *trace, sn_tensor *const *inputs,
                    const int64_t *symbols, const double *floats, sn_tensor **outs) {
    (void)trace;
    const Training *const t = v->training;
    sn_tensor *all[512], *tracked[256];
    if (t->n_user > 256 || t->n_forward + t->n_saved > COUNT_OF(all))
        return error_raise(ST_UNSUPPORTED, "a compiled forward of more than 512 results");
    sn_tensor *before[256];
    if (t->n_inputs > COUNT_OF(before))
        return error_raise(ST_UNSUPPORTED, "a compiled forward of more than 256 inputs");
    for (int i = 0; i < t->n_inputs; i++) {
        before[i] = inputs[i];
        if (t->written[i]) TRY(copy_of(inputs[i], &before[i]));
    }
    TRY(execute(v->run, inputs, symbols, floats, all));
    Launch *const l = launch_new(v, before, symbols, floats);
    if (!l) return error_pending();
    const Status saved = save_values(l, inputs, all);
    if (saved != ST_OK) {
        launch_release(l);
        return saved;
    }
    for (int i = 0; i < t->n_user; i++) {
        outs[i] = all[i];
        tracked[i] = t->out_tracked[i] ? all[i] : NULL;
    }
    sn_state *const state = state_get();
    const sn_grad_mode mode = state->grad_mode;
    state->grad_mode = SN_GRAD_ON; /* whether gradients flow is in the graph, not in the mode at the
                                      segment's end */
    const Status status =
        tape_add_compiled(tracked, t->n_user, inputs, t->n_inputs, &compiled_class, l);
    state->grad_mode = mode;
    return status;
}
