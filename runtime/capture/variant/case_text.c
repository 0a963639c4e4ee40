/* case_text.c: see case_text.h. */
#include "runtime/capture/variant/case_text.h"

#include <stdio.h>

#include "runtime/base/error.h"
#include "runtime/capture/variant/guards_text.h"
#include "runtime/capture/variant/variant_views.h"
#include "runtime/capture/variant/views_text.h"

/* Printing ------------------------------------------------------------------------------------ */

static bool is_user_op(const OpRow *row) { return row && op_is_made(row); }

static const char *plan_unsaved(const Plan *plan) {
    for (int s = 0; s < plan->slots.n; s++)
        if (!device_is_host(plan->slots.at[s].meta->device)) return "it runs on another device than the CPU";
    for (int i = 0; i < plan->n_ops; i++)
        if (is_user_op(plan->ops[i].row) || is_user_op(plan->ops[i].of)) return "it calls an op of the program's own";
    return NULL;
}

const char *case_refusal(const Variant *v) {
    if (v->info.codes) return "a backend of the program's computes it";
    if (!variant_code(v) || !v->info.n_plans) return "a segment could not be compiled";
    for (int i = 0; i < v->n_graph_inputs; i++)
        if (v->graph_inputs[i].base) return "written inputs share memory";
    if (v->symbols.n_bindings > MAX_CASE_SYMBOLS || v->n_graph_inputs > MAX_CASE_TENSORS ||
        v->n_outputs > MAX_CASE_TENSORS)
        return "too many tensors or sizes";
    if (!views_have_text(v)) return "it calls an op of the program's own";
    return plan_unsaved(v->info.plans[0]);
}

/* The one that runs, or of a trained segment's graph by itself. */
static Status print_plan_of(const Variant *v, Text *text) {
    if (!v->training) {
        plan_print(v->info.plans[0], text);
        return error_pending();
    }
    Arena *const arena = arena_new();
    Graph *graph;
    CompileReport info = {.request = &v->request};
    Status status = arena ? graph_parse(arena, v->text, strlen(v->text), &graph) : ST_MEMORY;
    if (status == ST_OK && (status = compile_passes(graph, &info)) != ST_OK && status != ST_MEMORY)
        status = error_raise(ST_UNSUPPORTED, "its forward alone does not compile: %s", info.reason);
    if (status == ST_OK && sym_free_count(graph->env) != v->symbols.n_bindings)
        status = error_raise(ST_INTERNAL, "the forward's plan has other symbols than its guards");
    if (status == ST_OK) plan_print(graph->plan, text);
    arena_free(arena);
    return status == ST_OK ? error_pending() : status;
}

Status case_print(const Variant *v, const InputName *names, Text *text) {
    text_printf(text, "case %d ops, random %d\ngraph inputs", v->segment.n_ops, v->segment.n_random);
    for (int i = 0; i < v->n_graph_inputs; i++) text_printf(text, "%s%d", i ? ", " : " ", v->graph_inputs[i].captured);
    text_puts(text, "\noutputs");
    for (int i = 0; i < v->n_outputs; i++)
        text_printf(text, "%s%d%s", i ? ", " : " ", v->outputs[i], v->inference && v->inference[i] ? " inference" : "");
    text_puts(text, "\n");
    views_print(v, text);
    TRY(print_plan_of(v, text));
    guards_print_saved(v, names, text);
    text_printf(text, "ops %zu\n%s\n", strlen(v->text), v->text);
    return error_pending();
}

/* Parsing ------------------------------------------------------------------------------------- */

static Status read_graph_inputs(TextReader *in, CaseShape shape, Variant *v) {
    VEC(GraphInput) inputs = {0};
    EAT(in, "graph inputs");
    while (reader_eat(in, inputs.n ? ", " : " ")) {
        GraphInput input = {0};
        TRY(reader_count(in, &input.captured));
        if (input.captured >= shape.n_inputs) return reader_expected(in, "an input of the segment before this");
        VEC_PUSH(v->arena, &inputs, input);
    }
    EAT(in, "\n");
    v->graph_inputs = inputs.at;
    v->n_graph_inputs = inputs.n;
    return v->n_graph_inputs <= MAX_CASE_TENSORS ? error_pending() : reader_expected(in, "fewer inputs before this");
}

static Status read_case_outputs(TextReader *in, Variant *v) {
    VEC(int) outputs = {0};
    VEC(bool) inference = {0};
    EAT(in, "outputs");
    while (reader_eat(in, outputs.n ? ", " : " ")) {
        int value;
        TRY(reader_count(in, &value));
        VEC_PUSH(v->arena, &outputs, value);
        VEC_PUSH(v->arena, &inference, reader_eat(in, " inference"));
    }
    EAT(in, "\n");
    v->outputs = outputs.at;
    v->n_outputs = outputs.n;
    v->inference = inference.at;
    return v->n_outputs <= MAX_CASE_TENSORS ? error_pending() : reader_expected(in, "fewer outputs before this");
}

