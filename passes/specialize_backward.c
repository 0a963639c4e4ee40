/* specialize_backward.c: a backward graph for one signature [semantics G1]: which output gradients are defined and how
 * they are laid out, which partial sums are continued, which gradients are wanted.
 *
 *     functional + rules for the key    saved --restore--> what the tape holds --rules--> gradients
 *
 * The rules are applied to a copy of the whole forward; of that only what they read survives, and all
 * of it must be what eager's tape holds, which the restoring graph makes from the saved values. */
#include "passes/copy.h"
#include "runtime/base/error.h"

typedef struct SpecializeBuild {
    const SpecializeSpec *spec;
    SpecializedBackward *out;
    Graph *joint;
    GVal **tape_saved; /* by kept value: in the joint graph */
    GraphCopy rules, restored;
} SpecializeBuild;

static GVal *by_id(const Graph *graph, int id) {
    if (id < graph->inputs.n) return graph->inputs.at[id];
    for (Node *node = graph->first; node; node = node->next)
        if (node->n_outs && id < node->outs[0].id + node->n_outs) return &node->outs[id - node->outs[0].id];
    return NULL;
}

static bool apply_rules(SpecializeBuild *k, Arena *arena) {
    const int n = k->spec->restore->outputs.n;
    Graph *const forward = graph_copy(k->spec->functional, arena);
    k->tape_saved = ARENA_ARRAY(arena, GVal *, n + 1);
    if (!forward || !k->tape_saved) return false;
    forward->bail = k->spec->bail;
    forward->env = forward->builder.env = k->spec->env;
    /* What is restored is read; it may be what was computed again. */
    for (Node *node = forward->first; node; node = node->next) node->region = 0;
    for (int i = 0; i < n; i++) k->tape_saved[i] = by_id(forward, k->spec->kept[i]);
    k->joint = forward;
    return joint_append(forward, &k->spec->joint) == ST_OK && passes_run(forward, "joint", k->spec->options) == ST_OK;
}

/* Marks what the gradients need down to what the tape holds. */
static bool need_gradients(SpecializeBuild *k) {
    Graph *const joint = k->joint;
    if (!copy_init(&k->rules, k->out->graph, joint)) return false;
    for (int i = 0; i < k->spec->restore->outputs.n; i++) k->rules.map[k->tape_saved[i]->id] = k->tape_saved[i];
    copy_need_gradients(&k->rules, joint);
    for (int i = 0; i < joint->n_forward_inputs; i++) {
        const int id = joint->inputs.at[i]->id;
        if (!k->rules.needed[id] || k->rules.map[id]) continue;
        error_raise(ST_UNSUPPORTED, "a derivative reads input %d, which the tape does not hold", i);
        return false;
    }
    return true;
}

/* The part of the restoring graph that makes those. */
static bool restore_values(SpecializeBuild *k) {
    Graph *const from = (Graph *)k->spec->restore;
    if (!copy_init(&k->restored, k->out->graph, from)) return false;
    for (int i = 0; i < from->outputs.n; i++)
        if (k->rules.needed[k->tape_saved[i]->id]) copy_need(&k->restored, from->outputs.at[i].value);
    copy_need_inputs(&k->restored, from, NULL);
    for (int i = 0; i < from->inputs.n; i++) {
        const GVal *const input = from->inputs.at[i];
        if (!k->restored.needed[input->id]) continue;
        k->out->saved[k->out->n_saved++] = i;
        if (!copy_input(&k->restored, input->name, input)) return false;
    }
    return copy_needed(&k->restored, from);
}

static bool append_rules(SpecializeBuild *k) {
    for (int i = 0; i < k->spec->restore->outputs.n; i++)
        k->rules.map[k->tape_saved[i]->id] = k->restored.map[k->spec->restore->outputs.at[i].value->id];
    return copy_gradients(&k->rules, k->joint);
}

SpecializedBackward *specialize_backward(Arena *arena, const SpecializeSpec *spec) {
    SpecializeBuild k = {.spec = spec, .out = ARENA_NEW(arena, SpecializedBackward)};
    if (!k.out) return NULL;
    k.out->saved = ARENA_ARRAY(arena, int, spec->restore->inputs.n + 1);
    k.out->graph = graph_beside(spec->functional, arena, "backward");
    if (!k.out->saved || !k.out->graph) return NULL;
    k.out->graph->bail = spec->bail;
    k.out->graph->env = k.out->graph->builder.env = spec->env;
    if (!apply_rules(&k, arena) || !need_gradients(&k) || !restore_values(&k) || !append_rules(&k) || error_pending())
        return NULL;
    graph_number(k.out->graph);
    return k.out;
}
