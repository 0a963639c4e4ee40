/* variant.c: a segment compiled for one set of guards (runtime/capture/variant/guard.c): how it is made, and its
 * launch. */
#include "runtime/capture/variant/variant.h"

#include <stdio.h>

#include "runtime/capture/record/capture.h"

#include "runtime/base/alloc.h"
#include "runtime/base/small_array.h"
#include "runtime/capture/variant/guard.h"
#include "runtime/core/background.h"
#include "runtime/core/context_enter.h"
#include "runtime/autograd/tape.h"
#include "runtime/capture/record/segment.h"
#include "runtime/capture/record/trace_graph.h"
#include "runtime/capture/record/trace_path.h"
#include "runtime/capture/record/trace_views.h"
#include "runtime/capture/variant/dynamic.h"
#include "runtime/capture/variant/header_plan.h"
#include "runtime/capture/variant/variant_views.h"
#include "runtime/core/breaks.h"
#include "runtime/core/profile.h"

static const int64_t *sizes_or_strides(const Meta *meta, int kind) {
    return kind == BIND_size ? meta->sizes : meta->strides;
}

static int64_t bound_value(const Variant *variant, const Trace *trace, int i, const int64_t *symbols) {
    const SymBinding *const b = &variant->symbols.bindings[i];
    const SymEnv *const env = variant->symbols.env;
    switch (b->kind) {
    case BIND_seed:
        return (int64_t)trace->seed;
    case BIND_sequence:
        return (int64_t)trace->sequence;
    case BIND_unused:
        return sym_hint(env, sym_free_at(env, i));
    case BIND_number:
        return header_plan_solved(b, env, trace->numbers.at[b->input], symbols);
    case BIND_size:
    case BIND_stride:
        break;
    }
    return header_plan_solved(b, env, sizes_or_strides(trace->inputs.at[b->input].meta, b->kind)[b->dim], symbols);
}

void variant_bind(const Variant *variant, const Trace *trace, int64_t *symbols) {
    int last = 0;
    for (int round = 0; round <= last; round++)
        for (int i = 0; i < variant->symbols.n_bindings; i++) {
            const SymBinding *const b = &variant->symbols.bindings[i];
            if (b->round == round) symbols[i] = bound_value(variant, trace, i, symbols);
            if (b->round > last) last = b->round;
        }
}

int variant_output_of(const Variant *variant, int value) {
    for (int i = 0; i < variant->n_outputs; i++)
        if (variant->outputs[i] == value) return i;
    return -1;
}

/* Launch -------------------------------------------------------------------------------------- */

static sn_tensor *graph_input_tensor(const GraphInput *in, const Trace *trace) {
    const TraceInput *const captured = &trace->inputs.at[in->captured];
    if (!in->base) return captured->tensor;
    return tensor_from_storage(captured->storage, in->meta, captured->offset + in->base_offset);
}

