/* training.c: see training.h. */
#include "runtime/core/site.h"
#include "runtime/capture/training/training_parts.h"
#include "runtime/capture/record/trace_views.h"
#include "runtime/capture/variant/variant_views.h"
#include "runtime/capture/variant/variant.h"

#include "runtime/base/clock.h"

static bool *wants_gradients(const Graph *graph, const GraphInput *inputs, const Trace *trace) {
    bool *const want = ARENA_ARRAY(graph->arena, bool, graph->inputs.n);
    for (int i = 0; want && i < graph->inputs.n; i++) want[i] = trace->inputs.at[inputs[i].captured].requires_grad;
    return want;
}

static Status find_needs(const TraceGraph *made, const Trace *trace, TapeNeeds *out) {
    Graph *const graph = made->graph;
    graph_number(graph);
    uint32_t *const needs = ARENA_ARRAY(graph->arena, uint32_t, graph->n_nodes + 1);
    for (int i = 0; needs && i < trace->ops.n; i++) needs[made->nodes[i]->id] = trace->ops.at[i].needs;
    *out = (TapeNeeds){wants_gradients(graph, made->inputs, trace), needs};
    return out->want && out->needs ? ST_OK : ST_MEMORY;
}

bool *training_tracked(const Variant *v, const Trace *trace) {
    bool *const tracked = ARENA_ARRAY(v->arena, bool, v->n_outputs + 1);
    for (int i = 0; tracked && i < v->n_outputs; i++)
        tracked[i] = trace_tracked(trace, v->outputs[i], trace->ops.n) && !variant_view_is_stale(v, i);
    return tracked;
}

Status training_choose_kind(Variant *v, const TraceGraph *made, const Trace *trace) {
    bool any = false, wanted = false;
    for (int i = 0; i < trace->inputs.n; i++) any |= trace->inputs.at[i].requires_grad;
    if (!any) return ST_OK;
    TapeNeeds tape;
    TRY(find_needs(made, trace, &tape));
    const Reason why = tape_limits_refusal(made->graph, &tape, trace, v->graph_inputs);
    if (why) return error_raise(ST_UNSUPPORTED, "%s", reason_text(why));
    for (int i = 0; i < v->n_outputs; i++) wanted |= trace_tracked(trace, v->outputs[i], trace->ops.n);
    if (!wanted) return ST_OK;
    v->kind = trace->gradients ? &training_history_kind : &training_kind;
    return trace->gradients ? training_history(v, made->graph, &tape, trace) : ST_OK;
}

/* Compiling ----------------------------------------------------------------------------------- */

typedef struct TrainingSplit {
    Variant *variant;
    Graph *graph;
    Training *training;
    BackwardSpecialization *default_one;
} TrainingSplit;

/* Writes of memory that carries no gradient are fine: expanding then needs what was there before. */
static Status record_writes(Training *t, const Graph *graph) {
    t->written = ARENA_ARRAY(graph->arena, bool, graph->inputs.n);
    if (!t->written) return ST_MEMORY;
    for (int i = 0; i < graph->writes.n; i++) {
        const int input = graph->writes.at[i].input->index;
        t->written[input] = true;
        if (t->want[input]) return error_raise(ST_UNSUPPORTED, "a write to an input that wants a gradient");
    }
    return ST_OK;
}

static GVal **values_by_id(Graph *graph) {
    GVal **const values = ARENA_ARRAY(graph->arena, GVal *, graph->n_vals + 1);
    for (int i = 0; values && i < graph->inputs.n; i++) values[i] = graph->inputs.at[i];
    for (Node *node = graph->first; values && node; node = node->next)
        for (int i = 0; i < node->n_outs; i++) values[node->outs[i].id] = &node->outs[i];
    return values;
}

static Status split_graphs(void *context) {
    TrainingSplit *const s = context;
    Training *const t = s->training;
    PassOptions options = compile_pass_options(NULL, &s->variant->info);
    TRY(passes_run(s->graph, "user_captured,functionalize", &options));
    TRY(record_writes(t, s->graph));
    t->n_forward = s->graph->outputs.n;
    s->default_one = training_specialization_new(t, s->graph->arena, NULL);
    if (!s->default_one) return ST_MEMORY;
    const int64_t start = clock_ns();
    TRY(joint_expand(s->graph));
    TRY(tape_table_make(t, s->graph));
    options.ran = ARENA_ARRAY(s->graph->arena, bool, s->graph->n_nodes + 2); /* and of sn::gradients */
    GVal **const values = values_by_id(s->graph);
    if (!options.ran || !values) return ST_MEMORY;
    JointSpec spec;
    TRY(training_specialization_spec(t, s->default_one, s->graph->arena, &spec));
    TRY(joint_append(s->graph, &spec));
    TRY(tape_table_keep(t, s->graph, values));
    compile_record_time(&s->variant->info, "tape", clock_ns() - start);
    s->variant->info.passes_ns += clock_ns() - start;
    TRY(passes_run(s->graph, "parts", &options));
    s->default_one->ran = tape_table_by_step(&t->tape, s->graph->arena, options.ran);
    return s->default_one->ran ? ST_OK : ST_MEMORY;
}

