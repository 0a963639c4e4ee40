/* training_history.c: results of a segment that has gone backward already [semantics G3, G4]. Eager's nodes of
 * what the backward reached have given up what they held; the results still have them as their history:
 *
 *     y = linear(x, w);  l = sum(y * y);  backward(l);  returns y, l
 *     a second backward from y: LinearBackward has nothing left, an error
 *
 * Such nodes need no data, nor do those that never hold any. So where a result's history is made of these
 * alone, a launch records one node that can become all of them (training_expand.c), as a trained segment's
 * does, with nothing saved. The functional graph that it expands by is that of the recorded ops: other
 * writes are left out, since to the tape what they write stays what it was. */
#include "runtime/capture/training/training_parts.h"
#include "runtime/capture/record/trace_views.h"
#include "runtime/capture/variant/variant_views.h"

#include "runtime/autograd/tape.h"
#include "runtime/core/breaks.h"

typedef struct History {
    Variant *variant;
    Training *training;
    Graph *graph; /* a copy of the captured one */
    const uint32_t *needs;
} History;

/* The copy's nodes have the numbers of the captured ones. */
static void leave_out_writes(Graph *graph, const uint32_t *needs) {
    for (Node *node = graph->first, *next; node; node = next) {
        next = node->next;
        if (node->form != FORM_functional && !needs[node->id]) graph_remove(graph, node);
    }
}

/* Does some result lead to a step that still holds something? */
static Status check_results(const Training *t, const bool *used) {
    const TapeTable *const p = &t->tape;
    const Graph *const g = p->functional;
    bool *const reached = ARENA_ARRAY(g->arena, bool, g->n_vals + 1);
    bool *const ran = ARENA_ARRAY(g->arena, bool, p->steps.n + 1);
    if (!used || !reached || !ran) return error_pending() ? error_pending() : ST_MEMORY;
    for (int i = 0; i < t->n_user; i++) {
        if (!t->out_tracked[i]) continue;
        const GVal *const value = g->outputs.at[i].value;
        if (!p->marks[value->id]) return error_raise(ST_UNSUPPORTED, "%s", BREAK_TEXT(history_goes_on));
        reached[value->id] = true;
    }
    tape_table_reach(p, NO_VERSION_CHECK, reached, ran);
    for (int s = 0; s < p->steps.n; s++)
        if (ran[s] && !used[s] && p->steps.at[s].n_saves)
            return error_raise(ST_UNSUPPORTED, "%s", BREAK_TEXT(history_goes_on));
    return ST_OK;
}

/* Without code: a layout is no matter. */
static Status make_usual(Training *t, Arena *arena) {
    const Graph *const g = t->tape.functional;
    BackwardSpecialization *const c = training_specialization_new(t, arena, NULL);
    if (!c || !(c->ran = tape_table_ran(t, arena, c, NULL))) return error_pending() ? error_pending() : ST_MEMORY;
    c->env = g->env;
    c->first_guard = sym_guard_count(g->env);
    for (int i = 0; i < t->n_user; i++)
        if (t->out_tracked[i]) c->metas[i] = g->outputs.at[i].value->base.meta;
    training_specialization_add(t, c);
    return ST_OK;
}

/* What nothing holds may be written. */
static void drop_version_checks(TapeTable *p) {
    p->checks.n = 0;
    for (int i = 0; i < p->tape_saved.n; i++) p->tape_saved.at[i].check = -1;
}

static Status plan(void *context) {
    History *const h = context;
    Training *const t = h->training;
    Graph *const graph = h->graph;
    graph_number(graph);
    leave_out_writes(graph, h->needs);
    const PassOptions options = compile_pass_options(NULL, &h->variant->info);
    TRY(passes_run(graph, "functionalize", &options));
    TRY(joint_expand(graph));
    TRY(tape_table_make(t, graph));
    drop_version_checks(&t->tape);
    TRY(check_results(t, tape_table_used(&t->tape, graph->arena)));
    return make_usual(t, graph->arena);
}

Status training_history(Variant *v, Graph *graph, const TapeNeeds *tape, const Trace *trace) {
    Training *const t = ARENA_NEW(v->arena, Training);
    Graph *const copy = graph_copy(graph, v->arena);
    if (!t || !copy) return ST_MEMORY;
    t->want = (bool *)tape->want;
    t->n_inputs = graph->inputs.n;
    t->n_user = graph->outputs.n;
    t->n_floats = v->attributes.n_runtime_floats;
    t->n_symbols = sym_free_count(graph->env);
    t->out_tracked = training_tracked(v, trace);
    t->written = ARENA_ARRAY(v->arena, bool, t->n_inputs + 1);
    if (!t->out_tracked || !t->written) return ST_MEMORY;
    History history = {.variant = v, .training = t, .graph = copy, .needs = tape->needs};
    CompileReport info = {0};
    const Status status = compile_guarded(copy, plan, &history, &info);
    const Status raised =
        status == ST_OK ? ST_OK
                        : error_raise(ST_UNSUPPORTED, "%s", info.reason[0] ? info.reason : BREAK_TEXT(history_goes_on));
    if (raised != ST_OK) return raised;
    pthread_mutex_init(&t->lock, NULL);
    v->history = t;
    return ST_OK;
}