static double float_of(int64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

void variant_bind_floats(const Variant *variant, const Trace *trace, double *floats) {
    for (int k = 0; variant->attributes.n_runtime_floats && k < variant->attributes.n; k++)
        if (variant->attributes.rules[k] == NUMBER_runtime_float)
            floats[variant->attributes.at[k]] = float_of(trace->numbers.at[k]);
}

static void bind_outputs(const Variant *variant, Trace *trace, sn_tensor *const *outs) {
    for (int i = 0; i < variant->n_outputs; i++) {
        sn_tensor *const value = trace->values.at[variant->outputs[i]];
        if (outs[i] && value->placeholder && !trace_elides(trace, variant, variant->outputs[i]))
            tensor_bind(value, outs[i]);
    }
}

/* Of a file: what the mode of the call makes new tensors. */
static void finish_new(const Variant *variant, const int64_t *symbols, sn_tensor *const *outs) {
    for (int i = 0; i < variant->n_outputs; i++)
        if (outs[i] && execute_result(variant->code.run, i, symbols).kind == OUT_new) tensor_mark_inference(outs[i]);
}

/* Results are what the modes of their own ops make them, not the mode of the launch. */
static void finish_results(const Variant *variant, const int64_t *symbols, sn_tensor *const *outs) {
    if (UNLIKELY(!variant->text)) {
        if (state_get()->grad_mode == SN_INFERENCE) finish_new(variant, symbols, outs);
        return;
    }
    for (int i = 0; variant->inference && i < variant->n_outputs; i++)
        if (outs[i] && variant->inference[i]) tensor_mark_inference(outs[i]);
}

enum { FEW_RESULTS = 32 };

/* Behind the variant's results come wholes that some of these view (passes/functionalize.c), which nobody asked for.
 * All are in memory of their own. */
static Status execute_with_wholes(const Variant *variant, int n, sn_tensor *const *inputs, const int64_t *symbols,
                                  const double *floats, sn_tensor **outs) {
    sn_tensor *few[FEW_RESULTS], **const all = SMALL_ARRAY(few, n);
    if (!all) return ST_MEMORY;
    const Status status = execute(variant->code.run, inputs, symbols, floats, all);
    if (status == ST_OK) memcpy(outs, all, sizeof *outs * (size_t)variant->n_outputs);
    small_array_free(few, all);
    return status;
}

Status variant_plain_run(Variant *variant, sn_tensor *const *inputs, const int64_t *symbols, const double *floats,
                         Storage *const *given, sn_tensor **outs) {
    const int n = executable_outputs(variant->code.run);
    TRY(LIKELY(n == variant->n_outputs) ? execute_into(variant->code.run, inputs, symbols, floats, given, outs)
                                        : execute_with_wholes(variant, n, inputs, symbols, floats, outs));
    variant_count_writes(variant, inputs, outs);
    return ST_OK;
}

Status variant_execute(Variant *variant, sn_tensor *const *inputs, const int64_t *symbols, const double *floats,
                       Storage *const *given, sn_tensor **outs) {
    const ContextSaved saved = context_enter(state_get(), CONTEXT_launch);
    const Status status = variant->kind->run(variant, inputs, symbols, floats, given, outs);
    context_leave(&saved);
    if (status == ST_OK) finish_results(variant, symbols, outs);
    return status;
}

/* What is asked for later has its place on the tape among the nodes of this launch, even if it has none yet. A second
 * launch (the trace has its first one's variant) takes the first one's place, also at the call's end. */
static void keep_place(const Variant *variant, Trace *trace, sn_tensor *const *outs) {
    if (trace->capture->final && !trace->variant) return; /* nobody asks */
    const bool is_node = variant->kind->take_place != NULL;
    if (!is_node) state_get()->tape.sequence += 2 * (uint64_t)trace->ops.n + 1;
    for (int i = 0; is_node && !trace->node && i < variant->n_outputs; i++)
        if (outs[i] && outs[i]->autograd) trace->node = outs[i]->autograd->node;
    if (trace->node) tape_node_retain(trace->node);
}

static Status run_inside(Variant *variant, Trace *trace) {
    Arena *const arena = trace->capture->arena;
    sn_tensor **const inputs = ARENA_ARRAY(arena, sn_tensor *, variant->n_graph_inputs);
    sn_tensor **const outs = ARENA_ARRAY(arena, sn_tensor *, variant->n_outputs);
    double *const floats = ARENA_ARRAY(arena, double, variant->attributes.n_runtime_floats);
    int64_t *const symbols = ARENA_ARRAY(arena, int64_t, variant->symbols.n_bindings);
    if (!inputs || !outs || !floats || !symbols) return ST_MEMORY;
    variant_bind(variant, trace, symbols);
    variant_bind_floats(variant, trace, floats);
    for (int i = 0; i < variant->n_graph_inputs; i++) {
        inputs[i] = graph_input_tensor(&variant->graph_inputs[i], trace);
        if (!inputs[i]) return ST_MEMORY;
    }
    trace->tape_sequence = state_get()->tape.sequence;
    TRY(variant_execute(variant, inputs, symbols, floats, NULL, outs));
    keep_place(variant, trace, outs);
    bind_outputs(variant, trace, outs);
    return ST_OK;
}

/* The handles of outputs go once placeholders have taken their places. */
Status variant_run(Variant *variant, Trace *trace) {
    sn_state *const state = state_get();
    TRY(scope_push(state, false));
    const Status status = run_inside(variant, trace);
    scope_pop(state);
    return status;
}

Status variant_run_again(Variant *variant, Trace *trace) {
    sn_state *const state = state_get();
    const Variant *const was = trace->variant;
    TapeNode *const node = trace->node;
    const uint64_t sequence = state->tape.sequence;
    trace->node = NULL;
    state->tape.sequence = trace->tape_sequence;
    Status status = variant_run(variant, trace);
    state->tape.sequence = sequence;
    if (status == ST_OK && node && trace->node) status = variant->kind->take_place(node, was, trace->node, variant);
    if (node) tape_node_release(node);
    trace->variant = variant;
    return status == ST_OK ? trace_record_views(trace, variant) : status;
}

/* Compiling ----------------------------------------------------------------------------------- */

static int count_free_sizes(const Variant *variant) {
    int n = 0;
    for (int i = 0; i < variant->symbols.n_bindings; i++)
        n += variant->symbols.bindings[i].kind == BIND_size || variant->symbols.bindings[i].kind == BIND_stride;
    return n;
}

/* The one with the most free sizes, of these the newest: what once became symbolic stays so. */
static Variant *most_general_like(const Trace *trace) {
    Variant *v = atomic_load_explicit(&trace->end->variants, memory_order_acquire);
    Variant *found = NULL;
    for (; v; v = v->next) {
        if (found && count_free_sizes(v) <= count_free_sizes(found)) continue;
        bool same_kinds = true; /* only sizes, strides and numbers may differ to generalise */
        for (int i = 0; i < v->n_inputs && same_kinds; i++) {
            const Meta *const a = v->origin.metas[i], *const b = trace->inputs.at[i].meta;
            same_kinds = a->dtype == b->dtype && a->rank == b->rank && guard_flags_fit(v, trace, i, NULL);
        }
        if (same_kinds && guard_outputs_fit(v, trace, NULL)) found = v;
    }
    return found;
}

static Status copy_arguments(Variant *v, const Capture *c) {
    v->origin.n_arguments = c->n_in;
    v->origin.arguments = ARENA_ARRAY(v->arena, const Meta *, c->n_in);
    if (!v->origin.arguments) return ST_MEMORY;
    for (int i = 0; i < c->n_in; i++)
        if (c->in[i].kind == ARG_tensor && c->in[i].val) v->origin.arguments[i] = c->in[i].val->meta;
    metas_stay(v->origin.arguments, v->origin.n_arguments);
    return ST_OK;
}

static void copy_guards(Variant *v, const Trace *trace, const TraceSymbols *plan, const InputName *names) {
    v->n_inputs = trace->inputs.n;
    v->n_storages = trace->n_storages;
    v->inputs = ARENA_ARRAY(v->arena, InputGuard, v->n_inputs);
    v->origin.metas = ARENA_ARRAY(v->arena, const Meta *, v->n_inputs);
    for (int i = 0; i < v->n_inputs; i++) {
        const TraceInput *const in = &trace->inputs.at[i];
        v->inputs[i] = (InputGuard){.meta = plan->metas[i],
                                    .requires_grad = in->requires_grad,
                                    .is_leaf = in->is_leaf,
                                    .inference = in->inference,
                                    .storage = in->storage_number,
                                    .alias_offset = trace_alias_offset(trace, i),
                                    .name = names[i]};
        v->origin.metas[i] = in->meta;
        meta_stay(in->meta);
    }
    v->attributes.n = trace->numbers.n;
    v->attributes.at = plan->numbers;
    v->attributes.rules = plan->dynamic ? plan->number_rules : NULL;
    v->attributes.guarded = plan->number_guarded;
    v->origin.numbers = arena_copy(v->arena, trace->numbers.at, sizeof(int64_t) * (size_t)trace->numbers.n);
    v->attributes.n_runtime_floats = plan->n_runtime_floats;
    v->symbols.dynamic = plan->dynamic;
    v->symbols.env = plan->env;
    v->symbols.bindings = plan->bindings.at;
    v->symbols.n_bindings = plan->bindings.n;
}

static void record_inference(Variant *v, const Trace *trace) {
    for (int i = 0; i < v->n_outputs; i++) {
        if (!trace_is_inference(trace, v->outputs[i])) continue;
        if (!v->inference) v->inference = ARENA_ARRAY(v->arena, bool, v->n_outputs);
        if (v->inference) v->inference[i] = true;
    }
}

static void copy_outputs(Variant *v, const Trace *trace, const TraceGraph *made) {
    v->graph_inputs = made->inputs;
    v->n_graph_inputs = made->n_inputs;
    v->outputs = made->outputs;
    v->n_outputs = made->n_outputs;
    v->segment.n_values = trace->values.n;
    v->segment.provides = arena_alloc(v->arena, (size_t)v->segment.n_values);
    for (int i = 0; i < v->n_outputs; i++) v->segment.provides[v->outputs[i]] = 1;
    v->segment.writes = trace->writes;
    v->segment.n_ops = trace->ops.n;
    v->origin.sites = ARENA_ARRAY(v->arena, const void *, v->segment.n_ops);
    for (int i = 0; v->origin.sites && i < v->segment.n_ops; i++) v->origin.sites[i] = trace->ops.at[i].site;
    v->segment.n_random = trace->n_random;
    v->epoch = atomic_load_explicit(&dispatch_epoch, memory_order_relaxed);
}

static const char *number_name(Arena *arena, const TraceOp *op, const Node *node, int k, int n_in) {
    const NumberParam place = trace_number_param(op, k);
    Text name = {0};
    text_puts(&name, trace_op_name(op));
    if (node->n_outs) text_printf(&name, " %%%d", node->outs[0].id - n_in);
    text_printf(&name, " %s", place.param->name);
    if (place.item >= 0) text_printf(&name, "[%d]", place.item);
    const char *const copy = arena_strdup(arena, text_str(&name));
    text_free(&name);
    return copy;
}

/* As the text of the capture graph, just printed, calls them. */
static Status name_values(Variant *v, const Trace *trace, const TraceGraph *made) {
    const int n_in = made->graph->inputs.n;
    v->origin.number_names = ARENA_ARRAY(v->arena, const char *, v->attributes.n);
    v->origin.value_ids = ARENA_ARRAY(v->arena, int, v->segment.n_values);
    if (!v->origin.number_names || !v->origin.value_ids) return ST_MEMORY;
    for (int i = 0; i < v->segment.n_values; i++) v->origin.value_ids[i] = made->values[i]->id - n_in;
    for (int i = 0; i < trace->ops.n; i++) {
        const TraceOp *const op = trace->ops.at[i].op;
        for (int k = op->first_number; k < op->first_number + op->n_numbers; k++)
            if (!(v->origin.number_names[k] = number_name(v->arena, op, made->nodes[i], k, n_in))) return ST_MEMORY;
    }
    return ST_OK;
}

Status variant_plain_compile(Variant *v, Graph *graph, const Trace *trace) { return compile_passes(graph, &v->info); }

Status variant_plain_prepare(Variant *v) { return compile_prepare_plan(v->info.graph->plan, &v->info); }

Status variant_plain_make_code(Variant *v, CompileReport *info, Executable **run) {
    return compile_plan(info->graph->plan, info, run);
}

const VariantKind variant_plain = {.compile = variant_plain_compile,
                                   .prepare = variant_plain_prepare,
                                   .make_code = variant_plain_make_code,
                                   .run = variant_plain_run};

static Status prepare_plans(Variant *v) {
    TRY(v->kind->prepare(v));
    atomic_store_explicit(&v->code.waits, true, memory_order_relaxed); /* nobody sees it yet */
    return ST_OK;
}

static Status compile_into(const sn_function *fn, Variant *v, const Trace *trace, const TraceGraph *made) {
    Text text = {0};
    graph_print(made->graph, &text);
    v->text = text.at;
    TRY(name_values(v, trace, made));
    if (v->request.backend && v->request.backend->kind == BACK_eager) return ST_OK;
    TRY(fn->class->choose_kind(v, made, trace));
    TRY(v->kind->compile(v, made->graph, trace));
    return v->code.background ? prepare_plans(v) : v->kind->make_code(v, &v->info, &v->code.run);
}

static const VariantWatcher *const nobody; /* of a variant that a file has */

Variant *variant_new(void) {
    Arena *const arena = arena_new();
    Variant *const v = arena ? ARENA_NEW(arena, Variant) : NULL;
    if (!v) {
        arena_free(arena);
        return NULL;
    }
    v->kind = &variant_plain;
    v->watchers = &nobody;
    v->arena = arena;
    atomic_init(&v->refs, 1);
    return v;
}

void variant_retain(Variant *v) { atomic_fetch_add_explicit(&v->refs, 1, memory_order_relaxed); }

void variant_free(Variant *v) {
    if (!v || atomic_fetch_sub_explicit(&v->refs, 1, memory_order_acq_rel) != 1) return;
    if (v->kind->free) v->kind->free(v);
    Arena *const arena = v->arena;
    mem_free(v->text);
    executable_free(v->code.run);
    backend_drop(&v->info);
    arena_free(arena);
}

static Status make_graph(sn_function *fn, const Trace *trace, const Variant *older, Variant *v, TraceSymbols *plan,
                         TraceGraph *made) {
    if (failpoint("capture")) {
        v->info.failure = BAIL_failpoint;
        return error_raise(ST_INTERNAL, "failpoint capture");
    }
    TRY(trace_symbols_make(fn, trace, older, v->arena, plan));
    return trace_graph(trace, v->arena, plan, made);
}

/* What differs from the variant that it generalises, else from the newest, or where the path leaves those that are
 * known. */
void variant_print_news(const Trace *trace, Text *why) {
    const Variant *const newest = atomic_load_explicit(&trace->end->variants, memory_order_acquire);
    const Variant *const older = most_general_like(trace);
    if (newest)
        variant_fits(older ? older : newest, trace, why);
    else
        trace_new_path(trace, why);
}

/* again: there are others; failure: why there is no code. */
static void report_made(const sn_function *fn, Variant *v, const Trace *trace, bool again, const char *failure) {
    for (const VariantWatcher *const *w = v->watchers; *w; w++)
        if ((*w)->made) (*w)->made(fn, v, trace, again, failure);
}

void variant_report_ready(const sn_function *fn, const Variant *v) {
    for (const VariantWatcher *const *w = v->watchers; *w; w++)
        if ((*w)->ready) (*w)->ready(fn, v);
}

void variant_report_backward(const Variant *v, int number, Graph *backward) {
    for (const VariantWatcher *const *w = v->watchers; *w; w++)
        if ((*w)->backward) (*w)->backward(v, number, backward);
}

/* The number that the next variant gets, unless another thread compiles one meanwhile. Names alone depend on it. */
static int next_id(sn_function *fn) {
    pthread_mutex_lock(&fn->lock);
    const int id = fn->variants.n;
    pthread_mutex_unlock(&fn->lock);
    return id;
}

static void fill_request(sn_function *fn, Variant *v) {
    CompileRequest *const request = &v->request;
    compile_name(request, fn->name);
    request->variant = next_id(fn);
    request->repeat = fn->options.preset == SN_PRESET_REDUCE_OVERHEAD;
    request->autotune = fn->options.preset == SN_PRESET_MAX_AUTOTUNE || setting_number(SET_max_autotune);
    request->fast = fn->options.numerics == SN_FAST;
    if (fn->backend && fn->backend->kind != BACK_generated) request->backend = fn->backend;
    v->info.request = request;
    v->info.keeps_stages = true;
}

/* Guards, expressions and the graph live in one arena, which outlives the executable: its plan
 * refers to them. */
static Status make_variant(sn_function *fn, const Trace *trace, const Variant *older, Variant **out) {
    Variant *const v = variant_new();
    if (!v) return ST_MEMORY;
    v->watchers = fn->class->watchers;
    v->end = trace->end;
    v->code.background = fn->background;
    fill_request(fn, v);
    TraceSymbols plan;
    TraceGraph made;
    __attribute__((cleanup(profile_end))) ProfileSpan span =
        profile_is_on() ? profile_begin_named(PROFILE_stage, "compile", fn->name) : (ProfileSpan){0};
    Status status = make_graph(fn, trace, older, v, &plan, &made);
    if (status == ST_OK) {
        copy_guards(v, trace, &plan, made.names);
        copy_outputs(v, trace, &made);
        record_inference(v, trace);
        status = copy_arguments(v, trace->capture);
        if (status == ST_OK) status = variant_plan_views(v, trace);
        if (status == ST_OK) status = variant_plan_writes(v, trace);
        if (status == ST_OK) status = compile_into(fn, v, trace, &made);
        v->symbols.n_bindings = plan.bindings.n;
        v->symbols.bindings = plan.bindings.at;
    }
    if (status != ST_OK) {
        const BailCode raised = status == ST_MEMORY ? BAIL_memory : BAIL_unsupported; /* before any pass ran */
        const bool last = !older && !header_plan_thinks(trace); /* else the case is tried as it is */
        if (last)
            function_record_failure(fn, trace->end, v->info.failure != BAIL_none ? v->info.failure : raised,
                                    v->info.reason[0] ? v->info.reason : error_slot()->message);
        error_clear();
        if (last) report_made(fn, v, trace, false, v->info.reason[0] ? v->info.reason : "before any pass ran");
        variant_free(v);
        return status;
    }
    *out = v;
    return ST_OK;
}

static int count_variants(const TrieNode *end) {
    int n = 0;
    for (const Variant *v = atomic_load_explicit(&end->variants, memory_order_acquire); v; v = v->next) n++;
    return n;
}

static void publish_variant(sn_function *fn, TrieNode *end, Variant *v, const Trace *trace, bool first) {
    report_made(fn, v, trace, !first || count_variants(end), NULL);
    pthread_mutex_lock(&fn->lock);
    v->id = fn->variants.n;
    v->origin.trace_ns = trace->ended_ns - trace->started_ns;
    VEC_PUSH(fn->arena, &fn->variants, v);
    v->next = atomic_load_explicit(&end->variants, memory_order_relaxed);
    atomic_store_explicit(&end->variants, v, memory_order_release);
    end->compiles++;
    fn->stats.compiles++;
    if (v->next || !first) fn->stats.recompiles++;
    pthread_mutex_unlock(&fn->lock);
    if (variant_waits(v))
        variant_finish(fn, v);
    else
        variant_report_ready(fn, v);
}

static void record_recompile(sn_function *fn, const Trace *trace) {
    Text why = {0};
    variant_print_news(trace, &why);
    function_record_recompile(fn, text_str(&why));
    text_free(&why);
}

static void record_found(const Variant *v, Trace *trace) {
    if (variant_waits(v))
        background_help(v->code.background);
    else if (!v->code.run)
        trace->reason = v->request.backend ? BREAK_REASON(backend_eager) : BREAK_REASON(failed);
}

/* A launch that a value is asked of gets a second one, beyond any limit: run eagerly, the value would have a history of
 * its own beside the launch's. It gives what the first gave and more, so there are few. */
static bool is_limited(const sn_function *fn, const Trace *trace) {
    const TrieNode *const end = trace->end;
    if (trace->variant) return false;
    return end->failures || function_is_full(fn) || count_variants(end) >= function_recompile_limit(fn);
}

static bool has_stance(const Trace *trace, sn_stance stance) {
    return UNLIKELY(state_get()->stance == stance) && !trace->capture->for_graph;
}

Status variant_admit(const Trace *trace) {
    const sn_function *const fn = trace->capture->fn;
    if (!has_stance(trace, SN_STANCE_FAIL_ON_RECOMPILE) || trace->waits || is_limited(fn, trace)) return ST_OK;
    Text why = {0};
    variant_print_news(trace, &why);
    const Status status = error_raise(ST_STRICT, "%s: the stance is fail on recompile, and this is not compiled: %s",
                                      fn->name, text_str(&why));
    text_free(&why);
    return status;
}

/* A launch that a value is asked of gets its second one, as beyond a limit. */
static bool is_held_back(const Trace *trace) {
    return has_stance(trace, SN_STANCE_EAGER_ON_RECOMPILE) && !trace->variant;
}

/* Of what it was thought to be there are some, which do not fit: the symbols for which they do not are as they are now,
 * or all. */
static void think_as_now(Trace *trace) {
    const Variant *v = atomic_load_explicit(&trace->end->variants, memory_order_acquire);
    for (; v; v = v->next) trace->as_now |= variant_unfit_symbols(v, trace);
    trace->as_it_is = !trace->as_now;
}

void variant_compile(sn_function *fn, Trace *trace, bool first) {
    TrieNode *const end = trace->end;
    const Variant *const newest = atomic_load_explicit(&end->variants, memory_order_acquire);
    for (const Variant *v = newest; v; v = v->next)
        if (variant_fits(v, trace, NULL)) { /* another thread, an earlier round of this call, or code still to come */
            record_found(v, trace);
            return;
        }
    const bool limited = is_limited(fn, trace);
    if (newest || (!first && !limited)) record_recompile(fn, trace);
    if (limited) {
        trace->reason = function_record_limit(fn, end->failures > 0);
        return;
    }
    if (is_held_back(trace)) {
        trace->reason = BREAK_REASON(held_back);
        return;
    }
    atomic_fetch_add_explicit(&fn->n_compiled, 1, memory_order_relaxed);
    const Variant *older = most_general_like(trace);
    Variant *v = NULL;
    if (older && fn->header) think_as_now(trace);
    Status status = make_variant(fn, trace, older, &v);
    if (status != ST_OK && header_plan_thinks(trace)) {
        trace->as_it_is = true;
        status = make_variant(fn, trace, older, &v);
    }
    if (status != ST_OK && (older || fn->header)) { /* no symbols: this case as it is */
        trace->plain = fn->header != NULL;
        status = make_variant(fn, trace, NULL, &v);
    }
    if (status == ST_OK)
        publish_variant(fn, end, v, trace, first);
    else {
        atomic_fetch_add(&end->failures, 1);
        trace->reason = BREAK_REASON(failed);
    }
}