static Status keep_failure(Variant *v, Status status) {
    if (status == ST_OK || v->info.failure != BAIL_none) return status;
    v->info.failure = BAIL_unsupported;
    memcpy(v->info.reason, error_slot()->message, sizeof v->info.reason - 1);
    return status;
}

static Status compile_training(Variant *v, Graph *graph, const Trace *trace) {
    Training *const t = ARENA_NEW(v->arena, Training);
    if (!t) return ST_MEMORY;
    t->want = wants_gradients(graph, v->graph_inputs, trace);
    t->n_inputs = graph->inputs.n;
    t->n_user = graph->outputs.n;
    t->n_floats = v->attributes.n_runtime_floats;
    t->out_tracked = training_tracked(v, trace);
    if (!t->want || !t->out_tracked) return ST_MEMORY;
    TrainingSplit split = {.variant = v, .graph = graph, .training = t};
    pthread_mutex_init(&t->lock, NULL);
    v->training = t;
    TRY(compile_guarded(graph, split_graphs, &split, &v->info));
    t->joint = graph;
    t->partition = t->joint->parts;
    t->forward_plan = t->partition->forward->plan;
    t->backward_plan = t->partition->backward->plan;
    t->n_symbols = sym_free_count(graph->env);
    t->n_saved = t->partition->n_saved;
    t->default_one = split.default_one;
    return keep_failure(v,
                        training_specialization_planned(t, t->default_one, t->partition->backward, NULL, t->n_saved));
}

static Status prepare_training(Variant *v) {
    TRY(compile_prepare_plan(v->training->forward_plan, &v->info));
    return compile_prepare_plan(v->training->backward_plan, &v->info);
}

static Status make_training_code(Variant *v, CompileReport *info, Executable **run) {
    Training *const t = v->training;
    info->part = "forward";
    TRY(compile_plan(t->forward_plan, info, run));
    training_specialization_compile(t->default_one, t->backward_plan, info);
    training_specialization_add(t, t->default_one);
    return ST_OK;
}

bool training_dump(const Variant *v, const Dump *dump, Text *text) {
    const Training *const t = v->training;
    const GraphNotes notes = dump_notes(dump, site_name);
    const bool plans = dump_row(dump->id)->traits & DUMP_plan, both = plans || dump->id == DUMP_fused;
    if (!t->partition || !(both || dump->id == DUMP_forward || dump->id == DUMP_backward)) return false;
    for (int part = 0; part < 2; part++) {
        Graph *const graph = part ? t->partition->backward : t->partition->forward;
        if (!both && part != (dump->id == DUMP_backward)) continue;
        if (both) text_puts(text, part ? "# backward\n" : "# forward\n");
        if (plans && part && !variant_waits(v) && !training_backward(v))
            text_printf(text, "%s no call runs it: the backward goes by eager's nodes\n", dump_mark(dump));
        if (part && training_default_idle(t))
            text_printf(text, "%s no call has run it: gradients came of other keys\n", dump_mark(dump));
        if (plans)
            compile_dump_plan(graph->plan, dump, text);
        else
            graph_print_notes(graph, notes, text);
    }
    if (both || dump->id == DUMP_backward) training_dump_signatures(t, dump, notes, text);
    return true;
}

void training_print_joint(const Variant *v, Text *text) { graph_print(v->training->joint, text); }

int training_plans(const Variant *v, Plan *plans[MAX_PLANS]) {
    plans[0] = v->training->forward_plan;
    plans[1] = v->training->backward_plan;
    return 2;
}

int training_saved(const Training *t) { return t ? t->n_saved : 0; }

bool training_saved_at(const Variant *v, int i, SavedValue *out) {
    const Training *const t = v->training;
    if (!t || !variant_code(v) || i >= t->n_saved) return false;
    const int from = t->partition->saved_inputs[i];
    int output = t->n_forward;
    for (int k = 0; k < i; k++) output += t->partition->saved_inputs[k] < 0;
    const Graph *const forward = t->partition->forward;
    const GVal *const value = from >= 0 ? forward->inputs.at[from] : forward->outputs.at[output].value;
    *out = (SavedValue){.name = value->def ? NULL : value->name,
                        .op = value->def ? value->def->row : NULL,
                        .meta = value->base.meta,
                        .env = forward->env};
    return true;
}

static void free_training(Variant *v) {
    if (v->training) training_specializations_free(v->training);
}

const VariantKind training_kind = {.compile = compile_training,
                                   .prepare = prepare_training,
                                   .make_code = make_training_code,
                                   .run = training_run,
                                   .take_place = training_replace,
                                   .free = free_training};

static void free_history(Variant *v) {
    if (v->history) training_specializations_free(v->history);
}

const VariantKind training_history_kind = {.compile = variant_plain_compile,
                                           .prepare = variant_plain_prepare,
                                           .make_code = variant_plain_make_code,
                                           .run = training_run_with_history,
                                           .free = free_history};