/* The plan has what guards make of sizes (passes/equate.c). */
static bool sizes_agree(SymEnv *env, const int64_t *by, const int64_t *a, const int64_t *b, int n) {
    for (int i = 0; i < n; i++)
        if (a[i] != b[i] && (!by || sym_move(env, env, a[i], by) != sym_move(env, env, b[i], by))) return false;
    return true;
}

static bool metas_agree(SymEnv *env, const int64_t *by, const Meta *a, const Meta *b) {
    return a->dtype == b->dtype && a->device == b->device && a->rank == b->rank &&
           sizes_agree(env, by, a->sizes, b->sizes, a->rank) && sizes_agree(env, by, a->strides, b->strides, a->rank);
}

static bool plan_output_is_view(const Plan *plan, int i) {
    const OutKind kind = plan->outputs.at[i].kind;
    return kind == OUT_view_of_input || kind == OUT_view_of_output;
}

/* NULL: there are no symbols. */
static const int64_t *equalities(const Variant *v) {
    const int n = v->symbols.env ? sym_free_count(v->symbols.env) : 0;
    int64_t *const by = n ? ARENA_ARRAY(v->arena, int64_t, 2 * n) : NULL;
    if (by) sym_equalities(v->symbols.env, by, by + n);
    return by;
}

/* What an executor relies on, which guards and lists say. */
static const char *disagreement(const Variant *v, CaseShape shape, const Plan *plan) {
    if (v->n_inputs != shape.n_inputs || v->attributes.n != shape.n_numbers) return "guards of another segment";
    if (v->n_graph_inputs != plan->inputs.n || v->n_outputs > plan->outputs.n) return "lists of another plan";
    if (v->attributes.n_runtime_floats != plan->floats.n) return "guards of other floats than the plan's";
    if (v->symbols.n_bindings > MAX_CASE_SYMBOLS || plan->outputs.n > MAX_CASE_TENSORS)
        return "too many symbols or outputs";
    const int64_t *const by = equalities(v);
    for (int i = 0; i < plan->inputs.n; i++) {
        if (!metas_agree(v->symbols.env, by, plan->slots.at[i].meta, v->inputs[v->graph_inputs[i].captured].meta))
            return "an input that is not what its guard checks";
        if (plan->inputs.at[i].written && !v->segment.writes) return "guards that know of no write";
        for (int k = 0; k < i; k++)
            if (v->graph_inputs[i].captured == v->graph_inputs[k].captured) return "an input twice";
    }
    for (int i = 0; i < v->aliasing.n_views; i++)
        if (v->aliasing.views[i].ops.n && !plan_output_is_view(plan, v->aliasing.views[i].output))
            return "views of another plan";
    return NULL;
}

/* The graph as it was captured, which is read where it is run (variant_ops.h); earlier files have none. */
static Status read_ops(TextReader *in, Variant *v) {
    int n;
    if (!reader_eat(in, "ops ")) return ST_OK;
    TRY(reader_count(in, &n));
    EAT(in, "\n");
    if (memchr(in->at, '\0', (size_t)n)) return reader_expected(in, "as many bytes as it says");
    v->ops_text = arena_printf(v->arena, "%.*s", n, in->at);
    in->at += n;
    EAT(in, "\n");
    return v->ops_text ? ST_OK : ST_MEMORY;
}

static Status read_case(TextReader *in, CaseShape shape, Variant *v) {
    Plan *plan;
    EAT(in, "case ");
    TRY(reader_count(in, &v->segment.n_ops));
    EAT(in, " ops, random ");
    TRY(reader_count(in, &v->segment.n_random));
    EAT(in, "\n");
    TRY(read_graph_inputs(in, shape, v));
    TRY(read_case_outputs(in, v));
    TRY(views_read(in, shape.n_numbers, v));
    TRY(plan_parse(v->arena, in->at, &in->at, &plan));
    v->symbols.env = plan->env;
    TRY(guards_read(in, v));
    TRY(read_ops(in, v));
    const char *const wrong = disagreement(v, shape, plan);
    if (wrong) return reader_fail(in, "%s", wrong);
    v->symbols.dynamic = v->symbols.n_bindings > 0;
    v->epoch = atomic_load_explicit(&dispatch_epoch, memory_order_relaxed);
    const Status status = compile_plan(plan, &v->info, &v->code.run);
    return status == ST_OK ? status : error_raise(status, "plan: %s", v->info.reason); /* a compile leaves none */
}

Status case_parse(TextReader *in, CaseShape shape, Variant **out) {
    Variant *const v = variant_new();
    if (!v) return ST_MEMORY;
    compile_name(&v->request, shape.function);
    v->request.variant = shape.id;
    v->info.request = &v->request;
    const Status status = read_case(in, shape, v);
    if (status == ST_OK)
        *out = v;
    else
        variant_free(v);
    return status;
}

Status case_reaches(const Variant *v, const int64_t *symbols) { return plan_check_reach(v->info.plans[0], symbols); }
